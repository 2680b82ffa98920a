/* SPDX-License-Identifier: Apache-2.0 */
/* What pools ask of kernels/pool.c. */
#ifndef TENON_BACKENDS_CPU_POOL_INT_H
#define TENON_BACKENDS_CPU_POOL_INT_H

#include "backends/cpu/isa_int.h"

/* Windows over data with neighbouring channels, which follow each other. */
typedef struct PoolWindow {
    int64_t windows, x_step, y_step; /* from one to the next */
    const float *const *x;           /* where each row of the first begins; at least one */
    int64_t n_rows, n, x_ld;         /* pixels of a row, at least one, and the distance between them */
    int64_t channels;
    float divisor; /* of a sum */
    float *y;
} PoolWindow;

typedef struct PoolTable {
    /* The largest; a NaN only where there is nothing else. */
    void (*largest)(const PoolWindow *window);
    /* The sum by `divisor`; no more than a few elements are added before the sum goes on in double. */
    void (*sum)(const PoolWindow *window);
    /* The same of n neighbours, which are one channel. */
    float (*largest_of)(const float *x, int64_t n);
    double (*sum_of)(const float *x, int64_t n);
} PoolTable;
ISA_TABLE(PoolTable, pool_table);

#endif
