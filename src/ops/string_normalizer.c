/* SPDX-License-Identifier: Apache-2.0 */
/* StringNormalizer (ONNX 10): drops stop words and changes the case of letters, as Unicode says of single letters,
   whatever `locale` names. */
#define _GNU_SOURCE /* towupper_l */
#include <locale.h>
#include <wctype.h>

#include "ops/string_int.h"

typedef enum CaseChange { CASE_KEPT, CASE_LOWER, CASE_UPPER } CaseChange;

static tn_status read_case(const Node *node, CaseChange *out) {
    static const char *const names[] = {"NONE", "LOWER", "UPPER"};
    for (int i = 0; i < 3; i++) {
        *out = (CaseChange)i;
        if (attr_string_is(node, "case_change_action", names[i])) return TN_OK;
    }
    Str s = attr_string(node, "case_change_action");
    return fail(TN_INVALID_MODEL, "case_change_action is \"%.*s\"; NONE, LOWER or UPPER is wanted", (int)s.n, s.s);
}

static tn_status string_normalizer_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    CaseChange change;
    TRY(read_case(c->node, &change));
    if (x->rank < 0) return TN_OK;
    bool is_row = x->rank == 2 && (!dim_is_const(x->dims[0]) || x->dims[0] == 1);
    if (x->rank != 1 && !is_row) return fail(TN_SHAPE, "X must be a list, or a matrix of one row");
    Shape y = {.rank = x->rank, .dims = {1, 1}};
    y.dims[x->rank - 1] = DIM_UNKNOWN;
    set_shape(c, 0, &y);
    return TN_OK;
}

/* ---- letters ------------------------------------------------------------------------------------------------- */

/* The code point at *s, which is valid UTF-8; moves on. */
static uint32_t take_letter(const char **s) {
    const uint8_t *p = (const uint8_t *)*s;
    int extra = p[0] < 0x80 ? 0 : p[0] < 0xe0 ? 1 : p[0] < 0xf0 ? 2 : 3;
    uint32_t v = extra ? p[0] & (0x3fu >> extra) : p[0];
    for (int k = 1; k <= extra; k++) v = v << 6 | (p[k] & 0x3f);
    *s += extra + 1;
    return v;
}

static size_t put_letter(char *out, uint32_t v) {
    uint8_t *p = (uint8_t *)out;
    int extra = v < 0x80 ? 0 : v < 0x800 ? 1 : v < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    p[0] = (uint8_t)(lead[extra] | v >> (6 * extra));
    for (int k = 1; k <= extra; k++) p[k] = (uint8_t)(0x80 | (v >> (6 * (extra - k)) & 0x3f));
    return (size_t)extra + 1;
}

/* A text with its letters changed, on the arena. A letter takes at most three times its bytes. */
static tn_status change_case(KernelCtx *c, locale_t locale, CaseChange change, Str text, Str *out) {
    *out = text;
    if (change == CASE_KEPT || text.n == 0) return TN_OK;
    if (!str_is_utf8(text)) return fail(TN_INVALID_ARGUMENT, "a string is not UTF-8");
    if (text.n > SIZE_MAX / 4) return fail(TN_LIMIT, "a string is too long");
    char *room = arena_array(c->scratch, char, 4 * text.n);
    if (!room) return TN_OUT_OF_MEMORY;
    size_t n = 0;
    for (const char *s = text.s; s < text.s + text.n;) {
        wint_t letter = (wint_t)take_letter(&s);
        letter = change == CASE_UPPER ? towupper_l(letter, locale) : towlower_l(letter, locale);
        n += put_letter(room + n, (uint32_t)letter);
    }
    *out = (Str){room, n};
    return TN_OK;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

/* What a word is compared as with the stop words. */
static CaseChange compared_as(const Node *node, CaseChange change) {
    if (attr_int(node, "is_case_sensitive")) return CASE_KEPT;
    return change == CASE_UPPER ? CASE_UPPER : CASE_LOWER;
}

static tn_status read_stop_words(KernelCtx *c, locale_t locale, CaseChange as, Map *stops) {
    const Attr *words = attr_get(c->node, "stopwords");
    for (size_t i = 0; words && i < words->n; i++) {
        Str word;
        TRY(change_case(c, locale, as, words->strings[i], &word));
        TRY(map_set(stops, word, stops));
    }
    return TN_OK;
}

static tn_status normalize(KernelCtx *c, locale_t locale, Map *stops) {
    const Tensor *x = c->in[0];
    int64_t count = tensor_count(x), kept = 0;
    CaseChange change;
    RcString *const *strings;
    TRY(read_case(c->node, &change));
    CaseChange as = compared_as(c->node, change);
    TRY(read_stop_words(c, locale, as, stops));
    TRY(dense_strings(c, 0, &strings));
    Str *words = kernel_scratch(c, Str, (size_t)max_i64(count, 1));
    if (!words) return TN_OUT_OF_MEMORY;
    for (int64_t k = 0; k < count; k++) {
        Str word = rc_string_get(strings[k]), compared;
        TRY(change_case(c, locale, as, word, &compared));
        if (stops->len && map_get(stops, compared)) continue;
        TRY(change_case(c, locale, change, word, &words[kept++]));
    }
    int64_t dims[] = {1, 1};
    dims[x->rank - 1] = max_i64(kept, 1);
    TRY(output_ready(c, 0, x->rank, dims));
    TRY(output_zero(c, 0));
    for (int64_t k = 0; k < kept; k++) TRY(put_string(c, 0, k, words[k]));
    return TN_OK;
}

static tn_status string_normalizer_reference(KernelCtx *c) {
    locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    Map stops;
    if (!locale) return fail(TN_UNSUPPORTED, "this system has no locale C.UTF-8");
    map_init(&stops, &c->context->allocator);
    tn_status status = normalize(c, locale, &stops);
    map_free(&stops);
    freelocale(locale);
    return status;
}

const OpSchema op_StringNormalizer = {
    .name = "StringNormalizer",
    .summary = "Drops stop words and changes case (ONNX 10)",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"X", TS(TN_STRING)}),
    .outputs = OPERANDS({"Y", TS(TN_STRING)}),
    .attrs = ATTRIBUTES({"case_change_action", ATTR_STRING, .s = "NONE"}, {"is_case_sensitive", ATTR_INT},
                        {"locale", ATTR_STRING}, {"stopwords", ATTR_STRINGS}),
    .infer = string_normalizer_infer,
    .reference = string_normalizer_reference,
};
