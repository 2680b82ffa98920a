/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul (ONNX 13) and FusedMatMul: numpy's matrix product, with batches that broadcast. */
#include "ops/lower_int.h"
#include "ops/matmul_int.h"

/* The operands' last two dimensions swapped, as FusedMatMul's attributes may ask. transBatch moves the first dimension
   in front of the last one before that: [m, batch.., k] becomes [batch.., m, k]. */
static bool asks(const Node *node, const char *name) {
    return op_attr_spec(node->op, str_of(name)) && attr_int(node, name) != 0;
}

/* Logical dims (and strides, of a tensor) of an operand after its transpositions. */
static void apply_transposes(const Node *node, int operand, int rank, Dim *dims, int64_t *strides) {
    int order[TN_MAX_RANK];
    if (rank < 2) return;
    for (int d = 0; d < rank; d++) order[d] = d;
    if (asks(node, operand ? "transBatchB" : "transBatchA")) {
        for (int d = 0; d + 2 < rank; d++) order[d] = d + 1;
        order[rank - 2] = 0;
    }
    if (asks(node, operand ? "transB" : "transA")) {
        int swap = order[rank - 1];
        order[rank - 1] = order[rank - 2], order[rank - 2] = swap;
    }
    Dim old_dims[TN_MAX_RANK];
    int64_t old_strides[TN_MAX_RANK];
    memcpy(old_dims, dims, sizeof old_dims);
    if (strides) memcpy(old_strides, strides, sizeof old_strides);
    for (int d = 0; d < rank; d++) {
        dims[d] = old_dims[order[d]];
        if (strides) strides[d] = old_strides[order[d]];
    }
}

tn_status matmul_infer_operands(InferCtx *c, int ia, int ib) {
    if (!rank_known(c, ia) || !rank_known(c, ib)) {
        set_unknown_rank(c, 0, -1);
        return TN_OK;
    }
    Shape a = *in_shape(c, ia), b = *in_shape(c, ib), y;
    if (a.rank == 0 || b.rank == 0)
        return fail(TN_SHAPE, "\"%.*s\" is a scalar where a vector or matrix is wanted",
                    IN_NAME(c, a.rank == 0 ? ia : ib));
    apply_transposes(c->node, 0, a.rank, a.dims, NULL);
    apply_transposes(c->node, 1, b.rank, b.dims, NULL);
    Dim k = a.dims[a.rank - 1], rows = b.dims[max_i64(b.rank - 2, 0)];
    if (dim_is_const(k) && dim_is_const(rows) && k != rows)
        return fail(TN_SHAPE, "\"%.*s\" has %lld columns, but \"%.*s\" has %lld rows", IN_NAME(c, ia), (long long)k,
                    IN_NAME(c, ib), (long long)rows);
    Shape batch_a = {.rank = (int32_t)max_i64(a.rank - 2, 0)}, batch_b = {.rank = (int32_t)max_i64(b.rank - 2, 0)};
    memcpy(batch_a.dims, a.dims, sizeof a.dims);
    memcpy(batch_b.dims, b.dims, sizeof b.dims);
    TRY(broadcast_shapes(c->dims, &batch_a, &batch_b, &y));
    if (y.rank >= 0 && a.rank > 1) y.dims[y.rank++] = a.dims[a.rank - 2];
    if (y.rank >= 0 && b.rank > 1) y.dims[y.rank++] = b.dims[b.rank - 1];
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status matmul_infer(InferCtx *c) { return matmul_infer_operands(c, 0, 1); }

double matmul_flops(const Node *node, const Shape *in, const Shape *out) {
    Shape s = in[0];
    apply_transposes(node, 0, s.rank, s.dims, NULL);
    double n = 2 * (double)s.dims[max_i64(s.rank - 1, 0)];
    for (int d = 0; d < out->rank; d++) n *= (double)out->dims[d];
    return n;
}

/* Offset of product `one` in an operand whose batch dims align right with the result's. */
static int64_t batch_offset(const Tensor *t, const int64_t *batch, int n_batch, int64_t one) {
    int64_t offset = 0;
    for (int d = n_batch - 1; d >= 0; d--) {
        int64_t i = one % batch[d];
        one /= batch[d];
        int own = d - n_batch + t->rank - 2;
        if (own >= 0 && t->dims[own] != 1) offset += i * t->strides[own];
    }
    return offset;
}

/* Dense strides after the transpositions of FusedMatMul. */
static Tensor dense_reading(const Node *node, const Tensor *t, int operand) {
    Tensor dense = {0};
    tensor_set_dense(&dense, t->dtype, t->rank, t->dims);
    apply_transposes(node, operand, t->rank, dense.dims, dense.strides);
    return dense;
}

tn_status matmul_product(KernelCtx *c, int ia, int ib, MatrixProduct *p) {
    Tensor a = dense_reading(c->node, c->in[ia], 0), b = dense_reading(c->node, c->in[ib], 1);
    int na = a.rank, nb = b.rank, n_batch = (int)max_i64(max_i64(na, nb) - 2, 0);
    *p = (MatrixProduct){.m = na > 1 ? a.dims[na - 2] : 1, .k = a.dims[na - 1], .n = nb > 1 ? b.dims[nb - 1] : 1};
    p->a_row = na > 1 ? a.strides[na - 2] : 0, p->a_col = a.strides[na - 1];
    p->b_row = nb > 1 ? b.strides[nb - 2] : b.strides[0], p->b_col = nb > 1 ? b.strides[nb - 1] : 0;
    p->y_row = p->n, p->y_step = p->m * p->n;
    p->batch = 1;
    for (int d = 0; d < n_batch; d++) p->batch *= c->out[0].dims[d];
    /* A batch of rows against one matrix is one tall product. */
    if (nb <= 2 && na > 2 && a.strides[na - 2] == p->k && a.strides[na - 1] == 1 && tensor_is_dense(&a)) {
        p->m *= p->batch;
        p->batch = 1;
        return TN_OK;
    }
    int64_t *offsets = kernel_scratch(c, int64_t, (size_t)(2 * p->batch));
    if (!offsets) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < p->batch; i++) {
        offsets[i] = batch_offset(&a, c->out[0].dims, n_batch, i);
        offsets[p->batch + i] = batch_offset(&b, c->out[0].dims, n_batch, i);
    }
    p->a_offset = offsets, p->b_offset = offsets + p->batch;
    return TN_OK;
}

#define BODY "ops/matmul_body.h"
#include "ops/each_number_int.h"

static tn_status matmul_reference(KernelCtx *c) { return RUN_NUMBER(c, matmul); }

#define MATMUL_TYPES (TS_FLOAT | TS(TN_I32) | TS(TN_I64) | TS(TN_U32) | TS(TN_U64))

const OpSchema op_MatMul = {
    .name = "MatMul",
    .summary = "Matrix product as numpy's matmul (ONNX 13)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"A", MATMUL_TYPES, 'T'}, {"B", MATMUL_TYPES, 'T'}),
    .outputs = OPERANDS({"Y", MATMUL_TYPES, 'T'}),
    .infer = matmul_infer,
    .reference = matmul_reference,
    .flops = matmul_flops,
};

/* An operand after its transpositions. */
static Value *turned(LowerCtx *c, int i) {
    Value *x = lower_in(c, (size_t)i);
    int rank = lower_shape(x)->rank;
    int64_t perm[TN_MAX_RANK], places[TN_MAX_RANK];
    for (int d = 0; d < rank; d++) perm[d] = places[d] = d;
    apply_transposes(c->node, i, rank, perm, places);
    return lower_transpose(c, x, perm);
}

static tn_status lower_fused_matmul(LowerCtx *c) {
    if (lower_by_widening(c)) return TN_OK;
    if (lower_shape(lower_in(c, 0))->rank < 0 || lower_shape(lower_in(c, 1))->rank < 0) return lower_decline(c);
    Value *y = LOWER(c, "MatMul", turned(c, 0), turned(c, 1));
    c->out[0] = LOWER(c, "Mul", y, lower_number(c, lower_dtype(lower_in(c, 0)), attr_float(c->node, "alpha")));
    return TN_OK;
}

const OpSchema op_ms_FusedMatMul = {
    .domain = "com.microsoft",
    .name = "FusedMatMul",
    .kind = OP_COMPOSITE,
    .summary = "Matrix product of operands that may be transposed, times alpha (ONNX Runtime 1)",
    .inputs = OPERANDS({"A", TS_FLOAT, 'T'}, {"B", TS_FLOAT, 'T'}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"alpha", ATTR_FLOAT, .f = 1}, {"transA", ATTR_INT}, {"transB", ATTR_INT},
                        {"transBatchA", ATTR_INT}, {"transBatchB", ATTR_INT}),
    .infer = matmul_infer,
    .reference = matmul_reference,
    .flops = matmul_flops,
    .lower = lower_fused_matmul,
    .lowering = "transpositions, MatMul, a factor",
};
