/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of big blocks that are given back, for the next ones: while a model is made ready constants are computed one after the
   other, and clearing pages that are there takes a fraction of what bringing in new ones does. Only between recycle_begin and
   recycle_end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>

#include "base/recycle_int.h"

enum { MOST_BLOCKS = 16, MOST_BYTES = 32 << 20 };

typedef struct Pages {
    char *at;
    size_t size; /* whole pages */
} Pages;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Pages kept[MOST_BLOCKS]; /* the last one given back last */
static size_t n_kept, n_bytes;
static int n_users;
static atomic_bool in_use; /* n_users > 0, to be asked without the lock */

static size_t whole(size_t size) { return (size + page_size() - 1) / page_size() * page_size(); }

static void forget(size_t i) {
    n_bytes -= kept[i].size;
    n_kept--;
    memmove(&kept[i], &kept[i + 1], (n_kept - i) * sizeof *kept);
}

static void drop(size_t i) {
    munmap(kept[i].at, kept[i].size);
    forget(i);
}

void recycle_begin(void) {
    pthread_mutex_lock(&lock);
    n_users++;
    atomic_store(&in_use, true);
    pthread_mutex_unlock(&lock);
}

void recycle_end(void) {
    pthread_mutex_lock(&lock);
    if (--n_users == 0) {
        atomic_store(&in_use, false);
        while (n_kept > 0) drop(n_kept - 1);
    }
    pthread_mutex_unlock(&lock);
}

/* The smallest that is large enough; what it has beyond stays. */
static void *take(size_t size) {
    size_t best = n_kept;
    for (size_t i = n_kept; i-- > 0;)
        if (kept[i].size >= size && (best == n_kept || kept[i].size < kept[best].size)) best = i;
    if (best == n_kept) return NULL;
    char *at = kept[best].at;
    kept[best].at += size;
    kept[best].size -= size;
    n_bytes -= size;
    if (kept[best].size == 0) forget(best);
    return at;
}

void *recycle_take(size_t size) {
    if (!atomic_load_explicit(&in_use, memory_order_relaxed) || size > MOST_BYTES) return NULL;
    pthread_mutex_lock(&lock);
    void *at = take(whole(size));
    pthread_mutex_unlock(&lock);
    return at ? memset(at, 0, size) : NULL;
}

/* The oldest make room. */
static void keep(char *at, size_t size) {
    while (n_kept == MOST_BLOCKS || n_bytes + size > MOST_BYTES) drop(0);
    kept[n_kept++] = (Pages){at, size};
    n_bytes += size;
}

bool recycle_give(void *ptr, size_t size) {
    if (!atomic_load_explicit(&in_use, memory_order_relaxed) || whole(size) > MOST_BYTES) return false;
    pthread_mutex_lock(&lock);
    bool wanted = n_users > 0;
    if (wanted) keep(ptr, whole(size));
    pthread_mutex_unlock(&lock);
    return wanted;
}
