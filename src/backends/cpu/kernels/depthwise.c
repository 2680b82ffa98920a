/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolutions: vectors run along the channels. */
#include "backends/cpu/depthwise_int.h"
#include "backends/cpu/kernels/vec_int.h"

#define TILE_NAME_(what, columns, step) what##_##columns##_##step
#define TILE_NAME(what, columns, step) TILE_NAME_(what, columns, step)

#define COLUMNS 3
#define STEP 1
#include "backends/cpu/kernels/depthwise_body.h"
#undef STEP
#define STEP 2
#include "backends/cpu/kernels/depthwise_body.h"
#undef STEP
#undef COLUMNS
#define COLUMNS 5
#define STEP 1
#include "backends/cpu/kernels/depthwise_body.h"
#undef STEP
#define STEP 2
#include "backends/cpu/kernels/depthwise_body.h"
#undef STEP
#undef COLUMNS
#define COLUMNS 7
#define STEP 1
#include "backends/cpu/kernels/depthwise_body.h"
#undef STEP
#undef COLUMNS

/* One vector of channels, or the first n of one. */
INLINE vf pixel_sum(const DepthwiseTile *t, int64_t c, int64_t n, const bool whole) {
    vf sum = {0};
    for (int64_t r = 0; r < t->n_rows; r++) {
        const float *x = t->x[r] + c, *w = t->w[r] + c;
        for (int64_t k = t->from; k < t->to; k++) {
            const vf v = whole ? vf_load(x + k * t->x_ld) : vf_load_n(x + k * t->x_ld, n);
            sum = vf_fma(v, vf_load(w + k * t->w_ld), sum);
        }
    }
    return sum;
}

static void pixel(const DepthwiseTile *t) {
    const ConvFinish *f = t->finish;
    const vf lo = vf_set(f->lo), hi = vf_set(f->hi);
    for (int64_t c = 0; c < t->channels; c += VF) {
        const int64_t n = t->channels - c;
        const bool whole = n >= VF;
        vf y = whole ? pixel_sum(t, c, VF, true) : pixel_sum(t, c, n, false);
        if (f->bias) y += vf_load(f->bias + c);
        if (f->residual) y += whole ? vf_load(f->residual + c) : vf_load_n(f->residual + c, n);
        y = vf_min(hi, vf_max(lo, y));
        if (whole) vf_store(t->y + c, y);
        else vf_store_n(t->y + c, y, n);
    }
}

const DepthwiseTable ISA_NAME(depthwise_table) = {
    .vector = VF,
    .tile = {[3] = {NULL, tile_3_1, tile_3_2}, [5] = {NULL, tile_5_1, tile_5_2}, [7] = {NULL, tile_7_1, NULL}},
    .pixel = pixel,
};
