/* SPDX-License-Identifier: Apache-2.0 */
/* What ScatterElements and ScatterND share: how an update meets what stands there already. */
#ifndef TENON_OPS_SCATTER_INT_H
#define TENON_OPS_SCATTER_INT_H

#include "ops/move_int.h"

typedef enum Reduction { REDUCE_NONE, REDUCE_ADD, REDUCE_MUL, REDUCE_MAX, REDUCE_MIN } Reduction;

/* The attribute `reduction`, and whether elements of the type can be combined so. */
tn_status scatter_reduction(const Node *node, tn_dtype dtype, Reduction *out);
/* dst[at ..] = reduce(dst[at ..], src[from ..]), n elements one after another. */
void scatter_combine(Reduction reduction, tn_dtype dtype, void *dst, int64_t at, const void *src, int64_t from,
                     int64_t n);
/* The same for n runs of `run` elements, each to its place. */
void scatter_runs(Reduction reduction, tn_dtype dtype, void *dst, const int64_t *places, int64_t n, int64_t run,
                  const void *src, int64_t from);

/* An op on its way through its updates: places are gathered, and then written some at a time. */
enum { SCATTER_PLACES = 256 };
typedef struct ScatterJob {
    Reduction reduction;
    tn_dtype dtype;
    Tensor *y;
    const int64_t *index; /* `count` of them */
    const void *updates;
    int64_t count, run, n, from;
    int64_t places[SCATTER_PLACES];
} ScatterJob;
/* The result as operand 0 is, and where to read indices and updates. */
tn_status scatter_begin(KernelCtx *c, ScatterJob *job);
void scatter_flush(ScatterJob *job);
static inline void scatter_at(ScatterJob *job, int64_t place) {
    if (job->n == SCATTER_PLACES) scatter_flush(job);
    job->places[job->n++] = place;
}

#endif
