/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation by channel for one float type. */

/* What training measures: mean and variance of one channel over all images. */
static void FN(measure_channel)(const Planes *p, const T *x, int64_t channel, double *mean, double *variance) {
    double sum = 0, squares = 0, n = (double)(p->batch * p->plane);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->plane; i++) sum += (double)x[(b * p->channels + channel) * p->plane + i];
    *mean = sum / n;
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t i = 0; i < p->plane; i++) {
            double v = (double)x[(b * p->channels + channel) * p->plane + i] - *mean;
            squares += v * v;
        }
    }
    *variance = squares / n;
}

/* Replaces mean and variance by measured ones, and stores the running ones. */
static tn_status FN(train)(KernelCtx *c, const Planes *p, const T *x, const T **mean, const T **variance) {
    T *measured = kernel_scratch(c, T, (size_t)(4 * p->channels));
    if (!measured) return TN_OUT_OF_MEMORY;
    T *running = measured + 2 * p->channels;
    double keep = attr_float(c->node, "momentum");
    for (int64_t ch = 0; ch < p->channels; ch++) {
        double m, v;
        FN(measure_channel)(p, x, ch, &m, &v);
        measured[ch] = (T)m, measured[p->channels + ch] = (T)v;
        running[ch] = (T)((double)(*mean)[ch] * keep + m * (1 - keep));
        running[p->channels + ch] = (T)((double)(*variance)[ch] * keep + v * (1 - keep));
    }
    for (int i = 1; i < 3; i++) {
        T *out;
        if (!kernel_wants(c, i)) continue;
        TRY(FN(result)(c, i, &out));
        memcpy(out, running + (i - 1) * p->channels, (size_t)p->channels * sizeof(T));
        FN_DONE(c, i, out);
    }
    *mean = measured, *variance = measured + p->channels;
    return TN_OK;
}

static tn_status FN(batch_norm)(KernelCtx *c) {
    const T *x, *scale, *shift, *mean, *variance;
    T *y;
    Planes p = planes_of(c->in[0]);
    T epsilon = (T)attr_float(c->node, "epsilon");
    TRY(FN(dense)(c, 0, &x));
    TRY(FN(dense)(c, 1, &scale));
    TRY(FN(dense)(c, 2, &shift));
    TRY(FN(dense)(c, 3, &mean));
    TRY(FN(dense)(c, 4, &variance));
    if (attr_int(c->node, "training_mode")) TRY(FN(train)(c, &p, x, &mean, &variance));
    TRY(FN(result)(c, 0, &y));
    for (int64_t row = 0; row < p.batch * p.channels; row++) {
        int64_t ch = row % p.channels;
        T factor = scale[ch] / (T)sqrt((double)(variance[ch] + epsilon)), m = mean[ch], b = shift[ch];
        for (int64_t i = row * p.plane; i < (row + 1) * p.plane; i++) y[i] = (x[i] - m) * factor + b;
    }
    FN_DONE(c, 0, y);
    return TN_OK;
}

static tn_status FN(group_norm)(KernelCtx *c, int64_t groups) {
    const T *x, *scale, *shift;
    T *y;
    Planes p = planes_of(c->in[0]);
    double epsilon = attr_float(c->node, "epsilon");
    TRY(FN(dense)(c, 0, &x));
    TRY(FN(dense)(c, 1, &scale));
    TRY(FN(dense)(c, 2, &shift));
    TRY(FN(result)(c, 0, &y));
    int64_t of_group = groups ? p.channels / groups : 0, n = of_group * p.plane;
    for (int64_t row = 0; row < p.batch * groups; row++) {
        double mean, variance;
        FN(moments)(x + row * n, n, &mean, &variance);
        double factor = 1 / sqrt(variance + epsilon);
        for (int64_t i = 0; i < n; i++) {
            int64_t ch = row % groups * of_group + i / p.plane;
            y[row * n + i] = (T)(((double)x[row * n + i] - mean) * factor * (double)scale[ch] + (double)shift[ch]);
        }
    }
    FN_DONE(c, 0, y);
    return TN_OK;
}

/* y = x / (bias + alpha / size * sum of squares over the channels around)^beta */
static tn_status FN(lrn)(KernelCtx *c) {
    const T *x;
    T *y;
    Planes p = planes_of(c->in[0]);
    int64_t size = attr_int(c->node, "size"), before = (size - 1) / 2, after = size - 1 - before;
    double alpha = attr_float(c->node, "alpha") / (double)size, beta = attr_float(c->node, "beta");
    double bias = attr_float(c->node, "bias");
    TRY(FN(dense)(c, 0, &x));
    TRY(FN(result)(c, 0, &y));
    for (int64_t row = 0; row < p.batch * p.channels; row++) {
        int64_t ch = row % p.channels, base = (row - ch) * p.plane;
        int64_t from = max_i64(0, ch - before), to = after >= p.channels - ch ? p.channels - 1 : ch + after;
        for (int64_t i = 0; i < p.plane; i++) {
            double sum = 0;
            for (int64_t k = from; k <= to; k++) {
                double v = (double)x[base + k * p.plane + i];
                sum += v * v;
            }
            y[row * p.plane + i] = (T)((double)x[row * p.plane + i] / pow(bias + alpha * sum, beta));
        }
    }
    FN_DONE(c, 0, y);
    return TN_OK;
}
