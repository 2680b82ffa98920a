/* SPDX-License-Identifier: Apache-2.0 */
/* Div (ONNX 14), Mod (ONNX 28). Integers divide towards zero; a zero divisor of an integer is an error. */
#include "ops/elementwise_int.h"

/* Chunk functions cannot fail, so they leave word that a divisor was zero. */
typedef struct Division {
    atomic_bool *by_zero;
} Division;

/* `low / -1` would trap on x86: -1 is done by hand. */
static inline int64_t div_i64(int64_t v, int64_t w) { return w == -1 ? WRAP(0 - bits(v)) : v / w; }
static inline int64_t rem_i64(int64_t v, int64_t w) { return w == -1 ? 0 : v % w; }
static inline int64_t mod_i64(int64_t v, int64_t w) {
    int64_t r = rem_i64(v, w);
    return r != 0 && (r < 0) != (w < 0) ? r + w : r;
}

#define DIVISION(name, X, expr)                                                        \
    static void name(const void *user, void *out, const void *const *in, int64_t n) {  \
        const Division *d = user;                                                      \
        const X *xv = in[0], *xw = in[1];                                              \
        X *y = out;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                              \
            X v = xv[i], w = xw[i];                                                    \
            if (w == 0) atomic_store_explicit(d->by_zero, true, memory_order_relaxed); \
            y[i] = w == 0 ? 0 : (expr);                                                \
        }                                                                              \
    }
DIVISION(div_by_i64, int64_t, div_i64(v, w))
DIVISION(div_by_u64, uint64_t, v / w)
DIVISION(rem_by_i64, int64_t, rem_i64(v, w))
DIVISION(mod_by_i64, int64_t, mod_i64(v, w))
DIVISION(mod_by_u64, uint64_t, v % w)

CHUNK2(div_f32, float, T, v / w)
CHUNK2(div_f64, double, T, v / w)
CHUNK2(rem_f32, float, T, fmod(v, w))
CHUNK2(rem_f64, double, T, fmod(v, w))

/* As numpy's: the remainder moved to the divisor's side of zero; a zero has the divisor's sign. */
#define FLOOR_MOD(T)                      \
    T r = fmod(v, w);                     \
    if (r == 0) return copysign((T)0, w); \
    return (r < 0) != (w < 0) ? r + w : r;
static inline float floor_mod_f32(float v, float w) { FLOOR_MOD(float) }
static inline double floor_mod_f64(double v, double w){FLOOR_MOD(double)} CHUNK2(mod_f32, float, T, floor_mod_f32(v, w))
    CHUNK2(mod_f64, double, T, floor_mod_f64(v, w))

        static tn_status run_division(KernelCtx *c, const ElementwiseFns *fns, double cost) {
    atomic_bool by_zero = false;
    TRY(run_by_class(c, 2, fns, &(Division){&by_zero}, cost));
    return atomic_load(&by_zero) ? fail(TN_OUT_OF_RANGE, "an integer is divided by zero") : TN_OK;
}

static tn_status div_reference(KernelCtx *c) {
    const ElementwiseFns fns = {.f32 = div_f32, .f64 = div_f64, .i64 = div_by_i64, .u64 = div_by_u64};
    return run_division(c, &fns, 2);
}

static tn_status mod_reference(KernelCtx *c) {
    const ElementwiseFns mod = {.f32 = mod_f32, .f64 = mod_f64, .i64 = mod_by_i64, .u64 = mod_by_u64};
    const ElementwiseFns rem = {.f32 = rem_f32, .f64 = rem_f64, .i64 = rem_by_i64, .u64 = mod_by_u64};
    return run_division(c, attr_int(c->node, "fmod") ? &rem : &mod, 5);
}

static Dim div_dim(const InferCtx *c, Dim a, Dim b) { return content_div(c->dims, a, b); }
static Dim mod_dim(const InferCtx *c, Dim a, Dim b) {
    return content_mod(c->dims, a, b, attr_int(c->node, "fmod") != 0);
}

static tn_status divide_infer(InferCtx *c, ContentFn fn) {
    TRY(infer_broadcast(c));
    if (in_dtype(c, 0) != TN_U64) content_binary(c, 0, 1, fn);
    return TN_OK;
}

static tn_status div_infer(InferCtx *c) { return divide_infer(c, div_dim); }
static tn_status mod_infer(InferCtx *c) { return divide_infer(c, mod_dim); }

const OpSchema op_Div = {
    .name = "Div",
    .summary = "Div (ONNX 14): the quotient of two tensors; of integers towards zero",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"A", TS_NUMERIC, 'T', 0}, {"B", TS_NUMERIC, 'T', 0}),
    .outputs = OPERANDS({"C", TS_NUMERIC, 'T', 0}),
    .infer = div_infer,
    .reference = div_reference,
};

const OpSchema op_Mod = {
    .name = "Mod",
    .summary = "Mod (ONNX 28): the remainder, with the divisor's sign, or by fmod the dividend's",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"A", TS_NUMERIC, 'T', 0}, {"B", TS_NUMERIC, 'T', 0}),
    .outputs = OPERANDS({"C", TS_NUMERIC, 'T', 0}),
    .attrs = ATTRIBUTES({"fmod", ATTR_INT, 0, 0, 0, NULL}),
    .infer = mod_infer,
    .reference = mod_reference,
};
