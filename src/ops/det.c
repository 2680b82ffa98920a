/* SPDX-License-Identifier: Apache-2.0 */
/* Det (ONNX 22): determinants of square matrices, by elimination with partial pivoting in double. */
#include "ops/nn_int.h"

static tn_status det_infer(InferCtx *c) {
    if (!rank_known(c, 0)) {
        set_unknown_rank(c, 0, -1);
        return TN_OK;
    }
    Shape y = *in_shape(c, 0);
    Dim same;
    if (y.rank < 2)
        return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 2 or more are wanted", IN_NAME(c, 0), y.rank);
    TRY(dims_must_match(y.dims[y.rank - 2], y.dims[y.rank - 1], "rows and columns", &same));
    y.rank -= 2;
    set_shape(c, 0, &y);
    return TN_OK;
}

static double determinant(double *a, int64_t n) {
    double det = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
        if (pivot != k) {
            det = -det;
            for (int64_t j = k; j < n; j++) {
                double swap = a[k * n + j];
                a[k * n + j] = a[pivot * n + j], a[pivot * n + j] = swap;
            }
        }
        det *= a[k * n + k];
        if (a[k * n + k] == 0) return 0;
        for (int64_t i = k + 1; i < n; i++) {
            double factor = a[i * n + k] / a[k * n + k];
            for (int64_t j = k; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
        }
    }
    return det;
}

static tn_status det_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    int64_t n = x->dims[x->rank - 1], count = tensor_count(&c->out[0]);
    const double *data;
    double *y;
    TRY(dense_f64(c, 0, &data));
    TRY(result_f64(c, 0, &y));
    double *a = kernel_scratch(c, double, (size_t)(n * n));
    if (!a) return TN_OUT_OF_MEMORY;
    for (int64_t k = 0; k < count; k++) {
        if (n) memcpy(a, data + k * n * n, (size_t)(n * n) * sizeof *a);
        y[k] = determinant(a, n);
    }
    result_f64_done(c, 0, y);
    return TN_OK;
}

static double det_flops(const Node *node, const Shape *in, const Shape *out) {
    double n = (double)in->dims[in->rank - 1], count = 1;
    (void)node;
    for (int d = 0; d < out->rank; d++) count *= (double)out->dims[d];
    return count * n * n * n * 2 / 3;
}

const OpSchema op_Det = {
    .name = "Det",
    .summary = "Determinants (ONNX 22)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .infer = det_infer,
    .reference = det_reference,
    .flops = det_flops,
};
