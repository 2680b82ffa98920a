/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of 8-bit integers: MatMulInteger (ONNX 10), QLinearMatMul (ONNX 21), and ONNX Runtime's
   MatMulIntegerToFloat, DynamicQuantizeMatMul and QGemm. All make the exact 32-bit product; they differ in where the
   operands stand and what becomes of it. */
#include "ops/lower_int.h"
#include "ops/matmul_int.h"

/* Scales and zero points of the left side are one, or one a row; of the right side one, or one a column. Which shapes
   they may have is settled when they are applied. */

static tn_status matmul_integer_infer(InferCtx *c) {
    TRY(matmul_infer_operands(c, 0, 1));
    set_dtype(c, 0, TN_I32);
    return TN_OK;
}

static tn_status qlinear_matmul_infer(InferCtx *c) { return matmul_infer_operands(c, 0, 3); }
static tn_status plain_infer(InferCtx *c) { return matmul_infer_operands(c, 0, 1); }

/* The zero point of a: one, or one a row (dimension -2); of b: one, or one a column. */
static tn_status centred_pair(KernelCtx *c, int a, int a_zero, int b, int b_zero, float **fa, float **fb) {
    TRY(dense_centred(c, a, a_zero, (int)max_i64(c->in[a]->rank - 2, 0), fa));
    return dense_centred(c, b, b_zero, c->in[b]->rank - 1, fb);
}

/* The 32-bit product of operands a and b in scratch memory. */
static tn_status integer_product(KernelCtx *c, int a, int a_zero, int b, int b_zero, MatrixProduct *p, int32_t **sums) {
    float *fa, *fb;
    TRY(centred_pair(c, a, a_zero, b, b_zero, &fa, &fb));
    TRY(matmul_product(c, a, b, p));
    *sums = kernel_scratch(c, int32_t, (size_t)(p->batch * p->m * p->n));
    if (!*sums) return TN_OUT_OF_MEMORY;
    return matrix_product_i32(c, p, fa, fb, *sums);
}

static tn_status matmul_integer_reference(KernelCtx *c) {
    MatrixProduct p;
    int32_t *sums;
    TRY(integer_product(c, 0, 2, 1, 3, &p, &sums));
    if (tensor_count(&c->out[0]) > 0)
        memcpy(tensor_bytes(&c->out[0]), sums, (size_t)(p.batch * p.m * p.n) * sizeof *sums);
    return TN_OK;
}

/* One factor for each row or column of the product: the element of operand i. */
static int64_t pick(int64_t count, int64_t n, int64_t k) { return count == 1 ? 0 : k % n; }

static tn_status want_count(KernelCtx *c, int i, int64_t n, int64_t *count) {
    *count = tensor_count(c->in[i]);
    if (*count == 1 || *count == n) return TN_OK;
    return fail(TN_SHAPE, "\"%.*s\" has %lld elements where 1 or %lld are wanted", IN_NAME(c, i), (long long)*count,
                (long long)n);
}

/* The product of operands a and b of which one or both are 8-bit floats. */
static tn_status float_product(KernelCtx *c, int a, int a_zero, int b, int b_zero, MatrixProduct *p, float **sums) {
    float *fa, *fb;
    TRY(centred_pair(c, a, a_zero, b, b_zero, &fa, &fb));
    TRY(matmul_product(c, a, b, p));
    *sums = kernel_scratch(c, float, (size_t)(p->batch * p->m * p->n));
    if (!*sums) return TN_OUT_OF_MEMORY;
    return matrix_product_f32(c, p, fa, fb, *sums);
}

/* v, scaled, to element k of an 8-bit result, whose zero point is operand `zero`. */
static tn_status put_scaled(KernelCtx *c, int zero, int64_t k, const float *v) {
    const Tensor *y = &c->out[0];
    int64_t whole;
    float z;
    if (!dtype_is_float(y->dtype)) {
        TRY(scalar_zero(c, zero, &whole));
        quantise_row(y->dtype, tensor_bytes(y), k, v, whole, 1);
        return TN_OK;
    }
    TRY(scalar_f32(c, zero, &z));
    ((uint8_t *)tensor_bytes(y))[k] = small_float_encode(y->dtype, *v + z, true);
    return TN_OK;
}

static tn_status qlinear_matmul_reference(KernelCtx *c) {
    MatrixProduct p;
    int32_t *sums = NULL;
    const float *a_scale, *b_scale;
    float y_scale, *float_sums = NULL;
    int64_t n_a, n_b, rows = c->in[0]->rank > 1 ? c->in[0]->dims[c->in[0]->rank - 2] : 1;
    bool floats = dtype_is_float(c->in[0]->dtype) || dtype_is_float(c->in[3]->dtype);
    TRY(floats ? float_product(c, 0, 2, 3, 5, &p, &float_sums) : integer_product(c, 0, 2, 3, 5, &p, &sums));
    TRY(want_count(c, 1, rows, &n_a));
    TRY(want_count(c, 4, p.n, &n_b));
    TRY(dense_f32(c, 1, &a_scale));
    TRY(dense_f32(c, 4, &b_scale));
    TRY(scalar_f32(c, 6, &y_scale));
    for (int64_t k = 0; k < p.batch * p.m * p.n; k++) {
        float scale = a_scale[pick(n_a, rows, k / p.n)] * b_scale[pick(n_b, p.n, k)] / y_scale;
        float v = (floats ? float_sums[k] : (float)sums[k]) * scale;
        TRY(put_scaled(c, 7, k, &v));
    }
    return TN_OK;
}

static tn_status add_bias(KernelCtx *c, int i, int64_t columns, int64_t count, float *y) {
    const float *bias;
    if (!kernel_has_input(c, i)) return TN_OK;
    TRY(vector_f32(c, i, columns, &bias));
    for (int64_t k = 0; k < count; k++) y[k] += bias[k % columns];
    return TN_OK;
}

static tn_status to_float_reference(KernelCtx *c) {
    MatrixProduct p;
    int32_t *sums;
    const float *a_scale, *b_scale;
    float *y;
    int64_t n_a, n_b, rows = c->in[0]->rank > 1 ? c->in[0]->dims[c->in[0]->rank - 2] : 1;
    TRY(integer_product(c, 0, 4, 1, 5, &p, &sums));
    TRY(want_count(c, 2, rows, &n_a));
    TRY(want_count(c, 3, p.n, &n_b));
    TRY(dense_f32(c, 2, &a_scale));
    TRY(dense_f32(c, 3, &b_scale));
    TRY(result_f32(c, 0, &y));
    int64_t count = p.batch * p.m * p.n;
    for (int64_t k = 0; k < count; k++)
        y[k] = (float)sums[k] * (a_scale[pick(n_a, rows, k / p.n)] * b_scale[pick(n_b, p.n, k)]);
    TRY(add_bias(c, 6, p.n, count, y));
    result_f32_done(c, 0, y);
    return TN_OK;
}

static tn_status dynamic_matmul_reference(KernelCtx *c) {
    MatrixProduct p;
    const float *a, *scale;
    float *b, *y;
    int64_t n_scale;
    TRY(dense_f32(c, 0, &a));
    TRY(dense_centred(c, 1, 3, c->in[1]->rank - 1, &b));
    TRY(matmul_product(c, 0, 1, &p));
    TRY(want_count(c, 2, p.n, &n_scale));
    TRY(dense_f32(c, 2, &scale));
    TRY(result_f32(c, 0, &y));
    TRY(dynamic_product(c, &p, a, b, scale, n_scale, y));
    TRY(add_bias(c, 4, p.n, p.batch * p.m * p.n, y));
    result_f32_done(c, 0, y);
    return TN_OK;
}

/* ---- QGemm --------------------------------------------------------------------------------------------------- */

enum { QG_A, QG_A_SCALE, QG_A_ZERO, QG_B, QG_B_SCALE, QG_B_ZERO, QG_C, QG_Y_SCALE, QG_Y_ZERO };

static tn_status qgemm_infer(InferCtx *c) {
    bool ta = attr_int(c->node, "transA") != 0, tb = attr_int(c->node, "transB") != 0;
    TRY(want_rank(c, QG_A, 2));
    TRY(want_rank(c, QG_B, 2));
    Dim k = in_dim(c, QG_A, ta ? 0 : 1), rows = in_dim(c, QG_B, tb ? 1 : 0), n = in_dim(c, QG_B, tb ? 0 : 1);
    if (dim_is_const(k) && dim_is_const(rows) && k != rows)
        return fail(TN_SHAPE, "\"%.*s\" has %lld columns, but \"%.*s\" has %lld rows (after transA and transB)",
                    IN_NAME(c, QG_A), (long long)k, IN_NAME(c, QG_B), (long long)rows);
    Shape y = {.rank = 2, .dims = {in_dim(c, QG_A, ta ? 1 : 0), n}};
    set_shape(c, 0, &y);
    if (has_input(c, QG_C) && rank_known(c, QG_C)) {
        Shape sum;
        TRY(broadcast_shapes(c->dims, &y, in_shape(c, QG_C), &sum));
        if (sum.rank != 2) return fail(TN_SHAPE, "\"%.*s\" has more than 2 dimensions", IN_NAME(c, QG_C));
        for (int d = 0; d < 2; d++) TRY(dims_must_match(y.dims[d], sum.dims[d], "the product and C", &y.dims[d]));
    }
    if (!has_input(c, QG_Y_SCALE)) set_dtype(c, 0, TN_F32);
    else set_dtype(c, 0, has_input(c, QG_Y_ZERO) ? in_dtype(c, QG_Y_ZERO) : in_dtype(c, QG_A));
    return TN_OK;
}

/* Adds C, which broadcasts to [m, n]. */
static tn_status add_summand(KernelCtx *c, const MatrixProduct *p, int32_t *sums) {
    const int64_t *s;
    if (!kernel_has_input(c, QG_C)) return TN_OK;
    const Tensor *t = c->in[QG_C];
    int64_t col = t->rank > 0 && t->dims[t->rank - 1] != 1 ? 1 : 0;
    int64_t row = t->rank > 1 && t->dims[t->rank - 2] != 1 ? t->dims[t->rank - 1] : 0;
    TRY(dense_i64(c, QG_C, &s));
    for (int64_t k = 0; k < p->m * p->n; k++)
        sums[k] = (int32_t)((uint32_t)sums[k] + (uint32_t)s[k / p->n * row + k % p->n * col]);
    return TN_OK;
}

static tn_status qgemm_reference(KernelCtx *c) {
    bool ta = attr_int(c->node, "transA") != 0, tb = attr_int(c->node, "transB") != 0;
    const Tensor *ma = c->in[QG_A], *mb = c->in[QG_B];
    MatrixProduct p = {.m = ma->dims[ta], .k = ma->dims[!ta], .n = mb->dims[!tb], .batch = 1};
    p.a_row = ta ? 1 : p.k, p.a_col = ta ? p.m : 1;
    p.b_row = tb ? 1 : p.n, p.b_col = tb ? p.k : 1;
    p.y_row = p.n;
    float *a, *b, a_scale, y_scale = 1, alpha = (float)attr_float(c->node, "alpha");
    const float *b_scale;
    int64_t zero = 0, n_b;
    TRY(dense_centred(c, QG_A, QG_A_ZERO, ta ? 1 : 0, &a));
    TRY(dense_centred(c, QG_B, QG_B_ZERO, tb ? 0 : 1, &b));
    TRY(scalar_f32(c, QG_A_SCALE, &a_scale));
    TRY(want_count(c, QG_B_SCALE, p.n, &n_b));
    TRY(dense_f32(c, QG_B_SCALE, &b_scale));
    if (kernel_has_input(c, QG_Y_SCALE)) TRY(scalar_f32(c, QG_Y_SCALE, &y_scale));
    TRY(scalar_zero(c, QG_Y_ZERO, &zero));
    int32_t *sums = kernel_scratch(c, int32_t, (size_t)(p.m * p.n));
    if (!sums) return TN_OUT_OF_MEMORY;
    TRY(matrix_product_i32(c, &p, a, b, sums));
    TRY(add_summand(c, &p, sums));
    void *y = tensor_bytes(&c->out[0]);
    for (int64_t k = 0; k < p.m * p.n; k++) {
        float scale = alpha * a_scale * b_scale[pick(n_b, p.n, k)];
        if (c->out[0].dtype == TN_F32) ((float *)y)[k] = (float)sums[k] * scale;
        else requantise(c->out[0].dtype, y, k, &sums[k], scale / y_scale, zero, 1);
    }
    return TN_OK;
}

static double qgemm_flops(const Node *node, const Shape *in, const Shape *out) {
    double k = (double)in[0].dims[attr_int(node, "transA") ? 0 : 1];
    return 2 * k * (double)out->dims[0] * (double)out->dims[1];
}

/* ---- schemas ------------------------------------------------------------------------------------------------- */

#define BYTE (TS(TN_I8) | TS(TN_U8))
#define SCALE (TS(TN_F32) | TS(TN_F16) | TS(TN_BF16))
#define BYTE_OR_F8 (BYTE | (TS_F8 & ~TS(TN_F8E8M0)))

const OpSchema op_MatMulInteger = {
    .name = "MatMulInteger",
    .summary = "Matrix product of 8-bit integers (ONNX 10)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"A", BYTE, 'T'}, {"B", BYTE, 'U'}, {"a_zero_point", BYTE, 'T', OPERAND_OPTIONAL},
                       {"b_zero_point", BYTE, 'U', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS(TN_I32)}),
    .infer = matmul_integer_infer,
    .reference = matmul_integer_reference,
    .flops = matmul_flops,
    .lower = lower_matmul_integer,
    .lowering = "MatMul of f64, which is exact",
};

const OpSchema op_QLinearMatMul = {
    .name = "QLinearMatMul",
    .summary = "Matrix product of quantised data (ONNX 21)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"a", BYTE_OR_F8, 'T'}, {"a_scale", SCALE, 'U'}, {"a_zero_point", BYTE_OR_F8, 'T'},
                       {"b", BYTE_OR_F8, 'V'}, {"b_scale", SCALE, 'U'}, {"b_zero_point", BYTE_OR_F8, 'V'},
                       {"y_scale", SCALE, 'U'}, {"y_zero_point", BYTE_OR_F8, 'W'}),
    .outputs = OPERANDS({"y", BYTE_OR_F8, 'W'}),
    .infer = qlinear_matmul_infer,
    .reference = qlinear_matmul_reference,
    .flops = matmul_flops,
    .lower = lower_qlinear_matmul,
    .lowering = "MatMul of f64, scaled and rounded",
};

const OpSchema op_ms_MatMulIntegerToFloat = {
    .domain = "com.microsoft",
    .name = "MatMulIntegerToFloat",
    .kind = OP_COMPOSITE,
    .summary = "Matrix product of 8-bit integers, scaled to floats (ONNX Runtime 1)",
    .inputs = OPERANDS({"A", BYTE, 'T'}, {"B", BYTE, 'U'}, {"a_scale", TS_FLOAT, 'S'}, {"b_scale", TS_FLOAT, 'S'},
                       {"a_zero_point", BYTE, 'T', OPERAND_OPTIONAL}, {"b_zero_point", BYTE, 'U', OPERAND_OPTIONAL},
                       {"bias", TS_FLOAT, 'S', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'S'}),
    .infer = plain_infer,
    .reference = to_float_reference,
    .flops = matmul_flops,
    .lower = lower_matmul_integer_to_float,
    .lowering = "MatMul of f64, scaled",
};

const OpSchema op_ms_DynamicQuantizeMatMul = {
    .domain = "com.microsoft",
    .name = "DynamicQuantizeMatMul",
    .kind = OP_COMPOSITE,
    .summary = "Matrix product of floats, quantised as they come, and 8-bit integers (ONNX Runtime 1)",
    .inputs = OPERANDS({"A", TS(TN_F32), 'T'}, {"B", BYTE, 'U'}, {"b_scale", TS(TN_F32), 'T'},
                       {"b_zero_point", BYTE, 'U', OPERAND_OPTIONAL}, {"bias", TS(TN_F32), 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS(TN_F32), 'T'}),
    .infer = plain_infer,
    .reference = dynamic_matmul_reference,
    .flops = matmul_flops,
    .lower = lower_dynamic_quantize_matmul,
    .lowering = "DynamicQuantizeLinear, MatMulInteger, a product",
};

const OpSchema op_ms_QGemm = {
    .domain = "com.microsoft",
    .name = "QGemm",
    .summary = "Gemm of quantised data (ONNX Runtime 1)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"A", BYTE, 'T'}, {"a_scale", TS(TN_F32)}, {"a_zero_point", BYTE, 'T'}, {"B", BYTE, 'U'},
                       {"b_scale", TS(TN_F32)}, {"b_zero_point", BYTE, 'U'}, {"C", TS(TN_I32), 0, OPERAND_OPTIONAL},
                       {"y_scale", TS(TN_F32), 0, OPERAND_OPTIONAL}, {"y_zero_point", BYTE, 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", BYTE | TS(TN_F32)}),
    .attrs = ATTRIBUTES({"alpha", ATTR_FLOAT, .f = 1}, {"transA", ATTR_INT}, {"transB", ATTR_INT}),
    .infer = qgemm_infer,
    .reference = qgemm_reference,
    .flops = qgemm_flops,
    .lower = lower_qgemm,
    .lowering = "MatMul of f64, scaled and rounded",
};
