/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU (ONNX 28): Swish of a gate, times a value. */
#include "ops/elementwise_int.h"

#define SWIGLU (v / (1 + exp(-(T)p->a * v)) * w)
CHUNK2(swiglu_f32, float, float, SWIGLU)
CHUNK2(swiglu_f64, double, double, SWIGLU)

static tn_status swiglu_infer(InferCtx *c) {
    const Shape *a = in_shape(c, 0), *b = in_shape(c, 1);
    Shape y = a->rank >= 0 ? *a : *b;
    if (a->rank >= 0 && b->rank >= 0) {
        if (a->rank != b->rank) return fail(TN_SHAPE, "A has %d dimensions, but B has %d", a->rank, b->rank);
        for (int d = 0; d < a->rank; d++) TRY(dims_must_match(a->dims[d], b->dims[d], "sizes of A and B", &y.dims[d]));
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status swiglu_reference(KernelCtx *c) {
    static const ElementwiseFns fns = {.f32 = swiglu_f32, .f64 = swiglu_f64};
    Params params = {.a = attr_float(c->node, "alpha")};
    return run_by_class(c, 2, &fns, &params, 4);
}

const OpSchema op_SwiGLU = {
    .name = "SwiGLU",
    .summary = "Swish of a gate times a value (ONNX 28)",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"A", TS_FLOAT, 'T'}, {"B", TS_FLOAT, 'T'}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"alpha", ATTR_FLOAT, .f = 1}),
    .infer = swiglu_infer,
    .reference = swiglu_reference,
};
