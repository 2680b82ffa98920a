/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: moving data described as boxes of strided reads and writes. Knows shapes and strides; no op, no graph. */
#ifndef TENON_GEOM_GEOM_H
#define TENON_GEOM_GEOM_H

#include "base/base.h"

/* A source that is no operand: the raster's fill value. */
#define REGION_FILL (-1)

/* Element (i0, i1, ...) of the box: destination dst_offset + sum(i*dst_stride) gets source number `source`'s element
   src_offset + sum(i*src_stride). Counted in elements from the start of each tensor's own reading (its offset is not
   included). Source strides may be zero or negative. */
typedef struct Region {
    int32_t source;
    int32_t rank; /* 0: one element */
    int64_t size[TN_MAX_RANK];
    int64_t src_offset, src_stride[TN_MAX_RANK];
    int64_t dst_offset, dst_stride[TN_MAX_RANK];
} Region;

/* What one result is made of. */
typedef struct RegionList {
    Arena *arena;
    Region *data;
    size_t len, cap;
    bool covers; /* the regions are known to cover the result, each element once: no fill is needed */
} RegionList;

tn_status region_push(RegionList *list, const Region *region); /* empty boxes are dropped */

/* A box over dense row-major memory of these sizes: dst strides set, src strides zero. */
Region region_dense(int32_t source, int rank, const int64_t *dims);
int64_t region_count(const Region *r);
/* Drops dimensions of size 1 and merges neighbours that are one run on both sides. */
void region_coalesce(Region *r);
/* Merges regions that continue each other along one dimension (equal but for offsets that advance evenly). */
void region_list_merge(RegionList *list);

/* One region as a view: strides and offset into the source such that an output of these dense dims reads the source
   directly. False when no strided reading of that rank exists, or the region does not cover the output exactly. */
bool region_as_view(const Region *r, int rank, const int64_t *dims, int64_t *strides, int64_t *offset);
/* Whether a strided reading can be given these dims without moving data, and how (numpy's no-copy reshape). */
bool view_reshape(int rank, const int64_t *dims, const int64_t *strides, int new_rank, const int64_t *new_dims,
                  int64_t *new_strides);

/* A whole list as one strided reading of one source. The list may be changed (merged). */
bool regions_as_view(RegionList *list, int rank, const int64_t *dims, int64_t *strides, int64_t *offset,
                     int32_t *source);

/* What source k of a reader is made of. */
#define COMPOSE_NO_FILL (-2)
typedef struct ComposeSource {
    const RegionList *made_of; /* NULL: a value of its own, number map[0] in the result */
    int64_t count;             /* elements of the virtual value, which counts as dense */
    const int32_t *map;        /* from the sources of `made_of` to those of the result */
    int32_t fill; /* what nothing in `made_of` writes: REGION_FILL where that is the reader's fill value too, a source
                     whose element 0 is the value, or COMPOSE_NO_FILL: compose nothing that reads such elements */
} ComposeSource;

/* The reader's list over what its virtual sources are made of: boxes are cut so that each reads one region, where
   regions of a source collide the later one counts. `out` is emptied first; it has an arena. *declined, with an empty
   list: more than `limit` regions would result, or a position has no 64-bit number; then the virtual value has to be
   made. Lists are those that regions_check accepts. `out` covers when the reader does. */
tn_status regions_compose(const RegionList *reader, const ComposeSource *sources, size_t n_sources, size_t limit,
                          RegionList *out, bool *declined);
/* The same result, `count` dense elements, by regions that cover it: what later regions overwrite is gone, gaps are
   REGION_FILL. */
tn_status regions_resolve(const RegionList *list, int64_t count, size_t limit, RegionList *out, bool *declined);

/* Elements that a raster of this list moves, to weigh it against making the values it reads. */
int64_t regions_moved(const RegionList *list, bool with_fill);

/* Exact: no element is written twice. False also where the proof would take too long. */
bool regions_disjoint(const RegionList *list);
/* Exact: every element of a dense output of `count` elements is written once, by boxes whose writes do not collide.
   Costs time in proportion to `count` only when the boxes are not aligned to a common grid. */
bool regions_cover(const RegionList *list, int64_t count);
/* Checks that reads stay within [0, source_counts[k]) ... of a source's own extent [lo, hi] and writes within count. */
tn_status regions_check(const RegionList *list, int n_sources, const int64_t *source_lo, const int64_t *source_hi,
                        int64_t count);

/* A source or destination of a raster: memory of one element type. */
typedef struct RasterOperand {
    const void *data;
    int64_t offset; /* elements */
} RasterOperand;
/* Runs the regions: dst is dense, `count` elements of `dtype`. `fill` is one element (NULL: zero bytes), written first
   where the list does not say that it covers. Splits over the pool when that pays; order of writes never decides an
   answer unless boxes collide, and then (not `covers`) they run in list order on one thread. */
tn_status raster_run(const RegionList *list, tn_dtype dtype, const RasterOperand *sources, void *dst,
                     int64_t dst_offset, int64_t count, const void *fill, Pool *pool);
/* The oracle: the same by index, one element at a time, for tests and the first answer to any doubt. */
tn_status raster_oracle(const RegionList *list, tn_dtype dtype, const RasterOperand *sources, void *dst,
                        int64_t dst_offset, int64_t count, const void *fill);

#endif
