/* SPDX-License-Identifier: Apache-2.0 */
/* The shape side of MatMul, for its relatives with quantised operands. */
#ifndef TENON_OPS_MATMUL_INT_H
#define TENON_OPS_MATMUL_INT_H

#include "ops/nn_int.h"

/* Result 0's shape for matrices (or vectors) that are operands a and b. */
tn_status matmul_infer_operands(InferCtx *c, int a, int b);
/* The product of dense operands a and b into result 0. */
tn_status matmul_product(KernelCtx *c, int a, int b, MatrixProduct *p);
double matmul_flops(const Node *node, const Shape *in, const Shape *out);

#endif
