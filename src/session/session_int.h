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
    uint32_t growing; /* as the session's when it was made */
} Plan;

/* An output that is an input of the next run. */
typedef struct State {
    struct State *next;
    size_t input, output;
    int64_t capacity;
    int axis;         /* along which the output is the input with something behind it; -1: it is not, or not in place */
    int64_t room;     /* positions along it that `value` has memory for; 0: it is dense */
    Memory memory[2]; /* one is read by a run, the other written, unless what is new is written behind the old */
    int now;          /* the one that holds `value` */
    bool filled;      /* `value` is something; else the next run begins with the first one */
    bool appended;    /* this run did it */
    Tensor value, coming;
} State;

/* Which instructions stay as they are from plan to plan. */
typedef struct Trace {
    tn_shape_mode mode;
    size_t n_plans, n_stay;
    Arena arena;
    bool *stays;   /* by instruction */
    Tensor *first; /* by slot: sizes in the first plan */
} Trace;

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
    Frame *current; /* NULL: not planned, or the last resize failed */
    bool failed;    /* it did, for this reason */
    char reason[1024];
    tn_pass_report *report; /* of the passes before shapes are known; NULL: they had been run before */
    size_t n_out;
    Tensor *inputs;      /* readings of the inputs of this run */
    tn_tensor **results; /* of this run */
    Shelf *shelf;        /* memory of theirs */
    bool *given;         /* results[i] is the caller's */
    bool *written;       /* results[i] was written by an instruction */
    bool *fed;           /* an input was given for this run */
    Trace trace;
    State *states;
    size_t n_states;
    Growth *growths;        /* room for all states; those of this run are the runner's */
    uint32_t growing;       /* 0: none grows in place in this run; else which do, by a number that changes with them */
    uint32_t growth_serial; /* that number */
    State **by_input, **by_output; /* NULL: not bound */
    bool tunes;                    /* what its plans lack is measured */
    const char *tuning_file;       /* NULL: none */
    void (*tuning)(void *user, size_t done, size_t of);
    void *tuning_user;
    size_t tuning_kept; /* measured choices that it has */
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
/* Whether the current frame is for s->inputs. */
bool session_fits(const tn_session *s);

/* trace.c. Notes the plan that is now current, or fails where it changes what is fixed. */
tn_status session_trace(tn_session *s);

/* session.c. Around what changes a session: two threads in one, or a call-back that calls its own, would overwrite each
   other's values. */
tn_status session_enter(tn_session *s);
tn_status session_leave(tn_session *s, tn_status status);

/* tuning.c. The runner's tuning, where the options want one. */
tn_status session_open_tuning(tn_session *s, const tn_session_options *o);
/* Measures what the current plan is to have measured. */
tn_status session_tune(tn_session *s);
/* Whatever was measured since goes to the file; a failure to the log. */
void session_keep_tuning(tn_session *s);

/* state.c. Bound inputs that are not given (NULL: none are) are what is remembered. */
tn_status session_take_states(tn_session *s, const bool *given);
/* Whether output `t` is the state's value after this run as it is: what was there, with what was written behind it. */
bool session_state_stayed(tn_session *s, State *state, const Tensor *t);
/* Memory for the state's value after this run. */
tn_status session_state_memory(tn_session *s, State *state, const Tensor *like, void **data);
void session_advance_states(tn_session *s);
uint64_t session_state_bytes(const tn_session *s);
void session_free_states(tn_session *s);

/* ops.c. What an op is made of for targets without a kernel for it; "". */
const char *op_lowering(const OpSchema *op);
const char *op_ways(const OpSchema *op); /* of "origin geometry loop" those that it has */

/* inspect.c */
int session_before(void *user, size_t instr);
int session_after(void *user, size_t instr);

#endif
