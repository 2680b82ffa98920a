/* SPDX-License-Identifier: Apache-2.0 */
/* Conv (ONNX 22) and FusedConv: any number of spatial dimensions, groups, dilations, strides, pads. */
#include "ops/lower_int.h"
#include "ops/nn_int.h"

/* ---- shapes -------------------------------------------------------------------------------------------------- */

static tn_status check_channels(InferCtx *c, int x, int w, int64_t group) {
    Dim channels = in_dim(c, x, 1), of_group = in_dim(c, w, 1), out = in_dim(c, w, 0);
    Dim want = dim_mul(c->dims, of_group, group);
    if (group < 1) return fail(TN_INVALID_MODEL, "group is %lld; 1 or more is wanted", (long long)group);
    if (dim_is_const(out) && out % group)
        return fail(TN_SHAPE, "%lld output channels cannot be divided into %lld groups", (long long)out,
                    (long long)group);
    if (dim_is_const(channels) && dim_is_const(want) && channels != want)
        return fail(TN_SHAPE, "weights want %lld input channels, but \"%.*s\" has %lld", (long long)want, IN_NAME(c, x),
                    (long long)channels);
    return TN_OK;
}

tn_status conv_infer_operands(InferCtx *c, int x, int w, int b) {
    int rank = rank_known(c, x) ? in_shape(c, x)->rank : in_shape(c, w)->rank;
    if (rank < 0) {
        set_unknown_rank(c, 0, -1);
        return TN_OK;
    }
    if (rank < 3) return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 3 or more are wanted", IN_NAME(c, x), rank);
    TRY(want_rank(c, w, rank));
    TRY(check_channels(c, x, w, attr_int(c->node, "group")));
    if (b >= 0) TRY(want_vector(c, b, in_dim(c, w, 0), false));
    Window window;
    TRY(window_read(c->node, rank - 2, &window));
    Shape y = {.rank = rank, .dims = {in_dim(c, x, 0), in_dim(c, w, 0)}};
    for (int d = 0; d < rank - 2; d++) {
        Dim kernel = in_dim(c, w, 2 + d);
        if (window.kernel[d]) TRY(dims_must_match(kernel, window.kernel[d], "kernel_shape and the weights", &kernel));
        if (kernel == 0) return fail(TN_SHAPE, "the weights have no elements in spatial dimension %d", d);
        TRY(window_out(c->dims, &window, d, in_dim(c, x, 2 + d), kernel, &y.dims[2 + d]));
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status conv_infer(InferCtx *c) { return conv_infer_operands(c, 0, 1, 2); }

static tn_status fused_conv_infer(InferCtx *c) {
    TRY(conv_infer_operands(c, 0, 1, 2));
    const Shape *y = &c->out[0].shape;
    if (!has_input(c, 3) || !rank_known(c, 3) || y->rank < 0) return TN_OK;
    TRY(want_rank(c, 3, y->rank));
    for (int d = 0; d < y->rank; d++) {
        Dim same;
        TRY(dims_must_match(y->dims[d], in_dim(c, 3, d), "the result and Z", &same));
    }
    return TN_OK;
}

double conv_flops(const Node *node, const Shape *in, const Shape *out) {
    int w = node->n_operands > 5 ? 3 : 1; /* QLinearConv has its weights behind the data's scale and zero point */
    double n = 2;
    for (int d = 0; d < out->rank; d++) n *= (double)out->dims[d];
    for (int d = 1; d < in[w].rank; d++) n *= (double)in[w].dims[d];
    return n;
}

tn_status conv_shape(const KernelCtx *c, int x, int w, ConvShape *s) {
    const Tensor *data = c->in[x], *weights = c->in[w], *y = &c->out[0];
    *s = (ConvShape){.batch = data->dims[0], .group = attr_int(c->node, "group"), .in_channels = weights->dims[1]};
    TRY(window_for_kernel(c, weights, data, y, &s->window));
    s->out_channels = weights->dims[0] / s->group;
    s->taps = s->in_plane = s->out_plane = 1;
    for (int d = 0; d < s->window.rank; d++) {
        s->taps *= weights->dims[2 + d];
        s->in_plane *= s->in[d] = data->dims[2 + d];
        s->out_plane *= s->out[d] = y->dims[2 + d];
    }
    return TN_OK;
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

#define WINDOW_COLUMNS 8

typedef struct WindowSource {
    const ConvShape *shape;
    const void *x;
} WindowSource;

static void split_index(int rank, const int64_t *dims, int64_t flat, int64_t *index) {
    for (int d = rank - 1; d >= 0; d--) {
        index[d] = flat % dims[d];
        flat /= dims[d];
    }
}

/* Where in the input the window of a result position begins; maybe in the padding. */
static void window_start(const ConvShape *s, int64_t position, int64_t *start) {
    split_index(s->window.rank, s->out, position, start);
    for (int d = 0; d < s->window.rank; d++) start[d] = start[d] * s->window.stride[d] - s->window.begin[d];
}

/* The element under a tap of the window; -1 in the padding. */
static int64_t tap_offset(const ConvShape *s, const int64_t *start, const int64_t *tap) {
    int64_t offset = 0;
    for (int d = 0; d < s->window.rank; d++) {
        int64_t i = start[d] + tap[d] * s->window.dilation[d];
        if (i < 0 || i >= s->in[d]) return -1;
        offset = offset * s->in[d] + i;
    }
    return offset;
}

/* The columns of the product are then the input itself. */
static bool conv_is_pointwise(const ConvShape *s) {
    if (s->taps != 1) return false;
    for (int d = 0; d < s->window.rank; d++)
        if (s->window.stride[d] != 1 || s->window.begin[d] || s->window.end[d]) return false;
    return true;
}

/* Each (image, group) is one product: weights [out, in * taps] times columns [in * taps, positions]. */
static tn_status conv_product(KernelCtx *c, const ConvShape *s, MatrixProduct *p) {
    int64_t k = s->in_channels * s->taps;
    *p = (MatrixProduct){.m = s->out_channels,
                         .n = s->out_plane,
                         .k = k,
                         .a_row = k,
                         .a_col = 1,
                         .b_row = s->in_plane,
                         .b_col = 1,
                         .y_row = s->out_plane,
                         .batch = s->batch * s->group,
                         .y_step = s->out_channels * s->out_plane};
    int64_t *offsets = kernel_scratch(c, int64_t, (size_t)(2 * p->batch));
    if (!offsets) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < p->batch; i++) {
        offsets[i] = i % s->group * s->out_channels * k;
        offsets[p->batch + i] = i * s->in_channels * s->in_plane;
    }
    p->a_offset = offsets, p->b_offset = offsets + p->batch;
    return TN_OK;
}

/* Conv has no such attribute. */
tn_status conv_activation(const Node *node, Activation *act) {
    *act = (Activation){.kind = ACT_NONE};
    if (!op_attr_spec(node->op, STR("activation"))) return TN_OK;
    TRY(activation_named(attr_string(node, "activation"), act));
    const Attr *params = attr_get(node, "activation_params");
    if (params && params->kind == ATTR_FLOATS) {
        if (params->n > 0) act->alpha = (double)params->floats[0];
        if (params->n > 1) act->beta = (double)params->floats[1];
    }
    return TN_OK;
}

#define BODY "ops/conv_body.h"
#include "ops/each_float_int.h"

/* Sums of so few products of 9-bit numbers are exact in float32. */
enum { MOST_EXACT = (1 << 24) / (255 * 255) };

/* Depthwise ones are no matrix products to speak of. */
static tn_status convolve_few(KernelCtx *c, const ConvShape *s, const float *x, const float *w, int32_t *y) {
    int64_t n = s->batch * s->group * s->out_channels * s->out_plane;
    float *sums = kernel_scratch(c, float, (size_t)n);
    if (!sums) return TN_OUT_OF_MEMORY;
    TRY(convolve_directly_f32(c, s, x, w, sums));
    for (int64_t i = 0; i < n; i++) y[i] = (int32_t)sums[i];
    return TN_OK;
}

tn_status convolve_i32(KernelCtx *c, const ConvShape *s, const float *x, const float *w, int32_t *y) {
    if (s->out_plane == 0 || s->batch == 0) return TN_OK;
    if (s->out_channels < 4 && s->in_plane && s->in_channels * s->taps <= MOST_EXACT)
        return convolve_few(c, s, x, w, y);
    WindowSource source = {.shape = s, .x = x};
    MatrixProduct product;
    TRY(conv_product(c, s, &product));
    product.pack = conv_is_pointwise(s) ? NULL : pack_windows_f32;
    product.pack_user = &source;
    return matrix_product_i32(c, &product, w, x, y);
}

tn_status conv_reference(KernelCtx *c) { return RUN_FLOAT(c, conv); }

const OpSchema op_Conv = {
    .name = "Conv",
    .summary = "Convolution (ONNX 22)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"W", TS_FLOAT, 'T'}, {"B", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES(CONV_ATTRS),
    .infer = conv_infer,
    .reference = conv_reference,
    .flops = conv_flops,
    .lower = lower_conv,
    .lowering = "windows as a strided reading, MatMul",
};

const OpSchema op_ms_FusedConv = {
    .domain = "com.microsoft",
    .name = "FusedConv",
    .kind = OP_COMPOSITE,
    .summary = "Convolution plus an optional summand, then an activation (ONNX Runtime 1)",
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"W", TS_FLOAT, 'T'}, {"B", TS_FLOAT, 'T', OPERAND_OPTIONAL},
                       {"Z", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"activation", ATTR_STRING}, {"activation_params", ATTR_FLOATS}, CONV_ATTRS),
    .infer = fused_conv_infer,
    .reference = conv_reference,
    .flops = conv_flops,
    .lower = lower_fused_conv,
    .lowering = "Conv, Add, the activation's nodes",
};
