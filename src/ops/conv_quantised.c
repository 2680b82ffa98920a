/* SPDX-License-Identifier: Apache-2.0 */
/* ConvInteger and QLinearConv (ONNX 10): convolution of 8-bit integers, exact in 32 bits; the second brings the sums
   back to 8 bits. */
#include "ops/lower_int.h"
#include "ops/nn_int.h"

static tn_status conv_integer_infer(InferCtx *c) {
    TRY(want_vector(c, 2, 1, true));
    TRY(want_vector(c, 3, in_dim(c, 1, 0), true));
    TRY(conv_infer_operands(c, 0, 1, -1));
    set_dtype(c, 0, TN_I32);
    return TN_OK;
}

static tn_status qlinear_conv_infer(InferCtx *c) {
    static const int scalars[] = {1, 2, 6, 7};
    for (int i = 0; i < 4; i++) TRY(want_vector(c, scalars[i], 1, true));
    TRY(want_vector(c, 4, in_dim(c, 3, 0), true));
    TRY(want_vector(c, 5, in_dim(c, 3, 0), true));
    return conv_infer_operands(c, 0, 3, 8);
}

/* The zero point of the data also stands for the padding, so that pads are zero once it is taken off. */
static tn_status conv_integer_reference(KernelCtx *c) {
    ConvShape s;
    float *x, *w;
    TRY(conv_shape(c, 0, 1, &s));
    TRY(dense_centred(c, 0, 2, 1, &x));
    TRY(dense_centred(c, 1, 3, 0, &w));
    return convolve_i32(c, &s, x, w, tensor_bytes(&c->out[0]));
}

static tn_status qlinear_conv_reference(KernelCtx *c) {
    ConvShape s;
    float *x, *w, x_scale, y_scale;
    const float *w_scale;
    const int64_t *bias = NULL;
    int64_t zero;
    TRY(conv_shape(c, 0, 3, &s));
    int64_t channels = s.group * s.out_channels, planes = s.batch * channels;
    TRY(dense_centred(c, 0, 2, 1, &x));
    TRY(dense_centred(c, 3, 5, 0, &w));
    TRY(scalar_f32(c, 1, &x_scale));
    TRY(vector_f32(c, 4, channels, &w_scale));
    TRY(scalar_f32(c, 6, &y_scale));
    TRY(scalar_zero(c, 7, &zero));
    if (kernel_has_input(c, 8)) TRY(dense_i64(c, 8, &bias));
    int32_t *sums = kernel_scratch(c, int32_t, (size_t)(planes * s.out_plane));
    if (!sums) return TN_OUT_OF_MEMORY;
    TRY(convolve_i32(c, &s, x, w, sums));
    for (int64_t p = 0; p < planes; p++) {
        int32_t *row = sums + p * s.out_plane;
        uint32_t b = bias ? (uint32_t)bias[p % channels] : 0;
        for (int64_t i = 0; i < s.out_plane; i++) row[i] = (int32_t)((uint32_t)row[i] + b);
        requantise(c->out[0].dtype, tensor_bytes(&c->out[0]), p * s.out_plane, row,
                   x_scale * w_scale[p % channels] / y_scale, zero, s.out_plane);
    }
    return TN_OK;
}

#define BYTE (TS(TN_I8) | TS(TN_U8))
#define CONV_ATTRS                                                                                   \
    {"auto_pad", ATTR_STRING, .s = "NOTSET"}, {"dilations", ATTR_INTS}, {"group", ATTR_INT, .i = 1}, \
        {"kernel_shape", ATTR_INTS}, {"pads", ATTR_INTS}, {                                          \
        "strides", ATTR_INTS                                                                         \
    }

const OpSchema op_ConvInteger = {
    .name = "ConvInteger",
    .summary = "Convolution of 8-bit integers (ONNX 10)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"x", BYTE, 'T'}, {"w", BYTE, 'U'}, {"x_zero_point", BYTE, 'T', OPERAND_OPTIONAL},
                       {"w_zero_point", BYTE, 'U', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"y", TS(TN_I32)}),
    .attrs = ATTRIBUTES(CONV_ATTRS),
    .infer = conv_integer_infer,
    .reference = conv_integer_reference,
    .flops = conv_flops,
    .lower = lower_conv_integer,
    .lowering = "Conv of f64, which is exact",
};

const OpSchema op_QLinearConv = {
    .name = "QLinearConv",
    .summary = "Convolution of quantised data (ONNX 10)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"x", BYTE, 'T'}, {"x_scale", TS(TN_F32)}, {"x_zero_point", BYTE, 'T'}, {"w", BYTE, 'U'},
                       {"w_scale", TS(TN_F32)}, {"w_zero_point", BYTE, 'U'}, {"y_scale", TS(TN_F32)},
                       {"y_zero_point", BYTE, 'V'}, {"B", TS(TN_I32), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"y", BYTE, 'V'}),
    .attrs = ATTRIBUTES(CONV_ATTRS),
    .infer = qlinear_conv_infer,
    .reference = qlinear_conv_reference,
    .flops = conv_flops,
    .lower = lower_qlinear_conv,
    .lowering = "Conv of f64, scaled and rounded",
};
