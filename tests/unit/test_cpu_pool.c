/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of the CPU against the reference: random windows, sizes and ways to lie in memory; NaNs and infinities. */
#include "test_cpu_conv_common.h"

static void put_list(char *text, size_t room, const char *name, int64_t lo, int64_t hi, int n) {
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, room - at, "%s%s=[", at ? ", " : "", name);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, room - at, i ? ",%lld" : "%lld", (long long)pick(lo, hi));
    snprintf(text + at, room - at, "]");
}

static void spoil(Tensor *x) {
    static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f};
    int64_t n = tensor_count(x), step = pick(1, 9);
    for (int64_t i = 0; tensor_is_dense(x) && i < n; i += step)
        memcpy((char *)tensor_bytes(x) + 4 * i, &special[pick(0, 4)], 4);
}

static void check(const char *op, int rank, const char *attrs, bool special) {
    int64_t dims[5] = {pick(0, 20) ? pick(1, 3) : 0, pick(0, 20) ? pick(1, 70) : 0};
    for (int d = 0; d < rank; d++) dims[2 + d] = pick(4, rank == 1 ? 200 : rank == 2 ? 20 : 7);
    if (pick(0, 9) == 0) dims[1] = 1;
    Tensor x = random_tensor(rank + 2, dims, special ? ROW_MAJOR : (Lies)pick(0, N_LIES - 1));
    if (special) spoil(&x);
    const Tensor *in[] = {&x};
    char what[600];
    snprintf(what, sizeof what, "%s of %lldx%lldx%lldx%lldx%lld, %s", op, (long long)dims[0], (long long)dims[1],
             (long long)dims[2], (long long)dims[3], (long long)dims[4], attrs);
    Model *model = model_of(op, in, 1, attrs);
    Case k = {kernel_named("cpu_pool"), model, in, 1, what};
    assert_true(check_case(&k, 0, 1e-5));
    model_free(model);
    tensor_release(&x);
}

/* Windows fit: sizes are 4 and more, spans at most 4 less what pads bring. */
static void test_windows(void **state) {
    (void)state;
    for (int i = 0; i < 500; i++) {
        bool average = pick(0, 1), dilated = pick(0, 2) == 0;
        int rank = (int)(pick(0, 2) ? 2 : pick(1, 3));
        char attrs[400] = "";
        put_list(attrs, sizeof attrs, "kernel_shape", 1, dilated ? 2 : 4, rank);
        put_list(attrs, sizeof attrs, "strides", 1, 3, rank);
        if (dilated) put_list(attrs, sizeof attrs, "dilations", 1, 3, rank);
        if (pick(0, 4)) put_list(attrs, sizeof attrs, "pads", 0, 2, 2 * rank);
        else strcat(attrs, pick(0, 1) ? ", auto_pad=\"SAME_UPPER\"" : ", auto_pad=\"SAME_LOWER\"");
        if (pick(0, 1)) strcat(attrs, ", ceil_mode=1");
        if (average && pick(0, 1)) strcat(attrs, ", count_include_pad=1");
        check(average ? "AveragePool" : "MaxPool", rank, attrs, !average && pick(0, 2) == 0);
    }
}

static void test_global(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        bool average = pick(0, 1);
        check(average ? "GlobalAveragePool" : "GlobalMaxPool", (int)pick(1, 3), "", !average && pick(0, 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_global),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
