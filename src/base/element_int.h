/* SPDX-License-Identifier: Apache-2.0 */
/* What loading and storing of elements share: one row an element type, and the C types that stand for them. */
#ifndef TENON_BASE_ELEMENT_INT_H
#define TENON_BASE_ELEMENT_INT_H

#include "base/half_int.h"

typedef struct ComplexF32 {
    float re, im;
} ComplexF32;
typedef struct ComplexF64 {
    double re, im;
} ComplexF64;

/* clang-format off */
/* ROW(name, C type): every type of whole bytes but the strings. */
#define WHOLE_ELEMENTS(ROW)                                                                                        \
    ROW(F32, float) ROW(F64, double) ROW(F16, uint16_t) ROW(BF16, uint16_t)                                        \
    ROW(U8, uint8_t) ROW(I8, int8_t) ROW(U16, uint16_t) ROW(I16, int16_t)                                          \
    ROW(U32, uint32_t) ROW(I32, int32_t) ROW(U64, uint64_t) ROW(I64, int64_t) ROW(BOOL, uint8_t)                   \
    ROW(C64, ComplexF32) ROW(C128, ComplexF64)                                                                     \
    ROW(F8E4M3FN, uint8_t) ROW(F8E4M3FNUZ, uint8_t) ROW(F8E5M2, uint8_t) ROW(F8E5M2FNUZ, uint8_t)                  \
    ROW(F8E8M0, uint8_t)
/* ROW(name, bits): those of which several share a byte, the first in the lowest bits. */
#define PACKED_ELEMENTS(ROW) ROW(U4, 4) ROW(I4, 4) ROW(F4E2M1, 4) ROW(U2, 2) ROW(I2, 2)
/* clang-format on */

static inline uint8_t packed_get(const uint8_t *data, int bits, int64_t index) {
    int64_t per_byte = 8 / bits;
    return (uint8_t)(data[index / per_byte] >> index % per_byte * bits & ((1 << bits) - 1));
}

static inline void packed_set(uint8_t *data, int bits, int64_t index, uint8_t value) {
    int64_t per_byte = 8 / bits;
    int shift = (int)(index % per_byte) * bits, mask = ((1 << bits) - 1) << shift;
    uint8_t *byte = data + index / per_byte;
    *byte = (uint8_t)((*byte & ~mask) | (value << shift & mask));
}

/* Where C leaves a conversion undefined, what x86 processors do, on every processor. */
static inline int64_t i64_of_f64(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }
static inline int32_t i32_of_f64(double v) { return v > -0x1.00000002p31 && v < 0x1p31 ? (int32_t)v : INT32_MIN; }
static inline uint64_t u64_of_f64(double v) {
    return v >= 0x1p63 && v < 0x1p64 ? (uint64_t)v : (uint64_t)i64_of_f64(v);
}

#endif
