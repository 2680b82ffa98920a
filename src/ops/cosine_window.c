/* SPDX-License-Identifier: Apache-2.0 */
/* HannWindow, HammingWindow, BlackmanWindow (ONNX 17): sums of cosines, one row of the table each. */
#include "ops/nn_int.h"

/* name, a0, a1, a2: a0 - a1 cos(t) + a2 cos(2t) for t once around the circle */
#define WINDOWS(ROW)                            \
    ROW(BlackmanWindow, 0.42, 0.5, 0.08)        \
    ROW(HammingWindow, 25.0 / 46, 21.0 / 46, 0) \
    ROW(HannWindow, 0.5, 0.5, 0)

static tn_status window_infer(InferCtx *c) {
    int64_t to = attr_int(c->node, "output_datatype");
    Shape y = {.rank = 1, .dims = {DIM_UNKNOWN}};
    int n;
    if (to < 1 || to >= TN_DTYPE_END || !(TS_NUMERIC & TS(to)))
        return fail(TN_INVALID_MODEL, "output_datatype is %lld, no number type", (long long)to);
    if (in_content(c, 0, &y.dims[0], 1, &n)) {
        if (n != 1) return fail(TN_SHAPE, "size must have one element");
        if (dim_is_const(y.dims[0]) && y.dims[0] < 0)
            return fail(TN_OUT_OF_RANGE, "the size %lld is negative", (long long)y.dims[0]);
    }
    set_type(c, 0, (tn_dtype)to, &y);
    return TN_OK;
}

static tn_status run_window(KernelCtx *c, double a0, double a1, double a2) {
    Tensor *y = &c->out[0];
    int64_t n = y->dims[0], around = n - (attr_int(c->node, "periodic") == 0);
    for (int64_t i = 0; i < n; i++) {
        double t = 2 * 3.14159265358979323846 * (double)i / (double)around;
        double v = around ? a0 - a1 * cos(t) + a2 * cos(2 * t) : 1; /* a single element is the middle */
        if (fabs(v - rint(v)) < 1e-12) v = rint(v);                 /* the middle is 1, of integers too */
        store_f64(y->dtype, y->data, y->offset + i, 1, &v, 1);
    }
    return TN_OK;
}

#define WINDOW_OP(id, a0, a1, a2)                                                                        \
    static tn_status id##_reference(KernelCtx *c) { return run_window(c, a0, a1, a2); }                  \
    const OpSchema op_##id = {                                                                           \
        .name = #id,                                                                                     \
        .summary = #id " (ONNX 17): weights for the frames of a signal",                                 \
        .kind = OP_ATOMIC,                                                                               \
        .inputs = OPERANDS({"size", TS(TN_I32) | TS(TN_I64)}),                                           \
        .outputs = OPERANDS({"output", TS_NUMERIC}),                                                     \
        .attrs = ATTRIBUTES({"output_datatype", ATTR_INT, .i = TN_F32}, {"periodic", ATTR_INT, .i = 1}), \
        .content_inputs = 1,                                                                             \
        .infer = window_infer,                                                                           \
        .reference = id##_reference,                                                                     \
    };
WINDOWS(WINDOW_OP)
