/* SPDX-License-Identifier: Apache-2.0 */
/* The derivatives of ops: a row each. Most are formulas, by operand. In them `g` is the gradient of the result, `y` the
   result, `a` to `c` the operands, other small words are the node's attributes, capital words ops, and:
     Along(v)      the sum of v along the node's axis, which stays as 1
     Over(v)       the sum of v over what the node reduces, which stays as 1
     Each()        how many elements the node makes one of
     Shaped(v, w)  v in the shape of w */
#include "formats/onnx/gradient_int.h"

/* ---- formulas --------------------------------------------------------------------------------------------------- */

/* Precedence climbing over a text of the table: what nests in it nests as deep as the table says. */
typedef struct Formula {
    const Rule *r;
    const char *s;
    Value *g, *y;
} Formula;

static tn_status compare(Formula *f, Value **out);

static bool take(Formula *f, const char *token) {
    size_t n = strlen(token);
    while (*f->s == ' ') f->s++;
    if (strncmp(f->s, token, n) != 0) return false;
    f->s += n;
    return true;
}

static tn_status number(Formula *f, Value **out) {
    double value = 0, unit = 1;
    bool fraction = false;
    for (; (*f->s >= '0' && *f->s <= '9') || *f->s == '.'; f->s++) {
        if (*f->s == '.') fraction = true;
        else value = value * 10 + (*f->s - '0');
        if (fraction && *f->s != '.') unit *= 10;
    }
    return onnx_make_scalar(f->r->d, value / unit, f->g, out);
}

static tn_status sum_along(const Formula *f, Value *v, Value **out) {
    return make_sum(f->r, v, (int64_t[]){attr_int(f->r->node, "axis")}, 1, true, out);
}

static tn_status sum_over(const Formula *f, Value *v, Value **out) {
    Value *axes = rule_in(f->r, 1);
    Attr attrs[] = {onnx_int_attr("keepdims", 1),
                    onnx_int_attr("noop_with_empty_axes", attr_int(f->r->node, "noop_with_empty_axes"))};
    return make_op(f->r, "ReduceSum", (Value *[]){v, axes}, axes ? 2 : 1, attrs, 2, out);
}

static tn_status each(const Formula *f, Value **out) {
    Value *all, *made, *one;
    TRY(make_count(f->r, f->r->in[0], &all));
    TRY(make_count(f->r, f->r->out[0], &made));
    TRY(onnx_make_ints(f->r->d, (int64_t[]){1}, 1, true, &one)); /* nothing may be made of nothing */
    TRY(MAKE(f->r, "Max", &made, made, one));
    TRY(MAKE(f->r, "Div", &all, all, made));
    return MAKE(f->r, "CastLike", out, all, f->g);
}

static tn_status call(Formula *f, const char *name, Value *const *args, size_t n, Value **out) {
    if (strcmp(name, "Along") == 0) return sum_along(f, args[0], out);
    if (strcmp(name, "Over") == 0) return sum_over(f, args[0], out);
    if (strcmp(name, "Each") == 0) return each(f, out);
    if (strcmp(name, "Shaped") == 0) return make_reshape(f->r, args[0], args[1], out);
    return make_op(f->r, name, args, n, NULL, 0, out);
}

static tn_status word(Formula *f, Value **out) {
    char name[24];
    size_t n = 0, n_args = 0;
    Value *args[3] = {NULL};
    for (; (*f->s >= 'a' && *f->s <= 'z') || (*f->s >= 'A' && *f->s <= 'Z'); f->s++) name[n++] = *f->s;
    assert(n > 0 && n < sizeof name);
    name[n] = 0;
    if (take(f, "(")) {
        while (!take(f, ")")) {
            assert(n_args < 3);
            TRY(compare(f, &args[n_args++]));
            take(f, ",");
        }
        return call(f, name, args, n_args, out);
    }
    if (n > 1) return onnx_make_scalar(f->r->d, attr_float(f->r->node, name), f->g, out);
    *out = name[0] == 'g' ? f->g : name[0] == 'y' ? f->y : rule_in(f->r, (size_t)(name[0] - 'a'));
    assert(*out);
    return TN_OK;
}

static tn_status factor(Formula *f, Value **out) {
    if (take(f, "-")) {
        TRY(factor(f, out));
        return MAKE(f->r, "Neg", out, *out);
    }
    if (take(f, "(")) {
        TRY(compare(f, out));
        return take(f, ")") ? TN_OK : fail(TN_INTERNAL, "a formula lacks \")\"");
    }
    return *f->s >= '0' && *f->s <= '9' ? number(f, out) : word(f, out);
}

static tn_status product(Formula *f, Value **out) {
    Value *b;
    TRY(factor(f, out));
    for (;;) {
        const char *op = take(f, "*") ? "Mul" : take(f, "/") ? "Div" : NULL;
        if (!op) return TN_OK;
        TRY(factor(f, &b));
        TRY(MAKE(f->r, op, out, *out, b));
    }
}

static tn_status sum(Formula *f, Value **out) {
    Value *b;
    TRY(product(f, out));
    for (;;) {
        const char *op = take(f, "+") ? "Add" : take(f, "-") ? "Sub" : NULL;
        if (!op) return TN_OK;
        TRY(product(f, &b));
        TRY(MAKE(f->r, op, out, *out, b));
    }
}

static tn_status compare(Formula *f, Value **out) {
    Value *b;
    TRY(sum(f, out));
    const char *op = take(f, "<") ? "Less" : take(f, ">") ? "Greater" : take(f, "==") ? "Equal" : NULL;
    if (!op) return TN_OK;
    TRY(sum(f, &b));
    return MAKE(f->r, op, out, *out, b);
}

tn_status gradient_formula(const Rule *r, const char *formula, Value *g, Value *y, Value **out) {
    Formula f = {r, formula, g, y};
    TRY(compare(&f, out));
    assert(*f.s == 0);
    return TN_OK;
}

/* ---- rows of formulas ------------------------------------------------------------------------------------------- */

static size_t count_operands(const Rule *r) {
    size_t n = 0;
    for (uint32_t i = 0; i < r->node->n_operands; i++) n += r->in[i] != NULL;
    return n;
}

/* Operands that were broadcast get the sum of what came to each of their elements. */
static tn_status derive_each(Rule *r) {
    const DeriveRow *row = gradient_row(r->node->op);
    bool repeats = count_operands(r) > 1;
    for (uint32_t i = 0; i < r->node->n_operands; i++) {
        const char *formula = i < 3 ? row->formulas[i] : NULL;
        if (!r->wanted[i] || !formula || !*formula) continue;
        TRY(gradient_formula(r, formula, r->back[0], r->out[0], &r->grads[i]));
        if (repeats) TRY(make_fit(r, r->grads[i], r->in[i], &r->grads[i]));
    }
    return TN_OK;
}

/* As derive_each, where the shape is right as it is: the other operands are no numbers that take part. */
static tn_status derive_shaped(Rule *r) {
    TRY(only_first(r));
    return gradient_formula(r, gradient_row(r->node->op)->formulas[0], r->back[0], r->out[0], &r->grads[0]);
}

/* `value` with the reduced dimensions as 1. */
static tn_status with_reduced(const Rule *r, Value *value, Value **out) {
    Value *axes = rule_in(r, 1);
    *out = value;
    if (!axes || attr_int(r->node, "keepdims")) return TN_OK;
    return MAKE(r, "Unsqueeze", out, value, axes);
}

static tn_status derive_reduced(Rule *r) {
    Value *g = r->back[0], *y = r->out[0], *shape;
    if (op_attr_spec(r->node->op, STR("keepdims"))) {
        TRY(with_reduced(r, g, &g));
        TRY(with_reduced(r, y, &y));
    }
    TRY(gradient_formula(r, gradient_row(r->node->op)->formulas[0], g, y, &g));
    TRY(make_shape(r, r->in[0], &shape));
    return MAKE(r, "Expand", &r->grads[0], g, shape);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const DeriveRow rows[] = {
    /* element by element */
    {"Abs", derive_each, {"g * Sign(a)"}},
    {"Acos", derive_each, {"-g / Sqrt(1 - a * a)"}},
    {"Acosh", derive_each, {"g / Sqrt(a * a - 1)"}},
    {"Add", derive_each, {"g", "g"}},
    {"Asin", derive_each, {"g / Sqrt(1 - a * a)"}},
    {"Asinh", derive_each, {"g / Sqrt(a * a + 1)"}},
    {"Atan", derive_each, {"g / (1 + a * a)"}},
    {"Atanh", derive_each, {"g / (1 - a * a)"}},
    {"Cast", derive_each, {"CastLike(g, a)"}},
    {"CastLike", derive_each, {"CastLike(g, a)", ""}},
    {"Ceil", derive_each, {""}},
    {"Celu", derive_each, {"Where(a > 0, g, g * Exp(Min(a, 0) / alpha))"}},
    {"Clip",
     derive_each,
     {"Where(y == a, g, 0)", "Where(a < b, Where(y == b, g, 0), 0)", "Where(y == a, 0, Where(y == c, g, 0))"}},
    {"Cos", derive_each, {"-g * Sin(a)"}},
    {"Cosh", derive_each, {"g * Sinh(a)"}},
    {"Div", derive_each, {"g / b", "-g * y / b"}},
    {"Dropout", derive_dropout, {0}},
    {"Elu", derive_each, {"Where(a > 0, g, g * (y + alpha))"}},
    {"Erf", derive_each, {"g * 1.12837916709551 * Exp(-a * a)"}},
    {"Exp", derive_each, {"g * y"}},
    {"Floor", derive_each, {""}},
    {"Gelu", derive_gelu, {0}},
    {"HardSigmoid", derive_each, {"Where(y > 0, Where(y < 1, g * alpha, 0), 0)"}},
    {"HardSwish", derive_each, {"Where(a > 3, g, Where(a < -3, 0, g * (a / 3 + 0.5)))"}},
    {"Identity", derive_each, {"g"}},
    {"LeakyRelu", derive_each, {"Where(a > 0, g, g * alpha)"}},
    {"Log", derive_each, {"g / a"}},
    {"Max", derive_extreme, {0}},
    {"Mean", derive_variadic, {0}},
    {"Min", derive_extreme, {0}},
    {"Mish", derive_each, {"g * (Tanh(Softplus(a)) + a * Sigmoid(a) * (1 - Tanh(Softplus(a)) * Tanh(Softplus(a))))"}},
    {"Mul", derive_each, {"g * b", "g * a"}},
    {"Neg", derive_each, {"-g"}},
    {"PRelu", derive_each, {"Where(a > 0, g, g * b)", "Where(a > 0, 0, g * a)"}},
    {"Pow",
     derive_each,
     {"Where(b == CastLike(0, b), 0, g * CastLike(b, g) * Pow(a, b - CastLike(1, b)))",
      "CastLike(Where(a == 0, 0, g * y * Log(a)), b)"}},
    {"Reciprocal", derive_each, {"-g * y * y"}},
    {"Relu", derive_each, {"Where(a > 0, g, 0)"}},
    {"Round", derive_each, {""}},
    {"Selu", derive_each, {"Where(a > 0, g * gamma, g * (y + alpha * gamma))"}},
    {"Shrink", derive_each, {"Where(Abs(a) > lambd, g, 0)"}},
    {"Sigmoid", derive_each, {"g * y * (1 - y)"}},
    {"Sign", derive_each, {""}},
    {"Sin", derive_each, {"g * Cos(a)"}},
    {"Sinh", derive_each, {"g * Cosh(a)"}},
    {"Softplus", derive_each, {"g * Sigmoid(a)"}},
    {"Softsign", derive_each, {"g / ((1 + Abs(a)) * (1 + Abs(a)))"}},
    {"Sqrt", derive_each, {"g / (2 * y)"}},
    {"Sub", derive_each, {"g", "-g"}},
    {"Sum", derive_variadic, {0}},
    {"Swish", derive_each, {"g * (Sigmoid(alpha * a) + alpha * y * (1 - Sigmoid(alpha * a)))"}},
    {"Tan", derive_each, {"g * (1 + y * y)"}},
    {"Tanh", derive_each, {"g * (1 - y * y)"}},
    {"ThresholdedRelu", derive_each, {"Where(a > alpha, g, 0)"}},
    {"Where", derive_each, {NULL, "Where(a, g, 0)", "Where(a, 0, g)"}},

    /* over axes */
    {"GlobalAveragePool", derive_reduced, {"g / Each()"}},
    {"LogSoftmax", derive_shaped, {"g - Exp(y) * Along(g)"}},
    {"ReduceL1", derive_reduced, {"g * Sign(a)"}},
    {"ReduceL2", derive_reduced, {"Where(y == 0, 0, g * a / y)"}},
    {"ReduceLogSum", derive_reduced, {"g / Exp(y)"}},
    {"ReduceLogSumExp", derive_reduced, {"g * Exp(a - y)"}},
    {"ReduceMax", derive_reduced, {"CastLike(a == y, g) * g / Over(CastLike(a == y, g))"}},
    {"ReduceMean", derive_reduced, {"g / Each()"}},
    {"ReduceMin", derive_reduced, {"CastLike(a == y, g) * g / Over(CastLike(a == y, g))"}},
    {"ReduceSum", derive_reduced, {"g"}},
    {"ReduceSumSquare", derive_reduced, {"2 * a * g"}},
    {"Softmax", derive_shaped, {"y * (g - Along(g * y))"}},

    /* other shapes, other places */
    {"CenterCropPad", derive_move, {0}},
    {"Compress", derive_move, {0}},
    {"Concat", derive_concat, {0}},
    {"DepthToSpace", derive_move, {0}},
    {"Expand", derive_each, {"g"}},
    {"Flatten", derive_shaped, {"Shaped(g, a)"}},
    {"Gather", derive_move, {0}},
    {"GatherElements", derive_move, {0}},
    {"GatherND", derive_move, {0}},
    {"MaxPool", derive_max_pool, {0}},
    {"Pad", derive_move, {0}},
    {"Reshape", derive_shaped, {"Shaped(g, a)"}},
    {"ReverseSequence", derive_move, {0}},
    {"ScatterElements", derive_scatter, {0}},
    {"Slice", derive_move, {0}},
    {"SpaceToDepth", derive_move, {0}},
    {"Split", derive_split, {0}},
    {"Squeeze", derive_shaped, {"Shaped(g, a)"}},
    {"Tile", derive_move, {0}},
    {"Transpose", derive_transpose, {0}},
    {"Trilu", derive_move, {0}},
    {"Unsqueeze", derive_shaped, {"Shaped(g, a)"}},

    /* products */
    {"Conv", derive_conv, {0}},
    {"ConvTranspose", derive_conv_transpose, {0}},
    {"Gemm", derive_gemm, {0}},
    {"MatMul", derive_matmul, {0}},
};

const DeriveRow *gradient_row(const OpSchema *op) {
    for (size_t i = 0; !op->domain && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].op, op->name) == 0) return &rows[i];
    }
    return NULL;
}
