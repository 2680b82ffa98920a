/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's algorithm: what a block of the result is made of. A block of OUT x OUT pixels is made from SIZE x SIZE of the data
   by SIZE * SIZE products of matrices, one for each point, instead of one for each tap and pixel.

   kind      window   block   points along a dimension
   2         3        2       0, +-1, infinity
   4         3        4       0, +-3/4, +-3/2, infinity
   STEP2_2   3, by 2  2       0, 1, infinity of the outer two taps; the inner one meets 2 pixels as they are
   STEP2_4   3, by 2  4       0, +-3/4, 3/2, infinity of the outer two taps; the inner one meets 4 pixels as they are
   WIDE      5        4       0, +-1/2, +-1, +-2, infinity
   PHASES    4        5       0, +-1/2, +-1, +-2, infinity

   A block of 4 that has only 2 pixels at the result's end needs the points of the first kind alone, scaled.
   Points are near to 1, so that little is lost. PHASES is for windows of up to 8 in steps of 2 over few channels, which
   are windows of up to 4 in steps of 1 over four times as many: conv_phases.c. */
#ifndef TENON_BACKENDS_CPU_WINOGRAD_INT_H
#define TENON_BACKENDS_CPU_WINOGRAD_INT_H

#include "backends/cpu/conv_tile_int.h"

typedef enum WinogradKind {
    WINOGRAD_NONE,
    WINOGRAD_2,
    WINOGRAD_4,
    WINOGRAD_STEP2_2,
    WINOGRAD_STEP2_4,
    WINOGRAD_WIDE,
    WINOGRAD_PHASES,
    N_WINOGRAD
} WinogradKind;

enum { WINOGRAD_FEW = 2 /* pixels of a block at the end that is made from fewer points */ };
enum { WINOGRAD_MOST_SIZE = 9, WINOGRAD_MOST_PLANES = 8, WINOGRAD_MOST_TAPS = 5 };

/* Data of one block to its SIZE * SIZE values of each channel. */
typedef struct WinogradIn {
    const float *const *px; /* SIZE * SIZE pixels */
    int64_t channels;
    bool few_rows, few_cols; /* the block has no more than WINOGRAD_FEW */
    float *v;                /* whole vectors are written */
    int64_t v_step;
} WinogradIn;

/* Sums of one block to its pixels, some channels. */
typedef struct WinogradOut {
    const float *m; /* whole vectors are read */
    int64_t m_step;
    int64_t channels;
    int rows, cols;          /* pixels that there are */
    bool few_rows, few_cols; /* no more than WINOGRAD_FEW */
    float *y;
    int64_t y_ld, y_row; /* from pixel to pixel, from row to row */
    const ConvFinish *finish;
    int64_t residual_row;
} WinogradOut;

/* TAPS * TAPS rows of `width` weights, whole vectors, to PLANES * PLANES rows: `points` says what of each tap a plane has. */
typedef struct WinogradWeights {
    const double *points; /* [planes][taps] */
    int planes, taps;
    const float *w;
    int64_t width;
    float *to;
    int64_t step;
} WinogradWeights;

typedef struct WinogradTable {
    void (*in[N_WINOGRAD])(const WinogradIn *in);
    /* False when a sum is not finite: an infinity or NaN spreads over its block here, where it should not. */
    bool (*out[N_WINOGRAD])(const WinogradOut *out);
    void (*weights)(const WinogradWeights *weights);
} WinogradTable;
ISA_TABLE(WinogradTable, winograd_table);

/* What drivers know of a kind: conv_winograd_pack.c. */
typedef struct WinogradSpec {
    int out,
        size; /* pixels of a block along a dimension, and of the data that it is made from, which are as many points */
    int planes;     /* of weights along a dimension: the last is that of all points from there on */
    int taps, step; /* of the window */
    /* Points are wanted only where a block has so many pixels; [1]: in a block of no more than WINOGRAD_FEW. */
    int least[2][WINOGRAD_MOST_SIZE];
    double in_ops, out_ops; /* of the transforms of a block, in multiplications of a channel */
    const double *points;   /* [planes][taps]: what weights become */
    const double *back;     /* [taps][planes]: and what they were; NULL: that is not to be had */
} WinogradSpec;
extern const WinogradSpec winograd_spec[N_WINOGRAD];

#endif
