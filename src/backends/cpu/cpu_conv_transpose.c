/* SPDX-License-Identifier: Apache-2.0 */
/* ConvTranspose, and a tn.Fused with one in front, in float32. Pixels of the result whose places leave the same rest when
   divided by the stride meet the same taps: each such phase is a convolution in steps of 1 with these taps, the last of them
   first. So every pixel is made once, and nothing is added up in memory. */
#include "backends/cpu/conv_int.h"

#include <math.h>

/* ---- sizes --------------------------------------------------------------------------------------------------- */

static int64_t span_of(const ConvWindow *w, int d) { return (w->kernel[d] - 1) * w->dilation[d] + 1; }

/* The sizes that the node asks for, and what it adds at the end; NULL, zeros: none. */
static const int64_t *asked_sizes(const Node *node, int rank) {
    IntList shape = attr_ints(node, "output_shape");
    return shape.n ? shape.data + (shape.n - (size_t)rank) : NULL;
}

static int64_t full_size(const Node *node, const ConvWindow *w, int d, int64_t in) {
    IntList extra = attr_ints(node, "output_padding");
    return w->stride[d] * (in - 1) + (extra.n ? extra.data[d] : 0) + span_of(w, d);
}

static bool is_same(const Node *node) {
    return attr_string_is(node, "auto_pad", "SAME_UPPER") || attr_string_is(node, "auto_pad", "SAME_LOWER");
}

static int64_t result_size(const Node *node, const ConvWindow *w, int d, int64_t in) {
    const int64_t *asked = asked_sizes(node, w->rank);
    if (asked) return asked[d];
    int64_t full = full_size(node, w, d, in);
    return is_same(node) ? min_i64(in * w->stride[d], full) : full - w->begin[d] - w->end[d];
}

/* What is cut off in front, where sizes decide it: half, the odd one at the end for SAME_UPPER. */
static void fix_begin(const Node *node, const int64_t *in, const int64_t *out, ConvWindow *w) {
    if (!is_same(node) && !asked_sizes(node, w->rank)) return;
    bool upper = attr_string_is(node, "auto_pad", "SAME_UPPER");
    for (int d = 0; d < w->rank; d++) {
        int64_t total = max_i64(full_size(node, w, d, in[d]) - out[d], 0);
        w->begin[d] = upper ? total / 2 : total - total / 2;
    }
}

static void read_geom(const Node *node, const Tensor *x, const Tensor *w, const Tensor *y, ConvGeom *g) {
    int rank = x->rank - 2;
    *g = (ConvGeom){.batch = x->dims[0], .group = attr_int(node, "group"), .taps = 1, .in_px = 1, .out_px = 1};
    window_of(node, rank, w, &g->win);
    fix_begin(node, x->dims + 2, y->dims + 2, &g->win);
    g->c = w->dims[0] / g->group;
    g->m = w->dims[1];
    for (int d = 0; d < rank; d++) {
        g->taps *= g->win.kernel[d];
        g->in_px *= g->in[d] = x->dims[2 + d];
        g->out_px *= g->out[d] = y->dims[2 + d];
    }
}

/* ---- what is taken ------------------------------------------------------------------------------------------- */

static bool is_transpose(const Node *node) { return !node->op->domain && strcmp(node->op->name, "ConvTranspose") == 0; }

static bool fuses(const Node *inner) {
    const Value *x = node_operand(inner, 0);
    return x && is_transpose(inner) && x->type->kind == TYPE_TENSOR && x->type->dtype == TN_F32;
}

/* What lies behind must not make more of it. */
static bool result_is_whole(const Node *node, const Tensor *x, const Tensor *w, const Tensor *y) {
    ConvGeom g;
    if (y->rank != x->rank || y->dims[0] != x->dims[0]) return false;
    read_geom(node, x, w, y, &g);
    for (int d = 0; d < g.win.rank; d++)
        if (y->dims[2 + d] != result_size(node, &g.win, d, g.in[d])) return false;
    return y->dims[1] == g.group * g.m;
}

static bool matches(const KernelQuery *q) {
    Heavy h;
    if (q->n_out != 1 || q->out[0].dtype != TN_F32 || !heavy_open(q->node, is_transpose, &h)) return false;
    const Tensor *x = conv_operand(&h, q->in, 0), *w = conv_operand(&h, q->in, 1);
    if (!x || !w || x->dtype != TN_F32 || w->dtype != TN_F32 || x->rank < 3 || w->rank != x->rank) return false;
    return !h.fused || result_is_whole(h.node, x, w, &q->out[0]);
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

typedef struct PackRequest {
    const ConvGeom *g;
    const Tensor *w;
    Pool *pool;
} PackRequest;

static tn_status pack(void *arg, void *dst) {
    const PackRequest *r = arg;
    ConvPanels p;
    conv_panels(r->g, r->g->taps, &p);
    conv_pack(r->g, &p, r->w, true, dst, r->pool);
    return TN_OK;
}

static tn_status packed_bytes(const ConvGeom *g, size_t *bytes) {
    ConvPanels p;
    conv_panels(g, g->taps, &p);
    return checked_bytes(TN_F32, p.floats, bytes);
}

static tn_status pack_constant(const KernelQuery *q, Context *context, ConvPrepared *p) {
    const Tensor *x = conv_operand(&p->heavy, q->in, 0), *w = conv_operand(&p->heavy, q->in, 1);
    ConvGeom g;
    size_t bytes;
    read_geom(p->heavy.node, x, w, &q->out[0], &g);
    TRY(packed_bytes(&g, &bytes));
    PackKey key = {.source = tensor_bytes(w),
                   .format = "conv_transpose_panels",
                   .params = {w->dims[0], g.m, g.taps, g.group, (int64_t)cpu_level()},
                   .n_bytes = (size_t)tensor_count(w) * sizeof(float)};
    return packed_get(context, &key, bytes, pack, &(PackRequest){&g, w, context->pool}, &p->packed);
}

static tn_status prepare(const KernelQuery *q, Context *context, Prepared *out) {
    return conv_prepare(q, context, is_transpose, pack_constant, out);
}

static tn_status weights_of(KernelCtx *c, const ConvPrepared *p, const ConvGeom *g, const float **out) {
    size_t bytes;
    if (p->packed) {
        *out = p->packed->data;
        return TN_OK;
    }
    TRY(packed_bytes(g, &bytes));
    float *dst = arena_raw(c->scratch, bytes + 64, 64);
    if (!dst) return TN_OUT_OF_MEMORY;
    *out = dst;
    return pack(&(PackRequest){g, conv_operand(&p->heavy, c->in, 1), c->pool}, dst);
}

/* ---- phases -------------------------------------------------------------------------------------------------- */

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* One dimension of a phase: pixels first, first + stride, ... meet taps tap, tap + step, ... of which there are n. */
typedef struct Line {
    int64_t first, tap, step, n;
} Line;

static Line line_of(const ConvWindow *w, int d, int64_t first) {
    int64_t stride = w->stride[d], dilation = w->dilation[d];
    Line line = {.first = first, .step = stride / common_divisor(stride, dilation)};
    while (line.tap < w->kernel[d] && line.tap < line.step && (first + w->begin[d] - line.tap * dilation) % stride != 0)
        line.tap++;
    if (line.tap < w->kernel[d] && line.tap < line.step) line.n = (w->kernel[d] - 1 - line.tap) / line.step + 1;
    return line;
}

/* The phase as a convolution: its window, sizes, and which taps of the weights its taps are. */
static void phase_geom(const ConvGeom *whole, const Line *lines, ConvGeom *g, int32_t *taps) {
    const ConvWindow *w = &whole->win;
    *g = *whole;
    g->taps = g->out_px = 1;
    for (int d = 0; d < w->rank; d++) {
        const Line *line = &lines[d];
        int64_t stride = w->stride[d], last = line->n - 1;
        g->win.kernel[d] = line->n;
        g->win.stride[d] = 1;
        g->win.dilation[d] = line->step * w->dilation[d] / stride;
        g->win.begin[d] = last * g->win.dilation[d] - (line->first + w->begin[d] - line->tap * w->dilation[d]) / stride;
        g->taps *= line->n;
        g->out_px *= g->out[d] = (whole->out[d] - line->first + stride - 1) / stride;
    }
    int64_t at[CONV_DIMS] = {0};
    for (int64_t t = 0; t < g->taps; t++) {
        int64_t tap = 0;
        for (int d = 0; d < w->rank; d++)
            tap = tap * w->kernel[d] + lines[d].tap + (lines[d].n - 1 - at[d]) * lines[d].step;
        taps[t] = (int32_t)tap;
        for (int d = w->rank - 1; d >= 0 && ++at[d] == lines[d].n; d--) at[d] = 0;
    }
}

/* Pixels of a phase in what lies like the result. */
static void choose_pixels(const ConvGeom *whole, const Line *lines, ConvData *data, int64_t *ld) {
    for (int d = 0; data->data && d < whole->win.rank; d++) {
        data->data += lines[d].first * data->stride[d];
        data->stride[d] *= whole->win.stride[d];
    }
    *ld = data->stride[whole->win.rank - 1];
}

static tn_status find_phase(KernelCtx *c, const ConvRunArgs *run, const Line *lines, ConvRunArgs *phase) {
    ConvGeom *g = arena_new(c->scratch, ConvGeom);
    size_t taps = 1;
    for (int d = 0; d < run->g->win.rank; d++) taps *= (size_t)lines[d].n;
    int32_t *from = arena_array(c->scratch, int32_t, taps + 1);
    if (!g || !from) return TN_OUT_OF_MEMORY;
    phase_geom(run->g, lines, g, from);
    *phase = *run;
    phase->g = g;
    phase->taps = from;
    phase->n_taps = run->g->taps;
    phase->y_apart = true;
    phase->after.body = NULL;
    choose_pixels(run->g, lines, &phase->y, &phase->y_ld);
    choose_pixels(run->g, lines, &phase->after.residual, &phase->after.residual_ld);
    return TN_OK;
}

enum { PHASES = 32 }; /* at once */

/* From the one whose first pixel is `first`, which moves on; !*more: that was the last. */
static tn_status run_some_phases(KernelCtx *c, const ConvRunArgs *run, const float *weights, int64_t *first,
                                 bool *more) {
    const ConvGeom *g = run->g;
    ConvRunArgs phases[PHASES];
    int64_t n = 0;
    for (*more = true; *more && n < PHASES; n++) {
        Line lines[CONV_DIMS];
        int d = g->win.rank - 1;
        for (int k = 0; k <= d; k++) lines[k] = line_of(&g->win, k, first[k]);
        TRY(find_phase(c, run, lines, &phases[n]));
        for (; d >= 0 && ++first[d] >= min_i64(g->win.stride[d], g->out[d]); d--) first[d] = 0;
        *more = d >= 0;
    }
    return conv_direct(c, phases, n, weights);
}

static tn_status run_phases(KernelCtx *c, const ConvRunArgs *run, const float *weights) {
    int64_t first[CONV_DIMS] = {0};
    for (bool more = true; more;) {
        ArenaMark mark = arena_mark(c->scratch);
        TRY(run_some_phases(c, run, weights, first, &more));
        arena_release(c->scratch, mark);
    }
    return TN_OK;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

enum { BODY_PIXELS = 192, BODY_CHANNELS = 64 };

/* One item is some pixels of one image. */
static void run_bodies(void *arg, int64_t begin, int64_t end) {
    const ConvRunArgs *run = arg;
    const ConvGeom *g = run->g;
    int64_t of_image = (g->out_px + BODY_PIXELS - 1) / BODY_PIXELS, channels = g->group * g->m;
    for (int64_t item = begin; item < end; item++) {
        int64_t first = item % of_image * BODY_PIXELS, last = min_i64(g->out_px, first + BODY_PIXELS);
        for (int64_t m = 0; m < channels; m += BODY_CHANNELS)
            conv_body(run, item / of_image, first, last, m, min_i64(BODY_CHANNELS, channels - m));
    }
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const ConvPrepared *p = prepared->data;
    const Tensor *x = conv_operand(&p->heavy, c->in, 0), *w = conv_operand(&p->heavy, c->in, 1), *y = &c->out[0];
    ConvGeom g;
    BodyMap map;
    const float *weights;
    ConvRunArgs run = {.g = &g};
    if (tensor_count(y) == 0) return TN_OK;
    read_geom(p->heavy.node, x, w, y, &g);
    TRY(weights_of(c, p, &g, &weights));
    TRY(conv_input(c, x, &g, false, &run.x));
    TRY(conv_output(c, y, &run.y, &run.y_ld));
    TRY(conv_epilogue(c, p, &g, -INFINITY, INFINITY, &map, &run.after));
    TRY(run_phases(c, &run, weights));
    if (run.after.body) {
        double cost = body_cost(p->body) * BODY_PIXELS * (double)(g.group * g.m);
        int64_t items = g.batch * ((g.out_px + BODY_PIXELS - 1) / BODY_PIXELS);
        TRY(kernel_parallel(c, items, cost, run_bodies, &run));
    }
    return conv_output_done(c, y, &run.y);
}

const KernelDesc kernel_cpu_conv_transpose = {
    .name = "cpu_conv_transpose",
    .op = "ConvTranspose tn.Fused",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 110,
    .match = matches,
    .fuses = fuses,
    .order = order_channels_last,
    .strided = strided_all,
    .pack_format = "conv_transpose",
    .prepare = prepare,
    .gaps = true,
    .launch = launch,
};
