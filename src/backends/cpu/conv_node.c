/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels of Conv and of its like share: their operands, what is prepared of them, and what follows the sums. */
#include "backends/cpu/conv_int.h"

#include <math.h>

const Tensor *conv_operand(const Heavy *h, const Tensor *const *in, int i) {
    return h->constant[i] ? h->constant[i] : h->in[i] >= 0 ? in[h->in[i]] : NULL;
}

/* ---- preparing ----------------------------------------------------------------------------------------------- */

static void release(Prepared *prepared, const Allocator *allocator) {
    ConvPrepared *p = prepared->data;
    if (!p) return;
    packed_put(p->packed);
    arena_free(&p->arena);
    mem_free(allocator, p, sizeof *p);
    *prepared = (Prepared){0};
}

/* Whether only the convolution reads that operand, and that as its weights. */
static bool weights_alone(const Node *node, const Heavy *h) {
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (i != 1 && h->in[i] == h->in[1]) return false;
    return !h->fused || value_has_one_use(attr_graph(node, "body")->inputs.data[h->in[1]]);
}

static tn_status fill(const KernelQuery *q, Context *context, ConvPackFn pack, ConvPrepared *p) {
    if (p->heavy.fused) TRY(body_compile(q->node, p->heavy.node, &p->arena, &p->body));
    const Tensor *w = conv_operand(&p->heavy, q->in, 1);
    return w->data && tensor_is_dense(w) ? pack(q, context, p) : TN_OK;
}

tn_status conv_prepare(const KernelQuery *q, Context *context, bool (*is_heavy)(const Node *node), ConvPackFn pack,
                       Prepared *out) {
    ConvPrepared *p = mem_alloc(&context->allocator, sizeof *p, alignof(ConvPrepared));
    if (!p) return TN_OUT_OF_MEMORY;
    arena_init(&p->arena, &context->allocator);
    heavy_open(q->node, is_heavy, &p->heavy);
    *out = (Prepared){.data = p, .size = sizeof *p, .release = release};
    tn_status status = fill(q, context, pack, p);
    if (status != TN_OK) {
        release(out, &context->allocator);
        return status;
    }
    int at = p->heavy.in[1];
    bool done = p->packed && !p->wants_weights && at >= 0 && at < 32;
    if (done && weights_alone(q->node, &p->heavy)) out->replaces = 1u << at;
    return TN_OK;
}

/* ---- what follows the sums ----------------------------------------------------------------------------------- */

tn_status conv_epilogue(KernelCtx *c, const ConvPrepared *p, const ConvGeom *g, float lo, float hi, BodyMap *map,
                        ConvEpilogue *e) {
    const Tensor *bias = conv_operand(&p->heavy, c->in, 2), *residual = conv_operand(&p->heavy, c->in, 3);
    BodyShort s;
    KernelQuery q = {.node = c->node, .n_in = c->n_in, .n_out = c->n_out, .in = c->in, .out = c->out};
    bool plain = !residual && lo == -INFINITY && hi == INFINITY;
    *e = (ConvEpilogue){.lo = lo, .hi = hi};
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
