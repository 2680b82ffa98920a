/* SPDX-License-Identifier: Apache-2.0 */
/* The session's own state, and the plans it keeps. */
#ifndef TENON_SESSION_SESSION_INT_H
#define TENON_SESSION_SESSION_INT_H

#include "session/passes_int.h"

/* What is planned for one set of shapes. */
typedef struct Plan {
    Frame *frame;
    Model *ir;        /* the graph for these shapes, where passes wanted one; else NULL */
    Program *program; /* of that graph */
} Plan;

struct tn_session {
    tn_model *model;
    OptimizedModel *optimized; /* NULL: the model as it is */
    Model *ir;                 /* what runs: of one of the two */
    PassPlan *passes;          /* those that run for each set of shapes */
    bool shapes_graph;         /* some of them want a graph with these shapes */
    Context *ctx;
    Arena arena;
    bool arena_ready;
    Program *program; /* of `ir` */
    Runner runner;
    Memory memory; /* shared by the frames: one runs at a time */
    Plan *plans;   /* the last used first */
    size_t n_plans, max_plans;
    Frame *current;         /* NULL: not planned, or the last resize failed */
    tn_pass_report *report; /* of the passes before shapes are known; NULL: they had been run before */
    size_t n_out;
    Tensor *inputs;      /* readings of the inputs of this run */
    tn_tensor **results; /* of this run */
    bool *given;         /* results[i] is the caller's */
    bool *written;       /* results[i] was written by an instruction */
    const tn_run_options *options;
    atomic_bool busy; /* in a call that changes it */
};

/* The program that runs at the shapes at hand. */
static inline const Program *session_program(const tn_session *s) {
    return s->current ? s->current->program : s->program;
}
/* plan.c. The program of `ir`, made on first need. */
tn_status session_generate(tn_session *s);
/* Makes the frame for s->inputs the current one, planned if need be; the plan used longest ago makes room. */
tn_status session_plan(tn_session *s);
void session_drop_plans(tn_session *s);

int session_before(void *user, size_t instr);
int session_after(void *user, size_t instr);

#endif
