/* SPDX-License-Identifier: Apache-2.0 */
/* The passes there are: those of the tree and those that plug-ins added. */
#include "pass/pass_int.h"

#include <pthread.h>
#include <stdlib.h>

#define PASS(id) extern const Pass pass_##id;
#include "pass/passes.def"
#undef PASS

/* Ends with NULL, so that it is never empty. */
static const Pass *const built_in[] = {
#define PASS(id) &pass_##id,
#include "pass/passes.def"
#undef PASS
    NULL};
enum { N_BUILT_IN = sizeof built_in / sizeof *built_in - 1 };

/* Added while the process runs. An entry stays when its pass goes: its place is NULL then. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static VEC(const Pass *) added;
static uint64_t version;

static const char *const phase_names[N_PHASES] = {"", "pre-placement", "post-placement", "post-rewrite",
                                                  "post-partition"};

const char *phase_name(Phase phase) { return phase_names[phase]; }

Phase phase_from_name(Str name) {
    for (int p = 1; p < N_PHASES; p++)
        if (name_equal(name, str_of(phase_names[p]))) return (Phase)p;
    return PHASE_NONE;
}

static char dashed(char c) { return c == '_' ? '-' : c; }

bool name_equal(Str a, Str b) {
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++)
        if (dashed(a.s[i]) != dashed(b.s[i])) return false;
    return true;
}

/* ---- finding ------------------------------------------------------------------------------------------------- */

/* With the lock held. */
static size_t place_of(Str name) {
    size_t i = 0;
    while (i < added.len && !(added.data[i] && name_equal(str_of(added.data[i]->name), name))) i++;
    return i;
}

static const Pass *find_built_in(Str name) {
    for (size_t i = 0; built_in[i]; i++)
        if (name_equal(str_of(built_in[i]->name), name)) return built_in[i];
    return NULL;
}

const Pass *pass_find(Str name) {
    const Pass *pass = find_built_in(name);
    if (pass) return pass;
    pthread_mutex_lock(&lock);
    size_t i = place_of(name);
    pass = i < added.len ? added.data[i] : NULL;
    pthread_mutex_unlock(&lock);
    return pass;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const Pass *const *)a)->name, (*(const Pass *const *)b)->name);
}

tn_status pass_list(Arena *arena, const Pass ***passes, size_t *n) {
    pthread_mutex_lock(&lock);
    const Pass **list = arena_array(arena, const Pass *, N_BUILT_IN + added.len + 1);
    size_t k = 0;
    for (size_t i = 0; list && built_in[i]; i++) list[k++] = built_in[i];
    for (size_t i = 0; list && i < added.len; i++)
        if (added.data[i]) list[k++] = added.data[i];
    pthread_mutex_unlock(&lock);
    if (!list) return TN_OUT_OF_MEMORY;
    qsort(list, k, sizeof *list, by_name);
    *passes = list;
    *n = k;
    return TN_OK;
}

static int by_order(const void *a, const void *b) {
    const Pass *x = *(const Pass *const *)a, *y = *(const Pass *const *)b;
    return x->order != y->order ? (x->order > y->order) - (x->order < y->order) : strcmp(x->name, y->name);
}

tn_status pass_schedule(Arena *arena, Phase phase, const Pass ***passes, size_t *n) {
    const Pass **list;
    size_t all, k = 0;
    TRY(pass_list(arena, &list, &all));
    for (size_t i = 0; i < all; i++)
        if (list[i]->phase == phase) list[k++] = list[i];
    qsort(list, k, sizeof *list, by_order);
    *passes = list;
    *n = k;
    return TN_OK;
}

tn_status pass_get(Str name, const Pass **out) {
    *out = pass_find(name);
    return *out ? TN_OK : no_such_pass("pass", name);
}

tn_status no_such_pass(const char *what, Str name) {
    Arena arena;
    const Pass **passes = NULL;
    size_t n = 0;
    arena_init(&arena, &allocator_default);
    const char *near = NULL, **names = NULL;
    if (pass_list(&arena, &passes, &n) == TN_OK) names = arena_array(&arena, const char *, n + N_PHASES + 1);
    size_t k = 0;
    for (size_t i = 0; names && i < n; i++) names[k++] = passes[i]->name;
    for (int p = 1; names && p < N_PHASES; p++) names[k++] = phase_names[p];
    if (names) names[k++] = "repeat";
    if (names) near = nearest_name(name, names, k);
    tn_status status = near ? fail(TN_NOT_FOUND, "there is no %s \"%.*s\"; did you mean \"%s\"?", what, (int)name.n,
                                   name.s, near)
                            : fail(TN_NOT_FOUND, "there is no %s \"%.*s\"; `tenon passes` lists them", what,
                                   (int)name.n, name.s);
    arena_free(&arena);
    return status;
}

/* ---- adding -------------------------------------------------------------------------------------------------- */

static bool is_name(const char *s) {
    if (!s || !*s) return false;
    for (; *s; s++)
        if (!(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z') && !(*s >= '0' && *s <= '9') && *s != '-' &&
            *s != '_' && *s != '.')
            return false;
    return true;
}

static tn_status check_options(const Pass *pass) {
    for (int i = 0; i < PASS_MAX_OPTIONS && pass->options[i].name; i++) {
        const PassOption *o = &pass->options[i];
        OptionValue value;
        if (!is_name(o->name)) return fail(TN_INVALID_ARGUMENT, "\"%s\" is no name for an option", o->name);
        for (int k = 0; k < i; k++)
            if (name_equal(str_of(o->name), str_of(pass->options[k].name)))
                return fail(TN_INVALID_ARGUMENT, "pass \"%s\" has the option \"%s\" twice", pass->name, o->name);
        TRY(option_parse(o, str_of(o->preset ? o->preset : ""), &value));
    }
    return TN_OK;
}

static tn_status check_pass(const Pass *pass) {
    if (!is_name(pass->name))
        return fail(TN_INVALID_ARGUMENT, "\"%s\" is no name for a pass: letters, digits, '-' and '_'",
                    pass->name ? pass->name : "");
    if (phase_from_name(str_of(pass->name)) || strcmp(pass->name, "repeat") == 0)
        return fail(TN_INVALID_ARGUMENT, "\"%s\" means something else in a pipeline", pass->name);
    if (!pass->run == !pass->pipeline)
        return fail(TN_INVALID_ARGUMENT, "pass \"%s\" must have either a function or a pipeline", pass->name);
    if (pass->phase < PHASE_NONE || pass->phase >= N_PHASES || pass->kind < PASS_PROGRAM || pass->kind > PASS_DEBUG)
        return fail(TN_INVALID_ARGUMENT, "pass \"%s\" is of no known kind or phase", pass->name);
    return check_options(pass);
}

/* With the lock held. Those before it in the list count too. */
static bool is_taken(const Pass *const *passes, size_t i) {
    Str name = str_of(passes[i]->name);
    if (find_built_in(name) || place_of(name) < added.len) return true;
    for (size_t k = 0; k < i; k++)
        if (name_equal(name, str_of(passes[k]->name))) return true;
    return false;
}

tn_status pass_register_all(const Pass *const *passes, size_t n) {
    for (size_t i = 0; i < n; i++) TRY(check_pass(passes[i]));
    pthread_mutex_lock(&lock);
    tn_status status = vec_reserve(&allocator_default, &added, added.len + n);
    for (size_t i = 0; i < n && status == TN_OK; i++)
        if (is_taken(passes, i)) status = fail(TN_INVALID_ARGUMENT, "there is a pass \"%s\" already", passes[i]->name);
    for (size_t i = 0; i < n && status == TN_OK; i++) added.data[added.len++] = passes[i];
    version++;
    pthread_mutex_unlock(&lock);
    return status;
}

tn_status pass_register(const Pass *pass) { return pass_register_all(&pass, 1); }

tn_status pass_unregister(Str name) {
    if (find_built_in(name))
        return fail(TN_INVALID_ARGUMENT, "pass \"%.*s\" belongs to the engine; it can be disabled", (int)name.n,
                    name.s);
    pthread_mutex_lock(&lock);
    size_t i = place_of(name);
    bool found = i < added.len;
    if (found) added.data[i] = NULL;
    version++;
    pthread_mutex_unlock(&lock);
    return found ? TN_OK : no_such_pass("pass", name);
}

uint64_t pass_registry_version(void) {
    pthread_mutex_lock(&lock);
    uint64_t v = version;
    pthread_mutex_unlock(&lock);
    return v;
}
