/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on the contents of small integer tensors while shapes are inferred: symbolic sizes pass through it. */
#include "ops/op_int.h"

/* Dims divide towards minus infinity, ONNX towards zero: the same only where nothing is negative. */
Dim content_div(DimTable *dims, Dim a, Dim b) {
    if (b == 0 || a == DIM_UNKNOWN || b == DIM_UNKNOWN) return DIM_UNKNOWN;
    if (dim_is_const(a) && dim_is_const(b)) return b == -1 ? -a : a / b;
    return dim_not_negative(dims, a) && dim_not_negative(dims, b) ? dim_floordiv(dims, a, b) : DIM_UNKNOWN;
}

Dim content_mod(DimTable *dims, Dim a, Dim b, bool fmod) {
    if (b == 0 || a == DIM_UNKNOWN || b == DIM_UNKNOWN) return DIM_UNKNOWN;
    if (dim_is_const(a) && dim_is_const(b)) {
        int64_t r = b == -1 ? 0 : a % b;
        return r != 0 && !fmod && (r < 0) != (b < 0) ? r + b : r;
    }
    return dim_not_negative(dims, a) && dim_not_negative(dims, b) ? dim_make(dims, DIM_MOD, a, b) : DIM_UNKNOWN;
}

int content_count(const InferCtx *c) {
    const Shape *s = &c->out[0].shape;
    int n = 1;
    for (int k = 0; k < s->rank; k++) {
        if (!dim_is_const(s->dims[k]) || s->dims[k] > CONTENT_MAX) return -1;
        n *= (int)s->dims[k];
        if (n > CONTENT_MAX) return -1;
    }
    return s->rank < 0 ? -1 : n;
}

/* An operand of as many elements as the result has them in the same order, whatever dimensions of size 1 were added. */
void content_binary(InferCtx *c, int ia, int ib, ContentFn fn) {
    Dim a[CONTENT_MAX], b[CONTENT_MAX];
    int na, nb;
    int n = content_count(c);
    if (!c->content_out || n < 0 || !in_content(c, ia, a, CONTENT_MAX, &na) || !in_content(c, ib, b, CONTENT_MAX, &nb))
        return;
    if ((na != n && na != 1) || (nb != n && nb != 1)) return;
    Dim y[CONTENT_MAX];
    for (int i = 0; i < n; i++) y[i] = fn(c, a[na == 1 ? 0 : i], b[nb == 1 ? 0 : i]);
    set_content(c, 0, y, n);
}

void content_unary(InferCtx *c, Dim (*fn)(const InferCtx *c, Dim a)) {
    Dim a[CONTENT_MAX], y[CONTENT_MAX];
    int n;
    if (!c->content_out || !in_content(c, 0, a, CONTENT_MAX, &n)) return;
    for (int i = 0; i < n; i++) y[i] = fn(c, a[i]);
    set_content(c, 0, y, n);
}
