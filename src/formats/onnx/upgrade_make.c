/* SPDX-License-Identifier: Apache-2.0 */
/* What upgrades build with: operands, constants and nodes in front of the draft's own. */
#include "formats/onnx/onnx_int.h"

static tn_status add_operand(Draft *d, Value *value) {
    if (d->n_operands == d->cap_operands) {
        size_t cap = d->cap_operands * 2 + 4;
        Value **more = arena_array(&d->reader->arena, Value *, cap);
        if (!more) return TN_OUT_OF_MEMORY;
        if (d->n_operands) memcpy(more, d->operands, d->n_operands * sizeof *more);
        d->operands = more;
        d->cap_operands = cap;
    }
    d->operands[d->n_operands++] = value;
    return TN_OK;
}

tn_status onnx_set_operand(Draft *d, size_t i, Value *value) {
    while (d->n_operands <= i) TRY(add_operand(d, NULL));
    d->operands[i] = value;
    return TN_OK;
}

tn_status onnx_make(Draft *d, const char *op, Value *const *operands, size_t n, const Attr *attrs, size_t n_attrs,
                    Value **out) {
    OnnxReader *r = d->reader;
    const OpSchema *schema = op_find(STR(""), str_of(op));
    Node *node;
    if (!schema) {
        r->unsupported = true;
        return fail(TN_UNSUPPORTED, "op \"%s\" is not known", op);
    }
    TRY(node_new(d->scope->graph, schema, operands, n, 1, &node));
    node->loc = model_str(r->model, d->loc);
    for (size_t i = 0; i < n_attrs; i++) TRY(node_set_attr(node, &attrs[i]));
    node_append(node);
    TRY(node_check(node));
    if (r->infer) TRY(onnx_infer_node(r, node));
    *out = node->results[0];
    return TN_OK;
}

static tn_status make_const(Draft *d, Tensor *t, Value **out) {
    Tensor *payload;
    Node *node;
    TRY(onnx_keep_tensor(d->reader, t, &payload));
    TRY(const_new(d->scope->graph, payload, (Str){NULL, 0}, &node));
    node->loc = model_str(d->reader->model, d->loc);
    node_append(node);
    *out = node->results[0];
    return TN_OK;
}

tn_status onnx_make_ints(Draft *d, const int64_t *values, size_t n, bool scalar, Value **out) {
    Tensor t;
    int64_t size = (int64_t)n;
    TRY(tensor_new(d->reader->ctx, TN_I64, scalar ? 0 : 1, &size, &t));
    if (n) memcpy(t.data, values, n * sizeof *values);
    return make_const(d, &t, out);
}

tn_status onnx_make_floats(Draft *d, const float *values, size_t n, Value **out) {
    Tensor t;
    int64_t size = (int64_t)n;
    TRY(tensor_new(d->reader->ctx, TN_F32, 1, &size, &t));
    if (n) memcpy(t.data, values, n * sizeof *values);
    return make_const(d, &t, out);
}

/* The element type may not be known yet (it depends on a caller, or on an op that inference does not see through);
   then a cast settles it later. */
tn_status onnx_make_scalar(Draft *d, double value, Value *like, Value **out) {
    tn_dtype dtype = like && like->type->kind == TYPE_TENSOR ? like->type->dtype : TN_UNDEFINED;
    bool direct = dtype_is_float(dtype) && dtype_bits(dtype) >= 16;
    Tensor t;
    TRY(tensor_new(d->reader->ctx, direct ? dtype : TN_F32, 0, NULL, &t));
    store_f64(t.dtype, t.data, 0, 1, &value, 1);
    TRY(make_const(d, &t, out));
    if (direct || !like) return TN_OK;
    return onnx_make(d, "CastLike", (Value *[]){*out, like}, 2, NULL, 0, out);
}

int onnx_rank(const Value *value) { return value && value->type->kind == TYPE_TENSOR ? value->type->shape.rank : -1; }

tn_status onnx_rename(Draft *d, const char *type) {
    d->type = str_of(type);
    return TN_OK;
}
