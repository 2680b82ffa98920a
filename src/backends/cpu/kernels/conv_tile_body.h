/* SPDX-License-Identifier: Apache-2.0 */
/* One tile of a convolution: ROWS pixels by NV vectors of output channels and HALF, 1 or 0, half one, the sums in registers.
   Included once for each. An element's sum has one order, that of k, whatever tile it is in. */

#define NAME TILE_NAME(ROWS, WIDTH)
#define ALL (NV + HALF)
#define ROW (NV * VF + HALF * VF / 2)
static void NAME(const ConvTile *t) {
    const int64_t last = t->cols - (ALL - 1) * VF; /* channels in the last vector */
    const char *ahead = t->ahead;
    for (int64_t tile = 0; tile < t->tiles; tile++) {
        const int64_t at = tile * t->px_step, ahead_step = ahead < t->ahead_end ? 64 : 0;
        const int64_t y_ld = t->y_ld;
        float *to = t->y + tile * ROWS * y_ld;
        vf c[ROWS][ALL];
        UNROLL for (int i = 0; i < ROWS; i++) {
            UNROLL for (int j = 0; j < ALL; j++) c[i][j] = (vf){0};
            if (!t->resume) continue;
            const float *y = to + i * t->y_ld;
            UNROLL for (int j = 0; j < ALL - 1; j++) c[i][j] = vf_load(y + j * VF);
            c[i][ALL - 1] = vf_load_n(y + (ALL - 1) * VF, last);
        }
#if HALF
        vh h[ROWS];
        UNROLL for (int i = 0; i < ROWS; i++) h[i] = vh_of(c[i][NV]);
#endif
        for (int64_t r = 0; r < t->n_runs; r++) {
            const float *const *px = t->px + r * CONV_MOST_ROWS;
            const float *a[ROWS];
            UNROLL for (int i = 0; i < ROWS; i++) a[i] = px[i] + at;
            const float *w = t->w + t->runs[r].k * ROW;
            const int64_t n = t->runs[r].n;
            for (int64_t k = 0; k < n; k++) {
                vf b[ALL];
                UNROLL for (int j = 0; j < NV; j++) b[j] = vf_load(w + j * VF);
#if HALF
                const vh half = vh_load(w + NV * VF);
#endif
                w += ROW;
                __builtin_prefetch(ahead, 0, 2);
                ahead += ahead_step;
                UNROLL for (int i = 0; i < ROWS; i++) {
                    const vf x = vf_set(float_at(a[i] + k));
                    UNROLL for (int j = 0; j < NV; j++) c[i][j] = vf_fma(x, b[j], c[i][j]);
#if HALF
                    h[i] = vh_of(x) * half + h[i];
#endif
                }
            }
        }
#if HALF
        UNROLL for (int i = 0; i < ROWS; i++) c[i][NV] = vf_of(h[i]);
#endif
#include "backends/cpu/kernels/conv_finish_body.h"
        const vf lo = vf_set(f ? f->lo : -INFINITY), hi = vf_set(f ? f->hi : INFINITY);
        UNROLL for (int i = 0; i < ROWS; i++) { /* a row is stored while others are still clipped. A NaN stays one */
            float *y = to + i * y_ld;
            UNROLL for (int j = 0; j < ALL; j++) c[i][j] = vf_min(hi, vf_max(lo, c[i][j]));
            UNROLL for (int j = 0; j < ALL - 1; j++) vf_store(y + j * VF, c[i][j]);
            store_last(y + (ALL - 1) * VF, c[i][ALL - 1], last);
        }
    }
}
#undef NAME
#undef ALL
#undef ROW
