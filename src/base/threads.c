/* SPDX-License-Identifier: Apache-2.0 */
/* Spreading work over threads: our own, or a pthreadpool that the caller brings. The one file that knows pthreadpool. */
#define _GNU_SOURCE
#include "base/workers_int.h"

#include <pthreadpool.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_THREADS = 1024 };
/* How long a thread without work keeps its core, unless TENON_SPIN_US says otherwise. */
enum { SPIN_US = 100, MOST_SPIN_US = 1000000 };
/* Less work than this is done before another thread has woken; or, where all are awake, has seen it. */
static const double SMALLEST_WORK_NS = 20e3, SMALLEST_RANGE_NS = 5e3, AWAKE_WORK_NS = 6e3, AWAKE_RANGE_NS = 2.5e3;
enum { RANGES_PER_THREAD = 4 }; /* evens out threads of unequal speed */

struct Pool {
    const Allocator *allocator;
    Workers *workers;      /* ours, or */
    pthreadpool_t threads; /* the caller's; neither: the caller's thread only */
    int n;
    pid_t process;    /* that made the threads: a child of fork has none of them */
    atomic_bool busy; /* some thread is spreading work over the pool */
};

/* This thread is in a range function. Ranges within ranges run here: the pool is busy with the outer ones. */
static _Thread_local bool inside;

static int processors(void) {
#ifdef __linux__
    cpu_set_t set; /* those that this process may use, which are fewer than the machine's in a container */
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)min_i64(n, MOST_THREADS) : 1;
}

static int64_t spin_ns(void) {
    const char *text = getenv("TENON_SPIN_US");
    long us = text ? strtol(text, NULL, 10) : SPIN_US;
    return 1000 * max_i64(0, min_i64(us, MOST_SPIN_US));
}

static tn_status new_pool(const Allocator *a, int n, Pool **out) {
    Pool *pool = mem_alloc(a, sizeof *pool, alignof(Pool));
    if (!pool) return TN_OUT_OF_MEMORY;
    pool->allocator = a;
    pool->n = n;
    pool->process = getpid();
    atomic_init(&pool->busy, false);
    *out = pool;
    return TN_OK;
}

tn_status pool_new(const Allocator *a, int threads, Pool **out) {
    *out = NULL;
    if (threads > MOST_THREADS)
        return fail(TN_INVALID_ARGUMENT, "%d threads asked for, at most %d are possible", threads, MOST_THREADS);
    if (threads <= 0) threads = processors();
    TRY(new_pool(a, threads, out));
    tn_status status = threads > 1 ? workers_new(a, threads - 1, spin_ns(), &(*out)->workers) : TN_OK;
    if (status == TN_OK) return TN_OK;
    pool_free(*out);
    *out = NULL;
    return status;
}

tn_status pool_wrap(const Allocator *a, void *pthreadpool, Pool **out) {
    *out = NULL;
    int n = pthreadpool ? (int)pthreadpool_get_threads_count(pthreadpool) : 1;
    TRY(new_pool(a, n, out));
    if (n > 1) (*out)->threads = pthreadpool;
    return TN_OK;
}

void pool_free(Pool *pool) {
    if (!pool) return;
    /* In a child after fork, joining threads that are not there would hang; their memory goes with the process. */
    if (pool->process == getpid()) workers_free(pool->workers);
    mem_free(pool->allocator, pool, sizeof *pool);
}

int pool_threads(const Pool *pool) { return pool && pool->n > 1 && pool->process == getpid() ? pool->n : 1; }

typedef struct Job {
    RangeFn fn;
    void *arg;
    int64_t begin, quotient, remainder; /* the first `remainder` ranges are one longer */
    /* What orders the caller's writes before the ranges and theirs before the return. The pool does as much, but says
       so in code that the thread sanitizer does not see. */
    atomic_int started, finished;
} Job;

static void run_range(void *arg, size_t index) {
    Job *job = arg;
    (void)atomic_load_explicit(&job->started, memory_order_acquire);
    int64_t i = (int64_t)index;
    int64_t begin = job->begin + i * job->quotient + min_i64(i, job->remainder);
    int64_t end = begin + job->quotient + (i < job->remainder);
    inside = true;
    job->fn(job->arg, begin, end);
    inside = false;
    atomic_fetch_add_explicit(&job->finished, 1, memory_order_release);
}

static void spread(Pool *pool, int64_t begin, int64_t end, int64_t ranges, RangeFn fn, void *arg) {
    int64_t n = end - begin;
    if (ranges > n) ranges = n;
    Job job = {.fn = fn, .arg = arg, .begin = begin, .quotient = n / ranges, .remainder = n % ranges};
    atomic_store_explicit(&job.started, 1, memory_order_release);
    if (pool->workers) workers_run(pool->workers, ranges, run_range, &job);
    else pthreadpool_parallelize_1d(pool->threads, run_range, &job, (size_t)ranges, 0);
    (void)atomic_load_explicit(&job.finished, memory_order_acquire);
}

/* While another thread has the pool, this one works by itself, a range at a time, rather than wait for it. */
static void share(Pool *pool, int64_t n, int64_t ranges, RangeFn fn, void *arg) {
    int64_t step = n / ranges;
    for (int64_t begin = 0; begin < n;) {
        if (!atomic_exchange_explicit(&pool->busy, true, memory_order_acquire)) {
            spread(pool, begin, n, ranges, fn, arg);
            atomic_store_explicit(&pool->busy, false, memory_order_release);
            return;
        }
        int64_t end = n - begin > step ? begin + step : n;
        fn(arg, begin, end);
        begin = end;
    }
}

void parallel_for(Pool *pool, int64_t n, double cost, RangeFn fn, void *arg) {
    if (n <= 0) return;
    double work = (double)n * cost;
    if (inside || n == 1 || !(work >= AWAKE_WORK_NS) || pool_threads(pool) == 1) {
        fn(arg, 0, n);
        return;
    }
    bool small = work < SMALLEST_WORK_NS;
    if (small && !(pool->workers && workers_are_awake(pool->workers))) {
        fn(arg, 0, n);
        return;
    }
    double worth = work /
                   (small ? AWAKE_RANGE_NS : SMALLEST_RANGE_NS); /* as doubles: it may be more than any integer */
    int64_t ranges = min_i64(n, (int64_t)pool->n * RANGES_PER_THREAD);
    if (worth < (double)ranges) ranges = (int64_t)worth;
    share(pool, n, ranges, fn, arg);
}
