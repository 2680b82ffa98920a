/* SPDX-License-Identifier: Apache-2.0 */
/* The session's own state. */
#ifndef TENON_SESSION_SESSION_INT_H
#define TENON_SESSION_SESSION_INT_H

#include "session/session.h"

struct tn_session {
    tn_model *model;
    Context *ctx;
    Arena arena;
    bool arena_ready;
    Program *program;
    Runner runner;
    Memory memory;  /* shared by the frames: one runs at a time */
    Frame **frames; /* plans, the last used first */
    size_t n_frames, max_frames;
    Frame *current; /* NULL: not planned, or the last resize failed */
    size_t n_out;
    Tensor *inputs;      /* readings of the inputs of this run */
    tn_tensor **results; /* of this run */
    bool *given;         /* results[i] is the caller's */
    bool *written;       /* results[i] was written by an instruction */
    const tn_run_options *options;
};

int session_before(void *user, size_t instr);
int session_after(void *user, size_t instr);

#endif
