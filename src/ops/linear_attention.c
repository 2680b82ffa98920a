/* SPDX-License-Identifier: Apache-2.0 */
/* LinearAttention (ONNX 27): attention without softmax, as a state that each step of keys and values updates. */
#include "ops/nn_int.h"

enum { IN_Q, IN_K, IN_V, IN_STATE, IN_DECAY, IN_BETA };
enum { OUT_Y, OUT_STATE };

/* The rule: whether the state decays, and whether it is corrected by what it already says of the key. */
static tn_status read_rule(const Node *node, bool *gated, bool *delta) {
    static const char *const names[] = {"linear", "gated", "delta", "gated_delta"};
    for (int i = 0; i < 4; i++) {
        *gated = i & 1, *delta = i & 2;
        if (attr_string_is(node, "update_rule", names[i])) return TN_OK;
    }
    Str s = attr_string(node, "update_rule");
    return fail(TN_INVALID_MODEL, "update_rule is \"%.*s\"; linear, gated, delta or gated_delta is wanted", (int)s.n,
                s.s);
}

/* Size of one head of operand i; DIM_UNKNOWN where the operand's last size is not known. */
static tn_status head_size(InferCtx *c, int i, int64_t heads, Dim *out) {
    Dim hidden = in_dim(c, i, 2);
    *out = DIM_UNKNOWN;
    TRY(want_rank(c, i, 3));
    if (!dim_is_const(hidden)) return TN_OK;
    if (hidden % heads)
        return fail(TN_SHAPE, "\"%.*s\" of size %lld cannot be divided into %lld heads", IN_NAME(c, i),
                    (long long)hidden, (long long)heads);
    *out = hidden / heads;
    return TN_OK;
}

/* A gate: [batch, steps, n], n one of two sizes. */
static tn_status check_gate(InferCtx *c, int i, Dim batch, Dim steps, int64_t one, Dim other) {
    Dim same, n = in_dim(c, i, 2);
    TRY(want_rank(c, i, 3));
    TRY(dims_must_match(in_dim(c, i, 0), batch, "batches", &same));
    TRY(dims_must_match(in_dim(c, i, 1), steps, "steps", &same));
    if (!dim_is_const(n) || !dim_is_const(other) || n == one || n == other) return TN_OK;
    return fail(TN_SHAPE, "\"%.*s\" has %lld values a step where %lld or %lld are wanted", IN_NAME(c, i), (long long)n,
                (long long)one, (long long)other);
}

static tn_status check_operands(InferCtx *c, Dim batch, Dim steps, int64_t kv_heads, Dim dk, Dim dv) {
    bool gated, delta;
    Dim same;
    TRY(read_rule(c->node, &gated, &delta));
    if (gated && !has_input(c, IN_DECAY)) return fail(TN_INVALID_MODEL, "this update_rule wants decay");
    if (delta && !has_input(c, IN_BETA)) return fail(TN_INVALID_MODEL, "this update_rule wants beta");
    for (int i = IN_K; i <= IN_V; i++) {
        TRY(dims_must_match(in_dim(c, i, 0), batch, "batches", &same));
        TRY(dims_must_match(in_dim(c, i, 1), steps, "steps", &same));
    }
    if (gated) TRY(check_gate(c, IN_DECAY, batch, steps, kv_heads, dim_mul(c->dims, dk, kv_heads)));
    if (delta) TRY(check_gate(c, IN_BETA, batch, steps, kv_heads, 1));
    if (!has_input(c, IN_STATE)) return TN_OK;
    TRY(want_rank(c, IN_STATE, 4));
    const Dim want[] = {batch, kv_heads, dk, dv};
    for (int d = 0; d < 4; d++) TRY(dims_must_match(in_dim(c, IN_STATE, d), want[d], "sizes of past_state", &same));
    return TN_OK;
}

static tn_status linear_attention_infer(InferCtx *c) {
    int64_t q_heads = attr_int(c->node, "q_num_heads"), kv_heads = attr_int(c->node, "kv_num_heads");
    if (kv_heads < 1 || q_heads < 1 || q_heads % kv_heads)
        return fail(TN_INVALID_MODEL, "%lld heads of queries cannot share %lld heads of keys", (long long)q_heads,
                    (long long)kv_heads);
    Dim dq, dk, dv, batch = in_dim(c, IN_Q, 0), steps = in_dim(c, IN_Q, 1);
    TRY(head_size(c, IN_Q, q_heads, &dq));
    TRY(head_size(c, IN_K, kv_heads, &dk));
    TRY(head_size(c, IN_V, kv_heads, &dv));
    TRY(dims_must_match(dq, dk, "head sizes of query and key", &dk));
    TRY(check_operands(c, batch, steps, kv_heads, dk, dv));
    Shape y = {.rank = 3, .dims = {batch, steps, dim_mul(c->dims, dv, q_heads)}};
    Shape state = {.rank = 4, .dims = {batch, kv_heads, dk, dv}};
    set_shape(c, OUT_Y, &y);
    if (c->n_out <= OUT_STATE) return TN_OK;
    set_shape(c, OUT_STATE, &state);
    if (!has_input(c, IN_STATE)) set_dtype(c, OUT_STATE, in_dtype(c, IN_Q));
    return TN_OK;
}

typedef struct Job {
    bool gated, delta;
    int64_t steps, q_heads, kv_heads, dk, dv, decay_size, beta_size; /* sizes of gates: of one step */
    double scale;
    const double *q, *k, *v, *decay, *beta;
    double *state, *y, *told; /* told: [batch, kv heads, dv] */
} Job;

/* One step of one head's state. */
static void update(const Job *job, int64_t row, int64_t head, double *state, double *told) {
    int64_t dk = job->dk, dv = job->dv;
    const double *k = job->k + (row * job->kv_heads + head) * dk, *v = job->v + (row * job->kv_heads + head) * dv;
    bool each = job->decay_size != job->kv_heads; /* a gate for each element of the key */
    for (int64_t i = 0; job->gated && i < dk; i++) {
        double gate = exp(job->decay[row * job->decay_size + (each ? head * dk + i : head)]);
        for (int64_t j = 0; j < dv; j++) state[i * dv + j] *= gate;
    }
    for (int64_t j = 0; j < dv; j++) told[j] = v[j];
    if (job->delta) {
        double beta = job->beta[row * job->beta_size + (job->beta_size == 1 ? 0 : head)];
        for (int64_t i = 0; i < dk; i++)
            for (int64_t j = 0; j < dv; j++) told[j] -= state[i * dv + j] * k[i];
        for (int64_t j = 0; j < dv; j++) told[j] *= beta;
    }
    for (int64_t i = 0; i < dk; i++)
        for (int64_t j = 0; j < dv; j++) state[i * dv + j] += k[i] * told[j];
}

/* One item is a head of keys in a batch entry: all its steps, all the queries that share it. */
static void run_heads(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    int64_t share = job->q_heads / job->kv_heads, dk = job->dk, dv = job->dv;
    for (int64_t item = begin; item < end; item++) {
        int64_t head = item % job->kv_heads, batch = item / job->kv_heads;
        double *state = job->state + item * dk * dv;
        for (int64_t t = 0; t < job->steps; t++) {
            int64_t row = batch * job->steps + t;
            update(job, row, head, state, job->told + item * dv);
            for (int64_t h = head * share; h < (head + 1) * share; h++) {
                const double *q = job->q + (row * job->q_heads + h) * dk;
                double *y = job->y + (row * job->q_heads + h) * dv;
                for (int64_t j = 0; j < dv; j++) y[j] = 0;
                for (int64_t i = 0; i < dk; i++)
                    for (int64_t j = 0; j < dv; j++) y[j] += job->scale * q[i] * state[i * dv + j];
            }
        }
    }
}

static tn_status linear_attention_reference(KernelCtx *c) {
    const Tensor *q = c->in[IN_Q], *v = c->in[IN_V];
    Job job = {.steps = q->dims[1],
               .q_heads = attr_int(c->node, "q_num_heads"),
               .kv_heads = attr_int(c->node, "kv_num_heads"),
               .scale = attr_float(c->node, "scale")};
    int64_t batch = q->dims[0], items = batch * job.kv_heads;
    job.dk = q->dims[2] / job.q_heads, job.dv = v->dims[2] / job.kv_heads;
    if (job.scale == 0) job.scale = 1 / sqrt((double)job.dk);
    TRY(read_rule(c->node, &job.gated, &job.delta));
    TRY(dense_f64(c, IN_Q, &job.q));
    TRY(dense_f64(c, IN_K, &job.k));
    TRY(dense_f64(c, IN_V, &job.v));
    if (job.gated) TRY(dense_f64(c, IN_DECAY, &job.decay));
    if (job.delta) TRY(dense_f64(c, IN_BETA, &job.beta));
    if (job.gated) job.decay_size = c->in[IN_DECAY]->dims[2];
    if (job.delta) job.beta_size = c->in[IN_BETA]->dims[2];
    int64_t n_state = items * job.dk * job.dv;
    job.state = kernel_scratch(c, double, (size_t)max_i64(n_state, 1));
    job.told = kernel_scratch(c, double, (size_t)max_i64(items * job.dv, 1));
    if (!job.state || !job.told) return TN_OUT_OF_MEMORY;
    if (kernel_has_input(c, IN_STATE)) {
        const double *past;
        TRY(dense_f64(c, IN_STATE, &past));
        if (n_state) memcpy(job.state, past, (size_t)n_state * sizeof *past);
    }
    TRY(result_f64(c, OUT_Y, &job.y));
    TRY(kernel_parallel(c, items, (double)(job.steps * job.dk * job.dv) * 3, run_heads, &job));
    result_f64_done(c, OUT_Y, job.y);
    if (!kernel_wants(c, OUT_STATE)) return TN_OK;
    const Tensor *state = &c->out[OUT_STATE];
    store_f64(state->dtype, state->data, state->offset, 1, job.state, n_state);
    return TN_OK;
}

#define FLOATS (TS(TN_F32) | TS(TN_F16) | TS(TN_BF16))

const OpSchema op_LinearAttention = {
    .name = "LinearAttention",
    .summary = "Attention as a state updated step by step (ONNX 27)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"query", FLOATS, 'T'}, {"key", FLOATS, 'T'}, {"value", FLOATS, 'T'},
                       {"past_state", FLOATS, 'S', OPERAND_OPTIONAL}, {"decay", FLOATS, 'T', OPERAND_OPTIONAL},
                       {"beta", FLOATS, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", FLOATS, 'T'}, {"present_state", FLOATS, 'S', OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"chunk_size", ATTR_INT, .i = 64}, {"kv_num_heads", ATTR_INT, ATTR_REQUIRED},
                        {"q_num_heads", ATTR_INT, ATTR_REQUIRED}, {"scale", ATTR_FLOAT},
                        {"update_rule", ATTR_STRING, .s = "gated_delta"}),
    .infer = linear_attention_infer,
    .reference = linear_attention_reference,
};
