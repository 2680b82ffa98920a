/* SPDX-License-Identifier: Apache-2.0 */
/* Growing of the VEC arrays. */
#include "base/base.h"

enum { FIRST_CAPACITY = 8 };

/* `data` points to a pointer of some other type than void *, so it is read and written as bytes. */
tn_status vec_reserve_(const Allocator *a, void **data, size_t *cap, size_t want, size_t size) {
    if (want <= *cap) return TN_OK;
    size_t grown = *cap > SIZE_MAX / 2 ? want : *cap * 2, bytes;
    if (grown < FIRST_CAPACITY) grown = FIRST_CAPACITY;
    if (grown < want) grown = want;
    if (__builtin_mul_overflow(grown, size, &bytes)) return fail_memory(SIZE_MAX);
    void *fresh = mem_alloc(a, bytes, alignof(max_align_t)), *old;
    if (!fresh) return TN_OUT_OF_MEMORY;
    memcpy(&old, data, sizeof old);
    if (old) memcpy(fresh, old, *cap * size);
    mem_free(a, old, *cap * size);
    memcpy(data, &fresh, sizeof fresh);
    *cap = grown;
    return TN_OK;
}
