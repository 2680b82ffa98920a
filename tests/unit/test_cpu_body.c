/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise programs against the reference kernels: every op alone and random groups of them, with several results, on
   operands of all readings; what stands behind a heavy node on tiles of all sizes; and the short forms.

       test_cpu_body [times] [first seed] */
#include "test_cpu_nodes.h"

#include "backends/cpu/body_int.h"

extern const KernelDesc kernel_cpu_elementwise;

static int times = 150;
static uint64_t first_seed = 1;

/* ---- shapes ------------------------------------------------------------------------------------------------------- */

typedef struct Dims {
    int rank;
    int64_t dims[TN_MAX_RANK];
} Dims;

static Dims random_dims(void) {
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 15, 16, 17, 33, 64, 100, 300};
    Dims d = {.rank = pick(0, 5)};
    int64_t n = 1;
    for (int k = 0; k < d.rank; k++) {
        d.dims[k] = pick(0, 60) == 0 ? 0 : sizes[pick(0, 12)];
        if (n * d.dims[k] > 20000) d.dims[k] = 1;
        n *= d.dims[k] ? d.dims[k] : 1;
    }
    return d;
}

/* What broadcasts to it. */
static Dims smaller_dims(const Dims *whole) {
    Dims d = {.rank = pick(0, whole->rank)};
    for (int k = 0; k < d.rank; k++) {
        d.dims[k] = whole->dims[whole->rank - d.rank + k];
        if (pick(0, 2) == 0) d.dims[k] = 1;
    }
    return d;
}

static void put_type(Text *text, const char *dtype, const Dims *d) {
    text_printf(text, "%s[", dtype);
    for (int k = 0; k < d->rank; k++) text_printf(text, "%s%lld", k ? "," : "", (long long)d->dims[k]);
    text_puts(text, "]");
}

/* ---- one model, all ways ------------------------------------------------------------------------------------------ */

typedef struct Case {
    const char *text;
    Operand in[OP_MAX_INPUTS];
    int n_in;
    Within within;
} Case;

static void assert_case(Context *ctx, const Case *c) {
    Model *model = parse_model(ctx, c->text);
    const Tensor *dense[OP_MAX_INPUTS], *given[OP_MAX_INPUTS], *by_operand[OP_MAX_INPUTS] = {0};
    Tensor expected[OP_MAX_OUTPUTS];
    const Node *node = model->main->last;
    for (int i = 0; i < c->n_in; i++) dense[i] = &c->in[i].dense, given[i] = &c->in[i].t;
    OK(eval_graph(ctx, model->main, dense, expected));
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (v) by_operand[i] = v->def ? value_constant(v) : given[v->index];
    }
    EACH_LEVEL(level, best) {
        Ran one, more;
        Lie lie = (Lie)pick(0, 2);
        uint64_t before = seed;
        bool ran = run_kernel(ctx, &kernel_cpu_elementwise, node, by_operand, expected, 1, lie, &one);
        if (!ran) print_error("not taken:\n%s\n", c->text);
        assert_true(ran);
        for (int i = 0; i < one.n; i++) {
            bool near = all_near(&one.out[i], &expected[i], c->within);
            if (!near)
                print_error("result %d on %s, seed %llu:\n%s\n", i, cpu_level_name(level),
                            (unsigned long long)first_seed, c->text);
            assert_true(near);
        }
        int threads = (int[]){2, 3, 7}[pick(0, 2)];
        seed = before; /* results that lie in the same way */
        assert_true(run_kernel(ctx, &kernel_cpu_elementwise, node, by_operand, expected, threads, lie, &more));
        assert_true(same_bits(&one, &more));
        free_ran(&one);
        free_ran(&more);
    }
    for (size_t i = 0; i < graph_n_outputs(model->main); i++) tensor_release(&expected[i]);
    model_free(model);
}

static void free_case(Case *c) {
    for (int i = 0; i < c->n_in; i++) free_operand(&c->in[i]);
}

/* ---- single ops --------------------------------------------------------------------------------------------------- */

typedef struct Single {
    const char *op;
    const char *types; /* of operands: f, b; F: with all dims */
    const char *attrs;
    float spread;
    Within within;
} Single;

#define EXACT \
    { 0, 0 }
#define FINE \
    { 1e-37, 1e-6 }
static const Single singles[] = {
    {"Abs", "F", "", 3, EXACT},
    {"Neg", "F", "", 3, EXACT},
    {"Add", "Ff", "", 3, EXACT},
    {"Sub", "fF", "", 3, EXACT},
    {"Mul", "Ff", "", 3, EXACT},
    {"Div", "fF", "", 3, EXACT},
    {"Min", "Fff", "", 3, EXACT},
    {"Max", "fF", "", 3, EXACT},
    {"Max", "F", "", 3, EXACT},
    {"Sum", "fFf", "", 3, EXACT},
    {"Mean", "Fff", "", 3, EXACT},
    {"Pow", "fF", "", 3, FINE},
    {"Exp", "F", "", 90, FINE},
    {"Log", "F", "", 90, FINE},
    {"Sqrt", "F", "", 9, EXACT},
    {"Reciprocal", "F", "", 9, EXACT},
    {"Sigmoid", "F", "", 20, FINE},
    {"Tanh", "F", "", 9, FINE},
    {"Relu", "F", "", 3, EXACT},
    {"LeakyRelu", "F", "alpha=0.125", 3, EXACT},
    {"PRelu", "Fs", "", 3, EXACT},
    {"ThresholdedRelu", "F", "alpha=0.5", 3, EXACT},
    {"Elu", "F", "alpha=2.0", 9, FINE},
    {"Selu", "F", "", 9, FINE},
    {"Celu", "F", "alpha=0.5", 9, FINE},
    {"Celu", "F", "alpha=-0.5", 9, FINE},
    {"Softplus", "F", "", 30, FINE},
    {"Softsign", "F", "", 9, FINE},
    {"HardSigmoid", "F", "", 9, {1e-7, 1e-6}},
    {"HardSwish", "F", "", 9, {2e-6, 1e-6}},
    {"Swish", "F", "alpha=1.5", 20, FINE},
    {"Mish", "F", "", 20, {1e-37, 2e-6}},
    {"Gelu", "F", "", 6, {1e-37, 2e-5}},
    {"Gelu", "F", "approximate=\"tanh\"", 6, {2e-6, 1e-5}},
    {"Erf", "F", "", 4, FINE},
    {"Sin", "F", "", 30, {1e-12, 1e-6}},
    {"Cos", "F", "", 30, {1e-12, 1e-6}},
    {"Floor", "F", "", 9, EXACT},
    {"Ceil", "F", "", 9, EXACT},
    {"Round", "F", "", 9, EXACT},
    {"Sign", "F", "", 3, EXACT},
    {"IsNaN", "F", "", 3, EXACT},
    {"IsInf", "F", "detect_negative=0", 3, EXACT},
    {"Not", "B", "", 3, EXACT},
    {"And", "Bb", "", 3, EXACT},
    {"Or", "bB", "", 3, EXACT},
    {"Xor", "Bb", "", 3, EXACT},
    {"Equal", "Ff", "", 3, EXACT},
    {"Equal", "bB", "", 3, EXACT},
    {"Less", "fF", "", 3, EXACT},
    {"LessOrEqual", "Ff", "", 3, EXACT},
    {"Greater", "fF", "", 3, EXACT},
    {"GreaterOrEqual", "Ff", "", 3, EXACT},
    {"Where", "bFf", "", 3, EXACT},
    {"Where", "BFf", "", 3, EXACT},
    {"Where", "bBb", "", 3, EXACT},
    {"Cast", "B", "to=1", 3, EXACT},
    {"Cast", "F", "to=9", 3, EXACT},
    {"Cast", "F", "to=1", 3, EXACT},
    {"Cast", "I", "to=1", 300, EXACT},
    {"Cast", "L", "to=9", 2, EXACT},
    {"Cast", "H", "to=1", 3, EXACT},
    {"Cast", "H", "to=16", 3, EXACT},
    {"Cast", "K", "to=1", 3, EXACT},
    {"Cast", "K", "to=9", 3, EXACT},
    {"Cast", "F", "to=10", 70000, EXACT},
    {"Cast", "F", "to=10", 1e-6f, EXACT},
    {"Cast", "F", "to=16", 3, EXACT},
    {"Cast", "B", "to=10", 3, EXACT},
    {"QuantizeLinear", "F1", "", 90, EXACT},
    {"QuantizeLinear", "F1Z", "", 90, EXACT},
    {"QuantizeLinear", "F1z", "", 90, EXACT},
    {"QuantizeLinear", "Fl", "axis=-1", 90, EXACT},
    {"QuantizeLinear", "Fly", "axis=-1", 9, EXACT},
    {"DequantizeLinear", "Q1", "", 90, EXACT},
    {"DequantizeLinear", "Q1Z", "", 90, EXACT},
    {"DequantizeLinear", "W1z", "", 90, EXACT},
    {"DequantizeLinear", "Wly", "axis=-1", 90, EXACT},
    {"Equal", "Jj", "", 2, EXACT},
    {"Less", "jJ", "", 3, EXACT},
    {"GreaterOrEqual", "Jj", "", 3, EXACT},
    {"Clip", "F", "", 3, EXACT},
    {"Clip", "F11", "", 3, EXACT},
    {"Clip", "F1", "", 3, EXACT},
    {"Clip", "F_1", "", 3, EXACT},
    {"SwiGLU", "FF", "alpha=1.5", 20, FINE},
    {"com.microsoft.QuickGelu", "F", "", 9, FINE},
    {"com.microsoft.Gelu", "F", "", 6, {1e-37, 2e-5}},
    {"com.microsoft.FastGelu", "F", "", 6, {2e-6, 1e-5}},
    {"com.microsoft.FastGelu", "Fl", "", 6, {2e-6, 1e-5}},
    {"com.microsoft.BiasGelu", "Fl", "", 6, {1e-6, 2e-5}},
};

static const char *dtype_letter(char type) {
    return strchr("bB", type)    ? "bool"
           : strchr("IJj", type) ? "i32"
           : type == 'L'         ? "i64"
           : type == 'H'         ? "f16"
           : type == 'K'         ? "bf16"
           : strchr("QZ", type)  ? "u8"
           : strchr("Wzy", type) ? "i8"
                                 : "f32";
}
static tn_dtype dtype_code(char type) {
    return strchr("bB", type)    ? TN_BOOL
           : strchr("IJj", type) ? TN_I32
           : type == 'L'         ? TN_I64
           : type == 'H'         ? TN_F16
           : type == 'K'         ? TN_BF16
           : strchr("QZ", type)  ? TN_U8
           : strchr("Wzy", type) ? TN_I8
                                 : TN_F32;
}

static Dims dims_of_letter(char type, const Dims *whole) {
    if (strchr("1zZ", type)) return (Dims){0};
    if (strchr("ly", type)) return (Dims){1, {whole->dims[whole->rank - 1]}};
    return strchr("fbsj", type) ? smaller_dims(whole) : *whole;
}

static void run_single(Context *ctx, const Single *s) {
    Case c = {.within = s->within};
    Text text;
    Dims whole = random_dims();
    if (whole.rank == 0 && strchr(s->types, 'l')) whole = (Dims){1, {3}};
    text_init(&text, &ctx->allocator);
    text_puts(&text, "tn 1 graph @g(");
    for (const char *t = s->types; *t; t++) {
        if (*t == '_') continue;
        Dims d = dims_of_letter(*t, &whole);
        text_printf(&text, "%s%%x%d: ", c.n_in ? ", " : "", (int)(t - s->types));
        put_type(&text, dtype_letter(*t), &d);
        bool special = !strchr("ILHKJjQZWzy", *t);
        make_operand(ctx, dtype_code(*t), d.rank, d.dims, s->spread, special, pick(0, 1), &c.in[c.n_in++]);
    }
    text_printf(&text, ") -> (%%y) { %%y = %s(", s->op);
    for (const char *t = s->types; *t; t++) {
        if (*t == '_') text_printf(&text, "%s_", t > s->types ? ", " : "");
        else text_printf(&text, "%s%%x%d", t > s->types ? ", " : "", (int)(t - s->types));
    }
    text_printf(&text, ") {%s} }", s->attrs);
    c.text = text.s;
    assert_case(ctx, &c);
    text_free(&text);
    free_case(&c);
}

static void test_singles(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    seed = first_seed;
    for (int k = 0; k < (times + 14) / 15; k++)
        for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) run_single(ctx, &singles[i]);
    context_unref(ctx);
}

/* ---- powers and channels ------------------------------------------------------------------------------------------ */

static void test_constants(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    seed = first_seed;
    static const char *const nodes[] = {
        "Pow(%x, f32 2)",
        "Pow(%x, f32 3)",
        "Pow(%x, f32 0.5)",
        "Pow(%x, f32 -1)",
        "Pow(%x, f32 1)",
        "Pow(%x, f32 0)",
        "Pow(%x, i64 2)",
        "Pow(%x, f32 1.7)",
        "Pow(f32 2, %x)",
        "Add(%x, f32[1,1,1] 0.5)",
        "Clip(%x, f32 -1, f32 0.5)",
        "Clip(%x, f32 1, f32 -1)",
        "Max(%x, f32 0.5)",
        "Where(bool true, %x, f32 1)",
        "Div(f32 1, %x)",
        "Pow(%x, i32 2)",
        "BatchNormalization(%x, f32[3] [1, 2, -3], f32[3] [0, 0.5, 1], f32[3] [0.25, 0, -1], f32[3] [1, 0.1, 2])",
        "tn.Fused(%x, f32[3] [1, 2, -3], f32[3] [0, 0.5, 1], f32[3] [0.25, 0, -1]) {body = graph(%a, %s, %b, %m) -> (%r) {\n"
        "    %n = BatchNormalization(%a, %s, %b, %m, %s) %r = Relu(%n) }}",
        "tn.Fused(%x, f32[3] [1, 2, 3]) {body = graph(%a, %s) -> (%r) {\n"
        "    %b = Add(%a, f32 0.25) %c = Relu(%b) %d = BatchNormalization(%c, %s, %s, %s, %s) %r = Add(%d, %b) }}"};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        Text text;
        text_init(&text, &ctx->allocator);
        text_printf(&text, "tn 1 graph @g(%%x: f32[2,3,50]) -> (%%y) { %%y = %s }", nodes[i]);
        Case c = {.text = text.s, .n_in = 1, .within = {1e-37, 1e-6}};
        bool norm = strstr(nodes[i], "BatchNorm") != NULL;
        make_operand(ctx, TN_F32, 3, (int64_t[]){2, 3, 50}, 3, !norm, pick(0, 1), &c.in[0]);
        if (norm) c.within = (Within){3e-6, 3e-6};
        assert_case(ctx, &c);
        free_case(&c);
        text_free(&text);
    }
    context_unref(ctx);
}

/* Steps that are joined: each product and each sum rounds by itself, as the reference has it. */
static void test_joined(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "%m = Mul(%a, %b) %r = Add(%m, %c)",
        "%m = Mul(%a, %b) %r = Add(%c, %m)",
        "%m = Mul(%a, %b) %s = Add(%m, %c) %r = Relu(%s)",
        "%m = Mul(%a, %b) %n = Mul(%b, %c) %r = Add(%m, %n)",
        "%m = Mul(%a, %b) %s = Add(%m, %m) %r = Relu(%s)",
        "%m = Mul(%a, %a) %s = Add(%m, %a) %t = Relu(%s) %r = Add(%t, %s)",
        "%m = Mul(%a, %b) %s = Add(%m, f32 0.3) %r = Relu(%s)",
        "%s = Add(%a, %b) %t = Relu(%s) %m = Mul(%t, %c) %r = Add(%m, %t)",
        "%s = Add(%a, %b) %h = Cast(%s) {to=10} %t = Cast(%h) {to=1} %m = Mul(%t, %c) %r = Cast(%m) {to=10}",
        "%q = QuantizeLinear(%a, f32 0.03, u8 100) %d = DequantizeLinear(%q, f32 0.03, u8 100) %s = Add(%d, %b) %t = "
        "Relu(%s) %r = QuantizeLinear(%t, f32 0.1, i8 3)",
        "%s = Add(%a, %b) %h = Cast(%s) {to=16} %t = Cast(%h) {to=1} %r = Add(%t, %c)",
    };
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (int how = 0; how < 4; how++) {
            const char *b = how & 1 ? "50" : "2,3,50", *c = how & 2 ? "3,1" : "2,3,50";
            Text text;
            seed = first_seed + i;
            text_init(&text, &ctx->allocator);
            text_printf(&text, "tn 1 graph @g(%%x: f32[2,3,50], %%y: f32[%s], %%z: f32[%s]) -> (%%o) {\n", b, c);
            text_puts(&text, "  %o = tn.Fused(%x, %y, %z) {body = graph(%a, %b, %c) -> (%r) { ");
            text_printf(&text, "%s }} }", bodies[i]);
            Case k = {.text = text.s, .n_in = 3, .within = {0, 0}};
            make_operand(ctx, TN_F32, 3, (int64_t[]){2, 3, 50}, 3, pick(0, 1), pick(0, 1), &k.in[0]);
            make_operand(ctx, TN_F32, how & 1 ? 1 : 3, how & 1 ? (int64_t[]){50} : (int64_t[]){2, 3, 50}, 3, false,
                         pick(0, 1), &k.in[1]);
            make_operand(ctx, TN_F32, how & 2 ? 2 : 3, how & 2 ? (int64_t[]){3, 1} : (int64_t[]){2, 3, 50}, 3, false,
                         pick(0, 1), &k.in[2]);
            assert_case(ctx, &k);
            free_case(&k);
            text_free(&text);
        }
    context_unref(ctx);
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

/* Ops that do not make errors larger than their operands' sizes allow. */
static const char *const tame1[] = {"Relu",      "Sigmoid",  "Tanh",     "Neg", "Abs", "HardSwish", "Gelu",
                                    "LeakyRelu", "Softplus", "Identity", "Erf", "Elu", "Sin"};
static const char *const tame2[] = {"Add", "Sub", "Min", "Max", "Add", "PRelu", "Mul"};
/* These read operands of the group alone, which are exact. */
static const char *const wild1[] = {"Exp", "Floor", "Round", "Sign", "Ceil", "Reciprocal", "Log", "Sqrt"};

typedef struct Group {
    Text text;
    int n_values; /* f32 values of full size: %v0 ... */
    int n_in, n_bool;
} Group;

static void add_group_node(Group *g, int first_bool) {
    Text *t = &g->text;
    int kind = pick(0, 9), x = pick(g->n_values / 2, g->n_values - 1);
    text_printf(t, "    %%v%d = ", g->n_values);
    if (kind < 4) text_printf(t, "%s(%%v%d)\n", tame1[pick(0, 12)], x);
    else if (kind == 4) text_printf(t, "Where(%%a%d, %%v%d, %%v%d)\n", first_bool, x, pick(0, g->n_values - 1));
    else if (kind == 5) text_printf(t, "Add(%%v%d, f32 %.3f)\n", x, (double)uniform(-1, 1));
    else if (kind == 6) text_printf(t, "Clip(%%v%d, f32 -1.5, f32 2)\n", x);
    else {
        int other = pick(0, g->n_in - 1), op = pick(0, 6);
        bool inner = pick(0, 1) && op != 6; /* products of products grow */
        text_printf(t, "%s(%%v%d, %%%c%d)\n", tame2[op], x, inner ? 'v' : 'a',
                    inner ? pick(0, g->n_values - 1) : other);
    }
    g->n_values++;
}

static void test_groups(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int k = 0; k < times; k++) {
        seed = first_seed + (uint64_t)k;
        Group g = {.n_in = pick(1, 4)};
        Case c = {.within = {1e-3, 1e-3}, .n_in = g.n_in + 1};
        Dims whole = random_dims();
        int n_nodes = pick(1, 12), n_out = pick(0, 2) ? 1 : pick(2, 3);
        bool special = pick(0, 3) == 0;
        text_init(&g.text, &ctx->allocator);
        text_puts(&g.text, "tn 1 graph @g(");
        for (int i = 0; i <= g.n_in; i++) {
            Dims d = i == 0 ? whole : smaller_dims(&whole);
            text_printf(&g.text, "%s%%x%d: ", i ? ", " : "", i);
            put_type(&g.text, i == g.n_in ? "bool" : "f32", &d);
            make_operand(ctx, i == g.n_in ? TN_BOOL : TN_F32, d.rank, d.dims, 3, special, pick(0, 2) == 0, &c.in[i]);
        }
        text_puts(&g.text, ") -> (");
        for (int i = 0; i < n_out; i++) text_printf(&g.text, "%s%%y%d", i ? ", " : "", i);
        text_puts(&g.text, ") {\n  ");
        for (int i = 0; i < n_out; i++) text_printf(&g.text, "%s%%y%d", i ? ", " : "", i);
        text_puts(&g.text, " = tn.Fused(");
        for (int i = 0; i <= g.n_in; i++) text_printf(&g.text, "%s%%x%d", i ? ", " : "", i);
        text_puts(&g.text, ") {body = graph(");
        for (int i = 0; i <= g.n_in; i++) text_printf(&g.text, "%s%%a%d", i ? ", " : "", i);
        text_puts(&g.text, ") -> (");
        for (int i = 0; i < n_out; i++) text_printf(&g.text, "%s%%r%d", i ? ", " : "", i);
        text_printf(&g.text, ") {\n    %%v0 = %s(%%a0)\n", wild1[pick(0, 7)]);
        g.n_values = 1;
        for (int i = 0; i < n_nodes; i++) add_group_node(&g, g.n_in);
        for (int i = 0; i < n_out; i++) {
            int from = i == 0 ? g.n_values - 1 : pick(0, g.n_values - 1);
            text_printf(&g.text, "    %%r%d = Identity(%%v%d)\n", i, from);
        }
        text_puts(&g.text, "  }} }");
        c.text = g.text.s;
        assert_case(ctx, &c);
        text_free(&g.text);
        free_case(&c);
    }
    context_unref(ctx);
}

/* ---- behind a heavy node ------------------------------------------------------------------------------------------ */

static bool is_matmul(const Node *node) { return node_is_onnx(node, "MatMul"); }

/* Result dims [batch, channels, h, w] of a product; tiles have rows along h and w, or along w alone, and columns along the
   channels; or rows along h (or batch, channels and h) and columns along w. */
static void check_tiles(const Body *body, const KernelCtx *c, const Tensor *product, const Tensor *expected,
                        Within within) {
    BodyMap map;
    const Tensor *y = &c->out[0];
    bool channels = pick(0, 1);
    int row_axis = channels ? 2 : pick(0, 2), n_axes = channels ? 2 : 3 - row_axis, col_axis = channels ? 1 : 3;
    OK(body_map(body, c, row_axis, n_axes, col_axis, &map));
    map.stream = pick(0, 1); /* past the caches or not, the numbers are the same */
    int first = map.rows_walk ? row_axis : row_axis + n_axes - 1, end = row_axis + n_axes;
    int64_t rows = 1, at[TN_MAX_RANK] = {0}, done = 0;
    for (int k = first; k < end; k++) rows *= y->dims[k];
    for (int64_t i = 0, n = tensor_count(y); i < n && done < 200; i++) { /* from every element on, as if */
        int64_t row = 0, left[TN_MAX_RANK];
        for (int k = first; k < end; k++) row = row * y->dims[k] + at[k];
        int64_t most_rows = rows - row, most_cols = y->dims[col_axis] - at[col_axis];
        int64_t r = pick(1, (int)most_rows), q = pick(1, (int)most_cols), ld = q + pick(0, 3);
        float *tile = calloc((size_t)(r * ld), sizeof *tile), *out = pick(0, 1) ? tile : calloc((size_t)(r * ld), 4);
        memcpy(left, at, sizeof left);
        for (int64_t a = 0; a < r; a++) {
            for (int64_t b = 0; b < q; b++) {
                left[col_axis] = at[col_axis] + b;
                tile[a * ld + b] = (float)number_at(product, left);
            }
            for (int k = end; k-- > first && ++left[k] == y->dims[k];) left[k] = 0;
        }
        body_run_tile(&map, at, tile, ld, out, ld, r, q);
        memcpy(left, at, sizeof left);
        for (int64_t a = 0; a < r; a++) {
            for (int64_t b = 0; b < q; b++) {
                left[col_axis] = at[col_axis] + b;
                assert_true(is_near(out[a * ld + b], number_at(expected, left), within));
            }
            for (int k = end; k-- > first && ++left[k] == y->dims[k];) left[k] = 0;
        }
        if (out != tile) free(out);
        free(tile);
        int64_t skip = pick(1, 1 + (int)(n / 100));
        for (; skip > 0; skip--, i++, done++)
            for (int k = 4; k-- > 0 && ++at[k] == y->dims[k];) at[k] = 0;
        i--;
    }
}

static void test_heavy(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int k = 0; k < times; k++) {
        seed = first_seed + (uint64_t)k;
        Group g = {.n_in = pick(1, 3)};
        Dims whole = {4, {pick(1, 3), pick(1, 40), pick(1, 7), pick(1, 40)}};
        Dims a = whole, b = whole;
        a.dims[3] = b.dims[2] = 5;
        Operand in[8];
        int n_in = g.n_in + 3, n_nodes = pick(1, 8);
        text_init(&g.text, &ctx->allocator);
        text_puts(&g.text, "tn 1 graph @g(");
        for (int i = 0; i < n_in; i++) {
            Dims d = i == 0 ? a : i == 1 ? b : smaller_dims(&whole);
            bool truth = i == n_in - 1;
            text_printf(&g.text, "%s%%x%d: ", i ? ", " : "", i);
            put_type(&g.text, truth ? "bool" : "f32", &d);
            make_operand(ctx, truth ? TN_BOOL : TN_F32, d.rank, d.dims, 1, false, pick(0, 1), &in[i]);
        }
        text_puts(&g.text, ") -> (%m, %y) {\n  %m = MatMul(%x0, %x1)\n  %y = tn.Fused(");
        for (int i = 0; i < n_in; i++) text_printf(&g.text, "%s%%x%d", i ? ", " : "", i);
        text_puts(&g.text, ") {body = graph(%p, %q");
        for (int i = 0; i <= g.n_in; i++) text_printf(&g.text, ", %%a%d", i);
        text_puts(&g.text, ") -> (%r) {\n    %v0 = MatMul(%p, %q)\n");
        g.n_values = 1;
        for (int i = 0; i < n_nodes; i++) add_group_node(&g, g.n_in);
        text_printf(&g.text, "    %%r = Identity(%%v%d)\n  }} }", g.n_values - 1);
        Model *model = parse_model(ctx, g.text.s);
        const Node *node = model->main->last;
        const Tensor *dense[8], *given[8];
        Tensor out[2];
        Heavy heavy;
        Body *body;
        Arena arena;
        for (int i = 0; i < n_in; i++) dense[i] = &in[i].dense, given[i] = &in[i].t;
        OK(eval_graph(ctx, model->main, dense, out));
        bool opened = heavy_open(node, is_matmul, &heavy);
        if (!opened) print_error("%s\n", g.text.s);
        assert_true(opened && heavy.fused && heavy.in[0] == 0 && heavy.in[1] == 1 && heavy.in[2] == -1);
        arena_init(&arena, &ctx->allocator);
        OK(body_compile(node, heavy.node, &arena, &body));
        KernelCtx c = {.node = node, .n_in = n_in, .n_out = 1, .in = given, .out = &out[1], .context = ctx};
        EACH_LEVEL(level, best) check_tiles(body, &c, &out[0], &out[1], (Within){1e-3, 1e-3});
        arena_free(&arena);
        for (int i = 0; i < n_in; i++) free_operand(&in[i]);
        for (int i = 0; i < 2; i++) tensor_release(&out[i]);
        model_free(model);
        text_free(&g.text);
    }
    context_unref(ctx);
}

/* ---- short forms -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *body;
    bool is_short;
    int bias, residual;
    float lo, hi;
} shorts[] = {
    {"%r = Relu(%m)", true, -1, -1, 0, INFINITY},
    {"%b = Add(%m, %bias) %r = Relu(%b)", true, 2, -1, 0, INFINITY},
    {"%b = Add(%bias, %m) %c = Add(%res, %b) %r = Clip(%c, f32 -1, f32 6)", true, 2, 3, -1, 6},
    {"%c = Add(%m, %res) %i = Identity(%c) %r = Min(%i, f32 6)", true, -1, 3, -INFINITY, 6},
    {"%c = Relu(%m) %r = Min(%c, f32 6)", true, -1, -1, 0, 6},
    {"%c = Min(%m, f32 6) %r = Relu(%c)", true, -1, -1, 0, 6},
    {"%c = Min(%m, f32 -6) %r = Relu(%c)", true, -1, -1, 0, 0},
    {"%c = Add(%m, %res) %r = Add(%c, %bias)", false},
    {"%c = Relu(%m) %r = Add(%c, %bias)", false},
    {"%c = Add(%m, %res) %r = Add(%c, %res)", false},
    {"%r = Add(%m, %m)", false},
    {"%r = Add(%m, f32 1)", false},
    {"%r = Add(%m, %rows)", false},
    {"%r = Mul(%m, %bias)", false},
    {"%c = Relu(%bias) %r = Add(%m, %c)", false},
};

static void test_shorts(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (size_t i = 0; i < sizeof shorts / sizeof *shorts; i++) {
        Text text;
        text_init(&text, &ctx->allocator);
        text_printf(
            &text,
            "tn 1 graph @g(%%x: f32[6,4], %%w: f32[4,5], %%k: f32[1,5], %%l: f32[6,5], %%o: f32[6,1]) -> (%%y) {\n"
            "  %%y = tn.Fused(%%x, %%w, %%k, %%l, %%o) {body = graph(%%p, %%q, %%bias, %%res, %%rows) -> (%%r) {\n"
            "    %%m = MatMul(%%p, %%q) %s }} }",
            shorts[i].body);
        Model *model = parse_model(ctx, text.s);
        const Node *node = model->main->first;
        Tensor in[5], out;
        const Tensor *given[5];
        Heavy heavy;
        Body *body;
        BodyShort found;
        Arena arena;
        for (int k = 0; k < 5; k++) {
            const Type *type = model->main->inputs.data[k]->type;
            tensor_set_dense(&in[k], type->dtype, type->shape.rank, type->shape.dims);
            given[k] = &in[k];
        }
        tensor_set_dense(&out, TN_F32, 2, (int64_t[]){6, 5});
        KernelQuery q = {.node = node, .n_in = 5, .n_out = 1, .in = given, .out = &out};
        assert_true(heavy_open(node, is_matmul, &heavy));
        arena_init(&arena, &ctx->allocator);
        OK(body_compile(node, heavy.node, &arena, &body));
        bool is_short = body_as_short(body, &q, 1, &found);
        if (is_short != shorts[i].is_short) print_error("%s\n", shorts[i].body);
        assert_int_equal(is_short, shorts[i].is_short);
        if (is_short) {
            bool same = found.bias == shorts[i].bias && found.residual == shorts[i].residual &&
                        found.lo == shorts[i].lo && found.hi == shorts[i].hi;
            if (!same)
                print_error("%s: %d %d %g %g\n", shorts[i].body, found.bias, found.residual, (double)found.lo,
                            (double)found.hi);
            assert_true(same);
        }
        arena_free(&arena);
        model_free(model);
        text_free(&text);
    }
    context_unref(ctx);
}

/* What heavy_open must not take. */
static void test_refused(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "graph(%p, %q, %b) -> (%r) { %n = Neg(%p) %r = MatMul(%n, %q) }",           /* its operand is computed */
        "graph(%p, %q, %b) -> (%r) { %n = MatMul(%p, %q) %r = MatMul(%n, %q) }",    /* two of them */
        "graph(%p, %q, %b) -> (%r) { %n = MatMul(%p, %q) %r = CumSum(%n, i64 0) }", /* no light node */
        ("graph(%p, %q, %b) -> (%r) { %m = MatMul(%p, %q) %n = Relu(%b)\n"
         "  %r = BatchNormalization(%m, %n, %n, %n, %n) }"),                      /* vectors that are computed */
        "graph(%p, %q, %b) -> (%r) { %r = Add(%p, %q) }",                         /* none */
        "graph(%p, %q, %b) -> (%r) { %n = MatMul(%p, %q) %r = Greater(%n, %b) }", /* its result is no float32 */
        "graph(%p, %q, %b) -> (%r) { %n = MatMul(%p, %q) %r = Add(%n, f32[4] [1, 2, 3, 4]) }"};
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        Text text;
        Heavy heavy;
        text_init(&text, &ctx->allocator);
        text_printf(&text,
                    "tn 1 graph @g(%%x: f32[4,4], %%w: f32[4,4], %%k: f32[4]) -> (%%y) {\n"
                    "  %%y = tn.Fused(%%x, %%w, %%k) {body = %s} }",
                    bodies[i]);
        Model *model = parse_model(ctx, text.s);
        if (heavy_open(model->main->first, is_matmul, &heavy)) print_error("taken: %s\n", bodies[i]);
        assert_false(heavy_open(model->main->first, is_matmul, &heavy));
        model_free(model);
        text_free(&text);
    }
    context_unref(ctx);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_singles), cmocka_unit_test(test_constants),
                                       cmocka_unit_test(test_joined),  cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_heavy),   cmocka_unit_test(test_shorts),
                                       cmocka_unit_test(test_refused)};
    if (argc > 1) times = (int)strtol(argv[1], NULL, 10);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
