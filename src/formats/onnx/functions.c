/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that a model brings along are inlined where they are called: their nodes go into the caller's graph, under
   a scope of their own. */
#include "formats/onnx/onnx_int.h"

/* domain NUL name NUL overload: none of them contains NUL */
static Str function_key(Arena *arena, Str domain, Str name, Str overload) {
    size_t n = domain.n + name.n + overload.n + 2;
    char *s = arena_alloc(arena, n, 1);
    if (!s) return (Str){NULL, 0};
    if (domain.n) memcpy(s, domain.s, domain.n);
    if (name.n) memcpy(s + domain.n + 1, name.s, name.n);
    if (overload.n) memcpy(s + domain.n + name.n + 2, overload.s, overload.n);
    return (Str){s, n};
}

static tn_status read_function(OnnxReader *r, Str bytes) {
    OnnxFunction *f = arena_new(&r->arena, OnnxFunction);
    if (!f) return TN_OUT_OF_MEMORY;
    TRY(proto_read(&r->proto, bytes, onnx_FunctionProto, &f->proto));
    if (f->proto.name.n == 0) return fail(TN_INVALID_MODEL, "a function has no name");
    TRY(onnx_check_name(r, f->proto.name, "a function's name"));
    TRY(onnx_check_name(r, f->proto.domain, "a function's domain"));
    TRY(onnx_check_name(r, f->proto.overload, "a function's overload"));
    TRY(onnx_read_opsets(r, &f->proto.opset_import, &f->opsets));
    Str key = function_key(&r->arena, onnx_domain(f->proto.domain), f->proto.name, f->proto.overload);
    if (!key.s) return TN_OUT_OF_MEMORY;
    if (map_get(&r->functions, key))
        return fail(TN_INVALID_MODEL, "function \"%.*s\" is there more than once", (int)f->proto.name.n,
                    f->proto.name.s);
    return map_set(&r->functions, key, f);
}

tn_status onnx_read_functions(OnnxReader *r, const ProtoList *functions) {
    for (size_t i = 0; i < functions->len; i++) TRY(read_function(r, functions->data[i]));
    return TN_OK;
}

const OnnxFunction *onnx_find_function(OnnxReader *r, Str domain, Str name, Str overload) {
    if (r->functions.len == 0) return NULL;
    ArenaMark mark = arena_mark(&r->arena);
    Str key = function_key(&r->arena, domain, name, overload);
    const OnnxFunction *found = key.s ? map_get(&r->functions, key) : NULL;
    arena_release(&r->arena, mark);
    return found;
}

static tn_status check_call(const Draft *d, const OnnxFunction *f) {
    const onnx_FunctionProto *p = &f->proto;
    uint32_t depth = 0;
    for (const Call *call = d->scope->call; call; call = call->outer, depth++) {
        if (call->function == f)
            return fail(TN_INVALID_MODEL, "function \"%.*s\" calls itself", (int)p->name.n, p->name.s);
    }
    if (depth >= d->reader->ctx->limits.max_nesting)
        return fail(TN_LIMIT, "functions call each other more than %u deep", d->reader->ctx->limits.max_nesting);
    if (d->n_operands > p->input.len || d->n_outputs > p->output.len)
        return fail(TN_INVALID_MODEL, "function \"%.*s\" has %zu inputs and %zu outputs; the call has %zu and %zu",
                    (int)p->name.n, p->name.s, p->input.len, p->output.len, d->n_operands, d->n_outputs);
    return TN_OK;
}

/* Defaults of attributes that the call leaves out. */
static tn_status add_defaults(Draft *d, const OnnxFunction *f) {
    for (size_t i = 0; i < f->proto.attribute_proto.len; i++) {
        onnx_AttributeProto p;
        bool given = false;
        TRY(proto_read(&d->reader->proto, f->proto.attribute_proto.data[i], onnx_AttributeProto, &p));
        for (size_t k = 0; k < d->n_attrs && !given; k++) given = str_equal(d->attrs[k].name, p.name);
        for (size_t k = 0; k < d->n_graphs && !given; k++) given = str_equal(d->graphs[k].name, p.name);
        if (p.type == onnx_AttributeProto_AttributeType_GRAPH || p.type == onnx_AttributeProto_AttributeType_GRAPHS)
            return fail(TN_UNSUPPORTED, "a function's attribute has a graph as default");
        if (!given) TRY(onnx_read_attr(d, f->proto.attribute_proto.data[i]));
    }
    return TN_OK;
}

static tn_status bind_inputs(Scope *inner, const Draft *d, const OnnxFunction *f) {
    for (size_t i = 0; i < f->proto.input.len; i++) {
        Value *value = i < d->n_operands ? d->operands[i] : NULL;
        TRY(onnx_define(inner, f->proto.input.data[i], value ? value : onnx_absent));
    }
    return TN_OK;
}

static bool is_operand(const Draft *d, const Value *value) {
    for (size_t i = 0; i < d->n_operands; i++) {
        if (d->operands[i] == value) return true;
    }
    return false;
}

static tn_status bind_outputs(Scope *inner, const Draft *d, const OnnxFunction *f) {
    for (size_t i = 0; i < d->n_outputs; i++) {
        Value *value;
        Str name = d->outputs[i];
        if (name.n == 0) continue;
        TRY(onnx_resolve(inner, f->proto.output.data[i], &value));
        if (!value)
            return fail(TN_INVALID_MODEL, "function \"%.*s\" makes no output %zu", (int)f->proto.name.n,
                        f->proto.name.s, i);
        TRY(onnx_define(d->scope, name, value));
        if (value->def && !is_operand(d, value)) TRY(value_set_name(value, name));
    }
    return TN_OK;
}

tn_status onnx_call(Draft *d, const OnnxFunction *function) {
    Scope inner;
    TRY(check_call(d, function));
    TRY(add_defaults(d, function));
    Call call = {.outer = d->scope->call,
                 .function = function,
                 .attrs = d->attrs,
                 .n_attrs = d->n_attrs,
                 .graphs = d->graphs,
                 .n_graphs = d->n_graphs,
                 .loc = d->loc};
    onnx_scope_start(&inner, d->reader, NULL, d->scope->graph);
    inner.opsets = &function->opsets;
    inner.call = &call;
    inner.depth = d->scope->depth + 1;
    tn_status status = bind_inputs(&inner, d, function);
    if (status == TN_OK) status = onnx_read_nodes(&inner, &function->proto.node);
    if (status == TN_OK) status = bind_outputs(&inner, d, function);
    onnx_scope_end(&inner);
    return status;
}
