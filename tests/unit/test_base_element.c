/* SPDX-License-Identifier: Apache-2.0 */
/* Element streams of every type. */
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "test_base_alloc.h"

enum { N = 37 };

static bool has_numbers(tn_dtype dtype) { return dtype_bits(dtype) > 0 && dtype != TN_STRING; }

/* Small values that every type but E8M0 and BOOL holds; those hold powers of two and 0/1. */
static double value_at(tn_dtype dtype, int i) {
    if (dtype == TN_F8E8M0) return ldexp(1, i % 7 - 3);
    if (dtype == TN_BOOL || dtype == TN_I2) return i % 2;
    if (dtype == TN_U2) return i % 4;
    if (dtype_is_unsigned_int(dtype)) return i % 7;
    return i % 7 - 3;
}

/* Stores with one stride and loads with the same, in all compute types, beside guards that must not change. */
static void check_round_trip(tn_dtype dtype, int64_t offset, int64_t stride) {
    uint8_t bytes[4096], guard[4096];
    float f32[N];
    double f64[N], pairs[2 * N];
    int64_t i64[N];
    int64_t start = stride < 0 ? offset - stride * (N - 1) : offset;
    for (int how = 0; how < 4; how++) {
        memset(bytes, 0xa5, sizeof bytes);
        for (int i = 0; i < N; i++) {
            pairs[2 * i] = f64[i] = value_at(dtype, i);
            pairs[2 * i + 1] = 0;
            f32[i] = (float)f64[i];
            i64[i] = (int64_t)f64[i];
        }
        if (how == 2 && dtype == TN_F8E8M0) continue; /* fractions */
        if (how == 0) store_f32(dtype, bytes, start, stride, f32, N);
        if (how == 1) store_f64(dtype, bytes, start, stride, f64, N);
        if (how == 2) store_i64(dtype, bytes, start, stride, i64, N);
        if (how == 3) store_c128(dtype, bytes, start, stride, pairs, N);
        memset(f32, 0, sizeof f32);
        memset(f64, 0, sizeof f64);
        memset(i64, 0, sizeof i64);
        memset(pairs, 0xff, sizeof pairs);
        load_f32(f32, dtype, bytes, start, stride, N);
        load_f64(f64, dtype, bytes, start, stride, N);
        load_i64(i64, dtype, bytes, start, stride, N);
        load_c128(pairs, dtype, bytes, start, stride, N);
        for (int i = 0; i < N; i++) {
            double wanted = value_at(dtype, i);
            assert_true((double)f32[i] == wanted && f64[i] == wanted && i64[i] == (int64_t)wanted);
            assert_true(pairs[2 * i] == wanted && pairs[2 * i + 1] == 0);
        }
        /* Writing the guard's own elements over it again must give the guard back. */
        memset(guard, 0xa5, sizeof guard);
        copy_elements(dtype, bytes, start, stride, guard, start, stride, N);
        assert_memory_equal(bytes, guard, sizeof bytes);
    }
}

static void test_round_trips(void **state) {
    (void)state;
    for (int d = 1; d < TN_DTYPE_END; d++) {
        if (!has_numbers((tn_dtype)d)) continue;
        for (int64_t offset = 0; offset < 5; offset++)
            for (int64_t stride = -3; stride <= 3; stride++)
                if (stride != 0) check_round_trip((tn_dtype)d, offset, stride);
    }
}

static void test_broadcast_and_empty(void **state) {
    (void)state;
    const uint8_t packed[] = {0x21, 0x43};
    float f[4];
    load_f32(f, TN_U4, packed, 2, 0, 4);
    for (int i = 0; i < 4; i++) assert_true(f[i] == 3);
    for (int d = 1; d < TN_DTYPE_END; d++) {
        if (d != TN_STRING) load_f32(NULL, (tn_dtype)d, NULL, 0, 1, 0);
        if (d != TN_STRING) store_f32((tn_dtype)d, NULL, 0, 1, NULL, 0);
        copy_elements((tn_dtype)d, NULL, 0, 1, NULL, 0, 1, 0);
    }
}

/* A mapped file may hold elements at odd addresses. */
static void test_misaligned(void **state) {
    (void)state;
    uint8_t bytes[64];
    double f[3] = {1.5, -2, 3}, back[3];
    store_f64(TN_F64, bytes + 1, 0, 1, f, 3);
    load_f64(back, TN_F64, bytes + 1, 0, 1, 3);
    assert_memory_equal(f, back, sizeof f);
    store_f64(TN_C64, bytes + 3, 0, 2, f, 3);
    load_f64(back, TN_C64, bytes + 3, 0, 2, 3);
    assert_memory_equal(f, back, sizeof f);
}

static void test_packing_order(void **state) {
    (void)state;
    uint8_t bytes[2] = {0, 0};
    const int64_t values[] = {1, -2, 3, 7};
    store_i64(TN_I4, bytes, 0, 1, values, 4);
    assert_int_equal(bytes[0], 0xe1);
    assert_int_equal(bytes[1], 0x73);
    store_i64(TN_I2, bytes, 1, 2, values, 4); /* wraps to 1, -2, -1, -1 */
    int64_t back[8];
    load_i64(back, TN_I2, bytes, 0, 1, 8);
    assert_int_equal(back[1], 1);
    assert_int_equal(back[3], -2);
    assert_int_equal(back[5], -1);
    assert_int_equal(back[7], -1);
    uint8_t all = 0x1b;
    load_i64(back, TN_U2, &all, 0, 1, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(back[i], 3 - i);
}

typedef struct Narrow {
    double value;
    int64_t i8, u8, i16, i32, u32, i64, u64; /* u64 as its bits */
} Narrow;

/* Out of range: 32 bits and fewer go through int32, u32 and up through int64, whose answer then is its least number. */
static void test_floats_to_integers(void **state) {
    (void)state;
    static const Narrow rows[] = {
        {1.9, 1, 1, 1, 1, 1, 1, 1},
        {-1.9, -1, 255, -1, -1, 4294967295, -1, -1},
        {300.5, 44, 44, 300, 300, 300, 300, 300},
        {2147483647.0, -1, 255, -1, 2147483647, 2147483647, 2147483647, 2147483647},
        {2147483648.0, 0, 0, 0, INT32_MIN, 2147483648, 2147483648, 2147483648},
        {-2147483648.0, 0, 0, 0, INT32_MIN, 2147483648, -2147483648ll, -2147483648ll},
        {8589934597.0, 0, 0, 0, INT32_MIN, 5, 8589934597, 8589934597},
        {0x1p63, 0, 0, 0, INT32_MIN, 0, INT64_MIN, INT64_MIN},
        {0x1.8p63, 0, 0, 0, INT32_MIN, 0, INT64_MIN, -(1ll << 62)},
        {-0x1p63, 0, 0, 0, INT32_MIN, 0, INT64_MIN, INT64_MIN},
        {0x1p64, 0, 0, 0, INT32_MIN, 0, INT64_MIN, INT64_MIN},
        {-1e300, 0, 0, 0, INT32_MIN, 0, INT64_MIN, INT64_MIN},
        {(double)INFINITY, 0, 0, 0, INT32_MIN, 0, INT64_MIN, INT64_MIN},
        {(double)NAN, 0, 0, 0, INT32_MIN, 0, INT64_MIN, INT64_MIN},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        static const tn_dtype types[] = {TN_I8, TN_U8, TN_I16, TN_I32, TN_U32, TN_I64, TN_U64};
        const int64_t *wanted = &rows[r].i8;
        double value = rows[r].value;
        float narrow = (float)value;
        for (int t = 0; t < 7; t++) {
            int64_t bits = 0, back;
            store_f64(types[t], &bits, 0, 1, &value, 1);
            load_i64(&back, types[t], &bits, 0, 1, 1);
            assert_true(back == wanted[t]);
            if ((double)narrow != value) continue;
            store_f32(types[t], &bits, 0, 1, &narrow, 1);
            load_i64(&back, types[t], &bits, 0, 1, 1);
            assert_true(back == wanted[t]);
        }
        int64_t whole;
        load_i64(&whole, TN_F64, &value, 0, 1, 1);
        assert_true(whole == rows[r].i64);
    }
}

static void test_integers_wrap(void **state) {
    (void)state;
    const int64_t values[] = {-1, 300, INT64_MIN, INT64_MAX, ((int64_t)1 << 40) + 7};
    for (int i = 0; i < 5; i++) {
        int64_t back;
        uint8_t u8;
        int16_t i16;
        uint64_t u64;
        store_i64(TN_U8, &u8, 0, 1, &values[i], 1);
        store_i64(TN_I16, &i16, 0, 1, &values[i], 1);
        store_i64(TN_U64, &u64, 0, 1, &values[i], 1);
        load_i64(&back, TN_U64, &u64, 0, 1, 1);
        assert_int_equal(u8, (uint8_t)values[i]);
        assert_int_equal(i16, (int16_t)values[i]);
        assert_true(back == values[i]);
    }
    uint64_t big = UINT64_MAX;
    double f;
    load_f64(&f, TN_U64, &big, 0, 1, 1);
    assert_true(f == 0x1p64);
    float rounded;
    big = (1ull << 63) + (1ull << 39) + 1; /* through double the tie would go down */
    load_f32(&rounded, TN_U64, &big, 0, 1, 1);
    assert_true((double)rounded == 0x1p63 + 0x1p40);
}

static void test_to_bool(void **state) {
    (void)state;
    const double values[] = {0, -0.0, 0.1, (double)NAN, -3, DBL_TRUE_MIN};
    uint8_t bytes[6];
    store_f64(TN_BOOL, bytes, 0, 1, values, 6);
    assert_memory_equal(bytes, ((uint8_t[]){0, 0, 1, 1, 1, 1}), 6);
    bytes[0] = 200; /* any byte but 0 is true, and counts 1 */
    int64_t one;
    load_i64(&one, TN_BOOL, bytes, 0, 1, 1);
    assert_int_equal(one, 1);
}

static void test_complex(void **state) {
    (void)state;
    double pairs[4] = {1, 2, 3, 4}, back[4], reals[2];
    uint8_t bytes[64];
    for (int d = TN_C64; d <= TN_C128; d++) {
        store_c128((tn_dtype)d, bytes, 0, 1, pairs, 2);
        load_c128(back, (tn_dtype)d, bytes, 0, 1, 2);
        assert_memory_equal(pairs, back, sizeof pairs);
        load_f64(reals, (tn_dtype)d, bytes, 0, 1, 2);
        assert_true(reals[0] == 1 && reals[1] == 3);
    }
    store_c128(TN_F32, bytes, 0, 1, pairs, 2);
    load_f64(reals, TN_F32, bytes, 0, 1, 2);
    assert_true(reals[0] == 1 && reals[1] == 3);
}

static void test_copies(void **state) {
    (void)state;
    uint8_t from[1024], to[1024];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i * 37 + 11);
    for (int d = 1; d < TN_DTYPE_END; d++) {
        if (!has_numbers((tn_dtype)d)) continue;
        for (int64_t at = 0; at < 4; at++)
            for (int64_t step = 1; step < 3; step++) {
                double a[10], b[10];
                copy_elements((tn_dtype)d, to, at, step, from, 3 - at, 3 - step, 10);
                load_f64(a, (tn_dtype)d, to, at, step, 10);
                load_f64(b, (tn_dtype)d, from, 3 - at, 3 - step, 10);
                assert_memory_equal(a, b, sizeof a);
                copy_elements((tn_dtype)d, to, at, 1, from, at, 1, 10);
                load_f64(a, (tn_dtype)d, to, at, 1, 10);
                load_f64(b, (tn_dtype)d, from, at, 1, 10);
                assert_memory_equal(a, b, sizeof a);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_broadcast_and_empty),
        cmocka_unit_test(test_misaligned),
        cmocka_unit_test(test_packing_order),
        cmocka_unit_test(test_floats_to_integers),
        cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_to_bool),
        cmocka_unit_test(test_complex),
        cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
