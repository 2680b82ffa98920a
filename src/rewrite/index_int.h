/* SPDX-License-Identifier: Apache-2.0 */
/* Rules by op, for those who walk a graph with them. */
#ifndef TENON_REWRITE_INDEX_INT_H
#define TENON_REWRITE_INDEX_INT_H

#include "rewrite/rewrite_int.h"

typedef struct Entry {
    const Rule *rule;
    uint64_t constant;     /* bits of the rule's values that must be */
    const uint16_t *ranks; /* by value: bits of the ranks that it may be of; NULL: nothing is asked of any */
    struct Entry *next;
} Entry;
typedef struct IndexSlot {
    const OpSchema *op;
    bool met;
    uint32_t age; /* the matcher's when this was filled */
    Entry *first;
} IndexSlot;
/* No rule of the library is deeper, so what a change may reach does not depend on which were read. */
enum { RULES_REACH = 9 };
struct Matcher {
    Arena arena;
    const Rule **rules;
    size_t n_rules;
    IndexSlot *slots;
    size_t n_slots;
    size_t depth; /* of the deepest rule */
    bool choosy;  /* rules that need ops which were not met are left out, so they need not be read */
    OpSet met;
    uint32_t age; /* grows with `met`: then there may be more rules for an op than before */
};

/* Those whose root may be of that op, in the order in which they were given. */
tn_status matcher_rules(Matcher *m, const OpSchema *op, const Entry **first);
/* A node of that op is there. */
void matcher_meet(Matcher *m, const OpSchema *op);

/* ---- what is not constant (varying.c) ---------------------------------------------------------------------------- */

/* By node id: 1 where it depends on an input of the graph, on chance or on control. Others may, as well. */
typedef VEC(uint8_t) Varying;
tn_status varying_add(Varying *x, const Allocator *a, const Node *node); /* what it reads is there already */
/* A value has new readers: where they depended on what it replaced only, they are constant now. */
tn_status varying_settle(Varying *x, const Allocator *a, const Value *value);

/* ---- shortlists ------------------------------------------------------------------------------------------------- */

/* The op of a node, and those that make its first operands: 0 where nothing does; VARIES is added where it is certain not to be
   constant. Where rules ask for them, behind these the ops that make the operands of some of those, ABOVE each, and ranks. */
enum {
    AROUND = 4,
    ABOVE = 3,
    OF_OPERANDS = 1,
    OF_ABOVE = OF_OPERANDS + AROUND,
    MOST_AROUND = OF_ABOVE + AROUND * ABOVE
};
enum { VARIES = 1 };
typedef struct Surroundings {
    uintptr_t ops[MOST_AROUND];
    size_t n;
    uint64_t ranks; /* 4 bits each, of the operands and then of theirs: rank + 1; 0: not known; UNSAID */
} Surroundings;
enum { RANK_BITS = 4, UNSAID = 15 };

/* What nodes with the same surroundings may be the root of, found once: then all that matching costs are the rules that
   nearly fit, however many there are. Those that were found last are kept. */
enum { SHORTLISTS = 512, PROBES = 4, RANKS = 1 << AROUND };
typedef struct Shortlist {
    Surroundings key;
    const Rule *const *rules; /* up to NULL, in the order in which they were given; NULL: there is no list here */
    uint32_t wanted; /* what rules among them ask for and the key does not say: bit i, above operand i; RANKS */
} Shortlist;
typedef struct Shortlists {
    Arena arena;
    uint32_t age; /* the matcher's when they were made */
    Shortlist lists[SHORTLISTS];
} Shortlists;
tn_status shortlist_find(Shortlists *s, Matcher *m, const Varying *varying, const Node *root,
                         const Rule *const **rules);

#endif
