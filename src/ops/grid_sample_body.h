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
        if (inside) sum += w * (double)x[at];
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
        for (int64_t ch = 0; ch < s->channels; ch++) {
            int64_t plane = b * s->channels + ch;
            job->y[plane * s->out_plane + item % s->out_plane] = (T)FN(weigh)(s, job->x + plane * s->in_plane, index,
                                                                              weight);
        }
    }
}

static tn_status FN(grid_sample)(KernelCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    Sampler s;
    FN(SampleJob) job = {.s = &s};
    TRY(read_sampler(c->node, &s));
    s.rank = x->rank - 2, s.batch = x->dims[0], s.channels = x->dims[1];
    s.single = c->in[1]->dtype != TN_F64;
    s.in_plane = s.out_plane = 1;
    for (int d = 0; d < s.rank; d++) {
        s.in_plane *= s.in[d] = x->dims[2 + d];
        s.out_plane *= y->dims[2 + d];
    }
    TRY(FN(dense)(c, 0, &job.x));
    TRY(dense_f64(c, 1, &job.grid));
    TRY(FN(result)(c, 0, &job.y));
    double cost = (double)s.channels * 20 * pow(s.taps, s.rank);
    TRY(kernel_parallel(c, s.batch * s.out_plane, cost, FN(sample_range), &job));
    FN_DONE(c, 0, job.y);
    return TN_OK;
}
