/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions by Winograd's algorithm: blocks of the result are products of transformed data and transformed weights, one
   product for each point, which the tiles of kernels/conv.c compute. Weights: conv_winograd_pack.c.

       V[point][block][c]  U[panel][plane][c][width]  M[point][block][width] = V U

   Blocks at the result's end may have fewer pixels, which need not all points. */
#include "backends/cpu/conv_int.h"
#include "backends/cpu/winograd_int.h"

enum {
    GROUP = 24,     /* blocks that share one pass over the weights: their data stay in the second cache */
    FAR_GROUP = 49, /* where weights come from farther away, and computing takes no longer than that */
    THIN = 16,      /* input channels, with which the sums are more than the data and are to stay in the first cache */
    APART = 16,     /* floats between points and blocks, so that they do not fall on the same lines of the cache */
    ASKS = 16,      /* floats of each row of weights that a tile asks for ahead */
    LEAST_ROWS = 6, /* of a tile that is shorter than it could be so that more is asked for */
    MOST_SLOTS = 64 /* threads that work at the same time */
};

typedef struct Winograd {
    const ConvRunArgs *run;
    const WinogradTable *table;
    const WinogradSpec *spec;
    WinogradKind kind;
    const ConvTable *tiles;
    ConvPanels panels; /* with k = planes * planes * c */
    int64_t n_panels;  /* of all groups of channels */
    const float *weights, *zeros;
    int64_t high, wide; /* blocks of an image */
    int64_t blocks;     /* of all images */
    int64_t groups;     /* of blocks */
    int64_t most;       /* blocks of a group */
    int64_t *order;     /* of the blocks of each group, or part; NULL: as they come */
    int64_t v_ld, v_step, m_step;
    float *slots;
    int64_t slot;  /* floats of one */
    bool split;    /* data is transformed first; then threads share panels */
    float *v;      /* then */
    int64_t parts; /* then: of blocks, so that threads have as much to do */
    atomic_int busy[MOST_SLOTS], odd;
} Winograd;

/* ---- a group of blocks --------------------------------------------------------------------------------------- */

typedef struct Corner {
    int64_t image, row, col; /* of the block's first pixel */
} Corner;

static Corner corner_of(const Winograd *w, int64_t block) {
    int64_t in_image = block % (w->high * w->wide), out = w->spec->out;
    return (Corner){block / (w->high * w->wide), in_image / w->wide * out, in_image % w->wide * out};
}

/* The block at a place. */
static int64_t block_at(const Winograd *w, int64_t place) { return w->order ? w->order[place] / 4 : place; }

static void transform_data(const Winograd *w, int64_t place, float *v) {
    const ConvGeom *g = w->run->g;
    const ConvData *x = &w->run->x;
    const int size = w->spec->size, step = w->spec->step;
    Corner at = corner_of(w, block_at(w, place));
    const int64_t first = at.col * step - g->win.begin[1];
    const float *px[WINOGRAD_MOST_SIZE * WINOGRAD_MOST_SIZE], **to = px;
    for (int i = 0; i < size; i++) {
        const int64_t row = at.row * step + i - g->win.begin[0];
        const bool inside = row >= 0 && row < g->in[0];
        const float *from = inside ? x->data + at.image * x->image + row * x->stride[0] : w->zeros;
        for (int64_t col = first; col < first + size; col++)
            *to++ = inside && (uint64_t)col < (uint64_t)g->in[1] ? from + col * x->stride[1] : w->zeros;
    }
    WinogradIn in = {.px = px, .channels = g->group * g->c, .v = v, .v_step = w->v_step};
    in.few_rows = g->out[0] - at.row <= WINOGRAD_FEW;
    in.few_cols = g->out[1] - at.col <= WINOGRAD_FEW;
    w->table->in[w->kind](&in);
}

/* One of all groups' panels. */
typedef struct Panel {
    const float *weights;
    int64_t width, c, m, channels; /* where its input channels and its output channels begin, and how many those are */
} Panel;

static Panel panel_at(const Winograd *w, int64_t at) {
    const ConvGeom *g = w->run->g;
    const ConvPanels *p = &w->panels;
    const int64_t group = at / p->n, panel = at % p->n, m = panel * p->full, width = panel_width(p, panel);
    return (Panel){.weights = w->weights + group * p->group + m * p->k,
                   .width = width,
                   .c = group * g->c,
                   .m = group * g->m + m,
                   .channels = min_i64(width, g->m - m)};
}

/* Blocks of a group that are neighbours, and the tiles that they make: the first have one more. */
typedef struct Span {
    int64_t begin, n, tiles, size, longer;
} Span;

/* A block's pixels are fewer than usual: down (1), across (2). A group goes in such an order that those that want a point are
   neighbours. */
enum { N_CLASSES = 4 };
static const int class_of[N_CLASSES] = {2, 0, 1, 3};

/* Tiles are as many at least as ask for all of the next plane's weights, where there is enough to do. */
static Span span_of(const Winograd *w, int64_t begin, int64_t n, int64_t width) {
    const int64_t rows = w->tiles->rows[width / w->tiles->unit];
    const int64_t tiles = max_i64((n + rows - 1) / rows, min_i64(width / ASKS, n / LEAST_ROWS));
    return (Span){begin, n, tiles, tiles ? n / tiles : 0, tiles ? n % tiles : 0};
}

/* Of n blocks at a place: [at the last row's blocks too][at the last column's too]. */
static void find_spans(const Winograd *w, int64_t first, int64_t n, int64_t width, Span spans[2][2]) {
    int64_t count[4] = {0};
    for (int64_t i = 0; w->order && i < n; i++) count[w->order[first + i] % 4]++;
    int64_t whole = w->order ? count[0] : n, down = count[1], across = count[2];
    spans[1][1] = span_of(w, 0, n, width);
    spans[0][1] = span_of(w, 0, across + whole, width);
    spans[1][0] = span_of(w, across, whole + down, width);
    spans[0][0] = span_of(w, across, whole, width);
}

/* One point of some blocks. */
static void multiply_point(const Winograd *w, const float *v, const Span *span, int64_t width, const float *weights,
                           float *m) {
    const int64_t c = w->run->g->c, units = width / w->tiles->unit;
    const float *px[CONV_MOST_ROWS], *end = w->weights + w->panels.floats;
    const ConvRun run = {0, c};
    ConvTile t = {.tiles = 1, .px = px, .runs = &run, .n_runs = 1, .w = weights, .y_ld = width, .cols = width};
    v += span->begin * w->v_ld;
    t.y = m + span->begin * width;
    for (int64_t tile = 0; tile < span->tiles; tile++) {
        const int64_t rows = span->size + (tile < span->longer);
        for (int64_t i = 0; i < rows; i++, v += w->v_ld) px[i] = v;
        const float *ahead = weights + c * width + tile * c * ASKS;
        bool more = ahead < end && tile * ASKS < width;
        t.ahead = (const char *)(more ? ahead : w->weights);
        t.ahead_end = more ? t.ahead + 1 : t.ahead;
        w->tiles->tile[units][rows](&t);
        t.y += rows * width;
    }
}

/* All points of n blocks, from place `first` on, with one panel. */
static void multiply(const Winograd *w, const float *v, int64_t first, int64_t n, const Panel *panel, float *m) {
    const WinogradSpec *s = w->spec;
    const int64_t width = panel->width, plane = w->run->g->c * width, *out = w->run->g->out;
    const int64_t rows = (out[0] - 1) % s->out + 1, cols = (out[1] - 1) % s->out + 1; /* of the last blocks */
    const int *down = s->least[rows <= WINOGRAD_FEW && s->out > WINOGRAD_FEW];
    const int *across = s->least[cols <= WINOGRAD_FEW && s->out > WINOGRAD_FEW];
    Span spans[2][2];
    find_spans(w, first, n, width, spans);
    for (int i = 0; i < s->size; i++)
        for (int j = 0; j < s->size; j++) {
            const int at = (i < s->planes ? i : s->planes - 1) * s->planes + (j < s->planes ? j : s->planes - 1);
            const int64_t point = i * s->size + j;
            multiply_point(w, v + panel->c + point * w->v_step, &spans[down[i] <= rows][across[j] <= cols], width,
                           panel->weights + at * plane, m + point * w->m_step);
        }
}

static bool transform_sums(const Winograd *w, int64_t place, const Panel *panel, const float *m) {
    const ConvRunArgs *run = w->run;
    const ConvGeom *g = run->g;
    const ConvEpilogue *after = &run->after;
    Corner at = corner_of(w, block_at(w, place));
    int64_t channel = panel->m, pixel = at.row * g->out[1] + at.col;
    ConvFinish finish = {.lo = after->lo, .hi = after->hi, .residual_ld = after->residual_ld};
    if (after->bias) finish.bias = after->bias + channel;
    if (after->residual.data)
        finish.residual = after->residual.data + at.image * after->residual.image + pixel * after->residual_ld +
                          channel;
    WinogradOut out = {.m = m,
                       .m_step = w->m_step,
                       .channels = panel->channels,
                       .rows = (int)min_i64(w->spec->out, g->out[0] - at.row),
                       .cols = (int)min_i64(w->spec->out, g->out[1] - at.col),
                       .y = run->y.data + at.image * run->y.image + pixel * run->y_ld + channel,
                       .y_ld = run->y_ld,
                       .y_row = g->out[1] * run->y_ld,
                       .finish = &finish,
                       .residual_row = g->out[1] * after->residual_ld};
    out.few_rows = out.rows <= WINOGRAD_FEW;
    out.few_cols = out.cols <= WINOGRAD_FEW;
    return w->table->out[w->kind](&out);
}

/* The body on what neighbouring blocks of a row of blocks have made, pixel row by pixel row. */
static void run_body(const Winograd *w, int64_t first, int64_t end, const Panel *panel) {
    const ConvRunArgs *run = w->run;
    const ConvGeom *g = run->g;
    for (int64_t block = first, n; block < end; block += n) {
        n = min_i64(end - block, w->wide - block % w->wide);
        Corner at = corner_of(w, block);
        int64_t pixels = min_i64(n * w->spec->out, g->out[1] - at.col),
                last = min_i64(at.row + w->spec->out, g->out[0]);
        for (int64_t row = at.row; row < last; row++) {
            int64_t pixel = row * g->out[1] + at.col;
            conv_body(run, at.image, pixel, pixel + pixels, panel->m, panel->channels);
        }
    }
}

static void run_panel(Winograd *w, const float *v, int64_t first, int64_t n, int64_t at, float *m) {
    const Panel panel = panel_at(w, at);
    bool finite = true;
    multiply(w, v, first, n, &panel, m);
    for (int64_t i = 0; i < n; i++) finite &= transform_sums(w, first + i, &panel, m + i * panel.width);
    if (!finite) atomic_store_explicit(&w->odd, 1, memory_order_relaxed);
    if (w->run->after.body) run_body(w, first, first + n, &panel);
}

/* ---- threads ------------------------------------------------------------------------------------------------- */

static int64_t points_of(const Winograd *w) { return w->spec->size * w->spec->size; }
static int64_t group_start(const Winograd *w, int64_t group) { return group * w->blocks / w->groups; }
static int64_t part_start(const Winograd *w, int64_t part) { return part * w->blocks / w->parts; }

/* Memory that no other thread uses at the same time; as many work at once as there are slots. */
static int take_slot(Winograd *w) {
    for (int i = 0;; i = (i + 1) % MOST_SLOTS) {
        int free = 0;
        if (atomic_compare_exchange_strong(&w->busy[i], &free, 1)) return i;
    }
}

/* One item is one group. */
static void run_groups(void *arg, int64_t begin, int64_t end) {
    Winograd *w = arg;
    int slot = take_slot(w);
    float *v = w->slots + slot * w->slot, *m = v + points_of(w) * w->v_step;
    for (int64_t group = begin; group < end; group++) {
        int64_t first = group_start(w, group), n = group_start(w, group + 1) - first;
        for (int64_t i = 0; i < n; i++) transform_data(w, first + i, v + i * w->v_ld);
        for (int64_t panel = 0; panel < w->n_panels; panel++) run_panel(w, v, first, n, panel, m);
    }
    atomic_store(&w->busy[slot], 0);
}

/* One item is one block. */
static void run_data(void *arg, int64_t begin, int64_t end) {
    const Winograd *w = arg;
    for (int64_t block = begin; block < end; block++) transform_data(w, block, w->v + block * w->v_ld);
}

/* One item is one panel, or a part of the blocks with it. */
static void run_panels(void *arg, int64_t begin, int64_t end) {
    Winograd *w = arg;
    int slot = take_slot(w);
    for (int64_t item = begin; item < end; item++) {
        int64_t first = part_start(w, item % w->parts), last = part_start(w, item % w->parts + 1);
        run_panel(w, w->v + first * w->v_ld, first, last - first, item / w->parts, w->slots + slot * w->slot);
    }
    atomic_store(&w->busy[slot], 0);
}

/* Places of blocks [first, end), which threads do together. */
static void order_blocks(Winograd *w, int64_t first, int64_t end) {
    int64_t place = first;
    for (int k = 0; k < N_CLASSES; k++)
        for (int64_t block = first; block < end; block++) {
            Corner at = corner_of(w, block);
            bool down = at.row + w->spec->out > w->run->g->out[0], across = at.col + w->spec->out > w->run->g->out[1];
            if (down + 2 * across == class_of[k]) w->order[place++] = 4 * block + class_of[k];
        }
}

static tn_status find_order(KernelCtx *c, Winograd *w) {
    const ConvGeom *g = w->run->g;
    if (g->out[0] % w->spec->out == 0 && g->out[1] % w->spec->out == 0) return TN_OK;
    w->order = arena_array(c->scratch, int64_t, (size_t)w->blocks);
    if (!w->order) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; w->split && i < w->parts; i++) order_blocks(w, part_start(w, i), part_start(w, i + 1));
    for (int64_t i = 0; !w->split && i < w->groups; i++) order_blocks(w, group_start(w, i), group_start(w, i + 1));
    return TN_OK;
}

static tn_status make_room(KernelCtx *ctx, Winograd *w, int64_t slots) {
    const ConvGeom *g = w->run->g;
    const int64_t c = g->group * g->c;
    w->v_ld = (c + 15) / 16 * 16 + (c > THIN ? APART : 0);
    w->v_step = w->most * w->v_ld + APART;
    w->m_step = w->most * panel_width(&w->panels, 0) + APART;
    int64_t v = points_of(w) * w->v_step;
    w->slot = points_of(w) * w->m_step + (w->split ? 0 : v);
    int64_t all = slots * w->slot + (w->split ? v : 0);
    w->slots = arena_raw(ctx->scratch, (size_t)all * sizeof(float), 64);
    w->zeros = arena_array(ctx->scratch, float, (size_t)c);
    if (!w->slots || !w->zeros) return TN_OUT_OF_MEMORY;
    w->v = w->slots + slots * w->slot;
    for (int64_t i = slots; i < MOST_SLOTS; i++) atomic_init(&w->busy[i], 1);
    return TN_OK;
}

static void find_groups(Winograd *w, int64_t threads) {
    bool far = w->tiles->vector >= 16 && w->panels.floats * (int64_t)sizeof(float) > cpu_caches()->l2;
    bool thin = w->run->g->group * w->run->g->c <= THIN && w->run->g->m > THIN;
    int64_t usual = thin ? w->tiles->rows[panel_width(&w->panels, 0) / w->tiles->unit] : far ? FAR_GROUP : GROUP;
    int64_t together = w->run->together ? w->run->together : usual;
    w->groups = (w->blocks + together - 1) / together;
    w->split = threads > 1 && w->groups < threads && w->n_panels >= threads && w->blocks < 20 * threads;
    bool alike = w->panels.n == 1 || w->panels.last == w->panels.full;
    bool even = w->n_panels >= 4 * threads || (w->n_panels % threads == 0 && alike);
    w->parts = even ? 1 : min_i64(w->blocks, threads);
    if (w->split) w->groups = 1;
    else if (threads > 1) w->groups = min_i64(w->blocks, (w->groups + threads - 1) / threads * threads);
    w->most = (w->blocks + w->groups - 1) / w->groups;
}

tn_status conv_winograd(KernelCtx *c, const ConvRunArgs *run, WinogradForm form, const float *weights, bool *finite) {
    const ConvGeom *g = run->g;
    Winograd *w = arena_new(c->scratch, Winograd);
    if (!w) return TN_OUT_OF_MEMORY;
    *w = (Winograd){.run = run, .kind = form.kind, .spec = &winograd_spec[form.kind], .weights = weights};
    w->table = ISA_PICK(winograd_table), w->tiles = ISA_PICK(conv_table);
    w->high = (g->out[0] + w->spec->out - 1) / w->spec->out;
    w->wide = (g->out[1] + w->spec->out - 1) / w->spec->out;
    w->blocks = g->batch * w->high * w->wide;
    winograd_panels(g, g->c, form, &w->panels);
    w->n_panels = g->group * w->panels.n;
    int64_t threads = min_i64(pool_threads(c->pool), MOST_SLOTS);
    find_groups(w, threads);
    TRY(find_order(c, w));
    TRY(make_room(c, w, threads));
    double work = (double)(w->blocks * points_of(w) * g->group) * (double)(g->c * g->m) / 50;
    if (w->split) {
        TRY(kernel_parallel(c, w->blocks, (double)(g->group * g->c * points_of(w)) / 5, run_data, w));
        int64_t items = w->n_panels * w->parts;
        TRY(kernel_parallel(c, items, work / (double)items, run_panels, w));
    } else {
        TRY(kernel_parallel(c, w->groups, work / (double)w->groups, run_groups, w));
    }
    *finite = !atomic_load(&w->odd);
    return TN_OK;
}
