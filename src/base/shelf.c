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
    VEC(Block) blocks, loans; /* those given back, the last one last; what is with others */
    size_t kept, lent;        /* bytes of them */
    size_t most;              /* that were lent at a time */
    bool closed;
};

/* Sizes in steps of an eighth or less, so that results that grow by a little stay where they were. */
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

static Block take_out(Shelf *shelf, size_t i) {
    Block b = shelf->blocks.data[i];
    shelf->blocks.len--;
    memmove(shelf->blocks.data + i, shelf->blocks.data + i + 1, (shelf->blocks.len - i) * sizeof b);
    shelf->kept -= b.size;
    return b;
}

static void drop_block(Shelf *shelf, size_t i) {
    Block b = take_out(shelf, i);
    mem_free(shelf->allocator, b.data, b.size);
}

/* All in all never more than twice what was lent at a time: the oldest go. Results of very different sizes take turns where
   inputs do, and each finds its own. */
static void tidy(Shelf *shelf, size_t wanted) {
    while (shelf->blocks.len > 0 && (shelf->closed || shelf->kept + shelf->lent + wanted > 2 * shelf->most))
        drop_block(shelf, 0);
}

/* Blocks that are too small now, but served for results about as large, which have grown: they make room for the new one. */
static void drop_outgrown(Shelf *shelf, size_t size) {
    for (size_t i = 0; i < shelf->blocks.len && shelf->kept + shelf->lent + size > shelf->most;) {
        size_t have = shelf->blocks.data[i].size;
        if (have < size && size < 2 * have) drop_block(shelf, i);
        else i++;
    }
}

static void free_shelf(Shelf *shelf) {
    vec_free(shelf->allocator, &shelf->blocks);
    vec_free(shelf->allocator, &shelf->loans);
    pthread_mutex_destroy(&shelf->lock);
    mem_free(shelf->allocator, shelf, sizeof *shelf);
}

/* The smallest that is large enough, but not twice as large; of those the last that was in use. No data: there is none. */
static Block find_block(Shelf *shelf, size_t size) {
    size_t best = shelf->blocks.len, least = 2 * size;
    for (size_t i = shelf->blocks.len; i-- > 0;) {
        size_t have = shelf->blocks.data[i].size;
        if (have < size || have >= least) continue;
        best = i;
        least = have;
    }
    return best < shelf->blocks.len ? take_out(shelf, best) : (Block){0};
}

static Block end_loan(Shelf *shelf, const void *data) {
    size_t i = shelf->loans.len - 1; /* it is one of them */
    while (shelf->loans.data[i].data != data) i--;
    Block b = shelf->loans.data[i];
    shelf->loans.data[i] = shelf->loans.data[--shelf->loans.len];
    shelf->lent -= b.size;
    return b;
}

static void give_back(void *user, void *data, size_t size) {
    Shelf *shelf = user;
    (void)size; /* that was asked for */
    pthread_mutex_lock(&shelf->lock);
    Block b = end_loan(shelf, data);
#ifdef HAS_ASAN
    bool keeps = false; /* so that it is seen when results are used that were released */
#else
    bool keeps = !shelf->closed && vec_push(shelf->allocator, &shelf->blocks, b) == TN_OK;
#endif
    if (keeps) shelf->kept += b.size;
    tidy(shelf, 0);
    bool last = shelf->closed && shelf->loans.len == 0;
    pthread_mutex_unlock(&shelf->lock);
    if (!keeps) mem_free(shelf->allocator, b.data, b.size);
    if (last) free_shelf(shelf);
}

static void *lend(Shelf *shelf, size_t size) {
    if (vec_push(shelf->allocator, &shelf->loans, (Block){0}) != TN_OK) return NULL;
    Block b = find_block(shelf, size);
    if (!b.data) {
        shelf->most = shelf->most > shelf->lent + size ? shelf->most : shelf->lent + size;
        drop_outgrown(shelf, size);
        tidy(shelf, size);
        b = (Block){mem_alloc(shelf->allocator, size, ALIGN), size};
    }
    if (b.data) {
        shelf->loans.data[shelf->loans.len - 1] = b;
        shelf->lent += b.size;
    } else shelf->loans.len--;
    return b.data;
}

static void *take_block(Shelf *shelf, size_t size) {
    pthread_mutex_lock(&shelf->lock);
    void *data = lend(shelf, size);
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
    tidy(shelf, 0);
    bool last = shelf->loans.len == 0;
    pthread_mutex_unlock(&shelf->lock);
    if (last) free_shelf(shelf);
}
