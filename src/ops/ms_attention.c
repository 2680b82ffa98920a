/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft.Attention and QAttention (ONNX Runtime 1): self-attention together with the projection of its input to
   queries, keys and values. In QAttention the projection is of 8-bit integers. */
#include "ops/heads_int.h"

/* ---- what both have ------------------------------------------------------------------------------------------ */

/* Operands by their places; -1: the op has none. */
typedef struct Places {
    int x, weight, bias, mask, past, added;
} Places;
static const Places attention_places = {0, 1, 2, 3, 4, 5}, quantised_places = {0, 1, 2, 5, 8, -1};

static tn_status no_rotary(const Node *node) {
    if (attr_int(node, "do_rotary") || attr_int(node, "past_present_share_buffer"))
        return fail(TN_UNSUPPORTED, "do_rotary and past_present_share_buffer are not supported");
    return TN_OK;
}

/* Widths of queries (and keys) and of values in the projection, by attribute or a third each. */
static tn_status hidden_sizes(const Node *node, int64_t width, int64_t *hidden, int64_t *v_hidden) {
    int64_t heads = attr_int(node, "num_heads");
    IntList sizes = {0};
    if (op_attr_spec(node->op, STR("qkv_hidden_sizes"))) sizes = attr_ints(node, "qkv_hidden_sizes");
    if (sizes.n && (sizes.n != 3 || sizes.data[0] != sizes.data[1]))
        return fail(TN_INVALID_MODEL, "qkv_hidden_sizes must be three sizes, the first two equal");
    *hidden = sizes.n ? sizes.data[0] : width / 3;
    *v_hidden = sizes.n ? sizes.data[2] : width / 3;
    int64_t twice, sum;
    bool fits = !mul_overflows(*hidden, 2, &twice) && !add_overflows(twice, *v_hidden, &sum) && sum == width;
    if (heads < 1 || *hidden < 1 || *v_hidden < 1 || !fits || *hidden % heads || *v_hidden % heads)
        return fail(TN_INVALID_MODEL, "a projection to %lld columns cannot be divided into %lld heads",
                    (long long)width, (long long)heads);
    return TN_OK;
}

static tn_status attention_infer_places(InferCtx *c, const Places *at) {
    Dim width = in_dim(c, at->weight, 1), same, batch = in_dim(c, at->x, 0), steps = in_dim(c, at->x, 1), past = 0;
    int64_t hidden, v_hidden, heads = attr_int(c->node, "num_heads");
    TRY(no_rotary(c->node));
    TRY(want_rank(c, at->x, 3));
    TRY(want_rank(c, at->weight, 2));
    TRY(dims_must_match(in_dim(c, at->x, 2), in_dim(c, at->weight, 0), "columns of the input and rows of the weights",
                        &same));
    TRY(want_vector(c, at->bias, width, false));
    for (int i = 0; i < c->n_out; i++) set_unknown_rank(c, i, i ? 5 : 3);
    if (has_input(c, at->past)) {
        TRY(want_rank(c, at->past, 5));
        past = in_dim(c, at->past, 3);
    }
    if (!dim_is_const(width)) return TN_OK;
    TRY(hidden_sizes(c->node, width, &hidden, &v_hidden));
    if ((has_input(c, at->past) || c->n_out > 1) && hidden != v_hidden)
        return fail(TN_INVALID_MODEL, "a past state wants keys and values of one size");
    Dim total = dim_add(c->dims, past, steps);
    const Dim scores[] = {batch, heads, steps, total}, state[] = {2, batch, heads, past, hidden / heads};
    for (int d = 0; has_input(c, at->past) && d < 5; d++)
        TRY(dims_must_match(in_dim(c, at->past, d), state[d], "sizes of the past state", &same));
    TRY(check_key_mask(c, at->mask, at->added, scores));
    Shape y = {.rank = 3, .dims = {batch, steps, v_hidden}};
    Shape present = {.rank = 5, .dims = {2, batch, heads, total, hidden / heads}};
    set_shape(c, 0, &y);
    set_shape(c, 1, &present);
    return TN_OK;
}

/* Keys or values with the past in front: into the present state where it is wanted. `which`: 0 or 1. */
static tn_status join_past(KernelCtx *c, const Places *at, HeadSplit split, int which, float *present, float **out) {
    int64_t rows = split.batch * split.heads, n = rows * split.capacity * split.size;
    *out = present ? present + which * n : kernel_scratch(c, float, (size_t)n + 1);
    if (!*out) return TN_OUT_OF_MEMORY;
    split.y = *out;
    split_heads(&split);
    if (split.at == 0) return TN_OK;
    const float *past;
    TRY(dense_f32(c, at->past, &past));
    past += which * rows * split.at * split.size;
    for (int64_t r = 0; r < rows; r++)
        memcpy(*out + r * split.capacity * split.size, past + r * split.at * split.size,
               (size_t)(split.at * split.size) * sizeof *past);
    return TN_OK;
}

/* `qkv`: the projection without its bias. */
static tn_status attend_projected(KernelCtx *c, const Places *at, const float *qkv) {
    const Tensor *x = c->in[at->x];
    int64_t width = c->in[at->weight]->dims[1], heads = attr_int(c->node, "num_heads"), hidden, v_hidden;
    int64_t past = kernel_has_input(c, at->past) ? c->in[at->past]->dims[3] : 0;
    const float *bias = NULL;
    float *y, *present = NULL, *k, *v;
    KeyMask mask;
    TRY(hidden_sizes(c->node, width, &hidden, &v_hidden));
    HeadAttention a = {.batch = x->dims[0],
                       .heads = heads,
                       .kv_heads = heads,
                       .steps = x->dims[1],
                       .total = past + x->dims[1],
                       .capacity = past + x->dims[1],
                       .size = hidden / heads,
                       .v_size = v_hidden / heads,
                       .scale = attention_scale(c->node, hidden / heads),
                       .bias = key_mask_bias,
                       .user = &mask};
    TRY(read_key_mask(c, at->mask, at->added, past, a.batch, heads, a.steps, a.total, &mask));
    if (kernel_has_input(c, at->bias)) TRY(dense_f32(c, at->bias, &bias));
    if (kernel_wants(c, 1)) TRY(result_f32(c, 1, &present));
    float *q = kernel_scratch(c, float, (size_t)(a.batch * a.steps * hidden) + 1);
    if (!q) return TN_OUT_OF_MEMORY;
    HeadSplit split = {.batch = a.batch,
                       .steps = a.steps,
                       .heads = heads,
                       .size = a.size,
                       .row = width,
                       .capacity = a.steps,
                       .x = qkv,
                       .bias = bias,
                       .y = q};
    split_heads(&split);
    split.capacity = a.total, split.at = past, split.x = qkv + hidden, split.bias = bias ? bias + hidden : NULL;
    TRY(join_past(c, at, split, 0, present, &k));
    split.size = a.v_size, split.x = qkv + 2 * hidden, split.bias = bias ? bias + 2 * hidden : NULL;
    TRY(join_past(c, at, split, 1, present, &v));
    a.q = q, a.k = k, a.v = v;
    TRY(result_f32(c, 0, &y));
    a.y = y;
    TRY(attend(c, &a));
    result_f32_done(c, 0, y);
    if (present) result_f32_done(c, 1, present);
    return TN_OK;
}

static MatrixProduct projection(const KernelCtx *c, const Places *at) {
    const Tensor *x = c->in[at->x], *w = c->in[at->weight];
    return (MatrixProduct){.m = x->dims[0] * x->dims[1],
                           .n = w->dims[1],
                           .k = w->dims[0],
                           .a_row = w->dims[0],
                           .a_col = 1,
                           .b_row = w->dims[1],
                           .b_col = 1,
                           .y_row = w->dims[1],
                           .batch = 1};
}

/* ---- Attention ----------------------------------------------------------------------------------------------- */

static tn_status attention_infer(InferCtx *c) {
    if (has_input(c, 6)) return fail(TN_UNSUPPORTED, "past_sequence_length is not supported");
    return attention_infer_places(c, &attention_places);
}

static tn_status attention_reference(KernelCtx *c) {
    MatrixProduct p = projection(c, &attention_places);
    const float *x, *w;
    TRY(dense_f32(c, 0, &x));
    TRY(dense_f32(c, 1, &w));
    float *qkv = kernel_scratch(c, float, (size_t)(p.m * p.n) + 1);
    if (!qkv) return TN_OUT_OF_MEMORY;
    TRY(matrix_product_f32(c, &p, x, w, qkv));
    return attend_projected(c, &attention_places, qkv);
}

/* ---- QAttention ---------------------------------------------------------------------------------------------- */

enum { IN_X_SCALE = 3, IN_W_SCALE = 4, IN_X_ZERO = 6, IN_W_ZERO = 7 };

static tn_status q_attention_infer(InferCtx *c) { return attention_infer_places(c, &quantised_places); }

static tn_status q_attention_reference(KernelCtx *c) {
    MatrixProduct p = projection(c, &quantised_places);
    float *x, *w, x_scale;
    const float *w_scale;
    TRY(dense_centred(c, 0, IN_X_ZERO, 2, &x));
    TRY(dense_centred(c, 1, IN_W_ZERO, 1, &w));
    TRY(scalar_f32(c, IN_X_SCALE, &x_scale));
    TRY(vector_f32(c, IN_W_SCALE, p.n, &w_scale));
    int32_t *sums = kernel_scratch(c, int32_t, (size_t)(p.m * p.n) + 1);
    float *qkv = kernel_scratch(c, float, (size_t)(p.m * p.n) + 1);
    if (!sums || !qkv) return TN_OUT_OF_MEMORY;
    TRY(matrix_product_i32(c, &p, x, w, sums));
    for (int64_t i = 0; i < p.m * p.n; i++) qkv[i] = (float)sums[i] * (x_scale * w_scale[i % p.n]);
    return attend_projected(c, &quantised_places, qkv);
}

#define FLOATS (TS(TN_F32) | TS(TN_F16))
#define ALL_FLOATS (FLOATS | TS(TN_BF16))
#define BYTES (TS(TN_I8) | TS(TN_U8))
#define SHARED_ATTRS                                                                                                 \
    {"do_rotary", ATTR_INT}, {"mask_filter_value", ATTR_FLOAT, .f = -10000}, {"num_heads", ATTR_INT, ATTR_REQUIRED}, \
        {"past_present_share_buffer", ATTR_INT}, {"scale", ATTR_FLOAT}, {                                            \
        "unidirectional", ATTR_INT                                                                                   \
    }

const OpSchema op_ms_Attention = {
    .domain = "com.microsoft",
    .name = "Attention",
    .summary = "Self-attention with its projection (ONNX Runtime 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"input", ALL_FLOATS, 'T'}, {"weights", ALL_FLOATS, 'T'},
                       {"bias", ALL_FLOATS, 'T', OPERAND_OPTIONAL}, {"mask_index", TS(TN_I32), 0, OPERAND_OPTIONAL},
                       {"past", ALL_FLOATS, 'T', OPERAND_OPTIONAL},
                       {"attention_bias", ALL_FLOATS, 'T', OPERAND_OPTIONAL},
                       {"past_sequence_length", TS(TN_I32), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", ALL_FLOATS, 'T'}, {"present", ALL_FLOATS, 'T', OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES(SHARED_ATTRS, {"qkv_hidden_sizes", ATTR_INTS}, {"rotary_embedding_dim", ATTR_INT}),
    .infer = attention_infer,
    .reference = attention_reference,
};

const OpSchema op_ms_QAttention = {
    .domain = "com.microsoft",
    .name = "QAttention",
    .kind = OP_ATOMIC,
    .summary = "Self-attention with an 8-bit projection (ONNX Runtime 1)",
    .inputs = OPERANDS({"input", BYTES, 'A'}, {"weight", BYTES, 'B'}, {"bias", FLOATS, 'T'},
                       {"input_scale", FLOATS, 'T'}, {"weight_scale", FLOATS, 'T'},
                       {"mask_index", TS(TN_I32), 0, OPERAND_OPTIONAL},
                       {"input_zero_point", BYTES, 'A', OPERAND_OPTIONAL},
                       {"weight_zero_point", BYTES, 'B', OPERAND_OPTIONAL}, {"past", FLOATS, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", FLOATS, 'T'}, {"present", FLOATS, 'T', OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES(SHARED_ATTRS),
    .infer = q_attention_infer,
    .reference = q_attention_reference,
};
