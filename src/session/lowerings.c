/* SPDX-License-Identifier: Apache-2.0 */
/* How a caller wishes ops to be run: "Conv=geometry,Gather=loop,*=origin", for a session or one path of it. */
#include "ops/op.h"
#include "session/passes_int.h"

static const char *const ways[] = {"", "origin", "geometry", "loop"};
enum { N_WAYS = 4 };

static Str trimmed(Str s) {
    while (s.n > 0 && s.s[0] == ' ') s.s++, s.n--;
    while (s.n > 0 && s.s[s.n - 1] == ' ') s.n--;
    return s;
}

static tn_status read_wish(Str text, LoweringWish *out) {
    const char *sign = memchr(text.s, '=', text.n);
    if (!sign) return fail(TN_INVALID_ARGUMENT, "lowering: \"%.*s\" is not OP=HOW", (int)text.n, text.s);
    Str name = trimmed((Str){text.s, (size_t)(sign - text.s)});
    Str how = trimmed((Str){sign + 1, text.n - (size_t)(sign - text.s) - 1});
    for (int i = 1; i < N_WAYS; i++)
        if (str_equal(how, str_of(ways[i]))) out->how = (Lowering)i;
    if (!out->how)
        return fail(TN_INVALID_ARGUMENT, "lowering: \"%.*s\" is none of origin, geometry and loop", (int)how.n, how.s);
    out->op = op_named(name);
    OpHint hint;
    return out->op || str_equal(name, STR("*"))
               ? TN_OK
               : fail(TN_NOT_FOUND, "lowering: there is no op \"%.*s\"%s", (int)name.n, name.s, op_hint(name, &hint));
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
        TRY(read_wish((Str){at, n}, &wish));
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
