/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of rules: what they ask about values, and what they make of lists. */
#include "rewrite/function_int.h"

#include <math.h>
#include <stdlib.h>

/* ---- functions that ask about values ------------------------------------------------------------------------- */

static Value *value_at(const Expr *e, const Match *m, size_t i) { return m->values[e->args[i]->var]; }
static const Shape *shape_at(const Expr *e, const Match *m, size_t i) {
    const Value *v = value_at(e, m, i);
    return v && v->type->kind == TYPE_TENSOR && v->type->shape.rank >= 0 ? &v->type->shape : NULL;
}

/* All that are there are constant, or will be once what rules wrote is folded. */
static tn_status fn_const(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    bool all = true;
    for (size_t i = 0; i < e->n && all; i++) {
        const Value *v = value_at(e, m, i);
        all = !value_varies(m->varies, m->n_varies, v) && value_is_constant(v);
    }
    *out = val_bool(all);
    return TN_OK;
}

static tn_status fn_present(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    *out = val_bool(value_at(e, m, 0) != NULL);
    return TN_OK;
}

static tn_status fn_rank(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Shape *s = shape_at(e, m, 0);
    *out = s ? val_int(s->rank) : unknown;
    return TN_OK;
}

static tn_status fn_dim(const Expr *e, Match *m, const Val *args, Val *out) {
    const Shape *s = shape_at(e, m, 0);
    *out = unknown;
    if (!s || args[1].kind != V_INT) return TN_OK;
    int64_t i = args[1].i < 0 ? args[1].i + s->rank : args[1].i;
    if (i >= 0 && i < s->rank && s->dims[i] != DIM_UNKNOWN) *out = val_int(s->dims[i]);
    return TN_OK;
}

/* Known when every size is at least a symbol. */
static tn_status fn_shape(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Shape *s = shape_at(e, m, 0);
    int64_t *data;
    *out = unknown;
    for (int i = 0; s && i < s->rank; i++)
        if (s->dims[i] == DIM_UNKNOWN) return TN_OK;
    if (!s) return TN_OK;
    TRY(new_ints(m->arena, (size_t)s->rank, &data, out));
    for (int i = 0; i < s->rank; i++) data[i] = s->dims[i];
    return TN_OK;
}

/* tail(%x, n): the last n sizes; those before them need not be known. */
static tn_status fn_tail(const Expr *e, Match *m, const Val *args, Val *out) {
    const Shape *s = shape_at(e, m, 0);
    int64_t *data, n = args[1].kind == V_INT ? args[1].i : -1;
    *out = unknown;
    if (!s || n < 0 || n > s->rank) return TN_OK;
    for (int64_t i = s->rank - n; i < s->rank; i++)
        if (s->dims[i] == DIM_UNKNOWN) return TN_OK;
    TRY(new_ints(m->arena, (size_t)n, &data, out));
    for (int64_t i = 0; i < n; i++) data[i] = s->dims[s->rank - n + i];
    return TN_OK;
}

static tn_status fn_dtype(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Value *v = value_at(e, m, 0);
    *out = unknown;
    if (v && v->type->kind == TYPE_TENSOR && v->type->dtype)
        *out = (Val){.kind = V_STRING, .s = str_of(dtype_name(v->type->dtype))};
    return TN_OK;
}

static tn_status fn_is_float(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Value *v = value_at(e, m, 0);
    *out = v && v->type->dtype ? val_bool(dtype_is_float(v->type->dtype)) : unknown;
    return TN_OK;
}

static tn_status fn_one_use(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    *out = val_bool(value_at(e, m, 0) && value_has_one_use(value_at(e, m, 0)));
    return TN_OK;
}

static tn_status fn_value(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    return val_of_constant(value_constant(value_at(e, m, 0)), m->arena, out);
}

/* The number that all elements are. */
static tn_status fn_splat(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Tensor *t = value_constant(value_at(e, m, 0));
    double first;
    *out = unknown;
    if (!t || t->kind != TYPE_TENSOR || tensor_count(t) == 0 || !t->data) return TN_OK;
    if (!is_integer(t->dtype) && !dtype_is_float(t->dtype)) return TN_OK;
    load_f64(&first, t->dtype, t->data, t->offset, 1, 1);
    Expr number = {.kind = EXPR_NUMBER, .is_float = true, .f = first};
    if (constant_is(t, &number)) *out = val_float(first);
    out->dtype = t->dtype;
    return TN_OK;
}

/* The same rank and sizes, proven. */
static tn_status fn_same_shape(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Shape *a = shape_at(e, m, 0), *b = shape_at(e, m, 1);
    bool same = a && b && a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i] && a->dims[i] != DIM_UNKNOWN;
    *out = val_bool(same);
    return TN_OK;
}

/* The first may be broadcast to the second's shape, which stays as it is: proven. */
static tn_status fn_broadcasts(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Shape *a = shape_at(e, m, 0), *b = shape_at(e, m, 1);
    bool fits = a && b && a->rank <= b->rank;
    for (int i = 0; fits && i < a->rank; i++) {
        Dim d = a->dims[i], to = b->dims[b->rank - a->rank + i];
        fits = d == 1 || (d == to && d != DIM_UNKNOWN);
    }
    *out = val_bool(fits);
    return TN_OK;
}

/* The product of all sizes, where they are numbers. */
static tn_status fn_count(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Shape *s = shape_at(e, m, 0);
    int64_t n;
    *out = unknown;
    if (s && shape_is_known(s) && checked_count(s->rank, s->dims, &n) == TN_OK) *out = val_int(n);
    return TN_OK;
}

static tn_status fn_same_value(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    *out = val_bool(value_at(e, m, 0) == value_at(e, m, 1));
    return TN_OK;
}

/* Whether two such numbers, or one of them over another, make one that is neither infinite nor short of digits. Zeros may
   be among them, and integers wrap around whatever they are. */
static int moderate_exponent(tn_dtype t) {
    switch (t) {
    case TN_F64: return 500;
    case TN_F32:
    case TN_BF16: return 60;
    case TN_F16: return 6;
    default: return -1;
    }
}

static bool is_moderate_number(double x, int most) { return x == 0 || (isfinite(x) && abs(ilogb(x)) <= most); }

/* Whether 1/x is exact, and not subnormal. */
static bool has_exact_inverse(double x, int most) {
    int exponent;
    return is_moderate_number(x, most) && fabs(frexp(x, &exponent)) == 0.5;
}

static bool is_divisor_number(double x, int most) { return x != 0 && is_moderate_number(x, most); }

static tn_status all_numbers(const Expr *e, Match *m, bool (*fits)(double x, int most), Val *out) {
    const Tensor *t = value_constant(value_at(e, m, 0));
    *out = unknown;
    if (!t || t->kind != TYPE_TENSOR || (!t->data && tensor_count(t) > 0)) return TN_OK;
    int most = moderate_exponent(t->dtype);
    *out = val_bool(most > 0);
    for (TensorRows r = tensor_rows(t); most > 0 && tensor_next_row(&r);)
        for (int64_t i = 0; i < r.n && out->i; i++) {
            double x;
            load_f64(&x, t->dtype, t->data, r.offset + i * r.stride, 1, 1);
            out->i = fits(x, most);
        }
    return TN_OK;
}

static tn_status fn_is_moderate(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    const Value *v = value_at(e, m, 0);
    if (v && is_integer(v->type->dtype)) {
        *out = val_bool(true);
        return TN_OK;
    }
    return all_numbers(e, m, is_moderate_number, out);
}

/* Moderate, and nowhere 0. */
static tn_status fn_is_divisor(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    return all_numbers(e, m, is_divisor_number, out);
}

static tn_status fn_is_power_of_two(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    return all_numbers(e, m, has_exact_inverse, out);
}

static bool is_single_number(double x, int most) {
    (void)most;
    return (double)(float)x == x;
}

/* Such as f32 holds, and with it attributes. */
static tn_status fn_is_single(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)args;
    return all_numbers(e, m, is_single_number, out);
}

static double number_at(const Tensor *t, int64_t i) {
    double x;
    load_f64(&x, t->dtype, t->data, t->offset, 1, 1);
    if (tensor_count(t) > 1) load_f64(&x, t->dtype, t->data, t->offset + i * t->strides[0], 1, 1);
    return x;
}

/* is_product(%c, %a, %b): each number of the constant is that of the other two in its place, to a few bits of f32. They are
   numbers or vectors. */
static tn_status fn_is_product(const Expr *e, Match *m, const Val *args, Val *out) {
    const Tensor *t[3];
    (void)args;
    *out = unknown;
    for (size_t i = 0; i < 3; i++) {
        t[i] = value_constant(value_at(e, m, i));
        bool fits = t[i] && t[i]->kind == TYPE_TENSOR && t[i]->data && dtype_is_float(t[i]->dtype) && t[i]->rank <= 1;
        if (!fits || tensor_count(t[i]) < 1) return TN_OK;
    }
    int64_t n = tensor_count(t[0]), n_a = tensor_count(t[1]), n_b = tensor_count(t[2]);
    *out = val_bool((n_a == n || n_a == 1) && (n_b == n || n_b == 1));
    for (int64_t i = 0; i < n && out->i; i++) {
        double product = number_at(t[1], i) * number_at(t[2], i);
        out->i = fabs(number_at(t[0], i) - product) <= 1e-6 * fabs(product);
    }
    return TN_OK;
}

/* ---- functions on lists -------------------------------------------------------------------------------------- */

static tn_status fn_len(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    *out = args[0].kind == V_INTS || args[0].kind == V_FLOATS ? val_int((int64_t)args[0].n) : unknown;
    return TN_OK;
}

static tn_status fn_prod(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    int64_t product = 1;
    *out = unknown;
    if (!all_plain(&args[0])) return TN_OK;
    for (size_t i = 0; i < args[0].n; i++)
        if (mul_overflows(product, args[0].ints[i], &product)) return TN_OK;
    *out = val_int(product);
    return TN_OK;
}

static tn_status fn_sum(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    int64_t sum = 0;
    *out = unknown;
    if (!all_plain(&args[0])) return TN_OK;
    for (size_t i = 0; i < args[0].n; i++)
        if (add_overflows(sum, args[0].ints[i], &sum)) return TN_OK;
    *out = val_int(sum);
    return TN_OK;
}

/* Whether every element is this. */
static tn_status fn_all(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    const Val *list = &args[0];
    bool lists = list->kind == V_INTS || list->kind == V_FLOATS;
    *out = lists && is_number(&args[1]) ? val_bool(true) : unknown;
    for (size_t i = 0; lists && i < list->n; i++)
        if (element_of(list, i) != number_of(&args[1])) out->i = out->kind == V_BOOL ? 0 : out->i;
    return TN_OK;
}

static bool is_permutation(const Val *p) {
    uint64_t seen = 0;
    if (p->kind != V_INTS || p->n > LIST_MAX - 1) return false;
    for (size_t i = 0; i < p->n; i++) {
        if (p->ints[i] < 0 || p->ints[i] >= (int64_t)p->n || seen >> p->ints[i] & 1) return false;
        seen |= (uint64_t)1 << p->ints[i];
    }
    return true;
}

/* permute(list, perm): out[i] = list[perm[i]]. Of two permutations: what Transpose(Transpose(x, list), perm) does. */
static tn_status fn_permute(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    int64_t *data;
    *out = unknown;
    if (args[0].kind != V_INTS || !is_permutation(&args[1]) || args[0].n != args[1].n) return TN_OK;
    TRY(new_ints(m->arena, args[0].n, &data, out));
    for (size_t i = 0; i < args[0].n; i++) data[i] = args[0].ints[args[1].ints[i]];
    return TN_OK;
}

static tn_status fn_inverse(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    int64_t *data;
    *out = unknown;
    if (!is_permutation(&args[0])) return TN_OK;
    TRY(new_ints(m->arena, args[0].n, &data, out));
    for (size_t i = 0; i < args[0].n; i++) data[args[0].ints[i]] = (int64_t)i;
    return TN_OK;
}

static tn_status fn_iota(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    int64_t *data;
    *out = unknown;
    if (args[0].kind != V_INT || args[0].i < 0 || args[0].i > LIST_MAX) return TN_OK;
    TRY(new_ints(m->arena, (size_t)args[0].i, &data, out));
    for (int64_t i = 0; i < args[0].i; i++) data[i] = i;
    return TN_OK;
}

/* filled(n, x): n times x. */
static tn_status fn_filled(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    int64_t *data;
    *out = unknown;
    if (args[0].kind != V_INT || !is_number(&args[1]) || args[0].i < 0 || args[0].i > LIST_MAX) return TN_OK;
    size_t n = (size_t)args[0].i;
    double *reals = arena_array(m->arena, double, n + 1);
    TRY(new_ints(m->arena, n, &data, out));
    if (!reals) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) data[i] = args[1].i, reals[i] = args[1].f;
    if (args[1].kind == V_FLOAT) *out = (Val){.kind = V_FLOATS, .n = n, .floats = reals};
    return TN_OK;
}

static tn_status fn_slice(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    *out = unknown;
    if (args[0].kind != V_INTS || args[1].kind != V_INT || args[2].kind != V_INT) return TN_OK;
    int64_t n = (int64_t)args[0].n, from = args[1].i < 0 ? args[1].i + n : args[1].i,
            to = args[2].i < 0 ? args[2].i + n : min_i64(args[2].i, n);
    if (from < 0 || from > n || to < from) return TN_OK;
    *out = (Val){.kind = V_INTS, .n = (size_t)(to - from), .ints = args[0].ints + from};
    return TN_OK;
}

/* with(list, i, x): the list, but x at place i. */
static tn_status fn_with(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    int64_t *data;
    *out = unknown;
    if (args[0].kind != V_INTS || args[1].kind != V_INT || args[2].kind != V_INT) return TN_OK;
    int64_t i = args[1].i < 0 ? args[1].i + (int64_t)args[0].n : args[1].i;
    if (i < 0 || i >= (int64_t)args[0].n) return TN_OK;
    TRY(new_ints(m->arena, args[0].n, &data, out));
    memcpy(data, args[0].ints, args[0].n * sizeof *data);
    data[i] = args[2].i;
    return TN_OK;
}

static int by_value(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* axes(list, rank): none negative, in order; none: all of them. */
static tn_status fn_axes(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    int64_t *data;
    *out = unknown;
    if (args[1].kind != V_INT || args[1].i < 0 || args[1].i > TN_MAX_RANK) return TN_OK;
    bool all = args[0].kind == V_NONE, one = args[0].kind == V_INT;
    if (!all && !one && !all_plain(&args[0])) return TN_OK;
    size_t n = all ? (size_t)args[1].i : one ? 1 : args[0].n;
    TRY(new_ints(m->arena, n, &data, out));
    for (size_t i = 0; i < n; i++) {
        int64_t axis = all ? (int64_t)i : one ? args[0].i : args[0].ints[i];
        data[i] = axis < 0 ? axis + args[1].i : axis;
        if (data[i] < 0 || data[i] >= args[1].i) *out = unknown;
    }
    for (size_t i = 1; i < n; i++) /* few */
        for (size_t k = i; k > 0 && by_value(&data[k - 1], &data[k]) > 0; k--) {
            int64_t t = data[k];
            data[k] = data[k - 1];
            data[k - 1] = t;
        }
    return TN_OK;
}

/* channels_first(r): [-1, 1, ...] of length r, the shape that a vector takes over the first of r dimensions; channels(r):
   [1, -1, 1, ...], over the second. */
static tn_status vector_shape(const Val *rank, int64_t axis, Match *m, Val *out) {
    int64_t *data;
    *out = unknown;
    if (rank->kind != V_INT || rank->i <= axis || rank->i > TN_MAX_RANK) return TN_OK;
    TRY(new_ints(m->arena, (size_t)rank->i, &data, out));
    for (int64_t i = 0; i < rank->i; i++) data[i] = i == axis ? -1 : 1;
    return TN_OK;
}

static tn_status fn_channels_first(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    return vector_shape(&args[0], 0, m, out);
}

static tn_status fn_channels(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    return vector_shape(&args[0], 1, m, out);
}

static tn_status fn_else(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    *out = args[0].kind == V_NONE ? args[1] : args[0];
    return TN_OK;
}

static tn_status fn_is_permutation(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    *out = val_bool(is_permutation(&args[0]));
    return TN_OK;
}

/* pick(list, places): the elements there, from the end where a place is negative. */
static tn_status fn_pick(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    int64_t *data;
    *out = unknown;
    if (args[0].kind != V_INTS || !all_plain(&args[1])) return TN_OK;
    TRY(new_ints(m->arena, args[1].n, &data, out));
    for (size_t i = 0; i < args[1].n; i++) {
        int64_t at = args[1].ints[i] < 0 ? args[1].ints[i] + (int64_t)args[0].n : args[1].ints[i];
        bool there = at >= 0 && at < (int64_t)args[0].n;
        if (!there) *out = unknown;
        data[i] = there ? args[0].ints[at] : 0;
    }
    return TN_OK;
}

/* Element by element. */
static tn_status combine(Match *m, const Val *a, const Val *b, bool (*fn)(int64_t, int64_t, int64_t *), Val *out) {
    int64_t *data;
    *out = unknown;
    if (!all_plain(a) || !all_plain(b) || a->n != b->n) return TN_OK;
    TRY(new_ints(m->arena, a->n, &data, out));
    for (size_t i = 0; i < a->n; i++)
        if (fn(a->ints[i], b->ints[i], &data[i])) *out = unknown;
    return TN_OK;
}

static bool add_ints(int64_t a, int64_t b, int64_t *out) { return add_overflows(a, b, out); }
static bool subtract_ints(int64_t a, int64_t b, int64_t *out) { return sub_overflows(a, b, out); }

static tn_status fn_plus(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    return combine(m, &args[0], &args[1], add_ints, out);
}

static tn_status fn_minus(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    return combine(m, &args[0], &args[1], subtract_ints, out);
}

static tn_status fn_least(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    *out = unknown;
    if (!all_plain(&args[0]) || args[0].n == 0) return TN_OK;
    *out = val_int(args[0].ints[0]);
    for (size_t i = 1; i < args[0].n; i++) out->i = min_i64(out->i, args[0].ints[i]);
    return TN_OK;
}

static bool is_in(const Val *list, int64_t x) {
    for (size_t i = 0; i < list->n; i++)
        if (list->ints[i] == x) return true;
    return false;
}

/* Whether no element is in both. */
static tn_status fn_disjoint(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    *out = unknown;
    if (!all_plain(&args[0]) || !all_plain(&args[1])) return TN_OK;
    *out = val_bool(true);
    for (size_t i = 0; i < args[0].n; i++) out->i &= !is_in(&args[1], args[0].ints[i]);
    return TN_OK;
}

/* Whether each element is one more than that before it. */
static tn_status fn_is_range(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    *out = unknown;
    if (!all_plain(&args[0])) return TN_OK;
    *out = val_bool(args[0].n > 0);
    for (size_t i = 1; i < args[0].n; i++) out->i &= args[0].ints[i] - 1 == args[0].ints[i - 1];
    return TN_OK;
}

/* without(perm, axes): how what is left is permuted when the result's dimensions `axes` are dropped. */
static tn_status fn_without(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    const Val *perm = &args[0], *axes = &args[1];
    int64_t *data;
    *out = unknown;
    if (!is_permutation(perm) || !all_plain(axes)) return TN_OK;
    TRY(new_ints(m->arena, perm->n, &data, out));
    out->n = 0;
    for (size_t i = 0; i < perm->n; i++) {
        if (is_in(axes, (int64_t)i)) continue;
        int64_t gone = 0;
        for (size_t k = 0; k < perm->n; k++) gone += perm->ints[k] < perm->ints[i] && is_in(axes, (int64_t)k);
        data[out->n++] = perm->ints[i] - gone;
    }
    return TN_OK;
}

/* keeps_order(perm, sizes): whether only dimensions of size 1 change their places among the others. */
static tn_status fn_keeps_order(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    int64_t last = -1;
    *out = unknown;
    if (!is_permutation(&args[0]) || args[1].kind != V_INTS || args[0].n != args[1].n) return TN_OK;
    *out = val_bool(true);
    for (size_t i = 0; i < args[0].n; i++) {
        int64_t from = args[0].ints[i];
        if (args[1].ints[from] == 1) continue;
        out->i &= from > last;
        last = from;
    }
    return TN_OK;
}

/* Sizes as Reshape takes them: one may be an expression. A 0 would mean another thing there. */
static tn_status fn_target(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e;
    int64_t *data, n_open = 0;
    *out = unknown;
    if (args[0].kind != V_INTS) return TN_OK;
    TRY(new_ints(m->arena, args[0].n, &data, out));
    for (size_t i = 0; i < args[0].n; i++) {
        bool open = !dim_is_const(args[0].ints[i]);
        data[i] = open ? -1 : args[0].ints[i];
        n_open += open;
        if (data[i] == 0 || n_open > 1) *out = unknown;
    }
    return TN_OK;
}

static tn_status unary(const Val *x, double (*fn)(double), Val *out) {
    *out = is_number(x) ? val_float(fn(number_of(x))) : unknown;
    return TN_OK;
}
static tn_status fn_sqrt(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    return unary(&args[0], sqrt, out);
}
static tn_status fn_abs(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    return unary(&args[0], fabs, out);
}

/* Of a bound that is there and none: the bound. */
static tn_status extreme(const Val *a, const Val *b, bool largest, Val *out) {
    if (a->kind == V_NONE) *out = is_number(b) || b->kind == V_NONE ? *b : unknown;
    else if (b->kind == V_NONE) *out = is_number(a) ? *a : unknown;
    else *out = unknown;
    if (a->kind == V_NONE || b->kind == V_NONE) return TN_OK;
    if (!is_number(a) || !is_number(b) || !is_plain(a) || !is_plain(b)) return TN_OK;
    if (isnan(number_of(a)) || isnan(number_of(b))) return TN_OK;
    *out = (number_of(a) >= number_of(b)) == largest ? *a : *b;
    return TN_OK;
}
static tn_status fn_max(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    return extreme(&args[0], &args[1], true, out);
}
static tn_status fn_min(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    return extreme(&args[0], &args[1], false, out);
}
static tn_status fn_mod(const Expr *e, Match *m, const Val *args, Val *out) {
    (void)e, (void)m;
    bool fits = args[0].kind == V_INT && args[1].kind == V_INT && is_plain(&args[0]) && args[1].i > 0 &&
                is_plain(&args[1]);
    *out = fits ? val_int((args[0].i % args[1].i + args[1].i) % args[1].i) : unknown;
    return TN_OK;
}

static const Function functions[] = {
    {"abs", 1, false, fn_abs},
    {"all", 2, false, fn_all},
    {"axes", 2, false, fn_axes},
    {"broadcasts", 2, true, fn_broadcasts},
    {"channels", 1, false, fn_channels},
    {"channels_first", 1, false, fn_channels_first},
    {"const", SIZE_MAX, true, fn_const},
    {"count", 1, true, fn_count},
    {"dim", 2, true, fn_dim},
    {"disjoint", 2, false, fn_disjoint},
    {"dtype", 1, true, fn_dtype},
    {"filled", 2, false, fn_filled},
    {"inverse", 1, false, fn_inverse},
    {"iota", 1, false, fn_iota},
    {"is_causal", 1, true, fn_is_causal},
    {"is_divisor", 1, true, fn_is_divisor},
    {"is_float", 1, true, fn_is_float},
    {"is_moderate", 1, true, fn_is_moderate},
    {"is_permutation", 1, false, fn_is_permutation},
    {"is_power_of_two", 1, true, fn_is_power_of_two},
    {"is_product", 3, true, fn_is_product},
    {"is_range", 1, false, fn_is_range},
    {"is_single", 1, true, fn_is_single},
    {"keeps_order", 2, false, fn_keeps_order},
    {"least", 1, false, fn_least},
    {"len", 1, false, fn_len},
    {"max", 2, false, fn_max},
    {"min", 2, false, fn_min},
    {"minus", 2, false, fn_minus},
    {"mod", 2, false, fn_mod},
    {"one_use", 1, true, fn_one_use},
    {"or_else", 2, false, fn_else},
    {"permute", 2, false, fn_permute},
    {"pick", 2, false, fn_pick},
    {"plus", 2, false, fn_plus},
    {"present", 1, true, fn_present},
    {"prod", 1, false, fn_prod},
    {"rank", 1, true, fn_rank},
    {"repeats", 1, true, fn_repeats},
    {"same_shape", 2, true, fn_same_shape},
    {"same_size", 4, true, fn_same_size},
    {"same_value", 2, true, fn_same_value},
    {"shape", 1, true, fn_shape},
    {"slice", 3, false, fn_slice},
    {"splat", 1, true, fn_splat},
    {"sqrt", 1, false, fn_sqrt},
    {"sum", 1, false, fn_sum},
    {"tail", 2, true, fn_tail},
    {"target", 1, false, fn_target},
    {"value", 1, true, fn_value},
    {"with", 3, false, fn_with},
    {"without", 2, false, fn_without},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

const Function *function_find(Str name, size_t *n_args, bool *takes_values) {
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        if (name.n == 0 || name.s[0] != *functions[i].name || !str_equal(name, str_of(functions[i].name))) continue;
        *n_args = functions[i].n_args;
        *takes_values = functions[i].takes_values;
        return &functions[i];
    }
    return NULL;
}

bool function_is_const(const Function *f) { return f->call == fn_const; }
bool function_is_rank(const Function *f) { return f->call == fn_rank; }
bool function_is_splat(const Function *f) { return f->call == fn_splat; }

void function_names(const char **names, size_t *n) {
    size_t k = 0;
    for (size_t i = 0; i < N_FUNCTIONS && k < *n; i++) names[k++] = functions[i].name;
    *n = k;
}
