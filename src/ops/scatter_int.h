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

#endif
