/* SPDX-License-Identifier: Apache-2.0 */
/* AffineGrid (ONNX 20): sampling coordinates for GridSample, from affine maps. */
#include "ops/nn_int.h"

static tn_status affine_grid_infer(InferCtx *c) {
    TRY(want_rank(c, 0, 3));
    TRY(want_rank(c, 1, 1));
    Dim size[TN_MAX_RANK], count = in_dim(c, 1, 0);
    int n;
    if (dim_is_const(count) && count != 4 && count != 5)
        return fail(TN_SHAPE, "size has %lld values where 4 or 5 are wanted", (long long)count);
    if (!in_content(c, 1, size, TN_MAX_RANK, &n)) {
        set_unknown_rank(c, 0, dim_is_const(count) ? (int)count : -1);
        return TN_OK;
    }
    if (n != 4 && n != 5) return fail(TN_SHAPE, "size has %d values where 4 or 5 are wanted", n);
    Shape y = {.rank = n, .dims = {size[0]}};
    TRY(dims_must_match(in_dim(c, 0, 0), size[0], "theta and size", &y.dims[0]));
    for (int d = 1; d < n; d++) {
        y.dims[d] = d + 1 < n ? size[d + 1] : n - 2;
        if (dim_is_const(y.dims[d]) && y.dims[d] < 0)
            return fail(TN_OUT_OF_RANGE, "the size %lld is negative", (long long)y.dims[d]);
    }
    Dim same;
    TRY(dims_must_match(in_dim(c, 0, 1), n - 2, "rows of theta", &same));
    TRY(dims_must_match(in_dim(c, 0, 2), n - 1, "columns of theta", &same));
    set_shape(c, 0, &y);
    return TN_OK;
}

/* Position i of n on -1..1: at the ends of the range, or at the centres of n equal parts. */
static double coordinate(int64_t i, int64_t n, bool align_corners) {
    if (!align_corners) return (2 * (double)i + 1) / (double)n - 1;
    return n > 1 ? 2 * (double)i / (double)(n - 1) - 1 : -1;
}

static tn_status affine_grid_reference(KernelCtx *c) {
    const Tensor *out = &c->out[0];
    int n = out->rank - 2; /* spatial dimensions */
    bool align = attr_int(c->node, "align_corners") != 0;
    const double *theta;
    double *y;
    TRY(dense_f64(c, 0, &theta));
    TRY(result_f64(c, 0, &y));
    int64_t index[TN_MAX_RANK] = {0};
    double *at = y;
    if (tensor_count(out) == 0) return TN_OK;
    do {
        double p[4]; /* x, y, z, 1 */
        for (int k = 0; k < n; k++) p[k] = coordinate(index[n - k], out->dims[n - k], align);
        p[n] = 1;
        const double *m = theta + index[0] * n * (n + 1);
        for (int row = 0; row < n; row++, at++) {
            *at = 0;
            for (int k = 0; k <= n; k++) *at += m[row * (n + 1) + k] * p[k];
        }
    } while (next_index(n + 1, out->dims, index));
    result_f64_done(c, 0, y);
    return TN_OK;
}

const OpSchema op_AffineGrid = {
    .name = "AffineGrid",
    .summary = "Coordinates for GridSample from affine maps (ONNX 20)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"theta", TS_FLOAT, 'T'}, {"size", TS(TN_I64)}),
    .outputs = OPERANDS({"grid", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"align_corners", ATTR_INT}),
    .content_inputs = 2,
    .infer = affine_grid_infer,
    .reference = affine_grid_reference,
};
