/* SPDX-License-Identifier: Apache-2.0 */
/* The manager: walks a pipeline, decides what runs, watches over it, and keeps the report. */
#include "pass/pass_int.h"

#include <stdio.h>
#include <time.h>

enum { MAX_DEPTH = 64 };

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

tn_status manager_init(PassManager *m, Model *model, const PassSetup *setup) {
    *m = (PassManager){.setup = setup, .model = model, .ctx = model->ctx};
    arena_init(&m->arena, &model->ctx->allocator);
    return TN_OK;
}

void manager_free(PassManager *m) {
    for (size_t i = 0; i < m->records.len; i++) vec_free(&m->ctx->allocator, &m->records.data[i].counts);
    vec_free(&m->ctx->allocator, &m->records);
    vec_free(&m->ctx->allocator, &m->states);
    arena_free(&m->arena);
}

/* ---- the report ---------------------------------------------------------------------------------------------- */

static tn_status add_record(PassManager *m, const PipelineItem *item, size_t *index) {
    PassRecord r = {.pass = item->pass, .phase = m->phase, .depth = m->depth};
    Text text;
    text_init(&text, &m->ctx->allocator);
    if (item->kind == ITEM_PASS) pipeline_print_item(item, &text);
    else text_puts(&text, item->kind == ITEM_PHASE ? phase_name(item->phase) : "repeat");
    const char *kept = text.status == TN_OK ? arena_strndup(&m->arena, text.s, text.n) : NULL;
    r.text = (Str){kept, text.n};
    text_free(&text);
    if (!kept) return TN_OUT_OF_MEMORY;
    r.nodes_before = r.nodes_after = model_node_count(m->model);
    *index = m->records.len;
    return vec_push(&m->ctx->allocator, &m->records, r);
}

static void skip(PassManager *m, size_t record, PassOutcome outcome, Str why) {
    m->records.data[record].outcome = outcome;
    m->records.data[record].why = why;
}

static tn_status state_of(PassManager *m, const Pass *pass, size_t *index) {
    for (size_t i = 0; i < m->states.len; i++) {
        *index = i;
        if (m->states.data[i].pass == pass) return TN_OK;
    }
    *index = m->states.len;
    return vec_push(&m->ctx->allocator, &m->states, (PassState){.pass = pass, .clean_edits = UINT64_MAX});
}

static bool keeps(const Pass *pass, const Pass *other) {
    for (int i = 0; i < PASS_MAX_NAMES && pass->keeps[i]; i++)
        if (name_equal(str_of(pass->keeps[i]), str_of(other->name))) return true;
    return false;
}

static bool has_options(const PipelineItem *item) {
    for (int i = 0; i < PASS_MAX_OPTIONS; i++)
        if (item->options[i].given) return true;
    return false;
}

static tn_status note_result(PassManager *m, const PipelineItem *item, bool changed) {
    size_t mine;
    TRY(state_of(m, item->pass, &mine));
    for (size_t i = 0; changed && i < m->states.len; i++)
        if (!keeps(item->pass, m->states.data[i].pass)) m->states.data[i].holds = false;
    m->states.data[mine].holds = true;
    m->states.data[mine].clean_edits = changed || has_options(item) ? UINT64_MAX : model_edits(m->model);
    return TN_OK;
}

/* ---- one pass ------------------------------------------------------------------------------------------------ */

static void mix(uint64_t *h, const void *p) { *h = (*h ^ (uint64_t)(uintptr_t)p) * 0x9E3779B97F4A7C15u; }

/* What callers of a model rely on: its inputs and the names of its outputs. */
static uint64_t interface_of(const Model *model) {
    const Graph *g = model->main;
    uint64_t h = g->inputs.len << 32 ^ graph_n_outputs(g);
    mix(&h, g);
    for (size_t i = 0; i < g->inputs.len; i++) {
        mix(&h, g->inputs.data[i]);
        mix(&h, g->inputs.data[i]->name.s);
    }
    for (size_t i = 0; i < g->output_names.len; i++) mix(&h, g->output_names.data[i].s);
    return h;
}

typedef struct Before {
    uint64_t edits, interface;
    Fingerprint print;
} Before;

static tn_status look(const PassManager *m, const Pass *pass, Before *b) {
    b->edits = model_edits(m->model);
    b->interface = interface_of(m->model);
    return pass->kind == PASS_PROGRAM ? TN_OK : model_fingerprint(m->model, &b->print);
}

static tn_status check_kind(const PassManager *m, const Pass *pass, const Before *b) {
    Fingerprint now;
    if (pass->kind == PASS_PROGRAM) return TN_OK;
    TRY(model_fingerprint(m->model, &now));
    if (now.structure != b->print.structure)
        return fail(TN_STATE, "it is a %s pass, but changed the structure of the model",
                    pass->kind == PASS_DEBUG ? "debug" : "stmt");
    if (pass->kind == PASS_DEBUG && now.all != b->print.all)
        return fail(TN_STATE, "it is a debug pass, but changed the model");
    return TN_OK;
}

static tn_status run_on_graphs(PassRun *run) {
    Graph **graphs;
    size_t n;
    if (!run->pass->each_graph) return run->pass->run(run, run->model->main);
    TRY(model_graphs(run->model, run->scratch, &graphs, &n));
    for (size_t i = 0; i < n; i++) TRY(run->pass->run(run, graphs[i]));
    return TN_OK;
}

static tn_status call_pass(PassRun *run, const Before *b, bool *changed) {
    PassManager *m = run->manager;
    TRY(run_on_graphs(run));
    TRY(check_kind(m, run->pass, b));
    *changed = model_edits(m->model) != b->edits;
    if (!*changed) return TN_OK;
    if (interface_of(m->model) != b->interface)
        return fail(TN_STATE, "it changed the model's inputs or the names of its outputs");
    return m->setup->verify_each ? model_verify(m->model) : TN_OK;
}

static tn_status instruments_before(const PassRun *run, bool *go) {
    for (Instrument *i = run->setup->instruments; i; i = i->next)
        if (i->should_run && !i->should_run(i, run)) *go = false;
    for (Instrument *i = run->setup->instruments; i && *go; i = i->next)
        if (i->before) TRY(i->before(i, run));
    return TN_OK;
}

/* All of them see it, also when one of them finds fault. */
static tn_status instruments_after(const PassRun *run, tn_status status) {
    PassRecord record = run->manager->records.data[run->record];
    tn_status first = TN_OK;
    for (Instrument *i = run->setup->instruments; i; i = i->next) {
        tn_status s = i->after ? i->after(i, run, &record, status) : TN_OK;
        if (first == TN_OK) first = s;
    }
    return first;
}

static tn_status blame(const PassRun *run, tn_status status) {
    diag_note("in pass \"%s\", the %lluth that ran; `--print-on-failure FOLDER` writes what it was given",
              run->pass->name, (unsigned long long)run->manager->records.data[run->record].number);
    run->manager->records.data[run->record].outcome = PASS_FAILED;
    return status;
}

/* The pass applies and everything that it requires holds. */
static tn_status execute(PassManager *m, const PipelineItem *item, size_t record) {
    Arena scratch;
    Before before;
    bool changed = false, go = true;
    PassRun run = {.pass = item->pass,
                   .manager = m,
                   .model = m->model,
                   .ctx = m->ctx,
                   .scratch = &scratch,
                   .setup = m->setup,
                   .item = item,
                   .record = record};
    m->records.data[record].number = ++m->n_runs;
    m->records.data[record].first_change = m->n_changes + 1;
    TRY(instruments_before(&run, &go));
    if (!go) {
        skip(m, record, PASS_DISABLED, STR("an instrument decided so"));
        return TN_OK;
    }
    log_message(m->ctx, TN_LOG_INFO, "running pass %.*s", (int)m->records.data[record].text.n,
                m->records.data[record].text.s);
    arena_init(&scratch, &m->ctx->allocator);
    size_t bytes = m->model->arena.used;
    uint64_t start = now_ns();
    tn_status status = look(m, item->pass, &before);
    if (status == TN_OK) status = call_pass(&run, &before, &changed);
    PassRecord *r = &m->records.data[record];
    r->nanoseconds = now_ns() - start;
    r->changed = changed || (status != TN_OK && model_edits(m->model) != before.edits);
    r->nodes_after = model_node_count(m->model);
    r->bytes = m->model->arena.used - bytes;
    r->n_changes = m->n_changes + 1 - r->first_change;
    arena_free(&scratch);
    if (status == TN_OK) status = note_result(m, item, changed);
    if (status != TN_OK) status = blame(&run, status);
    tn_status after = instruments_after(&run, status);
    return status != TN_OK ? status : after;
}

/* ---- what runs ----------------------------------------------------------------------------------------------- */

static tn_status run_item(PassManager *m, const PipelineItem *item);

static tn_status run_list(PassManager *m, const Pipeline *pipeline) {
    if (++m->depth > MAX_DEPTH) return fail(TN_LIMIT, "passes stand for or require each other without end");
    for (size_t i = 0; i < pipeline->n; i++) TRY(run_item(m, &pipeline->items[i]));
    m->depth--;
    return TN_OK;
}

static tn_status run_required(PassManager *m, const Pass *pass) {
    if (++m->depth > MAX_DEPTH) return fail(TN_LIMIT, "pass \"%s\" requires itself", pass->name);
    for (int i = 0; i < PASS_MAX_NAMES && pass->requires[i]; i++) {
        const Pass *required;
        PipelineItem item;
        size_t state;
        TRY(pass_get(str_of(pass->requires[i]), &required));
        TRY(state_of(m, required, &state));
        if (m->states.data[state].holds) continue;
        TRY(pipeline_item(required, &item));
        TRY(run_item(m, &item));
    }
    m->depth--;
    return TN_OK;
}

static bool is_disabled(const PassSetup *setup, const Pass *pass) {
    for (size_t i = 0; i < setup->n_disabled; i++)
        if (setup->disabled[i] == pass) return true;
    return false;
}

static tn_status run_composite(PassManager *m, const PipelineItem *item, size_t record) {
    Pipeline body;
    uint64_t start = now_ns(), edits = model_edits(m->model);
    TRY(pipeline_parse(&m->arena, str_of(item->pass->pipeline), &body));
    TRY(run_list(m, &body));
    PassRecord *r = &m->records.data[record];
    r->nanoseconds = now_ns() - start;
    r->changed = model_edits(m->model) != edits;
    r->nodes_after = model_node_count(m->model);
    return TN_OK;
}

static tn_status run_pass(PassManager *m, const PipelineItem *item, size_t record) {
    Str why;
    size_t state;
    if (is_disabled(m->setup, item->pass)) {
        skip(m, record, PASS_DISABLED, STR("it is disabled"));
        return TN_OK;
    }
    if (!pass_applies(item->pass, m->setup, &m->arena, &why)) {
        skip(m, record, PASS_NOT_APPLICABLE, why);
        return TN_OK;
    }
    if (item->pass->pipeline) return run_composite(m, item, record);
    TRY(state_of(m, item->pass, &state));
    if (item->pass->kind != PASS_DEBUG && !has_options(item) &&
        m->states.data[state].clean_edits == model_edits(m->model)) {
        skip(m, record, PASS_UP_TO_DATE, STR("nothing changed since it last found nothing to do"));
        return TN_OK;
    }
    if (m->n_runs < m->setup->max_passes) TRY(run_required(m, item->pass));
    if (m->n_runs < m->setup->max_passes) return execute(m, item, record);
    skip(m, record, PASS_BEYOND_LIMIT, STR("the limit of passes is reached"));
    return TN_OK;
}

static tn_status run_repeat(PassManager *m, const PipelineItem *item) {
    for (int64_t turn = 0; turn < item->max; turn++) {
        uint64_t edits = model_edits(m->model);
        TRY(run_list(m, item->body));
        if (model_edits(m->model) == edits) return TN_OK;
    }
    log_message(m->ctx, TN_LOG_INFO, "the model still changed after %lld turns of `repeat`", (long long)item->max);
    return TN_OK;
}

static tn_status run_phase(PassManager *m, const PipelineItem *item) {
    Pipeline scheduled;
    Phase outer = m->phase;
    uint64_t edits = model_edits(m->model);
    m->phase = item->phase;
    if (!item->body) TRY(pipeline_scheduled(&m->arena, item->phase, m->setup->opt_level, &scheduled));
    TRY(run_list(m, item->body ? item->body : &scheduled));
    m->phase = outer;
    return model_edits(m->model) != edits && !m->setup->verify_each ? model_verify(m->model) : TN_OK;
}

static tn_status run_group(PassManager *m, const PipelineItem *item, size_t record) {
    uint64_t start = now_ns(), edits = model_edits(m->model);
    tn_status status = item->kind == ITEM_REPEAT ? run_repeat(m, item) : run_phase(m, item);
    PassRecord *r = &m->records.data[record];
    r->nanoseconds = now_ns() - start;
    r->changed = model_edits(m->model) != edits;
    r->nodes_after = model_node_count(m->model);
    if (status != TN_OK) r->outcome = PASS_FAILED;
    return status;
}

static tn_status run_item(PassManager *m, const PipelineItem *item) {
    size_t record;
    TRY(add_record(m, item, &record));
    return item->kind == ITEM_PASS ? run_pass(m, item, record) : run_group(m, item, record);
}

tn_status manager_run(PassManager *m, const Pipeline *pipeline) {
    m->depth = -1;
    return run_list(m, pipeline);
}

/* ---- for passes ---------------------------------------------------------------------------------------------- */

tn_status pass_count(PassRun *run, const char *what, int64_t n) {
    PassRecord *r = &run->manager->records.data[run->record];
    for (size_t i = 0; i < r->counts.len; i++)
        if (strcmp(r->counts.data[i].what, what) == 0) {
            r->counts.data[i].n += n;
            return TN_OK;
        }
    return vec_push(&run->ctx->allocator, &r->counts, (PassCount){what, n});
}

bool pass_may_change(PassRun *run) {
    if (run->manager->n_changes >= run->setup->max_changes) return false;
    run->manager->n_changes++;
    return true;
}

void pass_describe_change(PassRun *run, const char *format, ...) {
    PassRecord *r = &run->manager->records.data[run->record];
    va_list list;
    va_start(list, format);
    vsnprintf(r->last_change, sizeof r->last_change, format, list);
    va_end(list);
}
