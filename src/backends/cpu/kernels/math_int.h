/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of vectors of float32, right at infinities, NaN, zeros, denormals and the edges of overflow. Their bounds in units
   of the last place are in docs/kernels.md, and a test goes through all float32 values. Included by files of kernels/ only. */
#ifndef TENON_BACKENDS_CPU_KERNELS_MATH_INT_H
#define TENON_BACKENDS_CPU_KERNELS_MATH_INT_H

#include <math.h>

#include "backends/cpu/kernels/vec_int.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef uint32_t vu __attribute__((vector_size(TENON_VEC_BYTES)));

INLINE vi vi_set(int32_t x) { return x - (vi){0}; }
INLINE vf vf_bits(int32_t x) { return (vf)vi_set(x); }
INLINE vf vf_abs(vf x) { return (vf)((vi)x & vi_set(INT32_MAX)); }
/* |x| with the sign of y. */
INLINE vf vf_copysign(vf x, vf y) { return (vf)(((vi)x & vi_set(INT32_MAX)) | ((vi)y & vi_set(INT32_MIN))); }
INLINE vf vf_sqrt(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (vf)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < VF; i++) x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}
/* 1 / x to one unit in the last place, for x and results that are normal numbers. */
INLINE vf vf_inverse(vf x) {
#if defined(__AVX512F__)
    vf y = (vf)_mm512_rcp14_ps((__m512)x);
    return vf_fma(y, vf_fma(-x, y, vf_set(1.0f)), y);
#else
    return 1 / x;
#endif
}
/* Adding and taking away 1.5 * 2^23 rounds to an integer, ties to even; for |x| up to 2^22. */
INLINE vf vf_near(vf x) {
    const vf magic = vf_set(0x1.8p23f);
    return (x + magic) - magic;
}
/* To the nearest integer, ties to even. What is 2^23 or larger is one already, and the sign of zero stays. */
INLINE vf vf_round(vf x) {
    const vf magic = vf_set(0x1p23f);
    vf a = vf_abs(x), r = (a + magic) - magic;
    return vf_select(a < magic, vf_copysign(r, x), x);
}
INLINE vf vf_floor(vf x) {
    vf r = vf_round(x);
    return vf_select(r > x, vf_copysign(r - 1, x), r);
}
INLINE vf vf_ceil(vf x) {
    vf r = vf_round(x);
    return vf_select(r < x, vf_copysign(r + 1, x), r);
}

/* x * 2^n for integers n, -150..128, and |x| within 0.5..2, in two steps so that results which are denormal are rounded once.
   Where n is NaN so is x. */
INLINE vf vf_scale(vf x, vf n) {
#if defined(__AVX512F__)
    return (vf)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
    vi k = __builtin_convertvector(n, vi), half = k >> 1;
    vf first = (vf)((vu)(half + 127) << 23), second = (vf)((vu)(k - half + 127) << 23);
    return x * first * second;
#endif
}

#define LOG2_E 0x1.715476p0f
/* ln 2 in two parts, the first of few bits so that its products with integers up to 2^8 are exact. */
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f

/* n and the rest r of x = n ln 2 + r. */
INLINE vf exp_reduce(vf x, vf *n) {
    *n = vf_near(x * LOG2_E);
    return vf_fma(*n, vf_set(-LN2_LOW), vf_fma(*n, vf_set(-LN2_HIGH), x));
}

/* The bounds let results overflow to infinity and vanish; NaN passes them. */
INLINE vf vf_exp(vf x) {
    x = vf_min(vf_set(88.8f), vf_max(vf_set(-104.0f), x));
    vf n, r = exp_reduce(x, &n);
    vf p = vf_fma(vf_set(0x1.6d7520p-10f), r, vf_set(0x1.123be2p-7f));
    p = vf_fma(p, r, vf_set(0x1.555470p-5f));
    p = vf_fma(p, r, vf_set(0x1.5554a6p-3f));
    p = vf_fma(p, r, vf_set(0.5f));
    p = vf_fma(p, r * r, r) + 1;
    return vf_scale(p, n);
}

/* e^x - 1, accurate also around 0. */
INLINE vf vf_expm1(vf x) {
    x = vf_min(vf_set(88.8f), vf_max(vf_set(-30.0f), x));
    vf n, r = exp_reduce(x, &n);
    vf p = vf_set(1.9913705e-4f);
    p = vf_fma(p, r, vf_set(1.39411166e-3f));
    p = vf_fma(p, r, vf_set(8.33327416e-3f));
    p = vf_fma(p, r, vf_set(4.16663550e-2f));
    p = vf_fma(p, r, vf_set(1.66666672e-1f));
    p = vf_fma(p, r, vf_set(0.5f));
    p = vf_fma(p, r * r, r);
    vi k = __builtin_convertvector(n, vi); /* 2^k / 2, since 2^128 is none */
    vf half = (vf)((vu)(k + 126) << 23);
    vf y = vf_fma(half, p, half - 0.5f) * 2;
    return vf_select(x != x, x, y);
}

INLINE vf vf_log(vf x) {
    vi tiny = x < 0x1p-126f;
    vf y = vf_select(tiny, x * 0x1p23f, x);
    vi at_half = (vi)((vu)y - 0x3f3504f3u); /* bits above those of sqrt(1/2) */
    vi k = at_half >> 23;
    vf f = (vf)((at_half & 0x7fffff) + 0x3f3504f3) - 1;
    vf e = __builtin_convertvector(k + (tiny & -23), vf), square = f * f;
    vf p = vf_set(6.9151468e-2f);
    p = vf_fma(p, f, vf_set(-1.1789695e-1f));
    p = vf_fma(p, f, vf_set(1.1873017e-1f));
    p = vf_fma(p, f, vf_set(-1.2384370e-1f));
    p = vf_fma(p, f, vf_set(1.4218655e-1f));
    p = vf_fma(p, f, vf_set(-1.6669250e-1f));
    p = vf_fma(p, f, vf_set(2.0002227e-1f));
    p = vf_fma(p, f, vf_set(-2.4999987e-1f));
    p = vf_fma(p, f, vf_set(3.3333310e-1f));
    p = p * f * square;
    p = vf_fma(e, vf_set(LN2_LOW), p);
    p = vf_fma(square, vf_set(-0.5f), p);
    vf r = vf_fma(e, vf_set(LN2_HIGH), f + p);
    vf other = vf_select(x == 0, vf_set(-INFINITY), vf_select(x > 0, x, vf_set(NAN)));
    return vf_select((x > 0) & (x < INFINITY), r, other);
}

/* ln(1 + x) for x >= 0: the error of 1 + x is made good by the quotient of what was meant and what it is. */
INLINE vf vf_log1p(vf x) {
    vf u = 1 + x, d = u - 1;
    return vf_select(d == 0, x, vf_log(u) * (x / d));
}

/* 1 / (1 + e^-x), from e^-|x| which never overflows. */
INLINE vf vf_sigmoid(vf x) {
    vf e = vf_exp(-vf_abs(x)), q = vf_inverse(1 + e);
    return vf_select(x >= 0, q, e * q);
}

/* An odd quotient of polynomials; from 9 on the function is 1 to the last place. */
INLINE vf vf_tanh(vf x) {
    vf s = x * x;
    vf p = vf_set(1.33546685e-8f), q = vf_set(7.77656112e-7f);
    p = vf_fma(p, s, vf_set(2.06090881e-5f));
    q = vf_fma(q, s, vf_set(3.28563532e-4f));
    p = vf_fma(p, s, vf_set(3.49558843e-3f));
    q = vf_fma(q, s, vf_set(2.58769840e-2f));
    p = vf_fma(p, s, vf_set(1.33810252e-1f));
    q = vf_fma(q, s, vf_set(4.67143416e-1f));
    p = vf_fma(p, s, vf_set(1.0f));
    q = vf_fma(q, s, vf_set(1.0f));
    vf y = vf_min(vf_set(1.0f), vf_abs(x * p * vf_inverse(q)));
    y = vf_select(vf_abs(x) > 9.0f, vf_set(1.0f), y);
    return vf_copysign(y, x);
}

/* e^(z^2) times erfc(z) for z >= 0. */
INLINE vf erfc_scaled(vf z) {
    vf t = vf_inverse(vf_fma(vf_min(vf_set(1e4f), z), vf_set(0.5f), vf_set(1.0f)));
    vf p = vf_set(0.035767145454883575f);
    p = vf_fma(p, t, vf_set(-0.19103358685970306f));
    p = vf_fma(p, t, vf_set(0.3814200460910797f));
    p = vf_fma(p, t, vf_set(-0.2895924150943756f));
    p = vf_fma(p, t, vf_set(-0.02195998653769493f));
    p = vf_fma(p, t, vf_set(0.03540581837296486f));
    p = vf_fma(p, t, vf_set(0.05487794429063797f));
    p = vf_fma(p, t, vf_set(0.18559494614601135f));
    p = vf_fma(p, t, vf_set(0.2451791614294052f));
    p = vf_fma(p, t, vf_set(0.28225240111351013f));
    p = vf_fma(p, t, vf_set(0.2820885181427002f));
    return p * t;
}

/* Up to 1 a polynomial; above, 1 - e^-p with another. */
INLINE vf vf_erf(vf x) {
    vf a = vf_min(vf_set(4.0f), vf_abs(x)), s = x * x;
    vf p = vf_set(7.853857823647559e-5f);
    p = vf_fma(p, s, vf_set(-8.010192541405559e-4f));
    p = vf_fma(p, s, vf_set(5.188327748328447e-3f));
    p = vf_fma(p, s, vf_set(-0.026853810995817184f));
    p = vf_fma(p, s, vf_set(0.1128358542919159f));
    p = vf_fma(p, s, vf_set(-0.3761262595653534f));
    p = vf_fma(p, s, vf_set(1.1283791065216064f));
    vf q = vf_set(-2.159402793040499e-4f);
    q = vf_fma(q, a, vf_set(3.2310201786458492e-3f));
    q = vf_fma(q, a, vf_set(-0.02294127829372883f));
    q = vf_fma(q, a, vf_set(0.10534150898456573f));
    q = vf_fma(q, a, vf_set(0.6356582045555115f));
    q = vf_fma(q, a, vf_set(1.1285320520401f));
    vf far = vf_copysign(1 - vf_exp(-q * a), x);
    return vf_select(a > 1, far, p * x);
}

/* x/2 erfc(-x/sqrt 2): below zero from the tail itself, which the difference to 1 would lose. */
INLINE vf vf_gelu(vf x) {
    vf h = x * 0.5f, z = vf_abs(x) * 0x1.6a09e6p-1f;
    vf tail = vf_exp(x * h * -1.0f) * erfc_scaled(z);
    return h * vf_select(x > 0, 2 - tail, tail);
}
/* x/2 (1 + tanh u) is x sigmoid(2 u). */
INLINE vf vf_gelu_tanh(vf x) {
    vf u = x * vf_fma(x * x, vf_set(0.071354816f), vf_set(1.59576912f));
    return x * vf_sigmoid(u);
}
INLINE vf vf_softplus(vf x) { return vf_log1p(vf_exp(-vf_abs(x))) + vf_select(x > 0, x, vf_set(0)); }
/* x tanh(ln(1 + e^x)) is x (e^2 + 2e) / (e^2 + 2e + 2) with e = e^x, which is x itself from 20 on. */
INLINE vf vf_mish(vf x) {
    vf e = vf_exp(vf_min(vf_set(20.0f), x)), n = e * (e + 2);
    return x * (n / (n + 2));
}

/* ---- in double --------------------------------------------------------------------------------------------------- */

enum { VD = VF / 2 };
typedef double vd __attribute__((vector_size(TENON_VEC_BYTES)));
typedef int64_t vl __attribute__((vector_size(TENON_VEC_BYTES)));
typedef uint64_t vw __attribute__((vector_size(TENON_VEC_BYTES)));
typedef float vh __attribute__((vector_size(TENON_VEC_BYTES / 2)));

INLINE vd vd_set(double x) { return x - (vd){0}; }
INLINE vd vd_half_of(vf x, int half) {
    vh part;
    memcpy(&part, (const char *)&x + half * (int)sizeof part, sizeof part);
    return __builtin_convertvector(part, vd);
}
INLINE vf vf_of_halves(vd low, vd high) {
    vh part[2] = {__builtin_convertvector(low, vh), __builtin_convertvector(high, vh)};
    vf x;
    memcpy(&x, part, sizeof x);
    return x;
}
INLINE vd vd_near(vd x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* log2 of positive normal numbers, to 1e-11 of itself: from (m - 1) / (m + 1) for m within sqrt(1/2)..sqrt(2). */
INLINE vd vd_log2(vd x) {
    vl at_half = (vl)((vw)x - 0x3fe6a09e667f3bcdu);
    vl k = at_half >> 52;
    vd m = (vd)((at_half & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);
    vd e = (vd)((k & 0xfff) | 0x4330000000000000) - 0x1p52; /* k modulo 2^12 as a number */
    e = e - (vd)((vl)(e >= 2048.0) & (vl)vd_set(4096.0));
    vd s = (m - 1) / (m + 1), q = s * s;
    vd p = q * (1.0 / 15) + 1.0 / 13;
    p = p * q + 1.0 / 11;
    p = p * q + 1.0 / 9;
    p = p * q + 1.0 / 7;
    p = p * q + 1.0 / 5;
    p = p * q + 1.0 / 3;
    p = p * q + 1.0;
    return e + p * s * (2 * 1.44269504088896340736);
}
/* 2^x for |x| up to 1000, to 1e-11. */
INLINE vd vd_exp2(vd x) {
    vd n = vd_near(x), r = (x - n) * 0.69314718055994530942;
    vd p = r * (1.0 / 362880) + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    vw k = ((vw)(n + 0x1.8p52) - (vw)vd_set(0x1.8p52)) << 52;
    return (vd)((vw)p + k);
}
INLINE vd vd_pow(vd x, vd y) {
    vd power = y * vd_log2(x);
    power = (vd)(((vl)(power > 200.0) & (vl)vd_set(200.0)) | ((vl)(power <= 200.0) & (vl)power));
    power = (vd)(((vl)(power < -200.0) & (vl)vd_set(-200.0)) | ((vl)(power >= -200.0) & (vl)power));
    return vd_exp2(power);
}
/* Positive finite bases here; others, which are rare, one by one. */
INLINE vf vf_pow(vf x, vf y) {
    vi plain = (x > 0) & (x < INFINITY) & (vf_abs(y) < INFINITY);
    vf r = vf_of_halves(vd_pow(vd_half_of(x, 0), vd_half_of(y, 0)), vd_pow(vd_half_of(x, 1), vd_half_of(y, 1)));
    if (!vi_any(~plain)) return r;
    for (int i = 0; i < VF; i++)
        if (!plain[i]) r[i] = powf(x[i], y[i]);
    return r;
}

/* The rest of x = q pi/2 + r, and q modulo 4; for |x| up to 2^20, where q times the first
   part of pi/2 is exact. */
INLINE vd quarter_reduce(vd x, vd *q) {
    *q = vd_near(x * 0.63661977236758134308);
    vd r = x - *q * 0x1.921fb544p0;
    return r - *q * 0x1.0b4611a626331p-34;
}
/* Sine (quarters 0) or cosine (quarters 1). */
INLINE vf vf_sin_shifted(vf x, int quarters) {
    vd q[2];
    vd low = quarter_reduce(vd_half_of(x, 0), &q[0]), high = quarter_reduce(vd_half_of(x, 1), &q[1]);
    vf r = vf_of_halves(low, high), s = r * r;
    vi turn = __builtin_convertvector(vf_of_halves(q[0], q[1]), vi) + quarters;
    vf a = vf_set(2.71811842e-6f);
    a = vf_fma(a, s, vf_set(-1.98393348e-4f));
    a = vf_fma(a, s, vf_set(8.33332896e-3f));
    a = vf_fma(a, s, vf_set(-1.66666666e-1f));
    a = vf_fma(a * s, r, r);
    vf b = vf_set(2.44332571e-5f);
    b = vf_fma(b, s, vf_set(-1.38873162e-3f));
    b = vf_fma(b, s, vf_set(4.16666456e-2f));
    b = vf_fma(b, s, vf_set(-0.5f));
    b = vf_fma(b, s, vf_set(1.0f));
    vf y = vf_select((turn & 1) != 0, b, a);
    return (vf)((vu)y ^ ((vu)(turn & 2) << 30));
}
INLINE vf vf_sin(vf x) {
    vf y = vf_sin_shifted(x, 0);
    vi far = ~(vf_abs(x) < 0x1p20f);
    if (!vi_any(far)) return y;
    for (int i = 0; i < VF; i++)
        if (far[i]) y[i] = sinf(x[i]);
    return y;
}
INLINE vf vf_cos(vf x) {
    vf y = vf_sin_shifted(x, 1);
    vi far = ~(vf_abs(x) < 0x1p20f);
    if (!vi_any(far)) return y;
    for (int i = 0; i < VF; i++)
        if (far[i]) y[i] = cosf(x[i]);
    return y;
}

#endif
