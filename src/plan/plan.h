/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetimes in, offsets out. Knows no graph. */
#ifndef TENON_PLAN_PLAN_H
#define TENON_PLAN_PLAN_H

#include "base/base.h"

#define PLAN_ALIGN 64

/* A piece of memory that is live from step `first` to step `last`, both included. An item with `alias` >= 0 lies in the
   memory of that earlier item, whose lifetime it extends; its own size must not be larger. An item with `fixed` >= 0
   stands at that offset already (its `first` is then no later than that of any other item). */
typedef struct PlanItem {
    int64_t size;
    int64_t fixed; /* -1: to be placed */
    int32_t first, last;
    int32_t alias; /* -1: memory of its own */
} PlanItem;

typedef struct PlanResult {
    int64_t size;  /* of the arena */
    int64_t bound; /* the largest sum of sizes (rounded up to PLAN_ALIGN) live at one step: no plan is smaller */
} PlanResult;

/* Offsets are multiples of PLAN_ALIGN. Items that are live at the same step do not overlap unless one is the other's
   alias. Deterministic; near-linear in n for large n. Scratch is given back. */
tn_status plan_offsets(Arena *scratch, const PlanItem *items, size_t n, int64_t *offsets, PlanResult *result);

#endif
