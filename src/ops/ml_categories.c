/* SPDX-License-Identifier: Apache-2.0 */
/* LabelEncoder (ONNX ML 4), CategoryMapper and OneHotEncoder (ONNX ML 1): values found in a list, and what stands for
   them. */
#include "ops/ml_int.h"

/* ---- LabelEncoder -------------------------------------------------------------------------------------------- */

/* Keys or values: one of four attributes. */
typedef struct Entries {
    const Attr *list;     /* NULL: a tensor */
    const Tensor *tensor; /* dense */
    tn_dtype dtype;
    int64_t n;
} Entries;

static tn_status read_entries(const Node *node, const char *const names[4], Entries *out) {
    static const tn_dtype dtypes[] = {TN_F32, TN_I64, TN_STRING};
    const Tensor *t = attr_tensor(node, names[3]);
    int found = t != NULL;
    if (t) *out = (Entries){NULL, t, t->dtype, tensor_count(t)};
    if (t && !tensor_is_dense(t)) return fail(TN_INVALID_MODEL, "%s is not dense", names[3]);
    for (int i = 0; i < 3; i++) {
        const Attr *a = attr_get(node, names[i]);
        if (!a) continue;
        *out = (Entries){a, NULL, dtypes[i], (int64_t)a->n};
        found++;
    }
    if (found == 1) return TN_OK;
    return fail(TN_INVALID_MODEL, "one of %s, %s, %s and %s is wanted", names[0], names[1], names[2], names[3]);
}

static tn_status read_map(const Node *node, Entries *keys, Entries *values) {
    static const char *const key_names[] = {"keys_floats", "keys_int64s", "keys_strings", "keys_tensor"};
    static const char *const value_names[] = {"values_floats", "values_int64s", "values_strings", "values_tensor"};
    TRY(read_entries(node, key_names, keys));
    TRY(read_entries(node, value_names, values));
    if (keys->n == values->n) return TN_OK;
    return fail(TN_INVALID_MODEL, "%lld keys, but %lld values", (long long)keys->n, (long long)values->n);
}

static tn_status label_encoder_infer(InferCtx *c) {
    Entries keys, values;
    TRY(read_map(c->node, &keys, &values));
    if (in_dtype(c, 0) && in_dtype(c, 0) != keys.dtype)
        return fail(TN_INVALID_MODEL, "X is %s, but the keys are %s", dtype_name(in_dtype(c, 0)),
                    dtype_name(keys.dtype));
    const Tensor *otherwise = attr_tensor(c->node, "default_tensor");
    if (otherwise && (otherwise->dtype != values.dtype || tensor_count(otherwise) != 1))
        return fail(TN_INVALID_MODEL, "default_tensor must be one element of %s", dtype_name(values.dtype));
    set_type(c, 0, values.dtype, in_shape(c, 0));
    return TN_OK;
}

/* What has no key. */
static tn_status put_otherwise(KernelCtx *c, int64_t at) {
    const Tensor *y = &c->out[0], *t = attr_tensor(c->node, "default_tensor");
    if (t) {
        copy_elements(y->dtype, y->data, y->offset + at, 1, t->data, t->offset, 1, 1);
        return TN_OK;
    }
    if (y->dtype == TN_STRING) return put_string(c, 0, at, attr_string(c->node, "default_string"));
    double f = attr_float(c->node, "default_float");
    int64_t i = attr_int(c->node, "default_int64");
    if (dtype_is_float(y->dtype)) store_f64(y->dtype, y->data, y->offset + at, 1, &f, 1);
    else store_i64(y->dtype, y->data, y->offset + at, 1, &i, 1);
    return TN_OK;
}

static tn_status put_value(KernelCtx *c, const Entries *values, int64_t at, int64_t k) {
    const Tensor *y = &c->out[0];
    if (values->list && y->dtype == TN_STRING) return put_string(c, 0, at, values->list->strings[k]);
    const void *data = values->list ? (const void *)values->list->ints : values->tensor->data;
    int64_t offset = values->list ? 0 : values->tensor->offset;
    copy_elements(y->dtype, y->data, y->offset + at, 1, data, offset + k, 1, 1);
    return TN_OK;
}

static tn_status label_encoder_reference(KernelCtx *c) {
    Entries keys, values;
    Lookup lookup;
    const void *x;
    tn_dtype dtype = c->in[0]->dtype;
    TRY(read_map(c->node, &keys, &values));
    if (keys.list && dtype == TN_STRING) TRY(lookup_texts(c, keys.list->strings, keys.n, &lookup));
    else if (keys.list) TRY(lookup_elements(c, dtype, keys.list->ints, 0, keys.n, &lookup));
    else TRY(lookup_elements(c, dtype, keys.tensor->data, keys.tensor->offset, keys.n, &lookup));
    TRY(dense_bytes(c, 0, &x));
    for (int64_t i = 0; i < tensor_count(c->in[0]); i++) {
        int64_t k = lookup_find(&lookup, dtype, x, i);
        TRY(k < 0 ? put_otherwise(c, i) : put_value(c, &values, i, k));
    }
    return TN_OK;
}

/* ---- CategoryMapper ------------------------------------------------------------------------------------------ */

static tn_status mapper_infer(InferCtx *c) {
    const Attr *texts = attr_get(c->node, "cats_strings");
    if (attr_ints(c->node, "cats_int64s").n != (texts ? texts->n : 0))
        return fail(TN_INVALID_MODEL, "cats_int64s and cats_strings must be equally long");
    if (in_dtype(c, 0)) set_dtype(c, 0, in_dtype(c, 0) == TN_STRING ? TN_I64 : TN_STRING);
    set_shape(c, 0, in_shape(c, 0));
    return TN_OK;
}

static tn_status mapper_reference(KernelCtx *c) {
    IntList ints = attr_ints(c->node, "cats_int64s");
    const Attr *texts = attr_get(c->node, "cats_strings");
    const Tensor *y = &c->out[0];
    tn_dtype from = c->in[0]->dtype;
    Lookup lookup;
    const void *x;
    if (from == TN_STRING) TRY(lookup_texts(c, texts ? texts->strings : NULL, (int64_t)ints.n, &lookup));
    else TRY(lookup_elements(c, TN_I64, ints.data, 0, (int64_t)ints.n, &lookup));
    TRY(dense_bytes(c, 0, &x));
    for (int64_t i = 0; i < tensor_count(c->in[0]); i++) {
        int64_t k = lookup_find(&lookup, from, x, i);
        int64_t number = k < 0 ? attr_int(c->node, "default_int64") : ints.data[k];
        if (from == TN_STRING) store_i64(TN_I64, y->data, y->offset + i, 1, &number, 1);
        else TRY(put_string(c, 0, i, k < 0 ? attr_string(c->node, "default_string") : texts->strings[k]));
    }
    return TN_OK;
}

/* ---- OneHotEncoder ------------------------------------------------------------------------------------------- */

static tn_status one_hot_infer(InferCtx *c) {
    Labels cats;
    TRY(read_labels(c->node, "cats_int64s", "cats_strings", &cats));
    if (in_dtype(c, 0) && (in_dtype(c, 0) == TN_STRING) != (labels_dtype(&cats) == TN_STRING))
        return fail(TN_INVALID_MODEL, "X is %s, but the categories are %s", dtype_name(in_dtype(c, 0)),
                    dtype_name(labels_dtype(&cats)));
    Shape y = *in_shape(c, 0);
    if (y.rank == TN_MAX_RANK) return fail(TN_LIMIT, "the result would have more than %d dimensions", TN_MAX_RANK);
    if (y.rank >= 0) y.dims[y.rank++] = cats.n;
    set_type(c, 0, TN_F32, &y);
    return TN_OK;
}

static tn_status one_hot_reference(KernelCtx *c) {
    tn_dtype dtype = c->in[0]->dtype;
    bool zeros = attr_int(c->node, "zeros") != 0;
    Labels cats;
    Lookup lookup;
    const void *x;
    float *y;
    TRY(read_labels(c->node, "cats_int64s", "cats_strings", &cats));
    if (dtype == TN_STRING) TRY(lookup_texts(c, cats.which->strings, cats.n, &lookup));
    else TRY(lookup_elements(c, TN_I64, cats.which->ints, 0, cats.n, &lookup));
    if (dtype == TN_STRING) TRY(dense_bytes(c, 0, &x));
    else TRY(dense_i64(c, 0, (const int64_t **)&x));
    TRY(result_f32(c, 0, &y));
    for (int64_t i = 0; i < tensor_count(c->in[0]); i++) {
        int64_t found = lookup_find(&lookup, dtype == TN_STRING ? TN_STRING : TN_I64, x, i);
        if (found < 0 && !zeros)
            return fail(TN_INVALID_ARGUMENT, "element %lld is none of the categories", (long long)i);
        for (int64_t k = 0; k < cats.n; k++) y[i * cats.n + k] = k == found;
    }
    return TN_OK;
}

#define KEYS (TS(TN_STRING) | TS(TN_I64) | TS(TN_F32) | TS(TN_I32) | TS(TN_I16) | TS(TN_F64))

const OpSchema op_ml_LabelEncoder = {
    .domain = "ai.onnx.ml",
    .name = "LabelEncoder",
    .summary = "Values for keys (ONNX ML 4)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", KEYS}),
    .outputs = OPERANDS({"Y", KEYS}),
    .attrs = ATTRIBUTES({"default_float", ATTR_FLOAT, .f = -0.0}, {"default_int64", ATTR_INT, .i = -1},
                        {"default_string", ATTR_STRING, .s = "_Unused"}, {"default_tensor", ATTR_TENSOR},
                        {"keys_floats", ATTR_FLOATS}, {"keys_int64s", ATTR_INTS}, {"keys_strings", ATTR_STRINGS},
                        {"keys_tensor", ATTR_TENSOR}, {"values_floats", ATTR_FLOATS}, {"values_int64s", ATTR_INTS},
                        {"values_strings", ATTR_STRINGS}, {"values_tensor", ATTR_TENSOR}),
    .infer = label_encoder_infer,
    .reference = label_encoder_reference,
};

const OpSchema op_ml_CategoryMapper = {
    .domain = "ai.onnx.ml",
    .name = "CategoryMapper",
    .summary = "Strings for integers and back (ONNX ML 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TS(TN_STRING) | TS(TN_I64)}),
    .outputs = OPERANDS({"Y", TS(TN_STRING) | TS(TN_I64)}),
    .attrs = ATTRIBUTES({"cats_int64s", ATTR_INTS}, {"cats_strings", ATTR_STRINGS},
                        {"default_int64", ATTR_INT, .i = -1}, {"default_string", ATTR_STRING, .s = "_Unused"}),
    .infer = mapper_infer,
    .reference = mapper_reference,
};

const OpSchema op_ml_OneHotEncoder = {
    .domain = "ai.onnx.ml",
    .name = "OneHotEncoder",
    .summary = "One-hot vectors of categories (ONNX ML 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", ML_NUMBERS | TS(TN_STRING)}),
    .outputs = OPERANDS({"Y", TS(TN_F32)}),
    .attrs = ATTRIBUTES({"cats_int64s", ATTR_INTS}, {"cats_strings", ATTR_STRINGS}, {"zeros", ATTR_INT, .i = 1}),
    .infer = one_hot_infer,
    .reference = one_hot_reference,
};
