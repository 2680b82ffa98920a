/* SPDX-License-Identifier: Apache-2.0 */
/* Worker threads. A job is published as one 64-bit ticket: its number, how many ranges it has, and the next range to be
   taken. Taking a range is one addition to the ticket, so a thread that comes late sees either a range of the job of now,
   which cannot end before that range is done, or none; it never delays anybody. */
#include "base/workers_int.h"

#include <pthread.h>
#include <time.h>

enum { COUNT_BITS = 20, PAUSES = 4 /* a pause may take 0.05 us, and work that is waited for 3 us */ };
#define COUNT_MASK ((1u << COUNT_BITS) - 1)

struct Workers {
    const Allocator *allocator;
    int n;
    int64_t spin_ns;
    void (*fn)(void *arg, size_t i);
    void *arg;
    _Atomic uint64_t ticket;   /* job number | ranges | next range */
    _Atomic int64_t finished;  /* ranges of the job of now */
    atomic_int asleep;         /* workers that wait for `work` */
    atomic_bool caller_asleep; /* waits for `done` */
    atomic_bool ending;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t threads[];
};

static uint64_t job_of(uint64_t ticket) { return ticket >> (2 * COUNT_BITS); }
static uint64_t ranges_of(uint64_t ticket) { return ticket >> COUNT_BITS & COUNT_MASK; }
static uint64_t next_of(uint64_t ticket) { return ticket & COUNT_MASK; }

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_a_little(void) {
    for (int i = 0; i < PAUSES; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

/* ---- work ---------------------------------------------------------------------------------------------------- */

static void finish(Workers *w, int64_t ranges, int64_t job_ranges) {
    if (ranges == 0 || atomic_fetch_add(&w->finished, ranges) + ranges < job_ranges) return;
    if (!atomic_load(&w->caller_asleep)) return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_signal(&w->done);
    pthread_mutex_unlock(&w->lock);
}

/* Takes ranges until none is left. */
static void work(Workers *w) {
    for (;;) {
        uint64_t ticket = atomic_load(&w->ticket);
        if (next_of(ticket) >= ranges_of(ticket)) return;
        ticket = atomic_fetch_add(&w->ticket, 1);
        uint64_t i = next_of(ticket), n = ranges_of(ticket);
        if (i >= n) return;
        w->fn(w->arg, (size_t)i);
        finish(w, 1, (int64_t)n);
    }
}

static bool is_news(const Workers *w, uint64_t job) {
    return job_of(atomic_load(&w->ticket)) != job || atomic_load(&w->ending);
}

static void await_job(Workers *w, uint64_t job) {
    for (int64_t until = now_ns() + w->spin_ns; now_ns() < until;) {
        if (is_news(w, job)) return;
        pause_a_little();
    }
    pthread_mutex_lock(&w->lock);
    atomic_fetch_add(&w->asleep, 1);
    while (!is_news(w, job)) pthread_cond_wait(&w->work, &w->lock);
    atomic_fetch_sub(&w->asleep, 1);
    pthread_mutex_unlock(&w->lock);
}

static void *worker(void *arg) {
    Workers *w = arg;
    for (uint64_t job = 0; !atomic_load(&w->ending);) {
        await_job(w, job);
        job = job_of(atomic_load(&w->ticket));
        work(w);
    }
    return NULL;
}

static void wake(Workers *w) {
    if (atomic_load(&w->asleep) == 0) return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
}

static void await_end(Workers *w, int64_t n) {
    for (int64_t until = now_ns() + w->spin_ns; now_ns() < until;) {
        if (atomic_load(&w->finished) == n) return;
        pause_a_little();
    }
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->caller_asleep, true);
    while (atomic_load(&w->finished) != n) pthread_cond_wait(&w->done, &w->lock);
    atomic_store(&w->caller_asleep, false);
    pthread_mutex_unlock(&w->lock);
}

bool workers_are_awake(Workers *w) { return atomic_load(&w->asleep) == 0; }

void workers_run(Workers *w, int64_t n, void (*fn)(void *arg, size_t i), void *arg) {
    if (n <= 0) return;
    uint64_t job = job_of(atomic_load(&w->ticket)) + 1;
    w->fn = fn;
    w->arg = arg;
    atomic_store(&w->finished, 0);
    atomic_store(&w->ticket, job << (2 * COUNT_BITS) | (uint64_t)n << COUNT_BITS);
    wake(w);
    work(w);
    await_end(w, n);
}

/* ---- making -------------------------------------------------------------------------------------------------- */

static void end(Workers *w, int n) {
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->ending, true);
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < n; i++) pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->done);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->lock);
    mem_free(w->allocator, w, sizeof *w + (size_t)w->n * sizeof *w->threads);
}

tn_status workers_new(const Allocator *a, int n, int64_t spin_ns, Workers **out) {
    Workers *w = mem_alloc(a, sizeof *w + (size_t)n * sizeof *w->threads, alignof(Workers));
    if (!w) return TN_OUT_OF_MEMORY;
    w->allocator = a;
    w->n = n;
    w->spin_ns = spin_ns;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->done, NULL);
    for (int i = 0; i < n; i++) {
        if (pthread_create(&w->threads[i], NULL, worker, w) == 0) continue;
        end(w, i);
        return fail(TN_OUT_OF_MEMORY, "cannot make thread %d of %d", i + 1, n);
    }
    *out = w;
    return TN_OK;
}

void workers_free(Workers *w) {
    if (w) end(w, w->n);
}
