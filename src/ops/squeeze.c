/* SPDX-License-Identifier: Apache-2.0 */
/* Squeeze and Unsqueeze (ONNX 25): drop and insert dimensions of size 1. */
#include "ops/move_int.h"

/* Without axes, every dimension of size 1 goes. That needs all sizes. */
static tn_status squeeze_all(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Shape y = {.rank = 0};
    for (int k = 0; k < x->rank; k++) {
        if (!dim_is_const(x->dims[k])) {
            set_unknown_rank(c, 0, -1);
            return TN_OK;
        }
        if (x->dims[k] != 1) y.dims[y.rank++] = x->dims[k];
    }
    if (x->rank < 0) y = shape_unknown();
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status squeeze_infer(InferCtx *c) {
    int64_t axes[CONTENT_MAX];
    int n;
    pass_content(c, 0, 0);
    TRY(expect_list(c, 1, TN_MAX_RANK));
    if (!has_input(c, 1)) return squeeze_all(c);
    const Shape *x = in_shape(c, 0);
    if (x->rank < 0 || !in_ints(c, 1, axes, CONTENT_MAX, &n)) {
        int64_t count = known_length(c, 1);
        if (x->rank >= 0 && count > x->rank) return fail(TN_SHAPE, "axes names more dimensions than there are");
        set_unknown_rank(c, 0, x->rank >= 0 && count >= 0 ? x->rank - (int)count : -1);
        return TN_OK;
    }
    uint32_t mask;
    TRY(normal_axes(axes, (size_t)n, x->rank, "axes", &mask));
    Shape y = {.rank = 0};
    for (int k = 0; k < x->rank; k++) {
        if (!(mask & 1u << k)) y.dims[y.rank++] = x->dims[k];
        else if (dim_is_const(x->dims[k]) && x->dims[k] != 1)
            return fail(TN_SHAPE, "axes names dimension %d, which has size %lld", k, (long long)x->dims[k]);
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status unsqueeze_infer(InferCtx *c) {
    int64_t axes[CONTENT_MAX], count = known_length(c, 1);
    int n;
    const Shape *x = in_shape(c, 0);
    pass_content(c, 0, 0);
    TRY(expect_list(c, 1, TN_MAX_RANK));
    if (x->rank >= 0 && count > TN_MAX_RANK - x->rank)
        return fail(TN_LIMIT, "the result would have more than %d dimensions", TN_MAX_RANK);
    if (x->rank < 0 || !in_ints(c, 1, axes, CONTENT_MAX, &n)) {
        set_unknown_rank(c, 0, x->rank >= 0 && count >= 0 ? x->rank + (int)count : -1);
        return TN_OK;
    }
    uint32_t mask;
    Shape y = {.rank = x->rank + n};
    if (y.rank > TN_MAX_RANK) return fail(TN_LIMIT, "the result would have more than %d dimensions", TN_MAX_RANK);
    TRY(normal_axes(axes, (size_t)n, y.rank, "axes", &mask));
    for (int k = 0, from = 0; k < y.rank; k++) y.dims[k] = mask & 1u << k ? 1 : x->dims[from++];
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status regions(RegionCtx *c) { return region_whole(c, 0, 0); }

const OpSchema op_Squeeze = {
    .name = "Squeeze",
    .summary = "Squeeze (ONNX 25): drop dimensions of size 1",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"axes", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"squeezed", TS_ALL_TENSOR, 'T', 0}),
    .content_inputs = 1 << 1,
    .infer = squeeze_infer,
    .regions = regions,
};

const OpSchema op_Unsqueeze = {
    .name = "Unsqueeze",
    .summary = "Unsqueeze (ONNX 25): insert dimensions of size 1",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"axes", TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"expanded", TS_ALL_TENSOR, 'T', 0}),
    .content_inputs = 1 << 1,
    .infer = unsqueeze_infer,
    .regions = regions,
};
