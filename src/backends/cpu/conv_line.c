/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions with short sums, as networks begin with: of few channels, which may lie anyhow, since each element of a window is
   reached by itself. Tiles go along a row of the result where no window meets padding, and down a column at its ends, so that
   all pixels of a tile leave out the same taps. */
#include "backends/cpu/conv_int.h"

enum {
    MOST_K = 256,      /* of a sum */
    LEAST_COLUMNS = 8, /* of the result */
    BLOCK_ROWS = 12,   /* of the result at a time, which is as high as a tile of its ends */
    BLOCKS_EACH = 16,  /* for a thread about, where there are several */
    COLUMNS = 60,      /* of a part of a row at least, where threads share rows */
    POINT_COLUMNS = 48,
    POINT_CHANNELS = 32 /* where a pixel is its own window: of the result at least, and at most */
};

/* The result along one dimension. */
typedef struct Along {
    int64_t in, out, taps, stride, dilation, begin;
    int64_t inner, inner_end; /* pixels whose windows meet no padding */
    int64_t x, y, residual;   /* from one element to the next in the data, the result, the residual */
} Along;

typedef struct Lines {
    const ConvRunArgs *run;
    const ConvTable *table;
    ConvPanels panels;
    const float *weights;
    int64_t x_channel;
    Along rows, columns;
    int64_t high, wide; /* blocks of an image */
} Lines;

/* Some of the result, by one panel. */
typedef struct Block {
    int64_t image, group, panel;
    int64_t row, row_end, column, column_end;
} Block;

typedef struct Points {
    int64_t n;
    ConvPoint at[MOST_K];
} Points;

static Along along(const ConvGeom *g, int d) {
    Along a = {.in = 1, .out = 1, .taps = 1, .stride = 1, .dilation = 1};
    if (d >= 0) {
        const ConvWindow *w = &g->win;
        a = (Along){g->in[d], g->out[d], w->kernel[d], w->stride[d], w->dilation[d], w->begin[d], 0, 0, 0, 0, 0};
    }
    int64_t room = a.in + a.begin - (a.taps - 1) * a.dilation; /* for windows to begin in, from the first one on */
    a.inner = min_i64(a.out, (a.begin + a.stride - 1) / a.stride);
    a.inner_end = room <= 0 ? 0 : min_i64(a.out, (room + a.stride - 1) / a.stride);
    a.inner_end = max_i64(a.inner, a.inner_end);
    return a;
}

bool conv_lines_take(const ConvGeom *g) {
    ConvPanels p;
    conv_panels(g, g->taps, &p);
    if (g->win.rank > 2 || p.few || p.k == 0 || p.k > MOST_K) return false;
    Along a = along(g, g->win.rank - 1);
    if (g->taps == 1 && (a.out < POINT_COLUMNS || g->m > POINT_CHANNELS)) return false;
    return a.out >= LEAST_COLUMNS && 2 * (a.inner_end - a.inner) >= a.out;
}

/* ---- tiles --------------------------------------------------------------------------------------------------- */

/* What the windows of a line of pixels meet, of which this is one. */
static void find_points(const Lines *l, int64_t row, int64_t column, Points *points) {
    const Along *r = &l->rows, *s = &l->columns;
    const int64_t channels = l->run->g->c, y = row * r->stride - r->begin, x = column * s->stride - s->begin;
    points->n = 0;
    for (int64_t i = 0, k = 0; i < r->taps; i++)
        for (int64_t j = 0; j < s->taps; j++, k += channels) {
            int64_t down = i * r->dilation, right = j * s->dilation;
            if (y + down < 0 || y + down >= r->in || x + right < 0 || x + right >= s->in) continue;
            for (int64_t c = 0; c < channels; c++)
                points->at[points->n++] = (ConvPoint){down * r->x + right * s->x + c * l->x_channel, k + c};
        }
}

static void finish_of(const Lines *l, const Block *b, int64_t channel, int64_t row, int64_t column, int64_t ld,
                      ConvFinish *f) {
    const ConvEpilogue *after = &l->run->after;
    *f = (ConvFinish){.lo = after->lo, .hi = after->hi, .residual_ld = ld};
    if (after->bias) f->bias = after->bias + channel;
    if (after->residual.data)
        f->residual = after->residual.data + b->image * after->residual.image + channel + row * l->rows.residual +
                      column * l->columns.residual;
}

/* n pixels from one on, down a column or along a row. */
static void run_line(const Lines *l, const Block *b, const Points *points, int64_t row, int64_t column,
                     const Along *line, int64_t n) {
    const ConvRunArgs *run = l->run;
    const Along *r = &l->rows, *s = &l->columns;
    const int64_t width = panel_width(&l->panels, b->panel), first = b->panel * l->panels.full;
    const int64_t channel = b->group * run->g->m + first, most = l->table->rows[width / l->table->unit];
    const int64_t tiles = (n + most - 1) / most, size = n / tiles, longer = n % tiles; /* these have one more */
    const int64_t at = (row * r->stride - r->begin) * r->x + (column * s->stride - s->begin) * s->x;
    ConvFinish finish;
    ConvTile t = {.x = run->x.data + b->image * run->x.image + b->group * run->g->c * l->x_channel + at,
                  .x_ld = line->stride * line->x,
                  .points = points->at,
                  .points_end = points->at + points->n,
                  .w = l->weights + b->group * l->panels.group + first * l->panels.k,
                  .y = run->y.data + b->image * run->y.image + channel + row * r->y + column * s->y,
                  .y_ld = line->y,
                  .cols = min_i64(width, run->g->m - first),
                  .finish = &finish};
    finish_of(l, b, channel, row, column, line->residual, &finish);
    for (int k = 0; k < 2; k++) {
        const int64_t pixels = size + 1 - k;
        t.tiles = k ? tiles - longer : longer;
        t.px_step = pixels * t.x_ld;
        if (t.tiles) l->table->tile[width / l->table->unit][pixels](&t);
        t.x += t.tiles * t.px_step;
        t.y += t.tiles * pixels * t.y_ld;
        if (finish.residual) finish.residual += t.tiles * pixels * finish.residual_ld;
    }
}

/* ---- blocks -------------------------------------------------------------------------------------------------- */

/* Pixels of a column in which windows meet padding. */
static void run_column(const Lines *l, const Block *b, int64_t column) {
    const Along *r = &l->rows;
    const int64_t inner = max_i64(b->row, r->inner), inner_end = min_i64(b->row_end, r->inner_end);
    Points points;
    for (int64_t row = b->row, n; row < b->row_end; row += n) {
        n = row == inner && inner < inner_end ? inner_end - inner : 1;
        find_points(l, row, column, &points);
        run_line(l, b, &points, row, column, r, n);
    }
}

/* The body on pixels of a row that are finished, while they are near. */
static void run_body(const Lines *l, const Block *b, int64_t row, int64_t first, int64_t end) {
    const int64_t at = b->panel * l->panels.full, start = row * l->columns.out;
    conv_body(l->run, b->image, start + first, start + end, b->group * l->run->g->m + at,
              min_i64(l->run->g->m - at, l->panels.full));
}

/* The others of a row. With a body some at a time, and then it. */
static void run_row(const Lines *l, const Block *b, const Points *points, int64_t row) {
    const int64_t first = max_i64(b->column, l->columns.inner), end = min_i64(b->column_end, l->columns.inner_end);
    const bool body = l->run->after.body;
    const int64_t enough = body ? conv_body_pixels(min_i64(l->panels.full, l->run->g->m)) : end;
    int64_t waits = b->column;
    for (int64_t at = first, n; at < end; at += n) {
        n = min_i64(enough, end - at);
        run_line(l, b, points, row, at, &l->columns, n);
        if (!body || at + n == end) continue;
        run_body(l, b, row, waits, at + n);
        waits = at + n;
    }
    if (body) run_body(l, b, row, waits, b->column_end);
}

static void run_panel(const Lines *l, const Block *b) {
    const Along *r = &l->rows, *s = &l->columns;
    Points inner, edge;
    for (int64_t column = b->column; column < b->column_end; column++)
        if (column < s->inner || column >= s->inner_end) run_column(l, b, column);
    if (r->inner < r->inner_end) find_points(l, r->inner, s->inner, &inner);
    for (int64_t row = b->row; row < b->row_end; row++) {
        bool outer = row < r->inner || row >= r->inner_end;
        if (outer) find_points(l, row, s->inner, &edge);
        run_row(l, b, outer ? &edge : &inner, row);
    }
}

/* One item is a block of one image's pixels with all channels of one group. */
static void run_range(void *arg, int64_t begin, int64_t end) {
    const Lines *l = arg;
    const int64_t rows = l->rows.out, columns = l->columns.out, groups = l->run->g->group;
    for (int64_t item = begin; item < end; item++) {
        int64_t rest = item / l->wide, wide = item % l->wide, high = rest % l->high;
        rest /= l->high;
        Block b = {.image = rest / groups, .group = rest % groups};
        b.row = high * rows / l->high, b.row_end = (high + 1) * rows / l->high;
        b.column = wide * columns / l->wide, b.column_end = (wide + 1) * columns / l->wide;
        for (; b.panel < l->panels.n; b.panel++) run_panel(l, &b);
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

/* An element's sum is the same in any block. */
static void share(Lines *l, int threads) {
    const int64_t items = l->run->g->batch * l->run->g->group, rows = l->rows.out;
    int64_t wanted = threads > 1 ? (BLOCKS_EACH * threads + items - 1) / items : 1;
    l->high = max_i64((rows + BLOCK_ROWS - 1) / BLOCK_ROWS, min_i64(wanted, (rows + 1) / 2));
    l->wide = max_i64(1, min_i64(l->columns.out / COLUMNS, (wanted + l->high - 1) / l->high));
}

tn_status conv_lines(KernelCtx *c, const ConvRunArgs *run, int64_t x_channel, const float *panels) {
    const ConvGeom *g = run->g;
    const int last = g->win.rank - 1;
    Lines l = {.run = run, .table = ISA_PICK(conv_line_table), .weights = panels, .x_channel = x_channel};
    conv_panels(g, g->taps, &l.panels);
    l.rows = along(g, last - 1);
    l.columns = along(g, last);
    l.columns.x = run->x.stride[last], l.columns.y = run->y_ld, l.columns.residual = run->after.residual_ld;
    if (last) l.rows.x = run->x.stride[0];
    l.rows.y = l.columns.out * run->y_ld, l.rows.residual = l.columns.out * run->after.residual_ld;
    share(&l, pool_threads(c->pool));
    int64_t items = g->batch * g->group * l.high * l.wide;
    double cost = (double)g->out_px * (double)(l.panels.n * l.panels.full) * (double)l.panels.k / 50;
    return items == 0 ? TN_OK : kernel_parallel(c, items, cost / (double)(l.high * l.wide), run_range, &l);
}
