/* SPDX-License-Identifier: Apache-2.0 */
/* Complex operands and results as pairs of doubles, for kernels that add and weigh both parts alike. */
#ifndef TENON_OPS_COMPLEX_INT_H
#define TENON_OPS_COMPLEX_INT_H

#include "ops/op_int.h"

static inline tn_status dense_pairs(KernelCtx *c, int i, const double **out) {
    const Tensor *t = c->in[i];
    int64_t n = tensor_count(t);
    const void *bytes;
    double *pairs = kernel_scratch(c, double, 2 * (size_t)n + 1);
    if (!pairs) return TN_OUT_OF_MEMORY;
    TRY(dense_bytes(c, i, &bytes));
    load_c128(pairs, t->dtype, bytes, 0, 1, n);
    *out = pairs;
    return TN_OK;
}

static inline tn_status result_pairs(KernelCtx *c, int i, double **out) {
    *out = kernel_scratch(c, double, 2 * (size_t)tensor_count(&c->out[i]) + 1);
    return *out ? TN_OK : TN_OUT_OF_MEMORY;
}

static inline void result_pairs_done(KernelCtx *c, int i, const double *pairs) {
    const Tensor *t = &c->out[i];
    store_c128(t->dtype, t->data, t->offset, 1, pairs, tensor_count(t));
}

#endif
