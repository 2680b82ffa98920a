/* SPDX-License-Identifier: Apache-2.0 */
/* The pool, from one thread and from many, within itself and after fork. Contexts and their log. */
#include <math.h>
#include <pthread.h>
#include <pthreadpool.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_base_alloc.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifndef __SANITIZE_THREAD__
#define CAN_START_THREADS_AFTER_FORK
#endif

enum { ITEMS = 100003 };

typedef struct Counts {
    int *counts;
    Pool *pool;
    atomic_int ranges, elsewhere;
    pthread_t caller;
} Counts;

static void count_range(void *arg, int64_t begin, int64_t end) {
    Counts *c = arg;
    assert(begin < end);
    for (int64_t i = begin; i < end; i++) c->counts[i]++;
    atomic_fetch_add(&c->ranges, 1);
    if (!pthread_equal(pthread_self(), c->caller)) atomic_fetch_add(&c->elsewhere, 1);
}

/* How many ranges there were; each item must have been counted once. */
static int run_counts(Pool *pool, int64_t n, double cost) {
    Counts c = {.counts = calloc((size_t)n + 1, sizeof(int)), .caller = pthread_self()};
    parallel_for(pool, n, cost, count_range, &c);
    int64_t wrong = c.counts[n];
    for (int64_t i = 0; i < n; i++) wrong += c.counts[i] != 1;
    free(c.counts);
    return wrong == 0 ? c.ranges : -1;
}

static void test_cover(void **state) {
    (void)state;
    Pool *pool;
    assert_int_equal(pool_new(&allocator_default, 4, &pool), TN_OK);
    assert_int_equal(pool_threads(pool), 4);
    for (int64_t n = 1; n < 40; n++) assert_int_equal(run_counts(pool, n, 1e6), min_i64(n, 16));
    assert_int_equal(run_counts(pool, ITEMS, 1000), 16);
    assert_int_equal(run_counts(pool, ITEMS, 0.05), 1); /* not worth a thread */
    int few = run_counts(pool, ITEMS, 0.1);             /* worth those that are awake */
    assert_true(few == 1 || few == 4);
    assert_int_equal(run_counts(pool, ITEMS, 0.25), 5);
    assert_int_equal(run_counts(pool, ITEMS, (double)INFINITY), 16);
    assert_int_equal(run_counts(pool, ITEMS, (double)NAN), 1);
    assert_int_equal(run_counts(pool, ITEMS, -1), 1);
    assert_int_equal(run_counts(NULL, ITEMS, 1e6), 1);
    parallel_for(pool, 0, 1e9, NULL, NULL);
    parallel_for(pool, -5, 1e9, NULL, NULL);
    pool_free(pool);
    pool_free(NULL);
    assert_int_equal(pool_threads(NULL), 1);
}

static void note_huge(void *arg, int64_t begin, int64_t end) { atomic_fetch_add((atomic_llong *)arg, end - begin); }

static void test_huge_ranges(void **state) {
    (void)state;
    Pool *pool;
    atomic_llong sum = 0;
    assert_int_equal(pool_new(&allocator_default, 3, &pool), TN_OK);
    parallel_for(pool, INT64_MAX, 1e300, note_huge, &sum);
    assert_true(sum == INT64_MAX);
    pool_free(pool);
}

static void test_kinds_of_pool(void **state) {
    (void)state;
    Pool *pool;
    assert_int_equal(pool_new(&allocator_default, 1, &pool), TN_OK);
    assert_int_equal(pool_threads(pool), 1);
    assert_int_equal(run_counts(pool, ITEMS, 1e6), 1);
    pool_free(pool);
    assert_int_equal(pool_new(&allocator_default, 0, &pool), TN_OK);
    assert_true(pool_threads(pool) >= 1);
    assert_true(run_counts(pool, ITEMS, 1e6) >= 1);
    pool_free(pool);
    assert_int_equal(pool_new(&allocator_default, 1000000, &pool), TN_INVALID_ARGUMENT);
    assert_null(pool);
    TestHeap heap;
    test_heap_init(&heap);
    heap.fail_at = 1;
    assert_int_equal(pool_new(&heap.allocator, 3, &pool), TN_OUT_OF_MEMORY);
    pthreadpool_t theirs = pthreadpool_create(2);
    assert_int_equal(pool_wrap(&allocator_default, theirs, &pool), TN_OK);
    assert_int_equal(pool_threads(pool), 2);
    assert_int_equal(run_counts(pool, ITEMS, 1e6), 8);
    pool_free(pool);
    assert_int_equal(pthreadpool_get_threads_count(theirs), 2); /* still theirs */
    pthreadpool_destroy(theirs);
    assert_int_equal(pool_wrap(&allocator_default, NULL, &pool), TN_OK);
    assert_int_equal(run_counts(pool, ITEMS, 1e6), 1);
    pool_free(pool);
}

typedef struct Nested {
    Pool *pool;
    atomic_int bad;
} Nested;

static void nest(void *arg, int64_t begin, int64_t end) {
    Nested *nested = arg;
    for (int64_t i = begin; i < end; i++)
        if (run_counts(nested->pool, 1000, 1e6) != 1) atomic_fetch_add(&nested->bad, 1);
}

static void test_nested(void **state) {
    (void)state;
    Nested nested = {0};
    assert_int_equal(pool_new(&allocator_default, 4, &nested.pool), TN_OK);
    parallel_for(nested.pool, 64, 1e6, nest, &nested);
    assert_int_equal(nested.bad, 0);
    assert_int_equal(run_counts(nested.pool, 1000, 1e6), 16); /* and outside of it again in parallel */
    pool_free(nested.pool);
}

static void *call_often(void *arg) {
    int bad = 0;
    for (int i = 0; i < 200; i++) bad += run_counts(arg, 2000 + i, 100) < 1;
    return bad ? arg : NULL;
}

static void test_many_callers(void **state) {
    (void)state;
    Pool *pool;
    pthread_t threads[6];
    assert_int_equal(pool_new(&allocator_default, 3, &pool), TN_OK);
    for (int i = 0; i < 6; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_often, pool), 0);
    for (int i = 0; i < 6; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    pool_free(pool);
}

static int child_status(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void use_in_child(Pool *pool) {
    Pool *fresh = NULL;
    alarm(20); /* instead of hanging */
    bool good = pool_threads(pool) == 1 && run_counts(pool, 1000, 1e6) == 1;
    pool_free(pool);
#ifdef CAN_START_THREADS_AFTER_FORK
    good = good && pool_new(&allocator_default, 2, &fresh) == TN_OK && run_counts(fresh, 1000, 1e6) == 8;
#endif
    pool_free(fresh);
    _exit(good ? 0 : 1);
}

static void test_fork(void **state) {
    (void)state;
    Pool *pool;
    assert_int_equal(pool_new(&allocator_default, 3, &pool), TN_OK);
    run_counts(pool, 1000, 1e6);
    pid_t child = fork();
    if (child == 0) use_in_child(pool);
    assert_int_equal(child_status(child), 0);
    assert_int_equal(run_counts(pool, 1000, 1e6), 12); /* the parent's works on */
    pool_free(pool);
}

static atomic_bool stop;

static void *keep_busy(void *arg) {
    while (!atomic_load(&stop)) run_counts(arg, 5000, 100);
    return NULL;
}

/* Another thread has the pool at the moment of the fork. */
static void test_fork_while_busy(void **state) {
    (void)state;
    Pool *pool;
    pthread_t thread;
    assert_int_equal(pool_new(&allocator_default, 3, &pool), TN_OK);
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, keep_busy, pool), 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(pool_threads(pool) == 1 ? 0 : 1);
        }
        assert_int_equal(child_status(child), 0);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    pool_free(pool);
}

static int logged;
static void keep_log(void *user, tn_log_level level, const char *message) {
    assert_ptr_equal(user, &logged);
    assert_int_equal(level, TN_LOG_WARNING);
    assert_memory_equal(message, "n = 5", 5);
    logged++;
}

static void test_context(void **state) {
    (void)state;
    TestHeap heap;
    Context *context;
    test_heap_init(&heap);
    const tn_limits limits = {.max_nodes = 7};
    assert_int_equal(context_new(&heap.allocator, &limits, &context), TN_OK);
    assert_int_equal(context->limits.max_nodes, 7);
    assert_true(context->limits.max_bytes == (uint64_t)16 << 30);
    assert_int_equal(context->limits.max_nesting, 64);
    assert_true(context->limits.max_fold_bytes == 64 << 20 && context->limits.max_loop_trips == 1ull << 31);
    log_message(context, TN_LOG_ERROR, "nobody listens");
    context->log = keep_log;
    context->log_user = &logged;
    log_message(context, TN_LOG_WARNING, "n = %d", 5);
    log_message(context, TN_LOG_INFO, "not wanted");
    log_message(context, TN_LOG_WARNING, "n = 5%4000d", 1);
    log_message(NULL, TN_LOG_ERROR, "no context");
    assert_int_equal(logged, 2);
    assert_int_equal(pool_new(&context->allocator, 2, &context->pool), TN_OK);
    assert_ptr_equal(context_ref(context), context);
    context_unref(context);
    assert_true(heap.living > 0);
    context_unref(context); /* the pool goes with it */
    assert_int_equal(heap.living, 0);
    context_unref(NULL);
    assert_int_equal(context_new(NULL, NULL, &context), TN_OK);
    assert_int_equal(context->limits.max_nodes, 16000000);
    context_unref(context);
    heap.fail_at = 1;
    assert_int_equal(context_new(&heap.allocator, NULL, &context), TN_OUT_OF_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cover),           cmocka_unit_test(test_huge_ranges),
        cmocka_unit_test(test_kinds_of_pool),   cmocka_unit_test(test_nested),
        cmocka_unit_test(test_many_callers),    cmocka_unit_test(test_fork),
        cmocka_unit_test(test_fork_while_busy), cmocka_unit_test(test_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
