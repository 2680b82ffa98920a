/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of rules: attributes, sizes and constants of what was matched, and arithmetic on them. What cannot be said of
   this model is V_UNKNOWN and makes a condition false: a rule is applied where its conditions are proven, not elsewhere. */
#include "rewrite/function_int.h"

#include <math.h>

/* ---- values -------------------------------------------------------------------------------------------------- */

static bool is_true(const Val *v) { return v->kind == V_BOOL ? v->i != 0 : false; }

static double epsilon_of(tn_dtype t) {
    switch (t) {
    case TN_F64: return 0x1p-52;
    case TN_F32: return 0x1p-23;
    case TN_F16: return 0x1p-10;
    case TN_BF16: return 0x1p-7;
    default: return 0;
    }
}

/* Models hold decimal constants rounded once or twice. */
static bool is_close(double x, double want, tn_dtype t) {
    return x == want || fabs(x - want) <= 4 * epsilon_of(t) * fabs(want);
}

bool val_equal(const Val *a, const Val *b) {
    if (is_number(a) && is_number(b)) {
        if (a->kind != V_FLOAT && b->kind != V_FLOAT) return a->i == b->i;
        return is_close(number_of(a), number_of(b), TN_F32); /* attributes are f32, what a rule says is decimal */
    }
    bool lists = (a->kind == V_INTS || a->kind == V_FLOATS) && (b->kind == V_INTS || b->kind == V_FLOATS);
    if (lists) {
        if (a->n != b->n) return false;
        for (size_t i = 0; i < a->n; i++)
            if (a->kind == V_INTS && b->kind == V_INTS ? a->ints[i] != b->ints[i]
                                                       : !is_close(element_of(a, i), element_of(b, i), TN_F32))
                return false;
        return true;
    }
    if (a->kind != b->kind) return false;
    if (a->kind == V_STRING) return str_equal(a->s, b->s);
    return a->kind == V_NONE;
}

/* ---- constants and attributes -------------------------------------------------------------------------------- */

static tn_status floats_of(const Tensor *t, Arena *arena, Val *out) {
    int64_t n = tensor_count(t), k = 0;
    double *data = arena_array(arena, double, (size_t)n + 1);
    if (!data) return TN_OUT_OF_MEMORY;
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r); k += r.n)
        load_f64(data + k, t->dtype, t->data, r.offset, r.stride, r.n);
    *out = t->rank == 0 ? val_float(data[0]) : (Val){.kind = V_FLOATS, .n = (size_t)n, .floats = data};
    return TN_OK;
}

static tn_status ints_of(const Tensor *t, Arena *arena, Val *out) {
    int64_t n, *data;
    TRY(new_ints(arena, LIST_MAX, &data, out));
    if (tensor_ints(t, data, LIST_MAX, &n) != TN_OK) {
        diag_clear();
        *out = unknown;
        return TN_OK;
    }
    out->n = (size_t)n;
    if (t->rank == 0) *out = val_int(data[0]);
    return TN_OK;
}

tn_status val_of_constant(const Tensor *t, Arena *arena, Val *out) {
    *out = unknown;
    if (!t || t->kind != TYPE_TENSOR || t->rank > 1 || tensor_count(t) > LIST_MAX || (!t->data && tensor_count(t) > 0))
        return TN_OK;
    if (is_integer(t->dtype) && t->dtype != TN_U64) TRY(ints_of(t, arena, out));
    else if (dtype_is_float(t->dtype)) TRY(floats_of(t, arena, out));
    if (out->kind != V_UNKNOWN) out->dtype = t->dtype;
    return TN_OK;
}

static tn_status val_of_floats(const float *from, size_t n, Arena *arena, Val *out) {
    double *data = arena_array(arena, double, n + 1);
    if (!data) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) data[i] = from[i];
    *out = (Val){.kind = V_FLOATS, .n = n, .floats = data};
    return TN_OK;
}

static Val preset_of(const AttrSpec *spec) {
    if (spec->flags & ATTR_REQUIRED) return (Val){.kind = V_NONE};
    if (spec->kind == ATTR_INT) return val_int(spec->i);
    if (spec->kind == ATTR_FLOAT) return val_float(spec->f);
    if (spec->kind == ATTR_STRING && spec->s) return (Val){.kind = V_STRING, .s = str_of(spec->s)};
    return (Val){.kind = V_NONE};
}

tn_status val_of_attr(const Node *node, Str name, Arena *arena, Val *out) {
    const Attr *a = node_attr(node, name);
    *out = (Val){.kind = V_NONE};
    if (!a) {
        const AttrSpec *spec = op_attr_spec(node->op, name);
        if (spec) *out = preset_of(spec);
        return TN_OK;
    }
    switch (a->kind) {
    case ATTR_INT: *out = val_int(a->i); return TN_OK;
    case ATTR_FLOAT: *out = val_float((double)a->f); return TN_OK;
    case ATTR_STRING: *out = (Val){.kind = V_STRING, .s = a->s}; return TN_OK;
    case ATTR_INTS: *out = (Val){.kind = V_INTS, .n = a->n, .ints = a->ints}; return TN_OK;
    case ATTR_FLOATS: return val_of_floats(a->floats, a->n, arena, out);
    default: *out = (Val){.kind = V_ATTR, .attr = a}; return TN_OK;
    }
}

bool constant_is(const Tensor *t, const Expr *number) {
    double want = number->is_float ? number->f : (double)number->i, chunk[256];
    if (!t || t->kind != TYPE_TENSOR || (!t->data && tensor_count(t) > 0) || tensor_count(t) == 0) return false;
    if (!is_integer(t->dtype) && !dtype_is_float(t->dtype)) return false;
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r);)
        for (int64_t k = 0, n; k < r.n; k += n) { /* mostly the first one decides */
            n = min_i64(k ? 256 : 1, r.n - k);
            load_f64(chunk, t->dtype, t->data, r.offset + k * r.stride, r.stride, n);
            for (int64_t i = 0; i < n; i++)
                if (!is_close(chunk[i], want, t->dtype) || (want == 0 && signbit(chunk[i]) != signbit(want)))
                    return false;
        }
    return true;
}

/* ---- operators ----------------------------------------------------------------------------------------------- */

static Val arithmetic(char op, const Val *a, const Val *b) {
    if (!is_number(a) || !is_number(b) || !is_plain(a) || !is_plain(b)) return unknown;
    int64_t r = 0;
    if (a->kind != V_FLOAT && b->kind != V_FLOAT) {
        bool bad = op == '+'   ? add_overflows(a->i, b->i, &r)
                   : op == '-' ? sub_overflows(a->i, b->i, &r)
                   : op == '*' ? mul_overflows(a->i, b->i, &r)
                               : b->i <= 0 || a->i % b->i != 0;
        if (op == '/' && !bad) r = a->i / b->i;
        return bad ? unknown : val_int(r);
    }
    double x = number_of(a), y = number_of(b);
    return val_float(op == '+' ? x + y : op == '-' ? x - y : op == '*' ? x * y : x / y);
}

static bool is_list(const Val *v) { return v->kind == V_INTS || v->kind == V_FLOATS; }

/* Lists are joined by +. */
static tn_status join(Match *m, const Val *a, const Val *b, Val *out) {
    int64_t *data;
    double *reals = arena_array(m->arena, double, a->n + b->n + 1);
    TRY(new_ints(m->arena, a->n + b->n, &data, out));
    if (!reals) return TN_OUT_OF_MEMORY;
    bool whole = a->kind == V_INTS && b->kind == V_INTS;
    for (size_t i = 0; i < a->n + b->n; i++) {
        const Val *from = i < a->n ? a : b;
        size_t k = i < a->n ? i : i - a->n;
        if (whole) data[i] = from->ints[k];
        else reals[i] = element_of(from, k);
    }
    if (!whole) *out = (Val){.kind = V_FLOATS, .n = a->n + b->n, .floats = reals};
    return TN_OK;
}

static Val compare(char op, const Val *a, const Val *b) {
    if (a->kind == V_UNKNOWN || b->kind == V_UNKNOWN) return unknown;
    if (op == '=') return val_bool(val_equal(a, b));
    /* Two sizes that are spelt differently may still be equal. */
    if (op == '!') return is_plain(a) && is_plain(b) ? val_bool(!val_equal(a, b)) : unknown;
    if (!is_number(a) || !is_number(b) || !is_plain(a) || !is_plain(b)) return unknown;
    double x = number_of(a), y = number_of(b);
    return val_bool(op == '<' ? x < y : op == '>' ? x > y : op == 'l' ? x <= y : x >= y);
}

static tn_status is_among(const Expr *list, Match *m, const Val *x, Val *out) {
    Val each;
    *out = x->kind == V_UNKNOWN ? unknown : val_bool(false);
    if (list->kind == EXPR_LIST) {
        for (size_t i = 0; i < list->n && out->kind == V_BOOL && !out->i; i++) {
            TRY(expr_eval(list->args[i], m, &each));
            out->i = val_equal(x, &each);
        }
        return TN_OK;
    }
    TRY(expr_eval(list, m, &each));
    if (each.kind != V_INTS) *out = unknown;
    for (size_t i = 0; out->kind == V_BOOL && i < each.n; i++) out->i |= x->kind == V_INT && each.ints[i] == x->i;
    return TN_OK;
}

/* The second is not looked at when the first decides: it may make no sense then. */
static tn_status logical(const Expr *e, Match *m, const Val *a, Val *out) {
    bool decided = e->op == '&' ? a->kind != V_BOOL || !a->i : is_true(a);
    *out = e->op == '&' && a->kind != V_BOOL ? unknown : *a;
    return decided ? TN_OK : expr_eval(e->args[1], m, out);
}

static tn_status eval_binary(const Expr *e, Match *m, Val *out) {
    Val a, b;
    TRY(expr_eval(e->args[0], m, &a));
    if (e->op == '&' || e->op == '|') return logical(e, m, &a, out);
    if (e->op == 'i') return is_among(e->args[1], m, &a, out);
    TRY(expr_eval(e->args[1], m, &b));
    if (e->op == '+' && is_list(&a) && is_list(&b)) return join(m, &a, &b, out);
    *out = strchr("+-*/", e->op) ? arithmetic(e->op, &a, &b) : compare(e->op, &a, &b);
    return TN_OK;
}

static tn_status eval_list(const Expr *e, Match *m, Val *out) {
    int64_t *ints;
    bool all_ints = true;
    double *floats = arena_array(m->arena, double, e->n + 1);
    TRY(new_ints(m->arena, e->n, &ints, out));
    if (!floats) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < e->n; i++) {
        Val v;
        TRY(expr_eval(e->args[i], m, &v));
        if (!is_number(&v)) {
            *out = unknown;
            return TN_OK;
        }
        all_ints &= v.kind == V_INT;
        ints[i] = v.i;
        floats[i] = number_of(&v);
    }
    if (!all_ints) *out = (Val){.kind = V_FLOATS, .n = e->n, .floats = floats};
    return TN_OK;
}

static tn_status eval_index(const Expr *e, Match *m, Val *out) {
    Val list, at;
    TRY(expr_eval(e->args[0], m, &list));
    TRY(expr_eval(e->args[1], m, &at));
    *out = unknown;
    if (at.kind != V_INT || (list.kind != V_INTS && list.kind != V_FLOATS)) return TN_OK;
    int64_t i = at.i < 0 ? at.i + (int64_t)list.n : at.i;
    if (i < 0 || i >= (int64_t)list.n) return TN_OK;
    *out = list.kind == V_INTS ? val_int(list.ints[i]) : val_float(list.floats[i]);
    return TN_OK;
}

static tn_status eval_call(const Expr *e, Match *m, Val *out) {
    Val args[4]; /* more are values, of which nothing is computed */
    for (size_t i = 0; i < e->n && i < 4; i++)
        if (e->args[i]->kind != EXPR_VALUE) TRY(expr_eval(e->args[i], m, &args[i]));
    return e->function->call(e, m, args, out);
}

/* Recursion is bounded by RULE_DEPTH. */
tn_status expr_eval(const Expr *e, Match *m, Val *out) {
    *out = unknown;
    switch (e->kind) {
    case EXPR_NUMBER: *out = e->is_float ? val_float(e->f) : val_int(e->i); return TN_OK;
    case EXPR_STRING: *out = (Val){.kind = V_STRING, .s = e->text}; return TN_OK;
    case EXPR_NONE: *out = (Val){.kind = V_NONE}; return TN_OK;
    case EXPR_VAR: *out = m->var_bound[e->var] ? m->vars[e->var] : unknown; return TN_OK;
    case EXPR_VALUE: return val_of_constant(value_constant(m->values[e->var]), m->arena, out);
    case EXPR_LIST: return eval_list(e, m, out);
    case EXPR_CALL: return eval_call(e, m, out);
    case EXPR_BINARY: return eval_binary(e, m, out);
    case EXPR_INDEX: return eval_index(e, m, out);
    case EXPR_NOT:
        TRY(expr_eval(e->args[0], m, out));
        *out = out->kind == V_BOOL ? val_bool(!out->i) : unknown;
        return TN_OK;
    case EXPR_NEGATE: {
        Val zero = val_int(0), x;
        TRY(expr_eval(e->args[0], m, &x));
        *out = x.kind == V_FLOAT ? val_float(-x.f) : arithmetic('-', &zero, &x);
        return TN_OK;
    }
    }
    return TN_OK;
}
