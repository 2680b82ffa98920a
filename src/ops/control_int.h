/* SPDX-License-Identifier: Apache-2.0 */
/* What If, Loop and Scan share: types of nested graphs, values carried from turn to turn, results grown slice by
   slice. */
#ifndef TENON_OPS_CONTROL_INT_H
#define TENON_OPS_CONTROL_INT_H

#include "ops/move_int.h"

/* ---- inference ----------------------------------------------------------------------------------------------- */

/* What a nested graph says of its output i. While a program runs, sizes that are no numbers count as unknown. */
InferValue body_output(const InferCtx *c, const Graph *body, size_t i);
/* What holds of a value that is either of the two: equal sizes stay, others are unknown. TN_SHAPE when the element
   types differ. */
tn_status either_of(const InferValue *a, const InferValue *other, int result, InferValue *out);
void set_result(InferCtx *c, int out, const InferValue *value);
/* A dimension inserted at `axis` (which may be negative). */
tn_status insert_dim(Shape *s, int64_t axis, Dim size, const char *what);

/* ---- kernels ------------------------------------------------------------------------------------------------- */

/* Memory that grows and never shrinks, on the kernel's scratch arena. String elements in it hold references. */
typedef struct Slot {
    tn_dtype dtype;
    void *data;
    size_t bytes;
} Slot;
void slot_release(Slot *slot); /* the strings' references */

/* A value that one turn gives to the next. A turn's results may be readings of this turn's operands, of other carried
   values too, so each is copied into the slot that is not being read. */
typedef struct Carried {
    Tensor now;
    Slot slots[2];
    int used;
    Tensor objects[2]; /* the references, where they are no tensors */
} Carried;
void carried_release(Carried *carried);
tn_status carry(KernelCtx *c, Carried *carried, const Tensor *next);

/* A result that each turn adds a slice to. */
typedef struct Stack {
    int index;      /* of the result */
    int64_t axis;   /* in the result; may be negative */
    bool backwards; /* the first slice is the last */
    int64_t length; /* number of slices, -1: not known */
    int64_t n, cap; /* slices so far; slices that fit the slot */
    Tensor slice;   /* dims of the first one */
    Slot slot;      /* where slices wait when their number is not known */
} Stack;
tn_status stack_push(KernelCtx *c, Stack *stack, const Tensor *slice);
/* Makes the result of what was pushed; with nothing pushed, of what the body says of slices. */
tn_status stack_finish(KernelCtx *c, Stack *stack, const Value *body_output);

/* Result i gets a copy of the tensor. */
tn_status give_result(KernelCtx *c, int i, const Tensor *value);
/* The truth of a scalar. */
tn_status read_bool(const Tensor *t, const char *what, bool *out);

#endif
