/* SPDX-License-Identifier: Apache-2.0 */
/* Visitors, mutators, inlining and cloning. */
#include "test_ir_common.h"

/* main(x, cond): c = Const; a = Relu(x); b = Add(a, a); y = If(cond) { i = Add(b, x) | b } ; returns y, a */
typedef struct Small {
    Fixture f;
    Value *x, *cond, *c, *a, *b, *i, *y;
} Small;

static void small_begin(Small *s) {
    fixture_begin(&s->f);
    Model *m = s->f.model;
    s->x = add_input(m->main, "x");
    OK(graph_add_input(m->main, STR("cond"), vector_type(m, TN_BOOL, 1), &s->cond));
    int64_t values[] = {1, 2};
    OK(const_ints(m->main, values, 2, false, &s->c));
    OK(value_set_name(s->c, STR("c")));
    s->a = add_node(m->main, "Relu", s->x, NULL, "a");
    s->a->def->loc = model_str(m, STR("first"));
    s->b = add_node(m->main, "Add", s->a, s->a, "b");
    Node *branch = add_if(m->main, s->cond, "y");
    s->y = branch->results[0];
    Graph *then = attr_graph(branch, "then_branch"), *otherwise = attr_graph(branch, "else_branch");
    s->i = add_node(then, "Add", s->b, s->x, "i");
    OK(graph_add_output(then, s->i, STR("t")));
    OK(graph_add_output(otherwise, s->b, STR("e")));
    OK(graph_add_output(m->main, s->y, (Str){NULL, 0}));
    OK(graph_add_output(m->main, s->a, STR("again")));
    OK(model_verify(m));
}

/* What was called, as text. */
typedef struct Trace {
    char text[512];
    Node *erase;
    const char *stop_at;
} Trace;

static void note(Visitor *v, const char *kind, const char *name) {
    Trace *t = v->user;
    size_t n = strlen(t->text);
    snprintf(t->text + n, sizeof t->text - n, "%s%s:%u ", kind, name, v->count);
}

static tn_status on_node(Visitor *v, Node *node) {
    Trace *t = v->user;
    note(v, "", node->results[0]->name.s);
    if (t->stop_at && strcmp(node->results[0]->name.s, t->stop_at) == 0) return fail(TN_CANCELLED, "enough");
    if (t->erase == node) {
        value_replace(node->results[0], node->operands[0].value);
        node_erase(node);
    }
    return TN_OK;
}
static tn_status on_add(Visitor *v, Node *node) { return note(v, "+", node->results[0]->name.s), TN_OK; }
static tn_status on_constant(Visitor *v, Node *node) { return note(v, "=", node->results[0]->name.s), TN_OK; }
static tn_status on_input(Visitor *v, Value *value) { return note(v, ">", value->name.s), TN_OK; }
static tn_status on_graph(Visitor *v, Graph *graph) { return note(v, "@", graph->name.s), TN_OK; }
static tn_status on_location(Visitor *v, Str loc) { return note(v, "!", loc.s), TN_OK; }
static tn_status on_type(Visitor *v, const Type *type) { return note(v, "#", dtype_name(type->dtype)), TN_OK; }
static tn_status on_op(Visitor *v, const OpSchema *op) { return note(v, ".", op->name), TN_OK; }
static bool never(Visitor *v, const Node *node) { return (void)v, (void)node, false; }

static void test_visit(void **state) {
    (void)state;
    Small s;
    small_begin(&s);
    Trace t = {.text = ""};
    Visitor plain = {.node = on_node, .user = &t};
    OK(visit_model(s.f.model, &plain));
    assert_string_equal(t.text, "c:1 a:1 b:1 i:1 y:1 ");
    Visitor all = {.ops = (struct VisitOp[]){{"Add", on_add}, {NULL, NULL}},
                   .node = on_node,
                   .constant = on_constant,
                   .input = on_input,
                   .graph = on_graph,
                   .location = on_location,
                   .user = &t};
    t.text[0] = 0;
    OK(visit_model(s.f.model, &all));
    assert_string_equal(t.text, "@main:1 >x:1 >cond:1 =c:1 !first:1 a:1 +b:1 @else:1 @then:1 +i:1 y:1 ");
    t.text[0] = 0;
    all.descend = never;
    OK(visit_model(s.f.model, &all));
    assert_string_equal(t.text, "@main:1 >x:1 >cond:1 =c:1 !first:1 a:1 +b:1 y:1 ");
    t.text[0] = 0;
    Visitor types = {.type = on_type, .user = &t};
    OK(visit_model(s.f.model, &types));
    assert_string_equal(t.text, "#f32:1 #bool:1 #i64:1 #f32:2 #f32:3 #f32:4 #f32:5 ");
    t.text[0] = 0;
    Visitor heads = {.node = on_node, .location = on_location, .op = on_op, .type = on_type, .user = &t};
    OK(visit_value(s.y, &heads));
    assert_string_equal(
        t.text, "#bool:1 .If:1 #f32:1 #f32:2 !first:1 .Relu:1 #f32:3 a:2 .Add:1 #f32:4 b:2 .Add:2 #f32:5 i:2 y:1 ");
    t.text[0] = 0;
    t.stop_at = "b";
    assert_int_equal(visit_model(s.f.model, &plain), TN_CANCELLED);
    assert_string_equal(t.text, "c:1 a:1 b:1 ");
    Visitor wrong = {.ops = (struct VisitOp[]){{"Ad", on_add}, {NULL, NULL}}, .user = &t};
    assert_int_equal(visit_model(s.f.model, &wrong), TN_NOT_FOUND);
    assert_says("\"Ad\"");
    fixture_end(&s.f);
}

static void test_visit_value(void **state) {
    (void)state;
    Small s;
    small_begin(&s);
    Trace t = {.text = ""};
    Visitor v = {.node = on_node, .input = on_input, .graph = on_graph, .user = &t};
    OK(visit_value(s.b, &v));
    assert_string_equal(t.text, ">x:1 a:2 b:1 ");
    t.text[0] = 0;
    OK(visit_value(s.y, &v));
    assert_string_equal(t.text, ">cond:1 @else:1 >x:2 a:2 b:2 @then:1 i:2 y:1 ");
    t.text[0] = 0;
    v.descend = never; /* what the nested graphs read is needed all the same */
    OK(visit_value(s.y, &v));
    assert_string_equal(t.text, ">cond:1 >x:2 a:2 b:2 y:1 ");
    t.text[0] = 0;
    OK(visit_value(s.x, &v));
    assert_string_equal(t.text, ">x:1 ");
    fixture_end(&s.f);
}

/* A call-back may erase the node that it is given. */
static void test_visit_erase(void **state) {
    (void)state;
    for (int by_value = 0; by_value < 2; by_value++) {
        Small s;
        small_begin(&s);
        Trace t = {.text = "", .erase = s.i->def};
        Visitor v = {.node = on_node, .user = &t};
        OK(by_value ? visit_value(s.y, &v) : visit_model(s.f.model, &v));
        t.erase = s.b->def;
        OK(by_value ? visit_value(s.y, &v) : visit_model(s.f.model, &v));
        assert_null(s.i->def->graph);
        assert_null(s.b->def->graph);
        OK(model_verify(s.f.model));
        fixture_end(&s.f);
    }
}

/* ---- cloning and inlining ------------------------------------------------------------------------------------ */

static Value *value_named(const Model *m, const char *name) {
    Value *value = model_value(m, str_of(name));
    assert_non_null(value);
    return value;
}

static void test_clone(void **state) {
    (void)state;
    Small s;
    small_begin(&s);
    Model *m = s.f.model, *copy;
    Shape shape = {.rank = 1, .dims = {dim_mul(&m->dims, dim_symbol(&m->dims, STR("n")), 2)}};
    s.x->type = type_tensor(m, TN_F32, &shape);
    Type quant = *s.a->type;
    quant.quant = &(Quant){.axis = -1, .n = 1, .scales = (float[]){0.5f}};
    s.a->type = type_intern(m, &quant);
    m->file = model_str(m, STR("a.onnx"));
    OK(model_set_metadata(m, STR("k"), STR("v")));
    Tensor *payload;
    OK(model_tensor(m, &payload));
    OK(tensor_new(m->ctx, TN_F32, 1, (int64_t[]){4}, payload));
    OK(graph_set_input_default(m->main, 0, payload));
    OK(model_clone(m, &copy));
    OK(model_verify(copy));
    assert_int_equal(copy->main->n_nodes, m->main->n_nodes);
    assert_string_equal(copy->file.s, "a.onnx");
    assert_string_equal(model_metadata(copy, STR("k")).s, "v");
    assert_string_equal(copy->main->output_names.data[1].s, "again");
    assert_ptr_equal(value_constant(value_named(copy, "c"))->data, value_constant(s.c)->data);
    assert_ptr_not_equal(value_constant(value_named(copy, "c")), value_constant(s.c));
    assert_ptr_equal(graph_input_default(copy->main, 0)->buffer, payload->buffer);
    const Node *branch = value_named(copy, "y")->def;
    const Graph *then = attr_graph(branch, "then_branch");
    assert_ptr_equal(then->first->operands[0].value, value_named(copy, "b"));
    assert_string_equal(then->output_names.data[0].s, "t");
    assert_ptr_not_equal(value_named(copy, "a")->type->quant, s.a->type->quant);
    model_free(m); /* the copy stands alone */
    s.f.model = copy;
    Text text;
    text_init(&text, &allocator_default);
    type_print(copy, value_named(copy, "x")->type, &text);
    assert_string_equal(text.s, "f32[n*2]");
    text_free(&text);
    OK(model_verify(copy));
    fixture_end(&s.f);
}

static void test_inline(void **state) {
    (void)state;
    Small s;
    small_begin(&s);
    Fixture g;
    fixture_begin(&g);
    Value *p = add_input(g.model->main, "a"), *q = add_input(g.model->main, "q"), *outputs[2];
    OK(graph_inline(s.f.model->main, g.model->main, (Value *[]){p, q}, outputs));
    assert_string_equal(outputs[0]->name.s, "y");
    assert_string_equal(outputs[1]->name.s, "a_1");
    assert_ptr_equal(outputs[1]->def->operands[0].value, p);
    q->type = vector_type(g.model, TN_BOOL, 1);
    OK(model_verify(g.model));
    /* A nested graph into the graph around it: captures stay what they are. */
    Graph *then = attr_graph(outputs[0]->def, "then_branch");
    Value *out;
    OK(graph_inline(then, g.model->main, NULL, &out));
    OK(model_verify(g.model));
    assert_string_equal(out->name.s, "i_1");
    assert_ptr_equal(out->def->operands[0].value, value_named(g.model, "b"));
    /* Into another model there is nothing that they could be. */
    assert_int_equal(graph_inline(then, s.f.model->main, NULL, &out), TN_INVALID_ARGUMENT);
    fixture_end(&g);
    fixture_end(&s.f);
}

/* ---- mutating ------------------------------------------------------------------------------------------------ */

typedef struct Change {
    const char *op; /* the op to be replaced by Relu of its first operand */
    bool give_nothing;
} Change;

static tn_status on_mutate(Mutator *m, const Node *node, Graph *into, Value *const *operands, Value **results,
                           bool *changed) {
    const Change *change = m->user;
    if (!change->op || strcmp(node->op->name, change->op) != 0) return TN_OK;
    *changed = true;
    if (change->give_nothing) return TN_OK;
    Node *fresh;
    TRY(node_new(into, known_op("Relu"), operands, 1, 1, &fresh));
    fresh->results[0]->type = operands[0]->type;
    node_append(fresh);
    results[0] = fresh->results[0];
    return TN_OK;
}

static void test_mutate(void **state) {
    (void)state;
    Small s;
    small_begin(&s);
    Change change = {.op = NULL};
    Mutator m = {.node = on_mutate, .user = &change};
    Model *out;
    OK(mutate_model(s.f.model, &m, &out));
    assert_ptr_equal(out, s.f.model);
    change.op = "Add";
    OK(mutate_model(s.f.model, &m, &out));
    assert_ptr_not_equal(out, s.f.model);
    OK(model_verify(out));
    OK(model_verify(s.f.model));
    assert_string_equal(s.b->def->op->name, "Add");
    Value *b = value_named(out, "b"), *i = value_named(out, "i");
    assert_string_equal(b->def->op->name, "Relu");
    assert_string_equal(i->def->op->name, "Relu");
    assert_ptr_equal(i->def->operands[0].value, b); /* the capture too */
    assert_ptr_not_equal(i->graph, out->main);
    assert_string_equal(out->main->output_names.data[1].s, "again");
    assert_string_equal(out->main->inputs.data[0]->name.s, "x");
    model_free(out);
    change.give_nothing = true;
    assert_int_equal(mutate_model(s.f.model, &m, &out), TN_INVALID_ARGUMENT);
    assert_says("node \"b\" (Add)");
    fixture_end(&s.f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_visit), cmocka_unit_test(test_visit_value), cmocka_unit_test(test_visit_erase),
        cmocka_unit_test(test_clone), cmocka_unit_test(test_inline),      cmocka_unit_test(test_mutate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
