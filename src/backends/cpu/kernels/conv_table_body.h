/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of convolutions, for every number of pixels and every width that the registers hold, and the TABLE of them. TILE_BODY is
   the file with one of them; ROWS_3 the most pixels by one vector and a half, 7 or 12. */
#define TILE_NAME_(rows, width) tile_##rows##_##width
#define TILE_NAME(rows, width) TILE_NAME_(rows, width)

/* So that the sums stay in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* The sums take ROWS * NV registers (and as many halves as rows); the weights of one k NV more, and one a datum. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define REGISTERS 32
#else
#define REGISTERS 16
#endif

/* The first n of VF, which are mostly all. */
INLINE void store_last(float *y, vf v, int64_t n) {
#if !defined(__AVX512F__)
    if (n == VF) {
        vf_store(y, v);
        return;
    }
#endif
    vf_store_n(y, v, n);
}

#if defined(__AVX512F__)
enum { UNIT = VH };
INLINE vh vh_of(vf v) { return (vh)_mm512_castps512_ps256((__m512)v); }
INLINE vf vf_of(vh v) { return (vf)_mm512_zextps256_ps512((__m256)v); }
INLINE vf vf_join(vh low, vh high) {
    return (vf)_mm512_insertf32x8(_mm512_castps256_ps512((__m256)low), (__m256)high, 1);
}
#define WIDTH 1
#define NV 0
#define HALF 1
#define MOST_ROWS 12
#include "backends/cpu/kernels/conv_tiles_body.h"
#define WIDTH 2
#define NV 1
#define HALF 0
#define MOST_ROWS 12
#include "backends/cpu/kernels/conv_tiles_body.h"
#define WIDTH 3
#define NV 1
#define HALF 1
#define MOST_ROWS ROWS_3
#include "backends/cpu/kernels/conv_tiles_body.h"
#define WIDTH 4
#define NV 2
#define HALF 0
#define MOST_ROWS 12
#include "backends/cpu/kernels/conv_tiles_body.h"
#define WIDTH 5
#define NV 2
#define HALF 1
#define MOST_ROWS 8
#include "backends/cpu/kernels/conv_tiles_body.h"
#define WIDTH 6
#define NV 3
#define HALF 0
#define MOST_ROWS 8
#include "backends/cpu/kernels/conv_tiles_body.h"
#define WIDTH 7
#define NV 3
#define HALF 1
#define MOST_ROWS 6
#include "backends/cpu/kernels/conv_tiles_body.h"
#define WIDTH 8
#define NV 4
#define HALF 0
#define MOST_ROWS 6
#include "backends/cpu/kernels/conv_tiles_body.h"
#else
enum { UNIT = VF };
#define WIDTH 1
#define NV 1
#define HALF 0
#define MOST_ROWS (REGISTERS == 32 ? 12 : 8)
#include "backends/cpu/kernels/conv_tiles_body.h"
#define WIDTH 2
#define NV 2
#define HALF 0
#define MOST_ROWS (REGISTERS == 32 ? 12 : 6)
#include "backends/cpu/kernels/conv_tiles_body.h"
#if REGISTERS == 32
#define WIDTH 3
#define NV 3
#define HALF 0
#define MOST_ROWS 8
#include "backends/cpu/kernels/conv_tiles_body.h"
#define WIDTH 4
#define NV 4
#define HALF 0
#define MOST_ROWS 6
#include "backends/cpu/kernels/conv_tiles_body.h"
#endif
#endif

const ConvTable ISA_NAME(TABLE) = {
    .vector = VF,
    .unit = UNIT,
#if defined(__AVX512F__)
    .most = 8,
    .rows = {0, 12, 12, ROWS_3, 12, 8, 8, 6, 6},
    .tile = {{NULL},
             {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, tile_7_1, tile_8_1, tile_9_1, tile_10_1,
              tile_11_1, tile_12_1},
             {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, tile_7_2, tile_8_2, tile_9_2, tile_10_2,
              tile_11_2, tile_12_2},
             {NULL, tile_1_3, tile_2_3, tile_3_3, tile_4_3, tile_5_3, tile_6_3, tile_7_3,
#if ROWS_3 == 12
              tile_8_3, tile_9_3, tile_10_3, tile_11_3, tile_12_3
#endif
             },
             {NULL, tile_1_4, tile_2_4, tile_3_4, tile_4_4, tile_5_4, tile_6_4, tile_7_4, tile_8_4, tile_9_4, tile_10_4,
              tile_11_4, tile_12_4},
             {NULL, tile_1_5, tile_2_5, tile_3_5, tile_4_5, tile_5_5, tile_6_5, tile_7_5, tile_8_5},
             {NULL, tile_1_6, tile_2_6, tile_3_6, tile_4_6, tile_5_6, tile_6_6, tile_7_6, tile_8_6},
             {NULL, tile_1_7, tile_2_7, tile_3_7, tile_4_7, tile_5_7, tile_6_7},
             {NULL, tile_1_8, tile_2_8, tile_3_8, tile_4_8, tile_5_8, tile_6_8}},
#elif REGISTERS == 32
    .most = 4,
    .rows = {0, 12, 12, 8, 6},
    .tile = {{NULL},
             {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, tile_7_1, tile_8_1, tile_9_1, tile_10_1,
              tile_11_1, tile_12_1},
             {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, tile_7_2, tile_8_2, tile_9_2, tile_10_2,
              tile_11_2, tile_12_2},
             {NULL, tile_1_3, tile_2_3, tile_3_3, tile_4_3, tile_5_3, tile_6_3, tile_7_3, tile_8_3},
             {NULL, tile_1_4, tile_2_4, tile_3_4, tile_4_4, tile_5_4, tile_6_4}},
#else
    .most = 2,
    .rows = {0, 8, 6},
    .tile = {{NULL},
             {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, tile_7_1, tile_8_1},
             {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2}},
#endif
};
