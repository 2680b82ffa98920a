/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers whose bytes are made when they are needed. The address range is reserved from the start; while nobody holds the
   bytes, no memory stands behind it and nobody may read there. */
#define _GNU_SOURCE
#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

typedef struct Lazy {
    const Allocator *allocator;
    char *data;
    size_t size; /* whole pages */
    BytesMaker maker;
    pthread_mutex_t lock; /* of what follows */
    size_t holders;
    bool kept; /* by one of them, for good */
    bool lent; /* its pages are */
    struct Lazy *next;
} Lazy;

static Lazy *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- pages that are lent ---------------------------------------------------------------------------------------- */

/* Weights are made, packed and let go one after the other. The pages of one become those of the next, by moving them, which
   takes a hundredth of what new ones take. They lie at the first addresses of one range, which others stay free of while
   they are lent; until bytes_trim. */
enum { MOST_LENT = 32 << 20 };
static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;
static char *pages;
static size_t n_touched;
static bool lent;

static bool move(char *from, size_t size, char *to) {
#ifdef MREMAP_DONTUNMAP
    return mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) != MAP_FAILED;
#else
    (void)from, (void)size, (void)to;
    return false;
#endif
}

static void drop_pages(void) {
    if (pages) munmap(pages, MOST_LENT);
    pages = NULL;
    n_touched = 0;
}

/* With the lock held. */
static bool lend_here(char *data, size_t size, Pool *pool) {
    if (lent || size > MOST_LENT) return false;
    if (!pages)
        pages = mmap(NULL, MOST_LENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) pages = NULL;
    if (!pages) return false;
    if (size > n_touched) mem_touch(pool, pages + n_touched, size - n_touched);
    if (size > n_touched) n_touched = size;
    lent = move(pages, size, data);
    if (!lent) drop_pages();
    return lent;
}

/* Puts pages behind a range, if there are any to be had. */
static bool lend(char *data, size_t size, Pool *pool) {
    pthread_mutex_lock(&pages_lock);
    bool done = lend_here(data, size, pool);
    pthread_mutex_unlock(&pages_lock);
    return done;
}

static void take_back(char *data, size_t size) {
    pthread_mutex_lock(&pages_lock);
    lent = false;
    if (!move(data, size, pages)) drop_pages();
    pthread_mutex_unlock(&pages_lock);
}

/* They went with the range. */
static void write_off(void) {
    pthread_mutex_lock(&pages_lock);
    lent = false;
    drop_pages();
    pthread_mutex_unlock(&pages_lock);
}

void bytes_trim(void) {
    pthread_mutex_lock(&pages_lock);
    if (!lent) drop_pages();
    pthread_mutex_unlock(&pages_lock);
}

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
    if (lazy->lent) write_off();
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
    size_t page = page_size(), whole = (size / page + 1) * page;
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

/* ---- holding ------------------------------------------------------------------------------------------------- */

/* With the lock held. */
static tn_status hold(Lazy *lazy, bool brief, Pool *pool) {
    if (lazy->holders == 0) {
        if (mprotect(lazy->data, lazy->size, PROT_READ | PROT_WRITE) != 0)
            return fail(TN_OUT_OF_MEMORY, "cannot use %zu bytes: %s", lazy->size, strerror(errno));
        lazy->lent = brief && lend(lazy->data, lazy->size, pool);
        if (!lazy->lent) mem_touch(pool, lazy->data, lazy->size);
        lazy->maker.make(lazy->maker.user, lazy->data, pool);
    }
    lazy->holders++;
    return TN_OK;
}

tn_status bytes_hold(const void *bytes, Pool *pool) {
    Lazy *lazy = find(bytes);
    if (!lazy) return TN_OK;
    pthread_mutex_lock(&lazy->lock);
    tn_status status = hold(lazy, true, pool);
    pthread_mutex_unlock(&lazy->lock);
    return status;
}

void bytes_let_go(const void *bytes) {
    Lazy *lazy = find(bytes);
    if (!lazy) return;
    pthread_mutex_lock(&lazy->lock);
    if (--lazy->holders == 0) {
        if (lazy->lent) take_back(lazy->data, lazy->size);
        lazy->lent = false;
        (void)madvise(lazy->data, lazy->size, MADV_DONTNEED);
        (void)mprotect(lazy->data, lazy->size, PROT_NONE);
    }
    pthread_mutex_unlock(&lazy->lock);
}

tn_status buffer_keep(Buffer *buffer) {
    if (!buffer_is_lazy(buffer)) return TN_OK;
    Lazy *lazy = buffer->user;
    pthread_mutex_lock(&lazy->lock);
    tn_status status = lazy->kept ? TN_OK : hold(lazy, false, NULL);
    lazy->kept = status == TN_OK;
    pthread_mutex_unlock(&lazy->lock);
    return status;
}
