/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft.RotaryEmbedding (ONNX Runtime 1): what ONNX's op became, with operands in another order and positions
   that may be one offset for all. That batches are packed is told by positions, and the scale is in the caches. */
#include "ops/heads_int.h"

enum { IN_X, IN_POSITIONS, IN_COS, IN_SIN };

/* Heads and their size; the hidden size is a multiple. `columns`: of the caches, half of what turns. */
static tn_status read_heads(const Node *node, int64_t hidden, int64_t columns, int64_t *heads, int64_t *size) {
    int64_t given = attr_int(node, "num_heads"), turn = attr_int(node, "rotary_embedding_dim");
    if (columns < 1 || columns > INT32_MAX) return fail(TN_SHAPE, "the caches have %lld columns", (long long)columns);
    *size = given > 0 ? hidden / given : 2 * columns;
    *heads = given > 0 ? given : hidden / *size;
    if (*size < 2 * columns || *heads * *size != hidden || (turn && turn != 2 * columns))
        return fail(TN_INVALID_MODEL, "a hidden size of %lld, %lld heads and %lld elements that turn do not fit",
                    (long long)hidden, (long long)given, (long long)(turn ? turn : 2 * columns));
    return TN_OK;
}

static tn_status rotary_infer(InferCtx *c) {
    int rank = in_shape(c, IN_X)->rank;
    Dim columns = in_dim(c, IN_COS, 1), same;
    set_shape(c, 0, in_shape(c, IN_X));
    TRY(want_rank(c, IN_COS, 2));
    TRY(want_rank(c, IN_SIN, 2));
    TRY(dims_must_match(in_dim(c, IN_SIN, 1), columns, "columns of the caches", &columns));
    TRY(dims_must_match(in_dim(c, IN_SIN, 0), in_dim(c, IN_COS, 0), "rows of the caches", &same));
    if (rank >= 0 && rank != 3 && rank != 4) return fail(TN_SHAPE, "input has %d dimensions; 3 or 4 are wanted", rank);
    int64_t heads, size;
    Dim hidden = rank == 4 ? in_dim(c, IN_X, 3) : rank == 3 ? in_dim(c, IN_X, 2) : DIM_UNKNOWN;
    if (rank == 3 && dim_is_const(hidden) && dim_is_const(columns))
        TRY(read_heads(c->node, hidden, columns, &heads, &size));
    if (rank == 4 && dim_is_const(hidden) && dim_is_const(columns) && (columns < 1 || hidden / 2 < columns))
        return fail(TN_SHAPE, "heads of %lld elements cannot be turned in %lld", (long long)hidden, (long long)columns);
    if (in_shape(c, IN_POSITIONS)->rank == 2 && rank >= 0) {
        TRY(dims_must_match(in_dim(c, IN_POSITIONS, 0), in_dim(c, IN_X, 0), "batches of input and position_ids",
                            &same));
        return dims_must_match(in_dim(c, IN_POSITIONS, 1), in_dim(c, IN_X, rank == 4 ? 2 : 1), "positions", &same);
    }
    return TN_OK;
}

static tn_status rotary_reference(KernelCtx *c) {
    const Tensor *x = c->in[IN_X], *p = c->in[IN_POSITIONS];
    bool split = x->rank == 4, interleaved = attr_int(c->node, "interleaved") != 0;
    int64_t half = c->in[IN_COS]->dims[1], rows = c->in[IN_COS]->dims[0], heads = 0, size = 0;
    int64_t steps = x->dims[split ? 2 : 1];
    const float *in, *cosines, *sines;
    const int64_t *positions;
    float *y;
    if (split) heads = x->dims[1], size = x->dims[3];
    else TRY(read_heads(c->node, x->dims[2], half, &heads, &size));
    if (tensor_count(x) == 0) return TN_OK;
    if (p->rank != 2 && tensor_count(p) != 1) return fail(TN_SHAPE, "position_ids must be one offset or a matrix");
    TRY(dense_f32(c, IN_X, &in));
    TRY(dense_f32(c, IN_COS, &cosines));
    TRY(dense_f32(c, IN_SIN, &sines));
    TRY(dense_i64(c, IN_POSITIONS, &positions));
    TRY(result_f32(c, 0, &y));
    for (int64_t k = 0; k < x->dims[0] * steps * heads; k++) {
        int64_t b = k / (heads * steps), step = split ? k % steps : k / heads % steps;
        int64_t at = positions[p->rank == 2 ? b * steps + step : 0];
        if (at < 0 || at >= rows || (p->rank != 2 && at + step >= rows))
            return fail(TN_OUT_OF_RANGE, "position %lld is not in 0..%lld", (long long)at, (long long)rows - 1);
        at = (at + (p->rank == 2 ? 0 : step)) * half;
        turn_head(in + k * size, size, half, cosines + at, sines + at, interleaved, y + k * size);
    }
    result_f32_done(c, 0, y);
    return TN_OK;
}

#define FLOATS (TS(TN_F32) | TS(TN_F16) | TS(TN_BF16))

const OpSchema op_ms_RotaryEmbedding = {
    .domain = "com.microsoft",
    .name = "RotaryEmbedding",
    .kind = OP_ATOMIC,
    .summary = "Turns pairs of elements by their position (ONNX Runtime 1)",
    .inputs = OPERANDS({"input", FLOATS, 'T'}, {"position_ids", TS(TN_I64)}, {"cos_cache", FLOATS, 'T'},
                       {"sin_cache", FLOATS, 'T'}),
    .outputs = OPERANDS({"output", FLOATS, 'T'}),
    .attrs = ATTRIBUTES({"interleaved", ATTR_INT}, {"is_packed_batching", ATTR_INT}, {"num_heads", ATTR_INT},
                        {"rotary_embedding_dim", ATTR_INT}, {"scale", ATTR_FLOAT, .f = 1}),
    .infer = rotary_infer,
    .reference = rotary_reference,
};
