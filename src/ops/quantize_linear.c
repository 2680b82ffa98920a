/* SPDX-License-Identifier: Apache-2.0 */
/* QuantizeLinear (ONNX 28, ONNX Runtime 1): round(x / scale) + zero point, within the range of the result's type. */
#include "ops/lower_int.h"
#include "ops/quant_int.h"

#define INT_TARGETS (TS(TN_I8) | TS(TN_U8) | TS(TN_I16) | TS(TN_U16) | TS(TN_I4) | TS(TN_U4) | TS(TN_I2) | TS(TN_U2))
#define FLOAT_TARGETS ((TS_F8 & ~TS(TN_F8E8M0)) | TS(TN_F4E2M1))
#define TARGETS (INT_TARGETS | FLOAT_TARGETS)
#define MS_TARGETS (TS(TN_I8) | TS(TN_U8) | TS(TN_I16) | TS(TN_U16) | TS(TN_I4) | TS(TN_U4))

static tn_status infer(InferCtx *c, tn_dtype asked, bool blocked) {
    tn_dtype to = has_input(c, 2) ? in_dtype(c, 2) : asked ? asked : TN_U8;
    if (to && !(TARGETS & TS(to))) return fail(TN_UNSUPPORTED, "cannot quantise to %s", dtype_name(to));
    if (asked && to && asked != to)
        return fail(TN_SHAPE, "output_dtype is %s but the zero point's type is %s", dtype_name(asked), dtype_name(to));
    set_like(c, 0, 0);
    set_dtype(c, 0, to);
    return quant_check(c, blocked);
}

static tn_status quantize_linear_infer(InferCtx *c) {
    int64_t asked = attr_int(c->node, "output_dtype"), precision = attr_int(c->node, "precision");
    if (asked < 0 || asked >= TN_DTYPE_END || precision < 0 || precision >= TN_DTYPE_END ||
        (precision && !(TS_FLOAT & TS(precision))))
        return fail(TN_INVALID_MODEL, "output_dtype or precision is no element type that fits");
    return infer(c, (tn_dtype)asked, true);
}

static tn_status ms_quantize_linear_infer(InferCtx *c) { return infer(c, TN_UNDEFINED, false); }

/* ---- kernel -------------------------------------------------------------------------------------------------- */

typedef struct Quantize {
    QuantMap map;
    Stream x; /* as double where a float cannot hold the quotient, else as float */
    const double *scales;
    const float *scales_f32;
    const int64_t *zeros; /* NULL: 0 */
    const double *float_zeros;
    const Tensor *out;
    tn_dtype precision; /* of the quotient */
    double low, high;
    bool saturate;
} Quantize;

/* Numbers as a half precision has them. */
static void narrow(tn_dtype precision, const float *x, float *y, int64_t n) {
    uint16_t halves[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t length = min_i64(CHUNK, n - at);
        store_f32(precision, halves, 0, 1, x + at, length);
        load_f32(y + at, precision, halves, 0, 1, length);
    }
}

static void quotients_f32(const Quantize *q, const float *x, int64_t scale, int64_t step, float *y, int64_t n) {
    const float *s = q->scales_f32 + scale;
    bool half = q->precision != TN_F32;
    if (half) narrow(q->precision, x, y, n);
    if (half) x = y;
    if (step == 0) EACH(i, n) y[i] = x[i] / s[0];
    else EACH(i, n) y[i] = x[i] / s[i];
    if (half) narrow(q->precision, y, y, n);
}

static void to_ints_f32(const Quantize *q, const float *x, int64_t scale, int64_t step, int64_t *y, int64_t n) {
    float low = (float)q->low, high = (float)q->high;
    if (step == 0 || !q->zeros) {
        int32_t zero = q->zeros ? (int32_t)q->zeros[scale] : 0;
        EACH(i, n) y[i] = quantize_f32(x[i], low, high, zero);
    } else {
        for (int64_t i = 0; i < n; i++) y[i] = quantize_f32(x[i], low, high, (int32_t)q->zeros[scale + i]);
    }
}

/* Straight to the most common types. */
static void to_bytes(const Quantize *q, const float *x, int32_t zero, uint8_t *y, int64_t n) {
    const float low = (float)q->low, high = (float)q->high;
    EACH(i, n) y[i] = (uint8_t)quantize_f32(x[i], low, high, zero);
}

static void to_ints_f64(const Quantize *q, const double *x, int64_t scale, int64_t step, int64_t *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double zero = q->zeros ? (double)q->zeros[scale + i * step] : 0;
        double v = rint(x[i] / q->scales[scale + i * step]) + zero;
        v = v > q->low ? v : q->low;
        y[i] = (int64_t)(v < q->high ? v : q->high);
    }
}

static void to_floats(const Quantize *q, const float *x, int64_t scale, int64_t step, int64_t *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float zero = q->float_zeros ? (float)q->float_zeros[scale + i * step] : 0;
        y[i] = small_float_encode(q->out->dtype, x[i] + zero, q->saturate);
    }
}

/* One piece of a run: never longer than a chunk. */
static void quantize_piece(const Quantize *q, int64_t at, int64_t scale, int64_t step, int64_t n) {
    double buffer[CHUNK];
    float quotients[CHUNK];
    int64_t y[CHUNK];
    const void *x = stream_read(&q->x, at, n, buffer);
    tn_dtype as = q->out->dtype;
    if (q->x.class == CLASS_F64) {
        to_ints_f64(q, x, scale, step, y, n);
    } else {
        quotients_f32(q, x, scale, step, quotients, n);
        if ((as == TN_U8 || as == TN_I8) && (step == 0 || !q->zeros)) {
            int32_t zero = q->zeros ? (int32_t)q->zeros[scale] : 0;
            to_bytes(q, quotients, zero, (uint8_t *)q->out->data + q->out->offset + at, n);
            return;
        }
        bool ints = INT_TARGETS & TS(as);
        (ints ? to_ints_f32 : to_floats)(q, quotients, scale, step, y, n);
        if (!ints) as = dtype_bits(as) == 8 ? TN_U8 : TN_U4;
    }
    store_i64(as, q->out->data, q->out->offset + at, 1, y, n);
}

static void quantize_runs(void *arg, int64_t begin, int64_t end) {
    const Quantize *q = arg;
    for (int64_t run = begin; run < end; run++) {
        QuantRun r = quant_run(&q->map, run);
        for (int64_t at = 0; at < r.n; at += CHUNK)
            quantize_piece(q, r.at + at, r.scale + at * r.scale_step, r.scale_step, min_i64(CHUNK, r.n - at));
    }
}

/* Sub-byte results of runs that end within a byte must not be written by two threads. */
static tn_status run_quantize(KernelCtx *c, Quantize *q) {
    if (dtype_size(q->out->dtype) > 0 || q->map.shared)
        return kernel_parallel(c, q->map.runs, (double)q->map.length * 2 + 10, quantize_runs, q);
    quantize_runs(q, 0, q->map.runs);
    return kernel_poll(c);
}

static tn_status read_scales(KernelCtx *c, Quantize *q) {
    int64_t n = tensor_count(c->in[1]);
    TRY(dense_f64(c, 1, &q->scales));
    TRY(dense_f32(c, 1, &q->scales_f32));
    if (q->precision == TN_F32 || c->in[1]->dtype == q->precision) return TN_OK;
    float *narrowed = kernel_scratch(c, float, n ? (size_t)n : 1);
    if (!narrowed) return TN_OUT_OF_MEMORY;
    narrow(q->precision, q->scales_f32, narrowed, n);
    q->scales_f32 = narrowed;
    return TN_OK;
}

static tn_status quantize(KernelCtx *c, bool blocked, tn_dtype precision, bool saturate) {
    const Tensor *x = c->in[0], *scale = c->in[1];
    Quantize q = {.out = &c->out[0], .saturate = saturate, .precision = precision};
    TRY(quant_map(c->node, blocked, x, scale, &q.map));
    if (kernel_has_input(c, 2) && tensor_count(c->in[2]) != tensor_count(scale))
        return fail(TN_SHAPE, "scale and zero point must have the same shape");
    bool ints = INT_TARGETS & TS(q.out->dtype);
    if (kernel_has_input(c, 2)) TRY(ints ? dense_i64(c, 2, &q.zeros) : dense_f64(c, 2, &q.float_zeros));
    bool wide = ints && (precision == TN_F64 || (precision == TN_UNDEFINED && x->dtype == TN_I32));
    if (!precision || precision == TN_F64) q.precision = TN_F32;
    TRY(read_scales(c, &q));
    TRY(stream_init(&q.x, x, q.out, wide ? CLASS_F64 : CLASS_F32));
    if (ints) {
        int64_t low, high;
        int_range(q.out->dtype, &low, &high);
        q.low = (double)low;
        q.high = (double)high;
    }
    return run_quantize(c, &q);
}

/* Without the attribute "the type of y_scale determines the precision of the division": halves, else float. */
static tn_status quantize_linear_reference(KernelCtx *c) {
    tn_dtype precision = (tn_dtype)attr_int(c->node, "precision"), scale = c->in[1]->dtype;
    bool half = dtype_is_half(scale);
    return quantize(c, true, precision ? precision : half ? scale : TN_UNDEFINED, attr_int(c->node, "saturate") != 0);
}

static tn_status ms_quantize_linear_reference(KernelCtx *c) { return quantize(c, false, TN_F32, true); }

const OpSchema op_QuantizeLinear = {
    .name = "QuantizeLinear",
    .summary = "QuantizeLinear (ONNX 28): round(x / scale) + zero point",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"x", TS(TN_F32) | TS(TN_F16) | TS(TN_BF16) | TS(TN_I32), 0, 0},
                       {"y_scale", TS(TN_F32) | TS(TN_F16) | TS(TN_BF16) | TS(TN_I32) | TS(TN_F8E8M0), 0, 0},
                       {"y_zero_point", TARGETS, 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"y", TARGETS, 0, 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 1, 0, NULL}, {"block_size", ATTR_INT, 0, 0, 0, NULL},
                        {"output_dtype", ATTR_INT, 0, 0, 0, NULL}, {"precision", ATTR_INT, 0, 0, 0, NULL},
                        {"saturate", ATTR_INT, 0, 1, 0, NULL}),
    .infer = quantize_linear_infer,
    .reference = quantize_linear_reference,
    .lower = lower_quantize,
    .lowering = "a quotient, rounded and cut off",
};

const OpSchema op_ms_QuantizeLinear = {
    .domain = "com.microsoft",
    .name = "QuantizeLinear",
    .summary = "QuantizeLinear (ONNX Runtime 1): round(x / scale) + zero point",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"x", TS(TN_F32) | TS(TN_F16), 'T', 0}, {"y_scale", TS(TN_F32) | TS(TN_F16), 'T', 0},
                       {"y_zero_point", MS_TARGETS, 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"y", MS_TARGETS, 0, 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 1, 0, NULL}),
    .infer = ms_quantize_linear_infer,
    .reference = ms_quantize_linear_reference,
    .lower = lower_ms_quantize,
    .lowering = "a quotient, rounded and cut off",
};
