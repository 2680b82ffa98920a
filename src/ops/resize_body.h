/* SPDX-License-Identifier: Apache-2.0 */
/* Linear and cubic Resize for one float type. */

typedef struct FN(ResizeJob) {
    const ResizeFilter *filter;
    int64_t in, out, inner; /* sizes of the dimension, and elements behind it */
    const T *x;
    T *y, extrapolation;
} FN(ResizeJob);

/* One item is one (place in the dimensions in front, place in the resized dimension). */
static void FN(resize_range)(void *arg, int64_t begin, int64_t end) {
    const FN(ResizeJob) *job = arg;
    const ResizeFilter *f = job->filter;
    for (int64_t item = begin; item < end; item++) {
        int64_t i = item % job->out;
        const T *x = job->x + item / job->out * job->in * job->inner;
        T *y = job->y + item * job->inner;
        for (int64_t j = 0; j < job->inner; j++) y[j] = 0;
        for (int64_t k = i * f->taps; k < (i + 1) * f->taps; k++) {
            T w = (T)f->weight[k];
            const T *from = x + f->index[k] * job->inner;
            if (w == 0) continue;
            for (int64_t j = 0; j < job->inner; j++) y[j] += w * from[j];
        }
        if (f->outside && f->outside[i])
            for (int64_t j = 0; j < job->inner; j++) y[j] = job->extrapolation;
    }
}

static tn_status FN(resize)(KernelCtx *c, const ResizeAttrs *attrs, const ResizeAxis *axis,
                            const ResizeFilter *filters) {
    const Tensor *t = c->in[0];
    const T *x;
    T *y;
    int64_t dims[TN_MAX_RANK], count = tensor_count(&c->out[0]);
    memcpy(dims, t->dims, sizeof dims);
    TRY(FN(dense)(c, 0, &x));
    TRY(FN(result)(c, 0, &y));
    for (int d = 0; d < t->rank && count > 0; d++) {
        if (!filters[d].index) continue;
        FN(ResizeJob)
        job = {.filter = &filters[d],
               .in = dims[d],
               .out = axis[d].out,
               .inner = 1,
               .x = x,
               .extrapolation = (T)attr_float(c->node, "extrapolation_value")};
        dims[d] = axis[d].out;
        int64_t outer = 1, n;
        for (int k = 0; k < d; k++) outer *= dims[k];
        for (int k = d + 1; k < t->rank; k++) job.inner *= dims[k];
        TRY(checked_count(t->rank, dims, &n));
        job.y = kernel_scratch(c, T, (size_t)n);
        if (!job.y) return TN_OUT_OF_MEMORY;
        double cost = (double)(filters[d].taps * job.inner) + 20;
        TRY(kernel_parallel(c, outer * job.out, cost, FN(resize_range), &job));
        x = job.y;
    }
    if (count > 0) memcpy(y, x, (size_t)count * sizeof(T));
    const WholeRange range = whole_range(t->dtype);
    for (int64_t i = 0; i < count && class_of(t->dtype) == CLASS_INT; i++)
        y[i] = (T)whole_average((double)y[i], attrs->antialias, &range);
    FN_DONE(c, 0, y);
    return TN_OK;
}
