/* SPDX-License-Identifier: Apache-2.0 */
/* RotaryEmbedding (ONNX 23): pairs of elements of each head turned by an angle that depends on the position. */
#include "ops/nn_int.h"

static tn_status rotary_infer(InferCtx *c) {
    int64_t dim = attr_int(c->node, "rotary_embedding_dim"), heads = attr_int(c->node, "num_heads");
    Dim rows;
    set_shape(c, 0, in_shape(c, 0));
    TRY(dims_must_match(in_dim(c, 1, 0), in_dim(c, 2, 0), "rows of cos_cache and sin_cache", &rows));
    if (dim < 0 || dim % 2)
        return fail(TN_INVALID_MODEL, "rotary_embedding_dim is %lld; an even number is wanted", (long long)dim);
    if (rank_known(c, 0)) {
        int rank = in_shape(c, 0)->rank;
        if (rank != 3 && rank != 4)
            return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 3 or 4 are wanted", IN_NAME(c, 0), rank);
        Dim hidden = in_dim(c, 0, 2);
        if (rank == 3 && (heads < 1 || (dim_is_const(hidden) && hidden % heads)))
            return fail(TN_INVALID_MODEL, "num_heads is %lld, which does not divide the hidden size", (long long)heads);
        Dim head = rank == 4 ? in_dim(c, 0, 3) : dim_is_const(hidden) ? hidden / heads : DIM_UNKNOWN;
        if (dim_is_const(head) && (dim > head || (dim == 0 && head % 2)))
            return fail(TN_SHAPE, "heads of size %lld cannot be turned in %lld elements", (long long)head,
                        (long long)(dim ? dim : head));
        Dim half = dim ? dim / 2 : dim_is_const(head) ? head / 2 : DIM_UNKNOWN, same;
        int cache = has_input(c, 3) ? 2 : 3;
        for (int i = 1; i < 3; i++) {
            TRY(want_rank(c, i, cache));
            TRY(dims_must_match(in_dim(c, i, cache - 1), half, "the cache's last dimension and half of what turns",
                                &same));
            if (cache == 2) continue;
            TRY(dims_must_match(in_dim(c, i, 0), in_dim(c, 0, 0), "batches of X and a cache", &same));
            TRY(dims_must_match(in_dim(c, i, 1), in_dim(c, 0, rank - 2), "positions", &same));
        }
    }
    if (!has_input(c, 3)) return TN_OK;
    TRY(want_rank(c, 3, 2));
    Dim same;
    TRY(dims_must_match(in_dim(c, 3, 0), in_dim(c, 0, 0), "batches of X and position_ids", &same));
    if (!rank_known(c, 0)) return TN_OK;
    return dims_must_match(in_dim(c, 3, 1), in_dim(c, 0, in_shape(c, 0)->rank - 2), "positions", &same);
}

/* The row of the caches for each (batch, position). */
static tn_status find_rows(KernelCtx *c, int64_t batch, int64_t steps, const int64_t **rows) {
    int64_t n = batch * steps, last = c->in[1]->dims[0];
    if (kernel_has_input(c, 3)) {
        TRY(dense_i64(c, 3, rows));
        for (int64_t i = 0; i < n; i++)
            if ((*rows)[i] < 0 || (*rows)[i] >= last)
                return fail(TN_OUT_OF_RANGE, "position %lld is not in 0..%lld", (long long)(*rows)[i],
                            (long long)last - 1);
        return TN_OK;
    }
    int64_t *own = kernel_scratch(c, int64_t, (size_t)n);
    if (!own) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < n; i++) own[i] = i;
    *rows = own;
    return TN_OK;
}

static tn_status rotary_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    bool split = x->rank == 4, interleaved = attr_int(c->node, "interleaved") != 0;
    int64_t heads = split ? x->dims[1] : attr_int(c->node, "num_heads"), batch = x->dims[0];
    int64_t steps = x->dims[x->rank - 2], size = split ? x->dims[3] : x->dims[2] / heads;
    int64_t turn = attr_int(c->node, "rotary_embedding_dim"), half = (turn ? turn : size) / 2;
    const float *data, *cosine, *sine;
    const int64_t *rows;
    float *y;
    TRY(dense_f32(c, 0, &data));
    TRY(dense_f32(c, 1, &cosine));
    TRY(dense_f32(c, 2, &sine));
    TRY(find_rows(c, batch, steps, &rows));
    TRY(result_f32(c, 0, &y));
    for (int64_t k = 0; k < batch * heads * steps; k++) {
        /* [batch, heads, steps, size] or [batch, steps, heads, size] */
        int64_t b = k / (heads * steps), step = split ? k % steps : k / heads % steps;
        const float *in = data + k * size, *cs = cosine + rows[b * steps + step] * half;
        const float *sn = sine + rows[b * steps + step] * half;
        float *out = y + k * size;
        memcpy(out, in, (size_t)size * sizeof *out);
        for (int64_t i = 0; i < half; i++) {
            int64_t p = interleaved ? 2 * i : i, q = interleaved ? 2 * i + 1 : half + i;
            float a = in[p], z = in[q];
            out[p] = cs[i] * a - sn[i] * z;
            out[q] = sn[i] * a + cs[i] * z;
        }
    }
    result_f32_done(c, 0, y);
    return TN_OK;
}

#define SMALL_FLOAT (TS(TN_F32) | TS(TN_F16) | TS(TN_BF16))

const OpSchema op_RotaryEmbedding = {
    .name = "RotaryEmbedding",
    .summary = "Turns pairs of elements by their position (ONNX 23)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", SMALL_FLOAT, 'T'}, {"cos_cache", SMALL_FLOAT, 'T'}, {"sin_cache", SMALL_FLOAT, 'T'},
                       {"position_ids", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", SMALL_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"interleaved", ATTR_INT}, {"num_heads", ATTR_INT}, {"rotary_embedding_dim", ATTR_INT}),
    .infer = rotary_infer,
    .reference = rotary_reference,
};
