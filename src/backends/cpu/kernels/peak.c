/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's limits: multiply-adds in registers, loads, copies. */
#include "backends/cpu/kernels/vec_int.h"
#include "backends/cpu/peak_int.h"

/* As many sums as hide the latency of a multiply-add; they fit the registers of every level beside the two factors. */
enum { SUMS = 12 };

static float multiply(int64_t turns, const float *factors) {
    const vf a = vf_set(factors[0]), b = vf_set(factors[1]);
    vf sums[SUMS], all = {0};
    for (int i = 0; i < SUMS; i++) sums[i] = vf_set((float)i);
    for (int64_t t = 0; t < turns; t++)
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) sums[i] = vf_fma(sums[i], a, b);
    for (int i = 0; i < SUMS; i++) all += sums[i];
    return vf_sum(all);
}

/* Each sum takes every eighth vector, so that additions wait for none before them. */
static float read(const float *p, int64_t n) {
    enum { CHAINS = 8 };
    vf sums[CHAINS], all = {0};
    for (int i = 0; i < CHAINS; i++) sums[i] = vf_set(0);
    for (int64_t at = 0; at < n; at += CHAINS * VF)
#pragma GCC unroll 8
        for (int i = 0; i < CHAINS; i++) sums[i] += vf_load(p + at + i * VF);
    for (int i = 0; i < CHAINS; i++) all += sums[i];
    return vf_sum(all);
}

static void copy(float *to, const float *from, int64_t n) { memcpy(to, from, (size_t)n * sizeof *to); }

const PeakTable ISA_NAME(peak_table) = {2 * SUMS * VF, multiply, read, copy};
