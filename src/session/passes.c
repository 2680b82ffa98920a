/* SPDX-License-Identifier: Apache-2.0 */
/* What passes there are and what would run. */
#include "session/passes_int.h"

/* Strings that are put together live until the thread asks again. */
static _Thread_local char texts[4][512];

static const char *join(char *to, const char *const *names) {
    size_t n = 0;
    to[0] = 0;
    for (int i = 0; i < PASS_MAX_NAMES && names[i]; i++) {
        size_t length = strlen(names[i]);
        if (n + length + 2 > sizeof texts[0]) break;
        if (n) to[n++] = ' ';
        memcpy(to + n, names[i], length + 1);
        n += length;
    }
    return to;
}

static const char *join_kernels(char *to, const PassKernel *kernels) {
    char each[PASS_MAX_KERNELS][64];
    const char *names[PASS_MAX_NAMES] = {0};
    for (int i = 0; i < PASS_MAX_KERNELS && kernels[i].op; i++) {
        size_t n = strlen(kernels[i].op), m = kernels[i].target ? strlen(kernels[i].target) : 0;
        if (n + m + 2 > sizeof each[i]) continue;
        memcpy(each[i], kernels[i].op, n + 1);
        if (m) {
            each[i][n] = '@';
            memcpy(each[i] + n + 1, kernels[i].target, m + 1);
        }
        names[i] = each[i];
    }
    return join(to, names);
}

static void describe(const Pass *p, tn_pass_info *info) {
    static _Thread_local char excluded[512];
    *info = (tn_pass_info){.name = p->name,
                           .summary = p->summary ? p->summary : "",
                           .kind = (tn_pass_kind)p->kind,
                           .phase = (tn_phase)p->phase,
                           .order = p->order,
                           .opt_level = p->opt_level,
                           .each_graph = p->each_graph,
                           .targets = join(texts[0], p->targets),
                           .excluded = join(excluded, p->not_targets),
                           .kernels = join_kernels(texts[1], p->kernels),
                           .required = join(texts[2], p->requires),
                           .keeps = join(texts[3], p->keeps),
                           .pipeline = p->pipeline ? p->pipeline : ""};
    while (info->n_options < PASS_MAX_OPTIONS && p->options[info->n_options].name) info->n_options++;
}

size_t tn_n_passes(void) {
    Arena arena;
    const Pass **passes;
    size_t n = 0;
    arena_init(&arena, &allocator_default);
    if (pass_list(&arena, &passes, &n) != TN_OK) n = 0;
    arena_free(&arena);
    return n;
}

tn_status tn_pass_at(size_t i, tn_pass_info *info) {
    Arena arena;
    const Pass **passes;
    size_t n;
    if (!info) return fail(TN_INVALID_ARGUMENT, "info is NULL");
    arena_init(&arena, &allocator_default);
    tn_status status = pass_list(&arena, &passes, &n);
    if (status == TN_OK && i >= n) status = fail(TN_OUT_OF_RANGE, "there are %zu passes", n);
    if (status == TN_OK) describe(passes[i], info);
    arena_free(&arena);
    return status;
}

tn_status tn_pass_find(const char *name, tn_pass_info *info) {
    const Pass *pass;
    if (!name || !info) return fail(TN_INVALID_ARGUMENT, "name or info is NULL");
    TRY(pass_get(str_of(name), &pass));
    describe(pass, info);
    return TN_OK;
}

tn_status tn_pass_option_at(const char *name, size_t i, tn_pass_option_info *info) {
    static const char *const kinds[] = {"int", "float", "bool", "string"};
    const Pass *pass;
    if (!name || !info) return fail(TN_INVALID_ARGUMENT, "name or info is NULL");
    TRY(pass_get(str_of(name), &pass));
    if (i >= PASS_MAX_OPTIONS || !pass->options[i].name)
        return fail(TN_OUT_OF_RANGE, "pass \"%s\" has no option %zu", name, i);
    const PassOption *o = &pass->options[i];
    *info = (tn_pass_option_info){o->name, kinds[o->kind], o->preset ? o->preset : "", o->help ? o->help : ""};
    return TN_OK;
}

const char *tn_phase_name(tn_phase phase) {
    return phase >= TN_NO_PHASE && phase <= TN_POST_PARTITION ? phase_name((Phase)phase) : "";
}

/* ---- what would run ------------------------------------------------------------------------------------------ */

static void print_plan(const PassPlan *plan, Text *out) {
    pipeline_print(&plan->pipeline, out);
    if (plan->shapes.n == 0) return;
    text_printf(out, "%s%s{", plan->pipeline.n ? "," : "", phase_name(PHASE_POST_PARTITION));
    pipeline_print(&plan->shapes, out);
    text_puts(out, "}");
}

tn_status tn_pipeline_text(const tn_pass_settings *settings, char **text) {
    if (!text) return fail(TN_INVALID_ARGUMENT, "text is NULL");
    PassPlan plan;
    Text out;
    text_init(&out, &allocator_default);
    tn_status status = pass_plan_init(&plan, &allocator_default, settings);
    if (status == TN_OK) print_plan(&plan, &out);
    pass_plan_free(&plan);
    return give_text(status, &out, text);
}

static const char *scheduling(const Pass *pass, const PassSetup *setup) {
    for (size_t i = 0; i < setup->n_disabled; i++)
        if (setup->disabled[i] == pass) return "it is disabled";
    if (!pass->phase) return "it names no phase: it runs where a pipeline names it";
    if (pass->opt_level > setup->opt_level) return "it is for a higher opt level";
    return NULL;
}

tn_status tn_pass_applies(const char *name, const tn_pass_settings *settings, bool *applies, char **why) {
    const Pass *pass;
    PassPlan plan;
    Str reason = STR("");
    if (!name || !applies || !why) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    TRY(pass_get(str_of(name), &pass));
    tn_status status = pass_plan_init(&plan, &allocator_default, settings);
    if (status == TN_OK) {
        *applies = pass_applies(pass, &plan.setup, &plan.arena, &reason);
        const char *not_scheduled = *applies ? scheduling(pass, &plan.setup) : NULL;
        if (not_scheduled) {
            *applies = false;
            reason = str_of(not_scheduled);
        }
        Text out;
        text_init(&out, &allocator_default);
        text_put(&out, reason.s, reason.n);
        status = give_text(status, &out, why);
    }
    pass_plan_free(&plan);
    return status;
}
