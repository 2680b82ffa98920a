/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation along axes for one float type. */

/* One line of n elements, `step` apart. */
typedef void (*FN(LineFn))(const Node *node, const T *x, T *y, int64_t n, int64_t step);

/* NaN where there is one; the first of equals. */
static int64_t FN(largest)(const T *x, int64_t n, int64_t step) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i * step] > x[best * step] || x[i * step] != x[i * step]) best = i;
    return best;
}

static void FN(softmax_line)(const Node *node, const T *x, T *y, int64_t n, int64_t step) {
    (void)node;
    T top = x[FN(largest)(x, n, step) * step];
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        y[i * step] = sizeof(T) == 8 ? (T)exp((double)(x[i * step] - top)) : (T)expf((float)(x[i * step] - top));
        sum += (double)y[i * step];
    }
    for (int64_t i = 0; i < n; i++) y[i * step] = (T)((double)y[i * step] / sum);
}

static void FN(log_softmax_line)(const Node *node, const T *x, T *y, int64_t n, int64_t step) {
    (void)node;
    T top = x[FN(largest)(x, n, step) * step];
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp((double)(x[i * step] - top));
    double log_sum = log(sum);
    for (int64_t i = 0; i < n; i++) y[i * step] = (T)((double)(x[i * step] - top) - log_sum);
}

/* A NaN is no largest element, as in onnxruntime, unless it stands first. */
static void FN(hardmax_line)(const Node *node, const T *x, T *y, int64_t n, int64_t step) {
    (void)node;
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i * step] > x[best * step]) best = i;
    for (int64_t i = 0; i < n; i++) y[i * step] = i == best;
}

static void FN(lp_norm_line)(const Node *node, const T *x, T *y, int64_t n, int64_t step) {
    bool square = attr_int(node, "p") == 2;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = (double)x[i * step];
        sum += square ? v * v : fabs(v);
    }
    if (square) sum = sqrt(sum);
    for (int64_t i = 0; i < n; i++) y[i * step] = sum == 0 ? 0 : (T)((double)x[i * step] / sum);
}

typedef struct FN(LinesJob) {
    const Node *node;
    FN(LineFn) line;
    int64_t n, step; /* step: lines that lie side by side */
    const T *x;
    T *y;
} FN(LinesJob);

static void FN(lines_range)(void *arg, int64_t begin, int64_t end) {
    const FN(LinesJob) *job = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i / job->step * job->step * job->n + i % job->step;
        job->line(job->node, job->x + at, job->y + at, job->n, job->step);
    }
}

static tn_status FN(run_lines)(KernelCtx *c, FN(LineFn) line) {
    const Tensor *x = c->in[0];
    int axis;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    FN(LinesJob) job = {.node = c->node, .line = line, .n = x->dims[axis], .step = 1};
    for (int d = axis + 1; d < x->rank; d++) job.step *= x->dims[d];
    TRY(FN(dense)(c, 0, &job.x));
    TRY(FN(result)(c, 0, &job.y));
    if (tensor_count(x) > 0)
        TRY(kernel_parallel(c, tensor_count(x) / job.n, (double)job.n * 15, FN(lines_range), &job));
    FN_DONE(c, 0, job.y);
    return TN_OK;
}

/* The cells over which a mean is taken are numbered by the coordinates of the other axes. */
static tn_status FN(mvn)(KernelCtx *c) {
    const Tensor *t = c->in[0];
    const T *x;
    T *y;
    uint32_t mask;
    TRY(mvn_axes(c->node, t->rank, &mask));
    TRY(FN(dense)(c, 0, &x));
    TRY(FN(result)(c, 0, &y));
    int64_t n = tensor_count(t), cells = 1, stride[TN_MAX_RANK], index[TN_MAX_RANK] = {0};
    if (n == 0) return TN_OK;
    for (int d = t->rank - 1; d >= 0; d--) {
        stride[d] = mask >> d & 1 ? 0 : cells;
        if (stride[d]) cells *= t->dims[d];
    }
    double *sum = kernel_scratch(c, double, (size_t)(2 * cells)), of_cell = (double)(n / cells);
    int64_t *cell = kernel_scratch(c, int64_t, (size_t)n);
    if (!sum || !cell) return TN_OUT_OF_MEMORY;
    double *squares = sum + cells;
    for (int64_t i = 0; i < n; i++) {
        for (int d = 0; d < t->rank; d++) cell[i] += index[d] * stride[d];
        next_index(t->rank, t->dims, index);
        sum[cell[i]] += (double)x[i];
    }
    for (int64_t i = 0; i < n; i++) {
        double v = (double)x[i] - sum[cell[i]] / of_cell;
        squares[cell[i]] += v * v;
    }
    for (int64_t i = 0; i < n; i++) {
        double v = (double)x[i] - sum[cell[i]] / of_cell;
        y[i] = (T)(v / (sqrt(squares[cell[i]] / of_cell) + 1e-9));
    }
    FN_DONE(c, 0, y);
    return TN_OK;
}
