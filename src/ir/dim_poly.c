/* SPDX-License-Identifier: Apache-2.0 */
/* Simplifies dimensions. A sum of products is brought into one form: a polynomial over atoms (symbols, quotients,
   remainders, minima, maxima) with sorted terms. Every step is exact over the integers, division rounding down. */
#include "ir/ir_int.h"

/* Beyond these bounds a dimension is unknown. */
enum { POLY_DEGREE = 12, POLY_TERMS = 32 };

typedef struct Term {
    int64_t coef; /* not 0 */
    int n;
    Dim f[POLY_DEGREE]; /* sorted atoms, repeated for powers */
} Term;

/* Terms in falling lexicographic order, so a constant is the last. */
typedef struct Poly {
    int n;
    bool failed; /* overflow, or too many terms: the value is not known */
    Term t[POLY_TERMS];
} Poly;

/* An order of expressions that depends on what they say only, not on when they were made. Constants come last. Interned:
   only different expressions are descended into, and only along one path. */
static int dim_compare(const DimTable *table, Dim a, Dim b) {
    for (;;) {
        if (a == b) return 0;
        const DimExpr *x = dim_expr(table, a), *y = dim_expr(table, b);
        if (!x && !y) return a < b ? -1 : 1;
        if (!x || !y) return x ? -1 : 1;
        if (x->op != y->op) return x->op < y->op ? -1 : 1;
        if (x->op == DIM_SYMBOL) {
            size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
            int c = n ? memcmp(x->name.s, y->name.s, n) : 0;
            return c ? c : x->name.n < y->name.n ? -1 : 1;
        }
        bool same = x->a == y->a;
        a = same ? x->b : x->a;
        b = same ? y->b : y->a;
    }
}

/* ---- polynomials --------------------------------------------------------------------------------------------- */

/* Lexicographic: more of the first atom is greater. Compatible with multiplication, as division needs. */
static int compare_products(const DimTable *table, const Term *x, const Term *y) {
    for (int i = 0; i < x->n && i < y->n; i++) {
        int c = dim_compare(table, x->f[i], y->f[i]);
        if (c) return -c;
    }
    return x->n - y->n;
}

static void poly_add_term(const DimTable *table, Poly *p, const Term *term) {
    if (term->coef == 0 || p->failed) return;
    int i = 0, c = -1;
    while (i < p->n && (c = compare_products(table, &p->t[i], term)) > 0) i++;
    if (i < p->n && c == 0) {
        if (add_overflows(p->t[i].coef, term->coef, &p->t[i].coef)) p->failed = true;
        else if (p->t[i].coef == 0) memmove(&p->t[i], &p->t[i + 1], (size_t)(--p->n - i) * sizeof *p->t);
        return;
    }
    if (p->n == POLY_TERMS) {
        p->failed = true;
        return;
    }
    memmove(&p->t[i + 1], &p->t[i], (size_t)(p->n++ - i) * sizeof *p->t);
    p->t[i] = *term;
}

static void poly_add_const(const DimTable *table, Poly *p, int64_t c) {
    Term term = {.coef = c};
    poly_add_term(table, p, &term);
}

static void poly_add_atom(const DimTable *table, Poly *p, Dim atom) {
    if (atom == DIM_UNKNOWN) p->failed = true;
    Term term = {.coef = 1, .n = 1, .f = {atom}};
    poly_add_term(table, p, &term);
}

/* p += factor * q */
static void poly_add_scaled(const DimTable *table, Poly *p, const Poly *q, int64_t factor) {
    p->failed |= q->failed;
    for (int i = 0; i < q->n; i++) {
        Term term = q->t[i];
        if (mul_overflows(term.coef, factor, &term.coef)) p->failed = true;
        poly_add_term(table, p, &term);
    }
}

static bool term_multiply(const DimTable *table, const Term *x, const Term *y, Term *out) {
    if (x->n + y->n > POLY_DEGREE || mul_overflows(x->coef, y->coef, &out->coef)) return false;
    out->n = x->n + y->n;
    for (int i = 0, j = 0, k = 0; k < out->n; k++) {
        bool first = j == y->n || (i < x->n && dim_compare(table, x->f[i], y->f[j]) <= 0);
        out->f[k] = first ? x->f[i++] : y->f[j++];
    }
    return true;
}

/* p += x * q */
static void poly_add_product(const DimTable *table, Poly *p, const Term *x, const Poly *q) {
    for (int i = 0; i < q->n && !p->failed; i++) {
        Term term;
        if (term_multiply(table, x, &q->t[i], &term)) poly_add_term(table, p, &term);
        else p->failed = true;
    }
}

/* A product as poly_write leaves it: ((f * f) * f) * coefficient. */
static void read_term(const DimTable *table, Dim d, int64_t sign, Poly *p) {
    Term term = {.coef = sign}, factor, product;
    for (bool more = true; more;) {
        const DimExpr *e = dim_expr(table, d);
        more = e && e->op == DIM_MUL;
        Dim f = more ? e->b : d;
        bool constant = dim_is_const(f);
        factor = (Term){.coef = constant ? f : 1, .n = !constant};
        if (!constant) factor.f[0] = f;
        if (!term_multiply(table, &term, &factor, &product)) {
            p->failed = true;
            return;
        }
        term = product;
        if (more) d = e->a;
    }
    poly_add_term(table, p, &term);
}

static void poly_read(const DimTable *table, Dim d, Poly *p) {
    p->n = 0;
    p->failed = false;
    const DimExpr *e;
    while ((e = dim_expr(table, d)) && (e->op == DIM_ADD || e->op == DIM_SUB)) {
        read_term(table, e->b, e->op == DIM_ADD ? 1 : -1, p);
        d = e->a;
    }
    read_term(table, d, 1, p);
}

static Dim write_term(DimTable *table, const Term *term, int64_t coef) {
    if (term->n == 0) return dim_is_const(coef) ? coef : DIM_UNKNOWN;
    Dim d = term->f[0];
    for (int i = 1; i < term->n; i++) d = dim_intern(table, DIM_MUL, d, term->f[i]);
    return coef == 1 ? d : dim_intern(table, DIM_MUL, d, dim_is_const(coef) ? coef : DIM_UNKNOWN);
}

/* The first positive term stands first, so nothing starts with a minus sign; 0 does where all are negative. */
static Dim poly_write(DimTable *table, const Poly *p) {
    if (p->failed) return DIM_UNKNOWN;
    if (p->n == 1 && p->t[0].n == 0) return write_term(table, &p->t[0], p->t[0].coef);
    int first = 0;
    while (first < p->n && p->t[first].coef < 0) first++;
    Dim d = first < p->n ? write_term(table, &p->t[first], p->t[first].coef) : 0;
    for (int i = 0; i < p->n; i++) {
        int64_t c = p->t[i].coef;
        if (i == first) continue;
        if (c == INT64_MIN) return DIM_UNKNOWN;
        Dim term = write_term(table, &p->t[i], c < 0 ? -c : c);
        d = dim_intern(table, c < 0 ? DIM_SUB : DIM_ADD, d, term);
    }
    return d;
}

static bool poly_is_const(const Poly *p, int64_t *c) {
    if (p->failed || p->n > 1 || (p->n == 1 && p->t[0].n > 0)) return false;
    *c = p->n ? p->t[0].coef : 0;
    return true;
}

/* ---- division ------------------------------------------------------------------------------------------------ */

/* x / y, where that is a term. */
static bool term_divide(const Term *x, const Term *y, Term *out) {
    if (y->coef == -1 ? x->coef == INT64_MIN : x->coef % y->coef != 0) return false;
    *out = (Term){.coef = x->coef / y->coef};
    int j = 0;
    for (int i = 0; i < x->n; i++) {
        if (j < y->n && x->f[i] == y->f[j]) j++;
        else out->f[out->n++] = x->f[i];
    }
    return j == y->n;
}

/* r = p / q where the division leaves nothing: by leading terms. */
static bool poly_divide(const DimTable *table, const Poly *p, const Poly *q, Poly *r) {
    r->n = 0;
    r->failed = false;
    if (q->n == 0) return false;
    Poly rest = *p;
    /* Each turn removes the leading term for good; the bound is for products that grow in between. */
    for (int turn = 0; rest.n > 0; turn++) {
        Term t;
        if (turn == 2 * POLY_TERMS || !term_divide(&rest.t[0], &q->t[0], &t)) return false;
        poly_add_term(table, r, &t);
        if (t.coef == INT64_MIN) return false;
        t.coef = -t.coef;
        poly_add_product(table, &rest, &t, q);
        if (rest.failed || r->failed) return false;
    }
    return true;
}

static uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static uint64_t poly_gcd(const Poly *p, uint64_t g, bool with_constant) {
    for (int i = 0; i < p->n; i++)
        if (with_constant || p->t[i].n > 0) g = gcd(g, magnitude(p->t[i].coef));
    return g;
}

static bool divides_all(const Term *t, const Poly *p) {
    Term quotient;
    for (int i = 0; i < p->n; i++)
        if (!term_divide(&p->t[i], t, &quotient)) return false;
    return true;
}

static void divide_all(const Term *t, Poly *p) {
    for (int i = 0; i < p->n; i++) {
        Term quotient;
        (void)term_divide(&p->t[i], t, &quotient);
        p->t[i] = quotient;
    }
}

/* Cancels what all terms of both have in common; the divisor's leading coefficient becomes positive. That is exact
   wherever the quotient is defined at all. */
static void cancel_common(Poly *p, Poly *q) {
    uint64_t g = poly_gcd(p, poly_gcd(q, 0, true), true);
    if (g > INT64_MAX) return;
    Term common = {.coef = q->t[0].coef < 0 ? -(int64_t)g : (int64_t)g};
    if (divides_all(&common, p) && divides_all(&common, q)) {
        divide_all(&common, p);
        divide_all(&common, q);
    }
    Term first = q->t[0];
    for (int i = 0; i < first.n; i++) {
        Term atom = {.coef = 1, .n = 1, .f = {first.f[i]}};
        if (!divides_all(&atom, p) || !divides_all(&atom, q)) continue;
        divide_all(&atom, p);
        divide_all(&atom, q);
    }
}

/* Splits p into c * whole + rest with the coefficients of `rest` in 0..c-1. */
static void split_by(const DimTable *table, const Poly *p, int64_t c, Poly *whole, Poly *rest) {
    rest->n = 0;
    rest->failed = p->failed;
    for (int i = 0; i < p->n; i++) {
        Term term = p->t[i];
        int64_t q = term.coef / c - (term.coef % c < 0);
        int64_t r = term.coef % c + (term.coef % c < 0 ? c : 0);
        term.coef = q;
        if (whole) poly_add_term(table, whole, &term);
        term.coef = r;
        poly_add_term(table, rest, &term);
    }
}

/* Where p is floor(inner / a) + k: floor(p / c) is floor((inner + k*a) / (a*c)). */
static bool merge_nested(const DimTable *table, Poly *p, int64_t *c) {
    if (p->n == 0 || p->n > 2 || p->t[0].n != 1 || p->t[0].coef != 1) return false;
    if (p->n == 2 && p->t[1].n != 0) return false;
    const DimExpr *e = dim_expr(table, p->t[0].f[0]);
    if (!e || e->op != DIM_FLOORDIV || !dim_is_const(e->b) || e->b <= 0) return false;
    int64_t k = p->n == 2 ? p->t[1].coef : 0, product;
    if (mul_overflows(e->b, *c, &product) || mul_overflows(k, e->b, &k)) return false;
    poly_read(table, e->a, p);
    poly_add_const(table, p, k);
    *c = product;
    return true;
}

/* floor(p / c) for c > 0. */
static Dim divide_by_const(DimTable *table, Poly *p, int64_t c) {
    Poly whole = {.n = 0}, rest;
    do {
        split_by(table, p, c, &whole, &rest);
        uint64_t g = poly_gcd(&rest, (uint64_t)c, false);
        int last = rest.n - 1;
        /* All but the constant share g with c: nothing is lost when the constant is rounded down by itself. */
        if (last >= 0 && rest.t[last].n == 0) {
            rest.t[last].coef -= rest.t[last].coef % (int64_t)g;
            if (rest.t[last].coef == 0) rest.n--;
        }
        Term common = {.coef = (int64_t)g};
        divide_all(&common, &rest);
        c /= (int64_t)g;
        *p = rest;
    } while (c > 1 && merge_nested(table, p, &c));
    if (c == 1) poly_add_scaled(table, &whole, p, 1);
    else if (p->n > 0 && (p->n > 1 || p->t[0].n > 0))
        poly_add_atom(table, &whole, dim_intern(table, DIM_FLOORDIV, poly_write(table, p), c));
    return poly_write(table, &whole);
}

static Dim simplify_division(DimTable *table, bool up, Poly *p, Poly *q) {
    Poly exact;
    int64_t c;
    if (q->n == 0) return DIM_UNKNOWN;
    if (p->n == 0) return 0;
    if (poly_divide(table, p, q, &exact)) return poly_write(table, &exact);
    cancel_common(p, q);
    if (poly_is_const(q, &c) && c > 0) {
        if (up) poly_add_const(table, p, c - 1);
        return divide_by_const(table, p, c);
    }
    return dim_intern(table, up ? DIM_CEILDIV : DIM_FLOORDIV, poly_write(table, p), poly_write(table, q));
}

/* p mod c for c > 0, the result in 0..c-1. */
static Dim mod_by_const(DimTable *table, const Poly *p, int64_t c) {
    Poly rest;
    split_by(table, p, c, NULL, &rest);
    int64_t value;
    if (poly_is_const(&rest, &value)) return value;
    Term common = {.coef = (int64_t)poly_gcd(&rest, (uint64_t)c, true)};
    divide_all(&common, &rest);
    c /= common.coef;
    Dim inner = poly_write(table, &rest);
    const DimExpr *e = dim_expr(table, inner);
    bool small = e && e->op == DIM_MOD && dim_is_const(e->b) && e->b > 0 && e->b <= c;
    if (!small) inner = dim_intern(table, DIM_MOD, inner, c);
    Poly scaled = {.n = 0}, unit = {.n = 0};
    poly_add_atom(table, &unit, inner);
    poly_add_scaled(table, &scaled, &unit, common.coef);
    return poly_write(table, &scaled);
}

static Dim simplify_mod(DimTable *table, Poly *p, Poly *q) {
    Poly work;
    int64_t c;
    if (q->n == 0) return DIM_UNKNOWN;
    if (p->n == 0 || poly_divide(table, p, q, &work)) return 0;
    if (!poly_is_const(q, &c) || c == INT64_MIN)
        return dim_intern(table, DIM_MOD, poly_write(table, p), poly_write(table, q));
    if (c > 0) return mod_by_const(table, p, c);
    /* The remainder has the divisor's sign: p mod -c is -(-p mod c). */
    Poly negated = {.n = 0}, result = {.n = 0};
    poly_add_scaled(table, &negated, p, -1);
    Dim d = mod_by_const(table, &negated, -c);
    if (d == DIM_UNKNOWN) return d;
    poly_read(table, d, &work);
    poly_add_scaled(table, &result, &work, -1);
    return poly_write(table, &result);
}

/* ---- minimum and maximum ------------------------------------------------------------------------------------- */

/* Symbols are sizes. Recursion is bounded by DEPTH_MAX. */
bool dim_not_negative(const DimTable *table, Dim d) {
    const DimExpr *e = dim_expr(table, d);
    if (!e) return dim_is_const(d) && d >= 0;
    switch (e->op) {
    case DIM_SYMBOL: return true;
    case DIM_SUB: return false;
    case DIM_MOD: return dim_not_negative(table, e->b);
    case DIM_MAX: return dim_not_negative(table, e->a) || dim_not_negative(table, e->b);
    default: return dim_not_negative(table, e->a) && dim_not_negative(table, e->b);
    }
}

static bool poly_not_negative(const DimTable *table, const Poly *p, int64_t sign) {
    if (p->failed) return false;
    for (int i = 0; i < p->n; i++) {
        if ((p->t[i].coef < 0) != (sign < 0)) return false;
        for (int j = 0; j < p->t[i].n; j++)
            if (!dim_not_negative(table, p->t[i].f[j])) return false;
    }
    return true;
}

static bool is_part_of(const DimTable *table, DimOp op, Dim whole, Dim part) {
    const DimExpr *e = dim_expr(table, whole);
    return e && e->op == op && (e->a == part || e->b == part);
}

static Dim simplify_extreme(DimTable *table, DimOp op, Dim a, Dim b, Poly *p, const Poly *q) {
    poly_add_scaled(table, p, q, -1);
    if (poly_not_negative(table, p, 1)) return op == DIM_MAX ? a : b;
    if (poly_not_negative(table, p, -1)) return op == DIM_MAX ? b : a;
    if (is_part_of(table, op, a, b)) return a;
    if (is_part_of(table, op, b, a)) return b;
    bool swap = dim_compare(table, a, b) > 0;
    return dim_intern(table, op, swap ? b : a, swap ? a : b);
}

/* ---- all ----------------------------------------------------------------------------------------------------- */

Dim dim_simplify(DimTable *table, DimOp op, Dim a, Dim b) {
    Poly p, q;
    poly_read(table, a, &p);
    poly_read(table, b, &q);
    if (p.failed || q.failed) return DIM_UNKNOWN;
    switch (op) {
    case DIM_ADD:
    case DIM_SUB: poly_add_scaled(table, &p, &q, op == DIM_ADD ? 1 : -1); return poly_write(table, &p);
    case DIM_MUL: {
        Poly product = {.n = 0};
        for (int i = 0; i < p.n; i++) poly_add_product(table, &product, &p.t[i], &q);
        return poly_write(table, &product);
    }
    case DIM_FLOORDIV:
    case DIM_CEILDIV: return simplify_division(table, op == DIM_CEILDIV, &p, &q);
    case DIM_MOD: return simplify_mod(table, &p, &q);
    case DIM_MIN:
    case DIM_MAX: return simplify_extreme(table, op, a, b, &p, &q);
    default: return DIM_UNKNOWN;
    }
}
