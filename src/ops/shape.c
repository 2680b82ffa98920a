/* SPDX-License-Identifier: Apache-2.0 */
/* Shape and Size (ONNX 25): sizes as integers. Only the operand's shape is read, so the host answers. */
#include "ops/move_int.h"

/* start and end count from the back when negative, and are cut off at the ends. */
static void slice_of(const Node *node, int rank, int *from, int *to) {
    int64_t start = attr_int(node, "start"), end = attr_present(node, "end") ? attr_int(node, "end") : rank;
    if (start < 0) start = max_i64(start + rank, 0);
    if (end < 0) end = max_i64(end + rank, 0);
    *from = (int)min_i64(start, rank);
    *to = (int)max_i64(min_i64(end, rank), *from);
}

static tn_status shape_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Shape y = {.rank = 1, .dims = {DIM_UNKNOWN}};
    if (x->rank >= 0) {
        int from, to;
        slice_of(c->node, x->rank, &from, &to);
        y.dims[0] = to - from;
        set_content(c, 0, x->dims + from, to - from);
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status shape_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    int64_t *y = tensor_bytes(&c->out[0]);
    int from, to;
    slice_of(c->node, x->rank, &from, &to);
    for (int k = from; k < to; k++) y[k - from] = x->dims[k];
    return TN_OK;
}

static tn_status size_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Shape y = {.rank = 0};
    set_shape(c, 0, &y);
    if (x->rank < 0) return TN_OK;
    Dim count = dims_product(c->dims, x, 0, x->rank);
    set_content(c, 0, &count, 1);
    return TN_OK;
}

static tn_status size_reference(KernelCtx *c) {
    *(int64_t *)tensor_bytes(&c->out[0]) = tensor_count(c->in[0]);
    return TN_OK;
}

const OpSchema op_Shape = {
    .name = "Shape",
    .summary = "Shape (ONNX 25): the operand's sizes",
    .kind = OP_HOST,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 0, 0}),
    .outputs = OPERANDS({"shape", TS(TN_I64), 0, 0}),
    .attrs = ATTRIBUTES({"start", ATTR_INT, 0, 0, 0, NULL}, {"end", ATTR_INT, 0, 0, 0, NULL}),
    .shape_inputs = 1 << 0,
    .infer = shape_infer,
    .reference = shape_reference,
};

const OpSchema op_Size = {
    .name = "Size",
    .summary = "Size (ONNX 25): how many elements the operand has",
    .kind = OP_HOST,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 0, 0}),
    .outputs = OPERANDS({"size", TS(TN_I64), 0, 0}),
    .shape_inputs = 1 << 0,
    .infer = size_infer,
    .reference = size_reference,
};
