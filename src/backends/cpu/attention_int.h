/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on the CPU: what the kernels of its ops fill in, and what kernels/attention.c computes. Nobody holds the scores
   of a whole row: keys come in tiles, and what was summed is scaled down when a later tile has a higher score. */
#ifndef TENON_BACKENDS_CPU_ATTENTION_INT_H
#define TENON_BACKENDS_CPU_ATTENTION_INT_H

#include "backends/cpu/isa_int.h"
#include "kernel/kernel.h"
#include "ops/op.h"

/* Strides in elements of batch, head, step and element of a head. */
enum { BY_BATCH, BY_HEAD, BY_STEP, BY_ELEMENT };
typedef struct AttnHeads {
    const float *data;
    int64_t stride[4];
} AttnHeads;

/* Keys and values of some steps, in any reading. */
typedef struct AttnPart {
    AttnHeads k, v;
    int64_t steps;
} AttnPart;

/* A result that keeps all keys, or all values: made from the parts before it is read instead of them. */
typedef struct AttnPresent {
    float *data; /* NULL: nobody wants it */
    int64_t stride[4];
} AttnPresent;

typedef struct AttnJob {
    int64_t batch, heads, kv_heads, steps, size, v_size;
    int64_t keys; /* of all parts */
    int n_parts;
    AttnPart part[2]; /* what was cached, then what is new */
    AttnPresent present_k, present_v;
    AttnHeads q;
    float *y;
    int64_t y_stride[4];
    float scale, softcap; /* softcap 0: none */

    /* Which keys a query sees: query i of batch entry b stands at position i + offset of b, and sees the keys of positions
       [at - left, at + right] that are below length and below its own length. Left and right -1: no bound. */
    int64_t left, right;
    int64_t offset, length;           /* of all; length is at most keys */
    const int64_t *offsets, *lengths; /* of each batch entry, instead of offset and besides length; or NULL */
    /* What is added to scores, -inf where a key is not seen; strides 0 where it is the same. One of `added` and `seen`. */
    const float *added;
    const uint8_t *seen; /* 0: not seen */
    int64_t mask_stride[4];
    const float *key_bias; /* [batch, keys]: added to the above first; NULL: none */
    bool has_sink;         /* one more key, without value, of score sink[head], 0 without sink */
    const float *sink;
} AttnJob;

/* Scratch memory and units come from here. Memory that two results share, or a result and another part, is not allowed, but
   for a present that begins with the cached part itself: then that part stays where it is. */
tn_status attention_run(KernelCtx *c, AttnJob *job);

/* ---- one unit: up to ATTN_LANES queries that read the same keys ------------------------------------------------------ */

enum { ATTN_LANES = 64, ATTN_KEYS = 64 /* of a tile */ };

typedef struct AttnUnit {
    int64_t n; /* queries */
    const float *q[ATTN_LANES];
    float *y[ATTN_LANES];
    const void *mask[ATTN_LANES];               /* rows of added or seen */
    int32_t first[ATTN_LANES], end[ATTN_LANES]; /* keys that a query sees */
    float sink[ATTN_LANES];
    const float *key_bias;
    int n_parts;
    struct {
        const float *k, *v; /* the head's first row */
        int64_t k_row, k_col, v_row, v_col, begin, end;
    } part[2];
} AttnUnit;

typedef struct AttnTable {
    int lanes; /* queries of a unit */
    int width; /* of a vector: units are made of whole ones */
    void (*run)(const AttnJob *job, const AttnUnit *unit, float *scratch);
} AttnTable;
ISA_TABLE(AttnTable, attention_table);

/* Floats of scratch memory for a unit. */
static inline int64_t attention_scratch(int64_t size, int64_t v_size) {
    return (size + v_size + 32 + 3 * ATTN_KEYS) * ATTN_LANES;
}

#endif
