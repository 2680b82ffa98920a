/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets by several greedy orders; the smallest arena wins. Finding the optimum is NP-hard, but the bound is nearly
   always met: the orders below differ in which hard cases they lose on. */
#include "plan/plan.h"

#include <stdlib.h>

typedef struct Block {
    int64_t size, offset;
    int32_t first, last, item;
    int64_t pressure; /* the largest sum of sizes live at once while it lives */
} Block;

typedef struct Planner {
    Block *blocks; /* one for each item that is no alias and has a size */
    size_t n, n_fixed;
    Block **order;  /* the order of placing; fixed blocks are not in it */
    Block **placed; /* by ascending offset, or by end of life */
    int64_t *best;  /* offsets of the best arena so far, by block */
    int64_t best_size;
    int32_t n_steps;
} Planner;

/* Beyond this many blocks only the order by time is tried: the others compare each block with each placed one. */
#define QUADRATIC_MAX 6000

/* ---- lifetimes and the bound --------------------------------------------------------------------------------- */

/* Fixed blocks come first, so that p->blocks[0..n_fixed) are those. An alias stands behind what it is an alias of. */
static void make_blocks(Planner *p, const PlanItem *items, size_t n, int32_t *block_of) {
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            if (pass == 0) block_of[i] = -1;
            if (items[i].alias >= 0 || items[i].size <= 0 || (items[i].fixed >= 0) != (pass == 0)) continue;
            block_of[i] = (int32_t)p->n;
            int64_t size = (items[i].size + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
            p->blocks[p->n++] = (Block){size, items[i].fixed, items[i].first, items[i].last, (int32_t)i, 0};
        }
        if (pass == 0) p->n_fixed = p->n;
    }
    for (size_t i = 0; i < n; i++) {
        if (items[i].alias < 0) continue;
        int32_t b = block_of[i] = block_of[items[i].alias];
        if (b < 0) continue;
        if (items[i].first < p->blocks[b].first) p->blocks[b].first = items[i].first;
        if (items[i].last > p->blocks[b].last) p->blocks[b].last = items[i].last;
    }
    for (size_t i = 0; i < p->n; i++)
        if (p->blocks[i].last >= p->n_steps) p->n_steps = p->blocks[i].last + 1;
}

static int64_t live_bound(const Planner *p, int64_t *change) {
    for (size_t i = 0; i < p->n; i++) {
        change[p->blocks[i].first] += p->blocks[i].size;
        change[p->blocks[i].last + 1] -= p->blocks[i].size;
    }
    int64_t bound = 0;
    for (int32_t s = 1; s <= p->n_steps; s++) change[s] += change[s - 1];
    for (int32_t s = 0; s <= p->n_steps; s++) bound = max_i64(bound, change[s]);
    for (size_t i = 0; i < p->n && p->n <= QUADRATIC_MAX; i++)
        for (int32_t s = p->blocks[i].first; s <= p->blocks[i].last; s++)
            p->blocks[i].pressure = max_i64(p->blocks[i].pressure, change[s]);
    return bound;
}

/* ---- placing against everything that overlaps in time -------------------------------------------------------- */

/* The lowest gap that fits among blocks live at the same time, the tightest one if several do. */
static int64_t find_gap(const Planner *p, size_t n_placed, const Block *b) {
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (size_t i = 0; i < n_placed; i++) {
        const Block *q = p->placed[i];
        if (q->last < b->first || q->first > b->last) continue;
        int64_t gap = q->offset - end;
        if (gap >= b->size && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        if (q->offset + q->size > end) end = q->offset + q->size;
    }
    return best >= 0 ? best : end;
}

static void keep_if_better(Planner *p, int64_t size) {
    if (size >= p->best_size) return;
    p->best_size = size;
    for (size_t i = 0; i < p->n; i++) p->best[i] = p->blocks[i].offset;
}

/* Enters block number i of those placed, in order of offsets; returns the larger of `size` and its end. */
static int64_t enter_placed(Planner *p, size_t i, Block *b, int64_t size) {
    size_t at = i;
    for (; at > 0 && p->placed[at - 1]->offset > b->offset; at--) p->placed[at] = p->placed[at - 1];
    p->placed[at] = b;
    return max_i64(size, b->offset + b->size);
}

static void place_in_order(Planner *p) {
    int64_t size = 0;
    for (size_t i = 0; i < p->n_fixed; i++) size = enter_placed(p, i, &p->blocks[i], size);
    for (size_t i = p->n_fixed; i < p->n; i++) {
        Block *b = p->order[i - p->n_fixed];
        b->offset = find_gap(p, i, b);
        size = enter_placed(p, i, b, size);
    }
    keep_if_better(p, size);
}

static int order_by(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int by_size(const void *x, const void *y) {
    const Block *a = *(Block *const *)x, *b = *(Block *const *)y;
    int c = order_by(b->size, a->size);
    if (!c) c = order_by((int64_t)b->last - b->first, (int64_t)a->last - a->first);
    return c ? c : order_by(a->item, b->item);
}

static int by_area(const void *x, const void *y) {
    const Block *a = *(Block *const *)x, *b = *(Block *const *)y;
    double s = (double)a->size * (a->last - a->first + 1), t = (double)b->size * (b->last - b->first + 1);
    return s != t ? (s < t ? 1 : -1) : order_by(a->item, b->item);
}

static int by_time(const void *x, const void *y) {
    const Block *a = *(Block *const *)x, *b = *(Block *const *)y;
    int c = order_by(a->first, b->first);
    if (!c) c = order_by(b->size, a->size);
    return c ? c : order_by(a->item, b->item);
}

/* What lives when memory is scarcest first. */
static int by_pressure(const void *x, const void *y) {
    const Block *a = *(Block *const *)x, *b = *(Block *const *)y;
    int c = order_by(b->pressure, a->pressure);
    return c ? c : by_size(x, y);
}

static int by_life(const void *x, const void *y) {
    const Block *a = *(Block *const *)x, *b = *(Block *const *)y;
    int c = order_by((int64_t)b->last - b->first, (int64_t)a->last - a->first);
    return c ? c : by_size(x, y);
}

/* ---- placing by time with a list of free ranges: linear in the number of blocks live at once ------------------ */

typedef struct Range {
    int64_t begin, end;
} Range;

/* Removes [begin, end) from use: adds it to the sorted free list, merged with its neighbours. */
static size_t free_range(Range *list, size_t n, int64_t begin, int64_t end) {
    size_t at = n;
    for (; at > 0 && list[at - 1].begin > begin; at--) list[at] = list[at - 1];
    list[at] = (Range){begin, end};
    n++;
    if (at + 1 < n && list[at].end == list[at + 1].begin) {
        list[at].end = list[at + 1].end;
        memmove(&list[at + 1], &list[at + 2], (n - at - 2) * sizeof *list);
        n--;
    }
    if (at > 0 && list[at - 1].end == list[at].begin) {
        list[at - 1].end = list[at].end;
        memmove(&list[at], &list[at + 1], (n - at - 1) * sizeof *list);
        n--;
    }
    return n;
}

static int by_last(const void *x, const void *y) {
    const Block *a = *(Block *const *)x, *b = *(Block *const *)y;
    int c = order_by(a->last, b->last);
    return c ? c : order_by(a->item, b->item);
}

static int by_offset(const void *x, const void *y) {
    const Block *a = x, *b = y;
    return order_by(a->offset, b->offset);
}

/* The gaps between fixed blocks (which alone may overlap: aliases of earlier plans do not). Returns their end. */
static int64_t free_around_fixed(Planner *p, Range *list, size_t *n) {
    int64_t top = 0;
    for (size_t i = 0; i < p->n_fixed; i++) {
        if (p->blocks[i].offset > top) list[(*n)++] = (Range){top, p->blocks[i].offset};
        top = max_i64(top, p->blocks[i].offset + p->blocks[i].size);
    }
    return top;
}

/* p->order is by time, p->placed by end of life. */
static tn_status place_by_time(Planner *p, Arena *scratch) {
    Range *list = arena_array(scratch, Range, p->n + 2);
    if (!list) return TN_OUT_OF_MEMORY;
    size_t n = 0, dead = 0;
    int64_t top = free_around_fixed(p, list, &n);
    for (size_t i = 0; i < p->n - p->n_fixed; i++) {
        Block *b = p->order[i];
        for (; dead < p->n && p->placed[dead]->last < b->first; dead++)
            n = free_range(list, n, p->placed[dead]->offset, p->placed[dead]->offset + p->placed[dead]->size);
        size_t best = n;
        for (size_t k = 0; k < n; k++)
            if (list[k].end - list[k].begin >= b->size &&
                (best == n || list[k].end - list[k].begin < list[best].end - list[best].begin))
                best = k;
        if (best < n) {
            b->offset = list[best].begin;
            list[best].begin += b->size;
            if (list[best].begin == list[best].end) {
                memmove(&list[best], &list[best + 1], (n - best - 1) * sizeof *list);
                n--;
            }
        } else if (n > 0 && list[n - 1].end == top) { /* the free end of the arena grows */
            b->offset = list[--n].begin;
            top = b->offset + b->size;
        } else {
            b->offset = top;
            top += b->size;
        }
    }
    keep_if_better(p, top);
    return TN_OK;
}

/* ---- all orders ---------------------------------------------------------------------------------------------- */

/* Rounds of mending: the block that stands highest is placed before the others next time. */
#define REPAIR_ROUNDS 40
#define REPAIR_MAX 1500

static void repair(Planner *p, size_t n, int64_t bound) {
    for (int round = 0; round < REPAIR_ROUNDS && n <= REPAIR_MAX && p->best_size > bound; round++) {
        size_t top = 0;
        for (size_t i = 1; i < n; i++)
            if (p->order[i]->offset + p->order[i]->size > p->order[top]->offset + p->order[top]->size) top = i;
        if (top == 0) return;
        Block *b = p->order[top];
        memmove(&p->order[1], &p->order[0], top * sizeof(Block *));
        p->order[0] = b;
        place_in_order(p);
    }
}

static tn_status try_orders(Planner *p, Arena *scratch, int64_t bound) {
    static int (*const orders[])(const void *, const void *) = {by_pressure, by_size, by_area, by_life, by_time};
    size_t n = p->n - p->n_fixed;
    qsort(p->blocks, p->n_fixed, sizeof *p->blocks, by_offset);
    for (size_t i = 0; i < p->n; i++) p->placed[i] = &p->blocks[i];
    for (size_t i = 0; i < n; i++) p->order[i] = &p->blocks[p->n_fixed + i];
    qsort(p->order, n, sizeof *p->order, by_time);
    qsort(p->placed, p->n, sizeof *p->placed, by_last);
    TRY(place_by_time(p, scratch));
    for (size_t k = 0; k < 5 && p->n <= QUADRATIC_MAX && p->best_size > bound; k++) {
        for (size_t i = 0; i < n; i++) p->order[i] = &p->blocks[p->n_fixed + i];
        qsort(p->order, n, sizeof *p->order, orders[k]);
        place_in_order(p);
        repair(p, n, bound);
    }
    return TN_OK;
}

static tn_status plan(Arena *scratch, const PlanItem *items, size_t n, int64_t *offsets, PlanResult *result) {
    Planner p = {.best_size = INT64_MAX};
    int32_t *block_of = arena_array(scratch, int32_t, n + 1);
    p.blocks = arena_array(scratch, Block, n + 1);
    p.order = arena_array(scratch, Block *, n + 1);
    p.placed = arena_array(scratch, Block *, n + 1);
    p.best = arena_array(scratch, int64_t, n + 1);
    if (!block_of || !p.blocks || !p.order || !p.placed || !p.best) return TN_OUT_OF_MEMORY;
    make_blocks(&p, items, n, block_of);
    int64_t *change = arena_array(scratch, int64_t, (size_t)p.n_steps + 2);
    if (!change) return TN_OUT_OF_MEMORY;
    result->bound = live_bound(&p, change);
    TRY(try_orders(&p, scratch, result->bound));
    result->size = p.best_size;
    for (size_t i = 0; i < n; i++) {
        if (items[i].alias >= 0) offsets[i] = offsets[items[i].alias];
        else if (items[i].fixed >= 0) offsets[i] = items[i].fixed;
        else offsets[i] = block_of[i] < 0 ? 0 : p.best[block_of[i]];
    }
    return TN_OK;
}

tn_status plan_offsets(Arena *scratch, const PlanItem *items, size_t n, int64_t *offsets, PlanResult *result) {
    *result = (PlanResult){0};
    if (n == 0) return TN_OK;
    ArenaMark mark = arena_mark(scratch);
    tn_status status = plan(scratch, items, n, offsets, result);
    arena_release(scratch, mark);
    return status;
}
