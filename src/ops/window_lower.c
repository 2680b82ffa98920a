/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of ops with sliding windows. All windows of a padded operand are one strided reading of it: convolution is a
   product with them, a pool is a reduction over them. */
#include <float.h>

#include "ops/lower_int.h"
#include "ops/nn_int.h"

/* Sizes that a lowering begins with. */
typedef struct Windows {
    Window w;
    const Shape *x, *y;
    int64_t taps, positions; /* of one window; of one plane of the result */
} Windows;

static bool read_windows(LowerCtx *c, const Value *x, const Value *weights, Windows *s) {
    const Value *y = c->node->results[0];
    c->declined |= !lower_sizes_known(c) || !shape_is_known(lower_shape(y)) ||
                   2 * (lower_shape(y)->rank - 2) + 2 > TN_MAX_RANK;
    if (c->declined) return false;
    *s = (Windows){.x = lower_shape(x), .y = lower_shape(y), .taps = 1};
    c->status = window_for_shapes(c->node, weights ? lower_shape(weights) : NULL, s->x, s->y, &s->w);
    for (int d = 0; d < s->w.rank; d++) s->taps *= s->w.kernel[d];
    s->positions = lower_product(s->y, 2, s->y->rank);
    return c->status == TN_OK;
}

/* [batch, channels, taps.., positions..] of what is padded with `fill`. */
static Value *windows_of(LowerCtx *c, const Windows *s, Value *x, Value *fill) {
    int64_t pads[2 * TN_MAX_RANK] = {0}, padded[TN_MAX_RANK], strides[TN_MAX_RANK], sizes[TN_MAX_RANK],
                     steps[TN_MAX_RANK];
    int n = s->w.rank, rank = n + 2;
    memcpy(padded, s->x->dims, sizeof padded);
    for (int d = 0; d < n; d++) {
        int64_t reach = (s->y->dims[2 + d] - 1) * s->w.stride[d] + (s->w.kernel[d] - 1) * s->w.dilation[d] + 1;
        pads[2 + d] = s->w.begin[d];
        pads[rank + 2 + d] = max_i64(reach - s->w.begin[d] - s->x->dims[2 + d], 0);
        padded[2 + d] += pads[2 + d] + pads[rank + 2 + d];
    }
    lower_strides(rank, padded, strides);
    for (int d = 0; d < 2; d++) sizes[d] = s->x->dims[d], steps[d] = strides[d];
    for (int d = 0; d < n; d++) {
        sizes[2 + d] = s->w.kernel[d], steps[2 + d] = s->w.dilation[d] * strides[2 + d];
        sizes[2 + n + d] = s->y->dims[2 + d], steps[2 + n + d] = s->w.stride[d] * strides[2 + d];
    }
    return lower_view(c, lower_pad(c, x, pads, fill), 0, sizes, steps, 2 + 2 * n);
}

/* ---- convolution --------------------------------------------------------------------------------------------- */

/* Weights [groups, out, in * taps] times windows [batch, groups, in * taps, positions]. */
static Value *convolve(LowerCtx *c, Value *x, Value *weights, Value *bias) {
    Windows s;
    if (c->status != TN_OK || !read_windows(c, x, weights, &s)) return NULL;
    int64_t group = attr_int(c->node, "group"), k = lower_shape(weights)->dims[1] * s.taps;
    int64_t columns[] = {s.x->dims[0], group, k, s.positions}, rows[] = {group, s.y->dims[1] / group, k};
    Value *a = lower_reshape(c, weights, rows, 3);
    Value *b = lower_reshape(c, windows_of(c, &s, x, lower_number(c, lower_dtype(x), 0)), columns, 4);
    Value *y = lower_reshape(c, LOWER(c, "MatMul", a, b), s.y->dims, s.y->rank);
    return bias ? LOWER(c, "Add", y, lower_along(c, bias, 1, s.y->rank)) : y;
}

tn_status lower_conv(LowerCtx *c) {
    if (lower_by_widening(c)) return TN_OK;
    c->out[0] = convolve(c, lower_in(c, 0), lower_in(c, 1), lower_in(c, 2));
    return TN_OK;
}

tn_status lower_fused_conv(LowerCtx *c) {
    Activation act;
    if (lower_by_widening(c)) return TN_OK;
    TRY(conv_activation(c->node, &act));
    Value *operands[] = {lower_in(c, 0), lower_in(c, 1), lower_in(c, 2)};
    Value *y = lower_like(c, "Conv", operands, 3);
    c->out[0] = lower_activation(c, &act, lower_plus(c, y, lower_in(c, 3)));
    return TN_OK;
}

tn_status lower_nhwc_conv(LowerCtx *c) {
    if (!lower_sizes_known(c)) return TN_OK;
    Value *operands[] = {lower_channels(c, lower_in(c, 0), false), lower_channels(c, lower_in(c, 1), false),
                         lower_in(c, 2)};
    c->out[0] = lower_channels(c, lower_like(c, "Conv", operands, 3), true);
    return TN_OK;
}

/* An integer less its zero point, which may be one for each slice along `axis`, as f64: sums of products are exact. */
static Value *centred(LowerCtx *c, Value *x, Value *zero, int axis) {
    int rank = lower_shape(x)->rank;
    if (zero) zero = lower_along(c, lower_cast(c, zero, TN_F64), axis, rank);
    return lower_less(c, lower_cast(c, x, TN_F64), zero);
}

tn_status lower_conv_integer(LowerCtx *c) {
    if (!lower_sizes_known(c)) return TN_OK;
    Value *operands[] = {centred(c, lower_in(c, 0), lower_in(c, 2), 1), centred(c, lower_in(c, 1), lower_in(c, 3), 0)};
    Value *sums = lower_like(c, "Conv", operands, 2);
    c->out[0] = lower_cast(c, lower_cast(c, sums, TN_I64), TN_I32); /* modulo 2^32 */
    return TN_OK;
}

tn_status lower_qlinear_conv(LowerCtx *c) {
    if (!lower_sizes_known(c)) return TN_OK;
    Value *bias = lower_in(c, 8), *w_scale = lower_in(c, 4);
    Value *operands[] = {centred(c, lower_in(c, 0), lower_in(c, 2), 1), centred(c, lower_in(c, 3), lower_in(c, 5), 0),
                         bias ? lower_cast(c, bias, TN_F64) : NULL};
    Value *sums = lower_like(c, "Conv", operands, bias ? 3 : 2);
    int rank = lower_shape(lower_in(c, 0))->rank;
    Value *scale = LOWER(c, "Div", LOWER(c, "Mul", lower_in(c, 1), w_scale), lower_in(c, 6));
    Value *y = LOWER(c, "Mul", lower_cast(c, sums, TN_F32), lower_along(c, scale, 1, rank));
    c->out[0] = lower_requantised(c, y, lower_in(c, 7));
    return TN_OK;
}

/* ---- pools --------------------------------------------------------------------------------------------------- */

/* How many taps of the window that begins at `start` lie within [low, high). */
static int64_t taps_within(const Window *w, int d, int64_t start, int64_t low, int64_t high) {
    int64_t n = 0;
    for (int64_t t = 0; t < w->kernel[d]; t++)
        n += start + t * w->dilation[d] >= low && start + t * w->dilation[d] < high;
    return n;
}

/* Of each position, from the elements (`padding` too) that its window covers. */
static bool count_taps(LowerCtx *c, const Windows *s, bool padding, double **counts) {
    int64_t at[TN_MAX_RANK] = {0};
    *counts = lower_scratch(c, double, s->positions);
    for (int64_t p = 0; c->status == TN_OK && p < s->positions; p++, next_index(s->w.rank, s->y->dims + 2, at)) {
        (*counts)[p] = 1;
        for (int d = 0; d < s->w.rank; d++) {
            int64_t start = at[d] * s->w.stride[d] - s->w.begin[d], size = s->x->dims[2 + d];
            (*counts)[p] *= (double)taps_within(&s->w, d, start, padding ? -s->w.begin[d] : 0,
                                                padding ? size + s->w.end[d] : size);
        }
    }
    return c->status == TN_OK;
}

/* [batch, channels, taps, positions] */
static Value *flat_windows(LowerCtx *c, const Windows *s, Value *x, Value *fill) {
    int64_t dims[] = {s->x->dims[0], s->x->dims[1], s->taps, s->positions};
    return lower_reshape(c, windows_of(c, s, x, fill), dims, 4);
}

static Value *sum_windows(LowerCtx *c, const Windows *s, Value *x) {
    int64_t taps = 2;
    return lower_reduce(c, "ReduceSum", flat_windows(c, s, x, lower_number(c, lower_dtype(x), 0)), &taps, 1, false);
}

tn_status lower_average_pool(LowerCtx *c) {
    Value *x = lower_in(c, 0);
    Windows s;
    double *counts;
    if (lower_by_widening(c) || !read_windows(c, x, NULL, &s)) return TN_OK;
    if (!count_taps(c, &s, attr_int(c->node, "count_include_pad") != 0, &counts)) return TN_OK;
    Value *sums = sum_windows(c, &s, x);
    for (int64_t p = 0; p < s.positions; p++) counts[p] = counts[p] > 0 ? counts[p] : NAN; /* the mean of nothing */
    Value *mean = LOWER(c, "Div", sums, lower_table(c, lower_dtype(x), 1, &s.positions, counts));
    c->out[0] = lower_reshape(c, mean, s.y->dims, s.y->rank);
    return TN_OK;
}

tn_status lower_lp_pool(LowerCtx *c) {
    Value *x = lower_in(c, 0);
    Windows s;
    if (lower_by_widening(c) || !read_windows(c, x, NULL, &s)) return TN_OK;
    tn_dtype dtype = lower_dtype(x);
    int64_t p = attr_int(c->node, "p");
    x = LOWER(c, "Abs", x);
    if (p != 1) x = LOWER(c, "Pow", x, lower_number(c, dtype, (double)p));
    Value *y = sum_windows(c, &s, x);
    if (p != 1) y = LOWER(c, "Pow", y, lower_number(c, dtype, 1 / (double)p));
    c->out[0] = lower_reshape(c, y, s.y->dims, s.y->rank);
    return TN_OK;
}

static double least_of(tn_dtype dtype) {
    return dtype_is_float(dtype) ? -INFINITY : dtype_is_unsigned_int(dtype) ? 0 : -128;
}

/* The place in its plane of each tap of each position; in the padding that of the window's first element. */
static Value *tap_places(LowerCtx *c, const Windows *s) {
    bool by_column = attr_int(c->node, "storage_order") != 0;
    int64_t tap[TN_MAX_RANK] = {0}, count = s->taps * s->positions, n = s->w.rank, stride[TN_MAX_RANK];
    double *places = lower_scratch(c, double, count);
    lower_strides((int)n, s->x->dims + 2, stride);
    for (int64_t d = 0, next = 1; by_column && d < n; next *= s->x->dims[2 + d++]) stride[d] = next;
    for (int64_t t = 0; c->status == TN_OK && t < s->taps; t++, next_index((int)n, s->w.kernel, tap)) {
        int64_t at[TN_MAX_RANK] = {0};
        for (int64_t p = 0; p < s->positions; p++, next_index((int)n, s->y->dims + 2, at)) {
            bool inside = true;
            int64_t place = 0, first = 0;
            for (int d = 0; d < n; d++) {
                int64_t start = at[d] * s->w.stride[d] - s->w.begin[d], step = s->w.dilation[d],
                        i = start + tap[d] * step;
                inside &= i >= 0 && i < s->x->dims[2 + d];
                place += i * stride[d];
                first += (start < 0 ? start + (-start + step - 1) / step * step : start) * stride[d];
            }
            places[t * s->positions + p] = (double)(inside ? place : first);
        }
    }
    return lower_cast(c, lower_table(c, TN_F64, 1, &count, places), TN_I64);
}

/* Where the largest elements are, counted over all planes. */
static Value *largest_places(LowerCtx *c, const Windows *s, Value *windows) {
    int64_t planes = s->x->dims[0] * s->x->dims[1], plane = lower_product(s->x, 2, s->x->rank);
    int64_t column[] = {s->x->dims[0], s->x->dims[1], 1};
    Value *tap = LOWER_WITH(c, "ArgMax", ATTRS(attr_i("axis", 2), attr_i("keepdims", 0)), windows);
    Value *cell = LOWER(c, "Mul", tap, lower_number(c, TN_I64, (double)s->positions));
    cell = LOWER(c, "Add", cell, lower_counting(c, s->positions, 0, 1));
    Value *begin = LOWER(c, "Mul", lower_counting(c, planes, 0, 1), lower_number(c, TN_I64, (double)plane));
    Value *place = LOWER(c, "Gather", tap_places(c, s), cell);
    return lower_reshape(c, LOWER(c, "Add", place, lower_reshape(c, begin, column, 3)), s->y->dims, s->y->rank);
}

/* NaN counts only where a window has nothing else. */
static Value *largest(LowerCtx *c, const Windows *s, Value *x, Value *windows) {
    int64_t taps = 2;
    tn_dtype dtype = lower_dtype(x);
    if (!dtype_is_float(dtype)) return lower_reduce(c, "ReduceMax", windows, &taps, 1, false);
    Value *numbers = lower_reduce(c, "ReduceMax", windows, &taps, 1, false);
    Value *nan = lower_number(c, dtype, NAN), *is_nan = LOWER(c, "IsNaN", flat_windows(c, s, x, nan));
    return LOWER(c, "Where", lower_reduce(c, "ReduceMin", is_nan, &taps, 1, false), nan, numbers);
}

tn_status lower_max_pool(LowerCtx *c) {
    Value *x = lower_in(c, 0);
    Windows s;
    double *counts;
    if (lower_by_widening(c) || !read_windows(c, x, NULL, &s) || !count_taps(c, &s, false, &counts)) return TN_OK;
    for (int64_t p = 0; p < s.positions; p++)
        if (counts[p] == 0) return lower_decline(c);
    Value *low = lower_number(c, lower_dtype(x), least_of(lower_dtype(x))), *numbers = x;
    if (dtype_is_float(lower_dtype(x))) numbers = LOWER(c, "Where", LOWER(c, "IsNaN", x), low, x);
    Value *windows = flat_windows(c, &s, numbers, low);
    c->out[0] = lower_reshape(c, largest(c, &s, x, windows), s.y->dims, s.y->rank);
    if (lower_wants(c, 1)) c->out[1] = largest_places(c, &s, windows);
    return TN_OK;
}

/* ---- neighbouring channels ----------------------------------------------------------------------------------- */

tn_status lower_lrn(LowerCtx *c) {
    Value *x = lower_in(c, 0);
    if (lower_by_widening(c) || !lower_sizes_known(c)) return TN_OK;
    const Shape *s = lower_shape(x);
    tn_dtype dtype = lower_dtype(x);
    int64_t size = attr_int(c->node, "size"), pads[2 * TN_MAX_RANK] = {0}, window = 1;
    int64_t plane = lower_product(s, 2, s->rank), channels = s->dims[1] + size - 1;
    pads[1] = (size - 1) / 2;
    pads[s->rank + 1] = size - 1 - pads[1];
    int64_t sizes[] = {s->dims[0], size, s->dims[1], plane}, strides[] = {channels * plane, plane, plane, 1};
    Value *squares = lower_pad(c, LOWER(c, "Mul", x, x), pads, NULL);
    Value *sums = lower_reduce(c, "ReduceSum", lower_view(c, squares, 0, sizes, strides, 4), &window, 1, false);
    Value *energy = LOWER(c, "Mul", lower_reshape(c, sums, s->dims, s->rank),
                          lower_number(c, dtype, attr_float(c->node, "alpha") / (double)size));
    energy = LOWER(c, "Add", energy, lower_number(c, dtype, attr_float(c->node, "bias")));
    c->out[0] = LOWER(c, "Div", x, LOWER(c, "Pow", energy, lower_number(c, dtype, attr_float(c->node, "beta"))));
    return TN_OK;
}
