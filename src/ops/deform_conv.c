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

/* A tap's place in the data, linear between the elements around it: up to 2^n of those, which lie inside. */
enum { MOST_CORNERS = 1 << (TN_MAX_RANK - 2), BLOCK = 512 /* places of the result at a time */ };

/* Coordinates of taps before they are moved. */
static void tap_place(const Window *w, const int64_t *index, int64_t t, double *at) {
    for (int d = w->rank - 1; d >= 0; t /= w->kernel[d], d--)
        at[d] = (double)(index[d] * w->stride[d] - w->begin[d] + t % w->kernel[d] * w->dilation[d]);
}

/* The elements around a place and their weights; how many: none where the place is outside. */
static int corners_of(const ConvShape *s, const double *at, int64_t *element, double *weight) {
    int rank = s->window.rank, n = 0;
    int64_t low[TN_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        if (!(at[d] > -1 && at[d] < (double)s->in[d])) return 0;
        low[d] = (int64_t)floor(at[d]);
    }
    for (int corner = 0; corner < 1 << rank; corner++) {
        double w = 1;
        int64_t place = 0;
        bool inside = true;
        for (int d = 0; d < rank; d++) {
            int64_t i = low[d] + (corner >> (rank - 1 - d) & 1);
            w *= 1 - fabs(at[d] - (double)i);
            inside = inside && i >= 0 && i < s->in[d];
            place = place * s->in[d] + i;
        }
        if (!inside) continue;
        element[n] = place;
        weight[n++] = w;
    }
    return n;
}

#define BODY "ops/deform_conv_body.h"
#include "ops/each_float_int.h"

static tn_status deform_conv_reference(KernelCtx *c) { return RUN_FLOAT(c, deform_conv); }

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
