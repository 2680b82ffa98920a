/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of convolutions with so few output channels that they would fill no vector: lanes run over input channels, or over
   whatever else are neighbours in the data. */
#include "backends/cpu/conv_tile_int.h"
#include "backends/cpu/kernels/shuffle_int.h"
#include "backends/cpu/kernels/vec_int.h"

#include <math.h>

#define TILE_NAME_(rows, few) few_##rows##_##few
#define TILE_NAME(rows, few) TILE_NAME_(rows, few)

/* So that the sums stay in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* What is added to the sum of the tile's pixel i and channel j beside the bias. */
INLINE float few_more(const ConvTile *t, int64_t first, int64_t i, int64_t j) {
    const ConvFinish *f = t->finish;
    float more = 0, residual; /* which may lie askew */
    if (i >= t->rows) return 0;
    if (t->resume) more = t->y[(first + i) * t->y_ld + j];
    if (!f || !f->residual) return more;
    memcpy(&residual, f->residual + (first + i) * f->residual_ld + j, sizeof residual);
    return more + residual;
}

INLINE vf few_add(vf a, vf b) { return a + b; }

/* The sums of the lanes of n vectors, one behind the other. */
INLINE void few_sums(const vf *c, const int n, vf *sum) {
    UNROLL for (int first = 0; first < n; first += VF) {
        vf v[VF];
        UNROLL for (int i = 0; i < VF; i++) v[i] = first + i < n ? c[first + i] : (vf){0};
        LANES_TOGETHER(few_add, v);
        sum[first / VF] = v[0];
    }
}

/* Sums of all pixels follow each other. Here a NaN stays one. */
INLINE void few_finish(const ConvTile *t, int64_t first, vf *sum, const int few) {
    const ConvFinish *f = t->finish;
    float *to = t->y + first * t->y_ld;
    const int64_t n = t->rows * few;
    for (int64_t at = 0; at < n; at += VF) {
        vf y = sum[at / VF];
        if (f && f->lo > -INFINITY) y = vf_max(vf_set(f->lo), y);
        if (f && f->hi < INFINITY) y = vf_min(vf_set(f->hi), y);
        if (t->y_ld != few) sum[at / VF] = y;
        else if (n - at >= VF) vf_store(to + at, y);
        else vf_store_n(to + at, y, n - at);
    }
    if (t->y_ld == few) return;
    for (int64_t i = 0; i < t->rows; i++)
        for (int j = 0; j < few; j++) to[i * t->y_ld + j] = sum[(i * few + j) / VF][(i * few + j) % VF];
}

#if defined(__AVX512F__) || defined(__aarch64__)
#define REGISTERS 32
#else
#define REGISTERS 16
#endif

/* The sums take ROWS * FEW registers, and weights FEW more unless they are read where they lie. */
#if REGISTERS == 32
#define FEW 1
#define ROWS 12
#include "backends/cpu/kernels/conv_few_body.h"
#define FEW 2
#define ROWS 12
#include "backends/cpu/kernels/conv_few_body.h"
#define FEW 3
#define ROWS 8
#include "backends/cpu/kernels/conv_few_body.h"
#define FEW 4
#define ROWS 6
#include "backends/cpu/kernels/conv_few_body.h"
#define FEW 5
#define ROWS 5
#include "backends/cpu/kernels/conv_few_body.h"
#define FEW 6
#define ROWS 4
#include "backends/cpu/kernels/conv_few_body.h"
#define FEW 7
#define ROWS 3
#include "backends/cpu/kernels/conv_few_body.h"
#else
#define FEW 1
#define ROWS 8
#include "backends/cpu/kernels/conv_few_body.h"
#define FEW 2
#define ROWS 6
#include "backends/cpu/kernels/conv_few_body.h"
#define FEW 3
#define ROWS 4
#include "backends/cpu/kernels/conv_few_body.h"
#define FEW 4
#define ROWS 3
#include "backends/cpu/kernels/conv_few_body.h"
#endif

const ConvFewTable ISA_NAME(conv_few_table) = {
    .vector = VF,
#if REGISTERS == 32
    .rows = {0, 12, 12, 8, 6, 5, 4, 3},
    .tile = {NULL, few_12_1, few_12_2, few_8_3, few_6_4, few_5_5, few_4_6, few_3_7},
#else
    .rows = {0, 8, 6, 4, 3},
    .tile = {NULL, few_8_1, few_6_2, few_4_3, few_3_4},
#endif
};
