/* SPDX-License-Identifier: Apache-2.0 */
/* The default allocator, checked allocation, and buffers with a count of owners. */
#define _GNU_SOURCE
#include "base/base.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/asan_int.h"
#include "base/recycle_int.h"

/* From this size on memory comes from the kernel: it is zero already, pages that are never used cost nothing, and
   freeing gives them back at once. A sanitizer cannot watch such memory, so under one nothing is that big. */
#ifdef HAS_ASAN
#define BIG_SIZE SIZE_MAX
#else
#define BIG_SIZE ((size_t)1 << 20)
#endif

size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

size_t whole_pages(const void *ptr, size_t size, void **first) {
    uintptr_t page = page_size(), from = ((uintptr_t)ptr + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)ptr + size) / page * page;
    *first = (void *)from;
    return to > from ? to - from : 0;
}

static void *map_pages(size_t size, size_t align) {
    size_t slack = align > page_size() ? align : 0;
    if (size > PTRDIFF_MAX - slack) return NULL;
    void *recycled = slack ? NULL : recycle_take(size);
    if (recycled) return recycled;
    char *start = mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    if (slack == 0) return start;
    /* Unmaps what lies before and behind the aligned part, so that free need not know of it. */
    size_t head = -(uintptr_t)start & (align - 1), page = page_size();
    size_t tail = head + (size + page - 1) / page * page, end = (size + slack + page - 1) / page * page;
    if (head > 0) munmap(start, head);
    if (end > tail) munmap(start + tail, end - tail);
    return start + head;
}

static void *default_alloc(void *user, size_t size, size_t align) {
    (void)user;
    if (size >= BIG_SIZE) return map_pages(size, align);
    void *ptr;
    return posix_memalign(&ptr, align < sizeof(void *) ? sizeof(void *) : align, size) == 0 ? ptr : NULL;
}

static void default_free(void *user, void *ptr, size_t size) {
    (void)user;
    if (size < BIG_SIZE) free(ptr);
    else if (!recycle_give(ptr, size)) munmap(ptr, size);
}

const Allocator allocator_default = {default_alloc, default_free, NULL};

void *mem_raw(const Allocator *a, size_t size, size_t align, bool *zero) {
    if (!a) a = &allocator_default;
    if (size == 0) size = 1;
    void *ptr = size <= PTRDIFF_MAX ? a->alloc(a->user, size, align) : NULL;
    *zero = (a->alloc == default_alloc && size >= BIG_SIZE) || (a == &allocator_store && BIG_SIZE < SIZE_MAX);
    if (!ptr) fail_memory(size);
    return ptr;
}

/* What is zero already is not touched: that would bring in every page of a big buffer. */
void *mem_alloc(const Allocator *a, size_t size, size_t align) {
    bool zero;
    void *ptr = mem_raw(a, size, align, &zero);
    return zero || !ptr ? ptr : memset(ptr, 0, size ? size : 1);
}

#ifdef MADV_POPULATE_WRITE
typedef struct Pages {
    char *first;
    size_t size;
} Pages;

enum { PIECE = 128 << 10 };

static void touch_pieces(void *arg, int64_t begin, int64_t end) {
    const Pages *pages = arg;
    size_t from = (size_t)begin * PIECE, to = (size_t)end * PIECE;
    (void)madvise(pages->first + from, (to < pages->size ? to : pages->size) - from, MADV_POPULATE_WRITE);
}
#endif

void mem_touch(Pool *pool, void *ptr, size_t size) {
#ifdef MADV_POPULATE_WRITE
    enum { LEAST = 128 << 10 /* fewer pages cost nothing to speak of */, PIECE_NS = 30000 };
    void *first;
    Pages pages = {.size = whole_pages(ptr, size, &first)};
    pages.first = first;
    if (size >= LEAST) parallel_for(pool, (int64_t)((pages.size + PIECE - 1) / PIECE), PIECE_NS, touch_pieces, &pages);
#else
    (void)pool, (void)ptr, (void)size;
#endif
}

void mem_free(const Allocator *a, void *ptr, size_t size) {
    if (!a) a = &allocator_default;
    if (ptr) a->free(a->user, ptr, size == 0 ? 1 : size); /* as mem_alloc asked for it */
}

/* ---- buffers ------------------------------------------------------------------------------------------------- */

enum { BUFFER_ALIGN = 64, BUFFER_HEADER = (sizeof(Buffer) + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN };

static void buffer_init(Buffer *buffer, const Allocator *a, void *data, size_t size) {
    atomic_init(&buffer->references, 1);
    buffer->data = data;
    buffer->size = size;
    buffer->allocator = a;
}

tn_status buffer_new(const Allocator *a, size_t size, Buffer **out) {
    *out = NULL;
    if (size > PTRDIFF_MAX - BUFFER_HEADER) return fail_memory(size);
    Buffer *buffer = mem_alloc(a, BUFFER_HEADER + size, BUFFER_ALIGN);
    if (!buffer) return TN_OUT_OF_MEMORY;
    buffer_init(buffer, a, (uint8_t *)buffer + BUFFER_HEADER, size);
    *out = buffer;
    return TN_OK;
}

static void release_nothing(void *user, void *data, size_t size) { (void)user, (void)data, (void)size; }

tn_status buffer_borrow(const Allocator *a, void *data, size_t size, void (*release)(void *, void *, size_t),
                        void *user, Buffer **out) {
    *out = NULL;
    Buffer *buffer = mem_alloc(a, sizeof *buffer, alignof(Buffer));
    if (!buffer) return TN_OUT_OF_MEMORY;
    buffer_init(buffer, a, data, size);
    buffer->release = release ? release : release_nothing; /* NULL would mean that the data is ours */
    buffer->user = user;
    *out = buffer;
    return TN_OK;
}

Buffer *buffer_ref(Buffer *buffer) {
    if (buffer) atomic_fetch_add_explicit(&buffer->references, 1, memory_order_relaxed);
    return buffer;
}

void buffer_unref(Buffer *buffer) {
    if (!buffer) return;
    int before = atomic_fetch_sub_explicit(&buffer->references, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before != 1) return;
    const Allocator *a = buffer->allocator;
    if (!buffer->release) {
        mem_free(a, buffer, BUFFER_HEADER + buffer->size);
        return;
    }
    buffer->release(buffer->user, buffer->data, buffer->size);
    mem_free(a, buffer, sizeof *buffer);
}
