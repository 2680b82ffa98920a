/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile is made of: the machine's measured limits, on every instruction set that this machine has, and what a
   session says of its instructions: times, bytes, operands, kernels that were passed over. */
#include "test_ir_common.h"

#include <math.h>

#include <tenon/passes.h>

#include "backends/cpu/isa_int.h"
#include "backends/cpu/peak_int.h"
#include "session/session.h"

ISA_TABLE(PeakTable, peak_table);

/* ---- the machine ------------------------------------------------------------------------------------------------ */

enum { FLOATS = 16 * PEAK_BLOCK };

/* The loops do what is counted. */
static void check_loops(void) {
    static float from[FLOATS], to[FLOATS];
    const PeakTable *table = ISA_PICK(peak_table);
    for (int i = 0; i < FLOATS; i++) {
        from[i] = (float)(i % 7);
        to[i] = -1;
    }
    float sum = 0;
    for (int i = 0; i < FLOATS; i++) sum += from[i]; /* whole numbers: exact in any order */
    assert_true(table->read(from, FLOATS) == sum);
    table->copy(to, from, FLOATS);
    assert_memory_equal(to, from, sizeof to);
    /* x * 3/4 + 1/4 goes to 1 in each of the sums. */
    double sums = (double)table->flops_per_turn / 2;
    assert_true(fabs(table->multiply(1000, (const float[]){0.75f, 0.25f}) - sums) < 1e-3);
    /* Without an addition a turn is a multiplication: 0 + 1 + ... + 11, each on every lane, times 2^-1. */
    double lanes = sums / 12;
    assert_true(fabs(table->multiply(1, (const float[]){0.5f, 0}) - 33 * lanes) < 1e-3);
}

static void test_loops(void **state) {
    (void)state;
    CpuLevel best = cpu_level();
    for (CpuLevel level = CPU_BASELINE; level <= best; level++) {
        assert_int_equal(cpu_level_set(level), level);
        check_loops();
    }
}

static void assert_rate(double rate) { assert_true(rate > 1e6 && rate < 1e15); }

static void test_peaks(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 16 << 10, 3000001};
    for (int threads = 1; threads <= 3; threads++) {
        tn_context *ctx;
        OK(tn_context_create(&(tn_context_options){.threads = threads}, &ctx));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            tn_peak peak;
            OK(tn_measure_peak(ctx, sizes[i], &peak));
            assert_rate(peak.flops);
            assert_rate(peak.read);
            assert_rate(peak.copy);
            assert_string_equal(peak.isa, cpu_level_name(cpu_level()));
        }
        tn_context_release(ctx);
    }
}

static void test_no_peak(void **state) {
    (void)state;
    TestHeap heap;
    tn_context *ctx;
    tn_peak peak;
    test_heap_init(&heap);
    OK(tn_context_create(&(tn_context_options){.threads = 1, .allocator = heap.allocator}, &ctx));
    assert_int_equal(tn_measure_peak(NULL, 0, &peak), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_measure_peak(ctx, 0, NULL), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_measure_peak(ctx, SIZE_MAX, &peak), TN_OUT_OF_MEMORY);
    heap.fail_at = heap.calls + 1;
    assert_int_equal(tn_measure_peak(ctx, 4096, &peak), TN_OUT_OF_MEMORY);
    tn_context_release(ctx);
    assert_int_equal(heap.living, 0);
}

/* ---- instructions ----------------------------------------------------------------------------------------------- */

static const char net[] = "tn 1\n"
                          "graph @net(%x: f32[8,16], %w: f32[16,4], %table: f32[100,4], %ids: i64[3], %one: f32[1,4])\n"
                          "    -> (%y, %g, %t, %v) {\n"
                          "  %m = MatMul(%x, %w)\n  %y = Add(%m, %m)\n  %g = Gather(%table, %ids) {axis=0}\n"
                          "  %t = Transpose(%x) {perm=[1,0]}\n  %wide = Expand(%one, i64[2] [8, 4])\n"
                          "  %v = Mul(%m, %wide)\n}\n";
enum { N_IN = 5, N_OUT = 4 };

typedef struct Fix {
    tn_context *ctx;
    tn_model *model;
    tn_session *session;
    tn_tensor *in[N_IN], *out[N_OUT];
} Fix;

static void begin(Fix *f) {
    const tn_pass_settings as_it_is = {.opt_level = TN_OPT_0};
    *f = (Fix){0};
    OK(tn_context_create(NULL, &f->ctx));
    OK(tn_model_load_memory(f->ctx, net, strlen(net), NULL, NULL, NULL, &f->model));
    OK(tn_session_create(f->model, &(tn_session_options){.passes = &as_it_is}, &f->session));
    for (size_t i = 0; i < N_IN; i++) {
        tn_value_info info;
        OK(tn_session_input(f->session, i, &info));
        OK(tn_tensor_create(f->ctx, info.dtype, info.rank, info.dims, &f->in[i]));
    }
}

static void end(Fix *f) {
    for (size_t i = 0; i < N_IN; i++) tn_tensor_release(f->in[i]);
    for (size_t i = 0; i < N_OUT; i++) tn_tensor_release(f->out[i]);
    tn_session_release(f->session);
    tn_model_release(f->model);
    tn_context_release(f->ctx);
}

static void run(Fix *f, bool profile) {
    for (size_t i = 0; i < N_OUT; i++) {
        tn_tensor_release(f->out[i]);
        f->out[i] = NULL;
    }
    OK(tn_session_run(f->session, &(tn_run_options){.profile = profile}, (const tn_tensor *const *)f->in, N_IN, f->out,
                      N_OUT));
}

static size_t find(const Fix *f, const char *op, tn_instruction_info *info) {
    tn_session_info all;
    OK(tn_session_get_info(f->session, &all));
    for (size_t i = 0; i < all.n_instructions; i++) {
        OK(tn_session_instruction(f->session, i, info));
        if (strcmp(info->op, op) == 0) return i;
    }
    assert_string_equal(op, "an instruction");
    return 0;
}

static void assert_bytes(const Fix *f, const char *op, uint64_t read, uint64_t written, uint64_t moved) {
    tn_instruction_info info;
    find(f, op, &info);
    if (info.bytes_read != read || info.bytes_written != written || info.moved_bytes != moved)
        print_error("%s: %llu %llu %llu\n", op, (unsigned long long)info.bytes_read,
                    (unsigned long long)info.bytes_written, (unsigned long long)info.moved_bytes);
    assert_int_equal(info.bytes_read, read);
    assert_int_equal(info.bytes_written, written);
    assert_int_equal(info.moved_bytes, moved);
}

static void test_bytes(void **state) {
    (void)state;
    Fix f;
    begin(&f);
    assert_bytes(&f, "MatMul", (8 * 16 + 16 * 4) * 4, 8 * 4 * 4, 0);
    assert_bytes(&f, "Add", 8 * 4 * 4, 8 * 4 * 4, 0);                    /* one operand, read twice */
    assert_bytes(&f, "Gather", 3 * 4 * 4 + 3 * 8, 3 * 4 * 4, 3 * 4 * 4); /* of the table what is taken */
    assert_bytes(&f, "Transpose", 8 * 16 * 4, 8 * 16 * 4, 8 * 16 * 4);
    assert_bytes(&f, "Mul", (8 * 4 + 4) * 4, 8 * 4 * 4, 0); /* a broadcast shows its elements more than once */
    end(&f);
}

static void test_times(void **state) {
    (void)state;
    Fix f;
    tn_instruction_info first, second;
    begin(&f);
    run(&f, false);
    find(&f, "MatMul", &first);
    assert_true(first.nanoseconds == 0 && first.began == 0);
    uint64_t before = monotonic_ns();
    run(&f, true);
    uint64_t after = monotonic_ns();
    find(&f, "MatMul", &first);
    find(&f, "Mul", &second);
    assert_true(before <= first.began && first.began + first.nanoseconds <= second.began);
    assert_true(second.nanoseconds > 0 && second.began + second.nanoseconds <= after);
    assert_true(first.flops == 2.0 * 8 * 4 * 16);
    end(&f);
}

static void assert_value(const Fix *f, size_t i, size_t k, const char *name, int64_t rows, int64_t columns) {
    tn_value_info info;
    OK(tn_session_instruction_value(f->session, i, k, &info));
    assert_string_equal(info.name, name);
    assert_true(info.dtype == TN_F32 && info.rank == 2 && info.dims[0] == rows && info.dims[1] == columns);
}

static void test_values(void **state) {
    (void)state;
    Fix f;
    tn_value_info value;
    tn_instruction_info info;
    begin(&f);
    size_t i = find(&f, "MatMul", &info);
    assert_true(info.n_operands == 2 && info.n_results == 1);
    assert_value(&f, i, 0, "x", 8, 16);
    assert_value(&f, i, 1, "w", 16, 4);
    assert_value(&f, i, 2, "m", 8, 4);
    assert_int_equal(tn_session_instruction_value(f.session, i, 3, &value), TN_OUT_OF_RANGE);
    assert_int_equal(tn_session_instruction_value(f.session, 1000, 0, &value), TN_OUT_OF_RANGE);
    assert_int_equal(tn_session_instruction_value(f.session, i, 0, NULL), TN_INVALID_ARGUMENT);
    end(&f);
}

static void test_choices(void **state) {
    (void)state;
    Fix f;
    tn_instruction_info info;
    tn_kernel_choice choice;
    begin(&f);
    size_t i = find(&f, "MatMul", &info), n = 0, n_chosen = 0;
    int priority = INT32_MAX;
    for (; tn_session_kernel(f.session, i, n, &choice) == TN_OK; n++) {
        assert_true(choice.priority <= priority);
        assert_true(choice.asked == (n_chosen == 0));
        if (choice.chosen) assert_string_equal(choice.kernel, info.kernel);
        n_chosen += choice.chosen;
        priority = choice.priority;
    }
    assert_true(n >= 1 && n_chosen == 1);
    assert_string_equal(choice.kernel, "reference_any"); /* the end of each list */
    assert_int_equal(tn_session_kernel(f.session, i, n, &choice), TN_OUT_OF_RANGE);
    i = find(&f, "Transpose", &info);
    assert_string_equal(info.kernel, "raster");
    assert_int_equal(tn_session_kernel(f.session, i, 0, &choice), TN_OUT_OF_RANGE);
    assert_int_equal(tn_session_kernel(f.session, i, 0, NULL), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_session_kernel(f.session, 1000, 0, &choice), TN_OUT_OF_RANGE);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),   cmocka_unit_test(test_peaks), cmocka_unit_test(test_no_peak),
        cmocka_unit_test(test_bytes),   cmocka_unit_test(test_times), cmocka_unit_test(test_values),
        cmocka_unit_test(test_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
