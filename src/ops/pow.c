/* SPDX-License-Identifier: Apache-2.0 */
/* Pow (ONNX 15): x to the power of y, in x's element type; y may have another. */
#include "ops/elementwise_int.h"

/* By squaring, wrapping. A negative power is 1/x^-y towards zero, 0 for x = 0. */
static int64_t pow_i64(int64_t x, int64_t y) {
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t result = 1, factor = bits(x);
    for (uint64_t left = bits(y); left; left >>= 1) {
        if (left & 1) result *= factor;
        factor *= factor;
    }
    return WRAP(result);
}

CHUNK2(pow_ints, int64_t, T, pow_i64(v, w))
/* Squares are what models mostly ask for. */
CHUNK2(pow_f32, float, T, w == 2 ? v * v : pow(v, w))
CHUNK2(pow_f64, double, T, w == 2 ? v * v : pow(v, w))

/* A u64's power can be beyond i64: its parity and that it is not negative are what counts, so halve it. */
static void pow_ints_u64(const void *user, void *out, const void *const *in, int64_t n) {
    const int64_t *x = in[0], *y = in[1];
    int64_t *z = out;
    (void)user;
    for (int64_t i = 0; i < n; i++)
        z[i] = y[i] >= 0 ? pow_i64(x[i], y[i])
                         : WRAP(bits(pow_i64(WRAP(bits(x[i]) * bits(x[i])), WRAP(bits(y[i]) >> 1))) *
                                bits(y[i] & 1 ? x[i] : 1));
}

/* Integers to a float power: exact, and wrapping, where the power is a natural number; else rounded towards zero, and
   beyond the type's range (`user`: its end) the lowest number, as conversions have it. */
static void pow_int_float(const void *user, void *out, const void *const *in, int64_t n) {
    const int64_t *x = in[0];
    const double *y = in[1];
    int64_t *z = out;
    double end = *(const double *)user;
    for (int64_t i = 0; i < n; i++) {
        bool natural = y[i] >= 0 && y[i] < 0x1p62 && y[i] == floor(y[i]);
        double power = natural ? 0 : pow((double)x[i], y[i]);
        if (natural) z[i] = pow_i64(x[i], (int64_t)y[i]);
        else z[i] = fabs(power) < end ? (int64_t)power : (int64_t)-end;
    }
}

static tn_status pow_run(KernelCtx *c, Class x, Class y, Class z, ChunkFn fn) {
    double end = c->in[0]->dtype == TN_I32 ? 0x1p31 : 0x1p63;
    return run_elementwise_on(c, 2, c->in, (const Class[]){x, y}, &c->out[0], z, fn, &end, 10);
}

static tn_status pow_reference(KernelCtx *c) {
    Class x = class_of(c->in[0]->dtype), y = class_of(c->in[1]->dtype);
    if (x == CLASS_INT && y == CLASS_INT)
        return pow_run(c, x, y, x, c->in[1]->dtype == TN_U64 ? pow_ints_u64 : pow_ints);
    if (x == CLASS_INT) return pow_run(c, x, CLASS_F64, x, pow_int_float);
    if (x == CLASS_F32 && y == CLASS_F32) return pow_run(c, x, y, x, pow_f32);
    return pow_run(c, CLASS_F64, CLASS_F64, CLASS_F64, pow_f64);
}

#define BASES (TS_FLOAT | TS(TN_I32) | TS(TN_I64))

const OpSchema op_Pow = {
    .name = "Pow",
    .summary = "Pow (ONNX 15): x to the power of y, in x's element type",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"X", BASES, 'T', 0}, {"Y", TS_NUMERIC, 0, 0}),
    .outputs = OPERANDS({"Z", BASES, 'T', 0}),
    .infer = infer_broadcast,
    .reference = pow_reference,
};
