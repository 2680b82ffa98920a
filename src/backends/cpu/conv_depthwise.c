/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions in which each channel is a group of its own, or groups of a few channels become as many. */
#include "backends/cpu/conv_int.h"
#include "backends/cpu/depthwise_int.h"

typedef struct Depthwise {
    const ConvRunArgs *run;
    const DepthwiseTable *table;
    const float *weights;
    int64_t w_ld;
    int last;                                /* the spatial dimension along which rows run */
    int64_t columns, above;                  /* taps of a row of the window, rows of a window */
    void (*tile)(const DepthwiseTile *tile); /* NULL: pixel by pixel */
    bool grouped;                            /* groups of more than one channel */
    int64_t most;                            /* pixels of a tile */
    int64_t apart;                           /* from one pixel of a tile to the next: their taps are neighbours then */
    int64_t rows;                            /* of an image of the result */
} Depthwise;

static int64_t depthwise_room(int64_t channels) { return (channels + 15) / 16 * 16; }

/* ---- weights ------------------------------------------------------------------------------------------------- */

/* `step` floats from channel to channel. */
static void pack_row(const ConvGeom *g, const Tensor *w, int64_t at, int64_t step, float *dst) {
    int64_t channels = g->group * g->m, room = depthwise_room(channels);
    for (int64_t c = 0; c < channels; c++) memcpy(&dst[c], (const char *)w->data + 4 * (at + c * step), sizeof *dst);
    for (int64_t c = channels; c < room; c++) dst[c] = 0;
}

int64_t depthwise_floats(const ConvGeom *g) { return g->taps * g->c * depthwise_room(g->group * g->m); }

void depthwise_pack(const ConvGeom *g, const Tensor *w, float *dst) {
    int64_t tap[CONV_DIMS] = {0};
    for (int64_t t = 0; t < g->taps; t++) {
        int64_t at = w->offset;
        for (int d = 0; d < g->win.rank; d++) at += tap[d] * w->strides[2 + d];
        for (int64_t i = 0; i < g->c; i++, dst += depthwise_room(g->group * g->m))
            pack_row(g, w, at + i * w->strides[1], w->strides[0], dst);
        for (int d = g->win.rank - 1; d >= 0 && ++tap[d] == g->win.kernel[d]; d--) tap[d] = 0;
    }
}

/* ---- rows ---------------------------------------------------------------------------------------------------- */

enum { MOST_ROWS = 64 }; /* of a window */

typedef struct WindowRows {
    int64_t n;
    const float *x[MOST_ROWS], *w[MOST_ROWS];
} WindowRows;

/* The rows of the window of result row `row` that lie in the data; its column is added later. */
static void find_rows(const Depthwise *d, const float *x, int64_t row, WindowRows *rows) {
    const ConvGeom *g = d->run->g;
    const ConvWindow *w = &g->win;
    int64_t start[CONV_DIMS], tap[CONV_DIMS] = {0};
    for (int k = d->last - 1; k >= 0; k--) {
        start[k] = row % g->out[k] * w->stride[k] - w->begin[k];
        row /= g->out[k];
    }
    rows->n = 0;
    for (int64_t r = 0; r < d->above; r++) {
        int64_t at = 0;
        bool inside = true;
        for (int k = 0; k < d->last; k++) {
            int64_t i = start[k] + tap[k] * w->dilation[k];
            inside &= i >= 0 && i < g->in[k];
            at += i * d->run->x.stride[k];
        }
        if (inside) {
            rows->x[rows->n] = x + at;
            rows->w[rows->n++] = d->weights + r * d->columns * g->c * d->w_ld;
        }
        for (int k = d->last - 1; k >= 0 && ++tap[k] == w->kernel[k]; k--) tap[k] = 0;
    }
}

static void finish_of(const Depthwise *d, int64_t image, int64_t pixel, ConvFinish *f) {
    const ConvEpilogue *after = &d->run->after;
    *f = (ConvFinish){.bias = after->bias, .residual_ld = after->residual_ld, .lo = after->lo, .hi = after->hi};
    if (after->residual.data)
        f->residual = after->residual.data + image * after->residual.image + pixel * after->residual_ld;
}

/* `n` pixels of a row, from `first` on. */
static void run_tile(const Depthwise *d, const WindowRows *rows, int64_t image, int64_t row, int64_t first, int64_t n) {
    const ConvRunArgs *run = d->run;
    const ConvGeom *g = run->g;
    const ConvWindow *w = &g->win;
    int64_t start = first * w->stride[d->last] - w->begin[d->last], x_ld = run->x.stride[d->last];
    int64_t pixel = row * g->out[d->last] + first, dilation = w->dilation[d->last];
    const float *x[MOST_ROWS];
    ConvFinish finish;
    for (int64_t r = 0; r < rows->n; r++) x[r] = rows->x[r] + start * x_ld;
    finish_of(d, image, pixel, &finish);
    finish.residual_ld *= d->apart;
    DepthwiseTile t = {.x = x,
                       .w = rows->w,
                       .n_rows = rows->n,
                       .x_ld = d->grouped ? x_ld : x_ld * dilation,
                       .w_ld = d->w_ld,
                       .n = n,
                       .channels = g->group * g->m,
                       .columns = d->columns,
                       .step = w->stride[d->last],
                       .dilation = dilation,
                       .y = run->y.data + image * run->y.image + pixel * run->y_ld,
                       .y_ld = run->y_ld * d->apart,
                       .finish = &finish};
    int64_t left = max_i64(0, -start), right = g->in[d->last] - start; /* the data in columns */
    if (d->grouped) {
        t.from = left;
        t.to = right;
    } else {
        t.from = (left + dilation - 1) / dilation;
        t.to = min_i64((n - 1) * t.step + d->columns, right > 0 ? (right - 1) / dilation + 1 : 0);
    }
    (d->tile ? d->tile : d->table->pixel)(&t);
}

/* The row, and the body on pixels that are finished, while they are near. */
static void run_row(const Depthwise *d, const WindowRows *rows, int64_t image, int64_t row) {
    const ConvRunArgs *run = d->run;
    int64_t width = run->g->out[d->last], waits = 0, enough = conv_body_pixels(run->g->group * run->g->m);
    for (int64_t phase = 0; phase < min_i64(d->apart, width); phase++) {
        int64_t n = (width - phase + d->apart - 1) / d->apart, tiles = (n + d->most - 1) / d->most;
        bool is_last = phase + 1 == min_i64(d->apart, width);
        for (int64_t i = 0; i < tiles; i++) {
            int64_t first = i * n / tiles, end = (i + 1) * n / tiles;
            run_tile(d, rows, image, row, phase + first * d->apart, end - first);
            int64_t done = i + 1 == tiles ? width : end;
            if (!run->after.body || !is_last || (done < width && (d->apart > 1 || end - waits < enough))) continue;
            conv_body(run, image, row * width + waits, row * width + done, 0, run->g->group * run->g->m);
            waits = done;
        }
    }
}

/* One item is one row of the result. */
static void run_range(void *arg, int64_t begin, int64_t end) {
    const Depthwise *d = arg;
    for (int64_t item = begin; item < end; item++) {
        int64_t image = item / d->rows, row = item % d->rows;
        WindowRows rows;
        find_rows(d, d->run->x.data + image * d->run->x.image, row, &rows);
        run_row(d, &rows, image, row);
    }
}

static void choose_tile(Depthwise *d) {
    const ConvGeom *g = d->run->g;
    int64_t step = g->win.stride[d->last], dilation = g->win.dilation[d->last];
    bool fits = (dilation == 1 || step == 1) && d->columns < 8 && step < 3 && g->group >= d->table->vector;
    d->grouped = g->c > 1;
    d->apart = 1;
    if (d->grouped) {
        d->tile = d->table->grouped[g->c];
        d->most = d->table->grouped_pixels;
    } else if (fits) {
        d->tile = d->table->tile[d->columns][step];
        d->most = DEPTHWISE_PIXELS;
    }
    if (!d->tile) d->most = 1;
    else if (!d->grouped) d->apart = dilation;
}

bool depthwise_takes(const ConvGeom *g) {
    const DepthwiseTable *table = ISA_PICK(depthwise_table);
    bool grouped = g->c > 1 && g->c <= 8 && table->grouped[g->c] && g->group * g->m >= table->vector;
    if (g->c != g->m || g->group == 1 || (g->c != 1 && !grouped)) return false;
    return g->taps / g->win.kernel[g->win.rank - 1] <= MOST_ROWS;
}

tn_status conv_depthwise(KernelCtx *c, const ConvRunArgs *run, const float *weights) {
    const ConvGeom *g = run->g;
    int last = g->win.rank - 1;
    Depthwise d = {.run = run,
                   .table = ISA_PICK(depthwise_table),
                   .weights = weights,
                   .w_ld = depthwise_room(g->group * g->m),
                   .last = last,
                   .columns = g->win.kernel[last],
                   .above = g->taps / g->win.kernel[last],
                   .rows = g->out_px / max_i64(1, g->out[last])};
    choose_tile(&d);
    double cost = (double)(g->out[last] * g->group * g->m * g->c * g->taps) / 20;
    return kernel_parallel(c, g->batch * d.rows, cost, run_range, &d);
}
