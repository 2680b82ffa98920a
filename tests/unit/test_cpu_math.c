/* SPDX-License-Identifier: Apache-2.0 */
/* The vectorised functions on all float16 values and on a sample of float32 ones. */
#include "test_cpu_math.h"

enum { N = 1 << 17 };
static float x[N + 8], y[N + 8], again[N + 8];

static void test_functions(void **state) {
    (void)state;
    for (int i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)i * 32771u; /* odd, so all are different */
        if (i < 1 << 16) x[i] = f16_to_f32((uint16_t)i);
        else memcpy(&x[i], &bits, sizeof bits);
    }
    bool good = true;
    CpuLevel best = cpu_level_set(CPU_AVX512);
    for (int k = 0; k < MATH_CASES; k++)
        for (CpuLevel level = CPU_BASELINE; level <= best; level++) {
            MathWorst worst = {0};
            cpu_level_set(level);
            math_run(&math_cases[k], ISA_PICK(body_table), x, y, N);
            for (int i = 0; i < N; i++)
                math_note(&math_cases[k], x[i], y[i], math_cases[k].exact((double)x[i]), &worst);
            good &= math_is_good(&math_cases[k], &worst);
        }
    assert_true(good);
}

/* What a number becomes does not depend on where in a row it stands. */
static void test_places(void **state) {
    (void)state;
    CpuLevel best = cpu_level_set(CPU_AVX512);
    for (CpuLevel level = CPU_BASELINE; level <= best; level++)
        for (int k = 0; k < MATH_CASES; k++) {
            cpu_level_set(level);
            math_run(&math_cases[k], ISA_PICK(body_table), x, y, 4096);
            for (int from = 1; from < 40; from++) {
                math_run(&math_cases[k], ISA_PICK(body_table), x + from, again, 4096 - from * 3);
                for (int i = 0; i < 4096 - from * 3; i++)
                    assert_true(y[from + i] == again[i] || (isnan(y[from + i]) && isnan(again[i])));
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions), cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
