/* SPDX-License-Identifier: Apache-2.0 */
/* The bump allocator: a list of blocks, of which those up to `current` are in use and those behind it are kept. */
#include "base/base.h"

#include "base/asan_int.h"

struct ArenaBlock {
    ArenaBlock *next;
    size_t size, used;
    size_t dirty; /* bytes that may not be zero */
};

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20, BLOCK_ALIGN = 64 };
enum { HEADER = (sizeof(ArenaBlock) + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN };

static char *block_data(const ArenaBlock *block) { return (char *)block + HEADER; }

void arena_init(Arena *arena, const Allocator *allocator) {
    *arena = (Arena){.allocator = allocator, .block_size = FIRST_BLOCK};
}

/* Memory from one block, or NULL when it does not fit. */
static void *take(ArenaBlock *block, size_t size, size_t align, bool zeroed) {
    char *data = block_data(block);
    size_t start = block->used + (-(uintptr_t)(data + block->used) & (align - 1));
    if (start > block->size || size > block->size - start) return NULL;
    block->used = start + size;
    UNPOISON(data + start, size);
    if (zeroed && block->dirty > start)
        memset(data + start, 0, (block->dirty < block->used ? block->dirty : block->used) - start);
    if (block->dirty < block->used) block->dirty = block->used;
    return data + start;
}

/* Where the pointer to the first unused block stands. */
static ArenaBlock **unused_blocks(Arena *arena) { return arena->current ? &arena->current->next : &arena->first; }

static void *take_from_unused(Arena *arena, size_t size, size_t align, bool zeroed) {
    ArenaBlock **unused = unused_blocks(arena);
    for (ArenaBlock **link = unused; *link; link = &(*link)->next) {
        ArenaBlock *block = *link;
        block->used = 0;
        void *ptr = take(block, size, align, zeroed);
        if (!ptr) continue;
        *link = block->next; /* moves the block up, before those that were too small */
        block->next = *unused;
        *unused = arena->current = block;
        return ptr;
    }
    return NULL;
}

static ArenaBlock *add_block(Arena *arena, size_t size) {
    if (size < arena->block_size) size = arena->block_size;
    bool zero;
    ArenaBlock *block = mem_raw(arena->allocator, HEADER + size, BLOCK_ALIGN, &zero);
    if (!block) return NULL;
    *block = (ArenaBlock){.size = size, .dirty = zero ? 0 : size}; /* zeroed when handed out: most is not, for long */
    POISON(block_data(block), size);
    ArenaBlock **unused = unused_blocks(arena);
    block->next = *unused;
    *unused = arena->current = block;
    if (arena->block_size < LARGEST_BLOCK) arena->block_size *= 2;
    return block;
}

static void *alloc(Arena *arena, size_t size, size_t align, bool zeroed) {
    if (size == 0) size = 1;
    void *ptr = arena->current ? take(arena->current, size, align, zeroed) : NULL;
    if (!ptr) ptr = take_from_unused(arena, size, align, zeroed);
    if (!ptr) {
        size_t slack = align > BLOCK_ALIGN ? align : 0;
        if (size > PTRDIFF_MAX - slack - HEADER) {
            fail_memory(size);
            return NULL;
        }
        ArenaBlock *block = add_block(arena, size + slack);
        if (!block) return NULL;
        ptr = take(block, size, align, zeroed);
    }
    arena->used += size;
    return ptr;
}

void *arena_alloc(Arena *arena, size_t size, size_t align) { return alloc(arena, size, align, true); }

void *arena_raw(Arena *arena, size_t size, size_t align) { return alloc(arena, size, align, false); }

void *arena_array_(Arena *arena, size_t n, size_t size, size_t align) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        fail_memory(SIZE_MAX);
        return NULL;
    }
    return arena_alloc(arena, bytes, align);
}

char *arena_strndup(Arena *arena, const char *s, size_t n) {
    char *copy = arena_alloc(arena, n < SIZE_MAX ? n + 1 : n, 1);
    if (copy && n > 0) memcpy(copy, s, n);
    return copy;
}

/* Under the sanitizer, reading what was given back is an error. */
static void poison_rest(const ArenaBlock *block, size_t from) { POISON(block_data(block) + from, block->size - from); }

void arena_reset(Arena *arena) { arena_release(arena, (ArenaMark){0}); }

ArenaMark arena_mark(const Arena *arena) {
    return (ArenaMark){arena->current, arena->current ? arena->current->used : 0, arena->used};
}

void arena_release(Arena *arena, ArenaMark mark) {
    ArenaBlock *behind = mark.block ? mark.block->next : arena->first;
    if (mark.block) {
        mark.block->used = mark.offset;
        poison_rest(mark.block, mark.offset);
    }
    /* Blocks behind `current` were given back before. */
    for (ArenaBlock *b = behind; b && arena->current != mark.block; b = b->next) {
        poison_rest(b, 0);
        if (b == arena->current) break;
    }
    arena->current = mark.block;
    arena->used = mark.used;
}

void arena_free(Arena *arena) {
    for (ArenaBlock *block = arena->first, *next; block; block = next) {
        next = block->next;
        UNPOISON(block_data(block), block->size);
        mem_free(arena->allocator, block, HEADER + block->size);
    }
    arena_init(arena, arena->allocator);
}
