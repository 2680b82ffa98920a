/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives that no formula of the table can say: any number of operands or results, matrices, conditions on
   attributes. */
#include "formats/onnx/gradient_int.h"

/* ---- element by element ----------------------------------------------------------------------------------------- */

tn_status derive_variadic(Rule *r) {
    Value *g = r->back[0], *n;
    if (strcmp(r->node->op->name, "Mean") == 0) {
        TRY(onnx_make_scalar(r->d, r->node->n_operands, g, &n));
        TRY(MAKE(r, "Div", &g, g, n));
    }
    for (uint32_t i = 0; i < r->node->n_operands; i++) {
        if (r->wanted[i]) TRY(make_fit(r, g, r->in[i], &r->grads[i]));
    }
    return TN_OK;
}

/* Max and Min: operands that are equally the greatest share what comes. */
tn_status derive_extreme(Rule *r) {
    Value *g = r->back[0], *sharers;
    uint32_t n = r->node->n_operands;
    Value **chosen = arena_array(&r->d->reader->arena, Value *, n);
    if (!chosen) return TN_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        TRY(MAKE(r, "Equal", &chosen[i], r->in[i], r->out[0]));
        TRY(MAKE(r, "CastLike", &chosen[i], chosen[i], g));
    }
    TRY(make_op(r, "Sum", chosen, n, NULL, 0, &sharers));
    TRY(MAKE(r, "Div", &g, g, sharers));
    for (uint32_t i = 0; i < n; i++) {
        if (!r->wanted[i]) continue;
        TRY(MAKE(r, "Mul", &r->grads[i], g, chosen[i]));
        TRY(make_fit(r, r->grads[i], r->in[i], &r->grads[i]));
    }
    return TN_OK;
}

/* The approximation's inner function is k (a + 0.044715 a^3) with k = sqrt(2 / pi). */
tn_status derive_gelu(Rule *r) {
    const char *exact = "g * (0.5 * (1 + Erf(a * 0.707106781186548)) + a * 0.398942280401433 * Exp(-a * a / 2))";
    const char *inner = "Tanh(0.797884560802865 * (a + 0.044715 * a * a * a))";
    /* the formula's y is the inner function's tanh */
    const char *outer = "g * 0.5 * (1 + y + a * (1 - y * y) * 0.797884560802865 * (1 + 0.134145 * a * a))";
    Value *g = r->back[0], *tanh;
    if (!attr_string_is(r->node, "approximate", "tanh")) return gradient_formula(r, exact, g, r->out[0], &r->grads[0]);
    TRY(gradient_formula(r, inner, g, r->out[0], &tanh));
    return gradient_formula(r, outer, g, tanh, &r->grads[0]);
}

tn_status derive_dropout(Rule *r) {
    const Tensor *training = value_constant(rule_in(r, 2));
    int64_t on = 0, n;
    TRY(only_first(r));
    if (training) TRY(tensor_ints(training, &on, 1, &n));
    else if (rule_in(r, 2)) on = 1;
    if (on) return fail(TN_UNSUPPORTED, "Gradient: there is no derivative of Dropout in training mode");
    r->grads[0] = r->back[0];
    return TN_OK;
}

/* ---- other places ----------------------------------------------------------------------------------------------- */

tn_status derive_transpose(Rule *r) {
    IntList perm = attr_ints(r->node, "perm");
    int64_t inverse[TN_MAX_RANK];
    if (!perm.n) return make_op(r, "Transpose", r->back, 1, NULL, 0, &r->grads[0]);
    if (perm.n > TN_MAX_RANK) return fail(TN_LIMIT, "perm has %zu dimensions", perm.n);
    for (size_t i = 0; i < perm.n; i++) inverse[i] = -1;
    for (size_t i = 0; i < perm.n; i++) {
        int64_t to = perm.data[i];
        if (to < 0 || to >= (int64_t)perm.n || inverse[to] >= 0)
            return fail(TN_INVALID_MODEL, "perm is no order of %zu dimensions", perm.n);
        inverse[to] = (int64_t)i;
    }
    return make_transpose(r, r->back[0], inverse, (int)perm.n, &r->grads[0]);
}

/* The size along `axis` as a list of one. */
static tn_status size_along(const Rule *r, Value *value, int64_t axis, Value **out) {
    const Shape *shape = &value->type->shape;
    Attr part[] = {onnx_int_attr("start", axis), onnx_int_attr("end", axis + 1)};
    int64_t at = axis < 0 ? axis + shape->rank : axis;
    if (shape->rank >= 0 && at >= 0 && at < shape->rank && dim_is_const(shape->dims[at]))
        return onnx_make_ints(r->d, &shape->dims[at], 1, false, out);
    return make_op(r, "Shape", &value, 1, part, axis == -1 ? 1 : 2, out); /* to the end, where 0 would be the start */
}

/* Cuts what comes into pieces of the operands' sizes. */
tn_status derive_concat(Rule *r) {
    const OpSchema *split = op_find(STR(""), STR("Split"));
    uint32_t n = r->node->n_operands;
    int64_t axis = attr_int(r->node, "axis");
    Attr along = onnx_int_attr("axis", 0);
    Value **sizes = arena_array(&r->d->reader->arena, Value *, n), *list;
    Node *node;
    if (!sizes) return TN_OUT_OF_MEMORY;
    if (axis < -TN_MAX_RANK || axis >= TN_MAX_RANK)
        return fail(TN_OUT_OF_RANGE, "axis %lld is that of no tensor", (long long)axis);
    for (uint32_t i = 0; i < n; i++) TRY(size_along(r, r->in[i], axis, &sizes[i]));
    TRY(make_op(r, "Concat", sizes, n, &along, 1, &list));
    TRY(node_new(r->d->scope->graph, split, (Value *[]){r->back[0], list}, 2, n, &node));
    node->loc = r->node->loc;
    TRY(node_set_int(node, "axis", axis));
    node_append(node);
    TRY(node_check(node));
    TRY(onnx_infer_node(r->d->reader, node));
    for (uint32_t i = 0; i < n; i++) r->grads[i] = node->results[i];
    return TN_OK;
}

tn_status derive_split(Rule *r) {
    uint32_t n = r->node->n_results;
    Attr axis = onnx_int_attr("axis", attr_int(r->node, "axis"));
    Value **pieces = arena_array(&r->d->reader->arena, Value *, n);
    if (!pieces) return TN_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        pieces[i] = r->back[i];
        if (!pieces[i]) TRY(make_full(r, 0, r->out[i], &pieces[i]));
    }
    return make_op(r, "Concat", pieces, n, &axis, 1, &r->grads[0]);
}

/* ---- products of matrices --------------------------------------------------------------------------------------- */

static tn_status with_axes(const Rule *r, const char *op, Value *value, const int64_t *axes, size_t n, Value **out) {
    Value *list;
    *out = value;
    if (n == 0) return TN_OK;
    TRY(onnx_make_ints(r->d, axes, n, false, &list));
    return MAKE(r, op, out, value, list);
}

static tn_status swap_last(const Rule *r, Value *value, Value **out) {
    int64_t perm[TN_MAX_RANK];
    int rank = onnx_rank(value);
    if (rank < 2) return fail(TN_UNSUPPORTED, "Gradient: the derivative of MatMul needs operands of known rank");
    for (int i = 0; i < rank; i++) perm[i] = i;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return make_transpose(r, value, perm, rank, out);
}

/* Vectors are taken as the matrices of one row or column that MatMul makes of them. */
tn_status derive_matmul(Rule *r) {
    Value *a = r->in[0], *b = r->in[1], *g = r->back[0];
    bool row = onnx_rank(a) == 1, column = onnx_rank(b) == 1;
    int64_t added[2];
    size_t n = 0;
    if (onnx_rank(a) < 1 || onnx_rank(b) < 1)
        return fail(TN_UNSUPPORTED, "Gradient: the derivative of MatMul needs operands of known rank");
    if (row) added[n++] = -2;
    if (column) added[n++] = -1;
    TRY(with_axes(r, "Unsqueeze", g, added, n, &g));
    TRY(with_axes(r, "Unsqueeze", a, (int64_t[]){0}, row, &a));
    TRY(with_axes(r, "Unsqueeze", b, (int64_t[]){1}, column, &b));
    if (r->wanted[0]) {
        TRY(swap_last(r, b, &b));
        TRY(MAKE(r, "MatMul", &r->grads[0], g, b));
        TRY(make_fit(r, r->grads[0], r->in[0], &r->grads[0]));
    }
    if (r->wanted[1]) {
        TRY(swap_last(r, a, &a));
        TRY(MAKE(r, "MatMul", &r->grads[1], a, g));
        TRY(with_axes(r, "Squeeze", r->grads[1], (int64_t[]){-1}, column, &r->grads[1]));
        TRY(make_fit(r, r->grads[1], r->in[1], &r->grads[1]));
    }
    return TN_OK;
}

static tn_status gemm(const Rule *r, Value *a, bool trans_a, Value *b, bool trans_b, Value **out) {
    Attr attrs[] = {{.name = STR("alpha"), .kind = ATTR_FLOAT, .f = (float)attr_float(r->node, "alpha")},
                    onnx_int_attr("transA", trans_a),
                    onnx_int_attr("transB", trans_b)};
    return make_op(r, "Gemm", (Value *[]){a, b}, 2, attrs, 3, out);
}

tn_status derive_gemm(Rule *r) {
    Value *a = r->in[0], *b = r->in[1], *c = rule_in(r, 2), *g = r->back[0];
    bool ta = attr_int(r->node, "transA") != 0, tb = attr_int(r->node, "transB") != 0;
    if (r->wanted[0] && ta) TRY(gemm(r, b, tb, g, true, &r->grads[0]));
    else if (r->wanted[0]) TRY(gemm(r, g, false, b, !tb, &r->grads[0]));
    if (r->wanted[1] && tb) TRY(gemm(r, g, true, a, ta, &r->grads[1]));
    else if (r->wanted[1]) TRY(gemm(r, a, !ta, g, false, &r->grads[1]));
    if (!c || !r->wanted[2]) return TN_OK;
    TRY(gradient_formula(r, "g * beta", g, r->out[0], &r->grads[2]));
    return make_fit(r, r->grads[2], c, &r->grads[2]);
}
