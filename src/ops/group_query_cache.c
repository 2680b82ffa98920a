/* SPDX-License-Identifier: Apache-2.0 */
/* The caches of GroupQueryAttention: as they are, in 8 bits, or in two halves of a byte with 8 for zero; of full length,
   or of the last keys only. */
#include "ops/group_query_int.h"

int64_t group_kept(int64_t length, int64_t capacity, int64_t window) {
    int64_t cut = capacity - window + 1; /* rows that are given up at once */
    return length <= capacity ? length : length - (length - capacity + cut - 1) / cut * cut;
}

/* ---- how a cache is stored -------------------------------------------------------------------------------------- */

static int cache_bits(const Node *node, const char *quant) {
    return attr_string_is(node, quant, "NONE") ? 0 : (int)attr_int(node, "kv_cache_bit_width");
}

tn_status group_check_cache(const InferCtx *c, const char *quant, int past, int scale_in, Dim channels) {
    bool quantised = !attr_string_is(c->node, quant, "NONE"), each = attr_string_is(c->node, quant, "PER_CHANNEL");
    int64_t bits = attr_int(c->node, "kv_cache_bit_width");
    tn_dtype dtype = has_input(c, past) ? in_dtype(c, past) : TN_UNDEFINED;
    Dim n;
    if (!quantised) {
        if (dtype && in_dtype(c, 0) && dtype != in_dtype(c, 0))
            return fail(TN_INVALID_MODEL, "a cache of another element type than the query's must be quantised");
        return TN_OK;
    }
    if (!each && !attr_string_is(c->node, quant, "PER_TENSOR"))
        return fail(TN_INVALID_MODEL, "%s is neither NONE, PER_TENSOR nor PER_CHANNEL", quant);
    if (bits != 4 && bits != 8)
        return fail(TN_INVALID_MODEL, "kv_cache_bit_width is %lld; a quantised cache has 4 or 8", (long long)bits);
    if (!has_input(c, past) || !has_input(c, scale_in))
        return fail(TN_INVALID_MODEL, "a quantised cache needs past_key, past_value, k_scale and v_scale");
    if (dtype && dtype != (bits == 4 ? TN_U8 : TN_I8))
        return fail(TN_INVALID_MODEL, "a cache of %lld bits is of type %s", (long long)bits, bits == 4 ? "u8" : "i8");
    if (!rank_known(c, scale_in)) return TN_OK;
    n = dims_product(c->dims, in_shape(c, scale_in), 0, in_shape(c, scale_in)->rank);
    return dims_must_match(n, each ? channels : 1, "number of scales", &n);
}

static int64_t stored_size(const Group *g, const GroupCache *cache) {
    return cache->bits == 4 ? (g->size + 1) / 2 : g->size;
}

/* Row `from` of the past as floats. */
static void load_row(const Group *g, const GroupCache *cache, tn_dtype dtype, const void *past, int64_t from,
                     float *to) {
    if (cache->bits != 4) {
        load_f32(to, dtype, past, from * g->size, 1, g->size);
        return;
    }
    const uint8_t *pairs = (const uint8_t *)past + from * stored_size(g, cache);
    for (int64_t i = 0; i < g->size; i++) to[i] = (float)((i % 2 ? pairs[i / 2] >> 4 : pairs[i / 2] & 15) - 8);
}

static void store_row(const Group *g, const GroupCache *cache, const float *from, Tensor *out, int64_t to) {
    if (cache->bits != 4) {
        store_f32(out->dtype, out->data, out->offset + to * g->size, 1, from, g->size);
        return;
    }
    uint8_t *pairs = (uint8_t *)out->data + out->offset + to * stored_size(g, cache);
    for (int64_t i = 0; i < g->size; i++) {
        uint8_t level = (uint8_t)((int)from[i] + 8);
        pairs[i / 2] = (uint8_t)(i % 2 ? pairs[i / 2] | level << 4 : level);
    }
}

/* ---- in and out ------------------------------------------------------------------------------------------------- */

static tn_status load_past(KernelCtx *c, const Group *g, GroupCache *cache) {
    const void *past;
    if (!kernel_has_input(c, cache->past)) return TN_OK;
    TRY(dense_bytes(c, cache->past, &past));
    for (int64_t k = 0; k < g->batch * g->kv_heads; k++) {
        const GroupEntry *e = &g->entries[k / g->kv_heads];
        for (int64_t i = 0; i < e->past - e->first; i++)
            load_row(g, cache, c->in[cache->past]->dtype, past, k * g->cached + i,
                     cache->x + (k * g->rows + i) * g->size);
    }
    return TN_OK;
}

tn_status group_open_cache(KernelCtx *c, const Group *g, const char *quant, GroupCache *cache) {
    const int64_t dims[] = {g->batch, g->kv_heads, g->rows, g->size};
    int64_t n;
    cache->bits = cache_bits(c->node, quant);
    cache->direct = kernel_wants(c, cache->out) && !cache->bits && !g->sliding;
    TRY(checked_count(4, dims, &n));
    if (cache->direct) {
        TRY(result_f32(c, cache->out, &cache->x));
        for (int64_t i = 0; i < n; i++) cache->x[i] = 0;
    } else {
        cache->x = kernel_scratch(c, float, (size_t)n + 1);
        if (!cache->x) return TN_OUT_OF_MEMORY;
    }
    if (cache->bits) {
        bool each = attr_string_is(c->node, quant, "PER_CHANNEL");
        if (tensor_count(c->in[cache->scale_in]) != (each ? g->kv_heads * g->size : 1))
            return fail(TN_SHAPE, "%s has the wrong number of scales", quant);
        cache->scale_stride = each;
        TRY(dense_f32(c, cache->scale_in, &cache->scales));
    }
    return load_past(c, g, cache);
}

static float scale_of(const Group *g, const GroupCache *cache, int64_t head, int64_t i) {
    return cache->scales[(head * g->size + i) * cache->scale_stride];
}

static void quantise_new_rows(const Group *g, const GroupCache *cache) {
    float most = cache->bits == 4 ? 7 : 127;
    for (int64_t k = 0; k < g->batch * g->kv_heads * g->steps; k++) {
        int64_t step = k % g->steps, head = k / g->steps % g->kv_heads, b = k / g->steps / g->kv_heads;
        if (step >= g->entries[b].added) continue;
        float *row = group_new_row(g, cache, b, head, step);
        for (int64_t i = 0; i < g->size; i++)
            row[i] = fmaxf(-most - 1, fminf(most, rintf(row[i] / scale_of(g, cache, head, i))));
    }
}

static tn_status store_present(KernelCtx *c, const Group *g, const GroupCache *cache) {
    Tensor *out = &c->out[cache->out];
    size_t bytes;
    TRY(checked_bytes(out->dtype, tensor_count(out), &bytes));
    if (bytes) memset(tensor_bytes(out), 0, bytes);
    for (int64_t k = 0; k < g->batch * g->kv_heads; k++) {
        const GroupEntry *e = &g->entries[k / g->kv_heads];
        int64_t from = e->length - e->first - e->kept;
        for (int64_t i = 0; i < e->kept; i++)
            store_row(g, cache, cache->x + (k * g->rows + from + i) * g->size, out, k * g->capacity + i);
    }
    return TN_OK;
}

tn_status group_close_cache(KernelCtx *c, const Group *g, GroupCache *cache) {
    if (cache->direct) {
        result_f32_done(c, cache->out, cache->x);
        return TN_OK;
    }
    if (cache->bits) quantise_new_rows(g, cache);
    if (kernel_wants(c, cache->out)) TRY(store_present(c, g, cache));
    for (int64_t k = 0; cache->bits && k < g->batch * g->kv_heads * g->rows; k++) {
        for (int64_t i = 0; i < g->size; i++)
            cache->x[k * g->size + i] *= scale_of(g, cache, k / g->rows % g->kv_heads, i);
    }
    return TN_OK;
}
