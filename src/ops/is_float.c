/* SPDX-License-Identifier: Apache-2.0 */
/* IsNaN, IsInf (ONNX 20): which elements are no finite numbers. */
#include "ops/elementwise_int.h"

CHUNK1(is_nan_f32, float, int64_t, v != v)
CHUNK1(is_nan_f64, double, int64_t, v != v)
/* a: whether +inf counts; b: whether -inf does */
#define IS_INF (p->a != 0 && v == (T)INFINITY) || (p->b != 0 && v == -(T)INFINITY)
CHUNK1(is_inf_f32, float, int64_t, IS_INF)
CHUNK1(is_inf_f64, double, int64_t, IS_INF)

static tn_status to_bool_infer(InferCtx *c) {
    set_like(c, 0, 0);
    set_dtype(c, 0, TN_BOOL);
    return TN_OK;
}

static tn_status is_nan_reference(KernelCtx *c) {
    return run_to_int(c, 1, &(const ElementwiseFns){.f32 = is_nan_f32, .f64 = is_nan_f64}, NULL, 1);
}

static tn_status is_inf_reference(KernelCtx *c) {
    const Params p = {(double)attr_int(c->node, "detect_positive"), (double)attr_int(c->node, "detect_negative")};
    return run_to_int(c, 1, &(const ElementwiseFns){.f32 = is_inf_f32, .f64 = is_inf_f64}, &p, 1);
}

#define TYPES (TS_FLOAT | (TS_F8 & ~TS(TN_F8E8M0)))

const OpSchema op_IsNaN = {
    .name = "IsNaN",
    .summary = "IsNaN (ONNX 20): true where an element is not a number",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"X", TYPES, 0, 0}),
    .outputs = OPERANDS({"Y", TS(TN_BOOL), 0, 0}),
    .infer = to_bool_infer,
    .reference = is_nan_reference,
};

const OpSchema op_IsInf = {
    .name = "IsInf",
    .summary = "IsInf (ONNX 20): true where an element is infinite",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"X", TYPES, 0, 0}),
    .outputs = OPERANDS({"Y", TS(TN_BOOL), 0, 0}),
    .attrs = ATTRIBUTES({"detect_negative", ATTR_INT, 0, 1, 0, NULL}, {"detect_positive", ATTR_INT, 0, 1, 0, NULL}),
    .infer = to_bool_infer,
    .reference = is_inf_reference,
};
