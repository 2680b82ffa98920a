/* SPDX-License-Identifier: Apache-2.0 */
/* Ops whose data have their channels last, run as those that have them behind the batch: all that differs is the order
   in which memory is read. */
#include "ops/nn_int.h"

static void channels_first(int rank, const int64_t *from, int64_t *to) {
    to[0] = from[0];
    to[1] = from[rank - 1];
    for (int d = 2; d < rank; d++) to[d] = from[d - 1];
}

static void channels_last(int rank, const int64_t *from, int64_t *to) {
    to[0] = from[0];
    to[rank - 1] = from[1];
    for (int d = 2; d < rank; d++) to[d - 1] = from[d];
}

tn_status infer_channels_last(InferCtx *c, int n, tn_status (*infer)(InferCtx *)) {
    InferValue in[OP_MAX_INPUTS] = {0}, out = c->out[0];
    InferCtx inner = *c;
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i];
        if (i < n && in[i].shape.rank > 1) channels_first(in[i].shape.rank, c->in[i].shape.dims, in[i].shape.dims);
    }
    inner.in = in;
    inner.out = &out;
    TRY(infer(&inner));
    Shape y = {.rank = out.shape.rank};
    if (y.rank > 1) channels_last(y.rank, out.shape.dims, y.dims);
    else y = out.shape;
    set_shape(c, 0, &y);
    return TN_OK;
}

static Tensor with_channels_first(const Tensor *t) {
    Tensor view = *t;
    channels_first(t->rank, t->dims, view.dims);
    channels_first(t->rank, t->strides, view.strides);
    return view;
}

tn_status run_channels_last(KernelCtx *c, int n, tn_status (*kernel)(KernelCtx *)) {
    Tensor views[OP_MAX_INPUTS], last = with_channels_first(&c->out[0]), first, y;
    const Tensor *in[OP_MAX_INPUTS];
    size_t bytes;
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i];
        if (i >= n || !in[i]) continue;
        views[i] = with_channels_first(in[i]);
        in[i] = &views[i];
    }
    tensor_set_dense(&first, last.dtype, last.rank, last.dims);
    TRY(checked_bytes(first.dtype, tensor_count(&first), &bytes));
    first.data = kernel_scratch(c, uint64_t, bytes / sizeof(uint64_t) + 1);
    if (!first.data) return TN_OUT_OF_MEMORY;
    KernelCtx inner = *c;
    inner.in = in;
    inner.out = &first;
    TRY(kernel(&inner));
    y = first;
    channels_last(first.rank, first.dims, y.dims);
    channels_last(first.rank, first.strides, y.strides);
    return copy_dense(&y, c->out[0].data, c->out[0].offset, c->pool);
}
