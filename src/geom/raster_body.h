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
                               int64_t bn, RasterStore store) {
    const int64_t size = sizeof(T);
    (void)store;
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

/* How many elements of three streams were done by vectors. */
#ifndef WEAVE_3
#define WEAVE_3(to, from, sa, n, stream) 0
#define PART_3(to, db, from, n, stream) 0
#endif

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

/* At the ends squares lie over each other, which writes the same values again. Where rows of the result begin within
   lines, those lines are asked for one step ahead: they lie far from each other, which no processor foresees. */
#define LINE (64 / (int64_t)sizeof(T))
TARGET static void NAME(squares)(char *restrict to, int64_t db, const char *restrict from, int64_t sa, int64_t an,
                                 int64_t bn, RasterStore store) {
    const int64_t size = sizeof(T);
    bool stream = store == STORE_PAST, asks = store == STORE_AWAY && ((uintptr_t)to | (uintptr_t)db) % 64 != 0;
    CHUNKS rows[LANES];
    for (int64_t a = 0; a < an; a += LINE) {
        for (int64_t b = 0; b < bn; b += LANES) {
            int64_t b0 = min_i64(b, bn - LANES);
            if (asks)
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
}

/* The same with whole lines of the source, too, where its rows begin with lines or the result stays near: what is read again
   from a row may have left the cache by then, as others of the same place in it came. */
#if WIDE == 4 && LANES <= 8
#define BY_LINES(sa, bn, store) (((sa) % 64 == 0 || (store) == STORE_NEAR) && (bn) >= STEP)
TARGET static void NAME(lines)(char *restrict to, int64_t db, const char *restrict from, int64_t sa, int64_t an,
                               int64_t bn, RasterStore store) {
    const int64_t size = sizeof(T);
    bool stream = store == STORE_PAST, asks = store == STORE_AWAY && ((uintptr_t)to | (uintptr_t)db) % 64 != 0;
    /* Rows that lie a page's part from each other share places in the cache: one line of each after the other. */
    bool along = store != STORE_PAST && db % 1024 == 0;
    CHUNKS r[STEP], rows[STEP];
    for (int64_t i = 0; i < (along ? bn : an); i += STEP) {
        for (int64_t j = 0; j < (along ? an : bn); j += STEP) {
            int64_t a0 = min_i64(along ? j : i, an - STEP), b0 = min_i64(along ? i : j, bn - STEP);
            const char *at = from + a0 * sa + b0 * size;
            char *out = to + b0 * db + a0 * size;
            if (asks)
                for (int l = 0; l < STEP; l++) __builtin_prefetch(out + l * db + 64, 1, 2);
            for (int l = 0; l < STEP; l += 4, at += 4 * sa) {
                KEEP(at);
                for (int k = 0; k < 4; k++) memcpy(&r[l + k], at + k * sa, sizeof r[l + k]);
                if (store == STORE_NEAR) /* nobody else waits for memory */
                    for (int k = 0; k < 4; k++) __builtin_prefetch(at + (STEP + k) * sa, 0, 2);
            }
            for (int l = 0; l < LANES; l++)
                split_lines(rows + l, LANES, r[l], r[l + LANES], r[l + 2 * LANES], r[l + 3 * LANES]);
            for (int k = 0; k < 4; k++) NAME(weave)(rows + k * LANES);
            for (int l = 0; l < STEP; l += 4, out += 4 * db) {
                KEEP(out);
                for (int k = 0; k < 4; k++) STORE(out + k * db, rows[l + k], stream);
            }
        }
    }
}
#endif

TARGET static void NAME(transpose)(char *restrict to, int64_t db, const char *restrict from, int64_t sa, int64_t an,
                                   int64_t bn, RasterStore store) {
    const int64_t size = sizeof(T);
    bool whole = ((uintptr_t)to | (uintptr_t)db | (uintptr_t)(an * size)) % 64 == 0;
    RasterStore how = store == STORE_PAST && !whole ? STORE_AWAY : store;
#ifdef BY_LINES
    if (an >= STEP && BY_LINES(sa, bn, how)) {
        NAME(lines)(to, db, from, sa, an, bn, how);
        return;
    }
#endif
    if (an >= STEP && bn >= LANES) NAME(squares)(to, db, from, sa, an, bn, how);
    else if (an == 2 && db == 2 * size) NAME(weave_2)(to, from, sa, bn);
    else if (an == 3 && db == 3 * size) {
        int64_t done = WEAVE_3(to, from, sa, bn, store == STORE_PAST && (uintptr_t)to % 64 == 0);
        NAME(weave_3)(to + done * db, from + done * size, sa, bn - done);
    } else if (an == 4 && db == 4 * size) NAME(weave_4)(to, from, sa, bn);
    else if (bn == 2 && sa == 2 * size) NAME(part_2)(to, db, from, an);
    else if (bn == 3 && sa == 3 * size) {
        int64_t done = PART_3(to, db, from, an, store == STORE_PAST && ((uintptr_t)to | (uintptr_t)db) % 64 == 0);
        NAME(part_3)(to + done * size, db, from + done * sa, an - done);
    } else if (bn == 4 && sa == 4 * size) NAME(part_4)(to, db, from, an);
    else SMALLER(to, db, from, sa, an, bn, STORE_NEAR);
}

#undef T
#undef NAME
#undef LANES
#undef UNPACK
#undef STEP
#undef LINE
#undef BY_LINES
#undef WEAVE_3
#undef PART_3
#undef SMALLER
