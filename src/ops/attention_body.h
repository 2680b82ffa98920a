/* SPDX-License-Identifier: Apache-2.0 */
/* Attention for one float type. */

/* Copies [batch, steps, heads, size], or [batch, heads, steps, size], behind `past` steps of [batch, heads, total,
   size]. */
static void FN(place_heads)(const T *x, bool split, int64_t batch, int64_t heads, int64_t steps, int64_t size,
                            int64_t past, T *y) {
    for (int64_t k = 0; k < batch * heads * steps; k++) {
        int64_t step = k % steps, h = k / steps % heads, b = k / steps / heads;
        const T *from = x + (split ? k : (b * steps + step) * heads + h) * size;
        memcpy(y + ((b * heads + h) * (past + steps) + past + step) * size, from, (size_t)size * sizeof(T));
    }
}

/* Keys or values, the cache in front, into result `out` where it is wanted, else scratch memory. */
static tn_status FN(join_cache)(KernelCtx *c, const Sizes *s, int in, int past, int out, int64_t size, T **y) {
    int64_t rows = s->batch * s->kv_heads, n = s->total * size;
    const T *x, *old;
    if (kernel_wants(c, out)) {
        TRY(FN(result)(c, out, y));
    } else {
        *y = kernel_scratch(c, T, (size_t)(rows * n));
        if (!*y) return TN_OUT_OF_MEMORY;
    }
    TRY(FN(dense)(c, in, &x));
    FN(place_heads)(x, c->in[in]->rank == 4, s->batch, s->kv_heads, s->new_steps, size, s->past, *y);
    if (s->past) {
        TRY(FN(dense)(c, past, &old));
        for (int64_t r = 0; r < rows; r++)
            memcpy(*y + r * n, old + r * s->past * size, (size_t)(s->past * size) * sizeof(T));
    }
    if (kernel_wants(c, out)) FN_DONE(c, out, *y);
    return TN_OK;
}

typedef struct FN(AttentionJob) {
    const Sizes *s;
    const Mask *mask;
    double softcap;
    int64_t mode;       /* at which stage the scores are copied to qk */
    tn_dtype precision; /* of the softmax's operand and result, where it has fewer digits than T; else TN_UNDEFINED */
    T *scores, *qk;     /* qk: NULL where nobody wants it */
} FN(AttentionJob);

static void FN(keep)(const FN(AttentionJob) * job, int64_t mode, int64_t row, const T *x) {
    if (job->qk && job->mode == mode) memcpy(job->qk + row * job->s->total, x, (size_t)job->s->total * sizeof(T));
}

/* Scores as the softmax's precision has them. */
static void FN(round_scores)(const FN(AttentionJob) * job, T *x) {
    if (job->precision == TN_UNDEFINED || (job->precision == TN_F32 && sizeof(T) == sizeof(float))) return;
    for (int64_t j = 0; j < job->s->total; j++) {
        double v = (double)x[j];
        float one;
        store_f64(job->precision, &one, 0, 1, &v, 1);
        load_f64(&v, job->precision, &one, 0, 1, 1);
        x[j] = (T)v;
    }
}

/* One item is one row of scores: a query of a head. A query that sees no key gets zeros. */
static void FN(score_range)(void *arg, int64_t begin, int64_t end) {
    const FN(AttentionJob) *job = arg;
    const Sizes *s = job->s;
    for (int64_t row = begin; row < end; row++) {
        T *x = job->scores + row * s->total;
        int64_t i = row % s->q_steps, h = row / s->q_steps % s->q_heads, b = row / s->q_steps / s->q_heads;
        bool blind = true;
        FN(keep)(job, 0, row, x);
        for (int64_t j = 0; job->softcap > 0 && j < s->total; j++)
            x[j] = (T)(tanh((double)x[j] / job->softcap) * job->softcap);
        FN(keep)(job, 1, row, x);
        for (int64_t j = 0; j < s->total; j++) {
            double bias = bias_at(job->mask, s, b, h, i, j);
            blind = blind && bias == -INFINITY;
            x[j] = (T)((double)x[j] + bias);
        }
        FN(keep)(job, 2, row, x);
        FN(round_scores)(job, x);
        T top = -(T)INFINITY;
        for (int64_t j = 0; j < s->total; j++)
            if (x[j] > top || x[j] != x[j]) top = x[j];
        double sum = 0;
        for (int64_t j = 0; j < s->total; j++) {
            double e = top == -(T)INFINITY ? 0 : exp((double)(x[j] - top));
            x[j] = blind ? 0 : (T)e;
            sum += (double)x[j];
        }
        for (int64_t j = 0; sum != 0 && j < s->total; j++) x[j] = (T)((double)x[j] / sum);
        FN(round_scores)(job, x);
        FN(keep)(job, 3, row, x);
    }
}

/* Products for each head: which one of K or V belongs to which of Q. */
static tn_status FN(head_offsets)(KernelCtx *c, const Sizes *s, MatrixProduct *p, int64_t a_step, int64_t b_step) {
    p->batch = s->batch * s->q_heads;
    int64_t *offsets = kernel_scratch(c, int64_t, (size_t)(2 * p->batch));
    if (!offsets) return TN_OUT_OF_MEMORY;
    for (int64_t k = 0; k < p->batch; k++) {
        int64_t b = k / s->q_heads, h = k % s->q_heads / (s->q_heads / s->kv_heads);
        offsets[k] = k * a_step;
        offsets[p->batch + k] = (b * s->kv_heads + h) * b_step;
    }
    p->a_offset = offsets, p->b_offset = offsets + p->batch;
    return TN_OK;
}

/* scores = Q * scale K^T */
static tn_status FN(make_scores)(KernelCtx *c, const Sizes *s, const T *k, T *scores) {
    const T *x;
    int64_t n = s->batch * s->q_heads * s->q_steps * s->size;
    double scale = attr_present(c->node, "scale") ? attr_float(c->node, "scale") : 1 / sqrt((double)s->size);
    T *q = kernel_scratch(c, T, (size_t)n);
    if (!q) return TN_OUT_OF_MEMORY;
    TRY(FN(dense)(c, IN_Q, &x));
    FN(place_heads)(x, c->in[IN_Q]->rank == 4, s->batch, s->q_heads, s->q_steps, s->size, 0, q);
    for (int64_t i = 0; i < n; i++) q[i] *= (T)scale;
    MatrixProduct p = {.m = s->q_steps,
                       .n = s->total,
                       .k = s->size,
                       .a_row = s->size,
                       .a_col = 1,
                       .b_row = 1,
                       .b_col = s->size,
                       .y_row = s->total,
                       .y_step = s->q_steps * s->total};
    TRY(FN(head_offsets)(c, s, &p, s->q_steps * s->size, s->total * s->size));
    return FN(matrix_product)(c, &p, q, k, scores);
}

/* y = scores V, brought back to the form that Q has */
static tn_status FN(weigh_values)(KernelCtx *c, const Sizes *s, const T *scores, const T *v, T *y) {
    bool split = c->in[IN_Q]->rank == 4;
    int64_t rows = s->batch * s->q_heads * s->q_steps;
    T *heads = split ? y : kernel_scratch(c, T, (size_t)(rows * s->v_size));
    if (!heads) return TN_OUT_OF_MEMORY;
    MatrixProduct p = {.m = s->q_steps,
                       .n = s->v_size,
                       .k = s->total,
                       .a_row = s->total,
                       .a_col = 1,
                       .b_row = s->v_size,
                       .b_col = 1,
                       .y_row = s->v_size,
                       .y_step = s->q_steps * s->v_size};
    TRY(FN(head_offsets)(c, s, &p, s->q_steps * s->total, s->total * s->v_size));
    TRY(FN(matrix_product)(c, &p, scores, v, heads));
    for (int64_t k = 0; !split && k < rows; k++) {
        int64_t step = k % s->q_steps, h = k / s->q_steps % s->q_heads, b = k / s->q_steps / s->q_heads;
        memcpy(y + ((b * s->q_steps + step) * s->q_heads + h) * s->v_size, heads + k * s->v_size,
               (size_t)s->v_size * sizeof(T));
    }
    return TN_OK;
}

static tn_status FN(attention)(KernelCtx *c) {
    Sizes s;
    Mask mask;
    T *k, *v, *y;
    read_sizes(c, &s);
    TRY(read_mask(c, &s, &mask));
    FN(AttentionJob)
    job = {.s = &s,
           .mask = &mask,
           .softcap = attr_float(c->node, "softcap"),
           .precision = softmax_dtype(c->node),
           .mode = attr_int(c->node, "qk_matmul_output_mode")};
    TRY(FN(join_cache)(c, &s, IN_K, IN_PAST_K, OUT_K, s.size, &k));
    TRY(FN(join_cache)(c, &s, IN_V, IN_PAST_V, OUT_V, s.v_size, &v));
    int64_t rows = s.batch * s.q_heads * s.q_steps;
    job.scores = kernel_scratch(c, T, (size_t)(rows * s.total));
    if (!job.scores) return TN_OUT_OF_MEMORY;
    if (kernel_wants(c, OUT_QK)) TRY(FN(result)(c, OUT_QK, &job.qk));
    TRY(FN(make_scores)(c, &s, k, job.scores));
    TRY(kernel_parallel(c, rows, (double)s.total * 20, FN(score_range), &job));
    if (job.qk) FN_DONE(c, OUT_QK, job.qk);
    TRY(FN(result)(c, OUT_Y, &y));
    TRY(FN(weigh_values)(c, &s, job.scores, v, y));
    FN_DONE(c, OUT_Y, y);
    return TN_OK;
}
