/* SPDX-License-Identifier: Apache-2.0 */
/* GraphProto to a graph: initialisers, inputs, nodes, outputs, whatever order they have in the file. */
#include "formats/onnx/onnx_int.h"

/* An initialiser before it is known whether it is also an input. */
typedef struct Initialiser {
    Str name;
    Tensor *tensor;
    bool used;
} Initialiser;

typedef struct Initialisers {
    Initialiser *data;
    size_t n;
    Map by_name;
} Initialisers;

static tn_status add_initialiser(OnnxReader *r, Initialisers *all, Str name, Tensor *tensor) {
    Initialiser *item = &all->data[all->n++];
    *item = (Initialiser){name, tensor, false};
    if (name.n == 0) return fail(TN_INVALID_MODEL, "an initialiser has no name");
    TRY(onnx_check_name(r, name, "an initialiser's name"));
    if (map_get(&all->by_name, name))
        return fail(TN_INVALID_MODEL, "initialiser \"%.*s\" is there more than once", (int)name.n, name.s);
    return map_set(&all->by_name, name, item);
}

static tn_status read_initialisers(OnnxReader *r, const onnx_GraphProto *proto, Initialisers *all) {
    all->data = arena_array(&r->arena, Initialiser, proto->initializer.len + proto->sparse_initializer.len);
    if (!all->data) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < proto->initializer.len + proto->sparse_initializer.len; i++) {
        Tensor *tensor;
        Str name;
        ArenaMark mark = arena_mark(&r->arena);
        size_t k = i - proto->initializer.len;
        if (i < proto->initializer.len) TRY(onnx_read_tensor(r, proto->initializer.data[i], &tensor, &name));
        else TRY(onnx_read_sparse_tensor(r, proto->sparse_initializer.data[k], &tensor, &name));
        arena_release(&r->arena, mark);
        TRY(add_initialiser(r, all, name, tensor));
    }
    return TN_OK;
}

static tn_status read_input(Scope *scope, Str bytes, Initialisers *initialisers) {
    OnnxReader *r = scope->reader;
    onnx_ValueInfoProto info;
    const Type *type = r->model->type_any;
    Value *value;
    TRY(onnx_read_value_info(r, bytes, &info));
    if (info.name.n == 0) return fail(TN_INVALID_MODEL, "an input of the graph has no name");
    Initialiser *given = map_get(&initialisers->by_name, info.name);
    /* Until IR version 3 every weight had to be listed as an input: there it says nothing. */
    if (given && r->ir_version < 4) return TN_OK;
    if (info.type.s) TRY(onnx_read_type(r, info.type, &type));
    TRY(onnx_check_name(r, info.name, "an input's name"));
    TRY(graph_add_input(scope->graph, info.name, type, &value));
    TRY(onnx_define(scope, info.name, value));
    if (!given) return TN_OK;
    given->used = true;
    /* whoever runs a nested graph gives all of its inputs */
    if (scope->outer) return TN_OK;
    return graph_set_input_default(scope->graph, scope->graph->inputs.len - 1, given->tensor);
}

static tn_status make_constants(Scope *scope, const Initialisers *initialisers) {
    for (size_t i = 0; i < initialisers->n; i++) {
        const Initialiser *item = &initialisers->data[i];
        Node *node;
        if (item->used) continue;
        TRY(const_new(scope->graph, item->tensor, item->name, &node));
        node_append(node);
        TRY(onnx_define(scope, item->name, node->results[0]));
    }
    return TN_OK;
}

tn_status onnx_read_nodes(Scope *scope, const ProtoList *nodes) {
    OnnxReader *r = scope->reader;
    ProtoList order = *nodes;
    if (r->sort) TRY(onnx_sort(r, &order));
    for (size_t i = 0; i < order.len; i++) {
        ArenaMark mark = arena_mark(&r->arena);
        TRY(onnx_read_node(scope, order.data[i]));
        arena_release(&r->arena, mark);
    }
    return TN_OK;
}

/* A nested graph that hands out a value of a graph around it does so through a node of its own. */
static tn_status own_value(Scope *scope, Value **value) {
    Node *node;
    if ((*value)->graph == scope->graph) return TN_OK;
    TRY(node_new(scope->graph, op_find(STR(""), STR("Identity")), value, 1, 1, &node));
    node_append(node);
    *value = node->results[0];
    return TN_OK;
}

static tn_status read_output(Scope *scope, Str bytes, Map *seen) {
    OnnxReader *r = scope->reader;
    onnx_ValueInfoProto info;
    Value *value = NULL;
    TRY(onnx_read_value_info(r, bytes, &info));
    if (info.name.n == 0) return fail(TN_INVALID_MODEL, "an output of the graph has no name");
    TRY(onnx_check_name(r, info.name, "an output's name"));
    if (map_get(seen, info.name))
        return fail(TN_INVALID_MODEL, "output \"%.*s\" is there more than once", (int)info.name.n, info.name.s);
    TRY(map_set(seen, info.name, scope));
    if (onnx_resolve(scope, info.name, &value) != TN_OK)
        return fail(TN_INVALID_MODEL, "no node makes output \"%.*s\"", (int)info.name.n, info.name.s);
    if (!value) return fail(TN_INVALID_MODEL, "output \"%.*s\" is absent", (int)info.name.n, info.name.s);
    TRY(own_value(scope, &value));
    TRY(graph_add_output(scope->graph, value, info.name));
    if (!info.type.s) return TN_OK;
    return vec_push(r->alloc, &r->hints, (TypeHint){value, info.type, !scope->outer});
}

static tn_status read_outputs(Scope *scope, const ProtoList *outputs) {
    Map seen;
    tn_status status = TN_OK;
    map_init(&seen, scope->reader->alloc);
    for (size_t i = 0; i < outputs->len && status == TN_OK; i++) status = read_output(scope, outputs->data[i], &seen);
    map_free(&seen);
    return status;
}

static tn_status read_hints(Scope *scope, const ProtoList *infos) {
    OnnxReader *r = scope->reader;
    for (size_t i = 0; i < infos->len; i++) {
        onnx_ValueInfoProto info;
        TRY(proto_read(&r->proto, infos->data[i], onnx_ValueInfoProto, &info));
        Value *value = map_get(&scope->values, info.name);
        if (!value || value == onnx_absent || !info.type.s || value->type != r->model->type_any) continue;
        TRY(vec_push(r->alloc, &r->hints, (TypeHint){value, info.type, false}));
    }
    return TN_OK;
}

static tn_status read_parts(Scope *scope, const onnx_GraphProto *proto, Initialisers *initialisers) {
    TRY(read_initialisers(scope->reader, proto, initialisers));
    for (size_t i = 0; i < proto->input.len; i++) TRY(read_input(scope, proto->input.data[i], initialisers));
    TRY(make_constants(scope, initialisers));
    TRY(onnx_read_nodes(scope, &proto->node));
    TRY(read_outputs(scope, &proto->output));
    return read_hints(scope, &proto->value_info);
}

tn_status onnx_read_graph(OnnxReader *r, Str bytes, Scope *outer, Node *owner, Graph **out) {
    onnx_GraphProto proto;
    Scope scope;
    Initialisers initialisers = {0};
    if (outer && (uint32_t)outer->depth + 1 >= r->ctx->limits.max_nesting)
        return fail(TN_LIMIT, "graphs are nested more than %u deep", r->ctx->limits.max_nesting);
    TRY(proto_read(&r->proto, bytes, onnx_GraphProto, &proto));
    TRY(onnx_check_name(r, proto.name, "a graph's name"));
    TRY(graph_new(r->model, owner, proto.name, out));
    onnx_scope_start(&scope, r, outer, *out);
    map_init(&initialisers.by_name, r->alloc);
    tn_status status = read_parts(&scope, &proto, &initialisers);
    map_free(&initialisers.by_name);
    onnx_scope_end(&scope);
    return status;
}
