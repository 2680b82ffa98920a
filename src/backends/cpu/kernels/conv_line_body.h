/* SPDX-License-Identifier: Apache-2.0 */
/* One tile of a convolution whose pixels all lie at one distance: ROWS pixels by NV vectors of output channels and HALF, 1 or 0,
   half one, the sums in registers. Included once for each. An element's sum has one order, that of the points. */

#define NAME TILE_NAME(ROWS, WIDTH)
#define ALL (NV + HALF)
#define ROW (NV * VF + HALF * VF / 2)
/* Of one vector and a half, too, a processor with halves has more from three halves: a whole vector and a half have to wait for
   each other. */
#if HALF && NV <= 1
#define HALVES (2 * NV + 1)
#define WHOLE 0
#else
#define HALVES HALF
#define WHOLE NV
#endif
static void NAME(const ConvTile *t) {
    const int64_t last = t->cols - (ALL - 1) * VF; /* channels in the last vector */
    const int64_t step = t->x_ld, y_ld = t->y_ld;
    for (int64_t tile = 0; tile < t->tiles; tile++) {
        const float *x = t->x + tile * t->px_step;
        float *to = t->y + tile * ROWS * y_ld;
        vf c[ROWS][ALL];
        UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < ALL; j++) c[i][j] = (vf){0};
#if HALVES
        vh h[ROWS][HALVES];
        UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < HALVES; j++) h[i][j] = (vh){0};
#endif
        const char *ahead = (const char *)(to + ROWS * y_ld); /* where the next tile goes, which may be far away */
        for (const ConvPoint *p = t->points; p < t->points_end; p++) {
            const float *w = t->w + p->k * ROW, *a = x + p->x;
            __builtin_prefetch(ahead, 1);
            ahead += 64;
#if WHOLE
            vf b[WHOLE];
            UNROLL for (int j = 0; j < WHOLE; j++) b[j] = vf_load(w + j * VF);
#endif
#if HALVES
            vh half[HALVES];
            UNROLL for (int j = 0; j < HALVES; j++) half[j] = vh_load(w + WHOLE * VF + j * VF / 2);
#endif
            UNROLL for (int i = 0; i < ROWS; i++) {
                if (i > 0 && i % 3 == 0) a += 3 * step; /* an index reaches three pixels */
                POINTER_KEEP(a);
#if WHOLE
                const vf v = vf_set(float_at(a + i % 3 * step));
                UNROLL for (int j = 0; j < WHOLE; j++) c[i][j] = vf_fma(v, b[j], c[i][j]);
#endif
#if HALVES
#if WHOLE
                const vh u = vh_of(v);
#else
                const vh u = float_at(a + i % 3 * step) - (vh){0};
#endif
                UNROLL for (int j = 0; j < HALVES; j++) h[i][j] = u * half[j] + h[i][j];
#endif
            }
        }
#if HALVES > 1
        UNROLL for (int i = 0; i < ROWS; i++) c[i][0] = vf_join(h[i][0], h[i][1]);
#endif
#if HALVES
        UNROLL for (int i = 0; i < ROWS; i++) c[i][NV] = vf_of(h[i][HALVES - 1]);
#endif
#include "backends/cpu/kernels/conv_finish_body.h"
        if (f && f->lo > -INFINITY) { /* a NaN stays one */
            const vf lo = vf_set(f->lo);
            UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < ALL; j++) c[i][j] = vf_max(lo, c[i][j]);
        }
        if (f && f->hi < INFINITY) {
            const vf hi = vf_set(f->hi);
            UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < ALL; j++) c[i][j] = vf_min(hi, c[i][j]);
        }
        UNROLL for (int i = 0; i < ROWS; i++) {
            float *y = to + i * y_ld;
            UNROLL for (int j = 0; j < ALL - 1; j++) vf_store(y + j * VF, c[i][j]);
            store_last(y + (ALL - 1) * VF, c[i][ALL - 1], last);
        }
    }
}
#undef NAME
#undef ALL
#undef ROW
#undef HALVES
#undef WHOLE
