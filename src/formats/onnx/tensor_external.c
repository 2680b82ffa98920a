/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors whose bytes lie in another file: beneath the model's folder only, each file mapped once. */
#include "formats/onnx/onnx_int.h"

/* A decimal number without sign that fits; the file gives them as text. */
static bool read_number(Str s, uint64_t *out) {
    uint64_t v = 0;
    if (s.n == 0) return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.s[i] < '0' || s.s[i] > '9') return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(s.s[i] - '0'), &v)) return false;
    }
    *out = v;
    return true;
}

typedef struct Place {
    Str location;
    uint64_t offset, length;
    bool has_length;
} Place;

static tn_status read_place(OnnxReader *r, const onnx_TensorProto *proto, const char *name, Place *out) {
    *out = (Place){0};
    for (size_t i = 0; i < proto->external_data.len; i++) {
        onnx_StringStringEntryProto entry;
        TRY(proto_read(&r->proto, proto->external_data.data[i], onnx_StringStringEntryProto, &entry));
        bool ok = true;
        if (str_equal(entry.key, STR("location"))) out->location = entry.value;
        if (str_equal(entry.key, STR("offset"))) ok = read_number(entry.value, &out->offset);
        if (str_equal(entry.key, STR("length"))) out->has_length = ok = read_number(entry.value, &out->length);
        if (!ok) return fail(TN_INVALID_MODEL, "tensor \"%s\": offset or length of its data is no number", name);
    }
    if (out->location.n == 0 || memchr(out->location.s, 0, out->location.n))
        return fail(TN_INVALID_MODEL, "tensor \"%s\" does not say in which file its data is", name);
    return TN_OK;
}

/* The mapped file; the reader owns it until the end, tensors take references of their own. */
static tn_status map_file(OnnxReader *r, Str location, const char *name, Buffer **out) {
    for (size_t i = 0; i < r->files.len; i++) {
        if (str_equal(r->files.data[i].location, location)) {
            *out = r->files.data[i].bytes;
            return TN_OK;
        }
    }
    if (!r->folder)
        return fail(TN_IO, "tensor \"%s\" has its data in another file, but the model was not read from a folder",
                    name);
    TRY(file_map_beneath(r->alloc, r->folder, location, out));
    tn_status status = vec_push(r->alloc, &r->files, (ExternalFile){location, *out});
    if (status != TN_OK) buffer_unref(*out);
    return status;
}

tn_status onnx_external_data(OnnxReader *r, const onnx_TensorProto *proto, const char *name, size_t bytes, Tensor *t) {
    Place place;
    Buffer *file = NULL;
    if (t->dtype == TN_STRING) return fail(TN_INVALID_MODEL, "tensor \"%s\" has strings in another file", name);
    TRY(read_place(r, proto, name, &place));
    if (place.has_length && place.length != bytes)
        return fail(TN_INVALID_MODEL, "tensor \"%s\" has %llu bytes of data where its shape and type want %zu", name,
                    (unsigned long long)place.length, bytes);
    tn_status status = map_file(r, place.location, name, &file);
    if (status != TN_OK) {
        diag_note("this is where the data of tensor \"%s\" should be", name);
        return status;
    }
    if (place.offset > file->size || bytes > file->size - place.offset)
        return fail(TN_INVALID_MODEL, "tensor \"%s\" wants %zu bytes at %llu of \"%.*s\", which has %zu", name, bytes,
                    (unsigned long long)place.offset, (int)place.location.n, place.location.s, file->size);
    if (bytes == 0) return TN_OK;
    t->data = file->data + place.offset;
    t->buffer = buffer_ref(file);
    return TN_OK;
}
