/* SPDX-License-Identifier: Apache-2.0 */
/* Copying of elements as they are, and string elements. */
#include "base/element_int.h"

/* ---- strings ------------------------------------------------------------------------------------------------- */

struct RcString {
    atomic_int references;
    const Allocator *allocator;
    size_t n;
    char s[];
};

tn_status rc_string_new(const Allocator *a, Str text, RcString **out) {
    *out = NULL;
    if (text.n > PTRDIFF_MAX - sizeof(RcString)) return fail_memory(text.n);
    RcString *s = mem_alloc(a, sizeof *s + text.n, alignof(RcString));
    if (!s) return TN_OUT_OF_MEMORY;
    atomic_init(&s->references, 1);
    s->allocator = a;
    s->n = text.n;
    if (text.n > 0) memcpy(s->s, text.s, text.n);
    *out = s;
    return TN_OK;
}

RcString *rc_string_ref(RcString *s) {
    if (s) atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed);
    return s;
}

void rc_string_unref(RcString *s) {
    if (!s) return;
    int before = atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1) mem_free(s->allocator, s, sizeof *s + s->n);
}

Str rc_string_get(const RcString *s) { return s ? (Str){s->s, s->n} : (Str){"", 0}; }

/* ---- copies -------------------------------------------------------------------------------------------------- */

/* As assignment: what the destination held is released, after the new reference is taken. */
static void copy_strings(uint8_t *dst, int64_t dst_stride, const uint8_t *src, int64_t src_stride, int64_t n) {
    const int64_t size = sizeof(void *);
    for (int64_t i = 0; i < n; i++) {
        RcString *old, *fresh;
        memcpy(&fresh, src + i * src_stride * size, sizeof(void *));
        memcpy(&old, dst + i * dst_stride * size, sizeof(void *));
        rc_string_ref(fresh);
        memcpy(dst + i * dst_stride * size, &fresh, sizeof(void *));
        rc_string_unref(old);
    }
}

/* `size` is a constant at each call, so that memcpy becomes a load and a store. */
static inline void copy_strided(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, size_t size,
                                int64_t n) {
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * dst_step, src + i * src_step, size);
}

static void copy_whole(int size, uint8_t *dst, int64_t dst_stride, const uint8_t *src, int64_t src_stride, int64_t n) {
    int64_t to = dst_stride * size, from = src_stride * size;
    if (dst_stride == 1 && src_stride == 1) memcpy(dst, src, (size_t)(n * size));
    else if (size == 1) copy_strided(dst, to, src, from, 1, n);
    else if (size == 2) copy_strided(dst, to, src, from, 2, n);
    else if (size == 4) copy_strided(dst, to, src, from, 4, n);
    else if (size == 8) copy_strided(dst, to, src, from, 8, n);
    else copy_strided(dst, to, src, from, 16, n);
}

static void copy_packed(int bits, uint8_t *dst, int64_t dst_offset, int64_t dst_stride, const uint8_t *src,
                        int64_t src_offset, int64_t src_stride, int64_t n) {
    int64_t per_byte = 8 / bits, done = 0;
    if (dst_stride == 1 && src_stride == 1 && dst_offset % per_byte == 0 && src_offset % per_byte == 0) {
        memcpy(dst + dst_offset / per_byte, src + src_offset / per_byte, (size_t)(n / per_byte));
        done = n / per_byte * per_byte;
    }
    for (int64_t i = done; i < n; i++)
        packed_set(dst, bits, dst_offset + i * dst_stride, packed_get(src, bits, src_offset + i * src_stride));
}

void copy_elements(tn_dtype dtype, void *dst, int64_t dst_offset, int64_t dst_stride, const void *src,
                   int64_t src_offset, int64_t src_stride, int64_t n) {
    int bits = dtype_bits(dtype), size = bits / 8;
    assert(bits > 0);
    if (n <= 0 || bits == 0) return;
    if (size == 0) {
        copy_packed(bits, dst, dst_offset, dst_stride, src, src_offset, src_stride, n);
        return;
    }
    uint8_t *to = (uint8_t *)dst + dst_offset * size;
    const uint8_t *from = (const uint8_t *)src + src_offset * size;
    if (dtype == TN_STRING) copy_strings(to, dst_stride, from, src_stride, n);
    else copy_whole(size, to, dst_stride, from, src_stride, n);
}
