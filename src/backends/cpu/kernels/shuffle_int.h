/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of the elements of two vectors for __builtin_shufflevector. Included by files of kernels/ only. */
#ifndef TENON_BACKENDS_CPU_KERNELS_SHUFFLE_INT_H
#define TENON_BACKENDS_CPU_KERNELS_SHUFFLE_INT_H

/* LOW_HALVES and HIGH_HALVES interleave the first, or the last, halves of both; EVENS and ODDS are every other element of
   both, one behind the other, and undo that. */
#if TENON_VEC_BYTES == 64
#define LOW_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODDS 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#elif TENON_VEC_BYTES == 32
#define LOW_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14
#define ODDS 1, 3, 5, 7, 9, 11, 13, 15
#else
#define LOW_HALVES 0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#define EVENS 0, 2, 4, 6
#define ODDS 1, 3, 5, 7
#endif

#endif
