/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers whose bytes are made when they are needed. The address range is reserved from the start; while nobody holds the
   bytes, no memory stands behind it and nobody may read there. */
#define _GNU_SOURCE
#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct Lazy {
    const Allocator *allocator;
    char *data;
    size_t size; /* whole pages */
    BytesMaker maker;
    pthread_mutex_t lock; /* of what follows */
    size_t holders;
    bool kept; /* by one of them, for good */
    struct Lazy *next;
} Lazy;

static Lazy *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- one that lives ------------------------------------------------------------------------------------------ */

static void release(void *user, void *data, size_t size) {
    Lazy *lazy = user;
    (void)size;
    pthread_mutex_lock(&all_lock);
    Lazy **at = &all;
    while (*at != lazy) at = &(*at)->next;
    *at = lazy->next;
    pthread_mutex_unlock(&all_lock);
    munmap(data, lazy->size);
    pthread_mutex_destroy(&lazy->lock);
    lazy->maker.drop(lazy->maker.user);
    mem_free(lazy->allocator, lazy, sizeof *lazy);
}

/* Whoever asks has the buffer, so it does not go meanwhile. */
static Lazy *find(const void *bytes) {
    uintptr_t at = (uintptr_t)bytes;
    pthread_mutex_lock(&all_lock);
    Lazy *lazy = all;
    while (lazy && at - (uintptr_t)lazy->data >= lazy->size) lazy = lazy->next;
    pthread_mutex_unlock(&all_lock);
    return lazy;
}

static tn_status reserve(const Allocator *a, size_t size, Lazy **out) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size / page + 1) * page;
    if (size > PTRDIFF_MAX - page) return fail_memory(size);
    Lazy *lazy = mem_alloc(a, sizeof *lazy, alignof(Lazy));
    if (!lazy) return TN_OUT_OF_MEMORY;
    void *data = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        mem_free(a, lazy, sizeof *lazy);
        return fail_memory(size);
    }
    *lazy = (Lazy){.allocator = a, .data = data, .size = whole};
    *out = lazy;
    return TN_OK;
}

tn_status buffer_lazy(const Allocator *a, size_t size, const BytesMaker *maker, Buffer **out) {
    Lazy *lazy = NULL;
    *out = NULL;
    TRY(reserve(a, size, &lazy));
    tn_status status = buffer_borrow(a, lazy->data, size, release, lazy, out);
    if (status != TN_OK) {
        munmap(lazy->data, lazy->size);
        mem_free(a, lazy, sizeof *lazy);
        return status;
    }
    lazy->maker = *maker;
    pthread_mutex_init(&lazy->lock, NULL);
    pthread_mutex_lock(&all_lock);
    lazy->next = all;
    all = lazy;
    pthread_mutex_unlock(&all_lock);
    return TN_OK;
}

bool buffer_is_lazy(const Buffer *buffer) { return buffer && buffer->release == release; }

/* ---- spare pages ------------------------------------------------------------------------------------------------ */

/* Weights are made, packed and let go one after the other. The pages of one become those of the next, by moving them, which
   takes a hundredth of what new ones take. One range of them is kept, up to so many bytes, until bytes_trim. */
enum { MOST_SPARE = 32 << 20 };
static char *spare;
static size_t spare_size;
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether there were enough to be put behind a range. */
static bool take_spare(char *data, size_t size) {
    pthread_mutex_lock(&spare_lock);
    bool enough = size <= spare_size && mremap(spare, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, data) != MAP_FAILED;
    if (enough) spare = spare_size > size ? spare + size : NULL, spare_size -= size;
    pthread_mutex_unlock(&spare_lock);
    return enough;
}

/* The pages behind a range that stays reserved. What is there from before is given up when it is less. */
static void give_spare(char *data, size_t size) {
#ifdef MREMAP_DONTUNMAP
    pthread_mutex_lock(&spare_lock);
    char *moved = size > spare_size && size <= MOST_SPARE
                      ? mremap(data, size, size, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL)
                      : MAP_FAILED;
    if (moved != MAP_FAILED) {
        if (spare) munmap(spare, spare_size);
        spare = moved;
        spare_size = size;
    }
    pthread_mutex_unlock(&spare_lock);
#endif
    (void)madvise(data, size, MADV_DONTNEED);
}

void bytes_trim(void) {
    pthread_mutex_lock(&spare_lock);
    if (spare) munmap(spare, spare_size);
    spare = NULL;
    spare_size = 0;
    pthread_mutex_unlock(&spare_lock);
}

/* ---- holding ------------------------------------------------------------------------------------------------- */

/* With the lock held. */
static tn_status hold(Lazy *lazy, Pool *pool) {
    if (lazy->holders == 0) {
        if (mprotect(lazy->data, lazy->size, PROT_READ | PROT_WRITE) != 0)
            return fail(TN_OUT_OF_MEMORY, "cannot use %zu bytes: %s", lazy->size, strerror(errno));
        if (!take_spare(lazy->data, lazy->size)) mem_touch(lazy->data, lazy->size);
        lazy->maker.make(lazy->maker.user, lazy->data, pool);
    }
    lazy->holders++;
    return TN_OK;
}

tn_status bytes_hold(const void *bytes, Pool *pool) {
    Lazy *lazy = find(bytes);
    if (!lazy) return TN_OK;
    pthread_mutex_lock(&lazy->lock);
    tn_status status = hold(lazy, pool);
    pthread_mutex_unlock(&lazy->lock);
    return status;
}

void bytes_let_go(const void *bytes) {
    Lazy *lazy = find(bytes);
    if (!lazy) return;
    pthread_mutex_lock(&lazy->lock);
    if (--lazy->holders == 0) {
        give_spare(lazy->data, lazy->size);
        (void)mprotect(lazy->data, lazy->size, PROT_NONE);
    }
    pthread_mutex_unlock(&lazy->lock);
}

tn_status buffer_keep(Buffer *buffer) {
    if (!buffer_is_lazy(buffer)) return TN_OK;
    Lazy *lazy = buffer->user;
    pthread_mutex_lock(&lazy->lock);
    tn_status status = lazy->kept ? TN_OK : hold(lazy, NULL);
    lazy->kept = status == TN_OK;
    pthread_mutex_unlock(&lazy->lock);
    return status;
}
