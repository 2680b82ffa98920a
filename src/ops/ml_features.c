/* SPDX-License-Identifier: Apache-2.0 */
/* Scaler, Normalizer, Binarizer, Imputer (ONNX ML 1): numbers made fit for a classifier, element by element or row by
   row. */
#include "ops/ml_int.h"

static tn_status floats_infer(InferCtx *c) {
    if (in_shape(c, 0)->rank == 0) return fail(TN_SHAPE, "a scalar has no features");
    set_type(c, 0, TN_F32, in_shape(c, 0));
    return TN_OK;
}

/* Features stand in the last dimension; a list has one entry for all or one for each. */
static tn_status list_step(const char *name, int64_t n, int64_t width, int64_t *step) {
    *step = n == 1 ? 0 : 1;
    return n == 1 || n == width
               ? TN_OK
               : fail(TN_INVALID_MODEL, "%s has %lld values for %lld features", name, (long long)n, (long long)width);
}

/* ---- Scaler -------------------------------------------------------------------------------------------------- */

static tn_status scaler_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    FloatList offset = attr_float_list(c->node, "offset"), scale = attr_float_list(c->node, "scale");
    int64_t width = row_width(x), offset_step, scale_step;
    const double *in;
    float *y;
    TRY(list_step("offset", offset.n, width, &offset_step));
    TRY(list_step("scale", scale.n, width, &scale_step));
    TRY(dense_f64(c, 0, &in));
    TRY(result_f32(c, 0, &y));
    for (int64_t i = 0; i < tensor_count(x); i++) {
        int64_t k = i % width;
        y[i] = (float)((in[i] - (double)offset.data[k * offset_step]) * (double)scale.data[k * scale_step]);
    }
    return TN_OK;
}

/* ---- Normalizer ---------------------------------------------------------------------------------------------- */

typedef enum Norm { NORM_MAX, NORM_L1, NORM_L2 } Norm;

static tn_status read_norm(const Node *node, Norm *out) {
    static const char *const names[] = {"MAX", "L1", "L2"};
    for (int i = 0; i < 3; i++) {
        *out = (Norm)i;
        if (attr_string_is(node, "norm", names[i])) return TN_OK;
    }
    Str s = attr_string(node, "norm");
    return fail(TN_INVALID_MODEL, "norm is \"%.*s\"; MAX, L1 or L2 is wanted", (int)s.n, s.s);
}

static tn_status normalizer_infer(InferCtx *c) {
    Norm norm;
    TRY(read_norm(c->node, &norm));
    return floats_infer(c);
}

static void normalize_line(Norm norm, const double *x, float *y, int64_t n, int64_t step) {
    double total = norm == NORM_MAX ? -INFINITY : 0;
    for (int64_t i = 0; i < n; i++) {
        double v = x[i * step];
        if (norm == NORM_MAX) total = fmax(total, v);
        else total += norm == NORM_L1 ? fabs(v) : v * v;
    }
    if (norm == NORM_L2) total = sqrt(total);
    for (int64_t i = 0; i < n; i++) y[i * step] = (float)(total == 0 ? x[i * step] : x[i * step] / total);
}

/* Along the second dimension, or the only one. */
static tn_status normalizer_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    int axis = x->rank > 1;
    int64_t n = x->dims[axis], inner = 1, count = tensor_count(x);
    const double *in;
    float *y;
    Norm norm;
    if (count == 0) return TN_OK;
    TRY(read_norm(c->node, &norm));
    TRY(dense_f64(c, 0, &in));
    TRY(result_f32(c, 0, &y));
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dims[d];
    for (int64_t line = 0; line < count / n; line++) {
        int64_t at = line / inner * n * inner + line % inner;
        normalize_line(norm, in + at, y + at, n, inner);
    }
    return TN_OK;
}

/* ---- Binarizer ----------------------------------------------------------------------------------------------- */

static tn_status binarizer_reference(KernelCtx *c) {
    const double *x;
    double *y, threshold = attr_float(c->node, "threshold");
    TRY(dense_f64(c, 0, &x));
    TRY(result_f64(c, 0, &y));
    for (int64_t i = 0; i < tensor_count(c->in[0]); i++) y[i] = x[i] > threshold;
    result_f64_done(c, 0, y);
    return TN_OK;
}

/* ---- Imputer ------------------------------------------------------------------------------------------------- */

static tn_status impute_floats(KernelCtx *c, int64_t width) {
    FloatList values = attr_float_list(c->node, "imputed_value_floats");
    double *y, replaced = attr_float(c->node, "replaced_value_float");
    const double *x;
    int64_t step;
    TRY(list_step("imputed_value_floats", values.n, width, &step));
    TRY(dense_f64(c, 0, &x));
    TRY(result_f64(c, 0, &y));
    for (int64_t i = 0; i < tensor_count(c->in[0]); i++) {
        bool found = x[i] == replaced || (x[i] != x[i] && replaced != replaced);
        y[i] = found ? (double)values.data[i % width * step] : x[i];
    }
    result_f64_done(c, 0, y);
    return TN_OK;
}

static tn_status impute_ints(KernelCtx *c, int64_t width) {
    IntList values = attr_ints(c->node, "imputed_value_int64s");
    int64_t *y, step, replaced = attr_int(c->node, "replaced_value_int64");
    const int64_t *x;
    TRY(list_step("imputed_value_int64s", (int64_t)values.n, width, &step));
    TRY(dense_i64(c, 0, &x));
    TRY(result_i64(c, 0, &y));
    for (int64_t i = 0; i < tensor_count(c->in[0]); i++) y[i] = x[i] == replaced ? values.data[i % width * step] : x[i];
    result_i64_done(c, 0, y);
    return TN_OK;
}

static tn_status imputer_infer(InferCtx *c) {
    if (in_shape(c, 0)->rank == 0) return fail(TN_SHAPE, "a scalar has no features");
    set_shape(c, 0, in_shape(c, 0));
    return TN_OK;
}

static tn_status imputer_reference(KernelCtx *c) {
    int64_t width = row_width(c->in[0]);
    return dtype_is_float(c->in[0]->dtype) ? impute_floats(c, width) : impute_ints(c, width);
}

#define SAME .inputs = OPERANDS({"X", ML_NUMBERS, 'T'}), .outputs = OPERANDS({"Y", ML_NUMBERS, 'T'})
#define TO_FLOAT .inputs = OPERANDS({"X", ML_NUMBERS}), .outputs = OPERANDS({"Y", TS(TN_F32)})

const OpSchema op_ml_Scaler = {
    .domain = "ai.onnx.ml",
    .name = "Scaler",
    .summary = "(x - offset) * scale (ONNX ML 1)",
    .kind = OP_ATOMIC,
    TO_FLOAT,
    .attrs = ATTRIBUTES({"offset", ATTR_FLOATS}, {"scale", ATTR_FLOATS}),
    .infer = floats_infer,
    .reference = scaler_reference,
};

const OpSchema op_ml_Normalizer = {
    .domain = "ai.onnx.ml",
    .name = "Normalizer",
    .summary = "Rows divided by a norm (ONNX ML 1)",
    .kind = OP_ATOMIC,
    TO_FLOAT,
    .attrs = ATTRIBUTES({"norm", ATTR_STRING, .s = "MAX"}),
    .infer = normalizer_infer,
    .reference = normalizer_reference,
};

const OpSchema op_ml_Binarizer = {
    .domain = "ai.onnx.ml",
    .name = "Binarizer",
    .summary = "1 above a threshold, else 0 (ONNX ML 1)",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    SAME,
    .attrs = ATTRIBUTES({"threshold", ATTR_FLOAT}),
    .reference = binarizer_reference,
};

const OpSchema op_ml_Imputer = {
    .domain = "ai.onnx.ml",
    .name = "Imputer",
    .summary = "Puts values for missing ones (ONNX ML 1)",
    .kind = OP_ATOMIC,
    SAME,
    .attrs = ATTRIBUTES({"imputed_value_floats", ATTR_FLOATS}, {"imputed_value_int64s", ATTR_INTS},
                        {"replaced_value_float", ATTR_FLOAT}, {"replaced_value_int64", ATTR_INT}),
    .infer = imputer_infer,
    .reference = imputer_reference,
};
