/* SPDX-License-Identifier: Apache-2.0 */
/* A dense array of a compute type to elements of any type. One small loop a pair of types, made by macros. */
#include "base/element_int.h"

/* Whatever the compute type is, as an integer, and as a double that rounds to a small float as the value would. */
static inline int32_t wrap_i32(int64_t v) { return (int32_t)(uint32_t)(uint64_t)v; }
static inline int64_t same_i64(int64_t v) { return v; }
static inline uint64_t bits_u64(int64_t v) { return (uint64_t)v; }
static inline double same_f64(double v) { return v; }
static inline uint16_t i64_to_f16(int64_t v) { return f64_to_f16(f64_odd_from_i64(v)); }
static inline uint16_t i64_to_bf16(int64_t v) { return f64_to_bf16(f64_odd_from_i64(v)); }
#define AS_I32(v) _Generic((v), int64_t : wrap_i32, default : i32_of_f64)(v)
#define AS_I64(v) _Generic((v), int64_t : same_i64, default : i64_of_f64)(v)
#define AS_U64(v) _Generic((v), int64_t : bits_u64, default : u64_of_f64)(v)
#define AS_F64(v) _Generic((v), int64_t : f64_odd_from_i64, default : same_f64)(v)

/* From the compute type to the stored bits. */
#define BITS_F32(v) ((float)(v))
#define BITS_F64(v) ((double)(v))
#define BITS_F16(v) _Generic((v), float : f32_to_f16_inline, double : f64_to_f16, int64_t : i64_to_f16)(v)
#define BITS_BF16(v) _Generic((v), float : f32_to_bf16_inline, double : f64_to_bf16, int64_t : i64_to_bf16)(v)
#define BITS_U8(v) ((uint8_t)AS_I32(v))
#define BITS_I8(v) ((int8_t)AS_I32(v))
#define BITS_U16(v) ((uint16_t)AS_I32(v))
#define BITS_I16(v) ((int16_t)AS_I32(v))
#define BITS_U32(v) ((uint32_t)AS_I64(v))
#define BITS_I32(v) AS_I32(v)
#define BITS_U64(v) AS_U64(v)
#define BITS_I64(v) AS_I64(v)
#define BITS_BOOL(v) ((v) != 0)
#define BITS_C64(v) ((ComplexF32){(float)(v), 0})
#define BITS_C128(v) ((ComplexF64){(double)(v), 0})
#define BITS_F8E4M3FN(v) small_float_encode(TN_F8E4M3FN, AS_F64(v), true)
#define BITS_F8E4M3FNUZ(v) small_float_encode(TN_F8E4M3FNUZ, AS_F64(v), true)
#define BITS_F8E5M2(v) small_float_encode(TN_F8E5M2, AS_F64(v), true)
#define BITS_F8E5M2FNUZ(v) small_float_encode(TN_F8E5M2FNUZ, AS_F64(v), true)
#define BITS_F8E8M0(v) small_float_encode(TN_F8E8M0, AS_F64(v), true)
#define BITS_U4(v) ((uint8_t)AS_I32(v))
#define BITS_I4(v) ((uint8_t)AS_I32(v))
#define BITS_U2(v) ((uint8_t)AS_I32(v))
#define BITS_I2(v) ((uint8_t)AS_I32(v))
#define BITS_F4E2M1(v) small_float_encode(TN_F4E2M1, AS_F64(v), true)

typedef void (*StoreFn)(uint8_t *data, int64_t offset, int64_t stride, const void *src, int64_t n);

#define STORE_WHOLE(D, suffix, name, S)                                                                               \
    static void store_##suffix##_##name(uint8_t *data, int64_t offset, int64_t stride, const void *from, int64_t n) { \
        const D *src = from;                                                                                          \
        S v;                                                                                                          \
        uint8_t *to = data + offset * (int64_t)sizeof v;                                                              \
        if (stride == 1)                                                                                              \
            for (int64_t i = 0; i < n; i++) {                                                                         \
                v = BITS_##name(src[i]);                                                                              \
                memcpy(to + i * (int64_t)sizeof v, &v, sizeof v);                                                     \
            }                                                                                                         \
        else                                                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                         \
                v = BITS_##name(src[i]);                                                                              \
                memcpy(to + i * stride * (int64_t)sizeof v, &v, sizeof v);                                            \
            }                                                                                                         \
    }
#define STORE_PACKED(D, suffix, name, bits)                                                                           \
    static void store_##suffix##_##name(uint8_t *data, int64_t offset, int64_t stride, const void *from, int64_t n) { \
        const D *src = from;                                                                                          \
        for (int64_t i = 0; i < n; i++) packed_set(data, (bits), offset + i * stride, BITS_##name(src[i]));           \
    }

#define STORE_WHOLE_F32(name, S) STORE_WHOLE(float, f32, name, S)
#define STORE_WHOLE_F64(name, S) STORE_WHOLE(double, f64, name, S)
#define STORE_WHOLE_I64(name, S) STORE_WHOLE(int64_t, i64, name, S)
#define STORE_PACKED_F32(name, bits) STORE_PACKED(float, f32, name, bits)
#define STORE_PACKED_F64(name, bits) STORE_PACKED(double, f64, name, bits)
#define STORE_PACKED_I64(name, bits) STORE_PACKED(int64_t, i64, name, bits)
WHOLE_ELEMENTS(STORE_WHOLE_F32)
WHOLE_ELEMENTS(STORE_WHOLE_F64)
WHOLE_ELEMENTS(STORE_WHOLE_I64)
PACKED_ELEMENTS(STORE_PACKED_F32)
PACKED_ELEMENTS(STORE_PACKED_F64)
PACKED_ELEMENTS(STORE_PACKED_I64)

#define ROW_F32(name, unused) [TN_##name] = store_f32_##name,
#define ROW_F64(name, unused) [TN_##name] = store_f64_##name,
#define ROW_I64(name, unused) [TN_##name] = store_i64_##name,
static const StoreFn f32_stores[TN_DTYPE_END] = {WHOLE_ELEMENTS(ROW_F32) PACKED_ELEMENTS(ROW_F32)};
static const StoreFn f64_stores[TN_DTYPE_END] = {WHOLE_ELEMENTS(ROW_F64) PACKED_ELEMENTS(ROW_F64)};
static const StoreFn i64_stores[TN_DTYPE_END] = {WHOLE_ELEMENTS(ROW_I64) PACKED_ELEMENTS(ROW_I64)};

/* Numbers are never strings: an assertion where they are on, else nothing is written. */
static void store(StoreFn fn, void *data, int64_t offset, int64_t stride, const void *src, int64_t n) {
    assert(fn && "no numbers in this element type");
    if (fn && n > 0) fn(data, offset, stride, src, n);
}

void store_f32(tn_dtype dtype, void *data, int64_t offset, int64_t stride, const float *src, int64_t n) {
    store(f32_stores[dtype], data, offset, stride, src, n);
}

void store_f64(tn_dtype dtype, void *data, int64_t offset, int64_t stride, const double *src, int64_t n) {
    store(f64_stores[dtype], data, offset, stride, src, n);
}

void store_i64(tn_dtype dtype, void *data, int64_t offset, int64_t stride, const int64_t *src, int64_t n) {
    store(i64_stores[dtype], data, offset, stride, src, n);
}

void store_c128(tn_dtype dtype, void *data, int64_t offset, int64_t stride, const double *src, int64_t n) {
    uint8_t *bytes = data;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = offset + i * stride;
        ComplexF64 wide = {src[2 * i], src[2 * i + 1]};
        ComplexF32 narrow = {(float)wide.re, (float)wide.im};
        if (dtype == TN_C128) memcpy(bytes + at * (int64_t)sizeof wide, &wide, sizeof wide);
        else if (dtype == TN_C64) memcpy(bytes + at * (int64_t)sizeof narrow, &narrow, sizeof narrow);
        else store_f64(dtype, data, at, 1, &wide.re, 1);
    }
}

void scale_f32(float *y, const void *x, const double *factors, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, (const char *)x + 4 * i, sizeof v);
        y[i] = (float)((double)v * (step ? factors[i] : factors[0]));
    }
}
