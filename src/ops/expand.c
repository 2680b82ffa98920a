/* SPDX-License-Identifier: Apache-2.0 */
/* Expand (ONNX 13): broadcast to a shape, both ways. */
#include "ops/move_int.h"

static void expand_content(InferCtx *c, const Shape *y) {
    Dim from[CONTENT_MAX], to[CONTENT_MAX];
    int n;
    int64_t count;
    if (y->rank > 1 || !shape_is_known(y) || !in_content(c, 0, from, CONTENT_MAX, &n)) return;
    if (checked_count(y->rank, y->dims, &count) != TN_OK || count > CONTENT_MAX || n == 0) return;
    for (int64_t k = 0; k < count; k++) to[k] = from[n == 1 ? 0 : k];
    set_content(c, 0, to, (int)count);
}

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Shape want = {0}, y;
    int64_t length = known_length(c, 1);
    TRY(expect_list(c, 1, TN_MAX_RANK));
    if (!in_content(c, 1, want.dims, TN_MAX_RANK, &want.rank)) {
        set_unknown_rank(c, 0, x->rank >= 0 && length >= 0 ? (int)max_i64(x->rank, length) : -1);
        return TN_OK;
    }
    for (int k = 0; k < want.rank; k++) {
        if (dim_is_const(want.dims[k]) && want.dims[k] < 0)
            return fail(TN_SHAPE, "shape[%d] is %lld", k, (long long)want.dims[k]);
    }
    TRY(broadcast_shapes(c->dims, x, &want, &y));
    set_shape(c, 0, &y);
    expand_content(c, &y);
    return TN_OK;
}

static tn_status regions(RegionCtx *c) {
    const Tensor *x = c->in[0];
    Region r = region_over(c, 0, 0);
    int lead = r.rank - x->rank;
    for (int k = 0; k < x->rank; k++) r.src_stride[lead + k] = x->dims[k] == 1 ? 0 : x->strides[k];
    c->lists[0].covers = true;
    return add_region(c, 0, &r);
}

const OpSchema op_Expand = {
    .name = "Expand",
    .summary = "Expand (ONNX 13): broadcast to a shape",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR, 'T', 0}, {"shape", TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .content_inputs = 1 << 1,
    .infer = infer,
    .regions = regions,
};
