/* SPDX-License-Identifier: Apache-2.0 */
/* DequantizeLinear (ONNX 28, ONNX Runtime 1): (x - zero point) * scale, computed in float and rounded once. */
#include "ops/lower_int.h"
#include "ops/quant_int.h"

#define INTS \
    (TS(TN_I8) | TS(TN_U8) | TS(TN_I16) | TS(TN_U16) | TS(TN_I32) | TS(TN_I4) | TS(TN_U4) | TS(TN_I2) | TS(TN_U2))
#define SOURCES (INTS | (TS_F8 & ~TS(TN_F8E8M0)) | TS(TN_F4E2M1))
#define REALS (TS(TN_F32) | TS(TN_F16) | TS(TN_BF16))

typedef struct Dequantize {
    QuantMap map;
    Stream x;
    const float *scales;
    const float *zeros; /* NULL: 0 */
    const int64_t *int_zeros;
    const Tensor *out;
} Dequantize;

/* Numbers of up to 16 bits and their differences are exact in float. */
static void from_floats(const Dequantize *d, const float *x, int64_t scale, int64_t step, float *y, int64_t n) {
    const float *s = d->scales + scale, *z = d->zeros ? d->zeros + scale : NULL;
    if (step == 0) {
        float factor = s[0], zero = z ? z[0] : 0;
        EACH(i, n) y[i] = (x[i] - zero) * factor;
    } else {
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - (z ? z[i] : 0)) * s[i];
    }
}

/* Those of i32 are taken as integers. */
static void from_ints(const Dequantize *d, const int64_t *x, int64_t scale, int64_t step, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t k = scale + i * step;
        y[i] = (float)(x[i] - (d->int_zeros ? d->int_zeros[k] : 0)) * d->scales[k];
    }
}

static void dequantize_piece(const Dequantize *d, int64_t at, int64_t scale, int64_t step, int64_t n) {
    int64_t buffer[CHUNK];
    float values[CHUNK];
    const Tensor *out = d->out;
    float *y = out->dtype == TN_F32 ? (float *)out->data + out->offset + at : values;
    const void *x = stream_read(&d->x, at, n, buffer);
    if (d->x.class == CLASS_INT) from_ints(d, x, scale, step, y, n);
    else from_floats(d, x, scale, step, y, n);
    if (y == values) store_f32(out->dtype, out->data, out->offset + at, 1, y, n);
}

static void dequantize_runs(void *arg, int64_t begin, int64_t end) {
    const Dequantize *d = arg;
    for (int64_t run = begin; run < end; run++) {
        QuantRun r = quant_run(&d->map, run);
        for (int64_t at = 0; at < r.n; at += CHUNK)
            dequantize_piece(d, r.at + at, r.scale + at * r.scale_step, r.scale_step, min_i64(CHUNK, r.n - at));
    }
}

static tn_status dequantize(KernelCtx *c, bool blocked) {
    const Tensor *x = c->in[0], *scale = c->in[1];
    Dequantize d = {.out = &c->out[0]};
    bool ints = x->dtype == TN_I32;
    TRY(quant_map(c->node, blocked, x, scale, &d.map));
    TRY(dense_f32(c, 1, &d.scales));
    if (kernel_has_input(c, 2)) {
        if (tensor_count(c->in[2]) != tensor_count(scale))
            return fail(TN_SHAPE, "scale and zero point must have the same shape");
        TRY(ints ? dense_i64(c, 2, &d.int_zeros) : dense_f32(c, 2, &d.zeros));
    }
    TRY(stream_init(&d.x, x, d.out, ints ? CLASS_INT : CLASS_F32));
    return kernel_parallel(c, d.map.runs, (double)d.map.length + 10, dequantize_runs, &d);
}

static tn_status infer(InferCtx *c, tn_dtype to, bool blocked) {
    if (to && !(REALS & TS(to)))
        return fail(TN_UNSUPPORTED, "cannot dequantise to %s: output_dtype must be f32, f16 or bf16", dtype_name(to));
    set_like(c, 0, 0);
    set_dtype(c, 0, to);
    return quant_check(c, blocked);
}

static tn_status dequantize_linear_infer(InferCtx *c) {
    int64_t asked = attr_int(c->node, "output_dtype");
    if (asked < 0 || asked >= TN_DTYPE_END) return fail(TN_INVALID_MODEL, "output_dtype is no element type");
    return infer(c, asked ? (tn_dtype)asked : in_dtype(c, 1), true);
}

static tn_status ms_dequantize_linear_infer(InferCtx *c) { return infer(c, in_dtype(c, 1), false); }
static tn_status dequantize_linear_reference(KernelCtx *c) { return dequantize(c, true); }
static tn_status ms_dequantize_linear_reference(KernelCtx *c) { return dequantize(c, false); }

const OpSchema op_DequantizeLinear = {
    .name = "DequantizeLinear",
    .summary = "DequantizeLinear (ONNX 28): (x - zero point) * scale",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"x", SOURCES, 'Q', 0}, {"x_scale", REALS | TS(TN_F8E8M0), 0, 0},
                       {"x_zero_point", SOURCES, 'Q', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"y", REALS, 0, 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 1, 0, NULL}, {"block_size", ATTR_INT, 0, 0, 0, NULL},
                        {"output_dtype", ATTR_INT, 0, 0, 0, NULL}),
    .infer = dequantize_linear_infer,
    .reference = dequantize_linear_reference,
    .lower = lower_dequantize,
    .lowering = "a difference and a product",
};

#define MS_SOURCES (INTS & ~(TS(TN_I2) | TS(TN_U2)))

const OpSchema op_ms_DequantizeLinear = {
    .domain = "com.microsoft",
    .name = "DequantizeLinear",
    .summary = "DequantizeLinear (ONNX Runtime 1): (x - zero point) * scale",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"x", MS_SOURCES, 'Q', 0}, {"x_scale", TS(TN_F32) | TS(TN_F16), 'T', 0},
                       {"x_zero_point", MS_SOURCES, 'Q', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"y", TS(TN_F32) | TS(TN_F16), 'T', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 1, 0, NULL}),
    .infer = ms_dequantize_linear_infer,
    .reference = ms_dequantize_linear_reference,
    .lower = lower_dequantize,
    .lowering = "a difference and a product",
};
