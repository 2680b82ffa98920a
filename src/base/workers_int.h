/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait for ranges of work: awake for a while, since the next comes soon while a model runs, then asleep. */
#ifndef TENON_BASE_WORKERS_INT_H
#define TENON_BASE_WORKERS_INT_H

#include "base/base.h"

typedef struct Workers Workers;
/* `n` threads beside the caller's own; `spin_ns`: how long each stays awake without work. */
tn_status workers_new(const Allocator *a, int n, int64_t spin_ns, Workers **out);
void workers_free(Workers *workers); /* waits for them to end; NULL is ignored */
/* Whether all of them wait for work without sleeping, or work. */
bool workers_are_awake(Workers *workers);
/* Calls fn(arg, i) for i in 0..n-1, on any of the threads and here, and returns when all are done. n is at most
   WORKERS_MOST_RANGES. One caller at a time. */
enum { WORKERS_MOST_RANGES = (1 << 20) - 1 - 4096 };
void workers_run(Workers *workers, int64_t n, void (*fn)(void *arg, size_t i), void *arg);

#endif
