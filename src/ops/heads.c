/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over heads, for the ops of com.microsoft; see heads_int.h. */
#include "ops/heads_int.h"

void split_heads(const HeadSplit *s) {
    for (int64_t k = 0; k < s->batch * s->steps * s->heads; k++) {
        int64_t h = k % s->heads, step = k / s->heads % s->steps, b = k / s->heads / s->steps;
        const float *from = s->x + (b * s->steps + step) * s->row + h * s->size;
        float *to = s->y + ((b * s->heads + h) * s->capacity + s->at + step) * s->size;
        for (int64_t i = 0; i < s->size; i++) to[i] = from[i] + (s->bias ? s->bias[h * s->size + i] : 0);
    }
}

void turn_head(const float *x, int64_t size, int64_t half, const float *cosines, const float *sines, bool interleaved,
               float *y) {
    for (int64_t i = 0; i < half; i++) {
        int64_t p = interleaved ? 2 * i : i, q = interleaved ? 2 * i + 1 : half + i;
        float a = x[p], b = x[q];
        y[p] = cosines[i] * a - sines[i] * b;
        y[q] = sines[i] * a + cosines[i] * b;
    }
    if (x != y) memcpy(y + 2 * half, x + 2 * half, (size_t)(size - 2 * half) * sizeof *y);
}

double attention_scale(const Node *node, int64_t size) {
    double scale = attr_float(node, "scale");
    return scale != 0 ? scale : 1 / sqrt((double)size);
}

/* ---- attention ----------------------------------------------------------------------------------------------- */

typedef struct Rows {
    const HeadAttention *a;
    float *scores;
} Rows;

/* One item is one row of scores: a query of a head. A query that sees nothing gets zeros. */
static void weigh_rows(void *arg, int64_t begin, int64_t end) {
    const Rows *rows = arg;
    const HeadAttention *a = rows->a;
    for (int64_t row = begin; row < end; row++) {
        int64_t i = row % a->steps, h = row / a->steps % a->heads, b = row / a->steps / a->heads;
        float *x = rows->scores + row * a->total, top = -INFINITY;
        double sum = 0, sink = a->sink ? (double)a->sink[h] : 0;
        for (int64_t j = 0; j < a->total; j++) {
            if (a->softcap > 0) x[j] = (float)(tanh((double)x[j] / a->softcap) * a->softcap);
            x[j] += a->bias(a->user, b, h, i, j);
            if (x[j] > top || x[j] != x[j]) top = x[j];
        }
        if (a->raw) memcpy(a->raw + row * a->total, x, (size_t)a->total * sizeof *x);
        bool blind = top == -INFINITY;
        if (blind) top = 0;
        if (a->has_sink && (float)sink > top) top = (float)sink;
        for (int64_t j = 0; j < a->total; j++) sum += (double)(x[j] = expf(x[j] - top));
        if (a->has_sink) sum += exp(sink - (double)top);
        for (int64_t j = 0; sum != 0 && j < a->total; j++) x[j] = blind ? 0 : (float)((double)x[j] / sum);
        if (a->weights) memcpy(a->weights + row * a->total, x, (size_t)a->total * sizeof *x);
    }
}

/* Where the matrices of each head begin. */
static tn_status head_offsets(KernelCtx *c, const HeadAttention *a, int64_t a_step, int64_t b_step, MatrixProduct *p) {
    p->batch = a->batch * a->heads;
    int64_t *offsets = kernel_scratch(c, int64_t, (size_t)(2 * p->batch));
    if (!offsets) return TN_OUT_OF_MEMORY;
    for (int64_t k = 0; k < p->batch; k++) {
        offsets[k] = k * a_step;
        offsets[p->batch + k] = (k / a->heads * a->kv_heads + k % a->heads / (a->heads / a->kv_heads)) * b_step;
    }
    p->a_offset = offsets, p->b_offset = offsets + p->batch;
    return TN_OK;
}

tn_status attend(KernelCtx *c, const HeadAttention *a) {
    int64_t rows = a->batch * a->heads * a->steps, n = rows * a->size, scores;
    if (rows == 0) return TN_OK;
    if (mul_overflows(rows, a->total, &scores)) return fail(TN_LIMIT, "the scores would be too many");
    float *q = kernel_scratch(c, float, (size_t)n), *y = kernel_scratch(c, float, (size_t)(rows * a->v_size) + 1);
    Rows r = {.a = a, .scores = kernel_scratch(c, float, (size_t)scores + 1)};
    if (!q || !y || !r.scores) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < n; i++) q[i] = a->q[i] * (float)a->scale;
    MatrixProduct p = {.m = a->steps,
                       .n = a->total,
                       .k = a->size,
                       .a_row = a->size,
                       .a_col = 1,
                       .b_row = 1,
                       .b_col = a->size,
                       .y_row = a->total,
                       .y_step = a->steps * a->total};
    TRY(head_offsets(c, a, a->steps * a->size, a->capacity * a->size, &p));
    TRY(matrix_product_f32(c, &p, q, a->k, r.scores));
    TRY(kernel_parallel(c, rows, (double)a->total * 10, weigh_rows, &r));
    p = (MatrixProduct){.m = a->steps,
                        .n = a->v_size,
                        .k = a->total,
                        .a_row = a->total,
                        .a_col = 1,
                        .b_row = a->v_size,
                        .b_col = 1,
                        .y_row = a->v_size,
                        .y_step = a->steps * a->v_size};
    TRY(head_offsets(c, a, a->steps * a->total, a->capacity * a->v_size, &p));
    TRY(matrix_product_f32(c, &p, r.scores, a->v, y));
    for (int64_t k = 0; k < rows; k++) {
        int64_t i = k % a->steps, h = k / a->steps % a->heads, b = k / a->steps / a->heads;
        memcpy(a->y + ((b * a->steps + i) * a->heads + h) * a->v_size, y + k * a->v_size,
               (size_t)a->v_size * sizeof *y);
    }
    return TN_OK;
}

/* ---- masks --------------------------------------------------------------------------------------------------- */

tn_status check_key_mask(const InferCtx *c, int mask, int added, const Dim scores[4]) {
    Dim same;
    if (added >= 0 && has_input(c, added)) {
        TRY(want_rank(c, added, 4));
        for (int d = 0; d < 4; d++)
            if (d > 1 || in_dim(c, added, d) != 1)
                TRY(dims_must_match(in_dim(c, added, d), scores[d], "sizes of attention_bias and the scores", &same));
    }
    if (!has_input(c, mask) || !rank_known(c, mask)) return TN_OK;
    const Shape *s = in_shape(c, mask);
    if (s->rank == 1) {
        Dim n = s->dims[0];
        if (dim_is_const(n) && dim_is_const(scores[0]) && n != scores[0] && n != 2 * scores[0])
            return fail(TN_UNSUPPORTED, "a mask of %lld entries for a batch of %lld; one or two each can be read",
                        (long long)n, (long long)scores[0]);
        return TN_OK;
    }
    if (s->rank != 2 && s->rank != 3)
        return fail(TN_UNSUPPORTED, "a mask of %d dimensions; 1 to 3 can be read", s->rank);
    TRY(dims_must_match(s->dims[0], scores[0], "batches of the mask and the scores", &same));
    if (s->rank == 3) TRY(dims_must_match(s->dims[1], scores[2], "queries of the mask and the scores", &same));
    return dims_must_match(s->dims[s->rank - 1], scores[3], "keys of the mask and the scores", &same);
}

tn_status read_key_mask(KernelCtx *c, int mask, int added, int64_t past, int64_t batch, int64_t heads, int64_t steps,
                        int64_t total, KeyMask *m) {
    *m = (KeyMask){.batch = batch,
                   .steps = steps,
                   .total = total,
                   .past = past,
                   .filter = (float)attr_float(c->node, "mask_filter_value"),
                   .causal = attr_int(c->node, "unidirectional") != 0};
    if (added >= 0 && kernel_has_input(c, added)) {
        const Tensor *t = c->in[added];
        TRY(dense_f32(c, added, &m->added));
        m->added_head = t->dims[1] == 1 ? 0 : steps * total;
        m->added_batch = t->dims[0] == 1 ? 0 : (t->dims[1] == 1 ? 1 : heads) * steps * total;
    }
    if (!kernel_has_input(c, mask)) return TN_OK;
    const Tensor *t = c->in[mask];
    TRY(dense_i64(c, mask, &m->data));
    m->form = t->rank == 3 ? MASK_SCORES : t->rank == 2 ? MASK_KEYS : t->dims[0] == batch ? MASK_LENGTHS : MASK_RANGES;
    return TN_OK;
}

float key_mask_bias(const void *mask, int64_t b, int64_t h, int64_t i, int64_t j) {
    const KeyMask *m = mask;
    bool seen = true;
    if (m->causal && j > m->past + i) return -INFINITY;
    switch (m->form) {
    case MASK_NONE: break;
    case MASK_LENGTHS: seen = j < m->data[b]; break;
    case MASK_RANGES: seen = j < m->data[b] && j >= min_i64(m->data[m->batch + b], m->total); break;
    case MASK_KEYS: seen = m->data[b * m->total + j] > 0; break;
    case MASK_SCORES: seen = m->data[(b * m->steps + i) * m->total + j] > 0; break;
    }
    float bias = m->added ? m->added[b * m->added_batch + h * m->added_head + i * m->total + j] : 0;
    return bias + (seen ? 0 : m->filter);
}
