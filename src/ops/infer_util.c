/* SPDX-License-Identifier: Apache-2.0 */
/* What inference functions share: reading contents, setting results, axes, broadcasting. */
#include "ops/op.h"

static bool tensor_content(const Tensor *t, Dim *out, int max, int *n) {
    int64_t count, values[CONTENT_MAX];
    if (!t->data && tensor_count(t) > 0) return false;
    if (tensor_count(t) > max || tensor_count(t) > CONTENT_MAX) return false;
    if (!dtype_is_signed_int(t->dtype) && !dtype_is_unsigned_int(t->dtype) && t->dtype != TN_BOOL) return false;
    if (tensor_ints(t, values, CONTENT_MAX, &count) != TN_OK) return false;
    for (int64_t i = 0; i < count; i++) /* the lowest numbers name expressions: no size depends on which of them */
        out[i] = dim_is_const(values[i]) ? values[i] : DIM_EXPR_END;
    *n = (int)count;
    return true;
}

bool in_content(const InferCtx *c, int i, Dim *out, int max, int *n) {
    if (!has_input(c, i)) return false;
    const InferValue *v = &c->in[i];
    if (v->value) return tensor_content(v->value, out, max, n);
    if (!v->content || v->n_content > max) return false;
    memcpy(out, v->content, (size_t)v->n_content * sizeof *out);
    *n = v->n_content;
    return true;
}

bool in_ints(const InferCtx *c, int i, int64_t *out, int max, int *n) {
    if (!in_content(c, i, out, max, n)) return false;
    for (int k = 0; k < *n; k++)
        if (!dim_is_const(out[k])) return false;
    return true;
}

void set_shape(InferCtx *c, int out, const Shape *shape) {
    if (out < c->n_out) c->out[out].shape = *shape;
}

void set_dtype(InferCtx *c, int out, tn_dtype dtype) {
    if (out < c->n_out) c->out[out].dtype = dtype;
}

void set_type(InferCtx *c, int out, tn_dtype dtype, const Shape *shape) {
    set_dtype(c, out, dtype);
    set_shape(c, out, shape);
}

void set_like(InferCtx *c, int out, int in) {
    if (out >= c->n_out || !has_input(c, in)) return;
    c->out[out].kind = c->in[in].kind;
    c->out[out].dtype = c->in[in].dtype;
    c->out[out].shape = c->in[in].shape;
    c->out[out].elem = c->in[in].elem;
}

void set_content(InferCtx *c, int out, const Dim *content, int n) {
    if (out >= c->n_out || n > CONTENT_MAX || !c->content_out) return;
    memcpy(c->content_out[out], content, (size_t)n * sizeof *content);
    c->out[out].content = c->content_out[out];
    c->out[out].n_content = n;
}

void set_unknown_rank(InferCtx *c, int out, int rank) {
    Shape s = shape_unknown();
    if (rank >= 0) {
        s.rank = rank;
        for (int i = 0; i < rank; i++) s.dims[i] = DIM_UNKNOWN;
    }
    set_shape(c, out, &s);
}

tn_status normal_axis(int64_t axis, int rank, const char *what, int *out) {
    if (axis < -(int64_t)rank || axis >= rank)
        return fail(TN_OUT_OF_RANGE, "%s is %lld, outside [-%d, %d)", what, (long long)axis, rank, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return TN_OK;
}

tn_status normal_axes(const int64_t *axes, size_t n, int rank, const char *what, uint32_t *mask) {
    *mask = 0;
    for (size_t i = 0; i < n; i++) {
        int axis;
        TRY(normal_axis(axes[i], rank, what, &axis));
        if (*mask & 1u << axis) return fail(TN_INVALID_ARGUMENT, "%s names dimension %d twice", what, axis);
        *mask |= 1u << axis;
    }
    return TN_OK;
}

static tn_status broadcast_dim(DimTable *dims, Dim a, Dim b, int at, Dim *out) {
    (void)dims;
    if (a == b || b == 1) *out = a;
    else if (a == 1) *out = b;
    else if (dim_is_const(a) && dim_is_const(b))
        return fail(TN_SHAPE, "sizes %lld and %lld of dimension %d do not broadcast", (long long)a, (long long)b, at);
    else if (dim_is_const(a)) /* not 1, so the other is 1 or the same */ *out = a;
    else if (dim_is_const(b)) *out = b;
    else *out = DIM_UNKNOWN;
    return TN_OK;
}

tn_status broadcast_shapes(DimTable *dims, const Shape *a, const Shape *b, Shape *out) {
    if (a->rank < 0 || b->rank < 0) {
        *out = shape_unknown();
        return TN_OK;
    }
    Shape s = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 0; i < s.rank; i++) {
        int ia = i - (s.rank - a->rank), ib = i - (s.rank - b->rank);
        TRY(broadcast_dim(dims, ia < 0 ? 1 : a->dims[ia], ib < 0 ? 1 : b->dims[ib], i, &s.dims[i]));
    }
    *out = s;
    return TN_OK;
}

tn_status infer_broadcast(InferCtx *c) {
    Shape s = {.rank = 0};
    for (int i = 0; i < c->n_in; i++)
        if (has_input(c, i)) TRY(broadcast_shapes(c->dims, &s, in_shape(c, i), &s));
    set_shape(c, 0, &s);
    return TN_OK;
}

Dim dims_product(DimTable *dims, const Shape *s, int from, int to) {
    Dim p = 1;
    for (int i = from; i < to; i++) p = dim_mul(dims, p, s->dims[i]);
    return p;
}

tn_status dims_must_match(Dim a, Dim b, const char *what, Dim *out) {
    if (a != b && dim_is_const(a) && dim_is_const(b))
        return fail(TN_SHAPE, "%s: %lld and %lld must be equal", what, (long long)a, (long long)b);
    *out = dim_is_const(a) || b == DIM_UNKNOWN ? a : b;
    return TN_OK;
}
