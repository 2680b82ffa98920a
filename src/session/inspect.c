/* SPDX-License-Identifier: Apache-2.0 */
/* What a session planned and ran: shapes, instructions, memory; call-backs around instructions. */
#include "session/session_int.h"

/* ---- inputs and outputs -------------------------------------------------------------------------------------- */

static void set_planned(const Tensor *t, tn_value_info *info) {
    if (t->kind != TYPE_TENSOR) return;
    info->dtype = t->dtype;
    info->rank = t->rank;
    for (int i = 0; i < t->rank; i++) info->dims[i] = t->dims[i];
}

static tn_status slot_info(const tn_session *s, int32_t slot, Str name, tn_value_info *info) {
    if (!s->current) return fail(TN_STATE, "the session has no plan: call tn_session_resize or run it");
    fill_value_info(s->ir, name, session_program(s)->slots.data[slot].value->type, info);
    if (frame_shape_known(s->current, slot)) set_planned(&s->current->t[slot], info);
    return TN_OK;
}

tn_status tn_session_input(const tn_session *s, size_t i, tn_value_info *info) {
    if (!s || !info) return fail(TN_INVALID_ARGUMENT, "session or info is NULL");
    size_t n = s->ir->main->inputs.len;
    if (i >= n) return fail(TN_OUT_OF_RANGE, "input %zu of %zu", i, n);
    const Value *v = s->ir->main->inputs.data[i];
    fill_value_info(s->ir, v->name, v->type, info);
    if (s->current) TRY(slot_info(s, session_program(s)->inputs.data[i], v->name, info));
    info->has_default = graph_input_default(s->ir->main, i) != NULL;
    return TN_OK;
}

tn_status tn_session_output(const tn_session *s, size_t i, tn_value_info *info) {
    if (!s || !info) return fail(TN_INVALID_ARGUMENT, "session or info is NULL");
    if (i >= s->n_out) return fail(TN_OUT_OF_RANGE, "output %zu of %zu", i, s->n_out);
    return slot_info(s, session_program(s)->outputs.data[i], s->ir->main->output_names.data[i], info);
}

tn_status tn_session_output_bytes(const tn_session *s, size_t i, size_t *bytes) {
    tn_value_info info;
    if (!bytes) return fail(TN_INVALID_ARGUMENT, "bytes is NULL");
    TRY(tn_session_output(s, i, &info));
    if (!frame_shape_known(s->current, session_program(s)->outputs.data[i]))
        return fail(TN_STATE, "the size of output \"%s\" depends on the contents of other values", info.name);
    const Tensor *t = &s->current->t[session_program(s)->outputs.data[i]];
    if (t->kind != TYPE_TENSOR) return fail(TN_INVALID_ARGUMENT, "output \"%s\" is no tensor", info.name);
    return checked_bytes(t->dtype, tensor_count(t), bytes);
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

static bool is_tuned(const Step *step) { return step->action == STEP_KERNEL && step->way > 0; }

static const char *way_of(Frame *f, size_t i) {
    const Step *step = &f->steps[i];
    if (step->action != STEP_KERNEL || step->folded) return "";
    int way = step->way ? step->way : frame_usual_way(f, i);
    return way > 0 ? step->kernel->ways[way - 1].name : "";
}

static uint64_t weight_bytes(const tn_session *s) {
    uint64_t sum = 0;
    for (size_t i = 0; i < s->ir->tensors.len; i++) {
        const Tensor *t = s->ir->tensors.data[i];
        size_t bytes;
        if (checked_bytes(t->dtype, tensor_count(t), &bytes) == TN_OK) sum += bytes;
    }
    return sum;
}

tn_status tn_session_get_info(const tn_session *s, tn_session_info *info) {
    if (!s || !info) return fail(TN_INVALID_ARGUMENT, "session or info is NULL");
    *info = (tn_session_info){.n_instructions = session_program(s)->instrs.len,
                              .weight_bytes = weight_bytes(s),
                              .allocated_bytes = s->memory.size + session_state_bytes(s),
                              .resize_status = s->failed    ? TN_RESIZE_FAILED
                                               : s->current ? TN_RESIZE_DONE
                                                            : TN_RESIZE_NEEDED,
                              .resize_error = s->reason,
                              .n_plans = s->n_plans,
                              .n_stay = s->trace.n_stay,
                              .n_measured = s->runner.tuning ? tuning_measured(s->runner.tuning) : 0};
    if (!s->current) return TN_OK;
    FrameInfo f;
    TRY(frame_info(s->current, &f));
    for (size_t i = 0; i < f.n_planned; i++) info->n_tuned += is_tuned(&s->current->steps[i]);
    info->n_planned = f.n_planned;
    info->planned = f.complete;
    info->n_segments = f.n_segments;
    info->flops = f.flops;
    info->arena_bytes = f.arena_bytes;
    info->bound_bytes = f.bound_bytes;
    info->plain_bytes = f.plain_bytes;
    info->moved_bytes = f.moved_bytes;
    info->moves_bytes = f.moves_bytes;
    return TN_OK;
}

/* ---- instructions -------------------------------------------------------------------------------------------- */

static const char *runs_as(const Step *step, bool planned) {
    if (!planned) return "?";
    if (step->folded) return "folded";
    if (step->action == STEP_NOTHING) return step->made && step->made[0].list.arena ? "virtual" : "view";
    return step->action == STEP_RASTER ? "raster" : step->kernel->name;
}

static bool is_planned(const Frame *f, size_t i) {
    for (size_t k = 0; f && k < f->segments.len && f->segments.data[k].planned; k++)
        if ((int32_t)i < f->segments.data[k].end) return true;
    return false;
}

tn_status tn_session_instruction(const tn_session *s, size_t i, tn_instruction_info *info) {
    if (!s || !info) return fail(TN_INVALID_ARGUMENT, "session or info is NULL");
    if (i >= session_program(s)->instrs.len)
        return fail(TN_OUT_OF_RANGE, "instruction %zu of %zu", i, session_program(s)->instrs.len);
    const Instr *instr = &session_program(s)->instrs.data[i];
    Frame *f = s->current;
    bool planned = is_planned(f, i);
    *info = (tn_instruction_info){
        .index = i, .node = instr->node->loc.s ? instr->node->loc.s : "", .op = instr->label, .rank = -1};
    info->kernel = runs_as(planned ? &f->steps[i] : NULL, planned);
    info->way = planned ? way_of(f, i) : "";
    info->tuned = planned && is_tuned(&f->steps[i]);
    info->n_operands = instr->n_in;
    info->n_results = instr->n_out;
    if (!planned) return TN_OK;
    Traffic traffic = frame_traffic(f, i);
    info->flops = frame_flops(f, i);
    info->nanoseconds = f->steps[i].nanoseconds;
    info->began = f->steps[i].began;
    info->bytes_read = traffic.read;
    info->bytes_written = traffic.written;
    info->moved_bytes = traffic.moved;
    if (instr->n_out == 0 || !frame_shape_known(f, instr->out[0]) || f->t[instr->out[0]].kind != TYPE_TENSOR)
        return TN_OK;
    const Tensor *t = &f->t[instr->out[0]];
    info->dtype = t->dtype;
    info->rank = t->rank;
    memcpy(info->dims, t->dims, sizeof info->dims);
    return TN_OK;
}

tn_status tn_session_instruction_value(const tn_session *s, size_t i, size_t k, tn_value_info *info) {
    if (!s || !info) return fail(TN_INVALID_ARGUMENT, "session or info is NULL");
    const Program *program = session_program(s);
    if (i >= program->instrs.len) return fail(TN_OUT_OF_RANGE, "instruction %zu of %zu", i, program->instrs.len);
    const Instr *instr = &program->instrs.data[i];
    if (k >= (size_t)instr->n_in + instr->n_out)
        return fail(TN_OUT_OF_RANGE, "value %zu of %zu", k, (size_t)instr->n_in + instr->n_out);
    int32_t slot = k < instr->n_in ? instr->in[k] : instr->out[k - instr->n_in];
    if (slot < 0) {
        *info = (tn_value_info){.name = "", .rank = -1, .type = "?"};
        return TN_OK;
    }
    const Value *v = program->slots.data[slot].value;
    fill_value_info(s->ir, v->name, v->type, info);
    if (is_planned(s->current, i) && frame_shape_known(s->current, slot)) set_planned(&s->current->t[slot], info);
    return TN_OK;
}

tn_status tn_session_kernel(const tn_session *s, size_t i, size_t k, tn_kernel_choice *choice) {
    if (!s || !choice) return fail(TN_INVALID_ARGUMENT, "session or choice is NULL");
    if (i >= session_program(s)->instrs.len)
        return fail(TN_OUT_OF_RANGE, "instruction %zu of %zu", i, session_program(s)->instrs.len);
    if (!is_planned(s->current, i) || s->current->steps[i].folded || s->current->steps[i].action != STEP_KERNEL)
        return fail(TN_OUT_OF_RANGE, "no kernel runs instruction %zu", i);
    size_t n, at = 0;
    const KernelDesc *const *table = kernel_table(&n), *chosen = s->current->steps[i].kernel;
    uint32_t targets = s->runner.targets | 1u << TARGET_ANY;
    bool asked = true;
    for (size_t row = 0; row < n; row++) {
        bool here = targets & 1u << table[row]->place.target;
        if (!here || !kernel_runs_op(table[row], session_program(s)->instrs.data[i].node->op)) continue;
        if (at++ == k) {
            *choice = (tn_kernel_choice){.kernel = table[row]->name,
                                         .target = target_name(table[row]->place.target),
                                         .priority = table[row]->priority,
                                         .chosen = table[row] == chosen,
                                         .asked = asked};
            return TN_OK;
        }
        if (table[row] == chosen) asked = false;
    }
    return fail(TN_OUT_OF_RANGE, "kernel %zu of %zu", k, at);
}

int session_before(void *user, size_t i) {
    tn_session *s = user;
    tn_instruction_info info;
    if (tn_session_instruction(s, i, &info) != TN_OK) return 2;
    tn_action answer = s->options->before(s->options->user, &info);
    return answer == TN_SKIP_OP ? 1 : answer == TN_STOP ? 2 : 0;
}

/* Dense handles of an instruction's results; strided ones and sub-byte readings are copied. */
static tn_status result_handle(tn_session *s, int32_t slot, tn_tensor **out) {
    const Tensor *t = &s->current->t[slot];
    Tensor dense = *t;
    if (t->kind != TYPE_TENSOR) {
        TRY(tensor_keep(s->ctx, t, &dense));
        tn_status status = tensor_handle(s->ctx, &dense, out);
        if (status != TN_OK) tensor_release(&dense);
        return status;
    }
    dense.buffer = NULL;
    if (!t->data || !tensor_is_dense(t) || t->offset != 0 || t->dtype == TN_STRING) {
        TRY(tensor_new(s->ctx, t->dtype, t->rank, t->dims, &dense));
        TRY(frame_read(s->current, slot, dense.data));
    }
    tn_status status = tensor_handle(s->ctx, &dense, out);
    if (status != TN_OK) tensor_release(&dense);
    return status;
}

int session_after(void *user, size_t i) {
    tn_session *s = user;
    const Instr *instr = &session_program(s)->instrs.data[i];
    tn_instruction_info info;
    tn_tensor *results[OP_MAX_OUTPUTS] = {0};
    size_t n = min_i64(instr->n_out, OP_MAX_OUTPUTS);
    tn_status status = tn_session_instruction(s, i, &info);
    for (size_t k = 0; k < n && status == TN_OK; k++)
        if (frame_shape_known(s->current, instr->out[k])) status = result_handle(s, instr->out[k], &results[k]);
    tn_action answer = status == TN_OK ? s->options->after(s->options->user, &info, results, n) : TN_STOP;
    for (size_t k = 0; k < n; k++) tn_tensor_release(results[k]);
    return answer == TN_STOP ? 2 : 0;
}

/* ---- ops ----------------------------------------------------------------------------------------------------- */

size_t tn_n_ops(void) {
    size_t n;
    op_table(&n);
    return n;
}

static void add_word(char *text, size_t size, const char *word) {
    size_t n = strlen(text), k = strlen(word);
    if (n + k + 3 > size) return;
    if (n) memcpy(text + n, ", ", 2), n += 2;
    memcpy(text + n, word, k + 1);
}

/* In the order in which they are tried; what is a list of regions needs none. */
static const char *kernels_of(const OpSchema *op) {
    static _Thread_local char text[256];
    size_t n;
    const KernelDesc *const *kernels = kernel_table(&n);
    text[0] = 0;
    if (op->regions) add_word(text, sizeof text, "regions");
    for (size_t i = 0; i < n; i++)
        if (kernel_runs_op(kernels[i], op)) add_word(text, sizeof text, kernels[i]->name);
    return text;
}

tn_status tn_op(size_t i, tn_op_info *info) {
    static const char *const kinds[] = {"atomic", "deformable", "composite", "host"};
    static _Thread_local char types[256];
    size_t n, used = 0;
    const OpSchema *const *ops = op_table(&n);
    if (i >= n) return fail(TN_OUT_OF_RANGE, "op %zu of %zu", i, n);
    const OpSchema *op = ops[i];
    types[0] = 0;
    TypeSet set = op_inputs(op)[0].name ? op_inputs(op)[0].types : op_outputs(op)[0].types;
    for (int t = 1; t < TN_DTYPE_END; t++) {
        size_t k = strlen(dtype_name((tn_dtype)t));
        if (!(set & TS(t)) || used + k + 2 > sizeof types) continue;
        if (used) types[used++] = ' ';
        memcpy(types + used, dtype_name((tn_dtype)t), k + 1);
        used += k;
    }
    *info = (tn_op_info){.domain = op->domain ? op->domain : "",
                         .name = op->name,
                         .kind = kinds[op->kind],
                         .summary = op->summary ? op->summary : "",
                         .types = types,
                         .kernels = kernels_of(op),
                         .lowering = op_lowering(op),
                         .ways = op_ways(op)};
    return TN_OK;
}
