/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul and FusedMatMul for one type. */

static tn_status FN(matmul)(KernelCtx *c) {
    MatrixProduct p;
    const T *a, *b;
    T *y;
    TRY(matmul_product(c, 0, 1, &p));
    TRY(FN(dense)(c, 0, &a));
    TRY(FN(dense)(c, 1, &b));
    TRY(FN(result)(c, 0, &y));
    TRY(FN(matrix_product)(c, &p, a, b, y));
    if (op_attr_spec(c->node->op, STR("alpha"))) {
        T alpha = (T)attr_float(c->node, "alpha");
        for (int64_t i = 0; i < p.batch * p.m * p.n; i++) y[i] *= alpha;
    }
    FN_DONE(c, 0, y);
    return TN_OK;
}
