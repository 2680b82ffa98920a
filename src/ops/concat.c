/* SPDX-License-Identifier: Apache-2.0 */
/* Concat (ONNX 13): operands one after another along an axis. */
#include "ops/move_int.h"

/* Contents of one-dimensional operands, with unknown elements where only the number of elements is known. */
static void concat_content(InferCtx *c) {
    Dim all[CONTENT_MAX];
    int n = 0, known = 0;
    for (int i = 0; i < c->n_in; i++) {
        int count;
        int64_t length = known_length(c, i);
        if (in_content(c, i, all + n, CONTENT_MAX - n, &count)) {
            n += count;
            known++;
        } else if (length >= 0 && length <= CONTENT_MAX - n) {
            for (int64_t k = 0; k < length; k++) all[n++] = DIM_UNKNOWN;
        } else {
            return;
        }
    }
    if (known) set_content(c, 0, all, n);
}

static tn_status infer(InferCtx *c) {
    Shape y = shape_unknown();
    int axis = 0;
    bool all_known = true;
    for (int i = 0; i < c->n_in; i++) {
        const Shape *x = in_shape(c, i);
        if (x->rank < 0) {
            all_known = false;
            continue;
        }
        if (y.rank < 0) {
            TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
            y = *x;
            continue;
        }
        if (x->rank != y.rank)
            return fail(TN_SHAPE, "operand %d has %d dimensions, but another has %d", i, x->rank, y.rank);
        for (int k = 0; k < x->rank; k++) {
            if (k == axis) y.dims[k] = dim_add(c->dims, y.dims[k], x->dims[k]);
            else TRY(dims_must_match(y.dims[k], x->dims[k], "sizes beside the axis", &y.dims[k]));
        }
    }
    if (!all_known && y.rank >= 0) y.dims[axis] = DIM_UNKNOWN;
    if (y.rank >= 0 && dim_is_const(y.dims[axis]) && y.dims[axis] < 0)
        return fail(TN_LIMIT, "the sizes along the axis add up to more than 2^63");
    set_shape(c, 0, &y);
    if (y.rank == 1) concat_content(c);
    return TN_OK;
}

static tn_status regions(RegionCtx *c) {
    const Tensor *y = &c->out[0];
    int axis;
    int64_t at = 0;
    TRY(normal_axis(attr_int(c->node, "axis"), y->rank, "axis", &axis));
    for (int i = 0; i < c->n_in; i++) {
        const Tensor *x = c->in[i];
        Region r = region_over(c, 0, i);
        r.dst_offset = at * r.dst_stride[axis];
        r.size[axis] = x->dims[axis];
        for (int k = 0; k < x->rank; k++) r.src_stride[k] = x->strides[k];
        at += x->dims[axis];
        TRY(add_region(c, 0, &r));
    }
    c->lists[0].covers = true;
    return TN_OK;
}

const OpSchema op_Concat = {
    .name = "Concat",
    .summary = "Concat (ONNX 13): operands one after another along an axis",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"inputs", TS_ALL_TENSOR, 'T', OPERAND_VARIADIC}),
    .outputs = OPERANDS({"concat_result", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = infer,
    .regions = regions,
};
