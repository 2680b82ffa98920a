/* SPDX-License-Identifier: Apache-2.0 */
/* What Einsum's equation says of the operands at hand, for its kernel and its lowering. */
#ifndef TENON_OPS_EINSUM_INT_H
#define TENON_OPS_EINSUM_INT_H

#include "ops/op_int.h"

#define EINSUM_DIMS 32 /* different labels, ellipsis dimensions included */
#define NO_DIM (-1)

typedef struct EinsumPlan {
    int n_in, n_dims, n_out; /* dims [0, n_out) are the result's, in order; the rest is summed over */
    Dim size[EINSUM_DIMS];
    int rank[OP_MAX_INPUTS];
    int8_t dim_of[OP_MAX_INPUTS][TN_MAX_RANK]; /* which dim each dimension of an operand is */
} EinsumPlan;

tn_status einsum_plan(const Node *node, const Shape *shapes, EinsumPlan *plan);

tn_status lower_einsum(LowerCtx *c);

#endif
