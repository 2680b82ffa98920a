/* SPDX-License-Identifier: Apache-2.0 */
/* How a caller wishes ops to be run: "Conv=geometry,Gather=loop,*=origin", for a session or one path of it. */
#include "ops/op.h"
#include "session/passes_int.h"

#include <stdio.h>

static const char *const ways[] = {"", "origin", "geometry", "loop"};
enum { N_WAYS = 4 };

static tn_status no_op(Arena *arena, Str name) {
    size_t n;
    const OpSchema *const *ops = op_table(&n);
    const char **names = arena_array(arena, const char *, n + 1);
    for (size_t i = 0; names && i < n; i++) {
        const char *domain = ops[i]->domain ? ops[i]->domain : "";
        size_t size = strlen(domain) + strlen(ops[i]->name) + 2;
        char *full = arena_alloc(arena, size, 1);
        if (!full) return TN_OUT_OF_MEMORY;
        snprintf(full, size, "%s%s%s", domain, domain[0] ? "." : "", ops[i]->name);
        names[i] = full;
    }
    const char *near = names ? nearest_name(name, names, n) : NULL;
    return near ? fail(TN_NOT_FOUND, "lowering: there is no op \"%.*s\"; did you mean \"%s\"?", (int)name.n, name.s,
                       near)
                : fail(TN_NOT_FOUND, "lowering: there is no op \"%.*s\"", (int)name.n, name.s);
}

static const OpSchema *op_of(Str name) {
    size_t dot = name.n;
    while (dot > 0 && name.s[dot - 1] != '.') dot--;
    return op_find((Str){name.s, dot ? dot - 1 : 0}, (Str){name.s + dot, name.n - dot});
}

static Str trimmed(Str s) {
    while (s.n > 0 && s.s[0] == ' ') s.s++, s.n--;
    while (s.n > 0 && s.s[s.n - 1] == ' ') s.n--;
    return s;
}

static tn_status read_wish(Arena *arena, Str text, LoweringWish *out) {
    const char *sign = memchr(text.s, '=', text.n);
    if (!sign) return fail(TN_INVALID_ARGUMENT, "lowering: \"%.*s\" is not OP=HOW", (int)text.n, text.s);
    Str name = trimmed((Str){text.s, (size_t)(sign - text.s)});
    Str how = trimmed((Str){sign + 1, text.n - (size_t)(sign - text.s) - 1});
    for (int i = 1; i < N_WAYS; i++)
        if (str_equal(how, str_of(ways[i]))) out->how = (Lowering)i;
    if (!out->how)
        return fail(TN_INVALID_ARGUMENT, "lowering: \"%.*s\" is none of origin, geometry and loop", (int)how.n, how.s);
    out->op = op_of(name);
    return out->op || str_equal(name, STR("*")) ? TN_OK : no_op(arena, name);
}

/* Behind those that are there. */
static tn_status add_wish(PassPlan *plan, const LoweringWish *wish) {
    LoweringWish *more = arena_array(&plan->arena, LoweringWish, plan->setup.n_wishes + 1);
    if (!more) return TN_OUT_OF_MEMORY;
    if (plan->setup.n_wishes) memcpy(more, plan->setup.wishes, plan->setup.n_wishes * sizeof *more);
    more[plan->setup.n_wishes++] = *wish;
    plan->setup.wishes = more;
    return TN_OK;
}

tn_status pass_plan_add_wishes(PassPlan *plan, const char *text, int path) {
    for (const char *at = text; at && *at; at += *at == ',') {
        LoweringWish wish = {.path = path};
        size_t n = strcspn(at, ",");
        TRY(read_wish(&plan->arena, (Str){at, n}, &wish));
        TRY(add_wish(plan, &wish));
        at += n;
    }
    return TN_OK;
}

static tn_status copy_ends(PassPlan *plan, const tn_path *path, PathEnds *out) {
    const char **names = arena_array(&plan->arena, const char *, path->n_outputs + 1);
    if (!names) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < path->n_outputs; i++) {
        names[i] = arena_strndup(&plan->arena, path->outputs[i], strlen(path->outputs[i]));
        if (!names[i]) return TN_OUT_OF_MEMORY;
    }
    *out = (PathEnds){names, path->n_outputs};
    return TN_OK;
}

tn_status pass_plan_add_paths(PassPlan *plan, const Paths *paths) {
    bool any = false;
    for (size_t i = 0; i < paths->n; i++) any |= paths->list[i].lowering != NULL;
    if (!any) return TN_OK;
    PathEnds *ends = arena_array(&plan->arena, PathEnds, paths->n);
    if (!ends) return TN_OUT_OF_MEMORY;
    TRY(paths_check(paths));
    for (size_t i = 0; i < paths->n; i++) {
        TRY(copy_ends(plan, &paths->list[i], &ends[i]));
        TRY(pass_plan_add_wishes(plan, paths->list[i].lowering, (int)i));
    }
    plan->setup.paths = ends;
    plan->setup.n_paths = paths->n;
    return TN_OK;
}
