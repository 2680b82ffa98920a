/* SPDX-License-Identifier: Apache-2.0 */
/* Planning by what was planned before: where an instruction's operands are in the plan for other sizes as they are now, its
   results, its kernel and what that prepared are what they were there, and nothing is asked again. */
#include "program/program_int.h"

/* Of a constant the same places may be read of another part, or of another constant, which kernels see. */
static bool is_part_of_constant(const Frame *f, int32_t s) {
    int32_t root = s;
    while (f->state[root].root != root) root = f->state[root].root;
    return root != s && f->program->slots.data[root].kind == SLOT_CONST;
}

/* Whether the slot is read as it was when that other plan was made. What was computed while planning may have other contents
   now, and rows that were spread lie otherwise than they did when kernels were chosen. */
static bool is_same(const Frame *f, int32_t s) {
    const SlotState *now = &f->state[s], *then = &f->like->state[s];
    if (!now->known || !then->known || then->spread || now->fixed != then->fixed) return false;
    if (now->fixed && f->program->slots.data[s].kind != SLOT_CONST) return false;
    if (is_part_of_constant(f, s) || is_part_of_constant(f->like, s)) return false;
    return f->t[s].kind == TYPE_TENSOR && same_reading(&f->t[s], &f->like->t[s]);
}

static bool operands_are_same(const Planning *p, const Instr *instr) {
    for (uint32_t k = 0; k < instr->n_in; k++) {
        int32_t s = instr->in[k];
        if (s < 0) continue;
        if (!is_same(p->f, s)) return false;
        bool decides = k < 32 && instr->node->op->content_inputs & 1u << k;
        if (decides && p->f->program->slots.data[s].kind != SLOT_CONST) return false;
    }
    return true;
}

/* Results of sizes known ahead, as their kernel was given them. */
static bool results_serve(const Frame *like, const Instr *instr) {
    for (uint32_t k = 0; k < instr->n_out; k++) {
        const SlotState *state = &like->state[instr->out[k]];
        const Tensor *t = &like->t[instr->out[k]];
        if (!state->known || state->told || state->spread || state->grew || state->made) return false;
        if (t->kind != TYPE_TENSOR || t->dtype == TN_STRING) return false;
    }
    return instr->n_out > 0;
}

static bool may_reuse(const Planning *p, int32_t i, const Instr *instr) {
    const Frame *like = p->f->like;
    if (!like || p->index > 0 || p->f->runner->tuning || instr->n_captures > 0) return false;
    if (like->segments.len == 0 || !like->segments.data[0].planned || i >= like->segments.data[0].end) return false;
    const Step *step = &like->steps[i];
    if (step->folded || step->action != STEP_KERNEL || (step->kernel->prepare && !step->held)) return false;
    return results_serve(like, instr) && operands_are_same(p, instr);
}

static void take_results(Planning *p, const Instr *instr) {
    for (uint32_t k = 0; k < instr->n_out; k++) {
        int32_t s = instr->out[k];
        const Slot *slot = &p->f->program->slots.data[s];
        p->f->state[s] = (SlotState){.known = true,
                                     .root = s,
                                     .root_first = slot->def,
                                     .root_last = (int32_t)max_i64(slot->def, slot->last_use),
                                     .gives_output = slot->is_output && p->f->outermost,
                                     .bytes = p->f->like->state[s].bytes};
        p->f->t[s] = p->f->like->t[s];
        p->f->t[s].data = NULL;
        p->f->t[s].buffer = NULL;
    }
}

bool reuse_step(Planning *p, int32_t i) {
    const Instr *instr = &p->f->program->instrs.data[i];
    Step *step = &p->f->steps[i];
    if (!may_reuse(p, i, instr)) return false;
    const Step *like = &p->f->like->steps[i];
    Held *before = step->held;
    trials_free(p->f, step);
    take_results(p, instr);
    step->action = STEP_KERNEL;
    step->folded = false;
    step->made = NULL;
    step->kernel = like->kernel;
    step->way = like->way;
    step->usual = like->usual;
    step->pack = like->pack;
    step->held = like->held;
    if (step->held) step->held->n_holders++;
    step_let_go(before, &p->f->runner->ctx->allocator);
    return true;
}
