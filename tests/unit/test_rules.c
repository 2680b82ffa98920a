/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrite rules: what is no rule and where, what matches, what is settled by the engine, order, proofs. */
#include "test_ir_common.h"

#include <tenon/rules.h>
#include <tenon/tenon.h>

#include "ops/op.h"
#include "rewrite/index_int.h"

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

typedef struct Told {
    char text[512]; /* names of rules that were applied; those refused as -name, or -name/by */
    size_t n;
} Told;

static void tell(Told *told, const char *format, const char *a, const char *b) {
    int n = snprintf(told->text + told->n, sizeof told->text - told->n, format, a, b);
    assert_true(n >= 0 && (size_t)n < sizeof told->text - told->n);
    told->n += (size_t)n;
}

static void changed(void *user, const Rule *rule, const Node *root) {
    (void)root;
    tell(user, "%s ", rule_name(rule), "");
}

static void refused(void *user, const Rule *rule, const Rule *made_by, const Node *root) {
    (void)root;
    if (made_by) tell(user, "-%s/%s ", rule_name(rule), rule_name(made_by));
    else tell(user, "-%s ", rule_name(rule), "");
}

typedef struct Case {
    Context *ctx;
    RuleSet *set;
    Matcher *matcher;
    Model *model;
    Told told;
} Case;

static void case_begin(Case *c, const char *rules, const char *model) {
    const Rule *list[16];
    *c = (Case){0};
    OK(context_new(NULL, NULL, &c->ctx));
    OK(rules_parse(&c->ctx->allocator, str_of(rules), STR("test"), &c->set));
    assert_true(rules_count(c->set) <= 16);
    for (size_t i = 0; i < rules_count(c->set); i++) list[i] = rules_at(c->set, i);
    OK(matcher_new(&c->ctx->allocator, list, rules_count(c->set), &c->matcher));
    OK(model_parse(c->ctx, str_of(model), NULL, STR("test"), &c->model));
    OK(infer_model(c->model));
}

static void case_end(Case *c) {
    model_free(c->model);
    matcher_free(c->matcher);
    rules_free(c->set);
    context_unref(c->ctx);
}

static double by_count(void *user, const Node *node, const Shape *in, const Shape *out) {
    (void)user, (void)node, (void)in, (void)out;
    return 1;
}

static void rewrite_main(Case *c) {
    RewriteHooks hooks = {.cost = by_count, .changed = changed, .refused = refused, .user = &c->told};
    OK(rewrite_graph(c->matcher, c->model->main, &hooks));
    OK(model_verify(c->model));
    OK(infer_model(c->model));
}

static void assert_graph(const Case *c, const char *want) {
    Text text;
    text_init(&text, &c->ctx->allocator);
    OK(graph_print(c->model->main, &(PrintOptions){.no_types = true}, &text));
    if (strcmp(text.s, want) != 0) print_error("%s\nis not\n%s\n", text.s, want);
    assert_string_equal(text.s, want);
    text_free(&text);
}

/* The graph becomes `want`. */
static void check(const char *rules, const char *graph, const char *want, const char *told) {
    char model[4096];
    Case c;
    snprintf(model, sizeof model, "tn 1\n%s", graph);
    case_begin(&c, rules, model);
    rewrite_main(&c);
    assert_graph(&c, want);
    assert_string_equal(c.told.text, told);
    case_end(&c);
}

static void check_unchanged(const char *rules, const char *graph) { check(rules, graph, graph, ""); }

/* ---- what is no rule --------------------------------------------------------------------------------------------- */

static void assert_wrong(const char *text, const char *what, const char *where) {
    RuleSet *set = NULL;
    assert_int_equal(rules_parse(&allocator_default, str_of(text), STR("my.rules"), &set), TN_INVALID_ARGUMENT);
    assert_null(set);
    assert_says(what);
    assert_says(where);
    assert_says("my.rules");
}

#define RULE "rule r\n  match\n    %y = Relu(%x)\n"

static void errors_name_the_place(void **state) {
    (void)state;
    assert_wrong("roule r", "\"roule\" stands where \"rule\" should", "line 1, column 1");
    assert_wrong("\n\n  rule\n  match", "the name of the rule", "line 4, column 3");
    assert_wrong("rule r level 7\n", "a number from 0 to 4", "line 1, column 14");
    assert_wrong("rule r\n  where true\n", "\"match\"", "line 2, column 3");
    assert_wrong(RULE, "the text ends where \"where\" or \"write\" should stand", "line 4, column 1");
    assert_wrong(RULE "  write\n", "a statement", "line 5, column 1");
    assert_wrong(RULE "  write\n    %y = Rilu(%x)\n", "there is no op \"Rilu\"; did you mean \"Relu\"?",
                 "line 5, column 10");
    assert_wrong(RULE "  write\n    %y = Relu(%z)\n", "there is no %z", "line 5, column 15");
    assert_wrong(RULE "  write\n    %y = Relu(%x) {alpha=1}\n", "Relu has no attribute alpha", "line 5, column 20");
    assert_wrong(RULE "  write\n    %y = LeakyRelu(%x) {alpha=$a}\n", "$a stands nowhere on the left",
                 "line 5, column 32");
    assert_wrong(RULE "  write\n    %y = LeakyRelu(%x) {alpha=1, alpha=2}\n", "stands here twice", "line 5, column 34");
    assert_wrong(RULE "  write\n    %z = Relu(%x)\n", "says nothing of what the last node", "line 3, column 10");
    assert_wrong(RULE "  write\n    %y = Relu(%y)\n", "%y is replaced", "line 5, column 10");
    assert_wrong(RULE "  write\n    %y = Relu|Abs(%x)\n", "stands where", "line 5, column 14");
    assert_wrong(RULE "  where ronk(%x) == 4\n  write\n    %y = %x\n", "there is no function ronk; did you mean rank",
                 "line 4, column 9");
    assert_wrong(RULE "  where rank(%x, 1) == 4\n  write\n    %y = %x\n", "rank takes 1 arguments, not 2",
                 "line 4, column 9");
    assert_wrong(RULE "  where rank(4) == 4\n  write\n    %y = %x\n", "asks about a %value", "line 4, column 14");
    assert_wrong(RULE "  where len(%x) == 4\n  write\n    %y = %x\n", "takes no %values", "line 4, column 13");
    assert_wrong(RULE "  where rank(%q) == 4\n  write\n    %y = %x\n", "there is no %q", "line 4, column 14");
    assert_wrong(RULE "  where rank(%x) == \n  write\n    %y = %x\n", "there is no function write", "line 5, column 3");
    assert_wrong("rule r\n  match\n    %a = Relu(%x)\n    %y = Abs(%z)\n  write\n    %y = %z\n",
                 "has nothing to do with", "line 4, column 10");
    assert_wrong(RULE "  write\n    %y = %x\nrule r\n", "there is a rule r already", "line 6, column 6");
    assert_wrong("rule r\n  match\n    %y = Relu(%x)\n    %y = Abs(%x)\n", "%y is defined twice", "line 4, column 10");
    assert_wrong("rule r\n  match\n    %y = Sum(%x..., %z)\n", "nothing may follow", "line 3, column 19");
    assert_wrong(RULE "  write\n    %y = Add(%x)\n", "Add has 2 operands", "line 5, column 10");
    assert_wrong(RULE "  write\n    %y = Clip()\n", "Clip has 1 to 3 operands", "line 5, column 10");
    assert_wrong("rule r\n  match\n    %y = Relu(%x, %z)\n", "Relu has 1 operand", "line 3, column 10");
    assert_wrong("rule r\n  match\n    %y, %z = Relu(%x)\n", "Relu has 1 result", "line 3, column 14");
    assert_wrong(RULE "  write\n    %y = Concat(%x)\n", "Concat needs the attribute axis", "line 5, column 10");
    assert_wrong("rule r\n  match\n    %y = $f(%x)\n", "'['", "line 3, column 12");
    assert_wrong(RULE "  write\n    %y = \"\n", "this string has no end", "line 5, column 10");
}

static void deep_nesting_is_an_error(void **state) {
    static char text[1 << 16];
    (void)state;
    size_t n = (size_t)snprintf(text, sizeof text, "%s  where ", RULE);
    while (n < sizeof text - 64) text[n++] = '(';
    text[n] = 0;
    assert_wrong(text, "nested too deep", "line 4");
    n = (size_t)snprintf(text, sizeof text, "rule r\n  match\n    %%y = ");
    while (n < sizeof text - 64) n += (size_t)snprintf(text + n, 6, "Relu(");
    assert_wrong(text, "nested too deep", "line 3");
}

static void rules_tell_of_themselves(void **state) {
    RuleSet *set;
    (void)state;
    OK(rules_parse(
        &allocator_default,
        STR("# first\n" RULE
            "  write\n    %y = %x\n\nrule s level 2  # why # really\n  match\n    %y = Abs(%x)\n  write\n    %y = %x\n"),
        STR("two"), &set));
    assert_int_equal(rules_count(set), 2);
    assert_string_equal(rule_name(rules_at(set, 1)), "s");
    assert_string_equal(rule_summary(rules_at(set, 1)), "why # really");
    assert_string_equal(rule_summary(rules_at(set, 0)), "");
    assert_int_equal(rule_level(rules_at(set, 0)), 1);
    assert_int_equal(rule_level(rules_at(set, 1)), 2);
    assert_int_equal(rule_line(rules_at(set, 1)), 8);
    Str text = rule_text(rules_at(set, 0));
    assert_true(str_equal(text, STR(RULE "  write\n    %y = %x")));
    rules_free(set);
}

/* ---- what matches ------------------------------------------------------------------------------------------------ */

static const char relu_of_relu[] =
    "rule twice\n  match\n    %a = Relu(%x)\n    %y = Relu(%a)\n  write\n    %y = Relu(%x)\n";

static void a_chain_becomes_one(void **state) {
    (void)state;
    check(relu_of_relu,
          "graph @g(%x: f32[2]) -> (%y) {\n  %a = Relu(%x)\n  %b = Relu(%a)\n  %c = Relu(%b)\n  %y = Relu(%c)\n}\n",
          "graph @g(%x: f32[2]) -> (%y) {\n  %y = Relu(%x)\n}\n", "twice twice twice ");
}

static const char gemm[] = "rule gemm\n  match\n    %m = MatMul(%x, %w)\n    %y = Add(%m, %b)\n"
                           "  where rank(%x) == 2, broadcasts(%b, %m)\n  write\n    %y = Gemm(%x, %w, %b)\n";

static void operands_of_a_sum_may_be_swapped(void **state) {
    (void)state;
    check(gemm,
          "graph @g(%x: f32[2,3], %w: f32[3,4], %b: f32[4]) -> (%y) {\n  %m = MatMul(%x, %w)\n  %y = Add(%b, %m)\n}\n",
          "graph @g(%x: f32[2,3], %w: f32[3,4], %b: f32[4]) -> (%y) {\n  %y = Gemm(%x, %w, %b)\n}\n", "gemm ");
    check_unchanged(
        "rule sub\n  match\n    %m = MatMul(%x, %w)\n    %y = Sub(%m, %b)\n  write\n    %y = Gemm(%x, %w, %b)\n",
        "graph @g(%x: f32[2,3], %w: f32[3,4], %b: f32[4]) -> (%y) {\n  %m = MatMul(%x, %w)\n  %y = Sub(%b, %m)\n}\n");
}

/* Both ways have to be tried before it is known which product is meant. */
static void swapping_goes_back(void **state) {
    (void)state;
    check(
        "rule r\n  match\n    %m = Mul(%x, %k)\n    %n = Abs(%m)\n    %y = Add(%n, %m)\n  where rank(%k) == 0\n  write\n    %y = Relu(%x)\n",
        "graph @g(%x: f32[2], %k: f32[]) -> (%y) {\n  %m = Mul(%k, %x)\n  %n = Abs(%m)\n  %y = Add(%m, %n)\n}\n",
        "graph @g(%x: f32[2], %k: f32[]) -> (%y) {\n  %y = Relu(%x)\n}\n", "r ");
}

static const char conv[] =
    "rule conv\n  match\n    %c = Conv(%x, %w, %b?) {group=$g, *}\n    %y = Relu(%c)\n"
    "  write\n    %y = com.microsoft.FusedConv(%x, %w, %b) {activation=\"Relu\", group=$g, *%c}\n";

static void optional_operands_and_attributes(void **state) {
    (void)state;
    check(conv,
          "graph @g(%x: f32[1,2,3,3], %w: f32[2,1,1,1]) -> (%y) {\n  %c = Conv(%x, %w) {group=2}\n  %y = Relu(%c)\n}\n",
          "graph @g(%x: f32[1,2,3,3], %w: f32[2,1,1,1]) -> (%y) {\n"
          "  %y = com.microsoft.FusedConv(%x, %w) {activation=\"Relu\", group=2}\n}\n",
          "conv ");
    check(
        conv,
        "graph @g(%x: f32[1,2,3,3], %w: f32[2,2,1,1], %b: f32[2]) -> (%y) {\n  %c = Conv(%x, %w, %b) {strides=[2,2]}\n  %y = Relu(%c)\n}\n",
        "graph @g(%x: f32[1,2,3,3], %w: f32[2,2,1,1], %b: f32[2]) -> (%y) {\n"
        "  %y = com.microsoft.FusedConv(%x, %w, %b) {activation=\"Relu\", group=1, strides=[2,2]}\n}\n",
        "conv ");
}

/* An attribute that a rule does not name must be as preset. */
static void attributes_that_are_not_named(void **state) {
    static const char rule[] = "rule r\n  match\n    %y = LeakyRelu(%x)\n  write\n    %y = Abs(%x)\n";
    (void)state;
    check_unchanged(rule, "graph @g(%x: f32[2]) -> (%y) {\n  %y = LeakyRelu(%x) {alpha=0.5}\n}\n");
    check(rule, "graph @g(%x: f32[2]) -> (%y) {\n  %y = LeakyRelu(%x) {alpha=0.01}\n}\n",
          "graph @g(%x: f32[2]) -> (%y) {\n  %y = Abs(%x)\n}\n", "r ");
}

static void variables_stand_for_one_thing(void **state) {
    static const char rule[] =
        "rule r\n  match\n    %a = Softmax(%x) {axis=$k}\n    %y = Softmax(%a) {axis=$k}\n  write\n    %y = Softmax(%x) {axis=$k}\n";
    (void)state;
    check(rule, "graph @g(%x: f32[2,3]) -> (%y) {\n  %a = Softmax(%x) {axis=0}\n  %y = Softmax(%a) {axis=0}\n}\n",
          "graph @g(%x: f32[2,3]) -> (%y) {\n  %y = Softmax(%x) {axis=0}\n}\n", "r ");
    check_unchanged(rule,
                    "graph @g(%x: f32[2,3]) -> (%y) {\n  %a = Softmax(%x) {axis=0}\n  %y = Softmax(%a) {axis=1}\n}\n");
}

static void lists_are_taken_apart(void **state) {
    static const char rule[] =
        "rule r\n  match\n    %y = Transpose(%x) {perm=[0, $a, $b]}\n  where $a > $b\n  write\n    %y = Identity(%x)\n";
    (void)state;
    check(rule, "graph @g(%x: f32[2,2,2]) -> (%y) {\n  %y = Transpose(%x) {perm=[0,2,1]}\n}\n",
          "graph @g(%x: f32[2,2,2]) -> (%y) {\n  %y = Identity(%x)\n}\n", "r ");
    check_unchanged(rule, "graph @g(%x: f32[2,2,2]) -> (%y) {\n  %y = Transpose(%x) {perm=[1,0,2]}\n}\n");
    check(
        "rule s\n  match\n    %a = Slice(%x, [0], [$n], [-1])\n    %y = Relu(%a)\n  where $n == 2\n  write\n    %y = Abs(%x)\n",
        "graph @g(%x: f32[2]) -> (%y) {\n  %s = Const {data = i64[1] [0]}\n  %e = Const {data = i64[1] [2]}\n  %i = Const {data = i64[1] [-1]}\n"
        "  %a = Slice(%x, %s, %e, %i)\n  %y = Relu(%a)\n}\n",
        "graph @g(%x: f32[2]) -> (%y) {\n  %y = Abs(%x)\n}\n", "s ");
}

static void alternatives_and_op_variables(void **state) {
    static const char rule[] =
        "rule r\n  match\n    %a = $op[Relu|Abs](%x)\n    %y = $op(%a)\n  write\n    %y = $op(%x)\n";
    (void)state;
    check(rule, "graph @g(%x: f32[2]) -> (%y) {\n  %a = Abs(%x)\n  %y = Abs(%a)\n}\n",
          "graph @g(%x: f32[2]) -> (%y) {\n  %y = Abs(%x)\n}\n", "r ");
    check_unchanged(rule, "graph @g(%x: f32[2]) -> (%y) {\n  %a = Abs(%x)\n  %y = Relu(%a)\n}\n");
    check("rule s\n  match\n    %a = Relu|Abs(%x)\n    %y = Relu(%a)\n  write\n    %y = Abs(%x)\n",
          "graph @g(%x: f32[2]) -> (%y) {\n  %a = Abs(%x)\n  %y = Relu(%a)\n}\n",
          "graph @g(%x: f32[2]) -> (%y) {\n  %y = Abs(%x)\n}\n", "s ");
}

static void the_rest_of_the_operands(void **state) {
    (void)state;
    check(
        "rule r\n  match\n    %a = Concat(%p...) {axis=$k}\n    %y = Concat(%a, %q...) {axis=$k}\n  write\n    %y = Concat(%p..., %q...) {axis=$k}\n",
        "graph @g(%p: f32[1], %q: f32[2], %r: f32[3], %s: f32[4]) -> (%y) {\n  %a = Concat(%p, %q) {axis=0}\n  %y = Concat(%a, %r, %s) {axis=0}\n}\n",
        "graph @g(%p: f32[1], %q: f32[2], %r: f32[3], %s: f32[4]) -> (%y) {\n  %y = Concat(%p, %q, %r, %s) {axis=0}\n}\n",
        "r ");
}

static void numbers_are_tensors_of_that_number(void **state) {
    static const char rule[] = "rule r\n  match\n    %y = Mul(%x, 1.0)\n  write\n    %y = %x\n";
    (void)state;
    check(
        rule,
        "graph @g(%x: f32[2,2]) -> (%y) {\n  %k = Const {data = f32[2,2] [1.0, 1.0, 1.0, 1.0]}\n  %y = Mul(%x, %k)\n}\n",
        "graph @g(%x: f32[2,2]) -> (\"y\" = %x) {\n}\n", "r ");
    check_unchanged(rule,
                    "graph @g(%x: f32[2]) -> (%y) {\n  %k = Const {data = f32[2] [1.0, 2.0]}\n  %y = Mul(%x, %k)\n}\n");
    /* A number that makes the result larger is more than a number, and with a size that has a name nobody knows. */
    check_unchanged(rule,
                    "graph @g(%x: f32[n]) -> (%y) {\n  %k = Const {data = f32[2] [1.0, 1.0]}\n  %y = Mul(%x, %k)\n}\n");
    check(rule, "graph @g(%x: f32[n]) -> (%y) {\n  %k = Const {data = f32[1] [1.0]}\n  %y = Mul(%x, %k)\n}\n",
          "graph @g(%x: f32[n]) -> (\"y\" = %x) {\n}\n", "r ");
    check_unchanged(
        rule, "graph @g(%x: f32[2]) -> (%y) {\n  %k = Const {data = f32[2,1] [1.0, 1.0]}\n  %y = Mul(%x, %k)\n}\n");
}

static void what_only_shares_an_operand(void **state) {
    static const char rule[] =
        "rule r\n  match\n    %a = MatMul(%x, %v)\n    %b = MatMul(%x, %w)\n"
        "  write\n    %a, %b = Split(MatMul(%x, Concat(%v, %w) {axis=1}), [dim(%v, 1), dim(%w, 1)]) {axis=1}\n";
    Case c;
    (void)state;
    case_begin(&c, rule,
               "tn 1\ngraph @g(%x: f32[2,3]) -> (%a, %b) {\n  %v = Const {data = f32[3,1] [1.0, 2.0, 3.0]}\n"
               "  %w = Const {data = f32[3,1] [4.0, 5.0, 6.0]}\n  %a = MatMul(%x, %v)\n  %b = MatMul(%x, %w)\n}\n");
    bool applied;
    OK(rewrite_once(c.matcher, c.model->main->last, &applied));
    assert_true(applied);
    OK(model_verify(c.model));
    assert_graph(
        &c, "graph @g(%x: f32[2,3]) -> (%a, %b) {\n  %v = Const {data = f32[3,1] [1.0, 2.0, 3.0]}\n"
            "  %w = Const {data = f32[3,1] [4.0, 5.0, 6.0]}\n  %0 = Concat(%v, %w) {axis=1}\n  %1 = MatMul(%x, %0)\n"
            "  %2 = Const {data = i64[2] [1, 1]}\n  %a, %b = Split(%1, %2) {axis=1}\n}\n");
    case_end(&c);
}

/* ---- what the engine settles ------------------------------------------------------------------------------------- */

static void other_readers_keep_what_they_read(void **state) {
    (void)state;
    /* %a stays, so nothing is won: one node for one. */
    check(relu_of_relu, "graph @g(%x: f32[2]) -> (%y, %z) {\n  %a = Relu(%x)\n  %y = Relu(%a)\n  %z = Abs(%a)\n}\n",
          "graph @g(%x: f32[2]) -> (%y, %z) {\n  %a = Relu(%x)\n  %y = Relu(%a)\n  %z = Abs(%a)\n}\n", "-twice ");
    check("rule r\n  match\n    %a = Relu(%x)\n    %b = Abs(%a)\n    %y = Neg(%b)\n  write\n    %y = Ceil(%a)\n",
          "graph @g(%x: f32[2]) -> (%y, %z) {\n  %a = Relu(%x)\n  %b = Abs(%a)\n  %y = Neg(%b)\n  %z = Abs(%a)\n}\n",
          "graph @g(%x: f32[2]) -> (%y, %z) {\n  %a = Relu(%x)\n  %y = Ceil(%a)\n  %z = Abs(%a)\n}\n", "r ");
}

static const char three[] =
    "rule r\n  match\n    %a = Relu(%x)\n    %b = Abs(%a)\n    %y = Neg(%b)\n  write\n    %y = Ceil(%x)\n";

static void graph_outputs_stay(void **state) {
    (void)state;
    check(three, "graph @g(%x: f32[2]) -> (%y, %a) {\n  %a = Relu(%x)\n  %b = Abs(%a)\n  %y = Neg(%b)\n}\n",
          "graph @g(%x: f32[2]) -> (%y, %a) {\n  %a = Relu(%x)\n  %y = Ceil(%x)\n}\n", "r ");
    check("rule r\n  match\n    %y = Relu(%x)\n  write\n    %y = %x\n",
          "graph @g(%x: f32[2]) -> (%y) {\n  %y = Relu(%x)\n}\n", "graph @g(%x: f32[2]) -> (\"y\" = %x) {\n}\n", "r ");
}

static void nested_graphs_keep_what_they_read(void **state) {
    (void)state;
    check(
        three,
        "graph @g(%x: f32[2], %p: bool[]) -> (%y, %z) {\n  %a = Relu(%x)\n  %b = Abs(%a)\n  %y = Neg(%b)\n"
        "  %z = If(%p) {else_branch = graph () -> (%d) {\n    %d = Neg(%y)\n  }, then_branch = graph () -> (%c) {\n    %c = Neg(%a)\n  }}\n}\n",
        "graph @g(%x: f32[2], %p: bool[]) -> (%y, %z) {\n  %a = Relu(%x)\n  %y = Ceil(%x)\n"
        "  %z = If(%p) {else_branch = graph () -> (%d) {\n    %d = Neg(%y)\n  }, then_branch = graph () -> (%c) {\n    %c = Neg(%a)\n  }}\n}\n",
        "r ");
}

/* A match lies in one graph. */
static void matches_do_not_reach_out_of_a_graph(void **state) {
    Case c;
    (void)state;
    case_begin(
        &c, relu_of_relu,
        "tn 1\ngraph @g(%x: f32[2], %p: bool[]) -> (%z) {\n  %a = Relu(%x)\n"
        "  %z = If(%p) {else_branch = graph () -> (%d) {\n    %d = Relu(%a)\n  }, then_branch = graph () -> (%c) {\n    %c = Neg(%a)\n  }}\n}\n");
    Graph **graphs;
    size_t n;
    Arena arena;
    arena_init(&arena, &c.ctx->allocator);
    OK(model_graphs(c.model, &arena, &graphs, &n));
    for (size_t i = 0; i < n; i++)
        OK(rewrite_graph(c.matcher, graphs[i], &(RewriteHooks){.changed = changed, .user = &c.told}));
    assert_string_equal(c.told.text, "");
    arena_free(&arena);
    case_end(&c);
}

static void what_is_read_must_be_there(void **state) {
    (void)state;
    /* %a is to become what %w, which comes later, helps to make. */
    check_unchanged(
        "rule r\n  match\n    %a = Relu(%x)\n    %y = Add(%a, %w)\n  write\n    %a = Mul(%x, %w)\n    %y = Neg(%w)\n",
        "graph @g(%x: f32[2], %v: f32[2]) -> (%y, %z) {\n  %a = Relu(%x)\n  %z = Abs(%a)\n  %w = Exp(%v)\n  %y = Add(%a, %w)\n}\n");
}

/* ---- cost and order ---------------------------------------------------------------------------------------------- */

static void dearer_is_refused(void **state) {
    (void)state;
    check("rule r\n  match\n    %y = Relu(%x)\n  write\n    %y = Neg(Neg(%x))\n",
          "graph @g(%x: f32[2]) -> (%y) {\n  %y = Relu(%x)\n}\n",
          "graph @g(%x: f32[2]) -> (%y) {\n  %y = Relu(%x)\n}\n", "-r ");
}

/* Weights are computed once, ahead of time. */
static void constants_cost_nothing(void **state) {
    (void)state;
    check(
        "rule r\n  match\n    %a = Mul(%x, %k)\n    %y = Mul(%a, %l)\n  where const(%k, %l)\n  write\n    %y = Mul(%x, Add(Mul(%k, %l), Sub(%k, %k)))\n",
        "graph @g(%x: f32[2]) -> (%y) {\n  %k = Const {data = f32 2.0}\n  %l = Const {data = f32 3.0}\n  %a = Mul(%x, %k)\n  %y = Mul(%a, %l)\n}\n",
        "graph @g(%x: f32[2]) -> (%y) {\n  %0 = Const {data = f32 6.0}\n  %y = Mul(%x, %0)\n}\n", "r ");
}

static const char chase[] = "rule there\n  match\n    %a = Relu(%x)\n    %y = Neg(%a)\n  write\n    %y = Abs(Exp(%x))\n"
                            "rule back\n  match\n    %a = Exp(%x)\n    %y = Abs(%a)\n  write\n    %y = Neg(Relu(%x))\n";

static double exp_is_cheap(void *user, const Node *node, const Shape *in, const Shape *out) {
    (void)user, (void)in, (void)out;
    return strcmp(node->op->name, "Exp") == 0 ? 1 : 2;
}

static void rules_that_chase_each_other_are_named(void **state) {
    Case c;
    (void)state;
    case_begin(&c, chase, "tn 1\ngraph @g(%x: f32[2]) -> (%y) {\n  %a = Relu(%x)\n  %y = Neg(%a)\n}\n");
    RewriteHooks hooks = {.cost = exp_is_cheap, .changed = changed, .refused = refused, .user = &c.told};
    OK(rewrite_graph(c.matcher, c.model->main, &hooks));
    assert_string_equal(c.told.text, "there -back/there ");
    case_end(&c);
}

/* One node can be of one match only; the first in the order of rules and nodes wins, always. */
static void overlapping_matches(void **state) {
    static const char rules[] =
        "rule left\n  match\n    %a = Relu(%x)\n    %b = Abs(%a)\n  write\n    %b = Ceil(%x)\n"
        "rule right\n  match\n    %a = Abs(%x)\n    %b = Neg(%a)\n  write\n    %b = Floor(%x)\n";
    (void)state;
    for (int i = 0; i < 20; i++)
        check(rules, "graph @g(%x: f32[2]) -> (%y) {\n  %a = Relu(%x)\n  %b = Abs(%a)\n  %y = Neg(%b)\n}\n",
              "graph @g(%x: f32[2]) -> (%y) {\n  %b = Ceil(%x)\n  %y = Neg(%b)\n}\n", "left ");
}

static bool never(void *user, const Rule *rule, const Node *root) {
    (void)user, (void)rule, (void)root;
    return false;
}

static void changes_can_be_forbidden(void **state) {
    static const char graph[] = "tn 1\ngraph @g(%x: f32[2]) -> (%y) {\n  %a = Relu(%x)\n  %y = Relu(%a)\n}\n";
    Case c;
    (void)state;
    case_begin(&c, relu_of_relu, graph);
    uint64_t edits = c.model->structure_edits;
    OK(rewrite_graph(c.matcher, c.model->main, &(RewriteHooks){.may_change = never}));
    OK(model_verify(c.model));
    assert_graph(&c, graph + 5);
    (void)edits;
    case_end(&c);
}

/* ---- proofs ------------------------------------------------------------------------------------------------------ */

static void prove(const char *rule, size_t instances, Proof *proof) {
    RuleSet *set;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    OK(rules_parse(&ctx->allocator, str_of(rule), STR("test"), &set));
    OK(rule_prove(ctx, rules_at(set, 0), &(ProofOptions){.instances = instances}, proof));
    rules_free(set);
    context_unref(ctx);
}

static void assert_holds(const char *rule) {
    Proof proof;
    prove(rule, 60, &proof);
    if (proof.outcome != PROOF_HOLDS)
        print_error("%s\n%s\n", proof.why, proof.counterexample.s ? proof.counterexample.s : "");
    assert_int_equal(proof.outcome, PROOF_HOLDS);
    assert_true(proof.instances >= 60);
    assert_true(proof.worst <= 1e-10);
    proof_free(&proof);
}

/* The counterexample is a model of which the rule changes the answer. */
static void assert_refuted(const char *rule, const char *why) {
    Proof proof;
    Case c;
    prove(rule, 200, &proof);
    if (proof.outcome != PROOF_REFUTED) print_error("not refuted (%s):\n%s\n", proof.why, rule);
    assert_int_equal(proof.outcome, PROOF_REFUTED);
    if (!strstr(proof.why, why)) print_error("\"%s\" does not say \"%s\"\n", proof.why, why);
    assert_non_null(strstr(proof.why, why));
    case_begin(&c, rule, proof.counterexample.s);
    for (size_t i = 0; i < c.model->main->inputs.len; i++) assert_non_null(graph_input_default(c.model->main, i));
    bool applied = false;
    for (Node *n = c.model->main->first; n && !applied; n = n->next) OK(rewrite_once(c.matcher, n, &applied));
    assert_true(applied);
    assert_true(c.model->n_nodes < 24);
    case_end(&c);
    proof_free(&proof);
}

static void true_rules_are_proven(void **state) {
    (void)state;
    assert_holds(relu_of_relu);
    assert_holds(gemm);
    assert_holds(conv);
    assert_holds(
        "rule gelu\n  match\n    %a = Div(%x, 1.4142135623730951)\n    %e = Erf(%a)\n    %p = Add(%e, 1.0)\n    %m = Mul(%x, %p)\n"
        "    %y = Mul(%m, 0.5)\n  where same_shape(%y, %x)\n  write\n    %y = Gelu(%x)\n");
    assert_holds(
        "rule norm\n  match\n    %m = ReduceMean(%x, $axes) {keepdims=1}\n    %d = Sub(%x, %m)\n    %q = Pow(%d, 2.0)\n"
        "    %v = ReduceMean(%q, $axes) {keepdims=1}\n    %e = Add(%v, $eps)\n    %r = Sqrt(%e)\n    %n = Div(%d, %r)\n"
        "    %g = Mul(%n, %s)\n    %y = Add(%g, %b)\n  where axes($axes, rank(%x)) == [rank(%x) - 1], same_shape(%d, %x), $eps >= 0,\n"
        "    shape(%s) == [dim(%x, -1)], shape(%b) == [dim(%x, -1)]\n  write\n    %y = LayerNormalization(%x, %s, %b) {axis=-1, epsilon=$eps}\n");
}

static void wrong_rules_are_refuted(void **state) {
    (void)state;
    assert_refuted("rule r\n  match\n    %a = Relu(%x)\n    %y = Relu(%a)\n  write\n    %y = Abs(%x)\n",
                   "on the left and");
    assert_refuted("rule r\n  match\n    %y = Sub(%a, %b)\n  write\n    %y = Sub(%b, %a)\n", "");
    /* true of floats only */
    assert_refuted(
        "rule r\n  match\n    %m = Mul(%x, %k)\n    %y = Div(%m, %l)\n  where const(%k, %l)\n  write\n    %y = Mul(%x, Div(%k, %l))\n",
        "");
    /* forgets the mean's own bias */
    assert_refuted(
        "rule r\n  match\n    %c = Conv(%x, %w, %b?) {*}\n    %y = BatchNormalization(%c, %s, %beta, %mean, %var) {epsilon=$e, training_mode=0, *}\n"
        "  where const(%w, %b, %s, %beta, %mean, %var)\n  write\n    %k = Div(%s, Sqrt(Add(%var, $e)))\n"
        "    %y = Conv(%x, Mul(%w, Reshape(%k, channels_first(rank(%w)))), Add(Mul(Sub(0.0, %mean), %k), %beta)) {*%c}\n",
        "");
    /* the weights of a transposed convolution have their channels elsewhere */
    assert_refuted(
        "rule r\n  match\n    %c = ConvTranspose(%x, %w) {*}\n    %y = Mul(%c, %s)\n  where const(%w, %s), rank(%s) == rank(%w) - 1, shape(%s) == [dim(%s, 0)] + filled(rank(%w) - 2, 1)\n"
        "  write\n    %y = ConvTranspose(%x, Mul(%w, Reshape(%s, channels_first(rank(%w))))) {*%c}\n",
        "");
    /* one of the two may be the larger one */
    assert_refuted("rule r\n  match\n    %e = Expand(%x, %s)\n    %y = Add(%e, %z)\n  write\n    %y = Add(%x, %z)\n",
                   "on the left and");
    /* epsilon */
    assert_refuted(
        "rule r\n  match\n    %y = InstanceNormalization(%x, %s, %b) {epsilon=$e}\n  write\n    %y = InstanceNormalization(%x, %s, %b) {epsilon=$e * 1.01}\n",
        "");
}

static void rules_without_instances_say_why(void **state) {
    Proof proof;
    (void)state;
    prove("rule r\n  match\n    %y = Relu(%x)\n  where rank(%x) == rank(%y) + 1\n  write\n    %y = Abs(%x)\n", 10,
          &proof);
    assert_int_equal(proof.outcome, PROOF_NO_INSTANCE);
    assert_non_null(strstr(proof.why, "no instance satisfies: rank(%x) == rank(%y) + 1"));
    proof_free(&proof);
    prove("rule r\n  match\n    %y = Relu(%x)\n  write\n    %y = Cast(%x) {to=9}\n", 10, &proof);
    assert_int_equal(proof.outcome, PROOF_NO_INSTANCE);
    assert_non_null(strstr(proof.why, "the right side cannot be made"));
    proof_free(&proof);
    prove("rule r\n  match\n    %y = Equal(%x, %z)\n  where dtype(%x) == \"string\"\n  write\n    %y = Equal(%x, 0)\n",
          10, &proof);
    assert_int_equal(proof.outcome, PROOF_NO_INSTANCE);
    proof_free(&proof);
    static const char *const without_picture[] = {"_, %x, _, %z", "_, %x, %z"};
    for (size_t i = 0; i < sizeof without_picture / sizeof *without_picture; i++) {
        char rule[200];
        snprintf(rule, sizeof rule, "rule r\n  match\n    %%y = Resize(%s) {*}\n  write\n    %%y = %%x\n",
                 without_picture[i]);
        prove(rule, 10, &proof);
        assert_int_equal(proof.outcome, PROOF_NO_INSTANCE);
        proof_free(&proof);
    }
}

static void proofs_are_the_same_on_every_run(void **state) {
    static const char rule[] =
        "rule r\n  match\n    %a = Conv(%x, %w) {*}\n    %y = Add(%a, %b)\n  write\n    %y = Conv(%x, %w, %b) {*%a}\n";
    Proof a, b;
    (void)state;
    prove(rule, 50, &a);
    prove(rule, 50, &b);
    assert_int_equal(a.outcome, PROOF_REFUTED);
    assert_int_equal(a.tried, b.tried);
    assert_string_equal(a.why, b.why);
    assert_string_equal(a.counterexample.s, b.counterexample.s);
    proof_free(&a);
    proof_free(&b);
}

/* ---- the public interface ---------------------------------------------------------------------------------------- */

static bool count_proof(void *user, const tn_rule_proof *proof) {
    size_t *n = user;
    assert_int_equal(proof->outcome, TN_PROOF_HOLDS);
    assert_true(proof->instances >= 5);
    assert_string_equal(proof->counterexample, "");
    return ++*n < 2;
}

static void rules_are_listed_and_found(void **state) {
    tn_rule_info info;
    size_t n = tn_n_rules();
    (void)state;
    assert_true(n > 10);
    OK(tn_rule_at(n - 1, &info));
    assert_true(strncmp(info.text, "rule ", 5) == 0);
    assert_int_equal(tn_rule_at(n, &info), TN_OUT_OF_RANGE);
    OK(tn_rule_find("fold_batchnorm_into_conv", &info));
    assert_string_equal(info.set, "conv");
    assert_int_equal(tn_rule_find("fold_batchnorm_into_konv", &info), TN_NOT_FOUND);
    assert_says("did you mean fold_batchnorm_into_conv");
    assert_int_equal(tn_rule_find(NULL, &info), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_rule_at(0, NULL), TN_INVALID_ARGUMENT);
}

static void proofs_can_be_stopped(void **state) {
    size_t n = 0;
    tn_prove_options options = {.instances = 5, .done = count_proof, .user = &n};
    (void)state;
    OK(tn_rules_prove(&options));
    assert_int_equal(n, 2);
    options.rules = (const char *[]){"transpose_of_transpose", "no_such_rule"};
    options.n_rules = 2;
    assert_int_equal(tn_rules_prove(&options), TN_NOT_FOUND);
    n = 0;
    options.n_rules = 1;
    OK(tn_rules_prove(&options));
    assert_int_equal(n, 1);
}

static void rules_are_registered(void **state) {
    static const char text[] = "rule two_signs\n  match\n    %a = Neg(%x)\n    %y = Neg(%a)\n  write\n    %y = %x\n";
    char *example = NULL;
    size_t n = tn_n_rules();
    tn_rule_info info;
    (void)state;
    assert_int_equal(tn_register_rules("rule wrong\n  match\n    %y = Relu(%x)\n  write\n    %y = Abs(%x)\n", "mine",
                                       true, &example),
                     TN_INVALID_ARGUMENT);
    assert_says("rule wrong is wrong");
    assert_non_null(strstr(example, "tn 1\n"));
    tn_free_text(example);
    assert_int_equal(tn_register_rules("rule odd", "mine", true, &example), TN_INVALID_ARGUMENT);
    assert_null(example);
    assert_int_equal(tn_n_rules(), n);
    OK(tn_register_rules(text, "mine", true, &example));
    assert_null(example);
    OK(tn_rule_at(n, &info));
    assert_string_equal(info.set, "mine");
    assert_string_equal(info.name, "two_signs");
    assert_int_equal(tn_register_rules(text, "mine", false, NULL), TN_INVALID_ARGUMENT);
    assert_says("there are rules \"mine\" already");
    assert_int_equal(tn_register_rules(text, "others", false, NULL), TN_INVALID_ARGUMENT);
    assert_says("there is a rule two_signs already, in \"mine\"");
    assert_int_equal(tn_load_rules("/no/such/file.rules", true, NULL), TN_IO);
    assert_int_equal(tn_n_rules(), n + 1);
}

/* ---- rules that are read when they are wanted --------------------------------------------------------------------- */

static bool has_op(const OpSet *set, const char *name) {
    OpSet one = {{0}};
    opset_add(&one, str_of(name));
    return opset_within(&one, set);
}

/* Whether it is wanted whenever it may match: its root may be one of its ops, and it is left out only for want of ops that it
   cannot do without. */
static void check_skimmed(const Rule *rule) {
    const RuleNode *root = &rule->match[rule->n_match - 1];
    OpSet all = {{0}};
    for (size_t i = 0; i < root->n_ops; i++) assert_true(has_op(&rule->roots, root->ops[i]->name));
    for (size_t i = 0; i < rule->n_match; i++) {
        if (rule->match[i].n_ops == 1) opset_add(&all, str_of(rule->match[i].ops[0]->name));
        for (size_t k = 0; k < rule->match[i].n_operands; k++) {
            const RuleOperand *o = &rule->match[i].operands[k];
            assert_false(o->kind == OPERAND_VALUE && o->optional && rule->value_node[o->value] >= 0);
        }
    }
    assert_true(opset_within(&rule->needs, &all));
}

static void skimmed_rules_are_those_that_are_read(void **state) {
    size_t depth = 0, n_roots = 0, n = 0;
    (void)state;
    for (const RulesText *t = rules_texts; t->name; t++) {
        RuleSet *skimmed, *whole;
        OK(rules_skim(&allocator_default, (Str){t->text, t->size}, str_of(t->name), &skimmed));
        OK(rules_parse(&allocator_default, (Str){t->text, t->size}, str_of(t->name), &whole));
        assert_int_equal(rules_count(skimmed), rules_count(whole));
        for (size_t i = 0; i < rules_count(whole); i++, n++) {
            const Rule *a = rules_at(skimmed, i), *b = rules_at(whole, i);
            assert_false(atomic_load(&a->read));
            OK(rule_read(a));
            assert_string_equal(rule_name(a), rule_name(b));
            assert_string_equal(rule_summary(a), rule_summary(b));
            assert_true(str_equal(rule_text(a), rule_text(b)));
            assert_int_equal(rule_level(a), rule_level(b));
            assert_int_equal(rule_line(a), rule_line(b));
            assert_int_equal(a->n_match, b->n_match);
            assert_int_equal(a->n_steps, b->n_steps);
            assert_int_equal(a->depth, b->depth);
            check_skimmed(a);
            n_roots += !has_op(&a->roots, "NoSuchOp");
            if (b->depth > depth) depth = b->depth;
        }
        rules_free(skimmed);
        rules_free(whole);
    }
    assert_true(depth <= RULES_REACH); /* else what is changed may reach further once such a rule was read */
    assert_true(n_roots > n / 2);
}

/* Twice the same graph, by all rules at hand and by those that are read on the way. */
static void rewrite_by(bool skimmed, const char *text, Text *out) {
    Case c = {0};
    const Rule *list[1024];
    RuleSet *sets[32];
    size_t n = 0, n_sets = 0, n_read = 0;
    OK(context_new(NULL, NULL, &c.ctx));
    for (const RulesText *t = rules_texts; t->name; t++, n_sets++) {
        Str rules = {t->text, t->size};
        if (skimmed) OK(rules_skim(&allocator_default, rules, str_of(t->name), &sets[n_sets]));
        else OK(rules_parse(&allocator_default, rules, str_of(t->name), &sets[n_sets]));
        for (size_t i = 0; i < rules_count(sets[n_sets]); i++)
            if (rule_level(rules_at(sets[n_sets], i)) < RULE_VARIES) list[n++] = rules_at(sets[n_sets], i);
    }
    OK(matcher_new(&c.ctx->allocator, list, n, &c.matcher));
    OK(model_parse(c.ctx, str_of(text), NULL, STR("test"), &c.model));
    OK(infer_model(c.model));
    OK(rewrite_graph(c.matcher, c.model->main, &(RewriteHooks){.user = NULL}));
    OK(model_print(c.model, NULL, out));
    for (size_t i = 0; i < n; i++) n_read += atomic_load(&list[i]->read);
    assert_true(skimmed ? n_read > 0 && n_read < n / 2 : n_read == n);
    for (size_t i = 0; i < n_sets; i++) rules_free(sets[i]);
    model_free(c.model);
    matcher_free(c.matcher);
    context_unref(c.ctx);
}

static void rules_that_others_make_room_for_are_read(void **state) {
    /* What is clipped becomes HardSigmoid, of which another rule makes HardSwish. */
    const char *text = "tn 1\ngraph @g(%x: f32[2,3,8]) -> (%y, %z) {\n"
                       "  %t = Transpose(%x) {perm=[0, 2, 1]}\n"
                       "  %r = Relu(%t)\n"
                       "  %y = Transpose(%r) {perm=[0, 2, 1]}\n"
                       "  %a = Add(%x, 3.0)\n"
                       "  %c = Clip(%a, 0.0, 6.0)\n"
                       "  %d = Div(%c, 6.0)\n"
                       "  %z = Mul(%x, %d)\n"
                       "}\n";
    Text some, all;
    (void)state;
    text_init(&some, &allocator_default);
    text_init(&all, &allocator_default);
    rewrite_by(true, text, &some);
    rewrite_by(false, text, &all);
    assert_string_equal(some.s, all.s);
    assert_non_null(strstr(some.s, "HardSwish"));
    text_free(&some);
    text_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skimmed_rules_are_those_that_are_read),
        cmocka_unit_test(rules_that_others_make_room_for_are_read),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(deep_nesting_is_an_error),
        cmocka_unit_test(rules_tell_of_themselves),
        cmocka_unit_test(a_chain_becomes_one),
        cmocka_unit_test(operands_of_a_sum_may_be_swapped),
        cmocka_unit_test(swapping_goes_back),
        cmocka_unit_test(optional_operands_and_attributes),
        cmocka_unit_test(attributes_that_are_not_named),
        cmocka_unit_test(variables_stand_for_one_thing),
        cmocka_unit_test(lists_are_taken_apart),
        cmocka_unit_test(alternatives_and_op_variables),
        cmocka_unit_test(the_rest_of_the_operands),
        cmocka_unit_test(numbers_are_tensors_of_that_number),
        cmocka_unit_test(what_only_shares_an_operand),
        cmocka_unit_test(other_readers_keep_what_they_read),
        cmocka_unit_test(graph_outputs_stay),
        cmocka_unit_test(nested_graphs_keep_what_they_read),
        cmocka_unit_test(matches_do_not_reach_out_of_a_graph),
        cmocka_unit_test(what_is_read_must_be_there),
        cmocka_unit_test(dearer_is_refused),
        cmocka_unit_test(constants_cost_nothing),
        cmocka_unit_test(rules_that_chase_each_other_are_named),
        cmocka_unit_test(overlapping_matches),
        cmocka_unit_test(changes_can_be_forbidden),
        cmocka_unit_test(true_rules_are_proven),
        cmocka_unit_test(wrong_rules_are_refuted),
        cmocka_unit_test(rules_without_instances_say_why),
        cmocka_unit_test(proofs_are_the_same_on_every_run),
        cmocka_unit_test(rules_are_listed_and_found),
        cmocka_unit_test(proofs_can_be_stopped),
        cmocka_unit_test(rules_are_registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
