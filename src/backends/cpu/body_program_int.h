/* SPDX-License-Identifier: Apache-2.0 */
/* What a body is once it is compiled: written by body.c, run by body_run.c. */
#ifndef TENON_BACKENDS_CPU_BODY_PROGRAM_INT_H
#define TENON_BACKENDS_CPU_BODY_PROGRAM_INT_H

#include "backends/cpu/body_int.h"
#include "backends/cpu/body_op_int.h"

/* A reading of an operand of the node that is run, or numbers that follow from constants. Those of i32 are read as they are. */
enum { AXIS_1 = -1 };
typedef struct BodyInput {
    int operand;
    int from_end; /* a vector along this axis, 1 being the last, or along axis 1 of the result; 0: broadcast as usual */
    tn_dtype dtype;
    const float *array; /* numbers of the body's own, `n` of them; NULL: an operand */
    int64_t n;
} BodyInput;

typedef enum BodyKind { BODY_CONST, BODY_INPUT, BODY_TILE, BODY_STEP } BodyKind;
typedef struct BodyValue {
    BodyKind kind;
    int index;      /* of an input */
    float constant; /* or the bits of a truth value */
    int reg;        /* the buffer that holds it, once there is one */
} BodyValue;

typedef struct BodyStep {
    BodyCode code;
    int n, dst, src[3];
    float p[2];
} BodyStep;

struct Body {
    int n_values, n_steps, n_inputs, n_results, n_regs;
    BodyValue *values;
    BodyStep *steps;
    BodyInput *inputs;
    int results[OP_MAX_OUTPUTS];     /* values */
    tn_dtype types[OP_MAX_OUTPUTS];  /* of results: F32, BOOL, F16, BF16, U8 or I8 */
    bool read_later[OP_MAX_OUTPUTS]; /* more is computed after it, which may read what lies where it is to go */
};

/* The tensor that is read: of an array, `own`. */
const Tensor *body_input_tensor(const BodyInput *in, const Tensor *const *operands, Tensor *own);
/* Strides of an operand over the result's dimensions, which are 0 before. */
tn_status body_input_strides(const BodyInput *in, const Tensor *t, int rank, const int64_t *dims, int64_t *strides);
/* Once all else in a map is set: how values vary. */
void body_map_finish(BodyMap *map);

#endif
