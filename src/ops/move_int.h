/* SPDX-License-Identifier: Apache-2.0 */
/* What ops that move data share among themselves. */
#ifndef TENON_OPS_MOVE_INT_H
#define TENON_OPS_MOVE_INT_H

#include "ops/op_int.h"

/* A region list, or the pieces of one axis, may have this many entries; more is TN_LIMIT or goes to a kernel. */
#define MOVE_MAX_REGIONS 65536

/* The contents of operand `in` are those of result `out`, element by element. */
void pass_content(InferCtx *c, int out, int in);
/* The number of elements of a one-dimensional operand (1 for a scalar); -1: not known. */
int64_t known_length(const InferCtx *c, int i);
/* Operand i, where present, must have at most one dimension and `max` elements. */
tn_status expect_list(const InferCtx *c, int i, int64_t max);

/* Whether operand i is absent or has its bytes at hand. */
bool region_contents_known(const RegionCtx *c, int i);
/* A few integers of an operand. TN_LIMIT beyond max. */
tn_status region_ints(const RegionCtx *c, int i, int64_t *out, int max, int *n);
tn_status tensor_few_ints(const Tensor *t, const char *what, int64_t *out, int max, int *n);
/* Row-major, any number of them, on the arena. */
tn_status tensor_all_ints(const Tensor *t, Arena *arena, int64_t **out, int64_t *n);

/* A reference kernel that builds the op's regions, now that all contents are there, and runs them. */
tn_status run_as_regions(KernelCtx *c);
/* Result i with these dims, allocated unless it is there already. */
tn_status output_ready(KernelCtx *c, int i, int rank, const int64_t *dims);
/* The result all zeros. */
tn_status output_zero(KernelCtx *c, int i);
/* Numbers in the order of their values, as unsigned keys: NaN last, and -0 as 0. n elements from `offset` on. */
void sort_keys(tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n, uint64_t *keys);
/* The same as signed numbers of 32 bits, for types that `has_order_keys` names; all NaN are INT32_MAX. */
bool has_order_keys(tn_dtype dtype);
void order_keys(tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n, int32_t *keys);

/* n elements that follow each other on both sides. */
void copy_run(tn_dtype dtype, void *dst, int64_t dst_offset, const void *src, int64_t src_offset, int64_t n);

/* index in -size .. size-1 made non-negative; TN_OUT_OF_RANGE names index and dimension. */
tn_status normal_index(int64_t index, int64_t size, int dim, int64_t *out);

/* Regions that a list of integers names: it is cut into runs of even steps. */
typedef struct IndexRun {
    int64_t first, step, n;
} IndexRun;
/* The length of the run that starts at index[0]. */
IndexRun index_run(const int64_t *index, int64_t n);

#endif
