/* SPDX-License-Identifier: Apache-2.0 */
/* RoiAlign for one float type; sums are double. */

/* The mean of a bin's samples; or their largest weighted corner, which is what ONNX defines for max. Samples outside of
   the image are 0. */
static double FN(pool_bin)(const RoiJob *job, const T *plane, const Points *rows, const Points *columns) {
    double sum = 0, top = 0, all = rows->count * columns->count, seen = 0;
    for (int64_t i = rows->first; i <= rows->last; i++) {
        Between between_rows, between_columns;
        if (!neighbours(rows, i, job->height, &between_rows)) continue;
        for (int64_t j = columns->first; j <= columns->last; j++) {
            if (!neighbours(columns, j, job->width, &between_columns)) continue;
            const Sample s = sample_between(job, &between_rows, &between_columns);
            double corner[4];
            for (int k = 0; k < 4; k++) corner[k] = s.weight[k] * (double)plane[s.element[k]];
            double largest = fmax(fmax(corner[0], corner[1]), fmax(corner[2], corner[3]));
            top = seen++ == 0 ? largest : fmax(top, largest);
            sum += corner[0] + corner[1] + corner[2] + corner[3];
        }
    }
    if (job->largest) return seen < all ? fmax(top, 0) : top;
    return sum / fmax(all, 1);
}

/* Bins from number `first` on of region n, all channels. */
static void FN(average_bins)(const RoiJob *job, int64_t n, int64_t first, const Bins *bins) {
    int64_t in = job->height * job->width, out = job->out_height * job->out_width;
    const T *plane = (const T *)job->x + job->batch[n] * job->channels * in;
    T *y = (T *)job->y + n * job->channels * out + first;
    for (int64_t ch = 0; ch < job->channels; ch++, plane += in, y += out) {
        int k = 0;
        for (int bin = 0; bin < bins->n; bin++) {
            double sum = 0;
            for (; k < bins->end[bin]; k++) {
                const Sample *s = &bins->samples[k];
                sum += (s->weight[0] * (double)plane[s->element[0]] + s->weight[1] * (double)plane[s->element[1]]) +
                       (s->weight[2] * (double)plane[s->element[2]] + s->weight[3] * (double)plane[s->element[3]]);
            }
            y[bin] = (T)(sum / fmax(bins->count[bin], 1));
        }
    }
}

/* A bin of very many points, or one whose largest is wanted. */
static void FN(one_bin)(const RoiJob *job, int64_t n, int64_t bin, const Points *rows, const Points *columns) {
    int64_t in = job->height * job->width, out = job->out_height * job->out_width;
    for (int64_t ch = 0; ch < job->channels; ch++) {
        const T *plane = (const T *)job->x + (job->batch[n] * job->channels + ch) * in;
        ((T *)job->y)[(n * job->channels + ch) * out + bin] = (T)FN(pool_bin)(job, plane, rows, columns);
    }
}

/* One item is one region. */
static void FN(align_range)(void *arg, int64_t begin, int64_t end) {
    const RoiJob *job = arg;
    int64_t all = job->out_height * job->out_width;
    Bins bins;
    for (int64_t n = begin; n < end; n++) {
        Region2d r = region_of(job, n);
        bins.n = 0;
        for (int64_t bin = 0; bin < all; bin++) {
            Points rows, columns;
            bin_points(job, &r, bin, &rows, &columns);
            if (!job->largest && add_bin(job, &rows, &columns, &bins)) continue;
            FN(average_bins)(job, n, bin - bins.n, &bins);
            bins.n = 0;
            if (job->largest || !add_bin(job, &rows, &columns, &bins)) FN(one_bin)(job, n, bin, &rows, &columns);
        }
        FN(average_bins)(job, n, all - bins.n, &bins);
    }
}

static tn_status FN(roi_align)(KernelCtx *c, RoiJob *job, int64_t n) {
    const T *x;
    T *y;
    TRY(FN(dense)(c, 0, &x));
    TRY(FN(result)(c, 0, &y));
    job->x = x, job->y = y;
    double cost = (double)(job->channels * job->out_height * job->out_width) * 20;
    TRY(kernel_parallel(c, n, cost, FN(align_range), job));
    FN_DONE(c, 0, y);
    return TN_OK;
}
