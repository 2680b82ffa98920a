/* SPDX-License-Identifier: Apache-2.0 */
/* Activation functions with one or two numbers as attributes: an expression each. */
#include "ops/elementwise_int.h"

#define A ((T)p->a)
#define B ((T)p->b)
#define EXP_NEG(v) exp(-fabs(v))
#define SIGMOID(v) ((v) >= 0 ? 1 / (1 + EXP_NEG(v)) : EXP_NEG(v) / (1 + EXP_NEG(v)))
#define CLAMP01(v) ((v) < 0 ? 0 : (v) > 1 ? 1 : (v)) /* NaN stays */

#define ATTR(name, value) \
    { name, ATTR_FLOAT, 0, 0, value, NULL }

/* ROW(op, version, nanoseconds, first and second attribute with defaults, expression, what it is). What is not above a
   threshold takes the branch that keeps NaN; ThresholdedRelu's has none, as in ONNX. */
#define ACTIVATION_ROWS(ROW)                                                                                           \
    ROW(Celu, 28, 8, "alpha", 1, NULL, 0, v > 0 ? v : A * expm1(v / A), "max(0, x) + min(0, alpha*(e^(x/alpha) - 1))") \
    ROW(Elu, 22, 8, "alpha", 1, NULL, 0, v >= 0 ? v : A * expm1(v), "x, below zero alpha * (e^x - 1)")                 \
    ROW(HardSigmoid, 22, 1, "alpha", 0.2f, "beta", 0.5f, CLAMP01(A *v + B), "max(0, min(1, alpha*x + beta))")          \
    ROW(LeakyRelu, 16, 1, "alpha", 0.01f, NULL, 0, v < 0 ? A * v : v, "x, below zero alpha * x")                       \
    ROW(Selu, 22, 8, "alpha", 1.67326319217681884765625, "gamma", 1.05070102214813232421875,                           \
        B *(v > 0 ? v : A * expm1(v)), "gamma * (x, below zero alpha * (e^x - 1))")                                    \
    ROW(Swish, 24, 8, "alpha", 1, NULL, 0, v *SIGMOID(A *v), "x * sigmoid(alpha * x)")                                 \
    ROW(ThresholdedRelu, 22, 1, "alpha", 1, NULL, 0, v > A ? v : 0, "x where above alpha, else 0")

#define ACTIVATION_OP(id, version, cost, a_name, a_default, b_name, b_default, expr, text) \
    CHUNK1(id##_f32, float, T, expr)                                                       \
    CHUNK1(id##_f64, double, T, expr)                                                      \
    static tn_status id##_reference(KernelCtx *c) {                                        \
        return run_activation(c, a_name, b_name, id##_f32, id##_f64, cost);                \
    }                                                                                      \
    const OpSchema op_##id = {                                                             \
        .name = #id,                                                                       \
        .summary = #id " (ONNX " #version "): " text,                                      \
        .kind = OP_COMPOSITE,                                                              \
        .flags = OP_ELEMENTWISE,                                                           \
        .inputs = OPERANDS({"X", TS_FLOAT, 'T', 0}),                                       \
        .outputs = OPERANDS({"Y", TS_FLOAT, 'T', 0}),                                      \
        .attrs = ATTRIBUTES(ATTR(a_name, a_default), ATTR(b_name, b_default)),             \
        .reference = id##_reference,                                                       \
    };

static tn_status run_activation(KernelCtx *c, const char *a, const char *b, ChunkFn f32, ChunkFn f64, double cost) {
    const Params p = {attr_float(c->node, a), b ? attr_float(c->node, b) : 0};
    return run_by_class(c, 1, &(const ElementwiseFns){.f32 = f32, .f64 = f64}, &p, cost);
}

ACTIVATION_ROWS(ACTIVATION_OP)
