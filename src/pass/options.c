/* SPDX-License-Identifier: Apache-2.0 */
/* Typed options of passes. */
#include "pass/pass_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const char *const kind_names[] = {"a whole number", "a number", "true or false", "text"};

int pass_option_index(const Pass *pass, Str name) {
    for (int i = 0; i < PASS_MAX_OPTIONS && pass->options[i].name; i++)
        if (name_equal(str_of(pass->options[i].name), name)) return i;
    return -1;
}

/* ---- values -------------------------------------------------------------------------------------------------- */

static bool parse_number(Str text, OptionKind kind, OptionValue *out) {
    char buffer[64], *end;
    if (text.n == 0 || text.n >= sizeof buffer) return false;
    memcpy(buffer, text.s, text.n);
    buffer[text.n] = 0;
    errno = 0;
    if (kind == OPTION_INT) out->i = strtoll(buffer, &end, 10);
    else out->f = strtod(buffer, &end);
    return *end == 0 && errno == 0 && (kind == OPTION_INT || isfinite(out->f));
}

tn_status option_parse(const PassOption *option, Str text, OptionValue *out) {
    *out = (OptionValue){.s = text};
    bool good = true;
    if (option->kind == OPTION_INT || option->kind == OPTION_FLOAT) good = parse_number(text, option->kind, out);
    if (option->kind == OPTION_BOOL) {
        out->i = str_equal(text, STR("true"));
        good = out->i || str_equal(text, STR("false"));
    }
    if (good) return TN_OK;
    return fail(TN_INVALID_ARGUMENT, "option \"%s\" wants %s, not \"%.*s\"", option->name, kind_names[option->kind],
                (int)text.n, text.s ? text.s : "");
}

static bool is_plain(Str s) {
    for (size_t i = 0; i < s.n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+/:*", s.s[i])) return false;
    return s.n > 0;
}

void option_print(const PassOption *option, const OptionValue *value, Text *out) {
    text_printf(out, "%s=", option->name);
    if (is_plain(value->s)) {
        text_put(out, value->s.s, value->s.n);
        return;
    }
    text_puts(out, "\"");
    for (size_t i = 0; i < value->s.n; i++) {
        if (value->s.s[i] == '"' || value->s.s[i] == '\\') text_puts(out, "\\");
        text_put(out, &value->s.s[i], 1);
    }
    text_puts(out, "\"");
}

/* ---- for passes ---------------------------------------------------------------------------------------------- */

const OptionValue *pass_option(const PassRun *run, const char *name, OptionKind kind) {
    int i = pass_option_index(run->pass, str_of(name));
    return i >= 0 && run->pass->options[i].kind == kind ? &run->item->options[i] : NULL;
}

static const OptionValue *value_of(const PassRun *run, const char *option, OptionKind kind) {
    const OptionValue *value = pass_option(run, option, kind);
    assert(value);
    return value;
}

int64_t pass_int(const PassRun *run, const char *option) { return value_of(run, option, OPTION_INT)->i; }
double pass_float(const PassRun *run, const char *option) { return value_of(run, option, OPTION_FLOAT)->f; }
bool pass_bool(const PassRun *run, const char *option) { return value_of(run, option, OPTION_BOOL)->i != 0; }
Str pass_string(const PassRun *run, const char *option) { return value_of(run, option, OPTION_STRING)->s; }
