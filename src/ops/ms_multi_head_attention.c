/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft.MultiHeadAttention (ONNX Runtime 1): attention of projected queries, keys and values, which may be
   packed together, and may have a cache in front. */
#include "ops/heads_int.h"

enum { IN_Q, IN_K, IN_V, IN_BIAS, IN_MASK, IN_ADDED, IN_PAST_K, IN_PAST_V, IN_PAST_LENGTH, IN_BEAMS };
enum { OUT_Y, OUT_K, OUT_V, OUT_QK };

/* ---- shapes -------------------------------------------------------------------------------------------------- */

/* How keys and values come: packed with the queries, packed together, apart, or with the heads set apart already. */
typedef enum Form { FORM_QKV, FORM_KV, FORM_APART, FORM_HEADS } Form;

typedef struct Sizes {
    Dim batch, steps, kv_steps, size, v_size;
} Sizes;

static Form form_of(int q_rank, int k_rank) {
    return q_rank == 5 ? FORM_QKV : k_rank == 5 ? FORM_KV : k_rank == 4 ? FORM_HEADS : FORM_APART;
}

static tn_status divide(Dim hidden, int64_t heads, Dim *size) {
    *size = dim_is_const(hidden) ? hidden / heads : DIM_UNKNOWN;
    if (!dim_is_const(hidden) || hidden % heads == 0) return TN_OK;
    return fail(TN_SHAPE, "a size of %lld cannot be divided into %lld heads", (long long)hidden, (long long)heads);
}

/* The sizes that the operands say, with their ranks known. */
static tn_status find_sizes(InferCtx *c, Form form, int64_t heads, Sizes *s) {
    Dim same;
    *s = (Sizes){.batch = in_dim(c, IN_Q, 0), .steps = in_dim(c, IN_Q, 1)};
    if (form == FORM_QKV) {
        TRY(dims_must_match(in_dim(c, IN_Q, 2), heads, "heads of the packed operand", &same));
        TRY(dims_must_match(in_dim(c, IN_Q, 3), 3, "parts of the packed operand and 3", &same));
        s->kv_steps = s->steps, s->size = s->v_size = in_dim(c, IN_Q, 4);
        return TN_OK;
    }
    TRY(divide(in_dim(c, IN_Q, 2), heads, &s->size));
    TRY(dims_must_match(in_dim(c, IN_K, 0), s->batch, "batches of query and key", &s->batch));
    s->kv_steps = in_dim(c, IN_K, form == FORM_HEADS ? 2 : 1);
    if (form == FORM_KV) {
        TRY(dims_must_match(in_dim(c, IN_K, 2), heads, "heads of the packed operand", &same));
        TRY(dims_must_match(in_dim(c, IN_K, 3), 2, "parts of the packed operand and 2", &same));
        s->v_size = in_dim(c, IN_K, 4);
        return dims_must_match(in_dim(c, IN_K, 4), s->size, "head sizes of query and key", &s->size);
    }
    if (!has_input(c, IN_V)) return fail(TN_INVALID_MODEL, "value is missing");
    TRY(want_rank(c, IN_V, form == FORM_HEADS ? 4 : 3));
    TRY(dims_must_match(in_dim(c, IN_V, 0), s->batch, "batches of query and value", &s->batch));
    TRY(dims_must_match(in_dim(c, IN_V, form == FORM_HEADS ? 2 : 1), s->kv_steps, "lengths of key and value",
                        &s->kv_steps));
    Dim k_size = in_dim(c, IN_K, 3);
    s->v_size = in_dim(c, IN_V, 3);
    if (form == FORM_HEADS) {
        TRY(dims_must_match(in_dim(c, IN_K, 1), heads, "heads of query and key", &same));
        TRY(dims_must_match(in_dim(c, IN_V, 1), heads, "heads of query and value", &same));
    } else {
        TRY(divide(in_dim(c, IN_K, 2), heads, &k_size));
        TRY(divide(in_dim(c, IN_V, 2), heads, &s->v_size));
    }
    return dims_must_match(k_size, s->size, "head sizes of query and key", &s->size);
}

static tn_status check_past(InferCtx *c, const Sizes *s, int64_t heads, Dim *past) {
    *past = 0;
    if (has_input(c, IN_PAST_K) != has_input(c, IN_PAST_V))
        return fail(TN_INVALID_MODEL, "past_key and past_value go together");
    if (!has_input(c, IN_PAST_K)) return TN_OK;
    *past = in_dim(c, IN_PAST_K, 2);
    for (int i = IN_PAST_K; i <= IN_PAST_V; i++) {
        const Dim want[] = {s->batch, heads, *past, i == IN_PAST_K ? s->size : s->v_size};
        TRY(want_rank(c, i, 4));
        for (int d = 0; d < 4; d++) {
            Dim same;
            TRY(dims_must_match(in_dim(c, i, d), want[d], "sizes of the cache", &same));
        }
    }
    return TN_OK;
}

static tn_status multi_head_infer(InferCtx *c) {
    int64_t heads = attr_int(c->node, "num_heads");
    int q_rank = in_shape(c, IN_Q)->rank, k_rank = has_input(c, IN_K) ? in_shape(c, IN_K)->rank : 0;
    Sizes s;
    Dim past;
    if (has_input(c, IN_PAST_LENGTH) || has_input(c, IN_BEAMS))
        return fail(TN_UNSUPPORTED, "past_sequence_length and cache_indirection are not supported");
    if (heads < 1) return fail(TN_INVALID_MODEL, "num_heads is %lld", (long long)heads);
    for (int i = 0; i < c->n_out; i++) set_unknown_rank(c, i, i ? 4 : 3);
    set_dtype(c, OUT_QK, in_dtype(c, IN_Q));
    if (q_rank < 0 || k_rank < 0) return TN_OK;
    if (q_rank != 3 && q_rank != 5) return fail(TN_SHAPE, "query has %d dimensions; 3 or 5 are wanted", q_rank);
    if (q_rank == 3 && (k_rank < 3 || k_rank > 5))
        return fail(TN_SHAPE, "key has %d dimensions; 3 to 5 are wanted", k_rank);
    TRY(find_sizes(c, form_of(q_rank, k_rank), heads, &s));
    TRY(check_past(c, &s, heads, &past));
    Dim hidden = dim_mul(c->dims, s.size, heads), v_hidden = dim_mul(c->dims, s.v_size, heads);
    TRY(want_vector(c, IN_BIAS, dim_add(c->dims, dim_mul(c->dims, hidden, 2), v_hidden), false));
    Dim total = dim_add(c->dims, past, s.kv_steps);
    const Dim scores[] = {s.batch, heads, s.steps, total};
    TRY(check_key_mask(c, IN_MASK, IN_ADDED, scores));
    Shape y = {.rank = 3, .dims = {s.batch, s.steps, v_hidden}},
          k = {.rank = 4, .dims = {s.batch, heads, total, s.size}};
    Shape v = k, qk = {.rank = 4, .dims = {s.batch, heads, s.steps, total}};
    v.dims[3] = s.v_size;
    const Shape *shapes[] = {&y, &k, &v, &qk};
    for (int i = 0; i < c->n_out; i++) set_shape(c, i, shapes[i]);
    return TN_OK;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

/* Heads out of an operand: part `part` of `parts` that each head has packed. */
static void split_part(const float *x, int64_t parts, int64_t part, const HeadSplit *split) {
    if (parts == 1) {
        split_heads(split);
        return;
    }
    for (int64_t h = 0; h < split->heads; h++) { /* head by head, as if there were no others */
        HeadSplit one = *split;
        for (int64_t b = 0; b < split->batch; b++) {
            one.batch = one.heads = 1;
            one.x = x + b * split->steps * split->row + (h * parts + part) * split->size;
            one.bias = split->bias ? split->bias + h * split->size : NULL;
            one.y = split->y + (b * split->heads + h) * split->capacity * split->size;
            split_heads(&one);
        }
    }
}

/* Keys or values behind the cache: into result `out` where it is wanted, else scratch memory. */
static tn_status join_cache(KernelCtx *c, int past_in, int out, const HeadSplit *split, int64_t parts, int64_t part,
                            bool with_heads, float **y) {
    int64_t rows = split->batch * split->heads, n = rows * split->capacity * split->size;
    HeadSplit s = *split;
    if (kernel_wants(c, out)) {
        TRY(result_f32(c, out, y));
    } else {
        *y = kernel_scratch(c, float, (size_t)n + 1);
        if (!*y) return TN_OUT_OF_MEMORY;
    }
    s.y = *y;
    if (with_heads) /* [batch, heads, steps, size] is that many batches of one head */
        s.batch = rows, s.heads = 1, s.row = s.size, s.bias = NULL;
    split_part(s.x, with_heads ? 1 : parts, part, &s);
    const float *past;
    if (s.at) TRY(dense_f32(c, past_in, &past));
    for (int64_t r = 0; s.at && r < rows; r++)
        memcpy(*y + r * s.capacity * s.size, past + r * s.at * s.size, (size_t)(s.at * s.size) * sizeof *past);
    return TN_OK;
}

static HeadAttention read_attention(KernelCtx *c, Form form, int64_t past) {
    const Tensor *q = c->in[IN_Q], *k = form == FORM_QKV ? q : c->in[IN_K];
    int64_t heads = attr_int(c->node, "num_heads");
    HeadAttention a = {
        .batch = q->dims[0], .heads = heads, .kv_heads = heads, .steps = q->dims[1], .bias = key_mask_bias};
    a.size = a.v_size = form == FORM_QKV ? q->dims[4] : q->dims[2] / heads;
    if (form == FORM_APART) a.v_size = c->in[IN_V]->dims[2] / heads;
    if (form == FORM_HEADS) a.v_size = c->in[IN_V]->dims[3];
    a.total = a.capacity = past + k->dims[form == FORM_HEADS ? 2 : 1];
    a.scale = attention_scale(c->node, a.size);
    return a;
}

static tn_status multi_head_reference(KernelCtx *c) {
    int k_rank = kernel_has_input(c, IN_K) ? c->in[IN_K]->rank : 0;
    Form form = form_of(c->in[IN_Q]->rank, k_rank);
    int64_t past = kernel_has_input(c, IN_PAST_K) ? c->in[IN_PAST_K]->dims[2] : 0;
    HeadAttention a = read_attention(c, form, past);
    int64_t hidden = a.heads * a.size, parts = form == FORM_QKV ? 3 : form == FORM_KV ? 2 : 1;
    const float *bias = NULL, *xq, *xk, *xv;
    float *y, *k, *v;
    KeyMask mask;
    a.user = &mask;
    TRY(read_key_mask(c, IN_MASK, IN_ADDED, past, a.batch, a.heads, a.steps, a.total, &mask));
    if (kernel_has_input(c, IN_BIAS)) TRY(dense_f32(c, IN_BIAS, &bias));
    TRY(dense_f32(c, IN_Q, &xq));
    xk = xv = xq;
    if (form != FORM_QKV) TRY(dense_f32(c, IN_K, &xk));
    xv = xk;
    if (form == FORM_APART || form == FORM_HEADS) TRY(dense_f32(c, IN_V, &xv));
    float *q = kernel_scratch(c, float, (size_t)(a.batch * a.steps * hidden) + 1);
    if (!q) return TN_OUT_OF_MEMORY;
    HeadSplit split = {.batch = a.batch,
                       .steps = a.steps,
                       .heads = a.heads,
                       .size = a.size,
                       .row = form == FORM_QKV ? 3 * hidden : hidden,
                       .capacity = a.steps,
                       .x = xq,
                       .bias = bias,
                       .y = q};
    split_part(xq, form == FORM_QKV ? 3 : 1, 0, &split);
    split.steps = a.total - past, split.capacity = a.total, split.at = past, split.row = parts * hidden;
    split.x = xk, split.bias = bias ? bias + hidden : NULL;
    TRY(join_cache(c, IN_PAST_K, OUT_K, &split, parts, parts - 2, form == FORM_HEADS, &k));
    split.x = xv, split.bias = bias ? bias + 2 * hidden : NULL;
    split.size = a.v_size, split.row = parts * a.heads * a.v_size;
    TRY(join_cache(c, IN_PAST_V, OUT_V, &split, parts, parts - 1, form == FORM_HEADS, &v));
    a.q = q, a.k = k, a.v = v;
    TRY(result_f32(c, OUT_Y, &y));
    a.y = y;
    if (kernel_wants(c, OUT_QK)) TRY(result_f32(c, OUT_QK, &a.raw)); /* "normalized": with scale, masks and bias */
    TRY(attend(c, &a));
    result_f32_done(c, OUT_Y, y);
    if (kernel_wants(c, OUT_K)) result_f32_done(c, OUT_K, k);
    if (kernel_wants(c, OUT_V)) result_f32_done(c, OUT_V, v);
    if (a.raw) result_f32_done(c, OUT_QK, a.raw);
    return TN_OK;
}

#define FLOATS (TS(TN_F32) | TS(TN_F16) | TS(TN_BF16))
#define MAYBE OPERAND_OPTIONAL

const OpSchema op_ms_MultiHeadAttention = {
    .domain = "com.microsoft",
    .name = "MultiHeadAttention",
    .summary = "Attention of several heads (ONNX Runtime 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"query", FLOATS, 'T'}, {"key", FLOATS, 'T', MAYBE}, {"value", FLOATS, 'T', MAYBE},
                       {"bias", FLOATS, 'T', MAYBE}, {"key_padding_mask", TS(TN_I32), 0, MAYBE},
                       {"attention_bias", FLOATS, 'T', MAYBE}, {"past_key", FLOATS, 'T', MAYBE},
                       {"past_value", FLOATS, 'T', MAYBE}, {"past_sequence_length", TS(TN_I32), 0, MAYBE},
                       {"cache_indirection", TS(TN_I32), 0, MAYBE}),
    .outputs = OPERANDS({"output", FLOATS, 'T'}, {"present_key", FLOATS, 'T', MAYBE},
                        {"present_value", FLOATS, 'T', MAYBE}, {"qk", FLOATS, 0, MAYBE}),
    .attrs = ATTRIBUTES({"mask_filter_value", ATTR_FLOAT, .f = -10000}, {"num_heads", ATTR_INT, ATTR_REQUIRED},
                        {"scale", ATTR_FLOAT}, {"unidirectional", ATTR_INT}),
    .infer = multi_head_infer,
    .reference = multi_head_reference,
};
