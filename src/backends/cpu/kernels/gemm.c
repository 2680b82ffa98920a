/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of float32 matrix products. A is read where it lies, a number at a time for all columns of a tile; few rows of many
   columns keep the rows' places in the first-level cache apart. */
#include "backends/cpu/gemm_int.h"
#include "backends/cpu/kernels/vec_int.h"

#if TENON_VEC_BYTES == 64
enum { PANEL_VECTORS = 4, PANEL_ROWS = 6, NARROW_ROWS = 8 };
#elif TENON_VEC_BYTES == 32
enum { PANEL_VECTORS = 2, PANEL_ROWS = 6, NARROW_ROWS = 8 };
#else
enum { PANEL_VECTORS = 2, PANEL_ROWS = 4, NARROW_ROWS = 8 };
#endif
enum { LINE = 16 }; /* floats of a cache line */

#define UNROLL _Pragma("GCC unroll 16")

INLINE vf load_columns(const float *p, int64_t n) { return n == VF ? vf_load(p) : vf_load_n(p, n); }
INLINE void store_columns(float *p, vf v, int64_t n) {
    if (n == VF) vf_store(p, v);
    else vf_store_n(p, v, n);
}

/* A product that is not contracted with a sum behind it, so that all tiles round alike. */
INLINE vf rounded(vf v) {
#if defined(__x86_64__)
    __asm__("" : "+v"(v));
#elif defined(__aarch64__)
    __asm__("" : "+w"(v));
#endif
    return v;
}

/* ---- tiles --------------------------------------------------------------------------------------------------- */

#define NV 1
#define MR 1
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 2
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 3
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 4
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 5
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 6
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 7
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 8
#include "backends/cpu/kernels/gemm_tile_body.h"
#undef NV

#define NV 2
#define MR 1
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 2
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 3
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 4
#include "backends/cpu/kernels/gemm_tile_body.h"
#if TENON_VEC_BYTES > 16
#define MR 5
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 6
#include "backends/cpu/kernels/gemm_tile_body.h"
#endif
#if TENON_VEC_BYTES == 64
#define MR 7
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 8
#include "backends/cpu/kernels/gemm_tile_body.h"
#undef NV

#define NV 3
#define MR 1
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 2
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 3
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 4
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 5
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 6
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 7
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 8
#include "backends/cpu/kernels/gemm_tile_body.h"
#undef NV

#define NV 4
#define MR 1
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 2
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 3
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 4
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 5
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 6
#include "backends/cpu/kernels/gemm_tile_body.h"
#endif
#undef NV

typedef void (*TileFn)(const GemmPanel *p, int64_t row, const float *next);
/* By vectors, then rows. */
static const TileFn tiles[PANEL_VECTORS + 1][NARROW_ROWS + 1] = {
    [1] = {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, tile_7_1, tile_8_1},
#if TENON_VEC_BYTES == 64
    [2] = {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, tile_7_2, tile_8_2},
    [3] = {NULL, tile_1_3, tile_2_3, tile_3_3, tile_4_3, tile_5_3, tile_6_3, tile_7_3, tile_8_3},
    [4] = {NULL, tile_1_4, tile_2_4, tile_3_4, tile_4_4, tile_5_4, tile_6_4},
#elif TENON_VEC_BYTES == 32
    [2] = {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2},
#else
    [2] = {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2},
#endif
};

/* Rows are dealt out evenly, so that no tile is much lower than the others. Each of the first tiles brings in a part of what
   comes next, a line for each step. */
static void panel(const GemmPanel *p) {
    int vectors = (p->cols + VF - 1) / VF;
    int64_t most = vectors == PANEL_VECTORS ? PANEL_ROWS : vectors == 2 && VF == 8 ? PANEL_ROWS : NARROW_ROWS;
    int64_t n = (p->m + most - 1) / most, lines = vectors * VF / LINE + (vectors * VF % LINE != 0);
    for (int64_t i = 0, row = 0; i < n; i++) {
        int64_t rows = p->m / n + (i < p->m % n);
        const float *next = p->next && i < lines ? p->next + i * p->k * LINE : p->b;
        tiles[vectors][rows](p, row, next);
        row += rows;
    }
}

/* ---- packing ------------------------------------------------------------------------------------------------- */

static void pack_rows(float *dst, int64_t width, const char *b, int64_t row_stride, int64_t k, int64_t cols) {
    for (int64_t i = 0; i < k; i++, dst += width, b += row_stride * 4) {
        memcpy(dst, b, (size_t)cols * 4);
        for (int64_t j = cols; j < width; j++) dst[j] = 0;
    }
}

static void pack_any(float *dst, int64_t width, const char *b, int64_t row_stride, int64_t col_stride, int64_t k,
                     int64_t cols) {
    for (int64_t i = 0; i < k; i++, dst += width, b += row_stride * 4) {
        for (int64_t j = 0; j < cols; j++) memcpy(dst + j, b + j * col_stride * 4, 4);
        for (int64_t j = cols; j < width; j++) dst[j] = 0;
    }
}

static void pack(float *dst, int64_t width, const char *b, int64_t row_stride, int64_t col_stride, int64_t k,
                 int64_t cols) {
    if (col_stride == 1) pack_rows(dst, width, b, row_stride, k, cols);
    else pack_any(dst, width, b, row_stride, col_stride, k, cols);
}

const GemmTable ISA_NAME(gemm_table) = {
    .nr = PANEL_VECTORS * VF, .vector = VF, .mr = PANEL_ROWS, .panel = panel, .pack = pack};
