/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPool (values only), AveragePool and their global forms, in float32. */
#include "backends/cpu/conv_int.h"
#include "backends/cpu/pool_int.h"

#include <float.h>
#include <math.h>

typedef struct Pooling {
    ConvGeom g;
    bool largest, whole, count_pads;
    ConvData x, y;
    int64_t x_ld, y_ld, channels; /* x_ld: of a global pool, from pixel to pixel */
    int64_t part;                 /* ... channels of an item */
    const PoolTable *table;
} Pooling;

static bool is_global(const Node *node) { return strncmp(node->op->name, "Global", 6) == 0; }

enum { MOST_ROWS = 256 }; /* of a window */

static bool matches(const KernelQuery *q) {
    const Tensor *x = q->in[0];
    if (q->n_out != 1 || x->dtype != TN_F32 || q->out[0].dtype != TN_F32 || x->rank < 3) return false;
    if (is_global(q->node)) return true;
    IntList kernel = attr_ints(q->node, "kernel_shape");
    double rows = 1;
    for (size_t d = 0; d + 1 < kernel.n; d++) rows *= (double)kernel.data[d];
    return rows <= MOST_ROWS;
}

static void read_pooling(const KernelCtx *c, Pooling *p) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    const char *name = c->node->op->name;
    int rank = x->rank - 2;
    *p = (Pooling){.whole = is_global(c->node), .channels = x->dims[1], .table = ISA_PICK(pool_table)};
    p->largest = strcmp(name, "MaxPool") == 0 || strcmp(name, "GlobalMaxPool") == 0;
    p->g = (ConvGeom){.batch = x->dims[0], .in_px = 1, .out_px = 1, .win.rank = rank};
    if (!p->whole) {
        window_of(c->node, rank, NULL, &p->g.win);
        window_fix(c->node, x->dims + 2, y->dims + 2, &p->g.win);
        p->count_pads = !p->largest && attr_int(c->node, "count_include_pad") != 0;
    }
    for (int d = 0; d < rank; d++) {
        p->g.in_px *= p->g.in[d] = x->dims[2 + d];
        p->g.out_px *= p->g.out[d] = y->dims[2 + d];
    }
}

/* ---- windows ------------------------------------------------------------------------------------------------- */

/* Taps [lo, hi) of a window that begins at `start` which lie in [0, size). */
static void taps_inside(int64_t start, int64_t dilation, int64_t kernel, int64_t size, int64_t *lo, int64_t *hi) {
    *lo = start < 0 ? (-start + dilation - 1) / dilation : 0;
    *hi = size > start ? min_i64(kernel, (size - 1 - start) / dilation + 1) : 0;
    if (*lo > *hi) *lo = *hi;
}

typedef struct Inside {
    int64_t start[CONV_DIMS], lo[CONV_DIMS], hi[CONV_DIMS];
    int64_t taps, divisor;
} Inside;

/* A window that hangs over the padding (ceil_mode) counts the padding that there is, and no more. */
static void find_inside(const Pooling *p, const int64_t *at, Inside *in) {
    const ConvWindow *w = &p->g.win;
    in->taps = in->divisor = 1;
    for (int d = 0; d < w->rank; d++) {
        int64_t lo, hi, padded = p->g.in[d] + w->begin[d] + w->end[d];
        in->start[d] = at[d] * w->stride[d] - w->begin[d];
        taps_inside(in->start[d], w->dilation[d], w->kernel[d], p->g.in[d], &in->lo[d], &in->hi[d]);
        taps_inside(in->start[d] + w->begin[d], w->dilation[d], w->kernel[d], padded, &lo, &hi);
        in->taps *= in->hi[d] - in->lo[d];
        in->divisor *= hi - lo;
    }
    if (!p->count_pads) in->divisor = in->taps;
}

/* Windows from this one on that lie inside as it does, if it meets no padding along the last dimension. */
static int64_t alike(const Pooling *p, const int64_t *at, const Inside *in) {
    const ConvWindow *w = &p->g.win;
    const int last = w->rank - 1;
    int64_t size = p->g.in[last], beyond = size - in->start[last] - (w->kernel[last] - 1) * w->dilation[last] - 1;
    if (in->start[last] < 0 || beyond < 0) return 1;
    return min_i64(p->g.out[last] - at[last], beyond / w->stride[last] + 1);
}

static void run_nothing(const Pooling *p, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = p->largest ? -FLT_MAX : 0;
}

/* A window and those behind it that are alike: how many. */
static int64_t run_windows_from(const Pooling *p, int64_t image, const int64_t *at, float *y) {
    const ConvWindow *w = &p->g.win;
    const int last = w->rank - 1;
    const float *rows[MOST_ROWS], *x = p->x.data + image * p->x.image;
    Inside in;
    find_inside(p, at, &in);
    if (in.taps == 0) {
        run_nothing(p, p->channels, y);
        return 1;
    }
    PoolWindow window = {.windows = alike(p, at, &in),
                         .x_step = w->stride[last] * p->x.stride[last],
                         .y_step = p->y_ld,
                         .x = rows,
                         .n = in.hi[last] - in.lo[last],
                         .x_ld = w->dilation[last] * p->x.stride[last],
                         .channels = p->channels,
                         .divisor = (float)in.divisor,
                         .y = y};
    int64_t tap[CONV_DIMS];
    memcpy(tap, in.lo, sizeof tap);
    for (bool more = true; more;) {
        int64_t offset = (in.start[last] + tap[last] * w->dilation[last]) * p->x.stride[last];
        for (int d = 0; d < last; d++) offset += (in.start[d] + tap[d] * w->dilation[d]) * p->x.stride[d];
        rows[window.n_rows++] = x + offset;
        int d = last - 1;
        for (; d >= 0 && ++tap[d] == in.hi[d]; d--) tap[d] = in.lo[d];
        more = d >= 0;
    }
    if (p->largest) p->table->largest(&window);
    else p->table->sum(&window);
    return window.windows;
}

/* One item is one row of the result. */
static void run_rows(void *arg, int64_t begin, int64_t end) {
    const Pooling *p = arg;
    const ConvGeom *g = &p->g;
    int last = g->win.rank - 1;
    int64_t width = g->out[last], rows = g->out_px / width;
    for (int64_t item = begin; item < end; item++) {
        int64_t at[CONV_DIMS], rest = item % rows, image = item / rows;
        for (int d = last - 1; d >= 0; d--) {
            at[d] = rest % g->out[d];
            rest /= g->out[d];
        }
        float *y = p->y.data + image * p->y.image + item % rows * width * p->y_ld;
        for (at[last] = 0; at[last] < width;) at[last] += run_windows_from(p, image, at, y + at[last] * p->y_ld);
    }
}

/* ---- global pools -------------------------------------------------------------------------------------------- */

enum { CHANNELS = 64, FEWER_CHANNELS = 16 }; /* of an item; fewer where there would be too few items for all threads */

/* The window is one row. */
static void run_channels(void *arg, int64_t begin, int64_t end) {
    const Pooling *p = arg;
    int64_t of_image = (p->channels + p->part - 1) / p->part;
    for (int64_t item = begin; item < end; item++) {
        int64_t image = item / of_image, channel = item % of_image * p->part;
        const float *x = p->x.data + image * p->x.image + channel;
        PoolWindow window = {.windows = 1,
                             .x = &x,
                             .n_rows = 1,
                             .n = p->g.in_px,
                             .x_ld = p->x_ld,
                             .channels = min_i64(p->part, p->channels - channel),
                             .divisor = (float)p->g.in_px,
                             .y = p->y.data + image * p->y.image + channel};
        if (p->g.in_px == 0) run_nothing(p, window.channels, window.y);
        else if (p->largest) p->table->largest(&window);
        else p->table->sum(&window);
    }
}

typedef struct Planes {
    const Pooling *p;
    const Tensor *x, *y;
} Planes;

/* Pixels of a channel are neighbours: one item is one channel of one image. */
static void run_planes(void *arg, int64_t begin, int64_t end) {
    const Planes *planes = arg;
    const Pooling *p = planes->p;
    for (int64_t item = begin; item < end; item++) {
        int64_t image = item / p->channels, channel = item % p->channels, n = p->g.in_px;
        const float *x = tensor_bytes(planes->x);
        x += image * planes->x->strides[0] + channel * planes->x->strides[1];
        float *y = tensor_bytes(planes->y);
        y += image * planes->y->strides[0] + channel * planes->y->strides[1];
        *y = p->largest ? p->table->largest_of(x, n) : (float)(p->table->sum_of(x, n) / (double)n);
    }
}

static tn_status run_whole(KernelCtx *c, Pooling *p) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    double px = (double)p->g.in_px;
    int64_t ld;
    if (p->g.in_px > 0 && pixels_follow(x, &ld) && ld == 1) {
        Planes planes = {p, x, y};
        return kernel_parallel(c, p->g.batch * p->channels, px / 10 + 5, run_planes, &planes);
    }
    TRY(conv_like_output(c, x, &p->x, &p->x_ld));
    TRY(conv_output(c, y, &p->y, &p->y_ld));
    int threads = pool_threads(c->pool);
    p->part = threads == 1 || p->g.batch * p->channels >= 2 * threads * CHANNELS ? CHANNELS : FEWER_CHANNELS;
    int64_t n = p->g.batch * ((p->channels + p->part - 1) / p->part);
    TRY(kernel_parallel(c, n, px * (double)p->part / 10, run_channels, p));
    return conv_output_done(c, y, &p->y);
}

/* ---- the kernel ---------------------------------------------------------------------------------------------- */

static tn_status run_windows(KernelCtx *c, Pooling *p) {
    const ConvGeom *g = &p->g;
    int64_t width = g->out[g->win.rank - 1];
    double taps = 1;
    for (int d = 0; d < g->win.rank; d++) taps *= (double)g->win.kernel[d];
    TRY(conv_input(c, c->in[0], &p->g, false, &p->x));
    TRY(conv_output(c, &c->out[0], &p->y, &p->y_ld));
    double cost = (double)width * (taps * (double)p->channels / 10 + 20);
    TRY(kernel_parallel(c, g->batch * (g->out_px / width), cost, run_rows, p));
    return conv_output_done(c, &c->out[0], &p->y);
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    (void)prepared;
    Pooling p;
    if (tensor_count(&c->out[0]) == 0) return TN_OK;
    read_pooling(c, &p);
    return p.whole ? run_whole(c, &p) : run_windows(c, &p);
}

const KernelDesc kernel_cpu_pool = {
    .name = "cpu_pool",
    .op = "MaxPool AveragePool GlobalMaxPool GlobalAveragePool",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 110,
    .match = matches,
    .order = order_channels_last,
    .strided = strided_all,
    .gaps = true,
    .launch = launch,
};
