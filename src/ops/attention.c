/* SPDX-License-Identifier: Apache-2.0 */
/* Attention (ONNX 25): softmax(Q K^T * scale + bias) V, with grouped heads, a growing cache and several masks. */
#include "ops/lower_int.h"
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

static void find_sizes(const Node *node, const Shape *q, const Shape *k, const Shape *v, int64_t past, Sizes *s) {
    bool split = q->rank == 4;
    *s = (Sizes){.batch = q->dims[0], .past = past};
    s->q_heads = split ? q->dims[1] : attr_int(node, "q_num_heads");
    s->kv_heads = split ? k->dims[1] : attr_int(node, "kv_num_heads");
    s->q_steps = q->dims[q->rank - 2], s->new_steps = k->dims[k->rank - 2];
    s->size = split ? q->dims[3] : q->dims[2] / s->q_heads;
    s->v_size = split ? v->dims[3] : v->dims[2] / s->kv_heads;
    s->total = s->past + s->new_steps;
}

static void read_sizes(const KernelCtx *c, Sizes *s) {
    Shape of[3];
    for (int i = 0; i < 3; i++) of[i] = shape_make(c->in[i]->rank, c->in[i]->dims);
    find_sizes(c->node, &of[0], &of[1], &of[2], kernel_has_input(c, IN_PAST_K) ? c->in[IN_PAST_K]->dims[2] : 0, s);
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

/* ---- lowering ------------------------------------------------------------------------------------------------ */

static const int64_t swap_heads[] = {0, 2, 1, 3};

/* [batch, heads, steps, size], with the cache in front. */
static Value *heads_with_past(LowerCtx *c, const Sizes *s, Value *x, Value *past, int64_t heads, int64_t steps,
                              int64_t size) {
    int64_t dims[] = {s->batch, steps, heads, size};
    if (c->status != TN_OK) return NULL;
    if (lower_shape(x)->rank == 3) x = lower_transpose(c, lower_reshape(c, x, dims, 4), swap_heads);
    return past ? LOWER_WITH(c, "Concat", ATTRS(attr_i("axis", 2)), past, x) : x;
}

/* How many keys count in each batch entry, as [batch, 1, 1, 1]; what is out of range is looked up where there is nothing. */
static Value *valid_keys(LowerCtx *c, const Sizes *s) {
    Value *valid = lower_in(c, IN_VALID);
    int64_t dims[] = {s->batch, 1, 1, 1};
    if (!valid) return NULL;
    Value *beyond = lower_number(c, TN_I64, (double)s->total + 1);
    valid = LOWER(c, "Where", LOWER(c, "Less", valid, lower_number(c, TN_I64, 0)), beyond, valid);
    return lower_reshape(c, LOWER(c, "Gather", lower_counting(c, s->total + 1, 0, 1), valid), dims, 4);
}

static Value *either(LowerCtx *c, Value *a, Value *b) { return a ? LOWER(c, "Or", a, b) : b; }

/* Which keys a query does not see, whatever attn_mask says; NULL: it sees all. */
static Value *hidden_keys(LowerCtx *c, const Sizes *s) {
    Value *valid = valid_keys(c, s), *key = lower_counting(c, s->total, 3, 4), *hidden = NULL;
    Value *first = valid ? LOWER(c, "Sub", valid, lower_number(c, TN_I64, (double)s->q_steps))
                         : lower_number(c, TN_I64, (double)s->past);
    Value *at = LOWER(c, "Add", lower_counting(c, s->q_steps, 2, 4), first), *ahead = LOWER(c, "Sub", key, at);
    int64_t left = attr_int(c->node, "left_window_size"), right = attr_int(c->node, "right_window_size");
    if (attr_int(c->node, "is_causal")) hidden = LOWER(c, "Greater", key, at);
    if (right >= 0) hidden = either(c, hidden, LOWER(c, "Greater", ahead, lower_number(c, TN_I64, (double)right)));
    if (left >= 0) hidden = either(c, hidden, LOWER(c, "Less", ahead, lower_number(c, TN_I64, -(double)left)));
    if (valid) hidden = either(c, hidden, LOWER(c, "GreaterOrEqual", key, valid));
    return hidden;
}

/* What is added to the scores, as a type, -infinity for keys that are not seen; NULL: nothing. */
static Value *lower_bias(LowerCtx *c, const Sizes *s, tn_dtype wide) {
    Value *mask = lower_in(c, IN_MASK), *hidden = hidden_keys(c, s), *never = lower_number(c, wide, (double)-INFINITY);
    int64_t pads[2 * TN_MAX_RANK] = {0};
    if (c->status != TN_OK) return NULL;
    if (mask) {
        int rank = lower_shape(mask)->rank;
        pads[2 * rank - 1] = s->total - lower_shape(mask)->dims[rank - 1];
        bool keeps = lower_dtype(mask) == TN_BOOL;
        mask = keeps ? LOWER(c, "Where", mask, lower_number(c, wide, 0), never) : lower_cast(c, mask, wide);
        mask = lower_pad(c, mask, pads, never);
    }
    return hidden ? LOWER(c, "Where", hidden, never, mask ? mask : lower_number(c, wide, 0)) : mask;
}

static Value *rounded(LowerCtx *c, Value *x, tn_dtype wide) {
    tn_dtype precision = softmax_dtype(c->node);
    return precision == TN_UNDEFINED ? x : lower_cast(c, lower_cast(c, x, precision), wide);
}

/* Softmax of the last dimension, zeros where a query sees no key. */
static Value *lower_weights(LowerCtx *c, Value *x, Value *bias, tn_dtype wide) {
    int64_t last = -1;
    Value *zero = lower_number(c, wide, 0), *never = lower_number(c, wide, (double)-INFINITY);
    x = rounded(c, x, wide);
    Value *top = lower_reduce(c, "ReduceMax", x, &last, 1, true);
    Value *e = LOWER(c, "Exp", LOWER(c, "Sub", x, LOWER(c, "Where", LOWER(c, "Equal", top, never), zero, top)));
    if (bias)
        e = LOWER(c, "Where", lower_reduce(c, "ReduceMin", LOWER(c, "Equal", bias, never), &last, 1, true), zero, e);
    Value *sum = lower_reduce(c, "ReduceSum", e, &last, 1, true);
    sum = LOWER(c, "Where", LOWER(c, "Equal", sum, zero), lower_number(c, wide, 1), sum);
    return rounded(c, LOWER(c, "Div", e, sum), wide);
}

/* Q, scaled, times K for each head, queries of heads that share one in a row. */
static Value *lower_scores(LowerCtx *c, const Sizes *s, Value *q, Value *k) {
    static const int64_t turned[] = {0, 1, 3, 2};
    int64_t shared[] = {s->batch, s->kv_heads, s->q_heads / s->kv_heads * s->q_steps, s->size};
    int64_t dims[] = {s->batch, s->q_heads, s->q_steps, s->total};
    double scale = attr_present(c->node, "scale") ? attr_float(c->node, "scale") : 1 / sqrt((double)s->size);
    if (c->status != TN_OK) return NULL;
    q = LOWER(c, "Mul", q, lower_number(c, lower_dtype(q), scale));
    Value *scores = LOWER(c, "MatMul", lower_reshape(c, q, shared, 4), lower_transpose(c, k, turned));
    return lower_reshape(c, scores, dims, 4);
}

static Value *lower_values(LowerCtx *c, const Sizes *s, Value *weights, Value *v) {
    int64_t shared[] = {s->batch, s->kv_heads, s->q_heads / s->kv_heads * s->q_steps, s->total};
    int64_t dims[] = {s->batch, s->q_heads, s->q_steps, s->v_size};
    int64_t joined[] = {s->batch, s->q_steps, s->q_heads * s->v_size};
    Value *y = lower_reshape(c, LOWER(c, "MatMul", lower_reshape(c, weights, shared, 4), v), dims, 4);
    if (c->status != TN_OK || lower_shape(lower_in(c, IN_Q))->rank == 4) return y;
    return lower_reshape(c, lower_transpose(c, y, swap_heads), joined, 3);
}

static tn_status lower_attention(LowerCtx *c) {
    Sizes s;
    Value *past_k = lower_in(c, IN_PAST_K), *past_v = lower_in(c, IN_PAST_V), *stages[4];
    if (!lower_sizes_known(c)) return TN_OK;
    find_sizes(c->node, lower_shape(lower_in(c, IN_Q)), lower_shape(lower_in(c, IN_K)), lower_shape(lower_in(c, IN_V)),
               past_k ? lower_shape(past_k)->dims[2] : 0, &s);
    if (s.kv_heads == 0) return lower_decline(c);
    tn_dtype own = lower_dtype(lower_in(c, IN_Q)), of_v = lower_dtype(lower_in(c, IN_V));
    tn_dtype wide = own == TN_F64 || of_v == TN_F64 ? TN_F64 : TN_F32;
    Value *q = lower_cast(c, heads_with_past(c, &s, lower_in(c, IN_Q), NULL, s.q_heads, s.q_steps, s.size), wide);
    c->out[OUT_K] = heads_with_past(c, &s, lower_in(c, IN_K), past_k, s.kv_heads, s.new_steps, s.size);
    c->out[OUT_V] = heads_with_past(c, &s, lower_in(c, IN_V), past_v, s.kv_heads, s.new_steps, s.v_size);
    double cap = attr_float(c->node, "softcap");
    Value *bias = lower_bias(c, &s, wide), *x = lower_scores(c, &s, q, lower_cast(c, c->out[OUT_K], wide));
    stages[0] = x;
    Value *limit = lower_number(c, wide, cap);
    if (cap > 0) x = LOWER(c, "Mul", LOWER(c, "Tanh", LOWER(c, "Div", x, limit)), limit);
    stages[1] = x;
    stages[2] = x = lower_plus(c, x, bias);
    stages[3] = lower_weights(c, x, bias, wide);
    if (lower_wants(c, OUT_QK))
        c->out[OUT_QK] = lower_cast(c, stages[attr_int(c->node, "qk_matmul_output_mode") & 3], own);
    c->out[OUT_Y] = lower_cast(c, lower_values(c, &s, stages[3], lower_cast(c, c->out[OUT_V], wide)), own);
    return TN_OK;
}

const OpSchema op_Attention = {
    .name = "Attention",
    .summary = "Scaled dot-product attention (ONNX 25)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"Q", TS_FLOAT, 'T'}, {"K", TS_FLOAT, 'T'}, {"V", TS_FLOAT, 'U'},
                       {"attn_mask", TS_NUMERIC | TS(TN_BOOL), 0, OPERAND_OPTIONAL},
                       {"past_key", TS_FLOAT, 'T', OPERAND_OPTIONAL}, {"past_value", TS_FLOAT, 'U', OPERAND_OPTIONAL},
                       {"nonpad_kv_seqlen", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}, {"present_key", TS_FLOAT, 'T', OPERAND_OPTIONAL},
                        {"present_value", TS_FLOAT, 'U', OPERAND_OPTIONAL},
                        {"qk_matmul_output", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"is_causal", ATTR_INT}, {"kv_num_heads", ATTR_INT}, {"left_window_size", ATTR_INT, .i = -1},
                        {"q_num_heads", ATTR_INT}, {"qk_matmul_output_mode", ATTR_INT},
                        {"right_window_size", ATTR_INT, .i = -1}, {"scale", ATTR_FLOAT}, {"softcap", ATTR_FLOAT},
                        {"softmax_precision", ATTR_INT}),
    .infer = attention_infer,
    .reference = attention_reference,
    .flops = attention_flops,
    .lower = lower_attention,
    .lowering = "MatMul, a softmax with its mask, MatMul",
};
