/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of regions against lists of regions: reading a virtual value is reading what it is made of. */
#include "geom/geom_int.h"

#define CUTS_PER_REGION 256  /* what may be cut for each region that may result */
#define MOST_PAIRS (1 << 22) /* of regions that are compared */

/* One index of dimension k at a time, outermost first: in that order later writes stay. */
static bool simplify(RegionList *list, const Region *region, size_t limit, tn_status *status) {
    Region sorted = *region, r = *region;
    int k = 0;
    if (region_normalise(&sorted)) {
        if (list->len >= limit) return false;
        *status = region_push(list, &sorted);
        return *status == TN_OK;
    }
    while (k < r.rank && r.size[k] == 1) k++;
    if (k == r.rank) return false; /* one element, and yet its position overflows */
    int64_t n = r.size[k];
    r.size[k] = 1;
    for (int64_t i = 0; i < n; i++) {
        if (!simplify(list, &r, limit, status)) return false;
        if (i + 1 < n && (add_overflows(r.src_offset, r.src_stride[k], &r.src_offset) ||
                          add_overflows(r.dst_offset, r.dst_stride[k], &r.dst_offset)))
            return false;
    }
    return true;
}

bool region_simplify(RegionList *list, const Region *region, size_t limit, tn_status *status) {
    Region r = *region;
    *status = TN_OK;
    for (int k = 0; k < r.rank; k++) { /* where it writes the same place again, the last index stays */
        int64_t last;
        if (r.dst_stride[k] != 0) continue;
        if (mul_overflows(r.size[k] - 1, r.src_stride[k], &last) || add_overflows(r.src_offset, last, &r.src_offset))
            return false;
        r.size[k] = 1;
    }
    return simplify(list, &r, limit, status);
}

/* ---- composing ------------------------------------------------------------------------------------------------ */

/* A virtual source ready to be read: normalised boxes, and from where to where each writes. */
typedef struct Writers {
    bool ready;
    RegionList list;
    int64_t *lo, *hi;
} Writers;

typedef struct Compose {
    const ComposeSource *sources;
    size_t limit;
    int64_t pairs;
    Arena scratch;
    Writers *writers;
    Cutter *cutter;
    RegionList *out;
    tn_status status;
} Compose;

static bool is_sound(const Region *r, int64_t count) {
    int64_t lo, hi;
    if (r->rank < 0 || r->rank > TN_MAX_RANK || !region_extent(r, r->dst_offset, r->dst_stride, &lo, &hi)) return false;
    return lo >= 0 && hi < count && hi < INT64_MAX / 4 && region_extent(r, r->src_offset, r->src_stride, &lo, &hi);
}

static bool simplify_list(Compose *c, const RegionList *from, int64_t count, size_t limit, RegionList *to) {
    *to = (RegionList){.arena = &c->scratch};
    for (size_t i = 0; i < from->len; i++) {
        const Region *r = &from->data[i];
        Region fill = region_without_source(r);
        if (r->source == REGION_FILL) r = &fill;
        if (!is_sound(r, count) || !region_simplify(to, r, limit, &c->status)) return false;
    }
    return true;
}

static bool prepare(Compose *c, int32_t s) {
    Writers *w = &c->writers[s];
    const ComposeSource *source = &c->sources[s];
    if (w->ready) return true;
    if (!simplify_list(c, source->made_of, source->count, source->made_of->len + c->limit, &w->list)) return false;
    w->lo = arena_array(&c->scratch, int64_t, w->list.len + 1);
    w->hi = arena_array(&c->scratch, int64_t, w->list.len + 1);
    if (!w->lo || !w->hi) {
        c->status = TN_OUT_OF_MEMORY;
        return false;
    }
    for (size_t i = 0; i < w->list.len; i++) {
        const Region *r = &w->list.data[i];
        region_extent(r, r->dst_offset, r->dst_stride, &w->lo[i], &w->hi[i]);
    }
    w->ready = true;
    return true;
}

static bool emit(Compose *c, PieceList *pieces, int32_t source, bool is_fill) {
    for (size_t i = 0; i < pieces->len; i++) {
        if (is_fill) pieces->data[i].map[MAP_FROM] = (Affine){0};
        if (c->out->len > 2 * c->limit || !cutter_push(c->cutter, &pieces->data[i], source, c->out)) return false;
    }
    pieces->len = 0;
    return true;
}

/* One normalised box of the reader. The writer that comes last has the say, so matching begins there. */
static bool compose_box(Compose *c, const Region *r) {
    const ComposeSource *source = &c->sources[r->source];
    const Writers *w = &c->writers[r->source];
    int64_t lo, hi;
    if (!region_extent(r, r->src_offset, r->src_stride, &lo, &hi) || lo < 0 || hi >= source->count ||
        hi >= INT64_MAX / 4)
        return false;
    if ((c->pairs -= (int64_t)w->list.len) < 0) return false;
    c->cutter->open.len = 0;
    if (!cutter_open(c->cutter, r, r->src_offset, r->src_stride)) return false;
    for (size_t i = w->list.len; i-- > 0 && c->cutter->open.len > 0;) {
        const Region *from = &w->list.data[i];
        bool is_fill = from->source == REGION_FILL;
        if (w->lo[i] > hi || w->hi[i] < lo) continue;
        if (!cutter_match(c->cutter, from)) return false;
        if (!emit(c, &c->cutter->found, is_fill ? source->fill : source->map[from->source], is_fill)) return false;
    }
    if (c->cutter->open.len > 0 && source->fill == COMPOSE_NO_FILL) return false;
    return emit(c, &c->cutter->open, source->fill, true);
}

static bool compose_region(Compose *c, const Region *r) {
    if (r->source == REGION_FILL || !c->sources[r->source].made_of) {
        Region same = r->source == REGION_FILL ? region_without_source(r) : *r;
        if (r->source != REGION_FILL) same.source = c->sources[r->source].map[0];
        c->status = region_push(c->out, &same);
        return c->status == TN_OK;
    }
    RegionList one = {.data = (Region *)r, .len = 1}, simple;
    ArenaMark start = {0};
    if (!prepare(c, r->source)) return false;
    start = arena_mark(&c->scratch);
    bool ok = simplify_list(c, &one, INT64_MAX, c->limit, &simple);
    for (size_t i = 0; ok && i < simple.len; i++) ok = compose_box(c, &simple.data[i]);
    arena_release(&c->scratch, start);
    return ok;
}

tn_status regions_compose(const RegionList *reader, const ComposeSource *sources, size_t n_sources, size_t limit,
                          RegionList *out, bool *declined) {
    Cutter cutter;
    Compose c = {.cutter = &cutter, .sources = sources, .limit = limit, .pairs = MOST_PAIRS, .out = out};
    const Allocator *a = out->arena->allocator;
    arena_init(&c.scratch, a);
    cutter_init(&cutter, a, (int64_t)(limit + reader->len) * CUTS_PER_REGION);
    c.writers = arena_array(&c.scratch, Writers, n_sources + 1);
    bool ok = c.writers != NULL;
    if (!ok) c.status = TN_OUT_OF_MEMORY;
    out->len = 0;
    out->covers = reader->covers;
    for (size_t i = 0; ok && i < reader->len; i++) ok = compose_region(&c, &reader->data[i]);
    cutter_free(&cutter);
    arena_free(&c.scratch);
    if (c.status == TN_OK) c.status = cutter.status;
    if (ok) region_list_merge(out);
    *declined = !ok || out->len > limit;
    if (*declined) out->len = 0;
    return c.status;
}

tn_status regions_resolve(const RegionList *list, int64_t count, size_t limit, RegionList *out, bool *declined) {
    int32_t most = 0;
    for (size_t i = 0; i < list->len; i++) most = list->data[i].source > most ? list->data[i].source : most;
    Region whole = region_dense(0, 1, &count);
    whole.src_stride[0] = 1;
    RegionList identity = {.data = &whole, .len = count > 0, .covers = true};
    int32_t *map = arena_array(out->arena, int32_t, (size_t)most + 1);
    if (!map) return TN_OUT_OF_MEMORY;
    for (int32_t i = 0; i <= most; i++) map[i] = i;
    ComposeSource source = {.made_of = list, .count = count, .map = map, .fill = REGION_FILL};
    return regions_compose(&identity, &source, 1, limit, out, declined);
}

int64_t regions_moved(const RegionList *list, bool with_fill) {
    int64_t n = 0;
    for (size_t i = 0; i < list->len; i++) {
        if (list->data[i].source == REGION_FILL && !with_fill) continue;
        if (add_overflows(n, region_count(&list->data[i]), &n)) return INT64_MAX;
    }
    return n;
}
