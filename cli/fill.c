/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of random numbers and of one number, for every element type. */
#include "cli.h"

#include <math.h>
#include <string.h>

/* splitmix64 */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- writing a number as an element --------------------------------------------------------------------------- */

/* Reduced floats: their exponent and mantissa bits and the exponent's bias. */
typedef struct FloatFormat {
    tn_dtype dtype;
    int exponent, mantissa, bias;
} FloatFormat;
static const FloatFormat float_formats[] = {
    {TN_F16, 5, 10, 15},   {TN_BF16, 8, 7, 127},      {TN_F8E4M3FN, 4, 3, 7}, {TN_F8E4M3FNUZ, 4, 3, 8},
    {TN_F8E5M2, 5, 2, 15}, {TN_F8E5M2FNUZ, 5, 2, 16}, {TN_F4E2M1, 2, 1, 1},
};

/* The bits of the nearest number below 2^(largest exponent) in magnitude; what is larger saturates there. */
static uint32_t encode_float(const FloatFormat *f, double value) {
    uint32_t sign = signbit(value) ? 1u << (f->exponent + f->mantissa) : 0;
    int exponent;
    double fraction = frexp(fabs(value), &exponent); /* in [1/2, 1) */
    int biased = exponent - 1 + f->bias, top = (1 << f->exponent) - 2;
    if (fraction == 0 || !isfinite(value)) return 0;
    if (biased > top) return sign | (uint32_t)top << f->mantissa;
    if (biased < 1) { /* subnormal: the lowest exponent, no leading one */
        uint32_t bits = (uint32_t)nearbyint(ldexp(fabs(value), f->bias - 1 + f->mantissa));
        return bits ? sign | bits : 0;
    }
    uint32_t mantissa = (uint32_t)nearbyint(ldexp(fraction * 2 - 1, f->mantissa)); /* a carry moves the exponent up */
    return sign | (((uint32_t)biased << f->mantissa) + mantissa);
}

static bool encode_bits(tn_dtype dtype, double value, uint64_t *bits) {
    for (size_t i = 0; i < sizeof float_formats / sizeof *float_formats; i++)
        if (float_formats[i].dtype == dtype) {
            *bits = encode_float(&float_formats[i], value);
            return true;
        }
    if (dtype == TN_F8E8M0) { /* powers of two */
        *bits = value > 0 ? (uint64_t)(127 + (int)fmin(fmax(nearbyint(log2(value)), -127), 127)) : 0;
        return true;
    }
    if (fabs(value) >= 9.2e18 || isnan(value)) return false;
    *bits = dtype == TN_BOOL ? value != 0 : value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    return true;
}

static void put_bits(void *data, int64_t i, int size, uint64_t bits) {
    if (size < 8) {
        uint8_t *byte = (uint8_t *)data + i * size / 8;
        int shift = (int)(i * size % 8), mask = (1 << size) - 1;
        *byte = (uint8_t)((*byte & ~(mask << shift)) | ((int)bits & mask) << shift);
        return;
    }
    memcpy((char *)data + i * (size / 8), &bits, (size_t)size / 8); /* little-endian */
}

static bool put_number(tn_tensor *t, int64_t i, double value) {
    tn_dtype dtype = tn_tensor_dtype(t);
    void *data = tn_tensor_data(t);
    uint64_t bits;
    char text[32];
    switch (dtype) {
    case TN_F32: ((float *)data)[i] = (float)value; return true;
    case TN_F64: ((double *)data)[i] = value; return true;
    case TN_C64: ((float *)data)[2 * i] = (float)value; return true;
    case TN_C128: ((double *)data)[2 * i] = value; return true;
    case TN_STRING:
        snprintf(text, sizeof text, "%g", value);
        return tn_tensor_set_string(t, i, text, strlen(text)) == TN_OK;
    default:
        if (!encode_bits(dtype, value, &bits)) return false;
        put_bits(data, i, tn_dtype_bits(dtype), bits);
        return true;
    }
}

/* ---- filling -------------------------------------------------------------------------------------------------- */

static bool is_real(tn_dtype dtype) {
    return (dtype == TN_F32 || dtype == TN_F64 || dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_C64 ||
            dtype == TN_C128 || (dtype >= TN_F8E4M3FN && dtype <= TN_F8E5M2FNUZ) || dtype == TN_F4E2M1);
}

int fill_random(tn_tensor *t, uint64_t *state) {
    tn_dtype dtype = tn_tensor_dtype(t);
    /* Floats in [-1, 1), booleans, and integers that are likely to be valid indices. */
    uint64_t choices = dtype == TN_BOOL ? 2 : tn_dtype_bits(dtype) < 4 ? 2 : tn_dtype_bits(dtype) < 8 ? 8 : 10;
    int64_t count = tn_tensor_count(t);
    for (int64_t i = 0; i < count; i++) {
        uint64_t r = next_random(state);
        double value = is_real(dtype) ? (double)(r >> 40) / (1 << 23) - 1 : (double)(r % choices);
        if (!put_number(t, i, value)) return report("cannot fill a tensor of %s", tn_dtype_name(dtype));
    }
    return GO_ON;
}

int fill_number(tn_tensor *t, double value) {
    int64_t count = tn_tensor_count(t);
    for (int64_t i = 0; i < count; i++)
        if (!put_number(t, i, value)) return report("%g is no %s", value, tn_dtype_name(tn_tensor_dtype(t)));
    return GO_ON;
}
