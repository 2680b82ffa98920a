/* SPDX-License-Identifier: Apache-2.0 */
/* The raster's inner loops, once for each element size and instruction set, and which of them this processor gets. */
#include "geom/geom_int.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

typedef struct Wide {
    uint64_t a, b;
} Wide;

#define UNPACK_1(i, n) (i), (n) + (i)
#define UNPACK_2(i, n) UNPACK_1(i, n), UNPACK_1(i + 1, n)
#define UNPACK_4(i, n) UNPACK_2(i, n), UNPACK_2(i + 2, n)
#define UNPACK_8(i, n) UNPACK_4(i, n), UNPACK_4(i + 4, n)

/* ---- any processor: one chunk a vector ------------------------------------------------------------------------- */

typedef uint64_t Chunk __attribute__((vector_size(16)));

static inline Chunk load_chunk(const char *from, int64_t stride) {
    Chunk c;
    (void)stride;
    memcpy(&c, from, sizeof c);
    return c;
}

static inline void store_chunk(char *to, Chunk c, bool stream) {
    (void)stream;
    memcpy(to, &c, sizeof c);
}

#define TARGET
#define WIDE 1
#define CHUNKS Chunk
#define LOAD load_chunk
#define STORE store_chunk

#define T uint8_t
#define NAME(f) f##_8
#define LANES 16
#define UNPACK UNPACK_8
#include "geom/raster_body.h"

#define T uint16_t
#define NAME(f) f##_16
#define LANES 8
#define UNPACK UNPACK_4
#include "geom/raster_body.h"

#define T uint32_t
#define NAME(f) f##_32
#define LANES 4
#define UNPACK UNPACK_2
#include "geom/raster_body.h"

#define T uint64_t
#define NAME(f) f##_64
#define LANES 2
#define UNPACK UNPACK_1
#include "geom/raster_body.h"

#define T Wide
#define NAME(f) f##_128
#define LANES 1
#include "geom/raster_body.h"

/* Lines in part are written as usual: as stores past the caches they would cost more. */
#define STREAM_ROWS(NAME)                                                                                         \
    TARGET static void NAME(char *restrict to, int64_t dst, const char *restrict from, int64_t src, int64_t rows, \
                            int64_t bytes) {                                                                      \
        for (int64_t r = 0; r < rows; r++, to += dst, from += src) {                                              \
            int64_t i = min_i64(bytes, -(intptr_t)to & 63);                                                       \
            if (i > 0) memcpy(to, from, (size_t)i);                                                               \
            for (; i + 64 <= bytes; i += 64) STREAM_LINE(to + i, from + i);                                       \
            if (i < bytes) memcpy(to + i, from + i, (size_t)(bytes - i));                                         \
        }                                                                                                         \
    }

#ifdef __x86_64__
static inline void stream_line(char *to, const char *from) {
    for (int i = 0; i < 64; i += 16)
        _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
}
static void fence(void) { _mm_sfence(); }
#else
static inline void stream_line(char *to, const char *from) { memcpy(to, from, 64); }
static void fence(void) {}
#endif
#define STREAM_LINE stream_line
STREAM_ROWS(stream_rows)

const RasterMoves raster_moves_any = {
    .row = {row_8, row_16, row_32, row_64, row_128},
    .transpose = {transpose_8, transpose_16, transpose_32, transpose_64, transpose_128},
    .stream_rows = stream_rows,
    .fence = fence,
};

/* ---- AVX-512: chunks of four rows, which become a whole line of the result ------------------------------------- */

#ifdef __x86_64__
#undef TARGET
#undef WIDE
#undef CHUNKS
#undef LOAD
#undef STORE
#undef STREAM_LINE
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#define WIDE 4
#define CHUNKS Chunk4
#define LOAD load_chunks
#define STORE store_chunks
#define STREAM_LINE(to, from) _mm512_stream_si512((__m512i *)(to), _mm512_loadu_si512(from))

/* The compiler is not to compute the addresses of many rows ahead: there are not so many registers. */
#define KEEP(pointer) __asm__("" : "+r"(pointer))

typedef uint64_t Chunk2 __attribute__((vector_size(32)));
typedef uint64_t Chunk4 __attribute__((vector_size(64)));

TARGET static inline Chunk4 load_chunks(const char *from, int64_t stride) {
    Chunk c[4];
    for (int i = 0; i < 4; i++) memcpy(&c[i], from + i * stride, sizeof c[i]);
    Chunk2 low = __builtin_shufflevector(c[0], c[1], 0, 1, 2, 3),
           high = __builtin_shufflevector(c[2], c[3], 0, 1, 2, 3);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}

/* Four lines become the first, second, third and fourth chunk of each. */
TARGET static inline void split_lines(Chunk4 *to, int64_t step, Chunk4 a, Chunk4 b, Chunk4 c, Chunk4 d) {
    Chunk4 ab = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11),
           cd = __builtin_shufflevector(c, d, 0, 1, 2, 3, 8, 9, 10, 11);
    to[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5, 8, 9, 12, 13);
    to[step] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7, 10, 11, 14, 15);
    ab = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    cd = __builtin_shufflevector(c, d, 4, 5, 6, 7, 12, 13, 14, 15);
    to[2 * step] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5, 8, 9, 12, 13);
    to[3 * step] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7, 10, 11, 14, 15);
}

TARGET static inline void store_chunks(char *to, Chunk4 c, bool stream) {
    if (stream) _mm512_stream_si512((__m512i *)to, (__m512i)c);
    else memcpy(to, &c, sizeof c);
}

#define T uint8_t
#define NAME(f) f##_8_avx512
#define LANES 16
#define UNPACK UNPACK_8
#define SMALLER transpose_8
#include "geom/raster_body.h"

#define T uint16_t
#define NAME(f) f##_16_avx512
#define LANES 8
#define UNPACK UNPACK_4
#define SMALLER transpose_16
#include "geom/raster_body.h"

/* Three streams of 32 bits, 16 elements of each at a time: element i of the k-th vector comes from the first two of three
   vectors, or from the last. */
typedef uint32_t Lanes __attribute__((vector_size(64)));
#define ALL_16(F, k)                                                                                              \
    F(0, k), F(1, k), F(2, k), F(3, k), F(4, k), F(5, k), F(6, k), F(7, k), F(8, k), F(9, k), F(10, k), F(11, k), \
        F(12, k), F(13, k), F(14, k), F(15, k)
#define PART_AB(i, k) (3 * (i) + (k) < 32 ? 3 * (i) + (k) : 0)
#define PART_C(i, k) (3 * (i) + (k) < 32 ? (i) : 3 * (i) + (k)-16)
#define WEAVE_AB(i, k) ((16 * (k) + (i)) % 3 == 2 ? 0 : (16 * (k) + (i)) % 3 * 16 + (16 * (k) + (i)) / 3)
#define WEAVE_C(i, k) ((16 * (k) + (i)) % 3 == 2 ? 16 + (16 * (k) + (i)) / 3 : (i))
#define FROM_3(AB, C, k) __builtin_shufflevector(__builtin_shufflevector(v[0], v[1], ALL_16(AB, k)), v[2], ALL_16(C, k))

TARGET static int64_t weave_3_avx512(char *restrict to, const char *restrict from, int64_t sa, int64_t n, bool stream) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        Lanes v[3];
        for (int k = 0; k < 3; k++) memcpy(&v[k], from + k * sa + i * 4, sizeof v[k]);
        Lanes w[] = {FROM_3(WEAVE_AB, WEAVE_C, 0), FROM_3(WEAVE_AB, WEAVE_C, 1), FROM_3(WEAVE_AB, WEAVE_C, 2)};
        for (int k = 0; k < 3; k++) STORE(to + i * 12 + k * 64, (Chunk4)w[k], stream);
    }
    return i;
}

TARGET static int64_t part_3_avx512(char *restrict to, int64_t db, const char *restrict from, int64_t n, bool stream) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        Lanes v[3];
        memcpy(v, from + i * 12, sizeof v);
        Lanes w[] = {FROM_3(PART_AB, PART_C, 0), FROM_3(PART_AB, PART_C, 1), FROM_3(PART_AB, PART_C, 2)};
        for (int k = 0; k < 3; k++) STORE(to + k * db + i * 4, (Chunk4)w[k], stream);
    }
    return i;
}

#define T uint32_t
#define WEAVE_3 weave_3_avx512
#define PART_3 part_3_avx512
#define NAME(f) f##_32_avx512
#define LANES 4
#define UNPACK UNPACK_2
#define SMALLER transpose_32
#include "geom/raster_body.h"

#define T uint64_t
#define NAME(f) f##_64_avx512
#define LANES 2
#define UNPACK UNPACK_1
#define SMALLER transpose_64
#include "geom/raster_body.h"

#define T Wide
#define NAME(f) f##_128_avx512
#define LANES 1
#define SMALLER transpose_128
#include "geom/raster_body.h"

STREAM_ROWS(stream_rows_avx512)

static const RasterMoves moves_avx512 = {
    .row = {row_8_avx512, row_16_avx512, row_32_avx512, row_64_avx512, row_128_avx512},
    .transpose = {transpose_8_avx512, transpose_16_avx512, transpose_32_avx512, transpose_64_avx512,
                  transpose_128_avx512},
    .stream_rows = stream_rows_avx512,
    .fence = fence,
};
#endif

const RasterMoves *raster_moves(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return &moves_avx512;
#endif
    return &raster_moves_any;
}

/* ---- short runs ------------------------------------------------------------------------------------------------ */

/* Rows of between one and two vectors of this type: first and last, which may lie over each other. */
#define ROWS_OF(name, T)                                                                                             \
    static void rows_of_##name(char *restrict to, int64_t dst, const char *restrict from, int64_t src, int64_t rows, \
                               int64_t bytes) {                                                                      \
        const int64_t last = bytes - (int64_t)sizeof(T);                                                             \
        for (int64_t i = 0; i < rows; i++, to += dst, from += src) {                                                 \
            T a, b;                                                                                                  \
            memcpy(&a, from, sizeof a);                                                                              \
            memcpy(&b, from + last, sizeof b);                                                                       \
            memcpy(to, &a, sizeof a);                                                                                \
            memcpy(to + last, &b, sizeof b);                                                                         \
        }                                                                                                            \
    }
typedef struct Wide2 {
    Wide a, b;
} Wide2;
typedef struct Wide4 {
    Wide2 a, b;
} Wide4;
ROWS_OF(2, uint16_t)
ROWS_OF(4, uint32_t)
ROWS_OF(8, uint64_t)
ROWS_OF(16, Wide)
ROWS_OF(32, Wide2)
ROWS_OF(64, Wide4)

void raster_copy_rows(char *to, int64_t dst, const char *from, int64_t src, int64_t rows, int64_t bytes) {
    if (bytes > 128 || bytes < 2)
        for (int64_t i = 0; i < rows; i++) memcpy(to + i * dst, from + i * src, (size_t)bytes);
    else if (bytes >= 64) rows_of_64(to, dst, from, src, rows, bytes);
    else if (bytes >= 32) rows_of_32(to, dst, from, src, rows, bytes);
    else if (bytes >= 16) rows_of_16(to, dst, from, src, rows, bytes);
    else if (bytes >= 8) rows_of_8(to, dst, from, src, rows, bytes);
    else if (bytes >= 4) rows_of_4(to, dst, from, src, rows, bytes);
    else rows_of_2(to, dst, from, src, rows, bytes);
}
