/* SPDX-License-Identifier: Apache-2.0 */
/* What the attention ops of com.microsoft share (heads.c): heads set apart, masks, and attention itself, all in float.
   */
#ifndef TENON_OPS_HEADS_INT_H
#define TENON_OPS_HEADS_INT_H

#include "ops/nn_int.h"

/* x: [batch, steps, ...] with `row` elements a step, of which heads * size are taken; they come to rows `at` and after
   of [batch, heads, capacity, size]. bias: heads * size, or NULL. */
typedef struct HeadSplit {
    int64_t batch, steps, heads, size, row, capacity, at;
    const float *x, *bias;
    float *y;
} HeadSplit;
void split_heads(const HeadSplit *s);

/* What is added to the score of a query and a key; -INFINITY: the key is not seen. */
typedef float (*BiasFn)(const void *user, int64_t batch, int64_t head, int64_t query, int64_t key);

typedef struct HeadAttention {
    int64_t batch, heads, kv_heads, steps, total, capacity; /* capacity: rows of each head of k and v; total are used */
    int64_t size, v_size;
    double scale, softcap;
    const float *q, *k, *v; /* [batch, heads, steps, size], [batch, kv_heads, capacity, size], likewise v_size */
    BiasFn bias;
    const void *user;
    bool has_sink; /* a key more that takes part in the softmax with score sink[head], 0 without sink, and is dropped */
    const float *sink;
    float *y;             /* [batch, steps, heads * v_size] */
    float *raw, *weights; /* scores before and after the softmax, [batch, heads, steps, total], or NULL */
} HeadAttention;
tn_status attend(KernelCtx *c, const HeadAttention *a);

/* One head of `size` elements with its first 2 * half turned, pair by pair, by the angles whose cosines and sines are
   given. x and y may be the same. */
void turn_head(const float *x, int64_t size, int64_t half, const float *cosines, const float *sines, bool interleaved,
               float *y);

/* The scale attribute, 1 / sqrt(size) when it is absent or 0. */
double attention_scale(const Node *node, int64_t size);

/* Masks that Attention, QAttention and MultiHeadAttention take, and the additive bias of shape
   [batch or 1, heads or 1, steps, total]. */
typedef enum MaskForm { MASK_NONE, MASK_LENGTHS, MASK_RANGES, MASK_KEYS, MASK_SCORES } MaskForm;
typedef struct KeyMask {
    MaskForm form;
    const int64_t *data;
    const float *added;
    int64_t added_batch, added_head; /* strides */
    int64_t batch, steps, total, past;
    float filter; /* added where a mask says no */
    bool causal;
} KeyMask;
tn_status read_key_mask(KernelCtx *c, int mask, int added, int64_t past, int64_t batch, int64_t heads, int64_t steps,
                        int64_t total, KeyMask *m);
float key_mask_bias(const void *mask, int64_t batch, int64_t head, int64_t query, int64_t key);
/* The shapes that read_key_mask takes, where they are known. */
tn_status check_key_mask(const InferCtx *c, int mask, int added, const Dim scores[4]);

#endif
