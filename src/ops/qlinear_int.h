/* SPDX-License-Identifier: Apache-2.0 */
/* What ONNX Runtime's ops on 8-bit tensors share: a scale and zero point, codes to real numbers and back. */
#ifndef TENON_OPS_QLINEAR_INT_H
#define TENON_OPS_QLINEAR_INT_H

#include "ops/quant_int.h"

#define BYTES (TS(TN_I8) | TS(TN_U8))

typedef struct Scale {
    float scale;
    int32_t zero;
    float low, high; /* of the element type */
    bool is_signed;
} Scale;

/* Operand i is the scale, operand i + 1 the zero point, which may be absent; both single numbers. */
static inline tn_status read_scale(KernelCtx *c, int i, tn_dtype dtype, Scale *out) {
    int64_t low, high, zero = 0;
    const Tensor *scale = c->in[i], *zeros = kernel_has_input(c, i + 1) ? c->in[i + 1] : NULL;
    if (tensor_count(scale) != 1 || (zeros && tensor_count(zeros) != 1))
        return fail(TN_UNSUPPORTED, "operands %d and %d, scale and zero point, must be single numbers", i, i + 1);
    int_range(dtype, &low, &high);
    *out = (Scale){.low = (float)low, .high = (float)high, .is_signed = low < 0};
    load_f32(&out->scale, scale->dtype, scale->data, scale->offset, 1, 1);
    if (zeros) load_i64(&zero, zeros->dtype, zeros->data, zeros->offset, 1, 1);
    out->zero = (int32_t)zero;
    return TN_OK;
}

static inline float real_of(const Scale *s, uint8_t code) {
    int32_t value = s->is_signed ? (int8_t)code : code;
    return (float)(value - s->zero) * s->scale;
}

static inline uint8_t code_of(const Scale *s, float real) {
    return (uint8_t)quantize_f32(real / s->scale, s->low, s->high, s->zero);
}

#endif
