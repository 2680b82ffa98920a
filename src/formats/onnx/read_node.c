/* SPDX-License-Identifier: Apache-2.0 */
/* NodeProto to a node: a draft is read, brought up to date, and made. */
#include "formats/onnx/onnx_int.h"

/* Upgrades add a few operands and attributes. */
#define ROOM 8

static tn_status read_operands(Draft *d, const ProtoList *names) {
    d->cap_operands = names->len + ROOM;
    d->operands = arena_array(&d->reader->arena, Value *, d->cap_operands);
    if (!d->operands) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < names->len; i++) TRY(onnx_resolve(d->scope, names->data[i], &d->operands[i]));
    d->n_operands = names->len;
    while (d->n_operands && !d->operands[d->n_operands - 1]) d->n_operands--;
    return TN_OK;
}

static tn_status read_attrs(Draft *d, const ProtoList *attrs) {
    d->cap_attrs = attrs->len + ROOM;
    d->attrs = arena_array(&d->reader->arena, Attr, d->cap_attrs);
    d->graphs = arena_array(&d->reader->arena, GraphAttr, attrs->len);
    if (!d->attrs || !d->graphs) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < attrs->len; i++) TRY(onnx_read_attr(d, attrs->data[i]));
    return TN_OK;
}

/* The node's name, or its first result's; inside functions behind that of the call. */
static tn_status name_draft(Draft *d, Str name) {
    for (size_t i = 0; i < d->n_outputs && name.n == 0; i++) name = d->outputs[i];
    d->loc = name;
    TRY(onnx_check_name(d->reader, name, "a node's name"));
    if (!d->scope->call) return TN_OK;
    Str outer = d->scope->call->loc;
    char *text = arena_alloc(&d->reader->arena, outer.n + name.n + 2, 1);
    if (!text) return TN_OUT_OF_MEMORY;
    if (outer.n) memcpy(text, outer.s, outer.n);
    text[outer.n] = '/';
    if (name.n) memcpy(text + outer.n + 1, name.s, name.n);
    d->loc = (Str){text, outer.n + 1 + name.n};
    return TN_OK;
}

static tn_status read_graphs(Draft *d, Node *node, const GraphAttr *attr) {
    OnnxReader *r = d->reader;
    Graph **graphs = arena_array(&r->arena, Graph *, attr->graphs.len);
    if (!graphs) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < attr->graphs.len; i++)
        TRY(onnx_read_graph(r, attr->graphs.data[i], attr->scope, node, &graphs[i]));
    Attr made = {.name = attr->name, .kind = ATTR_GRAPHS, .n = attr->graphs.len, .graphs = graphs};
    if (!attr->list) {
        made.kind = ATTR_GRAPH;
        made.graph = graphs[0];
    }
    return node_set_attr(node, &made);
}

static tn_status bind_results(Draft *d, Node *node) {
    for (size_t i = 0; i < d->n_outputs; i++) {
        Value *value = d->results ? d->results[i] : node->results[i];
        Str name = d->outputs[i];
        if (name.n == 0) continue;
        /* what an upgrade passes on as it is keeps its name */
        if (!value->name.n) TRY(value_set_name(value, name));
        TRY(onnx_define(d->scope, name, value));
    }
    return TN_OK;
}

static tn_status make_node(Draft *d, Node **out) {
    OnnxReader *r = d->reader;
    const OpSchema *op = op_find(d->domain, d->type);
    if (!op) {
        r->unsupported = true;
        return fail(TN_UNSUPPORTED, "op \"%.*s\" is not known", (int)d->type.n, d->type.s);
    }
    TRY(node_new(d->scope->graph, op, d->operands, d->n_operands, d->n_outputs, out));
    Node *node = *out;
    node->loc = model_str(r->model, d->loc);
    for (size_t i = 0; i < d->n_attrs; i++) TRY(node_set_attr(node, &d->attrs[i]));
    node_append(node);
    for (size_t i = 0; i < d->n_graphs; i++) TRY(read_graphs(d, node, &d->graphs[i]));
    return node_check(node);
}

tn_status onnx_finish(Draft *d) {
    Node *node = NULL;
    if (!d->results) {
        TRY(make_node(d, &node));
        /* only upgrades look at types before the whole model is there */
        if (d->reader->infer) TRY(onnx_infer_node(d->reader, node));
    }
    return bind_results(d, node);
}

static tn_status check_op_names(Draft *d) {
    OnnxReader *r = d->reader;
    TRY(onnx_check_name(r, d->type, "an op's name"));
    TRY(onnx_check_name(r, d->domain, "an op's domain"));
    if (d->type.n == 0) return fail(TN_INVALID_MODEL, "a node has no op");
    d->opset = onnx_opset(d->scope->opsets, d->domain);
    return TN_OK;
}

static tn_status process(Draft *d) {
    const OnnxFunction *function = onnx_find_function(d->reader, d->domain, d->type, d->overload);
    if (function) return onnx_call(d, function);
    if (onnx_is_gradient(d->domain, d->type)) return onnx_gradient(d);
    if (d->opset == 0 && d->domain.n == 0)
        return fail(TN_INVALID_MODEL, "the model does not say which opset of ONNX it uses");
    if (d->domain.n == 0 && str_equal(d->type, STR("Constant"))) return onnx_read_constant(d);
    if (d->domain.n == 0) TRY(onnx_upgrade(d));
    return onnx_finish(d);
}

static tn_status read_draft(Draft *d, const onnx_NodeProto *proto) {
    d->outputs = proto->output.data;
    d->n_outputs = proto->output.len;
    d->domain = onnx_domain(proto->domain);
    d->type = proto->op_type;
    d->overload = proto->overload;
    TRY(name_draft(d, proto->name));
    TRY(check_op_names(d));
    TRY(read_operands(d, &proto->input));
    TRY(read_attrs(d, &proto->attribute));
    return process(d);
}

/* Functions and gradients may not blow a small file up: 60 functions that call the one before twice would be 2^60 nodes,
   and so would be a gradient of a gradient of ... */
enum { MOST_MADE = 1 << 17, MADE_PER_BYTE = 64 };

tn_status onnx_count_made(OnnxReader *r, uint64_t n) {
    r->n_made += n;
    if (r->n_made <= MOST_MADE || r->n_made / MADE_PER_BYTE <= r->bytes->size) return TN_OK;
    return fail(TN_LIMIT, "functions of functions and gradients make %llu nodes out of a file of %zu bytes",
                (unsigned long long)r->n_made, r->bytes->size);
}

tn_status onnx_read_node(Scope *scope, Str bytes) {
    OnnxReader *r = scope->reader;
    onnx_NodeProto proto;
    TRY(proto_read(&r->proto, bytes, onnx_NodeProto, &proto));
    if (++r->n_nodes > r->ctx->limits.max_nodes)
        return fail(TN_LIMIT, "the model has more than %llu nodes", (unsigned long long)r->ctx->limits.max_nodes);
    if (scope->call) TRY(onnx_count_made(r, 1));
    Draft d = {.scope = scope, .reader = r};
    tn_status status = read_draft(&d, &proto);
    if (status == TN_OK) return TN_OK;
    const char *name = onnx_text(r, d.loc), *op = onnx_text(r, proto.op_type);
    if (name && op) diag_set_node(name, op);
    diag_set_offset((uint64_t)((const uint8_t *)bytes.s - r->proto.base));
    return status;
}
