/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of .case files: `Op key=value ... operands -> results`, `-> error "text"`. See tests/ops/README.md. */
#ifndef TEST_OP_CASE_PARSE_H
#define TEST_OP_CASE_PARSE_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/ir.h"

/* From ir/text_int.h, which cannot stand beside program/program.h. */
uint64_t element_code(tn_dtype dtype, const void *data, int64_t i);
void element_set_code(tn_dtype dtype, void *data, int64_t i, uint64_t code);
bool code_of_text(tn_dtype dtype, const char *text, uint64_t *code);

enum { CASE_OPERANDS = 32, CASE_RESULTS = 16 };

/* An operand or result: absent (`_`), or a tensor. */
typedef struct CaseValue {
    bool absent;
    bool has_data; /* a literal stands behind it */
    Tensor t;
    char type[80]; /* of an object, as the IR spells it: seq(f32[*]) */
} CaseValue;

typedef struct Case {
    const char *file;
    int line;
    const char *op;
    Text attrs; /* in the IR's spelling */
    CaseValue in[CASE_OPERANDS], out[CASE_RESULTS];
    int n_in, n_out;
    bool is_error;
    const char *error; /* what the message must hold */
    double rtol;       /* 0: by the element type */
} Case;

typedef struct CaseReader {
    Context *ctx;
    Arena *arena;
    const char *at;
    char problem[200]; /* empty while all is well */
} CaseReader;

static inline bool case_wrong(CaseReader *r, const char *what) {
    if (!r->problem[0]) snprintf(r->problem, sizeof r->problem, "%s, at `%.40s`", what, r->at);
    return false;
}

static inline void case_blanks(CaseReader *r) {
    while (*r->at && (isspace((unsigned char)*r->at) || *r->at == ',')) r->at++;
}

static inline size_t case_word(const char *s) {
    size_t n = 0;
    if (isalpha((unsigned char)*s) || *s == '_')
        while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '.') n++;
    return n;
}

/* ---- literals ------------------------------------------------------------------------------------------------- */

/* A number as it may stand in a list or an object: up to a comma, bracket or blank. */
static inline size_t case_number(const char *s) { return strcspn(s, ",]) \t\n"); }

static inline bool case_set_string(CaseReader *r, Tensor *t, int64_t i) {
    Text text;
    text_init(&text, &r->ctx->allocator);
    for (r->at++; *r->at && *r->at != '"'; r->at++) {
        if (*r->at == '\\' && r->at[1]) r->at++;
        text_put(&text, *r->at == 'n' && r->at[-1] == '\\' ? "\n" : r->at, 1);
    }
    bool closed = *r->at == '"';
    r->at += closed;
    RcString **element = (RcString **)t->data + i;
    closed = closed && rc_string_new(&r->ctx->allocator, (Str){text.s, text.n}, element) == TN_OK;
    text_free(&text);
    return closed || case_wrong(r, "a string does not end");
}

static inline bool case_set_number(CaseReader *r, Tensor *t, int64_t i, const char *s, size_t n) {
    char text[100];
    uint64_t code;
    if (n == 0 || n >= sizeof text) return case_wrong(r, "expected a number");
    memcpy(text, s, n);
    text[n] = 0;
    if (t->dtype == TN_C64 || t->dtype == TN_C128) { /* 1+2i */
        char *end;
        double parts[2] = {strtod(text, &end), 0};
        if (*end) parts[1] = strtod(end, &end);
        if (*end == 'i' || *end == 'j') end++;
        store_c128(t->dtype, t->data, i, 1, parts, 1);
        return *end == 0 || case_wrong(r, "expected a complex number such as 1+2i");
    }
    if (code_of_text(t->dtype, text, &code)) {
        element_set_code(t->dtype, t->data, i, code);
        return true;
    }
    char *end;
    double number = strtod(text, &end); /* hexadecimal floats; floats where the type wants none are wrong */
    if (*end || !dtype_is_float(t->dtype)) return case_wrong(r, "a number does not fit its type");
    store_f64(t->dtype, t->data, i, 1, &number, 1);
    return true;
}

static inline bool case_element(CaseReader *r, Tensor *t, int64_t i) {
    if (i >= tensor_count(t)) return case_wrong(r, "more elements than the shape has");
    if (t->dtype == TN_STRING) return *r->at == '"' ? case_set_string(r, t, i) : case_wrong(r, "expected a string");
    size_t n = case_number(r->at);
    bool set = case_set_number(r, t, i, r->at, n);
    if (set) r->at += n;
    return set;
}

/* Counts the elements of the list at `s`. */
static inline int64_t case_list_length(const char *s) {
    int64_t n = 0;
    bool inside = false;
    for (int depth = 0; *s; s++) {
        if (*s == '"') {
            for (s++; *s && *s != '"'; s++) s += *s == '\\' && s[1];
            n++;
            continue;
        }
        depth += (*s == '[') - (*s == ']');
        bool blank = *s == '[' || *s == ']' || *s == ',' || isspace((unsigned char)*s);
        n += !blank && !inside;
        inside = !blank;
        if (depth == 0) break;
    }
    return n;
}

static inline bool case_list(CaseReader *r, Tensor *t) {
    int64_t n = 0;
    int depth = 0;
    do {
        case_blanks(r);
        if (*r->at == '[') depth++, r->at++;
        else if (*r->at == ']') depth--, r->at++;
        else if (!*r->at || !case_element(r, t, n++)) return case_wrong(r, "a list does not end");
    } while (depth > 0);
    return n == tensor_count(t) || case_wrong(r, "fewer elements than the shape has");
}

/* 0..5: one up or down from element to element. */
static inline bool case_range(CaseReader *r, Tensor *t, const char *dots) {
    char *end;
    int64_t from = strtoll(r->at, &end, 10), to = strtoll(dots + 2, &end, 10), count = llabs(to - from) + 1;
    if (end == dots + 2) return case_wrong(r, "expected a range such as 0..5");
    if (count != tensor_count(t)) return case_wrong(r, "a range of another length than the shape has elements");
    for (int64_t i = 0; i < count; i++) {
        int64_t value = from + (to < from ? -i : i);
        double number = (double)value;
        if (dtype_is_float(t->dtype)) store_f64(t->dtype, t->data, i, 1, &number, 1);
        else store_i64(t->dtype, t->data, i, 1, &value, 1);
    }
    r->at = end;
    return true;
}

/* One element for all. */
static inline bool case_splat(CaseReader *r, Tensor *t) {
    int64_t n = tensor_count(t);
    const char *start = r->at;
    for (int64_t i = 0; i < n; i++) {
        r->at = start;
        if (!case_element(r, t, i)) return false;
    }
    if (n == 0) r->at += case_number(r->at);
    return true;
}

static inline bool case_literal(CaseReader *r, Tensor *t) {
    if (*r->at == '[') return case_list(r, t);
    size_t n = *r->at == '"' ? 0 : case_number(r->at);
    for (size_t i = 0; i + 1 < n; i++)
        if (r->at[i] == '.' && r->at[i + 1] == '.') return case_range(r, t, r->at + i);
    return case_splat(r, t);
}

/* ---- values --------------------------------------------------------------------------------------------------- */

static inline bool case_dims(CaseReader *r, int *rank, int64_t *dims) {
    *rank = 0;
    for (r->at++; *r->at != ']';) {
        char *end;
        if (*rank == TN_MAX_RANK) return case_wrong(r, "too many dimensions");
        dims[(*rank)++] = strtoll(r->at, &end, 10);
        if (end == r->at) return case_wrong(r, "expected a size");
        r->at = end;
        case_blanks(r);
    }
    r->at++;
    return true;
}

static inline bool case_value(CaseReader *r, CaseValue *v);

/* The word before an object's items: seq(f32[] = 1, f32[2] = [1,2]), opt(...), map(keys, values). */
static inline TypeKind case_kind(const char *s, size_t n) {
    if (n != 3 || s[n] != '(') return TYPE_TENSOR;
    return strncmp(s, "seq", 3) == 0   ? TYPE_SEQUENCE
           : strncmp(s, "opt", 3) == 0 ? TYPE_OPTIONAL
           : strncmp(s, "map", 3) == 0 ? TYPE_MAP
                                       : TYPE_TENSOR;
}

/* An item's type as that of elements: sizes are not said. */
static inline void case_item_type(const CaseValue *item, char type[80]) {
    if (item->t.kind == TYPE_TENSOR) snprintf(type, 80, "%s[*]", dtype_name(item->t.dtype));
    else memcpy(type, item->type, 80);
}

/* An object without items says what it might hold: seq(f32[*]). */
static inline bool case_object(CaseReader *r, TypeKind kind, CaseValue *v) {
    static const char *const names[] = {"", "seq", "opt", "map"};
    CaseValue items[16];
    char inner[80] = "";
    size_t n = 0;
    r->at += 4;
    const char *close = strchr(r->at, ')');
    if (close && close - r->at > 3 && close - r->at < 60 && strncmp(close - 3, "[*]", 3) == 0 &&
        !memchr(r->at, ',', (size_t)(close - r->at))) {
        while (close[1] == ')' && memchr(r->at, '(', (size_t)(close - r->at))) close++; /* opt(seq(f32[*])) */
        snprintf(inner, sizeof inner, "%.*s", (int)(close - r->at), r->at);
        r->at = close;
    }
    bool good = true;
    for (case_blanks(r); good && *r->at != ')'; case_blanks(r)) {
        good = (n < 16 && *r->at) || case_wrong(r, "an object does not end");
        if (good) good = case_value(r, &items[n++]);
    }
    r->at += good;
    good = good && (object_new(r->ctx, kind, n, &v->t) == TN_OK || case_wrong(r, diag_text()));
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || kind == TYPE_MAP) case_item_type(&items[i], inner);
        if (good) object_of(&v->t)->items[i] = items[i].t;
        else tensor_release(&items[i].t);
    }
    v->has_data = true;
    if (kind == TYPE_MAP && n == 2)
        snprintf(v->type, sizeof v->type, "map(%s, %.60s)", dtype_name(items[0].t.dtype), inner);
    else snprintf(v->type, sizeof v->type, "%s(%.70s)", names[kind], inner);
    return good;
}

/* [NAME:] TYPE[DIMS] [= LITERAL], or an object */
static inline bool case_value(CaseReader *r, CaseValue *v) {
    size_t n = case_word(r->at);
    int rank = 0;
    int64_t dims[TN_MAX_RANK] = {0};
    *v = (CaseValue){0};
    if (n == 1 && *r->at == '_') {
        v->absent = true;
        r->at++;
        return true;
    }
    const char *behind = r->at + n + strspn(r->at + n, " ");
    if (n > 0 && *behind == ':') {
        r->at = behind + 1;
        case_blanks(r);
        n = case_word(r->at);
    }
    if (case_kind(r->at, n) != TYPE_TENSOR) return case_object(r, case_kind(r->at, n), v);
    tn_dtype dtype = dtype_from_name(r->at, n);
    if (!dtype) return case_wrong(r, "expected an operand such as x: f32[2] = [1,2]");
    r->at += n;
    bool has_dims = *r->at == '[';
    if (has_dims && !case_dims(r, &rank, dims)) return false;
    const char *equals = r->at + strspn(r->at, " \t");
    v->has_data = *equals == '=' && equals[1] != '=';
    if (v->has_data) {
        r->at = equals + 1;
        case_blanks(r);
        if (!has_dims && *r->at == '[') dims[rank++] = case_list_length(r->at);
    }
    if (tensor_new(r->ctx, dtype, rank, dims, &v->t) != TN_OK) return case_wrong(r, diag_text());
    return !v->has_data || case_literal(r, &v->t);
}

/* ---- attributes ----------------------------------------------------------------------------------------------- */

static inline bool case_is_plain(const char *s, size_t n) {
    static const char *const words[] = {"true",    "false",   "inf",   "nan",   "ints", "floats",
                                        "strings", "tensors", "types", "lists", "type"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && memcmp(words[i], s, n) == 0) return true;
    return false;
}

/* A value in the IR's spelling: bare words become strings, element types their numbers, `f32[2] = [1,2]` a tensor,
   `type seq(f32[*])` a type. */
static inline bool case_attr_value(CaseReader *r, Text *out) {
    int depth = 0;
    do {
        size_t n = case_word(r->at);
        if (strncmp(r->at, "type ", 5) == 0) { /* a type has no blanks */
            n = 5 + strcspn(r->at + 5, " \t\n");
            text_put(out, r->at, n);
            r->at += n;
        } else if (n > 0) {
            tn_dtype dtype = dtype_from_name(r->at, n);
            bool is_tensor = dtype && (r->at[n] == '[' || r->at[n] == '=');
            if (is_tensor && r->at[n] == '=') text_printf(out, "%.*s[]", (int)n, r->at);
            else if (is_tensor || case_is_plain(r->at, n)) text_put(out, r->at, n);
            else if (dtype && depth == 0) text_printf(out, "%d", (int)dtype);
            else text_printf(out, "\"%.*s\"", (int)n, r->at);
            r->at += n;
            if (is_tensor && *r->at == '[') {
                size_t dims = strcspn(r->at, "]") + 1;
                text_put(out, r->at, dims);
                r->at += dims;
            }
            size_t blanks = strspn(r->at, " ");
            if (is_tensor && (r->at[blanks] == '=' || r->at[blanks] == '[')) {
                r->at += blanks + (r->at[blanks] == '=');
                r->at += strspn(r->at, " ");
                text_puts(out, " ");
                if (*r->at != '[') { /* one element for all */
                    size_t length = case_number(r->at);
                    text_put(out, r->at, length);
                    r->at += length;
                } else {
                    case_attr_value(r, out);
                }
            }
        } else if (*r->at == '"') {
            do text_put(out, r->at, *r->at == '\\' ? 2 : 1), r->at += *r->at == '\\' ? 2 : 1;
            while (*r->at && *r->at != '"');
            if (!*r->at) return case_wrong(r, "a string does not end");
            text_put(out, r->at++, 1);
        } else if (isdigit((unsigned char)*r->at)) { /* the e of 1e-05 is no word */
            n = strspn(r->at, "0123456789.e+-");
            text_put(out, r->at, n);
            r->at += n;
        } else {
            depth += (*r->at == '[' || *r->at == '{') - (*r->at == ']' || *r->at == '}');
            text_put(out, r->at++, 1);
        }
    } while (*r->at && (depth > 0 || !(isspace((unsigned char)*r->at) || *r->at == ',')));
    return depth == 0 || case_wrong(r, "an attribute's bracket is not closed");
}

static inline bool case_attrs(CaseReader *r, Text *out) {
    for (;;) {
        case_blanks(r);
        size_t n = case_word(r->at);
        if (n == 0 || r->at[n] != '=' || r->at[n + 1] == '=' || dtype_from_name(r->at, n)) return true;
        text_printf(out, "%s%.*s = ", out->n ? ", " : "", (int)n, r->at);
        r->at += n + 1;
        if (!case_attr_value(r, out)) return false;
    }
}

/* ---- rows ----------------------------------------------------------------------------------------------------- */

static inline bool case_error(CaseReader *r, Case *c) {
    c->is_error = true;
    r->at += 5;
    case_blanks(r);
    if (*r->at != '"') return *r->at == 0 || case_wrong(r, "expected what the error says, in quotes");
    const char *end = strrchr(r->at + 1, '"');
    if (!end) return case_wrong(r, "a string does not end");
    char *text = arena_strndup(r->arena, r->at + 1, (size_t)(end - r->at - 1)), *to = text;
    for (const char *s = text; *s; s++) {
        if (*s == '\\' && s[1]) s++;
        *to++ = *s;
    }
    *to = 0;
    c->error = text;
    r->at = end + 1;
    return true;
}

static inline bool case_row(CaseReader *r, Case *c) {
    size_t n = case_word(r->at);
    if (n == 0) return case_wrong(r, "expected an op");
    c->op = arena_strndup(r->arena, r->at, n);
    r->at += n;
    if (!case_attrs(r, &c->attrs)) return false;
    for (case_blanks(r); strncmp(r->at, "->", 2) != 0; case_blanks(r)) {
        if (!*r->at) return case_wrong(r, "expected `->`");
        if (c->n_in == CASE_OPERANDS) return case_wrong(r, "too many operands");
        if (!case_value(r, &c->in[c->n_in++])) return false;
    }
    r->at += 2;
    case_blanks(r);
    if (case_word(r->at) == 5 && strncmp(r->at, "error", 5) == 0) {
        if (!case_error(r, c)) return false;
    } else {
        while (*r->at && *r->at != '~') {
            if (c->n_out == CASE_RESULTS) return case_wrong(r, "too many results");
            if (!case_value(r, &c->out[c->n_out++])) return false;
            case_blanks(r);
        }
        if (c->n_out == 0) return case_wrong(r, "expected results");
    }
    case_blanks(r);
    if (*r->at == '~') {
        char *end;
        c->rtol = strtod(r->at + 1, &end);
        r->at = end;
        case_blanks(r);
    }
    return *r->at == 0 || case_wrong(r, "more than a row");
}

static inline void case_free(Case *c) {
    for (int i = 0; i < c->n_in; i++) tensor_release(&c->in[i].t);
    for (int i = 0; i < c->n_out; i++) tensor_release(&c->out[i].t);
    text_free(&c->attrs);
}

/* Takes comments off in place; `#` within quotes stays. */
static inline void case_strip(char *line) {
    bool quoted = false;
    for (char *s = line; *s; s++) {
        if (*s == '\\' && quoted && s[1]) s++;
        else if (*s == '"') quoted = !quoted;
        else if (*s == '#' && !quoted) *s = 0;
        if (!*s) break;
    }
    for (size_t n = strlen(line); n > 0 && isspace((unsigned char)line[n - 1]); n--) line[n - 1] = 0;
}

#endif
