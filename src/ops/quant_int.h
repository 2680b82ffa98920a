/* SPDX-License-Identifier: Apache-2.0 */
/* What the ops that quantise share: where the scale of an element stands, rounding to small integers. */
#ifndef TENON_OPS_QUANT_INT_H
#define TENON_OPS_QUANT_INT_H

#include <math.h>

#include "ops/op_int.h"

/* A tensor cut into runs of consecutive elements; scales (and zero points) of a run are one for all its elements, or
   consecutive too. */
typedef struct QuantMap {
    int64_t runs, length;         /* the last run of a group may be shorter: */
    int64_t group, size;          /* `group` runs make `size` elements */
    int64_t scales_count, period; /* scale number: see quant_run */
    bool by_element;              /* one scale an element of a run */
    bool shared;                  /* one for the tensor */
    int64_t axis_size, block, inner;
} QuantMap;

typedef struct QuantRun {
    int64_t at, n;      /* elements */
    int64_t scale;      /* index of the first element's scale */
    int64_t scale_step; /* 0 or 1 */
} QuantRun;

/* From the shapes of x and of the scales, and the attributes axis and (where the op has it) block_size. */
tn_status quant_map(const Node *node, bool blocked, const Tensor *x, const Tensor *scale, QuantMap *map);
QuantRun quant_run(const QuantMap *map, int64_t run);
/* The shape rule of scales and zero points while shapes are inferred: as far as sizes are known. */
tn_status quant_check(InferCtx *c, bool blocked);

/* Least and largest number of an integer type of up to 16 bits. */
void int_range(tn_dtype dtype, int64_t *low, int64_t *high);

/* Adding and taking away 1.5 * 2^23 rounds to nearest, ties to even: |x| must be below 2^22. */
static inline float round_even(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
/* round(x) + zero within low..high, for types of up to 16 bits; NaN gives low. */
static inline int32_t quantize_f32(float x, float low, float high, int32_t zero) {
    x = x > low - (float)zero ? x : low - (float)zero;
    x = x < high - (float)zero ? x : high - (float)zero;
    return (int32_t)round_even(x) + zero;
}

#endif
