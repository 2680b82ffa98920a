/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences, optionals and maps into files of their own, as object_file.c reads them. */
#include "formats/onnx/onnx_data.pb.h"
#include "formats/onnx/write_int.h"

/* A value on its way into a message. Nesting was checked before: recursion is safe. */
typedef struct ObjectPut {
    const Tensor *value;
    Str name;
    const OnnxWriter *writer;
} ObjectPut;

/* The numbers of the fields that hold a value of a kind. */
typedef struct KindTags {
    int32_t elem_type;
    uint32_t in_sequence, in_optional;
} KindTags;

static const KindTags tags[] = {
    [TYPE_TENSOR] = {onnx_SequenceProto_DataType_TENSOR, onnx_SequenceProto_tensor_values_tag,
                     onnx_OptionalProto_tensor_value_tag},
    [TYPE_SEQUENCE] = {onnx_SequenceProto_DataType_SEQUENCE, onnx_SequenceProto_sequence_values_tag,
                       onnx_OptionalProto_sequence_value_tag},
    [TYPE_OPTIONAL] = {onnx_SequenceProto_DataType_OPTIONAL, onnx_SequenceProto_optional_values_tag,
                       onnx_OptionalProto_optional_value_tag},
    [TYPE_MAP] = {onnx_SequenceProto_DataType_MAP, onnx_SequenceProto_map_values_tag, onnx_OptionalProto_map_value_tag},
};

/* ---- what can be written ---------------------------------------------------------------------------------------- */

typedef struct Check {
    const Context *ctx;
    uint64_t n; /* values so far: one that is held twice is written twice */
} Check;

static tn_status check_map(const Tensor *map) {
    const Tensor *keys = &object_of(map)->items[0], *values = &object_of(map)->items[1];
    bool key_type = keys->kind == TYPE_TENSOR && (keys->dtype == TN_STRING || dtype_is_signed_int(keys->dtype) ||
                                                  dtype_is_unsigned_int(keys->dtype));
    if (!key_type || keys->rank != 1)
        return fail(TN_UNSUPPORTED, "a map can be written whose keys are a list of strings or integers");
    int64_t n = values->kind == TYPE_SEQUENCE                      ? (int64_t)object_of(values)->n
                : values->kind == TYPE_TENSOR && values->rank == 1 ? values->dims[0]
                                                                   : -1;
    if (n != keys->dims[0])
        return fail(TN_UNSUPPORTED, "a map can be written that has a value for each of its %lld keys",
                    (long long)keys->dims[0]);
    return TN_OK;
}

static tn_status check_value(Check *c, const Tensor *value, uint32_t depth) {
    if (depth > c->ctx->limits.max_nesting)
        return fail(TN_LIMIT, "values are nested more than %u deep", c->ctx->limits.max_nesting);
    if (++c->n > c->ctx->limits.max_nodes)
        return fail(TN_LIMIT, "there are more than %llu values in it", (unsigned long long)c->ctx->limits.max_nodes);
    if (value->kind == TYPE_TENSOR) return TN_OK;
    const Object *object = object_of(value);
    if (value->kind == TYPE_MAP) TRY(check_map(value));
    for (size_t i = 0; i < object->n; i++) {
        if (value->kind == TYPE_SEQUENCE && object->items[i].kind != object->items[0].kind)
            return fail(TN_UNSUPPORTED, "a sequence whose elements are of several kinds cannot be written");
        TRY(check_value(c, &object->items[i], depth + 1));
    }
    return TN_OK;
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static bool put_value(pb_ostream_t *out, const void *arg);

static bool put_part(pb_ostream_t *out, uint32_t tag, const ObjectPut *whole, const Tensor *part) {
    ObjectPut put = {.value = part, .writer = whole->writer};
    return proto_put_message(out, tag, put_value, &put);
}

static bool put_sequence(pb_ostream_t *out, const ObjectPut *put) {
    const Object *object = object_of(put->value);
    const KindTags *kind = &tags[object->n ? object->items[0].kind : TYPE_TENSOR];
    if (!proto_put_int(out, onnx_SequenceProto_elem_type_tag, kind->elem_type)) return false;
    for (size_t i = 0; i < object->n; i++) {
        if (!put_part(out, kind->in_sequence, put, &object->items[i])) return false;
    }
    return true;
}

static bool put_optional(pb_ostream_t *out, const ObjectPut *put) {
    const Object *object = object_of(put->value);
    if (object->n == 0) return proto_put_int(out, onnx_OptionalProto_elem_type_tag, 0);
    const KindTags *kind = &tags[object->items[0].kind];
    return proto_put_int(out, onnx_OptionalProto_elem_type_tag, kind->elem_type) &&
           put_part(out, kind->in_optional, put, &object->items[0]);
}

/* The elements of a list as a sequence of scalars. */
static bool put_scalars(pb_ostream_t *out, const void *arg) {
    const ObjectPut *put = arg;
    Tensor one = *put->value;
    one.rank = 0;
    if (!proto_put_int(out, onnx_SequenceProto_elem_type_tag, onnx_SequenceProto_DataType_TENSOR)) return false;
    for (int64_t i = 0; i < put->value->dims[0]; i++) {
        one.offset = put->value->offset + i * put->value->strides[0];
        if (!put_part(out, onnx_SequenceProto_tensor_values_tag, put, &one)) return false;
    }
    return true;
}

static bool put_keys(pb_ostream_t *out, const Tensor *keys) {
    for (int64_t i = 0; i < keys->dims[0]; i++) {
        int64_t at = keys->offset + i * keys->strides[0], number;
        if (keys->dtype == TN_STRING) {
            Str text = rc_string_get(((RcString *const *)keys->data)[at]);
            if (!proto_put_text(out, onnx_MapProto_string_keys_tag, text)) return false;
            continue;
        }
        load_i64(&number, keys->dtype, keys->data, at, 1, 1);
        if (!proto_put_int(out, onnx_MapProto_keys_tag, number)) return false;
    }
    return true;
}

static bool put_map(pb_ostream_t *out, const ObjectPut *put) {
    const Tensor *keys = &object_of(put->value)->items[0], *values = &object_of(put->value)->items[1];
    ObjectPut list = {.value = values, .writer = put->writer};
    return proto_put_int(out, onnx_MapProto_key_type_tag, keys->dtype) && put_keys(out, keys) &&
           proto_put_message(out, onnx_MapProto_values_tag, values->kind == TYPE_TENSOR ? put_scalars : put_value,
                             &list);
}

static bool put_value(pb_ostream_t *out, const void *arg) {
    const ObjectPut *put = arg;
    if (put->value->kind == TYPE_TENSOR) {
        TensorPut tensor = {.tensor = put->value, .name = put->name, .writer = put->writer};
        return onnx_put_tensor(out, &tensor);
    }
    /* all three have their name in the same field */
    if (put->name.n && !proto_put_text(out, onnx_SequenceProto_name_tag, put->name)) return false;
    switch (put->value->kind) {
    case TYPE_SEQUENCE: return put_sequence(out, put);
    case TYPE_OPTIONAL: return put_optional(out, put);
    default: return put_map(out, put);
    }
}

tn_status onnx_value_write(const Context *ctx, const Tensor *value, Str name, FileWriter *w) {
    OnnxWriter writer = {.alloc = &ctx->allocator};
    ObjectPut put = {.value = value, .name = name, .writer = &writer};
    Check check = {.ctx = ctx};
    pb_ostream_t out = proto_file_stream(w);
    TRY(check_value(&check, value, 0));
    diag_clear();
    if (put_value(&out, &put)) return TN_OK;
    return diag_status() != TN_OK ? diag_status() : fail(TN_IO, "the value cannot be written");
}
