/* SPDX-License-Identifier: Apache-2.0 */
/* Rows for Resize. */
#include "backends/cpu/kernels/vec_int.h"
#include "backends/cpu/resize_int.h"

/* What has no weight does not count, even where it is infinite. */
static void blend(float *y, const float *a, const float *b, float of_a, float of_b, int64_t n) {
    vf wa = vf_set(of_a), wb = vf_set(of_b);
    int64_t i = 0;
    if (of_b == 0) {
        for (; i + VF <= n; i += VF) vf_store(y + i, vf_load(a + i) * wa);
        if (i < n) vf_store_n(y + i, vf_load_n(a + i, n - i) * wa, n - i);
        return;
    }
    for (; i + VF <= n; i += VF) vf_store(y + i, vf_fma(vf_load(b + i), wb, vf_load(a + i) * wa));
    if (i < n) vf_store_n(y + i, vf_fma(vf_load_n(b + i, n - i), wb, vf_load_n(a + i, n - i) * wa), n - i);
}

static void blend_row(float *restrict y, const float *restrict x, const ResizeTaps *taps) {
    const int32_t *first = taps->first, *second = taps->second;
    const float *of_first = taps->of_first, *of_second = taps->of_second;
    for (int64_t i = 0, n = taps->n; i < n; i++)
        y[i] = x[first[i]] * of_first[i] + (of_second[i] == 0 ? 0 : x[second[i]] * of_second[i]);
}

static void pick_row(float *restrict y, const float *restrict x, const ResizeTaps *taps) {
    const int32_t *first = taps->first;
    for (int64_t i = 0, n = taps->n; i < n; i++) y[i] = x[first[i]];
}

static void double_row(float *restrict y, const float *restrict x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[2 * i] = y[2 * i + 1] = x[i];
}

const ResizeTable ISA_NAME(resize_table) = {
    .blend = blend, .blend_row = blend_row, .pick_row = pick_row, .double_row = double_row};
