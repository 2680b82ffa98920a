/* SPDX-License-Identifier: Apache-2.0 */
/* Writing .npy, version 1: C order, little-endian. */
#include "formats/npy/npy_int.h"

#include <stdio.h>

enum { HEADER_ALIGN = 64, HEADER_MAX = 512, CHUNK = 4096 };

/* ---- the header ----------------------------------------------------------------------------------------------- */

static tn_status write_header(const Tensor *t, const char *descr, FileWriter *w) {
    char shape[TN_MAX_RANK * 24] = "", text[HEADER_MAX];
    size_t n = 0;
    for (int d = 0; d < t->rank; d++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%lld%s", d ? " " : "", (long long)t->dims[d],
                              d + 1 < t->rank || t->rank == 1 ? "," : "");
    int length = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    assert(length > 0 && length < HEADER_MAX - 2 * HEADER_ALIGN);
    int total = (10 + length + 1 + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN;
    int padded = total - 10;
    memset(text + length, ' ', (size_t)(padded - length - 1));
    text[padded - 1] = '\n';
    uint8_t start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)padded, (uint8_t)(padded >> 8)};
    TRY(file_writer_write(w, start, sizeof start));
    return file_writer_write(w, text, (size_t)padded);
}

static const char *type_code(tn_dtype dtype) {
    for (size_t i = 0; i < npy_n_types; i++)
        if (npy_types[i].dtype == dtype) return npy_types[i].code;
    return dtype_bits(dtype) == 16 ? "u2" : "u1";
}

/* ---- elements ------------------------------------------------------------------------------------------------- */

/* `write` is called for each row: the position of its first element, its length and stride. */
typedef struct Row {
    const Tensor *t;
    int64_t at, n, step;
    FileWriter *w;
    size_t width; /* of a string, in characters */
} Row;

static tn_status for_rows(const Tensor *t, Row row, tn_status (*write)(const Row *row)) {
    row.t = t;
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r);) {
        row.at = r.offset;
        row.n = r.n;
        row.step = r.stride;
        TRY(write(&row));
    }
    return TN_OK;
}

static tn_status write_numbers(const Row *row) {
    _Alignas(64) uint8_t chunk[CHUNK];
    size_t size = (size_t)dtype_size(row->t->dtype);
    int64_t at_once = CHUNK / (int64_t)size;
    for (int64_t i = 0; i < row->n; i += at_once) {
        int64_t n = min_i64(at_once, row->n - i);
        copy_elements(row->t->dtype, chunk, 0, 1, row->t->data, row->at + i * row->step, row->step, n);
        TRY(file_writer_write(row->w, chunk, (size_t)n * size));
    }
    return TN_OK;
}

static tn_status write_bits(const Row *row) {
    int bits = dtype_bits(row->t->dtype);
    for (int64_t i = 0; i < row->n; i++) {
        int64_t bit = (row->at + i * row->step) * bits;
        uint8_t byte = ((const uint8_t *)row->t->data)[bit / 8];
        byte = (uint8_t)(byte >> bit % 8 & ((1 << bits) - 1));
        TRY(file_writer_write(row->w, &byte, 1));
    }
    return TN_OK;
}

/* ---- strings -------------------------------------------------------------------------------------------------- */

static Str string_at(const Tensor *t, int64_t at) { return rc_string_get(((RcString *const *)t->data)[at]); }

/* The next character of valid UTF-8. */
static uint32_t next_code(const char *s, size_t *at) {
    uint8_t lead = (uint8_t)s[(*at)++];
    if (lead < 0x80) return lead;
    uint32_t code = lead & (lead >= 0xf0 ? 7 : lead >= 0xe0 ? 15 : 31);
    for (int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1; more > 0; more--)
        code = code << 6 | ((uint8_t)s[(*at)++] & 63);
    return code;
}

static tn_status write_zeros(FileWriter *w, size_t n) {
    static const uint8_t zeros[256];
    for (; n > sizeof zeros; n -= sizeof zeros) TRY(file_writer_write(w, zeros, sizeof zeros));
    return file_writer_write(w, zeros, n);
}

static tn_status write_characters(const Row *row) {
    for (int64_t i = 0; i < row->n; i++) {
        Str s = string_at(row->t, row->at + i * row->step);
        size_t written = 0;
        for (size_t at = 0; at < s.n; written++) {
            uint32_t c = next_code(s.s, &at);
            uint8_t bytes[4] = {(uint8_t)c, (uint8_t)(c >> 8), (uint8_t)(c >> 16), (uint8_t)(c >> 24)};
            TRY(file_writer_write(row->w, bytes, 4));
        }
        TRY(write_zeros(row->w, 4 * (row->width - written)));
    }
    return TN_OK;
}

static tn_status write_bytes(const Row *row) {
    for (int64_t i = 0; i < row->n; i++) {
        Str s = string_at(row->t, row->at + i * row->step);
        TRY(file_writer_write(row->w, s.s, s.n));
        TRY(write_zeros(row->w, row->width - s.n));
    }
    return TN_OK;
}

/* The longest string in characters and in bytes, and whether all are UTF-8. */
typedef struct Longest {
    size_t characters, bytes;
    bool utf8;
} Longest;

static void measure(Str s, Longest *longest) {
    size_t n = 0;
    longest->utf8 = longest->utf8 && str_is_utf8(s);
    for (size_t at = 0; longest->utf8 && at < s.n; n++) next_code(s.s, &at);
    if (n > longest->characters) longest->characters = n;
    if (s.n > longest->bytes) longest->bytes = s.n;
}

static tn_status write_strings(const Tensor *t, FileWriter *w) {
    Longest longest = {1, 1, true};
    char descr[32];
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r);)
        for (int64_t i = 0; i < r.n; i++) measure(string_at(t, r.offset + i * r.stride), &longest);
    Row row = {.w = w, .width = longest.utf8 ? longest.characters : longest.bytes};
    snprintf(descr, sizeof descr, "%s%zu", longest.utf8 ? "<U" : "|S", row.width);
    TRY(write_header(t, descr, w));
    return for_rows(t, row, longest.utf8 ? write_characters : write_bytes);
}

tn_status npy_write(const Tensor *t, FileWriter *w) {
    if (t->dtype == TN_STRING) return write_strings(t, w);
    char descr[8];
    snprintf(descr, sizeof descr, "%c%s", dtype_size(t->dtype) > 1 ? '<' : '|', type_code(t->dtype));
    TRY(write_header(t, descr, w));
    if (dtype_bits(t->dtype) < 8) return for_rows(t, (Row){.w = w}, write_bits);
    if (!tensor_is_dense(t)) return for_rows(t, (Row){.w = w}, write_numbers);
    size_t bytes = (size_t)tensor_count(t) * (size_t)dtype_size(t->dtype);
    return bytes ? file_writer_write(w, tensor_bytes(t), bytes) : TN_OK;
}
