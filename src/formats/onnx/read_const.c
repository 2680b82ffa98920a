/* SPDX-License-Identifier: Apache-2.0 */
/* The op Constant, in all its forms, becomes a Const node. */
#include "formats/onnx/onnx_int.h"

static tn_status make_tensor(OnnxReader *r, tn_dtype dtype, int rank, int64_t n, const void *data, Tensor **out) {
    Tensor t;
    TRY(tensor_new(r->ctx, dtype, rank, &n, &t));
    if (n) memcpy(t.data, data, (size_t)n * (size_t)dtype_size(dtype));
    return onnx_keep_tensor(r, &t, out);
}

static tn_status make_strings(OnnxReader *r, int rank, int64_t n, const Str *strings, Tensor **out) {
    Tensor t;
    TRY(tensor_new(r->ctx, TN_STRING, rank, &n, &t));
    for (int64_t i = 0; i < n; i++) {
        tn_status status = rc_string_new(r->alloc, strings[i], &((RcString **)t.data)[i]);
        if (status != TN_OK) {
            tensor_release(&t);
            return status;
        }
    }
    return onnx_keep_tensor(r, &t, out);
}

static tn_status constant_payload(OnnxReader *r, const Attr *a, Tensor **out) {
    switch (a->kind) {
    case ATTR_TENSOR: *out = a->tensor; return TN_OK;
    case ATTR_INT: return make_tensor(r, TN_I64, 0, 1, &a->i, out);
    case ATTR_INTS: return make_tensor(r, TN_I64, 1, (int64_t)a->n, a->ints, out);
    case ATTR_FLOAT: return make_tensor(r, TN_F32, 0, 1, &a->f, out);
    case ATTR_FLOATS: return make_tensor(r, TN_F32, 1, (int64_t)a->n, a->floats, out);
    case ATTR_STRING: return make_strings(r, 0, 1, &a->s, out);
    case ATTR_STRINGS: return make_strings(r, 1, (int64_t)a->n, a->strings, out);
    default: return fail(TN_INVALID_MODEL, "attribute \"%.*s\" cannot be a constant", (int)a->name.n, a->name.s);
    }
}

tn_status onnx_read_constant(Draft *d) {
    static const struct {
        const char *name;
        AttrKind kind;
    } forms[] = {
        {"value", ATTR_TENSOR},        {"sparse_value", ATTR_TENSOR},   {"value_int", ATTR_INT},
        {"value_ints", ATTR_INTS},     {"value_float", ATTR_FLOAT},     {"value_floats", ATTR_FLOATS},
        {"value_string", ATTR_STRING}, {"value_strings", ATTR_STRINGS},
    };
    const Attr *found = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const Attr *attr = onnx_attr(d, forms[i].name);
        if (!attr) continue;
        if (found || attr->kind != forms[i].kind) return fail(TN_INVALID_MODEL, "the constant has no single value");
        found = attr;
    }
    if (!found || d->n_attrs != 1 || d->n_graphs || d->n_operands || d->n_outputs != 1)
        return fail(TN_INVALID_MODEL, "a constant has one value, one result and nothing else");
    Tensor *payload;
    Node *node;
    TRY(constant_payload(d->reader, found, &payload));
    TRY(const_new(d->scope->graph, payload, d->outputs[0], &node));
    node->loc = model_str(d->reader->model, d->loc);
    node_append(node);
    d->results = node->results;
    return onnx_finish(d);
}
