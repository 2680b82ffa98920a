/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: a program, plans for the shapes met so far, and runs. */
#include "session/session_int.h"

#include <stdio.h>

/* ---- making -------------------------------------------------------------------------------------------------- */

/* Whether these are all outputs, in the model's order, and no input is left out for them: then a model that was saved
   optimised is so for the session. */
static bool are_all(const Graph *g, const tn_session_options *o) {
    if (o->n_outputs != graph_n_outputs(g)) return false;
    for (size_t i = 0; i < o->n_outputs; i++)
        if (!o->outputs[i] || !str_equal(g->output_names.data[i], str_of(o->outputs[i]))) return false;
    for (size_t i = 0; i < g->inputs.len; i++)
        if (!g->inputs.data[i]->uses) return false;
    return true;
}

static tn_status run_passes(tn_session *s, const tn_session_options *o) {
    const Allocator *a = &s->ctx->allocator;
    s->passes = mem_alloc(a, sizeof *s->passes, alignof(PassPlan));
    if (!s->passes) return TN_OUT_OF_MEMORY;
    TRY(pass_plan_init(s->passes, a, o->passes));
    tn_path all = {.outputs = o->outputs, .n_outputs = o->n_outputs};
    bool whole = o->n_outputs == 0 || are_all(s->model->ir->main, o);
    Paths paths = o->n_paths ? (Paths){o->paths, o->n_paths} : (Paths){&all, whole ? 0 : 1};
    TRY(pass_plan_add_paths(s->passes, &paths));
    TRY(optimized_acquire(s->model, s->passes, &paths, &s->optimized, &s->report));
    s->ir = s->optimized ? s->optimized->ir : s->model->ir;
    s->shapes_graph = pass_plan_wants_shapes(s->passes);
    s->runner.accurate = s->passes->accuracy == TN_ACCURACY_HIGH;
    s->runner.targets = 0;
    for (size_t i = 0; i < s->passes->setup.n_places; i++)
        s->runner.targets |= target_bit(s->passes->setup.places[i].target);
    /* The reference kernels stand behind every place, but for the one that is to show that it needs none. */
    if (!(s->runner.targets & target_bit("minimal"))) s->runner.targets |= target_bit("reference");
    return TN_OK;
}

static tn_status init(tn_session *s, const tn_session_options *o) {
    TRY(runner_init(&s->runner, s->ctx));
    s->arena_ready = true;
    arena_init(&s->arena, &s->ctx->allocator);
    TRY(shelf_new(&s->ctx->allocator, &s->shelf));
    arena_init(&s->trace.arena, &s->ctx->allocator);
    TRY(run_passes(s, o));
    s->runner.plan_only = o->defer_packing;
    TRY(session_open_tuning(s, o));
    s->max_plans = o->max_plans > 0 ? (size_t)o->max_plans : 8;
    s->n_out = graph_n_outputs(s->ir->main);
    s->plans = arena_array(&s->arena, Plan, s->max_plans);
    s->inputs = arena_array(&s->arena, Tensor, s->ir->main->inputs.len + 1);
    s->results = arena_array(&s->arena, tn_tensor *, s->n_out + 1);
    s->given = arena_array(&s->arena, bool, s->n_out + 1);
    s->written = arena_array(&s->arena, bool, s->n_out + 1);
    s->fed = arena_array(&s->arena, bool, s->ir->main->inputs.len + 1);
    s->by_input = arena_array(&s->arena, State *, s->ir->main->inputs.len + 1);
    s->by_output = arena_array(&s->arena, State *, s->n_out + 1);
    bool ready = s->plans && s->inputs && s->results && s->given && s->written && s->fed && s->by_input && s->by_output;
    return ready ? TN_OK : TN_OUT_OF_MEMORY;
}

static bool all_shapes_known(const tn_session *s) {
    const Graph *g = s->ir->main;
    for (size_t i = 0; i < g->inputs.len; i++)
        if (g->inputs.data[i]->type->kind != TYPE_TENSOR || !g->inputs.data[i]->type->dtype ||
            !shape_is_known(&g->inputs.data[i]->type->shape))
            return false;
    return true;
}

static tn_status check_options(const tn_session_options *o) {
    if (o->n_outputs > 0 && !o->outputs) return fail(TN_INVALID_ARGUMENT, "outputs is NULL");
    if (o->n_paths > 0 && !o->paths) return fail(TN_INVALID_ARGUMENT, "paths is NULL");
    if (o->n_paths > 0 && o->n_outputs > 0)
        return fail(TN_INVALID_ARGUMENT, "outputs are those of the paths: give the one or the other");
    return TN_OK;
}

tn_status tn_session_create(tn_model *model, const tn_session_options *options, tn_session **session) {
    tn_session_options none = {0};
    if (!model || !session) return fail(TN_INVALID_ARGUMENT, "model or session is NULL");
    if (!options) options = &none;
    TRY(check_options(options));
    if (atomic_load(&model->exposed)) TRY(model_verify(model->ir));
    tn_session *s = mem_alloc(&model->ctx->allocator, sizeof *s, alignof(tn_session));
    if (!s) return TN_OUT_OF_MEMORY;
    s->model = tn_model_retain(model);
    s->ctx = model->ctx;
    tn_status status = init(s, options);
    if (status == TN_OK && !options->defer_plan && all_shapes_known(s)) status = tn_session_resize(s, NULL, 0);
    if (status == TN_OK) status = session_generate(s);
    if (status != TN_OK) {
        tn_session_release(s);
        return status;
    }
    *session = s;
    return TN_OK;
}

void tn_session_release(tn_session *s) {
    if (!s) return;
    tn_model *model = s->model;
    Context *ctx = context_ref(s->ctx);
    session_drop_plans(s);
    session_free_states(s);
    shelf_close(s->shelf);
    arena_free(&s->trace.arena);
    program_free(s->program);
    mem_free(&ctx->allocator, s->memory.base, s->memory.size);
    if (s->arena_ready) {
        arena_free(&s->arena);
        runner_free(&s->runner);
    }
    tuning_free(s->runner.tuning);
    tn_pass_report_release(s->report);
    if (s->passes) pass_plan_free(s->passes);
    mem_free(&ctx->allocator, s->passes, sizeof *s->passes);
    optimized_release(model, s->optimized);
    mem_free(&ctx->allocator, s, sizeof *s);
    tn_model_release(model);
    context_unref(ctx);
}

size_t tn_session_n_inputs(const tn_session *s) { return s ? s->ir->main->inputs.len : 0; }
size_t tn_session_n_outputs(const tn_session *s) { return s ? s->n_out : 0; }

/* ---- shapes -------------------------------------------------------------------------------------------------- */

static tn_status wrong_input(const tn_session *s, size_t i, tn_dtype dtype, int rank, const int64_t *dims) {
    const Value *v = s->ir->main->inputs.data[i];
    Text text;
    text_init(&text, &s->ctx->allocator);
    type_print(s->ir, v->type, &text);
    text_printf(&text, ", not %s[", dtype_name(dtype));
    for (int k = 0; k < rank; k++) text_printf(&text, "%s%lld", k ? "," : "", (long long)dims[k]);
    tn_status status = fail(TN_SHAPE, "input \"%s\" wants %s]", v->name.s ? v->name.s : "", text.s ? text.s : "");
    text_free(&text);
    return status;
}

static tn_status wrong_kind(const tn_session *s, size_t i, TypeKind kind) {
    static const char *const names[] = {"tensor", "sequence", "optional", "map"};
    const Value *v = s->ir->main->inputs.data[i];
    return fail(TN_SHAPE, "input \"%s\" is a %s, a %s was given", v->name.s ? v->name.s : "", names[v->type->kind],
                names[kind]);
}

/* Against what the model declares: numbers must agree, unknown sizes take anything. That a symbol is one size is seen
   when these sizes are planned for. */
static tn_status check_input(const tn_session *s, size_t i, TypeKind kind, tn_dtype dtype, int rank,
                             const int64_t *dims) {
    const Type *type = s->ir->main->inputs.data[i]->type;
    if (type->kind != kind) return wrong_kind(s, i, kind);
    if (kind != TYPE_TENSOR) return TN_OK;
    bool fits = (!type->dtype || type->dtype == dtype) && rank >= 0 && rank <= TN_MAX_RANK &&
                (type->shape.rank < 0 || type->shape.rank == rank);
    for (int k = 0; fits && k < rank; k++)
        fits = dims[k] >= 0 &&
               (type->shape.rank < 0 || !dim_is_const(type->shape.dims[k]) || type->shape.dims[k] == dims[k]);
    return fits ? TN_OK : wrong_input(s, i, dtype, rank, dims);
}

/* Sizes that a model declares, or a caller gives, may be any. */
static tn_status set_sizes(Tensor *t, tn_dtype dtype, int rank, const int64_t *dims) {
    int64_t count;
    size_t bytes;
    TRY(checked_count(rank, dims, &count));
    TRY(checked_bytes(dtype, count, &bytes));
    tensor_set_dense(t, dtype, rank, dims);
    return TN_OK;
}

static tn_status declared_input(tn_session *s, size_t i) {
    const Graph *g = s->ir->main;
    const Type *type = g->inputs.data[i]->type;
    const Tensor *preset = graph_input_default(g, i);
    if (preset) {
        s->inputs[i] = *preset;
        s->inputs[i].data = NULL;
        s->inputs[i].buffer = NULL;
        return TN_OK;
    }
    if (type->kind != TYPE_TENSOR || !type->dtype || !shape_is_known(&type->shape))
        return fail(TN_SHAPE, "the shape of input \"%s\" is not declared: it has to be given",
                    g->inputs.data[i]->name.s);
    return set_sizes(&s->inputs[i], type->dtype, type->shape.rank, type->shape.dims);
}

tn_status session_enter(tn_session *s) {
    if (!s) return fail(TN_INVALID_ARGUMENT, "session is NULL");
    if (!atomic_exchange(&s->busy, true)) return TN_OK;
    return fail(TN_STATE, "the session is running; a thread that wants to run beside it needs a session of its own, "
                          "which shares the weights");
}

tn_status session_leave(tn_session *s, tn_status status) {
    atomic_store(&s->busy, false);
    return status;
}

static tn_status resize_input(tn_session *s, size_t i, const tn_shape *shape) {
    tn_dtype dtype = s->ir->main->inputs.data[i]->type->dtype;
    TRY(check_input(s, i, TYPE_TENSOR, dtype, shape->rank, shape->dims));
    if (!dtype) return fail(TN_SHAPE, "the element type of input %zu is not declared", i);
    return set_sizes(&s->inputs[i], dtype, shape->rank, shape->dims);
}

static tn_status resize(tn_session *s, const tn_shape *shapes, size_t n_shapes) {
    size_t n = s->ir->main->inputs.len;
    s->current = NULL;
    if (n_shapes > n) return fail(TN_INVALID_ARGUMENT, "%zu shapes were given for %zu inputs", n_shapes, n);
    for (size_t i = 0; i < n; i++) {
        s->fed[i] = i < n_shapes && (shapes[i].dims || shapes[i].rank == 0);
        if (s->fed[i]) TRY(resize_input(s, i, &shapes[i]));
        else if (!s->by_input[i]) TRY(declared_input(s, i));
    }
    TRY(session_take_states(s, s->fed));
    return session_plan(s);
}

/* Whether the session is planned, and why not. What weights were packed with is given back. */
static tn_status planned(tn_session *s, tn_status status) {
    bytes_trim();
    store_trim();
    s->failed = status != TN_OK;
    snprintf(s->reason, sizeof s->reason, "%s", s->failed ? diag_text() : "");
    return status;
}

tn_status tn_session_resize(tn_session *s, const tn_shape *shapes, size_t n_shapes) {
    TRY(session_enter(s));
    return session_leave(s, planned(s, resize(s, shapes, n_shapes)));
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

static tn_status set_input(tn_session *s, size_t i, const tn_tensor *given) {
    const Graph *g = s->ir->main;
    Tensor *preset = given ? NULL : graph_input_default(g, i);
    if (preset) TRY(payload_read(s->ctx, preset, true, &s->inputs[i]));
    const Tensor *t = preset ? &s->inputs[i] : given ? &given->t : NULL;
    if (!t) return fail(TN_INVALID_ARGUMENT, "input \"%s\" was not given", g->inputs.data[i]->name.s);
    TRY(check_input(s, i, t->kind, t->dtype, t->rank, t->dims));
    s->inputs[i] = *t;
    if (t->kind == TYPE_TENSOR) s->inputs[i].buffer = NULL;
    return TN_OK;
}

static tn_status set_inputs(tn_session *s, const tn_tensor *const *inputs, size_t n_inputs) {
    const Graph *g = s->ir->main;
    if (n_inputs != g->inputs.len)
        return fail(TN_INVALID_ARGUMENT, "the model has %zu inputs, %zu were given", g->inputs.len, n_inputs);
    for (size_t i = 0; i < n_inputs; i++) {
        s->fed[i] = inputs && inputs[i];
        if (s->fed[i] || !s->by_input[i]) TRY(set_input(s, i, s->fed[i] ? inputs[i] : NULL));
    }
    TRY(session_take_states(s, s->fed));
    for (const State *state = s->states; state; state = state->next) {
        const Tensor *t = &s->inputs[state->input];
        TRY(check_input(s, state->input, t->kind, t->dtype, t->rank, t->dims));
    }
    return TN_OK;
}

static tn_status check_output(const tn_session *s, size_t i, const Tensor *like) {
    const Tensor *t = &s->results[i]->t;
    if (t->dtype == like->dtype && t->rank == like->rank &&
        memcmp(t->dims, like->dims, (size_t)t->rank * sizeof *t->dims) == 0)
        return TN_OK;
    return fail(TN_SHAPE,
                "the tensor given for output %zu has another type or shape than the result; ask "
                "tn_session_output",
                i);
}

static tn_status result_for(tn_session *s, size_t i, const Tensor *like) {
    Tensor t;
    if (s->given[i]) return check_output(s, i, like);
    TRY(tensor_new_on(s->ctx, s->shelf, like->dtype, like->rank, like->dims, &t));
    tn_status status = tensor_handle(s->ctx, &t, &s->results[i]);
    if (status != TN_OK) tensor_release(&t);
    return status;
}

static tn_status output_memory(void *user, size_t i, const Tensor *like, void **data) {
    tn_session *s = user;
    s->written[i] = true;
    if (s->by_output[i]) return session_state_memory(s, s->by_output[i], like, data);
    TRY(result_for(s, i, like));
    *data = s->results[i]->t.data;
    return TN_OK;
}

static tn_status share_object(tn_session *s, size_t i, const Tensor *t) {
    Tensor kept;
    if (s->given[i]) return fail(TN_INVALID_ARGUMENT, "output %zu is no tensor: no tensor can be given for it", i);
    TRY(tensor_keep(s->ctx, t, &kept));
    tn_status status = tensor_handle(s->ctx, &kept, &s->results[i]);
    if (status != TN_OK) tensor_release(&kept);
    return status;
}

/* What is remembered is not given out unless somebody wants a copy. */
static tn_status collect_state(tn_session *s, size_t i, const Tensor *t) {
    State *state = s->by_output[i];
    void *data;
    if (!s->written[i] && !session_state_stayed(s, state, t)) {
        TRY(session_state_memory(s, state, t, &data));
        TRY(copy_dense(t, data, 0, s->ctx->pool));
    }
    if (!s->given[i]) return TN_OK;
    TRY(check_output(s, i, &state->coming));
    return copy_dense(&state->coming, s->results[i]->t.data, 0, s->ctx->pool);
}

/* Outputs that are inputs, constants, views, or of unknown size until now. */
static tn_status collect(tn_session *s) {
    Frame *f = s->current;
    for (size_t i = 0; i < s->n_out; i++) {
        const Tensor *t = &f->t[f->program->outputs.data[i]];
        if (s->by_output[i]) TRY(collect_state(s, i, t));
        if (s->written[i] || s->by_output[i]) continue;
        if (t->kind != TYPE_TENSOR) {
            TRY(share_object(s, i, t));
            continue;
        }
        TRY(result_for(s, i, t));
        TRY(copy_dense(t, s->results[i]->t.data, 0, s->ctx->pool));
    }
    return TN_OK;
}

static tn_status run(tn_session *s, const tn_run_options *o, const tn_tensor *const *inputs, size_t n_inputs) {
    TRY(set_inputs(s, inputs, n_inputs));
    if (s->runner.plan_only) {
        s->runner.plan_only = false;
        session_drop_plans(s);
    }
    if (!session_fits(s)) TRY(planned(s, session_plan(s)));
    s->options = o;
    s->runner.user = s;
    s->runner.output = output_memory;
    s->runner.before = o && o->before ? session_before : NULL;
    s->runner.after = o && o->after ? session_after : NULL;
    s->runner.profile = o && o->profile;
    s->runner.deadline = o && o->timeout_ns ? monotonic_ns() + o->timeout_ns : 0;
    tn_status status = frame_run(s->current, s->inputs, NULL);
    if (status == TN_OK) status = collect(s);
    if (status == TN_OK) status = runner_poll(&s->runner);
    frame_finish(s->current);
    if (status == TN_OK) session_advance_states(s);
    s->runner.before = s->runner.after = NULL;
    if (status == TN_CANCELLED) atomic_store(&s->runner.cancelled, false);
    return status;
}

tn_status tn_session_run(tn_session *s, const tn_run_options *options, const tn_tensor *const *inputs, size_t n_inputs,
                         tn_tensor **outputs, size_t n_outputs) {
    if (!s || (n_outputs && !outputs)) return fail(TN_INVALID_ARGUMENT, "session or outputs is NULL");
    if (n_outputs != s->n_out)
        return fail(TN_INVALID_ARGUMENT, "the session has %zu outputs, %zu were asked for", s->n_out, n_outputs);
    TRY(session_enter(s));
    for (size_t i = 0; i < n_outputs; i++) {
        s->results[i] = outputs[i];
        s->given[i] = outputs[i] != NULL;
        s->written[i] = false;
    }
    tn_status status = run(s, options, inputs, n_inputs);
    for (size_t i = 0; i < n_outputs; i++) {
        if (s->given[i]) continue;
        if (status == TN_OK) outputs[i] = s->results[i];
        else tn_tensor_release(s->results[i]);
        s->results[i] = NULL;
    }
    return session_leave(s, status);
}

void tn_session_cancel(tn_session *s) {
    if (s) atomic_store(&s->runner.cancelled, true);
}
