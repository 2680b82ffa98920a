/* SPDX-License-Identifier: Apache-2.0 */
/* DynamicQuantizeLinear (ONNX 11): to u8 with scale and zero point from the data's range, zero included. */
#include "ops/lower_int.h"
#include "ops/quant_int.h"

typedef struct DynamicQuantize {
    const float *x;
    uint8_t *y;
    float scale;
    int32_t zero;
} DynamicQuantize;

static void quantize_range(void *arg, int64_t begin, int64_t end) {
    const DynamicQuantize *q = arg;
    const float *x = q->x;
    uint8_t *y = q->y;
    for (int64_t i = begin; i < end; i++) y[i] = (uint8_t)quantize_f32(x[i] / q->scale, 0, 255, q->zero);
}

/* NaN does not count. */
static void find_range(const float *x, int64_t n, float *low, float *high) {
    enum { LANES = 16 };
    float lows[LANES] = {0}, highs[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            lows[k] = x[i + k] < lows[k] ? x[i + k] : lows[k];
            highs[k] = x[i + k] > highs[k] ? x[i + k] : highs[k];
        }
    for (; i < n; i++) {
        lows[0] = x[i] < lows[0] ? x[i] : lows[0];
        highs[0] = x[i] > highs[0] ? x[i] : highs[0];
    }
    *low = lows[0], *high = highs[0];
    for (int k = 1; k < LANES; k++) {
        *low = lows[k] < *low ? lows[k] : *low;
        *high = highs[k] > *high ? highs[k] : *high;
    }
}

static tn_status dynamic_quantize_reference(KernelCtx *c) {
    int64_t n = tensor_count(c->in[0]), zero;
    float low, high;
    DynamicQuantize q;
    TRY(dense_f32(c, 0, &q.x));
    find_range(q.x, n, &low, &high);
    q.scale = high == low ? 1.0f : (high - low) / 255.0f; /* all zeros: ONNX leaves it open, ORT says 1 */
    q.zero = quantize_f32(-low / q.scale, 0, 255, 0);
    zero = q.zero;
    if (c->out[1].data) store_f32(TN_F32, c->out[1].data, c->out[1].offset, 1, &q.scale, 1);
    if (c->out[2].data) store_i64(TN_U8, c->out[2].data, c->out[2].offset, 1, &zero, 1);
    if (n == 0) return TN_OK;
    q.y = tensor_bytes(&c->out[0]);
    return kernel_parallel(c, n, 1.5, quantize_range, &q);
}

static tn_status dynamic_quantize_infer(InferCtx *c) {
    Shape scalar = {.rank = 0};
    set_type(c, 0, TN_U8, in_shape(c, 0));
    set_type(c, 1, TN_F32, &scalar);
    set_type(c, 2, TN_U8, &scalar);
    return TN_OK;
}

const OpSchema op_DynamicQuantizeLinear = {
    .name = "DynamicQuantizeLinear",
    .summary = "DynamicQuantizeLinear (ONNX 11): to u8 with a scale and zero point from the data's range",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"x", TS(TN_F32), 0, 0}),
    .outputs = OPERANDS({"y", TS(TN_U8), 0, 0}, {"y_scale", TS(TN_F32), 0, 0}, {"y_zero_point", TS(TN_U8), 0, 0}),
    .infer = dynamic_quantize_infer,
    .reference = dynamic_quantize_reference,
    .lower = lower_dynamic_quantize,
    .lowering = "ReduceMin and ReduceMax, a quotient, rounded and cut off",
};
