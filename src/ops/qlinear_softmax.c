/* SPDX-License-Identifier: Apache-2.0 */
/* QLinearSoftmax (ONNX Runtime 1): Softmax of an 8-bit tensor. Below opset 13 all dimensions from axis on are one. */
#include "ops/lower_int.h"
#include "ops/qlinear_int.h"

typedef struct QSoftmax {
    const int64_t *x;
    const Tensor *out;
    int64_t size, inner;
    double powers[256]; /* e^(-k * scale) */
    Scale y;
} QSoftmax;

static void softmax_lines(void *arg, int64_t begin, int64_t end) {
    const QSoftmax *s = arg;
    for (int64_t line = begin; line < end; line++) {
        int64_t at = line / s->inner * s->size * s->inner + line % s->inner, largest = INT64_MIN;
        double sum = 0;
        for (int64_t k = 0; k < s->size; k++) largest = max_i64(largest, s->x[at + k * s->inner]);
        for (int64_t k = 0; k < s->size; k++) sum += s->powers[largest - s->x[at + k * s->inner]];
        for (int64_t k = 0; k < s->size; k++) {
            double p = s->powers[largest - s->x[at + k * s->inner]] / sum;
            ((uint8_t *)s->out->data)[s->out->offset + at + k * s->inner] = code_of(&s->y, (float)p);
        }
    }
}

static tn_status softmax_reference(KernelCtx *c) {
    const Tensor *in = c->in[0];
    QSoftmax s = {.out = &c->out[0], .size = 1, .inner = 1};
    Scale x;
    int axis = 0;
    int64_t count = tensor_count(in);
    if (count == 0) return TN_OK;
    if (in->rank > 0) TRY(normal_axis(attr_int(c->node, "axis"), in->rank, "axis", &axis));
    TRY(read_scale(c, 1, in->dtype, &x));
    TRY(read_scale(c, 3, in->dtype, &s.y));
    TRY(dense_i64(c, 0, &s.x));
    for (int k = 0; k < 256; k++) s.powers[k] = exp(-(double)k * x.scale);
    bool flat = attr_int(c->node, "opset") < 13;
    for (int k = axis; k < in->rank; k++) {
        if (k == axis || flat) s.size *= in->dims[k];
        else s.inner *= in->dims[k];
    }
    return kernel_parallel(c, count / s.size, (double)s.size * 5, softmax_lines, &s);
}

static tn_status softmax_infer(InferCtx *c) {
    int axis;
    set_like(c, 0, 0);
    return in_shape(c, 0)->rank > 0 ? normal_axis(attr_int(c->node, "axis"), in_shape(c, 0)->rank, "axis", &axis)
                                    : TN_OK;
}

const OpSchema op_ms_QLinearSoftmax = {
    .domain = "com.microsoft",
    .name = "QLinearSoftmax",
    .summary = "QLinearSoftmax (ONNX Runtime 1): Softmax of an 8-bit tensor",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"X", BYTES, 'Q', 0}, {"X_scale", TS(TN_F32), 0, 0},
                       {"X_zero_point", BYTES, 'Q', OPERAND_OPTIONAL}, {"Y_scale", TS(TN_F32), 0, 0},
                       {"Y_zero_point", BYTES, 'Q', 0}),
    .outputs = OPERANDS({"Y", BYTES, 'Q', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, -1, 0, NULL}, {"opset", ATTR_INT, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = softmax_infer,
    .reference = softmax_reference,
    .lower = lower_qlinear_softmax,
    .lowering = "Softmax of f32, rounded",
};
