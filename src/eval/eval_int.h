/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of eval/ share with each other only: the table of values that a graph's nodes read and write, and the
   keys under which a memo keeps results. */
#ifndef TENON_EVAL_EVAL_INT_H
#define TENON_EVAL_EVAL_INT_H

#include "eval/eval.h"

typedef struct Evaluator {
    KernelHost host; /* first: a host pointer is an Evaluator pointer */
    Context *ctx;
    Arena *scratch; /* for one node at a time */
    Tensor *values; /* by value id; NULL when only one node runs */
    bool *have;
    Tensor *allocated;        /* results of the node that runs now */
    struct NestedRun *nested; /* results of nested graphs of the node that runs now */
} Evaluator;

/* The table is on `arena`; what it holds is to be dropped before that goes. */
tn_status evaluator_init(Evaluator *e, const Model *model, Arena *arena, Arena *scratch);
/* `own`: takes over the tensor's reference. What was bound before is dropped. */
void evaluator_bind(Evaluator *e, const Value *value, const Tensor *t, bool own);
/* A constant's payload, or a copy where its bytes lie askew. */
tn_status evaluator_bind_constant(Evaluator *e, const Value *value, const Tensor *payload);
void evaluator_drop(Evaluator *e, const Value *value);
void evaluator_drop_graph(Evaluator *e, const Graph *graph); /* its inputs and results */
/* Runs a node whose operands, and what its nested graphs capture, are bound; binds its results. */
tn_status evaluator_node(Evaluator *e, const Node *node);

/* ---- memo_key.c ---------------------------------------------------------------------------------------------- */

/* The nested graphs of a node of the main graph, all levels of them. */
typedef struct Nested {
    uint64_t structure; /* what they compute from their inputs and captures */
    Value **captures;   /* values of the main graph */
    size_t n;
    bool random;
} Nested;

/* Makes keys. One for a graph. */
typedef struct Keys {
    Context *ctx;
    Arena *arena;   /* what it makes */
    Arena *scratch; /* for one call at a time */
    const Graph *main;
    uint32_t *numbers; /* of the values that the nested graphs of the node at hand define or capture, by id; 0: none */
    VEC(uint64_t) random; /* nodes that draw random numbers */
    /* While the nested graphs of a node are looked at: */
    uint64_t h;
    uint32_t n_numbers;
    VEC(Value *) captures;
    VEC(Graph *) graphs;
} Keys;
tn_status keys_init(Keys *keys, const Graph *main, Arena *arena, Arena *scratch);
void keys_free(Keys *keys);
/* *out NULL: nothing is nested in it. */
tn_status keys_nested(Keys *keys, const Node *node, Nested **out);
/* The key of a node's results. `contents` finds what memo_contents is for its operands and captures. */
tn_status keys_node(Keys *keys, const Node *node, const Nested *nested,
                    uint64_t (*contents)(void *user, const Value *v), void *user, uint64_t *key);
/* Adds the node to keys->random if it draws random numbers. */
tn_status keys_note_random(Keys *keys, const Node *node, bool *random);
/* A number for the set in keys->random. */
uint64_t keys_random(Keys *keys);
/* A number for type, sizes and bits. */
tn_status tensor_contents(Context *ctx, Arena *scratch, const Tensor *t, uint64_t *out);

#endif
