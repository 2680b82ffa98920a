/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/program share. */
#ifndef TENON_PROGRAM_PROGRAM_INT_H
#define TENON_PROGRAM_PROGRAM_INT_H

#include "program/program.h"

/* Whose memory a slot's bytes lie in. */
typedef enum Home {
    HOME_NONE,   /* not planned yet */
    HOME_INPUT,  /* given for the run: inputs, captures */
    HOME_CONST,  /* the model's, or computed while planning */
    HOME_ARENA,  /* the frame's memory at `offset` */
    HOME_OUTPUT, /* memory of graph output `offset`, given by the session */
    HOME_OWNED   /* a buffer of its own: strings, results of unknown size */
} Home;

typedef struct SlotState {
    bool known;        /* dims and strides are known */
    bool told;         /* by its kernel, at each run anew */
    bool fixed;        /* ready since before any run: constants and what follows from them and from shapes */
    bool wanted, read; /* of a constant: some instruction reads its bytes when it runs; they are in place */
    bool spread;       /* its rows were laid further apart after its kernel was chosen */
    bool grew;         /* it lies in the memory of the input that it begins with */
    bool gives_output; /* of a root: some slot in it is an output that goes into memory of the caller's */
    Home home;         /* of the root */
    int32_t root;      /* the slot whose memory this one lies in */
    int32_t root_first, root_last; /* of a root: the instructions that make and read any slot in it, first and last */
    int64_t at;                    /* where in the root's memory, in bytes; a view's offset comes on top */
    int64_t bytes;                 /* of a root */
    int64_t offset;                /* see Home */
    Made *made;                    /* it is virtual: what it is made of. NULL: it has bytes */
} SlotState;

/* What the plan of a later segment took for granted about a value made before. */
typedef struct Assumption {
    int32_t slot;
    Tensor like;
    const void *bytes; /* NULL: only its dims */
    size_t n_bytes;
} Assumption;

/* Contents of at most this many bytes are computed while planning. */
#define FOLD_BYTES 65536
/* What is computed from run-time contents while planning: shape arithmetic, no more. */
#define FOLD_ELEMENTS 64

/* ---- planning ------------------------------------------------------------------------------------------------ */

typedef struct Planning {
    Frame *f;
    Segment *seg;
    size_t index; /* of the segment; the first is planned before inputs have contents */
    Arena *scratch;
    VEC(Assumption) assumptions;
} Planning;

/* What is known of an instruction's operands and results. */
typedef struct Facts {
    const Tensor **in;
    InferValue *known;
    InferValue *found;
    Tensor *out;
} Facts;

/* moves.c. The root of a slot now, which is what it is once a segment is chosen. */
int32_t slot_root(Frame *f, int32_t s);
/* Results by regions: in the order of preference as views, in the place of what they are made of, virtual, by a raster. */
tn_status plan_moves(Planning *p, int32_t i, const Facts *x, bool *declined);
/* pitch.c. Those parts of a result that are rows side by side, and may lie there from the start; taken off the list. `is_free`
   says whether a root's memory may be another's. */
void join_rows(Planning *p, int32_t out, Made *m, int32_t i,
               bool (*is_free)(Frame *f, int32_t root, int32_t out, int32_t i));
/* Has rows that are parts of a page apart lie a little further apart, where that makes a kernel faster and all take it. */
void avoid_pages(Planning *p);
/* tune.c. Sets the way that the picked kernel takes, in the query and in the step, as the runner's tuning says; makes trials of
   what is to be measured. */
typedef struct Trials Trials;
tn_status choose_way(Planning *p, int32_t i, KernelQuery *q, Step *step);
void trials_free(const Frame *f, Step *step);
/* Operands that neither the step nor any trial reads. */
uint32_t trials_replaced(const Step *step);
/* While measuring, how the step is to be done this time; NULL: as it is. */
struct Trial *trial_next(Frame *f, const Step *step, int32_t i);
const Prepared *trial_prepared(const struct Trial *t, int *way);
void trial_note(struct Trial *t, uint64_t nanoseconds);
/* append.c. Whether the result lies behind the input that it begins with; then `m` is what is left to write there. */
bool plan_append(Planning *p, int32_t out, Made *m);
/* The same for a result that its kernel writes behind the value `past`. */
void plan_grown(Planning *p, int32_t past, int32_t out);
/* Somebody reads bytes of the slot: a virtual one is made by its instruction after all. */
void need_bytes(Frame *f, int32_t s);

/* What its instructions do; then where results lie. segment_plan is both. */
tn_status segment_choose(Frame *f, size_t k);
tn_status segment_place(Frame *f, size_t k);
tn_status segment_plan(Frame *f, size_t k);
/* Whether what the plan assumed still holds. */
bool segment_holds(const Frame *f, size_t segment);
/* What an instruction reads of constants, but for operands whose bit is set, has to be there when it runs. */
void want_constants(Frame *f, const Instr *instr, uint32_t replaced);
/* Takes over what was prepared, also on failure. */
tn_status hold(Context *ctx, Prepared *prepared, int way, Held **out);
/* One holder less; NULL is ignored. */
void step_let_go(Held *held, const Allocator *a);
bool same_reading(const Tensor *a, const Tensor *b);
/* reuse.c. Takes over how instruction i runs from the frame that this one is like; false: it is to be planned. */
bool reuse_step(Planning *p, int32_t i);
/* Puts those in place that are wanted: a later run takes no lock for them. */
tn_status frame_read_constants(Frame *f);
/* Data pointers from their homes of slots planned and made before instruction `end`: what comes after may be planned
   anew. */
tn_status frame_bind(Frame *f, int32_t end);
/* Constants and given tensors take their places for a run. */
tn_status frame_start(Frame *f, const Tensor *inputs, const Tensor *captures);
/* Memory for that many bytes, where values keep their offsets; unless `keep`, what is there is of no use any more. */
tn_status frame_reserve(Frame *f, int64_t size, bool keep);
/* Zeroed memory of its own for slot `s`, whose tensor is set but for data. */
tn_status frame_own(Frame *f, int32_t s);
/* Slot `s` becomes a value that its kernel brought; the reference is taken over, also on failure. */
tn_status frame_take(Frame *f, int32_t s, Tensor *value);
void frame_disown(Frame *f, int32_t s);

#endif
