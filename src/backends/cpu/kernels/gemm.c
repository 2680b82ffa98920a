/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of float32 matrix products. A is read where it lies, a number at a time for all columns of a tile; few rows of many
   columns keep the rows' places in the first-level cache apart. */
#include "backends/cpu/gemm_int.h"
#include "backends/cpu/kernels/gemm_vec_int.h"

#if TENON_VEC_BYTES == 64
enum { PANEL_VECTORS = 4, PANEL_ROWS = 6, NARROW_ROWS = 8 };
#elif TENON_VEC_BYTES == 32
enum { PANEL_VECTORS = 2, PANEL_ROWS = 6, NARROW_ROWS = 8 };
#else
enum { PANEL_VECTORS = 2, PANEL_ROWS = 4, NARROW_ROWS = 8 };
#endif
enum { LINE = 16 }; /* floats of a cache line */

/* ---- tiles --------------------------------------------------------------------------------------------------- */

#define NV 1
#define ROWS 8
#define AHEAD 1
#include "backends/cpu/kernels/gemm_tiles_body.h"
#define NV 2
#define ROWS (TENON_VEC_BYTES == 64 ? 8 : TENON_VEC_BYTES == 32 ? 6 : 4)
#define AHEAD 1
#include "backends/cpu/kernels/gemm_tiles_body.h"
#if TENON_VEC_BYTES == 64
#define NV 3
#define ROWS 8
#define AHEAD 1
#include "backends/cpu/kernels/gemm_tiles_body.h"
#define NV 4
#define ROWS 6
#define AHEAD 1
#include "backends/cpu/kernels/gemm_tiles_body.h"
#define NV 4 /* once more, for few rows */
#define ROWS 6
#define AHEAD 2
#include "backends/cpu/kernels/gemm_tiles_body.h"
#endif

typedef void (*TileFn)(const GemmPanel *p, int64_t row, const float *next, int64_t step);
/* By vectors, then rows. */
static const TileFn tiles[PANEL_VECTORS + 1][NARROW_ROWS + 1] = {
    [1] = {NULL, tile_1_1_1, tile_2_1_1, tile_3_1_1, tile_4_1_1, tile_5_1_1, tile_6_1_1, tile_7_1_1, tile_8_1_1},
#if TENON_VEC_BYTES == 64
    [2] = {NULL, tile_1_2_1, tile_2_2_1, tile_3_2_1, tile_4_2_1, tile_5_2_1, tile_6_2_1, tile_7_2_1, tile_8_2_1},
    [3] = {NULL, tile_1_3_1, tile_2_3_1, tile_3_3_1, tile_4_3_1, tile_5_3_1, tile_6_3_1, tile_7_3_1, tile_8_3_1},
    [4] = {NULL, tile_1_4_1, tile_2_4_1, tile_3_4_1, tile_4_4_1, tile_5_4_1, tile_6_4_1},
#elif TENON_VEC_BYTES == 32
    [2] = {NULL, tile_1_2_1, tile_2_2_1, tile_3_2_1, tile_4_2_1, tile_5_2_1, tile_6_2_1},
#else
    [2] = {NULL, tile_1_2_1, tile_2_2_1, tile_3_2_1, tile_4_2_1},
#endif
};

static TileFn tile_of(int vectors, int64_t rows, int64_t ahead) {
#if TENON_VEC_BYTES == 64
    static const TileFn two[] = {NULL, tile_1_4_2, tile_2_4_2, tile_3_4_2, tile_4_4_2, tile_5_4_2, tile_6_4_2};
    if (vectors == PANEL_VECTORS && ahead == 2) return two[rows];
#endif
    (void)ahead;
    return tiles[vectors][rows];
}

/* Rows are dealt out evenly, so that no tile is much lower than the others. The first tiles bring in what comes next, a line
   or two for each step. One tile by itself takes no longer than memory does: there the processor's own guess is better. */
static void panel(const GemmPanel *p) {
    enum { STEPS_AHEAD = 12 };
    int vectors = (p->cols + VF - 1) / VF;
    int64_t most = vectors == PANEL_VECTORS || (VF == 8 && vectors == 2) ? PANEL_ROWS : NARROW_ROWS;
    int64_t n = (p->m + most - 1) / most, lines = (vectors * VF + LINE - 1) / LINE;
    int64_t ahead = vectors == PANEL_VECTORS && n < lines ? 2 : 1, step = ahead * LINE;
    const float *next = n > 1 ? p->next : NULL;
    if (p->b_row > PANEL_VECTORS * VF) { /* B is not packed: rows of this panel */
        next = p->b + STEPS_AHEAD * p->b_row;
        step = p->b_row;
        lines = ahead = 1;
    }
    for (int64_t i = 0, row = 0; i < n; i++) {
        int64_t rows = p->m / n + (i < p->m % n);
        if (next && i * ahead < lines) tile_of(vectors, rows, ahead)(p, row, next + i * p->k * step, step);
        else tiles[vectors][rows](p, row, p->b, 0);
        row += rows;
    }
}

/* ---- packing ------------------------------------------------------------------------------------------------- */

/* Rows whose columns are neighbours. They may be far apart, so some lines are asked for before. */
static void pack_rows(float *dst, int64_t width, const char *b, int64_t row_stride, int64_t k, int64_t cols) {
    enum { ROWS_AHEAD = 12 };
    int64_t step = row_stride * (int64_t)sizeof(float), whole = cols / VF * VF;
    for (int64_t i = 0; i < k; i++, dst += width, b += step) {
        const float *row = (const float *)(const void *)b;
        for (int64_t j = 0; j < whole; j += VF) {
            if (j % LINE == 0) __builtin_prefetch(b + ROWS_AHEAD * step + j * (int64_t)sizeof(float), 0, 3);
            vf_store(dst + j, vf_load(row + j));
        }
        for (int64_t j = whole; j < width; j += VF)
            store_columns(dst + j, load_columns(row + j, max_i64(cols - j, 0)), min_i64(width - j, VF));
    }
}

/* Columns whose rows are neighbours, a square at a time. */
static void pack_columns(float *dst, int64_t width, const char *b, int64_t col_stride, int64_t k, int64_t cols) {
    int64_t step = col_stride * (int64_t)sizeof(float);
    for (int64_t j = 0; j < width; j += VF, b += VF * step) {
        for (int64_t i = 0; i < k; i += VF) {
            int64_t rows = min_i64(k - i, VF), some = min_i64(width - j, VF);
            const char *from = b + i * (int64_t)sizeof(float);
            float *to = dst + i * width + j;
            vf v[VF];
            if (rows == VF && cols - j >= VF) {
                UNROLL for (int c = 0; c < VF; c++) v[c] = vf_load((const float *)(const void *)(from + c * step));
                transpose(v);
                UNROLL for (int r = 0; r < VF; r++) vf_store(to + r * width, v[r]);
                continue;
            }
            for (int c = 0; c < VF; c++)
                v[c] = j + c < cols ? load_columns((const float *)(const void *)(from + c * step), rows) : (vf){0};
            transpose(v);
            for (int64_t r = 0; r < rows; r++) store_columns(to + r * width, v[r], some);
        }
    }
}

static void pack_any(float *dst, int64_t width, const char *b, int64_t row_stride, int64_t col_stride, int64_t k,
                     int64_t cols) {
    int64_t size = sizeof(float);
    for (int64_t i = 0; i < k; i++, dst += width, b += row_stride * size) {
        for (int64_t j = 0; j < cols; j++) memcpy(dst + j, b + j * col_stride * size, sizeof(float));
        for (int64_t j = cols; j < width; j++) dst[j] = 0;
    }
}

static void pack(float *dst, int64_t width, const char *b, int64_t row_stride, int64_t col_stride, int64_t k,
                 int64_t cols) {
    if (col_stride == 1) pack_rows(dst, width, b, row_stride, k, cols);
    else if (row_stride == 1) pack_columns(dst, width, b, col_stride, k, cols);
    else pack_any(dst, width, b, row_stride, col_stride, k, cols);
}

const GemmTable ISA_NAME(gemm_table) = {
    .nr = PANEL_VECTORS * VF, .vector = VF, .mr = PANEL_ROWS, .panel = panel, .pack = pack};
