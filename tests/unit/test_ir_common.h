/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of graphs share: models on a counting heap, nodes by op name, comparisons of text. */
#ifndef TEST_IR_COMMON_H
#define TEST_IR_COMMON_H

#include <stdio.h>

#include "test_base_alloc.h"

#include "ir/ir.h"

#define OK(expr) assert_true(check_ok(expr, #expr))

static inline bool check_ok(tn_status status, const char *what) {
    if (status != TN_OK) print_error("%s: %s: %s\n", what, status_name(status), diag_text());
    return status == TN_OK;
}

/* The last diagnostic says `part`. */
static inline void assert_says(const char *part) {
    if (!strstr(diag_text(), part)) print_error("\"%s\" does not say \"%s\"\n", diag_text(), part);
    assert_non_null(strstr(diag_text(), part));
}

typedef struct Fixture {
    TestHeap heap;
    Context *ctx;
    Model *model;
} Fixture;

static inline void fixture_begin(Fixture *f) {
    test_heap_init(&f->heap);
    OK(context_new(&f->heap.allocator, NULL, &f->ctx));
    OK(model_new(f->ctx, &f->model));
}

static inline void fixture_end(Fixture *f) {
    model_free(f->model);
    context_unref(f->ctx);
    assert_int_equal(f->heap.living, 0);
}

static inline const Type *vector_type(Model *model, tn_dtype dtype, Dim n) {
    Shape shape = {.rank = 1, .dims = {n}};
    return type_tensor(model, dtype, &shape);
}

static inline const OpSchema *known_op(const char *name) {
    const OpSchema *op = op_named(str_of(name));
    if (!op) print_error("no op %s\n", name);
    assert_non_null(op);
    return op;
}

/* A node of up to two operands at the end of the graph; its result is of type f32[4] and called `name`. */
static inline Value *add_node(Graph *graph, const char *op, Value *a, Value *b, const char *name) {
    Node *node;
    Value *operands[] = {a, b};
    OK(node_new(graph, known_op(op), operands, b ? 2 : a ? 1 : 0, 1, &node));
    node->results[0]->type = vector_type(graph->model, TN_F32, 4);
    OK(value_set_name(node->results[0], str_of(name)));
    node_append(node);
    return node->results[0];
}

static inline Value *add_input(Graph *graph, const char *name) {
    Value *value;
    OK(graph_add_input(graph, str_of(name), vector_type(graph->model, TN_F32, 4), &value));
    return value;
}

/* An If without nodes in its two branches; what they return is up to the caller. */
static inline Node *add_if(Graph *graph, Value *cond, const char *name) {
    Node *node;
    Graph *branch;
    OK(node_new(graph, known_op("If"), &cond, 1, 1, &node));
    node->results[0]->type = vector_type(graph->model, TN_F32, 4);
    OK(value_set_name(node->results[0], str_of(name)));
    OK(graph_new(graph->model, node, STR("then"), &branch));
    OK(node_set_graph(node, "then_branch", branch));
    OK(graph_new(graph->model, node, STR("else"), &branch));
    OK(node_set_graph(node, "else_branch", branch));
    node_append(node);
    return node;
}

static inline size_t count_uses(const Value *value) {
    size_t n = 0;
    for (const Use *use = value->uses; use; use = use->next) n++;
    return n;
}

/* A small repeatable random source. */
static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
