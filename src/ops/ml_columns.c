/* SPDX-License-Identifier: Apache-2.0 */
/* ArrayFeatureExtractor and FeatureVectorizer (ONNX ML 1): columns picked, columns put side by side. */
#include "ops/ml_int.h"

/* ---- ArrayFeatureExtractor ----------------------------------------------------------------------------------- */

static tn_status extract_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), *index = in_shape(c, 1);
    if (x->rank == 0) return fail(TN_SHAPE, "a scalar has no features");
    if (x->rank < 0) return TN_OK;
    Shape y = *x;
    Dim n = index->rank >= 0 ? dims_product(c->dims, index, 0, index->rank) : DIM_UNKNOWN;
    if (x->rank == 1) y = (Shape){.rank = 2, .dims = {1}};
    y.dims[y.rank - 1] = n;
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status extract_reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    int64_t n = tensor_count(c->in[1]), width = row_width(x), rows = n ? tensor_count(y) / n : 0;
    const int64_t *index;
    const void *data;
    TRY(dense_i64(c, 1, &index));
    TRY(dense_bytes(c, 0, &data));
    for (int64_t k = 0; k < n; k++) {
        if (index[k] < 0 || index[k] >= width)
            return fail(TN_OUT_OF_RANGE, "index %lld of %lld features", (long long)index[k], (long long)width);
        if (rows) copy_elements(y->dtype, y->data, y->offset + k, n, data, index[k], width, rows);
    }
    return TN_OK;
}

/* ---- FeatureVectorizer --------------------------------------------------------------------------------------- */

static tn_status vectorizer_infer(InferCtx *c) {
    IntList given = attr_ints(c->node, "inputdimensions");
    Dim rows = DIM_UNKNOWN, width = 0;
    if (given.n && given.n != (size_t)c->n_in)
        return fail(TN_INVALID_MODEL, "inputdimensions has %zu values for %d inputs", given.n, c->n_in);
    for (int i = 0; i < c->n_in; i++) {
        TRY(want_rows(c, i));
        if (in_shape(c, i)->rank >= 0) TRY(dims_must_match(rows, rows_of(c, i), "rows of the inputs", &rows));
        if (given.n && (given.data[i] < 0 || given.data[i] > INT32_MAX))
            return fail(TN_INVALID_MODEL, "inputdimensions has the value %lld", (long long)given.data[i]);
        int rank = in_shape(c, i)->rank;
        width = dim_add(c->dims, width, given.n ? given.data[i] : rank > 0 ? in_dim(c, i, rank - 1) : DIM_UNKNOWN);
    }
    Shape y = {.rank = 2, .dims = {rows, width}};
    set_type(c, 0, TN_F32, &y);
    return TN_OK;
}

/* Inputs narrower than inputdimensions says are filled up with zeros, wider ones cut. */
static tn_status vectorizer_reference(KernelCtx *c) {
    IntList given = attr_ints(c->node, "inputdimensions");
    int64_t rows = c->out[0].dims[0], width = c->out[0].dims[1], at = 0;
    float *y;
    TRY(result_f32(c, 0, &y));
    for (int i = 0; i < c->n_in; i++) {
        const double *x;
        int64_t own = row_width(c->in[i]), room = given.n ? given.data[i] : own;
        TRY(dense_f64(c, i, &x));
        for (int64_t row = 0; row < rows; row++)
            for (int64_t k = 0; k < room; k++) y[row * width + at + k] = k < own ? (float)x[row * own + k] : 0;
        at += room;
    }
    return TN_OK;
}

#define TYPES (ML_NUMBERS | TS(TN_STRING))

const OpSchema op_ml_ArrayFeatureExtractor = {
    .domain = "ai.onnx.ml",
    .name = "ArrayFeatureExtractor",
    .summary = "Picks features (ONNX ML 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TYPES, 'T'}, {"Y", TS(TN_I64)}),
    .outputs = OPERANDS({"Z", TYPES, 'T'}),
    .infer = extract_infer,
    .reference = extract_reference,
};

const OpSchema op_ml_FeatureVectorizer = {
    .domain = "ai.onnx.ml",
    .name = "FeatureVectorizer",
    .summary = "Features side by side (ONNX ML 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", ML_NUMBERS, 'T', OPERAND_VARIADIC}),
    .outputs = OPERANDS({"Y", TS(TN_F32)}),
    .attrs = ATTRIBUTES({"inputdimensions", ATTR_INTS}),
    .infer = vectorizer_infer,
    .reference = vectorizer_reference,
};
