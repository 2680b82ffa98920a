/* SPDX-License-Identifier: Apache-2.0 */
/* What ops over 8-bit integers share: zero points taken off, sums brought back to 8 bits, operands quantised on the
   fly. Integers less their zero point have 9 bits and are kept in floats; see matrix_product_i32. */
#include "ops/nn_int.h"

/* Step in the zero points for each dimension of t; a vector of them runs along `axis`. */
static tn_status zero_strides(const Tensor *t, const Tensor *zero, int axis, int64_t *stride) {
    int64_t n = tensor_count(zero), step = 1;
    memset(stride, 0, TN_MAX_RANK * sizeof *stride);
    if (n == 1) return TN_OK;
    if (zero->rank == 1 && axis < t->rank && zero->dims[0] == t->dims[axis]) {
        stride[axis] = 1;
        return TN_OK;
    }
    for (int d = t->rank - 1; d >= 0; d--) {
        int own = d - (t->rank - zero->rank);
        if (own < 0 || zero->dims[own] == 1) continue;
        if (zero->dims[own] != t->dims[d]) break;
        stride[d] = step;
        step *= t->dims[d];
    }
    return step == n ? TN_OK : fail(TN_SHAPE, "%lld zero points do not fit the operand", (long long)n);
}

static bool are_zero(const float *x, int64_t n) {
    int64_t i = 0;
    while (i < n && x[i] == 0) i++;
    return i == n;
}

tn_status dense_centred(KernelCtx *c, int i, int zero, int axis, float **out) {
    const Tensor *t = c->in[i];
    int64_t n = tensor_count(t), stride[TN_MAX_RANK], index[TN_MAX_RANK] = {0};
    const void *bytes;
    TRY(dense_bytes(c, i, &bytes));
    *out = kernel_scratch(c, float, (size_t)n);
    if (!*out) return TN_OUT_OF_MEMORY;
    load_f32(*out, t->dtype, bytes, 0, 1, n);
    if (zero < 0 || !kernel_has_input(c, zero)) return TN_OK;
    const float *zeros;
    TRY(dense_f32(c, zero, &zeros));
    TRY(zero_strides(t, c->in[zero], axis, stride));
    if (tensor_count(c->in[zero]) == 1) {
        for (int64_t k = 0; k < n; k++) (*out)[k] -= zeros[0];
        return TN_OK;
    }
    if (are_zero(zeros, tensor_count(c->in[zero]))) return TN_OK; /* as those of weights nearly always are */
    for (int64_t k = 0; k < n; k++) {
        int64_t at = 0;
        for (int d = 0; d < t->rank; d++) at += index[d] * stride[d];
        (*out)[k] -= zeros[at];
        next_index(t->rank, t->dims, index);
    }
    return TN_OK;
}

tn_status scalar_f32(KernelCtx *c, int i, float *out) {
    const Tensor *t = c->in[i];
    if (tensor_count(t) != 1)
        return fail(TN_SHAPE, "operand %d has %lld elements where 1 is wanted", i, (long long)tensor_count(t));
    load_f32(out, t->dtype, t->data, t->offset, 1, 1);
    return TN_OK;
}

tn_status vector_f32(KernelCtx *c, int i, int64_t n, const float **out) {
    int64_t own = tensor_count(c->in[i]);
    const float *data;
    TRY(dense_f32(c, i, &data));
    *out = data;
    if (own == n) return TN_OK;
    if (own != 1)
        return fail(TN_SHAPE, "operand %d has %lld elements where 1 or %lld are wanted", i, (long long)own,
                    (long long)n);
    float *copy = kernel_scratch(c, float, (size_t)n);
    if (!copy) return TN_OUT_OF_MEMORY;
    for (int64_t k = 0; k < n; k++) copy[k] = data[0];
    *out = copy;
    return TN_OK;
}

tn_status scalar_zero(KernelCtx *c, int i, int64_t *out) {
    *out = 0;
    if (!kernel_has_input(c, i)) return TN_OK;
    const Tensor *t = c->in[i];
    if (tensor_count(t) != 1)
        return fail(TN_SHAPE, "operand %d has %lld elements where 1 is wanted", i, (long long)tensor_count(t));
    load_i64(out, t->dtype, t->data, t->offset, 1, 1);
    return TN_OK;
}

/* Rounds half to even, then adds the zero point, as onnxruntime; a NaN becomes the zero point. What is left after clamping is so
   small that adding ROUND rounds it, without a call for each element. */
#define ROUND 12582912.0f /* 1.5 * 2^23 */
typedef struct Range {
    float least, most;
    int zero;
} Range;

static Range range_of(tn_dtype dtype, int64_t zero) {
    float low = dtype == TN_U8 ? 0 : -128, high = dtype == TN_U8 ? 255 : 127;
    return (Range){low - (float)zero, high - (float)zero, (int)zero};
}

/* The bits of either type. */
static inline uint8_t rounded(Range r, float v) {
    v = v < r.least ? r.least : v;
    v = v > r.most ? r.most : v;
    v = v == v ? v : 0;
    return (uint8_t)((int)((v + ROUND) - ROUND) + r.zero);
}

void requantise(tn_dtype dtype, void *y, int64_t offset, const int32_t *v, float scale, int64_t zero, int64_t n) {
    const Range r = range_of(dtype, zero);
    uint8_t *to = (uint8_t *)y + offset;
    for (int64_t i = 0; i < n; i++) to[i] = rounded(r, (float)v[i] * scale);
}

void quantise_row(tn_dtype dtype, void *y, int64_t offset, const float *v, int64_t zero, int64_t n) {
    const Range r = range_of(dtype, zero);
    uint8_t *to = (uint8_t *)y + offset;
    for (int64_t i = 0; i < n; i++) to[i] = rounded(r, v[i]);
}

/* The range of a, zero included, on 0..255; what is left in `out` has the zero point taken off. */
static float quantise_range(const float *a, int64_t n, float *out) {
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; i++) {
        if (a[i] < low) low = a[i];
        if (a[i] > high) high = a[i];
    }
    float scale = low == high ? 1 : (high - low) / 255;
    float zero = rintf(fminf(255, fmaxf(0, -low / scale)));
    for (int64_t i = 0; i < n; i++) {
        float q = rintf(a[i] / scale) + zero;
        out[i] = (q > 0 ? q < 255 ? q : 255 : 0) - zero;
    }
    return scale;
}

tn_status dynamic_product(KernelCtx *c, const MatrixProduct *p, const float *a, const float *b, const float *scale,
                          int64_t n_scale, float *y) {
    if (p->batch == 0 || p->m == 0 || p->n == 0) return TN_OK;
    ArenaMark mark = arena_mark(c->scratch);
    int64_t n_a = (p->a_offset ? p->a_offset[p->batch - 1] : 0) + p->m * p->k;
    int64_t n_y = (p->batch - 1) * p->y_step + (p->m - 1) * p->y_row + p->n;
    float *centred = kernel_scratch(c, float, (size_t)n_a);
    int32_t *sums = kernel_scratch(c, int32_t, (size_t)n_y);
    if (!centred || !sums) return TN_OUT_OF_MEMORY;
    float a_scale = quantise_range(a, n_a, centred);
    TRY(matrix_product_i32(c, p, centred, b, sums));
    for (int64_t row = 0; row < p->batch * p->m; row++) {
        int64_t at = row / p->m * p->y_step + row % p->m * p->y_row;
        for (int64_t j = 0; j < p->n; j++) y[at + j] = (float)sums[at + j] * (a_scale * scale[n_scale == 1 ? 0 : j]);
    }
    arena_release(c->scratch, mark);
    return TN_OK;
}
