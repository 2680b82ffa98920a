/* SPDX-License-Identifier: Apache-2.0 */
/* What model_verify and node_check refuse, and what they say. */
#include "test_ir_common.h"

static void assert_invalid(const Fixture *f, const char *part) {
    assert_int_equal(model_verify(f->model), TN_INVALID_MODEL);
    assert_says(part);
}

static void test_arity(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main;
    Value *x = add_input(g, "x");
    Node *sum = add_node(g, "Add", x, NULL, "sum")->def;
    assert_int_equal(node_check(sum), TN_INVALID_MODEL);
    assert_string_equal(diag_text(), "node \"sum\" (Add): the node has 1 operand; the op takes 2");
    OK(node_add_operand(sum, NULL));
    assert_invalid(&f, "operand 1 (\"B\") is missing");
    OK(node_set_operand(sum, 1, x));
    OK(model_verify(f.model));
    OK(node_add_operand(sum, x));
    assert_invalid(&f, "has 3 operands; the op takes 2");
    node_truncate_operands(sum, 2);
    Node *none;
    OK(node_new(g, known_op("Concat"), NULL, 0, 1, &none));
    assert_int_equal(node_check(none), TN_INVALID_MODEL);
    assert_says("has 0 operands; the op takes at least 1");
    OK(node_new(g, known_op("Relu"), &x, 1, 2, &none));
    assert_int_equal(node_check(none), TN_INVALID_MODEL);
    assert_says("has 2 results; the op gives 1");
    node_erase(none);
    Value *clip[] = {x, NULL, x, x};
    OK(node_new(g, known_op("Clip"), clip, 3, 1, &none));
    OK(node_check(none));
    OK(node_add_operand(none, x));
    assert_int_equal(node_check(none), TN_INVALID_MODEL);
    assert_says("the op takes 1 to 3");
    node_erase(none);
    OK(model_verify(f.model));
    fixture_end(&f);
}

static void test_types(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main;
    Value *x = add_input(g, "x"), *flag;
    OK(graph_add_input(g, STR("flag"), vector_type(f.model, TN_BOOL, 4), &flag));
    Value *y = add_node(g, "Add", x, x, "y");
    y->def->loc = model_str(f.model, STR("layer1/add"));
    flag->type = vector_type(f.model, TN_F16, 4);
    OK(node_set_operand(y->def, 1, flag));
    assert_invalid(&f,
                   "node \"layer1/add\" (Add): operand 1 (\"B\"), \"flag\", has elements of type f16; they must be f32 "
                   "like those of operand 0 (\"A\")");
    flag->type = f.model->type_any; /* not known: nothing to say against it */
    OK(model_verify(f.model));
    flag->type = vector_type(f.model, TN_STRING, 4);
    assert_invalid(&f, "operand 1 (\"B\"), \"flag\", is str[4]; the op allows ");
    assert_says("f32");
    flag->type = type_of_kind(f.model, TYPE_SEQUENCE, x->type);
    assert_invalid(&f, "is seq(f32[4])");
    flag->type = vector_type(f.model, TN_F32, 9);
    y->type = vector_type(f.model, TN_F64, 4);
    assert_invalid(&f, "result 0 (\"C\"), \"y\"");
    fixture_end(&f);
}

static void test_attributes(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Node *n = add_node(f.model->main, "Concat", add_input(f.model->main, "x"), NULL, "y")->def;
    assert_invalid(&f, "attribute \"axis\" is missing; it must be an integer");
    OK(node_set_float(n, "axis", 1));
    assert_invalid(&f, "attribute \"axis\" is a float; it must be an integer");
    OK(node_set_int(n, "axis", 0));
    OK(model_verify(f.model));
    OK(node_set_int(n, "axes", 0));
    assert_invalid(&f, "no attribute \"axes\"");
    fixture_end(&f);
}

static void test_visibility(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main;
    Value *x = add_input(g, "x"), *cond;
    OK(graph_add_input(g, STR("cond"), vector_type(f.model, TN_BOOL, 1), &cond));
    Value *a = add_node(g, "Relu", x, NULL, "a"), *b = add_node(g, "Relu", a, NULL, "b");
    node_move_before(b->def, a->def);
    assert_invalid(&f, "node \"b\" (Relu): operand 0, \"a\", is made by a node that stands further below");
    node_move_before(a->def, b->def);
    OK(node_set_operand(a->def, 0, a)); /* itself */
    assert_invalid(&f, "stands further below");
    OK(node_set_operand(a->def, 0, x));
    Node *branch = add_if(g, cond, "if");
    Graph *then = node_graph(branch, 1), *otherwise = node_graph(branch, 0);
    Value *inside = add_node(then, "Add", a, b, "inside");
    OK(graph_add_output(then, inside, (Str){NULL, 0}));
    OK(graph_add_output(otherwise, a, (Str){NULL, 0}));
    OK(model_verify(f.model));
    OK(node_set_operand(otherwise->ret, 0, inside));
    assert_invalid(&f, "\"inside\", belongs to graph \"then\", which is not around this node");
    OK(node_set_operand(otherwise->ret, 0, branch->results[0])); /* of the node around */
    assert_invalid(&f, "stands further below");
    OK(node_set_operand(otherwise->ret, 0, NULL));
    assert_invalid(&f, "output 0 of graph \"else\" is missing");
    OK(node_set_operand(otherwise->ret, 0, a));
    Node *loose;
    OK(node_new(g, known_op("Relu"), &x, 1, 1, &loose));
    assert_invalid(&f, "the node reads \"x\" but stands in no graph");
    OK(node_set_operand(loose, 0, NULL));
    OK(model_verify(f.model));
    OK(node_set_operand(b->def, 0, loose->results[0]));
    assert_invalid(&f, "is made by a node that stands in no graph");
    fixture_end(&f);
}

/* Damage that no function of the IR does. */
static void test_damage(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Graph *g = f.model->main;
    Value *x = add_input(g, "x"), *cond;
    OK(graph_add_input(g, STR("cond"), vector_type(f.model, TN_BOOL, 1), &cond));
    Value *a = add_node(g, "Relu", x, NULL, "a"), *b = add_node(g, "Relu", a, NULL, "b");
    Node *branch = add_if(g, cond, "if");
    for (size_t k = 0; k < 2; k++) OK(graph_add_output(node_graph(branch, k), a, (Str){NULL, 0}));
    f.model->file = model_str(f.model, STR("broken.tn"));
    OK(model_verify(f.model));
    Use *uses = a->uses;
    a->uses = NULL;
    assert_invalid(&f, "broken.tn: ");
    a->uses = uses;
    uses->next->value = x;
    assert_invalid(&f, "list of readings of \"a\" is broken");
    uses->next->value = a;
    b->index = 1;
    assert_invalid(&f, "does not know");
    b->index = 0;
    uint32_t id = b->id;
    b->id = a->id;
    assert_invalid(&f, "another value's");
    b->id = id;
    id = b->def->id;
    b->def->id = a->def->id;
    assert_invalid(&f, "another node's");
    b->def->id = id;
    Str name = b->name;
    b->name = a->name;
    assert_invalid(&f, "the name \"a\" is another value's too");
    b->name = name;
    node_graph(branch, 1)->owner = a->def;
    assert_invalid(&f, "does not know the node that it is nested in");
    node_graph(branch, 1)->owner = branch;
    Node *next = b->def->next;
    b->def->next = a->def; /* a cycle */
    assert_invalid(&f, "another node's");
    b->def->next = next;
    b->def->order = a->def->order;
    assert_invalid(&f, "the node's place in its graph's list is broken");
    b->def->order = a->def->order + 1;
    g->n_nodes++;
    assert_invalid(&f, "the list of the nodes of graph \"main\" is broken");
    g->n_nodes--;
    node_graph(branch, 0)->output_names.len = 0;
    assert_invalid(&f, "has 1 outputs, but 0 names");
    node_graph(branch, 0)->output_names.len = 1;
    OK(model_verify(f.model));
    fixture_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arity),      cmocka_unit_test(test_types),  cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_visibility), cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
