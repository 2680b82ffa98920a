/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines: lists of passes from text and back. */
#include "pass/pass_int.h"

enum { MAX_NESTING = 16, MAX_REPEATS = 1000, REPEATS = 10 };

typedef struct Reader {
    Arena *arena;
    Str text;
    size_t at;
    int depth;
} Reader;

/* ---- tokens -------------------------------------------------------------------------------------------------- */

#define WRONG(at, ...) at_column((at), fail(TN_INVALID_ARGUMENT, __VA_ARGS__))

static tn_status at_column(size_t at, tn_status status) {
    diag_note("at column %zu of the pipeline", at + 1);
    return status;
}

static int peek(Reader *r) {
    while (r->at < r->text.n && strchr(" \t\r\n", r->text.s[r->at])) r->at++;
    return r->at < r->text.n ? r->text.s[r->at] : 0;
}

static bool take(Reader *r, char c) {
    if (peek(r) != c) return false;
    r->at++;
    return true;
}

static tn_status expect(Reader *r, char c) {
    if (take(r, c)) return TN_OK;
    int found = peek(r);
    if (!found) return WRONG(r->at, "the pipeline ends where '%c' should stand", c);
    return WRONG(r->at, "'%c' stands where '%c' should", found, c);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_-.+/:*", c));
}

static Str word(Reader *r) {
    peek(r);
    size_t start = r->at;
    while (r->at < r->text.n && is_word(r->text.s[r->at])) r->at++;
    return (Str){r->text.s + start, r->at - start};
}

static tn_status quoted(Reader *r, Str *out) {
    size_t start = r->at++, n = 0;
    char *copy = arena_array(r->arena, char, r->text.n - start + 1);
    if (!copy) return TN_OUT_OF_MEMORY;
    for (; r->at < r->text.n && r->text.s[r->at] != '"'; r->at++) {
        if (r->text.s[r->at] == '\\' && r->at + 1 < r->text.n) r->at++;
        copy[n++] = r->text.s[r->at];
    }
    if (r->at == r->text.n) return WRONG(start, "this text does not end");
    r->at++;
    *out = (Str){copy, n};
    return TN_OK;
}

static tn_status value(Reader *r, Str *out) {
    if (peek(r) == '"') return quoted(r, out);
    Str s = word(r);
    char *copy = arena_strndup(r->arena, s.s, s.n);
    if (!copy) return TN_OUT_OF_MEMORY;
    *out = (Str){copy, s.n};
    return s.n ? TN_OK : WRONG(r->at, "a value is missing");
}

/* ---- items --------------------------------------------------------------------------------------------------- */

tn_status pipeline_item(const Pass *pass, PipelineItem *out) {
    *out = (PipelineItem){.kind = ITEM_PASS, .pass = pass};
    for (int i = 0; i < PASS_MAX_OPTIONS && pass->options[i].name; i++) {
        const char *preset = pass->options[i].preset;
        TRY(option_parse(&pass->options[i], str_of(preset ? preset : ""), &out->options[i]));
    }
    return TN_OK;
}

static tn_status no_such_option(const Pass *pass, Str name, size_t at) {
    const char *names[PASS_MAX_OPTIONS];
    size_t n = 0;
    while (n < PASS_MAX_OPTIONS && pass->options[n].name) names[n] = pass->options[n].name, n++;
    const char *near = nearest_name(name, names, n);
    if (near)
        return WRONG(at, "pass \"%s\" has no option \"%.*s\"; did you mean \"%s\"?", pass->name, (int)name.n, name.s,
                     near);
    return WRONG(at, "pass \"%s\" has no option \"%.*s\"%s", pass->name, (int)name.n, name.s,
                 n ? "; `tenon passes NAME` lists them" : ", and no other");
}

static tn_status read_option(Reader *r, PipelineItem *item) {
    peek(r);
    size_t at = r->at;
    Str name = word(r), text;
    int i = pass_option_index(item->pass, name);
    if (i < 0) return no_such_option(item->pass, name, at);
    if (item->options[i].given) return WRONG(at, "option \"%.*s\" stands here twice", (int)name.n, name.s);
    TRY(expect(r, '='));
    TRY(value(r, &text));
    tn_status status = option_parse(&item->pass->options[i], text, &item->options[i]);
    item->options[i].given = true;
    return status == TN_OK ? TN_OK : at_column(at, status);
}

static tn_status read_options(Reader *r, PipelineItem *item) {
    if (!take(r, '(') || take(r, ')')) return TN_OK;
    do TRY(read_option(r, item));
    while (take(r, ','));
    return expect(r, ')');
}

static tn_status read_list(Reader *r, Pipeline *out);

static tn_status read_body(Reader *r, PipelineItem *item) {
    TRY(expect(r, '{'));
    if (++r->depth > MAX_NESTING) return WRONG(r->at, "pipelines are nested more than %d deep", MAX_NESTING);
    if (!(item->body = arena_new(r->arena, Pipeline))) return TN_OUT_OF_MEMORY;
    if (peek(r) != '}') TRY(read_list(r, item->body));
    r->depth--;
    return expect(r, '}');
}

static tn_status read_repeat(Reader *r, PipelineItem *item) {
    static const PassOption max = {.name = "max", .kind = OPTION_INT};
    OptionValue v = {.i = REPEATS};
    item->kind = ITEM_REPEAT;
    if (take(r, '(')) {
        size_t at = r->at;
        Str name = word(r), text;
        if (!str_equal(name, STR("max"))) return WRONG(at, "`repeat` has one option, \"max\"");
        TRY(expect(r, '='));
        TRY(value(r, &text));
        TRY(option_parse(&max, text, &v));
        if (v.i < 1 || v.i > MAX_REPEATS) return WRONG(at, "\"max\" must be from 1 to %d", MAX_REPEATS);
        TRY(expect(r, ')'));
    }
    item->max = v.i;
    return read_body(r, item);
}

static tn_status read_item(Reader *r, PipelineItem *item) {
    peek(r);
    size_t at = r->at;
    Str name = word(r);
    *item = (PipelineItem){0};
    if (name.n == 0) return WRONG(at, "the name of a pass is missing");
    if (str_equal(name, STR("repeat"))) return read_repeat(r, item);
    item->phase = phase_from_name(name);
    if (item->phase) {
        item->kind = ITEM_PHASE;
        return peek(r) == '{' ? read_body(r, item) : TN_OK;
    }
    const Pass *pass = pass_find(name);
    if (!pass) return at_column(at, no_such_pass("pass", name));
    TRY(pipeline_item(pass, item));
    return read_options(r, item);
}

static tn_status grow(Arena *arena, Pipeline *p, size_t *room) {
    if (p->n < *room) return TN_OK;
    *room = *room ? 2 * *room : 8;
    PipelineItem *bigger = arena_array(arena, PipelineItem, *room);
    if (!bigger) return TN_OUT_OF_MEMORY;
    if (p->n) memcpy(bigger, p->items, p->n * sizeof *bigger);
    p->items = bigger;
    return TN_OK;
}

/* Recursion is bounded by MAX_NESTING. */
static tn_status read_list(Reader *r, Pipeline *out) {
    size_t room = 0;
    *out = (Pipeline){0};
    do {
        TRY(grow(r->arena, out, &room));
        TRY(read_item(r, &out->items[out->n]));
        out->n++;
    } while (take(r, ','));
    return TN_OK;
}

tn_status pipeline_parse(Arena *arena, Str text, Pipeline *out) {
    Reader r = {.arena = arena, .text = text};
    *out = (Pipeline){0};
    if (!peek(&r)) return TN_OK;
    TRY(read_list(&r, out));
    if (!peek(&r)) return TN_OK;
    return WRONG(r.at, "'%c' stands where the pipeline should end or go on with ','", r.text.s[r.at]);
}

tn_status pipeline_scheduled(Arena *arena, Phase phase, int opt_level, Pipeline *out) {
    const Pass **passes;
    size_t n;
    TRY(pass_schedule(arena, phase, &passes, &n));
    *out = (Pipeline){.items = arena_array(arena, PipelineItem, n + 1)};
    if (!out->items) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        if (passes[i]->opt_level <= opt_level) TRY(pipeline_item(passes[i], &out->items[out->n++]));
    return TN_OK;
}

/* ---- printing ------------------------------------------------------------------------------------------------ */

static void print_pass(const PipelineItem *item, Text *out) {
    const char *between = "(";
    text_puts(out, item->pass->name);
    for (int i = 0; i < PASS_MAX_OPTIONS && item->pass->options[i].name; i++) {
        const PassOption *o = &item->pass->options[i];
        if (!item->options[i].given || str_equal(item->options[i].s, str_of(o->preset ? o->preset : ""))) continue;
        text_puts(out, between);
        option_print(o, &item->options[i], out);
        between = ",";
    }
    if (*between == ',') text_puts(out, ")");
}

void pipeline_print_item(const PipelineItem *item, Text *out) {
    if (item->kind == ITEM_PASS) {
        print_pass(item, out);
        return;
    }
    text_puts(out, item->kind == ITEM_PHASE ? phase_name(item->phase) : "repeat");
    if (item->kind == ITEM_REPEAT && item->max != REPEATS) text_printf(out, "(max=%lld)", (long long)item->max);
    if (!item->body) return;
    text_puts(out, "{");
    pipeline_print(item->body, out);
    text_puts(out, "}");
}

void pipeline_print(const Pipeline *pipeline, Text *out) {
    for (size_t i = 0; i < pipeline->n; i++) {
        if (i) text_puts(out, ",");
        pipeline_print_item(&pipeline->items[i], out);
    }
}
