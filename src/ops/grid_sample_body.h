/* SPDX-License-Identifier: Apache-2.0 */
/* GridSample for one float type. */

typedef struct FN(SampleJob) {
    const Sampler *s;
    const T *x;
    const double *grid;
    T *y;
} FN(SampleJob);

/* What a block of places reads: `n` elements each with their weights, in `count` columns; -1: none. */
typedef struct FN(Taps) {
    int n;
    bool inside; /* all there */
    int64_t element[SAMPLE_TAPS][SAMPLE_BLOCK];
    T weight[SAMPLE_TAPS][SAMPLE_BLOCK];
} FN(Taps);

/* Of place number i of the block, which is item `item`. */
static void FN(find_all)(const FN(SampleJob) * job, int64_t item, FN(Taps) * taps, int64_t i) {
    const Sampler *s = job->s;
    int64_t index[TN_MAX_RANK][4], tap[TN_MAX_RANK] = {0}, counts[TN_MAX_RANK];
    double weight[TN_MAX_RANK][4];
    find_all_taps(s, job->grid, item, index, weight);
    for (int d = 0; d < s->rank; d++) counts[d] = s->taps;
    int n = 0;
    if (s->rank == 2) {
        for (int k = 0; k < s->taps; k++)
            for (int j = 0; j < s->taps; j++, n++) {
                bool inside = (index[0][k] | index[1][j]) >= 0;
                taps->element[n][i] = inside ? (index[0][k] * s->in[1] + index[1][j]) * s->parts : -1;
                taps->weight[n][i] = (T)(weight[0][k] * weight[1][j]);
                taps->inside &= inside;
            }
        taps->n = n;
        return;
    }
    do {
        double w;
        int64_t at = tap_element(s, index, weight, tap, &w);
        taps->element[n][i] = at < 0 ? -1 : at * s->parts;
        taps->weight[n++][i] = (T)w;
        taps->inside &= at >= 0;
    } while (next_index(s->rank, counts, tap));
    taps->n = n;
}

static void FN(weigh)(const FN(Taps) * taps, const T *x, T *y, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        T sum = 0;
        for (int k = 0; k < taps->n; k++) {
            int64_t at = taps->element[k][i];
            if (taps->inside || at >= 0) sum += taps->weight[k][i] * x[at];
        }
        y[i * step] = sum;
    }
}

/* The most common: an average of four that are all there. */
static void FN(weigh_four)(const FN(Taps) * taps, const T *x, T *y, int64_t n) {
    const int64_t *a = taps->element[0], *b = taps->element[1], *c = taps->element[2], *d = taps->element[3];
    const T *v = taps->weight[0], *w = taps->weight[1], *p = taps->weight[2], *q = taps->weight[3];
    for (int64_t i = 0; i < n; i++) y[i] = ((v[i] * x[a[i]] + w[i] * x[b[i]]) + p[i] * x[c[i]]) + q[i] * x[d[i]];
}

/* One item is a block of places of one entry of the batch, all channels. */
static void FN(sample_range)(void *arg, int64_t begin, int64_t end) {
    const FN(SampleJob) *job = arg;
    const Sampler *s = job->s;
    int64_t blocks = (s->out_plane + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK;
    FN(Taps) taps;
    for (int64_t item = begin; item < end; item++) {
        int64_t b = item / blocks, first = item % blocks * SAMPLE_BLOCK,
                n = min_i64(SAMPLE_BLOCK, s->out_plane - first);
        taps.inside = true;
        for (int64_t i = 0; i < n; i++) FN(find_all)(job, b * s->out_plane + first + i, &taps, i);
        for (int64_t plane = b * s->channels; plane < (b + 1) * s->channels; plane++) {
            const T *x = job->x + plane * s->in_plane * s->parts;
            T *y = job->y + (plane * s->out_plane + first) * s->parts;
            if (taps.n == 4 && taps.inside && s->parts == 1) FN(weigh_four)(&taps, x, y, n);
            else
                for (int part = 0; part < s->parts; part++) FN(weigh)(&taps, x + part, y + part, s->parts, n);
        }
    }
}

static double FN(weigh_many)(const Sampler *s, const T *x, int64_t index[][4], double weight[][4]) {
    int64_t tap[TN_MAX_RANK] = {0}, taps[TN_MAX_RANK];
    double sum = 0;
    for (int d = 0; d < s->rank; d++) taps[d] = s->taps;
    do {
        double w;
        int64_t at = tap_element(s, index, weight, tap, &w);
        if (at >= 0) sum += w * (double)x[at * s->parts];
    } while (next_index(s->rank, taps, tap));
    return sum;
}

/* One item is one place of the result, all channels: where there are more taps than a block has room for. */
static void FN(sample_places)(void *arg, int64_t begin, int64_t end) {
    const FN(SampleJob) *job = arg;
    const Sampler *s = job->s;
    for (int64_t item = begin; item < end; item++) {
        int64_t index[TN_MAX_RANK][4], b = item / s->out_plane;
        double weight[TN_MAX_RANK][4];
        find_all_taps(s, job->grid, item, index, weight);
        for (int64_t plane = b * s->channels; plane < (b + 1) * s->channels; plane++) {
            const T *x = job->x + plane * s->in_plane * s->parts;
            T *y = job->y + (plane * s->out_plane + item % s->out_plane) * s->parts;
            for (int part = 0; part < s->parts; part++) y[part] = (T)FN(weigh_many)(s, x + part, index, weight);
        }
    }
}

static tn_status FN(grid_sample)(KernelCtx *c) {
    Sampler s;
    FN(SampleJob) job = {.s = &s};
    TRY(sampler_of(c, &s));
    TRY(dense_f64(c, 1, &job.grid));
    bool pairs = s.parts == 2; /* which are double: then T is */
    TRY(pairs ? dense_pairs(c, 0, (const double **)&job.x) : FN(dense)(c, 0, &job.x));
    TRY(pairs ? result_pairs(c, 0, (double **)&job.y) : FN(result)(c, 0, &job.y));
    int64_t blocks = s.batch * ((s.out_plane + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK);
    double taps = pow(s.taps, s.rank), cost = ((double)s.channels + 5) * taps;
    if (taps > SAMPLE_TAPS) TRY(kernel_parallel(c, s.batch * s.out_plane, 5 * cost, FN(sample_places), &job));
    else TRY(kernel_parallel(c, blocks, cost * SAMPLE_BLOCK, FN(sample_range), &job));
    const WholeRange range = whole_range(c->in[0]->dtype);
    for (int64_t i = 0, n = tensor_count(&c->out[0]); i < n && class_of(c->in[0]->dtype) == CLASS_INT; i++)
        job.y[i] = (T)whole_average((double)job.y[i], false, &range);
    if (pairs) result_pairs_done(c, 0, (const double *)job.y);
    else FN_DONE(c, 0, job.y);
    return TN_OK;
}
