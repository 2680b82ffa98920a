/* SPDX-License-Identifier: Apache-2.0 */
/* GridSample for one float type. */

typedef struct FN(SampleJob) {
    const Sampler *s;
    const T *x;
    const double *grid;
    T *y;
} FN(SampleJob);

/* Taps that read nothing have index -1. */
static double FN(weigh)(const Sampler *s, const T *x, int64_t index[][4], double weight[][4]) {
    int64_t tap[TN_MAX_RANK] = {0}, taps[TN_MAX_RANK];
    double sum = 0;
    for (int d = 0; d < s->rank; d++) taps[d] = s->taps;
    do {
        double w = 1;
        int64_t at = 0;
        bool inside = true;
        for (int d = 0; d < s->rank; d++) {
            int64_t i = index[d][tap[d]];
            inside = inside && i >= 0;
            w *= weight[d][tap[d]];
            at = at * s->in[d] + i;
        }
        if (inside) sum += w * (double)x[at * s->parts];
    } while (next_index(s->rank, taps, tap));
    return sum;
}

/* One item is one place of the result, all channels. */
static void FN(sample_range)(void *arg, int64_t begin, int64_t end) {
    const FN(SampleJob) *job = arg;
    const Sampler *s = job->s;
    for (int64_t item = begin; item < end; item++) {
        int64_t index[TN_MAX_RANK][4], b = item / s->out_plane;
        double weight[TN_MAX_RANK][4];
        /* The grid names the innermost dimension first. */
        for (int d = 0; d < s->rank; d++)
            find_taps(s, job->grid[item * s->rank + s->rank - 1 - d], s->in[d], index[d], weight[d]);
        for (int64_t plane = b * s->channels; plane < (b + 1) * s->channels; plane++) {
            const T *x = job->x + plane * s->in_plane * s->parts;
            T *y = job->y + (plane * s->out_plane + item % s->out_plane) * s->parts;
            for (int part = 0; part < s->parts; part++) y[part] = (T)FN(weigh)(s, x + part, index, weight);
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
    double cost = (double)s.channels * 20 * pow(s.taps, s.rank);
    TRY(kernel_parallel(c, s.batch * s.out_plane, cost, FN(sample_range), &job));
    const WholeRange range = whole_range(c->in[0]->dtype);
    for (int64_t i = 0, n = tensor_count(&c->out[0]); i < n && class_of(c->in[0]->dtype) == CLASS_INT; i++)
        job.y[i] = (T)whole_average((double)job.y[i], false, &range);
    if (pairs) result_pairs_done(c, 0, (const double *)job.y);
    else FN_DONE(c, 0, job.y);
    return TN_OK;
}
