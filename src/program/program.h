/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as an array of instructions, planned for concrete shapes, and what runs it. */
#ifndef TENON_PROGRAM_PROGRAM_H
#define TENON_PROGRAM_PROGRAM_H

#include "eval/eval.h"
#include "kernel/kernel.h"
#include "plan/plan.h"

/* ---- programs ------------------------------------------------------------------------------------------------ */

/* What a value is to a program. */
typedef enum SlotKind { SLOT_INPUT, SLOT_CONST, SLOT_CAPTURE, SLOT_RESULT } SlotKind;
typedef struct Slot {
    const Value *value;
    SlotKind kind;
    bool is_output;
    uint32_t index;   /* of an input or capture */
    int32_t def;      /* the instruction that makes it; -1 */
    int32_t last_use; /* the last instruction that reads it; n_instrs when it is an output; -1: nobody */
    int32_t graph_def, graph_last_use; /* the same in the graph's own order */
} Slot;

typedef struct Program Program;
typedef struct Instr {
    const Node *node;
    const char *label; /* its op; of a tn.Fused what is in it, "Conv+Relu" */
    uint32_t n_in, n_out, n_bodies, n_captures;
    int32_t *in;       /* slots; -1: absent */
    int32_t *out;      /* slots */
    Program **bodies;  /* of the node's nested graphs */
    int32_t *captures; /* slots that the bodies read besides the operands */
} Instr;

/* Immutable once built. Instructions stand in the graph's order; those that no wanted output needs are left out, those
   that read only constants stand just before the first that reads their results. */
struct Program {
    Context *ctx;
    const Graph *graph;
    Arena arena;
    VEC(Slot) slots;
    VEC(Instr) instrs;
    VEC(int32_t) inputs;   /* slot of each graph input */
    VEC(int32_t) outputs;  /* slot of each wanted output */
    VEC(int32_t) captures; /* slots of values of graphs around */
};

/* `outputs` are values of `graph` (NULL with 0: the graph's outputs). */
tn_status program_build(Context *ctx, const Graph *graph, Value *const *outputs, size_t n_outputs, Program **out);
void program_free(Program *program); /* NULL is ignored */

/* ---- tuning (tuning.c) --------------------------------------------------------------------------------------- */

/* Which ways were found to be the fastest, by text that says what the work is. Used by one thread at a time. */
typedef struct Tuning Tuning;
typedef struct TuningChoice {
    const char *way; /* NULL: of work whose sizes are not declared, which says `packs` only */
    const char *packs;
    double us, usual_us; /* microseconds, of the usual way too */
} TuningChoice;
tn_status tuning_new(const Allocator *allocator, Tuning **out);
void tuning_free(Tuning *tuning); /* NULL is ignored */
/* NULL: nobody has measured that. Valid until the next change. */
const TuningChoice *tuning_find(const Tuning *tuning, Str work);
/* Copies. `measured`: here, and not read from a file. */
tn_status tuning_set(Tuning *tuning, Str work, const TuningChoice *choice, bool measured);
size_t tuning_measured(const Tuning *tuning); /* how many were */
tn_status tuning_each(const Tuning *tuning, tn_status (*fn)(void *user, Str work, const TuningChoice *choice),
                      void *user);
/* What a node's work is: kernel, op, attributes, body, and its operands and results: as planned, or as declared. */
void tuning_describe(const KernelQuery *q, bool declared, Text *out);
/* Whether the model declares all sizes of the node's operands. */
bool tuning_is_declared(const KernelQuery *q);
/* The way for `q` that was found before; 0: nothing is known. */
tn_status tuning_way(const Tuning *tuning, const KernelQuery *q, int *way);
/* Of `offered`, those that read what ways chosen for the same node at other sizes read: constants are packed once. All, where
   none was chosen, or none of them does. */
tn_status tuning_allowed(const Tuning *tuning, const KernelQuery *q, uint32_t offered, uint32_t *allowed);
/* Keeps `way` for such work, with what it took; of work as declared (empty: all of that is declared) what it packs. */
tn_status tuning_keep(Tuning *tuning, const KernelDesc *kernel, Str work, Str declared, int way, double us,
                      double usual_us);

/* ---- running ------------------------------------------------------------------------------------------------- */

typedef enum StepAction {
    STEP_NOTHING, /* no result needs work: views, virtual values, what was known when planning */
    STEP_RASTER,
    STEP_KERNEL
} StepAction;

/* A result that only moves data: boxes of other slots, as they are read. */
typedef struct Made {
    RegionList list;
    const int32_t *sources; /* slots, by the list's numbers */
    int32_t n_sources;
    const void *fill; /* one element for what the list leaves open; NULL: zero bytes */
    bool runs;        /* by a raster, with the instruction; else it is a view, a virtual value, or lies there already */
} Made;

/* What a kernel prepared, held by the steps of all frames of a session that it serves. */
typedef struct Held {
    Prepared prepared;
    int way;            /* that it is for */
    uint64_t constants; /* bit k: operand k was a constant; HELD_ONCE: it serves nobody else */
    size_t n_holders;
} Held;
#define HELD_ONCE UINT64_MAX

/* How an instruction runs for the shapes at hand. */
typedef struct Step {
    StepAction action;
    bool folded;
    const KernelDesc *kernel;
    Held *held;                  /* NULL: its kernel prepares nothing */
    int way;                     /* of the kernel's; 0: it has one only, or chooses by itself */
    int usual;                   /* that it takes by itself, where the session is tuned; 0: it has one only */
    struct Trials *trials;       /* ways to be measured; NULL: none */
    uint32_t pack;               /* bit i: operand i is handed over as a dense copy */
    Made *made;                  /* one a result; NULL: a kernel makes them */
    uint64_t began, nanoseconds; /* of the last run that was profiled; on the clock of monotonic_ns */
} Step;

/* Memory for intermediate values; grows, never shrinks. One frame uses it at a time. */
typedef struct Memory {
    void *base;
    size_t size;
} Memory;

/* An output of the outermost program that may begin with an input whose memory has room for more: for `room` positions
   along the axis, its strides are those of growth_strides. */
typedef struct Growth {
    size_t input, output;
    int axis;
    int64_t room;
} Growth;
/* Dense but for the axis, along which there is room. */
void growth_strides(Tensor *t, int axis, int64_t room);

/* What all frames of a session share while they run. */
typedef struct Runner {
    Context *ctx;
    Arena scratch;
    atomic_bool cancelled;
    uint64_t deadline; /* monotonic nanoseconds; 0: none */
    uint32_t targets;  /* bits: whose kernels may run */
    int made_moves;    /* of results that only move data: 0: as few as can be; 1: all but views; 2: all are made */
    bool accurate;     /* what kernels are asked for, see KernelQuery */
    bool plan_only;    /* kernels prepare nothing: what is planned now cannot run */
    bool profile;
    /* Around each instruction of the outermost program; may be NULL. */
    int (*before)(void *user, size_t instr);
    int (*after)(void *user, size_t instr);
    void *user;
    Tuning *tuning;        /* which ways kernels take; NULL: the usual ones */
    bool tune;             /* what is planned now and it does not know is to be measured */
    bool measuring;        /* it is being: results are of no use */
    size_t round;          /* how often it has been */
    size_t n_trials;       /* instructions that wait for it */
    const Growth *growths; /* while frames are planned */
    size_t n_growths;
    /* Memory for graph output i of the outermost program, whose shape is known now. */
    tn_status (*output)(void *user, size_t i, const Tensor *like, void **data);
} Runner;

typedef struct Segment {
    int32_t start, end;
    Arena arena; /* lists of regions, contents computed while planning */
    bool planned;
    struct Assumption *assumptions;
    size_t n_assumptions;
} Segment;

/* A program with plans: tensors of all slots. */
typedef struct Frame {
    const Program *program;
    Runner *runner;
    bool outermost;
    bool planned; /* for inputs like `signature` */
    Arena arena;
    Tensor *t;                /* by slot */
    struct SlotState *state;  /* by slot */
    Step *steps;              /* by instruction */
    struct Frame ***children; /* by instruction and body; NULL until run */
    const struct Frame
        *like; /* while it is planned: a frame of the same program to share what kernels prepared; or NULL */
    VEC(Segment) segments;
    Memory *memory;
    Memory own_memory;
    int64_t arena_size;    /* of the plan so far */
    VEC(int32_t) owned;    /* slots with memory of their own: strings, results of unknown size */
    VEC(Tensor) signature; /* inputs and captures as planned */
    bool constants_due;    /* some constant is wanted that is not in place yet */
    void **output_data;    /* by output: the session's memory for it, once asked for */
} Frame;

/* A reading of a constant's or default's payload. One that lies askew in its file is replaced by an aligned copy, once
   for all sessions of the model, where that may be done now; so do bytes that are made when they are needed. */
tn_status payload_read(Context *ctx, Tensor *payload, bool may_align, Tensor *reading);
/* The payload as it is now; holds its buffer, for tensor_release. */
void payload_hold(const Tensor *payload, Tensor *out);
tn_status frame_new(const Program *program, Runner *runner, Memory *memory /* NULL: its own */, Frame **out);
void frame_free(Frame *frame); /* NULL is ignored */

/* Plans the first segment for these inputs (dims and strides; NULL data): what each instruction does, then where its
   results lie. frame_plan is both. */
tn_status frame_choose(Frame *frame, const Tensor *inputs, const Tensor *captures);
tn_status frame_place(Frame *frame);
tn_status frame_plan(Frame *frame, const Tensor *inputs, const Tensor *captures);
/* Whether the frame is planned for inputs like these. */
bool frame_fits(const Frame *frame, const Tensor *inputs, const Tensor *captures);
/* Runs with these inputs (planned before); results are then frame->t of the output slots. */
tn_status frame_run(Frame *frame, const Tensor *inputs, const Tensor *captures);
bool frame_shape_known(const Frame *frame, int32_t slot);
/* Copies a tensor that has been made, as dense elements; also one that is virtual, while what it is made of lives. */
tn_status frame_read(Frame *frame, int32_t slot, void *dst);
/* Once it was run while measuring: instructions take the ways that were the fastest, which the tuning keeps; the usual ones
   where not all were run. */
tn_status frame_settle(Frame *frame);
size_t frame_most_ways(const Frame *frame); /* of an instruction that waits for it */
bool frame_may_measure(const Frame *frame); /* whether any does, or some may that are not planned yet */
/* Gives back memory outside the arena: strings, results of unknown size. After the results were read. */
void frame_finish(Frame *frame);

/* Sums over what is planned. */
typedef struct FrameInfo {
    uint64_t arena_bytes, bound_bytes, plain_bytes, allocated_bytes;
    uint64_t moved_bytes; /* by all that does no arithmetic: rasters, copies, kernels of ops that only move data */
    uint64_t moves_bytes; /* what the graph's ops that only move data would write, one by one */
    double flops;
    size_t n_segments;
    size_t n_planned; /* instructions */
    bool complete;    /* all are */
} FrameInfo;
tn_status frame_info(const Frame *frame, FrameInfo *info);

/* What an instruction that is planned reads and writes, as far as it is known: elements of operands and results, each once,
   whatever their kernel reads again. */
typedef struct Traffic {
    uint64_t read, written;
    uint64_t moved; /* written without arithmetic: by rasters, and as dense copies of operands */
} Traffic;
Traffic frame_traffic(const Frame *frame, size_t i);
/* Its floating-point operations: 0 where sizes are not known, and of what is folded. */
double frame_flops(const Frame *frame, size_t i);
int frame_usual_way(Frame *f, size_t i); /* that its kernel takes by itself; 0: it has one only */

tn_status runner_init(Runner *runner, Context *ctx);
void runner_free(Runner *runner);
tn_status runner_poll(Runner *runner);
uint64_t monotonic_ns(void);

#endif
