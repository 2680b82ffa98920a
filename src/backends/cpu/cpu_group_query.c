/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft.GroupQueryAttention in float32: heads turned by their positions, the cache put together, attention over it. What
   is quantised, normalised or slides is left to the reference kernel. */
#include <math.h>

#include "backends/cpu/attention_int.h"
#include "backends/cpu/rotary_int.h"

enum { IN_Q, IN_K, IN_V, IN_PAST_K, IN_PAST_V, IN_LENGTHS, IN_TOTAL, IN_COS, IN_SIN, IN_POSITIONS, IN_ADDED, IN_SINK };
enum { IN_K_SCALE = IN_SINK + 1, IN_Q_NORM = IN_K_SCALE + 2, IN_COUNTS = IN_Q_NORM + 2 };
enum { OUT_Y, OUT_K, OUT_V, OUT_QK };

static bool has(const KernelQuery *q, int i) { return i < q->n_in && q->in[i]; }

static bool matches(const KernelQuery *q) {
    if (q->n_out > OUT_QK || attr_int(q->node, "sliding_window_cache")) return false;
    if (!attr_string_is(q->node, "k_quant_type", "NONE") || !attr_string_is(q->node, "v_quant_type", "NONE"))
        return false;
    for (int i = IN_Q_NORM; i <= IN_COUNTS; i++)
        if (has(q, i)) return false;
    for (int i = 0; i < q->n_in; i++) {
        if (!has(q, i) || i == IN_LENGTHS || i == IN_TOTAL || i == IN_POSITIONS) continue;
        if (q->in[i]->dtype != TN_F32) return false;
        for (int d = 0; d < q->in[i]->rank; d++)
            if (q->in[i]->dims[d] > INT32_MAX / 2) return false;
    }
    return true;
}

/* All but the caches of cosines and sines, which are read row by row. */
static uint32_t strided(const Node *node) {
    (void)node;
    return ~(1u << IN_COS | 1u << IN_SIN);
}

/* ---- a call --------------------------------------------------------------------------------------------------------- */

typedef struct Group {
    int64_t batch, steps, heads, kv_heads, size;
    int64_t total, cached, capacity; /* rows of a head of the cache that comes and the one that goes */
    bool prompt;                     /* the first call: nothing is cached */
    int64_t *past, *length;          /* of each batch entry: where the new steps begin, and where they end */
    AttnHeads q, k, v, past_k, past_v, all_k, all_v; /* data of past ones NULL: nothing is cached */
    float *turned;                                   /* queries, [batch, steps, heads, size]; NULL: as they come */
    int64_t half;
    const float *cosines, *sines; /* NULL: heads are not turned */
    const int64_t *positions;
    bool interleaved;
    const RotaryTable *rotary;
} Group;

static AttnHeads heads_of(const Tensor *t, int64_t first, int64_t size) {
    const int64_t *s = t->strides;
    AttnHeads h = {t->data ? (const float *)t->data + t->offset : NULL, {s[0], s[2] * size, s[1], s[2]}};
    if (h.data) h.data += first * size * s[2];
    return h;
}

static AttnHeads cache_of(const Tensor *t) {
    AttnHeads h = {t->data ? (const float *)t->data + t->offset : NULL, {0}};
    memcpy(h.stride, t->strides, sizeof h.stride);
    return h;
}

static const float *row_of(const AttnHeads *h, int64_t b, int64_t head, int64_t step) {
    return h->data + b * h->stride[BY_BATCH] + head * h->stride[BY_HEAD] + step * h->stride[BY_STEP];
}

/* As onnxruntime: in a prompt shorter entries are padded on the right. */
static tn_status read_entries(KernelCtx *c, Group *g) {
    const int64_t *last;
    TRY(dense_i64(c, IN_LENGTHS, &last));
    g->past = kernel_scratch(c, int64_t, (size_t)(2 * g->batch) + 1);
    if (!g->past) return TN_OUT_OF_MEMORY;
    g->length = g->past + g->batch;
    for (int64_t b = 0; b < g->batch; b++) {
        int64_t length = last[b] >= 0 && last[b] < g->total ? last[b] + 1 : 0;
        int64_t added = g->prompt ? min_i64(g->steps, length) : g->steps;
        g->length[b] = length, g->past[b] = length - added;
        if (length < 1 || g->past[b] < 0 || g->past[b] > g->cached)
            return fail(TN_OUT_OF_RANGE, "seqlens_k is %lld, for %lld new keys, %lld cached ones and %lld in all",
                        (long long)last[b], (long long)added, (long long)g->cached, (long long)g->total);
    }
    return TN_OK;
}

static tn_status read_group(KernelCtx *c, Group *g) {
    const Tensor *q = c->in[IN_Q];
    bool packed = !kernel_has_input(c, IN_K);
    const int64_t *total;
    *g = (Group){.batch = q->dims[0],
                 .steps = q->dims[1],
                 .heads = attr_int(c->node, "num_heads"),
                 .kv_heads = attr_int(c->node, "kv_num_heads")};
    g->size = q->dims[2] / (packed ? g->heads + 2 * g->kv_heads : g->heads);
    g->q = heads_of(q, 0, g->size);
    g->k = packed ? heads_of(q, g->heads, g->size) : heads_of(c->in[IN_K], 0, g->size);
    g->v = packed ? heads_of(q, g->heads + g->kv_heads, g->size) : heads_of(c->in[IN_V], 0, g->size);
    if (kernel_has_input(c, IN_PAST_K)) {
        g->cached = c->in[IN_PAST_K]->dims[2];
        g->past_k = cache_of(c->in[IN_PAST_K]), g->past_v = cache_of(c->in[IN_PAST_V]);
    }
    if (tensor_count(c->in[IN_TOTAL]) != 1) return fail(TN_SHAPE, "total_sequence_length must have one element");
    TRY(dense_i64(c, IN_TOTAL, &total));
    g->total = *total;
    if (g->total - g->cached > g->steps) /* each step adds one to what is cached */
        return fail(TN_OUT_OF_RANGE, "total_sequence_length is %lld, but past and new steps are %lld and %lld",
                    (long long)*total, (long long)g->cached, (long long)g->steps);
    g->capacity = max_i64(g->cached, g->total);
    g->prompt = g->total == g->steps;
    return read_entries(c, g);
}

/* ---- positions ------------------------------------------------------------------------------------------------------ */

static int64_t position_of(const Group *g, int64_t b, int64_t step) {
    int64_t at;
    if (!g->positions) return g->past[b] + step;
    if (g->prompt && !add_overflows(g->positions[0], step, &at)) return at;
    return g->positions[b * g->steps + step];
}

static bool is_new(const Group *g, int64_t b, int64_t step) { return step < g->length[b] - g->past[b]; }

static tn_status read_rotary(KernelCtx *c, Group *g) {
    if (!attr_int(c->node, "do_rotary")) return TN_OK;
    int64_t rows = c->in[IN_COS]->dims[0], n;
    g->half = c->in[IN_COS]->dims[1];
    g->interleaved = attr_int(c->node, "rotary_interleaved") != 0;
    g->rotary = ISA_PICK(rotary_table);
    TRY(dense_f32(c, IN_COS, &g->cosines));
    TRY(dense_f32(c, IN_SIN, &g->sines));
    if (kernel_has_input(c, IN_POSITIONS)) TRY(dense_i64(c, IN_POSITIONS, &g->positions));
    for (int64_t k = 0; k < g->batch * g->steps; k++) {
        int64_t b = k / g->steps, step = k % g->steps;
        if (!is_new(g, b, step)) continue;
        int64_t at = position_of(g, b, step);
        if (at < 0 || at >= rows)
            return fail(TN_OUT_OF_RANGE, "position %lld is not in 0..%lld", (long long)at, (long long)rows - 1);
    }
    TRY(checked_count(4, (int64_t[]){g->batch, g->steps, g->heads, g->size}, &n));
    g->turned = arena_raw(c->scratch, (size_t)(n + 1) * sizeof(float), 64);
    return g->turned ? TN_OK : TN_OUT_OF_MEMORY;
}

/* ---- heads and caches ----------------------------------------------------------------------------------------------- */

static void copy_head(float *to, int64_t to_stride, const float *from, int64_t from_stride, int64_t n) {
    if (to_stride == 1 && from_stride == 1) memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++) to[i * to_stride] = from[i * from_stride];
}

/* Turns a dense head of step `step`. */
static void turn_head(const Group *g, int64_t b, int64_t step, float *head) {
    if (!g->cosines || !is_new(g, b, step)) return;
    int64_t row = position_of(g, b, step) * g->half;
    g->rotary->turn(head, g->size, g->half, g->cosines + row, g->sines + row, g->interleaved, head);
}

/* One item is one step of a batch entry. */
static void turn_queries(void *arg, int64_t begin, int64_t end) {
    const Group *g = arg;
    for (int64_t k = begin; k < end; k++)
        for (int64_t h = 0; h < g->heads; h++) {
            int64_t b = k / g->steps, step = k % g->steps;
            float *to = g->turned + (k * g->heads + h) * g->size;
            copy_head(to, 1, row_of(&g->q, b, h, step), g->q.stride[BY_ELEMENT], g->size);
            turn_head(g, b, step, to);
        }
}

/* One head's rows: those of before, those that are new, zeros. The result's elements are neighbours. */
static void fill_rows(const Group *g, const AttnHeads *all, const AttnHeads *past, const AttnHeads *fresh, bool turns,
                      int64_t b, int64_t h) {
    bool stays = past->data == all->data && memcmp(past->stride, all->stride, sizeof all->stride) == 0;
    for (int64_t i = 0; i < g->capacity; i++) {
        float *to = (float *)row_of(all, b, h, i);
        if (i >= g->length[b]) {
            memset(to, 0, (size_t)g->size * sizeof *to);
        } else if (i >= g->past[b]) {
            copy_head(to, 1, row_of(fresh, b, h, i - g->past[b]), fresh->stride[BY_ELEMENT], g->size);
            if (turns) turn_head(g, b, i - g->past[b], to);
        } else if (!stays) {
            copy_head(to, 1, row_of(past, b, h, i), past->stride[BY_ELEMENT], g->size);
        }
    }
}

/* One item is one head of a batch entry's keys and values. */
static void fill_caches(void *arg, int64_t begin, int64_t end) {
    const Group *g = arg;
    for (int64_t k = begin; k < end; k++) {
        fill_rows(g, &g->all_k, &g->past_k, &g->k, true, k / g->kv_heads, k % g->kv_heads);
        fill_rows(g, &g->all_v, &g->past_v, &g->v, false, k / g->kv_heads, k % g->kv_heads);
    }
}

/* The whole cache: the result, where it is wanted and its elements are neighbours, else scratch memory. */
static tn_status open_cache(KernelCtx *c, const Group *g, int out, AttnHeads *all) {
    int64_t n, head = g->capacity * g->size;
    if (output_wanted(c, out) && c->out[out].data && c->out[out].strides[3] == 1) {
        *all = cache_of(&c->out[out]);
        return TN_OK;
    }
    TRY(checked_count(4, (int64_t[]){g->batch, g->kv_heads, g->capacity, g->size}, &n));
    float *own = arena_raw(c->scratch, (size_t)(n + 1) * sizeof(float), 64);
    if (!own) return TN_OUT_OF_MEMORY;
    *all = (AttnHeads){own, {g->kv_heads * head, head, g->size, 1}};
    return TN_OK;
}

/* Into a result that is in another order. */
static void give_cache(KernelCtx *c, const Group *g, int out, const AttnHeads *all) {
    if (!output_wanted(c, out) || !c->out[out].data || c->out[out].strides[3] == 1) return;
    AttnHeads to = cache_of(&c->out[out]);
    for (int64_t k = 0; k < g->batch * g->kv_heads * g->capacity; k++) {
        int64_t i = k % g->capacity, h = k / g->capacity % g->kv_heads, b = k / g->capacity / g->kv_heads;
        copy_head((float *)row_of(&to, b, h, i), to.stride[BY_ELEMENT], row_of(all, b, h, i), 1, g->size);
    }
}

/* ---- attention ------------------------------------------------------------------------------------------------------ */

static tn_status read_job(KernelCtx *c, const Group *g, AttnJob *job) {
    int64_t window = attr_int(c->node, "local_window_size");
    double scale = attr_float(c->node, "scale");
    bool causal = attr_int(c->node, "causal") != 0;
    AttnHeads y = heads_of(&c->out[OUT_Y], 0, g->size);
    *job = (AttnJob){.batch = g->batch, .heads = g->heads, .kv_heads = g->kv_heads, .steps = g->steps};
    job->size = job->v_size = g->size;
    job->q = g->q;
    if (g->turned) job->q = (AttnHeads){g->turned, {g->steps * g->heads * g->size, g->size, g->heads * g->size, 1}};
    job->part[job->n_parts++] = (AttnPart){g->all_k, g->all_v, g->capacity};
    job->keys = g->capacity;
    job->length = causal && window == 0 ? 0 : g->capacity;
    job->offsets = g->past, job->lengths = g->length;
    job->right = causal ? 0 : -1;
    job->left = causal && window > 0 ? min_i64(window, INT32_MAX) - 1 : -1;
    job->y = (float *)y.data;
    memcpy(job->y_stride, y.stride, sizeof y.stride);
    job->scale = (float)(scale != 0 ? scale : 1 / sqrt((double)g->size));
    job->softcap = (float)attr_float(c->node, "softcap");
    if (kernel_has_input(c, IN_SINK)) TRY(dense_f32(c, IN_SINK, &job->sink));
    job->has_sink = job->sink || attr_int(c->node, "smooth_softmax") > 0;
    if (!kernel_has_input(c, IN_ADDED)) return TN_OK;
    const Tensor *t = c->in[IN_ADDED];
    if (t->dims[3] != g->total || t->dims[2] != g->steps)
        return fail(TN_SHAPE, "attention_bias does not fit the scores");
    job->added = t->data ? (const float *)t->data + t->offset : NULL;
    for (int d = 0; d < 4; d++) job->mask_stride[d] = d < 2 && t->dims[d] == 1 ? 0 : t->strides[d];
    return TN_OK;
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    Group g;
    AttnJob job;
    (void)prepared;
    TRY(read_group(c, &g));
    TRY(read_rotary(c, &g));
    TRY(open_cache(c, &g, OUT_K, &g.all_k));
    TRY(open_cache(c, &g, OUT_V, &g.all_v));
    double row = 0.2 * (double)g.size;
    TRY(kernel_parallel(c, g.batch * g.kv_heads, row * (double)g.capacity, fill_caches, &g));
    if (g.turned) TRY(kernel_parallel(c, g.batch * g.steps, row * (double)g.heads, turn_queries, &g));
    TRY(read_job(c, &g, &job));
    TRY(attention_run(c, &job));
    give_cache(c, &g, OUT_K, &g.all_k);
    give_cache(c, &g, OUT_V, &g.all_v);
    return TN_OK;
}

const KernelDesc kernel_cpu_group_query = {
    .name = "cpu_group_query",
    .op = "com.microsoft.GroupQueryAttention",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .strided = strided,
    .launch = launch,
};
