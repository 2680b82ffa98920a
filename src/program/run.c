/* SPDX-License-Identifier: Apache-2.0 */
/* The executor: segments in order, instructions in order, nested graphs by frames of their own. */
#include "program/program_int.h"

/* ---- one instruction ----------------------------------------------------------------------------------------- */

typedef struct Launch {
    KernelHost host; /* first: a host pointer is a Launch pointer */
    Frame *f;
    int32_t i;
} Launch;

/* Owned memory may have been made after the pointers of a segment were set. */
static const Tensor *operand(Frame *f, int32_t s) {
    const SlotState *state = &f->state[s];
    if (state->home == HOME_OWNED && state->root != s) f->t[s].data = f->t[state->root].data;
    return &f->t[s];
}

static tn_status raster(Frame *f, const Made *made, tn_dtype dtype, void *dst, int64_t offset, int64_t count) {
    RasterOperand *sources = arena_array(&f->runner->scratch, RasterOperand, (size_t)made->n_sources + 1);
    if (!sources) return TN_OUT_OF_MEMORY;
    for (int32_t k = 0; k < made->n_sources; k++) {
        if (made->sources[k] < 0) continue;
        const Tensor *t = operand(f, made->sources[k]);
        sources[k] = (RasterOperand){t->data, t->offset};
    }
    return raster_run(&made->list, dtype, sources, dst, offset, count, made->fill, f->runner->ctx->pool);
}

static tn_status run_rasters(Frame *f, const Instr *instr, const Step *step) {
    for (uint32_t k = 0; k < instr->n_out; k++) {
        Tensor *t = &f->t[instr->out[k]];
        if (!step->made[k].runs) continue;
        if (t->dtype == TN_STRING) TRY(frame_own(f, instr->out[k]));
        TRY(raster(f, &step->made[k], t->dtype, t->data, t->offset, tensor_count(t)));
    }
    return TN_OK;
}

tn_status frame_read(Frame *f, int32_t s, void *dst) {
    const Tensor *t = operand(f, s);
    const Made *made = f->state[s].made;
    if (!made) return copy_dense(t, dst, 0, f->runner->ctx->pool);
    ArenaMark mark = arena_mark(&f->runner->scratch);
    tn_status status = raster(f, made, t->dtype, dst, 0, tensor_count(t));
    arena_release(&f->runner->scratch, mark);
    return status;
}

static tn_status host_alloc(KernelHost *host, int k, tn_dtype dtype, int rank, const int64_t *dims, Tensor *out) {
    Launch *l = (Launch *)host;
    int32_t s = l->f->program->instrs.data[l->i].out[k];
    frame_disown(l->f, s);
    tensor_set_dense(&l->f->t[s], dtype, rank, dims);
    TRY(frame_own(l->f, s));
    *out = l->f->t[s];
    return TN_OK;
}

static tn_status host_give(KernelHost *host, int k, Tensor *value) {
    Launch *l = (Launch *)host;
    return frame_take(l->f, l->f->program->instrs.data[l->i].out[k], value);
}

static tn_status host_poll(KernelHost *host) { return runner_poll(((Launch *)host)->f->runner); }

static tn_status pack_operand(Frame *f, const Tensor **in) {
    Tensor *dense = arena_new(&f->runner->scratch, Tensor);
    if (!dense) return TN_OUT_OF_MEMORY;
    KernelCtx c = {.n_in = 1, .in = in, .scratch = &f->runner->scratch};
    const void *data;
    TRY(dense_bytes(&c, 0, &data));
    tensor_set_dense(dense, (*in)->dtype, (*in)->rank, (*in)->dims);
    dense->data = (void *)data;
    *in = dense;
    return TN_OK;
}

static tn_status host_run_graph(KernelHost *host, const Graph *graph, const Tensor *in, size_t n_in, Tensor *out,
                                size_t n_out);

static tn_status run_kernel(Frame *f, int32_t i, const Instr *instr, Step *step) {
    Arena *scratch = &f->runner->scratch;
    const Tensor **in = arena_array(scratch, const Tensor *, instr->n_in + 1);
    Tensor *out = arena_array(scratch, Tensor, instr->n_out + 1);
    bool *wanted = arena_array(scratch, bool, instr->n_out + 1);
    if (!in || !out || !wanted) return TN_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < instr->n_in; k++) {
        if (instr->in[k] < 0) continue;
        in[k] = operand(f, instr->in[k]);
        if (k < 32 && step->pack & 1u << k) TRY(pack_operand(f, &in[k]));
    }
    for (uint32_t k = 0; k < instr->n_out; k++) {
        int32_t s = instr->out[k];
        if (f->state[s].told) f->state[s].known = false; /* what an earlier run was told */
        if (f->t[s].dtype == TN_STRING && f->state[s].known) TRY(frame_own(f, s));
        out[k] = f->t[s];
        wanted[k] = f->program->slots.data[s].last_use >= 0;
    }
    int way = step->way;
    struct Trial *trial = trial_next(f, step, i);
    static const Prepared nothing;
    const Prepared *prepared = trial ? trial_prepared(trial, &way) : step->held ? &step->held->prepared : &nothing;
    Launch l = {.host = {host_run_graph, host_alloc, host_give, host_poll}, .f = f, .i = i};
    KernelCtx c = {.node = instr->node,
                   .n_in = (int)instr->n_in,
                   .n_out = (int)instr->n_out,
                   .in = in,
                   .out = out,
                   .out_wanted = wanted,
                   .way = way,
                   .context = f->runner->ctx,
                   .pool = f->runner->ctx->pool,
                   .scratch = scratch,
                   .host = &l.host};
    uint64_t start = trial ? monotonic_ns() : 0;
    TRY(step->kernel->launch(&c, prepared));
    if (trial) trial_note(trial, monotonic_ns() - start);
    for (uint32_t k = 0; k < instr->n_out; k++)
        if (wanted[k] && !f->state[instr->out[k]].known) return fail(TN_INTERNAL, "the kernel made no result %u", k);
    return TN_OK;
}

/* What a body owns is of no use once its node is done: whatever the node gives has been copied or shared. */
static void finish_bodies(Frame *f, int32_t i, const Instr *instr) {
    for (uint32_t k = 0; f->children[i] && k < instr->n_bodies; k++)
        if (f->children[i][k]) frame_finish(f->children[i][k]);
}

static tn_status run_action(Frame *f, int32_t i, const Instr *instr, Step *step) {
    ArenaMark mark = arena_mark(&f->runner->scratch);
    tn_status status = step->action == STEP_RASTER ? run_rasters(f, instr, step) : run_kernel(f, i, instr, step);
    finish_bodies(f, i, instr);
    arena_release(&f->runner->scratch, mark);
    if (status == TN_OK) return TN_OK;
    diag_set_node(instr->node->loc.n ? instr->node->loc.s : "", instr->node->op->name);
    if (instr->node->graph->model->file.n) diag_set_file(instr->node->graph->model->file.s);
    return status;
}

/* Call-backs answer 0 to go on, 1 to skip, 2 to stop. */
static tn_status frame_run_instr(Frame *f, int32_t i) {
    const Instr *instr = &f->program->instrs.data[i];
    Step *step = &f->steps[i];
    Runner *r = f->runner;
    int answer = f->outermost && r->before ? r->before(r->user, (size_t)i) : 0;
    if (answer == 2) return fail(TN_CANCELLED, "a call-back stopped the run");
    if (step->action != STEP_NOTHING && answer == 0) {
        uint64_t start = r->profile ? monotonic_ns() : 0;
        TRY(runner_poll(r));
        TRY(run_action(f, i, instr, step));
        if (r->profile) {
            step->began = start;
            step->nanoseconds = monotonic_ns() - start;
        }
    }
    if (f->outermost && r->after && r->after(r->user, (size_t)i) == 2)
        return fail(TN_CANCELLED, "a call-back stopped the run");
    return TN_OK;
}

/* ---- nested graphs ------------------------------------------------------------------------------------------- */

/* The frame of a body stays with the instruction: an iteration over shapes seen before allocates nothing. */
static tn_status child_frame(Frame *f, int32_t i, const Graph *graph, Frame **out, const int32_t **captures) {
    const Instr *instr = &f->program->instrs.data[i];
    const int32_t *slots = instr->captures;
    uint32_t k = 0;
    for (; k < instr->n_bodies && instr->bodies[k]->graph != graph; k++) slots += instr->bodies[k]->captures.len;
    if (k == instr->n_bodies) return fail(TN_INTERNAL, "the node does not own this graph");
    if (!f->children[i]) {
        f->children[i] = arena_array(&f->arena, Frame *, instr->n_bodies);
        if (!f->children[i]) return TN_OUT_OF_MEMORY;
    }
    if (!f->children[i][k]) TRY(frame_new(instr->bodies[k], f->runner, NULL, &f->children[i][k]));
    *out = f->children[i][k];
    *captures = slots;
    return TN_OK;
}

/* The offset of a whole-byte reading moves into its pointer, so that slices of one tensor are the same reading. */
static Tensor rebased(const Tensor *t) {
    Tensor r = *t;
    if (r.offset && r.data && dtype_size(r.dtype)) {
        r.data = (char *)r.data + r.offset * dtype_size(r.dtype);
        r.offset = 0;
    }
    return r;
}

static tn_status run_child(Frame *f, Frame *child, const Tensor *in, size_t n_in, const int32_t *capture_slots,
                           Tensor *out, size_t n_out) {
    Arena *scratch = &f->runner->scratch;
    size_t n = child->program->captures.len;
    Tensor *inputs = arena_array(scratch, Tensor, n_in + 1), *captures = arena_array(scratch, Tensor, n + 1);
    if (!inputs || !captures) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n_in; i++) inputs[i] = rebased(&in[i]);
    for (size_t i = 0; i < n; i++) captures[i] = rebased(operand(f, capture_slots[i]));
    if (!frame_fits(child, inputs, captures)) TRY(frame_plan(child, inputs, captures));
    TRY(frame_run(child, inputs, captures));
    for (size_t i = 0; i < n_out; i++) {
        out[i] = *operand(child, child->program->outputs.data[i]);
        if (out[i].kind == TYPE_TENSOR) out[i].buffer = NULL; /* objects are shared by whoever keeps them */
    }
    return TN_OK;
}

static tn_status host_run_graph(KernelHost *host, const Graph *graph, const Tensor *in, size_t n_in, Tensor *out,
                                size_t n_out) {
    Launch *l = (Launch *)host;
    Frame *child;
    const int32_t *captures;
    TRY(child_frame(l->f, l->i, graph, &child, &captures));
    if (n_in != child->program->inputs.len || n_out != child->program->outputs.len)
        return fail(TN_INVALID_MODEL, "nested graph \"%s\" takes %zu inputs and gives %zu outputs, not %zu and %zu",
                    graph->name.n ? graph->name.s : "", child->program->inputs.len, child->program->outputs.len, n_in,
                    n_out);
    ArenaMark mark = arena_mark(&l->f->runner->scratch);
    tn_status status = run_child(l->f, child, in, n_in, captures, out, n_out);
    arena_release(&l->f->runner->scratch, mark);
    return status;
}

/* ---- a run --------------------------------------------------------------------------------------------------- */

static void drop_dead_owned(Frame *f, int32_t start) {
    for (size_t i = f->owned.len; i-- > 0;) {
        int32_t s = f->owned.data[i];
        if (f->state[s].root_last < start) frame_disown(f, s);
    }
}

static tn_status run_segment(Frame *f, size_t k) {
    if (k >= f->segments.len || !f->segments.data[k].planned || !segment_holds(f, k)) TRY(segment_plan(f, k));
    const Segment *seg = &f->segments.data[k];
    TRY(frame_read_constants(f));
    TRY(frame_reserve(f, f->arena_size, k > 0));
    TRY(frame_bind(f, seg->end));
    for (int32_t i = seg->start; i < seg->end; i++) TRY(frame_run_instr(f, i));
    return TN_OK;
}

tn_status frame_run(Frame *f, const Tensor *inputs, const Tensor *captures) {
    int32_t n = (int32_t)f->program->instrs.len;
    TRY(frame_start(f, inputs, captures));
    for (size_t k = 0; k == 0 || f->segments.data[k - 1].end < n; k++) {
        if (n == 0) break;
        if (k > 0) drop_dead_owned(f, f->segments.data[k - 1].end);
        TRY(run_segment(f, k));
    }
    return frame_bind(f, n);
}
