/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences, optionals and maps in files of their own (SequenceProto, OptionalProto, MapProto). Such a file does not say
   which of them it is; what is in it does. Everything is copied: a value outlives its file. */
#include <stdlib.h>

#include "formats/onnx/onnx_data.pb.h"
#include "formats/onnx/onnx_int.h"

/* Nesting is bounded by max_nesting, so recursion is safe. */
static tn_status read_value(OnnxReader *r, Str bytes, TypeKind kind, uint32_t depth, Tensor *out, Str *name);

/* What the messages say of their elements, as kinds. */
static tn_status kind_of_elements(int32_t elem_type, TypeKind *kind) {
    switch (elem_type) {
    case onnx_SequenceProto_DataType_TENSOR: *kind = TYPE_TENSOR; return TN_OK;
    case onnx_SequenceProto_DataType_SEQUENCE: *kind = TYPE_SEQUENCE; return TN_OK;
    case onnx_SequenceProto_DataType_OPTIONAL: *kind = TYPE_OPTIONAL; return TN_OK;
    case onnx_SequenceProto_DataType_MAP: *kind = TYPE_MAP; return TN_OK;
    case onnx_SequenceProto_DataType_SPARSE_TENSOR:
        return fail(TN_UNSUPPORTED, "sparse tensors are supported as constants only");
    default: return fail(TN_UNSUPPORTED, "elements of type %d are not known", elem_type);
    }
}

static tn_status read_tensor(OnnxReader *r, Str bytes, Tensor *out, Str *name) {
    Tensor found;
    TRY(onnx_decode_tensor(r, bytes, &found, name));
    tn_status status = tensor_new(r->ctx, found.dtype, found.rank, found.dims, out);
    if (status == TN_OK) copy_elements(found.dtype, out->data, 0, 1, found.data, found.offset, 1, tensor_count(&found));
    tensor_release(&found);
    return status;
}

static tn_status read_items(OnnxReader *r, const ProtoList *list, TypeKind kind, uint32_t depth, Tensor *out) {
    TRY(object_new(r->ctx, TYPE_SEQUENCE, list->len, out));
    for (size_t i = 0; i < list->len; i++) {
        tn_status status = read_value(r, list->data[i], kind, depth + 1, &object_of(out)->items[i], NULL);
        if (status == TN_OK) continue;
        tensor_release(out);
        return status;
    }
    return TN_OK;
}

static tn_status read_sequence(OnnxReader *r, Str bytes, uint32_t depth, Tensor *out, Str *name) {
    onnx_SequenceProto proto;
    TypeKind kind;
    TRY(proto_read(&r->proto, bytes, onnx_SequenceProto, &proto));
    const ProtoList *const lists[] = {[TYPE_TENSOR] = &proto.tensor_values,
                                      [TYPE_SEQUENCE] = &proto.sequence_values,
                                      [TYPE_OPTIONAL] = &proto.optional_values,
                                      [TYPE_MAP] = &proto.map_values};
    if (name) *name = proto.name;
    size_t n = proto.sparse_tensor_values.len;
    for (int k = TYPE_TENSOR; k <= TYPE_MAP; k++) n += lists[k]->len;
    if (n == 0) return object_new(r->ctx, TYPE_SEQUENCE, 0, out);
    TRY(kind_of_elements(proto.elem_type, &kind));
    if (lists[kind]->len != n) return fail(TN_MALFORMED, "a sequence has elements that are not of its own type");
    return read_items(r, lists[kind], kind, depth, out);
}

static tn_status read_optional(OnnxReader *r, Str bytes, uint32_t depth, Tensor *out, Str *name) {
    onnx_OptionalProto proto;
    TypeKind kind;
    TRY(proto_read(&r->proto, bytes, onnx_OptionalProto, &proto));
    if (name) *name = proto.name;
    if (proto.elem_type == 0) return object_new(r->ctx, TYPE_OPTIONAL, 0, out);
    TRY(kind_of_elements(proto.elem_type, &kind));
    Str value = kind == TYPE_TENSOR     ? proto.tensor_value
                : kind == TYPE_SEQUENCE ? proto.sequence_value
                : kind == TYPE_OPTIONAL ? proto.optional_value
                                        : proto.map_value;
    TRY(object_new(r->ctx, TYPE_OPTIONAL, value.s != NULL, out));
    tn_status status = value.s ? read_value(r, value, kind, depth + 1, object_of(out)->items, NULL) : TN_OK;
    if (status != TN_OK) tensor_release(out);
    return status;
}

/* ---- maps ------------------------------------------------------------------------------------------------------ */

typedef struct Key {
    int64_t number;
    Str text;
    size_t at; /* in the file */
} Key;

static int by_key(const void *x, const void *y) {
    const Key *a = x, *b = y;
    size_t n = a->text.n < b->text.n ? a->text.n : b->text.n;
    int order = n ? memcmp(a->text.s, b->text.s, n) : 0;
    if (order) return order;
    if (a->text.n != b->text.n) return a->text.n < b->text.n ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Keys in their order, whatever it is in the file: equal maps are then equal lists. */
static tn_status sort_keys(OnnxReader *r, const onnx_MapProto *proto, size_t n, Key **out) {
    Key *keys = arena_array(&r->arena, Key, n + 1);
    int64_t *numbers = arena_array(&r->arena, int64_t, proto->keys.count + 1);
    if (!keys || !numbers) return TN_OUT_OF_MEMORY;
    proto_run_ints(&proto->keys, numbers);
    for (size_t i = 0; i < n; i++)
        keys[i] = proto->key_type == TN_STRING ? (Key){0, proto->string_keys.data[i], i} : (Key){numbers[i], {0}, i};
    qsort(keys, n, sizeof *keys, by_key);
    *out = keys;
    return TN_OK;
}

static tn_status make_keys(OnnxReader *r, tn_dtype dtype, const Key *keys, int64_t n, Tensor *out) {
    TRY(tensor_new(r->ctx, dtype, 1, &n, out));
    for (int64_t i = 0; i < n; i++) {
        if (dtype != TN_STRING) store_i64(dtype, out->data, i, 1, &keys[i].number, 1);
        else TRY(rc_string_new(r->alloc, keys[i].text, (RcString **)out->data + i));
    }
    return TN_OK;
}

/* Values that are scalars of one type become one tensor, all others stay a sequence. */
static tn_status make_values(OnnxReader *r, const Object *found, const Key *keys, Tensor *out) {
    int64_t n = (int64_t)found->n;
    bool scalars = n > 0;
    for (int64_t i = 0; i < n; i++)
        scalars = scalars && found->items[i].kind == TYPE_TENSOR && found->items[i].rank == 0 &&
                  found->items[i].dtype == found->items[0].dtype;
    if (scalars) TRY(tensor_new(r->ctx, found->items[0].dtype, 1, &n, out));
    else TRY(object_new(r->ctx, TYPE_SEQUENCE, found->n, out));
    for (int64_t i = 0; i < n; i++) {
        const Tensor *value = &found->items[keys[i].at];
        if (scalars) copy_elements(value->dtype, out->data, i, 1, value->data, 0, 1, 1);
        else TRY(tensor_keep(r->ctx, value, &object_of(out)->items[i]));
    }
    return TN_OK;
}

static tn_status read_map(OnnxReader *r, Str bytes, uint32_t depth, Tensor *out, Str *name) {
    onnx_MapProto proto;
    Tensor values;
    Key *keys;
    TRY(proto_read(&r->proto, bytes, onnx_MapProto, &proto));
    if (name) *name = proto.name;
    tn_dtype dtype = (tn_dtype)proto.key_type;
    size_t n = dtype == TN_STRING ? proto.string_keys.len : proto.keys.count;
    if (dtype != TN_STRING && !dtype_is_signed_int(dtype) && !dtype_is_unsigned_int(dtype))
        return fail(TN_UNSUPPORTED, "a map's keys are of type %d", proto.key_type);
    if (!proto.values.s) return fail(TN_MALFORMED, "a map has no values");
    TRY(sort_keys(r, &proto, n, &keys));
    TRY(read_value(r, proto.values, TYPE_SEQUENCE, depth + 1, &values, NULL));
    tn_status status = object_of(&values)->n == n
                           ? object_new(r->ctx, TYPE_MAP, 2, out)
                           : fail(TN_MALFORMED, "a map has %zu keys and %zu values", n, object_of(&values)->n);
    if (status == TN_OK) {
        status = make_keys(r, dtype, keys, (int64_t)n, &object_of(out)->items[0]);
        if (status == TN_OK) status = make_values(r, object_of(&values), keys, &object_of(out)->items[1]);
        if (status != TN_OK) tensor_release(out);
    }
    tensor_release(&values);
    return status;
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static tn_status read_value(OnnxReader *r, Str bytes, TypeKind kind, uint32_t depth, Tensor *out, Str *name) {
    if (depth > r->ctx->limits.max_nesting)
        return fail(TN_LIMIT, "values are nested more than %u deep", r->ctx->limits.max_nesting);
    switch (kind) {
    case TYPE_TENSOR: return read_tensor(r, bytes, out, name);
    case TYPE_SEQUENCE: return read_sequence(r, bytes, depth, out, name);
    case TYPE_OPTIONAL: return read_optional(r, bytes, depth, out, name);
    case TYPE_MAP: return read_map(r, bytes, depth, out, name);
    }
    return fail(TN_INVALID_ARGUMENT, "there is no kind %d of values", (int)kind);
}

tn_status onnx_value_read(Context *ctx, Buffer *bytes, TypeKind kind, Tensor *out, Text *name) {
    OnnxReader r = {.ctx = ctx, .alloc = &ctx->allocator, .bytes = bytes};
    Str found = {0};
    Tensor value = {0};
    arena_init(&r.arena, r.alloc);
    r.proto = (ProtoReader){bytes->data, bytes->size, &r.arena};
    tn_status status = model_new(ctx, &r.model);
    if (status == TN_OK)
        status = read_value(&r, (Str){(const char *)bytes->data, bytes->size}, kind, 0, &value, &found);
    if (status == TN_OK && name && found.n) {
        text_put(name, found.s, found.n);
        status = name->status;
        if (status != TN_OK) tensor_release(&value);
    }
    if (status == TN_OK) *out = value;
    model_free(r.model);
    arena_free(&r.arena);
    return status;
}
