/* SPDX-License-Identifier: Apache-2.0 */
/* ScatterND (ONNX 18): y = x, then the slices that index tuples name are replaced or reduced. */
#include "ops/lower_int.h"
#include "ops/scatter_int.h"

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), *index = in_shape(c, 1), *updates = in_shape(c, 2);
    Reduction reduction;
    set_shape(c, 0, x);
    TRY(scatter_reduction(c->node, in_dtype(c, 0), &reduction));
    if (x->rank < 0 || index->rank < 0) return TN_OK;
    if (x->rank < 1 || index->rank < 1) return fail(TN_SHAPE, "data and indices must have at least one dimension");
    Dim tuple = index->dims[index->rank - 1], same;
    if (!dim_is_const(tuple)) return TN_OK;
    if (tuple < 1 || tuple > x->rank)
        return fail(TN_SHAPE, "index tuples of %lld, for %d dimensions of data", (long long)tuple, x->rank);
    if (updates->rank < 0) return TN_OK;
    int lead = index->rank - 1;
    if (updates->rank != lead + x->rank - (int)tuple)
        return fail(TN_SHAPE, "updates has %d dimensions, but %d are wanted", updates->rank,
                    lead + x->rank - (int)tuple);
    for (int k = 0; k < updates->rank; k++)
        TRY(dims_must_match(updates->dims[k], k < lead ? index->dims[k] : x->dims[tuple + k - lead], "updates", &same));
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *t = c->in[1], *y = &c->out[0];
    ScatterJob job;
    TRY(scatter_begin(c, &job));
    if (job.count == 0) return TN_OK;
    int tuple = (int)t->dims[t->rank - 1];
    for (int k = tuple; k < x->rank; k++) job.run *= x->dims[k];
    for (int64_t n = 0; n < job.count && job.run > 0; n += tuple) {
        int64_t to = y->offset;
        for (int k = 0; k < tuple; k++) {
            int64_t size = x->dims[k], index = job.index[n + k], at = index + (index < 0 ? size : 0);
            if ((uint64_t)at >= (uint64_t)size) return normal_index(index, size, k, &at);
            to += at * y->strides[k];
        }
        scatter_at(&job, to);
    }
    scatter_flush(&job);
    return TN_OK;
}

const OpSchema op_ScatterND = {
    .name = "ScatterND",
    .summary = "ScatterND (ONNX 18): replace or reduce slices by index tuples",
    .kind = OP_COMPOSITE,
    .flags = OP_LOOPS | OP_OVERWRITES0,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"indices", TS(TN_I64), 0, 0},
                       {"updates", TS_ALL_TENSOR, 'T', 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"reduction", ATTR_STRING, 0, 0, 0, "none"}),
    .infer = infer,
    .reference = reference,
    .lower = lower_scatter_nd,
    .lowering = "tn.Loop; regions where indices are constants",
};
