/* SPDX-License-Identifier: Apache-2.0 */
/* Which pass changed the answer: the model is run before any pass and after each of them, or as often as halving takes. */
#include <math.h>

#include "ops/op.h"
#include "session/check_int.h"

struct tn_check_result {
    Context *ctx;
    Arena arena;
    tn_check_info info;
};

/* The pass to blame. Text is the result's. */
typedef struct Fault {
    bool found, alone;
    const char *pass, *all; /* as in a pipeline; all that ran up to it */
    uint64_t number, first_change, n_changes, change;
    Verdict verdict;
    const char *value, *node, *op;
    const char *by; /* the change, as the pass describes it */
    tn_difference diff;
} Fault;

typedef struct Checker {
    Instrument base; /* first: an instrument pointer is a Checker pointer */
    Oracle oracle;
    PassPlan plan;
    const Model *model;
    const tn_check_options *options;
    tn_check_result *result;
    Model *before; /* as the last pass that was let through left it */
    uint64_t n_passes;
    double worst;
    size_t n_exempt;
    bool out_of_memory; /* some text could not be kept */
    Fault fault;
} Checker;

/* ---- running passes ------------------------------------------------------------------------------------------ */

static tn_status set_input_types(Checker *c, Model *model) {
    for (size_t i = 0; i < model->main->inputs.len; i++) {
        const Tensor *t = c->oracle.inputs[i] ? c->oracle.inputs[i] : graph_input_default(model->main, i);
        if (!t || t->kind != TYPE_TENSOR) continue;
        Shape shape = shape_make(t->rank, t->dims);
        const Type *type = type_tensor(model, t->dtype, &shape);
        if (!type) return TN_OUT_OF_MEMORY;
        value_set_type(model->main->inputs.data[i], type);
    }
    return infer_model(model);
}

/* As a session runs them: those of post-partition see the sizes at hand, if one of them wants to. manager_free is due in any
   case. */
static tn_status run_passes(Checker *c, Model *model, PassManager *manager) {
    PipelineItem phase = {.kind = ITEM_PHASE, .phase = PHASE_POST_PARTITION, .body = &c->plan.shapes};
    TRY(manager_init(manager, model, &c->plan.setup));
    TRY(manager_run(manager, &c->plan.pipeline));
    if (!pass_plan_wants_shapes(&c->plan)) return TN_OK;
    TRY(set_input_types(c, model));
    return manager_run(manager, &(Pipeline){&phase, 1});
}

/* ---- blame --------------------------------------------------------------------------------------------------- */

static const char *keep(Checker *c, Str s) {
    const char *kept = arena_strndup(&c->result->arena, s.n ? s.s : "", s.n);
    if (!kept) c->out_of_memory = true;
    return kept ? kept : "";
}

static const char *keep_text(Checker *c, Text *text) {
    if (text->status != TN_OK) c->out_of_memory = true;
    const char *kept = keep(c, (Str){text->s, text->n});
    text_free(text);
    return kept;
}

/* Those that ran, up to the one to blame, each by itself. */
static const char *all_until(Checker *c, const PassManager *m, uint64_t number) {
    Text text;
    text_init(&text, &c->oracle.ctx->allocator);
    for (uint64_t wanted = 1; wanted <= number; wanted++)
        for (size_t i = 0; i < m->records.len; i++)
            if (m->records.data[i].number == wanted)
                text_printf(&text, "%s%s", text.n ? "," : "", m->records.data[i].text.s);
    return keep_text(c, &text);
}

static Str name_of(const Node *node) {
    if (!node) return STR("");
    if (node->loc.n) return node->loc;
    for (uint32_t i = 0; i < node->n_results; i++)
        if (node->results[i]->name.n) return node->results[i]->name;
    return STR("");
}

static tn_status note_fault(Checker *c, const PassManager *m, const PassRecord *record, const Model *after,
                            const Verdict *v) {
    Spot spot;
    Text op;
    TRY(oracle_locate(&c->oracle, c->before, after, v, &spot));
    text_init(&op, &c->oracle.ctx->allocator);
    if (spot.node) op_print_name(spot.node->op, &op);
    c->fault = (Fault){.found = true,
                       .alone = spot.alone,
                       .pass = keep(c, record->text),
                       .all = all_until(c, m, record->number),
                       .number = record->number,
                       .first_change = record->first_change,
                       .n_changes = record->n_changes,
                       .verdict = *v,
                       .value = keep(c, spot.value),
                       .node = keep(c, name_of(spot.node).n ? name_of(spot.node) : name_of(spot.was)),
                       .op = keep_text(c, &op),
                       .by = "",
                       .diff = spot.diff};
    return TN_OK;
}

static void note_good(Checker *c, const Verdict *v) {
    c->worst = fmax(c->worst, v->worst);
    if (v->n_exempt > c->n_exempt) c->n_exempt = v->n_exempt;
}

/* ---- after each pass ----------------------------------------------------------------------------------------- */

/* Also when the manager saw no change: a pass may have written where it should not. */
static tn_status check_after(Instrument *self, const PassRun *run, const PassRecord *record, tn_status status) {
    Checker *c = (Checker *)self;
    Verdict v;
    if (status != TN_OK) return TN_OK;
    TRY(oracle_ask(&c->oracle, run->model, &v));
    if (!v.same) {
        TRY(note_fault(c, run->manager, record, run->model, &v));
        return fail(TN_CANCELLED, "a pass changed the answer");
    }
    note_good(c, &v);
    if (!record->changed) return TN_OK;
    model_free(c->before);
    c->before = NULL;
    return model_clone(run->model, &c->before);
}

static tn_status check_each(Checker *c) {
    Model *work;
    PassManager manager;
    c->base.after = check_after;
    pass_plan_add_instrument(&c->plan, &c->base);
    TRY(model_clone(c->model, &c->before));
    TRY(model_clone(c->model, &work));
    tn_status status = run_passes(c, work, &manager);
    c->n_passes = manager.n_runs;
    manager_free(&manager);
    model_free(work);
    return c->fault.found ? TN_OK : status;
}

/* ---- halving ------------------------------------------------------------------------------------------------- */

typedef struct Trial {
    Model *model;
    PassManager manager;
    Verdict verdict;
} Trial;

static void trial_free(Trial *t) {
    if (!t->model) return;
    manager_free(&t->manager);
    model_free(t->model);
    t->model = NULL;
}

/* Only the first passes, and only the first changes. trial_free is due where it succeeds. */
static tn_status try_limits(Checker *c, uint64_t passes, uint64_t changes, Trial *t) {
    c->plan.setup.max_passes = passes;
    c->plan.setup.max_changes = changes;
    *t = (Trial){0};
    TRY(model_clone(c->model, &t->model));
    tn_status status = run_passes(c, t->model, &t->manager);
    if (status == TN_OK) status = oracle_ask(&c->oracle, t->model, &t->verdict);
    if (status == TN_OK && t->verdict.same) note_good(c, &t->verdict);
    if (status != TN_OK) trial_free(t);
    return status;
}

static tn_status is_right(Checker *c, uint64_t passes, uint64_t changes, bool *right) {
    Trial t;
    TRY(try_limits(c, passes, changes, &t));
    *right = t.verdict.same;
    trial_free(&t);
    return TN_OK;
}

/* The first of `wrong` passes, or changes, that makes the answer wrong; `right` of them leave it right. */
static tn_status halve(Checker *c, bool of_changes, uint64_t fixed, uint64_t right, uint64_t wrong, uint64_t *first) {
    while (wrong - right > 1) {
        uint64_t middle = right + (wrong - right) / 2;
        bool good;
        TRY(is_right(c, of_changes ? fixed : middle, of_changes ? middle : fixed, &good));
        *(good ? &right : &wrong) = middle;
    }
    *first = wrong;
    return TN_OK;
}

/* A pass that does not ask before each change makes them all whatever the limit: then there is no single one. */
static tn_status find_change(Checker *c, uint64_t max_changes) {
    Fault *f = &c->fault;
    bool good;
    if (f->n_changes == 0 || f->first_change > max_changes) return TN_OK;
    TRY(is_right(c, f->number, f->first_change - 1, &good));
    if (!good) return TN_OK;
    return halve(c, true, f->number, f->first_change - 1, f->first_change - 1 + f->n_changes, &f->change);
}

static const PassRecord *record_of(const Trial *t, uint64_t number) {
    for (size_t i = 0; i < t->manager.records.len; i++)
        if (t->manager.records.data[i].number == number) return &t->manager.records.data[i];
    return NULL;
}

/* Which rule, say: of the run that ends with the change. */
static tn_status describe_change(Checker *c) {
    Fault *f = &c->fault;
    Trial t;
    if (!f->change) return TN_OK;
    TRY(try_limits(c, f->number, f->change, &t));
    const PassRecord *record = record_of(&t, f->number);
    if (record) f->by = keep(c, str_of(record->last_change));
    trial_free(&t);
    return TN_OK;
}

static tn_status find_pass(Checker *c, uint64_t first, uint64_t max_changes) {
    Trial before, after;
    TRY(try_limits(c, first - 1, max_changes, &before));
    tn_status status = try_limits(c, first, max_changes, &after);
    if (status == TN_OK) {
        const PassRecord *record = record_of(&after, first);
        c->before = before.model;
        status = record ? note_fault(c, &after.manager, record, after.model, &after.verdict)
                        : fail(TN_INTERNAL, "pass number %llu did not run again", (unsigned long long)first);
        before.model = NULL;
        manager_free(&before.manager);
        trial_free(&after);
    }
    trial_free(&before);
    return status;
}

static tn_status bisect(Checker *c) {
    Trial all;
    uint64_t first, max_changes = c->plan.setup.max_changes;
    c->plan.setup.instruments = NULL;
    TRY(try_limits(c, c->plan.setup.max_passes, max_changes, &all));
    bool right = all.verdict.same;
    c->n_passes = all.manager.n_runs;
    trial_free(&all);
    if (right) return TN_OK;
    TRY(halve(c, false, max_changes, 0, c->n_passes, &first));
    TRY(find_pass(c, first, max_changes));
    TRY(find_change(c, max_changes));
    return describe_change(c);
}

/* Where each pass was looked at, the change is only to be described. */
static tn_status find_who(Checker *c) {
    c->plan.setup.instruments = NULL;
    uint64_t max_passes = c->plan.setup.max_passes, max_changes = c->plan.setup.max_changes;
    double worst = c->worst;
    if (c->fault.found) TRY(find_change(c, max_changes));
    TRY(describe_change(c));
    c->fault.change = 0;
    c->worst = worst;
    c->plan.setup.max_passes = max_passes;
    c->plan.setup.max_changes = max_changes;
    return TN_OK;
}

/* ---- the result ---------------------------------------------------------------------------------------------- */

static void describe_difference(const Checker *c, Text *text) {
    const Fault *f = &c->fault;
    if (f->verdict.broken) {
        text_printf(text, ": the model does not run any more: %s", f->verdict.message);
        return;
    }
    text_printf(text, ": value \"%s\"", f->value);
    if (*f->op) text_printf(text, ", made by node \"%s\" (%s),", f->node, f->op);
    if (f->diff.why[0]) text_printf(text, " differs: %s", f->diff.why);
    else if (f->diff.largest == 0) text_printf(text, " differs at %lld", (long long)f->diff.at);
    else text_printf(text, " is off by %.3g at a scale of %.3g", f->diff.largest, f->diff.scale);
}

static const char *describe(Checker *c) {
    const Fault *f = &c->fault;
    Text text;
    text_init(&text, &c->oracle.ctx->allocator);
    if (f->found) {
        text_printf(&text, "pass \"%s\", number %llu, changed the answer", f->pass, (unsigned long long)f->number);
        if (f->change) text_printf(&text, " with change %llu", (unsigned long long)f->change);
        if (*f->by) text_printf(&text, " by %s", f->by);
        describe_difference(c, &text);
    } else {
        text_printf(&text, "no pass changed an answer (%llu passes, worst difference %.2g of the scale)",
                    (unsigned long long)c->n_passes, c->worst);
    }
    if (c->n_exempt)
        text_printf(&text,
                    "; %zu outputs were not compared: random numbers decide them, which are drawn by the names of "
                    "nodes, and passes changed these",
                    c->n_exempt);
    return keep_text(c, &text);
}

static void fill_info(Checker *c) {
    const Fault *f = &c->fault;
    c->result->info = (tn_check_info){.same = !f->found,
                                      .pass = f->found ? f->pass : "",
                                      .pass_number = f->number,
                                      .change = f->change,
                                      .value = f->found ? f->value : "",
                                      .node = f->found ? f->node : "",
                                      .op = f->found ? f->op : "",
                                      .by = f->found ? f->by : "",
                                      .largest = f->diff.largest,
                                      .scale = f->diff.scale,
                                      .worst = c->worst,
                                      .n_passes = c->n_passes,
                                      .why = describe(c)};
}

/* The pass alone, where that shows the fault; else, where several passes each took a bit, all that ran. */
static tn_status write_reproducer(Checker *c) {
    if (!c->options->reproducer || !c->fault.found) return TN_OK;
    const Model *model = c->fault.alone ? c->before : c->model;
    const char *pipeline = c->fault.alone ? c->fault.pass : c->fault.all;
    return reproducer_write(model, str_of(pipeline), c->oracle.inputs, c->options->reproducer);
}

static tn_status check(Checker *c, const tn_pass_settings *settings, const tn_tensor *const *inputs) {
    TRY(pass_plan_init(&c->plan, &c->model->ctx->allocator, settings));
    TRY(oracle_init(&c->oracle, c->model, c->options, inputs));
    TRY(c->options->bisect ? bisect(c) : check_each(c));
    if (!c->options->bisect) TRY(find_who(c));
    fill_info(c);
    return c->out_of_memory ? TN_OUT_OF_MEMORY : write_reproducer(c);
}

static tn_status new_result(Context *ctx, tn_check_result **out) {
    tn_check_result *r = mem_alloc(&ctx->allocator, sizeof *r, alignof(tn_check_result));
    if (!r) return TN_OUT_OF_MEMORY;
    *r = (tn_check_result){.ctx = context_ref(ctx)};
    arena_init(&r->arena, &ctx->allocator);
    *out = r;
    return TN_OK;
}

tn_status tn_model_check(const tn_model *model, const tn_pass_settings *settings, const tn_check_options *options,
                         const tn_tensor *const *inputs, size_t n_inputs, tn_check_result **result) {
    static const tn_check_options none = {0};
    if (!model || !result) return fail(TN_INVALID_ARGUMENT, "model or result is NULL");
    if (n_inputs != model->ir->main->inputs.len)
        return fail(TN_INVALID_ARGUMENT, "the model has %zu inputs, %zu were given", model->ir->main->inputs.len,
                    n_inputs);
    if (atomic_load(&model->exposed)) TRY(model_verify(model->ir));
    const Allocator *a = &model->ctx->allocator;
    tn_check_result *r;
    TRY(new_result(model->ctx, &r));
    Checker *c = mem_alloc(a, sizeof *c, alignof(Checker));
    if (!c) {
        tn_check_result_release(r);
        return TN_OUT_OF_MEMORY;
    }
    *c = (Checker){.model = model->ir, .options = options ? options : &none, .result = r};
    tn_status status = check(c, settings, inputs);
    if (c->oracle.ctx) oracle_free(&c->oracle);
    pass_plan_free(&c->plan);
    model_free(c->before);
    mem_free(a, c, sizeof *c);
    if (status == TN_OK) *result = r;
    else tn_check_result_release(r);
    return status;
}

const tn_check_info *tn_check_result_info(const tn_check_result *result) { return result ? &result->info : NULL; }

void tn_check_result_release(tn_check_result *result) {
    if (!result) return;
    Context *ctx = result->ctx;
    arena_free(&result->arena);
    mem_free(&ctx->allocator, result, sizeof *result);
    context_unref(ctx);
}
