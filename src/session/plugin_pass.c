/* SPDX-License-Identifier: Apache-2.0 */
/* Passes from outside: their descriptions as the pass manager's own, and what they may ask while they run. */
#include <stddef.h>
#include <stdio.h>

#include "session/plugin_int.h"

/* ---- descriptions -------------------------------------------------------------------------------------------- */

typedef struct OuterPass {
    Pass pass; /* first: a pass pointer is an OuterPass pointer */
    tn_status (*run)(tn_pass_run *run, tn_graph *graph);
} OuterPass;

/* The next word of a list, "" at its end. */
static Str next_word(const char **list) {
    while (**list == ' ') (*list)++;
    Str word = {*list, strcspn(*list, " ")};
    *list += word.n;
    return word;
}

static tn_status read_words(Arena *arena, const char *list, int max, const char *what, const char **out) {
    int n = 0;
    if (!list) return TN_OK;
    for (Str word = next_word(&list); word.n; word = next_word(&list)) {
        if (n == max) return fail(TN_LIMIT, "a pass may have at most %d %s", max, what);
        if (!(out[n++] = arena_strndup(arena, word.s, word.n))) return TN_OUT_OF_MEMORY;
    }
    return TN_OK;
}

/* "Conv@cpu": an op on a target. */
static tn_status read_kernels(Arena *arena, const char *list, PassKernel *out) {
    const char *words[PASS_MAX_KERNELS] = {0};
    TRY(read_words(arena, list, PASS_MAX_KERNELS, "kernels", words));
    for (int i = 0; i < PASS_MAX_KERNELS && words[i]; i++) {
        size_t n = strcspn(words[i], "@");
        out[i].op = arena_strndup(arena, words[i], n);
        if (!out[i].op) return TN_OUT_OF_MEMORY;
        if (words[i][n]) out[i].target = words[i] + n + 1;
    }
    return TN_OK;
}

static tn_status read_option(Arena *arena, const tn_pass_option_info *from, PassOption *to) {
    static const char *const kinds[] = {"int", "float", "bool", "string"};
    int kind = 0;
    while (kind < 4 && !(from->kind && strcmp(from->kind, kinds[kind]) == 0)) kind++;
    if (kind == 4)
        return fail(TN_INVALID_ARGUMENT, "option \"%s\" has the kind \"%s\"; there are int, float, bool and string",
                    from->name, from->kind ? from->kind : "");
    *to = (PassOption){plugin_copy(arena, from->name), (OptionKind)kind, plugin_copy(arena, from->preset),
                       plugin_copy(arena, from->help)};
    return to->name && (to->preset || !from->preset) && (to->help || !from->help) ? TN_OK : TN_OUT_OF_MEMORY;
}

static tn_status read_lists(Arena *arena, const tn_pass_desc *d, Pass *p) {
    TRY(read_words(arena, d->targets, PASS_MAX_TARGETS, "targets", p->targets));
    TRY(read_words(arena, d->excluded, PASS_MAX_TARGETS, "excluded targets", p->not_targets));
    TRY(read_kernels(arena, d->kernels, p->kernels));
    TRY(read_words(arena, d->required, PASS_MAX_NAMES, "required passes", p->requires));
    TRY(read_words(arena, d->keeps, PASS_MAX_NAMES, "passes that it keeps", p->keeps));
    for (int i = 0; i < PASS_MAX_OPTIONS && d->options[i].name; i++)
        TRY(read_option(arena, &d->options[i], &p->options[i]));
    return TN_OK;
}

static tn_status check(const tn_pass_desc *d) {
    if (!d->name) return fail(TN_INVALID_ARGUMENT, "a pass has no name");
    if (d->phase == TN_POST_PARTITION && !d->per_shape)
        return fail(TN_INVALID_ARGUMENT,
                    "pass \"%s\" is for post-partition, where it runs again for each set of input sizes: set per_shape "
                    "to say that it is meant to",
                    d->name);
    if (d->per_shape && d->phase != TN_POST_PARTITION)
        return fail(TN_INVALID_ARGUMENT, "pass \"%s\" has per_shape, which is for post-partition only", d->name);
    if (d->opt_level < 0 || d->opt_level > 3)
        return fail(TN_INVALID_ARGUMENT, "pass \"%s\" has the opt level %d; the levels are 0 to 3", d->name,
                    d->opt_level);
    return TN_OK;
}

static tn_status run_outer(PassRun *run, Graph *graph);

tn_status plugin_make_pass(Arena *arena, const tn_pass_desc *desc, const Pass **out) {
    tn_pass_desc d;
    TRY(plugin_read(&d, sizeof d, desc, desc->size, "pass"));
    TRY(check(&d));
    OuterPass *outer = arena_new(arena, OuterPass);
    char *name = arena_strndup(arena, d.name, strlen(d.name));
    if (!outer || !name) return TN_OUT_OF_MEMORY;
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    outer->run = d.run;
    outer->pass = (Pass){.name = name,
                         .summary = plugin_copy(arena, d.summary ? d.summary : ""),
                         .kind = (PassKind)d.kind,
                         .phase = (Phase)d.phase,
                         .order = d.order,
                         .opt_level = d.opt_level,
                         .each_graph = d.each_graph,
                         .run = d.run ? run_outer : NULL,
                         .pipeline = plugin_copy(arena, d.pipeline),
                         .user = d.user};
    if (!outer->pass.summary || (d.pipeline && !outer->pass.pipeline)) return TN_OUT_OF_MEMORY;
    *out = &outer->pass;
    return read_lists(arena, &d, &outer->pass);
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

struct tn_pass_run {
    PassRun *run;
    tn_model *model;  /* lent to the pass; made when it asks */
    char misuse[192]; /* of the functions below; "" */
};

static tn_status run_outer(PassRun *run, Graph *graph) {
    const OuterPass *outer = (const OuterPass *)run->pass;
    tn_pass_run r = {.run = run};
    diag_clear();
    tn_status status = plugin_answer(outer->run(&r, (tn_graph *)graph), "pass", run->pass->name);
    model_handle_return(r.model);
    return r.misuse[0] ? fail(TN_INVALID_ARGUMENT, "%s", r.misuse) : status;
}

static OptionValue option_of(tn_pass_run *r, const char *name, OptionKind kind, const char *kind_name) {
    const OptionValue *value = pass_option(r->run, name, kind);
    if (value) return *value;
    snprintf(r->misuse, sizeof r->misuse, "pass \"%s\" asked for an option \"%s\" of kind %s, which it did not declare",
             r->run->pass->name, name, kind_name);
    return (OptionValue){.s = STR("")};
}

int64_t tn_pass_run_int(tn_pass_run *r, const char *name) { return option_of(r, name, OPTION_INT, "int").i; }
double tn_pass_run_float(tn_pass_run *r, const char *name) { return option_of(r, name, OPTION_FLOAT, "float").f; }
bool tn_pass_run_bool(tn_pass_run *r, const char *name) { return option_of(r, name, OPTION_BOOL, "bool").i != 0; }

const char *tn_pass_run_string(tn_pass_run *r, const char *name) {
    Str text = option_of(r, name, OPTION_STRING, "string").s;
    const char *copy = arena_strndup(r->run->scratch, text.s ? text.s : "", text.n);
    return copy ? copy : "";
}

static bool is_counted(const PassRecord *record, const char *what) {
    for (size_t i = 0; i < record->counts.len; i++)
        if (strcmp(record->counts.data[i].what, what) == 0) return true;
    return false;
}

/* Reports outlive what the pass made its text of. */
tn_status tn_pass_run_count(tn_pass_run *r, const char *what, int64_t n) {
    if (!what) return fail(TN_INVALID_ARGUMENT, "what is NULL");
    PassManager *m = r->run->manager;
    if (!is_counted(&m->records.data[r->run->record], what) && !(what = plugin_copy(&m->arena, what)))
        return TN_OUT_OF_MEMORY;
    return pass_count(r->run, what, n);
}

bool tn_pass_run_may_change(tn_pass_run *r) { return pass_may_change(r->run); }

tn_model *tn_pass_run_model(tn_pass_run *r) {
    if (!r->model && model_handle_lent(r->run->ctx, r->run->model, &r->model) != TN_OK) return NULL;
    return r->model;
}

tn_context *tn_pass_run_context(tn_pass_run *r) { return (tn_context *)r->run->ctx; }
const char *tn_pass_run_pass(tn_pass_run *r) { return r->run->pass->name; }
void *tn_pass_run_user(tn_pass_run *r) { return r->run->pass->user; }
void *tn_pass_run_scratch(tn_pass_run *r, size_t size) {
    return arena_alloc(r->run->scratch, size, alignof(max_align_t));
}
