/* SPDX-License-Identifier: Apache-2.0 */
/* Loops that do nothing but one thing, as fast as an instruction set can (kernels/peak.c), for peak.c. */
#ifndef TENON_BACKENDS_CPU_PEAK_INT_H
#define TENON_BACKENDS_CPU_PEAK_INT_H

#include "backends/cpu/isa_int.h"

typedef struct PeakTable {
    int64_t flops_per_turn;
    float (*multiply)(int64_t turns, const float *factors); /* reads two factors; all in registers */
    float (*read)(const float *p, int64_t n);               /* n is a multiple of PEAK_BLOCK, as in copy */
    void (*copy)(float *to, const float *from, int64_t n);
} PeakTable;

enum { PEAK_BLOCK = 256 };

#endif
