/* SPDX-License-Identifier: Apache-2.0 */
/* What GroupQueryAttention (ms_group_query_attention.c) and its caches (group_query_cache.c) share. */
#ifndef TENON_OPS_GROUP_QUERY_INT_H
#define TENON_OPS_GROUP_QUERY_INT_H

#include "ops/heads_int.h"

/* One batch entry. Positions count from the first token that was ever seen. */
typedef struct GroupEntry {
    int64_t first;  /* position of the first key that is still cached */
    int64_t past;   /* where the new steps begin */
    int64_t added;  /* new steps that count; padding stands behind them */
    int64_t length; /* past + added */
    int64_t kept;   /* keys that stay in the cache, the last ones */
} GroupEntry;

typedef struct Group {
    int64_t batch, steps, heads, kv_heads, size;
    int64_t row;              /* elements of a step where queries, keys and values are packed */
    int64_t total;            /* total_sequence_length */
    int64_t cached, capacity; /* rows of each head of the cache that comes and the one that goes */
    int64_t rows;             /* of each head while this call works on them: what was cached, then the new steps */
    int64_t columns;          /* keys that some entry may see */
    GroupEntry *entries;
    bool prompt; /* the first call: nothing is cached */
    bool causal;
    bool sliding;   /* the cache holds the last keys only */
    int64_t window; /* -1: unbounded */
    const float *added;
    int64_t added_batch, added_head;
} Group;

/* A cache of keys or of values: its operands, its result, how it is stored. */
typedef struct GroupCache {
    int past, out, scale_in;
    int bits;             /* of an element; 0: as it is */
    bool direct;          /* `rows` is the result's own memory */
    const float *scales;  /* one, or one for each channel of each head */
    int64_t scale_stride; /* 0 or 1 */
    float *x;             /* [batch, kv_heads, rows, size] */
} GroupCache;

/* The keys that a cache of `capacity` rows holds of `length`: it is cut back to about `window` when it is full. */
int64_t group_kept(int64_t length, int64_t capacity, int64_t window);

/* What inference can say of a cache and its attribute `quant`. */
tn_status group_check_cache(const InferCtx *c, const char *quant, int past, int scale_in, Dim channels);
/* Memory for the rows, those of the past put in; as stored, so that they go back unchanged. */
tn_status group_open_cache(KernelCtx *c, const Group *g, const char *quant, GroupCache *cache);
/* Where the rows of the new steps stand. */
static inline float *group_new_row(const Group *g, const GroupCache *cache, int64_t b, int64_t head, int64_t step) {
    int64_t at = g->entries[b].past - g->entries[b].first + step;
    return cache->x + ((b * g->kv_heads + head) * g->rows + at) * g->size;
}
/* Stores the rows in the result where it is wanted, the new ones rounded as the cache says; then they are real numbers
   as whoever reads the cache will find them. */
tn_status group_close_cache(KernelCtx *c, const Group *g, GroupCache *cache);

#endif
