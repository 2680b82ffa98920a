/* SPDX-License-Identifier: Apache-2.0 */
/* How names, strings and single elements are spelt, and read back. */
#include "ir/text_int.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

locale_t text_locale_enter(void) { return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); }
void text_locale_leave(locale_t before) { uselocale(before); }

/* ---- names and strings --------------------------------------------------------------------------------------- */

bool is_plain_name(Str s) {
    if (s.n == 0 || !is_name_start(s.s[0])) return false;
    for (size_t i = 1; i < s.n; i++) {
        if (is_name_char(s.s[i])) continue;
        if (s.s[i] != '.' || i + 1 == s.n || !is_name_char(s.s[i + 1])) return false;
    }
    return true;
}

void spell_quoted(Text *out, Str s) {
    bool utf8 = str_is_utf8(s);
    size_t done = 0;
    text_put(out, "\"", 1);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.s[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && (utf8 || c < 0x80)) continue;
        text_put(out, s.s + done, i - done);
        done = i + 1;
        if (c == '\n') text_put(out, "\\n", 2);
        else if (c == '\t') text_put(out, "\\t", 2);
        else if (c == '"' || c == '\\') text_put(out, (char[]){'\\', (char)c}, 2);
        else text_printf(out, "\\x%02x", c);
    }
    if (s.n > done) text_put(out, s.s + done, s.n - done);
    text_put(out, "\"", 1);
}

void spell_name(Text *out, Str s) {
    if (is_plain_name(s)) text_put(out, s.s, s.n);
    else spell_quoted(out, s);
}

void spell_indent(Text *out, size_t depth) {
    while (depth-- > 0) text_put(out, "  ", 2);
}

/* ---- element codes ------------------------------------------------------------------------------------------- */

uint64_t element_code(tn_dtype dtype, const void *data, int64_t i) {
    const uint8_t *bytes = data;
    int bits = dtype_bits(dtype);
    uint64_t code = 0;
    if (bits < 8) return (uint64_t)(bytes[i * bits / 8] >> (i * bits % 8)) & ((1u << bits) - 1);
    for (int k = bits / 8 - 1; k >= 0; k--) code = code << 8 | bytes[i * (bits / 8) + k];
    return code;
}

void element_set_code(tn_dtype dtype, void *data, int64_t i, uint64_t code) {
    uint8_t *bytes = data;
    int bits = dtype_bits(dtype);
    if (bits < 8) {
        unsigned shift = (unsigned)(i * bits % 8), mask = ((1u << bits) - 1) << shift;
        uint8_t *byte = &bytes[i * bits / 8];
        *byte = (uint8_t)((*byte & ~mask) | ((unsigned)code << shift & mask));
        return;
    }
    for (int k = 0; k < bits / 8; k++) bytes[i * (bits / 8) + k] = (uint8_t)(code >> 8 * k);
}

tn_dtype complex_part(tn_dtype dtype) { return dtype == TN_C64 ? TN_F32 : dtype == TN_C128 ? TN_F64 : TN_UNDEFINED; }

static double double_of_code(tn_dtype dtype, uint64_t code) {
    uint32_t low = (uint32_t)code;
    float f;
    double d;
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &code, sizeof d);
    switch (dtype) {
    case TN_F64: return d;
    case TN_F32: return (double)f;
    case TN_F16: return (double)f16_to_f32((uint16_t)code);
    case TN_BF16: return (double)bf16_to_f32((uint16_t)code);
    default: return (double)small_float_decode(dtype, (uint8_t)code);
    }
}

static uint64_t code_of_double(tn_dtype dtype, const char *text) {
    float f = dtype == TN_F64 ? 0 : strtof(text, NULL);
    double d = strtod(text, NULL);
    uint32_t bits;
    uint64_t code;
    memcpy(&bits, &f, sizeof bits);
    memcpy(&code, &d, sizeof code);
    switch (dtype) {
    case TN_F64: return code;
    case TN_F32: return bits;
    case TN_F16: return f32_to_f16(f);
    case TN_BF16: return f32_to_bf16(f);
    default: return small_float_encode(dtype, f, false);
    }
}

/* What a type cannot hold would become an infinity or a NaN: then the text does not stand for it. */
static bool float_code_of_text(tn_dtype dtype, const char *text, uint64_t *code) {
    char *end;
    double wanted = strtod(text, &end);
    if (end == text || *end) return false;
    *code = code_of_double(dtype, text);
    double got = double_of_code(dtype, *code);
    bool means_infinity = strstr(text, "inf") != NULL;
    return !isnan(got) == !isnan(wanted) && !isinf(got) == !means_infinity;
}

static bool int_code_of_text(tn_dtype dtype, const char *text, uint64_t *code) {
    int bits = dtype_bits(dtype);
    char *end;
    errno = 0;
    if (dtype_is_unsigned_int(dtype)) {
        *code = strtoull(text, &end, 10);
        if (text[0] == '-' && *code != 0) return false;
        if (errno || *end || end == text) return false;
        return bits == 64 || *code >> bits == 0;
    }
    int64_t value = strtoll(text, &end, 10), half = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - 1)) - 1;
    if (errno || *end || end == text || value > half || value < -half - 1) return false;
    *code = (uint64_t)value & (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
    return true;
}

bool code_of_text(tn_dtype dtype, const char *text, uint64_t *code) {
    bool is_word = strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    if (dtype == TN_BOOL) {
        *code = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
        return is_word || strcmp(text, "1") == 0 || strcmp(text, "0") == 0;
    }
    if (is_word) return false;
    if (dtype_is_float(dtype)) return float_code_of_text(dtype, text, code);
    return int_code_of_text(dtype, text, code);
}

/* ---- the text of a code -------------------------------------------------------------------------------------- */

/* How many digits are worth a try: what is exact in the type, and all of those before the point. */
static int fewest_digits(tn_dtype dtype, double value) {
    int digits = dtype == TN_F64 ? 15 : dtype == TN_F32 ? 6 : dtype == TN_F8E8M0 ? 9 : 1;
    for (int64_t power = 10; digits < 6 && fabs(value) >= (double)power; power *= 10) digits++;
    return digits;
}

static bool float_text(tn_dtype dtype, uint64_t code, char text[CODE_TEXT]) {
    double value = double_of_code(dtype, code);
    int first = fewest_digits(dtype, value);
    for (int digits = first; digits <= 17; digits++) {
        uint64_t again;
        snprintf(text, CODE_TEXT - 2, "%.*g", digits, value);
        if (isnan(value)) snprintf(text, CODE_TEXT, "nan");
        else if (!isinf(value) && !strpbrk(text, ".e")) memcpy(text + strlen(text), ".0", 3);
        if (code_of_text(dtype, text, &again) && again == code) return true;
        if (!isfinite(value)) return false;
    }
    return false;
}

bool text_of_code(tn_dtype dtype, uint64_t code, char text[CODE_TEXT]) {
    int bits = dtype_bits(dtype);
    if (dtype_is_float(dtype)) {
        locale_t before = text_locale_enter();
        bool good = float_text(dtype, code, text);
        text_locale_leave(before);
        return good;
    }
    if (dtype == TN_BOOL) snprintf(text, CODE_TEXT, code ? "true" : "false");
    else if (dtype_is_unsigned_int(dtype)) snprintf(text, CODE_TEXT, "%" PRIu64, code);
    else snprintf(text, CODE_TEXT, "%" PRId64, (int64_t)(code << (64 - bits)) >> (64 - bits));
    return dtype != TN_BOOL || code <= 1;
}

void spell_float(Text *out, float value) {
    char text[CODE_TEXT];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (text_of_code(TN_F32, bits, text)) text_puts(out, text);
    else text_printf(out, "nan\"%08" PRIx32 "\"", bits);
}
