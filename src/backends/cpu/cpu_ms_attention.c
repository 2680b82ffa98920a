/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft.MultiHeadAttention and com.microsoft.Attention in float32: the many ways in which they get queries, keys and
   values, and their masks, brought to what attention.c runs. */
#include <math.h>

#include "backends/cpu/attention_int.h"
#include "backends/cpu/gemm_int.h"

enum { IN_Q, IN_K, IN_V, IN_BIAS, IN_MASK, IN_ADDED, IN_PAST_K, IN_PAST_V }; /* of MultiHeadAttention */
enum { IN_X, IN_WEIGHTS, IN_X_BIAS, IN_X_MASK, IN_PAST, IN_X_ADDED };        /* of Attention */
enum { OUT_Y, OUT_K, OUT_V, OUT_QK };

static bool is_joint(const Node *node) { return strcmp(node->op->name, "Attention") == 0; }

/* ---- what they take ------------------------------------------------------------------------------------------------- */

static bool matches(const KernelQuery *q) {
    int mask = is_joint(q->node) ? IN_X_MASK : IN_MASK, added = is_joint(q->node) ? IN_X_ADDED : IN_ADDED;
    if (!is_joint(q->node) && q->n_out > OUT_QK) return false;
    for (int i = 0; i < q->n_in; i++) {
        if (!q->in[i] || i == mask) continue;
        if (q->in[i]->dtype != TN_F32) return false;
        for (int d = 0; d < q->in[i]->rank; d++)
            if (q->in[i]->dims[d] > INT32_MAX / 2) return false;
    }
    if (is_joint(q->node) && q->in[IN_X]->dims[2] == 0) return false;
    /* Both masks for each query: neither is the same for all. */
    bool both = added < q->n_in && q->in[added] && q->in[mask];
    return !both || q->in[mask]->rank != 3;
}

static uint32_t strided(const Node *node) { return is_joint(node) ? 1u << IN_PAST | 1u << IN_X_ADDED : UINT32_MAX; }

/* ---- operands ------------------------------------------------------------------------------------------------------- */

static const float *data_of(const Tensor *t) { return t->data ? (const float *)t->data + t->offset : NULL; }

/* [batch, steps, heads * size] */
static AttnHeads joint_heads(const Tensor *t, int64_t size) {
    const int64_t *s = t->strides;
    return (AttnHeads){data_of(t), {s[0], s[2] * size, s[1], s[2]}};
}
/* [batch, steps, heads, parts, size] */
static AttnHeads part_heads(const Tensor *t, int part) {
    const int64_t *s = t->strides;
    AttnHeads h = {data_of(t), {s[0], s[2], s[1], s[4]}};
    if (h.data) h.data += part * s[3];
    return h;
}
/* [batch, heads, steps, size] */
static AttnHeads split_heads(const Tensor *t) {
    const int64_t *s = t->strides;
    return (AttnHeads){data_of(t), {s[0], s[1], s[2], s[3]}};
}

/* Heads with a bias of heads * size added, as [batch, steps, heads, size] in scratch memory. */
static tn_status add_bias(KernelCtx *c, const AttnJob *job, const float *bias, int64_t steps, int64_t size,
                          AttnHeads *h) {
    int64_t row = job->heads * size, *s = h->stride, n;
    TRY(checked_count(3, (int64_t[]){job->batch, steps, row}, &n));
    float *y = arena_raw(c->scratch, (size_t)(n + 1) * sizeof(float), 64);
    if (!y) return TN_OUT_OF_MEMORY;
    for (int64_t k = 0; k < job->batch * steps * job->heads; k++) {
        int64_t head = k % job->heads, step = k / job->heads % steps, b = k / job->heads / steps;
        const float *from = h->data + b * s[BY_BATCH] + step * s[BY_STEP] + head * s[BY_HEAD],
                    *add = bias + head * size;
        float *to = y + k * size;
        if (s[BY_ELEMENT] == 1)
            for (int64_t e = 0; e < size; e++) to[e] = from[e] + add[e];
        else
            for (int64_t e = 0; e < size; e++) to[e] = from[e * s[BY_ELEMENT]] + add[e];
    }
    *h = (AttnHeads){y, {steps * row, size, row, 1}};
    return TN_OK;
}

static void read_present(const KernelCtx *c, int i, AttnPresent *p) {
    if (!output_wanted(c, i) || !c->out[i].data) return;
    p->data = (float *)c->out[i].data + c->out[i].offset;
    memcpy(p->stride, c->out[i].strides, sizeof p->stride);
}

static void finish_job(KernelCtx *c, AttnJob *job) {
    const Tensor *y = &c->out[OUT_Y];
    AttnHeads h = joint_heads(y, job->v_size);
    double scale = attr_float(c->node, "scale");
    job->y = (float *)y->data + y->offset;
    memcpy(job->y_stride, h.stride, sizeof h.stride);
    job->scale = (float)(scale != 0 ? scale : 1 / sqrt((double)job->size));
    job->left = -1;
    job->right = attr_int(c->node, "unidirectional") ? 0 : -1;
}

/* ---- masks ---------------------------------------------------------------------------------------------------------- */

/* What is added for keys that a mask says no to, as summands of [batch, keys]: from numbers of keys, from ranges of them, or
   key by key. */
static tn_status read_key_mask(KernelCtx *c, int mask, AttnJob *job) {
    const Tensor *t = c->in[mask];
    const int64_t *data;
    float filter = (float)attr_float(c->node, "mask_filter_value");
    int64_t n = job->batch * job->keys;
    if (t->rank == 3) n *= job->steps;
    float *bias = kernel_scratch(c, float, (size_t)n + 1);
    if (!bias) return TN_OUT_OF_MEMORY;
    TRY(dense_i64(c, mask, &data));
    for (int64_t i = 0; t->rank > 1 && i < n; i++) bias[i] = data[i] > 0 ? 0 : filter;
    for (int64_t b = 0; t->rank == 1 && b < job->batch; b++) {
        int64_t first = t->dims[0] == job->batch ? 0 : min_i64(data[job->batch + b], job->keys);
        for (int64_t j = 0; j < job->keys; j++) bias[b * job->keys + j] = j < data[b] && j >= first ? 0 : filter;
    }
    if (t->rank < 3) {
        job->key_bias = bias;
        return TN_OK;
    }
    const int64_t strides[4] = {job->steps * job->keys, 0, job->keys, 1};
    job->added = bias;
    memcpy(job->mask_stride, strides, sizeof strides);
    return TN_OK;
}

static tn_status read_masks(KernelCtx *c, int mask, int added, AttnJob *job) {
    if (kernel_has_input(c, mask)) TRY(read_key_mask(c, mask, job));
    if (!kernel_has_input(c, added)) return TN_OK;
    const Tensor *t = c->in[added];
    job->added = data_of(t);
    for (int d = 0; d < 4; d++) job->mask_stride[d] = t->dims[d] == 1 ? 0 : t->strides[d];
    return TN_OK;
}

static void add_part(AttnJob *job, AttnHeads k, AttnHeads v, int64_t steps) {
    job->part[job->n_parts++] = (AttnPart){k, v, steps};
    job->length = job->keys += steps;
}

/* ---- MultiHeadAttention --------------------------------------------------------------------------------------------- */

/* How keys and values come: in the queries' operand, together, apart, or with the heads set apart already. */
static tn_status read_operands(KernelCtx *c, AttnJob *job) {
    const Tensor *q = c->in[IN_Q], *tk = kernel_has_input(c, IN_K) ? c->in[IN_K] : q, *tv;
    AttnHeads k, v;
    int64_t steps = tk->dims[tk->rank == 4 ? 2 : 1];
    *job = (AttnJob){.batch = q->dims[0], .steps = q->dims[1], .heads = attr_int(c->node, "num_heads")};
    job->kv_heads = job->heads;
    job->size = job->v_size = q->rank == 5 ? q->dims[4] : q->dims[2] / job->heads;
    job->q = q->rank == 5 ? part_heads(q, 0) : joint_heads(q, job->size);
    if (tk->rank == 5) {
        k = part_heads(tk, tk == q ? 1 : 0), v = part_heads(tk, tk == q ? 2 : 1);
    } else {
        tv = c->in[IN_V];
        job->v_size = tk->rank == 4 ? tv->dims[3] : tv->dims[2] / job->heads;
        k = tk->rank == 4 ? split_heads(tk) : joint_heads(tk, job->size);
        v = tk->rank == 4 ? split_heads(tv) : joint_heads(tv, job->v_size);
    }
    if (kernel_has_input(c, IN_BIAS)) {
        const float *bias;
        int64_t hidden = job->heads * job->size;
        TRY(dense_f32(c, IN_BIAS, &bias));
        TRY(add_bias(c, job, bias, job->steps, job->size, &job->q));
        if (tk->rank != 4) { /* heads that were set apart have theirs already */
            TRY(add_bias(c, job, bias + hidden, steps, job->size, &k));
            TRY(add_bias(c, job, bias + 2 * hidden, steps, job->v_size, &v));
        }
    }
    if (kernel_has_input(c, IN_PAST_K)) {
        job->offset = c->in[IN_PAST_K]->dims[2];
        add_part(job, split_heads(c->in[IN_PAST_K]), split_heads(c->in[IN_PAST_V]), job->offset);
    }
    add_part(job, k, v, steps);
    return TN_OK;
}

static tn_status launch_multi_head(KernelCtx *c) {
    AttnJob job;
    TRY(read_operands(c, &job));
    TRY(read_masks(c, IN_MASK, IN_ADDED, &job));
    finish_job(c, &job);
    read_present(c, OUT_K, &job.present_k);
    read_present(c, OUT_V, &job.present_v);
    return attention_run(c, &job);
}

/* ---- Attention ------------------------------------------------------------------------------------------------------ */

static tn_status pack(void *arg, void *dst) {
    const Tensor *t = arg;
    gemm_pack_b(dst, tensor_bytes(t), t->strides[0], t->strides[1], t->dims[0], t->dims[1], NULL);
    return TN_OK;
}

static void release(Prepared *prepared, const Allocator *allocator) {
    (void)allocator;
    packed_put(prepared->data);
}

static tn_status prepare(const KernelQuery *q, Context *context, Prepared *out) {
    const Tensor *t = q->in[IN_WEIGHTS];
    const Packed *packed;
    *out = (Prepared){0};
    if (!is_joint(q->node) || !t->data || !tensor_is_dense(t) || tensor_count(t) == 0) return TN_OK;
    PackKey key = {tensor_bytes(t),
                   "gemm_b",
                   {t->dims[0], t->dims[1], t->strides[0], t->strides[1], gemm_nr(), 1},
                   (size_t)tensor_count(t) * sizeof(float)};
    TRY(packed_get(context, &key, gemm_packed_size(t->dims[0], t->dims[1]), pack, (void *)t, &packed));
    *out = (Prepared){.data = (void *)packed, .release = release, .replaces = 1u << IN_WEIGHTS};
    return TN_OK;
}

/* Queries, keys and values side by side. */
static tn_status project(KernelCtx *c, const Packed *packed, float **out) {
    const Tensor *x = c->in[IN_X], *w = c->in[IN_WEIGHTS];
    GemmArgs g = {.m = x->dims[0] * x->dims[1],
                  .n = w->dims[1],
                  .k = x->dims[2],
                  .batch = 1,
                  .a_row = x->dims[2],
                  .a_col = 1,
                  .b_row = w->dims[1],
                  .b_col = 1,
                  .c_row = w->dims[1],
                  .packed = packed ? packed->data : NULL,
                  .tail = GEMM_PLAIN,
                  .pool = c->pool,
                  .scratch = c->scratch};
    int64_t n;
    TRY(checked_count(2, (int64_t[]){g.m, g.n}, &n));
    *out = g.c = arena_raw(c->scratch, (size_t)(n + 1) * sizeof(float), 64);
    if (!g.c) return TN_OUT_OF_MEMORY;
    TRY(dense_f32(c, IN_X, &g.a));
    if (!packed) TRY(dense_f32(c, IN_WEIGHTS, &g.b));
    if (kernel_has_input(c, IN_X_BIAS)) TRY(dense_f32(c, IN_X_BIAS, &g.tail.bias));
    return gemm_run(&g);
}

/* One half of [2, batch, heads, steps, size]. */
static AttnHeads half_of(const Tensor *t, int half) {
    const int64_t *s = t->strides;
    AttnHeads h = {data_of(t), {s[1], s[2], s[3], s[4]}};
    if (h.data) h.data += half * s[0];
    return h;
}

static tn_status launch_joint(KernelCtx *c, const Packed *packed) {
    const Tensor *x = c->in[IN_X];
    int64_t width = c->in[IN_WEIGHTS]->dims[1], steps = x->dims[1];
    IntList sizes = attr_ints(c->node, "qkv_hidden_sizes");
    int64_t hidden = sizes.n ? sizes.data[0] : width / 3, v_hidden = sizes.n ? sizes.data[2] : width / 3;
    float *qkv;
    AttnJob job = {.batch = x->dims[0], .steps = steps, .heads = attr_int(c->node, "num_heads")};
    job.kv_heads = job.heads;
    job.size = hidden / job.heads, job.v_size = v_hidden / job.heads;
    TRY(project(c, packed, &qkv));
    AttnHeads k = {qkv + hidden, {steps * width, job.size, width, 1}}, v = {qkv + 2 * hidden, {0}};
    memcpy(v.stride, k.stride, sizeof k.stride);
    v.stride[BY_HEAD] = job.v_size;
    job.q = k, job.q.data = qkv;
    if (kernel_has_input(c, IN_PAST)) {
        job.offset = c->in[IN_PAST]->dims[3];
        add_part(&job, half_of(c->in[IN_PAST], 0), half_of(c->in[IN_PAST], 1), job.offset);
    }
    add_part(&job, k, v, steps);
    TRY(read_masks(c, IN_X_MASK, IN_X_ADDED, &job));
    finish_job(c, &job);
    if (output_wanted(c, OUT_K) && c->out[OUT_K].data) {
        for (int i = 0; i < 2; i++) {
            AttnHeads h = half_of(&c->out[OUT_K], i);
            AttnPresent *p = i ? &job.present_v : &job.present_k;
            p->data = (float *)c->out[OUT_K].data + c->out[OUT_K].offset + i * c->out[OUT_K].strides[0];
            memcpy(p->stride, h.stride, sizeof h.stride);
        }
    }
    return attention_run(c, &job);
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    return is_joint(c->node) ? launch_joint(c, prepared ? prepared->data : NULL) : launch_multi_head(c);
}

const KernelDesc kernel_cpu_ms_attention = {
    .name = "cpu_ms_attention",
    .op = "com.microsoft.MultiHeadAttention com.microsoft.Attention",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .strided = strided,
    .pack_format = "gemm_b",
    .prepare = prepare,
    .launch = launch,
};
