/* SPDX-License-Identifier: Apache-2.0 */
/* What ONNX graphs mean: names, order, functions, nested graphs, initialisers; and broken ones, which are refused. */
#include "test_onnx_sample.h"

static OnnxTest t;

static int begin(void **state) {
    (void)state;
    onnx_begin(&t, NULL);
    return 0;
}

static int end(void **state) {
    (void)state;
    onnx_end(&t);
    return 0;
}

/* x: f32[2,3] to y through nodes that the caller has put. */
static Bytes model_with(Bytes graph) {
    add_input(&graph, "x", 1, (int64_t[]){2, 3}, 2);
    add_output(&graph, "y");
    return model_of(graph, 13);
}

static Bytes chain(const char *const (*nodes)[3], size_t n) {
    Bytes graph = {0};
    for (size_t i = 0; i < n; i++) put_sub(&graph, 1, node_of(nodes[i][0], nodes[i][1], nodes[i][2]));
    return model_with(graph);
}
#define CHAIN(...) chain((const char *const[][3]){__VA_ARGS__}, sizeof((const char *const[][3]){__VA_ARGS__}) / 24)

static void keeps_names_and_types(void **state) {
    (void)state;
    Bytes node = node_of("Relu", "x", "y");
    put_str(&node, 3, "first");
    OK(read_model(&t, unary_model(node, 13)));
    Graph *g = t.model->main;
    assert_true(str_equal(g->inputs.data[0]->name, STR("x")));
    assert_true(str_equal(g->output_names.data[0], STR("y")));
    assert_true(str_equal(g->first->loc, STR("first")));
    const Type *type = graph_output(g, 0)->type;
    assert_int_equal(type->dtype, TN_F32);
    assert_int_equal(type->shape.rank, 2);
    assert_int_equal(type->shape.dims[1], 3);
}

static void sorts_when_it_must(void **state) {
    (void)state;
    OK(read_model(&t, CHAIN({"Exp", "b", "y"}, {"Abs", "a", "b"}, {"Relu", "x", "a"})));
    assert_string_equal(ops_of(t.model->main), "Relu Abs Exp");
}

/* A nested graph may be all that reads a later node. */
static void sorts_by_what_nested_graphs_read(void **state) {
    (void)state;
    Bytes graph = {0}, choose = node_of("If", "c", "y");
    with_graph(&choose, "then_branch", branch_of("Add", "a"));
    with_graph(&choose, "else_branch", branch_of("Mul", "b"));
    put_sub(&graph, 1, choose);
    put_sub(&graph, 1, node_of("Relu", "x", "k"));
    add_input(&graph, "c", 9, NULL, 0);
    OK(read_model(&t, model_with(graph)));
    assert_string_equal(ops_of(t.model->main), "Relu If");
}

static void refuses_cycles(void **state) {
    (void)state;
    refuse(&t, CHAIN({"Add", "x y", "y"}), TN_INVALID_MODEL, "depends on itself");
    refuse(&t, CHAIN({"Add", "x b", "a"}, {"Abs", "a", "b"}, {"Abs", "b", "y"}), TN_INVALID_MODEL, "depends on itself");
}

static void refuses_bad_names(void **state) {
    (void)state;
    refuse(&t, CHAIN({"Relu", "nothing", "y"}), TN_INVALID_MODEL, "\"nothing\"");
    refuse(&t, CHAIN({"Relu", "x", "y"}, {"Abs", "x", "y"}), TN_INVALID_MODEL, "more than once");
    refuse(&t, CHAIN({"Relu", "x", "x"}, {"Abs", "x", "y"}), TN_INVALID_MODEL, "more than once");
    refuse(&t, CHAIN({"Relu", "x", "z"}), TN_INVALID_MODEL, "output \"y\"");
    refuse(&t, CHAIN({"Relu", "-", "y"}), TN_INVALID_MODEL, "");
    refuse(&t, CHAIN({"Relu", "x x", "y"}), TN_INVALID_MODEL, "");
}

static void refuses_bad_attributes(void **state) {
    (void)state;
    Bytes node = node_of("Flatten", "x", "y");
    with_int(&node, "axis", 1);
    with_int(&node, "axis", 1);
    refuse(&t, unary_model(node, 13), TN_INVALID_MODEL, "more than once");
    node = node_of("Flatten", "x", "y");
    with_str(&node, "axis", "1");
    refuse(&t, unary_model(node, 13), TN_INVALID_MODEL, "axis");
    node = node_of("Flatten", "x", "y");
    with_ref(&node, "axis", "a", 2);
    refuse(&t, unary_model(node, 13), TN_INVALID_MODEL, "outside of a function");
    node = node_of("Flatten", "x", "y");
    with_int(&node, "no_such_attribute", 1);
    refuse(&t, unary_model(node, 13), TN_INVALID_MODEL, "no_such_attribute");
}

static void refuses_bad_opsets(void **state) {
    (void)state;
    refuse(&t, unary_model(node_of("Relu", "x", "y"), 0), TN_INVALID_MODEL, "opset");
    refuse(&t, unary_model(node_of("Relu", "x", "y"), (int64_t)1 << 31), TN_INVALID_MODEL, "opset");
    Bytes graph = {0}, model = {0};
    put_sub(&graph, 1, node_of("Relu", "x", "y"));
    add_input(&graph, "x", 1, NULL, 0);
    add_output(&graph, "y");
    put_int(&model, 1, 8);
    put_sub(&model, 7, graph);
    refuse(&t, model, TN_INVALID_MODEL, "opset");
    OK(read_model(&t, unary_model(node_of("Relu", "x", "y"), 40))); /* newer than we know: a warning */
}

static void names_all_unknown_ops(void **state) {
    (void)state;
    Bytes graph = {0}, foo = node_of("Foo", "x", "a"), bar = node_of("Bar", "a", "b");
    put_str(&foo, 7, "my.domain");
    put_str(&bar, 3, "the bar");
    put_sub(&graph, 1, foo);
    put_sub(&graph, 1, bar);
    put_sub(&graph, 1, node_of("Bar", "b", "y"));
    refuse(&t, model_with(graph), TN_UNSUPPORTED, "my.domain.Foo (1");
    assert_says("Bar (2, first \"the bar\")");
}

static void absent_operands_stay_absent(void **state) {
    (void)state;
    Bytes graph = {0};
    float one = 1;
    Bytes k = tensor_of("k", 1, NULL, 0);
    put_bytes(&k, 9, &one, 4);
    put_sub(&graph, 5, k);
    put_sub(&graph, 1, node_of("Clip", "x - k", "y"));
    OK(read_model(&t, model_with(graph)));
    Node *clip = node_at(t.model->main, 0);
    assert_int_equal(clip->n_operands, 3);
    assert_null(node_operand(clip, 1));
    assert_non_null(value_constant(node_operand(clip, 2)));
}

/* ---- initialisers --------------------------------------------------------------------------------------------- */

static Bytes model_with_weight_as_input(int ir_version) {
    static const float k[] = {1, 2, 3};
    Bytes graph = {0}, model = {0};
    add_input(&graph, "x", 1, (int64_t[]){2, 3}, 2);
    add_input(&graph, "k", 1, (int64_t[]){3}, 1);
    put_sub(&graph, 5, floats_of("k", k, 3));
    put_sub(&graph, 1, node_of("Add", "x k", "y"));
    add_output(&graph, "y");
    put_int(&model, 1, ir_version);
    put_sub(&model, 7, graph);
    put_sub(&model, 8, opset_of("", 8));
    return model;
}

static void weights_that_are_inputs(void **state) {
    (void)state;
    OK(read_model(&t, model_with_weight_as_input(3)));
    assert_int_equal(t.model->main->inputs.len, 1);
    assert_non_null(value_constant(node_operand(node_at(t.model->main, 0), 1)));
    OK(read_model(&t, model_with_weight_as_input(4)));
    assert_int_equal(t.model->main->inputs.len, 2);
    assert_null(graph_input_default(t.model->main, 0));
    assert_int_equal(tensor_count(graph_input_default(t.model->main, 1)), 3);
}

static void refuses_double_initialisers(void **state) {
    (void)state;
    static const float k[] = {1, 2, 3};
    Bytes graph = {0};
    put_sub(&graph, 5, floats_of("k", k, 3));
    put_sub(&graph, 5, floats_of("k", k, 3));
    put_sub(&graph, 1, node_of("Add", "x k", "y"));
    refuse(&t, model_with(graph), TN_INVALID_MODEL, "more than once");
    graph = (Bytes){0};
    put_sub(&graph, 5, floats_of("y", k, 3));
    put_sub(&graph, 1, node_of("Add", "x y", "y"));
    refuse(&t, model_with(graph), TN_INVALID_MODEL, "more than once");
}

/* ---- functions ------------------------------------------------------------------------------------------------ */

static Bytes function_of(const char *name, const char *const (*nodes)[3], size_t n) {
    Bytes f = {0};
    put_str(&f, 1, name);
    put_str(&f, 4, "in");
    put_str(&f, 5, "out");
    for (size_t i = 0; i < n; i++) {
        Bytes node = node_of(nodes[i][0], nodes[i][1], nodes[i][2]);
        if (nodes[i][0][0] == 'F') put_str(&node, 7, "f");
        put_sub(&f, 7, node);
    }
    put_sub(&f, 9, opset_of("", 13));
    put_sub(&f, 9, opset_of("f", 1));
    put_str(&f, 10, "f");
    return f;
}
#define FUNCTION(name, ...) \
    function_of(name, (const char *const[][3]){__VA_ARGS__}, sizeof((const char *const[][3]){__VA_ARGS__}) / 24)

static Bytes call_of(const char *name) {
    Bytes graph = {0}, call = node_of(name, "x", "y");
    put_str(&call, 7, "f");
    put_str(&call, 3, "call");
    put_sub(&graph, 1, call);
    return model_with(graph);
}

static void inlines_functions(void **state) {
    (void)state;
    Bytes model = call_of("F1");
    put_sub(&model, 25, FUNCTION("F1", {"F2", "in", "x"}, {"F2", "x", "out"}));
    put_sub(&model, 25, FUNCTION("F2", {"Exp", "in", "x"}, {"Abs", "x", "out"}));
    OK(read_model(&t, model));
    assert_string_equal(ops_of(t.model->main), "Exp Abs Exp Abs");
    assert_true(str_equal(graph_output(t.model->main, 0)->name, STR("y")));
    assert_memory_equal(t.model->main->first->loc.s, "call/", 5);
}

static void passes_attributes_to_functions(void **state) {
    (void)state;
    OK(read_model(&t, sample_model()));
    Node *add = node_at(t.model->main, 1);
    const Tensor *bias = value_constant(node_operand(add, 1));
    assert_non_null(bias);
    assert_true(*(const float *)bias->data == 0.5f);
}

static void refuses_recursion(void **state) {
    (void)state;
    Bytes model = call_of("F1");
    put_sub(&model, 25, FUNCTION("F1", {"F1", "in", "out"}));
    refuse(&t, model, TN_INVALID_MODEL, "calls itself");
    model = call_of("F1");
    put_sub(&model, 25, FUNCTION("F1", {"F2", "in", "out"}));
    put_sub(&model, 25, FUNCTION("F2", {"F1", "in", "out"}));
    refuse(&t, model, TN_INVALID_MODEL, "calls itself");
}

/* Each function calls the next twice: 2^40 nodes from a few hundred bytes. */
static void bounds_expansion(void **state) {
    (void)state;
    OnnxTest small;
    Bytes model = call_of("F0");
    onnx_begin(&small, &(tn_limits){.max_nodes = 1000});
    for (int i = 0; i < 40; i++) {
        char name[16], next[16];
        snprintf(name, sizeof name, "F%d", i);
        snprintf(next, sizeof next, "F%d", i + 1);
        put_sub(&model, 25, FUNCTION(name, {next, "in", "m"}, {next, "m", "out"}));
    }
    put_sub(&model, 25, FUNCTION("F40", {"Abs", "in", "out"}));
    refuse(&small, model, TN_LIMIT, "nodes");
    onnx_end(&small);
}

/* ---- nested graphs -------------------------------------------------------------------------------------------- */

/* Both branches call their result the same; one is a value from outside, handed through. */
static void nested_graphs_have_names_of_their_own(void **state) {
    (void)state;
    Bytes graph = {0}, choose = node_of("If", "c", "y"), through = {0};
    add_output(&through, "x");
    with_graph(&choose, "then_branch", branch_of("Add", "r"));
    with_graph(&choose, "else_branch", through);
    put_sub(&graph, 1, node_of("Relu", "x", "k"));
    put_sub(&graph, 1, choose);
    add_input(&graph, "c", 9, NULL, 0);
    OK(read_model(&t, model_with(graph)));
    assert_string_equal(ops_of(node_graph(node_at(t.model->main, 1), 0)), "Identity");
    assert_string_equal(ops_of(node_graph(node_at(t.model->main, 1), 1)), "Add");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(keeps_names_and_types),
        TEST(sorts_when_it_must),
        TEST(sorts_by_what_nested_graphs_read),
        TEST(refuses_cycles),
        TEST(refuses_bad_names),
        TEST(refuses_bad_attributes),
        TEST(refuses_bad_opsets),
        TEST(names_all_unknown_ops),
        TEST(absent_operands_stay_absent),
        TEST(weights_that_are_inputs),
        TEST(refuses_double_initialisers),
        TEST(inlines_functions),
        TEST(passes_attributes_to_functions),
        TEST(refuses_recursion),
        TEST(bounds_expansion),
        TEST(nested_graphs_have_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
