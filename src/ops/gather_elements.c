/* SPDX-License-Identifier: Apache-2.0 */
/* GatherElements (ONNX 13): y[i][j][k] = x[i][index[i][j][k]][k], for axis 1. */
#include "ops/lower_int.h"
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), *index = in_shape(c, 1);
    int axis;
    set_shape(c, 0, index);
    if (x->rank < 0) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    if (index->rank < 0) {
        set_unknown_rank(c, 0, x->rank);
        return TN_OK;
    }
    if (x->rank != index->rank)
        return fail(TN_SHAPE, "data has %d dimensions, but indices has %d", x->rank, index->rank);
    for (int k = 0; k < x->rank; k++)
        if (k != axis && dim_is_const(x->dims[k]) && dim_is_const(index->dims[k]) && index->dims[k] > x->dims[k])
            return fail(TN_SHAPE, "dimension %d of indices is %lld, but data has only %lld there", k,
                        (long long)index->dims[k], (long long)x->dims[k]);
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    const int64_t *index;
    int axis;
    int64_t at[TN_MAX_RANK] = {0}, count = tensor_count(y), base = x->offset;
    if (count == 0) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    TRY(dense_i64(c, 1, &index));
    for (int64_t n = 0; n < count; n++) {
        int64_t k;
        TRY(normal_index(index[n], x->dims[axis], axis, &k));
        copy_run(x->dtype, y->data, y->offset + n, x->data, base + k * x->strides[axis], 1);
        for (int d = y->rank - 1; d >= 0; d--) {
            int64_t stride = d == axis ? 0 : x->strides[d];
            base += stride;
            if (++at[d] < y->dims[d]) break;
            base -= stride * y->dims[d];
            at[d] = 0;
        }
    }
    return TN_OK;
}

const OpSchema op_GatherElements = {
    .name = "GatherElements",
    .summary = "GatherElements (ONNX 13): elements of an axis by index",
    .kind = OP_COMPOSITE,
    .flags = OP_LOOPS,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"indices", TS(TN_I32) | TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
    .lower = lower_gather_elements,
    .lowering = "tn.Loop; regions where indices are constants",
};
