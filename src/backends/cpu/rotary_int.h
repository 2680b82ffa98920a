/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of elements turned by angles (kernels/rotary.c). */
#ifndef TENON_BACKENDS_CPU_ROTARY_INT_H
#define TENON_BACKENDS_CPU_ROTARY_INT_H

#include "backends/cpu/isa_int.h"

typedef struct RotaryTable {
    /* y = x, `size` elements of one head, of which the first 2 * half are turned: those half apart in pairs, or neighbours where
       they are interleaved. x and y may be the same. */
    void (*turn)(const float *x, int64_t size, int64_t half, const float *cosines, const float *sines, bool interleaved,
                 float *y);
} RotaryTable;
ISA_TABLE(RotaryTable, rotary_table);

#endif
