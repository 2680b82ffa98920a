/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions with windows of 3 x 3 in steps of 1 by Winograd's algorithm: blocks of the result are products of transformed
   data and transformed weights, one product for each point, which the tiles of kernels/conv.c compute.

       V[point][block][c]  U[panel][point][c][width]  M[point][block][width] = V U */
#include "backends/cpu/conv_int.h"
#include "backends/cpu/gemm_int.h"
#include "backends/cpu/winograd_int.h"

#include <math.h>

enum {
    GROUP = 24,     /* blocks that share one pass over the weights: their data stay in the second cache */
    FAR_GROUP = 49, /* where weights come from farther away, and computing takes no longer than that */
    APART = 16,     /* floats between points, so that they do not fall on the same lines of the cache */
    FEW = 24,       /* blocks, of which narrow panels make better tiles */
    MOST_SLOTS = 64 /* threads that work at the same time */
};

typedef struct Winograd {
    const ConvRunArgs *run;
    const WinogradTable *table;
    const ConvTable *tiles;
    ConvPanels panels; /* with k = points * c */
    const float *weights, *zeros;
    int out, size, points;
    int64_t high, wide; /* blocks of an image */
    int64_t blocks;     /* of all images */
    int64_t groups;     /* of blocks */
    int64_t most;       /* blocks of a group */
    int64_t v_ld, v_step, m_step;
    float *slots;
    int64_t slot;  /* floats of one */
    bool split;    /* data is transformed first; then threads share panels */
    float *v;      /* then */
    int64_t parts; /* then: of blocks, so that threads have as much to do */
    atomic_int busy[MOST_SLOTS], odd;
} Winograd;

/* ---- choosing ------------------------------------------------------------------------------------------------ */

static double blocks_of(const ConvGeom *g, int out) {
    double blocks = (double)g->batch;
    for (int d = 0; d < 2; d++) blocks *= (double)((g->out[d] + out - 1) / out);
    return blocks;
}

/* Multiplications that take as long as a weight's way from memory: the wider vectors are, the more. */
static double weight_cost(void) { return 1.25 * (double)ISA_PICK(conv_table)->vector; }

static double cost_of(const ConvGeom *g, int out, double in_ops, double out_ops) {
    double blocks = blocks_of(g, out);
    double c = (double)g->c, m = (double)g->m, points = (out + 2) * (out + 2);
    double passes = fmax(blocks, weight_cost());
    return passes * points * c * m + blocks * (in_ops * c + out_ops * m);
}

/* Half of a panel is to be whole vectors, more than one: with one, sums wait for each other. */
bool winograd_takes(const ConvGeom *g, WinogradForm form) {
    if (g->win.rank != 2 || g->group != 1 || g->c < 8 || g->m < 8) return false;
    for (int d = 0; d < 2; d++)
        if (g->win.kernel[d] != 3 || g->win.stride[d] != 1 || g->win.dilation[d] != 1) return false;
    const ConvTable *tiles = ISA_PICK(conv_table);
    return !form.narrow || (tiles->unit * tiles->most >= 4 * tiles->vector && g->m > tiles->vector * 2);
}

WinogradForm winograd_form(const ConvGeom *g) {
    if (!winograd_takes(g, (WinogradForm){0})) return (WinogradForm){0};
    double pixels = (double)g->batch * (double)g->out_px;
    double direct = 9 * (double)g->c * (double)g->m * fmax(pixels, weight_cost());
    double four = cost_of(g, 4, 260, 240), two = cost_of(g, 2, 90, 70);
    if (direct <= four && direct <= two) return (WinogradForm){0};
    WinogradForm form = {.out = four <= two ? 4 : 2, .narrow = true};
    form.narrow = blocks_of(g, form.out) <= FEW && winograd_takes(g, form);
    return form;
}

/* ---- weights ------------------------------------------------------------------------------------------------- */

static void winograd_panels(const ConvGeom *g, WinogradForm form, ConvPanels *p) {
    int64_t vector = ISA_PICK(conv_table)->vector, points = (form.out + 2) * (form.out + 2);
    conv_panels(g, points, p);
    if (form.narrow) p->full /= 2;
    p->n = (g->m + p->full - 1) / p->full;
    p->last = (g->m - (p->n - 1) * p->full + vector - 1) / vector * vector;
    p->floats = p->group = ((p->n - 1) * p->full + p->last) * p->k;
}

/* Behind the panels stands whether some weight is not finite. */
int64_t winograd_floats(const ConvGeom *g, WinogradForm form) {
    ConvPanels p;
    winograd_panels(g, form, &p);
    return p.floats + 16;
}

bool winograd_keeps_weights(const ConvGeom *g, WinogradForm form, const float *packed) {
    return packed[winograd_floats(g, form) - 16] == 0;
}

/* A row of sums, so that they go side by side. */
static bool all_finite(const float *x, int64_t n) {
    float sums[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) sums[k] += x[i + k] * 0;
    for (; i < n; i++) sum += x[i] * 0;
    for (int k = 0; k < 16; k++) sum += sums[k];
    return sum == 0;
}

typedef struct Packing {
    const ConvGeom *g;
    const Tensor *w;
    bool dense;
    ConvPanels panels;
    WinogradWeights transform;
    float *dst;
    int64_t blocks; /* of input channels */
} Packing;

enum { CHANNELS = 16, WIDEST = 64 };

/* Windows of some channels, nine rows for each input channel. */
static void gather_windows(const Packing *k, int64_t m, int64_t m_n, int64_t c, int64_t c_n, int64_t width, float *to) {
    const int64_t *s = k->w->strides, row = k->g->c * 9;
    if (k->dense) {
        const char *from = (const char *)tensor_bytes(k->w) + (m * row + c * 9) * (int64_t)sizeof(float);
        ISA_PICK(gemm_table)->pack(to, width, from, 1, row, c_n * 9, m_n);
        return;
    }
    for (int64_t i = 0; i < c_n * 9; i++, to += width) {
        const int64_t at = k->w->offset + m * s[0] + (c + i / 9) * s[1] + i % 9 / 3 * s[2] + i % 3 * s[3];
        for (int64_t j = 0; j < m_n; j++) memcpy(&to[j], (const char *)k->w->data + 4 * (at + j * s[0]), sizeof *to);
        for (int64_t j = m_n; j < width; j++) to[j] = 0;
    }
}

/* One item is some input channels of one panel. */
static void pack_blocks(void *arg, int64_t begin, int64_t end) {
    const Packing *k = arg;
    const int64_t channels = k->g->c;
    for (int64_t item = begin; item < end; item++) {
        float columns[CHANNELS * 9 * WIDEST];
        int64_t panel = item / k->blocks, m = panel * k->panels.full, width = panel_width(&k->panels, panel);
        int64_t first = item % k->blocks * CHANNELS, n = min_i64(CHANNELS, channels - first);
        gather_windows(k, m, min_i64(width, k->g->m - m), first, n, width, columns);
        for (int64_t c = 0; c < n; c++)
            k->transform(columns + c * 9 * width, width, k->dst + m * k->panels.k + (first + c) * width,
                         channels * width);
    }
}

void winograd_pack(const ConvGeom *g, WinogradForm form, const Tensor *w, float *dst, Pool *pool) {
    const WinogradTable *table = ISA_PICK(winograd_table);
    Packing k = {.g = g, .w = w, .dst = dst, .dense = tensor_is_dense(w), .blocks = (g->c + CHANNELS - 1) / CHANNELS};
    k.transform = form.out == 2 ? table->weights2 : table->weights4;
    winograd_panels(g, form, &k.panels);
    parallel_for(pool, k.panels.n * k.blocks, (double)(CHANNELS * k.panels.full) * 10, pack_blocks, &k);
    dst[k.panels.floats] = all_finite(dst, k.panels.floats) ? 0 : 1;
}

#define S 0.75
#define S4 (S * S * S * S)
/* What a row of three weights is made of: the values at 0, at the next two points, and at infinity. */
static const double h2[3][4] = {{-1, 0, 0, 0}, {0, 1, -1, 0}, {0, 0, 0, 1}};
static const double h4[3][4] = {{4 * S4, 0, 0, 0}, {0, -3 * S4 / S, 3 * S4 / S, 0}, {0, 0, 0, 1}};

/* A weight that is nothing but the rounding of these values was 0, which an infinity tells from others. */
static float weight_of(const float *values, const int64_t *at, int t, const double (*h)[4]) {
    double sum = 0, size = 0;
    for (int k = 0; k < 16; k++) {
        double term = h[t / 3][k / 4] * h[t % 3][k % 4] * (double)values[at[k]];
        sum += term;
        size += fabs(term);
    }
    return fabs(sum) > 4e-7 * size ? (float)sum : 0;
}

void winograd_unpack(const ConvGeom *g, WinogradForm form, const float *packed, float *dst) {
    const double(*h)[4] = form.out == 2 ? h2 : h4;
    const int size = form.out + 2, point[4] = {0, 1, 2, size - 1};
    ConvPanels from, to;
    winograd_panels(g, form, &from);
    conv_panels(g, 9, &to);
    for (int64_t panel = 0; panel < from.n; panel++) {
        int64_t m = panel * from.full, width = panel_width(&from, panel), n = g->c * width, at[16];
        int64_t panel_to = m / to.full, row = panel_width(&to, panel_to);
        float *first = dst + panel_to * to.full * to.k + m % to.full;
        for (int k = 0; k < 16; k++) at[k] = (point[k / 4] * size + point[k % 4]) * n;
        for (int t = 0; t < 9; t++)
            for (int64_t i = 0; i < n; i++)
                if (m % to.full + i % width < row)
                    first[(t * g->c + i / width) * row + i % width] = weight_of(packed + m * from.k + i, at, t, h);
    }
}

/* ---- a group of blocks --------------------------------------------------------------------------------------- */

typedef struct Corner {
    int64_t image, row, col; /* of the block's first pixel */
} Corner;

static Corner corner_of(const Winograd *w, int64_t block) {
    int64_t in_image = block % (w->high * w->wide);
    return (Corner){block / (w->high * w->wide), in_image / w->wide * w->out, in_image % w->wide * w->out};
}

static void transform_data(const Winograd *w, int64_t block, float *v) {
    const ConvGeom *g = w->run->g;
    const ConvData *x = &w->run->x;
    Corner at = corner_of(w, block);
    const float *px[WINOGRAD_MOST], *image = x->data + at.image * x->image;
    for (int i = 0; i < w->size; i++)
        for (int j = 0; j < w->size; j++) {
            int64_t row = at.row + i - g->win.begin[0], col = at.col + j - g->win.begin[1];
            bool inside = row >= 0 && row < g->in[0] && col >= 0 && col < g->in[1];
            px[i * w->size + j] = inside ? image + row * x->stride[0] + col * x->stride[1] : w->zeros;
        }
    WinogradIn in = {.px = px, .channels = g->c, .v = v, .v_step = w->v_step};
    (w->out == 2 ? w->table->in2 : w->table->in4)(&in);
}

/* All points of `n` blocks with one panel. */
static void multiply(const Winograd *w, const float *v, int64_t n, int64_t panel, float *m) {
    const int64_t c = w->run->g->c, width = panel_width(&w->panels, panel), units = width / w->tiles->unit;
    const float *weights = w->weights + panel * w->panels.full * w->panels.k, *end = w->weights + w->panels.floats;
    const int64_t tiles = (n + w->tiles->rows[units] - 1) / w->tiles->rows[units];
    const float *px[CONV_MOST_ROWS];
    const ConvRun run = {0, c};
    ConvTile t = {.tiles = 1, .px = px, .runs = &run, .n_runs = 1, .y_ld = width, .cols = width};
    for (int point = 0; point < w->points; point++) {
        t.w = weights + point * c * width;
        for (int64_t tile = 0; tile < tiles; tile++) {
            int64_t first = tile * n / tiles, rows = (tile + 1) * n / tiles - first;
            for (int64_t i = 0; i < rows; i++) px[i] = v + point * w->v_step + (first + i) * w->v_ld;
            t.y = m + point * w->m_step + first * width;
            const float *ahead = t.w + c * width + tile * c * 16;
            bool more = ahead < end && tile * 16 < width;
            t.ahead = (const char *)(more ? ahead : w->weights);
            t.ahead_end = more ? t.ahead + 1 : t.ahead;
            w->tiles->tile[units][rows](&t);
        }
    }
}

static bool transform_sums(const Winograd *w, int64_t block, int64_t panel, const float *m) {
    const ConvRunArgs *run = w->run;
    const ConvGeom *g = run->g;
    const ConvEpilogue *after = &run->after;
    Corner at = corner_of(w, block);
    int64_t channel = panel * w->panels.full, pixel = at.row * g->out[1] + at.col;
    ConvFinish finish = {.lo = after->lo, .hi = after->hi, .residual_ld = after->residual_ld};
    if (after->bias) finish.bias = after->bias + channel;
    if (after->residual.data)
        finish.residual = after->residual.data + at.image * after->residual.image + pixel * after->residual_ld +
                          channel;
    WinogradOut out = {.m = m,
                       .m_step = w->m_step,
                       .channels = min_i64(panel_width(&w->panels, panel), g->m - channel),
                       .rows = (int)min_i64(w->out, g->out[0] - at.row),
                       .cols = (int)min_i64(w->out, g->out[1] - at.col),
                       .y = run->y.data + at.image * run->y.image + pixel * run->y_ld + channel,
                       .y_ld = run->y_ld,
                       .y_row = g->out[1] * run->y_ld,
                       .finish = &finish,
                       .residual_row = g->out[1] * after->residual_ld};
    return (w->out == 2 ? w->table->out2 : w->table->out4)(&out);
}

/* The body on what neighbouring blocks of a row of blocks have made, pixel row by pixel row. */
static void run_body(const Winograd *w, int64_t first, int64_t end, int64_t panel) {
    const ConvRunArgs *run = w->run;
    const ConvGeom *g = run->g;
    int64_t channel = panel * w->panels.full, cols = min_i64(panel_width(&w->panels, panel), g->m - channel);
    for (int64_t block = first, n; block < end; block += n) {
        n = min_i64(end - block, w->wide - block % w->wide);
        Corner at = corner_of(w, block);
        int64_t pixels = min_i64(n * w->out, g->out[1] - at.col), last = min_i64(at.row + w->out, g->out[0]);
        for (int64_t row = at.row; row < last; row++) {
            int64_t pixel = row * g->out[1] + at.col;
            conv_body(run, at.image, pixel, pixel + pixels, channel, cols);
        }
    }
}

static void run_panel(Winograd *w, const float *v, int64_t first, int64_t n, int64_t panel, float *m) {
    int64_t width = panel_width(&w->panels, panel);
    bool finite = true;
    multiply(w, v, n, panel, m);
    for (int64_t i = 0; i < n; i++) finite &= transform_sums(w, first + i, panel, m + i * width);
    if (!finite) atomic_store_explicit(&w->odd, 1, memory_order_relaxed);
    if (w->run->after.body) run_body(w, first, first + n, panel);
}

/* ---- threads ------------------------------------------------------------------------------------------------- */

static int64_t group_start(const Winograd *w, int64_t group) { return group * w->blocks / w->groups; }

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
    float *v = w->slots + slot * w->slot, *m = v + w->points * w->v_step;
    for (int64_t group = begin; group < end; group++) {
        int64_t first = group_start(w, group), n = group_start(w, group + 1) - first;
        for (int64_t i = 0; i < n; i++) transform_data(w, first + i, v + i * w->v_ld);
        for (int64_t panel = 0; panel < w->panels.n; panel++) run_panel(w, v, first, n, panel, m);
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
        int64_t first = item % w->parts * w->blocks / w->parts, last = (item % w->parts + 1) * w->blocks / w->parts;
        run_panel(w, w->v + first * w->v_ld, first, last - first, item / w->parts, w->slots + slot * w->slot);
    }
    atomic_store(&w->busy[slot], 0);
}

static tn_status make_room(KernelCtx *c, Winograd *w, int64_t slots) {
    const ConvGeom *g = w->run->g;
    w->v_ld = (g->c + 15) / 16 * 16 + APART;
    w->v_step = w->most * w->v_ld + APART;
    w->m_step = w->most * w->panels.full + APART;
    int64_t v = w->points * w->v_step;
    w->slot = w->points * w->m_step + (w->split ? 0 : v);
    int64_t all = slots * w->slot + (w->split ? v : 0);
    w->slots = arena_raw(c->scratch, (size_t)all * sizeof(float), 64);
    w->zeros = arena_array(c->scratch, float, (size_t)g->c);
    if (!w->slots || !w->zeros) return TN_OUT_OF_MEMORY;
    w->v = w->slots + slots * w->slot;
    for (int64_t i = slots; i < MOST_SLOTS; i++) atomic_init(&w->busy[i], 1);
    return TN_OK;
}

static void find_groups(Winograd *w, int64_t threads) {
    bool far = w->tiles->vector >= 16 && w->panels.floats * (int64_t)sizeof(float) > cpu_caches()->l2;
    int64_t together = w->run->together ? w->run->together : far ? FAR_GROUP : GROUP;
    w->groups = (w->blocks + together - 1) / together;
    w->split = threads > 1 && w->groups < threads && w->panels.n >= threads && w->blocks < 20 * threads;
    bool even = w->panels.n >= 4 * threads || (w->panels.n % threads == 0 && w->panels.last == w->panels.full);
    w->parts = even ? 1 : min_i64(w->blocks, threads);
    if (w->split) w->groups = 1;
    else if (threads > 1) w->groups = min_i64(w->blocks, (w->groups + threads - 1) / threads * threads);
    w->most = (w->blocks + w->groups - 1) / w->groups;
}

tn_status conv_winograd(KernelCtx *c, const ConvRunArgs *run, WinogradForm form, const float *weights, bool *finite) {
    const ConvGeom *g = run->g;
    const int out = form.out;
    Winograd *w = arena_new(c->scratch, Winograd);
    if (!w) return TN_OUT_OF_MEMORY;
    *w = (Winograd){.run = run, .table = ISA_PICK(winograd_table), .tiles = ISA_PICK(conv_table), .weights = weights};
    w->out = out, w->size = out + 2, w->points = w->size * w->size;
    w->high = (g->out[0] + out - 1) / out;
    w->wide = (g->out[1] + out - 1) / out;
    w->blocks = g->batch * w->high * w->wide;
    winograd_panels(g, form, &w->panels);
    int64_t threads = min_i64(pool_threads(c->pool), MOST_SLOTS);
    find_groups(w, threads);
    TRY(make_room(c, w, threads));
    double work = (double)(w->blocks * w->points) * (double)(g->c * g->m) / 50;
    if (w->split) {
        TRY(kernel_parallel(c, w->blocks, (double)(g->c * w->points) / 5, run_data, w));
        int64_t items = w->panels.n * w->parts;
        TRY(kernel_parallel(c, items, work / (double)items, run_panels, w));
    } else {
        TRY(kernel_parallel(c, w->groups, work / (double)w->groups, run_groups, w));
    }
    *finite = !atomic_load(&w->odd);
    return TN_OK;
}
