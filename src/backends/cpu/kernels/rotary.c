/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions: pairs of elements turned by angles. */
#include "backends/cpu/kernels/shuffle_int.h"
#include "backends/cpu/kernels/vec_int.h"
#include "backends/cpu/rotary_int.h"

static void turn_halves(const float *x, int64_t half, const float *cosines, const float *sines, float *y) {
    int64_t i = 0;
    for (; i + VF <= half; i += VF) {
        vf a = vf_load(x + i), b = vf_load(x + half + i), c = vf_load(cosines + i), s = vf_load(sines + i);
        vf_store(y + i, c * a - s * b);
        vf_store(y + half + i, s * a + c * b);
    }
    if (i == half) return;
    int64_t n = half - i;
    vf a = vf_load_n(x + i, n), b = vf_load_n(x + half + i, n);
    vf c = vf_load_n(cosines + i, n), s = vf_load_n(sines + i, n);
    vf_store_n(y + i, c * a - s * b, n);
    vf_store_n(y + half + i, s * a + c * b, n);
}

static void turn_neighbours(const float *x, int64_t half, const float *cosines, const float *sines, float *y) {
    int64_t i = 0;
    for (; i + VF <= half; i += VF) {
        vf p = vf_load(x + 2 * i), q = vf_load(x + 2 * i + VF), c = vf_load(cosines + i), s = vf_load(sines + i);
        vf a = __builtin_shufflevector(p, q, EVENS), b = __builtin_shufflevector(p, q, ODDS);
        vf u = c * a - s * b, v = s * a + c * b;
        vf_store(y + 2 * i, __builtin_shufflevector(u, v, LOW_HALVES));
        vf_store(y + 2 * i + VF, __builtin_shufflevector(u, v, HIGH_HALVES));
    }
    for (; i < half; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = cosines[i] * a - sines[i] * b;
        y[2 * i + 1] = sines[i] * a + cosines[i] * b;
    }
}

static void turn(const float *x, int64_t size, int64_t half, const float *cosines, const float *sines, bool interleaved,
                 float *y) {
    if (interleaved) turn_neighbours(x, half, cosines, sines, y);
    else turn_halves(x, half, cosines, sines, y);
    if (x != y && size > 2 * half) memcpy(y + 2 * half, x + 2 * half, (size_t)(size - 2 * half) * sizeof *y);
}

const RotaryTable ISA_NAME(rotary_table) = {turn};
