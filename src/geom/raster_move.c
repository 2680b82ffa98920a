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
#define FENCE(stream) ((void)(stream))

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

const RasterMoves raster_moves_any = {
    .row = {row_8, row_16, row_32, row_64, row_128},
    .transpose = {transpose_8, transpose_16, transpose_32, transpose_64, transpose_128},
};

/* ---- AVX-512: chunks of four rows, which become a whole line of the result ------------------------------------- */

#ifdef __x86_64__
#undef TARGET
#undef WIDE
#undef CHUNKS
#undef LOAD
#undef STORE
#undef FENCE
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#define WIDE 4
#define CHUNKS Chunk4
#define LOAD load_chunks
#define STORE store_chunks
#define FENCE(stream) ((stream) ? _mm_sfence() : (void)0)

typedef uint64_t Chunk2 __attribute__((vector_size(32)));
typedef uint64_t Chunk4 __attribute__((vector_size(64)));

TARGET static inline Chunk4 load_chunks(const char *from, int64_t stride) {
    Chunk c[4];
    for (int i = 0; i < 4; i++) memcpy(&c[i], from + i * stride, sizeof c[i]);
    Chunk2 low = __builtin_shufflevector(c[0], c[1], 0, 1, 2, 3),
           high = __builtin_shufflevector(c[2], c[3], 0, 1, 2, 3);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
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

#define T uint32_t
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

static const RasterMoves moves_avx512 = {
    .row = {row_8_avx512, row_16_avx512, row_32_avx512, row_64_avx512, row_128_avx512},
    .transpose = {transpose_8_avx512, transpose_16_avx512, transpose_32_avx512, transpose_64_avx512,
                  transpose_128_avx512},
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
