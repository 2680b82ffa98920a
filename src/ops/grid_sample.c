/* SPDX-License-Identifier: Apache-2.0 */
/* GridSample (ONNX 22): the input at coordinates that the second operand gives, interpolated; any number of spatial
   dimensions. */
#include "ops/complex_int.h"
#include "ops/nn_int.h"

typedef enum SampleMode { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC } SampleMode;
typedef enum SamplePadding { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION } SamplePadding;

typedef struct Sampler {
    SampleMode mode;
    SamplePadding padding;
    bool align_corners, single; /* single: coordinates are floats and computed so, as onnxruntime does */
    int rank, taps;             /* spatial dimensions; elements that a result is made of along each */
    int parts;                  /* numbers that an element is made of: 2 of complex ones */
    int64_t in[TN_MAX_RANK], in_plane, out_plane, channels, batch;
} Sampler;

static tn_status read_sampler(const Node *node, Sampler *s) {
    *s = (Sampler){.align_corners = attr_int(node, "align_corners") != 0};
    Str mode = attr_string(node, "mode"), padding = attr_string(node, "padding_mode");
    if (str_equal(mode, STR("nearest"))) s->mode = SAMPLE_NEAREST;
    else if (str_equal(mode, STR("cubic")) || str_equal(mode, STR("bicubic"))) s->mode = SAMPLE_CUBIC;
    else if (!str_equal(mode, STR("linear")) && !str_equal(mode, STR("bilinear")))
        return fail(TN_INVALID_MODEL, "mode is \"%.*s\"; linear, nearest or cubic is wanted", (int)mode.n, mode.s);
    if (str_equal(padding, STR("border"))) s->padding = SAMPLE_BORDER;
    else if (str_equal(padding, STR("reflection"))) s->padding = SAMPLE_REFLECTION;
    else if (!str_equal(padding, STR("zeros")))
        return fail(TN_INVALID_MODEL, "padding_mode is \"%.*s\"; zeros, border or reflection is wanted", (int)padding.n,
                    padding.s);
    s->taps = s->mode == SAMPLE_NEAREST ? 1 : s->mode == SAMPLE_LINEAR ? 2 : 4;
    return TN_OK;
}

static tn_status grid_sample_infer(InferCtx *c) {
    Sampler s;
    TRY(read_sampler(c->node, &s));
    int rank = rank_known(c, 0) ? in_shape(c, 0)->rank : in_shape(c, 1)->rank;
    if (rank < 0) {
        set_unknown_rank(c, 0, -1);
        return TN_OK;
    }
    if (rank < 3) return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 3 or more are wanted", IN_NAME(c, 0), rank);
    TRY(want_rank(c, 1, rank));
    Dim same;
    TRY(dims_must_match(in_dim(c, 1, rank - 1), rank - 2, "coordinates of the grid", &same));
    Shape y = {.rank = rank, .dims = {0, in_dim(c, 0, 1)}};
    TRY(dims_must_match(in_dim(c, 0, 0), in_dim(c, 1, 0), "batches of X and grid", &y.dims[0]));
    for (int d = 2; d < rank; d++) y.dims[d] = in_dim(c, 1, d - 1);
    set_shape(c, 0, &y);
    return TN_OK;
}

static double grid_sample_flops(const Node *node, const Shape *in, const Shape *out) {
    Sampler s;
    double n = 1;
    (void)in;
    if (read_sampler(node, &s) != TN_OK) return 0;
    for (int d = 0; d < out->rank; d++) n *= (double)out->dims[d];
    for (int d = 2; d < out->rank; d++) n *= 2 * s.taps;
    return n;
}

/* Folds a coordinate back between the two bounds, as between mirrors. */
static double reflect(double x, double low, double high) {
    double range = high - low;
    if (range <= 0) return low;
    double away = x < low ? low - x : x > high ? x - high : -1;
    if (away < 0) return x;
    double times = floor(away / range), rest = away - times * range;
    bool same_side = fmod(times, 2) == 0;
    return (x < low) == same_side ? low + rest : high - rest;
}

/* The element at an integer coordinate, -1 for none. */
static int64_t element_at(const Sampler *s, double i, int64_t size) {
    double low = s->align_corners ? 0 : -0.5, high = s->align_corners ? (double)size - 1 : (double)size - 0.5;
    if (s->padding == SAMPLE_REFLECTION) i = reflect(i, low, high);
    if (i >= 0 && i <= (double)size - 1) return (int64_t)i;
    if (s->padding == SAMPLE_ZEROS || size == 0) return -1;
    return i > 0 ? size - 1 : 0;
}

/* floor, which many processors' baseline has no instruction for. */
static double whole_below(double x) {
    if (!(fabs(x) < 0x1p50)) return floor(x);
    double whole = (double)(int64_t)x;
    return whole - (whole > x);
}

/* The elements along one dimension that a normalised coordinate reads, and their weights. */
static void find_taps(const Sampler *s, double g, int64_t size, int64_t *index, double *weight) {
    double x = s->align_corners ? (g + 1) / 2 * (double)(size - 1) : ((g + 1) * (double)size - 1) / 2;
    if (s->single) {
        float f = (float)g + 1, n = (float)size;
        x = (double)(s->align_corners ? f / 2 * (n - 1) : (f * n - 1) / 2);
    }
    double low = s->align_corners ? 0 : -0.5, high = s->align_corners ? (double)size - 1 : (double)size - 0.5;
    if (s->mode == SAMPLE_NEAREST) x = rint(x);
    if (x < low || x > high) {
        /* A cubic window beyond the border is not moved: its taps are, one by one. */
        if (s->padding == SAMPLE_BORDER && s->mode != SAMPLE_CUBIC) x = x < 0 ? 0 : (double)size - 1;
        if (s->padding == SAMPLE_REFLECTION) x = reflect(x, low, high);
    }
    double base = whole_below(x), t = x - base;
    const double a = -0.75;
    switch (s->mode) {
    case SAMPLE_NEAREST:
        weight[0] = 1;
        index[0] = element_at(s, x, size);
        return;
    case SAMPLE_LINEAR: weight[0] = 1 - t, weight[1] = t; break;
    case SAMPLE_CUBIC:
        weight[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
        weight[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
        weight[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
        weight[3] = ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a;
        base -= 1;
        break;
    }
    for (int k = 0; k < s->taps; k++) index[k] = element_at(s, base + k, size);
}

static tn_status sampler_of(const KernelCtx *c, Sampler *s) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    TRY(read_sampler(c->node, s));
    s->rank = x->rank - 2, s->batch = x->dims[0], s->channels = x->dims[1];
    s->parts = dtype_is_complex(x->dtype) ? 2 : 1;
    s->single = c->in[1]->dtype != TN_F64;
    s->in_plane = s->out_plane = 1;
    for (int d = 0; d < s->rank; d++) {
        s->in_plane *= s->in[d] = x->dims[2 + d];
        s->out_plane *= y->dims[2 + d];
    }
    return TN_OK;
}

enum { SAMPLE_BLOCK = 64, SAMPLE_TAPS = 64 };

/* Of place number `item`. The grid names the innermost dimension first. */
static void find_all_taps(const Sampler *s, const double *grid, int64_t item, int64_t index[][4], double weight[][4]) {
    for (int d = 0; d < s->rank; d++)
        find_taps(s, grid[item * s->rank + s->rank - 1 - d], s->in[d], index[d], weight[d]);
}

/* The element that one tap of each dimension leads to, and its weight; -1: one of them reads nothing. */
static int64_t tap_element(const Sampler *s, int64_t index[][4], double weight[][4], const int64_t *tap, double *w) {
    int64_t at = 0;
    *w = 1;
    for (int d = 0; d < s->rank; d++) {
        int64_t k = index[d][tap[d]];
        at = at < 0 || k < 0 ? -1 : at * s->in[d] + k;
        *w *= weight[d][tap[d]];
    }
    return at;
}

#define BODY "ops/grid_sample_body.h"
#include "ops/each_float_int.h"

/* One item is one place of the result, all channels: elements are copied, whatever they are. */
static tn_status grid_nearest(KernelCtx *c) {
    static const uint64_t nothing[2] = {0};
    const Tensor *x = c->in[0], *y = &c->out[0];
    Sampler s;
    const void *data;
    const double *grid;
    double weight;
    TRY(sampler_of(c, &s));
    TRY(dense_bytes(c, 0, &data));
    TRY(dense_f64(c, 1, &grid));
    for (int64_t item = 0; item < s.batch * s.out_plane; item++) {
        int64_t at = 0, b = item / s.out_plane;
        for (int d = 0; d < s.rank; d++) {
            int64_t i;
            find_taps(&s, grid[item * s.rank + s.rank - 1 - d], s.in[d], &i, &weight);
            at = at < 0 || i < 0 ? -1 : at * s.in[d] + i;
        }
        for (int64_t plane = b * s.channels; plane < (b + 1) * s.channels; plane++) {
            int64_t to = y->offset + plane * s.out_plane + item % s.out_plane;
            copy_elements(x->dtype, y->data, to, 1, at < 0 ? nothing : data, at < 0 ? 0 : plane * s.in_plane + at, 1,
                          1);
        }
        if (item % 4096 == 0) TRY(kernel_poll(c));
    }
    return TN_OK;
}

/* "For integer input types, intermediate values are computed as floating point and cast to integer at the end": in
   double. */
static tn_status grid_sample_reference(KernelCtx *c) {
    tn_dtype dtype = c->in[0]->dtype;
    if (attr_string_is(c->node, "mode", "nearest")) return grid_nearest(c);
    if (dtype == TN_STRING || dtype == TN_BOOL)
        return fail(TN_UNSUPPORTED, "%s elements have no average: mode must be nearest", dtype_name(dtype));
    return class_of(dtype) == CLASS_F32 ? grid_sample_f32(c) : grid_sample_f64(c);
}

#define SAMPLED (TS_NUMERIC | TS_COMPLEX | TS(TN_BOOL) | TS(TN_STRING))

const OpSchema op_GridSample = {
    .name = "GridSample",
    .summary = "The input at given coordinates, interpolated (ONNX 22)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", SAMPLED, 'T'}, {"grid", TS_FLOAT}),
    .outputs = OPERANDS({"Y", SAMPLED, 'T'}),
    .attrs = ATTRIBUTES({"align_corners", ATTR_INT}, {"mode", ATTR_STRING, .s = "linear"},
                        {"padding_mode", ATTR_STRING, .s = "zeros"}),
    .infer = grid_sample_infer,
    .reference = grid_sample_reference,
    .flops = grid_sample_flops,
};
