/* SPDX-License-Identifier: Apache-2.0 */
/* Flatten (ONNX 25): two dimensions, the first the product of those before `axis`. */
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    if (!rank_known(c, 0)) {
        set_unknown_rank(c, 0, 2);
        return TN_OK;
    }
    const Shape *x = in_shape(c, 0);
    int64_t axis = attr_int(c->node, "axis");
    if (axis < -x->rank || axis > x->rank)
        return fail(TN_OUT_OF_RANGE, "axis is %lld, outside [-%d, %d]", (long long)axis, x->rank, x->rank);
    if (axis < 0) axis += x->rank;
    Shape y = {.rank = 2};
    y.dims[0] = dims_product(c->dims, x, 0, (int)axis);
    y.dims[1] = dims_product(c->dims, x, (int)axis, x->rank);
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status regions(RegionCtx *c) { return region_whole(c, 0, 0); }

const OpSchema op_Flatten = {
    .name = "Flatten",
    .summary = "Flatten (ONNX 25): make a matrix, cut before an axis",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR, 'T', 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 1, 0, NULL}),
    .infer = infer,
    .regions = regions,
};
