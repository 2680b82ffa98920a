/* SPDX-License-Identifier: Apache-2.0 */
/* How the contents of a value are arranged: twice the same along the last dimension, or a triangle that hides keys. */
#include "rewrite/function_int.h"

#include <math.h>

/* Larger constants are not looked at. */
enum { MOST_ELEMENTS = 1 << 24 };

static const Tensor *contents_of(const Value *v) {
    const Tensor *t = value_constant(v);
    bool fits = t && t->kind == TYPE_TENSOR && t->data && t->rank >= 1 && tensor_count(t) <= MOST_ELEMENTS;
    return fits && (dtype_is_float(t->dtype) || t->dtype == TN_BOOL) ? t : NULL;
}

static tn_status load(const Tensor *t, Arena *arena, double **out) {
    int64_t k = 0;
    *out = arena_array(arena, double, (size_t)tensor_count(t) + 1);
    if (!*out) return TN_OUT_OF_MEMORY;
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r); k += r.n)
        load_f64(*out + k, t->dtype, t->data, r.offset, r.stride, r.n);
    return TN_OK;
}

/* ---- twice the same ------------------------------------------------------------------------------------------ */

static tn_status constant_repeats(const Tensor *t, Arena *arena, bool *yes) {
    int64_t n = t->dims[t->rank - 1], half = n / 2, count = tensor_count(t);
    double *x;
    *yes = n % 2 == 0;
    if (!*yes || count == 0) return TN_OK;
    TRY(load(t, arena, &x));
    for (int64_t row = 0; row < count && *yes; row += n)
        *yes = memcmp(x + row, x + row + half, (size_t)half * sizeof *x) == 0;
    return TN_OK;
}

static int64_t axis_from_end(const Node *node, int rank) {
    const Attr *a = node_attr(node, STR("axis"));
    int64_t axis = a ? a->i : 0;
    return rank - (axis < 0 ? axis + rank : axis);
}

static bool is_one_number(const Value *v) {
    int rank = value_rank(v);
    for (int i = 0; i < rank; i++)
        if (v->type->shape.dims[i] != 1) return false;
    return rank >= 0;
}

/* The only operand with more than one element; NULL: there are several, or none. */
static const Value *only_operand(const Node *node) {
    const Value *only = NULL;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (!v || is_one_number(v) || v == only) continue;
        if (only) return NULL;
        only = v;
    }
    return only;
}

/* The value above whose last dimension decides; NULL: none. */
static const Value *above(const Value *v) {
    const Node *node = v->def;
    int64_t axes[TN_MAX_RANK];
    int n, rank = value_rank(v);
    if (!node || node->n_operands == 0 || v->index > 0 || rank < 1) return NULL;
    const Value *x = node->operands[0].value;
    if (node->op->flags & OP_ELEMENTWISE && !node->op->domain) return only_operand(node);
    if (node_is_onnx(node, "Cast") || node_is_onnx(node, "Identity")) return x;
    if (node_is_onnx(node, "Gather")) return value_rank(x) > 1 && axis_from_end(node, value_rank(x)) > 1 ? x : NULL;
    if (!node_is_onnx(node, "Unsqueeze") || !constant_ints(node_operand(node, 1), axes, TN_MAX_RANK, &n)) return NULL;
    for (int i = 0; i < n; i++)
        if (axes[i] == -1 || axes[i] == rank - 1) return NULL;
    return x;
}

enum { HOPS = 16 };

/* repeats(%c): both halves of the last dimension are the same. */
tn_status fn_repeats(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Value *v = m->values[e->args[0]->var];
    *out = val_bool(false);
    for (int hop = 0; v && hop < HOPS; hop++) {
        bool yes = false;
        const Tensor *t = contents_of(v);
        if (t) TRY(constant_repeats(t, m->arena, &yes));
        bool joined = v->def && node_is_onnx(v->def, "Concat") && v->def->n_operands == 2 && value_rank(v) >= 1;
        if (joined)
            yes = v->def->operands[0].value == v->def->operands[1].value && axis_from_end(v->def, value_rank(v)) == 1;
        if (yes) *out = val_bool(true);
        if (yes || t || joined) break;
        v = above(v);
    }
    return TN_OK;
}

/* ---- a triangle ---------------------------------------------------------------------------------------------- */

/* Added to scores, what is hidden is so low that nothing is left of the weight. */
static bool is_hidden(double x, bool seen) { return seen ? x == 0 : x <= -1e20; }
static bool is_plain_sight(double x, bool seen) { return seen ? x == 1 : x == 0; }

/* is_causal(%m): as a mask it hides from each query the keys behind it, and only these. */
tn_status fn_is_causal(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Tensor *t = contents_of(m->values[e->args[0]->var]);
    double *x;
    *out = val_bool(false);
    if (!t || t->rank < 2 || tensor_count(t) == 0) return TN_OK;
    int64_t rows = t->dims[t->rank - 2], columns = t->dims[t->rank - 1], count = tensor_count(t);
    bool seen = t->dtype == TN_BOOL, yes = true;
    TRY(load(t, m->arena, &x));
    for (int64_t i = 0; i < count && yes; i++)
        yes = i % columns > i / columns % rows ? is_hidden(x[i], seen) : is_plain_sight(x[i], seen);
    *out = val_bool(yes);
    return TN_OK;
}
