/* SPDX-License-Identifier: Apache-2.0 */
/* Rows for Resize. */
#include "backends/cpu/kernels/vec_int.h"
#include "backends/cpu/resize_int.h"

/* What has no weight does not count, even where it is infinite. */
INLINE void blend_vectors(float *y, const float *a, const float *b, float of_a, float of_b, int64_t n) {
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

static void blend(float *y, const float *a, const float *b, float of_a, float of_b, int64_t n) {
    blend_vectors(y, a, b, of_a, of_b, n);
}

static void blend_pixels(float *y, int64_t y_col, const float *x, int64_t channels, const ResizeTaps *taps) {
    for (int64_t i = 0; i < taps->n; i++)
        blend_vectors(y + i * y_col, x + taps->first[i] * channels, x + taps->second[i] * channels, taps->of_first[i],
                      taps->of_second[i], channels);
}

INLINE float blend_number(const float *x, const ResizeTaps *taps, int64_t i) {
    const float a = x[taps->first[i]] * taps->of_first[i];
    return taps->of_second[i] == 0 ? a : x[taps->second[i]] * taps->of_second[i] + a;
}

#if defined(VF_PICKS)
/* Numbers [i, i + VF), which come from fewer than VF neighbours. */
INLINE vf blend_near(const float *x, const ResizeTaps *taps, int64_t i) {
    vi first, second;
    memcpy(&first, taps->first + i, sizeof first);
    memcpy(&second, taps->second + i, sizeof second);
    const vf near = vf_load(x + taps->first[i]), wb = vf_load(taps->of_second + i);
    const vf a = vf_pick(near, first - taps->first[i]) * vf_load(taps->of_first + i);
    return vf_select(wb == 0, a, vf_fma(vf_pick(near, second - taps->first[i]), wb, a));
}
#endif

static void blend_row(float *restrict y, const float *restrict x, const ResizeTaps *taps) {
    int64_t i = 0, n = taps->n;
#if defined(VF_PICKS)
    for (; i + VF <= n; i += VF) {
        const int64_t span = taps->second[i + VF - 1] - taps->first[i];
        if (span >= VF) break;
        vf_store(y + i, blend_near(x, taps, i));
    }
#endif
    for (; i < n; i++) y[i] = blend_number(x, taps, i);
}

static void pick_row(float *restrict y, const float *restrict x, const ResizeTaps *taps) {
    const int32_t *first = taps->first;
    for (int64_t i = 0, n = taps->n; i < n; i++) y[i] = x[first[i]];
}

static void double_row(float *restrict y, const float *restrict x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[2 * i] = y[2 * i + 1] = x[i];
}

const ResizeTable ISA_NAME(resize_table) = {.blend = blend,
                                            .blend_row = blend_row,
                                            .blend_pixels = blend_pixels,
                                            .pick_row = pick_row,
                                            .double_row = double_row};
