/* SPDX-License-Identifier: Apache-2.0 */
/* include/tenon/graph.h from C: typed inputs, nested graphs, copies, visitors, mutators. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include <tenon/graph.h>

#define OK(expr) assert_true(check_ok((expr), #expr))

static bool check_ok(tn_status status, const char *what) {
    if (status != TN_OK) print_error("%s: %s: %s\n", what, tn_status_name(status), tn_last_error());
    return status == TN_OK;
}

static void assert_says(const char *part) {
    if (!strstr(tn_last_error(), part)) print_error("\"%s\" does not say \"%s\"\n", tn_last_error(), part);
    assert_non_null(strstr(tn_last_error(), part));
}

static tn_context *context_of_test(void) {
    tn_context *context;
    tn_context_options options = {.threads = 1};
    OK(tn_context_create(&options, &context));
    return context;
}

static tn_value *add(tn_graph *graph, const char *op, tn_value *a, tn_value *b, const char *name) {
    tn_node *node;
    OK(tn_graph_add_node(graph, op, (tn_value *[]){a, b}, b ? 2 : 1, 1, NULL, &node));
    OK(tn_value_rename(tn_node_result(node, 0), name));
    return tn_node_result(node, 0);
}

/* main(c, x): a = Add(x, x); y = If(c) { then: Exp(a) | else: Neg(x) } */
typedef struct Small {
    tn_context *context;
    tn_model *model;
    tn_graph *main, *yes, *no;
    tn_value *c, *x, *a, *e, *y;
    tn_node *branch;
} Small;

static void small_begin(Small *s) {
    s->context = context_of_test();
    OK(tn_model_new(s->context, "main", &s->model));
    s->main = tn_model_graph(s->model);
    OK(tn_graph_add_input_typed(s->main, "c", "bool[]", &s->c));
    OK(tn_graph_add_input_typed(s->main, "x", "f32[n,(h + 1)/2]", &s->x));
    s->a = add(s->main, "Add", s->x, s->x, "a");
    OK(tn_graph_new_nested(s->main, "yes", &s->yes));
    s->e = add(s->yes, "Exp", s->a, NULL, "e");
    OK(tn_graph_add_output(s->yes, s->e, NULL));
    OK(tn_graph_add_node(s->main, "If", &s->c, 1, 1, NULL, &s->branch));
    OK(tn_node_set_graph(s->branch, "then_branch", s->yes));
    OK(tn_graph_new_nested(s->main, "no", &s->no));
    OK(tn_node_set_graph(s->branch, "else_branch", s->no));
    OK(tn_graph_add_output(s->no, add(s->no, "Neg", s->x, NULL, "m"), NULL));
    s->y = tn_node_result(s->branch, 0);
    OK(tn_value_rename(s->y, "y"));
    OK(tn_graph_add_output(s->main, s->y, NULL));
    OK(tn_model_infer(s->model));
}

static void small_end(Small *s) {
    tn_model_release(s->model);
    tn_context_release(s->context);
}

static void assert_text(const tn_model *model, const char *part, bool there) {
    char *text;
    OK(tn_model_text(model, &text));
    if (!strstr(text, part) == there) print_error("%s\n", text);
    assert_int_equal(strstr(text, part) != NULL, there);
    tn_free_text(text);
}

/* ---- building ------------------------------------------------------------------------------------------------- */

static void test_typed_inputs(void **state) {
    (void)state;
    Small s;
    tn_value *value;
    tn_value_info info;
    small_begin(&s);
    OK(tn_value_get_info(s.x, &info));
    assert_string_equal(info.type, "f32[n,(h + 1)/2]");
    assert_ptr_equal(tn_value_owner(s.x), s.main);
    OK(tn_graph_add_input_typed(s.main, "l", "seq(f32[*])", &value));
    OK(tn_value_get_info(value, &info));
    assert_int_equal(info.kind, TN_SEQUENCE);
    assert_int_equal(tn_graph_add_input_typed(s.main, "w", "f32[2,", &value), TN_MALFORMED);
    assert_says("1:7");
    assert_int_equal(tn_graph_add_input_typed(s.main, "w", "f32[2]]", &value), TN_MALFORMED);
    assert_says("expected the end of the type");
    assert_int_equal(tn_graph_add_input_typed(s.main, "w", NULL, &value), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_graph_n_inputs(s.main), 3);
    small_end(&s);
}

static void test_nested(void **state) {
    (void)state;
    Small s;
    tn_graph *graph, *loose;
    tn_value_info info;
    small_begin(&s);
    OK(tn_value_get_info(s.y, &info));
    assert_string_equal(info.type, "f32[n,(h + 1)/2]");
    OK(tn_node_get_graph(s.branch, "then_branch", &graph));
    assert_ptr_equal(graph, s.yes);
    assert_int_equal(tn_node_set_graph(s.branch, "else_branch", s.yes), TN_STATE);
    assert_int_equal(tn_node_set_graph(tn_value_def(s.a), "body", s.yes), TN_NOT_FOUND);
    assert_int_equal(tn_graph_erase(s.yes), TN_STATE);
    assert_int_equal(tn_graph_erase(s.main), TN_INVALID_ARGUMENT);
    OK(tn_node_take_graph(s.branch, "then_branch", &graph));
    assert_int_equal(tn_node_take_graph(s.branch, "then_branch", &graph), TN_NOT_FOUND);
    assert_int_equal(tn_model_verify(s.model), TN_INVALID_MODEL);
    OK(tn_node_set_graph(s.branch, "then_branch", graph));
    OK(tn_model_verify(s.model));
    /* What stood there goes when another takes its place. */
    OK(tn_graph_new_nested(s.main, NULL, &loose));
    OK(tn_graph_add_output(loose, add(loose, "Relu", s.a, NULL, "r"), NULL));
    assert_int_equal(tn_model_verify(s.model), TN_INVALID_MODEL);
    assert_says("no node holds the graph");
    OK(tn_node_set_graph(s.branch, "then_branch", loose));
    assert_false(tn_graph_is_alive(s.yes));
    assert_false(tn_value_is_alive(s.e));
    assert_true(tn_value_is_alive(s.a) && tn_node_is_alive(s.branch) && tn_graph_is_alive(loose));
    OK(tn_model_infer(s.model));
    small_end(&s);
}

static void test_clone(void **state) {
    (void)state;
    Small s;
    tn_model *copy;
    small_begin(&s);
    OK(tn_model_clone(s.model, &copy));
    OK(tn_value_rename(s.a, "renamed"));
    assert_text(copy, "%renamed", false);
    tn_model_release(s.model);
    s.model = copy;
    assert_text(copy, "= Exp(%a)", true);
    OK(tn_model_verify(copy));
    small_end(&s);
}

/* ---- visiting ------------------------------------------------------------------------------------------------- */

typedef struct Trace {
    char text[512];
    uint32_t count;
    tn_node *erase;
} Trace;

static void note(Trace *t, const char *kind, const char *text) {
    size_t n = strlen(t->text);
    snprintf(t->text + n, sizeof t->text - n, "%s%s:%u ", kind, text, t->count);
}

static tn_status on_node(void *user, tn_node *node) {
    Trace *t = user;
    note(t, "", tn_value_name(tn_node_result(node, 0)));
    if (t->erase == node) {
        OK(tn_value_replace(tn_node_result(node, 0), tn_node_operand(node, 0)));
        OK(tn_node_erase(node));
    }
    return TN_OK;
}
static tn_status on_exp(void *user, tn_node *node) { return note(user, "exp ", tn_node_op(node)), TN_OK; }
static tn_status on_input(void *user, tn_value *value) { return note(user, ">", tn_value_name(value)), TN_OK; }
static tn_status on_graph(void *user, tn_graph *graph) { return note(user, "@", tn_graph_name(graph)), TN_OK; }
static tn_status on_op(void *user, const char *op, tn_node *node) {
    assert_string_equal(op, tn_node_op(node));
    return note(user, ".", op), TN_OK;
}
static tn_status on_type(void *user, const char *type, tn_value *value) {
    tn_value_info info;
    OK(tn_value_get_info(value, &info));
    assert_string_equal(type, info.type);
    return note(user, "#", type[0] == 'f' ? "f" : type), TN_OK;
}
static bool never(void *user, const tn_node *node) { return (void)user, (void)node, false; }
static tn_status stop(void *user, tn_node *node) { return (void)user, (void)node, TN_CANCELLED; }

static void test_visit(void **state) {
    (void)state;
    Small s;
    small_begin(&s);
    Trace t = {.text = ""};
    tn_visitor v = {.ops = (tn_visit_op[]){{"Exp", on_exp}, {NULL, NULL}},
                    .node = on_node,
                    .input = on_input,
                    .graph = on_graph,
                    .op = on_op,
                    .type = on_type,
                    .count = &t.count,
                    .user = &t};
    OK(tn_visit(s.model, &v));
    assert_string_equal(t.text, "@main:1 #bool[]:1 >c:1 #f:1 >x:1 .Add:1 #f:2 a:1 .If:1 #f:3 @no:1 .Neg:1 #f:4 m:1 "
                                "@yes:1 .Exp:1 #f:5 exp Exp:1 y:1 ");
    t.text[0] = 0;
    v.op = NULL;
    v.type = NULL;
    OK(tn_visit_value(s.y, &v));
    assert_string_equal(t.text, ">c:1 @no:1 >x:3 m:2 @yes:1 a:1 exp Exp:2 y:1 ");
    t.text[0] = 0;
    OK(tn_visit_graph(s.yes, &v));
    assert_string_equal(t.text, "@yes:1 exp Exp:1 ");
    t.text[0] = 0;
    v.descend = never;
    OK(tn_visit(s.model, &v));
    assert_string_equal(t.text, "@main:1 >c:1 >x:1 a:1 y:1 ");
    OK(tn_visit(s.model, &(tn_visitor){0}));
    v.node = stop;
    assert_int_equal(tn_visit(s.model, &v), TN_CANCELLED);
    v.ops = (tn_visit_op[]){{"Expp", on_exp}, {NULL, NULL}};
    assert_int_equal(tn_visit(s.model, &v), TN_NOT_FOUND);
    assert_says("Expp");
    v.ops = (tn_visit_op[]){{"Exp", NULL}, {NULL, NULL}};
    assert_int_equal(tn_visit(s.model, &v), TN_INVALID_ARGUMENT);
    small_end(&s);
}

static void test_visit_erases(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        Small s;
        small_begin(&s);
        Trace t = {.text = "", .erase = tn_value_def(i ? s.e : s.a)};
        tn_visitor v = {.node = on_node, .user = &t};
        OK(i ? tn_visit_value(s.y, &v) : tn_visit(s.model, &v));
        assert_false(tn_node_is_alive(t.erase));
        OK(tn_model_verify(s.model));
        assert_text(s.model, i ? "Exp" : "Add", false);
        small_end(&s);
    }
}

/* ---- rebuilding ----------------------------------------------------------------------------------------------- */

static tn_status to_relu(void *user, const tn_node *node, tn_graph *into, tn_value *const *operands, tn_value **results,
                         bool *changed) {
    tn_node *fresh;
    if (user && strcmp(tn_node_op(node), user) == 0) return TN_OK;
    tn_status status = tn_graph_add_node(into, "Relu", operands, 1, 1, NULL, &fresh);
    results[0] = status == TN_OK ? tn_node_result(fresh, 0) : NULL;
    *changed = true;
    return status;
}

static tn_status give_operand_of_old(void *user, const tn_node *node, tn_graph *into, tn_value *const *operands,
                                     tn_value **results, bool *changed) {
    (void)user, (void)into, (void)operands;
    results[0] = tn_node_operand(node, 0);
    *changed = true;
    return TN_OK;
}

static tn_status to_f16(void *user, const char *type, const char **other) {
    (void)user;
    if (strncmp(type, "f32", 3) == 0) *other = "f16[n,4]";
    return TN_OK;
}

static tn_status negate_input(void *user, const tn_value *input, tn_value **value) {
    tn_node *node;
    if (strcmp(tn_value_name(input), user) != 0) return TN_OK;
    tn_status status = tn_graph_add_node(tn_value_owner(*value), "Neg", value, 1, 1, NULL, &node);
    *value = tn_node_result(node, 0);
    return status;
}

static void test_mutate(void **state) {
    (void)state;
    Small s;
    tn_model *out;
    small_begin(&s);
    tn_mutator m = {.ops = (tn_mutate_op[]){{"Exp", to_relu}, {NULL, NULL}}, .user = "Exp"};
    OK(tn_mutate(s.model, &m, &out));
    assert_ptr_equal(out, s.model);
    tn_model_release(out);
    m.user = NULL;
    OK(tn_mutate(s.model, &m, &out));
    assert_ptr_not_equal(out, s.model);
    OK(tn_model_infer(out));
    assert_text(out, "%e: f32[n,(h + 1)/2] = Relu(%a)", true);
    assert_text(s.model, "Relu", false);
    tn_model_release(out);
    m = (tn_mutator){.input = negate_input, .type = to_f16, .user = "x"};
    OK(tn_mutate(s.model, &m, &out));
    OK(tn_model_infer(out));
    assert_text(out, "%x: f16[n,4]", true);
    assert_text(out, "= Neg(%x)", true);
    assert_text(out, "%m: f16[n,4] = Neg(%0)", true);
    tn_model_release(out);
    m = (tn_mutator){.ops = (tn_mutate_op[]){{"Add", give_operand_of_old}, {NULL, NULL}}};
    assert_int_equal(tn_mutate(s.model, &m, &out), TN_INVALID_ARGUMENT);
    assert_says("no value of the graph under construction");
    m.ops = (tn_mutate_op[]){{"Addd", to_relu}, {NULL, NULL}};
    assert_int_equal(tn_mutate(s.model, &m, &out), TN_NOT_FOUND);
    assert_says("a mutator is for the op \"Addd\"");
    OK(tn_model_verify(s.model));
    small_end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_typed_inputs), cmocka_unit_test(test_nested),       cmocka_unit_test(test_clone),
        cmocka_unit_test(test_visit),        cmocka_unit_test(test_visit_erases), cmocka_unit_test(test_mutate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
