/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of passes: checked, and turned into what the manager wants. */
#include "session/passes_int.h"

enum { DEFAULT_LEVEL = 2 };

/* ---- what the manager asks ----------------------------------------------------------------------------------- */

static bool has_kernel(void *user, const char *op, const PassPlace *place) {
    (void)user;
    return kernel_exists(op, place->target, place->precision);
}

static Lowering lowering(void *user, const char *op, const PassPlace *place) {
    (void)user;
    return kernel_lowering(op, place->target, place->precision);
}

/* ---- lists --------------------------------------------------------------------------------------------------- */

static tn_status read_names(Arena *arena, const char *const *names, size_t n, const Pass *const **out) {
    const Pass **list = arena_array(arena, const Pass *, n + 1);
    if (!list) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (!names[i]) return fail(TN_INVALID_ARGUMENT, "name %zu of a pass is NULL", i);
        TRY(pass_get(str_of(names[i]), &list[i]));
        for (size_t k = 0; k < i; k++)
            if (list[k] == list[i]) return fail(TN_INVALID_ARGUMENT, "\"%s\" is named twice", names[i]);
    }
    *out = list;
    return TN_OK;
}

static tn_status read_places(PassPlan *plan, const tn_pass_settings *s) {
    static const PassPlace presets[] = {{"cpu", TN_UNDEFINED}, {"reference", TN_UNDEFINED}};
    plan->setup.places = presets;
    plan->setup.n_places = sizeof presets / sizeof *presets;
    if (s->n_places == 0) return TN_OK;
    PassPlace *places = arena_array(&plan->arena, PassPlace, s->n_places);
    if (!places) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < s->n_places; i++) {
        if (!s->places[i].target) return fail(TN_INVALID_ARGUMENT, "place %zu has no target", i);
        places[i] = (PassPlace){arena_strndup(&plan->arena, s->places[i].target, strlen(s->places[i].target)),
                                s->places[i].precision};
        if (!places[i].target) return TN_OUT_OF_MEMORY;
    }
    plan->setup.places = places;
    plan->setup.n_places = s->n_places;
    return TN_OK;
}

/* ---- the pipeline -------------------------------------------------------------------------------------------- */

static int order_of(const PipelineItem *item) { return item->kind == ITEM_PASS ? item->pass->order : 0; }

/* Behind those of the same order; what has no phase of its own comes last. */
static tn_status insert(Arena *arena, Pipeline *list, const PipelineItem *item) {
    PipelineItem *bigger = arena_array(arena, PipelineItem, list->n + 1);
    if (!bigger) return TN_OUT_OF_MEMORY;
    size_t at = 0;
    bool last = item->kind != ITEM_PASS || item->pass->phase == PHASE_NONE;
    while (at < list->n && (last || order_of(&list->items[at]) <= order_of(item))) at++;
    for (size_t i = 0; i < list->n; i++) bigger[i < at ? i : i + 1] = list->items[i];
    bigger[at] = *item;
    list->items = bigger;
    list->n++;
    return TN_OK;
}

/* All phases, each with what is scheduled there and what the settings add. */
static tn_status default_phases(PassPlan *plan, const tn_pass_settings *s, Pipeline *phases) {
    for (int p = PHASE_PRE_PLACEMENT; p < N_PHASES; p++)
        TRY(pipeline_scheduled(&plan->arena, (Phase)p, plan->setup.opt_level, &phases[p]));
    for (size_t i = 0; i < s->n_added; i++) {
        Pipeline added;
        if (!s->added[i]) return fail(TN_INVALID_ARGUMENT, "added pass %zu is NULL", i);
        TRY(pipeline_parse(&plan->arena, str_of(s->added[i]), &added));
        for (size_t k = 0; k < added.n; k++) {
            const PipelineItem *item = &added.items[k];
            Phase phase = item->kind == ITEM_PASS && item->pass->phase ? item->pass->phase : PHASE_PRE_PLACEMENT;
            TRY(insert(&plan->arena, &phases[phase], item));
        }
    }
    return TN_OK;
}

static tn_status as_phases(PassPlan *plan, const Pipeline *phases) {
    PipelineItem *items = arena_array(&plan->arena, PipelineItem, N_PHASES);
    Pipeline *bodies = arena_array(&plan->arena, Pipeline, N_PHASES);
    if (!items || !bodies) return TN_OUT_OF_MEMORY;
    size_t n = 0;
    for (int p = PHASE_PRE_PLACEMENT; p < PHASE_POST_PARTITION; p++) {
        if (phases[p].n == 0) continue;
        bodies[p] = phases[p];
        items[n++] = (PipelineItem){.kind = ITEM_PHASE, .phase = (Phase)p, .body = &bodies[p]};
    }
    plan->pipeline = (Pipeline){items, n};
    plan->shapes = phases[PHASE_POST_PARTITION];
    return TN_OK;
}

/* What a user's list says of post-partition is for sessions, which run it for each set of shapes. */
static tn_status split(PassPlan *plan, const Pipeline *all) {
    PipelineItem *items = arena_array(&plan->arena, PipelineItem, all->n + 1);
    if (!items) return TN_OUT_OF_MEMORY;
    plan->pipeline = (Pipeline){.items = items};
    TRY(pipeline_scheduled(&plan->arena, PHASE_POST_PARTITION, 0, &plan->shapes));
    for (size_t i = 0; i < all->n; i++) {
        const PipelineItem *item = &all->items[i];
        bool shapes = item->kind == ITEM_PHASE && item->phase == PHASE_POST_PARTITION;
        if (!shapes) items[plan->pipeline.n++] = *item;
        else if (item->body) plan->shapes = *item->body;
    }
    return TN_OK;
}

static tn_status read_pipeline(PassPlan *plan, const tn_pass_settings *s) {
    Pipeline phases[N_PHASES] = {{0}}, all;
    if (!s->pipeline) {
        TRY(default_phases(plan, s, phases));
        return as_phases(plan, phases);
    }
    TRY(pipeline_parse(&plan->arena, str_of(s->pipeline), &all));
    for (size_t i = 0; i < s->n_added; i++) {
        Pipeline added;
        TRY(pipeline_parse(&plan->arena, str_of(s->added[i] ? s->added[i] : ""), &added));
        for (size_t k = 0; k < added.n; k++) {
            PipelineItem item = added.items[k];
            TRY(insert(&plan->arena, &all, &item));
        }
    }
    return split(plan, &all);
}

/* ---- instruments --------------------------------------------------------------------------------------------- */

void pass_plan_add_instrument(PassPlan *plan, Instrument *instrument) {
    Instrument **last = &plan->setup.instruments;
    while (*last) last = &(*last)->next;
    *last = instrument;
    instrument->next = NULL;
}

static tn_status read_print(PassPlan *plan, const tn_pass_settings *s) {
    if (!s->print_folder || !s->print_when) return TN_OK;
    const char *folder = arena_strndup(&plan->arena, s->print_folder, strlen(s->print_folder));
    if (!folder) return TN_OUT_OF_MEMORY;
    print_instrument(&plan->print, folder, s->print_when);
    TRY(read_names(&plan->arena, s->print_passes, s->n_print_passes, &plan->print.passes));
    plan->print.n_passes = s->n_print_passes;
    pass_plan_add_instrument(plan, &plan->print.base);
    return TN_OK;
}

tn_status pass_plan_init(PassPlan *plan, const Allocator *allocator, const tn_pass_settings *settings) {
    static const tn_pass_settings none = {0};
    const tn_pass_settings *s = settings ? settings : &none;
    *plan = (PassPlan){.accuracy = s->accuracy, .host = {.has_kernel = has_kernel, .lowering = lowering}};
    arena_init(&plan->arena, allocator);
    if (s->accuracy > TN_ACCURACY_HIGH) return fail(TN_INVALID_ARGUMENT, "%d is no accuracy", (int)s->accuracy);
    if (s->opt_level > TN_OPT_3) return fail(TN_INVALID_ARGUMENT, "%d is no opt level", (int)s->opt_level);
    plan->setup = (PassSetup){.opt_level = s->opt_level ? (int)s->opt_level - (int)TN_OPT_0 : DEFAULT_LEVEL,
                              .n_disabled = s->n_disabled,
                              .max_passes = s->max_passes ? s->max_passes : UINT64_MAX,
                              .max_changes = s->max_changes ? s->max_changes : UINT64_MAX,
                              .verify_each = s->verify_each,
                              .host = &plan->host};
    TRY(read_names(&plan->arena, s->disabled, s->n_disabled, &plan->setup.disabled));
    TRY(read_places(plan, s));
    TRY(pass_plan_add_wishes(plan, s->lowering, -1));
    TRY(read_pipeline(plan, s));
    TRY(read_print(plan, s));
    if (s->reproducer) TRY(reproducer_instrument(plan, s->reproducer));
    if (s->before || s->after) observer_instrument(plan, s);
    return TN_OK;
}

/* Recursion is bounded by the pipeline's nesting. */
static bool wants_shapes(PassPlan *plan, const Pipeline *list) {
    for (size_t i = 0; i < list->n; i++) {
        const PipelineItem *item = &list->items[i];
        Str why;
        bool off = false;
        if (item->kind != ITEM_PASS) {
            if (item->body && wants_shapes(plan, item->body)) return true;
            continue;
        }
        for (size_t k = 0; k < plan->setup.n_disabled; k++) off |= plan->setup.disabled[k] == item->pass;
        if (!off && !item->pass->plan_only && pass_applies(item->pass, &plan->setup, &plan->arena, &why)) return true;
    }
    return false;
}

bool pass_plan_wants_shapes(PassPlan *plan) { return wants_shapes(plan, &plan->shapes); }

void pass_plan_free(PassPlan *plan) {
    observer_free(plan);
    arena_free(&plan->arena);
}

char *pass_plan_key(PassPlan *plan) {
    Text text;
    text_init(&text, plan->arena.allocator);
    text_printf(&text, "%s O%d ", tn_version(), plan->setup.opt_level);
    pipeline_print(&plan->pipeline, &text);
    for (size_t i = 0; i < plan->setup.n_disabled; i++) text_printf(&text, " -%s", plan->setup.disabled[i]->name);
    for (size_t i = 0; i < plan->setup.n_places; i++)
        text_printf(&text, " @%s/%s", plan->setup.places[i].target, dtype_name(plan->setup.places[i].precision));
    for (size_t i = 0; i < plan->setup.n_wishes; i++) {
        const LoweringWish *wish = &plan->setup.wishes[i];
        const char *domain = wish->op && wish->op->domain ? wish->op->domain : "";
        text_printf(&text, " %s.%s=%d/%d", domain, wish->op ? wish->op->name : "*", (int)wish->how, wish->path);
    }
    if (plan->setup.max_passes != UINT64_MAX || plan->setup.max_changes != UINT64_MAX)
        text_printf(&text, " limits %llu %llu", (unsigned long long)plan->setup.max_passes,
                    (unsigned long long)plan->setup.max_changes);
    char *kept = text.status == TN_OK ? arena_strndup(&plan->arena, text.s, text.n) : NULL;
    text_free(&text);
    return kept;
}
