/* SPDX-License-Identifier: Apache-2.0 */
/* EyeLike (ONNX 22): ones on a diagonal of a matrix that has the operand's shape. */
#include "ops/lower_int.h"
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    int64_t dtype = attr_int(c->node, "dtype");
    if (in_shape(c, 0)->rank >= 0 && in_shape(c, 0)->rank != 2)
        return fail(TN_SHAPE, "the operand has %d dimensions, not 2", in_shape(c, 0)->rank);
    set_shape(c, 0, in_shape(c, 0));
    if (!attr_present(c->node, "dtype")) {
        set_dtype(c, 0, in_dtype(c, 0));
        return TN_OK;
    }
    if (dtype <= 0 || dtype >= TN_DTYPE_END || dtype_is_complex((tn_dtype)dtype) || dtype == TN_STRING)
        return fail(TN_INVALID_ARGUMENT, "dtype %lld has no one and zero", (long long)dtype);
    set_dtype(c, 0, (tn_dtype)dtype);
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *y = &c->out[0];
    int64_t rows = y->dims[0], columns = y->dims[1], k = attr_int(c->node, "k"), one = 1;
    double one_float = 1;
    TRY(output_zero(c, 0));
    if (k <= -rows || k >= columns) return TN_OK;
    for (int64_t i = max_i64(0, -k); i < rows && i + k < columns; i++) {
        int64_t at = y->offset + i * columns + i + k;
        if (dtype_is_float(y->dtype)) store_f64(y->dtype, y->data, at, 1, &one_float, 1);
        else store_i64(y->dtype, y->data, at, 1, &one, 1);
    }
    return TN_OK;
}

const OpSchema op_EyeLike = {
    .name = "EyeLike",
    .summary = "EyeLike (ONNX 22): a matrix with ones on a diagonal",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"input", TS_NUMERIC | TS(TN_BOOL), 0, 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 0, 0}),
    .attrs = ATTRIBUTES({"dtype", ATTR_INT, 0, 0, 0, NULL}, {"k", ATTR_INT, 0, 0, 0, NULL}),
    .shape_inputs = 1 << 0,
    .infer = infer,
    .reference = reference,
    .lower = lower_eye_like,
    .lowering = "a comparison of counting numbers",
};
