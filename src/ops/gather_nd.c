/* SPDX-License-Identifier: Apache-2.0 */
/* GatherND (ONNX 13): slices by index tuples, within each entry of the batch. */
#include "ops/lower_int.h"
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), *index = in_shape(c, 1);
    int64_t batch = attr_int(c->node, "batch_dims");
    if (x->rank < 0 || index->rank < 0) return TN_OK;
    if (x->rank < 1 || index->rank < 1) return fail(TN_SHAPE, "data and indices must have at least one dimension");
    if (batch < 0 || batch >= x->rank || batch >= index->rank)
        return fail(TN_OUT_OF_RANGE, "batch_dims is %lld, for ranks %d and %d", (long long)batch, x->rank, index->rank);
    Dim same, tuple = index->dims[index->rank - 1];
    for (int k = 0; k < batch; k++) TRY(dims_must_match(x->dims[k], index->dims[k], "batch dimensions", &same));
    if (!dim_is_const(tuple)) return TN_OK;
    if (tuple < 1 || tuple > x->rank - batch)
        return fail(TN_SHAPE, "index tuples of %lld, for %d dimensions of data", (long long)tuple,
                    x->rank - (int)batch);
    Shape y = {.rank = index->rank - 1 + x->rank - (int)batch - (int)tuple};
    if (y.rank > TN_MAX_RANK) return fail(TN_LIMIT, "the result would have %d dimensions", y.rank);
    int n = 0;
    for (int k = 0; k < index->rank - 1; k++) y.dims[n++] = index->dims[k];
    for (int k = (int)batch + (int)tuple; k < x->rank; k++) y.dims[n++] = x->dims[k];
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *t = c->in[1], *y = &c->out[0];
    int batch = (int)attr_int(c->node, "batch_dims"), tuple = (int)t->dims[t->rank - 1];
    const int64_t *index;
    const void *data;
    int64_t inner = 1, per_batch = 1, steps[TN_MAX_RANK], tuples = 1, each = 1;
    if (tensor_count(t) == 0) return TN_OK;
    TRY(dense_i64(c, 1, &index));
    TRY(dense_bytes(c, 0, &data));
    for (int k = batch + tuple; k < x->rank; k++) inner *= x->dims[k];
    per_batch = inner;
    for (int k = tuple - 1; k >= 0; k--) {
        steps[k] = per_batch;
        per_batch *= x->dims[batch + k];
    }
    for (int k = 0; k < t->rank - 1; k++) tuples *= t->dims[k];
    for (int k = batch; k < t->rank - 1; k++) each *= t->dims[k];
    for (int64_t n = 0, base = 0, left = each; n < tuples; n++) {
        if (left == 0) base += per_batch, left = each;
        int64_t from = base;
        left--;
        for (int k = 0; k < tuple; k++) {
            int64_t at;
            TRY(normal_index(index[n * tuple + k], x->dims[batch + k], batch + k, &at));
            from += at * steps[k];
        }
        if (inner > 0) copy_run(x->dtype, y->data, y->offset + n * inner, data, from, inner);
    }
    return TN_OK;
}

const OpSchema op_GatherND = {
    .name = "GatherND",
    .summary = "GatherND (ONNX 13): slices by index tuples",
    .kind = OP_COMPOSITE,
    .flags = OP_LOOPS,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"indices", TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"batch_dims", ATTR_INT, 0, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
    .lower = lower_gather_nd,
    .lowering = "tn.Loop; regions where indices are constants",
};
