/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps numbers along a graph's list of nodes, so that which of two stands first is one comparison. Appending takes
   the next number far away, inserting the middle of a gap. Where no gap is left, the smallest aligned range of numbers
   around that is sparse enough is spread evenly: O(log n) amortised (Bender et al., "Two simplified algorithms for
   maintaining order in a list"). */
#include "ir/ir_int.h"

enum { STEP_BITS = 20, RANGE_BITS = 62 };

bool node_comes_before(const Node *a, const Node *b) { return a->order < b->order; }

/* A range of 2^bits numbers may hold this many nodes: (2/T)^bits with T = 1.4. */
static double capacity_of(int bits) {
    double n = 1;
    for (int i = 0; i < bits; i++) n *= 2 / 1.4;
    return n;
}

static void spread(Node *first, size_t n, uint64_t base, int bits) {
    uint64_t step = ((uint64_t)1 << bits) / (n + 1);
    for (size_t i = 0; i < n; i++, first = first->next) first->order = base + (i + 1) * step;
}

/* `at` is a neighbour's number; `node` itself has none yet. */
static void make_gap(Node *node, uint64_t at) {
    Node *first = node, *last = node;
    size_t n = 1;
    for (int bits = 1; bits < RANGE_BITS; bits++) {
        uint64_t base = at & ~(((uint64_t)1 << bits) - 1), end = base + ((uint64_t)1 << bits);
        while (first->prev && first->prev->order >= base) first = first->prev, n++;
        while (last->next && last->next->order < end) last = last->next, n++;
        if ((double)n > capacity_of(bits) || ((uint64_t)1 << bits) / (n + 1) < 2) continue;
        spread(first, n, base, bits);
        return;
    }
    /* Never reached with fewer than 2^31 nodes. */
    for (first = node->graph->first, n = 1; first; first = first->next) first->order = n++ << STEP_BITS;
}

void order_assign(Node *node) {
    uint64_t low = node->prev ? node->prev->order : 0;
    if (!node->next && low < (uint64_t)1 << (RANGE_BITS - 1)) {
        node->order = low + ((uint64_t)1 << STEP_BITS);
        return;
    }
    uint64_t high = node->next ? node->next->order : (uint64_t)1 << RANGE_BITS;
    if (high - low >= 2) node->order = low + (high - low) / 2;
    else make_gap(node, low ? low : high);
}
