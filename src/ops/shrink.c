/* SPDX-License-Identifier: Apache-2.0 */
/* Shrink (ONNX 9): x + bias below -lambd, x - bias above lambd, else 0; NaN gives 0. Integers stay integers: the
   thresholds and the bias, which are floats, are rounded so that no integer passes through a float. */
#include "ops/elementwise_int.h"

#define F_EXPR v<-(T)p->b ? v + (T)p->a : v>(T) p->b ? v - (T)p->a : 0
CHUNK1(shrink_f32, float, T, F_EXPR)
CHUNK1(shrink_f64, double, T, F_EXPR)

static int64_t clamp_i64(double v) { return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v; }
static uint64_t clamp_u64(double v) { return v >= 0x1p64 ? UINT64_MAX : v < 0 ? 0 : (uint64_t)v; }

/* x + whole + part, 0 <= part < 1, towards zero. */
static inline int64_t add_trunc(int64_t x, double bias) {
    double whole = floor(bias);
    int64_t sum = WRAP(bits(x) + bits(clamp_i64(whole)));
    return sum < 0 && bias > whole ? sum + 1 : sum;
}

static void shrink_i64(const void *user, void *y, const void *const *in, int64_t n) {
    const Params *p = user;
    const int64_t *x = in[0];
    double low = ceil(-p->b), high = floor(p->b); /* x < -lambd is x < low; x > lambd is x > high */
    int64_t below = clamp_i64(low), above = clamp_i64(high);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = x[i];
        ((int64_t *)y)[i] = v < below ? add_trunc(v, p->a) : v > above || high < -0x1p63 ? add_trunc(v, -p->a) : 0;
    }
}

static void shrink_u64(const void *user, void *y, const void *const *in, int64_t n) {
    const Params *p = user;
    const int64_t *x = in[0];
    double low = ceil(-p->b), high = floor(p->b);
    uint64_t below = clamp_u64(low), above = clamp_u64(high);
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = bits(x[i]);
        double bias = v < below ? p->a : v > above || high < 0 ? -p->a : 0;
        bool kept = v < below || v > above || high < 0;
        ((int64_t *)y)[i] = kept ? WRAP(v + bits(clamp_i64(floor(bias)))) : 0;
    }
}

static tn_status shrink_reference(KernelCtx *c) {
    const Params p = {attr_float(c->node, "bias"), attr_float(c->node, "lambd")};
    const ElementwiseFns fns = {.f32 = shrink_f32, .f64 = shrink_f64, .i64 = shrink_i64, .u64 = shrink_u64};
    return run_by_class(c, 1, &fns, &p, 1);
}

const OpSchema op_Shrink = {
    .name = "Shrink",
    .summary = "Shrink (ONNX 9): towards zero by bias, zero within -lambd..lambd",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"input", TS_NUMERIC, 'T', 0}),
    .outputs = OPERANDS({"output", TS_NUMERIC, 'T', 0}),
    .attrs = ATTRIBUTES({"bias", ATTR_FLOAT, 0, 0, 0, NULL}, {"lambd", ATTR_FLOAT, 0, 0, 0.5, NULL}),
    .reference = shrink_reference,
};
