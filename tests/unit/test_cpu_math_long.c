/* SPDX-License-Identifier: Apache-2.0 */
/* The vectorised functions on all float32 values, and the table of their errors.

       test_cpu_math_long [every how many values] [function, or "2/5": the second fifth of them] */
#include "test_cpu_math.h"

#include <pthread.h>
#include <unistd.h>

enum { CHUNK = 1 << 14, MOST_LEVELS = 3 };

static uint32_t stride = 1;
static const char *only;
static atomic_uint_fast64_t next_chunk;
static MathWorst worst[MATH_CASES][MOST_LEVELS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int current;
static const BodyTable *tables[MOST_LEVELS]; /* NULL: not on this processor */

static void keep_worst(const MathWorst *mine, MathWorst *w) {
    if (mine->units > w->units) w->units = mine->units, w->units_at = mine->units_at;
    if (mine->absolute > w->absolute) w->absolute = mine->absolute, w->absolute_at = mine->absolute_at;
    if (mine->wrong) w->wrong = true, w->wrong_at = mine->wrong_at;
}

/* What is exact is computed once for all levels. */
static void *work(void *arg) {
    const MathCase *c = &math_cases[current];
    float x[CHUNK], y[CHUNK];
    double *exact = malloc(CHUNK * sizeof *exact);
    MathWorst mine[MOST_LEVELS] = {0};
    uint64_t all = (((uint64_t)1 << 32) + stride - 1) / stride;
    (void)arg;
    for (;;) {
        uint64_t first = atomic_fetch_add(&next_chunk, 1) * CHUNK;
        if (first >= all) break;
        int n = all - first < CHUNK ? (int)(all - first) : CHUNK;
        for (int i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)((first + (uint64_t)i) * stride);
            memcpy(&x[i], &bits, sizeof bits);
            exact[i] = c->exact((double)x[i]);
        }
        for (int level = 0; level < MOST_LEVELS; level++) {
            if (!tables[level]) continue;
            math_run(c, tables[level], x, y, n);
            for (int i = 0; i < n; i++) math_note(c, x[i], y[i], exact[i], &mine[level]);
        }
    }
    free(exact);
    pthread_mutex_lock(&lock);
    for (int level = 0; level < MOST_LEVELS; level++) keep_worst(&mine[level], &worst[current][level]);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void run_all(void) {
    pthread_t threads[64];
    int n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (n > 64) n = 64;
    atomic_store(&next_chunk, 0);
    for (int i = 0; i < n; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static bool is_asked_for(int k) {
    int part, parts;
    if (!only) return true;
    if (sscanf(only, "%d/%d", &part, &parts) == 2 && parts > 0) return k % parts == part - 1;
    return strcmp(only, math_cases[k].name) == 0;
}

static void test_all(void **state) {
    (void)state;
    bool good = true;
    CpuLevel best = cpu_level_set(CPU_AVX512);
    for (CpuLevel level = CPU_BASELINE; level <= best; level++) {
        cpu_level_set(level);
        tables[level] = ISA_PICK(body_table);
    }
    for (current = 0; current < MATH_CASES; current++) {
        if (!is_asked_for(current)) continue;
        run_all();
        print_message("| %s |", math_cases[current].name);
        for (CpuLevel level = CPU_BASELINE; level <= best; level++) {
            const MathWorst *w = &worst[current][level];
            cpu_level_set(level);
            print_message(" %.2f (%.9g) |", w->units, (double)w->units_at);
            good &= math_is_good(&math_cases[current], w);
        }
        print_message("\n");
    }
    assert_true(good);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    if (argc > 1) stride = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2) only = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
