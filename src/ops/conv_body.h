/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution for one float type. Groups with several result channels are matrix products of the weights and the
   windows laid out as columns, which are packed on the fly; others (depthwise) run over rows of the result. */

/* Rows [row, row + k) of the matrix whose rows are (channel, tap) and whose columns are result positions. */
static void FN(pack_windows)(const void *user, int64_t one, int64_t row, int64_t k, int64_t col, int columns, int width,
                             void *panel) {
    const WindowSource *source = user;
    const ConvShape *s = source->shape;
    const Window *w = &s->window;
    const T *x = (const T *)source->x + (one * s->in_channels + row / s->taps) * s->in_plane;
    int last = w->rank - 1;
    T *dst = panel;
    int64_t start[WINDOW_COLUMNS][TN_MAX_RANK], tap[TN_MAX_RANK];
    assert(width <= WINDOW_COLUMNS);
    for (int u = 0; u < columns; u++) window_start(s, col + u, start[u]);
    split_index(w->rank, w->kernel, row % s->taps, tap);
    bool one_row = columns == width && col % s->out[last] + width <= s->out[last];
    for (int64_t p = 0; p < k; p++, dst += width) {
        int64_t ix = start[0][last] + tap[last] * w->dilation[last];
        if (one_row && w->stride[last] == 1 && ix >= 0 && ix + width <= s->in[last]) {
            int64_t offset = tap_offset(s, start[0], tap);
            if (offset >= 0) memcpy(dst, x + offset, (size_t)width * sizeof(T));
            else memset(dst, 0, (size_t)width * sizeof(T));
        } else {
            for (int u = 0; u < width; u++) {
                int64_t offset = u < columns ? tap_offset(s, start[u], tap) : -1;
                dst[u] = offset >= 0 ? x[offset] : 0;
            }
        }
        if (!next_index(w->rank, w->kernel, tap)) x += s->in_plane;
    }
}

/* y[i] += w * x[i * stride]; blocks of a fixed length, which every compiler makes vectors of */
static void FN(add_scaled_row)(T *restrict y, const T *restrict x, T w, int64_t stride, int64_t n) {
    int64_t i = 0;
    if (stride == 1) {
        for (; i + 8 <= n; i += 8)
            for (int u = 0; u < 8; u++) y[i + u] += w * x[i + u];
    }
    for (; i < n; i++) y[i] += w * x[i * stride];
}

/* Adds one input channel under one tap to a result plane. */
static void FN(add_tap)(const ConvShape *s, const T *x, T weight, const int64_t *tap, T *y) {
    const Window *w = &s->window;
    int last = w->rank - 1;
    int64_t row[TN_MAX_RANK] = {0}, stride = w->stride[last];
    int64_t shift = tap[last] * w->dilation[last] - w->begin[last];
    int64_t from = shift < 0 ? (-shift + stride - 1) / stride : 0;
    int64_t to = s->in[last] > shift ? min_i64(s->out[last], (s->in[last] - 1 - shift) / stride + 1) : 0;
    if (from >= to) return;
    do {
        int64_t offset = 0;
        bool inside = true;
        for (int d = 0; d < last; d++) {
            int64_t i = row[d] * w->stride[d] + tap[d] * w->dilation[d] - w->begin[d];
            inside = inside && i >= 0 && i < s->in[d];
            offset = offset * s->in[d] + i;
        }
        if (inside)
            FN(add_scaled_row)(y + from, x + offset * s->in[last] + shift + from * stride, weight, stride, to - from);
        y += s->out[last];
    } while (next_index(last, s->out, row));
}

typedef struct FN(DirectJob) {
    const ConvShape *s;
    const T *x, *w;
    T *y;
} FN(DirectJob);

/* One item is one result plane. */
static void FN(direct_range)(void *arg, int64_t begin, int64_t end) {
    const FN(DirectJob) *job = arg;
    const ConvShape *s = job->s;
    int64_t all = s->group * s->out_channels;
    for (int64_t item = begin; item < end; item++) {
        T *y = job->y + item * s->out_plane;
        const T *x = job->x + item / s->out_channels * s->in_channels * s->in_plane;
        const T *w = job->w + item % all * s->in_channels * s->taps;
        memset(y, 0, (size_t)s->out_plane * sizeof(T));
        for (int64_t c = 0; c < s->in_channels; c++, x += s->in_plane) {
            int64_t tap[TN_MAX_RANK] = {0};
            do FN(add_tap)(s, x, *w++, tap, y);
            while (next_index(s->window.rank, s->window.kernel, tap));
        }
    }
}

static tn_status FN(convolve_directly)(KernelCtx *c, const ConvShape *s, const T *x, const T *w, T *y) {
    FN(DirectJob) job = {.s = s, .x = x, .w = w, .y = y};
    double cost = (double)s->out_plane * (double)(s->in_channels * s->taps) * 0.5;
    return kernel_parallel(c, s->batch * s->group * s->out_channels, cost, FN(direct_range), &job);
}

tn_status FN(convolve)(KernelCtx *c, const ConvShape *s, const T *x, const T *w, T *y) {
    if (s->out_plane == 0 || s->batch == 0) return TN_OK;
    if (s->out_channels < 4 && s->in_plane) return FN(convolve_directly)(c, s, x, w, y);
    WindowSource source = {.shape = s, .x = x};
    MatrixProduct product;
    TRY(conv_product(c, s, &product));
    product.pack = conv_is_pointwise(s) ? NULL : FN(pack_windows);
    product.pack_user = &source;
    return FN(matrix_product)(c, &product, w, x, y);
}

static tn_status FN(conv)(KernelCtx *c) {
    ConvShape s;
    const T *x, *w, *b = NULL, *z = NULL;
    T *y;
    TRY(conv_shape(c, 0, 1, &s));
    TRY(FN(dense)(c, 0, &x));
    TRY(FN(dense)(c, 1, &w));
    if (kernel_has_input(c, 2)) TRY(FN(dense)(c, 2, &b));
    if (kernel_has_input(c, 3)) TRY(FN(dense)(c, 3, &z)); /* FusedConv's summand */
    TRY(FN(result)(c, 0, &y));
    TRY(FN(convolve)(c, &s, x, w, y));
    int64_t planes = s.batch * s.group * s.out_channels;
    for (int64_t p = 0; b && p < planes; p++)
        for (int64_t i = 0; i < s.out_plane; i++) y[p * s.out_plane + i] += b[p % (s.group * s.out_channels)];
    for (int64_t i = 0; z && i < planes * s.out_plane; i++) y[i] += z[i];
    Activation act;
    TRY(conv_activation(c->node, &act));
    FN(activate)(&act, y, planes * s.out_plane);
    FN_DONE(c, 0, y);
    return TN_OK;
}
