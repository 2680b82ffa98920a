/* SPDX-License-Identifier: Apache-2.0 */
/* What passes on sizes and control flow stand on: what is certain of values, how often loops run, nodes that change their
   graph; and that these passes lose nothing when memory runs out. */
#include "test_ir_common.h"

#include "ops/op.h"
#include "pass/pass.h"

static void parse(Fixture *f, const char *text) {
    model_free(f->model);
    f->model = NULL;
    OK(model_parse(f->ctx, str_of(text), NULL, (Str){0}, &f->model));
    OK(infer_model(f->model));
}

static Value *value_named(const Fixture *f, const char *name) {
    Value *v = model_value(f->model, str_of(name));
    if (!v) print_error("no value %s\n", name);
    assert_non_null(v);
    return v;
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

static const Shape *shape_of(const InferFacts *facts, const Value *v) { return &facts->values[v->id].shape; }

static void test_facts(void **state) {
    Fixture f;
    InferFacts facts;
    (void)state;
    fixture_begin(&f);
    parse(&f, "tn 1\n"
              "graph @main(%x: f32[n,?,8], %y: f32[n,m], %z: f32[n + 1], %t: i64[]) -> (%k, %u, %s) {\n"
              "  %r: f32[n,5,8] = Relu(%x)\n"
              "  %k = Shape(%r)\n"
              "  %u, %s = Loop(%t, _, %y) {body = graph (%i: i64[1], %go, %h: f32[n,3]) -> (%go, %g, %o) {\n"
              "    %g = Neg(%h)\n"
              "    %o = Concat(%i, %i) {axis=0}\n"
              "  }}\n"
              "}\n");
    const Value *x = value_named(&f, "x"), *y = value_named(&f, "y"), *z = value_named(&f, "z");
    const Value *r = value_named(&f, "r"), *h = value_named(&f, "h"), *s = value_named(&f, "s");
    const Type *declared = r->type;
    uint64_t edits = model_edits(f.model);
    OK(infer_facts(f.model, &facts));
    assert_int_equal(facts.n, f.model->n_values);
    /* The name is one size; what has none is a size of its own, and so is one that is an expression. */
    assert_int_equal(shape_of(&facts, x)->dims[0], shape_of(&facts, y)->dims[0]);
    Dim own = shape_of(&facts, x)->dims[1];
    assert_true(!dim_is_const(own) && own != DIM_UNKNOWN && own != shape_of(&facts, y)->dims[1]);
    assert_true(dim_expr(&f.model->dims, shape_of(&facts, z)->dims[0])->op == DIM_SYMBOL);
    /* What is declared inside does not count. */
    assert_int_equal(shape_of(&facts, r)->dims[1], own);
    assert_int_equal(facts.values[value_named(&f, "k")->id].content[1], own);
    assert_int_equal(shape_of(&facts, h)->dims[1], shape_of(&facts, y)->dims[1]);
    assert_int_equal(shape_of(&facts, value_named(&f, "i"))->rank, 1);
    /* Without a turn the slices have the sizes that are declared. */
    assert_int_equal(shape_of(&facts, value_named(&f, "o"))->dims[0], 2);
    assert_int_equal(shape_of(&facts, s)->rank, 2);
    assert_true(shape_of(&facts, s)->dims[1] == DIM_UNKNOWN);
    /* Nothing was changed. */
    assert_ptr_equal(r->type, declared);
    assert_int_equal(model_edits(f.model), edits);
    infer_facts_free(&facts);
    fixture_end(&f);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static void check_trips(const char *operands, const char *next, int64_t least, int64_t most) {
    Fixture f;
    char text[600];
    fixture_begin(&f);
    snprintf(text, sizeof text,
             "tn 1\n"
             "graph @main(%%x: f32[2], %%n: i64[], %%c: bool[]) -> (%%y) {\n"
             "  %%y = Loop(%s, %%x) {body = graph (%%i, %%go, %%h) -> (%%next, %%k) {\n"
             "    %%k = Neg(%%h)\n"
             "    %%next = %s\n"
             "  }}\n"
             "}\n",
             operands, next);
    parse(&f, text);
    LoopTrips trips = loop_trips(value_named(&f, "y")->def);
    if (trips.least != least || trips.most != most)
        print_error("%s, %s: %lld to %lld\n", operands, next, (long long)trips.least, (long long)trips.most);
    assert_true(trips.least == least && trips.most == most);
    assert_true(is_loop_condition(value_named(&f, "go")) && !is_loop_condition(value_named(&f, "h")));
    assert_false(is_loop_condition(value_named(&f, "n")));
    fixture_end(&f);
}

static void test_trips(void **state) {
    static const char goes_on[] = "Identity(%go)", stops[] = "Const {data = bool false}", depends[] = "Less(%i, i64 3)";
    (void)state;
    check_trips("i64 3, _", goes_on, 3, 3);
    check_trips("i64 3, bool true", "Const {data = bool true}", 3, 3);
    check_trips("i64 -3, %c", goes_on, 0, 0);
    check_trips("%n, bool false", goes_on, 0, 0);
    check_trips("i64 3, %c", goes_on, 0, 3);
    check_trips("%n, _", goes_on, 0, INT64_MAX);
    check_trips("i64 3, bool true", stops, 1, 1);
    check_trips("_, _", stops, 1, 1);
    check_trips("%n, _", stops, 0, INT64_MAX);
    check_trips("i64 3, bool true", depends, 1, 3);
    /* With a limit, but without a condition to begin with, it goes by the limit alone. */
    check_trips("i64 3, _", stops, 3, 3);
    check_trips("i64 3, _", depends, 3, 3);
    check_trips("_, bool true", depends, 1, INT64_MAX);
    check_trips("_, _", goes_on, 1, INT64_MAX);
}

/* ---- nodes that change their graph ------------------------------------------------------------------------------- */

static void test_moves(void **state) {
    Fixture f;
    (void)state;
    fixture_begin(&f);
    Graph *g = f.model->main;
    Value *x = add_input(g, "x"), *c = add_input(g, "c");
    c->type = type_tensor(f.model, TN_BOOL, &(Shape){.rank = 0});
    Node *outer = add_if(g, c, "outer");
    Graph *branch = node_graph(outer, 1);
    Value *a = add_node(branch, "Neg", x, NULL, "a"), *b = add_node(branch, "Neg", a, NULL, "b");
    Node *inner = add_if(branch, c, "inner");
    for (size_t k = 0; k < 2; k++) OK(graph_add_output(node_graph(inner, k), k ? b : a, STR("")));
    OK(graph_add_output(branch, inner->results[0], STR("")));
    OK(graph_add_output(node_graph(outer, 0), x, STR("")));
    OK(graph_add_output(g, outer->results[0], STR("")));
    OK(model_verify(f.model));
    uint64_t edits = f.model->structure_edits;
    while (branch->first) node_move_before(branch->first, outer);
    assert_true(f.model->structure_edits > edits);
    assert_int_equal(branch->n_nodes, 0);
    assert_int_equal(g->n_nodes, 4);
    assert_ptr_equal(a->graph, g);
    assert_ptr_equal(graph_around(node_graph(inner, 0)), g);
    assert_true(a->def->next == b->def && b->def->next == inner && inner->next == outer);
    OK(model_verify(f.model));
    /* And in again, at the end of another. */
    node_move_before(inner, branch->ret);
    assert_ptr_equal(branch->last, inner);
    OK(model_verify(f.model));
    fixture_end(&f);
}

/* ---- without memory ---------------------------------------------------------------------------------------------- */

static const char mixed[] =
    "tn 1\n"
    "graph @main(%x: f32[n,3], %c: bool[], %v: f32[2,3], %t: i64[]) -> (%y, %l, %ls, %s, %p) {\n"
    "  %r = Relu(%x)\n"
    "  %sh = Shape(%r)\n"
    "  %n = Gather(%sh, i64[1] [0])\n"
    "  %to = Concat(%n, i64[2] [1, 3]) {axis=0}\n"
    "  %y = Reshape(%r, %to)\n"
    "  %w = If(bool true) {then_branch = graph () -> (%q) { %q = Neg(%r) }, else_branch = graph () -> (%r) {}}\n"
    "  %l, %ls = Loop(i64 2, _, %w) {body = graph (%i, %go, %h) -> (%go, %k, %k) {\n"
    "    %f = Cast(%i) {to=1}\n"
    "    %k = Add(%h, %f)\n"
    "  }}\n"
    "  %s = Scan(%v) {num_scan_inputs=1, body = graph (%e) -> (%d) { %d = Tanh(%e) }}\n"
    "  %p = Loop(%t, %c, %v) {body = graph (%j, %on, %g) -> (%on, %g2) {\n"
    "    %a = Tanh(%x)\n"
    "    %b = Add(%a, 2.0)\n"
    "    %o = ReduceSum(%b, i64[2] [0, 1]) {keepdims=0}\n"
    "    %g2 = Add(%g, %o)\n"
    "  }}\n"
    "}\n";

static tn_status run_passes(Context *ctx, Model *model) {
    Arena arena;
    Pipeline pipeline;
    PassManager manager;
    const PassSetup setup = {.opt_level = 2, .max_passes = UINT64_MAX, .max_changes = UINT64_MAX, .verify_each = true};
    arena_init(&arena, &ctx->allocator);
    tn_status status = pipeline_parse(
        &arena, STR("simplify-shapes,select-branches,unroll-loops,hoist-invariants,list-types,print-model,draw-graph"),
        &pipeline);
    if (status == TN_OK) status = manager_init(&manager, model, &setup);
    if (status == TN_OK) {
        status = manager_run(&manager, &pipeline);
        for (size_t i = 0; status == TN_OK && i < manager.records.len; i++)
            assert_true(manager.records.data[i].changed || manager.records.data[i].pass->kind != PASS_PROGRAM);
        manager_free(&manager);
    }
    arena_free(&arena);
    return status;
}

static void test_each_allocation_fails(void **state) {
    tn_status status = TN_OUT_OF_MEMORY;
    int64_t n = 1;
    (void)state;
    for (; status != TN_OK; n++) {
        TestHeap heap;
        Context *ctx;
        Model *model = NULL;
        test_heap_init(&heap);
        OK(context_new(&heap.allocator, NULL, &ctx));
        OK(model_parse(ctx, str_of(mixed), NULL, (Str){0}, &model));
        OK(infer_model(model));
        heap.fail_at = heap.calls + n;
        status = run_passes(ctx, model);
        assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
        model_free(model);
        context_unref(ctx);
        assert_int_equal(heap.living, 0);
    }
    assert_true(n > 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_trips),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
