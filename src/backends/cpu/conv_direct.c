/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions as products that are never laid out: each tile of pixels meets the weights tap by tap, through pointers to
   where each pixel's window lies in the data. Any window, any number of dimensions, any groups. */
#include "backends/cpu/conv_int.h"

enum {
    BLOCK_K = 768,    /* rows of a panel that pass over a block of pixels at a time: they stay in the second cache */
    BLOCK_TAPS = 256, /* ... in so many taps at most */
    BLOCK_TILES = 40, /* of a block of pixels */
    TILES_FOR_THREADS = 12 /* with fewer a thread, threads share channels */
};

typedef struct Direct {
    const ConvRunArgs *run;
    const ConvTable *table;
    const ConvFewTable *few;
    ConvPanels panels;
    const float *weights, *zeros;
    int64_t *offset;          /* of each tap in the data, from the window's first */
    int64_t *at;              /* where each tap lies in the window, dilated: [taps][rank] */
    int64_t reach[CONV_DIMS]; /* of the window: from its first element to its last */
    int64_t x_ld;      /* pixels are their own windows and follow each other at this distance in the data; 0: not so */
    bool rows_merge;   /* taps of one row of the window are neighbours in the data, as long as none is outside */
    int64_t rows, row; /* pixels of an image whose places follow each other: how many such rows, of what length */
    int64_t tiles, tiles_last;    /* of a row with a full panel, with the last */
    int64_t blocks, panel_blocks; /* what threads share: of pixels, of panels */
    int64_t k, step_k, n_k;       /* of the sums; how much of it at a time, how often */
    int64_t items;                /* what threads share */
} Direct;

/* Some pixels of an image: where their windows begin. */
typedef struct Pixels {
    int64_t n, base[CONV_MOST_ROWS]; /* in the data; outside of it where padding is. Behind the last one repeats it */
    bool inside;                     /* no window meets padding; else: */
    int64_t start[CONV_DIMS][CONV_MOST_ROWS];
} Pixels;

/* ---- pixels -------------------------------------------------------------------------------------------------- */

static void split_pixel(const ConvGeom *g, int64_t pixel, int64_t *at) {
    for (int k = g->win.rank - 1; k > 0; k--) {
        at[k] = pixel % g->out[k];
        pixel /= g->out[k];
    }
    at[0] = pixel;
}

static void next_pixel(const ConvGeom *g, int64_t *at, int k) {
    for (; k >= 0 && ++at[k] == g->out[k]; k--) at[k] = 0;
}

static void find_starts(const Direct *d, const int64_t *from, Pixels *px) {
    const ConvGeom *g = d->run->g;
    int64_t at[CONV_DIMS];
    memcpy(at, from, sizeof at);
    for (int64_t i = 0; i < px->n; i++) {
        for (int k = 0; k < g->win.rank; k++) px->start[k][i] = at[k] * g->win.stride[k] - g->win.begin[k];
        next_pixel(g, at, g->win.rank - 1);
    }
}

/* Tiles of n pixels from `at` on, which moves behind them: *tiles of them, or fewer, so that one lies like the other. A row at a
   time, since tiles are many and small. */
static void find_pixels(const Direct *d, int64_t *at, int64_t n, int64_t *tiles, Pixels *px) {
    const ConvGeom *g = d->run->g;
    const ConvWindow *w = &g->win;
    const int last = w->rank - 1;
    const int64_t *x = d->run->x.stride, stride = w->stride[last];
    int64_t from[CONV_DIMS], alike = 0;
    memcpy(from, at, sizeof from);
    px->n = n;
    px->inside = true;
    for (int64_t i = 0, of_row; i < n; i += of_row) {
        int64_t start = at[last] * stride - w->begin[last], base = start * x[last];
        int64_t beyond = g->in[last] - d->reach[last] - start; /* how far the window can move */
        of_row = min_i64(n - i, g->out[last] - at[last]);
        px->inside &= start >= 0 && (of_row - 1) * stride < beyond;
        if (i == 0) alike = min_i64(g->out[last] - at[last], (beyond + stride - 1) / stride) / n;
        for (int k = 0; k < last; k++) {
            start = at[k] * w->stride[k] - w->begin[k];
            base += start * x[k];
            px->inside &= start >= 0 && start + d->reach[k] < g->in[k];
        }
        for (int64_t j = 0; j < of_row; j++) px->base[i + j] = base + j * stride * x[last];
        at[last] += of_row - 1;
        next_pixel(g, at, last);
    }
    for (int64_t i = n; i < CONV_MOST_ROWS; i++) px->base[i] = px->base[n - 1];
    *tiles = px->inside ? max_i64(1, min_i64(*tiles, alike)) : 1;
    if (!px->inside) find_starts(d, from, px);
    if (*tiles == 1) return;
    at[last] += (*tiles - 1) * n - 1;
    next_pixel(g, at, last);
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

/* Rows [k, k + n) of some pixels. */
typedef struct Runs {
    int64_t n;
    ConvRun run[BLOCK_TAPS + 2];
    const float *px[(BLOCK_TAPS + 2) * CONV_MOST_ROWS];
} Runs;

/* Rows [k0, k1) of a panel as runs, the same for all pixels whose windows meet no padding. */
typedef struct Inner {
    int64_t n;
    ConvRun run[BLOCK_TAPS + 2];
    int64_t offset[BLOCK_TAPS + 2]; /* in the data, from where the window begins */
} Inner;

static void find_inner(const Direct *d, int64_t k0, int64_t k1, Inner *inner) {
    const ConvGeom *g = d->run->g;
    const int64_t of_row = d->rows_merge ? g->win.kernel[g->win.rank - 1] : 1;
    int64_t t = g->c ? k0 / g->c : 0, c = k0 - t * g->c, in_row = t % of_row;
    inner->n = 0;
    for (int64_t k = k0, n; k < k1; k += n) {
        n = min_i64(k1 - k, (of_row - in_row) * g->c - c);
        inner->offset[inner->n] = d->offset[t] + c;
        inner->run[inner->n++] = (ConvRun){d->run->taps ? d->run->taps[t] * g->c + c : k, n};
        t += of_row - in_row;
        c = in_row = 0;
    }
}

static void place_inner(const Inner *inner, const Pixels *px, const float *x, Runs *runs) {
    for (int64_t r = 0; r < inner->n; r++) {
        const float **to = &runs->px[r * CONV_MOST_ROWS], *from = x + inner->offset[r];
        for (int i = 0; i < CONV_MOST_ROWS; i++) to[i] = from + px->base[i];
    }
    runs->n = inner->n;
}

/* The pixels of which tap `at` lies in the data along dimension k, as bits. */
static uint32_t tap_inside(const Direct *d, const Pixels *px, int k, int64_t at) {
    uint32_t bits = 0;
    for (int64_t i = 0; i < px->n; i++)
        bits |= (uint32_t)((uint64_t)(px->start[k][i] + at) < (uint64_t)d->run->g->in[k]) << i;
    return bits;
}

/* Rows [k0, k1) without taps that all pixels have in the padding. */
static void place_edges(const Direct *d, const Pixels *px, const float *x, int64_t k0, int64_t k1, Runs *runs) {
    const ConvGeom *g = d->run->g;
    const int rank = g->win.rank;
    int64_t t = g->c ? k0 / g->c : 0, c = k0 - t * g->c;
    int64_t last[CONV_DIMS]; /* taps along each dimension that `inside` is about */
    uint32_t inside[CONV_DIMS];
    for (int k = 0; k < rank; k++) last[k] = -1;
    runs->n = 0;
    for (int64_t k = k0, n; k < k1; k += n, t++, c = 0) {
        n = min_i64(k1 - k, g->c - c);
        uint32_t all = ~0u;
        for (int dim = 0; dim < rank; dim++) {
            int64_t at = d->at[t * rank + dim];
            if (at != last[dim]) inside[dim] = tap_inside(d, px, dim, last[dim] = at);
            all &= inside[dim];
        }
        if (!all) continue;
        const float **to = &runs->px[runs->n * CONV_MOST_ROWS], *from = x + d->offset[t] + c;
        for (int i = 0; i < CONV_MOST_ROWS; i++) to[i] = from + px->base[i];
        for (uint32_t out = ~all & ((1u << CONV_MOST_ROWS) - 1); out; out &= out - 1) to[__builtin_ctz(out)] = d->zeros;
        runs->run[runs->n++] = (ConvRun){d->run->taps ? d->run->taps[t] * g->c + c : k, n};
    }
}

/* Where a pixel is its own window. */
static void place_points(const Direct *d, const Inner *inner, const float *x, int64_t n, Runs *runs) {
    for (int64_t i = 0; i < CONV_MOST_ROWS; i++) runs->px[i] = x + min_i64(i, n - 1) * d->x_ld;
    runs->n = inner->n; /* 1, unless there are no input channels */
}

/* ---- tiles --------------------------------------------------------------------------------------------------- */

typedef struct Block {
    int64_t image, group, panel;
    int64_t tiles, size,
        longer;         /* tiles of a row of the image with this panel: their pixels; the first have one more */
    int64_t first, end; /* tiles in the block, all rows' tiles counted */
} Block;

/* Tiles of a row that follow each other, with n pixels each. */
typedef struct Strip {
    int64_t tiles, pixel, n; /* the first pixel */
} Strip;

/* Tiles are the same whatever the blocks are. */
static Strip strip_from(const Direct *d, const Block *b, int64_t tile) {
    int64_t row = d->rows == 1 ? 0 : tile / b->tiles, at = tile - row * b->tiles;
    bool longer = at < b->longer;
    return (Strip){.tiles = min_i64(b->end - tile, (longer ? b->longer : b->tiles) - at),
                   .pixel = row * d->row + at * b->size + min_i64(at, b->longer),
                   .n = b->size + longer};
}

/* The strip's tiles, or fewer. Its first pixel's place is `at`, which moves behind it. */
static void place_strip(const Direct *d, const Inner *inner, const float *x, int64_t k0, int64_t k1, int64_t *at,
                        Strip *s, Runs *runs, ConvTile *t) {
    const int last = d->run->g->win.rank - 1;
    Pixels px;
    t->runs = inner->run;
    t->px_step = s->n * (d->x_ld ? d->x_ld : d->run->g->win.stride[last] * d->run->x.stride[last]);
    if (d->x_ld) {
        place_points(d, inner, x + s->pixel * d->x_ld + k0, s->n, runs);
    } else {
        find_pixels(d, at, s->n, &s->tiles, &px);
        if (px.inside) place_inner(inner, &px, x, runs);
        else place_edges(d, &px, x, k0, k1, runs);
        if (!px.inside) t->runs = runs->run;
    }
    t->n_runs = runs->n;
    t->rows = s->n;
    t->tiles = s->tiles;
}

/* Where a pixel lies, from the image's first. */
static int64_t place_of(const Direct *d, int64_t pixel, int64_t ld, const int64_t *stride) {
    const ConvGeom *g = d->run->g;
    if (d->rows == 1) return pixel * ld;
    int64_t place = 0;
    for (int k = g->win.rank - 1; k >= 0; k--) {
        place += pixel % g->out[k] * stride[k];
        pixel /= g->out[k];
    }
    return place;
}

static void finish_of(const Direct *d, const Block *b, int64_t pixel, ConvFinish *f) {
    const ConvEpilogue *after = &d->run->after;
    int64_t channel = b->group * d->run->g->m + b->panel * d->panels.full;
    *f = (ConvFinish){.lo = after->lo, .hi = after->hi, .residual_ld = after->residual_ld};
    if (after->bias) f->bias = after->bias + channel;
    if (after->residual.data)
        f->residual = after->residual.data + b->image * after->residual.image + channel +
                      place_of(d, pixel, after->residual_ld, after->residual.stride);
}

/* The weights after [k0, k1) of this panel, of which each tile asks for its share. */
static void look_ahead(const Direct *d, const Block *b, int64_t k1, int64_t tile, ConvTile *t) {
    const ConvPanels *p = &d->panels;
    int64_t width = panel_width(p, b->panel), rows = min_i64(d->step_k, p->k);
    const float *next = d->weights + b->group * p->group + b->panel * p->full * p->k + k1 * width;
    int64_t from = (tile - b->first) * rows * 16, lines_end = rows * width;
    bool more = !d->run->taps && !p->few && next + lines_end <= d->weights + p->floats && from < lines_end;
    t->ahead = (const char *)(more ? next + from : d->weights);
    t->ahead_end = (const char *)(more ? next + lines_end : d->weights);
}

/* The body on pixels that are finished, while they are near. */
static void run_body(const Direct *d, const Block *b, int64_t first, int64_t end, int64_t cols) {
    int64_t channel = b->group * d->run->g->m + b->panel * d->panels.full;
    conv_body(d->run, b->image, first, end, channel, cols);
}

static void run_tiles(const Direct *d, const Block *b, int64_t k0, int64_t k1) {
    const ConvRunArgs *run = d->run;
    const ConvGeom *g = run->g;
    const ConvPanels *p = &d->panels;
    const float *x = run->x.data + b->image * run->x.image + b->group * g->c;
    int64_t width = panel_width(p, b->panel), channel = b->panel * p->full;
    float *y = run->y.data + b->image * run->y.image + b->group * g->m + channel;
    ConvFinish finish;
    Inner inner;
    Runs runs;
    ConvTile t = {.px = runs.px,
                  .w = d->weights + b->group * p->group + channel * p->k,
                  .y_ld = run->y_ld,
                  .cols = min_i64(width, g->m - channel),
                  .w_ld = p->k,
                  .whole = g->c % d->few->vector == 0,
                  .resume = k0 > 0,
                  .finish = k1 == d->k ? &finish : NULL};
    int64_t at[CONV_DIMS], waits = strip_from(d, b, b->first).pixel; /* for the body */
    const int64_t enough = t.finish && run->after.body ? conv_body_pixels(t.cols) : 0;
    split_pixel(g, waits, at);
    find_inner(d, k0, k1, &inner);
    for (int64_t done = b->first; done < b->end; done += t.tiles) {
        Strip s = strip_from(d, b, done);
        if (enough) s.tiles = min_i64(s.tiles, max_i64(1, enough / s.n));
        place_strip(d, &inner, x, k0, k1, at, &s, &runs, &t);
        t.y = y + place_of(d, s.pixel, run->y_ld, run->y.stride);
        if (t.finish) finish_of(d, b, s.pixel, &finish);
        look_ahead(d, b, k1, done, &t);
        (p->few ? d->few->tile[g->m] : d->table->tile[width / d->table->unit][s.n])(&t);
        int64_t end = s.pixel + s.tiles * s.n;
        if (enough && (done + t.tiles == b->end || end - waits >= enough)) {
            run_body(d, b, waits, end, t.cols);
            waits = end;
        }
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

static void run_panel(const Direct *d, Block *b, int64_t block) {
    b->tiles = b->panel == d->panels.n - 1 ? d->tiles_last : d->tiles;
    b->size = d->row / b->tiles;
    b->longer = d->row % b->tiles;
    b->first = block * d->rows * b->tiles / d->blocks;
    b->end = (block + 1) * d->rows * b->tiles / d->blocks;
    for (int64_t i = 0; i < d->n_k; i++) run_tiles(d, b, i * d->step_k, min_i64(d->k, (i + 1) * d->step_k));
}

/* One item is a block of pixels of one image with a block of panels of one group. */
static void run_item(const Direct *d, int64_t item) {
    const ConvGeom *g = d->run->g;
    int64_t rest = item / d->blocks, block = item % d->blocks, n = d->panels.n;
    int64_t panels = rest % d->panel_blocks;
    rest /= d->panel_blocks;
    Block b = {.image = rest / g->group, .group = rest % g->group};
    int64_t last = (panels + 1) * n / d->panel_blocks;
    for (b.panel = panels * n / d->panel_blocks; b.panel < last; b.panel++) run_panel(d, &b, block);
}

static void run_range(void *arg, int64_t begin, int64_t end) {
    const Direct *d = arg;
    int64_t before = 0; /* items */
    for (int64_t item = begin; item < end; item++) {
        while (item >= before + d->items) before += d++->items;
        run_item(d, item - before);
    }
}

static tn_status find_taps(KernelCtx *c, Direct *d) {
    const ConvGeom *g = d->run->g;
    int rank = g->win.rank;
    d->offset = arena_array(c->scratch, int64_t, (size_t)g->taps + 1);
    d->at = arena_array(c->scratch, int64_t, (size_t)(g->taps * rank) + 1);
    d->zeros = arena_array(c->scratch, float, (size_t)g->c + 16);
    if (!d->offset || !d->at || !d->zeros) return TN_OUT_OF_MEMORY;
    for (int k = 0; k < rank; k++) d->reach[k] = (g->win.kernel[k] - 1) * g->win.dilation[k];
    int64_t tap[CONV_DIMS] = {0};
    for (int64_t t = 0; t < g->taps; t++) {
        for (int k = 0; k < rank; k++) {
            d->at[t * rank + k] = tap[k] * g->win.dilation[k];
            d->offset[t] += tap[k] * g->win.dilation[k] * d->run->x.stride[k];
        }
        for (int k = rank - 1; k >= 0 && ++tap[k] == g->win.kernel[k]; k--) tap[k] = 0;
    }
    d->rows_merge = !d->run->taps && g->win.dilation[rank - 1] * d->run->x.stride[rank - 1] == g->c;
    return TN_OK;
}

static void find_point_distance(Direct *d) {
    const ConvGeom *g = d->run->g;
    const ConvWindow *w = &g->win;
    int64_t pixels = 1, ld = d->run->x.stride[w->rank - 1];
    if (g->taps != 1 || d->run->taps || d->rows != 1) return;
    for (int k = w->rank - 1; k >= 0; k--) {
        if (w->stride[k] != 1 || w->begin[k] != 0 || g->in[k] != g->out[k]) return;
        if (g->in[k] > 1 && pixels > 1 && d->run->x.stride[k] != pixels * ld) return;
        if (g->in[k] > 1 && pixels == 1) ld = d->run->x.stride[k];
        pixels *= g->in[k];
    }
    d->x_ld = ld;
}

/* How threads share the work decides no answer: tiles are the same. */
static void share(Direct *d, int64_t n, int threads) {
    const ConvGeom *g = d->run->g;
    int64_t others = g->batch * g->group * n;
    int64_t tiles = d->rows * d->tiles, together = d->run->together ? d->run->together : BLOCK_TILES;
    d->blocks = (tiles + together - 1) / together;
    d->panel_blocks = 1;
    if (threads <= 1 || others >= 2 * threads) return;
    if (tiles * others >= (int64_t)threads * TILES_FOR_THREADS) {
        int64_t each = (threads + others - 1) / others; /* threads for one image */
        d->blocks = min_i64(tiles, (d->blocks + each - 1) / each * each);
    } else {
        d->panel_blocks = d->panels.n;
        int64_t items = d->panel_blocks * others;
        bool even = items >= 4 * threads || (items % threads == 0 && d->panels.last == d->panels.full);
        if (!even) d->blocks = min_i64(tiles, threads);
    }
}

static int64_t tiles_of(const Direct *d, int64_t width) {
    int64_t rows = d->panels.few ? d->few->rows[width] : d->table->rows[width / d->table->unit];
    return (d->row + rows - 1) / rows;
}

static void find_blocks(Direct *d) {
    const ConvPanels *p = &d->panels;
    int64_t most = min_i64(BLOCK_K, BLOCK_TAPS * max_i64(1, d->run->g->c));
    d->k = d->run->g->taps * d->run->g->c;
    int64_t n = max_i64(1, (d->k + most - 1) / most);
    d->step_k = max_i64(1, ((d->k + n - 1) / n + 15) / 16 * 16);
    d->n_k = max_i64(1, (d->k + d->step_k - 1) / d->step_k);
    d->tiles_last = tiles_of(d, p->last);
    d->tiles = p->n > 1 ? tiles_of(d, p->full) : d->tiles_last;
}

/* In nanoseconds. */
static double cost_of(const Direct *d) {
    const ConvGeom *g = d->run->g;
    double columns = (double)(d->panels.few ? 2 * g->m : (d->panels.n - 1) * d->panels.full + d->panels.last);
    return (double)g->batch * (double)g->out_px * (double)g->group * columns * (double)d->k / 50;
}

static tn_status find_direct(KernelCtx *c, const ConvRunArgs *run, int64_t n, const float *panels, Direct *d) {
    const ConvGeom *g = run->g;
    *d = (Direct){.run = run, .table = ISA_PICK(conv_table), .few = ISA_PICK(conv_few_table), .weights = panels};
    conv_panels(g, run->taps ? run->n_taps : g->taps, &d->panels);
    if (g->batch * g->group * g->m * g->out_px == 0) return TN_OK;
    d->row = run->y_apart ? g->out[g->win.rank - 1] : g->out_px;
    d->rows = g->out_px / d->row;
    TRY(find_taps(c, d));
    find_point_distance(d);
    find_blocks(d);
    share(d, n, pool_threads(c->pool));
    d->items = g->batch * g->group * d->panel_blocks * d->blocks;
    return TN_OK;
}

tn_status conv_direct(KernelCtx *c, const ConvRunArgs *runs, int64_t n, const float *panels) {
    Direct *all = arena_array(c->scratch, Direct, (size_t)n);
    int64_t items = 0;
    double cost = 0;
    if (!all) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        TRY(find_direct(c, &runs[i], n, panels, &all[i]));
        items += all[i].items;
        cost += cost_of(&all[i]);
    }
    return items == 0 ? TN_OK : kernel_parallel(c, items, cost / (double)items, run_range, all);
}
