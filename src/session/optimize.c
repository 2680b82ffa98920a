/* SPDX-License-Identifier: Apache-2.0 */
/* Optimised models: a copy that has been through the passes, kept with the model so that its sessions share it. */
#include "ops/op.h"
#include "rewrite/rewrite.h"
#include "session/passes_int.h"

/* ---- running ------------------------------------------------------------------------------------------------- */

tn_status pass_plan_run(PassPlan *plan, Model *model, const Pipeline *pipeline, tn_pass_report **report) {
    Context *ctx = model->ctx;
    tn_pass_report *r = mem_alloc(&ctx->allocator, sizeof *r, alignof(tn_pass_report));
    if (!r) return TN_OUT_OF_MEMORY;
    r->ctx = context_ref(ctx);
    r->setup = plan->setup;
    tn_status status = manager_init(&r->manager, model, &r->setup);
    if (status == TN_OK) status = manager_run(&r->manager, pipeline);
    if (status != TN_OK && model->file.n) diag_set_file(model->file.s);
    if (report) *report = r;
    else tn_pass_report_release(r);
    return status;
}

/* ---- marks --------------------------------------------------------------------------------------------------- */

static const Str mark = {"tenon.passes", 12};

tn_status mark_optimized(Model *ir, const char *key) { return model_set_metadata(ir, mark, str_of(key)); }

bool is_optimized(const tn_model *model, const char *key) {
    Str found = model_metadata(model->ir, mark);
    return found.s && str_equal(found, str_of(key)) && model_edits(model->ir) == model->read_edits;
}

/* ---- whole models -------------------------------------------------------------------------------------------- */

static tn_status optimize_here(Model *model, PassPlan *plan, tn_pass_report **report) {
    recycle_begin();
    tn_status status = pass_plan_run(plan, model, &plan->pipeline, report);
    recycle_end();
    TRY(status);
    const char *key = pass_plan_key(plan);
    return key ? mark_optimized(model, key) : TN_OUT_OF_MEMORY;
}

static tn_status optimize_copy(const tn_model *model, PassPlan *plan, Model **out, tn_pass_report **report) {
    Model *copy;
    TRY(model_clone(model->ir, &copy));
    tn_status status = optimize_here(copy, plan, report);
    if (status == TN_OK) status = model_compact_ids(copy);
    if (status == TN_OK) *out = copy;
    else model_free(copy);
    return status;
}

tn_status tn_model_optimize(const tn_model *model, const tn_pass_settings *settings, tn_model **optimized,
                            tn_pass_report **report) {
    if (report) *report = NULL;
    if (!model || !optimized) return fail(TN_INVALID_ARGUMENT, "model or optimized is NULL");
    if (atomic_load(&model->exposed)) TRY(model_verify(model->ir));
    PassPlan plan;
    Model *copy = NULL;
    tn_status status = pass_plan_init(&plan, &model->ctx->allocator, settings);
    if (status == TN_OK) status = optimize_copy(model, &plan, &copy, report);
    pass_plan_free(&plan);
    return status == TN_OK ? model_handle(model->ctx, copy, optimized) : status;
}

tn_status tn_model_run_passes(tn_model *model, const tn_pass_settings *settings, tn_pass_report **report) {
    if (report) *report = NULL;
    if (!model) return fail(TN_INVALID_ARGUMENT, "model is NULL");
    if (atomic_load(&model->exposed)) TRY(model_verify(model->ir));
    PassPlan plan;
    tn_status status = pass_plan_init(&plan, &model->ctx->allocator, settings);
    if (status == TN_OK) status = optimize_here(model->ir, &plan, report);
    pass_plan_free(&plan);
    return status;
}

/* ---- for sessions -------------------------------------------------------------------------------------------- */

static void print_names(Text *text, const char *what, const char *const *names, size_t n) {
    text_printf(text, " %s", what);
    for (size_t i = 0; i < n; i++) text_printf(text, " %zu:%s", strlen(names[i]), names[i]);
}

static tn_status session_key(PassPlan *plan, const tn_model *model, const Paths *paths, char **key) {
    Text text;
    char *passes = pass_plan_key(plan);
    if (!passes) return TN_OUT_OF_MEMORY;
    text_init(&text, plan->arena.allocator);
    text_printf(&text, "%s registry %llu rules %zu edits %llu", passes, (unsigned long long)pass_registry_version(),
                rules_n_added(), (unsigned long long)model_edits(model->ir));
    for (size_t i = 0; i < paths->n; i++) {
        print_names(&text, "from", paths->list[i].inputs, paths->list[i].n_inputs);
        print_names(&text, "to", paths->list[i].outputs, paths->list[i].n_outputs);
    }
    *key = text.status == TN_OK ? arena_strndup(&plan->arena, text.s, text.n) : NULL;
    text_free(&text);
    return *key ? TN_OK : TN_OUT_OF_MEMORY;
}

static tn_status optimize_for(tn_model *model, PassPlan *plan, const Paths *paths, Model **out,
                              tn_pass_report **report) {
    Model *copy;
    TRY(model_clone(model->ir, &copy));
    recycle_begin();
    tn_status status = paths_choose(copy, paths);
    if (status == TN_OK) status = pass_plan_run(plan, copy, &plan->pipeline, report);
    recycle_end();
    if (status == TN_OK) status = model_compact_ids(copy);
    if (status == TN_OK) *out = copy;
    else model_free(copy);
    return status;
}

static void free_entry(const Allocator *a, OptimizedModel *entry) {
    if (!entry) return;
    model_free(entry->ir);
    if (entry->key) mem_free(a, entry->key, strlen(entry->key) + 1);
    mem_free(a, entry, sizeof *entry);
}

/* Takes over `ir`, also on failure. */
static tn_status add_entry(tn_model *model, const char *key, Model *ir, OptimizedModel **out) {
    const Allocator *a = &model->ctx->allocator;
    OptimizedModel *entry = mem_alloc(a, sizeof *entry, alignof(OptimizedModel));
    if (!entry) {
        model_free(ir);
        return TN_OUT_OF_MEMORY;
    }
    *entry = (OptimizedModel){.ir = ir};
    if (key && !(entry->key = mem_alloc(a, strlen(key) + 1, 1))) {
        free_entry(a, entry);
        return TN_OUT_OF_MEMORY;
    }
    if (key) memcpy(entry->key, key, strlen(key));
    entry->next = model->optimized;
    model->optimized = entry;
    *out = entry;
    return TN_OK;
}

static OptimizedModel *find(const tn_model *model, const char *key) {
    OptimizedModel *entry = model->optimized;
    while (entry && !(entry->key && strcmp(entry->key, key) == 0)) entry = entry->next;
    return entry;
}

/* With the lock held, so that two sessions that start at once do the work once. Whoever watches wants to see it happen. */
static tn_status find_or_make(tn_model *model, PassPlan *plan, const Paths *paths, OptimizedModel **out,
                              tn_pass_report **report) {
    char *key;
    Model *made = NULL;
    bool watched = plan->setup.instruments != NULL;
    TRY(session_key(plan, model, paths, &key));
    *out = watched ? NULL : find(model, key);
    if (!*out) {
        TRY(optimize_for(model, plan, paths, &made, report));
        TRY(add_entry(model, watched ? NULL : key, made, out));
    }
    (*out)->users++;
    return TN_OK;
}

tn_status optimized_acquire(tn_model *model, PassPlan *plan, const Paths *paths, OptimizedModel **out,
                            tn_pass_report **report) {
    const char *key = pass_plan_key(plan);
    *out = NULL;
    if (!key) return TN_OUT_OF_MEMORY;
    TRY(paths_check(paths));
    if (paths->n == 0 && !plan->setup.instruments && is_optimized(model, key)) return TN_OK;
    pthread_mutex_lock(&model->lock);
    tn_status status = find_or_make(model, plan, paths, out, report);
    pthread_mutex_unlock(&model->lock);
    return status;
}

enum { KEPT_UNUSED = 4 };

/* Those used longest ago stand last. */
static void drop_unused(tn_model *model) {
    int unused = 0;
    for (OptimizedModel **at = &model->optimized; *at;) {
        OptimizedModel *entry = *at;
        if (entry->users > 0 || (entry->key && ++unused <= KEPT_UNUSED)) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        free_entry(&model->ctx->allocator, entry);
    }
}

void optimized_release(tn_model *model, OptimizedModel *entry) {
    if (!entry) return;
    pthread_mutex_lock(&model->lock);
    if (--entry->users == 0) drop_unused(model);
    pthread_mutex_unlock(&model->lock);
}

void optimized_free(tn_model *model) {
    while (model->optimized) {
        OptimizedModel *entry = model->optimized;
        model->optimized = entry->next;
        free_entry(&model->ctx->allocator, entry);
    }
}
