/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise functions of two broadcast operands that cannot fail: an expression each. */
#include "ops/elementwise_int.h"

static Dim add_dim(const InferCtx *c, Dim a, Dim b) { return dim_add(c->dims, a, b); }
static Dim sub_dim(const InferCtx *c, Dim a, Dim b) { return dim_sub(c->dims, a, b); }
static Dim mul_dim(const InferCtx *c, Dim a, Dim b) { return dim_mul(c->dims, a, b); }

/* Bits and truth values are known of numbers only. */
#define KNOWN(a, b) (dim_is_const(a) && dim_is_const(b))
static Dim and_dim(const InferCtx *c, Dim a, Dim b) { return (void)c, KNOWN(a, b) ? (a & b) : DIM_UNKNOWN; }
static Dim or_dim(const InferCtx *c, Dim a, Dim b) { return (void)c, KNOWN(a, b) ? (a | b) : DIM_UNKNOWN; }
static Dim xor_dim(const InferCtx *c, Dim a, Dim b) { return (void)c, KNOWN(a, b) ? (a ^ b) : DIM_UNKNOWN; }

/* A sum that leaves the element type's range wraps, which sizes as dims do not: only where they cannot is it passed on.
   Small types hold no sizes, so nothing is lost. */
static bool has_sizes(const InferCtx *c) { return in_dtype(c, 0) == TN_I64 || in_dtype(c, 0) == TN_I32; }

static tn_status infer_with(InferCtx *c, bool content, ContentFn fn) {
    TRY(infer_broadcast(c));
    if (content) content_binary(c, 0, 1, fn);
    return TN_OK;
}

#define BINARY_OP(id, version, types, flag, fns, content, dim_fn, text)                                               \
    static tn_status id##_infer(InferCtx *c) { return infer_with(c, content, dim_fn); }                               \
    static tn_status id##_reference(KernelCtx *c) { return run_by_class(c, 2, &(const ElementwiseFns)fns, NULL, 1); } \
    const OpSchema op_##id = {                                                                                        \
        .name = #id,                                                                                                  \
        .summary = #id " (ONNX " #version "): " text,                                                                 \
        .kind = OP_ATOMIC,                                                                                            \
        .flags = OP_ELEMENTWISE | (flag),                                                                             \
        .inputs = OPERANDS({"A", types, 'T', 0}, {"B", types, 'T', 0}),                                               \
        .outputs = OPERANDS({"C", types, 'T', 0}),                                                                    \
        .infer = id##_infer,                                                                                          \
        .reference = id##_reference,                                                                                  \
    };

/* ---- numbers ------------------------------------------------------------------------------------------------- */

/* ROW(op, version, flags, operator, content, what it is) */
#define NUMBER_ROWS(ROW)                                                   \
    ROW(Add, 14, OP_COMMUTATIVE, +, add_dim, "the sum of two tensors")     \
    ROW(Mul, 14, OP_COMMUTATIVE, *, mul_dim, "the product of two tensors") \
    ROW(Sub, 14, 0, -, sub_dim, "the difference of two tensors")

#define NUMBER_FNS(id) \
    { .f32 = id##_f32, .f64 = id##_f64, .i64 = id##_i64 }
#define NUMBER_OP(id, version, flag, operator, dim_fn, text) \
    CHUNK2(id##_f32, float, T, v operator w)                 \
    CHUNK2(id##_f64, double, T, v operator w)                \
    CHUNK2(id##_i64, uint64_t, T, v operator w)              \
    BINARY_OP(id, version, TS_NUMERIC, flag, NUMBER_FNS(id), has_sizes(c), dim_fn, text)
NUMBER_ROWS(NUMBER_OP)

/* ---- bits and truth values ----------------------------------------------------------------------------------- */

/* ROW(op, version, types, operator, content, what it is) */
#define BIT_ROWS(ROW)                                                    \
    ROW(And, 7, TS(TN_BOOL), &, and_dim, "true where both are")          \
    ROW(BitwiseAnd, 18, TS_INT, &, and_dim, "bits that both have")       \
    ROW(BitwiseOr, 18, TS_INT, |, or_dim, "bits that either has")        \
    ROW(BitwiseXor, 18, TS_INT, ^, xor_dim, "bits that one of both has") \
    ROW(Or, 7, TS(TN_BOOL), |, or_dim, "true where either is")           \
    ROW(Xor, 7, TS(TN_BOOL), ^, xor_dim, "true where one of both is")

#define BIT_FNS(id) \
    { .i64 = id##_i64 }
#define BIT_OP(id, version, types, operator, dim_fn, text) \
    CHUNK2(id##_i64, int64_t, T, v operator w)             \
    BINARY_OP(id, version, types, OP_COMMUTATIVE, BIT_FNS(id), true, dim_fn, text)
BIT_ROWS(BIT_OP)
