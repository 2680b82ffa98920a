/* SPDX-License-Identifier: Apache-2.0 */
/* DeformConv (ONNX 22): convolution whose taps are moved by given offsets and weighted by a mask. The specification's
   shape of a mask over n dimensions has a factor n too many beside what it says of two; there is one weight a tap. */
#include "ops/nn_int.h"

enum { IN_X, IN_W, IN_OFFSET, IN_BIAS, IN_MASK };

static tn_status check_groups(InferCtx *c) {
    int64_t group = attr_int(c->node, "group"), offsets = attr_int(c->node, "offset_group");
    Dim channels = in_dim(c, IN_X, 1), want = dim_mul(c->dims, in_dim(c, IN_W, 1), group), out = in_dim(c, IN_W, 0);
    if (group < 1 || offsets < 1) return fail(TN_INVALID_MODEL, "group and offset_group are 1 or more");
    if (dim_is_const(out) && out % group)
        return fail(TN_SHAPE, "%lld output channels cannot be divided into %lld groups", (long long)out,
                    (long long)group);
    if (dim_is_const(channels) && dim_is_const(want) && channels != want)
        return fail(TN_SHAPE, "weights want %lld input channels, but \"%.*s\" has %lld", (long long)want,
                    IN_NAME(c, IN_X), (long long)channels);
    if (dim_is_const(channels) && channels % offsets)
        return fail(TN_SHAPE, "%lld input channels cannot be divided into %lld offset groups", (long long)channels,
                    (long long)offsets);
    return TN_OK;
}

static tn_status check_field(InferCtx *c, int i, Dim channels, const Shape *y) {
    Dim same;
    if (!has_input(c, i)) return TN_OK;
    TRY(want_rank(c, i, y->rank));
    TRY(dims_must_match(in_dim(c, i, 0), y->dims[0], "batches", &same));
    TRY(dims_must_match(in_dim(c, i, 1), channels, "channels of offset or mask", &same));
    for (int d = 2; d < y->rank; d++)
        TRY(dims_must_match(in_dim(c, i, d), y->dims[d], "sizes of offset or mask and the result", &same));
    return TN_OK;
}

/* The rank that all operands but the bias have, or -1 where none is known. */
static tn_status common_rank(InferCtx *c, int *rank) {
    static const int operands[] = {IN_X, IN_W, IN_OFFSET, IN_MASK};
    *rank = -1;
    for (int k = 0; k < 4 && *rank < 0; k++)
        if (has_input(c, operands[k])) *rank = in_shape(c, operands[k])->rank;
    if (*rank >= 0 && *rank < 3) return fail(TN_SHAPE, "operands have %d dimensions where 3 or more are wanted", *rank);
    for (int k = 0; k < 4 && *rank >= 0; k++)
        if (has_input(c, operands[k])) TRY(want_rank(c, operands[k], *rank));
    return TN_OK;
}

static tn_status deform_conv_infer(InferCtx *c) {
    int rank;
    Window window;
    TRY(common_rank(c, &rank));
    TRY(check_groups(c));
    TRY(want_vector(c, IN_BIAS, in_dim(c, IN_W, 0), false));
    if (rank < 0) return TN_OK;
    TRY(window_read(c->node, rank - 2, &window));
    Shape y = {.rank = rank, .dims = {in_dim(c, IN_X, 0), in_dim(c, IN_W, 0)}};
    Dim taps = attr_int(c->node, "offset_group");
    for (int d = 0; d < rank - 2; d++) {
        Dim kernel = in_dim(c, IN_W, 2 + d);
        if (window.kernel[d]) TRY(dims_must_match(kernel, window.kernel[d], "kernel_shape and the weights", &kernel));
        TRY(window_out(c->dims, &window, d, in_dim(c, IN_X, 2 + d), kernel, &y.dims[2 + d]));
        taps = dim_mul(c->dims, taps, kernel);
    }
    TRY(check_field(c, IN_OFFSET, dim_mul(c->dims, taps, rank - 2), &y));
    TRY(check_field(c, IN_MASK, taps, &y));
    set_shape(c, 0, &y);
    return TN_OK;
}

typedef struct DeformJob {
    ConvShape s;
    int64_t offset_groups;
    const double *x, *w, *offset, *mask, *bias;
    double *y;
} DeformJob;

/* Linear between the elements around; those outside are zero. */
static double sample(const ConvShape *s, const double *plane, const double *at) {
    int rank = s->window.rank;
    int64_t low[TN_MAX_RANK];
    double sum = 0;
    for (int d = 0; d < rank; d++) {
        if (!(at[d] > -1 && at[d] < (double)s->in[d])) return 0;
        low[d] = (int64_t)floor(at[d]);
    }
    for (int corner = 0; corner < 1 << rank; corner++) {
        double weight = 1;
        int64_t place = 0;
        bool inside = true;
        for (int d = 0; d < rank; d++) {
            int64_t i = low[d] + (corner >> (rank - 1 - d) & 1);
            weight *= 1 - fabs(at[d] - (double)i);
            inside = inside && i >= 0 && i < s->in[d];
            place = place * s->in[d] + i;
        }
        if (inside) sum += weight * plane[place];
    }
    return sum;
}

/* Where tap number t of the window at `index` reads, before it is moved. */
static void tap_place(const Window *w, const int64_t *index, int64_t t, double *at) {
    for (int d = w->rank - 1; d >= 0; t /= w->kernel[d], d--)
        at[d] = (double)(index[d] * w->stride[d] - w->begin[d] + t % w->kernel[d] * w->dilation[d]);
}

/* One element of the result: number `place` of plane m. */
static double deform_at(const DeformJob *job, int64_t b, int64_t m, int64_t place, const int64_t *index) {
    const ConvShape *s = &job->s;
    int rank = s->window.rank;
    int64_t channels = s->in_channels * s->group, first = m / s->out_channels * s->in_channels;
    double sum = job->bias ? job->bias[m] : 0, at[TN_MAX_RANK];
    for (int64_t c = 0; c < s->in_channels; c++) {
        int64_t channel = first + c, og = channel / (channels / job->offset_groups);
        const double *plane = job->x + (b * channels + channel) * s->in_plane;
        for (int64_t t = 0; t < s->taps; t++) {
            int64_t field = (b * job->offset_groups + og) * s->taps + t;
            tap_place(&s->window, index, t, at);
            for (int d = 0; d < rank; d++) at[d] += job->offset[(field * rank + d) * s->out_plane + place];
            double v = sample(s, plane, at) * job->w[(m * s->in_channels + c) * s->taps + t];
            sum += job->mask ? v * job->mask[field * s->out_plane + place] : v;
        }
    }
    return sum;
}

static void deform_range(void *arg, int64_t begin, int64_t end) {
    const DeformJob *job = arg;
    const ConvShape *s = &job->s;
    int64_t all = s->group * s->out_channels, index[TN_MAX_RANK] = {0};
    for (int64_t i = begin; i < end; i++) {
        int64_t place = i % s->out_plane, plane = i / s->out_plane, rest = place;
        for (int d = s->window.rank - 1; d >= 0; rest /= s->out[d], d--) index[d] = rest % s->out[d];
        job->y[i] = deform_at(job, plane / all, plane % all, place, index);
    }
}

static tn_status deform_conv_reference(KernelCtx *c) {
    DeformJob job = {.offset_groups = attr_int(c->node, "offset_group")};
    TRY(conv_shape(c, IN_X, IN_W, &job.s));
    TRY(dense_f64(c, IN_X, &job.x));
    TRY(dense_f64(c, IN_W, &job.w));
    TRY(dense_f64(c, IN_OFFSET, &job.offset));
    if (kernel_has_input(c, IN_BIAS)) TRY(dense_f64(c, IN_BIAS, &job.bias));
    if (kernel_has_input(c, IN_MASK)) TRY(dense_f64(c, IN_MASK, &job.mask));
    TRY(result_f64(c, 0, &job.y));
    TRY(kernel_parallel(c, tensor_count(&c->out[0]), (double)(job.s.in_channels * job.s.taps) * 15, deform_range,
                        &job));
    result_f64_done(c, 0, job.y);
    return TN_OK;
}

const OpSchema op_DeformConv = {
    .name = "DeformConv",
    .summary = "Convolution with taps moved by offsets (ONNX 22)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"W", TS_FLOAT, 'T'}, {"offset", TS_FLOAT, 'T'},
                       {"B", TS_FLOAT, 'T', OPERAND_OPTIONAL}, {"mask", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"dilations", ATTR_INTS}, {"group", ATTR_INT, .i = 1}, {"kernel_shape", ATTR_INTS},
                        {"offset_group", ATTR_INT, .i = 1}, {"pads", ATTR_INTS}, {"strides", ATTR_INTS}),
    .infer = deform_conv_infer,
    .reference = deform_conv_reference,
    .flops = conv_flops,
};
