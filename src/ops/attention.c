/* SPDX-License-Identifier: Apache-2.0 */
/* Attention (ONNX 25): softmax(Q K^T * scale + bias) V, with grouped heads, a growing cache and several masks. */
#include "ops/nn_int.h"

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_K, IN_PAST_V, IN_VALID };
enum { OUT_Y, OUT_K, OUT_V, OUT_QK };

/* ---- shapes -------------------------------------------------------------------------------------------------- */

/* An operand as [batch, heads, steps, size], given as such or as [batch, steps, heads * size]. */
typedef struct Heads {
    Dim batch, heads, steps, size;
} Heads;

static tn_status heads_of(InferCtx *c, int i, const char *attr, Heads *h) {
    int64_t n = attr_int(c->node, attr);
    if (in_shape(c, i)->rank == 4) {
        *h = (Heads){in_dim(c, i, 0), in_dim(c, i, 1), in_dim(c, i, 2), in_dim(c, i, 3)};
        return TN_OK;
    }
    Dim hidden = in_dim(c, i, 2);
    if (n < 1) return fail(TN_INVALID_MODEL, "%s is wanted where operands have 3 dimensions", attr);
    if (dim_is_const(hidden) && hidden % n)
        return fail(TN_SHAPE, "\"%.*s\" of size %lld cannot be divided into %lld heads", IN_NAME(c, i),
                    (long long)hidden, (long long)n);
    *h = (Heads){in_dim(c, i, 0), n, in_dim(c, i, 1), dim_floordiv(c->dims, hidden, n)};
    return TN_OK;
}

static tn_status check_heads(const Heads *q, const Heads *k, const Heads *v) {
    Dim same;
    TRY(dims_must_match(q->size, k->size, "head sizes of Q and K", &same));
    TRY(dims_must_match(k->heads, v->heads, "heads of K and V", &same));
    TRY(dims_must_match(k->steps, v->steps, "lengths of K and V", &same));
    TRY(dims_must_match(q->batch, k->batch, "batches of Q and K", &same));
    TRY(dims_must_match(q->batch, v->batch, "batches of Q and V", &same));
    bool known = dim_is_const(q->heads) && dim_is_const(k->heads); /* none at all is well */
    if (known && (k->heads == 0 ? q->heads != 0 : q->heads % k->heads))
        return fail(TN_SHAPE, "%lld heads of Q cannot share %lld heads of K", (long long)q->heads, (long long)k->heads);
    return TN_OK;
}

/* attn_mask must broadcast to [batch, heads, steps, total], but may be short of keys. */
static tn_status check_mask(InferCtx *c, const Dim *scores) {
    if (!has_input(c, IN_MASK) || !rank_known(c, IN_MASK)) return TN_OK;
    const Shape *s = in_shape(c, IN_MASK);
    if (s->rank < 1 || s->rank > 4)
        return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 1 to 4 are wanted", IN_NAME(c, IN_MASK), s->rank);
    for (int d = 0; d < s->rank; d++) {
        Dim own = s->dims[d], want = scores[4 - s->rank + d];
        bool last = d == s->rank - 1;
        if (!dim_is_const(own) || !dim_is_const(want) || own == want || (!last && own == 1) || (last && own < want))
            continue;
        return fail(TN_SHAPE, "\"%.*s\" with size %lld in dimension %d does not fit the scores' %lld",
                    IN_NAME(c, IN_MASK), (long long)own, d, (long long)want);
    }
    return TN_OK;
}

/* The cache holds [batch, heads, past, size]. */
static tn_status past_length(InferCtx *c, const Heads *k, const Heads *v, Dim *past) {
    *past = 0;
    if (has_input(c, IN_PAST_K) != has_input(c, IN_PAST_V))
        return fail(TN_INVALID_MODEL, "past_key and past_value go together");
    if (!has_input(c, IN_PAST_K)) return TN_OK;
    if (has_input(c, IN_VALID)) return fail(TN_INVALID_MODEL, "past_key and nonpad_kv_seqlen exclude each other");
    Dim same;
    for (int i = IN_PAST_K; i <= IN_PAST_V; i++) {
        TRY(want_rank(c, i, 4));
        TRY(dims_must_match(in_dim(c, i, 0), k->batch, "batches of the cache and K", &same));
        TRY(dims_must_match(in_dim(c, i, 1), k->heads, "heads of the cache and K", &same));
        TRY(dims_must_match(in_dim(c, i, 3), i == IN_PAST_K ? k->size : v->size, "head sizes of the cache", &same));
    }
    return dims_must_match(in_dim(c, IN_PAST_K, 2), in_dim(c, IN_PAST_V, 2), "lengths of the caches", past);
}

static tn_status attention_infer(InferCtx *c) {
    int rank = in_shape(c, IN_Q)->rank;
    if (rank < 0 || !rank_known(c, IN_K) || !rank_known(c, IN_V)) {
        for (int i = 0; i < c->n_out; i++) set_unknown_rank(c, i, i ? 4 : rank);
        return TN_OK;
    }
    if (rank != 3 && rank != 4)
        return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 3 or 4 are wanted", IN_NAME(c, IN_Q), rank);
    TRY(want_rank(c, IN_K, rank));
    TRY(want_rank(c, IN_V, rank));
    Heads q, k, v;
    TRY(heads_of(c, IN_Q, "q_num_heads", &q));
    TRY(heads_of(c, IN_K, "kv_num_heads", &k));
    TRY(heads_of(c, IN_V, "kv_num_heads", &v));
    TRY(check_heads(&q, &k, &v));
    for (int i = 0; i < 2; i++)
        if (attr_int(c->node, i ? "left_window_size" : "right_window_size") < -1)
            return fail(TN_INVALID_MODEL, "window sizes are -1 or more");
    int64_t mode = attr_int(c->node, "qk_matmul_output_mode");
    if (mode < 0 || mode > 3) return fail(TN_INVALID_MODEL, "qk_matmul_output_mode is %lld", (long long)mode);
    Dim past;
    TRY(past_length(c, &k, &v, &past));
    TRY(want_vector(c, IN_VALID, q.batch, false));
    Dim total = dim_add(c->dims, past, k.steps);
    Shape scores = {.rank = 4, .dims = {q.batch, q.heads, q.steps, total}};
    TRY(check_mask(c, scores.dims));
    Shape y = {.rank = 4, .dims = {q.batch, q.heads, q.steps, v.size}};
    if (rank == 3) y = (Shape){.rank = 3, .dims = {q.batch, q.steps, dim_mul(c->dims, q.heads, v.size)}};
    set_shape(c, OUT_Y, &y);
    Shape key = {.rank = 4, .dims = {k.batch, k.heads, total, k.size}}, value = key;
    value.dims[3] = v.size;
    if (c->n_out > OUT_K) set_shape(c, OUT_K, &key);
    if (c->n_out > OUT_V) set_shape(c, OUT_V, &value);
    if (c->n_out > OUT_QK) set_shape(c, OUT_QK, &scores);
    return TN_OK;
}

static double attention_flops(const Node *node, const Shape *in, const Shape *out) {
    double n = 4;
    (void)node, (void)out;
    for (int d = 0; d < in[IN_Q].rank; d++) n *= (double)in[IN_Q].dims[d];
    return n * (double)in[IN_K].dims[in[IN_K].rank - 2];
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

/* softmax_precision where it says that scores lose digits before and after the softmax; else TN_UNDEFINED. */
static tn_dtype softmax_dtype(const Node *node) {
    int64_t as = attr_int(node, "softmax_precision");
    return as == TN_F16 || as == TN_BF16 || as == TN_F32 ? (tn_dtype)as : TN_UNDEFINED;
}

typedef struct Sizes {
    int64_t batch, q_heads, kv_heads, q_steps, new_steps, past, total, size, v_size;
} Sizes;

static void read_sizes(const KernelCtx *c, Sizes *s) {
    const Tensor *q = c->in[IN_Q], *k = c->in[IN_K], *v = c->in[IN_V];
    bool split = q->rank == 4;
    *s = (Sizes){.batch = q->dims[0]};
    s->q_heads = split ? q->dims[1] : attr_int(c->node, "q_num_heads");
    s->kv_heads = split ? k->dims[1] : attr_int(c->node, "kv_num_heads");
    s->q_steps = q->dims[q->rank - 2], s->new_steps = k->dims[k->rank - 2];
    s->size = split ? q->dims[3] : q->dims[2] / s->q_heads;
    s->v_size = split ? v->dims[3] : v->dims[2] / s->kv_heads;
    s->past = kernel_has_input(c, IN_PAST_K) ? c->in[IN_PAST_K]->dims[2] : 0;
    s->total = s->past + s->new_steps;
}

/* What decides which keys a query sees, and what is added to its scores. */
typedef struct Mask {
    const double *values;    /* attn_mask as summands; NULL: none */
    int64_t stride[3], keys; /* of batch, head and query; keys it has: later ones are not seen */
    bool causal;
    int64_t left, right;  /* window; -1: unbounded */
    const int64_t *valid; /* keys that count, by batch; NULL: all */
    int64_t past;
} Mask;

static tn_status read_mask(KernelCtx *c, const Sizes *s, Mask *m) {
    *m = (Mask){.causal = attr_int(c->node, "is_causal") != 0,
                .left = attr_int(c->node, "left_window_size"),
                .right = attr_int(c->node, "right_window_size"),
                .past = s->past};
    if (kernel_has_input(c, IN_VALID)) TRY(dense_i64(c, IN_VALID, &m->valid));
    for (int64_t b = 0; m->valid && b < s->batch; b++)
        if (m->valid[b] < 0 || m->valid[b] > s->total)
            return fail(TN_OUT_OF_RANGE, "nonpad_kv_seqlen is %lld; 0 to %lld is wanted", (long long)m->valid[b],
                        (long long)s->total);
    if (!kernel_has_input(c, IN_MASK)) return TN_OK;
    const Tensor *t = c->in[IN_MASK];
    int64_t n = tensor_count(t), step = 1;
    TRY(dense_f64(c, IN_MASK, &m->values));
    if (t->dtype == TN_BOOL) {
        double *bias = kernel_scratch(c, double, (size_t)n);
        if (!bias) return TN_OUT_OF_MEMORY;
        for (int64_t k = 0; k < n; k++) bias[k] = m->values[k] != 0 ? 0 : -INFINITY;
        m->values = bias;
    }
    m->keys = t->dims[t->rank - 1];
    for (int d = t->rank - 1; d >= 0; step *= t->dims[d--]) {
        int axis = 4 - t->rank + d;
        if (axis < 3) m->stride[axis] = t->dims[d] == 1 ? 0 : step;
    }
    return TN_OK;
}

/* What is added to the score of query i and key j; -infinity: not seen. */
static double bias_at(const Mask *m, const Sizes *s, int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t at = i + (m->valid ? m->valid[b] - s->q_steps : m->past); /* the query's place among the keys */
    bool seen = !(m->causal && j > at) && !(m->left >= 0 && at - j > m->left) && !(m->right >= 0 && j - at > m->right);
    if (m->valid && j >= m->valid[b]) seen = false;
    if (m->values && j >= m->keys) seen = false;
    if (!seen) return -INFINITY;
    if (!m->values) return 0;
    return m->values[b * m->stride[0] + h * m->stride[1] + i * m->stride[2] + j];
}

#define BODY "ops/attention_body.h"
#include "ops/each_float_int.h"

/* In double where queries or values are, so that none loses digits on its way through the cache. */
static tn_status attention_reference(KernelCtx *c) {
    bool wide = c->in[IN_Q]->dtype == TN_F64 || c->in[IN_V]->dtype == TN_F64;
    return wide ? attention_f64(c) : attention_f32(c);
}

const OpSchema op_Attention = {
    .name = "Attention",
    .summary = "Scaled dot-product attention (ONNX 25)",
    .kind = OP_ATOMIC,
    .inputs = {{"Q", TS_FLOAT, 'T'},
               {"K", TS_FLOAT, 'T'},
               {"V", TS_FLOAT, 'U'},
               {"attn_mask", TS_NUMERIC | TS(TN_BOOL), 0, OPERAND_OPTIONAL},
               {"past_key", TS_FLOAT, 'T', OPERAND_OPTIONAL},
               {"past_value", TS_FLOAT, 'U', OPERAND_OPTIONAL},
               {"nonpad_kv_seqlen", TS(TN_I64), 0, OPERAND_OPTIONAL}},
    .outputs = {{"Y", TS_FLOAT, 'T'},
                {"present_key", TS_FLOAT, 'T', OPERAND_OPTIONAL},
                {"present_value", TS_FLOAT, 'U', OPERAND_OPTIONAL},
                {"qk_matmul_output", TS_FLOAT, 'T', OPERAND_OPTIONAL}},
    .attrs = {{"is_causal", ATTR_INT},
              {"kv_num_heads", ATTR_INT},
              {"left_window_size", ATTR_INT, .i = -1},
              {"q_num_heads", ATTR_INT},
              {"qk_matmul_output_mode", ATTR_INT},
              {"right_window_size", ATTR_INT, .i = -1},
              {"scale", ATTR_FLOAT},
              {"softcap", ATTR_FLOAT},
              {"softmax_precision", ATTR_INT}},
    .infer = attention_infer,
    .reference = attention_reference,
    .flops = attention_flops,
};
