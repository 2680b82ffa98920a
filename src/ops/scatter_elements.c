/* SPDX-License-Identifier: Apache-2.0 */
/* ScatterElements (ONNX 18): y = x, then y[i][index[i][j][k]][k] = update[i][j][k], for axis 1. */
#include "ops/lower_int.h"
#include "ops/scatter_int.h"

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), *index = in_shape(c, 1), *updates = in_shape(c, 2);
    int axis;
    Reduction reduction;
    set_shape(c, 0, x);
    TRY(scatter_reduction(c->node, in_dtype(c, 0), &reduction));
    if (x->rank >= 0) TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    if (index->rank >= 0 && updates->rank >= 0) {
        if (index->rank != updates->rank)
            return fail(TN_SHAPE, "indices and updates differ in their number of dimensions");
        for (int k = 0; k < index->rank; k++) {
            Dim same;
            TRY(dims_must_match(index->dims[k], updates->dims[k], "indices and updates", &same));
        }
    }
    if (x->rank < 0 || index->rank < 0) return TN_OK;
    if (x->rank != index->rank)
        return fail(TN_SHAPE, "data has %d dimensions, but indices has %d", x->rank, index->rank);
    for (int k = 0; k < x->rank; k++)
        if (k != axis && dim_is_const(x->dims[k]) && dim_is_const(index->dims[k]) && index->dims[k] > x->dims[k])
            return fail(TN_SHAPE, "dimension %d of indices is %lld, but data has only %lld there", k,
                        (long long)index->dims[k], (long long)x->dims[k]);
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *t = c->in[1], *y = &c->out[0];
    ScatterJob job;
    int axis, last = t->rank - 1;
    int64_t at[TN_MAX_RANK] = {0}, base = y->offset;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    TRY(scatter_begin(c, &job));
    int64_t size = x->dims[axis], step = y->strides[axis], across = axis == last ? 0 : y->strides[last];
    for (int64_t n = 0; n < job.count;) {
        for (int64_t i = 0; i < t->dims[last]; i++, n++) {
            int64_t k = job.index[n] + (job.index[n] < 0 ? size : 0);
            if ((uint64_t)k >= (uint64_t)size) return normal_index(job.index[n], size, axis, &k);
            scatter_at(&job, base + i * across + k * step);
        }
        for (int d = last - 1; d >= 0; d--) {
            int64_t stride = d == axis ? 0 : y->strides[d];
            base += stride;
            if (++at[d] < t->dims[d]) break;
            base -= stride * t->dims[d];
            at[d] = 0;
        }
    }
    scatter_flush(&job);
    return TN_OK;
}

const OpSchema op_ScatterElements = {
    .name = "ScatterElements",
    .summary = "ScatterElements (ONNX 18): replace or reduce elements by index",
    .kind = OP_COMPOSITE,
    .flags = OP_LOOPS | OP_OVERWRITES0,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"indices", TS(TN_I32) | TS(TN_I64), 0, 0},
                       {"updates", TS_ALL_TENSOR, 'T', 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 0, 0, NULL}, {"reduction", ATTR_STRING, 0, 0, 0, "none"}),
    .infer = infer,
    .reference = reference,
    .lower = lower_scatter_elements,
    .lowering = "tn.Loop; regions where indices are constants",
};
