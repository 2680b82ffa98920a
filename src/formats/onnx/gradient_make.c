/* SPDX-License-Identifier: Apache-2.0 */
/* What the derivatives of ops are built with: nodes, shapes, and the way back from a broadcast. */
#include "formats/onnx/gradient_int.h"

tn_status make_op(const Rule *r, const char *op, Value *const *operands, size_t n, const Attr *attrs, size_t n_attrs,
                  Value **out) {
    return onnx_make(r->d, op, operands, n, attrs, n_attrs, out);
}

static const Shape *shape_of(const Value *value) {
    static const Shape unknown = {.rank = -1};
    return value->type->kind == TYPE_TENSOR ? &value->type->shape : &unknown;
}

tn_status make_shape(const Rule *r, Value *value, Value **out) {
    const Shape *shape = shape_of(value);
    if (shape_is_known(shape)) return onnx_make_ints(r->d, shape->dims, (size_t)shape->rank, false, out);
    return MAKE(r, "Shape", out, value);
}

tn_status make_count(const Rule *r, Value *value, Value **out) {
    const Shape *shape = shape_of(value);
    int64_t count = 1;
    bool known = shape_is_known(shape);
    for (int i = 0; known && i < shape->rank; i++) known = !__builtin_mul_overflow(count, shape->dims[i], &count);
    return known ? onnx_make_ints(r->d, &count, 1, true, out) : MAKE(r, "Size", out, value);
}

tn_status make_full(const Rule *r, double number, Value *like, Value **out) {
    Value *scalar, *shape;
    TRY(onnx_make_scalar(r->d, number, like, &scalar));
    TRY(make_shape(r, like, &shape));
    return MAKE(r, "Expand", out, scalar, shape);
}

static tn_status reshape(const Rule *r, Value *value, Value *shape, Value **out) {
    Attr plain = onnx_int_attr("allowzero", 1);
    return make_op(r, "Reshape", (Value *[]){value, shape}, 2, &plain, 1, out);
}

tn_status make_reshape(const Rule *r, Value *value, Value *like, Value **out) {
    Value *shape;
    TRY(make_shape(r, like, &shape));
    return reshape(r, value, shape, out);
}

tn_status make_flat(const Rule *r, Value *value, Value **out) {
    Value *shape;
    TRY(onnx_make_ints(r->d, (int64_t[]){-1}, 1, false, &shape));
    return reshape(r, value, shape, out);
}

tn_status make_transpose(const Rule *r, Value *value, const int64_t *perm, int rank, Value **out) {
    Attr attr = {.name = STR("perm"), .kind = ATTR_INTS, .n = (size_t)rank, .ints = perm};
    return make_op(r, "Transpose", &value, 1, &attr, 1, out);
}

tn_status make_sum(const Rule *r, Value *value, const int64_t *axes, size_t n, bool keep, Value **out) {
    Attr keepdims = onnx_int_attr("keepdims", keep);
    Value *list;
    TRY(onnx_make_ints(r->d, axes, n, false, &list));
    return make_op(r, "ReduceSum", (Value *[]){value, list}, 2, &keepdims, 1, out);
}

tn_status make_again(const Rule *r, Value *const *operands, size_t n, size_t n_results, Node **out) {
    const Node *node = r->node;
    TRY(node_new(r->d->scope->graph, node->op, operands, n, n_results, out));
    (*out)->loc = node->loc;
    for (uint32_t i = 0; i < node->n_attrs; i++) TRY(node_set_attr(*out, &node->attrs[i]));
    node_append(*out);
    TRY(node_check(*out));
    return onnx_infer_node(r->d->reader, *out);
}

tn_status only_first(const Rule *r) {
    for (uint32_t i = 1; i < r->node->n_operands; i++) {
        if (r->wanted[i])
            return fail(TN_UNSUPPORTED, "Gradient: there is no derivative of %s with respect to its operand %u",
                        r->node->op->name, i);
    }
    return TN_OK;
}

/* ---- the way back from a broadcast ------------------------------------------------------------------------------ */

/* Of a value that was repeated: the dimensions that it did not have, and those that it had as 1. */
typedef struct Repeated {
    int64_t lead[TN_MAX_RANK], ones[TN_MAX_RANK];
    size_t n_lead, n_ones;
} Repeated;

/* Whether the types tell them. */
static bool find_repeated(const Shape *whole, const Shape *part, Repeated *found) {
    *found = (Repeated){0};
    if (whole->rank < 0 || part->rank < 0 || part->rank > whole->rank) return false;
    int lead = whole->rank - part->rank;
    for (int i = 0; i < lead; i++) found->lead[found->n_lead++] = i;
    for (int i = 0; i < part->rank; i++) {
        Dim dim = part->dims[i];
        if (dim == DIM_UNKNOWN) return false;
        if (dim == whole->dims[lead + i]) continue;
        if (!dim_is_const(dim)) return false;
        if (dim == 1) found->ones[found->n_ones++] = i;
    }
    return true;
}

/* The same by arithmetic on shapes while the model runs: 1s in front of the part's shape, and where there is a 1 is an
   axis to sum over. */
static tn_status fit_at_run_time(const Rule *r, Value *value, Value *like, Value **out) {
    Value *whole, *part, *n_whole, *n_part, *lead, *one, *zero, *axes;
    Attr along = onnx_int_attr("axis", 0);
    Attr sum[] = {onnx_int_attr("keepdims", 1), onnx_int_attr("noop_with_empty_axes", 1)};
    TRY(make_shape(r, value, &whole));
    TRY(make_shape(r, like, &part));
    TRY(MAKE(r, "Size", &n_whole, whole));
    TRY(MAKE(r, "Size", &n_part, part));
    TRY(MAKE(r, "Sub", &lead, n_whole, n_part));
    TRY(onnx_make_ints(r->d, (int64_t[]){0}, 1, false, &zero));
    TRY(onnx_make_ints(r->d, (int64_t[]){1}, 1, true, &one));
    TRY(MAKE(r, "Unsqueeze", &lead, lead, zero));
    TRY(MAKE(r, "Expand", &lead, one, lead));
    TRY(make_op(r, "Concat", (Value *[]){lead, part}, 2, &along, 1, &axes));
    TRY(MAKE(r, "Equal", &axes, axes, one));
    TRY(MAKE(r, "NonZero", &axes, axes));
    TRY(make_flat(r, axes, &axes));
    TRY(make_op(r, "ReduceSum", (Value *[]){value, axes}, 2, sum, 2, &value));
    return reshape(r, value, part, out);
}

tn_status make_fit(const Rule *r, Value *value, Value *like, Value **out) {
    Repeated found;
    *out = value;
    if (!find_repeated(shape_of(value), shape_of(like), &found)) return fit_at_run_time(r, value, like, out);
    if (found.n_lead) TRY(make_sum(r, *out, found.lead, found.n_lead, false, out));
    if (found.n_ones) TRY(make_sum(r, *out, found.ones, found.n_ones, true, out));
    return TN_OK;
}
