/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum (ONNX 12): sums of products over labelled dimensions. The labels are numbered, the result's first; then the
   kernel is a nest of loops over them. */
#include "ops/einsum_int.h"
#include "ops/nn_int.h"

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

tn_status einsum_plan(const Node *node, const Shape *shapes, EinsumPlan *plan) {
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
    TRY(einsum_plan(c->node, shapes, &plan));
    Shape y = {.rank = plan.n_out};
    memcpy(y.dims, plan.size, (size_t)plan.n_out * sizeof *y.dims);
    set_shape(c, 0, &y);
    return TN_OK;
}

static double einsum_flops(const Node *node, const Shape *in, const Shape *out) {
    EinsumPlan plan;
    double n = node->n_operands;
    (void)out;
    if (einsum_plan(node, in, &plan) != TN_OK) return 0;
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

const OpSchema op_Einsum = {
    .name = "Einsum",
    .summary = "Sums of products over labelled dimensions (ONNX 12)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"Inputs", TS_NUMERIC, 'T', OPERAND_VARIADIC}),
    .outputs = OPERANDS({"Output", TS_NUMERIC, 'T'}),
    .attrs = ATTRIBUTES({"equation", ATTR_STRING, ATTR_REQUIRED}),
    .infer = einsum_infer,
    .reference = einsum_reference,
    .flops = einsum_flops,
    .lower = lower_einsum,
    .lowering = "Transpose, Unsqueeze, MatMul or Mul, ReduceSum; strided readings",
};
