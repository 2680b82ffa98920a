/* SPDX-License-Identifier: Apache-2.0 */
/* Transposed convolution for one float type: columns = weights^T x input, then each column's elements are added where
   they belong, tap by tap. */

typedef struct FN(ScatterJob) {
    const Window *w;
    const int64_t *in, *out;
    int64_t taps, in_plane, out_plane;
    const T *columns, *bias;
    T *y;
} FN(ScatterJob);

/* Adds what one tap contributes to a result plane. */
static void FN(scatter_tap)(const FN(ScatterJob) * job, const int64_t *tap, const T *columns, T *y) {
    const Window *w = job->w;
    int last = w->rank - 1;
    int64_t row[TN_MAX_RANK] = {0}, stride = w->stride[last];
    int64_t shift = tap[last] * w->dilation[last] - w->begin[last];
    int64_t from = shift < 0 ? (-shift + stride - 1) / stride : 0;
    int64_t to = job->out[last] > shift ? min_i64(job->in[last], (job->out[last] - 1 - shift) / stride + 1) : 0;
    do {
        int64_t offset = 0;
        bool inside = true;
        for (int d = 0; d < last; d++) {
            int64_t o = row[d] * w->stride[d] + tap[d] * w->dilation[d] - w->begin[d];
            inside = inside && o >= 0 && o < job->out[d];
            offset = offset * job->out[d] + o;
        }
        if (inside) {
            T *out = y + offset * job->out[last];
            for (int64_t i = from; i < to; i++) out[shift + i * stride] += columns[i];
        }
        columns += job->in[last];
    } while (next_index(last, job->in, row));
}

/* One item is one result plane. */
static void FN(scatter_range)(void *arg, int64_t begin, int64_t end) {
    const FN(ScatterJob) *job = arg;
    for (int64_t m = begin; m < end; m++) {
        T *y = job->y + m * job->out_plane;
        const T *columns = job->columns + m * job->taps * job->in_plane;
        for (int64_t i = 0; i < job->out_plane; i++) y[i] = job->bias ? job->bias[m] : 0;
        int64_t tap[TN_MAX_RANK] = {0};
        if (job->in_plane == 0) continue;
        do {
            FN(scatter_tap)(job, tap, columns, y);
            columns += job->in_plane;
        } while (next_index(job->w->rank, job->w->kernel, tap));
    }
}

/* One image of one group. */
static tn_status FN(transpose_group)(KernelCtx *c, FN(ScatterJob) * job, int64_t in_channels, int64_t out_channels,
                                     const T *x, const T *w, T *columns, int64_t block) {
    T *y = job->y;
    const T *bias = job->bias;
    for (int64_t m = 0; m < out_channels; m += block) {
        int64_t n = min_i64(block, out_channels - m);
        MatrixProduct p = {.m = n * job->taps,
                           .n = job->in_plane,
                           .k = in_channels,
                           .a_row = 1,
                           .a_col = out_channels * job->taps,
                           .b_row = job->in_plane,
                           .b_col = 1,
                           .y_row = job->in_plane,
                           .batch = 1};
        TRY(FN(matrix_product)(c, &p, w + m * job->taps, x, columns));
        job->columns = columns;
        job->y = y + m * job->out_plane;
        job->bias = bias ? bias + m : NULL;
        TRY(kernel_parallel(c, n, (double)(job->taps * job->in_plane), FN(scatter_range), job));
    }
    return TN_OK;
}

static tn_status FN(conv_transpose)(KernelCtx *c) {
    const Tensor *data = c->in[0], *weights = c->in[1], *result = &c->out[0];
    TransposedWindow t;
    TRY(read_window(c->node, data->rank - 2, &t));
    for (int d = 0; d < data->rank - 2; d++) t.window.kernel[d] = weights->dims[2 + d];
    fix_pads(&t, data->dims + 2, result->dims + 2);
    const T *x, *w, *b = NULL;
    T *y;
    TRY(FN(dense)(c, 0, &x));
    TRY(FN(dense)(c, 1, &w));
    if (kernel_has_input(c, 2)) TRY(FN(dense)(c, 2, &b));
    TRY(FN(result)(c, 0, &y));
    FN(ScatterJob)
    job = {.w = &t.window, .in = data->dims + 2, .out = result->dims + 2, .taps = 1, .in_plane = 1, .out_plane = 1};
    for (int d = 2; d < data->rank; d++) {
        job.taps *= weights->dims[d];
        job.in_plane *= data->dims[d];
        job.out_plane *= result->dims[d];
    }
    int64_t group = attr_int(c->node, "group"), in_channels = data->dims[1] / group, out_channels = weights->dims[1];
    int64_t block = max_i64(1, min_i64(out_channels, COLUMNS_MAX / max_i64(1, job.taps * job.in_plane)));
    T *columns = kernel_scratch(c, T, (size_t)(block * job.taps * job.in_plane));
    if (!columns) return TN_OUT_OF_MEMORY;
    for (int64_t one = 0; one < data->dims[0] * group; one++) {
        int64_t g = one % group;
        job.y = y + one * out_channels * job.out_plane;
        job.bias = b ? b + g * out_channels : NULL;
        TRY(FN(transpose_group)(c, &job, in_channels, out_channels, x + one * in_channels * job.in_plane,
                                w + g * in_channels * out_channels * job.taps, columns, block));
    }
    FN_DONE(c, 0, y);
    return TN_OK;
}
