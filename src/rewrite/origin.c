/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two sizes are one although nobody knows it: both are followed upwards through nodes that hand a dimension on. */
#include "rewrite/function_int.h"

typedef struct Place { /* a dimension of a value */
    const Value *value;
    int axis;
} Place;

/* The only operand that may have more than one element along this dimension of the result; another of which that is not
   certain could be the one that broadcasts. */
static bool through_elementwise(const Node *node, Place *p) {
    int rank = value_rank(p->value), from_end = rank - p->axis;
    const Value *only = NULL;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        int r = value_rank(v);
        if (!v) continue;
        if (r < 0) return false;
        if (r < from_end || v->type->shape.dims[r - from_end] == 1) continue;
        if (only && only != v) return false;
        only = v;
    }
    if (!only) return false;
    *p = (Place){only, value_rank(only) - from_end};
    return true;
}

static bool through_transpose(const Node *node, Place *p) {
    const Attr *perm = node_attr(node, STR("perm"));
    int rank = value_rank(p->value);
    const Value *x = node->operands[0].value;
    if (value_rank(x) != rank || (perm && (int)perm->n != rank)) return false;
    *p = (Place){x, perm ? (int)perm->ints[p->axis] : rank - 1 - p->axis};
    return true;
}

/* A 0 takes the size that stands at its place. */
static bool through_reshape(const Node *node, Place *p) {
    int64_t sizes[TN_MAX_RANK];
    int n;
    if (node_attr(node, STR("allowzero")) && node_attr(node, STR("allowzero"))->i != 0) return false;
    if (!constant_ints(node_operand(node, 1), sizes, TN_MAX_RANK, &n) || p->axis >= n || sizes[p->axis] != 0)
        return false;
    *p = (Place){node->operands[0].value, p->axis};
    return value_rank(p->value) > p->axis;
}

static uint32_t axes_mask(const int64_t *axes, int n, int rank) {
    uint32_t mask = 0;
    for (int i = 0; i < n; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis >= 0 && axis < rank) mask |= 1u << axis;
    }
    return mask;
}

/* Squeeze and Unsqueeze: dimensions of one element go or come. */
static bool through_ones(const Node *node, Place *p, bool come) {
    int64_t axes[TN_MAX_RANK];
    int n;
    const Value *x = node->operands[0].value;
    if (value_rank(x) < 0 || !constant_ints(node_operand(node, 1), axes, TN_MAX_RANK, &n)) return false;
    uint32_t mask = axes_mask(axes, n, come ? value_rank(p->value) : value_rank(x));
    int axis = 0, left = p->axis;
    if (come) {
        if (mask >> p->axis & 1) return false;
        for (int k = 0; k < p->axis; k++) axis += !(mask >> k & 1);
    } else
        for (;; axis++) {
            if (axis >= value_rank(x)) return false;
            if (!(mask >> axis & 1) && left-- == 0) break;
        }
    *p = (Place){x, axis};
    return true;
}

/* Slice: what it does not cut. Without axes it cuts the first ones. */
static bool through_slice(const Node *node, Place *p) {
    int64_t axes[TN_MAX_RANK];
    int n, rank = value_rank(p->value);
    const Value *x = node->operands[0].value;
    if (value_rank(x) != rank || !constant_ints(node_operand(node, 3), axes, TN_MAX_RANK, &n)) return false;
    *p = (Place){x, p->axis};
    return !(axes_mask(axes, n, rank) >> p->axis & 1);
}

static bool through_split(const Node *node, Place *p) {
    const Attr *a = node_attr(node, STR("axis"));
    int rank = value_rank(p->value);
    int64_t axis = a ? a->i : 0;
    const Value *x = node->operands[0].value;
    if (value_rank(x) != rank || (axis < 0 ? axis + rank : axis) == p->axis) return false;
    *p = (Place){x, p->axis};
    return true;
}

/* The rows of a product are those of its first operand; of the others some may be broadcast. */
static bool through_matmul(const Node *node, Place *p) {
    const Value *x = node->operands[0].value, *w = node->operands[1].value;
    int rank = value_rank(p->value);
    if (value_rank(x) != rank || value_rank(w) < 2) return false;
    if (p->axis == rank - 1 || (p->axis < rank - 2 && value_rank(w) > 2)) return false;
    *p = (Place){x, p->axis};
    return true;
}

static bool upwards(Place *p) {
    static const char *const same[] = {"Cast", "Identity", "LayerNormalization", "RMSNormalization", "Softmax"},
                             *const products[] = {"MatMul", "MatMulInteger"};
    const Node *node = p->value->def;
    if (!node || node->n_operands == 0) return false;
    if (node_is_onnx(node, "Split")) return through_split(node, p);
    if (p->value->index > 0) return false;
    if (op_is_one_of(node->op, same, sizeof same / sizeof *same)) {
        p->value = node->operands[0].value;
        return value_rank(p->value) > p->axis;
    }
    if (op_is_one_of(node->op, products, sizeof products / sizeof *products)) return through_matmul(node, p);
    if (node->op->domain) return false;
    if (node_is_onnx(node, "Transpose")) return through_transpose(node, p);
    if (node_is_onnx(node, "Reshape")) return through_reshape(node, p);
    if (node_is_onnx(node, "Squeeze")) return through_ones(node, p, false);
    if (node_is_onnx(node, "Unsqueeze")) return through_ones(node, p, true);
    if (node_is_onnx(node, "Slice")) return through_slice(node, p);
    return node->op->flags & OP_ELEMENTWISE && through_elementwise(node, p);
}

enum { HOPS = 32 };

static bool meets(Place a, Place b) {
    for (int i = 0; i <= HOPS; i++) {
        Place c = b;
        for (int k = 0; k <= HOPS; k++) {
            if (a.value == c.value && a.axis == c.axis) return true;
            if (!upwards(&c)) break;
        }
        if (!upwards(&a)) break;
    }
    return false;
}

static bool find_place(const Expr *e, const Match *m, const Val *args, size_t i, Place *out) {
    const Value *v = m->values[e->args[i]->var];
    int rank = value_rank(v);
    if (args[i + 1].kind != V_INT) return false;
    int64_t axis = args[i + 1].i < 0 ? args[i + 1].i + rank : args[i + 1].i;
    *out = (Place){v, (int)axis};
    return rank > 0 && axis >= 0 && axis < rank;
}

/* same_size(%a, i, %b, j): the sizes are equal, or one and the same size handed on. */
tn_status fn_same_size(const Expr *e, Match *m, const Val *args, Val *out) {
    Place a, b;
    *out = unknown;
    if (e->args[2]->kind != EXPR_VALUE || !find_place(e, m, args, 0, &a) || !find_place(e, m, args, 2, &b))
        return TN_OK;
    Dim x = a.value->type->shape.dims[a.axis], y = b.value->type->shape.dims[b.axis];
    *out = val_bool((x == y && x != DIM_UNKNOWN) || meets(a, b));
    return TN_OK;
}
