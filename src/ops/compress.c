/* SPDX-License-Identifier: Apache-2.0 */
/* Compress (ONNX 28): the slices of an axis, or the elements, whose condition is true. */
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), *condition = in_shape(c, 1);
    Shape y = {.rank = 1, .dims = {DIM_UNKNOWN}};
    if (condition->rank >= 0 && condition->rank != 1) return fail(TN_SHAPE, "condition must have one dimension");
    if (attr_present(c->node, "axis")) {
        int axis;
        if (x->rank < 0) return TN_OK;
        TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
        y = *x;
        y.dims[axis] = DIM_UNKNOWN;
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    const int64_t *condition;
    const void *data;
    int64_t outer = 1, n = tensor_count(x), inner = 1, kept = 0, dims[TN_MAX_RANK] = {0};
    int axis = 0, rank = 1;
    if (attr_present(c->node, "axis")) {
        TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
        rank = x->rank;
        memcpy(dims, x->dims, sizeof dims);
        n = x->dims[axis];
        for (int k = 0; k < axis; k++) outer *= x->dims[k];
        for (int k = axis + 1; k < x->rank; k++) inner *= x->dims[k];
    }
    TRY(dense_i64(c, 1, &condition));
    TRY(dense_bytes(c, 0, &data));
    int64_t length = min_i64(n, tensor_count(c->in[1])); /* what lies beyond either of them does not count */
    for (int64_t k = 0; k < length; k++) kept += condition[k] != 0;
    dims[axis] = kept;
    TRY(output_ready(c, 0, rank, dims));
    Tensor *y = &c->out[0];
    int64_t to = y->offset;
    if (tensor_count(y) == 0) return TN_OK;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < length; k++) {
            if (!condition[k]) continue;
            copy_run(x->dtype, y->data, to, data, (o * n + k) * inner, inner);
            to += inner;
        }
    return TN_OK;
}

const OpSchema op_Compress = {
    .name = "Compress",
    .summary = "Compress (ONNX 28): slices whose condition is true",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR, 'T', 0}, {"condition", TS(TN_BOOL), 0, 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
};
