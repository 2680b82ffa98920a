/* SPDX-License-Identifier: Apache-2.0 */
/* CenterCropPad (ONNX 18): cut or pad with zeros around the middle, to given sizes. */
#include "ops/move_int.h"

/* Axes in the order of `shape`; all of them when the attribute is absent. */
static tn_status read_axes(const Node *node, int rank, int *axes, int *n) {
    IntList list = attr_ints(node, "axes");
    uint32_t mask;
    *n = attr_present(node, "axes") ? (int)min_i64((int64_t)list.n, TN_MAX_RANK + 1) : rank;
    TRY(normal_axes(list.data, list.n, rank, "axes", &mask));
    for (int k = 0; k < *n; k++) {
        axes[k] = k;
        if (attr_present(node, "axes")) TRY(normal_axis(list.data[k], rank, "axes", &axes[k]));
    }
    return TN_OK;
}

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Dim sizes[TN_MAX_RANK];
    int axes[TN_MAX_RANK], n, n_sizes;
    int64_t length = known_length(c, 1);
    TRY(expect_list(c, 1, TN_MAX_RANK));
    if (x->rank < 0) return TN_OK;
    TRY(read_axes(c->node, x->rank, axes, &n));
    if (length >= 0 && length != n) return fail(TN_SHAPE, "shape has %lld sizes for %d axes", (long long)length, n);
    Shape y = *x;
    bool known = in_content(c, 1, sizes, TN_MAX_RANK, &n_sizes);
    for (int k = 0; k < n; k++) {
        if (known && dim_is_const(sizes[k]) && sizes[k] < 0)
            return fail(TN_SHAPE, "shape[%d] is %lld", k, (long long)sizes[k]);
        y.dims[axes[k]] = known && dim_not_negative(c->dims, sizes[k]) ? sizes[k] : DIM_UNKNOWN;
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status regions(RegionCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    Region r = region_over(c, 0, 0);
    c->lists[0].covers = true;
    for (int k = 0; k < x->rank; k++) {
        int64_t extra = y->dims[k] - x->dims[k];
        r.src_stride[k] = x->strides[k];
        r.size[k] = min_i64(x->dims[k], y->dims[k]);
        if (extra > 0) {
            r.dst_offset += extra / 2 * r.dst_stride[k];
            c->lists[0].covers = false;
        } else {
            r.src_offset += -extra / 2 * x->strides[k];
        }
    }
    return add_region(c, 0, &r);
}

const OpSchema op_CenterCropPad = {
    .name = "CenterCropPad",
    .summary = "CenterCropPad (ONNX 18): cut or pad around the middle",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"input_data", TS_ALL_TENSOR, 'T', 0}, {"shape", TS(TN_I32) | TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"output_data", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"axes", ATTR_INTS, 0, 0, 0, NULL}),
    .content_inputs = 1 << 1,
    .infer = infer,
    .regions = regions,
};
