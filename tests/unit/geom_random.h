/* SPDX-License-Identifier: Apache-2.0 */
/* Random regions, and what a list of regions does, index by index: shared by the tests of geometry. */
#ifndef TENON_TESTS_GEOM_RANDOM_H
#define TENON_TESTS_GEOM_RANDOM_H

#include "geom/geom.h"

static uint64_t seed;
static inline int64_t pick(int64_t lo, int64_t hi) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

/* Moves the offset so that what the strides reach lies in 0 .. count-1; false when it is too far. */
static inline bool place_region(const Region *r, const int64_t *stride, int64_t count, int64_t *offset) {
    int64_t lo = 0, hi = 0;
    for (int k = 0; k < r->rank; k++) {
        int64_t reach = (r->size[k] - 1) * stride[k];
        if (reach < 0) lo += reach;
        else hi += reach;
    }
    if (hi - lo >= count) return false;
    *offset = pick(0, 1) ? -lo : pick(-lo, count - 1 - hi);
    return true;
}

/* Dense strides in a random order, some of them stretched, turned round or made zero. */
static inline void random_strides(const Region *r, int64_t *stride, int zero_of) {
    int order[TN_MAX_RANK];
    int64_t step = pick(0, 5) ? 1 : pick(1, 3);
    for (int k = 0; k < r->rank; k++) order[k] = r->rank - 1 - k;
    for (int n = pick(0, 1) ? (int)pick(0, r->rank) : 0; n > 0; n--) {
        int a = (int)pick(0, r->rank - 1), b = (int)pick(0, r->rank - 1), t = order[a];
        order[a] = order[b];
        order[b] = t;
    }
    for (int k = 0; k < r->rank; k++) {
        int d = order[k];
        stride[d] = step;
        step *= r->size[d];
        if (pick(0, 4) == 0) step += pick(0, 4);
        if (pick(0, 6) == 0) stride[d] = -stride[d];
        if (pick(0, zero_of) == 0) stride[d] = 0;
        if (pick(0, 15) == 0) stride[d] = pick(-7, 7);
    }
}

static inline bool random_region(RegionList *list, int32_t source, int64_t source_count, int64_t count) {
    for (int tries = 0; tries < 50; tries++) {
        Region r = {.source = source, .rank = (int32_t)pick(0, 5)};
        for (int k = 0; k < r.rank; k++) r.size[k] = pick(1, r.rank > 3 ? 4 : r.rank > 1 ? 9 : 60);
        random_strides(&r, r.src_stride, 10);
        if (pick(0, 2) == 0) memcpy(r.dst_stride, r.src_stride, sizeof r.dst_stride);
        else random_strides(&r, r.dst_stride, 40);
        if (!place_region(&r, r.dst_stride, count, &r.dst_offset)) continue;
        if (!place_region(&r, r.src_stride, source_count, &r.src_offset)) continue;
        return region_push(list, &r) == TN_OK;
    }
    return false;
}

/* What each element of the result gets last: 1000 * source + element, or what from[source] says that is. */
static inline void map_list(const RegionList *list, int64_t count, int64_t fill, const int64_t *const *from,
                            int64_t *to) {
    for (int64_t i = 0; i < count; i++) to[i] = fill;
    for (size_t i = 0; i < list->len; i++) {
        const Region *r = &list->data[i];
        int64_t n = region_count(r);
        for (int64_t flat = 0; flat < n; flat++) {
            int64_t at = flat, src = r->src_offset, dst = r->dst_offset;
            for (int k = r->rank - 1; k >= 0; k--) {
                src += at % r->size[k] * r->src_stride[k];
                dst += at % r->size[k] * r->dst_stride[k];
                at /= r->size[k];
            }
            if (dst < 0 || dst >= count) abort();
            to[dst] = r->source == REGION_FILL ? fill : from ? from[r->source][src] : 1000 * r->source + src;
        }
    }
}

static inline void count_writes(const RegionList *list, int64_t count, int64_t *times) {
    memset(times, 0, (size_t)count * sizeof *times);
    for (size_t i = 0; i < list->len; i++) {
        const Region *r = &list->data[i];
        int64_t n = region_count(r);
        for (int64_t flat = 0; flat < n; flat++) {
            int64_t at = flat, dst = r->dst_offset;
            for (int k = r->rank - 1; k >= 0; k--) {
                dst += at % r->size[k] * r->dst_stride[k];
                at /= r->size[k];
            }
            times[dst]++;
        }
    }
}

#endif
