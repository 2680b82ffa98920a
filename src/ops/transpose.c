/* SPDX-License-Identifier: Apache-2.0 */
/* Transpose (ONNX 25): permute dimensions. Moves data only, so it is one region and has no kernel. */
#include "ops/move_int.h"

/* perm defaults to reversing the dimensions. */
static tn_status read_perm(const Node *node, int rank, int *perm) {
    IntList list = attr_ints(node, "perm");
    uint32_t seen = 0;
    if (!attr_present(node, "perm")) {
        for (int k = 0; k < rank; k++) perm[k] = rank - 1 - k;
        return TN_OK;
    }
    if (list.n != (size_t)rank) return fail(TN_SHAPE, "perm has %zu entries for %d dimensions", list.n, rank);
    for (int k = 0; k < rank; k++) {
        if (list.data[k] < 0 || list.data[k] >= rank || (seen & 1u << list.data[k]))
            return fail(TN_INVALID_ARGUMENT, "perm is no permutation of 0..%d", rank - 1);
        seen |= 1u << list.data[k];
        perm[k] = (int)list.data[k];
    }
    return TN_OK;
}

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    int perm[TN_MAX_RANK];
    if (x->rank < 0) {
        size_t n = attr_ints(c->node, "perm").n;
        if (n > TN_MAX_RANK) return fail(TN_LIMIT, "perm has %zu entries, more than %d", n, TN_MAX_RANK);
        set_unknown_rank(c, 0, attr_present(c->node, "perm") ? (int)n : -1);
        return TN_OK;
    }
    TRY(read_perm(c->node, x->rank, perm));
    Shape y = {.rank = x->rank};
    for (int k = 0; k < x->rank; k++) y.dims[k] = x->dims[perm[k]];
    set_shape(c, 0, &y);
    if (x->rank <= 1) pass_content(c, 0, 0);
    return TN_OK;
}

/* y[i0,i1,..] = x[.., i at perm[k], ..]: the result's dimensions, walked with the operand's strides. */
static tn_status regions(RegionCtx *c) {
    const Tensor *x = c->in[0];
    int perm[TN_MAX_RANK];
    TRY(read_perm(c->node, x->rank, perm));
    Region r = region_over(c, 0, 0);
    for (int k = 0; k < x->rank; k++) r.src_stride[k] = x->strides[perm[k]];
    c->lists[0].covers = true;
    return add_region(c, 0, &r);
}

const OpSchema op_Transpose = {
    .name = "Transpose",
    .summary = "Transpose (ONNX 25): permute dimensions",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}),
    .outputs = OPERANDS({"transposed", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"perm", ATTR_INTS, 0, 0, 0, NULL}),
    .infer = infer,
    .regions = regions,
};
