/* SPDX-License-Identifier: Apache-2.0 */
/* Conv, com.microsoft.FusedConv, and a tn.Fused with one of them in front, in float32. */
#include "backends/cpu/conv_int.h"

#include <math.h>

/* ---- what is taken ------------------------------------------------------------------------------------------- */

/* What FusedConv's attributes say; false for what is left to others. */
static bool read_activation(const Node *node, float *lo, float *hi) {
    *lo = -INFINITY, *hi = INFINITY;
    if (!op_attr_spec(node->op, STR("activation"))) return true;
    Str name = attr_string(node, "activation");
    if (name.n == 0) return true;
    if (!str_equal(name, STR("Relu"))) return false;
    *lo = 0;
    return true;
}

static bool is_conv(const Node *node) {
    const OpSchema *op = node->op;
    bool known = op->domain ? strcmp(op->domain, "com.microsoft") == 0 && strcmp(op->name, "FusedConv") == 0
                            : strcmp(op->name, "Conv") == 0;
    float lo, hi;
    return known && read_activation(node, &lo, &hi);
}

static bool fuses(const Node *inner) {
    const Value *x = node_operand(inner, 0);
    return x && is_conv(inner) && x->type->kind == TYPE_TENSOR && x->type->dtype == TN_F32;
}

/* What lies behind must not make more of it, as by adding something larger. */
static bool result_is_whole(const Node *node, const Tensor *x, const Tensor *w, const Tensor *y) {
    ConvGeom g;
    if (y->rank != x->rank || y->dims[0] != x->dims[0] || y->dims[1] != w->dims[0]) return false;
    conv_geom(node, x, w, y, &g);
    for (int d = 0; d < g.win.rank; d++)
        if (y->dims[2 + d] != window_size(node, &g.win, d, g.in[d])) return false;
    return true;
}

static bool matches(const KernelQuery *q) {
    Heavy h;
    if (q->n_out != 1 || q->out[0].dtype != TN_F32 || !heavy_open(q->node, is_conv, &h)) return false;
    const Tensor *x = conv_operand(&h, q->in, 0), *w = conv_operand(&h, q->in, 1);
    if (!x || !w || x->dtype != TN_F32 || w->dtype != TN_F32 || x->rank < 3 || w->rank != x->rank) return false;
    return !h.fused || result_is_whole(h.node, x, w, &q->out[0]);
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* The ways to run one. What is packed decides: weights stay as they are when sizes change. */
typedef enum Way {
    WAY_DIRECT,
    WAY_DEPTHWISE,
    WAY_WINOGRAD2,
    WAY_WINOGRAD4,
    WAY_WINOGRAD2_NARROW,
    WAY_WINOGRAD4_NARROW,
    WAY_STEP2_2,
    WAY_STEP2_4,
    WAY_STEP2_2_NARROW,
    WAY_STEP2_4_NARROW,
    WAY_WIDE,
    WAY_PHASES,
    N_WAYS
} Way;
static const struct {
    const char *format;
    WinogradForm form;
} ways_by[N_WAYS] = {
    [WAY_DIRECT] = {"conv_panels", {WINOGRAD_NONE, false}},
    [WAY_DEPTHWISE] = {"conv_depthwise", {WINOGRAD_NONE, false}},
    [WAY_WINOGRAD2] = {"conv_winograd2", {WINOGRAD_2, false}},
    [WAY_WINOGRAD4] = {"conv_winograd4", {WINOGRAD_4, false}},
    [WAY_WINOGRAD2_NARROW] = {"conv_winograd2_n", {WINOGRAD_2, true}},
    [WAY_WINOGRAD4_NARROW] = {"conv_winograd4_n", {WINOGRAD_4, true}},
    [WAY_STEP2_2] = {"conv_step2_2", {WINOGRAD_STEP2_2, false}},
    [WAY_STEP2_4] = {"conv_step2_4", {WINOGRAD_STEP2_4, false}},
    [WAY_STEP2_2_NARROW] = {"conv_step2_2_n", {WINOGRAD_STEP2_2, true}},
    [WAY_STEP2_4_NARROW] = {"conv_step2_4_n", {WINOGRAD_STEP2_4, true}},
    [WAY_WIDE] = {"conv_wide", {WINOGRAD_WIDE, false}},
    [WAY_PHASES] = {"conv_phases", {WINOGRAD_PHASES, false}},
};

static WinogradForm form_of(Way way) { return ways_by[way].form; }

/* `winograd`: weights are constants, so that it is worth its transforms, and it is exact enough for the session. */
static Way way_of(const ConvGeom *g, bool winograd) {
    if (depthwise_takes(g)) return WAY_DEPTHWISE;
    WinogradForm form = winograd ? winograd_form(g) : (WinogradForm){WINOGRAD_NONE, false};
    for (Way way = WAY_WINOGRAD2; form.kind && way < N_WAYS; way++)
        if (ways_by[way].form.kind == form.kind && ways_by[way].form.narrow == form.narrow) return way;
    return WAY_DIRECT;
}

static tn_status packed_bytes(const ConvGeom *g, Way way, size_t *bytes) {
    ConvPanels p;
    conv_panels(g, g->taps, &p);
    int64_t floats = way == WAY_DIRECT      ? p.floats
                     : way == WAY_DEPTHWISE ? depthwise_floats(g)
                                            : winograd_floats(g, form_of(way));
    return checked_bytes(TN_F32, floats, bytes);
}

/* ---- choosing ------------------------------------------------------------------------------------------------ */

/* What a session chooses from by measuring: the ways above, with fewer or more tiles or blocks going through the weights
   together, where there are so many. */
static const struct {
    Way way;
    int64_t together, least;
} choices[] = {
    {WAY_DIRECT, 0, 0},           {WAY_DEPTHWISE, 0, 0},        {WAY_WINOGRAD2, 0, 0},   {WAY_WINOGRAD4, 0, 0},
    {WAY_WINOGRAD2_NARROW, 0, 0}, {WAY_WINOGRAD4_NARROW, 0, 0}, {WAY_STEP2_2, 0, 0},     {WAY_STEP2_4, 0, 0},
    {WAY_STEP2_2_NARROW, 0, 0},   {WAY_STEP2_4_NARROW, 0, 0},   {WAY_WIDE, 0, 0},        {WAY_PHASES, 0, 0},
    {WAY_DIRECT, 12, 20},         {WAY_DIRECT, 160, 60},        {WAY_WINOGRAD2, 20, 30}, {WAY_WINOGRAD4, 20, 30},
    {WAY_WINOGRAD2, 200, 60},     {WAY_WINOGRAD4, 200, 60},
};
static const KernelWay ways[] = {
    {"direct", "conv_panels"},
    {"depthwise", "conv_depthwise"},
    {"winograd2", "conv_winograd2"},
    {"winograd4", "conv_winograd4"},
    {"winograd2-narrow", "conv_winograd2_n"},
    {"winograd4-narrow", "conv_winograd4_n"},
    {"winograd2-step2", "conv_step2_2"},
    {"winograd4-step2", "conv_step2_4"},
    {"winograd2-step2-narrow", "conv_step2_2_n"},
    {"winograd4-step2-narrow", "conv_step2_4_n"},
    {"winograd4-wide", "conv_wide"},
    {"winograd5-phases", "conv_phases"},
    {"direct-small", "conv_panels"},
    {"direct-large", "conv_panels"},
    {"winograd2-small", "conv_winograd2"},
    {"winograd4-small", "conv_winograd4"},
    {"winograd2-large", "conv_winograd2"},
    {"winograd4-large", "conv_winograd4"},
    {NULL, NULL},
};
enum { N_CHOICES = sizeof choices / sizeof *choices };
static_assert(sizeof ways / sizeof *ways == N_CHOICES + 1, "a name for each choice");

static bool has_so_many(const ConvGeom *g, Way way, int64_t least) {
    int64_t out = winograd_spec[form_of(way).kind].out, pixels = out ? out * out : ISA_PICK(conv_table)->rows[1];
    return g->batch * g->out_px >= least * pixels;
}

static uint32_t offers(const KernelQuery *q, int *usual) {
    Heavy h;
    ConvGeom g;
    uint32_t offered = 0;
    heavy_open(q->node, is_conv, &h);
    const Tensor *x = conv_operand(&h, q->in, 0), *w = conv_operand(&h, q->in, 1);
    conv_geom(h.node, x, w, &q->out[0], &g);
    bool winograd = w->data && tensor_is_dense(w) && !q->accurate;
    *usual = (int)way_of(&g, winograd) + 1; /* they stand first, in their order */
    for (int i = 0; i < N_CHOICES; i++) {
        Way way = choices[i].way;
        bool fits = way == WAY_DIRECT      ? true
                    : way == WAY_DEPTHWISE ? depthwise_takes(&g)
                                           : winograd && winograd_takes(&g, form_of(way));
        if (fits && has_so_many(&g, way, choices[i].least)) offered |= 1u << i;
    }
    return offered;
}

/* ---- packing ------------------------------------------------------------------------------------------------- */

typedef struct PackRequest {
    const ConvGeom *g;
    const Tensor *w;
    Way way;
    Pool *pool;
} PackRequest;

static tn_status pack(void *arg, void *dst) {
    const PackRequest *r = arg;
    ConvPanels p;
    conv_panels(r->g, r->g->taps, &p);
    if (r->way == WAY_DEPTHWISE) depthwise_pack(r->g, r->w, dst);
    else if (r->way == WAY_DIRECT) conv_pack(r->g, &p, r->w, false, dst, r->pool);
    else winograd_pack(r->g, form_of(r->way), r->w, dst, r->pool);
    return TN_OK;
}

/* For constant weights. */
static Way way_asked(const KernelQuery *q, const ConvGeom *g) {
    return q->way ? choices[q->way - 1].way : way_of(g, !q->accurate);
}

/* Of dense weights: then sizes say how they lie. */
static tn_status prepare_weights(Context *context, const ConvGeom *g, const Tensor *w, ConvPrepared *p) {
    size_t bytes;
    TRY(packed_bytes(g, (Way)p->way, &bytes));
    PackKey key = {.source = tensor_bytes(w),
                   .format = ways_by[p->way].format,
                   .params = {w->dims[0], g->c, g->taps, g->group, (int64_t)cpu_level()},
                   .n_bytes = (size_t)tensor_count(w) * sizeof(float)};
    return packed_get(context, &key, bytes, pack, &(PackRequest){g, w, (Way)p->way, context->pool}, &p->packed);
}

static tn_status pack_constant(const KernelQuery *q, Context *context, ConvPrepared *p) {
    const Tensor *x = conv_operand(&p->heavy, q->in, 0), *w = conv_operand(&p->heavy, q->in, 1);
    ConvGeom g;
    conv_geom(p->heavy.node, x, w, &q->out[0], &g);
    p->way = (int)way_asked(q, &g);
    TRY(prepare_weights(context, &g, w, p));
    WinogradForm form = form_of((Way)p->way);
    p->wants_weights = form.kind && !winograd_keeps_weights(&g, form, p->packed->data);
    return TN_OK;
}

static tn_status prepare(const KernelQuery *q, Context *context, Prepared *out) {
    return conv_prepare(q, context, is_conv, pack_constant, out);
}

/* Other sizes may be done in another way. */
static bool keeps(const KernelQuery *q, const Prepared *prepared) {
    const ConvPrepared *p = prepared->data;
    const Tensor *x = conv_operand(&p->heavy, q->in, 0), *w = conv_operand(&p->heavy, q->in, 1);
    ConvGeom g;
    if (!p->packed) return !w->data || !tensor_is_dense(w);
    conv_geom(p->heavy.node, x, w, &q->out[0], &g);
    return way_asked(q, &g) == (Way)p->way;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static tn_status scratch_weights(KernelCtx *c, const ConvGeom *g, Way way, float **out) {
    size_t bytes;
    TRY(packed_bytes(g, way, &bytes));
    *out = arena_raw(c->scratch, bytes + 64, 64);
    return *out ? TN_OK : TN_OUT_OF_MEMORY;
}

/* Of many channels that lie apart, elements of a window would fall into the same few lines of the first cache. */
enum { MOST_APART = 4 };

static tn_status run_directly(KernelCtx *c, const ConvPrepared *p, ConvRunArgs *run, ConvGeom *g,
                              const float *weights) {
    const Tensor *x = conv_operand(&p->heavy, c->in, 0);
    if (conv_lines_take(g)) {
        bool apart = g->c * g->group <= MOST_APART;
        if (apart) conv_data(x, &run->x);
        else TRY(conv_input(c, x, g, false, &run->x));
        return conv_lines(c, run, apart ? x->strides[1] : 1, weights);
    }
    TRY(conv_input(c, x, g, g->c * g->group <= 8 && g->taps > 1, &run->x));
    return conv_direct(c, run, 1, weights);
}

/* Where blocks of Winograd's algorithm meet an infinity or NaN. */
static tn_status run_again(KernelCtx *c, const ConvPrepared *p, ConvRunArgs *run, ConvGeom *g, WinogradForm form) {
    float *weights;
    TRY(scratch_weights(c, g, WAY_DIRECT, &weights));
    if (p->wants_weights) TRY(pack(&(PackRequest){g, conv_operand(&p->heavy, c->in, 1), WAY_DIRECT, c->pool}, weights));
    else winograd_unpack(g, form, p->packed->data, weights);
    return run_directly(c, p, run, g, weights);
}

static tn_status run_winograd(KernelCtx *c, const ConvPrepared *p, ConvRunArgs *run, ConvGeom *g, WinogradForm form,
                              const float *weights) {
    const Tensor *x = conv_operand(&p->heavy, c->in, 0);
    ConvRunArgs blocks = *run;
    ConvGeom phases;
    bool finite;
    if (form.kind == WINOGRAD_PHASES) {
        TRY(conv_phases(c, g, x, &phases, &blocks.x));
        blocks.g = &phases;
    } else {
        TRY(conv_input(c, x, g, false, &blocks.x));
    }
    TRY(conv_winograd(c, &blocks, form, weights, &finite));
    return finite ? TN_OK : run_again(c, p, run, g, form);
}

static tn_status run_way(KernelCtx *c, const ConvPrepared *p, ConvRunArgs *run, ConvGeom *g) {
    Way way = p->packed ? (Way)p->way : c->way ? choices[c->way - 1].way : way_of(g, false);
    const float *weights = p->packed ? p->packed->data : NULL;
    if (!weights) {
        float *made;
        TRY(scratch_weights(c, g, way, &made));
        TRY(pack(&(PackRequest){g, conv_operand(&p->heavy, c->in, 1), way, c->pool}, made));
        weights = made;
    }
    if (form_of(way).kind) return run_winograd(c, p, run, g, form_of(way), weights);
    if (way == WAY_DIRECT) return run_directly(c, p, run, g, weights);
    TRY(conv_input(c, conv_operand(&p->heavy, c->in, 0), g, g->c * g->group <= 8 && g->taps > 1, &run->x));
    return conv_depthwise(c, run, weights);
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const ConvPrepared *p = prepared->data;
    const Tensor *x = conv_operand(&p->heavy, c->in, 0), *w = conv_operand(&p->heavy, c->in, 1), *y = &c->out[0];
    ConvGeom g;
    BodyMap map;
    float lo, hi;
    ConvRunArgs run = {.g = &g, .together = c->way ? choices[c->way - 1].together : 0};
    if (tensor_count(y) == 0) return TN_OK;
    conv_geom(p->heavy.node, x, w, y, &g);
    TRY(conv_output(c, y, &run.y, &run.y_ld));
    read_activation(p->heavy.node, &lo, &hi);
    TRY(conv_epilogue(c, p, &g, lo, hi, &map, &run.after));
    TRY(run_way(c, p, &run, &g));
    return conv_output_done(c, y, &run.y);
}

/* Depthwise ones go from pixel to pixel with one vector of channels. */
static bool avoids_pages(const Node *node) {
    Heavy h;
    return heavy_open(node, is_conv, &h) && attr_int(h.node, "group") > 1;
}

const KernelDesc kernel_cpu_conv = {
    .name = "cpu_conv",
    .op = "Conv tn.Fused com.microsoft.FusedConv",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 110,
    .match = matches,
    .fuses = fuses,
    .order = order_channels_last,
    .strided = strided_all,
    .ways = ways,
    .offers = offers,
    .pack_format = "conv",
    .prepare = prepare,
    .keeps = keeps,
    .gaps = true,
    .avoids_pages = avoids_pages,
    .launch = launch,
};
