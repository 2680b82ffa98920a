/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: what a program needs to run for given shapes. Where values lie, and the memory they lie in. */
#include "program/program_int.h"

#include <pthread.h>
#include <time.h>

/* ---- constants ----------------------------------------------------------------------------------------------- */

static pthread_mutex_t payload_lock = PTHREAD_MUTEX_INITIALIZER;

/* The model keeps the file: other sessions may still read there. */
static tn_status copy_aligned(Context *ctx, Tensor *payload) {
    enum { PIECE = 4 << 20 };
    size_t bytes = 0;
    Buffer *copy = NULL;
    TRY(checked_bytes(payload->dtype, tensor_count(payload), &bytes));
    TRY(buffer_new(&ctx->allocator, bytes, &copy));
    for (size_t at = 0; at < bytes; at += PIECE) { /* so that not all of it is there twice */
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        memcpy(copy->data + at, (const char *)payload->data + at, n);
        file_forget((const char *)payload->data + at, n);
    }
    buffer_unref(payload->buffer);
    payload->buffer = copy;
    payload->data = copy->data;
    return TN_OK;
}

/* Bytes that are made on need are made without the lock, which all models share; another thread may set an aligned copy
   meanwhile, so the buffer is held. */
static tn_status make_bytes(Tensor *payload) {
    pthread_mutex_lock(&payload_lock);
    Buffer *buffer = buffer_is_lazy(payload->buffer) ? buffer_ref(payload->buffer) : NULL;
    pthread_mutex_unlock(&payload_lock);
    tn_status status = buffer_keep(buffer);
    buffer_unref(buffer);
    return status;
}

tn_status payload_read(Context *ctx, Tensor *payload, bool may_align, Tensor *reading) {
    if (may_align) TRY(make_bytes(payload));
    pthread_mutex_lock(&payload_lock);
    tn_status status = may_align && tensor_is_misaligned(payload) ? copy_aligned(ctx, payload) : TN_OK;
    *reading = *payload;
    reading->buffer = NULL;
    pthread_mutex_unlock(&payload_lock);
    return status;
}

void payload_hold(const Tensor *payload, Tensor *out) {
    pthread_mutex_lock(&payload_lock);
    *out = *payload;
    if (out->buffer) buffer_ref(out->buffer);
    pthread_mutex_unlock(&payload_lock);
}

/* Large constants are not read before a run. */
static tn_status bind_constant(Frame *f, int32_t s, bool may_read) {
    Tensor *payload = (Tensor *)value_payload(f->program->slots.data[s].value);
    size_t bytes = 0;
    TRY(checked_bytes(payload->dtype, tensor_count(payload), &bytes));
    return payload_read(f->runner->ctx, payload, may_read || bytes <= FOLD_BYTES, &f->t[s]);
}

static void want(Frame *f, int32_t s) {
    SlotState *state = &f->state[s];
    if (f->program->slots.data[s].kind != SLOT_CONST || state->wanted) return;
    state->wanted = f->constants_due = true;
}

void want_constants(Frame *f, const Instr *instr, uint32_t replaced) {
    for (uint32_t k = 0; k < instr->n_in; k++)
        if (instr->in[k] >= 0 && !(k < 32 && replaced & 1u << k)) want(f, instr->in[k]);
    for (uint32_t k = 0; k < instr->n_captures; k++) want(f, instr->captures[k]);
}

tn_status frame_read_constants(Frame *f) {
    for (size_t s = 0; f->constants_due && s < f->program->slots.len; s++) {
        if (!f->state[s].wanted || f->state[s].read) continue;
        TRY(bind_constant(f, (int32_t)s, true));
        f->state[s].read = true;
    }
    f->constants_due = false;
    return TN_OK;
}

/* ---- making -------------------------------------------------------------------------------------------------- */

tn_status frame_new(const Program *program, Runner *runner, Memory *memory, Frame **out) {
    const Allocator *a = &runner->ctx->allocator;
    Frame *f = mem_alloc(a, sizeof *f, alignof(Frame));
    if (!f) return TN_OUT_OF_MEMORY;
    f->program = program;
    f->runner = runner;
    f->outermost = memory != NULL;
    f->memory = memory ? memory : &f->own_memory;
    arena_init(&f->arena, a);
    f->t = arena_array(&f->arena, Tensor, program->slots.len + 1);
    f->state = arena_array(&f->arena, SlotState, program->slots.len + 1);
    f->steps = arena_array(&f->arena, Step, program->instrs.len + 1);
    f->children = arena_array(&f->arena, Frame **, program->instrs.len + 1);
    f->output_data = arena_array(&f->arena, void *, program->outputs.len + 1);
    if (!f->t || !f->state || !f->steps || !f->children || !f->output_data) {
        frame_free(f);
        return TN_OUT_OF_MEMORY;
    }
    *out = f;
    return TN_OK;
}

tn_status hold(Context *ctx, Prepared *prepared, int way, Held **out) {
    Held *held = mem_alloc(&ctx->allocator, sizeof *held, alignof(Held));
    if (held) *held = (Held){*prepared, way, HELD_ONCE, 1};
    else if (prepared->release) prepared->release(prepared, &ctx->allocator);
    *prepared = (Prepared){0};
    *out = held;
    return held ? TN_OK : TN_OUT_OF_MEMORY;
}

void step_let_go(Held *held, const Allocator *a) {
    if (!held || --held->n_holders > 0) return;
    if (held->prepared.release) held->prepared.release(&held->prepared, a);
    mem_free(a, held, sizeof *held);
}

void frame_free(Frame *f) {
    if (!f) return;
    const Allocator *a = &f->runner->ctx->allocator;
    if (f->state && f->t) frame_finish(f);
    for (size_t i = 0; f->children && i < f->program->instrs.len; i++)
        for (uint32_t k = 0; f->children[i] && k < f->program->instrs.data[i].n_bodies; k++)
            frame_free(f->children[i][k]);
    for (size_t i = 0; f->steps && i < f->program->instrs.len; i++) {
        step_let_go(f->steps[i].held, a);
        trials_free(f, &f->steps[i]);
    }
    for (size_t i = 0; i < f->segments.len; i++) arena_free(&f->segments.data[i].arena);
    vec_free(a, &f->segments);
    vec_free(a, &f->owned);
    vec_free(a, &f->signature);
    mem_free(a, f->own_memory.base, f->own_memory.size);
    arena_free(&f->arena);
    mem_free(a, f, sizeof *f);
}

/* ---- signatures ---------------------------------------------------------------------------------------------- */

bool same_reading(const Tensor *a, const Tensor *b) {
    if (a->kind != b->kind) return false;
    if (a->kind != TYPE_TENSOR) return true; /* what is in it decides nothing ahead of time */
    if (a->dtype != b->dtype || a->rank != b->rank || a->offset != b->offset) return false;
    size_t n = (size_t)a->rank * sizeof *a->dims;
    return memcmp(a->dims, b->dims, n) == 0 && memcmp(a->strides, b->strides, n) == 0;
}

bool frame_fits(const Frame *f, const Tensor *inputs, const Tensor *captures) {
    size_t n_in = f->program->inputs.len, n = n_in + f->program->captures.len;
    if (!f->planned || f->signature.len != n) return false;
    for (size_t i = 0; i < n; i++)
        if (!same_reading(&f->signature.data[i], i < n_in ? &inputs[i] : &captures[i - n_in])) return false;
    return true;
}

/* What the plan will be for. */
static tn_status sign(Frame *f, const Tensor *inputs, const Tensor *captures) {
    const Allocator *a = &f->runner->ctx->allocator;
    size_t n_in = f->program->inputs.len, n = n_in + f->program->captures.len;
    TRY(vec_reserve(a, &f->signature, n));
    for (size_t i = 0; i < n; i++) {
        f->signature.data[i] = i < n_in ? inputs[i] : captures[i - n_in];
        f->signature.data[i].data = NULL;
        f->signature.data[i].buffer = NULL;
    }
    f->signature.len = n;
    return TN_OK;
}

/* ---- planning from the start --------------------------------------------------------------------------------- */

static void set_given(Frame *f, int32_t s, const Tensor *t) {
    f->t[s] = *t;
    f->t[s].buffer = NULL;
    f->state[s] = (SlotState){.known = true, .home = HOME_INPUT, .root = s};
}

tn_status frame_choose(Frame *f, const Tensor *inputs, const Tensor *captures) {
    const Program *p = f->program;
    f->planned = false;
    for (size_t i = 0; i < f->segments.len; i++) f->segments.data[i].planned = false;
    frame_finish(f);
    f->arena_size = 0;
    for (size_t s = 0; s < p->slots.len; s++) {
        bool constant = p->slots.data[s].kind == SLOT_CONST;
        if (constant && f->state[s].read) continue; /* as it was for other sizes */
        f->state[s] = (SlotState){0};
        if (!constant) continue;
        TRY(bind_constant(f, (int32_t)s, false));
        f->state[s] = (SlotState){.known = true, .fixed = true, .home = HOME_CONST, .root = (int32_t)s};
    }
    for (size_t i = 0; i < p->inputs.len; i++) set_given(f, p->inputs.data[i], &inputs[i]);
    for (size_t i = 0; i < p->captures.len; i++) set_given(f, p->captures.data[i], &captures[i]);
    for (size_t i = 0; i < p->outputs.len; i++) want(f, p->outputs.data[i]);
    if (p->instrs.len > 0) TRY(segment_choose(f, 0));
    return sign(f, inputs, captures);
}

tn_status frame_place(Frame *f) {
    bytes_trim(); /* what packing took is not there beside what the plan takes */
    store_trim();
    if (f->program->instrs.len > 0) TRY(segment_place(f, 0));
    f->planned = true;
    return TN_OK;
}

tn_status frame_plan(Frame *f, const Tensor *inputs, const Tensor *captures) {
    TRY(frame_choose(f, inputs, captures));
    return frame_place(f);
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* A quarter more than there was, where that is enough: sizes that grow a little each time seldom find it too small. What is not
   large will be used whole, and is brought in at once; the room beyond it when it is used. */
static tn_status take_memory(Context *ctx, const Memory *before, size_t size, Memory *out) {
    enum { MOST_TOUCHED = 64 << 20, LEAST = 64 << 10 /* fewer pages cost nothing to speak of */ };
    size_t room = before->size + before->size / 4;
    out->size = before->size >= LEAST && size < room && room <= ctx->limits.max_bytes ? room : size;
    bool zero;
    out->base = mem_raw(&ctx->allocator, out->size, PLAN_ALIGN, &zero);
    if (!out->base) return TN_OUT_OF_MEMORY;
    mem_touch(ctx->pool, out->base, size < MOST_TOUCHED ? size : MOST_TOUCHED);
    if (!zero) memset(out->base, 0, out->size);
    return TN_OK;
}

tn_status frame_reserve(Frame *f, int64_t size, bool keep) {
    Memory *m = f->memory, more;
    size = max_i64(size, PLAN_ALIGN); /* results without elements have an address too */
    Context *ctx = f->runner->ctx;
    if ((uint64_t)size > ctx->limits.max_bytes)
        return fail(TN_LIMIT, "intermediate values take %lld bytes, more than the limit of %llu", (long long)size,
                    (unsigned long long)ctx->limits.max_bytes);
    if ((size_t)size <= m->size) return TN_OK;
    if (!keep) { /* before there is more: both need not be there at once */
        mem_free(&ctx->allocator, m->base, m->size);
        m->base = NULL;
    }
    tn_status status = take_memory(ctx, m, (size_t)size, &more);
    if (status == TN_OK && m->base) memcpy(more.base, m->base, m->size);
    if (status == TN_OK || !keep) {
        mem_free(&ctx->allocator, m->base, m->size);
        *m = status == TN_OK ? more : (Memory){0};
    }
    return status;
}

static void *root_data(Frame *f, int32_t root) {
    const SlotState *s = &f->state[root];
    if (s->home == HOME_ARENA) return (char *)f->memory->base + s->offset;
    if (s->home == HOME_OUTPUT) return f->output_data[s->offset];
    return f->t[root].data;
}

tn_status frame_bind(Frame *f, int32_t end) {
    for (size_t s = 0; s < f->program->slots.len; s++) {
        const SlotState *state = &f->state[s];
        if (!state->known || state->home == HOME_NONE || f->program->slots.data[s].def >= end) continue;
        const SlotState *root = &f->state[state->root];
        if (root->home == HOME_OUTPUT && !f->output_data[root->offset])
            TRY(f->runner->output(f->runner->user, (size_t)root->offset, &f->t[f->program->outputs.data[root->offset]],
                                  &f->output_data[root->offset]));
        f->t[s].data = state->root == (int32_t)s ? root_data(f, state->root)
                                                 : (char *)root_data(f, state->root) + state->at;
    }
    return TN_OK;
}

/* Objects come with their buffer, so that whoever keeps one can share it; bytes of tensors are only lent. */
static void place_given(Tensor *t, const Tensor *given) {
    t->data = given->data;
    t->buffer = given->kind == TYPE_TENSOR ? NULL : given->buffer;
}

tn_status frame_start(Frame *f, const Tensor *inputs, const Tensor *captures) {
    const Program *p = f->program;
    frame_finish(f); /* after a run that failed */
    memset(f->output_data, 0, p->outputs.len * sizeof *f->output_data);
    TRY(frame_read_constants(f));
    for (size_t i = 0; i < p->inputs.len; i++) place_given(&f->t[p->inputs.data[i]], &inputs[i]);
    for (size_t i = 0; i < p->captures.len; i++) place_given(&f->t[p->captures.data[i]], &captures[i]);
    return TN_OK;
}

tn_status frame_own(Frame *f, int32_t s) {
    Tensor *t = &f->t[s];
    frame_disown(f, s);
    Tensor fresh;
    TRY(tensor_new(f->runner->ctx, t->dtype, t->rank, t->dims, &fresh));
    return frame_take(f, s, &fresh);
}

tn_status frame_take(Frame *f, int32_t s, Tensor *value) {
    frame_disown(f, s);
    tn_status status = vec_reserve(&f->runner->ctx->allocator, &f->owned, f->owned.len + 1);
    if (status != TN_OK) {
        tensor_release(value);
        return status;
    }
    f->t[s] = *value;
    f->state[s].home = HOME_OWNED;
    f->state[s].root = s;
    f->state[s].known = true;
    f->owned.data[f->owned.len++] = s;
    return TN_OK;
}

void frame_disown(Frame *f, int32_t s) {
    if (f->state[s].home != HOME_OWNED || !f->t[s].buffer) return;
    tensor_release(&f->t[s]);
    for (size_t i = 0; i < f->owned.len; i++)
        if (f->owned.data[i] == s) f->owned.data[i] = f->owned.data[--f->owned.len];
}

void frame_finish(Frame *f) {
    while (f->owned.len > 0) frame_disown(f, f->owned.data[f->owned.len - 1]);
}

bool frame_shape_known(const Frame *f, int32_t slot) { return f->state[slot].known; }

/* ---- figures ------------------------------------------------------------------------------------------------- */

static void add_live(int64_t *change, int64_t bytes, int32_t first, int32_t last) {
    int64_t rounded = (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    change[first] += rounded;
    change[last + 1] -= rounded;
}

static uint64_t peak(const int64_t *change, size_t n) {
    int64_t live = 0, most = 0;
    for (size_t i = 0; i < n; i++) most = max_i64(most, live += change[i]);
    return (uint64_t)most;
}

static void count_slot(const Frame *f, size_t s, int64_t *bound, int64_t *plain) {
    const Slot *slot = &f->program->slots.data[s];
    const SlotState *state = &f->state[s];
    int32_t n = (int32_t)f->program->instrs.len;
    size_t bytes;
    if (slot->kind != SLOT_RESULT || !state->known || slot->def >= n || f->t[s].kind != TYPE_TENSOR) return;
    if (state->home == HOME_ARENA && state->root == (int32_t)s)
        add_live(bound, state->bytes, state->root_first, min_i64(state->root_last, n));
    if (slot->is_output && f->outermost) return; /* in the caller's memory either way */
    if (checked_bytes(f->t[s].dtype, tensor_count(&f->t[s]), &bytes) == TN_OK)
        add_live(plain, (int64_t)bytes, slot->graph_def, (int32_t)max_i64(slot->graph_def, slot->graph_last_use));
}

static uint64_t bytes_of(const Frame *f, int32_t s) {
    size_t bytes = 0;
    if (s < 0 || !f->state[s].known || f->t[s].kind != TYPE_TENSOR) return 0;
    return checked_bytes(f->t[s].dtype, tensor_count(&f->t[s]), &bytes) == TN_OK ? bytes : 0;
}

/* Only what is not there already; but where regions leave gaps, everything, since that is filled first. */
static uint64_t written_bytes(const Frame *f, int32_t s, const Made *made) {
    uint64_t bytes = 0;
    if (!f->state[s].grew && !made->list.covers) return bytes_of(f, s);
    for (size_t i = 0; i < made->list.len; i++) bytes += (uint64_t)region_count(&made->list.data[i]);
    return bytes * (uint64_t)dtype_size(f->t[s].dtype);
}

static void count_moves(const Frame *f, int32_t i, FrameInfo *info) {
    const Instr *instr = &f->program->instrs.data[i];
    const Step *step = &f->steps[i];
    bool moves = instr->node->op->regions && !step->folded;
    for (uint32_t k = 0; k < instr->n_out && moves; k++) {
        uint64_t bytes = bytes_of(f, instr->out[k]);
        info->moves_bytes += bytes;
        if (step->action == STEP_KERNEL) info->moved_bytes += bytes;
        else if (step->made[k].runs) info->moved_bytes += written_bytes(f, instr->out[k], &step->made[k]);
    }
    for (uint32_t k = 0; k < instr->n_in && k < 32 && step->action == STEP_KERNEL; k++)
        if (step->pack & 1u << k) info->moved_bytes += bytes_of(f, instr->in[k]);
}

/* Those that no instruction writes there. */
static void count_copied_outputs(const Frame *f, FrameInfo *info) {
    for (size_t i = 0; f->outermost && i < f->program->outputs.len; i++)
        if (f->state[f->program->outputs.data[i]].home != HOME_OUTPUT && !f->state[f->program->outputs.data[i]].grew)
            info->moved_bytes += bytes_of(f, f->program->outputs.data[i]);
}

tn_status frame_info(const Frame *f, FrameInfo *info) {
    size_t n = f->program->instrs.len + 2;
    Arena *scratch = &f->runner->scratch;
    ArenaMark mark = arena_mark(scratch);
    int64_t *bound = arena_array(scratch, int64_t, n), *plain = arena_array(scratch, int64_t, n);
    if (!bound || !plain) return TN_OUT_OF_MEMORY;
    for (size_t s = 0; s < f->program->slots.len; s++) count_slot(f, s, bound, plain);
    *info = (FrameInfo){.arena_bytes = (uint64_t)f->arena_size,
                        .bound_bytes = peak(bound, n),
                        .plain_bytes = peak(plain, n),
                        .allocated_bytes = f->memory->size};
    for (size_t i = 0; i < f->segments.len && f->segments.data[i].planned; i++) {
        info->n_segments++;
        for (int32_t k = f->segments.data[i].start; k < f->segments.data[i].end; k++) {
            info->flops += frame_flops(f, (size_t)k);
            count_moves(f, k, info);
        }
    }
    count_copied_outputs(f, info);
    info->n_planned = info->n_segments ? (size_t)f->segments.data[info->n_segments - 1].end : 0;
    info->complete = info->n_planned == f->program->instrs.len;
    arena_release(scratch, mark);
    return TN_OK;
}

/* ---- runners ------------------------------------------------------------------------------------------------- */

uint64_t monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

tn_status runner_init(Runner *runner, Context *ctx) {
    *runner = (Runner){.ctx = ctx, .targets = TARGETS_ALL};
    arena_init(&runner->scratch, &ctx->allocator);
    atomic_init(&runner->cancelled, false);
    return TN_OK;
}

void runner_free(Runner *runner) { arena_free(&runner->scratch); }

tn_status runner_poll(Runner *runner) {
    if (atomic_load_explicit(&runner->cancelled, memory_order_relaxed))
        return fail(TN_CANCELLED, "the run was cancelled");
    if (runner->deadline && monotonic_ns() > runner->deadline) return fail(TN_DEADLINE, "the run's time is up");
    return TN_OK;
}
