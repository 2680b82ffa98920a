/* SPDX-License-Identifier: Apache-2.0 */
/* State: an output that is an input of the next run, kept by the session. A run reads the one memory and writes the other;
   they change places when it has succeeded, so a run that fails leaves the state as it was. An output that is the input with
   something behind it, in memory that has the room, is written there instead, which leaves what it was in place too. */
#include "session/session_int.h"

/* ---- binding --------------------------------------------------------------------------------------------------- */

static tn_status not_there(const tn_session *s, const char *what, const char *wanted, const Str *names, size_t n) {
    Arena arena;
    arena_init(&arena, &s->ctx->allocator);
    const char **texts = arena_array(&arena, const char *, n + 1);
    for (size_t i = 0; texts && i < n; i++) texts[i] = names[i].n ? names[i].s : "";
    const char *near = texts ? nearest_name(str_of(wanted), texts, n) : NULL;
    tn_status status = near ? fail(TN_NOT_FOUND, "the session has no %s \"%s\"; did you mean \"%s\"?", what, wanted,
                                   near)
                            : fail(TN_NOT_FOUND, "the session has no %s \"%s\"", what, wanted);
    arena_free(&arena);
    return status;
}

static tn_status find_name(const tn_session *s, const char *what, const char *wanted, const Str *names, size_t n,
                           size_t *found) {
    for (*found = 0; *found < n; ++*found)
        if (str_equal(names[*found], str_of(wanted))) return TN_OK;
    return not_there(s, what, wanted, names, n);
}

static tn_status find_ends(const tn_session *s, const char *past, const char *present, State *state) {
    const Graph *g = s->ir->main;
    size_t n = g->inputs.len;
    Arena arena;
    arena_init(&arena, &s->ctx->allocator);
    Str *names = arena_array(&arena, Str, n + 1);
    for (size_t i = 0; names && i < n; i++) names[i] = g->inputs.data[i]->name;
    tn_status status = names ? find_name(s, "input", past, names, n, &state->input) : TN_OUT_OF_MEMORY;
    if (status == TN_OK) status = find_name(s, "output", present, g->output_names.data, s->n_out, &state->output);
    arena_free(&arena);
    return status;
}

/* As far as types are declared; what is not is seen when the next run is planned. */
static tn_status check_types(const tn_session *s, const char *past, const char *present, const State *state) {
    const Type *in = s->ir->main->inputs.data[state->input]->type;
    const Type *out = graph_output(s->ir->main, state->output)->type;
    if (in->kind != TYPE_TENSOR || out->kind != TYPE_TENSOR || in->dtype == TN_STRING || out->dtype == TN_STRING)
        return fail(TN_UNSUPPORTED, "a state is a tensor of numbers, \"%s\" and \"%s\" are not", past, present);
    bool fits = !in->dtype || !out->dtype || in->dtype == out->dtype;
    if (in->shape.rank >= 0 && out->shape.rank >= 0) fits &= in->shape.rank == out->shape.rank;
    if (!fits) return fail(TN_SHAPE, "\"%s\" has another type or rank than \"%s\"", present, past);
    if (s->by_input[state->input] || s->by_output[state->output])
        return fail(TN_INVALID_ARGUMENT, "\"%s\" or \"%s\" is bound already", past, present);
    return TN_OK;
}

/* The axis of a Concat of the input and something else, or along which Attention's keys or values get longer. */
static int growing_axis(const tn_session *s, const State *state) {
    const Value *in = s->ir->main->inputs.data[state->input], *out = graph_output(s->ir->main, state->output);
    const Node *node = out->def;
    int rank = in->type->shape.rank;
    bool attends = node && node_is_onnx(node, "Attention") && out->index >= 1 && out->index <= 2;
    if (attends && rank == 4 && node_operand(node, 3 + out->index) == in) return state->capacity > 0 ? 2 : -1;
    if (!node || !node_is_onnx(node, "Concat") || node_operand(node, 0) != in) return -1;
    int64_t axis = attr_int(node, "axis");
    if (axis < 0) axis += rank;
    return axis >= 0 && axis < rank && state->capacity > 0 ? (int)axis : -1;
}

static tn_status bind(tn_session *s, const char *past, const char *present, int64_t capacity) {
    State found = {.capacity = capacity};
    TRY(find_ends(s, past, present, &found));
    TRY(check_types(s, past, present, &found));
    found.axis = growing_axis(s, &found);
    State *state = arena_new(&s->arena, State);
    Growth *growths = arena_array(&s->arena, Growth, s->n_states + 1);
    if (!state || !growths) return TN_OUT_OF_MEMORY;
    *state = found;
    s->growths = growths;
    s->n_states++;
    s->growth_serial++;
    state->next = s->states;
    s->states = s->by_input[state->input] = s->by_output[state->output] = state;
    return TN_OK;
}

tn_status tn_session_bind_state(tn_session *s, const char *past, const char *present, int64_t capacity) {
    if (!past || !present || capacity < 0)
        return fail(TN_INVALID_ARGUMENT, "past or present is NULL, or capacity is below 0");
    TRY(session_enter(s));
    return session_leave(s, bind(s, past, present, capacity));
}

tn_status tn_session_reset_state(tn_session *s) {
    TRY(session_enter(s));
    for (State *state = s->states; state; state = state->next) state->filled = false;
    return session_leave(s, TN_OK);
}

void session_free_states(tn_session *s) {
    for (State *state = s->states; state; state = state->next)
        for (int i = 0; i < 2; i++) mem_free(&s->ctx->allocator, state->memory[i].base, state->memory[i].size);
    s->states = NULL;
}

uint64_t session_state_bytes(const tn_session *s) {
    uint64_t bytes = 0;
    for (const State *state = s->states; state; state = state->next)
        bytes += state->memory[0].size + state->memory[1].size;
    return bytes;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* Bytes for a value like this at its full capacity: along the one dimension in which it is larger than the value before. */
static size_t bytes_at_capacity(const State *state, const Tensor *before, const Tensor *like) {
    int64_t dims[TN_MAX_RANK], count;
    int axis = -1;
    size_t bytes;
    if (before->rank != like->rank) return 0;
    for (int k = 0; k < like->rank; k++) {
        dims[k] = like->dims[k];
        if (dims[k] == before->dims[k]) continue;
        if (axis >= 0) return 0;
        axis = k;
    }
    if (axis < 0 || dims[axis] >= state->capacity) return 0;
    dims[axis] = state->capacity;
    if (checked_count(like->rank, dims, &count) != TN_OK || checked_bytes(like->dtype, count, &bytes) != TN_OK)
        return 0;
    return bytes;
}

/* What outgrows its memory gets half as much again, so that growing step by step does not mean asking at each. */
static tn_status reserve(const tn_session *s, Memory *m, size_t bytes, size_t wanted) {
    const Allocator *a = &s->ctx->allocator;
    uint64_t most = s->ctx->limits.max_bytes;
    if (bytes > most) return fail(TN_LIMIT, "a state takes %zu bytes, more than the limit", bytes);
    if (wanted < bytes || wanted > most) wanted = bytes;
    if (m->base && wanted <= m->size) return TN_OK;
    if (m->base && wanted == bytes && bytes / 2 <= most - bytes) wanted += bytes / 2;
    if (wanted < PLAN_ALIGN) wanted = PLAN_ALIGN;
    void *base = mem_alloc(a, wanted, PLAN_ALIGN);
    if (!base) return TN_OUT_OF_MEMORY;
    mem_free(a, m->base, m->size);
    *m = (Memory){base, wanted};
    return TN_OK;
}

tn_status session_state_memory(tn_session *s, State *state, const Tensor *like, void **data) {
    Memory *m = &state->memory[!state->now];
    size_t bytes;
    state->appended = false;
    if (like->kind != TYPE_TENSOR || like->dtype == TN_STRING)
        return fail(TN_UNSUPPORTED, "output %zu is bound as state, but is no tensor of numbers", state->output);
    TRY(checked_bytes(like->dtype, tensor_count(like), &bytes));
    TRY(reserve(s, m, bytes, bytes_at_capacity(state, &s->inputs[state->input], like)));
    tensor_set_dense(&state->coming, like->dtype, like->rank, like->dims);
    *data = state->coming.data = m->base;
    return TN_OK;
}

/* ---- runs ------------------------------------------------------------------------------------------------------ */

/* A size that other inputs have under the same name is theirs; one that nobody has is 0: nothing is remembered yet. */
static int64_t first_size(const tn_session *s, Dim d) {
    const Graph *g = s->ir->main;
    if (dim_is_const(d)) return d;
    for (size_t i = 0; i < g->inputs.len && d != DIM_UNKNOWN; i++) {
        const Type *type = g->inputs.data[i]->type;
        const State *state = s->by_input[i];
        if (type->kind != TYPE_TENSOR || (state && !state->filled) || type->shape.rank != s->inputs[i].rank) continue;
        for (int k = 0; k < type->shape.rank; k++)
            if (type->shape.dims[k] == d) return s->inputs[i].dims[k];
    }
    return 0;
}

/* Zeros, in the memory that is read now. */
static tn_status first_value(tn_session *s, State *state) {
    const Value *v = s->ir->main->inputs.data[state->input];
    int64_t dims[TN_MAX_RANK], count;
    size_t bytes;
    if (!v->type->dtype || v->type->shape.rank < 0)
        return fail(TN_SHAPE, "the type of state \"%s\" is not declared: give its first value",
                    v->name.n ? v->name.s : "");
    for (int k = 0; k < v->type->shape.rank; k++) dims[k] = first_size(s, v->type->shape.dims[k]);
    TRY(checked_count(v->type->shape.rank, dims, &count));
    TRY(checked_bytes(v->type->dtype, count, &bytes));
    Memory *m = &state->memory[state->now];
    TRY(reserve(s, m, bytes, bytes));
    memset(m->base, 0, bytes);
    tensor_set_dense(&state->value, v->type->dtype, v->type->shape.rank, dims);
    state->value.data = m->base;
    state->room = 0;
    return TN_OK;
}

/* Row after row, to where behind each there is room. */
static void spread(const Tensor *from, Tensor *to, int axis) {
    size_t size = (size_t)dtype_size(from->dtype), inner = 1, outer = 1;
    for (int k = axis + 1; k < from->rank; k++) inner *= (size_t)from->dims[k];
    for (int k = 0; k < axis; k++) outer *= (size_t)from->dims[k];
    size_t row = inner * (size_t)from->dims[axis] * size, near = row, wide = row;
    if (axis > 0) near = (size_t)from->strides[axis - 1] * size, wide = (size_t)to->strides[axis - 1] * size;
    for (size_t i = 0; i < outer && row > 0; i++)
        memcpy((char *)to->data + i * wide, (const char *)from->data + i * near, row);
}

/* Room for at least one more position, in the other memory when it was full. */
static tn_status make_room(tn_session *s, State *state) {
    Tensor to = state->value;
    int64_t n = to.dims[state->axis], room = max_i64(max_i64(state->capacity, state->room), n + n / 2 + 1), count;
    size_t bytes;
    if (state->room > n) return TN_OK;
    int64_t dims[TN_MAX_RANK];
    memcpy(dims, to.dims, sizeof dims);
    dims[state->axis] = room;
    TRY(checked_count(to.rank, dims, &count));
    TRY(checked_bytes(to.dtype, count, &bytes));
    Memory *m = &state->memory[!state->now];
    TRY(reserve(s, m, bytes, bytes));
    to.data = m->base;
    growth_strides(&to, state->axis, room);
    spread(&state->value, &to, state->axis);
    state->value = to;
    state->room = room;
    state->now = !state->now;
    return TN_OK;
}

/* All or none: a plan is for the one or the other. */
static bool may_grow(const tn_session *s, const bool *given) {
    bool any = false;
    for (const State *state = s->states; state; state = state->next) {
        if (state->axis < 0) continue;
        bool preset = !state->filled && graph_input_default(s->ir->main, state->input);
        if (preset || (given && given[state->input]) || dtype_size(state->value.dtype) == 0) return false;
        any = true;
    }
    return any;
}

tn_status session_take_states(tn_session *s, const bool *given) {
    for (State *state = s->states; state; state = state->next) {
        if (given && given[state->input]) continue;
        Tensor *preset = state->filled ? NULL : graph_input_default(s->ir->main, state->input);
        if (preset) TRY(payload_read(s->ctx, preset, true, &s->inputs[state->input]));
        else if (!state->filled) TRY(first_value(s, state));
        if (!preset) s->inputs[state->input] = state->value;
    }
    s->runner.growths = s->growths;
    s->runner.n_growths = 0;
    s->growing = may_grow(s, given) ? s->growth_serial : 0;
    for (State *state = s->states; state && s->growing; state = state->next) {
        if (state->axis < 0) continue;
        TRY(make_room(s, state));
        s->inputs[state->input] = state->value;
        s->growths[s->runner.n_growths++] = (Growth){state->input, state->output, state->axis, state->room};
    }
    return TN_OK;
}

bool session_state_stayed(tn_session *s, State *state, const Tensor *t) {
    state->appended = !s->fed[state->input] && t->data && t->data == state->value.data && t->offset == 0 &&
                      t->dtype == state->value.dtype && t->dtype != TN_STRING;
    if (state->appended) state->coming = *t;
    return state->appended;
}

/* What could have been appended but was not, since the plan has it otherwise, is not tried again. */
static void give_up(tn_session *s, State *state) {
    state->axis = -1;
    s->growth_serial++;
}

void session_advance_states(tn_session *s) {
    for (State *state = s->states; state; state = state->next) {
        bool grows = s->growing && state->axis >= 0;
        if (!state->appended) {
            if (grows && state->coming.dims[state->axis] <= state->room) give_up(s, state);
            state->room = 0;
            state->now = !state->now;
        }
        state->value = state->coming;
        state->filled = true;
    }
}
