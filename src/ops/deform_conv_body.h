/* SPDX-License-Identifier: Apache-2.0 */
/* DeformConv for one float type: of a block of places all taps are read, for all channels that are moved alike, and then
   multiplied by the weights as matrices. */

typedef struct FN(DeformJob) {
    ConvShape s;
    int64_t offset_groups, channels; /* of which each has so many */
    int64_t batch, group, first, n;  /* what is being done: places from `first` on */
    const T *x, *w, *offset, *mask, *bias;
    T *taps; /* [in_channels, taps, n] */
} FN(DeformJob);

/* Row number t of the taps of channels from `begin` to `end` of the group, which are moved alike. */
static void FN(read_tap)(const FN(DeformJob) * job, int64_t og, int64_t t, int64_t begin, int64_t end) {
    const ConvShape *s = &job->s;
    int rank = s->window.rank;
    int64_t field = (job->batch * job->offset_groups + og) * s->taps + t, index[TN_MAX_RANK], rest = job->first;
    for (int d = rank - 1; d >= 0; rest /= s->out[d], d--) index[d] = rest % s->out[d];
    for (int64_t i = 0; i < job->n; i++, next_index(rank, s->out, index)) {
        int64_t element[MOST_CORNERS], place = job->first + i;
        double at[TN_MAX_RANK], weight[MOST_CORNERS];
        tap_place(&s->window, index, t, at);
        for (int d = 0; d < rank; d++) at[d] += (double)job->offset[(field * rank + d) * s->out_plane + place];
        int corners = corners_of(s, at, element, weight);
        T factor = job->mask ? job->mask[field * s->out_plane + place] : 1;
        const T *plane = job->x + ((job->batch * s->group + job->group) * s->in_channels + begin) * s->in_plane;
        T *to = job->taps + (begin * s->taps + t) * job->n + i;
        for (int64_t c = begin; c < end; c++, plane += s->in_plane, to += s->taps * job->n) {
            T sum = 0;
            for (int k = 0; k < corners; k++) sum += (T)weight[k] * plane[element[k]];
            *to = sum * factor;
        }
    }
}

static void FN(read_taps)(void *arg, int64_t begin, int64_t end) {
    const FN(DeformJob) *job = arg;
    int64_t first = job->group * job->s.in_channels, last = first + job->s.in_channels;
    for (int64_t t = begin; t < end; t++)
        for (int64_t c = first; c < last;) {
            int64_t og = c / job->channels, next = min_i64((og + 1) * job->channels, last);
            FN(read_tap)(job, og, t, c - first, next - first);
            c = next;
        }
}

static tn_status FN(multiply_block)(KernelCtx *c, const FN(DeformJob) * job, T *y) {
    const ConvShape *s = &job->s;
    int64_t k = s->in_channels * s->taps, m = s->out_channels;
    MatrixProduct p = {.m = m,
                       .n = job->n,
                       .k = k,
                       .batch = 1,
                       .a_row = k,
                       .a_col = 1,
                       .b_row = job->n,
                       .b_col = 1,
                       .y_row = s->out_plane};
    T *to = y + (job->batch * s->group + job->group) * m * s->out_plane + job->first;
    TRY(FN(matrix_product)(c, &p, job->w + job->group * m * k, job->taps, to));
    for (int64_t i = 0; i < m && job->bias; i++)
        for (int64_t j = 0; j < job->n; j++) to[i * s->out_plane + j] += job->bias[job->group * m + i];
    return TN_OK;
}

static tn_status FN(deform_conv)(KernelCtx *c) {
    FN(DeformJob) job = {.offset_groups = attr_int(c->node, "offset_group")};
    T *y;
    TRY(conv_shape(c, IN_X, IN_W, &job.s));
    const ConvShape *s = &job.s;
    TRY(FN(dense)(c, IN_X, &job.x));
    TRY(FN(dense)(c, IN_W, &job.w));
    TRY(FN(dense)(c, IN_OFFSET, &job.offset));
    if (kernel_has_input(c, IN_BIAS)) TRY(FN(dense)(c, IN_BIAS, &job.bias));
    if (kernel_has_input(c, IN_MASK)) TRY(FN(dense)(c, IN_MASK, &job.mask));
    TRY(FN(result)(c, 0, &y));
    if (tensor_count(&c->out[0]) == 0) return TN_OK;
    int64_t rows = s->in_channels * s->taps;
    job.channels = max_i64(s->in_channels * s->group / job.offset_groups, 1);
    job.taps = kernel_scratch(c, T, (size_t)max_i64(rows * min_i64(BLOCK, s->out_plane), 1));
    if (!job.taps) return TN_OUT_OF_MEMORY;
    for (job.batch = 0; job.batch < s->batch; job.batch++)
        for (job.group = 0; job.group < s->group; job.group++)
            for (job.first = 0; job.first < s->out_plane; job.first += job.n) {
                job.n = min_i64(BLOCK, s->out_plane - job.first);
                double cost = (double)job.n * (20 + 4 * (double)s->in_channels);
                TRY(kernel_parallel(c, s->taps, cost, FN(read_taps), &job));
                TRY(FN(multiply_block)(c, &job, y));
            }
    FN_DONE(c, 0, y);
    return TN_OK;
}
