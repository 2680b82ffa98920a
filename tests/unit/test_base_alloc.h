/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator for tests: counts calls and living bytes, checks the sizes given back, hands out rubbish rather than
   zeros, and fails at the n-th call. */
#ifndef TEST_BASE_ALLOC_H
#define TEST_BASE_ALLOC_H

#include <setjmp.h>
#include <stdlib.h>

#include "base/base.h"

#include <cmocka.h>
#undef fail /* ours is a function */

typedef struct TestHeap {
    int64_t calls, fail_at; /* fail_at 0: never; else the number of the first call that fails */
    size_t living;
    Allocator allocator;
} TestHeap;

typedef struct TestBlock {
    size_t size, shift;
} TestBlock;

static void *heap_alloc(void *user, size_t size, size_t align) {
    TestHeap *heap = user;
    assert_true(size > 0 && align > 0 && (align & (align - 1)) == 0);
    heap->calls++;
    if (heap->fail_at > 0 && heap->calls >= heap->fail_at) return NULL;
    size_t shift = align > sizeof(TestBlock) ? align : sizeof(TestBlock);
    char *base;
    if (posix_memalign((void **)&base, shift, size + shift) != 0) return NULL;
    memset(base, 0xaa, size + shift);
    char *ptr = base + shift;
    ((TestBlock *)ptr)[-1] = (TestBlock){size, shift};
    heap->living += size;
    return ptr;
}

static void heap_free(void *user, void *ptr, size_t size) {
    TestHeap *heap = user;
    TestBlock block = ((TestBlock *)ptr)[-1];
    assert_int_equal(block.size, size);
    heap->living -= size;
    memset(ptr, 0xdd, size);
    free((char *)ptr - block.shift);
}

static inline void test_heap_init(TestHeap *heap) { *heap = (TestHeap){.allocator = {heap_alloc, heap_free, heap}}; }

#endif
