/* SPDX-License-Identifier: Apache-2.0 */
/* The proof that boxes cover a dense result, each element once. Boxes that are aligned to a common grid are compared
   as boxes; others are counted off element by element. */
#include "geom/geom_int.h"

#include <stdlib.h>

/* Bounds of the proof by cutting: boxes beyond the list's own, and cuts. */
#define MOST_SIMPLE 64
#define MOST_CUTS 100000

/* A grid is a chain of strides, each a divisor of the next; a position has one coordinate a level. */
#define GRID_MAX 16
typedef struct Grid {
    int n;
    int64_t stride[GRID_MAX], size[GRID_MAX]; /* from the innermost out */
} Grid;

typedef struct Box {
    int64_t lo[GRID_MAX], hi[GRID_MAX]; /* half open */
} Box;

static bool grid_add(Grid *g, int64_t stride) {
    int k = 0;
    while (k < g->n && g->stride[k] < stride) k++;
    if (k < g->n && g->stride[k] == stride) return true;
    if (g->n == GRID_MAX) return false;
    memmove(g->stride + k + 1, g->stride + k, (size_t)(g->n - k) * sizeof *g->stride);
    g->stride[k] = stride;
    g->n++;
    return true;
}

static bool grid_find(Grid *g, const Region *regions, size_t n, int64_t count) {
    g->n = 0;
    grid_add(g, 1);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < regions[i].rank; k++)
            if (!grid_add(g, regions[i].dst_stride[k])) return false;
    for (int k = 0; k < g->n; k++) {
        int64_t next = k + 1 < g->n ? g->stride[k + 1] : count;
        if (next % g->stride[k] != 0) return false;
        g->size[k] = next / g->stride[k];
    }
    return true;
}

/* A normalised region as a box of the grid; a dimension that runs over a level's end spills whole rows into the next
   level. False when it is no box there. */
static bool grid_box(const Grid *g, const Region *r, Box *box) {
    int64_t sizes[GRID_MAX], at = r->dst_offset;
    for (int k = 0; k < g->n; k++) sizes[k] = 1;
    for (int d = 0; d < r->rank; d++)
        for (int k = 0; k < g->n; k++)
            if (g->stride[k] == r->dst_stride[d]) sizes[k] = r->size[d];
    for (int k = g->n - 1; k >= 0; k--) {
        box->lo[k] = at / g->stride[k];
        at %= g->stride[k];
    }
    for (int k = 0; k < g->n; k++) {
        if (sizes[k] > g->size[k] - box->lo[k]) {
            if (k + 1 == g->n || box->lo[k] != 0 || sizes[k] % g->size[k] != 0 || sizes[k + 1] != 1) return false;
            sizes[k + 1] = sizes[k] / g->size[k];
            sizes[k] = g->size[k];
        }
        box->hi[k] = box->lo[k] + sizes[k];
    }
    return true;
}

static bool boxes_meet(const Grid *g, const Box *a, const Box *b) {
    for (int k = 0; k < g->n; k++)
        if (a->hi[k] <= b->lo[k] || b->hi[k] <= a->lo[k]) return false;
    return true;
}

/* The level that tells most boxes apart, so that sorting by it leaves few to compare. */
static int sweep_level(const Grid *g, const Box *boxes, size_t n) {
    int best = 0;
    size_t best_steps = 0;
    for (int k = 0; k < g->n; k++) {
        size_t steps = 0;
        for (size_t i = 1; i < n; i++) steps += boxes[i].lo[k] != boxes[i - 1].lo[k];
        if (steps > best_steps) {
            best = k;
            best_steps = steps;
        }
    }
    return best;
}

/* Boxes are sorted by a copied key, since qsort passes no context. */
typedef struct Keyed {
    int64_t lo;
    const Box *box;
} Keyed;

static int by_lo(const void *a, const void *b) {
    int64_t x = ((const Keyed *)a)->lo, y = ((const Keyed *)b)->lo;
    return (x > y) - (x < y);
}

static bool boxes_disjoint(const Grid *g, const Box *boxes, Keyed *keyed, size_t n) {
    int level = sweep_level(g, boxes, n);
    for (size_t i = 0; i < n; i++) keyed[i] = (Keyed){boxes[i].lo[level], &boxes[i]};
    qsort(keyed, n, sizeof *keyed, by_lo);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n && keyed[j].lo < keyed[i].box->hi[level]; j++)
            if (boxes_meet(g, keyed[i].box, keyed[j].box)) return false;
    return true;
}

/* Marks each element; false when one is met twice. Positions are known to be within the bits. */
static bool mark(uint8_t *bits, const Region *r) {
    int64_t index[TN_MAX_RANK] = {0}, at = r->dst_offset;
    for (;;) {
        if (bits[at >> 3] >> (at & 7) & 1) return false;
        bits[at >> 3] |= (uint8_t)(1 << (at & 7));
        int k = r->rank - 1;
        for (; k >= 0; k--) {
            at += r->dst_stride[k];
            if (++index[k] < r->size[k]) break;
            at -= r->dst_stride[k] * r->size[k];
            index[k] = 0;
        }
        if (k < 0) return true;
    }
}

static bool disjoint_by_marking(const RegionList *list, int64_t count) {
    const Allocator *a = list->arena->allocator;
    size_t bytes = (size_t)(count / 8 + 1);
    uint8_t *bits = mem_alloc(a, bytes, 1);
    if (!bits) return false; /* no proof, no claim: the raster then fills first and runs in order */
    bool ok = true;
    for (size_t i = 0; ok && i < list->len; i++) ok = mark(bits, &list->data[i]);
    mem_free(a, bits, bytes);
    return ok;
}

/* True: proved disjoint. *known false: not aligned to a grid, nothing said. */
static bool disjoint_on_grid(const RegionList *list, int64_t count, bool *known) {
    Arena *arena = list->arena;
    Grid grid;
    Region *regions = arena_array(arena, Region, list->len);
    Box *boxes = arena_array(arena, Box, list->len);
    Keyed *keyed = arena_array(arena, Keyed, list->len);
    *known = false;
    if (!regions || !boxes || !keyed) return false;
    for (size_t i = 0; i < list->len; i++) {
        regions[i] = list->data[i];
        if (!region_normalise(&regions[i])) return false;
    }
    if (!grid_find(&grid, regions, list->len, count)) return false;
    for (size_t i = 0; i < list->len; i++)
        if (!grid_box(&grid, &regions[i], &boxes[i])) return false;
    *known = true;
    return boxes_disjoint(&grid, boxes, keyed, list->len);
}

/* Pair by pair, by cutting one box at the other. */
static bool disjoint_by_cutting(const RegionList *list) {
    const Allocator *a = list->arena->allocator;
    Arena *arena = list->arena;
    RegionList boxes = {.arena = arena};
    tn_status status = TN_OK;
    bool ok = true;
    for (size_t i = 0; ok && i < list->len; i++) {
        size_t first = boxes.len;
        Region r = region_without_source(&list->data[i]);
        ok = region_simplify(&boxes, &r, list->len + MOST_SIMPLE, &status);
        int64_t n = 0;
        for (size_t k = first; ok && k < boxes.len; k++) n += region_count(&boxes.data[k]);
        ok = ok && n == region_count(&list->data[i]); /* else one box writes twice where its stride is zero */
    }
    Cutter c;
    cutter_init(&c, a, MOST_CUTS);
    for (size_t i = 0; ok && i < boxes.len; i++) {
        const Region *r = &boxes.data[i];
        for (size_t j = 0; ok && j < i; j++) {
            c.open.len = c.found.len = 0;
            ok = cutter_open(&c, r, r->dst_offset, r->dst_stride) && cutter_match(&c, &boxes.data[j]) &&
                 c.found.len == 0;
        }
    }
    cutter_free(&c);
    return ok;
}

bool regions_disjoint(const RegionList *list) {
    int64_t count = 0;
    for (size_t i = 0; i < list->len; i++) {
        const Region *r = &list->data[i];
        int64_t lo, hi;
        if (!region_extent(r, r->dst_offset, r->dst_stride, &lo, &hi) || lo < 0 || hi >= INT64_MAX / 4) return false;
        count = max_i64(count, hi + 1);
    }
    ArenaMark start = arena_mark(list->arena);
    bool known, disjoint = disjoint_on_grid(list, count, &known);
    if (!known) disjoint = disjoint_by_cutting(list);
    arena_release(list->arena, start);
    return disjoint;
}

bool regions_cover(const RegionList *list, int64_t count) {
    int64_t total = 0;
    for (size_t i = 0; i < list->len; i++) {
        const Region *r = &list->data[i];
        int64_t lo, hi;
        if (!region_extent(r, r->dst_offset, r->dst_stride, &lo, &hi) || lo < 0 || hi >= count) return false;
        if (add_overflows(total, region_count(r), &total)) return false;
    }
    /* As many writes as elements: then they cover all exactly when no two meet. */
    if (total != count) return false;
    if (count == 0) return true;
    ArenaMark start = arena_mark(list->arena);
    bool known, disjoint = disjoint_on_grid(list, count, &known);
    arena_release(list->arena, start);
    return known ? disjoint : disjoint_by_marking(list, count);
}
