/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for blocks that are written at once and live about as long as each other, as packed weights do: they lie side by side,
   so their pages come in many at a time, which costs a fraction of a fault for each; those of a big block when its owner brings
   them in, who may have several threads for it. What is given back goes back to the kernel in whole pages. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>

#include "base/base.h"

#include "base/asan_int.h"

enum {
    CHUNK = 64 << 20,     /* of addresses */
    MOST_BLOCK = 4 << 20, /* larger ones have a mapping of their own */
    STEP = 256 << 10      /* so much comes in at once */
};

/* A sanitizer cannot watch blocks in memory that it did not hand out. */
#ifdef HAS_ASAN
enum { WATCHED = 1 };
#else
enum { WATCHED = 0 };
#endif

typedef struct Chunk {
    char *base;
    size_t used;    /* handed out; never twice */
    size_t touched; /* there already, whole pages */
    size_t live;    /* bytes */
    struct Chunk *next;
} Chunk;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Chunk *chunks; /* the newest first: blocks come from there */

static Chunk *chunk_new(void) {
    Chunk *c = mem_alloc(&allocator_default, sizeof *c, alignof(Chunk));
    char *base = c ? mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                   : MAP_FAILED;
    if (base == MAP_FAILED) {
        mem_free(&allocator_default, c, sizeof *c);
        return NULL;
    }
    *c = (Chunk){.base = base, .next = chunks};
    return chunks = c;
}

static void chunk_free(Chunk *c) {
    Chunk **at = &chunks;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    munmap(c->base, CHUNK);
    mem_free(&allocator_default, c, sizeof *c);
}

static size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

/* What cannot be brought in ahead comes when it is written. */
static void touch(Chunk *c, size_t end) {
#ifdef MADV_POPULATE_WRITE
    if (c->touched >= end) return;
    size_t some = c->touched + round_up(end - c->touched, STEP), to = some < CHUNK ? some : CHUNK;
    (void)madvise(c->base + c->touched, to - c->touched, MADV_POPULATE_WRITE);
    c->touched = to;
#else
    (void)c, (void)end;
#endif
}

/* Up to its last whole page the block's owner will bring it in. */
static void leave(Chunk *c, size_t end) {
    size_t whole = end / page_size() * page_size();
    if (c->touched < whole) c->touched = whole;
}

static void *take(size_t size, size_t align) {
    Chunk *c = chunks;
    size_t at = c ? round_up(c->used, align) : 0;
    if (!c || at + size > CHUNK) c = chunk_new(), at = 0;
    if (!c) return NULL;
    if (size < STORE_BIG) touch(c, at + size);
    else leave(c, at + size);
    c->used = at + size;
    c->live += size;
    return c->base + at;
}

static Chunk *chunk_of(const void *ptr) {
    Chunk *c = chunks;
    while (c && (uintptr_t)ptr - (uintptr_t)c->base >= CHUNK) c = c->next;
    return c;
}

/* The page that a neighbour begins or ends in stays. */
static void give(Chunk *c, char *ptr, size_t size) {
    void *first;
    size_t n = whole_pages(ptr, size, &first);
    c->live -= size;
    if (c->live == 0) chunk_free(c);
    else if (n > 0) (void)madvise(first, n, MADV_DONTNEED);
}

static void *store_alloc(void *user, size_t size, size_t align) {
    (void)user;
    if (WATCHED) return allocator_default.alloc(NULL, size, align);
    if (size > MOST_BLOCK) return allocator_default.alloc(NULL, size, align);
    pthread_mutex_lock(&lock);
    void *ptr = take(size, align);
    pthread_mutex_unlock(&lock);
    return ptr;
}

static void store_free(void *user, void *ptr, size_t size) {
    (void)user;
    pthread_mutex_lock(&lock);
    Chunk *c = chunk_of(ptr);
    if (c) give(c, ptr, size);
    pthread_mutex_unlock(&lock);
    if (!c) allocator_default.free(NULL, ptr, size);
}

const Allocator allocator_store = {store_alloc, store_free, NULL};

void store_trim(void) {
    pthread_mutex_lock(&lock);
    if (chunks) {
        size_t end = round_up(chunks->used, page_size());
        if (end < chunks->touched) (void)madvise(chunks->base + end, chunks->touched - end, MADV_DONTNEED);
        chunks->touched = min_i64((int64_t)chunks->touched, (int64_t)end);
    }
    pthread_mutex_unlock(&lock);
}
