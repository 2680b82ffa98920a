/* SPDX-License-Identifier: Apache-2.0 */
/* The random ops draw from the distributions that they name, the same numbers each time, others for another seed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include "eval/eval.h"

#include <cmocka.h>

#define N 100000

/* The result of a graph in text as doubles. */
static double *draw(const char *text, int64_t *n) {
    Context *ctx;
    Model *model;
    Tensor y;
    assert_int_equal(context_new(NULL, NULL, &ctx), TN_OK);
    if (model_parse(ctx, str_of(text), NULL, STR("test"), &model) != TN_OK || infer_model(model) != TN_OK ||
        eval_graph(ctx, model->main, NULL, &y) != TN_OK)
        fail_msg("%s", diag_text());
    *n = tensor_count(&y);
    double *out = calloc((size_t)*n, sizeof *out);
    load_f64(out, y.dtype, y.data, y.offset, 1, *n);
    tensor_release(&y);
    model_free(model);
    context_unref(ctx);
    return out;
}

static void moments(const double *x, int64_t n, double *mean, double *variance, double *fourth) {
    *mean = *variance = *fourth = 0;
    for (int64_t i = 0; i < n; i++) *mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = x[i] - *mean;
        *variance += d * d / (double)n;
        *fourth += d * d * d * d / (double)n;
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov's distance to a distribution function; 1.95 / sqrt(n) is passed by all but one in 1,000. */
static double distance(double *x, int64_t n, double (*cdf)(double)) {
    double most = 0;
    qsort(x, (size_t)n, sizeof *x, ascending);
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(cdf(x[i]) - (double)i / (double)n));
        most = fmax(most, fabs(cdf(x[i]) - (double)(i + 1) / (double)n));
    }
    return most;
}

static double uniform_cdf(double x) { return (x + 2) / 5; }
static double normal_cdf(double x) { return 0.5 * erfc(-(x - 1) / (3 * sqrt(2))); }

static void test_uniform(void **state) {
    (void)state;
    int64_t n;
    double mean, variance, fourth,
        *x = draw("tn 1\ngraph @g() -> (%y) {\n  %y = RandomUniform() {shape=[100000], low=-2.0, "
                  "high=3.0, seed=1.0}\n}\n",
                  &n);
    moments(x, n, &mean, &variance, &fourth);
    assert_true(n == N && fabs(mean - 0.5) < 0.02 && fabs(variance - 25.0 / 12) < 0.03);
    assert_true(distance(x, n, uniform_cdf) < 1.95 / sqrt(N));
    assert_true(x[0] >= -2 && x[n - 1] < 3);
    free(x);
}

static void test_normal(void **state) {
    (void)state;
    int64_t n;
    double mean, variance, fourth,
        *x = draw("tn 1\ngraph @g() -> (%y) {\n  %y = RandomNormal() {shape=[100000], mean=1.0, "
                  "scale=3.0, seed=2.0}\n}\n",
                  &n);
    moments(x, n, &mean, &variance, &fourth);
    assert_true(fabs(mean - 1) < 0.04 && fabs(variance - 9) < 0.2);
    assert_true(fabs(fourth / (variance * variance) - 3) < 0.1);
    assert_true(distance(x, n, normal_cdf) < 1.95 / sqrt(N));
    free(x);
}

static void test_bernoulli(void **state) {
    (void)state;
    int64_t n;
    double mean, variance, fourth,
        *x = draw("tn 1\ngraph @g() -> (%y) {\n  %p = Const {data = f32[100000] 0.3}\n  %y = "
                  "Bernoulli(%p) {seed=3.0}\n}\n",
                  &n);
    moments(x, n, &mean, &variance, &fourth);
    assert_true(fabs(mean - 0.3) < 0.006);
    free(x);
}

static void test_multinomial(void **state) {
    (void)state;
    int64_t n;
    double counts[3] = {0}, *x = draw("tn 1\ngraph @g() -> (%y) {\n  %p = Const {data = f32[1,3] [0.0, 0.6931472, "
                                      "1.0986123]}\n  %y = Multinomial(%p) {sample_size=60000, seed=4.0}\n}\n",
                                      &n);
    assert_int_equal(n, 60000);
    for (int64_t i = 0; i < n; i++) counts[(int)x[i]]++;
    double chi = 0;
    for (int k = 0; k < 3; k++) chi += pow(counts[k] - 10000.0 * (k + 1), 2) / (10000.0 * (k + 1));
    assert_true(chi < 13.8); /* two degrees of freedom: all but one in 1,000 */
    free(x);
}

static void test_seeds(void **state) {
    (void)state;
    static const char text[] = "tn 1\ngraph @g() -> (%y) {\n  %y = RandomNormal() {shape=[64], seed=5.0}\n}\n";
    static const char other[] = "tn 1\ngraph @g() -> (%y) {\n  %y = RandomNormal() {shape=[64], seed=6.0}\n}\n";
    int64_t n;
    double *a = draw(text, &n), *b = draw(text, &n), *c = draw(other, &n);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    assert_memory_not_equal(a, c, (size_t)n * sizeof *a);
    free(a);
    free(b);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_uniform), cmocka_unit_test(test_normal),
                                       cmocka_unit_test(test_bernoulli), cmocka_unit_test(test_multinomial),
                                       cmocka_unit_test(test_seeds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
