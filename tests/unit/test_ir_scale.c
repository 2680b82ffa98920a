/* SPDX-License-Identifier: Apache-2.0 */
/* Long and deep graphs on a small stack in linear time, and every failing allocation. */
#include <pthread.h>
#include <time.h>

#include "test_ir_common.h"

enum { LONG = 1000000, DEEP = 100000, STACK = 256 * 1024 };

/* Asserting jumps out of the test's own thread only, so these return what went wrong. */
typedef struct Job {
    tn_status (*run)(Context *ctx);
    Context *ctx;
    tn_status status;
    char text[256];
} Job;

static void *job_main(void *arg) {
    Job *job = arg;
    job->status = job->run(job->ctx);
    snprintf(job->text, sizeof job->text, "%s", diag_text());
    return NULL;
}

static void on_small_stack(tn_status (*run)(Context *ctx)) {
    Job job = {.run = run};
    pthread_t thread;
    pthread_attr_t attr;
    OK(context_new(NULL, &(tn_limits){.max_nodes = 16000000}, &job.ctx));
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attr, job_main, &job), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    context_unref(job.ctx);
    if (job.status != TN_OK) print_error("%s\n", job.text);
    assert_int_equal(job.status, TN_OK);
}

#define NEED(condition)                                                                  \
    do {                                                                                 \
        if (!(condition)) return fail(TN_INTERNAL, "line %d: %s", __LINE__, #condition); \
    } while (0)

static tn_status relu(Graph *g, const OpSchema *op, Value *x, const char *name, Value **out) {
    Node *node;
    TRY(node_new(g, op, &x, 1, 1, &node));
    node->results[0]->type = x->type;
    TRY(value_set_name(node->results[0], str_of(name)));
    node_append(node);
    *out = node->results[0];
    return TN_OK;
}

static tn_status count_node(Visitor *v, Node *node) {
    (void)node;
    ++*(size_t *)v->user;
    return TN_OK;
}

/* Two Relus for every thousandth, and for the last of a graph. */
static tn_status double_some(Mutator *m, const Node *node, Graph *into, Value *const *operands, Value **results,
                             bool *changed) {
    (void)m;
    if ((node->id % 1000 && node->next) || strcmp(node->op->name, "Relu") != 0) return TN_OK;
    Value *once;
    TRY(relu(into, node->op, operands[0], "twice", &once));
    TRY(relu(into, node->op, once, "twice", &results[0]));
    *changed = true;
    return TN_OK;
}

static tn_status same(Mutator *m, const Node *node, Graph *into, Value *const *operands, Value **results,
                      bool *changed) {
    (void)m, (void)node, (void)into, (void)operands, (void)results, (void)changed;
    return TN_OK;
}

static tn_status exercise(Model *model, Value *last, size_t n_nodes) {
    size_t count = 0;
    Visitor v = {.node = count_node, .user = &count};
    Model *other;
    TRY(model_verify(model));
    TRY(visit_model(model, &v));
    NEED(count == n_nodes);
    count = 0;
    TRY(visit_value(last, &v));
    NEED(count == n_nodes);
    TRY(model_compact_ids(model));
    TRY(model_clone(model, &other));
    TRY(model_verify(other));
    model_free(other);
    TRY(mutate_model(model, &(Mutator){.node = same}, &other));
    NEED(other == model);
    TRY(mutate_model(model, &(Mutator){.node = double_some}, &other));
    NEED(other != model);
    tn_status status = model_verify(other);
    model_free(other);
    return status;
}

static tn_status long_chain(Context *ctx) {
    Model *model;
    TRY(model_new(ctx, &model));
    const OpSchema *op = op_find((Str){NULL, 0}, STR("Relu"));
    Shape shape = {.rank = 1, .dims = {4}};
    Value *x;
    TRY(graph_add_input(model->main, STR("x"), type_tensor(model, TN_F32, &shape), &x));
    for (int i = 0; i < LONG; i++) TRY(relu(model->main, op, x, "same", &x)); /* a million equal names */
    TRY(graph_add_output(model->main, x, (Str){NULL, 0}));
    TRY(exercise(model, x, LONG));
    /* Backwards: each is replaced by what it reads. */
    Node *prev;
    for (Node *node = model->main->last; node; node = prev) {
        prev = node->prev;
        value_replace(node->results[0], node->operands[0].value);
        node_erase(node);
    }
    NEED(graph_output(model->main, 0) == model->main->inputs.data[0]);
    tn_status status = model_verify(model);
    model_free(model);
    return status;
}

/* If in If in If, each branch reading what the main graph defines. */
static tn_status deep_nest(Context *ctx) {
    Model *model;
    TRY(model_new(ctx, &model));
    const OpSchema *op = op_find((Str){NULL, 0}, STR("If")), *inner = op_find((Str){NULL, 0}, STR("Relu"));
    Shape scalar = {.rank = 0}, shape = {.rank = 1, .dims = {4}};
    Value *cond, *x, *y, *first = NULL;
    TRY(graph_add_input(model->main, STR("cond"), type_tensor(model, TN_BOOL, &scalar), &cond));
    TRY(graph_add_input(model->main, STR("x"), type_tensor(model, TN_F32, &shape), &x));
    Graph *graph = model->main;
    for (int i = 0; i < DEEP; i++) {
        Node *node;
        TRY(node_new(graph, op, &cond, 1, 1, &node));
        node->results[0]->type = x->type;
        node_append(node);
        TRY(graph_add_output(graph, node->results[0], STR("r")));
        if (!first) first = node->results[0];
        Graph *branches[2];
        for (int k = 0; k < 2; k++) {
            TRY(graph_new(model, node, STR(""), &branches[k]));
            TRY(node_set_graph(node, k ? "then_branch" : "else_branch", branches[k]));
        }
        TRY(graph_add_output(branches[0], x, STR("r")));
        graph = branches[1];
    }
    TRY(relu(graph, inner, x, "y", &y));
    TRY(graph_add_output(graph, y, STR("r")));
    NEED(graph_depth(graph) == DEEP);
    TRY(exercise(model, first, DEEP + 1));
    value_replace(first, x);
    node_erase(first->def);
    NEED(!y->def->graph && model->main->n_nodes == 0);
    tn_status status = model_verify(model);
    model_free(model);
    return status;
}

static void test_long(void **state) {
    (void)state;
    on_small_stack(long_chain);
}

static void test_deep(void **state) {
    (void)state;
    on_small_stack(deep_nest);
}

/* ---- every failing allocation -------------------------------------------------------------------------------- */

static tn_status build_small(Model *m) {
    Graph *g = m->main;
    Value *x, *cond, *y, *c;
    Node *node;
    Shape shape = {.rank = 2}, flag = {.rank = 0};
    shape.dims[0] = dim_symbol(&m->dims, STR("n"));
    if (shape.dims[0] == DIM_UNKNOWN) return TN_OUT_OF_MEMORY;
    shape.dims[1] = dim_mul(&m->dims, shape.dims[0], 3);
    if (shape.dims[1] == DIM_UNKNOWN) return TN_OUT_OF_MEMORY;
    const Type *type = type_tensor(m, TN_F32, &shape), *bool_type = type_tensor(m, TN_BOOL, &flag), *merged;
    if (!type || !bool_type) return TN_OUT_OF_MEMORY;
    TRY(graph_add_input(g, STR("x"), type, &x));
    TRY(graph_add_input(g, STR("cond"), bool_type, &cond));
    TRY(const_ints(g, (int64_t[]){1, 2, 3}, 3, false, &c));
    TRY(value_set_name(c, STR("x")));
    for (int i = 0; i < 40; i++) TRY(relu(g, op_find((Str){NULL, 0}, STR("Relu")), x, "r", &x));
    TRY(node_new(g, op_find((Str){NULL, 0}, STR("Concat")), &x, 1, 1, &node));
    node_append(node);
    TRY(node_set_int(node, "axis", 0));
    for (int i = 0; i < 100; i++) TRY(node_add_operand(node, x));
    y = node->results[0];
    TRY(type_merge(m, y->type, type, &merged));
    y->type = merged;
    TRY(node_new(g, op_find((Str){NULL, 0}, STR("If")), &cond, 1, 1, &node));
    node_append(node);
    for (int k = 0; k < 2; k++) {
        Graph *branch;
        Value *inside;
        TRY(graph_new(m, node, STR("branch"), &branch));
        TRY(node_set_graph(node, k ? "then_branch" : "else_branch", branch));
        TRY(relu(branch, op_find((Str){NULL, 0}, STR("Relu")), y, "inside", &inside));
        TRY(graph_add_output(branch, inside, (Str){NULL, 0}));
    }
    return graph_add_output(g, node->results[0], STR("result"));
}

static tn_status scenario(const Allocator *a) {
    Context *ctx;
    Model *m = NULL, *copy = NULL, *changed = NULL;
    size_t count = 0;
    Visitor v = {.node = count_node, .user = &count};
    TRY(context_new(a, NULL, &ctx));
    tn_status status = model_new(ctx, &m);
    if (status == TN_OK) {
        status = build_small(m);
        /* Whole or not, what there is holds together: only an If may lack its branches or an axis be missing. */
        int64_t fail_at = ((TestHeap *)a->user)->fail_at;
        ((TestHeap *)a->user)->fail_at = 0;
        tn_status sound = model_verify(m);
        assert_true(sound == TN_OK || strstr(diag_text(), "attribute") || strstr(diag_text(), "names for them") ||
                    strstr(diag_text(), "stands in no graph"));
        ((TestHeap *)a->user)->fail_at = status == TN_OK ? fail_at : 0;
    }
    if (status == TN_OK) status = model_verify(m);
    if (status == TN_OK) status = visit_model(m, &v);
    if (status == TN_OK) status = visit_value(graph_output(m->main, 0), &v);
    if (status == TN_OK) status = model_compact_ids(m);
    if (status == TN_OK) status = model_clone(m, &copy);
    if (status == TN_OK) status = mutate_model(m, &(Mutator){.node = double_some}, &changed);
    if (status == TN_OK) status = model_verify(changed);
    model_free(m);
    model_free(copy);
    if (changed != m) model_free(changed);
    context_unref(ctx);
    return status;
}

static void test_out_of_memory(void **state) {
    (void)state;
    int64_t fail_at = 1;
    for (;; fail_at++) {
        TestHeap heap;
        test_heap_init(&heap);
        heap.fail_at = fail_at;
        tn_status status = scenario(&heap.allocator);
        assert_int_equal(heap.living, 0);
        if (status == TN_OK) break;
        assert_int_equal(status, TN_OUT_OF_MEMORY);
    }
    assert_true(fail_at > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
