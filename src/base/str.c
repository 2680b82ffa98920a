/* SPDX-License-Identifier: Apache-2.0 */
/* Text without a terminator: validity, hashing, and the name that was probably meant. */
#include "base/base.h"

#include <sys/random.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/utf8_int.h"

static bool is_continuation(unsigned char c) { return (c & 0xc0) == 0x80; }

size_t utf8_length(const char *s, size_t n) {
    const unsigned char *p = (const unsigned char *)s;
    if (n == 0) return 0;
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xc2) return 0; /* a continuation byte, or an overlong form */
    if (p[0] < 0xe0) return n >= 2 && is_continuation(p[1]) ? 2 : 0;
    if (p[0] < 0xf0) {
        if (n < 3 || !is_continuation(p[1]) || !is_continuation(p[2])) return 0;
        if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
        return p[0] == 0xed && p[1] >= 0xa0 ? 0 : 3; /* no surrogates */
    }
    if (p[0] > 0xf4 || n < 4 || !is_continuation(p[1]) || !is_continuation(p[2]) || !is_continuation(p[3])) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    return p[0] == 0xf4 && p[1] >= 0x90 ? 0 : 4;
}

bool str_is_utf8(Str s) {
    for (size_t i = 0; i < s.n;) {
        size_t length = utf8_length(s.s + i, s.n - i);
        if (length == 0) return false;
        i += length;
    }
    return true;
}

/* Drawn once a process: whoever writes a model cannot know which names collide. */
static uint64_t hash_seed(void) {
    static _Atomic uint64_t shared;
    uint64_t seed = atomic_load_explicit(&shared, memory_order_relaxed);
    if (seed != 0) return seed;
    if (getentropy(&seed, sizeof seed) != 0) {
        struct timespec now; /* a system without entropy: still better than a constant */
        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)&now;
    }
    seed |= 1;
    uint64_t none = 0;
    return atomic_compare_exchange_strong(&shared, &none, seed) ? seed : none;
}

uint64_t hash_bytes(const void *data, size_t n) { return XXH3_64bits_withSeed(n ? data : "", n, hash_seed()); }

enum { LONGEST_NAME = 127 };

/* Levenshtein's distance of two names of at most LONGEST_NAME bytes. */
static size_t edit_distance(Str a, Str b) {
    size_t row[LONGEST_NAME + 1];
    for (size_t j = 0; j <= b.n; j++) row[j] = j;
    for (size_t i = 0; i < a.n; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b.n; j++) {
            size_t replaced = diagonal + (a.s[i] != b.s[j]);
            size_t shorter = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[b.n];
}

size_t name_distance(Str wrong, Str name) {
    size_t farthest = wrong.n / 3, difference = name.n > wrong.n ? name.n - wrong.n : wrong.n - name.n;
    if (wrong.n > LONGEST_NAME || name.n > LONGEST_NAME || difference > farthest) return SIZE_MAX;
    size_t distance = edit_distance(wrong, name);
    return distance <= farthest ? distance : SIZE_MAX;
}

const char *nearest_name(Str wrong, const char *const *names, size_t n) {
    const char *best = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t distance = name_distance(wrong, str_of(names[i]));
        if (distance >= least) continue;
        best = names[i];
        least = distance;
    }
    return best;
}
