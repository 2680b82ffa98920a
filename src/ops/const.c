/* SPDX-License-Identifier: Apache-2.0 */
/* tn.Const: a payload of the model as a value. Whatever runs the graph binds it; it is never executed. */
#include "ops/op_int.h"

static tn_status infer(InferCtx *c) {
    const Tensor *t = attr_tensor(c->node, "data");
    if (!t) return fail(TN_INVALID_MODEL, "a constant without data");
    Shape y = shape_make(t->rank, t->dims);
    set_type(c, 0, t->dtype, &y);
    return TN_OK;
}

const OpSchema op_tn_Const = {
    .domain = "tn",
    .name = "Const",
    .summary = "a constant of the model",
    .kind = OP_HOST,
    .outputs = OPERANDS({"value", TS_ALL_TENSOR, 0, 0}),
    .attrs = ATTRIBUTES({"data", ATTR_TENSOR, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = infer,
};
