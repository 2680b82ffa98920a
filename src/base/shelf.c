/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of results that were given back, for the next run's: bringing in fresh pages for it takes longer than writing them. */
#include <pthread.h>

#include "base/asan_int.h"
#include "base/base.h"

enum { ALIGN = 64, SMALLEST = 16384 /* bytes: less costs nothing to speak of */ };

typedef struct Block {
    void *data;
    size_t size;
} Block;

struct Shelf {
    const Allocator *allocator;
    pthread_mutex_t lock;
    VEC(Block) blocks; /* those given back, the last one last */
    size_t kept, lent; /* bytes: of those, and of what is with others */
    size_t most;       /* that were lent at a time */
    size_t loans;      /* how many */
    bool closed;
};

/* Sizes in steps of an eighth or less, so that results that grow by a little find what the last one had. */
static size_t rounded(size_t size) {
    size_t step = 4096;
    while (step < size / 16) step *= 2;
    return (size + step - 1) / step * step;
}

tn_status shelf_new(const Allocator *a, Shelf **out) {
    Shelf *shelf = mem_alloc(a, sizeof *shelf, alignof(Shelf));
    if (!shelf) return TN_OUT_OF_MEMORY;
    shelf->allocator = a;
    pthread_mutex_init(&shelf->lock, NULL);
    *out = shelf;
    return TN_OK;
}

static void drop_block(Shelf *shelf, size_t i) {
    Block b = shelf->blocks.data[i];
    shelf->blocks.len--;
    memmove(shelf->blocks.data + i, shelf->blocks.data + i + 1, (shelf->blocks.len - i) * sizeof b);
    shelf->kept -= b.size;
    mem_free(shelf->allocator, b.data, b.size);
}

/* All in all never more than was lent at a time: the oldest go. */
static void tidy(Shelf *shelf) {
    while (shelf->blocks.len > 0 && (shelf->closed || shelf->kept + shelf->lent > shelf->most)) drop_block(shelf, 0);
}

static void free_shelf(Shelf *shelf) {
    vec_free(shelf->allocator, &shelf->blocks);
    pthread_mutex_destroy(&shelf->lock);
    mem_free(shelf->allocator, shelf, sizeof *shelf);
}

/* The last use of a block of this size, or NULL. */
static void *find_block(Shelf *shelf, size_t size) {
    for (size_t i = shelf->blocks.len; i-- > 0;) {
        Block b = shelf->blocks.data[i];
        if (b.size != size) continue;
        shelf->blocks.len--;
        memmove(shelf->blocks.data + i, shelf->blocks.data + i + 1, (shelf->blocks.len - i) * sizeof b);
        shelf->kept -= size;
        return b.data;
    }
    return NULL;
}

/* Buffers call it with the size that was asked for. */
static void give_back(void *user, void *data, size_t size) {
    Shelf *shelf = user;
    Block b = {data, rounded(size)};
    pthread_mutex_lock(&shelf->lock);
    shelf->lent -= b.size;
    shelf->loans--;
#ifdef HAS_ASAN
    bool keeps = false; /* so that it is seen when results are used that were released */
#else
    bool keeps = !shelf->closed && vec_push(shelf->allocator, &shelf->blocks, b) == TN_OK;
#endif
    if (keeps) shelf->kept += b.size;
    tidy(shelf);
    bool last = shelf->closed && shelf->loans == 0;
    pthread_mutex_unlock(&shelf->lock);
    if (!keeps) mem_free(shelf->allocator, data, b.size);
    if (last) free_shelf(shelf);
}

static void *take_block(Shelf *shelf, size_t size) {
    pthread_mutex_lock(&shelf->lock);
    void *data = find_block(shelf, size);
    if (!data) { /* what has no use any more makes room first */
        shelf->most = shelf->most > shelf->lent + size ? shelf->most : shelf->lent + size;
        while (shelf->blocks.len > 0 && shelf->kept + shelf->lent + size > shelf->most) drop_block(shelf, 0);
        data = mem_alloc(shelf->allocator, size, ALIGN);
    }
    if (data) {
        shelf->lent += size;
        shelf->loans++;
    }
    pthread_mutex_unlock(&shelf->lock);
    return data;
}

tn_status shelf_take(Shelf *shelf, const Allocator *a, size_t size, Buffer **out) {
    if (!shelf || size < SMALLEST || size > PTRDIFF_MAX / 2) return buffer_new(a, size, out);
    void *data = take_block(shelf, rounded(size));
    if (!data) return TN_OUT_OF_MEMORY;
    tn_status status = buffer_borrow(a, data, size, give_back, shelf, out);
    if (status != TN_OK) give_back(shelf, data, size);
    return status;
}

void shelf_close(Shelf *shelf) {
    if (!shelf) return;
    pthread_mutex_lock(&shelf->lock);
    shelf->closed = true;
    tidy(shelf);
    bool last = shelf->loans == 0;
    pthread_mutex_unlock(&shelf->lock);
    if (last) free_shelf(shelf);
}
