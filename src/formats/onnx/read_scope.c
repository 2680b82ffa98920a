/* SPDX-License-Identifier: Apache-2.0 */
/* Names of an ONNX graph: a map a graph, inner ones looked up before outer ones. */
#include "formats/onnx/onnx_int.h"

static Value absent;
Value *const onnx_absent = &absent;

void onnx_scope_start(Scope *scope, OnnxReader *r, Scope *outer, Graph *graph) {
    *scope = (Scope){.reader = r, .outer = outer, .graph = graph};
    map_init(&scope->values, r->alloc);
    scope->opsets = outer ? outer->opsets : &r->opsets;
    scope->call = outer ? outer->call : NULL;
    scope->depth = outer ? outer->depth + 1 : 0;
}

void onnx_scope_end(Scope *scope) {
    map_free(&scope->values);
    vec_free(scope->reader->alloc, &scope->own);
}

/* Where names stand for values, and the model, which has them in a table too, can be asked: a table less. */
static bool is_main(const Scope *scope) { return !scope->outer && !scope->call; }

static bool is_own(const Scope *scope, const Value *value) {
    return value->id / 64 < scope->own.len && scope->own.data[value->id / 64] >> value->id % 64 & 1;
}

static tn_status make_own(Scope *scope, const Value *value) {
    size_t word = value->id / 64;
    TRY(vec_reserve(scope->reader->alloc, &scope->own, word + 1));
    if (scope->own.len <= word) scope->own.len = word + 1; /* zero from the start */
    scope->own.data[word] |= (uint64_t)1 << value->id % 64;
    return TN_OK;
}

static Value *find(const Scope *scope, Str name) {
    Value *value = map_get(&scope->values, name);
    if (value || !is_main(scope)) return value;
    value = model_value(scope->graph->model, name);
    return value && is_own(scope, value) ? value : NULL;
}

tn_status onnx_define(Scope *scope, Str name, Value *value) {
    TRY(onnx_check_name(scope->reader, name, "a value's name"));
    if (find(scope, name)) return fail(TN_INVALID_MODEL, "\"%.*s\" is defined more than once", (int)name.n, name.s);
    bool own = is_main(scope) && value != onnx_absent && str_equal(value->name, name);
    return own ? make_own(scope, value) : map_set(&scope->values, name, value);
}

tn_status onnx_resolve(Scope *scope, Str name, Value **out) {
    OnnxReader *r = scope->reader;
    *out = NULL;
    if (name.n == 0) return TN_OK;
    for (Scope *s = scope; s; s = s->outer) {
        Value *value = find(s, name);
        if (!value) continue;
        if (value != onnx_absent) *out = value;
        return TN_OK;
    }
    r->undefined = true;
    return fail(TN_INVALID_MODEL, "\"%.*s\" is read, but no input, initialiser or node defines it", (int)name.n,
                name.s);
}
