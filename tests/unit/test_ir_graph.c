/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, nodes, values: use lists, order, names, attributes, erasing. */
#include "test_ir_common.h"

static void test_uses(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main;
    Value *x = add_input(g, "x"), *y = add_input(g, "y");
    Value *a = add_node(g, "Add", x, x, "a"), *b = add_node(g, "Add", a, x, "b");
    OK(graph_add_output(g, b, (Str){NULL, 0}));
    OK(graph_add_output(g, a, STR("second")));
    assert_string_equal(g->output_names.data[0].s, "b");
    assert_string_equal(g->output_names.data[1].s, "second");
    assert_int_equal(count_uses(x), 3);
    assert_true(value_has_one_use(b));
    assert_false(value_has_one_use(a));
    OK(model_verify(f.model));
    value_replace(x, y);
    assert_int_equal(count_uses(x), 0);
    assert_int_equal(count_uses(y), 3);
    OK(node_set_operand(b->def, 0, y));
    value_replace(y, y);
    assert_int_equal(count_uses(y), 4);
    assert_true(value_has_one_use(a));
    value_replace(a, b);
    assert_ptr_equal(graph_output(g, 1), b);
    OK(model_verify(f.model));
    node_erase(a->def);
    assert_int_equal(g->n_nodes, 1);
    assert_null(a->def->graph);
    OK(model_verify(f.model));
    assert_int_equal(node_set_operand(b->def, 9, x), TN_OUT_OF_RANGE);
    fixture_end(&f);
}

/* The array of operands moves as it grows; lists that go through it, several times even, stay whole. */
static void test_many_operands(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main;
    Value *x = add_input(g, "x"), *y = add_input(g, "y");
    Node *concat = add_node(g, "Concat", x, NULL, "c")->def;
    OK(node_set_int(concat, "axis", 0));
    enum { N = 100000 };
    for (int i = 1; i < N; i++) OK(node_add_operand(concat, i % 3 ? x : y));
    assert_int_equal(concat->n_operands, N);
    assert_int_equal(count_uses(x) + count_uses(y), N);
    OK(model_verify(f.model));
    node_truncate_operands(concat, 5);
    assert_int_equal(count_uses(x) + count_uses(y), 5);
    OK(node_add_operand(concat, y));
    OK(node_add_operand(concat, y));
    OK(model_verify(f.model));
    fixture_end(&f);
}

static void assert_ordered(const Graph *g) {
    for (const Node *n = g->first; n; n = n->next) {
        assert_true(node_is_placed(n));
        assert_true(node_comes_before(n, g->ret));
        if (n->next) assert_true(node_comes_before(n, n->next));
    }
}

/* Insertions at one place, at the front and at random: numbers stay in order, and cost stays small. */
static void test_order(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main;
    Value *x = add_input(g, "x");
    uint64_t seed = 77;
    enum { N = 30000 };
    static Node *nodes[4 * N];
    size_t n = 0;
    for (int i = 0; i < N; i++) nodes[n++] = add_node(g, "Relu", x, NULL, "")->def;
    for (int phase = 0; phase < 3; phase++)
        for (int i = 0; i < N; i++) {
            Node *place = phase == 0 ? nodes[N / 2] : phase == 1 ? g->first : nodes[next_random(&seed) % n];
            OK(node_new(g, known_op("Relu"), &x, 1, 1, &nodes[n]));
            assert_false(node_is_placed(nodes[n]));
            node_insert_before(nodes[n++], place);
        }
    assert_int_equal(g->n_nodes, 4 * N);
    assert_ordered(g);
    for (int i = 0; i < N; i++) node_move_before(nodes[next_random(&seed) % n], nodes[next_random(&seed) % n]);
    node_move_before(nodes[0], g->ret);
    assert_ptr_equal(g->last, nodes[0]);
    assert_ordered(g);
    OK(model_verify(f.model));
    fixture_end(&f);
}

static void test_names(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main;
    Value *x = add_input(g, "x"), *taken = add_input(g, "x_2");
    Value *a = add_node(g, "Relu", x, NULL, "x"), *b = add_node(g, "Relu", x, NULL, "x");
    assert_string_equal(a->name.s, "x_1");
    assert_string_equal(b->name.s, "x_3");
    assert_string_equal(taken->name.s, "x_2");
    OK(value_set_name(a, STR("a")));
    OK(value_set_name(b, STR("x_1"))); /* free again */
    assert_string_equal(b->name.s, "x_1");
    OK(value_set_name(b, STR("x_1")));
    assert_string_equal(b->name.s, "x_1");
    OK(value_set_name(b, (Str){NULL, 0}));
    assert_int_equal(b->name.n, 0);
    node_erase(a->def);
    Value *again = add_node(g, "Relu", x, NULL, "a");
    assert_string_equal(again->name.s, "a");
    OK(model_verify(f.model));
    fixture_end(&f);
}

static void test_attributes(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Node *n = add_node(f.model->main, "Relu", add_input(f.model->main, "x"), NULL, "y")->def;
    int64_t ints[] = {3, 1, 2};
    char text[] = "abc";
    OK(node_set_ints(n, "pads", ints, 3));
    OK(node_set_string(n, "mode", (Str){text, 3}));
    OK(node_set_float(n, "alpha", 0.5f));
    OK(node_set_int(n, "zeta", 4));
    OK(node_set_int(n, "beta", 5));
    ints[0] = 99, text[0] = 'z'; /* copies were made */
    assert_int_equal(n->n_attrs, 5);
    for (uint32_t i = 1; i < n->n_attrs; i++) assert_true(strcmp(n->attrs[i - 1].name.s, n->attrs[i].name.s) < 0);
    assert_int_equal(attr_ints(n, "pads").data[0], 3);
    assert_true(attr_string_is(n, "mode", "abc"));
    assert_int_equal(attr_int(n, "beta"), 5);
    assert_true(attr_float(n, "alpha") == 0.5);
    OK(node_set_int(n, "beta", 6));
    assert_int_equal(attr_int(n, "beta"), 6);
    assert_int_equal(n->n_attrs, 5);
    node_remove_attr(n, STR("beta"));
    node_remove_attr(n, STR("nothing"));
    assert_false(attr_present(n, "beta"));
    assert_int_equal(attr_ints(n, "strides").n, 0);
    Str strings[] = {STR("one"), {NULL, 0}};
    IntList lists[] = {{ints, 2}, {NULL, 0}};
    OK(node_set_attr(n, &(Attr){.name = STR("words"), .kind = ATTR_STRINGS, .n = 2, .strings = strings}));
    OK(node_set_attr(n, &(Attr){.name = STR("lists"), .kind = ATTR_INT_LISTS, .n = 2, .lists = lists}));
    ints[1] = -1;
    assert_int_equal(attr_get(n, "lists")->lists[0].data[1], 1);
    assert_int_equal(attr_get(n, "lists")->lists[1].n, 0);
    assert_true(str_equal(attr_get(n, "words")->strings[0], STR("one")));
    fixture_end(&f);
}

static void test_constants(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main;
    int64_t values[] = {4, 5}, out[2], n;
    Value *list, *scalar;
    OK(const_ints(g, values, 2, false, &list));
    OK(const_ints(g, values, 1, true, &scalar));
    OK(tensor_ints(value_constant(list), out, 2, &n));
    assert_int_equal(out[1], 5);
    assert_int_equal(scalar->type->shape.rank, 0);
    assert_int_equal(list->type->shape.dims[0], 2);
    assert_null(value_constant(add_input(g, "x")));
    OK(model_verify(f.model));
    fixture_end(&f);
}

/* Nested graphs go with their node: what they capture is no longer read, their names are free. */
static void test_erase_nested(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main;
    Value *x = add_input(g, "x");
    Node *outer = add_if(g, x, "y");
    Graph *then = attr_graph(outer, "then_branch"), *otherwise = attr_graph(outer, "else_branch");
    Value *inside = add_node(then, "Relu", x, NULL, "inside");
    Node *inner = add_if(then, inside, "inner");
    for (size_t k = 0; k < 2; k++) OK(graph_add_output(node_graph(inner, k), k ? inside : x, STR("r")));
    OK(graph_add_output(then, inner->results[0], STR("r")));
    OK(graph_add_output(otherwise, x, STR("r")));
    assert_int_equal(graph_depth(node_graph(inner, 0)), 2);
    assert_true(value_visible_in(x, node_graph(inner, 1)));
    assert_false(value_visible_in(inside, otherwise));
    assert_int_equal(count_uses(x), 4);
    assert_null(node_graph(outer, 2));
    node_erase(outer);
    assert_int_equal(count_uses(x), 0);
    assert_null(inner->graph);
    Value *again = add_node(g, "Relu", x, NULL, "inside");
    assert_string_equal(again->name.s, "inside");
    assert_int_equal(f.model->n_nodes > 3, true);
    OK(model_verify(f.model));
    OK(model_compact_ids(f.model));
    assert_int_equal(f.model->n_nodes, 2); /* one node and the outputs */
    assert_int_equal(f.model->n_values, 2);
    OK(model_verify(f.model));
    fixture_end(&f);
}

/* A graph that no node holds yet, or no longer. */
static void test_loose_graphs(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main, *loose, *inner, *taken;
    Value *x = add_input(g, "x"), *cond;
    OK(graph_add_input(g, STR("cond"), vector_type(f.model, TN_BOOL, 1), &cond));
    OK(graph_new_nested(g, STR("loose"), &loose));
    OK(graph_new_nested(loose, STR("inner"), &inner));
    assert_int_equal(graph_depth(inner), 2);
    assert_true(value_visible_in(x, inner));
    OK(model_verify(f.model)); /* it reads nothing of the model yet */
    Value *i = add_node(inner, "Relu", x, NULL, "i");
    assert_int_equal(model_verify(f.model), TN_INVALID_MODEL);
    assert_says("no node holds the graph \"inner\"");
    graph_erase(inner);
    assert_false(graph_is_alive(inner));
    assert_null(i->def->graph);
    assert_int_equal(count_uses(x), 0);
    OK(model_verify(f.model));
    /* Numbers given anew reach it, so that it can be held afterwards. */
    OK(graph_add_output(loose, add_node(loose, "Relu", x, NULL, "i"), STR("r")));
    OK(model_compact_ids(f.model));
    Node *node = add_if(g, cond, "y");
    OK(graph_add_output(attr_graph(node, "else_branch"), x, STR("r")));
    OK(node_take_graph(node, STR("then_branch"), &taken));
    assert_ptr_equal(taken->outer, g);
    graph_erase(taken);
    assert_int_equal(node_take_graph(node, STR("then_branch"), &taken), TN_NOT_FOUND);
    OK(node_set_graph(node, "then_branch", loose));
    OK(model_verify(f.model));
    OK(model_compact_ids(f.model));
    OK(model_verify(f.model));
    fixture_end(&f);
}

static void test_model_parts(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Model *m = f.model;
    OK(model_set_metadata(m, STR("producer"), STR("one")));
    OK(model_set_metadata(m, STR("producer"), STR("two")));
    assert_string_equal(model_metadata(m, STR("producer")).s, "two");
    assert_null(model_metadata(m, STR("nothing")).s);
    assert_ptr_equal(model_str(m, STR("word")).s, model_str(m, STR("word")).s);
    assert_non_null(model_str(m, (Str){NULL, 0}).s);
    add_input(m->main, "x");
    Tensor *t;
    int64_t dims[] = {4};
    OK(model_tensor(m, &t));
    OK(tensor_new(f.ctx, TN_F32, 1, dims, t));
    assert_int_equal(graph_set_input_default(m->main, 3, t), TN_OUT_OF_RANGE);
    assert_null(graph_input_default(m->main, 0));
    OK(graph_set_input_default(m->main, 0, t));
    assert_ptr_equal(graph_input_default(m->main, 0), t);
    f.ctx->limits.max_nodes = 2;
    add_node(m->main, "Relu", m->main->inputs.data[0], NULL, "y");
    Node *node;
    assert_int_equal(node_new(m->main, known_op("Relu"), NULL, 0, 1, &node), TN_LIMIT);
    OK(model_verify(m) == TN_OK ? TN_OK : TN_INTERNAL);
    fixture_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uses),         cmocka_unit_test(test_many_operands), cmocka_unit_test(test_order),
        cmocka_unit_test(test_names),        cmocka_unit_test(test_attributes),    cmocka_unit_test(test_constants),
        cmocka_unit_test(test_erase_nested), cmocka_unit_test(test_loose_graphs),  cmocka_unit_test(test_model_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
