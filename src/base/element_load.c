/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of any type to a dense array of a compute type. One small loop a pair of types, made by macros. */
#include "base/element_int.h"

/* From the stored bits to a C number that holds the value exactly. */
#define SAME(v) (v)
#define REAL_PART(v) ((v).re)
#define NOT_ZERO(v) ((uint8_t)((v) != 0))
#define VALUE_F32 SAME
#define VALUE_F64 SAME
#define VALUE_F16 f16_to_f32_inline
#define VALUE_BF16 bf16_to_f32_inline
#define VALUE_U8 SAME
#define VALUE_I8 SAME
#define VALUE_U16 SAME
#define VALUE_I16 SAME
#define VALUE_U32 SAME
#define VALUE_I32 SAME
#define VALUE_U64 SAME
#define VALUE_I64 SAME
#define VALUE_BOOL NOT_ZERO
#define VALUE_C64 REAL_PART
#define VALUE_C128 REAL_PART
#define VALUE_F8E4M3FN(v) small_float_decode(TN_F8E4M3FN, (v))
#define VALUE_F8E4M3FNUZ(v) small_float_decode(TN_F8E4M3FNUZ, (v))
#define VALUE_F8E5M2(v) small_float_decode(TN_F8E5M2, (v))
#define VALUE_F8E5M2FNUZ(v) small_float_decode(TN_F8E5M2FNUZ, (v))
#define VALUE_F8E8M0(v) small_float_decode(TN_F8E8M0, (v))
#define VALUE_U4 SAME
#define VALUE_I4(v) ((v) > 7 ? (v)-16 : (v))
#define VALUE_U2 SAME
#define VALUE_I2(v) ((v) > 1 ? (v)-4 : (v))
#define VALUE_F4E2M1(v) small_float_decode(TN_F4E2M1, (v))

/* From that number to the compute type. */
static inline int64_t i64_of_i64(int64_t v) { return v; }
#define TO_f32(v) ((float)(v))
#define TO_f64(v) ((double)(v))
#define TO_i64(v) _Generic((v), float : i64_of_f64, double : i64_of_f64, default : i64_of_i64)(v)

typedef void (*LoadFn)(void *dst, const uint8_t *data, int64_t offset, int64_t stride, int64_t n);

/* Elements are read as bytes, since a mapped file may hold them at any address. The dense loop stands by itself so
   that it becomes vector code. */
#define LOAD_WHOLE(D, suffix, name, S)                                                                             \
    static void load_##suffix##_##name(void *to, const uint8_t *data, int64_t offset, int64_t stride, int64_t n) { \
        D *dst = to;                                                                                               \
        S v;                                                                                                       \
        const uint8_t *from = data + offset * (int64_t)sizeof v;                                                   \
        if (stride == 1)                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                      \
                memcpy(&v, from + i * (int64_t)sizeof v, sizeof v);                                                \
                dst[i] = TO_##suffix(VALUE_##name(v));                                                             \
            }                                                                                                      \
        else                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                      \
                memcpy(&v, from + i * stride * (int64_t)sizeof v, sizeof v);                                       \
                dst[i] = TO_##suffix(VALUE_##name(v));                                                             \
            }                                                                                                      \
    }
#define LOAD_PACKED(D, suffix, name, bits)                                                                         \
    static void load_##suffix##_##name(void *to, const uint8_t *data, int64_t offset, int64_t stride, int64_t n) { \
        D *dst = to;                                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            uint8_t v = packed_get(data, (bits), offset + i * stride);                                             \
            dst[i] = TO_##suffix(VALUE_##name(v));                                                                 \
        }                                                                                                          \
    }

#define LOAD_WHOLE_F32(name, S) LOAD_WHOLE(float, f32, name, S)
#define LOAD_WHOLE_F64(name, S) LOAD_WHOLE(double, f64, name, S)
#define LOAD_WHOLE_I64(name, S) LOAD_WHOLE(int64_t, i64, name, S)
#define LOAD_PACKED_F32(name, bits) LOAD_PACKED(float, f32, name, bits)
#define LOAD_PACKED_F64(name, bits) LOAD_PACKED(double, f64, name, bits)
#define LOAD_PACKED_I64(name, bits) LOAD_PACKED(int64_t, i64, name, bits)
WHOLE_ELEMENTS(LOAD_WHOLE_F32)
WHOLE_ELEMENTS(LOAD_WHOLE_F64)
WHOLE_ELEMENTS(LOAD_WHOLE_I64)
PACKED_ELEMENTS(LOAD_PACKED_F32)
PACKED_ELEMENTS(LOAD_PACKED_F64)
PACKED_ELEMENTS(LOAD_PACKED_I64)

#define ROW_F32(name, unused) [TN_##name] = load_f32_##name,
#define ROW_F64(name, unused) [TN_##name] = load_f64_##name,
#define ROW_I64(name, unused) [TN_##name] = load_i64_##name,
static const LoadFn f32_loads[TN_DTYPE_END] = {WHOLE_ELEMENTS(ROW_F32) PACKED_ELEMENTS(ROW_F32)};
static const LoadFn f64_loads[TN_DTYPE_END] = {WHOLE_ELEMENTS(ROW_F64) PACKED_ELEMENTS(ROW_F64)};
static const LoadFn i64_loads[TN_DTYPE_END] = {WHOLE_ELEMENTS(ROW_I64) PACKED_ELEMENTS(ROW_I64)};

/* Strings have no number: an assertion where they are on, else zeros. */
static bool has_number(LoadFn load, void *dst, size_t size, int64_t n) {
    assert(load && "no numbers in this element type");
    if (!load && n > 0) memset(dst, 0, (size_t)n * size);
    return load && n > 0;
}

void load_f32(float *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n) {
    LoadFn load = f32_loads[dtype];
    if (has_number(load, dst, sizeof *dst, n)) load(dst, data, offset, stride, n);
}

void load_f64(double *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n) {
    LoadFn load = f64_loads[dtype];
    if (has_number(load, dst, sizeof *dst, n)) load(dst, data, offset, stride, n);
}

void load_i64(int64_t *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n) {
    LoadFn load = i64_loads[dtype];
    if (has_number(load, dst, sizeof *dst, n)) load(dst, data, offset, stride, n);
}

static void load_c64_pairs(double *dst, const uint8_t *data, int64_t offset, int64_t stride, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        ComplexF32 v;
        memcpy(&v, data + (offset + i * stride) * (int64_t)sizeof v, sizeof v);
        dst[2 * i] = (double)v.re;
        dst[2 * i + 1] = (double)v.im;
    }
}

static void load_c128_pairs(double *dst, const uint8_t *data, int64_t offset, int64_t stride, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        memcpy(dst + 2 * i, data + (offset + i * stride) * (int64_t)sizeof(ComplexF64), sizeof(ComplexF64));
}

void load_c128(double *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n) {
    if (n <= 0) return;
    if (dtype == TN_C64) load_c64_pairs(dst, data, offset, stride, n);
    else if (dtype == TN_C128) load_c128_pairs(dst, data, offset, stride, n);
    else {
        load_f64(dst, dtype, data, offset, stride, n);
        for (int64_t i = n - 1; i >= 0; i--) { /* spread from the end, in place */
            dst[2 * i] = dst[i];
            dst[2 * i + 1] = 0;
        }
    }
}
