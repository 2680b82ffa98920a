/* SPDX-License-Identifier: Apache-2.0 */
/* Both RotaryEmbedding ops on the CPU against their reference kernels. */
#include "test_cpu_common.h"

extern const KernelDesc kernel_cpu_rotary;

static const int64_t halves[] = {1, 3, 4, 8, 15, 16, 17, 32, 48};

/* Operands of ONNX's op; com.microsoft's has positions behind the data, and always. */
static void random_case(Context *ctx, Case *k, int n) {
    bool ours = n % 2;
    bool split = random_chance(50), rows = ours || random_chance(50);
    int64_t batch = random_from(1, 3), steps = random_from(1, 9), heads = random_from(1, 4);
    int64_t half = halves[random_below(9)], rest = random_chance(30) ? random_from(1, 9) : 0, size = 2 * half + rest;
    int64_t longest = steps + random_from(0, 20);
    if (random_chance(3)) batch = 0;
    *k = (Case){.ctx = ctx, .n_in = 4, .n_out = 1, .has = {true, true, true}, .wanted = {true}, .dense = true};
    const int64_t four[] = {batch, heads, steps, size}, three[] = {batch, steps, heads * size};
    const int64_t shared[] = {longest, half}, own[] = {batch, steps, half};
    int at = ours ? 2 : 1, positions = ours ? 1 : 3;
    k->in[0] = split ? random_floats(ctx, 4, four, 1) : random_floats(ctx, 3, three, 1);
    for (int i = at; i < at + 2; i++)
        k->in[i] = rows ? random_floats(ctx, 2, shared, 1) : random_floats(ctx, 3, own, 1), k->has[i] = true;
    if (rows) {
        const int64_t dims[] = {batch, steps};
        bool one = ours && random_chance(50);
        Tensor flat = some_integers(ctx, TN_I64, one ? 1 : batch * steps, 0, one ? longest - steps : longest - 1);
        if (!one) flat.rank = 2, memcpy(flat.dims, dims, sizeof dims), flat.strides[0] = steps, flat.strides[1] = 1;
        k->in[positions] = flat;
        k->has[positions] = true;
    }
    char attrs[200];
    snprintf(attrs, sizeof attrs, "interleaved=%d, num_heads=%d, rotary_embedding_dim=%d", (int)random_chance(50),
             split ? 0 : (int)heads, rest || random_chance(50) ? (int)(2 * half) : 0);
    case_node(k, ours ? "com.microsoft.RotaryEmbedding" : "RotaryEmbedding", attrs);
}

static void test_random(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int n = 0; n < 300; n++) case_random(ctx, n, (uint64_t)n * 31337 + 5, random_case, &kernel_cpu_rotary, 1e-6);
    context_unref(ctx);
}

static void test_positions(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int64_t at = -1; at < 5; at++) {
        Case k = {.ctx = ctx, .n_in = 4, .n_out = 1, .has = {1, 1, 1, 1}, .wanted = {1}};
        k.in[0] = random_floats(ctx, 4, (const int64_t[]){1, 2, 1, 4}, 1);
        k.in[1] = random_floats(ctx, 2, (const int64_t[]){4, 2}, 1);
        k.in[2] = random_floats(ctx, 2, (const int64_t[]){4, 2}, 1);
        k.in[3] = some_integers(ctx, TN_I64, 1, at, at);
        k.in[3].rank = 2, k.in[3].dims[0] = k.in[3].dims[1] = k.in[3].strides[0] = k.in[3].strides[1] = 1;
        case_node(&k, "RotaryEmbedding", "");
        case_results(&k, k.want, true);
        assert_int_equal(case_run(&k, &kernel_cpu_rotary, NULL, k.want), at < 0 || at > 3 ? TN_OUT_OF_RANGE : TN_OK);
        case_free(&k);
    }
    context_unref(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_positions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
