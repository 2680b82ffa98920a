/* SPDX-License-Identifier: Apache-2.0 */
/* When an op is not known, the whole file is looked through, nested graphs and functions too, so that the message names
   all that is missing at once. */
#include "formats/onnx/onnx_int.h"

typedef struct Missing {
    Str domain, type, first;
    uint64_t n;
} Missing;

typedef struct Scan {
    OnnxReader *r;
    VEC(Missing) missing;
} Scan;

static bool op_known(OnnxReader *r, Str domain, Str type, Str overload) {
    if (onnx_find_function(r, domain, type, overload) || op_find(domain, type)) return true;
    if (onnx_is_gradient(domain, type)) return true;
    return domain.n == 0 && (str_equal(type, STR("Constant")) || onnx_is_upgraded(type));
}

static tn_status note(Scan *s, const onnx_NodeProto *node) {
    Str domain = onnx_domain(node->domain);
    if (node->op_type.n == 0 || op_known(s->r, domain, node->op_type, node->overload)) return TN_OK;
    for (size_t i = 0; i < s->missing.len; i++) {
        Missing *m = &s->missing.data[i];
        if (str_equal(m->domain, domain) && str_equal(m->type, node->op_type)) {
            m->n++;
            return TN_OK;
        }
    }
    Str first = node->name.n || !node->output.len ? node->name : node->output.data[0];
    return vec_push(s->r->alloc, &s->missing, (Missing){domain, node->op_type, first, 1});
}

static tn_status scan_graph(Scan *s, Str bytes, uint32_t depth);

static tn_status scan_node(Scan *s, Str bytes, uint32_t depth) {
    onnx_NodeProto node;
    TRY(proto_read(&s->r->proto, bytes, onnx_NodeProto, &node));
    TRY(note(s, &node));
    for (size_t i = 0; i < node.attribute.len; i++) {
        onnx_AttributeProto attr;
        TRY(proto_read(&s->r->proto, node.attribute.data[i], onnx_AttributeProto, &attr));
        if (attr.g.s) TRY(scan_graph(s, attr.g, depth + 1));
        for (size_t k = 0; k < attr.graphs.len; k++) TRY(scan_graph(s, attr.graphs.data[k], depth + 1));
    }
    return TN_OK;
}

static tn_status scan_nodes(Scan *s, const ProtoList *nodes, uint32_t depth) {
    for (size_t i = 0; i < nodes->len; i++) {
        ArenaMark mark = arena_mark(&s->r->arena);
        TRY(scan_node(s, nodes->data[i], depth));
        arena_release(&s->r->arena, mark);
    }
    return TN_OK;
}

static tn_status scan_graph(Scan *s, Str bytes, uint32_t depth) {
    onnx_GraphProto graph;
    if (depth > s->r->ctx->limits.max_nesting)
        return fail(TN_LIMIT, "graphs are nested more than %u deep", s->r->ctx->limits.max_nesting);
    TRY(proto_read(&s->r->proto, bytes, onnx_GraphProto, &graph));
    return scan_nodes(s, &graph.node, depth);
}

static tn_status report(Scan *s) {
    enum { SHOWN = 20 };
    Text text;
    text_init(&text, s->r->alloc);
    for (size_t i = 0; i < s->missing.len && i < SHOWN; i++) {
        const Missing *m = &s->missing.data[i];
        text_printf(&text, "%s%.*s%s%.*s (%llu, first \"%.*s\")", i ? ", " : "", (int)m->domain.n, m->domain.s,
                    m->domain.n ? "." : "", (int)m->type.n, m->type.s, (unsigned long long)m->n, (int)m->first.n,
                    m->first.s);
    }
    if (s->missing.len > SHOWN) text_printf(&text, " and %zu more", s->missing.len - SHOWN);
    tn_status status = text.status;
    if (status == TN_OK) status = fail(TN_UNSUPPORTED, "ops that Tenon does not know: %s", text.s ? text.s : "?");
    text_free(&text);
    return status;
}

tn_status onnx_report_unsupported(OnnxReader *r) {
    Scan s = {.r = r};
    tn_status status = scan_graph(&s, r->main, 0);
    for (size_t i = 0; i < r->functions.len && status == TN_OK; i++) {
        const OnnxFunction *function = r->functions.entries[i].value;
        if (function) status = scan_nodes(&s, &function->proto.node, 0);
    }
    if (status == TN_OK) status = report(&s);
    vec_free(r->alloc, &s.missing);
    return status;
}
