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

static const Tensor *operand(const Heavy *h, const Tensor *const *in, int i) {
    return h->constant[i] ? h->constant[i] : h->in[i] >= 0 ? in[h->in[i]] : NULL;
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
    const Tensor *x = operand(&h, q->in, 0), *w = operand(&h, q->in, 1);
    if (!x || !w || x->dtype != TN_F32 || w->dtype != TN_F32 || x->rank < 3 || w->rank != x->rank) return false;
    return !h.fused || result_is_whole(h.node, x, w, &q->out[0]);
}

static uint32_t strided(const Node *node) {
    (void)node;
    return UINT32_MAX;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

/* The ways to run one. What is packed decides: weights stay as they are when sizes change. */
typedef enum Way { WAY_DIRECT, WAY_DEPTHWISE, WAY_WINOGRAD2, WAY_WINOGRAD4, N_WAYS } Way;

static Way way_of(const ConvGeom *g, bool constant) {
    if (depthwise_takes(g)) return WAY_DEPTHWISE;
    int out = constant ? winograd_out(g) : 0;
    return out == 4 ? WAY_WINOGRAD4 : out == 2 ? WAY_WINOGRAD2 : WAY_DIRECT;
}

typedef struct ConvPrepared {
    Heavy heavy;
    Arena arena;          /* of the body */
    Body *body;           /* NULL: none */
    const Packed *packed; /* weights; NULL: they are packed when it runs */
    Way way;              /* that they are packed for */
} ConvPrepared;

static void release(Prepared *prepared, const Allocator *allocator) {
    ConvPrepared *p = prepared->data;
    if (!p) return;
    packed_put(p->packed);
    arena_free(&p->arena);
    mem_free(allocator, p, sizeof *p);
    *prepared = (Prepared){0};
}

static const char *const formats[N_WAYS] = {"conv_panels", "conv_depthwise", "conv_winograd2", "conv_winograd4"};

static tn_status packed_bytes(const ConvGeom *g, Way way, size_t *bytes) {
    ConvPanels p;
    conv_panels(g, g->taps, &p);
    int64_t floats = way == WAY_DIRECT      ? p.floats
                     : way == WAY_DEPTHWISE ? g->taps * depthwise_room(g->group)
                                            : winograd_floats(g, way == WAY_WINOGRAD4 ? 4 : 2);
    return checked_bytes(TN_F32, floats, bytes);
}

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
    else winograd_pack(r->g, r->way == WAY_WINOGRAD4 ? 4 : 2, r->w, dst);
    return TN_OK;
}

/* Of dense weights: then sizes say how they lie. */
static tn_status prepare_weights(Context *context, const ConvGeom *g, const Tensor *w, ConvPrepared *p) {
    size_t bytes;
    p->way = way_of(g, true);
    TRY(packed_bytes(g, p->way, &bytes));
    PackKey key = {.source = tensor_bytes(w),
                   .format = formats[p->way],
                   .params = {w->dims[0], g->c, g->taps, g->group, (int64_t)cpu_level()},
                   .n_bytes = (size_t)tensor_count(w) * sizeof(float)};
    return packed_get(context, &key, bytes, pack, &(PackRequest){g, w, p->way, NULL}, &p->packed);
}

/* Whether only the convolution reads that operand, and that as its weights. */
static bool weights_alone(const Node *node, const Heavy *h) {
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (i != 1 && h->in[i] == h->in[1]) return false;
    return !h->fused || value_has_one_use(attr_graph(node, "body")->inputs.data[h->in[1]]);
}

static tn_status fill_prepared(const KernelQuery *q, Context *context, ConvPrepared *p) {
    heavy_open(q->node, is_conv, &p->heavy);
    if (p->heavy.fused) TRY(body_compile(q->node, p->heavy.node, &p->arena, &p->body));
    const Tensor *x = operand(&p->heavy, q->in, 0), *w = operand(&p->heavy, q->in, 1);
    if (!w->data || !tensor_is_dense(w)) return TN_OK;
    ConvGeom g;
    conv_geom(p->heavy.node, x, w, &q->out[0], &g);
    return prepare_weights(context, &g, w, p);
}

static tn_status prepare(const KernelQuery *q, Context *context, Prepared *out) {
    ConvPrepared *p = mem_alloc(&context->allocator, sizeof *p, alignof(ConvPrepared));
    if (!p) return TN_OUT_OF_MEMORY;
    arena_init(&p->arena, &context->allocator);
    *out = (Prepared){.data = p, .size = sizeof *p, .release = release};
    tn_status status = fill_prepared(q, context, p);
    if (status != TN_OK) {
        release(out, &context->allocator);
        return status;
    }
    /* Winograd's algorithm may want them again: see run_way. */
    bool done = p->packed && (p->way == WAY_DIRECT || p->way == WAY_DEPTHWISE);
    int at = p->heavy.in[1];
    if (done && at >= 0 && at < 32 && weights_alone(q->node, &p->heavy)) out->replaces = 1u << at;
    return TN_OK;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

/* What follows the sums, as far as registers can hold it; the rest is the body's. */
static tn_status find_epilogue(KernelCtx *c, const ConvPrepared *p, const ConvGeom *g, BodyMap *map, ConvEpilogue *e) {
    const Heavy *h = &p->heavy;
    const Tensor *bias = operand(h, c->in, 2), *residual = operand(h, c->in, 3);
    *e = (ConvEpilogue){.lo = -INFINITY, .hi = INFINITY};
    read_activation(h->node, &e->lo, &e->hi);
    BodyShort s;
    KernelQuery q = {.node = c->node, .n_in = c->n_in, .n_out = c->n_out, .in = c->in, .out = c->out};
    bool plain = !residual && e->lo == -INFINITY && e->hi == INFINITY;
    if (p->body && plain && body_as_short(p->body, &q, 1, &s) && (s.bias < 0 || !bias)) {
        if (s.bias >= 0) bias = c->in[s.bias];
        if (s.residual >= 0) residual = c->in[s.residual];
        e->lo = s.lo, e->hi = s.hi;
    } else if (p->body) {
        TRY(body_map(p->body, c, 2, g->win.rank, 1, map));
        e->body = map;
    }
    int64_t channels = g->group * g->m;
    if (bias) TRY(conv_vector(c, bias, channels, channels + 64, &e->bias));
    if (!residual) return TN_OK;
    return conv_like_output(c, residual, &e->residual, &e->residual_ld);
}

static tn_status pack_now(KernelCtx *c, const ConvPrepared *p, const ConvGeom *g, Way way, const float **out) {
    size_t bytes;
    TRY(packed_bytes(g, way, &bytes));
    float *dst = arena_raw(c->scratch, bytes + 64, 64);
    if (!dst) return TN_OUT_OF_MEMORY;
    *out = dst;
    return pack(&(PackRequest){g, operand(&p->heavy, c->in, 1), way, c->pool}, dst);
}

static tn_status run_way(KernelCtx *c, const ConvPrepared *p, const ConvRunArgs *run) {
    Way way = p->packed ? p->way : way_of(run->g, false);
    const float *weights = p->packed ? p->packed->data : NULL;
    if (!weights) TRY(pack_now(c, p, run->g, way, &weights));
    if (way == WAY_DEPTHWISE) return conv_depthwise(c, run, weights);
    if (way == WAY_DIRECT) return conv_direct(c, run, weights);
    bool finite;
    TRY(conv_winograd(c, run, way == WAY_WINOGRAD4 ? 4 : 2, weights, &finite));
    if (finite) return TN_OK;
    TRY(pack_now(c, p, run->g, WAY_DIRECT, &weights));
    return conv_direct(c, run, weights);
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const ConvPrepared *p = prepared->data;
    const Tensor *x = operand(&p->heavy, c->in, 0), *w = operand(&p->heavy, c->in, 1), *y = &c->out[0];
    ConvGeom g;
    BodyMap map;
    ConvRunArgs run = {.g = &g};
    if (tensor_count(y) == 0) return TN_OK;
    conv_geom(p->heavy.node, x, w, y, &g);
    TRY(conv_input(c, x, &g, g.c * g.group <= 8 && g.taps > 1, &run.x));
    TRY(conv_output(c, y, &run.y, &run.y_ld));
    TRY(find_epilogue(c, p, &g, &map, &run.after));
    TRY(run_way(c, p, &run));
    return conv_output_done(c, y, &run.y);
}

const KernelDesc kernel_cpu_conv = {
    .name = "cpu_conv",
    .op = "Conv Fused com.microsoft.FusedConv",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 110,
    .match = matches,
    .fuses = fuses,
    .order = order_channels_last,
    .strided = strided,
    .pack_format = "conv",
    .prepare = prepare,
    .launch = launch,
};
