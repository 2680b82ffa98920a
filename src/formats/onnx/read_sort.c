/* SPDX-License-Identifier: Apache-2.0 */
/* Puts nodes into an order where operands come before users: depth first along the file's order, with a stack of its
   own, so the work is linear and a file that is nearly sorted stays nearly as it is. A cycle is an error. */
#include "formats/onnx/onnx_int.h"

typedef struct Sorter {
    OnnxReader *r;
    Map makers;          /* name -> index + 1 of the node that makes it */
    VEC(uint32_t) needs; /* of all nodes, one after the other */
    size_t *starts;      /* of node i's needs; n + 1 of them */
    size_t *stack;       /* nodes on the way */
    size_t *next;        /* of each node: the need to look at */
    uint8_t *state;      /* 0 new, 1 on the way, 2 placed */
} Sorter;

static tn_status note_results(Sorter *s, Str bytes, size_t index) {
    onnx_NodeProto node;
    TRY(proto_read(&s->r->proto, bytes, onnx_NodeProto, &node));
    for (size_t i = 0; i < node.output.len; i++) {
        Str name = node.output.data[i];
        if (name.n) TRY(map_set(&s->makers, name, (void *)(uintptr_t)(index + 1)));
    }
    return TN_OK;
}

static tn_status note_need(Sorter *s, Str name) {
    uintptr_t maker = (uintptr_t)map_get(&s->makers, name);
    return maker ? vec_push(s->r->alloc, &s->needs, (uint32_t)(maker - 1)) : TN_OK;
}

static tn_status note_needs(Sorter *s, Str bytes, uint32_t depth);

/* What a nested graph reads from outside; names that it defines itself do no harm. */
static tn_status note_graph_needs(Sorter *s, Str bytes, uint32_t depth) {
    onnx_GraphProto graph;
    if (depth > s->r->ctx->limits.max_nesting)
        return fail(TN_LIMIT, "graphs are nested more than %u deep", s->r->ctx->limits.max_nesting);
    TRY(proto_read(&s->r->proto, bytes, onnx_GraphProto, &graph));
    for (size_t i = 0; i < graph.node.len; i++) TRY(note_needs(s, graph.node.data[i], depth));
    for (size_t i = 0; i < graph.output.len; i++) {
        onnx_ValueInfoProto info;
        TRY(onnx_read_value_info(s->r, graph.output.data[i], &info));
        TRY(note_need(s, info.name));
    }
    return TN_OK;
}

/* A Gradient names tensors in its attributes. */
static tn_status note_named(Sorter *s, const onnx_AttributeProto *attr) {
    TRY(note_need(s, attr->s));
    for (size_t i = 0; i < attr->strings.len; i++) TRY(note_need(s, attr->strings.data[i]));
    return TN_OK;
}

static tn_status note_needs(Sorter *s, Str bytes, uint32_t depth) {
    onnx_NodeProto node;
    ArenaMark mark = arena_mark(&s->r->arena);
    TRY(proto_read(&s->r->proto, bytes, onnx_NodeProto, &node));
    for (size_t i = 0; i < node.input.len; i++) TRY(note_need(s, node.input.data[i]));
    bool gradient = onnx_is_gradient(node.domain, node.op_type);
    for (size_t i = 0; i < node.attribute.len; i++) {
        onnx_AttributeProto attr;
        TRY(proto_read(&s->r->proto, node.attribute.data[i], onnx_AttributeProto, &attr));
        if (gradient) TRY(note_named(s, &attr));
        if (attr.g.s) TRY(note_graph_needs(s, attr.g, depth + 1));
        for (size_t k = 0; k < attr.graphs.len; k++) TRY(note_graph_needs(s, attr.graphs.data[k], depth + 1));
    }
    arena_release(&s->r->arena, mark);
    return TN_OK;
}

static tn_status note_all(Sorter *s, const ProtoList *nodes) {
    Arena *arena = &s->r->arena;
    s->starts = arena_array(arena, size_t, nodes->len + 1);
    s->stack = arena_array(arena, size_t, nodes->len);
    s->next = arena_array(arena, size_t, nodes->len);
    s->state = arena_array(arena, uint8_t, nodes->len);
    if (!s->starts || !s->stack || !s->next || !s->state) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < nodes->len; i++) {
        ArenaMark mark = arena_mark(arena);
        TRY(note_results(s, nodes->data[i], i));
        arena_release(arena, mark);
    }
    for (size_t i = 0; i < nodes->len; i++) {
        s->starts[i] = s->next[i] = s->needs.len;
        TRY(note_needs(s, nodes->data[i], 0));
    }
    s->starts[nodes->len] = s->needs.len;
    return TN_OK;
}

static tn_status fail_cycle(Sorter *s, Str bytes) {
    onnx_NodeProto node;
    TRY(proto_read(&s->r->proto, bytes, onnx_NodeProto, &node));
    tn_status status = fail(TN_INVALID_MODEL, "the node depends on itself");
    const char *name = onnx_text(s->r, node.name.n ? node.name : node.output.len ? node.output.data[0] : node.name);
    const char *op = onnx_text(s->r, node.op_type);
    if (name && op) diag_set_node(name, op);
    return status;
}

static tn_status place(Sorter *s, const ProtoList *nodes, size_t root, ProtoList *out) {
    size_t depth = 0;
    if (s->state[root]) return TN_OK;
    s->state[root] = 1;
    s->stack[depth++] = root;
    while (depth) {
        size_t i = s->stack[depth - 1];
        if (s->next[i] == s->starts[i + 1]) {
            s->state[i] = 2;
            out->data[out->len++] = nodes->data[i];
            depth--;
            continue;
        }
        size_t need = s->needs.data[s->next[i]++];
        if (s->state[need] == 1) return fail_cycle(s, nodes->data[need]);
        if (s->state[need] == 0) {
            s->state[need] = 1;
            s->stack[depth++] = need;
        }
    }
    return TN_OK;
}

static tn_status sort(Sorter *s, ProtoList *nodes) {
    ProtoList out = {arena_array(&s->r->arena, Str, nodes->len), 0, nodes->len};
    if (!out.data) return TN_OUT_OF_MEMORY;
    TRY(note_all(s, nodes));
    for (size_t i = 0; i < nodes->len; i++) TRY(place(s, nodes, i, &out));
    *nodes = out;
    return TN_OK;
}

tn_status onnx_sort(OnnxReader *r, ProtoList *nodes) {
    Sorter s = {.r = r};
    if (nodes->len >= UINT32_MAX) return fail(TN_LIMIT, "too many nodes");
    map_init(&s.makers, r->alloc);
    tn_status status = sort(&s, nodes);
    vec_free(r->alloc, &s.needs);
    map_free(&s.makers);
    return status;
}
