/* SPDX-License-Identifier: Apache-2.0 */
/* All variants of a graph at once: its own nodes, those that rules added, and which values are equal. */
#ifndef TENON_REWRITE_SATURATE_INT_H
#define TENON_REWRITE_SATURATE_INT_H

#include "rewrite/index_int.h"

/* Constants that are there, so that each is made once. */
enum { CONSTANT_HEADS = 1024 };
typedef struct KnownConstant {
    uint64_t hash;
    Node *node;
    uint32_t next; /* one more than its place in the list; 0: none */
} KnownConstant;

typedef struct Saturation {
    Matcher *matcher;
    Graph *graph;
    const RewriteHooks *hooks;
    const SaturateLimits *limits;
    SaturateResult *result;
    const Allocator *allocator;
    Arena arena; /* of one match */
    Match match;
    Built built;
    Classes classes;
    size_t cap;        /* of its tables */
    uint32_t *scratch; /* by value id, for whoever needs one */
    VEC(Node *) nodes; /* alive; those of the graph first, in its order */
    size_t n_own;
    VEC(KnownConstant) constants;
    uint32_t heads[CONSTANT_HEADS];
    VEC(Value *) unions; /* pairs found equal in this iteration */
    uint64_t deadline;
    size_t most_used; /* of the model's arena; 0: no limit */
    size_t n_matches; /* of the rule at hand */
} Saturation;

uint32_t class_find(Classes *c, uint32_t id);
void class_union(Classes *c, uint32_t a, uint32_t b);
/* Room for the values that were made since. */
tn_status classes_grow(Saturation *s);
/* Takes the cheapest variant, or the graph as it was; erases all others. */
tn_status saturation_extract(Saturation *s);

#endif
