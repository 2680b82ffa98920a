/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation, arenas, buffers. */
#include <stdint.h>
#include <unistd.h>

#include "test_base_alloc.h"

#include "base/asan_int.h"

static bool is_zero(const void *ptr, size_t n) {
    const uint8_t *p = ptr;
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0) return false;
    return true;
}

static void test_default_allocator(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++)
        for (size_t align = 1; align <= (size_t)1 << 21; align *= 4)
            for (size_t size = 0; size <= (size_t)5 << 20; size = size * 7 + 1) {
                char *p = mem_alloc(&allocator_default, size, align);
                assert_non_null(p);
                assert_int_equal((uintptr_t)p % align, 0);
                assert_true(is_zero(p, size ? size : 1));
                memset(p, 0xee, size ? size : 1);
                mem_free(&allocator_default, p, size);
            }
    mem_free(&allocator_default, NULL, 100);
    void *p = mem_alloc(NULL, 8, 8); /* no allocator: the default one */
    assert_non_null(p);
    mem_free(NULL, p, 8);
}

/* Blocks side by side: zero at first, each its own, whatever is given back and trimmed between. */
static void test_store(void **state) {
    enum { BLOCKS = 40 };
    uint8_t *block[BLOCKS] = {NULL};
    size_t size[BLOCKS] = {0}, seed = 1;
    (void)state;
    for (int turn = 0; turn < 1500; turn++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t k = (seed >> 33) % BLOCKS, shift = (seed >> 40) % 23;
        for (size_t i = 0; block[k] && i < size[k]; i += i < 200 ? 1 : 997)
            assert_int_equal(block[k][i], (uint8_t)(k + 1));
        mem_free(&allocator_store, block[k], size[k]);
        block[k] = NULL;
        if (turn % 7 == 0) store_trim();
        if (turn % 3 == 0) continue;
        size[k] = ((size_t)1 << shift) + (seed >> 50) % 100;
        block[k] = mem_alloc(&allocator_store, size[k], 64);
        assert_non_null(block[k]);
        assert_int_equal((uintptr_t)block[k] % 64, 0);
        assert_true(is_zero(block[k], size[k]));
        memset(block[k], (int)k + 1, size[k]);
    }
    for (int k = 0; k < BLOCKS; k++) mem_free(&allocator_store, block[k], size[k]);
    store_trim();
}

/* Big blocks that serve again: zero, each its own, and free to be given back later or by the end. */
static void test_recycling(void **state) {
    enum { BLOCKS = 24 };
    uint8_t *block[BLOCKS] = {NULL};
    size_t size[BLOCKS] = {0}, seed = 1, n_again = 0;
    void *last = NULL;
    (void)state;
    recycle_begin();
    recycle_begin();
    for (int turn = 0; turn < 2000; turn++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t k = (seed >> 33) % BLOCKS;
        if (turn == 1500) recycle_end();
        for (size_t i = 0; block[k] && i < size[k]; i += i < 200 ? 1 : 997)
            assert_int_equal(block[k][i], (uint8_t)(k + 1));
        if (block[k]) last = block[k];
        mem_free(&allocator_default, block[k], size[k]);
        block[k] = NULL;
        if (turn % 3 == 0) continue;
        size[k] = ((size_t)1 << 19) + (seed >> 44) * 5;
        block[k] = mem_alloc(&allocator_default, size[k], 64);
        assert_non_null(block[k]);
        assert_true(is_zero(block[k], size[k]));
        n_again += block[k] == last;
        memset(block[k], (int)k + 1, size[k]);
    }
#ifndef HAS_ASAN
    assert_true(n_again > 0);
#endif
    recycle_end();
    for (int k = 0; k < BLOCKS; k++) mem_free(&allocator_default, block[k], size[k]);
}

/* Memory nobody touched costs no pages: more of it than is used can be had. */
static void test_untouched_memory(void **state) {
    (void)state;
    size_t size = (size_t)6 << 30;
    char *p = mem_alloc(&allocator_default, size, 64);
    if (!p) skip();
    assert_int_equal(p[size - 1], 0);
    mem_free(&allocator_default, p, size);
}

static void test_impossible_sizes(void **state) {
    (void)state;
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 63, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX, PTRDIFF_MAX - 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Arena arena;
        Buffer *buffer;
        arena_init(&arena, &allocator_default);
        diag_clear();
        assert_null(mem_alloc(&allocator_default, sizes[i], 64));
        assert_int_equal(diag_status(), TN_OUT_OF_MEMORY);
        assert_null(arena_alloc(&arena, sizes[i], 64));
        assert_null(arena_array(&arena, int64_t, sizes[i]));
        assert_int_equal(buffer_new(&allocator_default, sizes[i], &buffer), TN_OUT_OF_MEMORY);
        arena_free(&arena);
    }
}

static void test_memory_is_zeroed_for_any_allocator(void **state) {
    (void)state;
    TestHeap heap;
    test_heap_init(&heap);
    void *p = mem_alloc(&heap.allocator, 100, 16);
    assert_true(is_zero(p, 100));
    mem_free(&heap.allocator, p, 100);
    p = mem_alloc(&heap.allocator, 0, 16);
    mem_free(&heap.allocator, p, 0);
    assert_int_equal(heap.living, 0);
}

/* One turn of a loop: mixed sizes, some bigger than any block. */
static void take_a_turn(Arena *arena, unsigned seed) {
    for (int i = 0; i < 300; i++) {
        seed = seed * 1103515245u + 12345u;
        size_t size = seed >> 16 & 0xfff, align = (size_t)1 << (seed >> 28 & 7);
        if (i % 50 == 7) size *= 4096;
        char *p = arena_alloc(arena, size, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        assert_true(is_zero(p, size));
        memset(p, 0x55, size);
    }
}

static void test_arena_keeps_its_blocks(void **state) {
    (void)state;
    TestHeap heap;
    Arena arena;
    test_heap_init(&heap);
    arena_init(&arena, &heap.allocator);
    take_a_turn(&arena, 1);
    int64_t calls = heap.calls;
    size_t used = arena.used;
    for (int turn = 0; turn < 5; turn++) {
        arena_reset(&arena);
        assert_int_equal(arena.used, 0);
        take_a_turn(&arena, 1);
        assert_int_equal(heap.calls, calls);
        assert_int_equal(arena.used, used);
    }
    arena_free(&arena);
    assert_int_equal(heap.living, 0);
    take_a_turn(&arena, 2); /* usable again */
    arena_free(&arena);
    assert_int_equal(heap.living, 0);
}

/* A big request finds its block again although smaller ones come first now. */
static void test_arena_reuses_big_blocks(void **state) {
    (void)state;
    TestHeap heap;
    Arena arena;
    test_heap_init(&heap);
    arena_init(&arena, &heap.allocator);
    arena_alloc(&arena, 10, 8);
    arena_alloc(&arena, 5000000, 8);
    arena_alloc(&arena, 3000000, 8);
    int64_t calls = heap.calls;
    arena_reset(&arena);
    arena_alloc(&arena, 3000000, 64);
    arena_alloc(&arena, 5000000, 64);
    arena_alloc(&arena, 10, 8);
    arena_reset(&arena);
    arena_alloc(&arena, 5000000, 4);
    assert_true(heap.calls <= calls + 1); /* the first 3,000,000 may have taken the block of the 5,000,000 */
    arena_free(&arena);
    assert_int_equal(heap.living, 0);
}

static void test_arena_marks(void **state) {
    (void)state;
    Arena arena;
    arena_init(&arena, &allocator_default);
    ArenaMark empty = arena_mark(&arena);
    char *kept = arena_strndup(&arena, "kept text", 4);
    assert_string_equal(kept, "kept");
    ArenaMark mark = arena_mark(&arena);
    size_t used = arena.used;
    take_a_turn(&arena, 3);
    arena_release(&arena, mark);
    assert_int_equal(arena.used, used);
    char *p = arena_alloc(&arena, 100, 1);
    assert_true(is_zero(p, 100)); /* it was used in between */
    assert_string_equal(kept, "kept");
    arena_release(&arena, empty);
    assert_int_equal(arena.used, 0);
    assert_true(arena_alloc(&arena, 4, 1) == kept);
    arena_free(&arena);
}

static void test_arena_out_of_memory(void **state) {
    (void)state;
    for (int64_t at = 1; at < 20; at++) {
        TestHeap heap;
        Arena arena;
        test_heap_init(&heap);
        heap.fail_at = at;
        arena_init(&arena, &heap.allocator);
        bool failed = false;
        for (int i = 0; i < 10000 && !failed; i++) failed = !arena_array(&arena, int64_t, 100);
        assert_true(heap.calls < at || failed);
        arena_free(&arena);
        assert_int_equal(heap.living, 0);
    }
}

static int released;
static void count_release(void *user, void *data, size_t size) {
    assert_ptr_equal(user, &released);
    assert_int_equal(size, 3);
    assert_memory_equal(data, "abc", 3);
    released++;
}

static void test_buffers(void **state) {
    (void)state;
    TestHeap heap;
    Buffer *buffer;
    char data[3] = "abc";
    test_heap_init(&heap);
    assert_int_equal(buffer_new(&heap.allocator, 1000, &buffer), TN_OK);
    assert_int_equal((uintptr_t)buffer->data % 64, 0);
    assert_true(is_zero(buffer->data, 1000));
    assert_ptr_equal(buffer_ref(buffer), buffer);
    buffer_unref(buffer);
    assert_true(heap.living > 0);
    buffer_unref(buffer);
    assert_int_equal(heap.living, 0);
    assert_int_equal(buffer_borrow(&heap.allocator, data, 3, count_release, &released, &buffer), TN_OK);
    buffer_unref(buffer);
    assert_int_equal(released, 1);
    assert_int_equal(buffer_borrow(&heap.allocator, data, 3, NULL, NULL, &buffer), TN_OK);
    buffer_unref(buffer);
    assert_int_equal(buffer_new(&heap.allocator, 0, &buffer), TN_OK);
    assert_non_null(buffer->data);
    buffer_unref(buffer);
    assert_int_equal(heap.living, 0);
    assert_null(buffer_ref(NULL));
    buffer_unref(NULL);
    heap.fail_at = 1;
    assert_int_equal(buffer_new(&heap.allocator, 1, &buffer), TN_OUT_OF_MEMORY);
    assert_int_equal(buffer_borrow(&heap.allocator, data, 3, NULL, NULL, &buffer), TN_OUT_OF_MEMORY);
    assert_null(buffer);
}

static Buffer *taken(TestHeap *heap, Shelf *shelf, size_t size) {
    Buffer *b;
    assert_int_equal(shelf_take(shelf, &heap->allocator, size, &b), TN_OK);
    assert_int_equal(b->size, size);
    assert_int_equal((uintptr_t)b->data % 64, 0);
    memset(b->data, 0x55, size);
    return b;
}

/* What is given back is lent again; a sanitizer's build keeps nothing. */
static void test_shelf(void **state) {
    (void)state;
    TestHeap heap;
    Shelf *shelf;
    test_heap_init(&heap);
    assert_int_equal(shelf_new(&heap.allocator, &shelf), TN_OK);
    Buffer *a = taken(&heap, shelf, 100000), *b = taken(&heap, shelf, 100000), *small = taken(&heap, shelf, 10);
    assert_ptr_not_equal(a->data, b->data);
    const void *where = a->data;
    buffer_unref(buffer_ref(a)); /* somebody has it still */
    Buffer *c = taken(&heap, shelf, 100001);
    assert_ptr_not_equal(c->data, where);
    buffer_unref(c);
    buffer_unref(small);
    buffer_unref(a);
    int64_t calls = heap.calls;
    c = taken(&heap, shelf, 100100);
#ifndef HAS_ASAN
    assert_ptr_equal(c->data, where);
    assert_int_equal(heap.calls, calls + 1); /* the buffer's header */
#endif
    assert_true(heap.calls > calls);
    buffer_unref(c);
    c = taken(&heap, shelf, 60000); /* less than half of what is there is idle */
#ifndef HAS_ASAN
    assert_ptr_equal(c->data, where);
#endif
    buffer_unref(c);
    calls = heap.calls;
    c = taken(&heap, shelf, 40000);
    assert_true(heap.calls > calls + 1); /* a block of its own */
    buffer_unref(c);
    buffer_unref(b);
    b = taken(&heap, shelf, 1000000);
    a = taken(&heap, shelf, 20000);
    buffer_unref(a);
    shelf_close(shelf);
    assert_true(heap.living > 1000000 && heap.living < 1100000);
    buffer_unref(b);
    assert_int_equal(heap.living, 0);
    shelf_close(NULL);
}

static bool asked_for_memory(TestHeap *heap, Shelf *shelf, size_t size) {
    int64_t calls = heap->calls;
    buffer_unref(taken(heap, shelf, size));
    return heap->calls > calls + 1; /* more than the buffer's header */
}

/* Sizes that take turns keep a block each, of twice the memory that was lent at a time; sizes that grow leave none behind. */
static void test_shelf_sizes(void **state) {
    (void)state;
    TestHeap heap;
    Shelf *shelf;
    test_heap_init(&heap);
    assert_int_equal(shelf_new(&heap.allocator, &shelf), TN_OK);
    static const size_t turns[] = {1000000, 100000, 400000};
    for (int i = 0; i < 9; i++) {
        bool asked = asked_for_memory(&heap, shelf, turns[i % 3]);
#ifdef HAS_ASAN
        assert_true(asked);
#else
        assert_int_equal(asked, i < 3);
#endif
    }
    for (size_t size = 1000000; size > 20000; size = size * 5 / 9) {
        asked_for_memory(&heap, shelf, size);
        asked_for_memory(&heap, shelf, 1000000 - size);
        assert_true(heap.living < 2200000);
    }
    for (size_t size = 1000000; size < 9000000; size += size / 7) {
        asked_for_memory(&heap, shelf, size);
        assert_true(heap.living < size + size / 6 + 1000000); /* those of before, which are of other sizes */
    }
    shelf_close(shelf);
    assert_int_equal(heap.living, 0);
}

static void test_shelf_out_of_memory(void **state) {
    (void)state;
    for (int n = 1; n < 8; n++) {
        TestHeap heap;
        Shelf *shelf = NULL;
        test_heap_init(&heap);
        heap.fail_at = n;
        if (shelf_new(&heap.allocator, &shelf) == TN_OK) {
            Buffer *a = NULL, *b = NULL;
            if (shelf_take(shelf, &heap.allocator, 50000, &a) == TN_OK) buffer_unref(a);
            if (shelf_take(shelf, &heap.allocator, 90000, &b) == TN_OK) buffer_unref(b);
        }
        shelf_close(shelf);
        assert_int_equal(heap.living, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_allocator),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_recycling),
        cmocka_unit_test(test_untouched_memory),
        cmocka_unit_test(test_impossible_sizes),
        cmocka_unit_test(test_memory_is_zeroed_for_any_allocator),
        cmocka_unit_test(test_arena_keeps_its_blocks),
        cmocka_unit_test(test_arena_reuses_big_blocks),
        cmocka_unit_test(test_arena_marks),
        cmocka_unit_test(test_arena_out_of_memory),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_shelf),
        cmocka_unit_test(test_shelf_sizes),
        cmocka_unit_test(test_shelf_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
