/* SPDX-License-Identifier: Apache-2.0 */
/* Range (ONNX 27): start, start + delta, ... below (for a negative delta: above) limit. Floats are computed in double
   and rounded once, whatever stash_type says. */
#include "ops/op_int.h"

#include <math.h>

#define TYPES (TS_FLOAT | TS(TN_I16) | TS(TN_I32) | TS(TN_I64))

static tn_status zero_delta(void) { return fail(TN_OUT_OF_RANGE, "delta is zero"); }

/* In 128 bits, where limit - start cannot overflow. */
static tn_status count_ints(int64_t start, int64_t limit, int64_t delta, int64_t *count) {
    if (delta == 0) return zero_delta();
    __int128 way = (__int128)limit - start, step = delta;
    if (step < 0) {
        way = -way;
        step = -step;
    }
    __int128 n = way <= 0 ? 0 : (way + step - 1) / step;
    if (n > INT64_MAX) return fail(TN_LIMIT, "the range has more than 2^63 elements");
    *count = (int64_t)n;
    return TN_OK;
}

static tn_status count_floats(double start, double limit, double delta, int64_t *count) {
    if (delta == 0) return zero_delta();
    double n = ceil((limit - start) / delta);
    if (isnan(n)) return fail(TN_OUT_OF_RANGE, "start, limit or delta is not a number");
    if (n >= 0x1p63) return fail(TN_LIMIT, "the range has more than 2^63 elements");
    *count = n > 0 ? (int64_t)n : 0;
    return TN_OK;
}

/* ---- inference ----------------------------------------------------------------------------------------------- */

/* max(0, ceil((limit - start) / delta)) */
static tn_status symbolic_count(InferCtx *c, Dim start, Dim limit, Dim delta, Dim *count) {
    *count = DIM_UNKNOWN;
    if (delta == 0) return zero_delta();
    if (!dim_is_const(delta) || start == DIM_UNKNOWN || limit == DIM_UNKNOWN) return TN_OK;
    if (dim_is_const(start) && dim_is_const(limit)) return count_ints(start, limit, delta, count);
    Dim way = delta > 0 ? dim_sub(c->dims, limit, start) : dim_sub(c->dims, start, limit);
    if (delta == INT64_MIN || way == DIM_UNKNOWN) return TN_OK;
    if (!dim_not_negative(c->dims, way)) way = dim_make(c->dims, DIM_MAX, way, 0);
    *count = dim_ceildiv(c->dims, way, delta > 0 ? delta : -delta);
    return TN_OK;
}

static tn_status infer_ints(InferCtx *c, Dim *count) {
    Dim at[3], content[CONTENT_MAX];
    int n;
    for (int k = 0; k < 3; k++) {
        if (!has_input(c, k) || !in_content(c, k, &at[k], 1, &n)) at[k] = DIM_UNKNOWN;
        else if (n != 1) return fail(TN_SHAPE, "start, limit and delta must be single numbers");
    }
    TRY(symbolic_count(c, at[0], at[1], at[2], count));
    if (!dim_is_const(*count) || *count > CONTENT_MAX || *count < 0 || at[0] == DIM_UNKNOWN) return TN_OK;
    for (int64_t i = 0; i < *count; i++) content[i] = dim_add(c->dims, at[0], dim_mul(c->dims, i, at[2]));
    set_content(c, 0, content, (int)*count);
    return TN_OK;
}

static tn_status infer_floats(const InferCtx *c, Dim *count) {
    double at[3];
    for (int k = 0; k < 3; k++) {
        const Tensor *t = has_input(c, k) ? c->in[k].value : NULL;
        if (!t || !t->data || tensor_count(t) != 1) return TN_OK;
        load_f64(&at[k], t->dtype, t->data, t->offset, 1, 1);
    }
    return count_floats(at[0], at[1], at[2], count);
}

static tn_status range_infer(InferCtx *c) {
    Shape s = {.rank = 1, .dims = {DIM_UNKNOWN}};
    for (int k = 0; k < 3; k++) {
        Dim count = has_input(c, k) && rank_known(c, k) ? dims_product(c->dims, in_shape(c, k), 0, in_shape(c, k)->rank)
                                                        : 1;
        if (dim_is_const(count) && count != 1) return fail(TN_SHAPE, "start, limit and delta must be single numbers");
    }
    tn_dtype dtype = in_dtype(c, 0);
    if (dtype_is_float(dtype)) TRY(infer_floats(c, &s.dims[0]));
    else if (dtype) TRY(infer_ints(c, &s.dims[0]));
    set_shape(c, 0, &s);
    return TN_OK;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

typedef struct Range {
    const Tensor *out;
    int64_t start, delta, count;
    double f_start, f_delta;
    bool floats;
} Range;

static void range_chunks(void *arg, int64_t begin, int64_t end) {
    const Range *r = arg;
    double f[CHUNK];
    int64_t n[CHUNK];
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t at = chunk * CHUNK, length = min_i64(CHUNK, r->count - at);
        for (int64_t i = 0; r->floats && i < length; i++) f[i] = r->f_start + (double)(at + i) * r->f_delta;
        for (int64_t i = 0; !r->floats && i < length; i++)
            n[i] = (int64_t)((uint64_t)r->start + (uint64_t)(at + i) * (uint64_t)r->delta);
        class_store(r->floats ? CLASS_F64 : CLASS_INT, r->out->dtype, r->out->data, r->out->offset + at, 1,
                    r->floats ? (void *)f : (void *)n, length);
    }
}

static tn_status range_reference(KernelCtx *c) {
    Range r = {.floats = dtype_is_float(c->in[0]->dtype)};
    double f[3];
    int64_t n[3];
    for (int k = 0; k < 3; k++) {
        const Tensor *t = c->in[k];
        if (tensor_count(t) != 1) return fail(TN_SHAPE, "start, limit and delta must be single numbers");
        if (r.floats) load_f64(&f[k], t->dtype, t->data, t->offset, 1, 1);
        else load_i64(&n[k], t->dtype, t->data, t->offset, 1, 1);
    }
    TRY(r.floats ? count_floats(f[0], f[1], f[2], &r.count) : count_ints(n[0], n[1], n[2], &r.count));
    if (!c->out[0].data && r.count > 0) TRY(kernel_alloc_output(c, 0, 1, &r.count));
    r.out = &c->out[0];
    if (tensor_count(r.out) != r.count) return fail(TN_SHAPE, "the range has another size than was expected");
    if (r.floats) {
        r.f_start = f[0];
        r.f_delta = f[2];
    } else {
        r.start = n[0];
        r.delta = n[2];
    }
    return kernel_parallel(c, (r.count + CHUNK - 1) / CHUNK, CHUNK, range_chunks, &r);
}

const OpSchema op_Range = {
    .name = "Range",
    .summary = "Range (ONNX 27): evenly spaced numbers from start up to, not including, limit",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"start", TYPES, 'T', 0}, {"limit", TYPES, 'T', 0}, {"delta", TYPES, 'T', 0}),
    .outputs = OPERANDS({"output", TYPES, 'T', 0}),
    .attrs = ATTRIBUTES({"stash_type", ATTR_INT, 0, 1, 0, NULL}),
    .content_inputs = 7,
    .infer = range_infer,
    .reference = range_reference,
};
