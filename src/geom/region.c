/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes by themselves and in lists: making, counting, merging, checking. */
#include "geom/geom_int.h"

tn_status region_push(RegionList *list, const Region *region) {
    for (int k = 0; k < region->rank; k++)
        if (region->size[k] <= 0) return TN_OK;
    if (list->len == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 4;
        Region *data = arena_array(list->arena, Region, cap);
        if (!data) return TN_OUT_OF_MEMORY;
        if (list->len) memcpy(data, list->data, list->len * sizeof *data);
        list->data = data;
        list->cap = cap;
    }
    list->data[list->len++] = *region;
    return TN_OK;
}

Region region_dense(int32_t source, int rank, const int64_t *dims) {
    Region r = {.source = source, .rank = rank};
    int64_t stride = 1;
    for (int k = rank - 1; k >= 0; k--) {
        r.size[k] = dims[k];
        r.dst_stride[k] = stride;
        /* Wraps only where another size is 0, and then nothing is ever read. */
        stride = (int64_t)((uint64_t)stride * (uint64_t)dims[k]);
    }
    return r;
}

int64_t region_count(const Region *r) {
    int64_t n = 1;
    for (int k = 0; k < r->rank; k++)
        if (r->size[k] <= 0) return 0;
    for (int k = 0; k < r->rank; k++)
        if (mul_overflows(n, r->size[k], &n)) return INT64_MAX;
    return n;
}

Region region_without_source(const Region *region) {
    Region r = *region;
    r.src_offset = 0;
    memset(r.src_stride, 0, sizeof r.src_stride);
    return r;
}

static void set_dim(Region *r, int to, int from) {
    r->size[to] = r->size[from];
    r->src_stride[to] = r->src_stride[from];
    r->dst_stride[to] = r->dst_stride[from];
}

/* Whether stepping dimension `outer` is what follows the last step of `inner`. */
static bool continues(const Region *r, int outer, int inner) {
    int64_t src, dst;
    return !mul_overflows(r->src_stride[inner], r->size[inner], &src) && src == r->src_stride[outer] &&
           !mul_overflows(r->dst_stride[inner], r->size[inner], &dst) && dst == r->dst_stride[outer];
}

void region_coalesce(Region *r) {
    int n = 0;
    for (int k = 0; k < r->rank; k++) {
        if (r->size[k] == 1) continue;
        int64_t size;
        if (n > 0 && r->size[k] > 0 && continues(r, n - 1, k) && !mul_overflows(r->size[n - 1], r->size[k], &size)) {
            set_dim(r, n - 1, k);
            r->size[n - 1] = size;
        } else {
            set_dim(r, n++, k);
        }
    }
    r->rank = n;
}

bool region_extent(const Region *r, int64_t offset, const int64_t *stride, int64_t *lo, int64_t *hi) {
    *lo = *hi = offset;
    for (int k = 0; k < r->rank; k++) {
        int64_t reach;
        if (mul_overflows(r->size[k] - 1, stride[k], &reach)) return false;
        int64_t *end = reach < 0 ? lo : hi;
        if (add_overflows(*end, reach, end)) return false;
    }
    return true;
}

static void swap_dims(Region *r, int a, int b) {
    Region t = *r;
    set_dim(r, a, b);
    r->size[b] = t.size[a];
    r->src_stride[b] = t.src_stride[a];
    r->dst_stride[b] = t.dst_stride[a];
}

/* Walks dimension k from its other end. */
static bool flip_dim(Region *r, int k) {
    int64_t src, dst;
    if (mul_overflows(r->size[k] - 1, r->src_stride[k], &src) || mul_overflows(r->size[k] - 1, r->dst_stride[k], &dst))
        return false;
    if (add_overflows(r->src_offset, src, &r->src_offset) || add_overflows(r->dst_offset, dst, &r->dst_offset))
        return false;
    if (r->src_stride[k] == INT64_MIN || r->dst_stride[k] == INT64_MIN) return false;
    r->src_stride[k] = -r->src_stride[k];
    r->dst_stride[k] = -r->dst_stride[k];
    return true;
}

bool region_normalise(Region *r) {
    region_coalesce(r);
    for (int k = 0; k < r->rank; k++) {
        if (r->size[k] <= 0 || r->dst_stride[k] == 0) return false;
        if (r->dst_stride[k] < 0 && !flip_dim(r, k)) return false;
    }
    for (int i = 1; i < r->rank; i++)
        for (int k = i; k > 0 && r->dst_stride[k - 1] < r->dst_stride[k]; k--) swap_dims(r, k - 1, k);
    region_coalesce(r);
    int64_t span = 1; /* elements from the first to the last write of the inner dimensions */
    for (int k = r->rank - 1; k >= 0; k--) {
        int64_t reach;
        if (r->dst_stride[k] < span) return false;
        if (mul_overflows(r->size[k] - 1, r->dst_stride[k], &reach) || add_overflows(span, reach, &span)) return false;
    }
    return true;
}

static bool same_strides(const Region *a, const Region *b) {
    size_t bytes = (size_t)a->rank * sizeof(int64_t);
    return a->source == b->source && a->rank == b->rank && memcmp(a->src_stride, b->src_stride, bytes) == 0 &&
           memcmp(a->dst_stride, b->dst_stride, bytes) == 0;
}

/* Whether b starts where a ends along dimension k, which then takes b in. In a list whose boxes may collide the order
   of writes is kept only when k is the outermost dimension. */
static bool extend(Region *a, const Region *b, bool any_dim) {
    if (!same_strides(a, b)) return false;
    int grown = -1;
    for (int k = 0; k < a->rank; k++) {
        int64_t src, dst, src_step, dst_step, size;
        bool others = true;
        for (int j = 0; j < a->rank; j++) others = others && (j == k || a->size[j] == b->size[j]);
        if (!others || (k > 0 && !any_dim)) continue;
        if (mul_overflows(a->size[k], a->src_stride[k], &src) || mul_overflows(a->size[k], a->dst_stride[k], &dst) ||
            sub_overflows(b->src_offset, a->src_offset, &src_step) ||
            sub_overflows(b->dst_offset, a->dst_offset, &dst_step) || add_overflows(a->size[k], b->size[k], &size))
            continue;
        if (src == src_step && dst == dst_step) grown = k;
    }
    if (grown < 0) return false;
    a->size[grown] += b->size[grown];
    return true;
}

/* Whether b is a moved by some step; the step on both sides. */
static bool moved(const Region *a, const Region *b, int64_t *src, int64_t *dst) {
    return same_strides(a, b) && memcmp(a->size, b->size, (size_t)a->rank * sizeof(int64_t)) == 0 &&
           !sub_overflows(b->src_offset, a->src_offset, src) && !sub_overflows(b->dst_offset, a->dst_offset, dst);
}

/* The number of regions from data[0] on that are one box repeated at even steps. */
static size_t even_run(const Region *data, size_t n, int64_t *src, int64_t *dst) {
    if (n < 2 || data->rank >= TN_MAX_RANK || !moved(data, data + 1, src, dst)) return 1;
    size_t run = 2;
    for (int64_t s, d; run < n && moved(data + run - 1, data + run, &s, &d) && s == *src && d == *dst;) run++;
    return run;
}

static void add_outer_dim(Region *r, int64_t size, int64_t src, int64_t dst) {
    for (int k = r->rank++; k > 0; k--) set_dim(r, k, k - 1);
    r->size[0] = size;
    r->src_stride[0] = src;
    r->dst_stride[0] = dst;
}

void region_list_merge(RegionList *list) {
    for (size_t i = 0; i < list->len; i++) region_coalesce(&list->data[i]);
    for (size_t before = list->len + 1; list->len < before;) {
        before = list->len;
        size_t n = 0;
        for (size_t i = 0; i < list->len; i++) {
            if (n > 0 && extend(&list->data[n - 1], &list->data[i], list->covers)) continue;
            list->data[n++] = list->data[i];
        }
        list->len = n;
        n = 0;
        for (size_t i = 0, run; i < list->len; i += run) {
            int64_t src = 0, dst = 0;
            run = even_run(list->data + i, list->len - i, &src, &dst);
            Region r = list->data[i];
            if (run > 1) add_outer_dim(&r, (int64_t)run, src, dst);
            region_coalesce(&r);
            list->data[n++] = r;
        }
        list->len = n;
    }
}

tn_status regions_check(const RegionList *list, int n_sources, const int64_t *source_lo, const int64_t *source_hi,
                        int64_t count) {
    for (size_t i = 0; i < list->len; i++) {
        const Region *r = &list->data[i];
        int64_t lo, hi;
        if (r->rank < 0 || r->rank > TN_MAX_RANK) return fail(TN_INVALID_MODEL, "region %zu has rank %d", i, r->rank);
        if (r->source != REGION_FILL && (r->source < 0 || r->source >= n_sources))
            return fail(TN_OUT_OF_RANGE, "region %zu reads source %d, but there are %d", i, r->source, n_sources);
        for (int k = 0; k < r->rank; k++)
            if (r->size[k] <= 0) return fail(TN_INVALID_MODEL, "region %zu has size %lld", i, (long long)r->size[k]);
        if (region_count(r) > count)
            return fail(TN_OUT_OF_RANGE, "region %zu writes more than the result's %lld elements", i, (long long)count);
        if (!region_extent(r, r->dst_offset, r->dst_stride, &lo, &hi) || lo < 0 || hi >= count)
            return fail(TN_OUT_OF_RANGE, "region %zu writes beyond the result's %lld elements", i, (long long)count);
        if (r->source == REGION_FILL) continue;
        if (!region_extent(r, r->src_offset, r->src_stride, &lo, &hi) || lo < source_lo[r->source] ||
            hi > source_hi[r->source])
            return fail(TN_OUT_OF_RANGE, "region %zu reads outside of source %d", i, r->source);
    }
    return TN_OK;
}
