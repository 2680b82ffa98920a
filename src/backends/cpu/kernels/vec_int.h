/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of float32 of this level's width. Included by files of kernels/ only. */
#ifndef TENON_BACKENDS_CPU_KERNELS_VEC_INT_H
#define TENON_BACKENDS_CPU_KERNELS_VEC_INT_H

#include "backends/cpu/isa_int.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef TENON_VEC_BYTES
#error "compiled once for each instruction set: see cmake/Kernels.cmake"
#endif

enum { VF = TENON_VEC_BYTES / 4 }; /* floats of a vector */
typedef float vf __attribute__((vector_size(TENON_VEC_BYTES)));
typedef int32_t vi __attribute__((vector_size(TENON_VEC_BYTES)));

#define INLINE static inline __attribute__((always_inline))

/* Data may be a mapped constant, which can lie at any byte. */
INLINE float float_at(const float *p) {
    float x;
    memcpy(&x, p, sizeof x);
    return x;
}

INLINE vf vf_load(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void vf_store(float *p, vf v) { memcpy(p, &v, sizeof v); }
/* Has v in a register. */
#if defined(__x86_64__)
#define VF_KEEP(v) __asm__("" : "+v"(v))
#else
#define VF_KEEP(v) (void)(v)
#endif
/* Has a pointer in a register of its own. */
#define POINTER_KEEP(p) __asm__("" : "+r"(p))
INLINE vf vf_set(float x) { return x - (vf){0}; }

/* The first n of VF; the others are 0 and are not read. */
INLINE vf vf_load_n(const float *p, int64_t n) {
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif defined(__AVX2__)
    const __m256i at = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (vf)_mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), at));
#else
    vf v = {0};
    for (int64_t i = 0; i < n; i++) {
        float x; /* p may lie askew */
        memcpy(&x, p + i, sizeof x);
        v[i] = x;
    }
    return v;
#endif
}
INLINE void vf_store_n(float *p, vf v, int64_t n) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif defined(__AVX2__)
    const __m256i at = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), at), (__m256)v);
#else
    for (int64_t i = 0; i < n; i++) p[i] = v[i];
#endif
}

/* Bits of a where the mask is set, else of b. Masks are what comparisons give: all bits or none. */
INLINE vf vf_select(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
#if defined(__AVX2__)
/* Elements `from` of x, which are below VF. */
#define VF_PICKS
INLINE vf vf_pick(vf x, vi from) {
#if defined(__AVX512F__)
    return (vf)_mm512_permutexvar_ps((__m512i)from, (__m512)x);
#else
    return (vf)_mm256_permutevar8x32_ps((__m256)x, (__m256i)from);
#endif
}
#endif
/* As C's a > b ? a : b. With a NaN in a: b. */
INLINE vf vf_max(vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vf_select(a > b, a, b);
#endif
}
INLINE vf vf_min(vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
    return vf_select(a < b, a, b);
#endif
}
/* a * b + c, in one rounding where the processor can. */
INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; }

#if defined(__AVX512F__)
/* Half a vector takes half the time where a processor makes a whole one in two halves. */
#define VF_HALVES
enum { VH = VF / 2 };
typedef float vh __attribute__((vector_size(TENON_VEC_BYTES / 2)));
INLINE vh vh_load(const float *p) {
    vh v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void vh_store(float *p, vh v) { memcpy(p, &v, sizeof v); }
INLINE vh vh_set(float x) { return x - (vh){0}; }
INLINE vh vh_max(vh a, vh b) { return (vh)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vh vh_min(vh a, vh b) { return (vh)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vh vh_fma(vh a, vh b, vh c) { return a * b + c; }
#endif

/* Whether a mask is set anywhere. */
INLINE bool vi_any(vi mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
    int any = 0;
    for (int i = 0; i < VF; i++) any |= mask[i];
    return any != 0;
#endif
}

/* The sum in an order that depends on the width alone. */
INLINE float vf_sum(vf v) {
    float sum = 0;
    for (int i = 0; i < VF; i++) sum += v[i];
    return sum;
}

/* A product that is not contracted with a sum behind it: it rounds as one by itself. */
INLINE vf rounded(vf v) {
#if defined(__x86_64__)
    __asm__("" : "+v"(v));
#elif defined(__aarch64__)
    __asm__("" : "+w"(v));
#endif
    return v;
}

#endif
