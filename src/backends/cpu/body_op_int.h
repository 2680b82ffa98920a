/* SPDX-License-Identifier: Apache-2.0 */
/* The vector operations that bodies are made of: the table of kernels/body.c. */
#ifndef TENON_BACKENDS_CPU_BODY_OP_INT_H
#define TENON_BACKENDS_CPU_BODY_OP_INT_H

#include "backends/cpu/isa_int.h"

/* Truth values are 32 bits, all or none, so that they choose between floats. BODY_n(NAME): n operands; p is the step's
   numbers. */
#define BODY_OPS(BODY_1, BODY_2, BODY_3) \
    BODY_1(COPY)                         \
    BODY_1(ABS)                          \
    BODY_1(NEG)                          \
    BODY_1(EXP)                          \
    BODY_1(LOG)                          \
    BODY_1(SQRT)                         \
    BODY_1(RECIPROCAL)                   \
    BODY_1(ROOT_OF)                      \
    BODY_1(SIGMOID)                      \
    BODY_1(TANH)                         \
    BODY_1(RELU)                         \
    BODY_1(LEAKY_RELU)                   \
    BODY_1(THRESHOLDED_RELU)             \
    BODY_1(CLAMP)                        \
    BODY_1(ELU)                          \
    BODY_1(SELU)                         \
    BODY_1(CELU)                         \
    BODY_1(SOFTPLUS)                     \
    BODY_1(SOFTSIGN)                     \
    BODY_1(HARD_SIGMOID)                 \
    BODY_1(HARD_SWISH)                   \
    BODY_1(SWISH)                        \
    BODY_1(MISH)                         \
    BODY_1(GELU)                         \
    BODY_1(GELU_TANH)                    \
    BODY_1(ERF)                          \
    BODY_1(SIN)                          \
    BODY_1(COS)                          \
    BODY_1(FLOOR)                        \
    BODY_1(CEIL)                         \
    BODY_1(ROUND)                        \
    BODY_1(SIGN)                         \
    BODY_1(SQUARE)                       \
    BODY_1(CUBE)                         \
    BODY_1(ROOT)                         \
    BODY_1(DIVIDE_BY)                    \
    BODY_1(IS_NAN)                       \
    BODY_1(IS_INF)                       \
    BODY_1(NOT)                          \
    BODY_1(TRUTH)                        \
    BODY_1(FROM_INT)                     \
    BODY_1(NUMBER)                       \
    BODY_1(TO_F16)                       \
    BODY_1(TO_BF16)                      \
    BODY_1(SATURATE)                     \
    BODY_2(ADD)                          \
    BODY_2(ADD_RELU)                     \
    BODY_2(SUB)                          \
    BODY_2(MUL)                          \
    BODY_2(DIV)                          \
    BODY_2(POW)                          \
    BODY_2(MIN)                          \
    BODY_2(MAX)                          \
    BODY_2(AT_LEAST)                     \
    BODY_2(AT_MOST)                      \
    BODY_2(PRELU)                        \
    BODY_2(SWIGLU)                       \
    BODY_2(EQUAL)                        \
    BODY_2(LESS)                         \
    BODY_2(LESS_OR_EQUAL)                \
    BODY_2(EQUAL_INT)                    \
    BODY_2(LESS_INT)                     \
    BODY_2(LESS_OR_EQUAL_INT)            \
    BODY_2(AND)                          \
    BODY_2(OR)                           \
    BODY_2(XOR)                          \
    BODY_3(WHERE)                        \
    BODY_3(FMA)                          \
    BODY_3(FMA_RELU)                     \
    BODY_3(MUL_ADD)                      \
    BODY_3(MUL_ADD_RELU)

#define BODY_CODE(NAME) BODY_##NAME,
typedef enum BodyCode {
    BODY_LOAD, /* an operand or the tile, which may need no copy */
    BODY_OPS(BODY_CODE, BODY_CODE, BODY_CODE) BODY_CODES
} BodyCode;
#undef BODY_CODE

/* One operation on rows x cols. Columns are contiguous, of a source that has bit k set in `spread` there is one number a
   row. */
typedef struct BodyArgs {
    int64_t rows, cols;
    float *dst;
    int64_t dst_ld;
    const float *src[3];
    int64_t ld[3];
    int spread;
    float p[2];
} BodyArgs;

typedef struct BodyTable {
    void (*run[BODY_CODES])(const BodyArgs *a);
    /* Numbers `step` apart become neighbours. */
    void (*gather)(float *dst, const float *src, int64_t step, int64_t n);
    /* Truth values from and to bytes. */
    void (*from_bytes)(float *dst, const uint8_t *src, int64_t step, int64_t n);
    void (*to_bytes)(uint8_t *dst, const float *src, int64_t n);
    /* Floats of 16 bits, neighbours. NULL where the processor has no instructions for them. */
    void (*from_f16)(float *dst, const uint16_t *src, int64_t n);
    void (*to_f16)(uint16_t *dst, const float *src, int64_t n);
    /* Whole numbers of 8 bits, neighbours; what is stored is within their range. */
    void (*from_u8)(float *dst, const uint8_t *src, int64_t n);
    void (*from_i8)(float *dst, const int8_t *src, int64_t n);
    void (*to_whole)(uint8_t *dst, const float *src, int64_t n);
    /* A copy that leaves the caches as they are, where the processor has such stores; before others read it: fence. */
    void (*stream)(float *dst, const float *src, int64_t n);
    void (*fence)(void);
} BodyTable;
ISA_TABLE(BodyTable, body_table);

#endif
