/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of float32 for Resize: the table of kernels/resize.c. */
#ifndef TENON_BACKENDS_CPU_RESIZE_INT_H
#define TENON_BACKENDS_CPU_RESIZE_INT_H

#include "backends/cpu/isa_int.h"

/* Of each place of a resized dimension: two places of the other, and their weights. Places do not decrease. */
typedef struct ResizeTaps {
    int64_t n;
    const int32_t *first, *second;
    const float *of_first, *of_second;
} ResizeTaps;

enum { RESIZE_ROOM = 16 };

typedef struct ResizeTable {
    /* y = a * of_a + b * of_b */
    void (*blend)(float *y, const float *a, const float *b, float of_a, float of_b, int64_t n);
    /* Along a row of numbers, or of pixels without gaps. Behind the numbers of x RESIZE_ROOM more can be read. */
    void (*blend_pixels)(float *y, int64_t y_col, const float *x, int64_t channels, const ResizeTaps *taps);
    void (*blend_row)(float *y, const float *x, const ResizeTaps *taps);
    void (*pick_row)(float *y, const float *x, const ResizeTaps *taps);
    void (*double_row)(float *y, const float *x, int64_t n); /* each of n numbers twice */
} ResizeTable;
ISA_TABLE(ResizeTable, resize_table);

#endif
