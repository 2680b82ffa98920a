/* SPDX-License-Identifier: Apache-2.0 */
/* What depthwise convolutions and those with small groups ask of kernels/depthwise.c. Weights lie as [tap][input channel of a
   group][channels], the row filled up. */
#ifndef TENON_BACKENDS_CPU_DEPTHWISE_INT_H
#define TENON_BACKENDS_CPU_DEPTHWISE_INT_H

#include "backends/cpu/conv_tile_int.h"

enum {
    DEPTHWISE_PIXELS = 7, /* of a tile at most */
    DEPTHWISE_ROWS = 4,   /* of the result, at once */
    DEPTHWISE_REPEATS = 16,
    DEPTHWISE_WINDOW = 64 /* rows of one, at most */
};

/* The rows of a window that lie in the data: where each begins there, at channel 0 and column 0, and its weights. */
typedef struct DepthwiseWindow {
    int64_t n;
    const float *x[DEPTHWISE_WINDOW], *w[DEPTHWISE_WINDOW];
} DepthwiseWindow;

/* Neighbouring pixels of some rows of the result. */
typedef struct DepthwiseTile {
    const DepthwiseWindow *windows; /* of the first pixel of each row */
    int64_t n_windows;
    int64_t x_at;       /* from what windows say to the first pixel's first column, maybe in the padding */
    int64_t x_ld, w_ld; /* from pixel to pixel, from tap to tap */
    int64_t from, to;   /* columns that lie in the data, counted from the first window's first */
    int64_t n, channels;
    int64_t channel, times; /* of `repeated` ones: the first channel, and how many there are of one of the data */
    int64_t columns, step,
        dilation; /* of small groups: taps of a row, and how far windows and taps are apart in the data */
    float *y;
    int64_t y_ld, y_row, residual_row;
    const ConvFinish *finish; /* of the first row */
} DepthwiseTile;

/* Neighbouring rows of the result under windows of 3 x 3 whose taps are neighbours; all channels. */
typedef struct DepthwiseRows {
    const float *x;      /* where the first pixel's window begins, maybe in the padding */
    int64_t x_ld, x_row; /* from pixel to pixel, from row to row */
    uint32_t inside;     /* the rows of the data that there are, counted from the first, as bits */
    const float *w;
    int64_t w_ld;     /* from tap to tap */
    int64_t from, to; /* columns that lie in the data; at most 2, and at least n times the step */
    int64_t n, channels;
    int64_t channel, times; /* as of a tile; x is then of the data's channel 0 */
    float *y;
    int64_t y_ld, y_row, residual_row;
    const ConvFinish *finish; /* of the first row */
} DepthwiseRows;

typedef struct DepthwiseTable {
    int64_t vector, least; /* channels at a time, and that there must be for `rows` and `tile` */
    /* Windows of 3 x 3 with steps of [1], [2] both ways, for up to `most_rows` rows of the result. */
    void (*rows[3][DEPTHWISE_ROWS + 1])(const DepthwiseRows *rows);
    int most_rows[3];
    /* For windows of [3], [5], [7] columns that are neighbours, with steps of [1], [2]. */
    void (*tile[8][3])(const DepthwiseTile *tile);
    /* The same where a channel of the data has several results, up to DEPTHWISE_REPEATS; at least one vector of them. NULL:
       there are none. */
    void (*rows_repeated[3][DEPTHWISE_ROWS + 1])(const DepthwiseRows *rows);
    void (*tile_repeated[8][3])(const DepthwiseTile *tile);
    /* For one pixel of each row, any window, and any number of channels. x_ld is then from column to column of the window. */
    void (*pixel)(const DepthwiseTile *tile);
    /* Groups of 2, 4 or 8 channels that become as many, [2], [4], [8]; at least one vector of them. Of the tile, columns are
       those of the data. NULL: a vector does not hold whole groups, more than one. */
    void (*grouped[9])(const DepthwiseTile *tile);
    int grouped_pixels; /* of a tile at most */
    /* y = each of n elements so many times, up to DEPTHWISE_REPEATS. */
    void (*repeat)(float *y, const float *x, int64_t n, int64_t times);
} DepthwiseTable;
ISA_TABLE(DepthwiseTable, depthwise_table);

#endif
