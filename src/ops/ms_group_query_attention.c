/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft.GroupQueryAttention (ONNX Runtime 1): causal attention whose heads of queries share keys, with a cache
   of its own length for each batch entry and, where asked for, rotary positions. */
#include "ops/heads_int.h"

enum { IN_Q, IN_K, IN_V, IN_PAST_K, IN_PAST_V, IN_LENGTHS, IN_TOTAL, IN_COS, IN_SIN, IN_POSITIONS, IN_ADDED, IN_SINK };
enum { OUT_Y, OUT_K, OUT_V, OUT_QK };

/* ---- shapes -------------------------------------------------------------------------------------------------- */

static tn_status check_attrs(const Node *node) {
    int64_t heads = attr_int(node, "num_heads"), kv_heads = attr_int(node, "kv_num_heads");
    if (kv_heads < 1 || heads < 1 || heads > INT32_MAX || heads % kv_heads)
        return fail(TN_INVALID_MODEL, "%lld heads of queries cannot share %lld heads of keys", (long long)heads,
                    (long long)kv_heads);
    if (!attr_string_is(node, "k_quant_type", "NONE") || !attr_string_is(node, "v_quant_type", "NONE") ||
        attr_int(node, "sliding_window_cache"))
        return fail(TN_UNSUPPORTED, "quantised and sliding caches are not supported");
    return TN_OK;
}

/* The size of a head; packed operands hold all heads of a step behind each other. */
static tn_status find_size(InferCtx *c, int64_t heads, int64_t kv_heads, Dim *size) {
    bool packed = !has_input(c, IN_K);
    Dim hidden = in_dim(c, IN_Q, 2), kv_hidden = in_dim(c, IN_K, 2), same;
    int64_t shares = packed ? heads + 2 * kv_heads : heads;
    *size = DIM_UNKNOWN;
    TRY(want_rank(c, IN_Q, 3));
    if (dim_is_const(hidden)) {
        if (hidden % shares)
            return fail(TN_SHAPE, "a size of %lld cannot be divided into %lld heads", (long long)hidden,
                        (long long)shares);
        *size = hidden / shares;
    }
    if (packed != !has_input(c, IN_V)) return fail(TN_INVALID_MODEL, "key and value go together");
    for (int i = IN_K; !packed && i <= IN_V; i++) {
        TRY(want_rank(c, i, 3));
        TRY(dims_must_match(in_dim(c, i, 0), in_dim(c, IN_Q, 0), "batches of query, key and value", &same));
        TRY(dims_must_match(in_dim(c, i, 1), in_dim(c, IN_Q, 1), "lengths of query, key and value", &same));
    }
    if (!packed && dim_is_const(*size))
        TRY(dims_must_match(kv_hidden, *size * kv_heads, "hidden size of the keys", &same));
    if (!packed && dim_is_const(*size))
        TRY(dims_must_match(in_dim(c, IN_V, 2), *size * kv_heads, "hidden size of the values", &same));
    return TN_OK;
}

static tn_status check_rotary(InferCtx *c, Dim size) {
    Dim same, columns = in_dim(c, IN_COS, 1);
    if (!attr_int(c->node, "do_rotary")) return TN_OK;
    if (!has_input(c, IN_COS) || !has_input(c, IN_SIN))
        return fail(TN_INVALID_MODEL, "do_rotary wants cos_cache and sin_cache");
    TRY(want_rank(c, IN_COS, 2));
    TRY(want_rank(c, IN_SIN, 2));
    TRY(dims_must_match(columns, in_dim(c, IN_SIN, 1), "columns of the caches", &columns));
    TRY(dims_must_match(in_dim(c, IN_COS, 0), in_dim(c, IN_SIN, 0), "rows of the caches", &same));
    if (dim_is_const(columns) && dim_is_const(size) && columns > size / 2)
        return fail(TN_SHAPE, "heads of %lld elements cannot be turned in %lld", (long long)size,
                    (long long)(2 * columns));
    if (!has_input(c, IN_POSITIONS)) return TN_OK;
    TRY(want_rank(c, IN_POSITIONS, 2));
    TRY(dims_must_match(in_dim(c, IN_POSITIONS, 0), in_dim(c, IN_Q, 0), "batches of position_ids", &same));
    return dims_must_match(in_dim(c, IN_POSITIONS, 1), in_dim(c, IN_Q, 1), "positions", &same);
}

static tn_status group_query_infer(InferCtx *c) {
    int64_t heads = attr_int(c->node, "num_heads"), kv_heads = attr_int(c->node, "kv_num_heads");
    Dim size, total = DIM_UNKNOWN, past = 0, batch = in_dim(c, IN_Q, 0), steps = in_dim(c, IN_Q, 1), same;
    int n;
    TRY(check_attrs(c->node));
    TRY(find_size(c, heads, kv_heads, &size));
    TRY(check_rotary(c, size));
    TRY(want_vector(c, IN_LENGTHS, batch, false));
    TRY(want_vector(c, IN_SINK, heads, false));
    if (in_content(c, IN_TOTAL, &total, 1, &n) && n != 1)
        return fail(TN_SHAPE, "total_sequence_length must have one element");
    if (dim_is_const(total) && total < 0)
        return fail(TN_OUT_OF_RANGE, "total_sequence_length is %lld", (long long)total);
    if (has_input(c, IN_PAST_K) != has_input(c, IN_PAST_V))
        return fail(TN_INVALID_MODEL, "past_key and past_value go together");
    if (has_input(c, IN_PAST_K)) past = in_dim(c, IN_PAST_K, 2);
    for (int i = IN_PAST_K; has_input(c, IN_PAST_K) && i <= IN_PAST_V; i++) {
        const Dim want[] = {batch, kv_heads, past, size};
        TRY(want_rank(c, i, 4));
        for (int d = 0; d < 4; d++) TRY(dims_must_match(in_dim(c, i, d), want[d], "sizes of the cache", &same));
    }
    const Dim scores[] = {batch, heads, steps, total};
    TRY(check_key_mask(c, IN_SINK + 1, IN_ADDED, scores));
    Shape y = {.rank = 3, .dims = {batch, steps, dim_mul(c->dims, size, heads)}}, qk = {.rank = 4};
    Shape kv = {.rank = 4, .dims = {batch, kv_heads, dim_make(c->dims, DIM_MAX, past, total), size}};
    memcpy(qk.dims, scores, sizeof scores);
    const Shape *shapes[] = {&y, &kv, &kv, &qk};
    for (int i = 0; i < c->n_out; i++) set_shape(c, i, shapes[i]);
    return TN_OK;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

typedef struct Group {
    int64_t batch, steps, heads, kv_heads, size, row, total,
        capacity;           /* row: elements of a step where they are packed */
    int64_t *past, *length; /* of each batch entry: keys before this call, keys in all */
    bool prompt;            /* the first call: nothing is cached */
    int64_t window;         /* -1: unbounded */
    bool causal;
    const float *added;
    int64_t added_batch, added_head;
} Group;

/* As onnxruntime: in a prompt shorter entries are padded on the right. */
static tn_status read_lengths(KernelCtx *c, Group *g) {
    const int64_t *lengths, *total;
    TRY(dense_i64(c, IN_LENGTHS, &lengths));
    TRY(dense_i64(c, IN_TOTAL, &total));
    g->total = *total;
    g->prompt = g->total == g->steps;
    g->past = kernel_scratch(c, int64_t, (size_t)g->batch + 1);
    g->length = kernel_scratch(c, int64_t, (size_t)g->batch + 1);
    if (!g->past || !g->length) return TN_OUT_OF_MEMORY;
    int64_t cached = kernel_has_input(c, IN_PAST_K) ? c->in[IN_PAST_K]->dims[2] : 0;
    for (int64_t b = 0; b < g->batch; b++) {
        g->length[b] = lengths[b] < g->total ? lengths[b] + 1 : 0;
        g->past[b] = g->prompt ? 0 : g->length[b] - g->steps;
        if (g->length[b] < 1 || g->past[b] < 0 || g->past[b] > cached || g->past[b] + g->steps > g->capacity)
            return fail(TN_OUT_OF_RANGE, "seqlens_k is %lld, for %lld new keys, %lld cached ones and %lld in all",
                        (long long)lengths[b], (long long)g->steps, (long long)cached, (long long)g->total);
    }
    return TN_OK;
}

static tn_status read_group(KernelCtx *c, Group *g) {
    const Tensor *q = c->in[IN_Q];
    bool packed = !kernel_has_input(c, IN_K);
    *g = (Group){.batch = q->dims[0],
                 .steps = q->dims[1],
                 .heads = attr_int(c->node, "num_heads"),
                 .kv_heads = attr_int(c->node, "kv_num_heads"),
                 .row = q->dims[2],
                 .window = attr_int(c->node, "local_window_size"),
                 .causal = attr_int(c->node, "causal") != 0};
    g->size = g->row / (packed ? g->heads + 2 * g->kv_heads : g->heads);
    int64_t cached = kernel_has_input(c, IN_PAST_K) ? c->in[IN_PAST_K]->dims[2] : 0;
    const int64_t *total;
    if (tensor_count(c->in[IN_TOTAL]) != 1) return fail(TN_SHAPE, "total_sequence_length must have one element");
    TRY(dense_i64(c, IN_TOTAL, &total));
    if (*total - cached > g->steps) /* each step adds one to what is cached */
        return fail(TN_OUT_OF_RANGE, "total_sequence_length is %lld, but past and new steps are %lld and %lld",
                    (long long)*total, (long long)cached, (long long)g->steps);
    g->capacity = max_i64(cached, *total);
    TRY(read_lengths(c, g));
    if (!kernel_has_input(c, IN_ADDED)) return TN_OK;
    const Tensor *t = c->in[IN_ADDED];
    if (t->dims[3] != g->total || t->dims[2] != g->steps)
        return fail(TN_SHAPE, "attention_bias does not fit the scores");
    g->added_head = t->dims[1] == 1 ? 0 : g->steps * g->total;
    g->added_batch = t->dims[0] == 1 ? 0 : (t->dims[1] == 1 ? 1 : g->heads) * g->steps * g->total;
    return dense_f32(c, IN_ADDED, &g->added);
}

static float group_bias(const void *user, int64_t b, int64_t h, int64_t i, int64_t j) {
    const Group *g = user;
    int64_t at = g->past[b] + i;
    if (j >= g->length[b] || (g->causal && j > at)) return -INFINITY;
    if (g->causal && g->window >= 0 && j <= at - g->window) return -INFINITY;
    return g->added ? g->added[b * g->added_batch + h * g->added_head + i * g->total + j] : 0;
}

/* Turns the heads of the new steps in place; rows [batch, heads, capacity, size], entry b's from row first[b] on
   (NULL: 0). */
static tn_status turn_steps(KernelCtx *c, const Group *g, int64_t heads, int64_t capacity, const int64_t *first,
                            float *x) {
    const float *cosines, *sines;
    const int64_t *positions = NULL;
    int64_t half = c->in[IN_COS]->dims[1], rows = c->in[IN_COS]->dims[0];
    bool interleaved = attr_int(c->node, "rotary_interleaved") != 0;
    TRY(dense_f32(c, IN_COS, &cosines));
    TRY(dense_f32(c, IN_SIN, &sines));
    if (kernel_has_input(c, IN_POSITIONS)) TRY(dense_i64(c, IN_POSITIONS, &positions));
    for (int64_t k = 0; k < g->batch * heads * g->steps; k++) {
        int64_t step = k % g->steps, h = k / g->steps % heads, b = k / g->steps / heads, at = g->past[b] + step;
        if (positions && g->prompt && !add_overflows(positions[0], step, &at)) at = positions[0] + step;
        else if (positions) at = positions[b * g->steps + step];
        if (at < 0 || at >= rows)
            return fail(TN_OUT_OF_RANGE, "position %lld is not in 0..%lld", (long long)at, (long long)rows - 1);
        float *head = x + ((b * heads + h) * capacity + (first ? first[b] : 0) + step) * g->size;
        turn_head(head, g->size, half, cosines + at * half, sines + at * half, interleaved, head);
    }
    return TN_OK;
}

/* The cache with the new steps put in, into result `out` where it is wanted, else scratch memory. */
static tn_status fill_cache(KernelCtx *c, const Group *g, int past_in, int out, const float *x, int64_t row,
                            float **y) {
    const int64_t dims[] = {g->batch, g->kv_heads, g->capacity, g->size};
    int64_t each = g->capacity * g->size, rows = g->batch * g->kv_heads, n;
    TRY(checked_count(4, dims, &n));
    if (kernel_wants(c, out)) {
        TRY(result_f32(c, out, y));
    } else {
        *y = kernel_scratch(c, float, (size_t)n + 1);
        if (!*y) return TN_OUT_OF_MEMORY;
    }
    for (int64_t i = 0; i < n; i++) (*y)[i] = 0;
    if (kernel_has_input(c, past_in)) {
        const float *past;
        int64_t old = c->in[past_in]->dims[2] * g->size;
        TRY(dense_f32(c, past_in, &past));
        for (int64_t r = 0; r < rows; r++) memcpy(*y + r * each, past + r * old, (size_t)old * sizeof *past);
    }
    for (int64_t b = 0; b < g->batch; b++) {
        HeadSplit s = {.batch = 1,
                       .steps = g->steps,
                       .heads = g->kv_heads,
                       .size = g->size,
                       .row = row,
                       .capacity = g->capacity,
                       .at = g->past[b],
                       .x = x + b * g->steps * row,
                       .y = *y + b * g->kv_heads * each};
        split_heads(&s);
    }
    return TN_OK;
}

static tn_status group_query_reference(KernelCtx *c) {
    Group g;
    bool packed = !kernel_has_input(c, IN_K), rotary = attr_int(c->node, "do_rotary") != 0;
    const float *xq, *xk, *xv, *sink = NULL;
    float *k, *v, *y, *qk = NULL;
    TRY(read_group(c, &g));
    int64_t hidden = g.heads * g.size, kv_hidden = g.kv_heads * g.size;
    TRY(dense_f32(c, IN_Q, &xq));
    xk = xq + hidden, xv = xq + hidden + kv_hidden;
    if (!packed) TRY(dense_f32(c, IN_K, &xk));
    if (!packed) TRY(dense_f32(c, IN_V, &xv));
    if (kernel_has_input(c, IN_SINK)) TRY(dense_f32(c, IN_SINK, &sink));
    float *q = kernel_scratch(c, float, (size_t)(g.batch * g.steps * hidden) + 1);
    if (!q) return TN_OUT_OF_MEMORY;
    HeadSplit split = {.batch = g.batch,
                       .steps = g.steps,
                       .heads = g.heads,
                       .size = g.size,
                       .row = g.row,
                       .capacity = g.steps,
                       .x = xq,
                       .y = q};
    split_heads(&split);
    TRY(fill_cache(c, &g, IN_PAST_K, OUT_K, xk, packed ? g.row : kv_hidden, &k));
    TRY(fill_cache(c, &g, IN_PAST_V, OUT_V, xv, packed ? g.row : kv_hidden, &v));
    if (rotary) TRY(turn_steps(c, &g, g.heads, g.steps, NULL, q));
    if (rotary) TRY(turn_steps(c, &g, g.kv_heads, g.capacity, g.past, k));
    TRY(result_f32(c, OUT_Y, &y));
    if (kernel_wants(c, OUT_QK)) TRY(result_f32(c, OUT_QK, &qk));
    HeadAttention a = {.batch = g.batch,
                       .heads = g.heads,
                       .kv_heads = g.kv_heads,
                       .steps = g.steps,
                       .total = g.total,
                       .capacity = g.capacity,
                       .size = g.size,
                       .v_size = g.size,
                       .q = q,
                       .k = k,
                       .v = v,
                       .y = y,
                       .scale = attention_scale(c->node, g.size),
                       .softcap = attr_float(c->node, "softcap"),
                       .bias = group_bias,
                       .user = &g,
                       .sink = sink,
                       .has_sink = sink || attr_int(c->node, "smooth_softmax") > 0};
    if (attr_int(c->node, "qk_output") == 2) a.weights = qk;
    else a.raw = qk;
    TRY(attend(c, &a));
    for (int64_t i = 0; a.raw && i < tensor_count(&c->out[OUT_QK]); i++) /* what is not seen has no score */
        if (a.raw[i] == -INFINITY) a.raw[i] = 0;
    result_f32_done(c, OUT_Y, y);
    if (kernel_wants(c, OUT_K)) result_f32_done(c, OUT_K, k);
    if (kernel_wants(c, OUT_V)) result_f32_done(c, OUT_V, v);
    if (qk) result_f32_done(c, OUT_QK, qk);
    return TN_OK;
}

#define FLOATS (TS(TN_F32) | TS(TN_F16) | TS(TN_BF16))
#define MAYBE OPERAND_OPTIONAL

const OpSchema op_ms_GroupQueryAttention = {
    .domain = "com.microsoft",
    .name = "GroupQueryAttention",
    .kind = OP_ATOMIC,
    .summary = "Causal attention with shared keys and a cache (ONNX Runtime 1)",
    .inputs = {{"query", FLOATS, 'T'},
               {"key", FLOATS, 'T', MAYBE},
               {"value", FLOATS, 'T', MAYBE},
               {"past_key", FLOATS, 'T', MAYBE},
               {"past_value", FLOATS, 'T', MAYBE},
               {"seqlens_k", TS(TN_I32)},
               {"total_sequence_length", TS(TN_I32)},
               {"cos_cache", FLOATS, 'T', MAYBE},
               {"sin_cache", FLOATS, 'T', MAYBE},
               {"position_ids", TS(TN_I64), 0, MAYBE},
               {"attention_bias", FLOATS, 'T', MAYBE},
               {"head_sink", FLOATS, 'T', MAYBE}},
    .outputs = {{"output", FLOATS, 'T'},
                {"present_key", FLOATS, 'T', MAYBE},
                {"present_value", FLOATS, 'T', MAYBE},
                {"output_qk", FLOATS, 'T', MAYBE}},
    .attrs = {{"causal", ATTR_INT, .i = 1},
              {"do_rotary", ATTR_INT},
              {"k_quant_type", ATTR_STRING, .s = "NONE"},
              {"kv_cache_bit_width", ATTR_INT},
              {"kv_num_heads", ATTR_INT, ATTR_REQUIRED},
              {"local_window_size", ATTR_INT, .i = -1},
              {"num_heads", ATTR_INT, ATTR_REQUIRED},
              {"qk_output", ATTR_INT},
              {"rotary_interleaved", ATTR_INT},
              {"scale", ATTR_FLOAT},
              {"sliding_window_cache", ATTR_INT},
              {"smooth_softmax", ATTR_INT},
              {"softcap", ATTR_FLOAT},
              {"v_quant_type", ATTR_STRING, .s = "NONE"}},
    .content_inputs = 1 << IN_TOTAL,
    .infer = group_query_infer,
    .reference = group_query_reference,
};
