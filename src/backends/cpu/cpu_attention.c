/* SPDX-License-Identifier: Apache-2.0 */
/* Attention (ONNX) in float32: operands of three or four dimensions in any reading, all masks, a cache. */
#include "backends/cpu/attention_int.h"

#include <math.h>

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_K, IN_PAST_V, IN_VALID };
enum { OUT_Y, OUT_K, OUT_V, OUT_QK };

/* ---- what it takes -------------------------------------------------------------------------------------------------- */

static bool is_float(const KernelQuery *q, int i, bool may_lack) {
    if (i >= q->n_in || !q->in[i]) return may_lack;
    return q->in[i]->dtype == TN_F32;
}

static bool matches(const KernelQuery *q) {
    int64_t precision = attr_int(q->node, "softmax_precision");
    if (q->n_out > OUT_QK || dtype_is_half(precision)) return false;
    for (int i = IN_Q; i <= IN_V; i++) {
        if (!is_float(q, i, false)) return false;
        for (int d = 0; d < q->in[i]->rank; d++)
            if (q->in[i]->dims[d] > INT32_MAX / 2) return false;
    }
    if (!is_float(q, IN_PAST_K, true) || !is_float(q, IN_PAST_V, true)) return false;
    if (q->n_in > IN_PAST_K && q->in[IN_PAST_K] && q->in[IN_PAST_K]->dims[2] > INT32_MAX / 2) return false;
    return q->n_in <= IN_MASK || !q->in[IN_MASK] || q->in[IN_MASK]->dtype == TN_BOOL || is_float(q, IN_MASK, true);
}

/* ---- operands ------------------------------------------------------------------------------------------------------- */

/* [batch, heads, steps, size], or [batch, steps, heads * size]. */
static void read_strides(const Tensor *t, int64_t heads, int64_t stride[4]) {
    const int64_t *s = t->strides;
    if (t->rank == 4) {
        memcpy(stride, s, 4 * sizeof *s);
        return;
    }
    int64_t size = heads ? t->dims[2] / heads : 0;
    stride[BY_BATCH] = s[0], stride[BY_STEP] = s[1], stride[BY_ELEMENT] = s[2], stride[BY_HEAD] = s[2] * size;
}

static float *data_of(const Tensor *t) { return t->data ? (float *)t->data + t->offset : NULL; }

static AttnHeads read_heads(const Tensor *t, int64_t heads) {
    AttnHeads h = {.data = data_of(t)};
    read_strides(t, heads, h.stride);
    return h;
}

static void read_present(const KernelCtx *c, int i, AttnPresent *p) {
    if (!output_wanted(c, i) || !c->out[i].data) return;
    p->data = data_of(&c->out[i]);
    read_strides(&c->out[i], 0, p->stride);
}

static void read_sizes(const KernelCtx *c, AttnJob *job) {
    const Tensor *q = c->in[IN_Q], *k = c->in[IN_K], *v = c->in[IN_V];
    bool split = q->rank == 4, past = kernel_has_input(c, IN_PAST_K);
    job->batch = q->dims[0];
    job->heads = split ? q->dims[1] : attr_int(c->node, "q_num_heads");
    job->kv_heads = split ? k->dims[1] : attr_int(c->node, "kv_num_heads");
    job->steps = q->dims[q->rank - 2];
    job->size = split ? q->dims[3] : q->dims[2] / job->heads;
    job->v_size = split ? v->dims[3] : v->dims[2] / job->kv_heads;
    if (past) {
        AttnPart *p = &job->part[job->n_parts++];
        *p = (AttnPart){read_heads(c->in[IN_PAST_K], 0), read_heads(c->in[IN_PAST_V], 0), c->in[IN_PAST_K]->dims[2]};
        job->offset = p->steps;
    }
    job->part[job->n_parts++] = (AttnPart){read_heads(k, job->kv_heads), read_heads(v, job->kv_heads),
                                           k->dims[k->rank - 2]};
    job->length = job->keys = job->offset + k->dims[k->rank - 2];
}

/* ---- masks ---------------------------------------------------------------------------------------------------------- */

static int64_t bound_of(const Node *node, const char *name) { return min_i64(attr_int(node, name), INT32_MAX); }

static void read_mask(const KernelCtx *c, AttnJob *job) {
    job->left = bound_of(c->node, "left_window_size");
    job->right = attr_int(c->node, "is_causal") ? 0 : bound_of(c->node, "right_window_size");
    if (!kernel_has_input(c, IN_MASK)) return;
    const Tensor *t = c->in[IN_MASK];
    job->length = min_i64(job->length, t->dims[t->rank - 1]); /* the mask may be short: nobody sees keys behind it */
    if (tensor_count(t) == 0) return;
    if (t->dtype == TN_BOOL) job->seen = (const uint8_t *)t->data + t->offset;
    else job->added = data_of(t);
    for (int d = 0; d < t->rank; d++) job->mask_stride[4 - t->rank + d] = t->dims[d] == 1 ? 0 : t->strides[d];
}

/* nonpad_kv_seqlen: the last query stands at the last key that counts. */
static tn_status read_lengths(KernelCtx *c, AttnJob *job) {
    if (!kernel_has_input(c, IN_VALID)) return TN_OK;
    TRY(dense_i64(c, IN_VALID, &job->lengths));
    int64_t *offsets = kernel_scratch(c, int64_t, (size_t)job->batch + 1);
    if (!offsets) return TN_OUT_OF_MEMORY;
    for (int64_t b = 0; b < job->batch; b++) {
        int64_t n = job->lengths[b];
        if (n < 0 || n > job->keys)
            return fail(TN_OUT_OF_RANGE, "nonpad_kv_seqlen is %lld; 0 to %lld is wanted", (long long)n,
                        (long long)job->keys);
        offsets[b] = n - job->steps;
    }
    job->offsets = offsets;
    return TN_OK;
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    AttnJob job = {.softcap = (float)attr_float(c->node, "softcap")};
    (void)prepared;
    read_sizes(c, &job);
    read_mask(c, &job);
    TRY(read_lengths(c, &job));
    job.scale = (float)(attr_present(c->node, "scale") ? attr_float(c->node, "scale") : 1 / sqrt((double)job.size));
    job.q = read_heads(c->in[IN_Q], job.heads);
    job.y = data_of(&c->out[OUT_Y]);
    read_strides(&c->out[OUT_Y], job.heads, job.y_stride);
    read_present(c, OUT_K, &job.present_k);
    read_present(c, OUT_V, &job.present_v);
    return attention_run(c, &job);
}

/* Keys and values of before. */
static int grows(const Node *node, int k) {
    (void)node;
    return k == 1 || k == 2 ? 3 + k : -1;
}

const KernelDesc kernel_cpu_attention = {
    .name = "cpu_attention",
    .op = "Attention",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .strided = strided_all,
    .grows = grows,
    .launch = launch,
};
