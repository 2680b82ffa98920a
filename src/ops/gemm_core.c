/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products for the ops that are made of them. */
#include "ops/nn_int.h"

#define GEMM_BLOCK 256 /* rows of b packed at a time: sums of so many products of 9-bit integers are exact in floats */
#define GEMM_CHUNK 256 /* rows of a that share a packed block */

#define ROW_COLUMNS 512

#define T float
#define TC float
#define FN(name) name##_f32
#define FROM_SUM(s) (s)
#include "ops/gemm_body.h"
#undef T
#undef TC
#undef FN

#define T double
#define TC double
#define FN(name) name##_f64
#include "ops/gemm_body.h"
#undef T
#undef TC
#undef FN

#define T uint64_t
#define TC uint64_t
#define FN(name) name##_u64
#include "ops/gemm_body.h"
#undef T
#undef TC
#undef FN
#undef FROM_SUM

#define T float
#define TC uint32_t
#define FN(name) name##_i32
#define FROM_SUM(s) ((uint32_t)(int32_t)(s))
#include "ops/gemm_body.h"

tn_status matrix_product_f32(KernelCtx *c, const MatrixProduct *p, const float *a, const float *b, float *y) {
    return run_product_f32(c, p, a, b, y);
}
tn_status matrix_product_f64(KernelCtx *c, const MatrixProduct *p, const double *a, const double *b, double *y) {
    return run_product_f64(c, p, a, b, y);
}
tn_status matrix_product_u64(KernelCtx *c, const MatrixProduct *p, const uint64_t *a, const uint64_t *b, uint64_t *y) {
    return run_product_u64(c, p, a, b, y);
}
tn_status matrix_product_i32(KernelCtx *c, const MatrixProduct *p, const float *a, const float *b, int32_t *y) {
    return run_product_i32(c, p, a, b, (uint32_t *)y);
}
