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
    if (out) *out = value;
    return TN_OK;
}

tn_status graph_set_input_default(Graph *graph, size_t i, Tensor *payload) {
    if (i >= graph->inputs.len)
        return fail(TN_OUT_OF_RANGE, "input %zu gets a default, but the graph has %zu inputs", i, graph->inputs.len);
    while (graph->defaults.len <= i) TRY(vec_push(vectors(graph), &graph->defaults, NULL));
    graph->defaults.data[i] = payload;
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

int graph_depth(const Graph *graph) {
    int depth = 0;
    for (; graph->owner && graph->owner->graph; graph = graph->owner->graph) depth++;
    return depth;
}

bool value_visible_in(const Value *value, const Graph *graph) {
    for (; graph; graph = graph->owner ? graph->owner->graph : NULL)
        if (value->graph == graph) return true;
    return false;
}
