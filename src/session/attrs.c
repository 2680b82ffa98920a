/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of the kinds that few ops have: lists of floats and strings, tensors, graphs. The others stand in graph.c. */
#include "ops/op.h"
#include "session/session.h"

_Static_assert((int)TN_ATTR_INT_LISTS == (int)ATTR_INT_LISTS && (int)TN_ATTR_INTS == (int)ATTR_INTS,
               "kinds are numbered alike");

static Node *node_of(const tn_node *n) { return (Node *)n; }

tn_status tn_node_attr_kind(const tn_node *node, const char *name, tn_attr_kind *kind) {
    if (!node || !name || !kind) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    const Attr *attr = node_attr(node_of(node), str_of(name));
    const AttrSpec *spec = attr ? NULL : op_attr_spec(node_of(node)->op, str_of(name));
    if (!attr && !spec) return fail(TN_NOT_FOUND, "%s has no attribute \"%s\"", node_of(node)->op->name, name);
    *kind = (tn_attr_kind)(attr ? attr->kind : spec->kind);
    return TN_OK;
}

/* NULL, and no error, for one that the op may have and the node has not. */
static tn_status find(const tn_node *node, const char *name, AttrKind kind, const Attr **attr) {
    tn_attr_kind found;
    TRY(tn_node_attr_kind(node, name, &found));
    if ((AttrKind)found != kind)
        return fail(TN_INVALID_ARGUMENT, "attribute \"%s\" of %s is of another kind", name, node_of(node)->op->name);
    *attr = node_attr(node_of(node), str_of(name));
    return TN_OK;
}

tn_status tn_node_get_floats(const tn_node *node, const char *name, const float **values, size_t *n) {
    const Attr *attr;
    if (!values || !n) return fail(TN_INVALID_ARGUMENT, "values or n is NULL");
    TRY(find(node, name, ATTR_FLOATS, &attr));
    *values = attr ? attr->floats : NULL;
    *n = attr ? attr->n : 0;
    return TN_OK;
}

tn_status tn_node_get_string_at(const tn_node *node, const char *name, size_t i, const char **text, size_t *length) {
    const Attr *attr;
    if (!text) return fail(TN_INVALID_ARGUMENT, "text is NULL");
    TRY(find(node, name, ATTR_STRINGS, &attr));
    if (!attr || i >= attr->n) return fail(TN_OUT_OF_RANGE, "string %zu of %zu", i, attr ? attr->n : 0);
    *text = attr->strings[i].s ? attr->strings[i].s : "";
    if (length) *length = attr->strings[i].n;
    return TN_OK;
}

tn_status tn_node_get_tensor(const tn_node *node, const char *name, tn_tensor **tensor) {
    const Attr *attr;
    if (!tensor) return fail(TN_INVALID_ARGUMENT, "tensor is NULL");
    TRY(find(node, name, ATTR_TENSOR, &attr));
    if (!attr) return fail(TN_NOT_FOUND, "this %s has no attribute \"%s\"", node_of(node)->op->name, name);
    tn_tensor *handle = payload_handle(node_of(node)->graph->model->ctx, attr->tensor);
    if (!handle) return TN_OUT_OF_MEMORY;
    *tensor = handle;
    return TN_OK;
}

tn_status tn_node_set_floats(tn_node *node, const char *name, const float *values, size_t n) {
    if (!node || !name || (n && !values)) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    return node_set_attr(node_of(node), &(Attr){.name = str_of(name), .kind = ATTR_FLOATS, .n = n, .floats = values});
}

tn_status tn_node_set_strings(tn_node *node, const char *name, const char *const *texts, const size_t *lengths,
                              size_t n) {
    if (!node || !name || (n && (!texts || !lengths))) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    Context *ctx = node_of(node)->graph->model->ctx;
    Arena arena;
    arena_init(&arena, &ctx->allocator);
    Str *strings = arena_array(&arena, Str, n + 1);
    for (size_t i = 0; strings && i < n; i++) strings[i] = (Str){texts[i], lengths[i]};
    Attr attr = {.name = str_of(name), .kind = ATTR_STRINGS, .n = n, .strings = strings};
    tn_status status = strings ? node_set_attr(node_of(node), &attr) : TN_OUT_OF_MEMORY;
    arena_free(&arena);
    return status;
}

tn_status tn_node_set_tensor(tn_node *node, const char *name, const tn_tensor *tensor) {
    Tensor *payload;
    if (!node || !name || !tensor) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    if (tn_tensor_kind(tensor) != TN_TENSOR)
        return fail(TN_INVALID_ARGUMENT, "an attribute holds a tensor, no sequence");
    TRY(model_tensor(node_of(node)->graph->model, &payload));
    *payload = tensor->t;
    buffer_ref(payload->buffer);
    return node_set_tensor(node_of(node), name, payload);
}

/* ---- nested graphs ------------------------------------------------------------------------------------------- */

static tn_status check_place(const Node *node, const char *name, const Graph *graph) {
    const AttrSpec *spec = op_attr_spec(node->op, str_of(name));
    if (spec ? spec->kind != ATTR_GRAPH : !(node->op->flags & OP_ALL_ATTRS))
        return fail(TN_NOT_FOUND, "%s has no attribute \"%s\" that holds a graph", node->op->name, name);
    if (graph->owner)
        return fail(TN_STATE, "a node holds the graph already: take it out with tn_node_take_graph first");
    if (graph->outer != node->graph)
        return fail(TN_INVALID_ARGUMENT, "the graph was not made to be nested in the graph that the node stands in");
    return TN_OK;
}

tn_status tn_node_set_graph(tn_node *node, const char *name, tn_graph *graph) {
    if (!node || !name || !graph) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    Graph *nested = (Graph *)graph;
    TRY(check_place(node_of(node), name, nested));
    const Attr *attr = node_attr(node_of(node), str_of(name));
    Graph *before = attr && attr->kind == ATTR_GRAPH ? attr->graph : NULL;
    TRY(node_set_graph(node_of(node), name, nested));
    if (!before) return TN_OK;
    before->owner = NULL;
    graph_erase(before);
    return TN_OK;
}

tn_status tn_node_get_graph(const tn_node *node, const char *name, tn_graph **graph) {
    const Attr *attr;
    if (!graph) return fail(TN_INVALID_ARGUMENT, "graph is NULL");
    TRY(find(node, name, ATTR_GRAPH, &attr));
    if (!attr) return fail(TN_NOT_FOUND, "this %s has no attribute \"%s\"", node_of(node)->op->name, name);
    *graph = (tn_graph *)attr->graph;
    return TN_OK;
}

tn_status tn_node_take_graph(tn_node *node, const char *name, tn_graph **graph) {
    tn_graph *held;
    if (!graph) return fail(TN_INVALID_ARGUMENT, "graph is NULL");
    TRY(tn_node_get_graph(node, name, &held));
    return node_take_graph(node_of(node), str_of(name), (Graph **)graph);
}
