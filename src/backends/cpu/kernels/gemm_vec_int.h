/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors for products of matrices: parts of vectors, squares of numbers. Included by files of kernels/ only. */
#ifndef TENON_BACKENDS_CPU_KERNELS_GEMM_VEC_INT_H
#define TENON_BACKENDS_CPU_KERNELS_GEMM_VEC_INT_H

#include "backends/cpu/kernels/vec_int.h"

#define UNROLL _Pragma("GCC unroll 16")

/* From any address. */
INLINE vf load_columns(const float *p, int64_t n) {
    if (n == VF) return vf_load(p);
    if (VF > 4) return vf_load_n(p, n);
    vf v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}
INLINE void store_columns(float *p, vf v, int64_t n) {
    if (n == VF) vf_store(p, v);
    else vf_store_n(p, v, n);
}

#if TENON_VEC_BYTES == 64
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif TENON_VEC_BYTES == 32
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* Each turn moves one bit of an element's place from its column to its row. */
INLINE void transpose(vf v[VF]) {
    vf w[VF];
    UNROLL for (int turn = 1; turn < VF; turn *= 2) {
        UNROLL for (int i = 0; i < VF / 2; i++) {
            w[2 * i] = INTERLEAVE_LOW(v[i], v[i + VF / 2]);
            w[2 * i + 1] = INTERLEAVE_HIGH(v[i], v[i + VF / 2]);
        }
        UNROLL for (int i = 0; i < VF; i++) v[i] = w[i];
    }
}

#endif
