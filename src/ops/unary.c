/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise functions of one operand that have no attribute: an expression each. */
#include "ops/elementwise_int.h"

/* ---- floating point ------------------------------------------------------------------------------------------ */

/* e^-|v| never overflows, so both forms are exact in their tails; NaN takes the second. */
#define SIGMOID(v) ((v) >= 0 ? 1 / (1 + exp(-fabs(v))) : exp(-fabs(v)) / (1 + exp(-fabs(v))))
#define SOFTPLUS(v) (log1p(exp(-fabs(v))) + ((v) > 0 ? (v) : 0))
#define CLAMP01(v) ((v) < 0 ? 0 : (v) > 1 ? 1 : (v)) /* NaN stays */

/* ROW(op, kind, version of ONNX, nanoseconds, expression, what it is) */
#define FLOAT_ROWS(ROW)                                                                           \
    ROW(Acos, ATOMIC, 22, 8, acos(v), "arc cosine")                                               \
    ROW(Acosh, ATOMIC, 22, 15, acosh(v), "inverse hyperbolic cosine")                             \
    ROW(Asin, ATOMIC, 22, 8, asin(v), "arc sine")                                                 \
    ROW(Asinh, ATOMIC, 22, 20, asinh(v), "inverse hyperbolic sine")                               \
    ROW(Atan, ATOMIC, 22, 8, atan(v), "arc tangent")                                              \
    ROW(Atanh, ATOMIC, 22, 15, atanh(v), "inverse hyperbolic tangent")                            \
    ROW(Ceil, ATOMIC, 13, 1, ceil(v), "the least integer not below")                              \
    ROW(Cos, ATOMIC, 22, 5, cos(v), "cosine")                                                     \
    ROW(Cosh, ATOMIC, 22, 10, cosh(v), "hyperbolic cosine")                                       \
    ROW(Erf, ATOMIC, 13, 10, erf(v), "the error function")                                        \
    ROW(Exp, ATOMIC, 13, 4, exp(v), "e to the power of x")                                        \
    ROW(Floor, ATOMIC, 13, 1, floor(v), "the greatest integer not above")                         \
    ROW(HardSwish, COMPOSITE, 22, 1, v *CLAMP01(v / 6 + (T)0.5), "x * max(0, min(1, x/6 + 0.5))") \
    ROW(Log, ATOMIC, 13, 4, log(v), "natural logarithm")                                          \
    ROW(Mish, COMPOSITE, 22, 25, v *tanh(SOFTPLUS(v)), "x * tanh(softplus(x))")                   \
    ROW(Reciprocal, COMPOSITE, 13, 1, 1 / v, "1 / x")                                             \
    ROW(Round, ATOMIC, 22, 1, rint(v), "the nearest integer, ties to even")                       \
    ROW(Sigmoid, COMPOSITE, 13, 8, SIGMOID(v), "1 / (1 + e^-x)")                                  \
    ROW(Sin, ATOMIC, 22, 5, sin(v), "sine")                                                       \
    ROW(Sinh, ATOMIC, 22, 10, sinh(v), "hyperbolic sine")                                         \
    ROW(Softplus, COMPOSITE, 22, 15, SOFTPLUS(v), "ln(1 + e^x)")                                  \
    ROW(Softsign, COMPOSITE, 22, 1, v / (1 + fabs(v)), "x / (1 + |x|)")                           \
    ROW(Sqrt, ATOMIC, 13, 1, sqrt(v), "square root")                                              \
    ROW(Tan, ATOMIC, 22, 10, tan(v), "tangent")                                                   \
    ROW(Tanh, ATOMIC, 13, 10, tanh(v), "hyperbolic tangent")

#define FLOAT_OP(id, kind_, version, cost, expr, text)                                                    \
    CHUNK1(id##_f32, float, T, expr)                                                                      \
    CHUNK1(id##_f64, double, T, expr)                                                                     \
    static tn_status id##_reference(KernelCtx *c) {                                                       \
        return run_by_class(c, 1, &(const ElementwiseFns){.f32 = id##_f32, .f64 = id##_f64}, NULL, cost); \
    }                                                                                                     \
    const OpSchema op_##id = {                                                                            \
        .name = #id,                                                                                      \
        .summary = #id " (ONNX " #version "): " text,                                                     \
        .kind = OP_##kind_,                                                                               \
        .flags = OP_ELEMENTWISE,                                                                          \
        .inputs = OPERANDS({"X", TS_FLOAT, 'T', 0}),                                                      \
        .outputs = OPERANDS({"Y", TS_FLOAT, 'T', 0}),                                                     \
        .reference = id##_reference,                                                                      \
    };
FLOAT_ROWS(FLOAT_OP)

/* ---- any number ---------------------------------------------------------------------------------------------- */

static Dim abs_dim(const InferCtx *c, Dim a) {
    if (dim_not_negative(c->dims, a)) return a;
    return dim_is_const(a) ? -a : DIM_UNKNOWN;
}
static Dim neg_dim(const InferCtx *c, Dim a) { return dim_sub(c->dims, 0, a); }
static Dim relu_dim(const InferCtx *c, Dim a) {
    return dim_not_negative(c->dims, a) ? a : dim_make(c->dims, DIM_MAX, a, 0);
}
static Dim sign_dim(const InferCtx *c, Dim a) {
    (void)c;
    return dim_is_const(a) ? (a > 0) - (a < 0) : DIM_UNKNOWN;
}
static Dim invert_dim(const InferCtx *c, Dim a) { return dim_sub(c->dims, -1, a); }
static Dim not_dim(const InferCtx *c, Dim a) {
    (void)c;
    return dim_is_const(a) ? a == 0 : DIM_UNKNOWN;
}

/* ROW(op, kind, version, types, f32 and f64, i64, u64, content, what it is); unsigned types but u64 never have a sign. */
#define NUMBER_ROWS(ROW)                                                                                         \
    ROW(Abs, ATOMIC, 13, TS_NUMERIC, fabs(v), WRAP(v < 0 ? 0 - bits(v) : bits(v)), v, abs_dim, "absolute value") \
    ROW(Neg, ATOMIC, 13, TS_FLOAT | TS_SIGNED, -v, WRAP(0 - bits(v)), v, neg_dim, "-x")                          \
    ROW(Relu, COMPOSITE, 14, TS_FLOAT | TS_SIGNED, v <= 0 ? 0 : v, v <= 0 ? 0 : v, v, relu_dim, "max(0, x)")     \
    ROW(Sign, ATOMIC, 13, TS_NUMERIC, v != v ? v : (T)((v > 0) - (v < 0)), (v > 0) - (v < 0), v != 0, sign_dim,  \
        "-1, 0 or 1")

#define NUMBER_OP(id, kind_, version, types, f_expr, i_expr, u_expr, dim_fn, text)                       \
    CHUNK1(id##_f32, float, T, f_expr)                                                                   \
    CHUNK1(id##_f64, double, T, f_expr)                                                                  \
    CHUNK1(id##_i64, int64_t, T, i_expr)                                                                 \
    CHUNK1(id##_u64, uint64_t, T, u_expr)                                                                \
    static tn_status id##_infer(InferCtx *c) {                                                           \
        set_like(c, 0, 0);                                                                               \
        content_unary(c, dim_fn);                                                                        \
        return TN_OK;                                                                                    \
    }                                                                                                    \
    static tn_status id##_reference(KernelCtx *c) {                                                      \
        const ElementwiseFns fns = {.f32 = id##_f32, .f64 = id##_f64, .i64 = id##_i64, .u64 = id##_u64}; \
        return run_by_class(c, 1, &fns, NULL, 1);                                                        \
    }                                                                                                    \
    const OpSchema op_##id = {                                                                           \
        .name = #id,                                                                                     \
        .summary = #id " (ONNX " #version "): " text,                                                    \
        .kind = OP_##kind_,                                                                              \
        .flags = OP_ELEMENTWISE,                                                                         \
        .inputs = OPERANDS({"X", types, 'T', 0}),                                                        \
        .outputs = OPERANDS({"Y", types, 'T', 0}),                                                       \
        .infer = id##_infer,                                                                             \
        .reference = id##_reference,                                                                     \
    };
NUMBER_ROWS(NUMBER_OP)

/* ---- bits and booleans --------------------------------------------------------------------------------------- */

/* ROW(op, kind, version, types, expression, content, what it is). ~x is -1 - x; of unsigned types that is never a size. */
#define BIT_ROWS(ROW)                                                                                             \
    ROW(BitwiseNot, 18, TS_INT, ~v, dtype_is_signed_int(in_dtype(c, 0)) ? invert_dim : NULL, "each bit inverted") \
    ROW(Not, 1, TS(TN_BOOL), !v, not_dim, "false for true, true for false")

#define BIT_OP(id, version, types, expr, dim_fn, text)                                \
    CHUNK1(id##_i64, int64_t, T, expr)                                                \
    static tn_status id##_infer(InferCtx *c) {                                        \
        Dim (*fn)(const InferCtx *, Dim) = dim_fn;                                    \
        set_like(c, 0, 0);                                                            \
        if (fn) content_unary(c, fn);                                                 \
        return TN_OK;                                                                 \
    }                                                                                 \
    static tn_status id##_reference(KernelCtx *c) {                                   \
        return run_by_class(c, 1, &(const ElementwiseFns){.i64 = id##_i64}, NULL, 1); \
    }                                                                                 \
    const OpSchema op_##id = {                                                        \
        .name = #id,                                                                  \
        .summary = #id " (ONNX " #version "): " text,                                 \
        .kind = OP_ATOMIC,                                                            \
        .flags = OP_ELEMENTWISE,                                                      \
        .inputs = OPERANDS({"X", types, 'T', 0}),                                     \
        .outputs = OPERANDS({"Y", types, 'T', 0}),                                    \
        .infer = id##_infer,                                                          \
        .reference = id##_reference,                                                  \
    };
BIT_ROWS(BIT_OP)
