/* SPDX-License-Identifier: Apache-2.0 */
/* Rules by op, for those who walk a graph with them. */
#ifndef TENON_REWRITE_INDEX_INT_H
#define TENON_REWRITE_INDEX_INT_H

#include "rewrite/rewrite_int.h"

enum { SIEVES = 4 }; /* operands of a root that are looked at before it is matched */

typedef struct Entry {
    const Rule *rule;
    uint64_t sieve[SIEVES];
    struct Entry *next;
} Entry;
typedef struct Slot {
    const OpSchema *op;
    Entry *first;
} Slot;
struct Matcher {
    Arena arena;
    Slot *slots;
    size_t n_slots;
    size_t depth; /* of the deepest rule */
};

/* Those whose root may be of that op, in the order in which they were given. */
const Entry *matcher_rules(const Matcher *m, const OpSchema *op);
/* False: certainly not. */
bool entry_may_match(const Entry *e, const Node *root);

#endif
