/* SPDX-License-Identifier: Apache-2.0 */
/* RegexFullMatch (ONNX 20): which strings match an expression as a whole. The syntax is RE2's, run by PCRE2 with what
   RE2 does not have refused and with limits, since PCRE2 may try exponentially many ways. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "ops/string_int.h"

enum { MATCH_LIMIT = 5000000, DEPTH_LIMIT = 20000, HEAP_KIB = 65536, PATTERN_LIMIT = 65536, NESTING_LIMIT = 250 };

/* ---- what RE2 does not have ---------------------------------------------------------------------------------- */

static bool starts_with(Str s, const char *what) { return s.n >= strlen(what) && memcmp(s.s, what, strlen(what)) == 0; }

/* Look-around, atomic groups, conditions, recursion, verbs: (?: (?P< (?< and flags such as (?i: (?-s) remain. */
static bool group_is_foreign(Str rest) {
    if (starts_with(rest, "(*")) return true;
    if (!starts_with(rest, "(?")) return false;
    if (starts_with(rest, "(?P<")) return false;
    if (starts_with(rest, "(?<")) return rest.n > 3 && (rest.s[3] == '=' || rest.s[3] == '!');
    for (size_t i = 2; i < rest.n; i++) {
        if (rest.s[i] == ':' || rest.s[i] == ')') return i == 2 && rest.s[i] == ')';
        if (!rest.s[i] || !strchr("imsU-", rest.s[i])) return true;
    }
    return false; /* not closed: PCRE2 says so */
}

/* Back references and escapes of Perl only. */
static bool escape_is_foreign(char ch, bool in_class) {
    if (ch >= '1' && ch <= '9') return true;
    return ch && strchr(in_class ? "RXKGgk" : "RXKGgkZhHNo", ch);
}

static tn_status check_syntax(Str pattern) {
    bool in_class = false;
    for (size_t i = 0; i < pattern.n; i++) {
        Str rest = {pattern.s + i, pattern.n - i};
        char ch = pattern.s[i];
        if (starts_with(rest, "\\Q") && !in_class) { /* quoted up to \E */
            const char *end = strstr(rest.s + 2, "\\E");
            if (!end) return TN_OK;
            i = (size_t)(end + 1 - pattern.s);
            continue;
        }
        bool foreign = false;
        if (ch == '\\' && rest.n > 1) foreign = escape_is_foreign(pattern.s[++i], in_class);
        else if (in_class) in_class = ch != ']';
        else if (ch == '[') {
            in_class = true;
            if (rest.n > 1 && rest.s[1] == '^') i++;
            if (i + 1 < pattern.n && pattern.s[i + 1] == ']') i++; /* the first one is a letter */
        } else if (ch == '(') foreign = group_is_foreign(rest);
        else foreign = (ch == '*' || ch == '+' || ch == '?' || ch == '}') && rest.n > 1 && rest.s[1] == '+';
        if (foreign)
            return fail(TN_INVALID_MODEL, "the pattern has something at position %zu that RE2 does not have: %.8s", i,
                        rest.s);
    }
    return TN_OK;
}

/* ---- matching ------------------------------------------------------------------------------------------------ */

typedef struct Matcher {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
} Matcher;

static void matcher_free(Matcher *m) {
    pcre2_match_context_free(m->limits);
    pcre2_match_data_free(m->data);
    pcre2_code_free(m->code);
}

static tn_status compile(Str pattern, Matcher *m) {
    int code;
    size_t at;
    pcre2_compile_context *how = pcre2_compile_context_create(NULL);
    if (!how) return fail_memory(0);
    pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(how, PATTERN_LIMIT);
    pcre2_set_parens_nest_limit(how, NESTING_LIMIT);
    m->code = pcre2_compile((PCRE2_SPTR)pattern.s, pattern.n,
                            PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &code, &at, how);
    pcre2_compile_context_free(how);
    if (!m->code) {
        char message[200];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        return fail(TN_INVALID_MODEL, "the pattern is no regular expression: %s, at position %zu", message, at);
    }
    m->data = pcre2_match_data_create(1, NULL);
    m->limits = pcre2_match_context_create(NULL);
    if (!m->data || !m->limits) return fail_memory(0);
    pcre2_set_match_limit(m->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(m->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(m->limits, HEAP_KIB);
    return TN_OK;
}

static tn_status match(const Matcher *m, Str text, int64_t *out) {
    int code = pcre2_match(m->code, (PCRE2_SPTR)text.s, text.n, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NO_JIT,
                           m->data, m->limits);
    *out = code >= 0;
    if (code >= 0 || code == PCRE2_ERROR_NOMATCH) return TN_OK;
    if (code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_DEPTHLIMIT || code == PCRE2_ERROR_HEAPLIMIT)
        return fail(TN_LIMIT, "the pattern takes too many steps on a string of %zu bytes", text.n);
    char message[200];
    pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
    return fail(TN_INVALID_ARGUMENT, "a string cannot be matched: %s", message);
}

static tn_status match_all(KernelCtx *c, const Matcher *m) {
    const Tensor *y = &c->out[0];
    RcString *const *strings;
    TRY(dense_strings(c, 0, &strings));
    for (int64_t i = 0; i < tensor_count(y); i++) {
        int64_t found;
        TRY(kernel_poll(c));
        TRY(match(m, rc_string_get(strings[i]), &found));
        store_i64(TN_BOOL, y->data, y->offset + i, 1, &found, 1);
    }
    return TN_OK;
}

static tn_status regex_reference(KernelCtx *c) {
    Matcher m = {0};
    Str pattern = attr_string(c->node, "pattern");
    TRY(check_syntax(pattern));
    tn_status status = compile(pattern, &m);
    if (status == TN_OK) status = match_all(c, &m);
    matcher_free(&m);
    return status;
}

static tn_status regex_infer(InferCtx *c) {
    set_type(c, 0, TN_BOOL, in_shape(c, 0));
    return TN_OK;
}

const OpSchema op_RegexFullMatch = {
    .name = "RegexFullMatch",
    .summary = "Which strings match a regular expression (ONNX 20)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TS(TN_STRING)}),
    .outputs = OPERANDS({"Y", TS(TN_BOOL)}),
    .attrs = ATTRIBUTES({"pattern", ATTR_STRING}),
    .infer = regex_infer,
    .reference = regex_reference,
};
