/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of convolutions, for every number of pixels and of vectors that the registers hold. */
#include "backends/cpu/conv_tile_int.h"
#include "backends/cpu/kernels/vec_int.h"

#include <math.h>

/* Data may be a mapped constant, which can lie at any byte. */
INLINE float float_at(const float *p) {
    float x;
    memcpy(&x, p, sizeof x);
    return x;
}

#define TILE_NAME_(rows, vectors) tile_##rows##_##vectors
#define TILE_NAME(rows, vectors) TILE_NAME_(rows, vectors)

/* So that the sums stay in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* The sums take ROWS * NV registers; the weights of one k NV more, and one a datum. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define REGISTERS 32
#else
#define REGISTERS 16
#endif

#define NV 1
#define MOST_ROWS (REGISTERS == 32 ? 12 : 8)
#include "backends/cpu/kernels/conv_tiles_body.h"
#define NV 2
#define MOST_ROWS (REGISTERS == 32 ? 12 : 6)
#include "backends/cpu/kernels/conv_tiles_body.h"
#if REGISTERS == 32
#define NV 3
#define MOST_ROWS 8
#include "backends/cpu/kernels/conv_tiles_body.h"
#define NV 4
#define MOST_ROWS 6
#include "backends/cpu/kernels/conv_tiles_body.h"
#endif

const ConvTable ISA_NAME(conv_table) = {
    .vector = VF,
#if REGISTERS == 32
    .most_vectors = 4,
    .rows = {0, 12, 12, 8, 6},
    .tile =
        {
            {NULL},
            {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, tile_7_1, tile_8_1, tile_9_1, tile_10_1,
             tile_11_1, tile_12_1},
            {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, tile_7_2, tile_8_2, tile_9_2, tile_10_2,
             tile_11_2, tile_12_2},
            {NULL, tile_1_3, tile_2_3, tile_3_3, tile_4_3, tile_5_3, tile_6_3, tile_7_3, tile_8_3},
            {NULL, tile_1_4, tile_2_4, tile_3_4, tile_4_4, tile_5_4, tile_6_4},
        },
#else
    .most_vectors = 2,
    .rows = {0, 8, 6},
    .tile =
        {
            {NULL},
            {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, tile_7_1, tile_8_1},
            {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2},
        },
#endif
};
