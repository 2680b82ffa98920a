/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto to a constant's payload. Bytes that stand in the file as they stand in memory are pointed at; the rest is
   converted. Sizes are compared before anything is allocated. */
#include "formats/onnx/onnx_int.h"

tn_status onnx_keep_tensor(OnnxReader *r, Tensor *tensor, Tensor **out) {
    tn_status status = model_tensor(r->model, out);
    if (status != TN_OK) {
        tensor_release(tensor);
        return status;
    }
    **out = *tensor;
    return TN_OK;
}

tn_status onnx_tensor_memory(OnnxReader *r, Tensor *t) {
    Tensor fresh;
    TRY(tensor_new(r->ctx, t->dtype, t->rank, t->dims, &fresh));
    *t = fresh;
    return TN_OK;
}

/* Element type and sizes checked; `out` has no data yet. */
tn_status onnx_tensor_shape(OnnxReader *r, const ProtoRun *dims, tn_dtype dtype, const char *name, Tensor *out,
                            size_t *bytes) {
    int64_t sizes[TN_MAX_RANK];
    int64_t count;
    if (dtype_bits(dtype) == 0)
        return fail(TN_UNSUPPORTED, "tensor \"%s\" has element type %d, which Tenon does not know", name, (int)dtype);
    if (dims->count > TN_MAX_RANK)
        return fail(TN_LIMIT, "tensor \"%s\" has %zu dimensions; at most %d are possible", name, dims->count,
                    TN_MAX_RANK);
    proto_run_ints(dims, sizes);
    int rank = (int)dims->count;
    for (int i = 0; i < rank; i++) {
        if (sizes[i] < 0)
            return fail(TN_INVALID_MODEL, "tensor \"%s\" has size %lld in dimension %d", name, (long long)sizes[i], i);
    }
    if (checked_count(rank, sizes, &count) != TN_OK || checked_bytes(dtype, count, bytes) != TN_OK ||
        *bytes > r->ctx->limits.max_bytes)
        return fail(TN_LIMIT, "tensor \"%s\" is too big", name);
    tensor_set_dense(out, dtype, rank, sizes);
    return TN_OK;
}

/* The field that must hold the elements of a type when raw_data does not, and what one item of it stands for. */
typedef struct TypedField {
    const ProtoRun *run;
    const char *name;
    size_t item_bytes; /* in the payload */
    size_t items;      /* that the payload has */
} TypedField;

static TypedField typed_field(const onnx_TensorProto *proto, tn_dtype dtype, size_t bytes) {
    TypedField f = {&proto->int32_data, "int32_data", 1, 0};
    switch (dtype) {
    case TN_F32:
    case TN_C64: f = (TypedField){&proto->float_data, "float_data", 4, 0}; break;
    case TN_F64:
    case TN_C128: f = (TypedField){&proto->double_data, "double_data", 8, 0}; break;
    case TN_I64: f = (TypedField){&proto->int64_data, "int64_data", 8, 0}; break;
    case TN_U64: f = (TypedField){&proto->uint64_data, "uint64_data", 8, 0}; break;
    case TN_U32: f = (TypedField){&proto->uint64_data, "uint64_data", 4, 0}; break;
    default:
        /* types below 8 bits come as the packed bytes, one in each item */
        if (dtype_bits(dtype) > 8) f.item_bytes = (size_t)dtype_size(dtype);
    }
    f.items = bytes / f.item_bytes;
    return f;
}

/* An integer item may be written as signed or as unsigned; more bits than the element has are a lie. */
static bool item_fits(int64_t v, tn_dtype dtype, size_t item_bytes) {
    if (dtype == TN_BOOL) return v == 0 || v == 1;
    if (item_bytes == 8) return true;
    int bits = (int)item_bytes * 8;
    return v >= -((int64_t)1 << (bits - 1)) && v < ((int64_t)1 << bits);
}

static tn_status read_typed(OnnxReader *r, const onnx_TensorProto *proto, const char *name, size_t bytes, Tensor *t) {
    TypedField f = typed_field(proto, t->dtype, bytes);
    if (f.run->count != f.items)
        return fail(TN_INVALID_MODEL, "tensor \"%s\" has %zu numbers in %s where its shape and type want %zu", name,
                    f.run->count, f.name, f.items);
    bool fixed = f.run->wire == PB_WT_32BIT || f.run->wire == PB_WT_64BIT;
    if (fixed && f.run->packed.s) {
        t->data = (void *)(uintptr_t)f.run->packed.s;
        t->buffer = buffer_ref(r->bytes);
        return TN_OK;
    }
    TRY(onnx_tensor_memory(r, t));
    ProtoCursor cursor;
    uint64_t bits = 0;
    uint8_t *to = t->data;
    proto_run_start(f.run, &cursor);
    for (size_t i = 0; i < f.items && proto_run_next(&cursor, &bits); i++, to += f.item_bytes) {
        if (!fixed && !item_fits((int64_t)bits, t->dtype, f.item_bytes)) {
            tensor_release(t);
            return fail(TN_INVALID_MODEL, "tensor \"%s\" has %lld among its elements, which does not fit %s", name,
                        (long long)bits, dtype_name(t->dtype));
        }
        memcpy(to, &bits, f.item_bytes);
    }
    return TN_OK;
}

static tn_status read_strings(OnnxReader *r, const onnx_TensorProto *proto, const char *name, Tensor *t) {
    int64_t n = tensor_count(t);
    if ((int64_t)proto->string_data.len != n)
        return fail(TN_INVALID_MODEL, "tensor \"%s\" has %zu strings where its shape wants %lld", name,
                    proto->string_data.len, (long long)n);
    TRY(onnx_tensor_memory(r, t));
    RcString **strings = t->data;
    for (int64_t i = 0; i < n; i++) {
        tn_status status = rc_string_new(r->alloc, proto->string_data.data[i], &strings[i]);
        if (status != TN_OK) {
            tensor_release(t);
            return status;
        }
    }
    return TN_OK;
}

static tn_status read_raw(OnnxReader *r, const onnx_TensorProto *proto, const char *name, size_t bytes, Tensor *t) {
    Str raw = proto->raw_data;
    if (t->dtype == TN_STRING) return fail(TN_INVALID_MODEL, "tensor \"%s\" has strings as raw bytes", name);
    if (raw.n != bytes)
        return fail(TN_INVALID_MODEL, "tensor \"%s\" has %zu bytes of data where its shape and type want %zu", name,
                    raw.n, bytes);
    t->data = (void *)(uintptr_t)raw.s;
    t->buffer = buffer_ref(r->bytes);
    return TN_OK;
}

static int count_sources(const onnx_TensorProto *p) {
    return (p->raw_data.n > 0) + (p->float_data.count > 0) + (p->int32_data.count > 0) + (p->int64_data.count > 0) +
           (p->double_data.count > 0) + (p->uint64_data.count > 0) + (p->string_data.len > 0);
}

static tn_status read_data(OnnxReader *r, const onnx_TensorProto *proto, const char *name, size_t bytes, Tensor *t) {
    int sources = count_sources(proto);
    if (proto->data_location == onnx_TensorProto_DataLocation_EXTERNAL) {
        if (sources) return fail(TN_INVALID_MODEL, "tensor \"%s\" has data both here and in another file", name);
        return onnx_external_data(r, proto, name, bytes, t);
    }
    if (sources > 1) return fail(TN_INVALID_MODEL, "tensor \"%s\" has its data more than once", name);
    if (proto->raw_data.n) return read_raw(r, proto, name, bytes, t);
    if (sources == 0 && bytes == 0) return TN_OK;
    if (sources == 0) return fail(TN_INVALID_MODEL, "tensor \"%s\" has no data", name);
    return t->dtype == TN_STRING ? read_strings(r, proto, name, t) : read_typed(r, proto, name, bytes, t);
}

/* A byte that is neither 0 nor 1 would be a trap for whoever reads it as a C bool. */
static tn_status check_bools(const Tensor *t, const char *name) {
    int64_t n = tensor_count(t);
    const uint8_t *b = t->data;
    for (int64_t i = 0; i < n; i++) {
        if (b[i] > 1) return fail(TN_INVALID_MODEL, "tensor \"%s\" has the boolean %d", name, b[i]);
    }
    return TN_OK;
}

tn_status onnx_decode_tensor(OnnxReader *r, Str bytes, Tensor *out, Str *name) {
    onnx_TensorProto proto;
    TRY(proto_read(&r->proto, bytes, onnx_TensorProto, &proto));
    if (name) *name = proto.name;
    const char *text = onnx_text(r, proto.name);
    if (!text) return TN_OUT_OF_MEMORY;
    Tensor t = {0};
    size_t size = 0;
    tn_status status = proto.segment.s ? fail(TN_UNSUPPORTED, "tensor \"%s\" comes in segments", text) : TN_OK;
    if (status == TN_OK) status = onnx_tensor_shape(r, &proto.dims, (tn_dtype)proto.data_type, text, &t, &size);
    if (status == TN_OK) status = read_data(r, &proto, text, size, &t);
    if (status == TN_OK && t.dtype == TN_BOOL && (status = check_bools(&t, text)) != TN_OK) tensor_release(&t);
    if (status != TN_OK) diag_set_offset((uint64_t)((const uint8_t *)bytes.s - r->proto.base));
    *out = t;
    return status;
}

tn_status onnx_read_tensor(OnnxReader *r, Str bytes, Tensor **out, Str *name) {
    Tensor t;
    TRY(onnx_decode_tensor(r, bytes, &t, name));
    return onnx_keep_tensor(r, &t, out);
}
