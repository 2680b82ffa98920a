/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the pass that changes an answer, and the evaluator's memory that makes it cheap. */
#include "test_passes_common.h"

#include <math.h>
#include <unistd.h>

#include "eval/eval.h"

static const char sample[] = "tn 1\n"
                             "graph @sample(%x: f32[4], %z: f32[4]) -> (%y, %k) {\n"
                             "  %a = Add(%x, %z)\n  %b = Identity(%a)\n  %c = Mul(%b, %x) loc \"product\"\n"
                             "  %d = Identity(%c)\n  %e = Add(%d, %z)\n  %y = Tanh(%e)\n  %k = Abs(%a)\n}\n";

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static tn_status run_nothing(PassRun *run, Graph *graph) {
    (void)run, (void)graph;
    return TN_OK;
}

/* Another op on the same operands; its result takes over the name. */
static tn_status put_instead(Node *node, const char *op) {
    Node *other;
    Value *operands[] = {node_operand(node, 0), node_operand(node, 1)};
    TRY(node_new(node->graph, known_op(op), operands, node->n_operands, 1, &other));
    other->loc = node->loc;
    value_set_type(other->results[0], node->results[0]->type);
    node_insert_before(other, node);
    TRY(value_take_over(node->results[0], other->results[0]));
    node_erase(node);
    return TN_OK;
}

/* Drops each Identity, which is right, and makes each Mul an Add, which is not. */
static tn_status run_mixed(PassRun *run, Graph *graph) {
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (strcmp(node->op->name, "Identity") == 0 && pass_may_change(run)) {
            value_replace(node->results[0], node->operands[0].value);
            node_erase(node);
        } else if (strcmp(node->op->name, "Mul") == 0 && pass_may_change(run)) {
            TRY(put_instead(node, "Add"));
        }
    }
    return TN_OK;
}

/* The same without asking. */
static tn_status run_blunt(PassRun *run, Graph *graph) {
    (void)run;
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (strcmp(node->op->name, "Mul") == 0) TRY(put_instead(node, "Add"));
    }
    return TN_OK;
}

static tn_status run_swap(PassRun *run, Graph *graph) {
    for (Node *node = graph->first; node; node = node->next) {
        if (strcmp(node->op->name, "Add") != 0 || !pass_may_change(run)) continue;
        Value *first = node->operands[0].value;
        TRY(node_set_operand(node, 0, node->operands[1].value));
        TRY(node_set_operand(node, 1, first));
    }
    return TN_OK;
}

/* A little more than half of what is allowed. */
static tn_status run_bit(PassRun *run, Graph *graph) {
    (void)run;
    for (Node *node = graph->first; node; node = node->next)
        if (strcmp(node->op->name, "LeakyRelu") == 0)
            TRY(node_set_float(node, "alpha", (float)attr_float(node, "alpha") * 1.00006F));
    return TN_OK;
}

static tn_status run_bad_axis(PassRun *run, Graph *graph) {
    (void)run;
    for (Node *node = graph->first; node; node = node->next)
        if (strcmp(node->op->name, "Softmax") == 0) TRY(node_set_int(node, "axis", 7));
    return TN_OK;
}

static tn_status run_relocate(PassRun *run, Graph *graph) {
    for (Node *node = graph->first; node; node = node->next)
        if (node->op->flags & OP_RANDOM) node->loc = model_str(run->model, STR("moved"));
    graph->model->state_edits++;
    return TN_OK;
}

/* Behind the manager's back. */
static tn_status run_tamper(PassRun *run, Graph *graph) {
    (void)run;
    for (Node *node = graph->first; node; node = node->next) {
        const Tensor *payload = value_constant(node->results[0]);
        if (payload) ((float *)payload->data)[0] += 1;
    }
    return TN_OK;
}

static tn_status run_to_output(PassRun *run, Graph *graph) {
    Value *other = graph->first->results[0];
    (void)run;
    return node_set_operand(graph->ret, 0, other);
}

static const Pass passes[] = {
    {.name = "w-note", .run = run_nothing},
    {.name = "w-mixed", .run = run_mixed},
    {.name = "w-blunt", .run = run_blunt},
    {.name = "w-each-blunt", .each_graph = true, .run = run_blunt},
    {.name = "w-swap", .run = run_swap},
    {.name = "w-bit", .kind = PASS_STMT, .run = run_bit},
    {.name = "w-bad-axis", .kind = PASS_STMT, .run = run_bad_axis},
    {.name = "w-relocate", .kind = PASS_STMT, .run = run_relocate},
    {.name = "w-tamper", .kind = PASS_DEBUG, .run = run_tamper},
    {.name = "w-to-output", .run = run_to_output},
    {.name = "w-both", .pipeline = "w-note,repeat(max=2){w-swap,w-mixed}"},
};
enum { N_PASSES = sizeof passes / sizeof *passes };

static int add_passes(void **state) {
    (void)state;
    for (int i = 0; i < N_PASSES; i++) OK(pass_register(&passes[i]));
    return 0;
}

static int remove_passes(void **state) {
    (void)state;
    for (int i = 0; i < N_PASSES; i++) OK(pass_unregister(str_of(passes[i].name)));
    return 0;
}

/* ---- a check ----------------------------------------------------------------------------------------------------- */

typedef struct Case {
    tn_context *context;
    tn_model *model;
    tn_tensor *inputs[4];
    size_t n;
    tn_check_result *result;
    const tn_check_info *info;
} Case;

static void fill(tn_tensor *t, uint64_t *state) {
    for (int64_t i = 0; i < tn_tensor_count(t); i++) {
        double v = (double)(next_random(state) % 4001) / 1000 - 2;
        if (tn_tensor_dtype(t) == TN_F32) ((float *)tn_tensor_data(t))[i] = (float)v;
        else if (tn_tensor_dtype(t) == TN_BOOL) ((bool *)tn_tensor_data(t))[i] = v > 0;
        else ((int64_t *)tn_tensor_data(t))[i] = 3;
    }
}

/* Inputs whose size is not known get 5 of each. */
static void case_begin(Case *c, tn_context *context, const char *text) {
    uint64_t state = 99;
    *c = (Case){.context = context, .model = model_of(context, text)};
    c->n = tn_model_n_inputs(c->model);
    for (size_t i = 0; i < c->n; i++) {
        tn_value_info info;
        OK(tn_model_input(c->model, i, &info));
        for (int k = 0; k < info.rank; k++)
            if (info.dims[k] < 0) info.dims[k] = 5;
        OK(tn_tensor_create(context, info.dtype, info.rank, info.dims, &c->inputs[i]));
        fill(c->inputs[i], &state);
    }
}

static void case_end(Case *c) {
    tn_check_result_release(c->result);
    for (size_t i = 0; i < c->n; i++) tn_tensor_release(c->inputs[i]);
    tn_model_release(c->model);
}

static const tn_check_info *check(Case *c, const char *list, const tn_check_options *options) {
    tn_pass_settings settings = {.pipeline = list, .verify_each = true};
    tn_check_result_release(c->result);
    c->result = NULL;
    OK(tn_model_check(c->model, &settings, options, (const tn_tensor *const *)c->inputs, c->n, &c->result));
    return c->info = tn_check_result_info(c->result);
}

static void assert_why(const Case *c, const char *part) {
    if (!strstr(c->info->why, part)) print_error("\"%s\" does not say \"%s\"\n", c->info->why, part);
    assert_non_null(strstr(c->info->why, part));
}

static tn_context *plain_context(void) {
    tn_context *context;
    OK(tn_context_create(&(tn_context_options){.threads = 1}, &context));
    return context;
}

/* ---- right passes ------------------------------------------------------------------------------------------------ */

static void test_right(void **state) {
    (void)state;
    tn_context *context = plain_context();
    Case c;
    case_begin(&c, context, sample);
    for (int bisect = 0; bisect < 2; bisect++) {
        const tn_check_info *r = check(&c, "w-note,w-swap,w-note", &(tn_check_options){.bisect = bisect});
        assert_true(r->same);
        assert_int_equal(r->n_passes, 3);
        assert_true(r->worst < 1e-6);
        assert_why(&c, "no pass changed an answer (3 passes");
        assert_string_equal(r->pass, "");
        assert_true(check(&c, NULL, NULL)->same);
        assert_true(check(&c, "", NULL)->same);
    }
    case_end(&c);
    tn_context_release(context);
}

/* ---- wrong ones -------------------------------------------------------------------------------------------------- */

static void assert_product_blamed(const tn_check_info *r, const char *pass, uint64_t number) {
    assert_false(r->same);
    assert_string_equal(r->pass, pass);
    assert_int_equal(r->pass_number, number);
    assert_string_equal(r->value, "c");
    assert_string_equal(r->node, "product");
    assert_string_equal(r->op, "Add");
    assert_true(r->largest > 1e-3 && r->scale > 0);
}

static void test_wrong(void **state) {
    (void)state;
    tn_context *context = plain_context();
    Case c;
    case_begin(&c, context, sample);
    assert_product_blamed(check(&c, "w-note,w-swap,w-mixed,w-note", NULL), "w-mixed", 3);
    assert_int_equal(c.info->n_passes, 3);
    assert_int_equal(c.info->change, 0);
    assert_why(&c, "pass \"w-mixed\", number 3, changed the answer: value \"c\", made by node \"product\" (Add)");
    assert_product_blamed(check(&c, "w-note,w-swap,w-mixed,w-note", &(tn_check_options){.bisect = true}), "w-mixed", 3);
    assert_int_equal(c.info->n_passes, 4);
    assert_int_equal(c.info->change, 4); /* two of w-swap, an Identity before */
    assert_why(&c, "with change 4");
    assert_product_blamed(check(&c, "w-both", NULL), "w-mixed", 3);
    assert_product_blamed(check(&c, "w-both", &(tn_check_options){.bisect = true}), "w-mixed", 3);
    assert_product_blamed(check(&c, "w-blunt", &(tn_check_options){.bisect = true}), "w-blunt", 1);
    assert_int_equal(c.info->change, 0); /* it does not ask before it changes something */
    assert_true(check(&c, "w-blunt", &(tn_check_options){.rtol = 1000})->same);
    assert_true(check(&c, "w-blunt", &(tn_check_options){.atol = 1000})->same);
    case_end(&c);
    tn_context_release(context);
}

/* The limits that the result speaks of are those of the settings. */
static void test_limits_agree(void **state) {
    (void)state;
    tn_context *context = plain_context();
    Case c;
    case_begin(&c, context, sample);
    uint64_t change = check(&c, "w-swap,w-mixed", &(tn_check_options){.bisect = true})->change;
    for (int wrong = 0; wrong < 2; wrong++) {
        tn_pass_settings settings = {.pipeline = "w-swap,w-mixed", .max_changes = change - 1 + (uint64_t)wrong};
        tn_check_result *result;
        OK(tn_model_check(c.model, &settings, NULL, (const tn_tensor *const *)c.inputs, c.n, &result));
        assert_int_equal(tn_check_result_info(result)->same, !wrong);
        tn_check_result_release(result);
    }
    case_end(&c);
    tn_context_release(context);
}

static void test_output(void **state) {
    (void)state;
    tn_context *context = plain_context();
    Case c;
    case_begin(&c, context, sample);
    assert_false(check(&c, "w-to-output", NULL)->same);
    assert_string_equal(c.info->value, "y");
    assert_string_equal(c.info->node, "a");
    assert_string_equal(c.info->op, "Add");
    case_end(&c);
    tn_context_release(context);
}

static void test_does_not_run(void **state) {
    (void)state;
    tn_context *context = plain_context();
    Case c;
    case_begin(&c, context,
               "tn 1\ngraph @soft(%x: f32[n,m]) -> (%y) {\n  %t = Softmax(%x) loc \"soft\"\n  %y = Neg(%t)\n}\n");
    for (int bisect = 0; bisect < 2; bisect++) {
        assert_false(check(&c, "w-note,w-bad-axis,w-note", &(tn_check_options){.bisect = bisect})->same);
        assert_string_equal(c.info->pass, "w-bad-axis");
        assert_string_equal(c.info->node, "soft");
        assert_string_equal(c.info->value, "t");
        assert_why(&c, "the model does not run any more: node \"soft\" (Softmax)");
    }
    case_end(&c);
    tn_context_release(context);
}

static void test_tampering(void **state) {
    (void)state;
    tn_context *context = plain_context();
    Case c;
    case_begin(&c, context,
               "tn 1\ngraph @m(%x: f32[2]) -> (%y) {\n  %k = Const {data = f32[2] [1.0, 2.0]}\n"
               "  %y = Mul(%x, %k)\n}\n");
    assert_false(check(&c, "w-note,w-tamper", NULL)->same);
    assert_string_equal(c.info->pass, "w-tamper");
    assert_string_equal(c.info->value, "y");
    case_end(&c);
    tn_context_release(context);
}

static void test_nested(void **state) {
    (void)state;
    tn_context *context = plain_context();
    Case c;
    case_begin(
        &c, context,
        "tn 1\ngraph @loop(%x: f32[n], %trips: i64[], %b: f32[n]) -> (%z) {\n"
        "  %y = Loop(%trips, bool[] true, %x) {body = graph (%i: i64[], %c: bool[], %v: f32[n]) -> (%c2, %v2) {\n"
        "    %c2 = Identity(%c)\n    %h = Mul(%v, f32[] 0.5)\n    %v2 = Add(%h, %b)\n  }} loc \"turns\"\n"
        "  %z = Neg(%y)\n}\n");
    assert_true(check(&c, "w-blunt,w-swap", NULL)->same);
    assert_false(check(&c, "w-note,w-each-blunt", NULL)->same);
    assert_string_equal(c.info->pass, "w-each-blunt");
    assert_string_equal(c.info->value, "y");
    assert_string_equal(c.info->node, "turns");
    assert_string_equal(c.info->op, "Loop");
    case_end(&c);
    tn_context_release(context);
}

/* Numbers drawn by name: another name is another number, which is no pass's fault. */
static void test_random(void **state) {
    (void)state;
    tn_context *context = plain_context();
    Case c;
    case_begin(&c, context,
               "tn 1\ngraph @m(%x: f32[4]) -> (%y, %z) {\n  %r = RandomUniform {shape = [4]} loc \"draw\"\n"
               "  %p = Mul(%r, %x)\n  %y = Neg(%p)\n  %q = Abs(%x)\n  %z = Mul(%q, %x)\n}\n");
    assert_true(check(&c, "w-note,w-swap", NULL)->same);
    assert_null(strstr(c.info->why, "random"));
    assert_true(check(&c, "w-relocate", NULL)->same);
    assert_why(&c, "1 outputs were not compared: random numbers decide them");
    assert_false(check(&c, "w-mixed", NULL)->same);
    assert_string_equal(c.info->value, "p");
    assert_false(check(&c, "w-relocate,w-mixed", NULL)->same); /* seen at z, but p was the first to change */
    assert_string_equal(c.info->value, "p");
    assert_string_equal(c.info->pass, "w-mixed");
    case_end(&c);
    tn_context_release(context);
}

/* Of post-partition: it sees the sizes at hand. */
static tn_status run_at_known_sizes(PassRun *run, Graph *graph) {
    const Shape *shape = &graph->inputs.data[0]->type->shape;
    return shape_is_known(shape) && shape->dims[0] == 5 ? run_blunt(run, graph) : TN_OK;
}

static void test_post_partition(void **state) {
    (void)state;
    static const Pass late = {.name = "w-late", .phase = PHASE_POST_PARTITION, .run = run_at_known_sizes};
    tn_context *context = plain_context();
    Case c;
    case_begin(&c, context, "tn 1\ngraph @m(%x: f32[n]) -> (%y) {\n  %a = Neg(%x)\n  %y = Mul(%x, %a)\n}\n");
    OK(pass_register(&late));
    for (int bisect = 0; bisect < 2; bisect++) {
        assert_false(check(&c, "pre-placement", &(tn_check_options){.bisect = bisect})->same);
        assert_string_equal(c.info->pass, "w-late");
        assert_string_equal(c.info->value, "y");
    }
    OK(pass_unregister(STR("w-late")));
    case_end(&c);
    tn_context_release(context);
}

/* ---- reproducers ------------------------------------------------------------------------------------------------- */

/* Checks what the file says, on the inputs that are in it. */
static void check_file(Case *c, const char *path, const char *list) {
    tn_model_release(c->model);
    OK(tn_model_load(c->context, path, &c->model));
    assert_int_equal(unlink(path), 0);
    assert_string_equal(tn_model_metadata(c->model, "tenon.pipeline"), list);
    for (size_t i = 0; i < c->n; i++) {
        tn_tensor_release(c->inputs[i]);
        c->inputs[i] = NULL;
    }
    check(c, tn_model_metadata(c->model, "tenon.pipeline"), NULL);
}

static void new_path(char *path) {
    int fd = mkstemps(path, 3);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(unlink(path), 0);
}

static void test_reproducer(void **state) {
    (void)state;
    tn_context *context = plain_context();
    for (int bisect = 0; bisect < 2; bisect++) {
        char path[] = "tenon_blame_XXXXXX.tn";
        Case c;
        new_path(path);
        case_begin(&c, context, sample);
        tn_check_options options = {.bisect = bisect, .reproducer = path};
        assert_true(check(&c, "w-swap", &options)->same);
        assert_int_not_equal(access(path, F_OK), 0);
        assert_product_blamed(check(&c, "w-swap,w-mixed,w-note", &options), "w-mixed", 2);
        double largest = c.info->largest;
        check_file(&c, path, "w-mixed");
        assert_product_blamed(c.info, "w-mixed", 1);
        assert_true(c.info->largest == largest);
        case_end(&c);
    }
    tn_context_release(context);
}

/* Two passes that each go halfway: the file has both. */
static void test_bit_by_bit(void **state) {
    (void)state;
    tn_context *context = plain_context();
    char path[] = "tenon_blame_XXXXXX.tn";
    Case c;
    new_path(path);
    case_begin(&c, context,
               "tn 1\ngraph @m(%x: f32[9]) -> (%y) {\n  %a = Abs(%x)\n  %b = Neg(%a)\n"
               "  %y = LeakyRelu(%b) {alpha = 0.5}\n}\n");
    assert_true(check(&c, "w-note,w-bit", NULL)->same);
    assert_true(c.info->worst > 4e-5 && c.info->worst < 8e-5);
    assert_false(check(&c, "w-note,w-bit,w-bit,w-note", &(tn_check_options){.reproducer = path})->same);
    assert_int_equal(c.info->pass_number, 3);
    assert_string_equal(c.info->value, "y");
    check_file(&c, path, "w-note,w-bit,w-bit");
    assert_false(c.info->same);
    assert_int_equal(c.info->pass_number, 3);
    case_end(&c);
    tn_context_release(context);
}

/* ---- what cannot be checked -------------------------------------------------------------------------------------- */

static void test_refused(void **state) {
    (void)state;
    tn_context *context = plain_context();
    tn_check_result *result = NULL;
    tn_pass_settings wrong = {.pipeline = "w-nto"};
    Case c, other;
    case_begin(&c, context, sample);
    case_begin(&other, context, "tn 1\ngraph @m(%x: f32[3], %y: f32[4]) -> (%z) {\n  %z = Neg(%x)\n}\n");
    const tn_tensor *const *in = (const tn_tensor *const *)c.inputs, *none[2] = {0};
    assert_int_equal(tn_model_check(NULL, NULL, NULL, in, 2, &result), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_model_check(c.model, NULL, NULL, in, 1, &result), TN_INVALID_ARGUMENT);
    assert_says("the model has 2 inputs, 1 were given");
    assert_int_equal(tn_model_check(c.model, &wrong, NULL, in, 2, &result), TN_NOT_FOUND);
    assert_int_equal(tn_model_check(other.model, NULL, NULL, in, 2, &result), TN_SHAPE);
    assert_says("input \"x\" wants f32[3], not f32[4]");
    assert_int_equal(tn_model_check(c.model, NULL, NULL, none, 2, &result), TN_INVALID_ARGUMENT);
    assert_says("input \"x\" is missing");
    assert_null(result);
    tn_check_result_release(NULL);
    case_end(&c);
    case_end(&other);
    tn_context_release(context);
}

static tn_status check_with_failure(int64_t at, bool bisect) {
    TestHeap heap;
    Case c;
    tn_context *context;
    tn_check_result *result = NULL;
    test_heap_init(&heap);
    OK(tn_context_create(&(tn_context_options){.threads = 1, .allocator = heap.allocator}, &context));
    case_begin(&c, context, sample);
    heap.fail_at = heap.calls + at;
    tn_pass_settings settings = {.pipeline = "w-swap,w-mixed"};
    tn_status status = tn_model_check(c.model, &settings, &(tn_check_options){.bisect = bisect},
                                      (const tn_tensor *const *)c.inputs, c.n, &result);
    heap.fail_at = 0;
    if (status == TN_OK) assert_product_blamed(tn_check_result_info(result), "w-mixed", 2);
    tn_check_result_release(result);
    case_end(&c);
    tn_context_release(context);
    assert_int_equal(heap.living, 0);
    return status;
}

static void test_out_of_memory(void **state) {
    (void)state;
    for (int bisect = 0; bisect < 2; bisect++) {
        tn_status status = TN_OUT_OF_MEMORY;
        for (int64_t at = 1; status != TN_OK && at < 20000; at++) {
            status = check_with_failure(at, bisect);
            assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
        }
        OK(status);
    }
}

/* ---- the evaluator's memory -------------------------------------------------------------------------------------- */

static const char *const graphs[] = {
    sample,
    "tn 1\ngraph @views(%x: f32[n,m]) -> (%y, %w, %t) {\n  %t = Transpose(%x)\n  %r = Reshape(%t, i64[2] [1, -1])\n"
    "  %y = Concat(%r, %r) {axis=0}\n  %w = Mul(%y, f32[] 2.0)\n}\n",
    "tn 1\ngraph @branches(%x: f32[n,m], %a: bool[], %b: bool[]) -> (%y, %z) {\n  %t = Transpose(%x)\n"
    "  %y = If(%a) {then_branch = graph () -> (%p) {\n    %u = Add(%t, f32[] 1.0)\n"
    "    %p = If(%b) {then_branch = graph () -> (%q) {\n      %q = Sub(%u, %t)\n"
    "    }, else_branch = graph () -> (%r) {\n      %r = Neg(%x)\n    }}\n"
    "  }, else_branch = graph () -> (%t) {}}\n  %z = Abs(%y)\n}\n",
    "tn 1\ngraph @loop(%x: f32[n], %trips: i64[], %b: f32[n]) -> (%y, %s) {\n"
    "  %y, %s = Loop(%trips, bool[] true, %x) {body = graph (%i: i64[], %c: bool[], %v: f32[n]) -> (%c2, %v2, %s2) {\n"
    "    %c2 = Identity(%c)\n    %h = Mul(%v, f32[] 0.5)\n    %v2 = Add(%h, %b)\n    %s2 = ReduceSum(%v2) {keepdims=0}\n"
    "  }}\n}\n",
    "tn 1\ngraph @texts(%x: f32[n]) -> (%y, %z, \"same\" = %x, \"k\" = %k) {\n  %k = Const {data = str[2] [\"a\", \"\"]}\n"
    "  %y = Concat(%k, %k) {axis=0}\n  %z = Equal(%y, str[] \"a\")\n}\n",
    "tn 1\ngraph @lists(%x: f32[n]) -> (%n, %s) {\n  %a = Neg(%x)\n  %s = SequenceConstruct(%x, %a)\n"
    "  %n = SequenceAt(%s, i64[] 1)\n}\n",
    "tn 1\ngraph @dead(%x: f32[n]) -> (%y) {\n  %boom = Reshape(%x, i64[1] [1234567])\n  %y = Neg(%x)\n}\n",
};
enum { N_GRAPHS = sizeof graphs / sizeof *graphs, MOST = 8 };

static void assert_same(const Tensor *a, const Tensor *b) {
    tn_tensor x = {.t = *a}, y = {.t = *b};
    assert_true(tn_tensor_compare(&x, &y, 0, 0).same);
}

/* Twice with the same memory: the second run computes nothing, whatever was thrown away but for what is asked for. */
static void check_memo(Case *c, uint64_t max_bytes) {
    const Tensor *given[MOST] = {0};
    const Graph *g = c->model->ir->main;
    Tensor want[MOST], got;
    const Node *failed;
    MemoRun *run;
    Memo *memo;
    Context *ctx = c->model->ctx;
    for (size_t i = 0; i < c->n; i++) given[i] = &c->inputs[i]->t;
    bool whole = eval_graph(ctx, g, given, want) == TN_OK; /* which runs what is dead, too */
    OK(memo_new(ctx, max_bytes, &memo));
    for (int turn = 0; turn < 2; turn++) {
        uint64_t before = memo_n_computed(memo);
        OK(memo_run(memo, g, given, &run, &failed));
        if (turn) assert_int_equal(memo_n_computed(memo), before);
        for (size_t i = 0; i < graph_n_outputs(g); i++) {
            OK(memo_value(run, graph_output(g, i), &got));
            if (whole) assert_same(&got, &want[i]);
            tensor_release(&got);
        }
        assert_false(memo_is_random(run, graph_output(g, 0)));
        memo_run_free(run);
    }
    for (size_t i = 0; whole && i < graph_n_outputs(g); i++) tensor_release(&want[i]);
    memo_free(memo);
}

static void test_memo(void **state) {
    (void)state;
    TestHeap heap;
    test_heap_init(&heap);
    tn_context *context;
    OK(tn_context_create(&(tn_context_options){.threads = 1, .allocator = heap.allocator}, &context));
    for (size_t i = 0; i < N_GRAPHS; i++) {
        static const uint64_t limits[] = {0, 100, 1 << 20};
        for (int k = 0; k < 3; k++) {
            Case c;
            case_begin(&c, context, graphs[i]);
            check_memo(&c, limits[k]);
            case_end(&c);
        }
    }
    tn_context_release(context);
    assert_int_equal(heap.living, 0);
}

/* A chain of `n` nodes of which every one reads the last two. */
static void make_chain(Graph *g, int n) {
    Value *before = add_input(g, "x"), *last = add_node(g, "Neg", before, NULL, "v");
    for (int i = 0; i < n; i++) {
        Value *next = add_node(g, i % 2 ? "Sub" : "Add", last, before, "v");
        before = last;
        last = next;
    }
    OK(graph_add_output(g, last, STR("y")));
}

static Value *nth(Graph *g, int n) {
    Node *node = g->first;
    while (n--) node = node->next;
    return node->results[0];
}

/* Only what a change touched is computed again, and no node more than twice, however little is kept. */
static void test_only_touched(void **state) {
    (void)state;
    enum { N = 400, CHANGED = 300 };
    Fixture f;
    const Node *failed;
    MemoRun *run;
    Memo *memo;
    fixture_begin(&f);
    OK(graph_new(f.model, NULL, STR("chain"), &f.model->main));
    Graph *g = f.model->main;
    make_chain(g, N);
    Tensor x, first, second;
    OK(tensor_new(f.ctx, TN_F32, 1, (int64_t[]){4}, &x));
    for (int i = 0; i < 4; i++) ((float *)x.data)[i] = 1e-30F * (float)(i + 1);
    const Tensor *in = &x;
    for (int small = 0; small < 2; small++) {
        OK(memo_new(f.ctx, small ? 200 : 1 << 20, &memo));
        OK(memo_run(memo, g, &in, &run, &failed));
        assert_int_equal(memo_n_computed(memo), N + 1);
        OK(memo_value(run, graph_output(g, 0), &first));
        uint64_t contents = memo_contents(run, graph_output(g, 0));
        memo_run_free(run);
        Node *changed = nth(g, CHANGED)->def;
        const OpSchema *op = changed->op;
        changed->op = known_op("Mul");
        OK(memo_run(memo, g, &in, &run, &failed));
        uint64_t computed = memo_n_computed(memo) - (N + 1);
        if (small) assert_true(computed <= 2 * (N + 1));
        else assert_int_equal(computed, N + 1 - CHANGED);
        assert_true(memo_contents(run, graph_output(g, 0)) != contents);
        memo_run_free(run);
        changed->op = op;
        OK(memo_run(memo, g, &in, &run, &failed));
        assert_int_equal(memo_contents(run, graph_output(g, 0)), contents);
        OK(memo_value(run, graph_output(g, 0), &second));
        assert_same(&first, &second);
        tensor_release(&first);
        tensor_release(&second);
        memo_run_free(run);
        memo_free(memo);
    }
    tensor_release(&x);
    fixture_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),          cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_limits_agree),   cmocka_unit_test(test_output),
        cmocka_unit_test(test_does_not_run),   cmocka_unit_test(test_tampering),
        cmocka_unit_test(test_nested),         cmocka_unit_test(test_random),
        cmocka_unit_test(test_post_partition), cmocka_unit_test(test_reproducer),
        cmocka_unit_test(test_bit_by_bit),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_out_of_memory),  cmocka_unit_test(test_memo),
        cmocka_unit_test(test_only_touched),
    };
    return cmocka_run_group_tests(tests, add_passes, remove_passes);
}
