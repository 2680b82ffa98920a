/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Runtime's QLinearAveragePool and QLinearGlobalAveragePool: means of quantised data. */
#include "ops/lower_int.h"
#include "ops/nn_int.h"

enum { IN_DATA, IN_SCALE, IN_ZERO, OUT_SCALE, OUT_ZERO };

/* With channels_last the spatial dimensions stand before the channels. */
static bool channels_last(const Node *node) { return attr_int(node, "channels_last") != 0; }

static tn_status check_scalars(InferCtx *c) {
    for (int i = 1; i < 5; i++) TRY(want_vector(c, i, 1, true));
    return TN_OK;
}

static tn_status average_infer(InferCtx *c) {
    TRY(check_scalars(c));
    return channels_last(c->node) ? infer_channels_last(c, 1, pool_infer) : pool_infer(c);
}

static tn_status global_infer(InferCtx *c) {
    TRY(check_scalars(c));
    Shape y = *in_shape(c, 0);
    if (y.rank >= 0 && y.rank < 3)
        return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 3 or more are wanted", IN_NAME(c, 0), y.rank);
    int first = channels_last(c->node) ? 1 : 2;
    for (int d = 0; d < y.rank - 2; d++) y.dims[first + d] = 1;
    set_shape(c, 0, &y);
    return TN_OK;
}

typedef struct Scales {
    float in, out;
    int64_t zero; /* of the result */
} Scales;

static tn_status read_scales(KernelCtx *c, Scales *s) {
    TRY(scalar_f32(c, IN_SCALE, &s->in));
    TRY(scalar_f32(c, OUT_SCALE, &s->out));
    return scalar_zero(c, OUT_ZERO, &s->zero);
}

/* Averages the real numbers and quantises the mean. */
static tn_status average_planes(KernelCtx *c) {
    Pooling pool;
    Scales s;
    float *x;
    TRY(read_scales(c, &s));
    TRY(pool_read(c, POOL_AVERAGE, c->in[IN_DATA], &c->out[0], &pool));
    TRY(dense_centred(c, IN_DATA, IN_ZERO, 0, &x));
    int64_t n_in = tensor_count(c->in[IN_DATA]), n = tensor_count(&c->out[0]);
    for (int64_t i = 0; i < n_in; i++) x[i] *= s.in;
    float *y = kernel_scratch(c, float, (size_t)n);
    if (!y) return TN_OUT_OF_MEMORY;
    TRY(pool_planes_f32(c, &pool, x, y));
    for (int64_t i = 0; i < n; i++) y[i] /= s.out;
    quantise_row(c->out[0].dtype, tensor_bytes(&c->out[0]), 0, y, s.zero, n);
    return TN_OK;
}

static tn_status average_reference(KernelCtx *c) {
    return channels_last(c->node) ? run_channels_last(c, 1, average_planes) : average_planes(c);
}

/* One exact sum a channel, requantised by one factor. */
static tn_status global_reference(KernelCtx *c) {
    const Tensor *t = c->in[IN_DATA];
    Scales s;
    float *x;
    TRY(read_scales(c, &s));
    TRY(dense_centred(c, IN_DATA, IN_ZERO, 0, &x));
    bool last = channels_last(c->node);
    int64_t channels = t->dims[last ? t->rank - 1 : 1], plane = 1;
    for (int d = 0; d < t->rank - 2; d++) plane *= t->dims[(last ? 1 : 2) + d];
    float scale = s.in / (s.out * (float)plane);
    for (int64_t row = 0; row < t->dims[0] * channels; row++) {
        int64_t at = last ? row / channels * channels * plane + row % channels : row * plane;
        uint32_t sum = 0;
        for (int64_t i = 0; i < plane; i++) sum += (uint32_t)(int32_t)x[at + i * (last ? channels : 1)];
        int32_t total = (int32_t)sum;
        requantise(c->out[0].dtype, tensor_bytes(&c->out[0]), row, &total, scale, s.zero, 1);
    }
    return TN_OK;
}

#define BYTE (TS(TN_I8) | TS(TN_U8))
#define QUANTISED_POOL                                                                                           \
    .domain = "com.microsoft", .kind = OP_COMPOSITE,                                                             \
    .inputs = OPERANDS({"X", BYTE, 'T'}, {"x_scale", TS(TN_F32)}, {"x_zero_point", BYTE, 'T', OPERAND_OPTIONAL}, \
                       {"y_scale", TS(TN_F32)}, {"y_zero_point", BYTE, 'T', OPERAND_OPTIONAL}),                  \
    .outputs = OPERANDS({"Y", BYTE, 'T'})

const OpSchema op_ms_QLinearAveragePool = {
    QUANTISED_POOL,
    .name = "QLinearAveragePool",
    .summary = "Mean of each window of quantised data (ONNX Runtime 1)",
    .attrs = ATTRIBUTES({"auto_pad", ATTR_STRING, .s = "NOTSET"}, {"ceil_mode", ATTR_INT}, {"channels_last", ATTR_INT},
                        {"count_include_pad", ATTR_INT}, {"kernel_shape", ATTR_INTS, ATTR_REQUIRED},
                        {"pads", ATTR_INTS}, {"strides", ATTR_INTS}),
    .infer = average_infer,
    .reference = average_reference,
    .lower = lower_qlinear_average_pool,
    .lowering = "AveragePool of f32, rounded",
};

const OpSchema op_ms_QLinearGlobalAveragePool = {
    QUANTISED_POOL,
    .name = "QLinearGlobalAveragePool",
    .summary = "Mean of each channel of quantised data (ONNX Runtime 1)",
    .attrs = ATTRIBUTES({"channels_last", ATTR_INT}),
    .infer = global_infer,
    .reference = global_reference,
    .lower = lower_qlinear_global_average_pool,
    .lowering = "ReduceSum of integers, scaled and rounded",
};
