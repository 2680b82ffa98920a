/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 16, 8 and 4 bits. */
#include "base/half_int.h"

#include <math.h>

float f16_to_f32(uint16_t h) { return f16_to_f32_inline(h); }
uint16_t f32_to_f16(float f) { return f32_to_f16_inline(f); }
float bf16_to_f32(uint16_t h) { return bf16_to_f32_inline(h); }
uint16_t f32_to_bf16(float f) { return f32_to_bf16_inline(f); }

/* ---- any small binary float ---------------------------------------------------------------------------------- */

typedef struct Format {
    int mantissa, bias; /* bits, and what is added to the exponent */
    uint32_t sign;      /* the sign's bit */
    uint32_t largest;   /* the code of the largest finite number */
    uint32_t infinity;  /* its code; the NaN's where there is none */
    uint32_t nan;
    bool fnuz; /* no -0: its code is the only NaN */
} Format;

static const Format f16_format = {10, 15, 0x8000, 0x7bff, 0x7c00, 0x7e00, false};
static const Format bf16_format = {7, 127, 0x8000, 0x7f7f, 0x7f80, 0x7fc0, false};
static const Format small_formats[TN_DTYPE_END] = {
    [TN_F8E4M3FN] = {3, 7, 0x80, 0x7e, 0x7f, 0x7f, false}, [TN_F8E4M3FNUZ] = {3, 8, 0x80, 0x7f, 0x80, 0x80, true},
    [TN_F8E5M2] = {2, 15, 0x80, 0x7b, 0x7c, 0x7e, false},  [TN_F8E5M2FNUZ] = {2, 16, 0x80, 0x7f, 0x80, 0x80, true},
    [TN_F4E2M1] = {1, 1, 0x8, 0x7, 0x7, 0x8, false}, /* no NaN: -0 stands for it, as in ml_dtypes */
};

/* The code of a finite magnitude, rounded to nearest with ties to even, as if there were no largest number: the carry
   of a mantissa that rounds up runs into the exponent by itself. */
static uint64_t round_magnitude(const Format *f, uint64_t bits) {
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023 + f->bias;
    uint64_t significand = (bits & 0xfffffffffffffu) | 1ull << 52;
    if (bits == 0) return 0;
    int shift = 52 - f->mantissa + (exponent < 1 ? 1 - exponent : 0);
    if (shift > 54) return 0; /* less than half of the smallest; subnormal doubles too */
    uint64_t kept = significand >> shift, rest = significand & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
    return exponent < 1 ? kept : ((uint64_t)(exponent - 1) << f->mantissa) + kept;
}

static uint32_t encode(const Format *f, double value, bool saturate) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 63 ? f->sign : 0;
    if (value != value) return sign | f->nan;
    uint64_t code = isinf(value) ? UINT64_MAX : round_magnitude(f, bits & INT64_MAX);
    if (code > f->largest) return sign | (saturate ? f->largest : f->infinity);
    return code == 0 && f->fnuz ? 0 : sign | (uint32_t)code;
}

uint16_t f64_to_f16(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return f32_to_f16((float)value); /* with its payload */
    return (uint16_t)encode(&f16_format, value, false);
}

uint16_t f64_to_bf16(double value) {
    if (value != value) return f32_to_bf16((float)value);
    return (uint16_t)encode(&bf16_format, value, false);
}

double f64_odd_from_i64(int64_t value) {
    uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
    if (magnitude >> 53) magnitude = (magnitude & ~0xfffull) | (magnitude & 0xfff ? 0x800 : 0);
    return value < 0 ? -(double)magnitude : (double)magnitude;
}

/* E8M0 is an exponent: powers of two from 2^-127 to 2^127, no sign, no zero; 255 is the NaN. Rounds up, which is the
   default of ONNX's Cast. Zero and infinity are the least and the greatest power when saturating, else NaN. */
static uint8_t encode_exponent(double value, bool saturate) {
    enum { LARGEST = 254, NAN_CODE = 255 };
    int exponent;
    if (value != value || value < 0) return NAN_CODE;
    if (isinf(value)) return saturate ? LARGEST : NAN_CODE;
    double fraction = frexp(value, &exponent); /* value = fraction * 2^exponent, fraction in [0.5, 1) */
    int code = exponent + 127 - (fraction == 0.5);
    if (code > LARGEST) return saturate ? LARGEST : NAN_CODE;
    if (value < 0x1p-127) return saturate ? 0 : NAN_CODE;
    return (uint8_t)code;
}

uint8_t small_float_encode(tn_dtype dtype, double value, bool saturate) {
    if (dtype == TN_F8E8M0) return encode_exponent(value, saturate);
    assert(small_formats[dtype].mantissa > 0);
    /* Four bits have no room for an infinity: ONNX lets them saturate always. */
    return (uint8_t)encode(&small_formats[dtype], value, saturate || dtype == TN_F4E2M1);
}

static float decode(const Format *f, uint32_t bits) {
    uint32_t magnitude = bits & (f->sign - 1), mantissa = magnitude & ((1u << f->mantissa) - 1);
    uint32_t exponent = magnitude >> f->mantissa;
    uint32_t normal = (exponent - (uint32_t)f->bias + 127) << 23 | mantissa << (23 - f->mantissa);
    float subnormal = (float)mantissa * f32_of_bits((uint32_t)(127 + 1 - f->bias - f->mantissa) << 23);
    uint32_t sign = bits & f->sign ? 0x80000000u : 0;
    return f32_of_bits((exponent == 0 ? bits_of_f32(subnormal) : normal) | sign);
}

float small_float_decode(tn_dtype dtype, uint8_t bits) {
    static const uint32_t nan = 0x7fc00000u, infinity = 0x7f800000u;
    if (dtype == TN_F8E8M0) return f32_of_bits(bits == 255 ? nan : bits == 0 ? 0x00400000u : (uint32_t)bits << 23);
    const Format *f = &small_formats[dtype];
    assert(f->mantissa > 0);
    uint32_t magnitude = bits & (f->sign - 1), sign = bits & f->sign ? 0x80000000u : 0;
    if (f->fnuz && bits == f->nan) return f32_of_bits(nan);
    if (magnitude <= f->largest) return decode(f, bits);
    return f32_of_bits(sign | (magnitude == f->infinity && f->infinity != f->nan ? infinity : nan));
}
