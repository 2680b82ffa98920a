/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, GRU and RNN on the CPU against their reference kernel. */
#include "test_cpu_common.h"

extern const KernelDesc kernel_cpu_rnn;

static const char *const ops[] = {"LSTM", "GRU", "RNN"};
static const int gates[] = {4, 3, 1};
static const int64_t sizes[] = {1, 3, 5, 8, 16, 17, 31, 48, 64, 100};
static const char *const directions[] = {"forward", "reverse", "bidirectional"};
#define PICK(list) ((list)[random_below((int64_t)(sizeof(list) / sizeof *(list)))])

static void random_case(Context *ctx, Case *k, int n) {
    (void)n;
    int op = (int)random_below(3), way = (int)random_below(3);
    bool first = random_chance(30), linear = random_chance(50), fixed = random_chance(60);
    int64_t d = way == 2 ? 2 : 1, steps = random_from(1, 9), batch = random_chance(50) ? 1 : random_from(1, 30);
    int64_t input = PICK(sizes), hidden = PICK(sizes), rows = hidden * gates[op];
    if (random_chance(3)) steps = 0;
    if (random_chance(3)) batch = 0;
    if (random_chance(3)) input = 0;
    *k = (Case){.ctx = ctx, .n_in = op == 0 ? 7 : 6, .n_out = op == 0 ? 3 : 2, .has = {true, true, true}};
    const int64_t x[] = {first ? batch : steps, first ? steps : batch, input};
    const int64_t w[] = {d, rows, input}, r[] = {d, rows, hidden}, b[] = {d, 2 * rows};
    const int64_t state[] = {first ? batch : d, first ? d : batch, hidden};
    k->in[0] = random_floats(ctx, 3, x, 1);
    k->in[1] = random_floats(ctx, 3, w, 0.5f);
    k->in[2] = random_floats(ctx, 3, r, 0.3f);
    k->fixed[1] = k->fixed[2] = fixed;
    k->in[3] = random_floats(ctx, 2, b, 0.5f);
    k->has[3] = random_chance(70);
    if (random_chance(30)) {
        k->in[4] = some_integers(ctx, TN_I32, batch, 0, steps);
        k->has[4] = true;
    }
    for (int i = 5; i < k->n_in; i++) {
        k->in[i] = random_floats(ctx, 3, state, 1);
        k->has[i] = random_chance(60);
    }
    for (int i = 0; i < k->n_out; i++) k->wanted[i] = random_chance(80);
    k->wanted[0] |= !k->wanted[1];
    char attrs[300];
    int at = snprintf(attrs, sizeof attrs, "hidden_size=%d, direction=\"%s\", layout=%d", (int)hidden, directions[way],
                      first);
    if (op == 1) snprintf(attrs + at, sizeof attrs - (size_t)at, ", linear_before_reset=%d", linear);
    case_node(k, ops[op], attrs);
}

static void test_random(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int n = 0; n < 300; n++) case_random(ctx, n, (uint64_t)n * 104729 + 5, random_case, &kernel_cpu_rnn, 1e-5);
    context_unref(ctx);
}

/* A large layer of one sequence, whose products are shared out column by column. */
static void test_large(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int op = 0; op < 3; op++) {
        Case k = {.ctx = ctx, .n_in = 3, .n_out = 1, .has = {1, 1, 1}, .fixed = {0, 1, 1}, .wanted = {1}};
        int64_t n = 300 * gates[op];
        random_state = 4;
        k.in[0] = random_floats(ctx, 3, (const int64_t[]){4, 1, 100}, 1);
        k.in[1] = random_floats(ctx, 3, (const int64_t[]){1, n, 100}, 0.1f);
        k.in[2] = random_floats(ctx, 3, (const int64_t[]){1, n, 300}, 0.1f);
        case_node(&k, ops[op], "hidden_size=300");
        case_results(&k, k.want, true);
        OK(case_run(&k, NULL, NULL, k.want));
        case_check(&k, &kernel_cpu_rnn, 1e-5);
        case_free(&k);
    }
    context_unref(ctx);
}

/* Attributes that are left to other kernels; the last one is not. */
static void test_declined(void **state) {
    static const char *const attrs[] = {"clip=1.5", "input_forget=1", "activations=[\"Sigmoid\", \"Relu\", \"Tanh\"]",
                                        "activations=[\"sigmoid\", \"Tanh\", \"tanh\"]"};
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int n = 0; n < 5; n++) {
        Case k = {.ctx = ctx, .n_in = n == 4 ? 8 : 3, .n_out = 1, .has = {1, 1, 1}};
        k.in[0] = random_floats(ctx, 3, (const int64_t[]){2, 1, 3}, 1);
        k.in[1] = random_floats(ctx, 3, (const int64_t[]){1, 16, 3}, 1);
        k.in[2] = random_floats(ctx, 3, (const int64_t[]){1, 16, 4}, 1);
        k.in[7] = random_floats(ctx, 2, (const int64_t[]){1, 12}, 1);
        k.has[7] = n == 4;
        case_node(&k, "LSTM", n < 4 ? attrs[n] : "");
        assert_int_equal(case_matches(&k, &kernel_cpu_rnn), n == 3);
        case_free(&k);
    }
    context_unref(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_declined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
