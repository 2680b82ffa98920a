/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft.GroupQueryAttention (ONNX Runtime 1): causal attention whose heads of queries share keys, with a cache
   of its own length for each batch entry and, where asked for, normalised heads and rotary positions. */
#include "ops/group_query_int.h"

enum {
    IN_Q,
    IN_K,
    IN_V,
    IN_PAST_K,
    IN_PAST_V,
    IN_LENGTHS,
    IN_TOTAL,
    IN_COS,
    IN_SIN,
    IN_POSITIONS,
    IN_ADDED,
    IN_SINK,
    IN_K_SCALE,
    IN_V_SCALE,
    IN_Q_NORM,
    IN_K_NORM,
    IN_COUNTS
};
enum { OUT_Y, OUT_K, OUT_V, OUT_QK };

/* ---- shapes -------------------------------------------------------------------------------------------------- */

static tn_status check_attrs(const Node *node) {
    int64_t heads = attr_int(node, "num_heads"), kv_heads = attr_int(node, "kv_num_heads");
    if (kv_heads < 1 || heads < 1 || heads > INT32_MAX || heads % kv_heads)
        return fail(TN_INVALID_MODEL, "%lld heads of queries cannot share %lld heads of keys", (long long)heads,
                    (long long)kv_heads);
    if (attr_int(node, "sliding_window_cache") &&
        (attr_int(node, "local_window_size") < 1 || !attr_int(node, "causal")))
        return fail(TN_INVALID_MODEL, "a cache of a sliding window needs local_window_size and causal attention");
    return TN_OK;
}

/* The size of a head; packed operands hold all heads of a step behind each other. */
static tn_status find_size(InferCtx *c, int64_t heads, int64_t kv_heads, Dim *size) {
    bool packed = !has_input(c, IN_K);
    Dim hidden = in_dim(c, IN_Q, 2), kv_hidden = in_dim(c, IN_K, 2), same;
    int64_t shares = packed ? heads + 2 * kv_heads : heads;
    *size = DIM_UNKNOWN;
    TRY(want_rank(c, IN_Q, 3));
    if (dim_is_const(hidden)) {
        if (hidden % shares)
            return fail(TN_SHAPE, "a size of %lld cannot be divided into %lld heads", (long long)hidden,
                        (long long)shares);
        *size = hidden / shares;
    }
    if (packed != !has_input(c, IN_V)) return fail(TN_INVALID_MODEL, "key and value go together");
    for (int i = IN_K; !packed && i <= IN_V; i++) {
        TRY(want_rank(c, i, 3));
        TRY(dims_must_match(in_dim(c, i, 0), in_dim(c, IN_Q, 0), "batches of query, key and value", &same));
        TRY(dims_must_match(in_dim(c, i, 1), in_dim(c, IN_Q, 1), "lengths of query, key and value", &same));
    }
    if (!packed && dim_is_const(*size))
        TRY(dims_must_match(kv_hidden, *size * kv_heads, "hidden size of the keys", &same));
    if (!packed && dim_is_const(*size))
        TRY(dims_must_match(in_dim(c, IN_V, 2), *size * kv_heads, "hidden size of the values", &same));
    return TN_OK;
}

static tn_status check_rotary(InferCtx *c, Dim size) {
    Dim same, columns = in_dim(c, IN_COS, 1);
    if (!attr_int(c->node, "do_rotary")) return TN_OK;
    if (!has_input(c, IN_COS) || !has_input(c, IN_SIN))
        return fail(TN_INVALID_MODEL, "do_rotary wants cos_cache and sin_cache");
    TRY(want_rank(c, IN_COS, 2));
    TRY(want_rank(c, IN_SIN, 2));
    TRY(dims_must_match(columns, in_dim(c, IN_SIN, 1), "columns of the caches", &columns));
    TRY(dims_must_match(in_dim(c, IN_COS, 0), in_dim(c, IN_SIN, 0), "rows of the caches", &same));
    if (dim_is_const(columns) && dim_is_const(size) && columns > size / 2)
        return fail(TN_SHAPE, "heads of %lld elements cannot be turned in %lld", (long long)size,
                    (long long)(2 * columns));
    if (!has_input(c, IN_POSITIONS)) return TN_OK;
    TRY(want_rank(c, IN_POSITIONS, 2));
    TRY(dims_must_match(in_dim(c, IN_POSITIONS, 0), in_dim(c, IN_Q, 0), "batches of position_ids", &same));
    return dims_must_match(in_dim(c, IN_POSITIONS, 1), in_dim(c, IN_Q, 1), "positions", &same);
}

/* Rows and columns of the caches that come; the size of one head's row where a cache is stored. */
static tn_status check_caches(InferCtx *c, Dim batch, Dim size, Dim *past) {
    int64_t kv_heads = attr_int(c->node, "kv_num_heads"), window = attr_int(c->node, "local_window_size");
    bool halves = attr_int(c->node, "kv_cache_bit_width") == 4 && !attr_string_is(c->node, "k_quant_type", "NONE");
    Dim channels = dim_mul(c->dims, size, kv_heads), same;
    Dim stored = halves ? dim_ceildiv(c->dims, size, 2) : size;
    if (has_input(c, IN_PAST_K) != has_input(c, IN_PAST_V))
        return fail(TN_INVALID_MODEL, "past_key and past_value go together");
    TRY(group_check_cache(c, "k_quant_type", IN_PAST_K, IN_K_SCALE, channels));
    TRY(group_check_cache(c, "v_quant_type", IN_PAST_V, IN_V_SCALE, channels));
    *past = has_input(c, IN_PAST_K) ? in_dim(c, IN_PAST_K, 2) : 0;
    for (int i = IN_PAST_K; has_input(c, IN_PAST_K) && i <= IN_PAST_V; i++) {
        const Dim want[] = {batch, kv_heads, *past, stored};
        TRY(want_rank(c, i, 4));
        for (int d = 0; d < 4; d++) TRY(dims_must_match(in_dim(c, i, d), want[d], "sizes of the cache", &same));
    }
    if (!attr_int(c->node, "sliding_window_cache")) return TN_OK;
    if (!has_input(c, IN_PAST_K))
        return fail(TN_INVALID_MODEL, "a cache of a sliding window needs past_key and past_value");
    if (dim_is_const(*past) && *past < window)
        return fail(TN_SHAPE, "a cache of %lld rows cannot hold a window of %lld", (long long)*past, (long long)window);
    return TN_OK;
}

static tn_status check_vectors(InferCtx *c, Dim batch, Dim size) {
    TRY(want_vector(c, IN_LENGTHS, batch, false));
    TRY(want_vector(c, IN_SINK, attr_int(c->node, "num_heads"), false));
    TRY(want_vector(c, IN_Q_NORM, size, false));
    TRY(want_vector(c, IN_K_NORM, size, false));
    if (has_input(c, IN_Q_NORM) != has_input(c, IN_K_NORM))
        return fail(TN_INVALID_MODEL, "q_norm_weight and k_norm_weight go together");
    if (!has_input(c, IN_COUNTS)) return TN_OK;
    TRY(want_vector(c, IN_COUNTS, batch, false));
    if (!has_input(c, IN_PAST_K) || !attr_int(c->node, "causal"))
        return fail(TN_INVALID_MODEL, "query_seqlens needs past_key, past_value and causal attention");
    return TN_OK;
}

static tn_status group_query_infer(InferCtx *c) {
    int64_t heads = attr_int(c->node, "num_heads"), kv_heads = attr_int(c->node, "kv_num_heads");
    bool sliding = attr_int(c->node, "sliding_window_cache") != 0;
    Dim size, total = DIM_UNKNOWN, past, batch = in_dim(c, IN_Q, 0), steps = in_dim(c, IN_Q, 1);
    int n;
    TRY(check_attrs(c->node));
    TRY(find_size(c, heads, kv_heads, &size));
    TRY(check_rotary(c, size));
    TRY(check_vectors(c, batch, size));
    if (in_content(c, IN_TOTAL, &total, 1, &n) && n != 1)
        return fail(TN_SHAPE, "total_sequence_length must have one element");
    if (dim_is_const(total) && total < 0)
        return fail(TN_OUT_OF_RANGE, "total_sequence_length is %lld", (long long)total);
    TRY(check_caches(c, batch, size, &past));
    const Dim scores[] = {batch, heads, steps, total};
    TRY(check_key_mask(c, IN_COUNTS + 1, IN_ADDED, scores));
    if (c->n_out > OUT_QK && sliding)
        return fail(TN_UNSUPPORTED, "output_qk of a cache of a sliding window is not supported");
    Dim stored = has_input(c, IN_PAST_K) ? in_dim(c, IN_PAST_K, 3) : size;
    Shape y = {.rank = 3, .dims = {batch, steps, dim_mul(c->dims, size, heads)}}, qk = {.rank = 4};
    Shape kv = {.rank = 4, .dims = {batch, kv_heads, sliding ? past : dim_make(c->dims, DIM_MAX, past, total), stored}};
    memcpy(qk.dims, scores, sizeof scores);
    const Shape *shapes[] = {&y, &kv, &kv, &qk};
    for (int i = 0; i < c->n_out; i++) set_shape(c, i, shapes[i]);
    for (int i = OUT_K; i < c->n_out && i <= OUT_V; i++) {
        if (!has_input(c, IN_PAST_K)) set_dtype(c, i, in_dtype(c, IN_Q));
    }
    return TN_OK;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

/* As onnxruntime: in a prompt shorter entries are padded on the right. */
static tn_status read_entry(const Group *g, int64_t last, const int64_t *count, GroupEntry *e) {
    e->length = last < g->total ? last + 1 : 0;
    e->added = count ? *count : g->prompt ? min_i64(g->steps, e->length) : g->steps;
    e->past = e->length - e->added;
    if (e->length < 1 || e->past < 0 || (!g->sliding && e->past > g->cached))
        return fail(TN_OUT_OF_RANGE, "seqlens_k is %lld, for %lld new keys, %lld cached ones and %lld in all",
                    (long long)last, (long long)e->added, (long long)g->cached, (long long)g->total);
    if (e->added < 0 || e->added > g->steps)
        return fail(TN_OUT_OF_RANGE, "query_seqlens is %lld for %lld steps", (long long)e->added, (long long)g->steps);
    e->kept = g->sliding ? group_kept(e->length, g->capacity, g->window) : e->length;
    e->first = g->sliding ? e->past - group_kept(e->past, g->capacity, g->window) : 0;
    return TN_OK;
}

static tn_status read_entries(KernelCtx *c, Group *g) {
    const int64_t *lengths, *counts = NULL;
    TRY(dense_i64(c, IN_LENGTHS, &lengths));
    if (kernel_has_input(c, IN_COUNTS)) TRY(dense_i64(c, IN_COUNTS, &counts));
    g->prompt = g->total == g->steps && !counts;
    g->entries = kernel_scratch(c, GroupEntry, (size_t)g->batch + 1);
    if (!g->entries) return TN_OUT_OF_MEMORY;
    g->rows = g->sliding ? 0 : g->capacity;
    g->columns = kernel_wants(c, OUT_QK) ? g->total : 0;
    for (int64_t b = 0; b < g->batch; b++) {
        GroupEntry *e = &g->entries[b];
        TRY(read_entry(g, lengths[b], counts ? &counts[b] : NULL, e));
        g->rows = max_i64(g->rows, e->length - e->first);
        g->columns = max_i64(g->columns, e->length - e->first);
    }
    return TN_OK;
}

static tn_status read_group(KernelCtx *c, Group *g) {
    const Tensor *q = c->in[IN_Q];
    bool packed = !kernel_has_input(c, IN_K);
    *g = (Group){.batch = q->dims[0],
                 .steps = q->dims[1],
                 .heads = attr_int(c->node, "num_heads"),
                 .kv_heads = attr_int(c->node, "kv_num_heads"),
                 .row = q->dims[2],
                 .cached = kernel_has_input(c, IN_PAST_K) ? c->in[IN_PAST_K]->dims[2] : 0,
                 .sliding = attr_int(c->node, "sliding_window_cache") != 0,
                 .window = attr_int(c->node, "local_window_size"),
                 .causal = attr_int(c->node, "causal") != 0};
    g->size = g->row / (packed ? g->heads + 2 * g->kv_heads : g->heads);
    const int64_t *total;
    if (tensor_count(c->in[IN_TOTAL]) != 1) return fail(TN_SHAPE, "total_sequence_length must have one element");
    TRY(dense_i64(c, IN_TOTAL, &total));
    g->total = *total;
    if (!g->sliding && g->total - g->cached > g->steps) /* each step adds one to what is cached */
        return fail(TN_OUT_OF_RANGE, "total_sequence_length is %lld, but past and new steps are %lld and %lld",
                    (long long)*total, (long long)g->cached, (long long)g->steps);
    g->capacity = g->sliding ? g->cached : max_i64(g->cached, g->total);
    TRY(read_entries(c, g));
    if (!kernel_has_input(c, IN_ADDED)) return TN_OK;
    const Tensor *t = c->in[IN_ADDED];
    if (t->dims[3] != g->total || t->dims[2] != g->steps)
        return fail(TN_SHAPE, "attention_bias does not fit the scores");
    g->added_head = t->dims[1] == 1 ? 0 : g->steps * g->total;
    g->added_batch = t->dims[0] == 1 ? 0 : (t->dims[1] == 1 ? 1 : g->heads) * g->steps * g->total;
    return dense_f32(c, IN_ADDED, &g->added);
}

static float group_bias(const void *user, int64_t b, int64_t h, int64_t i, int64_t row) {
    const Group *g = user;
    const GroupEntry *e = &g->entries[b];
    int64_t at = e->past + i, j = e->first + row;
    if (j >= e->length || (g->causal && j > at)) return -INFINITY;
    if (g->causal && g->window >= 0 && j <= at - g->window) return -INFINITY;
    return g->added ? g->added[b * g->added_batch + h * g->added_head + i * g->total + j] : 0;
}

/* The heads of the new steps: of the queries (no cache; [batch, heads, steps, size]) or of the keys. */
typedef struct NewHeads {
    int64_t heads;
    float *x;
    const GroupCache *cache;
} NewHeads;

static float *head_of(const Group *g, const NewHeads *n, int64_t b, int64_t h, int64_t step) {
    if (n->cache) return group_new_row(g, n->cache, b, h, step);
    return n->x + ((b * n->heads + h) * g->steps + step) * g->size;
}

/* Divides each head by the root of the mean of its squares. */
static tn_status normalise(KernelCtx *c, const Group *g, const NewHeads *n, int weight, const char *own) {
    const float *w;
    double epsilon = attr_float(c->node, attr_present(c->node, own) ? own : "qk_norm_epsilon");
    if (!kernel_has_input(c, weight)) return TN_OK;
    TRY(dense_f32(c, weight, &w));
    for (int64_t k = 0; k < g->batch * n->heads * g->steps; k++) {
        int64_t step = k % g->steps, h = k / g->steps % n->heads, b = k / g->steps / n->heads;
        double squares = 0;
        if (step >= g->entries[b].added) continue;
        float *x = head_of(g, n, b, h, step);
        for (int64_t i = 0; i < g->size; i++) squares += (double)x[i] * (double)x[i];
        double scale = 1 / sqrt(squares / (double)g->size + epsilon);
        for (int64_t i = 0; i < g->size; i++) x[i] = (float)((double)x[i] * scale) * w[i];
    }
    return TN_OK;
}

/* Turns each head by its position. */
static tn_status turn_steps(KernelCtx *c, const Group *g, const NewHeads *n) {
    const float *cosines, *sines;
    const int64_t *positions = NULL;
    int64_t half = c->in[IN_COS]->dims[1], rows = c->in[IN_COS]->dims[0];
    bool interleaved = attr_int(c->node, "rotary_interleaved") != 0;
    TRY(dense_f32(c, IN_COS, &cosines));
    TRY(dense_f32(c, IN_SIN, &sines));
    if (kernel_has_input(c, IN_POSITIONS)) TRY(dense_i64(c, IN_POSITIONS, &positions));
    for (int64_t k = 0; k < g->batch * n->heads * g->steps; k++) {
        int64_t step = k % g->steps, h = k / g->steps % n->heads, b = k / g->steps / n->heads;
        int64_t at = g->entries[b].past + step;
        if (step >= g->entries[b].added) continue;
        if (positions && g->prompt && !add_overflows(positions[0], step, &at)) at = positions[0] + step;
        else if (positions) at = positions[b * g->steps + step];
        if (at < 0 || at >= rows)
            return fail(TN_OUT_OF_RANGE, "position %lld is not in 0..%lld", (long long)at, (long long)rows - 1);
        float *head = head_of(g, n, b, h, step);
        turn_head(head, g->size, half, cosines + at * half, sines + at * half, interleaved, head);
    }
    return TN_OK;
}

static void add_steps(const Group *g, const GroupCache *cache, const float *x, int64_t row) {
    for (int64_t b = 0; b < g->batch; b++) {
        HeadSplit s = {.batch = 1,
                       .steps = g->entries[b].added,
                       .heads = g->kv_heads,
                       .size = g->size,
                       .row = row,
                       .capacity = g->rows,
                       .x = x + b * g->steps * row,
                       .y = group_new_row(g, cache, b, 0, 0)};
        split_heads(&s);
    }
}

/* Queries [batch, heads, steps, size] and the caches with the new steps put in. */
static tn_status prepare(KernelCtx *c, const Group *g, float *q, GroupCache *keys, GroupCache *values) {
    bool packed = !kernel_has_input(c, IN_K), rotary = attr_int(c->node, "do_rotary") != 0;
    int64_t hidden = g->heads * g->size, kv_hidden = g->kv_heads * g->size, row = packed ? g->row : kv_hidden;
    const float *xq, *xk, *xv;
    TRY(dense_f32(c, IN_Q, &xq));
    xk = xq + hidden, xv = xq + hidden + kv_hidden;
    if (!packed) TRY(dense_f32(c, IN_K, &xk));
    if (!packed) TRY(dense_f32(c, IN_V, &xv));
    HeadSplit split = {.batch = g->batch,
                       .steps = g->steps,
                       .heads = g->heads,
                       .size = g->size,
                       .row = g->row,
                       .capacity = g->steps,
                       .x = xq,
                       .y = q};
    split_heads(&split);
    TRY(group_open_cache(c, g, "k_quant_type", keys));
    TRY(group_open_cache(c, g, "v_quant_type", values));
    add_steps(g, keys, xk, row);
    add_steps(g, values, xv, row);
    NewHeads queries = {g->heads, q, NULL}, turned = {g->kv_heads, NULL, keys};
    TRY(normalise(c, g, &queries, IN_Q_NORM, "q_norm_epsilon"));
    TRY(normalise(c, g, &turned, IN_K_NORM, "k_norm_epsilon"));
    if (rotary) TRY(turn_steps(c, g, &queries));
    if (rotary) TRY(turn_steps(c, g, &turned));
    TRY(group_close_cache(c, g, keys));
    return group_close_cache(c, g, values);
}

static tn_status group_query_reference(KernelCtx *c) {
    Group g;
    GroupCache keys = {.past = IN_PAST_K, .out = OUT_K, .scale_in = IN_K_SCALE};
    GroupCache values = {.past = IN_PAST_V, .out = OUT_V, .scale_in = IN_V_SCALE};
    const float *sink = NULL;
    float *y, *qk = NULL;
    TRY(read_group(c, &g));
    if (kernel_has_input(c, IN_SINK)) TRY(dense_f32(c, IN_SINK, &sink));
    float *q = kernel_scratch(c, float, (size_t)(g.batch * g.steps * g.heads * g.size) + 1);
    if (!q) return TN_OUT_OF_MEMORY;
    TRY(prepare(c, &g, q, &keys, &values));
    TRY(result_f32(c, OUT_Y, &y));
    if (kernel_wants(c, OUT_QK)) TRY(result_f32(c, OUT_QK, &qk));
    HeadAttention a = {.batch = g.batch,
                       .heads = g.heads,
                       .kv_heads = g.kv_heads,
                       .steps = g.steps,
                       .total = g.columns,
                       .capacity = g.rows,
                       .size = g.size,
                       .v_size = g.size,
                       .q = q,
                       .k = keys.x,
                       .v = values.x,
                       .y = y,
                       .scale = attention_scale(c->node, g.size),
                       .softcap = attr_float(c->node, "softcap"),
                       .bias = group_bias,
                       .user = &g,
                       .sink = sink,
                       .has_sink = sink || attr_int(c->node, "smooth_softmax") > 0};
    if (attr_int(c->node, "qk_output") == 2) a.weights = qk;
    else a.raw = qk;
    TRY(attend(c, &a));
    for (int64_t i = 0; a.raw && i < tensor_count(&c->out[OUT_QK]); i++) /* what is not seen has no score */
        if (a.raw[i] == -INFINITY) a.raw[i] = 0;
    result_f32_done(c, OUT_Y, y);
    if (qk) result_f32_done(c, OUT_QK, qk);
    return TN_OK;
}

#define FLOATS (TS(TN_F32) | TS(TN_F16) | TS(TN_BF16))
#define CACHES (FLOATS | TS(TN_I8) | TS(TN_U8))
#define MAYBE OPERAND_OPTIONAL

const OpSchema op_ms_GroupQueryAttention = {
    .domain = "com.microsoft",
    .name = "GroupQueryAttention",
    .kind = OP_ATOMIC,
    .summary = "Causal attention with shared keys and a cache (ONNX Runtime 1)",
    .inputs = OPERANDS({"query", FLOATS, 'T'}, {"key", FLOATS, 'T', MAYBE}, {"value", FLOATS, 'T', MAYBE},
                       {"past_key", CACHES, 'C', MAYBE}, {"past_value", CACHES, 'C', MAYBE}, {"seqlens_k", TS(TN_I32)},
                       {"total_sequence_length", TS(TN_I32)}, {"cos_cache", FLOATS, 'T', MAYBE},
                       {"sin_cache", FLOATS, 'T', MAYBE}, {"position_ids", TS(TN_I64), 0, MAYBE},
                       {"attention_bias", FLOATS, 'T', MAYBE}, {"head_sink", FLOATS, 'T', MAYBE},
                       {"k_scale", TS(TN_F32), 0, MAYBE}, {"v_scale", TS(TN_F32), 0, MAYBE},
                       {"q_norm_weight", FLOATS, 'T', MAYBE}, {"k_norm_weight", FLOATS, 'T', MAYBE},
                       {"query_seqlens", TS(TN_I32), 0, MAYBE}),
    .outputs = OPERANDS({"output", FLOATS, 'T'}, {"present_key", CACHES, 'C', MAYBE},
                        {"present_value", CACHES, 'C', MAYBE}, {"output_qk", FLOATS, 'T', MAYBE}),
    .attrs = ATTRIBUTES({"causal", ATTR_INT, .i = 1}, {"do_rotary", ATTR_INT}, {"k_norm_epsilon", ATTR_FLOAT},
                        {"k_quant_type", ATTR_STRING, .s = "NONE"}, {"kv_cache_bit_width", ATTR_INT},
                        {"kv_num_heads", ATTR_INT, ATTR_REQUIRED}, {"local_window_size", ATTR_INT, .i = -1},
                        {"num_heads", ATTR_INT, ATTR_REQUIRED}, {"q_norm_epsilon", ATTR_FLOAT},
                        {"qk_norm_epsilon", ATTR_FLOAT, .f = 1e-6}, {"qk_output", ATTR_INT},
                        {"rotary_interleaved", ATTR_INT}, {"scale", ATTR_FLOAT}, {"sliding_window_cache", ATTR_INT},
                        {"smooth_softmax", ATTR_INT}, {"softcap", ATTR_FLOAT},
                        {"v_quant_type", ATTR_STRING, .s = "NONE"}),
    .content_inputs = 1 << IN_TOTAL,
    .infer = group_query_infer,
    .reference = group_query_reference,
};
