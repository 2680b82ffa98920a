/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of a session: the passes that run for each set of shapes, and what they make. */
#include "ops/op.h"
#include "session/session_int.h"

/* ---- what the passes call ------------------------------------------------------------------------------------ */

/* A plan under construction. */
typedef struct Building {
    tn_session *session;
    Plan *plan;
    bool chosen, placed;
} Building;

tn_status session_generate(tn_session *s) {
    return s->program ? TN_OK : program_build(s->ctx, s->ir->main, NULL, 0, &s->program);
}

static tn_status generate_program(void *user, Graph *graph) {
    Building *b = user;
    if (!b->plan->ir) return session_generate(b->session);
    return b->plan->program ? TN_OK : program_build(b->session->ctx, graph, NULL, 0, &b->plan->program);
}

static tn_status choose_kernels(void *user, Graph *graph, Moves moves) {
    Building *b = user;
    tn_session *s = b->session;
    if (b->chosen && s->runner.made_moves == (int)moves)
        return TN_OK; /* a list may name the pass again, to say otherwise */
    s->runner.made_moves = (int)moves;
    TRY(generate_program(user, graph));
    const Program *program = b->plan->program ? b->plan->program : s->program;
    if (!b->plan->frame) TRY(frame_new(program, &s->runner, &s->memory, &b->plan->frame));
    bool alike = s->n_plans > 0 && s->plans[0].frame->program == program;
    b->plan->frame->like = alike ? s->plans[0].frame : NULL;
    tn_status status = frame_choose(b->plan->frame, s->inputs, NULL);
    b->plan->frame->like = NULL;
    b->chosen = status == TN_OK;
    return status;
}

static tn_status plan_memory(void *user, Graph *graph) {
    Building *b = user;
    if (b->placed) return TN_OK;
    if (!b->chosen) TRY(choose_kernels(user, graph, MOVES_LEAST));
    TRY(frame_place(b->plan->frame));
    b->placed = true;
    const tn_session *s = b->session;
    if ((uint64_t)b->plan->frame->arena_size <= s->ctx->limits.max_bytes) return TN_OK;
    return fail(TN_LIMIT, "intermediate values take %lld bytes, more than the limit",
                (long long)b->plan->frame->arena_size);
}

/* ---- sizes with a name --------------------------------------------------------------------------------------- */

static tn_status two_sizes(const tn_session *s, size_t i, int k, Str name, int64_t size) {
    const Str input = s->ir->main->inputs.data[i]->name;
    return fail(TN_SHAPE,
                "input \"%.*s\" has size %lld in dimension %d, which the model calls \"%.*s\", but that is %lld in an "
                "input before it",
                (int)input.n, input.n ? input.s : "", (long long)s->inputs[i].dims[k], k, (int)name.n, name.s,
                (long long)size);
}

static tn_status note_sizes(const tn_session *s, size_t i, Map *sizes) {
    const Type *type = s->ir->main->inputs.data[i]->type;
    if (s->inputs[i].kind != TYPE_TENSOR || type->shape.rank != s->inputs[i].rank) return TN_OK;
    for (int k = 0; k < type->shape.rank; k++) {
        const DimExpr *e = dim_expr(&s->ir->dims, type->shape.dims[k]);
        if (!e || e->op != DIM_SYMBOL) continue;
        const int64_t *size = map_get(sizes, e->name);
        if (!size) TRY(map_set(sizes, e->name, &s->inputs[i].dims[k]));
        else if (*size != s->inputs[i].dims[k]) return two_sizes(s, i, k, e->name, *size);
    }
    return TN_OK;
}

/* A name stands for one size in the whole model: inference relies on it, and so do the passes. */
static tn_status check_names(const tn_session *s) {
    Map sizes;
    tn_status status = TN_OK;
    map_init(&sizes, &s->ctx->allocator);
    for (size_t i = 0; i < s->ir->main->inputs.len && status == TN_OK; i++) status = note_sizes(s, i, &sizes);
    map_free(&sizes);
    return status;
}

/* ---- graphs for shapes --------------------------------------------------------------------------------------- */

static tn_status set_input_types(Model *ir, const Tensor *inputs) {
    for (size_t i = 0; i < ir->main->inputs.len; i++) {
        if (inputs[i].kind != TYPE_TENSOR) continue;
        Shape shape = shape_make(inputs[i].rank, inputs[i].dims);
        const Type *type = type_tensor(ir, inputs[i].dtype, &shape);
        if (!type) return TN_OUT_OF_MEMORY;
        value_set_type(ir->main->inputs.data[i], type);
    }
    return TN_OK;
}

static tn_status make_graph(tn_session *s, Plan *plan) {
    TRY(model_clone(s->ir, &plan->ir));
    TRY(set_input_types(plan->ir, s->inputs));
    return infer_model(plan->ir);
}

/* What the list left out is done all the same: without it nothing runs. */
static tn_status build(tn_session *s, Plan *plan) {
    Building b = {.session = s, .plan = plan};
    TRY(check_names(s));
    if (s->shapes_graph) TRY(make_graph(s, plan));
    Model *ir = plan->ir ? plan->ir : s->ir;
    PassHost host = s->passes->host;
    host.user = &b;
    host.generate_program = generate_program;
    host.choose_kernels = choose_kernels;
    host.plan_memory = plan_memory;
    s->passes->setup.host = &host;
    PipelineItem phase = {.kind = ITEM_PHASE, .phase = PHASE_POST_PARTITION, .body = &s->passes->shapes};
    tn_status status = pass_plan_run(s->passes, ir, &(Pipeline){&phase, 1}, NULL);
    s->passes->setup.host = &s->passes->host;
    return status == TN_OK ? plan_memory(&b, ir->main) : status;
}

/* ---- plans --------------------------------------------------------------------------------------------------- */

static void plan_free(Plan *plan) {
    frame_free(plan->frame);
    program_free(plan->program);
    model_free(plan->ir);
    *plan = (Plan){0};
}

void session_drop_plans(tn_session *s) {
    for (size_t i = 0; i < s->n_plans; i++) plan_free(&s->plans[i]);
    s->n_plans = 0;
    s->current = NULL;
}

static void make_current(tn_session *s, size_t n_behind, Plan plan) {
    memmove(&s->plans[1], &s->plans[0], n_behind * sizeof *s->plans);
    s->plans[0] = plan;
    s->current = plan.frame;
}

static bool plan_fits(const tn_session *s, const Plan *plan) {
    return plan->growing == s->growing && frame_fits(plan->frame, s->inputs, NULL);
}

bool session_fits(const tn_session *s) { return s->current && plan_fits(s, &s->plans[0]); }

/* A new plan is made in the frame of the one that goes, whose memory it takes over, and what kernels had prepared that is the
   same for the new shapes. */
static void take_frame(Plan *old, Plan *plan) {
    if (!old->ir) {
        plan->frame = old->frame;
        old->frame = NULL;
    }
    plan_free(old);
}

static tn_status find_or_make(tn_session *s) {
    Plan plan = {.growing = s->growing};
    s->current = NULL;
    for (size_t i = 0; i < s->n_plans; i++) {
        if (!plan_fits(s, &s->plans[i])) continue;
        make_current(s, i, s->plans[i]);
        return TN_OK;
    }
    if (s->n_plans == s->max_plans) take_frame(&s->plans[--s->n_plans], &plan);
    s->runner.tune = s->tunes;
    tn_status status = build(s, &plan);
    if (status == TN_OK) make_current(s, s->n_plans++, plan);
    else plan_free(&plan);
    if (status == TN_OK && s->tunes) status = session_tune(s);
    s->runner.tune = false;
    return status;
}

tn_status session_plan(tn_session *s) {
    tn_status status = find_or_make(s);
    if (status == TN_OK) status = session_trace(s);
    if (status != TN_OK) s->current = NULL;
    return status;
}
