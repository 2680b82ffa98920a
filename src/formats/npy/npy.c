/* SPDX-License-Identifier: Apache-2.0 */
/* Reading .npy: a magic, a Python dictionary that describes the array, the elements. */
#include "formats/npy/npy_int.h"

#include <limits.h>

static const uint8_t MAGIC[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* ---- the header ----------------------------------------------------------------------------------------------- */

/* A place in the dictionary, which is the only thing that is parsed. */
typedef struct Cursor {
    const char *at, *end;
} Cursor;

typedef struct Header {
    Str descr; /* "<f4" */
    bool fortran;
    int rank;
    int64_t dims[TN_MAX_RANK];
    unsigned seen; /* keys, a bit each */
} Header;

static void skip_space(Cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r')) c->at++;
}

static bool take(Cursor *c, char wanted) {
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool take_word(Cursor *c, Str word) {
    skip_space(c);
    if ((size_t)(c->end - c->at) < word.n || memcmp(c->at, word.s, word.n) != 0) return false;
    c->at += word.n;
    return true;
}

static tn_status expect(Cursor *c, char wanted) {
    return take(c, wanted) ? TN_OK : fail(TN_MALFORMED, "the .npy header lacks a '%c'", wanted);
}

static tn_status read_text(Cursor *c, Str *out) {
    char quote = take(c, '\'') ? '\'' : take(c, '"') ? '"' : 0;
    if (!quote) return fail(TN_MALFORMED, "the .npy header lacks a quoted text");
    const char *close = memchr(c->at, quote, (size_t)(c->end - c->at));
    if (!close) return fail(TN_MALFORMED, "the .npy header has a text without an end");
    *out = (Str){c->at, (size_t)(close - c->at)};
    c->at = close + 1;
    return TN_OK;
}

static tn_status read_size(Cursor *c, int64_t *out) {
    skip_space(c);
    const char *first = c->at;
    int64_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (mul_overflows(value, 10, &value) || add_overflows(value, *c->at - '0', &value))
            return fail(TN_LIMIT, "a size in the .npy header is too large");
    if (c->at == first) return fail(TN_MALFORMED, "the .npy header lacks a size");
    take(c, 'L'); /* Python 2's long integers */
    *out = value;
    return TN_OK;
}

static tn_status read_shape(Cursor *c, Header *h) {
    TRY(expect(c, '('));
    h->rank = 0;
    while (!take(c, ')')) {
        if (h->rank == TN_MAX_RANK) return fail(TN_UNSUPPORTED, "the array has more than %d dimensions", TN_MAX_RANK);
        TRY(read_size(c, &h->dims[h->rank++]));
        if (take(c, ',')) continue;
        TRY(expect(c, ')'));
        break;
    }
    return TN_OK;
}

static tn_status read_descr(Cursor *c, Header *h) {
    skip_space(c);
    if (c->at < c->end && *c->at == '[') return fail(TN_UNSUPPORTED, "arrays of records are not supported");
    return read_text(c, &h->descr);
}

static tn_status read_order(Cursor *c, Header *h) {
    h->fortran = take_word(c, STR("True"));
    if (h->fortran || take_word(c, STR("False"))) return TN_OK;
    return fail(TN_MALFORMED, "fortran_order in the .npy header is neither True nor False");
}

static tn_status read_entry(Cursor *c, Header *h) {
    static const struct {
        Str key;
        tn_status (*read)(Cursor *c, Header *h);
    } entries[] = {{{"descr", 5}, read_descr}, {{"fortran_order", 13}, read_order}, {{"shape", 5}, read_shape}};
    Str key;
    TRY(read_text(c, &key));
    TRY(expect(c, ':'));
    for (unsigned i = 0; i < 3; i++) {
        if (!str_equal(key, entries[i].key)) continue;
        if (h->seen & 1u << i) break;
        h->seen |= 1u << i;
        return entries[i].read(c, h);
    }
    return fail(TN_MALFORMED, "the .npy header has a second or unknown entry \"%.*s\"", (int)(key.n < 32 ? key.n : 32),
                key.s);
}

static tn_status read_dictionary(Cursor c, Header *h) {
    *h = (Header){0};
    TRY(expect(&c, '{'));
    while (!take(&c, '}')) {
        TRY(read_entry(&c, h));
        if (take(&c, ',')) continue;
        TRY(expect(&c, '}'));
        break;
    }
    skip_space(&c);
    if (c.at != c.end) return fail(TN_MALFORMED, "the .npy header goes on after its dictionary");
    if (h->seen != 7) return fail(TN_MALFORMED, "the .npy header lacks descr, fortran_order or shape");
    return TN_OK;
}

/* *body is where the elements begin. */
static tn_status read_header(const uint8_t *data, size_t size, Header *h, size_t *body) {
    if (size < 10 || memcmp(data, MAGIC, sizeof MAGIC) != 0)
        return fail(TN_MALFORMED, "not an .npy file: it does not begin with \\x93NUMPY");
    if (data[6] < 1 || data[6] > 3) return fail(TN_UNSUPPORTED, "version %d of .npy is not known", data[6]);
    size_t begin = data[6] == 1 ? 10 : 12;
    if (size < begin) return fail(TN_MALFORMED, "the .npy file ends within its header");
    size_t length = data[8] | (size_t)data[9] << 8;
    if (begin == 12) length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (length > size - begin) return fail(TN_MALFORMED, "the .npy file ends within its header");
    *body = begin + length;
    return read_dictionary((Cursor){(const char *)data + begin, (const char *)data + *body}, h);
}

/* ---- element types -------------------------------------------------------------------------------------------- */

const NpyType npy_types[] = {
    {TN_F16, "f2", 2}, {TN_F32, "f4", 4},  {TN_F64, "f8", 8}, {TN_I8, "i1", 1},    {TN_I16, "i2", 2},
    {TN_I32, "i4", 4}, {TN_I64, "i8", 8},  {TN_U8, "u1", 1},  {TN_U16, "u2", 2},   {TN_U32, "u4", 4},
    {TN_U64, "u8", 8}, {TN_BOOL, "b1", 1}, {TN_C64, "c8", 4}, {TN_C128, "c16", 8},
};
const size_t npy_n_types = sizeof npy_types / sizeof *npy_types;

/* How the file's elements look. */
typedef struct Element {
    tn_dtype dtype;
    char kind;   /* numpy's letter */
    size_t size; /* bytes of one in the file */
    size_t unit; /* bytes that are in one order */
    bool swapped;
} Element;

static tn_status unsupported_type(Str descr) {
    if (descr.n >= 2 && descr.s[1] == 'O') return fail(TN_UNSUPPORTED, "arrays of Python objects are not supported");
    return fail(TN_UNSUPPORTED, "numpy's element type \"%.*s\" is not supported", (int)(descr.n < 32 ? descr.n : 32),
                descr.s);
}

static tn_status read_string_type(Str descr, Element *e) {
    Cursor c = {descr.s + 2, descr.s + descr.n};
    int64_t length = 0;
    TRY(read_size(&c, &length));
    e->dtype = TN_STRING;
    e->unit = e->kind == 'U' ? 4 : 1;
    if (c.at != c.end || length < 1 || length > INT_MAX / 4) return unsupported_type(descr);
    e->size = (size_t)length * e->unit;
    return TN_OK;
}

static bool is_order(char c) { return c == '<' || c == '>' || c == '|' || c == '='; }

static tn_status read_type(Str descr, Element *e) {
    if (descr.n < 3 || !is_order(descr.s[0])) return unsupported_type(descr);
    *e = (Element){.kind = descr.s[1], .swapped = descr.s[0] == '>'};
    if (e->kind == 'S' || e->kind == 'U') return read_string_type(descr, e);
    for (size_t i = 0; i < npy_n_types; i++)
        if (str_equal((Str){descr.s + 1, descr.n - 1}, str_of(npy_types[i].code))) {
            e->dtype = npy_types[i].dtype;
            e->unit = npy_types[i].unit;
            e->size = (size_t)dtype_size(e->dtype);
            return TN_OK;
        }
    return unsupported_type(descr);
}

/* ---- elements ------------------------------------------------------------------------------------------------- */

static void swap_bytes(uint8_t *data, size_t size, size_t unit) {
    for (uint8_t *p = data; unit > 1 && size >= unit; p += unit, size -= unit)
        for (size_t i = 0; i < unit / 2; i++) {
            uint8_t byte = p[i];
            p[i] = p[unit - 1 - i];
            p[unit - 1 - i] = byte;
        }
}

/* The file's array as a strided tensor over the file. */
static Tensor view_of(const Header *h, const Element *e, const uint8_t *body) {
    Tensor t;
    tensor_set_dense(&t, e->dtype, h->rank, h->dims);
    t.data = (void *)(uintptr_t)body;
    t.buffer = NULL;
    if (h->fortran)
        for (int64_t d = 0, stride = 1; d < h->rank; stride *= h->dims[d++]) t.strides[d] = stride;
    return t;
}

/* Byte by byte, since the file's elements need not be aligned. */
static void copy_numbers(const Tensor *from, const Element *e, int64_t count, Tensor *to) {
    uint8_t *dst = to->data;
    const uint8_t *src = from->data;
    if (tensor_is_dense(from)) {
        memcpy(dst, src, (size_t)count * e->size);
    } else {
        for (TensorRows r = tensor_rows(from); tensor_next_row(&r);)
            for (int64_t i = 0; i < r.n; i++, dst += e->size)
                memcpy(dst, src + (size_t)(r.offset + i * r.stride) * e->size, e->size);
    }
    if (e->swapped) swap_bytes(to->data, (size_t)count * e->size, e->unit);
    if (e->dtype == TN_BOOL)
        for (int64_t i = 0; i < count; i++) ((uint8_t *)to->data)[i] = ((uint8_t *)to->data)[i] != 0;
}

static size_t put_utf8(uint32_t code, char out[4]) {
    if (code < 0x80) return out[0] = (char)code, 1;
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 63));
    out[0] = (char)((0xf00 >> n & 0xff) | code);
    return n;
}

static tn_status put_code_points(const Element *e, const uint8_t *src, Text *text) {
    for (size_t i = 0; i < e->size; i += 4) {
        uint8_t b[4] = {src[i], src[i + 1], src[i + 2], src[i + 3]};
        if (e->swapped) swap_bytes(b, 4, 4);
        uint32_t code = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        if (code > 0x10ffff || (code & 0xfffff800) == 0xd800)
            return fail(TN_MALFORMED, "a string of the .npy file has the invalid character %u", code);
        char utf8[4];
        text_put(text, utf8, put_utf8(code, utf8));
    }
    return text->status;
}

static tn_status copy_string(Context *ctx, const Element *e, const uint8_t *src, Text *text, RcString **out) {
    text->n = 0;
    if (e->kind == 'U') TRY(put_code_points(e, src, text));
    else text_put(text, (const char *)src, e->size);
    TRY(text->status);
    while (text->n > 0 && text->s[text->n - 1] == '\0') text->n--;
    return rc_string_new(&ctx->allocator, (Str){text->s, text->n}, out);
}

static tn_status copy_strings(Context *ctx, const Tensor *from, const Element *e, Tensor *to) {
    Text text;
    text_init(&text, &ctx->allocator);
    RcString **dst = to->data;
    tn_status status = TN_OK;
    for (TensorRows r = tensor_rows(from); tensor_next_row(&r);)
        for (int64_t i = 0; i < r.n && status == TN_OK; i++) {
            const uint8_t *src = (const uint8_t *)from->data + (size_t)(r.offset + i * r.stride) * e->size;
            status = copy_string(ctx, e, src, &text, dst++);
        }
    text_free(&text);
    return status;
}

tn_status npy_read(Context *ctx, const uint8_t *data, size_t size, Tensor *out) {
    Header header;
    Element element = {0};
    Tensor result;
    size_t body;
    int64_t count, bytes;
    TRY(read_header(data, size, &header, &body));
    TRY(read_type(header.descr, &element));
    TRY(checked_count(header.rank, header.dims, &count));
    if (mul_overflows(count, (int64_t)element.size, &bytes) || (uint64_t)bytes != size - body)
        return fail(TN_MALFORMED, "the .npy file has %zu bytes of elements, but its shape asks for %lld of %zu",
                    size - body, (long long)count, element.size);
    TRY(tensor_new(ctx, element.dtype, header.rank, header.dims, &result));
    if (count > 0) {
        Tensor view = view_of(&header, &element, data + body);
        tn_status status = TN_OK;
        if (element.dtype == TN_STRING) status = copy_strings(ctx, &view, &element, &result);
        else copy_numbers(&view, &element, count, &result);
        if (status != TN_OK) {
            tensor_release(&result);
            return status;
        }
    }
    *out = result;
    return TN_OK;
}
