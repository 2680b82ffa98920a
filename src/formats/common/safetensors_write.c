/* SPDX-License-Identifier: Apache-2.0 */
/* Writes safetensors. The format allows no gaps, so what aligns a tensor to 64 bytes is a tensor of padding. */
#include <inttypes.h>

#include "formats/common/common.h"

enum { ALIGNMENT = 64, LENGTH_BYTES = 8 };

/* One tensor of the file: an item, or the padding in front of one (NULL). */
typedef struct Piece {
    const SafeItem *item;
    size_t begin, bytes;
} Piece;

typedef struct Writer {
    const Allocator *allocator;
    VEC(Piece) pieces;
    size_t end;
    Text head;
} Writer;

/* ---- the plan ------------------------------------------------------------------------------------------------ */

static tn_status tensor_size(const Tensor *t, size_t *bytes) {
    int64_t count;
    TRY(checked_count(t->rank, t->dims, &count));
    TRY(checked_bytes(t->dtype, count, bytes));
    if (t->dtype == TN_STRING) return fail(TN_UNSUPPORTED, "text cannot be written as safetensors");
    return t->data || count == 0 ? TN_OK : fail(TN_STATE, "a constant's data are not there to be written");
}

static tn_status add_piece(Writer *w, const SafeItem *item, size_t bytes) {
    Piece piece = {item, w->end, bytes};
    w->end += bytes;
    return vec_push(w->allocator, &w->pieces, piece);
}

/* Tensors of whole multiples of 64 bytes first: they need no padding between them. */
static tn_status plan(Writer *w, const SafeItem *items, size_t n) {
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < n; i++) {
            size_t bytes, gap = -w->end % ALIGNMENT;
            TRY(tensor_size(items[i].tensor, &bytes));
            if ((bytes % ALIGNMENT != 0) != (round == 1)) continue;
            if (bytes > 0 && gap > 0) TRY(add_piece(w, NULL, gap));
            TRY(add_piece(w, &items[i], bytes));
        }
    }
    return TN_OK;
}

/* ---- the head ------------------------------------------------------------------------------------------------ */

static void put_json_text(Text *out, Str s) {
    text_put(out, "\"", 1);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.s[i];
        if (c == '"' || c == '\\') text_put(out, (char[]){'\\', (char)c}, 2);
        else if (c < 0x20) text_printf(out, "\\u%04x", c);
        else text_put(out, s.s + i, 1);
    }
    text_put(out, "\"", 1);
}

static void put_piece(Text *out, const Piece *piece, size_t index) {
    const Tensor *t = piece->item ? piece->item->tensor : NULL;
    const char *dtype = t ? safetensors_dtype(t->dtype) : NULL;
    text_puts(out, ",");
    if (piece->item) put_json_text(out, piece->item->name);
    else text_printf(out, "\"__padding.%zu\"", index);
    text_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", dtype ? dtype : "U8");
    if (!dtype) text_printf(out, "%zu", piece->bytes);
    for (int i = 0; dtype && i < t->rank; i++) text_printf(out, i ? ",%" PRId64 : "%" PRId64, t->dims[i]);
    text_printf(out, "],\"data_offsets\":[%zu,%zu]}", piece->begin, piece->begin + piece->bytes);
}

/* Length and head, filled up with spaces so that the data begin at a multiple of 64. */
static tn_status make_head(Writer *w, const char *writer) {
    Text *out = &w->head;
    text_put(out, "\0\0\0\0\0\0\0\0", LENGTH_BYTES);
    text_puts(out, "{\"__metadata__\":{\"format\":");
    put_json_text(out, str_of(writer));
    text_puts(out, "}");
    for (size_t i = 0; i < w->pieces.len; i++) put_piece(out, &w->pieces.data[i], i);
    text_puts(out, "}");
    while (out->status == TN_OK && out->n % ALIGNMENT != 0) text_puts(out, " ");
    TRY(out->status);
    uint64_t length = out->n - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++) out->s[i] = (char)(length >> 8 * i);
    return TN_OK;
}

/* ---- the data ------------------------------------------------------------------------------------------------ */

static tn_status write_tensor(Writer *w, FileWriter *file, const Tensor *t, size_t bytes) {
    bool whole = dtype_size(t->dtype) > 0 || t->offset == 0;
    if (bytes == 0) return TN_OK;
    if (whole && tensor_is_dense(t)) {
        const char *data = dtype_size(t->dtype) > 0 ? tensor_bytes(t) : t->data;
        return file_writer_write(file, data, bytes);
    }
    void *copy = mem_alloc(w->allocator, bytes, ALIGNMENT);
    if (!copy) return TN_OUT_OF_MEMORY;
    tensor_gather(t, copy);
    tn_status status = file_writer_write(file, copy, bytes);
    mem_free(w->allocator, copy, bytes);
    return status;
}

static tn_status write_pieces(Writer *w, FileWriter *file) {
    static const char zeros[ALIGNMENT];
    TRY(file_writer_write(file, w->head.s, w->head.n));
    for (size_t i = 0; i < w->pieces.len; i++) {
        const Piece *piece = &w->pieces.data[i];
        if (!piece->item) TRY(file_writer_write(file, zeros, piece->bytes));
        else TRY(write_tensor(w, file, piece->item->tensor, piece->bytes));
    }
    return TN_OK;
}

static tn_status write_file(Writer *w, const char *path) {
    FileWriter *file;
    TRY(file_writer_open(w->allocator, path, &file));
    tn_status status = write_pieces(w, file);
    if (status == TN_OK) return file_writer_commit(file);
    file_writer_abort(file);
    return status;
}

tn_status safetensors_write(const Allocator *a, const char *path, const char *writer, const SafeItem *items, size_t n) {
    Writer w = {.allocator = a};
    text_init(&w.head, a);
    tn_status status = plan(&w, items, n);
    if (status == TN_OK) status = make_head(&w, writer);
    if (status == TN_OK) status = write_file(&w, path);
    vec_free(a, &w.pieces);
    text_free(&w.head);
    return status;
}
