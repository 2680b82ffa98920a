/* SPDX-License-Identifier: Apache-2.0 */
/* A row times a matrix that is read where it lies, once: what counts is how fast it comes from memory. */
#include "backends/cpu/gemm_int.h"
#include "backends/cpu/kernels/gemm_vec_int.h"

/* What comes after the sums, which are in c. */
static void run_tail(const GemmVector *p) {
    const GemmTail *t = p->tail;
    bool clips = t->lo > -__builtin_inff() || t->hi < __builtin_inff();
    if (t->alpha == 1 && !t->bias && !t->residual && !clips) return;
    vf lo = vf_set(t->lo), hi = vf_set(t->hi);
    for (int64_t j = 0; j < p->n; j += VF) {
        int64_t n = min_i64(p->n - j, VF);
        vf v = load_columns(p->c + j, n);
        if (t->alpha != 1) v = rounded(v * t->alpha);
        if (t->bias) v += load_columns(t->bias + j, n);
        if (t->residual) v += load_columns(t->residual + j, n);
        if (clips) v = vf_min(hi, vf_max(lo, v));
        store_columns(p->c + j, v, n);
    }
}

/* ---- rows of B ----------------------------------------------------------------------------------------------- */

enum { ROWS = 8 };

/* Adds `rows` rows of B to n columns of c. */
INLINE void add_vectors(const GemmVector *p, int64_t k, int rows, int64_t j, int64_t n) {
    const float *b = p->b + k * p->stride + j, *a = p->a + k;
    vf sum = k > 0 || p->accumulate ? load_columns(p->c + j, n) : (vf){0};
    for (int i = 0; i < rows; i++) sum = vf_fma(load_columns(b + i * p->stride, n), vf_set(a[i]), sum);
    store_columns(p->c + j, sum, n);
}
INLINE void add_rows(const GemmVector *p, int64_t k, int rows) {
    int64_t j = 0;
    for (; j + VF <= p->n; j += VF) add_vectors(p, k, rows, j, VF);
    if (j < p->n) add_vectors(p, k, rows, j, p->n - j);
}

/* Columns of B are neighbours: a few rows at a time go over all of c, which stays in the first-level cache. */
static void add_up(const GemmVector *p) {
    int64_t k = 0;
    for (; k + ROWS <= p->k; k += ROWS) add_rows(p, k, ROWS);
    for (; k < p->k; k++) add_rows(p, k, 1);
    run_tail(p);
}

/* ---- columns of B -------------------------------------------------------------------------------------------- */

enum { COLUMNS = 4, DEEP = 4, SHORT = 16 * VF };

/* Sums of columns from j on, each spread over a vector, come together and go to c. */
INLINE void add_across(const GemmVector *p, int64_t j, vf sum[VF]) {
    int64_t n = min_i64(p->n - j, VF);
    transpose(sum);
    UNROLL for (int half = VF / 2; half > 0; half /= 2) {
        UNROLL for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    }
    if (p->accumulate) sum[0] += load_columns(p->c + j, n);
    store_columns(p->c + j, sum[0], n);
}

/* As many columns at a time as a vector has numbers. */
static void short_dots(const GemmVector *p) {
    for (int64_t j = 0; j < p->n; j += VF) {
        const float *b[VF];
        vf sum[VF];
        UNROLL for (int i = 0; i < VF; i++) {
            b[i] = p->b + min_i64(j + i, p->n - 1) * p->stride;
            sum[i] = (vf){0};
        }
        int64_t k = 0;
        for (; k + VF <= p->k; k += VF) {
            vf a = vf_load(p->a + k);
            UNROLL for (int i = 0; i < VF; i++) sum[i] = vf_fma(vf_load(b[i] + k), a, sum[i]);
        }
        if (k < p->k) {
            vf a = load_columns(p->a + k, p->k - k);
            UNROLL for (int i = 0; i < VF; i++) sum[i] = vf_fma(load_columns(b[i] + k, p->k - k), a, sum[i]);
        }
        add_across(p, j, sum);
    }
}

/* A few columns at a time: long ones may lie as far apart as places in the cache repeat. */
INLINE void few_dots(const GemmVector *p, int64_t col, vf *out) {
    const float *b[COLUMNS];
    vf sum[COLUMNS][DEEP];
    UNROLL for (int i = 0; i < COLUMNS; i++) {
        b[i] = p->b + min_i64(col + i, p->n - 1) * p->stride;
        UNROLL for (int d = 0; d < DEEP; d++) sum[i][d] = (vf){0};
    }
    int64_t k = 0;
    for (; k + DEEP * VF <= p->k; k += DEEP * VF) {
        UNROLL for (int d = 0; d < DEEP; d++) {
            vf a = vf_load(p->a + k + d * VF);
            UNROLL for (int i = 0; i < COLUMNS; i++) sum[i][d] = vf_fma(vf_load(b[i] + k + d * VF), a, sum[i][d]);
        }
    }
    for (; k < p->k; k += VF) {
        int64_t n = min_i64(p->k - k, VF);
        vf a = load_columns(p->a + k, n);
        UNROLL for (int i = 0; i < COLUMNS; i++) sum[i][0] = vf_fma(load_columns(b[i] + k, n), a, sum[i][0]);
    }
    UNROLL for (int i = 0; i < COLUMNS; i++) out[i] = (sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]);
}
static void long_dots(const GemmVector *p) {
    for (int64_t j = 0; j < p->n; j += VF) {
        vf sum[VF] = {0};
        for (int i = 0; i < VF && j + i < p->n; i += COLUMNS) few_dots(p, j + i, sum + i);
        add_across(p, j, sum);
    }
}

/* Rows of B are neighbours. */
static void dots(const GemmVector *p) {
    if (p->k <= SHORT) short_dots(p);
    else long_dots(p);
    run_tail(p);
}

const GemmVectorTable ISA_NAME(gemm_vector_table) = {.add_up = add_up, .dots = dots};
