/* SPDX-License-Identifier: Apache-2.0 */
/* Products with one row or one column, of a matrix that was not packed. With one column, the product is taken the other way
   round: the column is the row, and A is the matrix. */
#include "backends/cpu/gemm_int.h"

enum {
    MOST_COLUMNS = 4096, /* so that their sums stay in the first-level cache */
    LEAST_COLUMNS = 64,
    PARTS = 4 /* for each thread */
};
static const double NS_PER_BYTE = 0.05;

static bool is_turned(const GemmArgs *g) { return g->n == 1 && (g->a_col == 1 || g->m > 1); }

bool gemm_is_vector(const GemmArgs *g) {
    if (g->packed || g->k == 0) return false;
    if (!is_turned(g)) return g->m == 1 && (g->b_row == 1 || g->b_col == 1);
    bool follows = g->m == 1 || (g->c_row == 1 && (!g->tail.residual || g->tail.residual_row == 1));
    return follows && (g->a_row == 1 || g->a_col == 1);
}

typedef struct Work {
    const GemmArgs *g;
    const GemmVectorTable *t;
    int64_t n; /* columns of the result */
    const float *row, *matrix, *bias;
    const int64_t *row_at, *matrix_at; /* NULL: 0 */
    int64_t row_step;
    int64_t k_stride, n_stride; /* of the matrix */
    int64_t parts, columns;     /* of each product */
} Work;

static int64_t at(const int64_t *offsets, int64_t i) { return offsets ? offsets[i] : 0; }

static void run_part(const Work *w, int64_t i, int64_t col) {
    const GemmArgs *g = w->g;
    bool turned = is_turned(g), dots = w->k_stride == 1;
    GemmTail tail = g->tail;
    tail.bias = w->bias ? w->bias + col : NULL;
    if (tail.residual) tail.residual += at(g->residual_at, i) + col;
    GemmVector v = {.k = g->k, .n = min_i64(w->n - col, w->columns), .accumulate = g->accumulate, .tail = &tail};
    v.a = w->row + at(w->row_at, i);
    v.b = w->matrix + at(w->matrix_at, i) + col * w->n_stride;
    v.stride = dots ? w->n_stride : w->k_stride;
    v.c = g->c + at(g->c_at, i) + col;
    (dots ? w->t->dots : w->t->add_up)(&v);
    if (!g->finish) return;
    if (turned) g->finish(g->arg, i, col, 0, v.c, 1, v.n, 1);
    else g->finish(g->arg, i, 0, col, v.c, g->c_row, 1, v.n);
}

static void run_parts(void *arg, int64_t begin, int64_t end) {
    const Work *w = arg;
    for (int64_t i = begin; i < end; i++) run_part(w, i / w->parts, i % w->parts * w->columns);
}

/* The rows as neighbours at addresses that numbers may have. */
static tn_status gather_rows(Work *w) {
    const GemmArgs *g = w->g;
    if ((w->row_step == 1 || g->k == 1) && (uintptr_t)w->row % sizeof(float) == 0) return TN_OK;
    int64_t n = w->row_at ? g->batch : 1, *places = NULL;
    float *rows = arena_array(g->scratch, float, (size_t)(n * g->k));
    if (w->row_at) places = arena_array(g->scratch, int64_t, (size_t)n);
    if (!rows || (w->row_at && !places)) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        const char *from = (const char *)(w->row + at(w->row_at, i));
        for (int64_t k = 0; k < g->k; k++)
            memcpy(rows + i * g->k + k, from + k * w->row_step * (int64_t)sizeof(float), sizeof(float));
        if (places) places[i] = i * g->k;
    }
    w->row = rows;
    w->row_at = places;
    return TN_OK;
}

static tn_status repeat_bias(Work *w) {
    float *bias = arena_array(w->g->scratch, float, (size_t)w->n);
    if (!bias) return TN_OUT_OF_MEMORY;
    for (int64_t j = 0; j < w->n; j++) bias[j] = w->g->tail.bias[0];
    w->bias = bias;
    return TN_OK;
}

tn_status gemm_run_vector(const GemmArgs *g) {
    Work w = {.g = g, .t = ISA_PICK(gemm_vector_table), .n = g->n, .row = g->a, .matrix = g->b, .bias = g->tail.bias};
    w.row_at = g->a_at, w.matrix_at = g->b_at, w.row_step = g->a_col, w.k_stride = g->b_row, w.n_stride = g->b_col;
    if (is_turned(g)) {
        w.n = g->m, w.row = g->b, w.row_at = g->b_at, w.row_step = g->b_row;
        w.matrix = g->a, w.matrix_at = g->a_at, w.k_stride = g->a_col, w.n_stride = g->a_row;
        if (w.bias) TRY(repeat_bias(&w));
    }
    TRY(gather_rows(&w));
    int64_t threads = pool_threads(g->pool), parts = threads > 1 ? max_i64(1, threads * PARTS / g->batch) : 1;
    w.columns = (w.n + parts - 1) / parts;
    w.columns = min_i64((w.columns + LEAST_COLUMNS - 1) / LEAST_COLUMNS * LEAST_COLUMNS, MOST_COLUMNS);
    w.parts = (w.n + w.columns - 1) / w.columns;
    double cost = (double)sizeof(float) * (double)(g->k * min_i64(w.columns, w.n)) * NS_PER_BYTE;
    parallel_for(g->pool, g->batch * w.parts, cost, run_parts, &w);
    return TN_OK;
}
