/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons of two broadcast operands. NaN is equal to nothing and neither less nor greater than anything. */
#include "ops/elementwise_int.h"

/* Of numbers always; of sizes, which are at least 0, against negative numbers; of equal expressions. */
static Dim equal_dim(const InferCtx *c, Dim a, Dim b) {
    if (a == DIM_UNKNOWN || b == DIM_UNKNOWN) return DIM_UNKNOWN;
    if (a == b) return 1;
    if (dim_is_const(a) && dim_is_const(b)) return 0;
    bool apart = (dim_is_const(a) && a < 0 && dim_not_negative(c->dims, b)) ||
                 (dim_is_const(b) && b < 0 && dim_not_negative(c->dims, a));
    return apart ? 0 : DIM_UNKNOWN;
}

static Dim less_dim(const InferCtx *c, Dim a, Dim b) {
    if (a == DIM_UNKNOWN || b == DIM_UNKNOWN) return DIM_UNKNOWN;
    if (dim_is_const(a) && dim_is_const(b)) return a < b;
    if (a == b) return 0;
    if (dim_is_const(a) && a < 0 && dim_not_negative(c->dims, b)) return 1;
    if (dim_is_const(b) && b <= 0 && dim_not_negative(c->dims, a)) return 0;
    return DIM_UNKNOWN;
}

static Dim not_dim(Dim d) { return d == DIM_UNKNOWN ? d : !d; }
static Dim greater_dim(const InferCtx *c, Dim a, Dim b) { return less_dim(c, b, a); }
static Dim less_or_equal_dim(const InferCtx *c, Dim a, Dim b) { return not_dim(less_dim(c, b, a)); }
static Dim greater_or_equal_dim(const InferCtx *c, Dim a, Dim b) { return not_dim(less_dim(c, a, b)); }

static tn_status compare_infer(InferCtx *c, ContentFn fn) {
    TRY(infer_broadcast(c));
    set_dtype(c, 0, TN_BOOL);
    /* contents keep a u64's bits as they are: large ones would compare as negative */
    if (in_dtype(c, 0) != TN_U64) content_binary(c, 0, 1, fn);
    return TN_OK;
}

static void equal_strings(const void *user, void *out, const void *const *in, int64_t n) {
    RcString *const *a = in[0], *const *b = in[1];
    int64_t *y = out;
    (void)user;
    for (int64_t i = 0; i < n; i++) y[i] = str_equal(rc_string_get(a[i]), rc_string_get(b[i]));
}

static tn_status compare_reference(KernelCtx *c, const ElementwiseFns *fns) {
    if (c->in[0]->dtype == TN_STRING) return run_elementwise(c, 2, CLASS_STRING, CLASS_INT, equal_strings, NULL, 10);
    return run_to_int(c, 2, fns, NULL, 1);
}

/* ROW(op, kind, version, types, flags, operator, content, what it is) */
#define COMPARE_ROWS(ROW)                                                                            \
    ROW(Equal, ATOMIC, 19, TS_NUMERIC | TS(TN_BOOL) | TS(TN_STRING), OP_COMMUTATIVE, ==, equal_dim,  \
        "true where a = b")                                                                          \
    ROW(Greater, ATOMIC, 13, TS_NUMERIC, 0, >, greater_dim, "true where a > b")                      \
    ROW(GreaterOrEqual, COMPOSITE, 16, TS_NUMERIC, 0, >=, greater_or_equal_dim, "true where a >= b") \
    ROW(Less, ATOMIC, 13, TS_NUMERIC, 0, <, less_dim, "true where a < b")                            \
    ROW(LessOrEqual, COMPOSITE, 16, TS_NUMERIC, 0, <=, less_or_equal_dim, "true where a <= b")

#define COMPARE_OP(id, kind_, version, types, flag, operator, dim_fn, text)                              \
    CHUNK2(id##_f32, float, int64_t, v operator w)                                                       \
    CHUNK2(id##_f64, double, int64_t, v operator w)                                                      \
    CHUNK2(id##_i64, int64_t, int64_t, v operator w)                                                     \
    CHUNK2(id##_u64, uint64_t, int64_t, v operator w)                                                    \
    static tn_status id##_infer(InferCtx *c) { return compare_infer(c, dim_fn); }                        \
    static tn_status id##_reference(KernelCtx *c) {                                                      \
        const ElementwiseFns fns = {.f32 = id##_f32, .f64 = id##_f64, .i64 = id##_i64, .u64 = id##_u64}; \
        return compare_reference(c, &fns);                                                               \
    }                                                                                                    \
    const OpSchema op_##id = {                                                                           \
        .name = #id,                                                                                     \
        .summary = #id " (ONNX " #version "): " text,                                                    \
        .kind = OP_##kind_,                                                                              \
        .flags = OP_ELEMENTWISE | (flag),                                                                \
        .inputs = OPERANDS({"A", types, 'T', 0}, {"B", types, 'T', 0}),                                  \
        .outputs = OPERANDS({"C", TS(TN_BOOL), 0, 0}),                                                   \
        .infer = id##_infer,                                                                             \
        .reference = id##_reference,                                                                     \
    };
COMPARE_ROWS(COMPARE_OP)
