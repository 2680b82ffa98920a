/* SPDX-License-Identifier: Apache-2.0 */
/* One source, many instruction sets. Every file of kernels/ is compiled once for each level below, with TENON_ISA naming
   the level and TENON_VEC_BYTES the width of its vectors. Such a file exports one constant table of functions,

       const GemmTable ISA_NAME(gemm_table) = {...};

   which others declare with ISA_TABLE(GemmTable, gemm_table) and reach through ISA_PICK(gemm_table). */
#ifndef TENON_BACKENDS_CPU_ISA_INT_H
#define TENON_BACKENDS_CPU_ISA_INT_H

#include "base/base.h"

/* Each has what the ones before it have. Baseline is SSE2 on x86-64 and NEON on aarch64. */
typedef enum CpuLevel { CPU_BASELINE, CPU_AVX2, CPU_AVX512 } CpuLevel;

/* The best that this processor has, or the one that the environment's TENON_ISA names ("baseline", "avx2", "avx512") where
   the processor has that. The same on every call. */
CpuLevel cpu_level(void);
const char *cpu_level_name(CpuLevel level);
/* For tests: this level from now on, as far as the processor has it; returns what it is. */
CpuLevel cpu_level_set(CpuLevel level);

/* Sizes of this processor's data caches in bytes, as the system tells; likely ones where it does not. */
typedef struct CpuCaches {
    int64_t l1, l2, l3;
} CpuCaches;
const CpuCaches *cpu_caches(void);

#define ISA_JOIN_(a, b) a##_##b
#define ISA_JOIN(a, b) ISA_JOIN_(a, b)
#define ISA_NAME(name) ISA_JOIN(name, TENON_ISA)

#if defined(__x86_64__)
#define ISA_TABLE(Type, name) extern const Type name##_baseline, name##_avx2, name##_avx512
#define ISA_PICK(name) \
    (cpu_level() == CPU_AVX512 ? &name##_avx512 : cpu_level() == CPU_AVX2 ? &name##_avx2 : &name##_baseline)
#else
#define ISA_TABLE(Type, name) extern const Type name##_baseline
#define ISA_PICK(name) (&name##_baseline)
#endif

#endif
