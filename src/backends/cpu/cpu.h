/* SPDX-License-Identifier: Apache-2.0 */
/* What others may ask of the CPU backend besides its kernels. */
#ifndef TENON_BACKENDS_CPU_CPU_H
#define TENON_BACKENDS_CPU_CPU_H

#include "base/base.h"

/* Rates a second that no kernel exceeds, of all of a pool's threads together. */
typedef struct CpuPeak {
    const char *isa;   /* the level that kernels run at: "avx512" */
    double flops;      /* float32; a multiplication and an addition are two */
    double read, copy; /* bytes; a copied byte counts twice, as it is read and written */
} CpuPeak;
/* Measures them. `bytes` is how much memory is read, or read and written; 0: more than the caches hold. */
tn_status cpu_peak(const Allocator *allocator, Pool *pool, size_t bytes, CpuPeak *out);

/* What kernels' times depend on: the processor's name, and the level that they run at. */
void cpu_describe(char *text, size_t size);

#endif
