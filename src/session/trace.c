/* SPDX-License-Identifier: Apache-2.0 */
/* Which instructions do not depend on what changes from plan to plan: traced while a session meets its sizes, then held. */
#include "session/session_int.h"

/* ---- what is traced ------------------------------------------------------------------------------------------ */

static bool in_first_segment(const Frame *f, size_t i) {
    return f->segments.len > 0 && f->segments.data[0].planned && (int32_t)i < f->segments.data[0].end;
}

static bool same_sizes(const Tensor *a, const Tensor *b) {
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* Whether all results are known when planning, and of the sizes that they were first. */
static bool stays(const Trace *trace, const Frame *f, size_t i) {
    const Instr *instr = &f->program->instrs.data[i];
    for (uint32_t k = 0; k < instr->n_out; k++) {
        int32_t s = instr->out[k];
        if (f->t[s].kind != TYPE_TENSOR || !frame_shape_known(f, s) || !same_sizes(&f->t[s], &trace->first[s]))
            return false;
    }
    return true;
}

static tn_status begin(tn_session *s) {
    const Program *p = s->program;
    Trace *trace = &s->trace;
    arena_reset(&trace->arena);
    trace->stays = arena_array(&trace->arena, bool, p->instrs.len + 1);
    trace->first = arena_array(&trace->arena, Tensor, p->slots.len + 1);
    if (!trace->stays || !trace->first) return TN_OUT_OF_MEMORY;
    memcpy(trace->first, s->current->t, p->slots.len * sizeof *trace->first);
    for (size_t i = 0; i < p->instrs.len; i++) trace->stays[i] = in_first_segment(s->current, i);
    return TN_OK;
}

static void count(Trace *trace, const Frame *f) {
    trace->n_stay = 0;
    for (size_t i = 0; i < f->program->instrs.len; i++) {
        trace->stays[i] = trace->stays[i] && in_first_segment(f, i) && stays(trace, f, i);
        trace->n_stay += trace->stays[i];
    }
}

/* ---- what is held -------------------------------------------------------------------------------------------- */

static tn_status hold_sizes(const tn_session *s) {
    const Frame *f = s->current;
    for (size_t i = 0; i < f->program->instrs.len; i++) {
        if (!s->trace.stays[i] || (in_first_segment(f, i) && stays(&s->trace, f, i))) continue;
        const Node *node = f->program->instrs.data[i].node;
        tn_status status = fail(TN_SHAPE, "sizes here were the same in all plans that were traced, and were fixed; now "
                                          "they are others");
        diag_set_node(node->loc.n ? node->loc.s : "", node->op->name);
        return status;
    }
    return TN_OK;
}

tn_status session_trace(tn_session *s) {
    if (s->trace.mode == TN_SHAPES_FREE) return TN_OK;
    if (s->trace.mode == TN_SHAPES_FIXED) return hold_sizes(s);
    if (s->trace.n_plans++ == 0) TRY(begin(s));
    count(&s->trace, s->current);
    return TN_OK;
}

static tn_status set_mode(tn_session *s, tn_shape_mode mode) {
    Trace *trace = &s->trace;
    if (mode < TN_SHAPES_FREE || mode > TN_SHAPES_FIXED) return fail(TN_INVALID_ARGUMENT, "%d is no mode", (int)mode);
    if (s->shapes_graph && mode != TN_SHAPES_FREE)
        return fail(TN_UNSUPPORTED, "some pass makes a graph for each set of shapes: there is nothing to hold on to");
    if (mode == TN_SHAPES_FIXED && trace->n_plans == 0)
        return fail(TN_STATE, "no plan has been traced: there is nothing to fix");
    if (mode != TN_SHAPES_FIXED) trace->n_plans = trace->n_stay = 0;
    trace->mode = mode;
    return mode == TN_SHAPES_TRACED && s->current ? session_trace(s) : TN_OK;
}

tn_status tn_session_set_shape_mode(tn_session *s, tn_shape_mode mode) {
    TRY(session_enter(s));
    return session_leave(s, set_mode(s, mode));
}
