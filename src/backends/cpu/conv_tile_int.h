/* SPDX-License-Identifier: Apache-2.0 */
/* What convolutions ask of the vector kernels in kernels/conv.c: tiles of some pixels by some output channels. Weights lie
   in panels of output channels, [panel][k][width], where k counts taps and, inside, input channels. With few output channels
   (kernels/conv_few.c) they lie as [m][k]. */
#ifndef TENON_BACKENDS_CPU_CONV_TILE_INT_H
#define TENON_BACKENDS_CPU_CONV_TILE_INT_H

#include "backends/cpu/isa_int.h"

/* Of a tile, at any level. */
enum { CONV_MOST_ROWS = 12, CONV_MOST_WIDTH = 8, CONV_MOST_FEW = 7 };

/* Rows [k, k + n) of the panel meet n neighbours in the data. */
typedef struct ConvRun {
    int64_t k, n;
} ConvRun;

/* Row k of the panel meets what lies at x in the data, from where the window begins. */
typedef struct ConvPoint {
    int64_t x, k;
} ConvPoint;

/* What is done to finished sums: y = min(max(sum + bias + residual, lo), hi). */
typedef struct ConvFinish {
    const float *bias;     /* of the panel's first channel, as wide as the panel; NULL: none */
    const float *residual; /* of the tile's first pixel and channel; NULL: none */
    int64_t residual_ld;   /* from pixel to pixel */
    float lo, hi;
} ConvFinish;

/* Tiles that follow each other: pixels and runs of one lie like those of the one before. */
typedef struct ConvTile {
    int64_t tiles, px_step; /* how many, and from one to the next in the data */
    const float *const *px; /* of the first, where run r of pixel i begins: px[r * CONV_MOST_ROWS + i] */
    const ConvRun *runs;
    int64_t n_runs;
    const float *w; /* row 0 of the panel */
    float *y;
    int64_t y_ld;             /* from pixel to pixel */
    int64_t cols;             /* channels that there are: less than the panel's width in the last one */
    bool resume;              /* begin with what y holds, else with 0 */
    const ConvFinish *finish; /* NULL: more is to be added later */
    int64_t rows, w_ld;       /* with few output channels: pixels, and from channel to channel of the weights */
    bool whole; /* ... all runs are whole vectors long. px then has CONV_MOST_ROWS pixels that can be read */
    /* Weights that are wanted soon, of which one line is asked for with each k. The same: there are none. */
    const char *ahead, *ahead_end;
    /* Instead of px and runs, where pixels lie along a line: the window of the first, the distance to the next, and what each
       window has. */
    const float *x;
    int64_t x_ld;
    const ConvPoint *points, *points_end;
} ConvTile;

typedef void (*ConvTileFn)(const ConvTile *tile);

typedef struct ConvTable {
    int64_t vector, unit;          /* floats: of a register, and what widths of panels are multiples of */
    int most;                      /* units of a panel */
    int rows[CONV_MOST_WIDTH + 1]; /* the best number of pixels, by the panel's units */
    ConvTileFn tile[CONV_MOST_WIDTH + 1][CONV_MOST_ROWS + 1]; /* [units][pixels], up to the best */
} ConvTable;
ISA_TABLE(ConvTable, conv_table);
ISA_TABLE(ConvTable, conv_line_table); /* of the same sizes */

typedef struct ConvFewTable {
    int64_t vector;
    int rows[CONV_MOST_FEW + 1]; /* of a tile at most, by output channels; 0: so many are not few */
    ConvTileFn tile[CONV_MOST_FEW + 1];
} ConvFewTable;
ISA_TABLE(ConvFewTable, conv_few_table);

#endif
