/* SPDX-License-Identifier: Apache-2.0 */
/* Products of small integers by constants as products of f32: when that is exact, and the constants for it. A float holds each
   integer up to 2^24. Where no sum of absolute products is larger, neither is any sum on the way to it, in whatever order it is
   made, so the result is the integer that the op names. */
#include <math.h>

#include "ops/lower_int.h"
#include "ops/quant_int.h"

static const double most = 0x1p24;

/* ---- what the constants are ---------------------------------------------------------------------------------- */

/* Rows of b, a factor [..., rows, columns], are summed over. */
typedef struct Factor {
    int64_t blocks, rows, columns;
    tn_dtype dtype;
    const void *data;
    double zero;
} Factor;

/* The number that all elements of a zero point are, or 0 where there is none. */
static bool one_zero(const Value *v, double *zero) {
    const Tensor *t = value_constant(v);
    float first, next;
    *zero = 0;
    if (!v) return true;
    if (!t || !tensor_is_dense(t) || tensor_count(t) == 0) return false;
    load_f32(&first, t->dtype, tensor_bytes(t), 0, 1, 1);
    for (int64_t i = 1; i < tensor_count(t); i++) {
        load_f32(&next, t->dtype, tensor_bytes(t), i, 1, 1);
        if (next != first) return false;
    }
    *zero = first;
    return true;
}

static bool is_small(tn_dtype dtype) { return dtype == TN_I8 || dtype == TN_U8; }

static bool read_factor(const Value *b, const Value *b_zero, Factor *f) {
    const Tensor *t = value_payload(b);
    if (!t || !is_small(t->dtype) || t->rank < 2 || !tensor_is_dense(t) || !t->buffer || buffer_is_lazy(t->buffer))
        return false;
    *f = (Factor){.blocks = 1, .rows = t->dims[t->rank - 2], .columns = t->dims[t->rank - 1], .dtype = t->dtype};
    for (int d = 0; d < t->rank - 2; d++) f->blocks *= t->dims[d];
    f->data = tensor_bytes(t);
    return one_zero(b_zero, &f->zero);
}

/* The largest sum of absolute values of a column. */
static bool largest_column(LowerCtx *c, const Factor *f, double *largest) {
    float *row = lower_scratch(c, float, f->columns + 1);
    double *sums = lower_scratch(c, double, f->columns + 1);
    *largest = 0;
    for (int64_t k = 0; c->status == TN_OK && k < f->blocks * f->rows; k++) {
        load_f32(row, f->dtype, f->data, k * f->columns, 1, f->columns);
        bool first = k % f->rows == 0;
        for (int64_t i = 0; i < f->columns; i++) sums[i] = (first ? 0 : sums[i]) + fabs(row[i] - f->zero);
        for (int64_t i = 0; (k + 1) % f->rows == 0 && i < f->columns; i++)
            if (sums[i] > *largest) *largest = sums[i];
    }
    return c->status == TN_OK;
}

/* The largest number of a type less its zero point, which may be any where it is no constant. */
static double farthest(tn_dtype dtype, const Value *zero_point) {
    int64_t low, high;
    double zero;
    int_range(dtype, &low, &high);
    if (!one_zero(zero_point, &zero)) return (double)(high - low);
    return fmax((double)high - zero, zero - (double)low);
}

bool lower_is_exact(LowerCtx *c, Value *a, const Value *a_zero, const Value *b, const Value *b_zero, double besides) {
    Factor f;
    double largest;
    if (!is_small(lower_dtype(a)) || !read_factor(b, b_zero, &f) || !largest_column(c, &f, &largest)) return false;
    return largest * farthest(lower_dtype(a), a_zero) + besides <= most;
}

/* ---- as f32 -------------------------------------------------------------------------------------------------- */

Value *lower_factor(LowerCtx *c, const Value *b, const Value *b_zero) {
    Model *model = c->node->graph->model;
    Tensor *payload;
    double zero;
    if (c->status != TN_OK || !one_zero(b_zero, &zero)) return NULL;
    c->status = model_tensor(model, &payload);
    if (c->status == TN_OK) c->status = widened_constant(model->ctx, b, (float)zero, payload);
    return c->status == TN_OK ? lower_constant(c, payload) : NULL;
}
