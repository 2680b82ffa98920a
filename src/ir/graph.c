/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: inputs, outputs, nesting. */
#include "ir/ir_int.h"

static const Allocator *vectors(const Graph *graph) { return &model_store(graph->model)->arena_vectors; }

tn_status graph_new(Model *model, Node *owner, Str name, Graph **out) {
    Graph *graph = arena_new(&model->arena, Graph);
    if (!graph) return TN_OUT_OF_MEMORY;
    graph->model = model;
    graph->owner = owner;
    graph->name = model_str(model, name);
    if (!graph->name.s) return TN_OUT_OF_MEMORY;
    TRY(node_alloc(graph, &op_return, 0, &graph->ret));
    graph->ret->order = (uint64_t)ORDER_OF_RETURN;
    TRY(vec_push(&model->ctx->allocator, &model->graphs, graph));
    model_store(model)->n_returns++;
    *out = graph;
    return TN_OK;
}

tn_status graph_new_nested(Graph *outer, Str name, Graph **out) {
    ModelStore *store = model_store(outer->model);
    uint32_t limit = outer->model->ctx->limits.max_nesting;
    Graph *graph;
    if (graph_depth(outer) >= (int64_t)limit)
        return fail(TN_LIMIT, "graphs are nested deeper than %u (tn_limits.max_nesting)", (unsigned)limit);
    TRY(vec_reserve(model_allocator(outer->model), &store->loose, store->loose.len + 1));
    TRY(graph_new(outer->model, NULL, name, &graph));
    graph->outer = outer;
    store->loose.data[store->loose.len++] = graph;
    *out = graph;
    return TN_OK;
}

tn_status node_take_graph(Node *node, Str name, Graph **out) {
    ModelStore *store = model_store(node->graph->model);
    const Attr *attr = node_attr(node, name);
    if (!attr || attr->kind != ATTR_GRAPH) return fail(TN_NOT_FOUND, "the node holds no such graph");
    Graph *graph = attr->graph;
    TRY(vec_reserve(model_allocator(&store->model), &store->loose, store->loose.len + 1));
    node_remove_attr(node, name);
    graph->owner = NULL;
    graph->outer = node->graph;
    store->model.structure_edits++;
    store->loose.data[store->loose.len++] = graph;
    *out = graph;
    return TN_OK;
}

tn_status graph_add_input(Graph *graph, Str name, const Type *type, Value **out) {
    Value *value = arena_new(&graph->model->arena, Value);
    if (!value) return TN_OUT_OF_MEMORY;
    TRY(vec_reserve(vectors(graph), &graph->inputs, graph->inputs.len + 1));
    TRY(value_alloc(graph, NULL, graph->inputs.len, type ? type : graph->model->type_any, value));
    TRY(value_set_name(value, name));
    graph->inputs.data[graph->inputs.len++] = value;
    graph->model->structure_edits++;
    if (out) *out = value;
    return TN_OK;
}

static void leave(Value *input) {
    assert(!input->uses);
    value_drop_name(input);
    input->graph->model->structure_edits++;
}

tn_status graph_choose_inputs(Graph *graph, Value *const *inputs, size_t n) {
    const uint32_t gone = UINT32_MAX;
    VEC(Tensor *) defaults = {0};
    TRY(vec_reserve(vectors(graph), &defaults, n + 1));
    for (size_t i = 0; i < n; i++) defaults.data[i] = graph_input_default(graph, inputs[i]->index);
    for (size_t i = 0; i < graph->inputs.len; i++) graph->inputs.data[i]->index = gone;
    for (size_t i = 0; i < n; i++) inputs[i]->index = (uint32_t)i;
    for (size_t i = 0; i < graph->inputs.len; i++)
        if (graph->inputs.data[i]->index == gone) leave(graph->inputs.data[i]);
    for (size_t i = 0; i < n; i++) graph->inputs.data[i] = inputs[i];
    graph->inputs.len = n;
    graph->defaults.data = defaults.data;
    graph->defaults.len = n;
    graph->defaults.cap = defaults.cap;
    graph->model->structure_edits++;
    return TN_OK;
}

tn_status graph_set_input_default(Graph *graph, size_t i, Tensor *payload) {
    if (i >= graph->inputs.len)
        return fail(TN_OUT_OF_RANGE, "input %zu gets a default, but the graph has %zu inputs", i, graph->inputs.len);
    while (graph->defaults.len <= i) TRY(vec_push(vectors(graph), &graph->defaults, NULL));
    graph->defaults.data[i] = payload;
    graph->model->state_edits++;
    return TN_OK;
}

Tensor *graph_input_default(const Graph *graph, size_t i) {
    return i < graph->defaults.len ? graph->defaults.data[i] : NULL;
}

tn_status graph_add_output(Graph *graph, Value *value, Str name) {
    Str kept = model_str(graph->model, name.n ? name : value->name);
    if (!kept.s) return TN_OUT_OF_MEMORY;
    TRY(vec_reserve(vectors(graph), &graph->output_names, graph->output_names.len + 1));
    TRY(node_add_operand(graph->ret, value));
    graph->output_names.data[graph->output_names.len++] = kept;
    return TN_OK;
}

void graph_clear_outputs(Graph *graph) {
    node_truncate_operands(graph->ret, 0);
    graph->output_names.len = 0;
}

int graph_depth(const Graph *graph) {
    int depth = 0;
    for (graph = graph_around(graph); graph; graph = graph_around(graph)) depth++;
    return depth;
}

bool value_visible_in(const Value *value, const Graph *graph) {
    for (; graph; graph = graph_around(graph))
        if (value->graph == graph) return true;
    return false;
}

static bool holds_graph(const Node *node, const Graph *graph) {
    uint32_t attr = 0;
    size_t item = 0;
    const Graph *g;
    while ((g = node_next_graph(node, &attr, &item)))
        if (g == graph) return true;
    return false;
}

/* -1: it was erased, or never attached. */
static int living_depth(const Graph *graph) {
    int depth = 0;
    for (; graph->owner; graph = graph->owner->graph, depth++)
        if (!node_is_placed(graph->owner) || !holds_graph(graph->owner, graph)) return -1;
    return graph == graph->model->main ? depth : -1;
}

tn_status model_graphs(const Model *model, Arena *arena, Graph ***graphs, size_t *n) {
    size_t all = model->graphs.len;
    int *depth = arena_array(arena, int, all), deepest = 0;
    *graphs = arena_array(arena, Graph *, all);
    *n = 0;
    if (!depth || !*graphs) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < all; i++) {
        depth[i] = living_depth(model->graphs.data[i]);
        if (depth[i] > deepest) deepest = depth[i];
    }
    for (int d = deepest; d >= 0; d--)
        for (size_t i = 0; i < all; i++)
            if (depth[i] == d) (*graphs)[(*n)++] = model->graphs.data[i];
    return TN_OK;
}
