/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise kernels (softmax, normalisations, reductions) against the reference ones: random sizes and readings, optional
   operands and results, special numbers, and element-wise nodes behind them.

       test_cpu_rows [times] [first seed] */
#include "test_cpu_nodes.h"

extern const KernelDesc kernel_cpu_softmax, kernel_cpu_norm, kernel_cpu_group_norm, kernel_cpu_reduce,
    kernel_cpu_resize;

static int times = 60;
static uint64_t first_seed = 1;

enum { MOST_OPERANDS = 6 };

/* A node in the making. */
typedef struct Case {
    const KernelDesc *kernel;
    char op[64], attrs[200], axes[200]; /* axes: a constant operand behind the others, or empty */
    int n_in, n_out;
    bool has[MOST_OPERANDS];
    int rank[MOST_OPERANDS];
    int64_t dims[MOST_OPERANDS][TN_MAX_RANK];
    float spread;
    bool special, behind; /* element-wise nodes */
    bool beside;          /* they read one more operand, which broadcasts to the result */
    Within within;
} Case;

static int64_t random_size(int64_t most) {
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 64, 65, 100, 256, 300, 1000, 5000};
    for (;;) {
        int64_t size = pick(0, 50) == 0 ? 0 : sizes[pick(0, 15)];
        if (size <= most) return size;
    }
}

static void random_sizes(int64_t *dims, int rank) {
    int64_t left = 40000;
    for (int k = 0; k < rank; k++) {
        dims[k] = random_size(left);
        left /= dims[k] ? dims[k] : 1;
    }
    for (int k = rank; k-- > 1;) {
        int other = pick(0, k);
        int64_t kept = dims[k];
        dims[k] = dims[other];
        dims[other] = kept;
    }
}

static void put_type(Text *text, const Case *c, int i) {
    text_puts(text, "f32[");
    for (int k = 0; k < c->rank[i]; k++) text_printf(text, "%s%lld", k ? "," : "", (long long)c->dims[i][k]);
    text_puts(text, "]");
}

static void put_operands(Text *text, const Case *c, char letter) {
    for (int i = 0; i < c->n_in; i++) {
        if (c->has[i]) text_printf(text, "%s%%%c%d", i ? ", " : "", letter, i);
        else text_printf(text, "%s_", i ? ", " : "");
    }
    if (c->axes[0]) text_printf(text, ", %s", c->axes);
}

static void put_results(Text *text, const Case *c) {
    for (int i = 0; i < c->n_out; i++) text_printf(text, "%s%%y%d", i ? ", " : "", i);
}

/* The node alone, or in a body with others behind it. */
static void put_case(Text *text, const Case *c) {
    int n_all = c->n_in + c->beside;
    text_puts(text, "tn 1 graph @g(");
    for (int i = 0; i < n_all; i++) {
        if (!c->has[i]) continue;
        text_printf(text, "%s%%x%d: ", i ? ", " : "", i);
        put_type(text, c, i);
    }
    text_puts(text, ") -> (");
    put_results(text, c);
    text_puts(text, ") {\n  ");
    put_results(text, c);
    if (!c->behind) {
        text_printf(text, " = %s(", c->op);
        put_operands(text, c, 'x');
        text_printf(text, ") {%s} }", c->attrs);
        return;
    }
    text_puts(text, " = tn.Fused(");
    bool any = false;
    for (int i = 0; i < n_all; i++)
        if (c->has[i]) text_printf(text, "%s%%x%d", any ? ", " : "", i), any = true;
    text_puts(text, ") {body = graph(");
    any = false;
    for (int i = 0; i < n_all; i++)
        if (c->has[i]) text_printf(text, "%s%%a%d", any ? ", " : "", i), any = true;
    text_printf(text, ") -> (%%r) {\n    %%h = %s(", c->op);
    put_operands(text, c, 'a');
    text_printf(text, ") {%s}\n    %%t = Mul(%%h, 0.5) ", c->attrs);
    if (c->beside) text_printf(text, "%%s = Sub(%%t, %%a%d) %%r = Softsign(%%s)\n  }} }", c->n_in);
    else text_puts(text, "%r = Softsign(%t)\n  }} }");
}

static void run_case(Context *ctx, const Case *c) {
    Operand in[MOST_OPERANDS];
    const Tensor *dense[MOST_OPERANDS], *given[OP_MAX_INPUTS] = {0};
    Tensor expected[OP_MAX_OUTPUTS];
    int n = 0;
    Text text;
    text_init(&text, &ctx->allocator);
    put_case(&text, c);
    Model *model = parse_model(ctx, text.s);
    const Node *node = model->main->last;
    for (int i = 0; i < c->n_in + c->beside; i++) {
        if (!c->has[i]) continue;
        make_operand(ctx, TN_F32, c->rank[i], c->dims[i], c->spread, c->special && i == 0, pick(0, 1), &in[n]);
        dense[n] = &in[n].dense;
        n++;
    }
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (v) given[i] = v->def ? value_constant(v) : &in[v->index].t;
    }
    OK(eval_graph(ctx, model->main, dense, expected));
    EACH_LEVEL(level, best) {
        Ran one, more;
        Lie lie = (Lie)pick(0, 2);
        uint64_t before = seed;
        bool ran = run_kernel(ctx, c->kernel, node, given, expected, 1, lie, &one);
        if (!ran) print_error("not taken:\n%s\n", text.s);
        assert_true(ran);
        for (int i = 0; i < one.n; i++) {
            bool near = all_near(&one.out[i], &expected[i], c->within);
            if (!near) print_error("result %d on %s:\n%s\n", i, cpu_level_name(level), text.s);
            assert_true(near);
        }
        int threads = (int[]){2, 3, 7}[pick(0, 2)];
        seed = before; /* results that lie in the same way */
        assert_true(run_kernel(ctx, c->kernel, node, given, expected, threads, lie, &more));
        if (!same_bits(&one, &more)) print_error("threads change the answer:\n%s\n", text.s);
        assert_true(same_bits(&one, &more));
        free_ran(&one);
        free_ran(&more);
    }
    for (int i = 0; i < c->n_out; i++) tensor_release(&expected[i]);
    for (int i = 0; i < n; i++) free_operand(&in[i]);
    model_free(model);
    text_free(&text);
}

static void run_cases(void (*make)(Case *c)) {
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int k = 0; k < times; k++) {
        Case c = {.n_in = 1, .n_out = 1, .has = {true}, .spread = 3, .within = {1e-6, 3e-6}};
        seed = first_seed + (uint64_t)k;
        c.special = pick(0, 3) == 0;
        c.behind = pick(0, 3) == 0;
        make(&c);
        run_case(ctx, &c);
    }
    context_unref(ctx);
}

#define SAY(where, ...) snprintf(where, sizeof where, __VA_ARGS__)

/* Of a node whose result is as large as its first operand. */
static void add_operand_beside(Case *c) {
    int i = c->n_in, from = pick(0, c->rank[0]);
    c->beside = c->behind && pick(0, 3) > 0;
    if (c->beside) c->within.absolute = fmax(c->within.absolute, 3e-5); /* it may be nearly equal */
    c->has[i] = c->beside;
    c->rank[i] = c->rank[0] - from;
    for (int k = from; k < c->rank[0]; k++) c->dims[i][k - from] = pick(0, 2) ? c->dims[0][k] : 1;
}

/* ---- softmax ------------------------------------------------------------------------------------------------------ */

static void make_softmax(Case *c) {
    c->kernel = &kernel_cpu_softmax;
    c->rank[0] = pick(1, 4);
    random_sizes(c->dims[0], c->rank[0]);
    SAY(c->op, pick(0, 1) ? "Softmax" : "LogSoftmax");
    SAY(c->attrs, "axis=%d", pick(0, 1) ? -1 : pick(-c->rank[0], c->rank[0] - 1));
    c->spread = pick(0, 1) ? 3 : 50;
    c->within.relative = 1e-5;
    add_operand_beside(c);
}
static void test_softmax(void **state) {
    (void)state;
    run_cases(make_softmax);
}

/* ---- normalisation over the last dimensions ------------------------------------------------------------------------ */

static const struct {
    const char *op;
    int n_in, n_out; /* at most */
    int first_optional, first_vector;
    bool axis;
} norms[] = {
    {"LayerNormalization", 3, 3, 2, 1, true},
    {"RMSNormalization", 2, 1, 9, 1, true},
    {"SimplifiedLayerNormalization", 2, 2, 9, 1, true},
    {"com.microsoft.SimplifiedLayerNormalization", 2, 1, 9, 1, true},
    {"com.microsoft.SkipLayerNormalization", 5, 4, 3, 2, false},
    {"com.microsoft.SkipSimplifiedLayerNormalization", 4, 4, 3, 2, false},
};

static void make_norm(Case *c) {
    int kind = pick(0, 5), rank = norms[kind].axis ? pick(1, 4) : pick(2, 3), axis = rank - 1;
    c->kernel = &kernel_cpu_norm;
    c->n_in = norms[kind].n_in;
    c->n_out = c->behind ? 1 : pick(1, norms[kind].n_out);
    random_sizes(c->dims[0], c->rank[0] = rank);
    if (norms[kind].axis) axis = pick(0, rank - 1);
    for (int i = 1; i < c->n_in; i++) {
        c->has[i] = i < norms[kind].first_optional || pick(0, 1);
        bool vector = i >= norms[kind].first_vector;
        int from = vector ? norms[kind].axis ? pick(axis, rank - 1) : rank - 1 : pick(0, 1);
        c->rank[i] = rank - from;
        for (int k = from; k < rank; k++)
            c->dims[i][k - from] = vector && norms[kind].axis && pick(0, 5) == 0 ? 1 : c->dims[0][k];
    }
    SAY(c->op, "%s", norms[kind].op);
    if (norms[kind].axis)
        SAY(c->attrs, "axis=%d, epsilon=%g", pick(0, 1) ? axis : axis - rank, pick(0, 1) ? 1e-5 : 0.1);
    else SAY(c->attrs, "epsilon=1e-05");
    c->special = pick(0, 5) == 0;
    c->spread = (float[]){1, 3, 100}[pick(0, 2)];
    c->within = (Within){2e-5, 1e-5};
    add_operand_beside(c);
}
static void test_norm(void **state) {
    (void)state;
    run_cases(make_norm);
}

/* ---- normalisation of channels ------------------------------------------------------------------------------------- */

static void make_group_norm(Case *c) {
    bool each = pick(0, 1);
    int groups = pick(1, 6), rank = pick(2, 5);
    c->kernel = &kernel_cpu_group_norm;
    c->n_in = 3;
    random_sizes(c->dims[0], c->rank[0] = rank);
    c->dims[0][0] = pick(1, 3);
    if (!each) c->dims[0][1] = groups * (int64_t)(int[]){1, 2, 5, 16, 60, 300}[pick(0, 5)];
    for (int k = 2; k < rank; k++)
        if (c->dims[0][k] > 20) c->dims[0][k] = pick(1, 20);
    for (int i = 1; i < 3; i++) c->has[i] = true, c->rank[i] = 1, c->dims[i][0] = c->dims[0][1];
    SAY(c->op, each ? "InstanceNormalization" : "GroupNormalization");
    if (each) SAY(c->attrs, "epsilon=0.001");
    else SAY(c->attrs, "num_groups=%d", groups);
    c->special = pick(0, 5) == 0;
    c->within = (Within){1e-4, 1e-4};
    add_operand_beside(c);
}
static void test_group_norm(void **state) {
    (void)state;
    run_cases(make_group_norm);
}

/* ---- reductions ---------------------------------------------------------------------------------------------------- */

static void make_reduce(Case *c) {
    static const char *const ops[] = {"ReduceL1",   "ReduceL2",  "ReduceLogSum", "ReduceMax",
                                      "ReduceMean", "ReduceMin", "ReduceSum",    "ReduceSumSquare"};
    int op = pick(0, 7), rank = pick(1, 5), n = 0;
    c->kernel = &kernel_cpu_reduce;
    random_sizes(c->dims[0], c->rank[0] = rank);
    if (pick(0, 10) == 0) c->rank[0] = 1, c->dims[0][0] = 200000; /* in pieces */
    rank = c->rank[0];
    SAY(c->op, "%s", ops[op]);
    SAY(c->attrs, "keepdims=%d, noop_with_empty_axes=%d", pick(0, 1), c->behind ? 0 : pick(0, 1));
    char list[80] = "";
    for (int k = 0; k < rank; k++)
        if (pick(0, 1))
            n += 1, snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", list[0] ? ", " : "",
                             pick(0, 1) ? k : k - rank);
    if (n > 0) SAY(c->axes, "i64[%d] [%s]", n, list);
    c->spread = pick(0, 3) ? 3 : 1e25f;
    bool exact = op == 3 || op == 5;
    c->within = exact && !c->behind ? (Within){0, 0} : (Within){c->spread > 10 ? 1e22 : 2e-3, 3e-6};
    if (c->special && op != 3 && op != 5) c->within.absolute = 1e24; /* 1e30 may stand beside -1e30 */
    if (op == 2) c->within.absolute = 1e-2, c->special = false;
}
static void test_reduce(void **state) {
    (void)state;
    run_cases(make_reduce);
}

/* ---- resizing ------------------------------------------------------------------------------------------------------ */

static void make_resize(Case *c) {
    static const char *const coords[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    int rank = pick(3, 4), n = 0;
    char list[100] = "";
    bool scales = pick(0, 1);
    c->kernel = &kernel_cpu_resize;
    c->behind = false;
    c->rank[0] = rank;
    for (int k = 0; k < rank; k++) c->dims[0][k] = k == 0 ? pick(1, 2) : k == 1 ? pick(1, 70) : pick(1, 12);
    c->n_in = 1;
    for (int k = 0; k < rank; k++, n++) {
        if (scales)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%g", k ? ", " : "",
                     k < 2 ? 1 : (double)pick(4, 28) / 8);
        else
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", k ? ", " : "",
                     k < 2 ? (int)c->dims[0][k] : pick(1, 30));
    }
    SAY(c->op, "Resize");
    if (scales) SAY(c->axes, "_, f32[%d] [%s]", n, list);
    else SAY(c->axes, "_, _, i64[%d] [%s]", n, list);
    SAY(c->attrs, "mode=\"%s\", coordinate_transformation_mode=\"%s\", nearest_mode=\"%s\"",
        pick(0, 1) ? "linear" : "nearest", coords[pick(0, 3)], nearest[pick(0, 3)]);
    if (scales) /* some of these would vanish */
        for (int k = 2; k < rank; k++) c->dims[0][k] = pick(3, 12);
}
static void test_resize(void **state) {
    (void)state;
    run_cases(make_resize);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_softmax), cmocka_unit_test(test_norm),
                                       cmocka_unit_test(test_group_norm), cmocka_unit_test(test_reduce),
                                       cmocka_unit_test(test_resize)};
    if (argc > 1) times = (int)strtol(argv[1], NULL, 10);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
