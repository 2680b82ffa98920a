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
typedef enum Way { WAY_DIRECT, WAY_DEPTHWISE, WAY_WINOGRAD2, WAY_WINOGRAD4, N_WAYS } Way;

static Way way_of(const ConvGeom *g, bool constant) {
    if (depthwise_takes(g)) return WAY_DEPTHWISE;
    int out = constant ? winograd_out(g) : 0;
    return out == 4 ? WAY_WINOGRAD4 : out == 2 ? WAY_WINOGRAD2 : WAY_DIRECT;
}

static int winograd_blocks(Way way) { return way == WAY_WINOGRAD4 ? 4 : way == WAY_WINOGRAD2 ? 2 : 0; }

static const char *const formats[N_WAYS] = {"conv_panels", "conv_depthwise", "conv_winograd2", "conv_winograd4"};

static tn_status packed_bytes(const ConvGeom *g, Way way, size_t *bytes) {
    ConvPanels p;
    conv_panels(g, g->taps, &p);
    int64_t floats = way == WAY_DIRECT      ? p.floats
                     : way == WAY_DEPTHWISE ? depthwise_floats(g)
                                            : winograd_floats(g, winograd_blocks(way));
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
    else winograd_pack(r->g, winograd_blocks(r->way), r->w, dst);
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

static tn_status pack_constant(const KernelQuery *q, Context *context, ConvPrepared *p) {
    const Tensor *x = conv_operand(&p->heavy, q->in, 0), *w = conv_operand(&p->heavy, q->in, 1);
    ConvGeom g;
    conv_geom(p->heavy.node, x, w, &q->out[0], &g);
    TRY(prepare_weights(context, &g, w, p));
    int out = winograd_blocks((Way)p->way);
    p->wants_weights = out && !winograd_keeps_weights(&g, out, p->packed->data);
    return TN_OK;
}

static tn_status prepare(const KernelQuery *q, Context *context, Prepared *out) {
    return conv_prepare(q, context, is_conv, pack_constant, out);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static tn_status scratch_weights(KernelCtx *c, const ConvGeom *g, Way way, float **out) {
    size_t bytes;
    TRY(packed_bytes(g, way, &bytes));
    *out = arena_raw(c->scratch, bytes + 64, 64);
    return *out ? TN_OK : TN_OUT_OF_MEMORY;
}

/* Where blocks of Winograd's algorithm meet an infinity or NaN. */
static tn_status run_again(KernelCtx *c, const ConvPrepared *p, const ConvRunArgs *run, int out) {
    float *weights;
    TRY(scratch_weights(c, run->g, WAY_DIRECT, &weights));
    if (p->wants_weights)
        TRY(pack(&(PackRequest){run->g, conv_operand(&p->heavy, c->in, 1), WAY_DIRECT, c->pool}, weights));
    else winograd_unpack(run->g, out, p->packed->data, weights);
    return conv_direct(c, run, 1, weights);
}

static tn_status run_way(KernelCtx *c, const ConvPrepared *p, const ConvRunArgs *run) {
    Way way = p->packed ? (Way)p->way : way_of(run->g, false);
    const float *weights = p->packed ? p->packed->data : NULL;
    if (!weights) {
        float *made;
        TRY(scratch_weights(c, run->g, way, &made));
        TRY(pack(&(PackRequest){run->g, conv_operand(&p->heavy, c->in, 1), way, c->pool}, made));
        weights = made;
    }
    if (way == WAY_DEPTHWISE) return conv_depthwise(c, run, weights);
    if (way == WAY_DIRECT) return conv_direct(c, run, 1, weights);
    bool finite;
    TRY(conv_winograd(c, run, winograd_blocks(way), weights, &finite));
    return finite ? TN_OK : run_again(c, p, run, winograd_blocks(way));
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const ConvPrepared *p = prepared->data;
    const Tensor *x = conv_operand(&p->heavy, c->in, 0), *w = conv_operand(&p->heavy, c->in, 1), *y = &c->out[0];
    ConvGeom g;
    BodyMap map;
    float lo, hi;
    ConvRunArgs run = {.g = &g};
    if (tensor_count(y) == 0) return TN_OK;
    conv_geom(p->heavy.node, x, w, y, &g);
    TRY(conv_input(c, x, &g, g.c * g.group <= 8 && g.taps > 1, &run.x));
    TRY(conv_output(c, y, &run.y, &run.y_ld));
    read_activation(p->heavy.node, &lo, &hi);
    TRY(conv_epilogue(c, p, &g, lo, hi, &map, &run.after));
    TRY(run_way(c, p, &run));
    return conv_output_done(c, y, &run.y);
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
    .pack_format = "conv",
    .prepare = prepare,
    .gaps = true,
    .launch = launch,
};
