/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's algorithm for windows of 3 x 3 in steps of 1: what is asked of kernels/winograd.c. A block of OUT x OUT pixels is
   made from SIZE x SIZE of the data, SIZE = OUT + 2, by SIZE * SIZE products of matrices instead of 9 * OUT * OUT. Points
   are 0, +-3/4, +-3/2 and infinity for OUT 4, and 0, +-1 and infinity for OUT 2: near to 1, so that little is lost. */
#ifndef TENON_BACKENDS_CPU_WINOGRAD_INT_H
#define TENON_BACKENDS_CPU_WINOGRAD_INT_H

#include "backends/cpu/conv_tile_int.h"

enum { WINOGRAD_MOST = 36 }; /* SIZE * SIZE */

/* Data of one block to its SIZE * SIZE values of each channel. */
typedef struct WinogradIn {
    const float *const *px; /* SIZE * SIZE pixels */
    int64_t channels;
    float *v; /* whole vectors are written */
    int64_t v_step;
} WinogradIn;

/* Sums of one block to its pixels, some channels. */
typedef struct WinogradOut {
    const float *m; /* whole vectors are read */
    int64_t m_step;
    int64_t channels;
    int rows, cols; /* pixels that there are */
    float *y;
    int64_t y_ld, y_row; /* from pixel to pixel, from row to row */
    const ConvFinish *finish;
    int64_t residual_row;
} WinogradOut;

/* Nine rows of `width` weights, whole vectors, to SIZE * SIZE rows. */
typedef void (*WinogradWeights)(const float *weights, int64_t width, float *points, int64_t step);

typedef struct WinogradTable {
    void (*in2)(const WinogradIn *in);
    void (*in4)(const WinogradIn *in);
    /* False when a sum is not finite: an infinity or NaN spreads over its block here, where it should not. */
    bool (*out2)(const WinogradOut *out);
    bool (*out4)(const WinogradOut *out);
    WinogradWeights weights2, weights4;
} WinogradTable;
ISA_TABLE(WinogradTable, winograd_table);

#endif
