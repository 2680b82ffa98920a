/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of the classical models: ZipMap, DictVectorizer, CastMap (ai.onnx.ml 1). A map is a list of keys and one of as many
   values; those that are made here have their keys in order. */
#include <stdio.h>
#include <stdlib.h>

#include "ops/cast_int.h"
#include "ops/object_int.h"
#include "ops/string_int.h"

enum { KEYS, VALUES };

/* ---- keys ------------------------------------------------------------------------------------------------------ */

/* A key or a label, and where it stands. */
typedef struct Key {
    int64_t number;
    Str text; /* of strings */
    int64_t at;
} Key;

static int by_key(const void *x, const void *y) {
    const Key *a = x, *b = y;
    size_t n = a->text.n < b->text.n ? a->text.n : b->text.n;
    int order = n ? memcmp(a->text.s, b->text.s, n) : 0;
    if (order) return order;
    if (a->text.n != b->text.n) return a->text.n < b->text.n ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Integers or strings of one of two attributes, sorted. */
static tn_status read_labels(const Node *node, Arena *arena, const char *ints, const char *strings, Key **out,
                             int64_t *n, tn_dtype *dtype) {
    const Attr *a = attr_get(node, ints), *b = attr_get(node, strings);
    if (a && a->n == 0) a = NULL;
    if (b && b->n == 0) b = NULL;
    if (!a == !b) return fail(TN_INVALID_ARGUMENT, "one of %s and %s must be given", ints, strings);
    *n = (int64_t)(a ? a->n : b->n);
    *dtype = a ? TN_I64 : TN_STRING;
    Key *keys = arena ? arena_array(arena, Key, (size_t)*n) : NULL;
    *out = keys;
    if (!arena) return TN_OK;
    if (!keys) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < *n; i++) keys[i] = (Key){a ? a->ints[i] : 0, a ? (Str){0} : b->strings[i], i};
    qsort(keys, (size_t)*n, sizeof *keys, by_key);
    return TN_OK;
}

/* Operand 0's keys in its order, and its values. */
static tn_status read_map(KernelCtx *c, Key **keys, int64_t *n, const Tensor **values) {
    const Object *map;
    TRY(operand_items(c, 0, TYPE_MAP, &map));
    const Tensor *k = &map->items[KEYS], *v = &map->items[VALUES];
    if (k->kind != TYPE_TENSOR || v->kind != TYPE_TENSOR || tensor_count(k) != tensor_count(v))
        return fail(TN_SHAPE, "a map must have one value a key, all of them in one tensor");
    if (k->dtype != TN_I64 && k->dtype != TN_STRING)
        return fail(TN_SHAPE, "a map's keys are %s, neither i64 nor strings", dtype_name(k->dtype));
    *n = tensor_count(k);
    *values = v;
    *keys = kernel_scratch(c, Key, (size_t)*n + 1);
    if (!*keys) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < *n; i++) {
        Key key = {.at = i};
        if (k->dtype == TN_I64) key.number = ((const int64_t *)k->data)[i];
        else key.text = rc_string_get(((RcString *const *)k->data)[i]);
        (*keys)[i] = key;
    }
    return TN_OK;
}

/* ---- ZipMap ---------------------------------------------------------------------------------------------------- */

static tn_status zip_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), one = {.rank = 1, .dims = {DIM_UNKNOWN}};
    Key *labels;
    int64_t n;
    tn_dtype dtype;
    TRY(read_labels(c->node, NULL, "classlabels_int64s", "classlabels_strings", &labels, &n, &dtype));
    if (x->rank == 0 || x->rank > 2) return fail(TN_SHAPE, "the operand has %d dimensions, neither 1 nor 2", x->rank);
    if (x->rank > 0 && dim_is_const(x->dims[x->rank - 1]) && x->dims[x->rank - 1] != n)
        return fail(TN_SHAPE, "%lld columns for %lld labels", (long long)x->dims[x->rank - 1], (long long)n);
    if (!c->model) return set_object(c, 0, TYPE_SEQUENCE, NULL);
    Type map = {.kind = TYPE_MAP, .dtype = dtype, .elem = type_tensor(c->model, TN_F32, &one)};
    const Type *interned = map.elem ? type_intern(c->model, &map) : NULL;
    return interned ? set_object(c, 0, TYPE_SEQUENCE, interned) : TN_OUT_OF_MEMORY;
}

static tn_status make_keys(KernelCtx *c, const Key *labels, int64_t n, tn_dtype dtype, Tensor *out) {
    TRY(tensor_new(c->context, dtype, 1, &n, out));
    for (int64_t i = 0; i < n; i++) {
        if (dtype == TN_I64) ((int64_t *)out->data)[i] = labels[i].number;
        else TRY(rc_string_new(&c->context->allocator, labels[i].text, (RcString **)out->data + i));
    }
    return TN_OK;
}

/* One row's map; the keys are shared by all. */
static tn_status make_map(KernelCtx *c, const Tensor *keys, const Key *labels, int64_t n, const float *row,
                          Tensor *out) {
    TRY(object_new(c->context, TYPE_MAP, 2, out));
    Tensor *items = object_of(out)->items;
    TRY(tensor_keep(c->context, keys, &items[KEYS]));
    TRY(tensor_new(c->context, TN_F32, 1, &n, &items[VALUES]));
    for (int64_t i = 0; i < n; i++) ((float *)items[VALUES].data)[i] = row[labels[i].at];
    return TN_OK;
}

static tn_status zip_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    const float *data;
    Key *labels;
    int64_t n, rows = x->rank == 2 ? x->dims[0] : 1;
    tn_dtype dtype;
    Tensor made, keys = {0};
    TRY(read_labels(c->node, c->scratch, "classlabels_int64s", "classlabels_strings", &labels, &n, &dtype));
    TRY(dense_f32(c, 0, &data));
    TRY(object_new(c->context, TYPE_SEQUENCE, (size_t)rows, &made));
    tn_status status = make_keys(c, labels, n, dtype, &keys);
    for (int64_t i = 0; i < rows && status == TN_OK; i++)
        status = make_map(c, &keys, labels, n, data + i * n, &object_of(&made)->items[i]);
    tensor_release(&keys);
    if (status == TN_OK) return kernel_give_output(c, 0, &made);
    tensor_release(&made);
    return status;
}

const OpSchema op_ml_ZipMap = {
    .domain = "ai.onnx.ml",
    .name = "ZipMap",
    .summary = "ZipMap (ai.onnx.ml 1): a map from labels to each row's numbers",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"X", TS(TN_F32), 0, 0}),
    .outputs = OPERANDS({"Z", TS_SEQUENCE, 0, 0}),
    .attrs = ATTRIBUTES({"classlabels_int64s", ATTR_INTS, 0, 0, 0, NULL},
                        {"classlabels_strings", ATTR_STRINGS, 0, 0, 0, NULL}),
    .infer = zip_infer,
    .reference = zip_reference,
};

/* ---- DictVectorizer -------------------------------------------------------------------------------------------- */

static tn_status dict_infer(InferCtx *c) {
    Key *labels;
    int64_t n;
    tn_dtype dtype;
    TRY(read_labels(c->node, NULL, "int64_vocabulary", "string_vocabulary", &labels, &n, &dtype));
    Shape y = {.rank = 2, .dims = {1, n}};
    if (items_dtype(c, 0)) set_type(c, 0, items_dtype(c, 0), &y);
    return TN_OK;
}

/* Keys that are not in the vocabulary have no place. */
static tn_status dict_reference(KernelCtx *c) {
    Key *labels, *keys;
    int64_t n, n_keys;
    tn_dtype dtype;
    const Tensor *values;
    TRY(read_labels(c->node, c->scratch, "int64_vocabulary", "string_vocabulary", &labels, &n, &dtype));
    TRY(read_map(c, &keys, &n_keys, &values));
    if (object_of(c->in[0])->items[KEYS].dtype != dtype)
        return fail(TN_SHAPE, "the vocabulary is of another type than the map's keys");
    if (!c->out[0].dtype) c->out[0].dtype = values->dtype;
    if (c->out[0].dtype != values->dtype)
        return fail(TN_SHAPE, "the map's values are %s, but were expected to be %s", dtype_name(values->dtype),
                    dtype_name(c->out[0].dtype));
    TRY(output_ready(c, 0, 2, (int64_t[]){1, n}));
    if (values->dtype != TN_STRING) TRY(output_zero(c, 0));
    for (int64_t i = 0; i < n_keys; i++) {
        const Key *at = bsearch(&keys[i], labels, (size_t)n, sizeof *labels, by_key);
        if (at) copy_elements(values->dtype, c->out[0].data, at->at, 1, values->data, values->offset + i, 1, 1);
    }
    return TN_OK;
}

const OpSchema op_ml_DictVectorizer = {
    .domain = "ai.onnx.ml",
    .name = "DictVectorizer",
    .summary = "DictVectorizer (ai.onnx.ml 1): a map's values at the places that a vocabulary gives their keys",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"X", TS_MAP, 0, 0}),
    .outputs = OPERANDS({"Y", TS(TN_I64) | TS(TN_F32) | TS(TN_F64) | TS(TN_STRING), 0, 0}),
    .attrs = ATTRIBUTES({"int64_vocabulary", ATTR_INTS, 0, 0, 0, NULL},
                        {"string_vocabulary", ATTR_STRINGS, 0, 0, 0, NULL}),
    .infer = dict_infer,
    .reference = dict_reference,
};

/* ---- CastMap --------------------------------------------------------------------------------------------------- */

static tn_status read_cast(const Node *node, tn_dtype *to, bool *sparse) {
    Str name = attr_string(node, "cast_to"), form = attr_string(node, "map_form");
    *to = str_equal(name, STR("TO_FLOAT"))    ? TN_F32
          : str_equal(name, STR("TO_INT64"))  ? TN_I64
          : str_equal(name, STR("TO_STRING")) ? TN_STRING
                                              : TN_UNDEFINED;
    *sparse = str_equal(form, STR("SPARSE"));
    if (!*to) return fail(TN_INVALID_ARGUMENT, "cast_to is none of TO_FLOAT, TO_INT64, TO_STRING");
    if (!*sparse && !str_equal(form, STR("DENSE")))
        return fail(TN_INVALID_ARGUMENT, "map_form is neither DENSE nor SPARSE");
    if (*sparse && attr_int(node, "max_map") < 1) return fail(TN_INVALID_ARGUMENT, "max_map is less than 1");
    return TN_OK;
}

static tn_status castmap_infer(InferCtx *c) {
    tn_dtype to;
    bool sparse;
    TRY(read_cast(c->node, &to, &sparse));
    Shape y = {.rank = 2, .dims = {1, sparse ? attr_int(c->node, "max_map") : DIM_UNKNOWN}};
    set_type(c, 0, to, &y);
    return TN_OK;
}

/* Element `from` of `values` as element `at` of the result. */
static tn_status cast_one(KernelCtx *c, locale_t locale, const Tensor *values, int64_t from, int64_t at) {
    Tensor *y = &c->out[0];
    double number = 0;
    int64_t integer = 0;
    char text[NUMBER_TEXT];
    if (values->dtype == TN_STRING) {
        Str s = rc_string_get(((RcString *const *)values->data)[from]);
        if (y->dtype == TN_STRING) return put_string(c, 0, at, s);
        TRY(text_to_number(locale, s, y->dtype, &number, &integer));
    } else {
        load_f64(&number, values->dtype, values->data, values->offset + from, 1, 1);
        if (y->dtype == TN_STRING) {
            float_to_text(locale, text, values->dtype, number);
            return put_string(c, 0, at, str_of(text));
        }
        integer = number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN;
    }
    if (y->dtype == TN_F32) store_f64(TN_F32, y->data, y->offset + at, 1, &number, 1);
    else store_i64(TN_I64, y->data, y->offset + at, 1, &integer, 1);
    return TN_OK;
}

static tn_status cast_all(KernelCtx *c, locale_t locale, const Key *keys, int64_t n, bool sparse,
                          const Tensor *values) {
    int64_t size = c->out[0].dims[1];
    for (int64_t i = 0; i < n; i++) {
        if (sparse && keys[i].number < 0)
            return fail(TN_OUT_OF_RANGE, "key %lld cannot be a place in a tensor", (long long)keys[i].number);
        if (sparse && keys[i].number >= size) break;
        TRY(cast_one(c, locale, values, keys[i].at, sparse ? keys[i].number : i));
    }
    return TN_OK;
}

static tn_status castmap_reference(KernelCtx *c) {
    Key *keys;
    int64_t n;
    tn_dtype to;
    bool sparse;
    const Tensor *values;
    TRY(read_cast(c->node, &to, &sparse));
    TRY(read_map(c, &keys, &n, &values));
    if (object_of(c->in[0])->items[KEYS].dtype != TN_I64) return fail(TN_SHAPE, "the map's keys must be i64");
    if (values->dtype != TN_F32 && values->dtype != TN_STRING)
        return fail(TN_SHAPE, "the map's values are %s, neither f32 nor strings", dtype_name(values->dtype));
    qsort(keys, (size_t)n, sizeof *keys, by_key);
    TRY(output_ready(c, 0, 2, (int64_t[]){1, sparse ? attr_int(c->node, "max_map") : n}));
    if (to != TN_STRING) TRY(output_zero(c, 0));
    locale_t locale = text_locale();
    if (!locale) return TN_OUT_OF_MEMORY;
    tn_status status = cast_all(c, locale, keys, n, sparse, values);
    freelocale(locale);
    return status;
}

const OpSchema op_ml_CastMap = {
    .domain = "ai.onnx.ml",
    .name = "CastMap",
    .summary = "CastMap (ai.onnx.ml 1): a map's values in the order of its keys",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"X", TS_MAP, 0, 0}),
    .outputs = OPERANDS({"Y", TS(TN_F32) | TS(TN_I64) | TS(TN_STRING), 0, 0}),
    .attrs = ATTRIBUTES({"cast_to", ATTR_STRING, 0, 0, 0, "TO_FLOAT"}, {"map_form", ATTR_STRING, 0, 0, 0, "DENSE"},
                        {"max_map", ATTR_INT, 0, 1, 0, NULL}),
    .infer = castmap_infer,
    .reference = castmap_reference,
};
