/* SPDX-License-Identifier: Apache-2.0 */
/* tn.Fused: what its body computes, what is known of it before, what a body must not be, and taking it apart again. */
#include "test_base_alloc.h"

#include "eval/eval.h"
#include "pass/pass.h"

#define OK(call) assert_int_equal(call, TN_OK)

static Model *parse(Context *ctx, const char *text) {
    Model *model = NULL;
    tn_status status = model_parse(ctx, str_of(text), NULL, (Str){0}, &model);
    if (status != TN_OK) print_error("%s\n%s\n", diag_text(), text);
    OK(status);
    return model;
}

static Context *new_context(void) {
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    return ctx;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* Outputs come in pairs: what was computed, and what it should be. */
static const char *const pairs[] = {
    /* Constants in a body, several results, one of them an operand as it is, one given twice. */
    "tn 1 graph @g() -> (%y, %yw, %s, %sw, %p, %pw, %q, %qw) {\n"
    "  %x = Identity(f32[2,2] [1, 2, 3, 4])\n"
    "  %y, %s, %p, %q = tn.Fused(%x, f32[2] [10, 20]) {body = graph(%a, %b) -> (%d, %e, %a, %d) {\n"
    "    %c = Mul(%a, 2.0) %d = Add(%c, %b) %e = ReduceSum(%d, i64[1] [1]) {keepdims=0} }}\n"
    "  %yw = Identity(f32[2,2] [12, 24, 16, 28]) %sw = Identity(f32[2] [36, 44])\n"
    "  %pw = Identity(%x) %qw = Identity(%yw) }\n",
    /* Readings of operands that are not dense, and an operand that nobody reads. */
    "tn 1 graph @g() -> (%y, %yw) {\n"
    "  %t = Transpose(f32[2,3] [1, 2, 3, 4, 5, 6])\n"
    "  %y = tn.Fused(%t, %t, i64 7) {body = graph(%a, %b, %unread) -> (%d) { %n = Neg(%a) %d = Sub(%n, %b) }}\n"
    "  %yw = Identity(f32[3,2] [-2, -8, -4, -10, -6, -12]) }\n",
    /* Nothing to compute with. */
    "tn 1 graph @g() -> (%y, %yw) {\n"
    "  %e = Slice(f32[2,3] [1, 2, 3, 4, 5, 6], i64[1] [2], i64[1] [2])\n"
    "  %y = tn.Fused(%e) {body = graph(%a) -> (%d) { %n = Neg(%a) %d = ReduceSum(%n, i64[1] [0]) }}\n"
    "  %yw = Identity(f32[1,3] [0, 0, 0]) }\n",
    /* In a branch in a loop; sizes that differ from turn to turn; what is around comes in as operands. */
    "tn 1 graph @g() -> (%y, %yw) {\n"
    "  %k = Identity(f32[1] [1])\n"
    "  %y = Loop(i64 3, _, f32[1] [0]) {body = graph(%i: i64[], %c: bool[], %v: f32[?]) -> (%c, %w) {\n"
    "    %w = If(%c) {then_branch = graph() -> (%g) {\n"
    "      %f = tn.Fused(%v, %k) {body = graph(%a, %b) -> (%n) { %m = Add(%a, %b) %n = Mul(%m, 2.0) }}\n"
    "      %g = Concat(%f, %k) {axis=0} }, else_branch = graph() -> (%v) {} } }}\n"
    "  %yw = Identity(f32[4] [14, 10, 4, 1]) }\n",
    /* Strings and sequences go through. */
    "tn 1 graph @g() -> (%y, %yw, %z, %zw) {\n"
    "  %s = SequenceConstruct(f32[1] [3], f32[1] [4])\n"
    "  %t, %y = tn.Fused(%s, str[1] [\"a\"]) {body = graph(%q, %b) -> (%r, %n) {\n"
    "    %r = SequenceInsert(%q, f32[1] [5]) %n = StringConcat(%b, %b) }}\n"
    "  %z = ConcatFromSequence(%t) {axis=0}\n"
    "  %yw = Identity(str[1] [\"aa\"]) %zw = Identity(f32[3] [3, 4, 5]) }\n",
};

static bool same(const Tensor *a, const Tensor *b) {
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * 8) != 0) return false;
    for (int64_t i = 0; i < tensor_count(a); i++) {
        double x[2];
        if (a->dtype == TN_STRING) {
            if (!str_equal(rc_string_get(((RcString **)a->data)[i]), rc_string_get(((RcString **)b->data)[i])))
                return false;
            continue;
        }
        load_f64(&x[0], a->dtype, a->data, a->offset + i, 1, 1);
        load_f64(&x[1], b->dtype, b->data, b->offset + i, 1, 1);
        if (x[0] != x[1]) return false;
    }
    return true;
}

static void assert_pairs(const Model *model, const char *text) {
    Tensor out[16];
    size_t n = graph_n_outputs(model->main);
    tn_status status = eval_graph(model->ctx, model->main, NULL, out);
    if (status != TN_OK) print_error("%s\n%s\n", diag_text(), text);
    OK(status);
    for (size_t i = 0; i < n; i += 2) {
        if (!same(&out[i], &out[i + 1])) print_error("output %zu is wrong in\n%s\n", i, text);
        assert_true(same(&out[i], &out[i + 1]));
    }
    for (size_t i = 0; i < n; i++) tensor_release(&out[i]);
}

static size_t inline_all(Model *model) {
    Arena arena;
    Graph **graphs;
    size_t n, found = 0;
    arena_init(&arena, &model->ctx->allocator);
    OK(model_graphs(model, &arena, &graphs, &n));
    for (size_t i = 0; i < n; i++)
        for (Node *node = graphs[i]->first, *next; node; node = next) {
            next = node->next;
            if (!node_is_fused(node)) continue;
            OK(fused_inline(node));
            found++;
        }
    arena_free(&arena);
    return found;
}

static void test_values(void **state) {
    (void)state;
    Context *ctx = new_context();
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        Model *model = parse(ctx, pairs[i]), *copy;
        assert_pairs(model, pairs[i]);
        OK(infer_model(model));
        OK(model_verify(model));
        assert_pairs(model, pairs[i]);
        OK(model_clone(model, &copy));
        assert_pairs(copy, pairs[i]);
        assert_int_equal(inline_all(copy), 1);
        OK(model_verify(copy));
        assert_pairs(copy, pairs[i]);
        model_free(copy);
        model_free(model);
    }
    context_unref(ctx);
}

/* ---- inference -------------------------------------------------------------------------------------------------- */

static void assert_type(Model *model, const char *name, const char *expected) {
    Text text;
    text_init(&text, &model->ctx->allocator);
    const Value *v = model_value(model, str_of(name));
    assert_non_null(v);
    type_print(model, v->type, &text);
    assert_string_equal(text.s, expected);
    text_free(&text);
}

static void test_inference(void **state) {
    (void)state;
    Context *ctx = new_context();
    Model *model = parse(ctx, "tn 1 graph @g(%x: f32[n,4], %u: f32[?,4]) -> (%y, %z, %r, %v) {\n"
                              "  %y, %z = tn.Fused(%x) {body = graph(%a) -> (%d, %e) { %d = Exp(%a)\n"
                              "    %e = ReduceMax(%d, i64[1] [0]) {keepdims=0} }}\n"
                              "  %s = Shape(%x)\n"
                              "  %t = tn.Fused(%s) {body = graph(%b) -> (%c) { %c = Mul(%b, i64[2] [2, 3]) }}\n"
                              "  %r = Expand(f32[1,1] [0], %t)\n"
                              "  %v = tn.Fused(%u) {body = graph(%f: f32[5,4]) -> (%g) { %g = Neg(%f) }} }\n");
    OK(infer_model(model));
    assert_type(model, "y", "f32[n,4]");
    assert_type(model, "z", "f32[4]");
    assert_type(model, "r", "f32[n*2,12]"); /* contents go through the body */
    assert_type(model, "e", "f32[4]");
    assert_type(model, "v", "f32[?,4]"); /* what a body declares of sizes holds for itself only */
    InferFacts facts;
    OK(infer_facts(model, &facts));
    const Value *y = model_value(model, STR("y")), *x = model_value(model, STR("x"));
    assert_true(shape_equal(&facts.values[y->id].shape, &facts.values[x->id].shape));
    infer_facts_free(&facts);
    model_free(model);
    context_unref(ctx);
}

static void test_flops(void **state) {
    (void)state;
    Context *ctx = new_context();
    Model *model = parse(ctx, "tn 1 graph @g(%x: f32[2,8], %w: f32[8,4]) -> (%y) {\n"
                              "  %y = tn.Fused(%x, %w) {body = graph(%a, %b) -> (%e) { %c = MatMul(%a, %b)\n"
                              "    %d = Add(%c, 1.0) %e = Relu(%d) }} }\n");
    OK(infer_model(model));
    const Node *fused = model->main->first;
    const Shape in[] = {model->main->inputs.data[0]->type->shape, model->main->inputs.data[1]->type->shape};
    assert_true(op_flops(fused, in, &fused->results[0]->type->shape) == 2 * 2 * 8 * 4 + 8 + 8);
    const Shape unknown[] = {shape_unknown(), in[1]};
    assert_true(op_flops(fused, unknown, &fused->results[0]->type->shape) == 0);
    model_free(model);
    context_unref(ctx);
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

#define FUSED(operands, body) "tn 1 graph @g(%x: f32[2]) -> (%y) { %y = tn.Fused(" operands ") {body = " body "} }"

static const struct {
    const char *text, *says;
    bool runs; /* what is only declared wrong */
} errors[] = {
    {FUSED("%x", "graph(%a, %b) -> (%a) {}"), "2 inputs"},
    {FUSED("%x", "graph(%a) -> (%a, %a) {}"), "2 outputs"},
    {FUSED("_", "graph(%a) -> (%a) {}"), "operand 0 is missing"},
    {FUSED("%x", "graph(%a) -> (%b) { %b = Add(%a, %x) }"), "reads \"x\""},
    {FUSED("%x", "graph(%a) -> (%x) {}"), "reads \"x\""},
    {FUSED("%x", "graph(%a) -> (%b) { %b = MatMul(%a, f32[3] [1, 2, 3]) }"), "MatMul"},
    {FUSED("%x", "graph(%a: i64[2]) -> (%a) {}"), "i64", true},
    {FUSED("%x", "graph(%a) -> (%b) { %b = tn.Fused(%a) {body = graph(%c) -> (%c) {}} }"), "nested graphs"},
    {FUSED("%x", "graph(%a) -> (%b) { %b = If(bool true) {then_branch = graph() -> (%a) {},"
                 " else_branch = graph() -> (%a) {}} }"),
     "nested graphs"},
};

static void test_errors(void **state) {
    (void)state;
    Context *ctx = new_context();
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        Model *model = parse(ctx, errors[i].text);
        const Tensor *inputs[1];
        Tensor x, out[2];
        tn_status status = infer_model(model);
        if (status == TN_OK || !strstr(diag_text(), errors[i].says))
            print_error("%s\n%s\n", errors[i].text, diag_text());
        assert_int_not_equal(status, TN_OK);
        assert_non_null(strstr(diag_text(), errors[i].says));
        diag_clear();
        OK(tensor_new(ctx, TN_F32, 1, &(int64_t){2}, &x));
        inputs[0] = &x;
        assert_int_equal(eval_graph(ctx, model->main, inputs, out) == TN_OK, errors[i].runs);
        if (errors[i].runs) tensor_release(&out[0]);
        diag_clear();
        tensor_release(&x);
        model_free(model);
    }
    context_unref(ctx);
}

static void test_closed(void **state) {
    (void)state;
    Context *ctx = new_context();
    Model *model = parse(ctx, FUSED("%x", "graph(%a) -> (%b) { %b = Add(%a, %a) }"));
    Node *fused = model->main->first, *add = attr_graph(fused, "body")->first;
    OK(model_verify(model));
    OK(node_set_operand(add, 1, model->main->inputs.data[0]));
    assert_int_equal(model_verify(model), TN_INVALID_MODEL);
    assert_non_null(strstr(diag_text(), "comes from outside"));
    OK(node_set_operand(add, 1, attr_graph(fused, "body")->inputs.data[0]));
    OK(model_verify(model));
    model_free(model);
    context_unref(ctx);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Through text, inference, both passes and the evaluator. */
static tn_status all_of_it(Context *ctx, Model **model) {
    PassManager manager;
    Pipeline pipeline;
    const PassPlace cpu = {"cpu", TN_UNDEFINED};
    const PassSetup setup = {.places = &cpu, .n_places = 1, .max_passes = UINT64_MAX, .max_changes = UINT64_MAX};
    const char *text = "tn 1 graph @g(%x: f32[4,40], %w: f32[40,40]) -> (%y, %z) {\n"
                       "  %a = MatMul(%x, %w) %t = Identity(%x) %b = Add(%a, 1.0) %c = Relu(%b) %y = Sub(%c, %x)\n"
                       "  %d = Exp(%x) %e = Mul(%d, %t) %f = Add(%e, 1.0) %z = Concat(%d, %f) {axis=0} }";
    TRY(model_parse(ctx, str_of(text), NULL, (Str){0}, model));
    TRY(manager_init(&manager, *model, &setup));
    tn_status status = pipeline_parse(
        &manager.arena, STR("fuse-loops(any=true),infer-shapes,unfuse-loops,fuse-loops(any=true)"), &pipeline);
    if (status == TN_OK) status = manager_run(&manager, &pipeline);
    manager_free(&manager);
    TRY(status);
    Tensor in[2] = {0}, out[2];
    const Tensor *inputs[] = {&in[0], &in[1]};
    status = tensor_new(ctx, TN_F32, 2, (int64_t[]){4, 40}, &in[0]);
    if (status == TN_OK) status = tensor_new(ctx, TN_F32, 2, (int64_t[]){40, 40}, &in[1]);
    if (status == TN_OK) status = eval_graph(ctx, (*model)->main, inputs, out);
    for (int k = 0; k < 2; k++) tensor_release(&in[k]);
    TRY(status);
    for (int k = 0; k < 2; k++) tensor_release(&out[k]);
    return TN_OK;
}

static void test_failing_allocations(void **state) {
    (void)state;
    tn_status status = TN_OUT_OF_MEMORY;
    for (int64_t at = 1; status != TN_OK; at++) {
        TestHeap heap;
        Context *ctx;
        Model *model = NULL;
        test_heap_init(&heap);
        OK(context_new(&heap.allocator, NULL, &ctx));
        heap.fail_at = heap.calls + at;
        status = all_of_it(ctx, &model);
        heap.fail_at = 0;
        assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
        if (status == TN_OK) assert_int_equal(inline_all(model), 2);
        model_free(model);
        context_unref(ctx);
        assert_int_equal(heap.living, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_inference),
                                       cmocka_unit_test(test_flops),  cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_closed), cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
