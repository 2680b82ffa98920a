/* SPDX-License-Identifier: Apache-2.0 */
/* FlexAttention (ONNX preview 1): softmax(Q K^T * scale) V, where nested graphs may change scores and probabilities. */
#include "ops/control_int.h"
#include "ops/nn_int.h"

enum { IN_Q, IN_K, IN_V };

static tn_status check_graph(const Node *node, const char *name) {
    const Graph *g = attr_graph(node, name);
    if (!g || (g->inputs.len == 1 && graph_n_outputs(g) == 1)) return TN_OK;
    return fail(TN_INVALID_MODEL, "%s has %zu inputs and %zu outputs; one of each is wanted", name, g->inputs.len,
                graph_n_outputs(g));
}

/* The element type that nested graphs see. */
static tn_status precision(const Node *node, tn_dtype q, tn_dtype *out) {
    int64_t asked = attr_int(node, "softmax_precision");
    *out = q == TN_F64 ? TN_F64 : TN_F32;
    if (!attr_present(node, "softmax_precision")) return TN_OK;
    if (asked < 1 || asked >= TN_DTYPE_END || !(TS_FLOAT & TS(asked)))
        return fail(TN_INVALID_MODEL, "softmax_precision is %lld, no float type", (long long)asked);
    *out = (tn_dtype)asked;
    return TN_OK;
}

static tn_status flex_attention_infer(InferCtx *c) {
    tn_dtype as;
    Dim same, q_heads = in_dim(c, IN_Q, 1), kv_heads;
    TRY(check_graph(c->node, "score_mod"));
    TRY(check_graph(c->node, "prob_mod"));
    TRY(precision(c->node, in_dtype(c, IN_Q), &as));
    for (int i = 0; i < 3; i++) TRY(want_rank(c, i, 4));
    TRY(dims_must_match(in_dim(c, IN_Q, 0), in_dim(c, IN_K, 0), "batches of Q and K", &same));
    TRY(dims_must_match(in_dim(c, IN_K, 0), in_dim(c, IN_V, 0), "batches of K and V", &same));
    TRY(dims_must_match(in_dim(c, IN_K, 1), in_dim(c, IN_V, 1), "heads of K and V", &kv_heads));
    TRY(dims_must_match(in_dim(c, IN_K, 2), in_dim(c, IN_V, 2), "lengths of K and V", &same));
    TRY(dims_must_match(in_dim(c, IN_Q, 3), in_dim(c, IN_K, 3), "head sizes of Q and K", &same));
    if (dim_is_const(q_heads) && dim_is_const(kv_heads) && (kv_heads == 0 ? q_heads != 0 : q_heads % kv_heads != 0))
        return fail(TN_SHAPE, "%lld heads of Q cannot share %lld heads of K", (long long)q_heads, (long long)kv_heads);
    Shape y = {.rank = 4, .dims = {in_dim(c, IN_Q, 0), q_heads, in_dim(c, IN_Q, 2), in_dim(c, IN_V, 3)}};
    set_shape(c, 0, &y);
    return TN_OK;
}

typedef struct Job {
    int64_t heads, share, steps, total, size, v_size; /* heads of Q; heads that share one of K */
    double scale;
    const double *q, *k, *v;
    double *scores, *y;
} Job;

/* Items of each stage: one row of scores, a query of a head. */
static void score_rows(void *arg, int64_t begin, int64_t end) {
    const Job *j = arg;
    for (int64_t row = begin; row < end; row++) {
        const double *q = j->q + row * j->size, *k = j->k + row / j->steps / j->share * j->total * j->size;
        for (int64_t t = 0; t < j->total; t++) {
            double sum = 0;
            for (int64_t i = 0; i < j->size; i++) sum += q[i] * k[t * j->size + i];
            j->scores[row * j->total + t] = sum * j->scale;
        }
    }
}

static void softmax_rows(void *arg, int64_t begin, int64_t end) {
    const Job *j = arg;
    for (int64_t row = begin; row < end; row++) {
        double *x = j->scores + row * j->total, top = -INFINITY, sum = 0;
        for (int64_t t = 0; t < j->total; t++) top = x[t] > top || x[t] != x[t] ? x[t] : top;
        if (top == -INFINITY) top = 0; /* a query that sees nothing: zeros, not NaN */
        for (int64_t t = 0; t < j->total; t++) sum += x[t] = exp(x[t] - top);
        for (int64_t t = 0; sum != 0 && t < j->total; t++) x[t] /= sum;
    }
}

static void weigh_rows(void *arg, int64_t begin, int64_t end) {
    const Job *j = arg;
    for (int64_t row = begin; row < end; row++) {
        const double *p = j->scores + row * j->total, *v = j->v + row / j->steps / j->share * j->total * j->v_size;
        double *y = j->y + row * j->v_size;
        for (int64_t i = 0; i < j->v_size; i++) y[i] = 0;
        for (int64_t t = 0; t < j->total; t++)
            for (int64_t i = 0; i < j->v_size; i++) y[i] += p[t] * v[t * j->v_size + i];
    }
}

/* The scores through a nested graph, in its element type. */
static tn_status modify(KernelCtx *c, const char *name, tn_dtype as, const int64_t *dims, double *x) {
    const Graph *graph = attr_graph(c->node, name);
    int64_t n = dims[0] * dims[1] * dims[2] * dims[3];
    size_t bytes;
    Tensor in, out;
    if (!graph) return TN_OK;
    TRY(checked_bytes(as, n, &bytes));
    tensor_set_dense(&in, as, 4, dims);
    in.data = arena_alloc(c->scratch, bytes ? bytes : 1, 64);
    if (!in.data) return TN_OUT_OF_MEMORY;
    store_f64(as, in.data, 0, 1, x, n);
    TRY(c->host->run_graph(c->host, graph, &in, 1, &out, 1));
    if (out.rank != 4 || memcmp(out.dims, dims, 4 * sizeof *dims) != 0 || !dtype_is_float(out.dtype))
        return fail(TN_SHAPE, "%s gives a tensor of another shape or type than it got", name);
    KernelCtx as_operand = *c;
    const Tensor *operand = &out;
    const double *data;
    as_operand.in = &operand, as_operand.n_in = 1;
    TRY(dense_f64(&as_operand, 0, &data));
    if (n) memcpy(x, data, (size_t)n * sizeof *x);
    return TN_OK;
}

static tn_status flex_attention_reference(KernelCtx *c) {
    const Tensor *q = c->in[IN_Q], *k = c->in[IN_K], *v = c->in[IN_V];
    Job job = {.heads = q->dims[1], .steps = q->dims[2], .total = k->dims[2], .size = q->dims[3], .v_size = v->dims[3]};
    const int64_t dims[] = {q->dims[0], q->dims[1], q->dims[2], k->dims[2]};
    int64_t rows = dims[0] * dims[1] * dims[2], n;
    tn_dtype as;
    if (tensor_count(&c->out[0]) == 0) return TN_OK;
    job.share = job.heads / k->dims[1];
    job.scale = attr_present(c->node, "scale") ? attr_float(c->node, "scale") : 1 / sqrt((double)job.size);
    TRY(precision(c->node, q->dtype, &as));
    TRY(checked_count(4, dims, &n));
    TRY(dense_f64(c, IN_Q, &job.q));
    TRY(dense_f64(c, IN_K, &job.k));
    TRY(dense_f64(c, IN_V, &job.v));
    TRY(result_f64(c, 0, &job.y));
    job.scores = kernel_scratch(c, double, (size_t)max_i64(n, 1));
    if (!job.scores) return TN_OUT_OF_MEMORY;
    TRY(kernel_parallel(c, rows, (double)(job.total * job.size), score_rows, &job));
    TRY(modify(c, "score_mod", as, dims, job.scores));
    TRY(kernel_parallel(c, rows, (double)job.total * 20, softmax_rows, &job));
    TRY(modify(c, "prob_mod", as, dims, job.scores));
    TRY(kernel_parallel(c, rows, (double)(job.total * job.v_size), weigh_rows, &job));
    result_f64_done(c, 0, job.y);
    return TN_OK;
}

const OpSchema op_preview_FlexAttention = {
    .domain = "ai.onnx.preview",
    .name = "FlexAttention",
    .kind = OP_ATOMIC,
    .flags = OP_CONTROL,
    .summary = "Attention with nested graphs on scores and probabilities (ONNX preview 1)",
    .inputs = OPERANDS({"Q", TS_FLOAT, 'T'}, {"K", TS_FLOAT, 'T'}, {"V", TS_FLOAT, 'T'}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"prob_mod", ATTR_GRAPH}, {"scale", ATTR_FLOAT}, {"score_mod", ATTR_GRAPH},
                        {"softmax_precision", ATTR_INT}),
    .infer = flex_attention_infer,
    .reference = flex_attention_reference,
};
