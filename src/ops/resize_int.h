/* SPDX-License-Identifier: Apache-2.0 */
/* Resize in two parts: resize.c reads what is asked (sizes, scales, regions) and runs; resize_filter.c says which
   elements of one dimension make up one element of the result. */
#ifndef TENON_OPS_RESIZE_INT_H
#define TENON_OPS_RESIZE_INT_H

#include "ops/nn_int.h"

typedef enum ResizeMode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } ResizeMode;
typedef enum ResizeCoord {
    COORD_HALF_PIXEL,
    COORD_HALF_PIXEL_SYMMETRIC,
    COORD_PYTORCH_HALF_PIXEL,
    COORD_ALIGN_CORNERS,
    COORD_ASYMMETRIC,
    COORD_CROP
} ResizeCoord;
typedef enum ResizeNearest { NEAREST_PREFER_FLOOR, NEAREST_PREFER_CEIL, NEAREST_FLOOR, NEAREST_CEIL } ResizeNearest;

typedef struct ResizeAttrs {
    ResizeMode mode;
    ResizeCoord coord;
    ResizeNearest nearest;
    bool antialias, exclude_outside;
    float cubic_a;
} ResizeAttrs;

/* One dimension: sizes, scale, and the region of a crop in fractions of the input. */
typedef struct ResizeAxis {
    int64_t in, out;
    float scale, roi_start, roi_end;
} ResizeAxis;

/* The elements that make up the results along one dimension: result i is the sum over k < taps of
   weight[i * taps + k] times element index[i * taps + k]. */
typedef struct ResizeFilter {
    int64_t taps;
    int64_t *index;
    double *weight;
    bool *outside; /* of a crop: the result is extrapolation_value; NULL: nothing is outside */
} ResizeFilter;

tn_status resize_filter(KernelCtx *c, const ResizeAttrs *attrs, const ResizeAxis *axis, ResizeFilter *out);

#endif
