/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and tensors from text. */
#include "ir/text_int.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- numbers ------------------------------------------------------------------------------------------------- */

static bool at_special(const Parser *p) { return at_word(p, "nan") || at_word(p, "inf"); }

bool at_number(const Parser *p) {
    int kind = p->token.kind;
    return kind == TOKEN_INT || kind == TOKEN_FLOAT || kind == '-' || at_special(p);
}

enum { NUMBER_TEXT = 128 };

/* A number with its sign as text; consumed. `is_float`: a point, an exponent, nan or inf. */
static tn_status parse_number(Parser *p, char text[NUMBER_TEXT], bool *is_float) {
    size_t n = 0;
    *is_float = false;
    text[0] = 0;
    if (accept(p, '-')) text[n++] = '-';
    if (p->token.kind != TOKEN_INT && p->token.kind != TOKEN_FLOAT && !at_special(p))
        return parse_expected(p, "a number");
    Str digits = p->token.text;
    if (digits.n >= NUMBER_TEXT - 1) return parse_fail(p, p->token.at, "a number of %zu digits is too long", digits.n);
    memcpy(text + n, digits.s, digits.n);
    text[n + digits.n] = 0;
    *is_float = p->token.kind != TOKEN_INT;
    advance(p);
    return TN_OK;
}

static bool int_of_text(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && *end == 0;
}

tn_status parse_int(Parser *p, int64_t *out) {
    char text[NUMBER_TEXT];
    bool is_float;
    size_t at = p->token.at;
    TRY(parse_number(p, text, &is_float));
    if (is_float) return parse_fail(p, at, "expected an integer, not \"%s\"", text);
    return int_of_text(text, out) ? TN_OK : parse_fail(p, at, "%s does not fit in 64 bits", text);
}

static tn_status float_of_text(Parser *p, size_t at, const char *text, float *out) {
    *out = strtof(text, NULL);
    if (isinf(*out) && !strstr(text, "inf")) return parse_fail(p, at, "%s is too big for a 32-bit float", text);
    return TN_OK;
}

/* The rest of nan"7fc00001". */
static tn_status parse_nan_bits(Parser *p, float *out) {
    Str digits = p->token.text;
    char text[9] = "", *end = text;
    if (digits.n == 8) memcpy(text, digits.s, 8);
    uint32_t bits = (uint32_t)strtoul(text, &end, 16);
    memcpy(out, &bits, sizeof bits);
    bool plain = end == text + 8 && is_name_char(text[0]);
    if (!plain || !isnan(*out)) return parse_fail(p, p->token.at, "expected the 8 hexadecimal digits of a NaN");
    advance(p);
    return TN_OK;
}

tn_status parse_float(Parser *p, float *out) {
    char text[NUMBER_TEXT];
    bool is_float;
    size_t at = p->token.at;
    TRY(parse_number(p, text, &is_float));
    if (strcmp(text, "nan") == 0 && p->token.kind == TOKEN_STRING) return parse_nan_bits(p, out);
    return float_of_text(p, at, text, out);
}

tn_status parse_number_list(Parser *p, bool want_floats, bool *any_float) {
    size_t too_big = SIZE_MAX;
    p->ints.len = p->floats.len = 0;
    *any_float = want_floats;
    while (!accept(p, ']')) {
        char text[NUMBER_TEXT];
        size_t at = p->token.at;
        int64_t i = 0;
        float f;
        bool is_float;
        TRY(parse_number(p, text, &is_float));
        if (strcmp(text, "nan") == 0 && p->token.kind == TOKEN_STRING) TRY(parse_nan_bits(p, &f));
        else TRY(float_of_text(p, at, text, &f));
        if (!is_float && !int_of_text(text, &i) && too_big == SIZE_MAX) too_big = at;
        *any_float |= is_float;
        TRY(vec_push(p->allocator, &p->ints, i));
        TRY(vec_push(p->allocator, &p->floats, f));
        if (p->token.kind != ']') TRY(expect(p, ',', "`,` or `]`"));
    }
    if (!*any_float && too_big != SIZE_MAX) return parse_fail(p, too_big, "this number does not fit in 64 bits");
    return TN_OK;
}

/* ---- elements ------------------------------------------------------------------------------------------------ */

static tn_status parse_code(Parser *p, tn_dtype dtype, uint64_t *code) {
    char text[NUMBER_TEXT];
    bool is_float;
    size_t at = p->token.at;
    if (accept_word(p, "true")) memcpy(text, "true", 5);
    else if (accept_word(p, "false")) memcpy(text, "false", 6);
    else TRY(parse_number(p, text, &is_float));
    if (code_of_text(dtype, text, code)) return TN_OK;
    return parse_fail(p, at, "%s is no value of %s", text, dtype_name(dtype));
}

static tn_status parse_string_element(Parser *p, Tensor *t, int64_t i) {
    Str text;
    RcString **to = (RcString **)t->data + i;
    if (p->token.kind != TOKEN_STRING) return parse_expected(p, "a string");
    TRY(unescape(&p->scratch, &p->token, &text));
    if (text.n > 0) TRY(rc_string_new(p->allocator, text, to));
    advance(p);
    return TN_OK;
}

static tn_status parse_element(Parser *p, Tensor *t, int64_t i) {
    uint64_t code;
    tn_dtype part = complex_part(t->dtype);
    if (t->dtype == TN_STRING) return parse_string_element(p, t, i);
    if (part == TN_UNDEFINED) {
        TRY(parse_code(p, t->dtype, &code));
        element_set_code(t->dtype, t->data, i, code);
        return TN_OK;
    }
    TRY(expect(p, '(', "`(`, then the real and the imaginary part"));
    TRY(parse_code(p, part, &code));
    element_set_code(part, t->data, 2 * i, code);
    TRY(expect(p, ',', "`,` and the imaginary part"));
    TRY(parse_code(p, part, &code));
    element_set_code(part, t->data, 2 * i + 1, code);
    return expect(p, ')', "`)`");
}

/* ---- tensors ------------------------------------------------------------------------------------------------- */

static tn_status wrong_count(Parser *p, size_t at, const Tensor *t, int64_t want, bool more) {
    Text shape;
    text_init(&shape, p->allocator);
    print_shape_of(t, &shape);
    tn_status status = parse_fail(p, at, "%s elements than the %" PRId64 " that %s wants here", more ? "more" : "fewer",
                                  want, shape.s ? shape.s : "the tensor");
    text_free(&shape);
    return status;
}

/* The elements of a list, in one row or in one list a dimension; the opening bracket is consumed. */
static tn_status parse_elements(Parser *p, Tensor *t) {
    int64_t count = tensor_count(t), done = 0, start[TN_MAX_RANK] = {0}, inside[TN_MAX_RANK] = {0};
    int depth = 1, element_depth = 0;
    for (int d = t->rank - 1; d >= 0; d--) inside[d] = d + 1 == t->rank ? t->dims[d] : inside[d + 1] * t->dims[d];
    while (depth > 0) {
        size_t at = p->token.at;
        if (p->token.kind == '[' && depth < t->rank) {
            start[depth++] = done;
            advance(p);
            continue;
        }
        if (accept(p, ']')) {
            depth--;
            if (done - start[depth] != inside[depth]) return wrong_count(p, at, t, inside[depth], false);
            if (depth > 0 && p->token.kind != ']') TRY(expect(p, ',', "`,` or `]`"));
            continue;
        }
        if (done == count) return wrong_count(p, at, t, count, true);
        if (element_depth == 0) element_depth = depth;
        if (depth != element_depth) return parse_fail(p, at, "lists of different depth");
        TRY(parse_element(p, t, done++));
        if (p->token.kind != ']') TRY(expect(p, ',', "`,` or `]`"));
    }
    return TN_OK;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* x"0000c07f": the bytes as they lie in memory. */
static tn_status parse_hex(Parser *p, Tensor *t, size_t bytes) {
    Str digits = p->token.text;
    if (p->token.kind != TOKEN_STRING || p->token.escaped) return parse_expected(p, "hexadecimal digits in quotes");
    if (t->dtype == TN_STRING) return parse_fail(p, p->token.at, "strings cannot be given by their bytes");
    if (digits.n != 2 * bytes)
        return parse_fail(p, p->token.at, "expected %zu hexadecimal digits, not %zu", 2 * bytes, digits.n);
    for (size_t i = 0; i < bytes; i++) {
        int high = hex_value(digits.s[2 * i]), low = hex_value(digits.s[2 * i + 1]);
        if (high < 0 || low < 0) return parse_fail(p, p->token.at + 1 + 2 * i, "these are no hexadecimal digits");
        ((uint8_t *)t->data)[i] = (uint8_t)(high << 4 | low);
    }
    advance(p);
    return TN_OK;
}

/* One element for all: `f32[64,3,7,7] 0.5`. */
static tn_status parse_splat(Parser *p, Tensor *t, int64_t count) {
    if (count == 0) return parse_fail(p, p->token.at, "expected `[]`: this tensor has no elements");
    TRY(parse_element(p, t, 0));
    Tensor one = *t;
    for (int64_t i = 1; i < count; i++) copy_elements(t->dtype, t->data, i, 1, one.data, 0, 1, 1);
    return TN_OK;
}

static tn_status new_tensor(Parser *p, tn_dtype dtype, int rank, const int64_t *dims, Tensor **out) {
    TRY(model_tensor(p->model, out));
    return tensor_new(p->ctx, dtype, rank, dims, *out);
}

/* A short text must not claim much memory: each element of a list takes a character at least, and what a text repeats
   is bounded as what is computed ahead of time is. */
static tn_status check_claim(Parser *p, size_t at, int64_t count, size_t bytes) {
    bool listed = p->token.kind == '[' || at_word(p, "x");
    if (p->token.kind == TOKEN_DOTS) return parse_fail(p, p->token.at, "the data was left out when this was printed");
    if (listed && (uint64_t)count > p->source.n * 8)
        return parse_fail(p, at, "there cannot be %" PRId64 " elements in this text", count);
    if (listed || bytes <= p->ctx->limits.max_fold_bytes) return TN_OK;
    return parse_place(p, at, fail(TN_LIMIT, "a repeated constant of %zu bytes is more than max_fold_bytes", bytes));
}

static tn_status parse_data(Parser *p, size_t at, tn_dtype dtype, const Shape *shape, Tensor **out) {
    int64_t count;
    size_t bytes;
    tn_status status = checked_count(shape->rank, shape->dims, &count);
    if (status == TN_OK) status = checked_bytes(dtype, count, &bytes);
    if (status != TN_OK) return parse_place(p, at, status);
    TRY(check_claim(p, at, count, bytes));
    status = new_tensor(p, dtype, shape->rank, shape->dims, out);
    if (status != TN_OK) return parse_place(p, at, status);
    if (accept_word(p, "x")) return parse_hex(p, *out, bytes);
    if (p->token.kind == '[' && shape->rank > 0) {
        advance(p);
        return parse_elements(p, *out);
    }
    return parse_splat(p, *out, count);
}

/* ---- references ---------------------------------------------------------------------------------------------- */

/* @"file:key": its payload. */
static tn_status parse_reference(Parser *p, Tensor **out) {
    Str text;
    size_t at = p->token.at;
    TRY(unescape(&p->scratch, &p->token, &text));
    const char *colon = text.n ? memchr(text.s, ':', text.n) : NULL;
    if (!colon || colon == text.s)
        return parse_fail(p, at, "expected a reference such as @\"weights.safetensors:name\"");
    Str file = {text.s, (size_t)(colon - text.s)}, key = {colon + 1, text.n - file.n - 1};
    if (!p->options || !p->options->constant) return parse_fail(p, at, "constants in other files cannot be read here");
    TRY(model_tensor(p->model, out));
    tn_status status = p->options->constant(p->options->user, p->model, file, key, *out);
    if (status != TN_OK) return parse_place(p, at, status);
    advance(p);
    return TN_OK;
}

static bool has_dims(const Tensor *t, const Shape *shape) {
    return t->rank == shape->rank &&
           (t->rank == 0 || memcmp(t->dims, shape->dims, (size_t)t->rank * sizeof *t->dims) == 0);
}

/* i4[3,5] @"file:key": of the same type, or its bytes. */
static tn_status parse_typed_reference(Parser *p, tn_dtype dtype, const Shape *shape, Tensor **out) {
    int64_t count;
    size_t bytes, at = p->token.at;
    TRY(parse_reference(p, out));
    Tensor *t = *out;
    if (t->dtype == dtype && has_dims(t, shape)) return TN_OK;
    tn_status status = checked_count(shape->rank, shape->dims, &count);
    if (status == TN_OK) status = checked_bytes(dtype, count, &bytes);
    if (status != TN_OK) return parse_place(p, at, status);
    bool is_bytes = t->dtype == TN_U8 && t->rank == 1 && tensor_is_dense(t) && dtype != TN_STRING;
    if (!is_bytes || (uint64_t)t->dims[0] != bytes) {
        Text found;
        text_init(&found, p->allocator);
        print_shape_of(t, &found);
        status = parse_fail(p, at, "the file holds a tensor of type %s", found.s ? found.s : "");
        text_free(&found);
        return status;
    }
    void *data = tensor_bytes(t);
    Buffer *buffer = t->buffer;
    tensor_set_dense(t, dtype, shape->rank, shape->dims);
    t->data = data;
    t->buffer = buffer;
    return TN_OK;
}

/* ---- what others call ---------------------------------------------------------------------------------------- */

bool at_tensor(const Parser *p) {
    if (p->token.kind == TOKEN_SYMBOL) return true;
    return p->token.kind == TOKEN_NAME && dtype_from_name(p->token.text.s, p->token.text.n) != TN_UNDEFINED;
}

tn_status parse_tensor(Parser *p, Tensor **out) {
    tn_dtype dtype;
    Shape shape;
    bool bare;
    size_t at = p->token.at;
    if (p->token.kind == TOKEN_SYMBOL) return parse_reference(p, out);
    if (!at_tensor(p)) return parse_expected(p, "a tensor, such as `f32[2] [1.0, 2.0]`");
    TRY(parse_dtype_and_dims(p, &dtype, &shape, &bare));
    if (bare) shape.rank = 0;
    if (!shape_is_known(&shape)) return parse_fail(p, at, "the sizes of a tensor's data must be numbers");
    if (p->token.kind == TOKEN_SYMBOL) return parse_typed_reference(p, dtype, &shape, out);
    return parse_data(p, at, dtype, &shape, out);
}

static tn_status parse_bare_list(Parser *p, Tensor **out) {
    bool any_float;
    advance(p);
    TRY(parse_number_list(p, false, &any_float));
    int64_t n = (int64_t)p->ints.len;
    TRY(new_tensor(p, any_float ? TN_F32 : TN_I64, 1, &n, out));
    if (n == 0) return TN_OK;
    if (any_float) memcpy((*out)->data, p->floats.data, p->floats.len * sizeof(float));
    else memcpy((*out)->data, p->ints.data, p->ints.len * sizeof(int64_t));
    return TN_OK;
}

tn_status parse_operand_literal(Parser *p, Tensor **out) {
    tn_dtype dtype = TN_I64;
    if (at_tensor(p)) return parse_tensor(p, out);
    if (p->token.kind == '[') return parse_bare_list(p, out);
    if (p->token.kind == TOKEN_STRING) dtype = TN_STRING;
    else if (at_word(p, "true") || at_word(p, "false")) dtype = TN_BOOL;
    else if (at_number(p)) {
        Token digits = p->token.kind == '-' ? lex(p->source, p->token.end) : p->token;
        dtype = digits.kind == TOKEN_INT ? TN_I64 : TN_F32;
    } else return parse_expected(p, "an operand: a value such as %x, a constant, or `_`");
    TRY(new_tensor(p, dtype, 0, NULL, out));
    return parse_element(p, *out, 0);
}
