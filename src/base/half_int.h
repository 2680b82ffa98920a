/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of the reduced floats: those that element loops inline, and those from double, which round once. */
#ifndef TENON_BASE_HALF_INT_H
#define TENON_BASE_HALF_INT_H

#include <math.h>

#include "base/base.h"

static inline uint32_t bits_of_f32(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float f32_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Normal numbers get their exponent moved by a multiplication; subnormal ones are put below a 0.5 that is then taken
   away. No branches, so that loops over this become vector code. */
static inline float f16_to_f32_inline(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = (uint32_t)(h & 0x7fff) << 17;
    float normal = f32_of_bits((magnitude >> 4) + (0xe0u << 23)) * 0x1p-112f;
    float subnormal = f32_of_bits((magnitude >> 17) | (126u << 23)) - 0.5f;
    return f32_of_bits(sign | bits_of_f32(magnitude < 1u << 27 ? subnormal : normal));
}

/* Adding a power of two that puts the last bit of the half at the last bit of the float makes the processor round.
   A NaN keeps the upper bits of its payload, as the processors' own instructions do. */
static inline uint16_t f32_to_f16_inline(float f) {
    uint32_t bits = bits_of_f32(f), doubled = bits + bits, bias = doubled & 0xff000000u;
    float clipped = fabsf(f) * 0x1p+112f * 0x1p-110f; /* infinite where the half is */
    if (bias < 0x71000000u) bias = 0x71000000u;
    uint32_t rounded = bits_of_f32(f32_of_bits((bias >> 1) + 0x07800000u) + clipped);
    uint32_t magnitude = ((rounded >> 13) & 0x7c00) + (rounded & 0x0fff);
    uint32_t nan = 0x7e00 | (bits >> 13 & 0x3ff);
    return (uint16_t)((bits >> 16 & 0x8000) | (doubled > 0xff000000u ? nan : magnitude));
}

static inline float bf16_to_f32_inline(uint16_t h) { return f32_of_bits((uint32_t)h << 16); }

static inline uint16_t f32_to_bf16_inline(float f) {
    uint32_t bits = bits_of_f32(f);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000u ? nan : rounded);
}

uint16_t f64_to_f16(double value);
uint16_t f64_to_bf16(double value);
/* The integer as a double that rounds to any float of at most 51 bits as the integer itself would: bits that do not
   fit are gathered in the last one (rounding to odd). */
double f64_odd_from_i64(int64_t value);

#endif
