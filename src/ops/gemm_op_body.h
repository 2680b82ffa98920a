/* SPDX-License-Identifier: Apache-2.0 */
/* Gemm for one type. */

static tn_status FN(gemm)(KernelCtx *c) {
    bool ta = attr_int(c->node, "transA") != 0, tb = attr_int(c->node, "transB") != 0;
    const Tensor *ma = c->in[0], *mb = c->in[1];
    const T *a, *b, *s = NULL;
    T *y;
    TRY(FN(dense)(c, 0, &a));
    TRY(FN(dense)(c, 1, &b));
    if (kernel_has_input(c, 2)) TRY(FN(dense)(c, 2, &s));
    TRY(FN(result)(c, 0, &y));
    MatrixProduct p = {.m = ma->dims[ta], .k = ma->dims[!ta], .n = mb->dims[!tb], .batch = 1};
    p.a_row = ta ? 1 : p.k, p.a_col = ta ? p.m : 1;
    p.b_row = tb ? 1 : p.n, p.b_col = tb ? p.k : 1;
    p.y_row = p.n;
    TRY(FN(matrix_product)(c, &p, a, b, y));
    /* Integers take alpha and beta as integers, as onnxruntime does. */
    T alpha = FN(factor)(attr_float(c->node, "alpha")), beta = FN(factor)(attr_float(c->node, "beta"));
    int64_t row = 0, col = 0;
    if (s) summand_strides(c->in[2], &row, &col);
    for (int64_t i = 0; i < p.m; i++) {
        for (int64_t j = 0; j < p.n; j++) {
            T v = alpha * y[i * p.n + j];
            y[i * p.n + j] = s && beta != 0 ? v + beta * s[i * row + j * col] : v;
        }
    }
    Activation act;
    TRY(gemm_activation(c->node, &act));
    FN(activate)(&act, y, p.m * p.n);
    FN_DONE(c, 0, y);
    return TN_OK;
}
