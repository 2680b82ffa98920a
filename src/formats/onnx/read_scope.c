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

void onnx_scope_end(Scope *scope) { map_free(&scope->values); }

tn_status onnx_define(Scope *scope, Str name, Value *value) {
    TRY(onnx_check_name(scope->reader, name, "a value's name"));
    size_t before = scope->values.len;
    TRY(map_set(&scope->values, name, value));
    if (scope->values.len == before)
        return fail(TN_INVALID_MODEL, "\"%.*s\" is defined more than once", (int)name.n, name.s);
    return TN_OK;
}

tn_status onnx_resolve(Scope *scope, Str name, Value **out) {
    OnnxReader *r = scope->reader;
    *out = NULL;
    if (name.n == 0) return TN_OK;
    for (Scope *s = scope; s; s = s->outer) {
        Value *value = map_get(&s->values, name);
        if (!value) continue;
        if (value != onnx_absent) *out = value;
        return TN_OK;
    }
    r->undefined = true;
    return fail(TN_INVALID_MODEL, "\"%.*s\" is read, but no input, initialiser or node defines it", (int)name.n,
                name.s);
}
