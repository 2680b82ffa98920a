/* SPDX-License-Identifier: Apache-2.0 */
/* Moves of one element size T, included once for each size and instruction set: NAME(f) is the function's name, TARGET
   its attribute. A vector is WIDE chunks of 16 bytes, each of them LANES elements; UNPACK(i, n) lists half a chunk of
   elements from i on, each followed by its like in a second vector of n. SMALLER transposes what is too small for
   that, or is made here. Elements may be misaligned (mapped constants), so they move by memcpy. */

/* ---- rows ------------------------------------------------------------------------------------------------------ */

/* n elements; strides are in bytes. */
TARGET static void NAME(row)(char *restrict to, int64_t dst, const char *restrict from, int64_t src, int64_t n) {
    const int64_t size = sizeof(T);
    T v;
    if (src == 0) {
        memcpy(&v, from, sizeof v);
        if (dst == size)
            for (int64_t i = 0; i < n; i++) memcpy(to + i * size, &v, sizeof v);
        else
            for (int64_t i = 0; i < n; i++) memcpy(to + i * dst, &v, sizeof v);
    } else if (dst == size && src == -size) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(&v, from - i * size, sizeof v);
            memcpy(to + i * size, &v, sizeof v);
        }
    } else if (dst == size && src == 2 * size) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(&v, from + i * 2 * size, sizeof v);
            memcpy(to + i * size, &v, sizeof v);
        }
    } else if (dst == size) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(&v, from + i * src, sizeof v);
            memcpy(to + i * size, &v, sizeof v);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            memcpy(&v, from + i * src, sizeof v);
            memcpy(to + i * dst, &v, sizeof v);
        }
    }
}

/* ---- transposes ------------------------------------------------------------------------------------------------ */

#ifndef SMALLER
TARGET static void NAME(plain)(char *restrict to, int64_t db, const char *restrict from, int64_t sa, int64_t an,
                               int64_t bn, bool stream) {
    const int64_t size = sizeof(T);
    (void)stream;
    if (an >= bn)
        for (int64_t b = 0; b < bn; b++) NAME(row)(to + b * db, size, from + b * size, sa, an);
    else
        for (int64_t a = 0; a < an; a++) NAME(row)(to + a * size, db, from + a * sa, size, bn);
}
#define SMALLER NAME(plain)
#endif

/* A few streams of any length, woven together or taken apart: the compiler knows how many. */
#define STREAMS(N)                                                                                                \
    TARGET static void NAME(weave_##N)(char *restrict to, const char *restrict from, int64_t sa, int64_t n) {     \
        const int64_t size = sizeof(T);                                                                           \
        for (int64_t i = 0; i < n; i++)                                                                           \
            for (int k = 0; k < N; k++) memcpy(to + (i * N + k) * size, from + k * sa + i * size, sizeof(T));     \
    }                                                                                                             \
    TARGET static void NAME(part_##N)(char *restrict to, int64_t db, const char *restrict from, int64_t n) {      \
        const int64_t size = sizeof(T);                                                                           \
        for (int k = 0; k < N; k++)                                                                               \
            for (int64_t i = 0; i < n; i++) memcpy(to + k * db + i * size, from + (i * N + k) * size, sizeof(T)); \
    }
STREAMS(2)
STREAMS(3)
STREAMS(4)
#undef STREAMS

/* One vector of each of LANES rows of the result: what a chunk holds is woven log2(LANES) times. */
#define STEP (LANES * WIDE)
#if LANES > 1
typedef T NAME(Vec) __attribute__((vector_size(16 * WIDE)));
#if WIDE == 4
#define WEAVE(i) UNPACK(i, STEP), UNPACK(i + LANES, STEP), UNPACK(i + 2 * LANES, STEP), UNPACK(i + 3 * LANES, STEP)
#else
#define WEAVE(i) UNPACK(i, STEP)
#endif
TARGET static inline void NAME(weave)(CHUNKS *rows) {
    NAME(Vec) r[LANES], s[LANES];
    for (int i = 0; i < LANES; i++) r[i] = (NAME(Vec))rows[i];
    for (int step = 1; step < LANES; step *= 2) {
        for (int i = 0; i < LANES / 2; i++) {
            s[2 * i] = __builtin_shufflevector(r[i], r[i + LANES / 2], WEAVE(0));
            s[2 * i + 1] = __builtin_shufflevector(r[i], r[i + LANES / 2], WEAVE(LANES / 2));
        }
        for (int i = 0; i < LANES; i++) r[i] = s[i];
    }
    for (int i = 0; i < LANES; i++) rows[i] = (CHUNKS)r[i];
}
#undef WEAVE
#else
TARGET static inline void NAME(weave)(CHUNKS *rows) { (void)rows; }
#endif

/* At the ends squares lie over each other, which writes the same values again. Lines of the result are asked for one
   step ahead: they lie far from each other, which no processor foresees. */
#define LINE (64 / (int64_t)sizeof(T))
TARGET static void NAME(squares)(char *restrict to, int64_t db, const char *restrict from, int64_t sa, int64_t an,
                                 int64_t bn, bool stream) {
    const int64_t size = sizeof(T);
    CHUNKS rows[LANES];
    for (int64_t a = 0; a < an; a += LINE) {
        for (int64_t b = 0; b < bn; b += LANES) {
            int64_t b0 = min_i64(b, bn - LANES);
            if (!stream)
                for (int i = 0; i < LANES; i++) __builtin_prefetch(to + (b0 + i) * db + (a + LINE) * size, 1, 2);
            for (int64_t a1 = a; a1 < an && a1 < a + LINE; a1 += STEP) {
                int64_t a0 = min_i64(a1, an - STEP);
                const char *at = from + a0 * sa + b0 * size;
                for (int i = 0; i < LANES; i++) rows[i] = LOAD(at + i * sa, LANES * sa);
                NAME(weave)(rows);
                for (int i = 0; i < LANES; i++) STORE(to + (b0 + i) * db + a0 * size, rows[i], stream);
            }
        }
    }
    FENCE(stream);
}

TARGET static void NAME(transpose)(char *restrict to, int64_t db, const char *restrict from, int64_t sa, int64_t an,
                                   int64_t bn, bool stream) {
    const int64_t size = sizeof(T);
    stream = stream && ((uintptr_t)to | (uintptr_t)db | (uintptr_t)(an * size)) % 64 == 0;
    if (an >= STEP && bn >= LANES) NAME(squares)(to, db, from, sa, an, bn, stream);
    else if (an == 2 && db == 2 * size) NAME(weave_2)(to, from, sa, bn);
    else if (an == 3 && db == 3 * size) NAME(weave_3)(to, from, sa, bn);
    else if (an == 4 && db == 4 * size) NAME(weave_4)(to, from, sa, bn);
    else if (bn == 2 && sa == 2 * size) NAME(part_2)(to, db, from, an);
    else if (bn == 3 && sa == 3 * size) NAME(part_3)(to, db, from, an);
    else if (bn == 4 && sa == 4 * size) NAME(part_4)(to, db, from, an);
    else SMALLER(to, db, from, sa, an, bn, false);
}

#undef T
#undef NAME
#undef LANES
#undef UNPACK
#undef STEP
#undef LINE
#undef SMALLER
