/* SPDX-License-Identifier: Apache-2.0 */
/* Which elements of a dimension make up each element of the resized one, and with what weights. */
#include "ops/resize_int.h"

/* Coordinates are computed in float, as onnxruntime does: ties of `nearest` depend on it. */
static float original_coordinate(const ResizeAttrs *attrs, const ResizeAxis *axis, int64_t i) {
    float x = (float)i, scale = axis->scale, in = (float)axis->in, whole = (float)axis->out;
    /* The length that the scale says is not cut to a whole number, except where only rounding made it a fraction. */
    float out = fabsf(scale * in - whole) < 1e-3f ? whole : scale * in;
    switch (attrs->coord) {
    case COORD_HALF_PIXEL: return (x + 0.5f) / scale - 0.5f;
    case COORD_HALF_PIXEL_SYMMETRIC: {
        float adjustment = whole / (scale * in);
        return in / 2 * (1 - adjustment) + (x + 0.5f) / scale - 0.5f;
    }
    case COORD_PYTORCH_HALF_PIXEL: return axis->out > 1 ? (x + 0.5f) / scale - 0.5f : 0;
    case COORD_ALIGN_CORNERS: return axis->out > 1 && out > 1 ? x * (in - 1) / (out - 1) : 0;
    case COORD_ASYMMETRIC: return x / scale;
    case COORD_CROP:
        if (axis->out > 1 && out > 1)
            return axis->roi_start * (in - 1) + x * (axis->roi_end - axis->roi_start) * (in - 1) / (out - 1);
        return 0.5f * (axis->roi_start + axis->roi_end) * (in - 1);
    }
    return x;
}

static double nearest_index(const ResizeAttrs *attrs, float x) {
    /* What rounding moved off a tie is still one, by as much as onnxruntime allows. */
    bool tie = fabs((double)x - floor((double)x) - 0.5) <= 1e-6;
    switch (attrs->nearest) {
    case NEAREST_PREFER_FLOOR: return tie ? floor((double)x) : round((double)x);
    case NEAREST_PREFER_CEIL: return tie ? ceil((double)x) : round((double)x);
    case NEAREST_FLOOR: return floor((double)x);
    case NEAREST_CEIL: return ceil((double)x);
    }
    return (double)x;
}

static double cubic_weight(double x, double a) {
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
}

static double kernel_weight(const ResizeAttrs *attrs, double x) {
    if (attrs->mode == RESIZE_CUBIC) return cubic_weight(x, (double)attrs->cubic_a);
    return fmax(0, 1 - fabs(x));
}

/* An index that any double may ask for, kept where casts are defined. */
static int64_t clamp_index(double x, int64_t size) {
    if (!(x > 0)) return 0;
    return x >= (double)size ? size - 1 : (int64_t)x;
}

/* Weights of one result around coordinate x: the window begins at `first`. Beyond the edges the edge element stands
   in, unless those are excluded. */
static void fill_window(const ResizeAttrs *attrs, const ResizeAxis *axis, double x, double stretch, int64_t taps,
                        int64_t *index, double *weight) {
    double base = floor(x), reach = (double)(taps / 2 - 1), sum = 0;
    for (int64_t k = 0; k < taps; k++) {
        double at = base - reach + (double)k;
        bool excluded = attrs->exclude_outside && (at < 0 || at >= (double)axis->in);
        index[k] = clamp_index(at, axis->in);
        weight[k] = excluded ? 0 : kernel_weight(attrs, (at - x) * stretch);
        sum += weight[k];
    }
    bool normalise = (attrs->antialias || attrs->exclude_outside) && sum != 0;
    for (int64_t k = 0; normalise && k < taps; k++) weight[k] /= sum;
}

tn_status resize_filter(KernelCtx *c, const ResizeAttrs *attrs, const ResizeAxis *axis, ResizeFilter *out) {
    /* When it shrinks, antialiasing stretches the kernel over all the elements that one result stands for. */
    double stretch = attrs->antialias && axis->scale < 1 ? (double)axis->scale : 1;
    double reach = ceil((attrs->mode == RESIZE_CUBIC ? 2 : 1) / stretch);
    /* Sizes of at least one element never need more; a scale that lies must not either. */
    reach = fmin(reach, 2 * (double)axis->in + 4);
    int64_t taps = attrs->mode == RESIZE_NEAREST ? 1 : 2 * (int64_t)reach;
    int64_t count;
    TRY(checked_count(2, (int64_t[]){axis->out, taps}, &count));
    *out = (ResizeFilter){.taps = taps,
                          .index = kernel_scratch(c, int64_t, (size_t)count),
                          .weight = kernel_scratch(c, double, (size_t)count)};
    bool *outside = kernel_scratch(c, bool, (size_t)axis->out);
    if (!out->index || !out->weight || !outside) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < axis->out; i++) {
        float x = original_coordinate(attrs, axis, i);
        if (attrs->coord == COORD_CROP && !(x >= 0 && x <= (float)(axis->in - 1))) {
            outside[i] = true;
            out->outside = outside;
        }
        if (attrs->mode == RESIZE_NEAREST) {
            out->index[i] = clamp_index(nearest_index(attrs, x), axis->in);
            out->weight[i] = 1;
        } else {
            fill_window(attrs, axis, (double)x, stretch, taps, out->index + i * taps, out->weight + i * taps);
        }
    }
    return TN_OK;
}
