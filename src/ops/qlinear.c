/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Runtime's element-wise ops on 8-bit tensors: dequantise, compute in float, quantise; ONNX Runtime 1. */

#include "ops/lower_int.h"
#include "ops/qlinear_int.h"

/* ---- sums and products --------------------------------------------------------------------------------------- */

typedef struct Binary {
    Scale a, b, y;
} Binary;

/* ORT computes with scales divided by the result's; so do we, to agree on ties. */
static void add_chunk(const void *user, void *out, const void *const *in, int64_t n) {
    const Binary *p = user;
    const float *a = in[0], *b = in[1];
    int64_t *y = out;
    float sa = p->a.scale / p->y.scale, sb = p->b.scale / p->y.scale;
    float za = (float)p->a.zero, zb = (float)p->b.zero;
    EACH(i, n) y[i] = quantize_f32((a[i] - za) * sa + (b[i] - zb) * sb, p->y.low, p->y.high, p->y.zero);
}

static void mul_chunk(const void *user, void *out, const void *const *in, int64_t n) {
    const Binary *p = user;
    const float *a = in[0], *b = in[1];
    int64_t *y = out;
    float s = p->a.scale * p->b.scale / p->y.scale, za = (float)p->a.zero, zb = (float)p->b.zero;
    EACH(i, n) y[i] = quantize_f32((a[i] - za) * (b[i] - zb) * s, p->y.low, p->y.high, p->y.zero);
}

static tn_status run_binary(KernelCtx *c, ChunkFn fn) {
    Binary p;
    tn_dtype dtype = c->out[0].dtype;
    TRY(read_scale(c, 1, dtype, &p.a));
    TRY(read_scale(c, 4, dtype, &p.b));
    TRY(read_scale(c, 6, dtype, &p.y));
    const Tensor *in[] = {c->in[0], c->in[3]};
    return run_elementwise_on(c, 2, in, (const Class[]){CLASS_F32, CLASS_F32}, &c->out[0], CLASS_INT, fn, &p, 2);
}

static tn_status add_reference(KernelCtx *c) { return run_binary(c, add_chunk); }
static tn_status mul_reference(KernelCtx *c) { return run_binary(c, mul_chunk); }

static tn_status binary_infer(InferCtx *c) {
    Shape s;
    TRY(broadcast_shapes(c->dims, in_shape(c, 0), in_shape(c, 3), &s));
    set_shape(c, 0, &s);
    return TN_OK;
}

/* ---- functions of one operand: 256 answers ------------------------------------------------------------------- */

static void look_up_chunk(const void *user, void *out, const void *const *in, int64_t n) {
    const uint8_t *table = user;
    const int64_t *x = in[0];
    int64_t *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = table[x[i]];
}

typedef float (*RealFn)(float x, float alpha);
static float leaky_relu(float x, float alpha) { return x < 0 ? alpha * x : x; }
static float sigmoid(float x, float alpha) { return (void)alpha, 1 / (1 + expf(-x)); }

/* Elements are looked up as unsigned bytes, whatever their sign. */
static tn_status run_unary(KernelCtx *c, RealFn fn, float alpha) {
    Scale x, y;
    uint8_t table[256];
    tn_dtype dtype = c->out[0].dtype;
    TRY(read_scale(c, 1, dtype, &x));
    TRY(read_scale(c, 3, dtype, &y));
    for (int code = 0; code < 256; code++) table[code] = code_of(&y, fn(real_of(&x, (uint8_t)code), alpha));
    Tensor in = *c->in[0], out = c->out[0];
    in.dtype = out.dtype = TN_U8;
    return run_elementwise_on(c, 1, (const Tensor *const[]){&in}, (const Class[]){CLASS_INT}, &out, CLASS_INT,
                              look_up_chunk, table, 2);
}

static tn_status leaky_relu_reference(KernelCtx *c) {
    return run_unary(c, leaky_relu, (float)attr_float(c->node, "alpha"));
}
static tn_status sigmoid_reference(KernelCtx *c) { return run_unary(c, sigmoid, 0); }

/* ---- ops ----------------------------------------------------------------------------------------------------- */

#define BINARY_OP(id, op, reference_fn, lower_fn, text)                                                    \
    const OpSchema op_##id = {                                                                             \
        .domain = "com.microsoft",                                                                         \
        .name = op,                                                                                        \
        .summary = op " (ONNX Runtime 1): the " text " of two 8-bit tensors",                              \
        .kind = OP_COMPOSITE,                                                                              \
        .inputs = OPERANDS({"A", BYTES, 'Q', 0}, {"A_scale", TS(TN_F32), 0, 0},                            \
                           {"A_zero_point", BYTES, 'Q', OPERAND_OPTIONAL}, {"B", BYTES, 'Q', 0},           \
                           {"B_scale", TS(TN_F32), 0, 0}, {"B_zero_point", BYTES, 'Q', OPERAND_OPTIONAL},  \
                           {"C_scale", TS(TN_F32), 0, 0}, {"C_zero_point", BYTES, 'Q', OPERAND_OPTIONAL}), \
        .outputs = OPERANDS({"C", BYTES, 'Q', 0}),                                                         \
        .infer = binary_infer,                                                                             \
        .reference = reference_fn,                                                                         \
        .lower = lower_fn,                                                                                 \
        .lowering = "arithmetic on f32, rounded",                                                          \
    };
BINARY_OP(ms_QLinearAdd, "QLinearAdd", add_reference, lower_qlinear_add, "sum")
BINARY_OP(ms_QLinearMul, "QLinearMul", mul_reference, lower_qlinear_mul, "product")

#define UNARY_OPERANDS                                                                                   \
    {"X", BYTES, 'Q', 0}, {"X_scale", TS(TN_F32), 0, 0}, {"X_zero_point", BYTES, 'Q', OPERAND_OPTIONAL}, \
        {"Y_scale", TS(TN_F32), 0, 0}, {                                                                 \
        "Y_zero_point", BYTES, 'Q', OPERAND_OPTIONAL                                                     \
    }

const OpSchema op_ms_QLinearLeakyRelu = {
    .domain = "com.microsoft",
    .name = "QLinearLeakyRelu",
    .summary = "QLinearLeakyRelu (ONNX Runtime 1): LeakyRelu of an 8-bit tensor",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS(UNARY_OPERANDS),
    .outputs = OPERANDS({"Y", BYTES, 'Q', 0}),
    .attrs = ATTRIBUTES({"alpha", ATTR_FLOAT, 0, 0, 0.01f, NULL}),
    .reference = leaky_relu_reference,
    .lower = lower_qlinear_leaky_relu,
    .lowering = "LeakyRelu of f32, rounded",
};

const OpSchema op_ms_QLinearSigmoid = {
    .domain = "com.microsoft",
    .name = "QLinearSigmoid",
    .summary = "QLinearSigmoid (ONNX Runtime 1): Sigmoid of an 8-bit tensor",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS(UNARY_OPERANDS),
    .outputs = OPERANDS({"Y", BYTES, 'Q', 0}),
    .reference = sigmoid_reference,
    .lower = lower_qlinear_sigmoid,
    .lowering = "Sigmoid of f32, rounded",
};
