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
    bool repeated;                           /* channels of the data have several results */
    int64_t most;                            /* pixels of a tile */
    int64_t apart;                           /* from one pixel of a tile to the next: their taps are neighbours then */
    int64_t rows;                            /* of an image of the result */
    int64_t strip;                           /* rows that are done at a time */
    /* Rows that share data: blocks of an image and parts of the channels that are items; pixels of a row at a time. */
    int64_t row_blocks, parts, pixels;
} Depthwise;

/* Taps parts of a page apart would fall into the same few lines of the first cache. */
static int64_t depthwise_room(int64_t channels) {
    int64_t room = (channels + 15) / 16 * 16;
    return room % 128 == 0 ? room + 16 : room;
}

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

enum {
    STRIP_ROWS = 16,    /* of the result, at a time */
    BODY_FLOATS = 16384 /* of a strip with a body behind it */
};

/* The rows of the window of result row `row` that lie in the data; its column is added later. */
static void find_rows(const Depthwise *d, const float *x, int64_t row, DepthwiseWindow *rows) {
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

static void finish_of(const Depthwise *d, int64_t image, int64_t pixel, int64_t channel, ConvFinish *f) {
    const ConvEpilogue *after = &d->run->after;
    *f = (ConvFinish){.residual_ld = after->residual_ld * d->apart, .lo = after->lo, .hi = after->hi};
    if (after->bias) f->bias = after->bias + channel;
    if (after->residual.data)
        f->residual = after->residual.data + image * after->residual.image + pixel * after->residual_ld + channel;
}

/* n neighbouring pixels, or as far apart as taps are, from `first` on, of so many rows from `row` on. */
static void run_tile(const Depthwise *d, const DepthwiseWindow *rows, int64_t image, int64_t row, int64_t n_rows,
                     int64_t first, int64_t n) {
    const ConvRunArgs *run = d->run;
    const ConvGeom *g = run->g;
    const ConvWindow *w = &g->win;
    int64_t start = first * w->stride[d->last] - w->begin[d->last], x_ld = run->x.stride[d->last];
    int64_t width = g->out[d->last], pixel = row * width + first, dilation = w->dilation[d->last];
    ConvFinish finish;
    finish_of(d, image, pixel, 0, &finish);
    DepthwiseTile t = {.windows = rows,
                       .n_windows = n_rows,
                       .x_at = start * x_ld,
                       .x_ld = d->grouped ? x_ld : x_ld * dilation,
                       .w_ld = d->w_ld,
                       .n = n,
                       .channels = g->group * g->m,
                       .times = g->m,
                       .columns = d->columns,
                       .step = w->stride[d->last],
                       .dilation = dilation,
                       .y = run->y.data + image * run->y.image + pixel * run->y_ld,
                       .y_ld = run->y_ld * d->apart,
                       .y_row = width * run->y_ld,
                       .residual_row = width * run->after.residual_ld,
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

/* Rows of the result, and the body on them while they are near. */
static void run_strip(const Depthwise *d, int64_t image, int64_t row, int64_t n) {
    const ConvRunArgs *run = d->run;
    int64_t width = run->g->out[d->last];
    DepthwiseWindow rows[STRIP_ROWS];
    for (int64_t i = 0; i < n; i++) find_rows(d, run->x.data + image * run->x.image, row + i, &rows[i]);
    for (int64_t phase = 0; phase < min_i64(d->apart, width); phase++) {
        int64_t pixels = (width - phase + d->apart - 1) / d->apart, tiles = (pixels + d->most - 1) / d->most;
        for (int64_t i = 0; i < tiles; i++) {
            int64_t first = i * pixels / tiles, end = (i + 1) * pixels / tiles;
            run_tile(d, rows, image, row, n, phase + first * d->apart, end - first);
        }
    }
    if (run->after.body) conv_body(run, image, row * width, (row + n) * width, 0, run->g->group * run->g->m);
}

/* One item is one row of the result. */
static void run_range(void *arg, int64_t begin, int64_t end) {
    const Depthwise *d = arg;
    for (int64_t item = begin, n; item < end; item += n) {
        int64_t row = item % d->rows;
        n = min_i64(min_i64(end - item, d->rows - row), d->strip);
        run_strip(d, item / d->rows, row, n);
    }
}

/* ---- rows that share data ------------------------------------------------------------------------------------ */

/* For rows and tiles. */
static bool enough_channels(const Depthwise *d) {
    const ConvGeom *g = d->run->g;
    if (d->repeated) return d->table->tile_repeated[3][1] && g->group * g->m >= d->table->vector;
    return g->group >= d->table->least;
}

/* Whether kernels for neighbouring rows of the result do it. */
static bool rows_take(const Depthwise *d) {
    const ConvGeom *g = d->run->g;
    const ConvWindow *w = &g->win;
    if (w->rank != 2 || g->c != 1 || !enough_channels(d)) return false;
    for (int k = 0; k < 2; k++)
        if (w->kernel[k] != 3 || w->dilation[k] != 1 || w->stride[k] > 2) return false;
    return w->stride[0] == w->stride[1] && w->begin[1] <= 2 && g->in[1] + w->begin[1] >= g->out[1] * w->stride[1];
}

/* The rows of the data that there are under n rows of the result, counted from the first one's window's first. */
static uint32_t rows_inside(const ConvGeom *g, int64_t row, int64_t n) {
    int64_t step = g->win.stride[0], first = row * step - g->win.begin[0];
    uint32_t inside = 0;
    for (int64_t r = 0; r < (n - 1) * step + 3; r++) inside |= (uint32_t)(first + r >= 0 && first + r < g->in[0]) << r;
    return inside;
}

/* Result rows [row, row + n), some channels of them. */
static void run_rows(const Depthwise *d, int64_t image, int64_t row, int64_t n, int64_t channel, int64_t channels) {
    const ConvRunArgs *run = d->run;
    const ConvGeom *g = run->g;
    int64_t width = g->out[1], step = g->win.stride[1], x_ld = run->x.stride[1];
    int64_t segments = (width + d->pixels - 1) / d->pixels;
    const float *x = run->x.data + image * run->x.image + (row * step - g->win.begin[0]) * run->x.stride[0];
    if (!d->repeated) x += channel;
    float *y = run->y.data + image * run->y.image + row * width * run->y_ld + channel;
    ConvFinish finish;
    DepthwiseRows t = {.x_ld = x_ld,
                       .x_row = run->x.stride[0],
                       .inside = rows_inside(g, row, n),
                       .w = d->weights + channel,
                       .w_ld = d->w_ld,
                       .channels = channels,
                       .channel = channel,
                       .times = g->m,
                       .y_ld = run->y_ld,
                       .y_row = width * run->y_ld,
                       .residual_row = width * run->after.residual_ld,
                       .finish = &finish};
    for (int64_t i = 0; i < segments; i++) {
        int64_t first = i * width / segments, start = first * step - g->win.begin[1];
        t.x = x + start * x_ld;
        t.from = max_i64(0, -start);
        t.to = g->in[1] - start;
        t.n = (i + 1) * width / segments - first;
        t.y = y + first * run->y_ld;
        finish_of(d, image, row * width + first, channel, &finish);
        (d->repeated ? d->table->rows_repeated : d->table->rows)[step][n](&t);
        for (int64_t r = row; run->after.body && r < row + n; r++)
            conv_body(run, image, r * width + first, r * width + first + t.n, channel, channels);
    }
}

/* One item is a block of rows of the result with a part of the channels. */
static void run_blocks(void *arg, int64_t begin, int64_t end) {
    const Depthwise *d = arg;
    int64_t vector = d->table->vector, channels = d->run->g->group * d->run->g->m,
            vectors = (channels + vector - 1) / vector;
    for (int64_t item = begin; item < end; item++) {
        int64_t part = item % d->parts, block = item / d->parts % d->row_blocks,
                image = item / d->parts / d->row_blocks;
        int64_t row = block * d->rows / d->row_blocks, n = (block + 1) * d->rows / d->row_blocks - row;
        int64_t channel = part * vectors / d->parts * vector; /* whole vectors, but for the last */
        int64_t after = min_i64(channels, (part + 1) * vectors / d->parts * vector);
        run_rows(d, image, row, n, channel, after - channel);
    }
}

/* Threads share channels where there are fewer blocks of rows. The data of a block's rows is to stay in the second cache, and
   where vectors share lines of the first one, what all of them read of one vector in that. */
static void choose_rows(Depthwise *d, int threads) {
    const ConvGeom *g = d->run->g;
    int64_t channels = g->group * g->m, step = g->win.stride[1], most = d->table->most_rows[step],
            line = 64 / (int64_t)sizeof(float);
    int64_t each = ((most - 1) * step + 3) * step + most; /* elements of data and results for a pixel of a row */
    int64_t room = cpu_caches()->l2 / 2 / (each * channels * (int64_t)sizeof(float));
    if (d->table->vector < line) room = min_i64(room, cpu_caches()->l1 * 3 / 4 / (each * 64));
    else if (step == 2 && channels % line != 0) room = min_i64(room, cpu_caches()->l1 * 3 / 4 / (each * 2 * 64));
    if (d->run->after.body) room = min_i64(room, BODY_FLOATS / (most * channels));
    d->pixels = max_i64(room, 8);
    d->row_blocks = (d->rows + most - 1) / most;
    int64_t blocks = g->batch * d->row_blocks, least = 2 * threads;
    d->parts = threads > 1 ? max_i64(1, min_i64((least + blocks - 1) / blocks, channels / d->table->vector / 4)) : 1;
}

/* ---- how much at a time -------------------------------------------------------------------------------------- */

/* Rows that are done at a time. Where vectors share lines of the first cache, what all of them read of one vector is to stay
   there, and what a body has to do in the second. */
static void choose_strip(Depthwise *d) {
    const ConvGeom *g = d->run->g;
    int64_t line = 64 / (int64_t)sizeof(float), channels = g->group * g->m, row = channels * g->out[d->last];
    int64_t step = g->win.stride[d->last], span = (d->most - 1) * step + d->columns;
    d->strip = STRIP_ROWS;
    if (channels % line != 0 || d->table->vector < line) {
        int64_t rows = cpu_caches()->l1 * 3 / 4 / (2 * 64 * span);
        d->strip = min_i64(STRIP_ROWS, max_i64(1, (rows - d->above) / step + 1));
    }
    if (d->run->after.body) d->strip = max_i64(1, min_i64(d->strip, BODY_FLOATS / max_i64(1, row)));
}

static void choose_tile(Depthwise *d) {
    const ConvGeom *g = d->run->g;
    int64_t step = g->win.stride[d->last], dilation = g->win.dilation[d->last];
    bool fits = (dilation == 1 || step == 1) && d->columns < 8 && step < 3 && enough_channels(d);
    d->grouped = g->c > 1;
    if (d->grouped) {
        d->tile = d->table->grouped[g->c];
        d->most = d->table->grouped_pixels;
    } else if (fits) {
        d->tile = (d->repeated ? d->table->tile_repeated : d->table->tile)[d->columns][step];
        d->most = DEPTHWISE_PIXELS;
    }
    if (!d->tile) d->most = 1;
    else if (!d->grouped) d->apart = dilation;
}

/* ---- several results of a channel ---------------------------------------------------------------------------- */

typedef struct Repeat {
    const ConvRunArgs *run;
    float *to;
} Repeat;

/* Each channel as often as there are results of it. One item is a row of the data. */
static void repeat_rows(void *arg, int64_t begin, int64_t end) {
    const Repeat *r = arg;
    const ConvGeom *g = r->run->g;
    const ConvData *x = &r->run->x;
    const DepthwiseTable *table = ISA_PICK(depthwise_table);
    const int last = g->win.rank - 1;
    const int64_t width = g->in[last], rows = g->in_px / width, channels = g->group, times = g->m;
    for (int64_t item = begin; item < end; item++) {
        int64_t at = item / rows * x->image, row = item % rows;
        float *to = r->to + item * width * channels * times;
        for (int k = last - 1; k >= 0; k--) {
            at += row % g->in[k] * x->stride[k];
            row /= g->in[k];
        }
        bool dense = x->stride[last] == channels;
        for (int64_t p = 0; p < (dense ? 1 : width); p++, to += channels * times)
            table->repeat(to, x->data + at + p * x->stride[last], dense ? width * channels : channels, times);
    }
}

/* Windows over the channels repeated: each is a group of its own then. */
static tn_status run_repeated(KernelCtx *c, const ConvRunArgs *run, const float *weights) {
    const ConvGeom *g = run->g;
    int64_t channels = g->group * g->m, count, dims[] = {g->batch, g->in_px, channels};
    size_t bytes;
    ConvGeom repeated = *g;
    ConvRunArgs again = *run;
    TRY(checked_count(3, dims, &count));
    TRY(checked_bytes(TN_F32, count, &bytes));
    Repeat r = {run, arena_raw(c->scratch, bytes + 64, 64)};
    if (!r.to) return TN_OUT_OF_MEMORY;
    if (count > 0) {
        int64_t width = g->in[g->win.rank - 1];
        TRY(kernel_parallel(c, g->batch * (g->in_px / width), (double)(width * channels) / 8, repeat_rows, &r));
    }
    repeated.group = channels;
    repeated.m = 1;
    again.g = &repeated;
    again.x = (ConvData){.data = r.to, .image = g->in_px * channels};
    int64_t stride = channels;
    for (int k = g->win.rank - 1; k >= 0; k--) {
        again.x.stride[k] = stride;
        stride *= g->in[k];
    }
    return conv_depthwise(c, &again, weights);
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

tn_status conv_depthwise(KernelCtx *c, const ConvRunArgs *run, const float *weights) {
    const ConvGeom *g = run->g;
    int last = g->win.rank - 1;
    Depthwise d = {.run = run,
                   .table = ISA_PICK(depthwise_table),
                   .weights = weights,
                   .w_ld = depthwise_room(g->group * g->m),
                   .last = last,
                   .repeated = g->c == 1 && g->m > 1,
                   .apart = 1,
                   .columns = g->win.kernel[last],
                   .above = g->taps / g->win.kernel[last],
                   .rows = g->out_px / max_i64(1, g->out[last])};
    double cost = (double)(g->out[last] * g->group * g->m * g->c * g->taps) / 20;
    if (rows_take(&d)) {
        choose_rows(&d, pool_threads(c->pool));
        int64_t items = g->batch * d.row_blocks * d.parts;
        return kernel_parallel(c, items, cost * (double)g->batch * (double)d.rows / (double)items, run_blocks, &d);
    }
    choose_tile(&d);
    if (d.repeated && !d.tile) return run_repeated(c, run, weights);
    choose_strip(&d);
    return kernel_parallel(c, g->batch * d.rows, cost, run_range, &d);
}

bool depthwise_takes(const ConvGeom *g) {
    const DepthwiseTable *table = ISA_PICK(depthwise_table);
    bool grouped = g->c > 1 && g->c <= 8 && table->grouped[g->c] && g->group * g->m >= table->vector;
    bool repeated = g->c == 1 && g->m <= DEPTHWISE_REPEATS; /* more fill vectors by themselves */
    if (g->group == 1 || (!repeated && !(grouped && g->c == g->m))) return false;
    return g->taps / g->win.kernel[g->win.rank - 1] <= DEPTHWISE_WINDOW;
}
