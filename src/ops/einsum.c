/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum (ONNX 12): sums of products over labelled dimensions. The labels are numbered, the result's first; then the
   kernel is a nest of loops over them. */
#include "ops/lower_int.h"
#include "ops/nn_int.h"

#define EINSUM_DIMS 32 /* different labels, ellipsis dimensions included */
#define NO_DIM (-1)

typedef struct EinsumPlan {
    int n_in, n_dims, n_out; /* dims [0, n_out) are the result's, in order; the rest is summed over */
    Dim size[EINSUM_DIMS];
    int rank[OP_MAX_INPUTS];
    int8_t dim_of[OP_MAX_INPUTS][TN_MAX_RANK]; /* which dim each dimension of an operand is */
} EinsumPlan;

/* One side of the equation: letters, with an ellipsis in front of letter number `dots` (-1: none). */
typedef struct Term {
    char letters[EINSUM_DIMS];
    int n, dots;
} Term;

static bool is_letter(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z'); }

static tn_status read_term(Str *text, Term *term) {
    *term = (Term){.dots = -1};
    while (text->n && *text->s != ',' && *text->s != '-') {
        if (text->n >= 3 && memcmp(text->s, "...", 3) == 0 && term->dots < 0) {
            term->dots = term->n;
            text->s += 3, text->n -= 3;
            continue;
        }
        if (*text->s != ' ') {
            if (!is_letter(*text->s) || term->n == EINSUM_DIMS)
                return fail(TN_INVALID_MODEL, "equation: '%c' is no label, or there are too many", *text->s);
            term->letters[term->n++] = *text->s;
        }
        text->s++, text->n--;
    }
    return TN_OK;
}

typedef struct Equation {
    Term in[OP_MAX_INPUTS], out;
    int n_in;
    bool explicit;
} Equation;

static tn_status read_equation(const Node *node, Equation *e) {
    Str text = attr_string(node, "equation");
    memset(e, 0, sizeof *e);
    for (;;) {
        if (e->n_in == OP_MAX_INPUTS) return fail(TN_INVALID_MODEL, "equation has too many terms");
        TRY(read_term(&text, &e->in[e->n_in++]));
        if (text.n == 0 || *text.s != ',') break;
        text.s++, text.n--;
    }
    if (text.n) {
        if (text.n < 2 || text.s[1] != '>') return fail(TN_INVALID_MODEL, "equation: \"->\" is wanted");
        text.s += 2, text.n -= 2;
        e->explicit = true;
        TRY(read_term(&text, &e->out));
        if (text.n) return fail(TN_INVALID_MODEL, "equation: '%c' after the result", *text.s);
    }
    if (e->n_in != (int)node->n_operands)
        return fail(TN_INVALID_MODEL, "equation has %d terms for %u operands", e->n_in, node->n_operands);
    return TN_OK;
}

/* Without "->": the ellipsis, then every label that occurs once, in alphabetical order. */
static void implied_result(Equation *e) {
    bool dots = false;
    e->out = (Term){.dots = -1};
    for (int ch = 'A'; ch <= 'z'; ch++) {
        int count = 0;
        for (int i = 0; i < e->n_in; i++)
            for (int k = 0; k < e->in[i].n; k++) count += e->in[i].letters[k] == ch;
        if (count == 1 && e->out.n < EINSUM_DIMS) e->out.letters[e->out.n++] = (char)ch;
    }
    for (int i = 0; i < e->n_in; i++) dots = dots || e->in[i].dots >= 0;
    if (dots) e->out.dots = 0;
}

/* The number of a label, given on first sight. */
static int number_of(EinsumPlan *plan, int8_t *numbers, char letter) {
    int8_t *n = &numbers[(unsigned char)letter];
    if (*n == NO_DIM && plan->n_dims < EINSUM_DIMS) {
        plan->size[plan->n_dims] = 1;
        *n = (int8_t)plan->n_dims++;
    }
    return *n;
}

static tn_status number_result(const Equation *e, int ellipsis, EinsumPlan *plan, int8_t *numbers, int *first_dot) {
    *first_dot = NO_DIM;
    for (int k = 0; k <= e->out.n; k++) {
        if (k == e->out.dots) {
            *first_dot = plan->n_dims;
            for (int d = 0; d < ellipsis && plan->n_dims < EINSUM_DIMS; d++) plan->size[plan->n_dims++] = 1;
        }
        if (k == e->out.n) break;
        if (numbers[(unsigned char)e->out.letters[k]] != NO_DIM)
            return fail(TN_INVALID_MODEL, "equation: the result has '%c' twice", e->out.letters[k]);
        number_of(plan, numbers, e->out.letters[k]);
    }
    if (ellipsis && *first_dot == NO_DIM)
        return fail(TN_INVALID_MODEL, "equation: the result lacks the ellipsis that the operands have");
    if (plan->n_dims > TN_MAX_RANK)
        return fail(TN_INVALID_MODEL, "equation: the result has %d dimensions; at most %d are possible", plan->n_dims,
                    TN_MAX_RANK);
    plan->n_out = plan->n_dims;
    return TN_OK;
}

/* A size that a label has in one operand: all are the same, or 1. Of two symbols either may be the 1. */
static tn_status merge_size(Dim *size, Dim own) {
    if (*size == 1 || *size == own || own == 1) {
        if (*size == 1) *size = own;
        return TN_OK;
    }
    if (!dim_is_const(*size) || !dim_is_const(own)) {
        if (!dim_is_const(*size)) *size = dim_is_const(own) ? own : DIM_UNKNOWN;
        return TN_OK;
    }
    return fail(TN_SHAPE, "a label has the sizes %lld and %lld", (long long)*size, (long long)own);
}

static tn_status plan_operand(const Term *term, int i, const Shape *s, int ellipsis, int first_dot, EinsumPlan *plan,
                              int8_t *numbers) {
    int own_dots = s->rank - term->n;
    if (own_dots < 0 || (own_dots > 0 && term->dots < 0))
        return fail(TN_SHAPE, "equation: operand %d has %d dimensions and %d labels", i, s->rank, term->n);
    plan->rank[i] = s->rank;
    for (int d = 0, k = 0; d < s->rank; d++) {
        bool dotted = term->dots >= 0 && d >= term->dots && d < term->dots + own_dots;
        int number = dotted ? first_dot + ellipsis - own_dots + d - term->dots
                            : number_of(plan, numbers, term->letters[k++]);
        if (number == NO_DIM) return fail(TN_INVALID_MODEL, "equation has more than %d labels", EINSUM_DIMS);
        plan->dim_of[i][d] = (int8_t)number;
        TRY(merge_size(&plan->size[number], s->dims[d]));
    }
    return TN_OK;
}

static tn_status make_plan(const Node *node, const Shape *shapes, EinsumPlan *plan) {
    Equation e;
    int8_t numbers[128];
    int ellipsis = 0, first_dot;
    memset(numbers, NO_DIM, sizeof numbers);
    TRY(read_equation(node, &e));
    if (!e.explicit) implied_result(&e);
    *plan = (EinsumPlan){.n_in = e.n_in};
    for (int i = 0; i < e.n_in; i++)
        if (e.in[i].dots >= 0 && shapes[i].rank - e.in[i].n > ellipsis) ellipsis = shapes[i].rank - e.in[i].n;
    TRY(number_result(&e, ellipsis, plan, numbers, &first_dot));
    for (int i = 0; i < e.n_in; i++) TRY(plan_operand(&e.in[i], i, &shapes[i], ellipsis, first_dot, plan, numbers));
    for (int k = 0; k < e.out.n; k++) {
        bool found = false;
        for (int i = 0; i < e.n_in; i++) found = found || memchr(e.in[i].letters, e.out.letters[k], (size_t)e.in[i].n);
        if (!found) return fail(TN_INVALID_MODEL, "equation: no operand has '%c'", e.out.letters[k]);
    }
    return TN_OK;
}

static tn_status einsum_infer(InferCtx *c) {
    Shape shapes[OP_MAX_INPUTS];
    if (c->n_in > OP_MAX_INPUTS) return fail(TN_LIMIT, "%d operands", c->n_in);
    for (int i = 0; i < c->n_in; i++) {
        if (!rank_known(c, i)) {
            set_unknown_rank(c, 0, -1);
            return TN_OK;
        }
        shapes[i] = *in_shape(c, i);
    }
    EinsumPlan plan;
    TRY(make_plan(c->node, shapes, &plan));
    Shape y = {.rank = plan.n_out};
    memcpy(y.dims, plan.size, (size_t)plan.n_out * sizeof *y.dims);
    set_shape(c, 0, &y);
    return TN_OK;
}

static double einsum_flops(const Node *node, const Shape *in, const Shape *out) {
    EinsumPlan plan;
    double n = node->n_operands;
    (void)out;
    if (make_plan(node, in, &plan) != TN_OK) return 0;
    for (int d = 0; d < plan.n_dims; d++) n *= (double)plan.size[d];
    return n;
}

/* Steps in a dense operand along each dim of the plan; a label that occurs twice adds up: the diagonal. */
static void operand_strides(const EinsumPlan *plan, int i, const Tensor *t, int64_t *stride) {
    int64_t step = 1;
    memset(stride, 0, EINSUM_DIMS * sizeof *stride);
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->dims[d] != 1) stride[plan->dim_of[i][d]] += step;
        step *= t->dims[d];
    }
}

#define BODY "ops/einsum_body.h"
#include "ops/each_number_int.h"

static tn_status einsum_reference(KernelCtx *c) { return RUN_NUMBER(c, einsum); }

/* ---- lowering ------------------------------------------------------------------------------------------------ */

/* A value whose dimensions are those of a plan, each once. */
typedef struct Labelled {
    Value *value;
    int n;
    int8_t dims[EINSUM_DIMS];
} Labelled;

static bool has_dim(const Labelled *a, int dim) { return memchr(a->dims, dim, (size_t)a->n) != NULL; }

/* An operand with labels that it has twice as the diagonal, and repeated where another's size counts. */
static bool open_operand(LowerCtx *c, const EinsumPlan *plan, int i, Labelled *out) {
    Value *v = lower_in(c, (size_t)i);
    int64_t strides[TN_MAX_RANK], sizes[TN_MAX_RANK], steps[TN_MAX_RANK] = {0};
    const Shape *s = lower_shape(v);
    *out = (Labelled){.value = v};
    lower_strides(s->rank, s->dims, strides);
    for (int d = 0; d < s->rank; d++) {
        int dim = plan->dim_of[i][d], k = 0;
        while (k < out->n && out->dims[k] != dim) k++;
        if (k == out->n) out->dims[out->n++] = (int8_t)dim;
        sizes[k] = plan->size[dim];
        if (s->dims[d] != 1) steps[k] += strides[d];
    }
    out->value = lower_view(c, v, 0, sizes, steps, out->n);
    return c->status == TN_OK;
}

/* Sums over the dimensions that `keep` does not hold and the other side does not have. */
static void sum_own(LowerCtx *c, Labelled *a, const Labelled *other, const bool *keep) {
    int64_t axes[TN_MAX_RANK];
    int n = 0, left = 0;
    for (int k = 0; k < a->n; k++) {
        bool goes = !keep[a->dims[k]] && !(other && has_dim(other, a->dims[k]));
        if (goes) axes[n++] = k;
        else a->dims[left++] = a->dims[k];
    }
    a->n = left;
    if (n) a->value = lower_reduce(c, "ReduceSum", a->value, axes, n, false);
}

/* [product of the first group, of the second, of the third], the dimensions brought into that order. */
static Value *grouped(LowerCtx *c, const EinsumPlan *plan, const Labelled *a, const int8_t *const *groups,
                      const int *n) {
    int64_t perm[TN_MAX_RANK] = {0}, sizes[3] = {1, 1, 1};
    int rank = 0;
    for (int g = 0; g < 3; g++) {
        for (int k = 0; k < n[g]; k++) {
            perm[rank++] = (const int8_t *)memchr(a->dims, groups[g][k], (size_t)a->n) - a->dims;
            sizes[g] *= plan->size[groups[g][k]];
        }
    }
    return lower_reshape(c, rank ? lower_transpose(c, a->value, perm) : a->value, sizes, 3);
}

/* One batched product: over what both have and nobody wants any more. */
static bool multiply(LowerCtx *c, const EinsumPlan *plan, Labelled *a, Labelled *b, const bool *keep, Labelled *out) {
    int8_t batch[TN_MAX_RANK], rows[TN_MAX_RANK], sums[TN_MAX_RANK], columns[TN_MAX_RANK];
    int n_batch = 0, n_rows = 0, n_sums = 0, n_columns = 0;
    int64_t sizes[TN_MAX_RANK];
    sum_own(c, a, b, keep);
    sum_own(c, b, a, keep);
    for (int k = 0; k < a->n; k++) {
        int8_t dim = a->dims[k];
        if (!has_dim(b, dim)) rows[n_rows++] = dim;
        else if (keep[dim]) batch[n_batch++] = dim;
        else sums[n_sums++] = dim;
    }
    for (int k = 0; k < b->n; k++)
        if (!has_dim(a, b->dims[k])) columns[n_columns++] = b->dims[k];
    if (n_batch + n_rows + n_columns > TN_MAX_RANK) return c->declined = true, false;
    Value *left = grouped(c, plan, a, (const int8_t *const[]){batch, rows, sums},
                          (const int[]){n_batch, n_rows, n_sums});
    Value *right = grouped(c, plan, b, (const int8_t *const[]){batch, sums, columns},
                           (const int[]){n_batch, n_sums, n_columns});
    *out = (Labelled){.n = 0};
    for (int k = 0; k < n_batch; k++) out->dims[out->n++] = batch[k];
    for (int k = 0; k < n_rows; k++) out->dims[out->n++] = rows[k];
    for (int k = 0; k < n_columns; k++) out->dims[out->n++] = columns[k];
    for (int k = 0; k < out->n; k++) sizes[k] = plan->size[out->dims[k]];
    out->value = lower_reshape(c, LOWER(c, "MatMul", left, right), sizes, out->n);
    return c->status == TN_OK;
}

/* Operands are multiplied from left to right. */
static Value *product(LowerCtx *c, const EinsumPlan *plan) {
    Labelled acc, next, out;
    int64_t perm[TN_MAX_RANK] = {0};
    bool keep[EINSUM_DIMS];
    if (!open_operand(c, plan, 0, &acc)) return NULL;
    for (int i = 1; i < plan->n_in; i++) {
        for (int d = 0; d < EINSUM_DIMS; d++) keep[d] = d < plan->n_out;
        for (int j = i + 1; j < plan->n_in; j++)
            for (int d = 0; d < plan->rank[j]; d++) keep[plan->dim_of[j][d]] = true;
        if (!open_operand(c, plan, i, &next) || !multiply(c, plan, &acc, &next, keep, &out)) return NULL;
        acc = out;
    }
    for (int d = 0; d < EINSUM_DIMS; d++) keep[d] = d < plan->n_out;
    sum_own(c, &acc, NULL, keep);
    for (int k = 0; k < acc.n; k++) perm[acc.dims[k]] = k;
    return acc.n ? lower_transpose(c, acc.value, perm) : acc.value;
}

/* MatMul and ReduceSum take no small integers. */
static tn_status as_i64(LowerCtx *c) {
    Value *operands[OP_MAX_INPUTS];
    for (size_t i = 0; i < c->node->n_operands; i++) operands[i] = lower_cast(c, lower_in(c, i), TN_I64);
    c->out[0] = lower_cast(c, lower_like(c, "Einsum", operands, c->node->n_operands), lower_dtype(lower_in(c, 0)));
    return TN_OK;
}

static tn_status lower_einsum(LowerCtx *c) {
    Shape shapes[OP_MAX_INPUTS];
    EinsumPlan plan;
    if (c->node->n_operands > OP_MAX_INPUTS) return lower_decline(c);
    if (lower_by_widening(c) || !lower_sizes_known(c)) return TN_OK;
    tn_dtype dtype = lower_dtype(lower_in(c, 0));
    if (!dtype_is_float(dtype) && dtype_size(dtype) < 4) return as_i64(c);
    for (size_t i = 0; i < c->node->n_operands; i++) shapes[i] = *lower_shape(lower_in(c, i));
    TRY(make_plan(c->node, shapes, &plan));
    c->out[0] = product(c, &plan);
    return TN_OK;
}

const OpSchema op_Einsum = {
    .name = "Einsum",
    .summary = "Sums of products over labelled dimensions (ONNX 12)",
    .kind = OP_COMPOSITE,
    .inputs = {{"Inputs", TS_NUMERIC, 'T', OPERAND_VARIADIC}},
    .outputs = {{"Output", TS_NUMERIC, 'T'}},
    .attrs = {{"equation", ATTR_STRING, ATTR_REQUIRED}},
    .infer = einsum_infer,
    .reference = einsum_reference,
    .flops = einsum_flops,
    .lower = lower_einsum,
    .lowering = "strided readings, transpositions, MatMul, ReduceSum",
};
