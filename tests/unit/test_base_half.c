/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 16, 8 and 4 bits: every code, every tie. */
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "base/half_int.h"
#include "test_base_alloc.h"

static double value_of_half(int mantissa_bits, int bias, uint32_t code) {
    int exponent = (int)(code >> mantissa_bits), mantissa = (int)(code & ((1u << mantissa_bits) - 1));
    return exponent == 0 ? ldexp(mantissa, 1 - bias - mantissa_bits)
                         : ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

static void test_f16_every_code(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 0x10000; code++) {
        float f = f16_to_f32((uint16_t)code);
        uint32_t magnitude = code & 0x7fff;
        if (magnitude > 0x7c00) {
            assert_true(isnan(f));
            assert_int_equal(f32_to_f16(f), code | 0x200); /* the payload stays, the NaN is quiet */
            assert_int_equal(f64_to_f16((double)f), code | 0x200);
            continue;
        }
        double wanted = magnitude == 0x7c00 ? (double)INFINITY : value_of_half(10, 15, magnitude);
        assert_true((double)f == (code & 0x8000 ? -wanted : wanted));
        assert_int_equal(signbit(f) != 0, code >> 15);
        assert_int_equal(f32_to_f16(f), code);
        assert_int_equal(f64_to_f16((double)f), code);
    }
}

static void test_bf16_every_code(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 0x10000; code++) {
        float f = bf16_to_f32((uint16_t)code);
        uint32_t quiet = (code & 0x7fff) > 0x7f80 ? code | 0x40 : code;
        assert_int_equal(f32_to_bf16(f), quiet);
        assert_int_equal(f64_to_bf16((double)f), quiet);
    }
}

typedef uint32_t (*EncodeF32)(float);
typedef uint32_t (*EncodeF64)(double);
static uint32_t f32_f16(float v) { return f32_to_f16(v); }
static uint32_t f64_f16(double v) { return f64_to_f16(v); }
static uint32_t f32_bf16(float v) { return f32_to_bf16(v); }
static uint32_t f64_bf16(double v) { return f64_to_bf16(v); }

/* Between each two neighbours: the middle goes to the even code, the nearest numbers beside it to their own. The last
   neighbour is infinity, as if it were the next number. */
static void check_ties(int mantissa_bits, int bias, uint32_t infinity, EncodeF32 narrow, EncodeF64 wide) {
    for (uint32_t code = 0; code < infinity; code++) {
        double below = value_of_half(mantissa_bits, bias, code), above = value_of_half(mantissa_bits, bias, code + 1);
        double middle = below + (above - below) / 2;
        uint32_t even = code + (code & 1), sign = 0x8000;
        assert_int_equal(wide(middle), even);
        assert_int_equal(wide(-middle), sign | even);
        assert_int_equal(wide(nextafter(middle, 0)), code);
        assert_int_equal(wide(nextafter(middle, DBL_MAX)), code + 1);
        if ((double)(float)middle != middle) continue;
        assert_int_equal(narrow((float)middle), even);
        assert_int_equal(narrow(-(float)middle), sign | even);
        assert_int_equal(narrow(nextafterf((float)middle, 0)), code);
        assert_int_equal(narrow(nextafterf((float)middle, FLT_MAX)), code + 1);
    }
    assert_int_equal(narrow(INFINITY), infinity);
    assert_int_equal(narrow(-INFINITY), 0x8000 | infinity);
    assert_int_equal(narrow(FLT_MAX), infinity);
    assert_int_equal(wide(DBL_MAX), infinity);
    assert_int_equal(wide(DBL_TRUE_MIN), 0);
    assert_int_equal(wide(-DBL_TRUE_MIN), 0x8000);
    assert_int_equal(narrow(FLT_TRUE_MIN), 0);
}

static void test_half_ties(void **state) {
    (void)state;
    check_ties(10, 15, 0x7c00, f32_f16, f64_f16);
    check_ties(7, 127, 0x7f80, f32_bf16, f64_bf16);
}

/* Through float both would be ties, and go the other way. */
static void test_doubles_round_once(void **state) {
    (void)state;
    assert_int_equal(f64_to_f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
    assert_int_equal(f32_to_f16((float)(1 + 0x1p-11 + 0x1p-40)), 0x3c00);
    assert_int_equal(f64_to_bf16(1 + 0x1p-8 + 0x1p-40), 0x3f81);
    assert_int_equal(f64_to_f16(65519.9999999), 0x7bff);
    assert_int_equal(f64_to_f16(65520), 0x7c00);
}

static void test_integers_round_once(void **state) {
    (void)state;
    assert_true(f64_odd_from_i64(INT64_MIN) == -0x1p63);
    assert_true(f64_odd_from_i64((1ll << 53) - 1) == 9007199254740991.0);
    assert_int_equal(f64_to_bf16(f64_odd_from_i64((1ll << 60) + (1ll << 52) + 1)), 0x5d81);
    assert_int_equal(f64_to_bf16(f64_odd_from_i64((1ll << 60) + (1ll << 52))), 0x5d80);
    assert_int_equal(f64_to_bf16(f64_odd_from_i64(-(1ll << 60) - (1ll << 52) - 1)), 0xdd81);
}

/* The upper halves of the values of the codes without a sign, as ml_dtypes 0.6.0 has them. */
static const uint16_t e4m3fn[128] = {
    0x0000, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60, 0x3c80, 0x3c90, 0x3ca0, 0x3cb0, 0x3cc0,
    0x3cd0, 0x3ce0, 0x3cf0, 0x3d00, 0x3d10, 0x3d20, 0x3d30, 0x3d40, 0x3d50, 0x3d60, 0x3d70, 0x3d80, 0x3d90,
    0x3da0, 0x3db0, 0x3dc0, 0x3dd0, 0x3de0, 0x3df0, 0x3e00, 0x3e10, 0x3e20, 0x3e30, 0x3e40, 0x3e50, 0x3e60,
    0x3e70, 0x3e80, 0x3e90, 0x3ea0, 0x3eb0, 0x3ec0, 0x3ed0, 0x3ee0, 0x3ef0, 0x3f00, 0x3f10, 0x3f20, 0x3f30,
    0x3f40, 0x3f50, 0x3f60, 0x3f70, 0x3f80, 0x3f90, 0x3fa0, 0x3fb0, 0x3fc0, 0x3fd0, 0x3fe0, 0x3ff0, 0x4000,
    0x4010, 0x4020, 0x4030, 0x4040, 0x4050, 0x4060, 0x4070, 0x4080, 0x4090, 0x40a0, 0x40b0, 0x40c0, 0x40d0,
    0x40e0, 0x40f0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170, 0x4180, 0x4190, 0x41a0,
    0x41b0, 0x41c0, 0x41d0, 0x41e0, 0x41f0, 0x4200, 0x4210, 0x4220, 0x4230, 0x4240, 0x4250, 0x4260, 0x4270,
    0x4280, 0x4290, 0x42a0, 0x42b0, 0x42c0, 0x42d0, 0x42e0, 0x42f0, 0x4300, 0x4310, 0x4320, 0x4330, 0x4340,
    0x4350, 0x4360, 0x4370, 0x4380, 0x4390, 0x43a0, 0x43b0, 0x43c0, 0x43d0, 0x43e0, 0x7fc0,
};
static const uint16_t e4m3fnuz[128] = {
    0x0000, 0x3a80, 0x3b00, 0x3b40, 0x3b80, 0x3ba0, 0x3bc0, 0x3be0, 0x3c00, 0x3c10, 0x3c20, 0x3c30, 0x3c40,
    0x3c50, 0x3c60, 0x3c70, 0x3c80, 0x3c90, 0x3ca0, 0x3cb0, 0x3cc0, 0x3cd0, 0x3ce0, 0x3cf0, 0x3d00, 0x3d10,
    0x3d20, 0x3d30, 0x3d40, 0x3d50, 0x3d60, 0x3d70, 0x3d80, 0x3d90, 0x3da0, 0x3db0, 0x3dc0, 0x3dd0, 0x3de0,
    0x3df0, 0x3e00, 0x3e10, 0x3e20, 0x3e30, 0x3e40, 0x3e50, 0x3e60, 0x3e70, 0x3e80, 0x3e90, 0x3ea0, 0x3eb0,
    0x3ec0, 0x3ed0, 0x3ee0, 0x3ef0, 0x3f00, 0x3f10, 0x3f20, 0x3f30, 0x3f40, 0x3f50, 0x3f60, 0x3f70, 0x3f80,
    0x3f90, 0x3fa0, 0x3fb0, 0x3fc0, 0x3fd0, 0x3fe0, 0x3ff0, 0x4000, 0x4010, 0x4020, 0x4030, 0x4040, 0x4050,
    0x4060, 0x4070, 0x4080, 0x4090, 0x40a0, 0x40b0, 0x40c0, 0x40d0, 0x40e0, 0x40f0, 0x4100, 0x4110, 0x4120,
    0x4130, 0x4140, 0x4150, 0x4160, 0x4170, 0x4180, 0x4190, 0x41a0, 0x41b0, 0x41c0, 0x41d0, 0x41e0, 0x41f0,
    0x4200, 0x4210, 0x4220, 0x4230, 0x4240, 0x4250, 0x4260, 0x4270, 0x4280, 0x4290, 0x42a0, 0x42b0, 0x42c0,
    0x42d0, 0x42e0, 0x42f0, 0x4300, 0x4310, 0x4320, 0x4330, 0x4340, 0x4350, 0x4360, 0x4370,
};
static const uint16_t e5m2[128] = {
    0x0000, 0x3780, 0x3800, 0x3840, 0x3880, 0x38a0, 0x38c0, 0x38e0, 0x3900, 0x3920, 0x3940, 0x3960, 0x3980,
    0x39a0, 0x39c0, 0x39e0, 0x3a00, 0x3a20, 0x3a40, 0x3a60, 0x3a80, 0x3aa0, 0x3ac0, 0x3ae0, 0x3b00, 0x3b20,
    0x3b40, 0x3b60, 0x3b80, 0x3ba0, 0x3bc0, 0x3be0, 0x3c00, 0x3c20, 0x3c40, 0x3c60, 0x3c80, 0x3ca0, 0x3cc0,
    0x3ce0, 0x3d00, 0x3d20, 0x3d40, 0x3d60, 0x3d80, 0x3da0, 0x3dc0, 0x3de0, 0x3e00, 0x3e20, 0x3e40, 0x3e60,
    0x3e80, 0x3ea0, 0x3ec0, 0x3ee0, 0x3f00, 0x3f20, 0x3f40, 0x3f60, 0x3f80, 0x3fa0, 0x3fc0, 0x3fe0, 0x4000,
    0x4020, 0x4040, 0x4060, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4120, 0x4140, 0x4160, 0x4180, 0x41a0,
    0x41c0, 0x41e0, 0x4200, 0x4220, 0x4240, 0x4260, 0x4280, 0x42a0, 0x42c0, 0x42e0, 0x4300, 0x4320, 0x4340,
    0x4360, 0x4380, 0x43a0, 0x43c0, 0x43e0, 0x4400, 0x4420, 0x4440, 0x4460, 0x4480, 0x44a0, 0x44c0, 0x44e0,
    0x4500, 0x4520, 0x4540, 0x4560, 0x4580, 0x45a0, 0x45c0, 0x45e0, 0x4600, 0x4620, 0x4640, 0x4660, 0x4680,
    0x46a0, 0x46c0, 0x46e0, 0x4700, 0x4720, 0x4740, 0x4760, 0x7f80, 0x7fc0, 0x7fc0, 0x7fc0,
};
static const uint16_t e5m2fnuz[128] = {
    0x0000, 0x3700, 0x3780, 0x37c0, 0x3800, 0x3820, 0x3840, 0x3860, 0x3880, 0x38a0, 0x38c0, 0x38e0, 0x3900,
    0x3920, 0x3940, 0x3960, 0x3980, 0x39a0, 0x39c0, 0x39e0, 0x3a00, 0x3a20, 0x3a40, 0x3a60, 0x3a80, 0x3aa0,
    0x3ac0, 0x3ae0, 0x3b00, 0x3b20, 0x3b40, 0x3b60, 0x3b80, 0x3ba0, 0x3bc0, 0x3be0, 0x3c00, 0x3c20, 0x3c40,
    0x3c60, 0x3c80, 0x3ca0, 0x3cc0, 0x3ce0, 0x3d00, 0x3d20, 0x3d40, 0x3d60, 0x3d80, 0x3da0, 0x3dc0, 0x3de0,
    0x3e00, 0x3e20, 0x3e40, 0x3e60, 0x3e80, 0x3ea0, 0x3ec0, 0x3ee0, 0x3f00, 0x3f20, 0x3f40, 0x3f60, 0x3f80,
    0x3fa0, 0x3fc0, 0x3fe0, 0x4000, 0x4020, 0x4040, 0x4060, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4120,
    0x4140, 0x4160, 0x4180, 0x41a0, 0x41c0, 0x41e0, 0x4200, 0x4220, 0x4240, 0x4260, 0x4280, 0x42a0, 0x42c0,
    0x42e0, 0x4300, 0x4320, 0x4340, 0x4360, 0x4380, 0x43a0, 0x43c0, 0x43e0, 0x4400, 0x4420, 0x4440, 0x4460,
    0x4480, 0x44a0, 0x44c0, 0x44e0, 0x4500, 0x4520, 0x4540, 0x4560, 0x4580, 0x45a0, 0x45c0, 0x45e0, 0x4600,
    0x4620, 0x4640, 0x4660, 0x4680, 0x46a0, 0x46c0, 0x46e0, 0x4700, 0x4720, 0x4740, 0x4760,
};
static const uint16_t e2m1[8] = {0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0};

typedef struct Small {
    tn_dtype dtype;
    const uint16_t *values;
    uint32_t sign, largest, infinity, nan; /* as codes; infinity: what overflow gives when not saturating */
    bool minus_zero;
} Small;

static const Small smalls[] = {
    {TN_F8E4M3FN, e4m3fn, 0x80, 0x7e, 0x7f, 0x7f, true}, {TN_F8E4M3FNUZ, e4m3fnuz, 0x80, 0x7f, 0x80, 0x80, false},
    {TN_F8E5M2, e5m2, 0x80, 0x7b, 0x7c, 0x7e, true},     {TN_F8E5M2FNUZ, e5m2fnuz, 0x80, 0x7f, 0x80, 0x80, false},
    {TN_F4E2M1, e2m1, 0x8, 0x7, 0x7, 0x8, true},
};
enum { SMALLS = sizeof smalls / sizeof *smalls };

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static void test_small_decode(void **state) {
    (void)state;
    for (int k = 0; k < SMALLS; k++) {
        const Small *s = &smalls[k];
        for (uint32_t code = 0; code < s->sign * 2; code++) {
            uint32_t sign = code & s->sign ? 0x80000000u : 0, wanted = (uint32_t)s->values[code & (s->sign - 1)] << 16;
            float value = small_float_decode(s->dtype, (uint8_t)code);
            if (wanted > 0x7f800000u || (!s->minus_zero && code == s->sign)) assert_true(isnan(value));
            else assert_int_equal(bits_of(value), wanted | sign);
        }
    }
    assert_int_equal(bits_of(small_float_decode(TN_F8E8M0, 0)), 0x00400000);
    for (uint32_t code = 1; code < 255; code++)
        assert_int_equal(bits_of(small_float_decode(TN_F8E8M0, (uint8_t)code)), code << 23);
    assert_true(isnan(small_float_decode(TN_F8E8M0, 255)));
}

static void check_small(const Small *s, float value, uint32_t code) {
    for (int saturate = 0; saturate < 2; saturate++) {
        uint32_t negative = code == 0 && !s->minus_zero ? 0 : s->sign | code;
        assert_int_equal(small_float_encode(s->dtype, value, saturate), code);
        assert_int_equal(small_float_encode(s->dtype, -value, saturate), negative);
    }
}

static void test_small_encode(void **state) {
    (void)state;
    for (int k = 0; k < SMALLS; k++) {
        const Small *s = &smalls[k];
        for (uint32_t code = 0; code < s->largest; code++) {
            float below = small_float_decode(s->dtype, (uint8_t)code);
            float above = small_float_decode(s->dtype, (uint8_t)(code + 1)), middle = below + (above - below) / 2;
            check_small(s, below, code);
            check_small(s, middle, code + (code & 1));
            check_small(s, nextafterf(middle, 0), code);
            check_small(s, nextafterf(middle, FLT_MAX), code + 1);
            assert_int_equal(small_float_encode(s->dtype, (double)middle + (double)middle * 1e-15, true), code + 1);
        }
        check_small(s, small_float_decode(s->dtype, (uint8_t)s->largest), s->largest);
        check_small(s, FLT_TRUE_MIN, 0);
    }
}

static void test_small_overflow(void **state) {
    (void)state;
    for (int k = 0; k < SMALLS; k++) {
        const Small *s = &smalls[k];
        const float huge[] = {1e6f, FLT_MAX, INFINITY};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(small_float_encode(s->dtype, huge[i], true), s->largest);
            assert_int_equal(small_float_encode(s->dtype, -huge[i], true), s->sign | s->largest);
            assert_int_equal(small_float_encode(s->dtype, huge[i], false), s->infinity);
            assert_int_equal(small_float_encode(s->dtype, -huge[i], false), s->sign | s->infinity);
        }
        assert_int_equal(small_float_encode(s->dtype, NAN, true), s->nan);
        assert_int_equal(small_float_encode(s->dtype, NAN, false), s->nan);
    }
    /* The tie above the largest number belongs to it where its code is even. */
    assert_int_equal(small_float_encode(TN_F8E4M3FN, 464, false), 0x7e);
    assert_int_equal(small_float_encode(TN_F8E4M3FN, 465, false), 0x7f);
    assert_int_equal(small_float_encode(TN_F8E4M3FN, 465, true), 0x7e);
    assert_int_equal(small_float_encode(TN_F8E4M3FNUZ, 248, false), 0x80);
    assert_int_equal(small_float_encode(TN_F8E4M3FNUZ, 247.9f, false), 0x7f);
    assert_int_equal(small_float_encode(TN_F8E5M2, 61440, false), 0x7c);
    assert_int_equal(small_float_encode(TN_F8E5M2, 61439, false), 0x7b);
    assert_int_equal(small_float_encode(TN_F8E5M2FNUZ, 61440, false), 0x80);
}

static void test_e8m0_rounds_up(void **state) {
    (void)state;
    static const struct {
        float value;
        int saturating, other;
    } rows[] = {
        {1, 127, 127},          {1.0000001f, 128, 128}, {2, 128, 128},
        {1.5f, 128, 128},       {0.75f, 127, 127},      {0, 0, 255},
        {0x1p-127f, 0, 0},      {0x1p-128f, 0, 255},    {0x1.8p-127f, 1, 1},
        {0x1p-126f, 1, 1},      {FLT_TRUE_MIN, 0, 255}, {0x1p127f, 254, 254},
        {0x1.1p127f, 254, 255}, {FLT_MAX, 254, 255},    {INFINITY, 254, 255},
        {-1, 255, 255},         {NAN, 255, 255},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(small_float_encode(TN_F8E8M0, rows[i].value, true), rows[i].saturating);
        assert_int_equal(small_float_encode(TN_F8E8M0, rows[i].value, false), rows[i].other);
    }
    for (int code = 0; code < 255; code++)
        assert_int_equal(small_float_encode(TN_F8E8M0, small_float_decode(TN_F8E8M0, (uint8_t)code), true), code);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_every_code),      cmocka_unit_test(test_bf16_every_code),
        cmocka_unit_test(test_half_ties),           cmocka_unit_test(test_doubles_round_once),
        cmocka_unit_test(test_integers_round_once), cmocka_unit_test(test_small_decode),
        cmocka_unit_test(test_small_encode),        cmocka_unit_test(test_small_overflow),
        cmocka_unit_test(test_e8m0_rounds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
