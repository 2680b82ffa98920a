/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads as TensorProto: in the model file, or in a data file beside it. */
#include "formats/onnx/write_int.h"

size_t onnx_payload_bytes(const Tensor *t) {
    size_t bytes;
    int64_t count = tensor_count(t);
    if (t->dtype == TN_STRING || count == 0 || checked_bytes(t->dtype, count, &bytes) != TN_OK) return 0;
    return bytes;
}

/* Bytes go to a callback in pieces, so that a strided payload needs no copy of its whole. */
typedef bool (*SinkFn)(void *user, const void *bytes, size_t n);

/* Row by row through a small buffer; its size is a whole number of bytes for every element type. */
static bool emit_strided(const Tensor *t, SinkFn sink, void *user) {
    enum { PIECE = 512 };
    uint8_t buffer[PIECE * 16];
    int64_t fill = 0;
    size_t bytes;
    memset(buffer, 0, sizeof buffer);
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r);) {
        for (int64_t i = 0; i < r.n;) {
            int64_t n = min_i64(r.n - i, PIECE - fill);
            copy_elements(t->dtype, buffer, fill, 1, t->data, r.offset + i * r.stride, r.stride, n);
            i += n;
            fill += n;
            if (fill < PIECE) continue;
            if (checked_bytes(t->dtype, fill, &bytes) != TN_OK || !sink(user, buffer, bytes)) return false;
            fill = 0;
            memset(buffer, 0, sizeof buffer);
        }
    }
    if (fill == 0) return true;
    return checked_bytes(t->dtype, fill, &bytes) == TN_OK && sink(user, buffer, bytes);
}

static bool emit(const Tensor *t, SinkFn sink, void *user) {
    size_t bytes = onnx_payload_bytes(t);
    if (bytes == 0) return true;
    if (tensor_is_dense(t) && (t->offset == 0 || dtype_size(t->dtype)))
        return sink(user, (const char *)t->data + t->offset * dtype_size(t->dtype), bytes);
    return emit_strided(t, sink, user);
}

static bool to_stream(void *user, const void *bytes, size_t n) { return pb_write(user, bytes, n); }

static bool to_file(void *user, const void *bytes, size_t n) { return file_writer_write(user, bytes, n) == TN_OK; }

static bool put_strings(pb_ostream_t *out, const Tensor *t) {
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r);)
        for (int64_t i = 0; i < r.n; i++) {
            Str text = rc_string_get(((RcString *const *)t->data)[r.offset + i * r.stride]);
            if (!proto_put_text(out, onnx_TensorProto_string_data_tag, text)) return false;
        }
    return true;
}

typedef struct Entry {
    Str key;
    Str text;
    uint64_t number;
} Entry;

static bool put_entry(pb_ostream_t *out, const void *arg) {
    const Entry *entry = arg;
    char digits[24];
    size_t n = sizeof digits;
    Str value = entry->text;
    if (!value.s) {
        uint64_t v = entry->number;
        do digits[--n] = (char)('0' + v % 10);
        while (v /= 10);
        value = (Str){digits + n, sizeof digits - n};
    }
    return proto_put_text(out, onnx_StringStringEntryProto_key_tag, entry->key) &&
           proto_put_text(out, onnx_StringStringEntryProto_value_tag, value);
}

static bool put_place(pb_ostream_t *out, const TensorPut *put) {
    Entry entries[] = {
        {.key = STR("location"), .text = put->writer->data_file},
        {.key = STR("offset"), .number = put->offset},
        {.key = STR("length"), .number = onnx_payload_bytes(put->tensor)},
    };
    for (int i = 0; i < 3; i++) {
        if (!proto_put_message(out, onnx_TensorProto_external_data_tag, put_entry, &entries[i])) return false;
    }
    return proto_put_int(out, onnx_TensorProto_data_location_tag, onnx_TensorProto_DataLocation_EXTERNAL);
}

bool onnx_put_tensor(pb_ostream_t *out, const void *arg) {
    const TensorPut *put = arg;
    const Tensor *t = put->tensor;
    for (int i = 0; i < t->rank; i++) {
        if (!proto_put_int(out, onnx_TensorProto_dims_tag, t->dims[i])) return false;
    }
    if (!proto_put_int(out, onnx_TensorProto_data_type_tag, t->dtype)) return false;
    if (put->name.n && !proto_put_text(out, onnx_TensorProto_name_tag, put->name)) return false;
    if (t->dtype == TN_STRING) return put_strings(out, t);
    if (put->external) return put_place(out, put);
    size_t bytes = onnx_payload_bytes(t);
    if (!proto_put_length(out, onnx_TensorProto_raw_data_tag, bytes)) return false;
    if (!out->callback) return pb_write(out, NULL, bytes); /* only the size is asked for */
    return emit(t, to_stream, out);
}

/* ---- the data file --------------------------------------------------------------------------------------------- */

/* Where a page begins, so that readers may map each payload by itself. */
enum { ALIGN = 4096 };

static tn_status write_padding(FileWriter *file, uint64_t *at, uint64_t to) {
    static const uint8_t zeros[ALIGN];
    tn_status status = file_writer_write(file, zeros, (size_t)(to - *at));
    *at = to;
    return status;
}

static tn_status write_payload(OnnxWriter *w, FileWriter *file, const Value *value, uint64_t *at) {
    const Tensor *t = value_constant(value);
    size_t bytes = onnx_payload_bytes(t);
    if (bytes < EXTERNAL_MIN_BYTES) return TN_OK;
    TRY(write_padding(file, at, (*at + ALIGN - 1) / ALIGN * ALIGN));
    w->offsets[value->id] = *at + 1;
    if (!emit(t, to_file, file)) return diag_status() ? diag_status() : TN_IO;
    *at += bytes;
    return TN_OK;
}

static tn_status write_payloads(OnnxWriter *w, FileWriter *file) {
    uint64_t at = 0;
    for (size_t i = 0; i < w->plans.len; i++) {
        const GraphPlan *plan = w->plans.entries[i].value;
        for (const Node *node = plan->graph->first; node; node = node->next) {
            if (is_const(node)) TRY(write_payload(w, file, node->results[0], &at));
        }
    }
    return TN_OK;
}

tn_status onnx_write_data(OnnxWriter *w, const char *path) {
    FileWriter *file;
    w->offsets = arena_array(&w->arena, uint64_t, w->model->n_values);
    if (!w->offsets) return TN_OUT_OF_MEMORY;
    TRY(file_writer_open(w->alloc, path, &file));
    tn_status status = write_payloads(w, file);
    if (status == TN_OK) return file_writer_commit(file);
    file_writer_abort(file);
    return status;
}
