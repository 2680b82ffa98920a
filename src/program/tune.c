/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a kernel's ways an instruction takes: as a tuning says, or as is found while the whole program runs again and
   again on data made up for that, each instruction in another of its ways each time. So each way is timed with caches as
   they are in the program, and in turns with the others; a new one has to be clearly better than the usual one. */
#include "program/program_int.h"

enum { SAMPLES_FOR_ALL = 3 /* then those that are far behind are left out */ };
static const double CLEARLY = 0.97, HOPELESS = 1.5;

typedef struct Trial {
    int way;
    Prepared prepared;
    uint32_t visits;
    uint64_t least; /* nanoseconds, of all visits but the first, which brings memory in; UINT64_MAX: none */
} Trial;

/* What an instruction has to choose from. */
struct Trials {
    const KernelDesc *kernel;
    Text work, declared;   /* for tuning_keep */
    int usual, n, n_equal; /* n_equal: how many instructions' times these are */
    Trial trial[KERNEL_WAYS];
};

/* ---- making -------------------------------------------------------------------------------------------------- */

void trials_free(const Frame *f, Step *step) {
    Trials *trials = step->trials;
    const Allocator *a = &f->runner->ctx->allocator;
    if (!trials) return;
    for (int i = 0; i < trials->n; i++)
        if (trials->trial[i].prepared.release) trials->trial[i].prepared.release(&trials->trial[i].prepared, a);
    text_free(&trials->work);
    text_free(&trials->declared);
    mem_free(a, trials, sizeof *trials);
    step->trials = NULL;
    f->runner->n_trials--;
}

static tn_status fill(Context *ctx, KernelQuery *q, uint32_t ways, Trials *trials) {
    tuning_describe(q, false, &trials->work);
    if (!tuning_is_declared(q)) tuning_describe(q, true, &trials->declared);
    TRY(trials->work.status);
    TRY(trials->declared.status);
    for (int w = 1; w <= KERNEL_WAYS; w++) {
        if (!(ways & 1u << (w - 1))) continue;
        Trial *t = &trials->trial[trials->n++];
        *t = (Trial){.way = q->way = w, .least = UINT64_MAX};
        if (q->kernel->prepare) TRY(q->kernel->prepare(q, ctx, &t->prepared));
    }
    return TN_OK;
}

static tn_status make_trials(Frame *f, KernelQuery *q, uint32_t ways, Step *step) {
    Context *ctx = f->runner->ctx;
    Trials *trials = step->trials = mem_alloc(&ctx->allocator, sizeof *trials, alignof(Trials));
    if (!trials) return TN_OUT_OF_MEMORY;
    f->runner->n_trials++;
    *trials = (Trials){.kernel = q->kernel, .usual = step->usual};
    text_init(&trials->work, &ctx->allocator);
    text_init(&trials->declared, &ctx->allocator);
    int way = q->way;
    tn_status status = fill(ctx, q, ways, trials);
    q->way = way;
    return status;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

uint32_t trials_replaced(const Step *step) {
    uint32_t replaced = step->held ? step->held->prepared.replaces : 0;
    for (int i = 0; step->trials && i < step->trials->n; i++) replaced &= step->trials->trial[i].prepared.replaces;
    return replaced;
}

static const Trial *best_of(const Trials *trials) {
    const Trial *best = &trials->trial[0];
    for (int i = 1; i < trials->n; i++)
        if (trials->trial[i].least < best->least) best = &trials->trial[i];
    return best;
}

Trial *trial_next(Frame *f, const Step *step, int32_t i) {
    Trials *trials = step->trials;
    if (!trials || !f->runner->measuring) return NULL;
    double bound = HOPELESS * (double)best_of(trials)->least;
    for (size_t k = f->runner->round + (size_t)i;; k++) {
        Trial *t = &trials->trial[k % (size_t)trials->n];
        if (t->visits <= SAMPLES_FOR_ALL || (double)t->least <= bound) return t;
    }
}

const Prepared *trial_prepared(const Trial *t, int *way) {
    *way = t->way;
    return &t->prepared;
}

void trial_note(Trial *t, uint64_t nanoseconds) {
    if (t->visits++ > 0 && nanoseconds < t->least) t->least = nanoseconds;
}

/* ---- choosing ------------------------------------------------------------------------------------------------ */

/* Adds up the times of equal work, which all goes one way; of what was not tried in all ways nothing is known. */
static tn_status add_trials(Map *works, Trials *trials) {
    for (int i = 0; i < trials->n; i++)
        if (trials->trial[i].least == UINT64_MAX) return TN_OK;
    trials->n_equal = 1;
    Str work = {trials->work.s, trials->work.n};
    Trials *first = map_get(works, work);
    if (!first) return map_set(works, work, trials);
    bool same = first->n == trials->n;
    for (int i = 0; same && i < trials->n; i++) same = first->trial[i].way == trials->trial[i].way;
    for (int i = 0; same && i < trials->n; i++) first->trial[i].least += trials->trial[i].least;
    first->n_equal += same;
    return TN_OK;
}

/* Calls `fn` for all steps that have trials, of nested frames too, as bodies nest; the first failure, once all are done. */
static tn_status each_trial(const Frame *f, tn_status (*fn)(const Frame *f, Step *step, void *user), void *user) {
    tn_status status = TN_OK, latest;
    for (size_t i = 0; i < f->program->instrs.len; i++) {
        for (uint32_t k = 0; f->children[i] && k < f->program->instrs.data[i].n_bodies; k++) {
            latest = f->children[i][k] ? each_trial(f->children[i][k], fn, user) : TN_OK;
            status = status == TN_OK ? latest : status;
        }
        latest = f->steps[i].trials ? fn(f, &f->steps[i], user) : TN_OK;
        status = status == TN_OK ? latest : status;
    }
    return status;
}

static tn_status gather(const Frame *f, Step *step, void *works) {
    (void)f;
    return add_trials(works, step->trials);
}

static tn_status keep_choice(Tuning *tuning, const Trials *trials) {
    const Trial *usual = NULL, *best = best_of(trials);
    for (int i = 0; i < trials->n; i++)
        if (trials->trial[i].way == trials->usual) usual = &trials->trial[i];
    if (usual && (double)best->least >= CLEARLY * (double)usual->least) best = usual;
    double each = 1e-3 / trials->n_equal, us = each * (double)best->least;
    return tuning_keep(tuning, trials->kernel, (Str){trials->work.s, trials->work.n},
                       (Str){trials->declared.s, trials->declared.n}, best->way, us,
                       usual ? each * (double)usual->least : us);
}

/* The way that was chosen for such work; as before where none was. */
static tn_status take_choice(const Frame *f, Step *step) {
    Context *ctx = f->runner->ctx;
    Trials *trials = step->trials;
    const TuningChoice *choice = tuning_find(f->runner->tuning, (Str){trials->work.s, trials->work.n});
    for (int i = 0; choice && choice->way && i < trials->n; i++) {
        Trial *t = &trials->trial[i];
        if (strcmp(trials->kernel->ways[t->way - 1].name, choice->way) != 0) continue;
        Held *before = step->held;
        step->way = t->way;
        tn_status status = hold(ctx, &t->prepared, t->way, &step->held);
        step_let_go(before, &ctx->allocator);
        return status;
    }
    return TN_OK;
}

static tn_status settle(const Frame *f, Step *step, void *user) {
    (void)user;
    tn_status status = take_choice(f, step);
    trials_free(f, step);
    return status;
}

tn_status frame_settle(Frame *f) {
    Map works;
    map_init(&works, &f->runner->ctx->allocator);
    tn_status status = each_trial(f, gather, &works);
    for (size_t i = 0; i < works.len && status == TN_OK; i++)
        status = keep_choice(f->runner->tuning, works.entries[i].value);
    map_free(&works);
    tn_status taken = each_trial(f, settle, NULL);
    return status == TN_OK ? taken : status;
}

static tn_status count_ways(const Frame *f, Step *step, void *user) {
    (void)f;
    size_t *most = user, own = (size_t)step->trials->n;
    *most = own > *most ? own : *most;
    return TN_OK;
}

size_t frame_most_ways(const Frame *f) {
    size_t most = 0;
    (void)each_trial(f, count_ways, &most);
    return most;
}

bool frame_may_measure(const Frame *f) {
    const Segment *last = f->segments.len ? &f->segments.data[f->segments.len - 1] : NULL;
    bool open = last && (size_t)last->end < f->program->instrs.len;
    for (size_t i = 0; i < f->program->instrs.len; i++)
        open |= f->program->instrs.data[i].n_bodies > 0 && !node_is_fused(f->program->instrs.data[i].node);
    return open || f->runner->n_trials > 0;
}

/* Of what has nothing to compute, or no size yet, there is nothing to measure. */
static bool may_measure(const Planning *p, int32_t i, const KernelQuery *q) {
    const Instr *instr = &p->f->program->instrs.data[i];
    for (uint32_t k = 0; k < instr->n_out; k++)
        if (!p->f->state[instr->out[k]].known || tensor_count(&q->out[k]) == 0) return false;
    return p->f->runner->tune && !p->f->runner->plan_only;
}

tn_status choose_way(Planning *p, int32_t i, KernelQuery *q, Step *step) {
    Runner *r = p->f->runner;
    trials_free(p->f, step);
    step->way = q->way = step->usual = 0;
    if (!r->tuning || !q->kernel->offers) return TN_OK; /* the kernel chooses: see frame_usual_way */
    uint32_t offered = q->kernel->offers(q, &step->usual), allowed;
    if (!offered) {
        step->usual = 0;
        return TN_OK;
    }
    TRY(tuning_allowed(r->tuning, q, offered, &allowed));
    TRY(tuning_way(r->tuning, q, &step->way));
    bool known = step->way && offered & 1u << (step->way - 1);
    if (!known) step->way = allowed & 1u << (step->usual - 1) ? 0 : __builtin_ctz(allowed) + 1;
    q->way = step->way;
    bool several = allowed & (allowed - 1);
    return !known && several && may_measure(p, i, q) ? make_trials(p->f, q, allowed, step) : TN_OK;
}
