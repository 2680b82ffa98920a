/* SPDX-License-Identifier: Apache-2.0 */
/* Layer normalisation and its relatives for one float type. */

void FN(moments)(const T *x, int64_t n, double *mean, double *variance) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    *variance = squares / (double)n;
}

/* An operand that broadcasts to x's shape: the element for x's k-th is data[k % count]. NULL where it is absent. */
static tn_status FN(broadcast)(KernelCtx *c, int i, const T **data, int64_t *count) {
    *data = NULL;
    if (i < 0 || !kernel_has_input(c, i)) return TN_OK;
    const Tensor *t = c->in[i], *x = c->in[0];
    if (is_suffix(t, x)) {
        *count = tensor_count(t);
        return FN(dense)(c, i, data);
    }
    Tensor whole = repeated(t, x);
    const Tensor *in[] = {&whole};
    KernelCtx one = *c;
    one.in = in, one.n_in = 1;
    *count = tensor_count(x);
    return FN(dense)(&one, 0, data);
}

typedef struct FN(NormJob) {
    int64_t n; /* length of a row */
    double epsilon;
    bool centre;
    const T *x, *skip, *bias, *scale, *shift;
    int64_t skip_n, bias_n, scale_n, shift_n;
    T *y, *sum, *mean, *inverse;
} FN(NormJob);

/* Multiplies a row, whose first element is number `at` of x, by an operand that broadcasts; or adds it. */
static void FN(scale_row)(const T *operand, int64_t count, int64_t at, T *y, int64_t n, bool multiply) {
    for (int64_t done = 0; done < n;) {
        const T *from = operand + (at + done) % count;
        int64_t run = min_i64(n - done, count - (at + done) % count);
        for (int64_t i = 0; i < run; i++) y[done + i] = multiply ? y[done + i] * from[i] : y[done + i] + from[i];
        done += run;
    }
}

static void FN(norm_range)(void *arg, int64_t begin, int64_t end) {
    const FN(NormJob) *job = arg;
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * job->n;
        const T *x = job->x + at;
        T *y = job->y + at;
        if (job->skip) { /* the sum is kept in y until it is normalised */
            memcpy(y, x, (size_t)job->n * sizeof(T));
            FN(scale_row)(job->skip, job->skip_n, at, y, job->n, false);
            if (job->bias) FN(scale_row)(job->bias, job->bias_n, at, y, job->n, false);
            if (job->sum) memcpy(job->sum + at, y, (size_t)job->n * sizeof(T));
            x = y;
        }
        double mean = 0, variance = 0;
        if (job->centre) {
            FN(moments)(x, job->n, &mean, &variance);
        } else {
            for (int64_t i = 0; i < job->n; i++) variance += (double)x[i] * (double)x[i];
            variance /= (double)job->n;
        }
        double inverse = 1 / sqrt(variance + job->epsilon);
        if (job->mean) job->mean[row] = (T)mean;
        if (job->inverse) job->inverse[row] = (T)inverse;
        for (int64_t i = 0; i < job->n; i++) y[i] = (T)(((double)x[i] - mean) * inverse);
        FN(scale_row)(job->scale, job->scale_n, at, y, job->n, true);
        if (job->shift) FN(scale_row)(job->shift, job->shift_n, at, y, job->n, false);
    }
}

static tn_status FN(layer_norm)(KernelCtx *c, const NormOperands *o) {
    const Tensor *x = c->in[0];
    int axis = x->rank - 1;
    if (o->skip < 0) TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    FN(NormJob) job = {.n = row_length(x, axis), .epsilon = attr_float(c->node, "epsilon"), .centre = o->centre};
    TRY(FN(dense)(c, 0, &job.x));
    TRY(FN(broadcast)(c, o->skip, &job.skip, &job.skip_n));
    TRY(FN(broadcast)(c, o->bias, &job.bias, &job.bias_n));
    TRY(FN(broadcast)(c, o->scale, &job.scale, &job.scale_n));
    TRY(FN(broadcast)(c, o->shift, &job.shift, &job.shift_n));
    TRY(FN(result)(c, 0, &job.y));
    bool mean = o->mean >= 0 && kernel_wants(c, o->mean), inverse = o->inverse >= 0 && kernel_wants(c, o->inverse);
    bool sum = o->sum >= 0 && kernel_wants(c, o->sum);
    if (mean) TRY(FN(result)(c, o->mean, &job.mean));
    if (inverse) TRY(FN(result)(c, o->inverse, &job.inverse));
    if (sum) TRY(FN(result)(c, o->sum, &job.sum));
    int64_t rows = job.n ? tensor_count(x) / job.n : 0;
    TRY(kernel_parallel(c, rows, (double)job.n * 8, FN(norm_range), &job));
    FN_DONE(c, 0, job.y);
    if (mean) FN_DONE(c, o->mean, job.mean);
    if (inverse) FN_DONE(c, o->inverse, job.inverse);
    if (sum) FN_DONE(c, o->sum, job.sum);
    return TN_OK;
}
