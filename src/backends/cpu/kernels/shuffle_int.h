/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of the elements of two vectors for __builtin_shufflevector. Included by files of kernels/ only. */
#ifndef TENON_BACKENDS_CPU_KERNELS_SHUFFLE_INT_H
#define TENON_BACKENDS_CPU_KERNELS_SHUFFLE_INT_H

/* LOW_HALVES and HIGH_HALVES interleave the first, or the last, halves of both; EVENS and ODDS are every other element of
   both, one behind the other, and undo that. Within each quarter (of 16 bytes) WEAVE interleaves the first or last elements of
   both, PAIRS puts the first or last two behind each other. QUARTERS_LOW and _HIGH are the first or last halves of both,
   QUARTERS_EVEN and _ODD every other quarter. */
#if TENON_VEC_BYTES == 64
#define LOW_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODDS 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define WEAVE_LOW 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define WEAVE_HIGH 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define PAIRS_LOW 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define PAIRS_HIGH 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define QUARTERS_LOW 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define QUARTERS_HIGH 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define QUARTERS_EVEN 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define QUARTERS_ODD 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#elif TENON_VEC_BYTES == 32
#define LOW_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14
#define ODDS 1, 3, 5, 7, 9, 11, 13, 15
#define WEAVE_LOW 0, 8, 1, 9, 4, 12, 5, 13
#define WEAVE_HIGH 2, 10, 3, 11, 6, 14, 7, 15
#define PAIRS_LOW 0, 1, 8, 9, 4, 5, 12, 13
#define PAIRS_HIGH 2, 3, 10, 11, 6, 7, 14, 15
#define QUARTERS_LOW 0, 1, 2, 3, 8, 9, 10, 11
#define QUARTERS_HIGH 4, 5, 6, 7, 12, 13, 14, 15
#else
#define LOW_HALVES 0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#define EVENS 0, 2, 4, 6
#define ODDS 1, 3, 5, 7
#define WEAVE_LOW 0, 4, 1, 5
#define WEAVE_HIGH 2, 6, 3, 7
#define PAIRS_LOW 0, 1, 4, 5
#define PAIRS_HIGH 2, 3, 6, 7
#endif

/* v[0] becomes what the function `op` makes of the lanes of v[0], behind it what it makes of those of v[1], and so on: of as many
   vectors as one has lanes, which are used up. Lanes are taken together in pairs, of neighbours that are one, two, four or
   eight vectors' parts each; they stay in their quarter as long as can be, since processors are slower across quarters. */
#define LANES_STEP(op, v, n, low, high)                                                                        \
    _Pragma("GCC unroll 8") for (int i_ = 0; i_ < (n);                                                         \
                                 i_++)(v)[i_] = op(__builtin_shufflevector((v)[2 * i_], (v)[2 * i_ + 1], low), \
                                                   __builtin_shufflevector((v)[2 * i_], (v)[2 * i_ + 1], high))
#if TENON_VEC_BYTES == 64
#define LANES_TOGETHER(op, v)                          \
    LANES_STEP(op, v, 8, WEAVE_LOW, WEAVE_HIGH);       \
    LANES_STEP(op, v, 4, PAIRS_LOW, PAIRS_HIGH);       \
    LANES_STEP(op, v, 2, QUARTERS_LOW, QUARTERS_HIGH); \
    LANES_STEP(op, v, 1, QUARTERS_EVEN, QUARTERS_ODD)
#elif TENON_VEC_BYTES == 32
#define LANES_TOGETHER(op, v)                    \
    LANES_STEP(op, v, 4, WEAVE_LOW, WEAVE_HIGH); \
    LANES_STEP(op, v, 2, PAIRS_LOW, PAIRS_HIGH); \
    LANES_STEP(op, v, 1, QUARTERS_LOW, QUARTERS_HIGH)
#else
#define LANES_TOGETHER(op, v)                    \
    LANES_STEP(op, v, 2, WEAVE_LOW, WEAVE_HIGH); \
    LANES_STEP(op, v, 1, PAIRS_LOW, PAIRS_HIGH)
#endif

#endif
