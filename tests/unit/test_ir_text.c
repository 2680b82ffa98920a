/* SPDX-License-Identifier: Apache-2.0 */
/* The text form: round trips of everything it can say, messages, fragments, Graphviz, hostile and huge texts. */
#include <locale.h>
#include <pthread.h>
#include <stdio.h>

#include "test_ir_common.h"

/* ---- ops ----------------------------------------------------------------------------------------------------- */

/* A table of our own in place of the library's: what is tested is the language, whatever ops there are. */
#define X(group, flags) \
    { "x", TS_ANY, group, flags }
#define ANY_NUMBER OPERANDS(X(0, OPERAND_VARIADIC | OPERAND_OPTIONAL))
static const OpSchema test_ops[] = {
    {.name = "Add", .inputs = OPERANDS(X('T', 0), X('T', 0)), .outputs = OPERANDS(X('T', 0))},
    {.name = "Clip",
     .inputs = OPERANDS(X('T', 0), X('T', OPERAND_OPTIONAL), X('T', OPERAND_OPTIONAL)),
     .outputs = OPERANDS(X('T', 0))},
    {.name = "Conv",
     .inputs = OPERANDS(X('T', 0), X('T', 0), X('T', OPERAND_OPTIONAL)),
     .outputs = OPERANDS(X('T', 0)),
     .attrs = ATTRIBUTES({.name = "pads", .kind = ATTR_INTS}, {.name = "strides", .kind = ATTR_INTS})},
    {.name = "Identity", .inputs = OPERANDS(X('T', 0)), .outputs = OPERANDS(X('T', 0))},
    {.name = "If",
     .flags = OP_CONTROL,
     .inputs = OPERANDS(X(0, 0)),
     .outputs = ANY_NUMBER,
     .attrs = ATTRIBUTES({.name = "then_branch", .kind = ATTR_GRAPH, .flags = ATTR_REQUIRED},
                         {.name = "else_branch", .kind = ATTR_GRAPH, .flags = ATTR_REQUIRED})},
    {.name = "LeakyRelu",
     .inputs = OPERANDS(X('T', 0)),
     .outputs = OPERANDS(X('T', 0)),
     .attrs = ATTRIBUTES({.name = "alpha", .kind = ATTR_FLOAT}, {.name = "betas", .kind = ATTR_FLOATS})},
    {.name = "Relu", .inputs = OPERANDS(X('T', 0)), .outputs = OPERANDS(X('T', 0))},
    {.name = "Reshape", .inputs = OPERANDS(X('T', 0), X(0, 0)), .outputs = OPERANDS(X('T', 0))},
    {.name = "Split",
     .inputs = OPERANDS(X('T', 0)),
     .outputs = OPERANDS(X('T', OPERAND_VARIADIC)),
     .attrs = ATTRIBUTES({.name = "axis", .kind = ATTR_INT})},
    {.domain = "com.microsoft", .name = "QGemm", .inputs = ANY_NUMBER, .outputs = ANY_NUMBER},
    {.domain = "odd-domain", .name = "odd \"op\"", .inputs = ANY_NUMBER, .outputs = ANY_NUMBER},
    {.domain = "tn", .name = "Any", .flags = OP_ALL_ATTRS, .inputs = ANY_NUMBER, .outputs = ANY_NUMBER},
    {.domain = "tn",
     .name = "Const",
     .kind = OP_HOST,
     .outputs = OPERANDS(X(0, 0)),
     .attrs = ATTRIBUTES({.name = "data", .kind = ATTR_TENSOR, .flags = ATTR_REQUIRED})},
};
enum { N_TEST_OPS = sizeof test_ops / sizeof *test_ops };

const OpSchema *const *op_table(size_t *n) {
    static const OpSchema *table[N_TEST_OPS];
    for (size_t i = 0; i < N_TEST_OPS; i++) table[i] = &test_ops[i];
    *n = N_TEST_OPS;
    return table;
}

const OpSchema *op_find(Str domain, Str name) {
    for (size_t i = 0; i < N_TEST_OPS; i++) {
        const OpSchema *op = &test_ops[i];
        bool ours = op->domain && strcmp(op->domain, "tn") == 0 && domain.n == 0;
        if (str_equal(name, str_of(op->name)) && (ours || str_equal(domain, str_of(op->domain)))) return op;
    }
    return NULL;
}

/* ---- helpers ------------------------------------------------------------------------------------------------- */

static Context *new_context(void) {
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    return ctx;
}

static tn_status leave_empty(void *user, const Tensor *payload, const Value *value, Text *out) {
    (void)user, (void)payload, (void)value, (void)out;
    return TN_OK;
}
static const PrintOptions in_full = {.constant = leave_empty};

/* Any reference is eight bytes, or for the key "floats" four floats. */
static tn_status eight_bytes(void *user, Model *model, Str file, Str key, Tensor *payload) {
    (void)user;
    if (!str_equal(file, STR("w.safetensors"))) return fail(TN_IO, "no such file");
    bool floats = str_equal(key, STR("floats"));
    int64_t dims[] = {floats ? 4 : 8};
    return tensor_new(model->ctx, floats ? TN_F32 : TN_U8, 1, dims, payload);
}
static const ParseOptions with_weights = {.constant = eight_bytes};

static Model *parse_ok(Context *ctx, Str text) {
    Model *model = NULL;
    OK(model_parse(ctx, text, &with_weights, STR("x.tn"), &model));
    return model;
}

static Text print_all(const Model *model, const PrintOptions *options) {
    Text text;
    text_init(&text, &model->ctx->allocator);
    OK(model_print(model, options, &text));
    return text;
}

/* Prints, parses and prints again; the first print. */
static Text round_trip(Context *ctx, const char *source) {
    Model *model = parse_ok(ctx, str_of(source));
    OK(model_verify(model));
    Text first = print_all(model, &in_full);
    Model *again = parse_ok(ctx, (Str){first.s, first.n});
    OK(model_verify(again));
    Text second = print_all(again, &in_full);
    assert_string_equal(first.s, second.s);
    assert_int_equal(first.n, second.n);
    text_free(&second);
    model_free(model);
    model_free(again);
    return first;
}

static void assert_has(const char *text, const char *part) {
    if (!strstr(text, part)) print_error("`%s`\nis not in\n%s\n", part, text);
    assert_non_null(strstr(text, part));
}

/* A model of one statement between an input and an output. */
static void frame_statement(char *out, size_t size, const char *statement) {
    snprintf(out, size, "tn 1\ngraph @main(%%x: f32[2,3], %%cond: bool[]) -> (%%x) {\n  %s\n}\n", statement);
}

static void assert_statement(Context *ctx, const char *statement, const char *printed) {
    char source[4096];
    frame_statement(source, sizeof source, statement);
    Text text = round_trip(ctx, source);
    assert_has(text.s, printed);
    text_free(&text);
}

/* ---- what the language can say --------------------------------------------------------------------------------- */

static const char everything[] =
    "# a comment\n"
    "tn 1\n"
    "model {producer_name = \"pytorch\", \"custom key\" = \"v\\n\\x01\xc3\xa9\", \"\" = \"\"}\n"
    "graph @\"odd graph\"(%image: f32[batch,3,224,224], %n: i64[2] = i64[2] [1,2], %cond: bool[], %\"odd/name:0\": ?,\n"
    "  %s: seq(map(i64, f32[2,?])), %q: i8[4,4]@[1,0;1:16] quant(scale=[0.5,0.1], zero=[1,2], axis=1, block=4),\n"
    "  %5: f32[*], %\"\\xff\\x00\\\"\\\\\": opt(str[]), %\"0\": ?[2,?])\n"
    "  -> (%prob, \"api name\" = %c1, %21) {\n"
    "  %w : f32[1,3,1,1] = Const {data = f32[1,3,1,1] [[[[1.0]],[[2]],[[nan]]]]}\n"
    "  %c1: f32[batch,32,(h+1)/2,ceildiv(w-1, 2)*2,mod(a, 3),min(a, b),max(a, 4),\"odd dim\"] = Identity(%image)\n"
    "       loc \"features.0.0\"\n"
    "  %a, %_ = Split(%c1) {axis=1,}\n"
    "  %r = If(%cond) {then_branch = graph @t() -> (%y) { %y = Relu(%a) },\n"
    "                  else_branch = graph() -> (%z) { %z = If(%cond) {\n"
    "      then_branch = graph() -> (%c1) {}, else_branch = graph() -> (%zz) { %zz = Add(%c1, %c1) } } }}\n"
    "  %k = Clip(%r, 0.0, _)\n"
    "  %prob = Clip(%k, _, 6.0)\n"
    "  %21: f32[6] = Reshape(%prob, [6])\n"
    "  _ = Identity(%21)\n"
    "}\n";

static void test_everything(void **state) {
    (void)state;
    Context *ctx = new_context();
    Text text = round_trip(ctx, everything);
    assert_has(text.s, "model {producer_name = \"pytorch\", \"custom key\" = \"v\\n\\x01\xc3\xa9\", \"\" = \"\"}");
    assert_has(text.s, "graph @\"odd graph\"(%image: f32[batch,3,224,224], %n: i64[2] = i64[2] [1, 2], %cond: bool[], "
                       "%\"odd/name:0\", ");
    assert_has(text.s, "%\"\\xff\\x00\\\"\\\\\": opt(str[]), %\"0\": ?[2,?]) -> (%prob, \"api name\" = %c1, %1) {\n");
    assert_has(text.s, "  %w: f32[1,3,1,1] = Const {data = f32[1,3,1,1] [1.0, 2.0, nan]}\n");
    assert_has(text.s, "\"odd dim\"] = Identity(%image) loc \"features.0.0\"\n");
    assert_has(text.s, "  %k = Clip(%r, %2, _)\n");
    assert_has(text.s, "  %4: i64[1] = Const {data = i64[1] [6]}\n  %1: f32[6] = Reshape(%prob, %4)\n");
    text_free(&text);
    context_unref(ctx);
}

static void test_meaning(void **state) {
    (void)state;
    Context *ctx = new_context();
    Model *model = parse_ok(ctx, STR(everything));
    Graph *g = model->main;
    assert_int_equal(g->inputs.len, 9);
    assert_int_equal(graph_n_outputs(g), 3);
    assert_true(str_equal(g->output_names.data[1], STR("api name")));
    assert_true(str_equal(g->output_names.data[0], STR("prob")));
    assert_true(str_equal(g->inputs.data[7]->name, (Str){"\xff\x00\"\\", 4}));
    assert_int_equal(g->inputs.data[6]->name.n, 0);
    assert_int_equal(graph_output(g, 2)->name.n, 0);
    const Tensor *payload = graph_input_default(g, 1);
    assert_int_equal(((const int64_t *)payload->data)[1], 2);
    assert_null(graph_input_default(g, 0));
    const Type *q = g->inputs.data[5]->type;
    assert_int_equal(q->layout->block, 16);
    assert_int_equal(q->quant->zeros[1], 2);
    assert_true(str_equal(model_metadata(model, STR("custom key")), STR("v\n\x01\xc3\xa9")));
    Value *c1 = model_value(model, STR("c1"));
    assert_true(str_equal(c1->def->loc, STR("features.0.0")));
    assert_int_equal(c1->type->shape.rank, 8);
    model_free(model);
    context_unref(ctx);
}

static void test_attributes(void **state) {
    (void)state;
    static const char *const values[][2] = {
        {"1", NULL},
        {"-9223372036854775808", NULL},
        {"true", "1"},
        {"1.0", NULL},
        {"1e3", "1000.0"},
        {"-0.0", NULL},
        {"0.1", NULL},
        {"16777217.0", "16777216.0"},
        {"3.4028235e+38", NULL},
        {"inf", NULL},
        {"-inf", NULL},
        {"nan", NULL},
        {"nan\"ffc00001\"", NULL},
        {"\"text\"", NULL},
        {"\"\"", NULL},
        {"type f32[2,n]", NULL},
        {"type seq(?)", NULL},
        {"[1,2]", NULL},
        {"[1, 2.5]", "[1.0,2.5]"},
        {"[nan,-inf,nan\"7fc00001\"]", NULL},
        {"[\"a\", \"b\\\"\"]", NULL},
        {"[[0,1],[2],[]]", NULL},
        {"[[]]", NULL},
        {"ints []", NULL},
        {"floats []", NULL},
        {"strings []", NULL},
        {"tensors []", NULL},
        {"types []", NULL},
        {"graphs []", NULL},
        {"lists []", NULL},
        {"floats [1, 2]", "[1.0,2.0]"},
        {"[type f32[], type ?]", NULL},
    };
    Context *ctx = new_context();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char statement[200], printed[200];
        const char *want = values[i][1] ? values[i][1] : values[i][0];
        bool is_long = strncmp(want, "tensors", 7) == 0 || strncmp(want, "graphs", 6) == 0;
        snprintf(statement, sizeof statement, "%%c = tn.Any(%%x) {a=1, \"zz 9\"=%s}", values[i][0]);
        snprintf(printed, sizeof printed, "\"zz 9\"%s%s}", is_long ? " = " : "=", want);
        assert_statement(ctx, statement, printed);
    }
    assert_statement(ctx, "%c = tn.Any() {t=[f32[2] [1,2], i64 3]}", "t = [f32[2] [1.0, 2.0], i64 3]}");
    assert_statement(ctx, "%c = tn.Any() {g=[graph @a() -> (%x) {}, graph(%b) -> (%b) {},]}",
                     "g = [graph @a() -> (%x) {\n  }, graph (%b) -> (%b) {\n  }]}\n");
    assert_statement(ctx, "%c = tn.Any() {g=graphs [graph() -> () {}]}", "g = [graph () -> () {\n  }]}\n");
    context_unref(ctx);
}

/* What a schema wants decides what an integer or an empty list is. */
static void test_loose_attributes(void **state) {
    (void)state;
    Context *ctx = new_context();
    assert_statement(ctx, "%y = LeakyRelu(%x) {alpha=1}", "{alpha=1.0}");
    assert_statement(ctx, "%y = LeakyRelu(%x) {alpha=-inf, betas=[1,2]}", "{alpha=-inf, betas=[1.0,2.0]}");
    assert_statement(ctx, "%y = LeakyRelu(%x) {betas=[]}", "{betas=floats []}");
    assert_statement(ctx, "%y = com.microsoft.QGemm(%x, _)", "%y = com.microsoft.QGemm(%x, _)\n");
    assert_statement(ctx, "\"odd-domain.odd \\\"op\\\"\"(%x)", "  \"odd-domain.odd \\\"op\\\"\"(%x)\n");
    assert_statement(ctx,
                     "%i = Const {data = f32[1,1,4,4] 1.0} %w = Const {data = f32[1,1,1,1] 1.0}\n"
                     "%y = Conv(%i, %w) {strides=[2,2], pads=[]}",
                     "Conv(%i, %w) {pads=ints [], strides=[2,2]}");
    context_unref(ctx);
}

static void test_tensors(void **state) {
    (void)state;
    static const char *const tensors[][2] = {
        {"f32[2,2] [[1, 2], [3, 4]]", "f32[2,2] [1.0, 2.0, 3.0, 4.0]"},
        {"f32[3] 0.5", "f32[3] [0.5, 0.5, 0.5]"},
        {"f32[] 0.5", "f32 0.5"},
        {"f32 1e-45", "f32 1.4013e-45"},
        {"f64[2] [0.1, 1e-320]", "f64[2] [0.1, 9.99988867182683e-321]"},
        {"f16[3] [0.1, 65504, -inf]", "f16[3] [0.1, 65504.0, -inf]"},
        {"bf16 3.140625", "bf16 3.14"},
        {"f32[2] x\"0000c07f0100c07f\"", NULL},
        {"f16[2] [nan, 1.0]", NULL},
        {"bool[2] [true, false]", NULL},
        {"bool[2] [1, 0]", "bool[2] [true, false]"},
        {"bool[1] x\"02\"", NULL},
        {"i4[3] [1, -8, 7]", NULL},
        {"u4[5] [0, 15, 1, 2, 3]", NULL},
        {"i2[5] [1, -2, 0, -1, 1]", NULL},
        {"u2[3] x\"1b\"", "u2[3] [3, 2, 1]"},
        {"f4e2m1[4] [0.5, -6.0, 0.0, 3.0]", NULL},
        {"f8e4m3fn[2] [448.0, nan]", "f8e4m3fn[2] [448.0, nan]"},
        {"f8e5m2[2] [inf, -0.0]", NULL},
        {"f8e8m0[2] [1.0, 0.25]", "f8e8m0[2] [1.0, 0.25]"},
        {"i8[2] [-128, 127]", NULL},
        {"u8[2] [0, 255]", NULL},
        {"i64[2] [-9223372036854775808, 9223372036854775807]", NULL},
        {"u64 18446744073709551615", NULL},
        {"c64[2] [(1.0, -2.5), (0.0, inf)]", NULL},
        {"c128 (0.1, nan)", NULL},
        {"str[3] [\"a\", \"\", \"\\x00\\xff\\n\"]", NULL},
        {"str \"one\"", NULL},
        {"f32[0,3] []", NULL},
        {"f32[2,0] [[],[]]", "f32[2,0] []"},
        {"@\"w.safetensors:floats\"", "f32[4] [0.0, 0.0, 0.0, 0.0]"},
        {"f32[4] @\"w.safetensors:floats\"", "f32[4] [0.0, 0.0, 0.0, 0.0]"},
        {"i4[16] @\"w.safetensors:bytes\"", "i4[16] [0, 0"},
        {"c64[1] @\"w.safetensors:bytes\"", "c64[1] [(0.0, 0.0)]"},
    };
    Context *ctx = new_context();
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char statement[300];
        snprintf(statement, sizeof statement, "%%c = Const {data = %s}", tensors[i][0]);
        assert_statement(ctx, statement, tensors[i][1] ? tensors[i][1] : tensors[i][0]);
    }
    context_unref(ctx);
}

static void test_literal_operands(void **state) {
    (void)state;
    static const char *const literals[][2] = {
        {"1", "i64 1"},
        {"-1", "i64 -1"},
        {"1.5", "f32 1.5"},
        {"-inf", "f32 -inf"},
        {"[1, 2]", "i64[2] [1, 2]"},
        {"[1, 2.0]", "f32[2] [1.0, 2.0]"},
        {"[]", "i64[0] []"},
        {"f16 1.5", "f16 1.5"},
        {"\"a\"", "str \"a\""},
        {"false", "bool false"},
        {"u8[2] [1, 2]", "u8[2] [1, 2]"},
    };
    Context *ctx = new_context();
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
        char statement[100], printed[100];
        snprintf(statement, sizeof statement, "%%y = Identity(%s)", literals[i][0]);
        snprintf(printed, sizeof printed, " = Const {data = %s}\n  %%y = Identity(%%0)\n", literals[i][1]);
        assert_statement(ctx, statement, printed);
    }
    context_unref(ctx);
}

/* Every code of every type of at most 16 bits, and random ones of the wider floats, as a list and so by their bits. */
static void test_every_code(void **state) {
    (void)state;
    Context *ctx = new_context();
    uint64_t random = 88172645463325252u;
    for (int dtype = 1; dtype < TN_DTYPE_END; dtype++) {
        if (dtype == TN_STRING) continue;
        int bits = dtype_bits(dtype);
        int64_t n = bits <= 16 ? (int64_t)1 << bits : 4096;
        for (int64_t from = 0; from < n; from += 1024) {
            Model *model;
            Tensor *t;
            Node *node;
            int64_t count = min_i64(n - from, 1024);
            OK(model_new(ctx, &model));
            OK(model_tensor(model, &t));
            OK(tensor_new(ctx, dtype, 1, &count, t));
            for (int64_t i = 0; i < count * bits / 8; i++) {
                random ^= random << 13, random ^= random >> 7, random ^= random << 17;
                int64_t code = bits == 16 ? (from + i / 2) >> (i % 2 * 8) : from + i;
                ((uint8_t *)t->data)[i] = (uint8_t)(bits > 16 ? (int64_t)(random >> 32) : code);
            }
            OK(const_new(model->main, t, STR("c"), &node));
            node_append(node);
            Text text = print_all(model, &in_full);
            Model *again = parse_ok(ctx, (Str){text.s, text.n});
            const Tensor *back = value_constant(again->main->first->results[0]);
            assert_memory_equal(back->data, t->data, (size_t)(count * bits + 7) / 8);
            text_free(&text);
            model_free(model);
            model_free(again);
        }
    }
    context_unref(ctx);
}

/* Numbers without NaNs: in words, one by one. */
static void test_float_words(void **state) {
    (void)state;
    Context *ctx = new_context();
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t code = i * 2654435761u;
        float value;
        memcpy(&value, &code, sizeof value);
        Model *model;
        Node *node;
        OK(model_new(ctx, &model));
        Value *x = add_input(model->main, "x");
        OK(node_new(model->main, known_op("LeakyRelu"), &x, 1, 1, &node));
        OK(node_set_float(node, "alpha", value));
        Text text;
        text_init(&text, &ctx->allocator);
        OK(node_print(node, NULL, &text));
        char source[300], *number = strstr(text.s, "%1 =");
        assert_non_null(number);
        frame_statement(source, sizeof source, text.s);
        Model *again = parse_ok(ctx, str_of(source));
        const Attr *attr = attr_get(again->main->last, "alpha");
        assert_int_equal(attr->kind, ATTR_FLOAT);
        assert_memory_equal(&attr->f, &value, sizeof value);
        text_free(&text);
        model_free(model);
        model_free(again);
    }
    context_unref(ctx);
}

/* A program's locale has no say. */
static void test_locale(void **state) {
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8")) skip();
    Context *ctx = new_context();
    assert_statement(ctx, "%c = tn.Any() {a=2.5, data = f32 1.5}", "{a=2.5, data = f32 1.5}");
    setlocale(LC_NUMERIC, "C");
    context_unref(ctx);
}

/* ---- print options ------------------------------------------------------------------------------------------- */

static tn_status print_key(void *user, const Tensor *payload, const Value *value, Text *out) {
    (void)payload;
    text_printf(out, "@\"w.safetensors:%s%s\"", (const char *)user, value ? value->name.s : "");
    return TN_OK;
}

static void test_print_options(void **state) {
    (void)state;
    Context *ctx = new_context();
    Model *model = parse_ok(ctx, STR("tn 1 graph @g(%x: f32[4]) -> (%y) { %w: f32[4] = Const {data = f32[4] 1.0}\n"
                                     "%y: f32[4] = Add(%x, %w) }"));
    PrintOptions elide = {.inline_elements = 2}, refer = {print_key, "my ", 2, true}, whole = {.inline_elements = 4};
    Text text = print_all(model, &elide);
    assert_has(text.s, "%w: f32[4] = Const {data = f32[4] ...}");
    Model *again;
    assert_int_equal(model_parse(ctx, (Str){text.s, text.n}, NULL, STR("e.tn"), &again), TN_MALFORMED);
    assert_says("left out");
    text_free(&text);
    text = print_all(model, &refer);
    assert_has(text.s, "%w = Const {data = @\"w.safetensors:my w\"}\n  %y = Add(%x, %w)\n");
    text_free(&text);
    text = print_all(model, &whole);
    assert_has(text.s, "[1.0, 1.0, 1.0, 1.0]");
    text_free(&text);
    model_free(model);
    context_unref(ctx);
}

/* ---- fragments, single nodes, Graphviz ------------------------------------------------------------------------- */

static void test_fragment(void **state) {
    (void)state;
    Context *ctx = new_context();
    Model *model = parse_ok(ctx, STR("tn 1 graph @g(%x: f32[4], %c: bool[], %u: f32[4]) -> (%r) {\n"
                                     "  %a = Relu(%x)  %unrelated = Relu(%u)  %b, %b2 = Split(%a) {axis=0}\n"
                                     "  %r = If(%c) {then_branch = graph() -> (%t) { %t = Add(%b2, 1.0) },\n"
                                     "               else_branch = graph() -> (%a) {}}\n"
                                     "}"));
    Text text;
    text_init(&text, &ctx->allocator);
    OK(value_print(graph_output(model->main, 0), &in_full, &text));
    assert_string_equal(text.s,
                        "free_var %x: f32[4]\nfree_var %c: bool[]\n%a = Relu(%x)\n%b, %b2 = Split(%a) {axis=0}\n"
                        "If(%c) {else_branch = graph () -> (%a) {\n}, then_branch = graph () -> (%t) {\n"
                        "  %0: f32[] = Const {data = f32 1.0}\n  %t = Add(%b2, %0)\n}}\n");
    text.n = 0;
    OK(value_print(model_value(model, STR("t")), &in_full, &text));
    assert_string_equal(text.s, "free_var %b2\n%0: f32[] = Const {data = f32 1.0}\nAdd(%b2, %0)\n");
    text.n = 0;
    OK(value_print(model_value(model, STR("b")), &in_full, &text));
    assert_string_equal(text.s, "free_var %x: f32[4]\n%a = Relu(%x)\n%b, %b2 = Split(%a) {axis=0}\n%b\n");
    text.n = 0;
    OK(value_print(model_value(model, STR("x")), &in_full, &text));
    assert_string_equal(text.s, "free_var %x: f32[4]\n%x\n");
    text.n = 0;
    OK(node_print(model->main->last, NULL, &text));
    assert_string_equal(text.s, "%r = If(%c) {else_branch = graph () {...}, then_branch = graph () {...}}");
    text.n = 0;
    OK(graph_print(attr_graph(model->main->last, "then_branch"), NULL, &text));
    assert_string_equal(text.s, "graph () -> (%t) {\n  %0: f32[] = Const {data = f32 1.0}\n  %t = Add(%b2, %0)\n}\n");
    text_free(&text);
    model_free(model);
    context_unref(ctx);
}

static void test_dot(void **state) {
    (void)state;
    Context *ctx = new_context();
    Model *model = parse_ok(ctx,
                            STR("tn 1 graph @\"a\\\"b\"(%x: f32[4], %c: bool[]) -> (%r) {\n"
                                "  %r = If(%c) {then_branch = graph @t() -> (%t) { %t = Relu(%x) loc \"l&\\\\\\n\" },\n"
                                "               else_branch = graph() -> (%x) {}}\n"
                                "}"));
    Text text;
    text_init(&text, &ctx->allocator);
    OK(model_dot(model, &text));
    assert_has(text.s, "digraph {\n  label=\"\\\"a\\\\\\\"b\\\"\";\n  v0 [label=\"%x\\nf32[4]\"];\n");
    assert_has(text.s, "[shape=box, style=filled, fillcolor=yellow, label=\"Relu\\n\\\"l&amp;\\\\\\\\\\\\n\\\"\"];\n");
    assert_has(text.s, "  subgraph cluster_");
    assert_has(text.s, " [peripheries=2];\n");
    assert_has(text.s, " [style=dashed];\n");
    text_free(&text);
    model_free(model);
    context_unref(ctx);
}

/* ---- errors -------------------------------------------------------------------------------------------------- */

typedef struct BadText {
    const char *source, *place, *message;
} BadText;

static const BadText bad_texts[] = {
    {"", "1:1", "the text ends"},
    {"tn 2\n", "1:4", "version 2"},
    {"tn 1\nmodel {a = 1}", "2:12", "expected a string, not `1`"},
    {"tn 1 graph @g() -> () {}\n}", "2:1", "expected the end of the text, not `}`"},
    {"tn 1\ngraph @g(%x, %x) -> () {}", "2:14", "%x is defined twice"},
    {"tn 1\ngraph @g(%x) -> (%y) {}", "2:18", "%y is not defined before this place"},
    {"tn 1\ngraph @g(%image) -> () {\n  %y = Relu(%imagee)\n}", "3:13", "did you mean %image?"},
    {"tn 1\ngraph @g(%x) -> () {\n  %y = Rellu(%x)\n}", "3:8", "did you mean \"Relu\"?"},
    {"tn 1\ngraph @g(%x) -> () {\n  %y = Relu(%x) {alpha=1}\n}", "3:3", "alpha"},
    {"tn 1\ngraph @g(%x) -> () {\n  %y = LeakyRelu(%x) {alpha=1, alpha=2}\n}", "3:32", "there twice"},
    {"tn 1\ngraph @g(%x) -> () {\n  %y = Relu(%x, %x)\n}", "3:3", "operands"},
    {"tn 1\ngraph @g(%x: f32) -> () {}", "2:17", "the shape"},
    {"tn 1\ngraph @g(%x: f32[2,-3]) -> () {}", "2:20", "a size cannot be -3"},
    {"tn 1\ngraph @g(%x: f32[1,2,3,4,5,6,7,8,9]) -> () {}", "2:34", "more than 8 dimensions"},
    {"tn 1\ngraph @g(%x: f32[min(a)]) -> () {}", "2:23", "the second of two dimensions"},
    {"tn 1\ngraph @g(%x: f32[(a]) -> () {}", "2:20", "`)`"},
    {"tn 1\ngraph @g(%x: f32[a b]) -> () {}", "2:20", "`,` or `]`"},
    {"tn 1\ngraph @g(%x: f33[2]) -> () {}", "2:14", "not `f33`"},
    {"tn 1\ngraph @g(%x: f32[2]@[0,0]) -> () {}", "2:20", "names each dimension once"},
    {"tn 1\ngraph @g(%x: i8[2] quant(scale=[1,2], zero=[3])) -> () {}", "2:14", "2 scales but 1 zero"},
    {"tn 1\ngraph @g(%x: \xc3\xa9) -> () {}", "2:14", "no token"},
    {"tn 1\n# \xc3\xa9\ngraph @\"\xc3\xa9\"(&) -> () {}", "3:12", "no token"},
    {"tn 1\ngraph @\"g\n", "2:8", "no end on its line"},
    {"tn 1\ngraph @\"\\q\"", "2:9", "may follow a backslash"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = f32[2] [1, 2, 3]}\n}", "3:36", "more elements than the 2"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = f32[2,2] [[1, 2], [3]]}\n}", "3:42", "fewer elements than the 2"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = i8[1] [128]}\n}", "3:29", "128 is no value of i8"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = u8 -1}\n}", "3:25", "-1 is no value of u8"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = f16 70000}\n}", "3:26", "70000 is no value of f16"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = f32[n] [1]}\n}", "3:22", "must be numbers"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = f32[1] x\"00\"}\n}", "3:30", "expected 8 hexadecimal digits"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = f32[4000000000] [1]}\n}", "3:22", "cannot be 4000000000 elements"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = f32[4000000000] 1.0}\n}", "3:22", "max_fold_bytes"},
    {"tn 1\ngraph @g() -> () {\n  %c: f32[3] = Const {data = f32[2] 1.0}\n}", "3:3", "contradict"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = @\"nothing\"}\n}", "3:22", "a reference such as"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = @\"other:x\"}\n}", "3:22", "no such file"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = f32[5] @\"w.safetensors:x\"}\n}", "3:29", "of type u8[8]"},
    {"tn 1\ngraph @g() -> () {\n  %c = Const {data = str[1] @\"w.safetensors:x\"}\n}", "3:29", "of type u8[8]"},
    {"tn 1\ngraph @g() -> () {\n  %c = tn.Any {data = f32 1.0, a=[]}\n}", "3:34", "needs its kind"},
    {"tn 1\ngraph @g() -> () {\n  %c = tn.Any {data = f32 1.0, a=[1,\"b\"]}\n}", "3:37", "expected a number"},
    {"tn 1\ngraph @g() -> () {\n  %c = tn.Any {data = f32 1.0, a=9223372036854775808}\n}", "3:34", "64 bits"},
    {"tn 1\ngraph @g() -> () {\n  %c = tn.Any {data = f32 1.0, a=1e39}\n}", "3:34", "too big"},
    {"tn 1\ngraph @g(%c: bool[]) -> () {\n  %r = If(%c) {then_branch = graph() -> (%r) {}}\n}", "3:42",
     "%r is not defined"},
    {"tn 1\ngraph @g(%c: bool[]) -> (%t) {\n  %r = If(%c) {then_branch = graph() -> (%t) { %t = Identity(%c) },"
     " else_branch = graph() -> (%t) {}}\n}",
     "3:95", "not around this place"},
};

static void test_errors(void **state) {
    (void)state;
    Context *ctx = new_context();
    for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++) {
        const BadText *bad = &bad_texts[i];
        Model *model = (Model *)&bad;
        char place[64];
        tn_status status = model_parse(ctx, str_of(bad->source), &with_weights, STR("x.tn"), &model);
        if (status == TN_OK) print_error("parsed: %s\n", bad->source);
        assert_int_not_equal(status, TN_OK);
        assert_null(model);
        snprintf(place, sizeof place, "x.tn:%s: ", bad->place);
        assert_says(place);
        assert_says(bad->message);
    }
    context_unref(ctx);
}

static void test_line_is_shown(void **state) {
    (void)state;
    Context *ctx = new_context();
    Model *model;
    assert_int_equal(model_parse(ctx, STR("tn 1\ngraph @g(%x) -> () {\n\t%y = Nope(%x)\n}"), NULL, (Str){0}, &model),
                     TN_MALFORMED);
    assert_string_equal(diag_text(), "<text>:3:7: there is no op \"Nope\"\n   %y = Nope(%x)\n        ^");
    context_unref(ctx);
}

/* ---- bounds -------------------------------------------------------------------------------------------------- */

static void test_nesting(void **state) {
    (void)state;
    for (int depth = 63; depth <= 66; depth++) {
        Context *ctx = new_context();
        Text text;
        text_init(&text, &ctx->allocator);
        text_puts(&text, "tn 1 graph @g(%c: bool[]) -> (%v0) {\n");
        for (int i = 0; i < depth; i++)
            text_printf(&text, "%%v%d = If(%%c) {then_branch = graph() -> (%%v%d) {\n", i, i + 1);
        text_printf(&text, "%%v%d = Identity(%%c)\n", depth);
        for (int i = 0; i < depth; i++) text_puts(&text, "}, else_branch = graph() -> (%c) {}}\n");
        text_puts(&text, "}");
        Model *model;
        tn_status status = model_parse(ctx, (Str){text.s, text.n}, NULL, STR("deep.tn"), &model);
        assert_int_equal(status, depth <= 64 ? TN_OK : TN_LIMIT);
        if (status == TN_OK) model_free(model);
        text_free(&text);
        context_unref(ctx);
    }
}

typedef struct BigJob {
    size_t nodes;
    bool named;
} BigJob;

static void *parse_and_print_big(void *arg) {
    const BigJob *job = arg;
    Context *ctx = new_context();
    Text text;
    text_init(&text, &ctx->allocator);
    text_puts(&text, "tn 1\ngraph @big(%0: f32[n,(((((((n+1))))))),4]) -> () {\n");
    for (size_t i = 1; i <= job->nodes; i++) {
        const char *form = job->named ? "  %%v%zu: f32[n,n + 1,4] = Add(%%0, %%0)\n" : "  %%%zu = Relu(%%%zu)\n";
        text_printf(&text, form, i, i - 1);
    }
    text_puts(&text, "}\n");
    Model *model = parse_ok(ctx, (Str){text.s, text.n});
    assert_int_equal(model->main->n_nodes, job->nodes);
    Text again = print_all(model, NULL);
    assert_int_equal(again.n, text.n - 12); /* the parentheses of the input's type, less the blanks around the plus */
    again.n = 0;
    if (!job->named) OK(value_print(model->main->last->results[0], NULL, &again));
    again.n = 0;
    OK(model_dot(model, &again));
    text_free(&again);
    text_free(&text);
    model_free(model);
    context_unref(ctx);
    return NULL;
}

/* On a stack of 256 KB. Were anything quadratic, this would not end. */
static void test_big(void **state) {
    (void)state;
    for (int named = 0; named < 2; named++) {
        BigJob job = {200000, named};
        pthread_attr_t attr;
        pthread_t thread;
        assert_int_equal(pthread_attr_init(&attr), 0);
        assert_int_equal(pthread_attr_setstacksize(&attr, 256 << 10), 0);
        assert_int_equal(pthread_create(&thread, &attr, parse_and_print_big, &job), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        pthread_attr_destroy(&attr);
    }
}

/* Brackets of every kind, 100,000 deep. */
static void test_deep_brackets(void **state) {
    (void)state;
    static const char *const openings[][2] = {
        {"tn 1 graph @g(%x: f32[", "("},
        {"tn 1 graph @g(%x: f32[", "min(a, "},
        {"tn 1 graph @g(%x: ", "seq("},
        {"tn 1 graph @g() -> () { %c = Const {data=f32[1] ", "["},
        {"tn 1 graph @g() -> () { %c = Const {a=", "["},
        {"tn 1 graph @g() -> () { Identity(", "["},
        {"tn 1 graph @g() -> () {", "%c = If {b = graph() -> () {"},
        {"tn 1 graph @g(%x: f32[a", "+b"},
        {"tn 1 graph @g(%x: f32[a", "-(b"},
        {"tn 1 graph @g(%x: f32[1", "*q/2"},
    };
    Context *ctx = new_context();
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        Text text;
        Model *model;
        text_init(&text, &ctx->allocator);
        text_puts(&text, openings[i][0]);
        for (int k = 0; k < 100000; k++) text_puts(&text, openings[i][1]);
        assert_int_not_equal(model_parse(ctx, (Str){text.s, text.n}, NULL, STR("deep.tn"), &model), TN_OK);
        text_free(&text);
    }
    context_unref(ctx);
}

/* ---- hostile texts ------------------------------------------------------------------------------------------- */

static const char literals[] =
    "tn 1\n"
    "graph @g(%x: c64[2], %c: bool[]) -> (\"o\" = %y) {\n"
    "  %c0 = tn.Any {data = f32[2,2] [[1.5, -2e3], [nan, inf]], a=[[0,1],[2]], b=[\"a\", \"\\x41\"], c=type opt(i4[n*2,?])}\n"
    "  %c1 = tn.Any() {data = i4[5] [1, -8, 7, 0, 1], f=nan\"7fc00001\", g=floats [], h=[type str[], type map(str, u8[])]}\n"
    "  %c2 = tn.Any() {data = c64[2] [(1.0, 2.0), (3, 4)], t=[f32 1.0, str[1] [\"x\"]], q=-0.0}\n"
    "  %c3 = Const {data = bf16[3] 0.5} %c4 = Const {data = u2[9] x\"e4e401\"} %c5 = Const {data = @\"w.safetensors:k\"}\n"
    "  %y = If(%c) {then_branch = graph() -> (%t) { %t = Add(1.0, [2.0]) }, else_branch = graph @\"e\"() -> (%x) {}} loc \"l\"\n"
    "  %12: i8[2]@[0;0:4] quant(scale=[1.0,2.0], zero=[0,1], axis=0) = Identity(i8[2] [1,2])\n"
    "}\n";

static const char pieces[] = "%@\"\\{}[](),:;=+-*/?#.0123456789eEx_anf \n\t\xff";

static void mutate(char *text, size_t *n, size_t cap, uint64_t *random) {
    *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
    size_t at = *n ? (size_t)(*random >> 32) % *n : 0, other = *n ? (size_t)(*random >> 16 & 0xffff) % *n : 0;
    char piece = pieces[*random % (sizeof pieces - 1)];
    switch (*random >> 8 & 7) {
    case 0: text[at] = (char)(*random >> 24); break;
    case 1: *n = at; break;
    case 2:
    case 3:
        memmove(text + at, text + at + 1, *n - at - 1);
        --*n;
        break;
    case 4:
    case 5:
        if (*n == cap) break;
        memmove(text + at + 1, text + at, *n - at);
        text[at] = piece;
        ++*n;
        break;
    case 6: text[at] = text[other]; break;
    default: text[at] = piece; break;
    }
}

static void test_mutations(void **state) {
    (void)state;
    const Str seeds[] = {STR(everything), STR(literals)};
    uint64_t random = 0x9e3779b97f4a7c15u;
    size_t good = 0;
    Context *ctx;
    tn_limits limits = {.max_bytes = 1 << 20, .max_fold_bytes = 1 << 16};
    OK(context_new(NULL, &limits, &ctx));
    for (int round = 0; round < 100000; round++) {
        Str seed = seeds[round % 2];
        char text[4096];
        size_t n = seed.n;
        memcpy(text, seed.s, n);
        for (int k = 0; k <= round % 7; k++)
            if (n > 0) mutate(text, &n, sizeof text, &random);
        /* On the heap and without a terminator, so that a read past the end is seen. */
        char *exact = malloc(n ? n : 1);
        memcpy(exact, text, n);
        Model *model;
        tn_status status = model_parse(ctx, (Str){exact, n}, &with_weights, STR("m.tn"), &model);
        free(exact);
        if (status != TN_OK) continue;
        good++;
        Text first = print_all(model, &in_full);
        Model *again = parse_ok(ctx, (Str){first.s, first.n});
        Text second = print_all(again, &in_full);
        assert_string_equal(first.s, second.s);
        text_free(&first);
        text_free(&second);
        model_free(model);
        model_free(again);
    }
    assert_true(good > 1000);
    context_unref(ctx);
}

/* Each allocation in turn is the first that fails. */
static void test_failing_memory(void **state) {
    (void)state;
    int64_t fail_at = 1;
    for (bool done = false; !done; fail_at++) {
        TestHeap heap;
        Context *ctx;
        Model *model = NULL;
        test_heap_init(&heap);
        OK(context_new(&heap.allocator, NULL, &ctx));
        heap.fail_at = heap.calls + fail_at;
        tn_status status = model_parse(ctx, STR(literals), &with_weights, STR("x.tn"), &model);
        Text text;
        text_init(&text, &ctx->allocator);
        if (status == TN_OK) status = model_print(model, &in_full, &text);
        if (status == TN_OK) status = value_print(graph_output(model->main, 0), NULL, &text);
        if (status == TN_OK) status = model_dot(model, &text);
        done = status == TN_OK;
        if (!done) assert_int_equal(status, TN_OUT_OF_MEMORY);
        text_free(&text);
        model_free(model);
        context_unref(ctx);
        assert_int_equal(heap.living, 0);
    }
    assert_true(fail_at > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),     cmocka_unit_test(test_meaning),
        cmocka_unit_test(test_attributes),     cmocka_unit_test(test_loose_attributes),
        cmocka_unit_test(test_tensors),        cmocka_unit_test(test_literal_operands),
        cmocka_unit_test(test_every_code),     cmocka_unit_test(test_float_words),
        cmocka_unit_test(test_locale),         cmocka_unit_test(test_print_options),
        cmocka_unit_test(test_fragment),       cmocka_unit_test(test_dot),
        cmocka_unit_test(test_errors),         cmocka_unit_test(test_line_is_shown),
        cmocka_unit_test(test_nesting),        cmocka_unit_test(test_big),
        cmocka_unit_test(test_deep_brackets),  cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
