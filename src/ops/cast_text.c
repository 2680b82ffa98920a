/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from and to text for Cast. Reading accepts what C's strtod does, writing follows numpy. */
#define _GNU_SOURCE /* strtod_l */
#include "ops/cast_int.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

locale_t text_locale(void) {
    locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!locale) fail_memory(0);
    return locale;
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

static bool is_end(const char *s) {
    while (isspace((unsigned char)*s)) s++;
    return *s == '\0';
}

static bool read_int(const char *s, bool is_unsigned, int64_t *out) {
    char *end;
    errno = 0;
    *out = is_unsigned ? (int64_t)strtoull(s, &end, 10) : (int64_t)strtoll(s, &end, 10);
    return end != s && is_end(end) && errno == 0;
}

static bool read_float(locale_t locale, const char *s, bool is_double, double *out) {
    char *end;
    *out = is_double ? strtod_l(s, &end, locale) : (double)strtof_l(s, &end, locale);
    return end != s && is_end(end);
}

static bool read_bool(const char *s, int64_t *out) {
    *out = strcasecmp(s, "true") == 0;
    return *out || strcasecmp(s, "false") == 0;
}

static bool read_number(locale_t locale, const char *s, tn_dtype dtype, double *f, int64_t *i) {
    if (dtype_is_float(dtype)) return read_float(locale, s, dtype == TN_F64, f);
    if (dtype == TN_BOOL && read_bool(s, i)) return true;
    if (read_int(s, dtype == TN_U64, i)) return true;
    if (!read_float(locale, s, true, f)) return false;
    if (dtype == TN_BOOL) *i = *f != 0;
    else if (dtype == TN_U64) *i = *f >= 0 && *f < 0x1p64 ? (int64_t)(uint64_t)*f : INT64_MIN;
    else *i = *f >= -0x1p63 && *f < 0x1p63 ? (int64_t)*f : INT64_MIN;
    return true;
}

tn_status text_to_number(locale_t locale, Str text, tn_dtype dtype, double *f, int64_t *i) {
    char s[512];
    bool fits = text.n < sizeof s && (text.n == 0 || !memchr(text.s, '\0', text.n));
    if (fits) {
        if (text.n) memcpy(s, text.s, text.n);
        s[text.n] = '\0';
        if (read_number(locale, s, dtype, f, i)) return TN_OK;
    }
    return fail(TN_INVALID_ARGUMENT, "the text \"%.*s\" is no number", (int)(text.n < 80 ? text.n : 80), text.s);
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

void int_to_text(char out[NUMBER_TEXT], tn_dtype dtype, int64_t value) {
    if (dtype == TN_BOOL) snprintf(out, NUMBER_TEXT, "%s", value ? "True" : "False");
    else if (dtype == TN_U64) snprintf(out, NUMBER_TEXT, "%" PRIu64, (uint64_t)value);
    else snprintf(out, NUMBER_TEXT, "%" PRId64, value);
}

/* Whether text that was read as `read` is stored as the same element as `value`. */
static bool same_element(tn_dtype dtype, double read, double value) {
    uint64_t a = 0, b = 0;
    store_f64(dtype, &a, 0, 1, &read, 1);
    store_f64(dtype, &b, 0, 1, &value, 1);
    return a == b;
}

/* The fewest digits, without a point, and the power of ten of the first. */
static void shortest_digits(locale_t locale, tn_dtype dtype, double value, char digits[24], int *exponent) {
    char text[NUMBER_TEXT];
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, value);
        char *e = strchr(text, 'e');
        int n = 0;
        for (char *s = text; s < e; s++) /* whatever the locale's decimal point is */
            if (isdigit((unsigned char)*s)) digits[n++] = *s;
        digits[n] = '\0';
        *exponent = (int)strtol(e + 1, NULL, 10);
        char plain[NUMBER_TEXT];
        snprintf(plain, sizeof plain, "%c.%se%d", digits[0], digits + 1, *exponent);
        if (same_element(dtype, strtod_l(plain, NULL, locale), value)) break;
    }
}

/* 1.0, 0.25, 1e-05, 1.5e+16: a point and a digit on both sides, powers of ten outside 1e-4 .. 1e16. */
static void place_point(char *out, const char *digits, int exponent) {
    int n = (int)strlen(digits);
    if (exponent < -4 || exponent >= 16)
        snprintf(out, NUMBER_TEXT - 1, "%c%s%.*se%c%02d", digits[0], n > 1 ? "." : "", 24, digits + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0) snprintf(out, NUMBER_TEXT - 1, "0.%.*s%.*s", -exponent - 1, "0000", 24, digits);
    else if (n <= exponent + 1)
        snprintf(out, NUMBER_TEXT - 1, "%.*s%.*s.0", 24, digits, exponent + 1 - n, "0000000000000000");
    else snprintf(out, NUMBER_TEXT - 1, "%.*s.%.*s", exponent + 1, digits, 24, digits + exponent + 1);
}

void float_to_text(locale_t locale, char out[NUMBER_TEXT], tn_dtype dtype, double value) {
    char digits[24];
    int exponent;
    if (isnan(value)) snprintf(out, NUMBER_TEXT, "nan");
    else if (isinf(value)) snprintf(out, NUMBER_TEXT, value < 0 ? "-inf" : "inf");
    else {
        bool negative = signbit(value);
        shortest_digits(locale, dtype, fabs(value), digits, &exponent);
        if (negative) out[0] = '-';
        place_point(out + negative, digits, exponent);
    }
}
