/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and columns of float32 that are reduced to numbers, and rescaled by them: the table of kernels/rows.c. Sums are taken
   in several lanes, whose parts are added as doubles after a fixed number of elements; how, follows from sizes alone. */
#ifndef TENON_BACKENDS_CPU_ROWS_INT_H
#define TENON_BACKENDS_CPU_ROWS_INT_H

#include "backends/cpu/isa_int.h"

enum { ROWS_MOST_COLUMNS = 256, ROWS_SHORT = 128 };
typedef enum RowsKind { ROWS_SUM, ROWS_ABS, ROWS_SQUARE, ROWS_MAX, ROWS_MIN, ROWS_KINDS } RowsKind;

/* A number that is taken off before, as the sum of two floats. */
typedef struct Centre {
    float high, low;
} Centre;

typedef struct RowsTable {
    /* Of n neighbours. NaN where there is one. */
    double (*reduce[ROWS_KINDS])(const float *x, int64_t n);
    /* The same of each row, in floats; for up to ROWS_SHORT neighbours. */
    void (*reduce_short[ROWS_KINDS])(float *y, const float *x, int64_t x_ld, int64_t rows, int64_t n);
    /* acc[c] becomes what it was and the rows of column c; at most ROWS_MOST_COLUMNS. */
    void (*reduce_columns[ROWS_KINDS])(double *acc, const float *x, int64_t ld, int64_t rows, int64_t cols);
    /* Sums of x - about and of its square: with a mean that is nearly right, the exact one and the variance follow. */
    void (*moments)(const float *x, int64_t n, float about, double *sum, double *squares);
    void (*moments_columns)(double *sums, double *squares, const float *x, int64_t ld, int64_t rows, int64_t cols,
                            const float *about);
    float (*top)(const float *x, int64_t n); /* the largest, beside NaNs */
    /* y = e^(x - top); the sum of them. */
    double (*exp_sum)(float *y, const float *x, float top, int64_t n);
    /* y = (x - top) * factor - less */
    void (*shift_scale)(float *y, const float *x, float top, float factor, float less, int64_t n);
    /* Softmax of each row. */
    void (*softmax_rows)(float *y, int64_t y_ld, const float *x, int64_t x_ld, int64_t rows, int64_t n);
    /* Softmax, or its logarithm, down the columns; at most 256 of them. `work` has room for rows x cols, or is y. */
    void (*softmax_columns)(float *y, int64_t y_ld, const float *x, int64_t x_ld, float *work, int64_t work_ld,
                            int64_t rows, int64_t cols, bool log);
    /* y = (x - centre) * inverse * scale + shift, where these two (NULL: none) are as long as the row. */
    void (*normalise)(float *y, const float *x, Centre centre, float inverse, const float *scale, const float *shift,
                      int64_t n);
    /* The same with the numbers of each column. */
    void (*normalise_columns)(float *y, int64_t y_ld, const float *x, int64_t x_ld, const Centre *centres,
                              const float *factors, const float *shift, int64_t rows, int64_t cols);
    /* y = a + b [+ c] */
    void (*add)(float *y, const float *a, const float *b, const float *c, int64_t n);
} RowsTable;
ISA_TABLE(RowsTable, rows_table);

#endif
