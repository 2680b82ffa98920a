/* SPDX-License-Identifier: Apache-2.0 */
/* The Gaussian error linear unit in ONNX's and ONNX Runtime's variants: x times a soft step. */
#include "ops/elementwise_int.h"

#define SQRT_2_OVER_PI 0.797884560802865355879892
/* erfc(-z) is 1 + erf(z) without its cancellation far below zero. */
#define GELU(T, v) ((v)*erfc(-(v) * (T)M_SQRT1_2) * (T)0.5)
#define TANH_GELU(T, v) ((v) * (1 + tanh((T)SQRT_2_OVER_PI * ((v) + (T)0.044715 * (v) * (v) * (v)))) * (T)0.5)
#define SIGMOID(v) ((v) >= 0 ? 1 / (1 + exp(-fabs(v))) : exp(-fabs(v)) / (1 + exp(-fabs(v))))

CHUNK1(gelu_f32, float, T, GELU(T, v))
CHUNK1(gelu_f64, double, T, GELU(T, v))
CHUNK1(tanh_gelu_f32, float, T, TANH_GELU(T, v))
CHUNK1(tanh_gelu_f64, double, T, TANH_GELU(T, v))
CHUNK1(quick_gelu_f32, float, T, v *SIGMOID((T)p->a *v))
CHUNK1(quick_gelu_f64, double, T, v *SIGMOID((T)p->a *v))
CHUNK2(bias_gelu_f32, float, T, GELU(T, v + w))
CHUNK2(bias_gelu_f64, double, T, GELU(T, v + w))
CHUNK2(bias_tanh_gelu_f32, float, T, TANH_GELU(T, v + w))
CHUNK2(bias_tanh_gelu_f64, double, T, TANH_GELU(T, v + w))

static const ElementwiseFns gelu_fns = {.f32 = gelu_f32, .f64 = gelu_f64};
static const ElementwiseFns tanh_gelu_fns = {.f32 = tanh_gelu_f32, .f64 = tanh_gelu_f64};
static const ElementwiseFns quick_gelu_fns = {.f32 = quick_gelu_f32, .f64 = quick_gelu_f64};
static const ElementwiseFns bias_gelu_fns = {.f32 = bias_gelu_f32, .f64 = bias_gelu_f64};
static const ElementwiseFns bias_tanh_gelu_fns = {.f32 = bias_tanh_gelu_f32, .f64 = bias_tanh_gelu_f64};

static tn_status gelu_infer(InferCtx *c) {
    if (!attr_string_is(c->node, "approximate", "none") && !attr_string_is(c->node, "approximate", "tanh"))
        return fail(TN_INVALID_MODEL, "approximate must be \"none\" or \"tanh\"");
    set_like(c, 0, 0);
    return TN_OK;
}

static tn_status gelu_reference(KernelCtx *c) {
    bool by_tanh = attr_string_is(c->node, "approximate", "tanh");
    return run_by_class(c, 1, by_tanh ? &tanh_gelu_fns : &gelu_fns, NULL, 15);
}

static tn_status ms_gelu_reference(KernelCtx *c) { return run_by_class(c, 1, &gelu_fns, NULL, 15); }

static tn_status quick_gelu_reference(KernelCtx *c) {
    const Params p = {.a = attr_float(c->node, "alpha")};
    return run_by_class(c, 1, &quick_gelu_fns, &p, 8);
}

static tn_status bias_gelu_reference(KernelCtx *c) { return run_by_class(c, 2, &bias_gelu_fns, NULL, 15); }

static tn_status fast_gelu_reference(KernelCtx *c) {
    bool biased = kernel_has_input(c, 1);
    return run_by_class(c, biased ? 2 : 1, biased ? &bias_tanh_gelu_fns : &tanh_gelu_fns, NULL, 15);
}

/* The bias is added along the last dimension, so the result is like x. */
static tn_status bias_infer(InferCtx *c) {
    set_like(c, 0, 0);
    if (!has_input(c, 1) || !rank_known(c, 0) || !rank_known(c, 1)) return TN_OK;
    const Shape *x = in_shape(c, 0), *bias = in_shape(c, 1);
    if (bias->rank != 1 || x->rank < 1)
        return fail(TN_SHAPE, "the bias must have one dimension, the last of the input");
    Dim size;
    return dims_must_match(x->dims[x->rank - 1], bias->dims[0], "sizes of the last dimension and of the bias", &size);
}

const OpSchema op_Gelu = {
    .name = "Gelu",
    .summary = "Gelu (ONNX 20): x/2 * (1 + erf(x/sqrt 2)), or its approximation by tanh",
    .kind = OP_COMPOSITE,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T', 0}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T', 0}),
    .attrs = ATTRIBUTES({"approximate", ATTR_STRING, 0, 0, 0, "none"}),
    .infer = gelu_infer,
    .reference = gelu_reference,
};

const OpSchema op_ms_Gelu = {
    .domain = "com.microsoft",
    .name = "Gelu",
    .summary = "Gelu (ONNX Runtime 1): x/2 * (1 + erf(x/sqrt 2))",
    .kind = OP_COMPOSITE,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T', 0}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T', 0}),
    .reference = ms_gelu_reference,
};

const OpSchema op_ms_QuickGelu = {
    .domain = "com.microsoft",
    .name = "QuickGelu",
    .summary = "QuickGelu (ONNX Runtime 1): x * sigmoid(alpha * x)",
    .kind = OP_COMPOSITE,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T', 0}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T', 0}),
    .attrs = ATTRIBUTES({"alpha", ATTR_FLOAT, 0, 0, 1.702f, NULL}),
    .reference = quick_gelu_reference,
};

const OpSchema op_ms_BiasGelu = {
    .domain = "com.microsoft",
    .name = "BiasGelu",
    .summary = "BiasGelu (ONNX Runtime 1): Gelu of the sum of an input and a bias",
    .kind = OP_COMPOSITE,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"A", TS_FLOAT, 'T', 0}, {"B", TS_FLOAT, 'T', 0}),
    .outputs = OPERANDS({"C", TS_FLOAT, 'T', 0}),
    .infer = bias_infer,
    .reference = bias_gelu_reference,
};

const OpSchema op_ms_FastGelu = {
    .domain = "com.microsoft",
    .name = "FastGelu",
    .summary = "FastGelu (ONNX Runtime 1): Gelu by tanh of an input and an optional bias",
    .kind = OP_COMPOSITE,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T', 0}, {"bias", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T', 0}),
    .infer = bias_infer,
    .reference = fast_gelu_reference,
};
