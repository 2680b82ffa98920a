/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's transforms of data, of sums and of weights, vectors along the channels. */
#include "backends/cpu/winograd_int.h"
#include "backends/cpu/kernels/math_int.h"

#define NAMED_(name, kind) name##_##kind
#define NAMED(name, kind) NAMED_(name, kind)

/* Lines go one after the other by the same code: unrolled, they are no faster, but many times as long. */
#if defined(__clang__)
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define ROLLED _Pragma("GCC unroll 1")
#endif

/* Where masks take no time, whole vectors need no code of their own. */
#if defined(__AVX512F__)
enum { MASKS = 1 };
#else
enum { MASKS = 0 };
#endif

INLINE int64_t rest_of(int64_t channels) { return channels < VF ? channels : VF; }

INLINE void in_line_2(const vf *d, vf *v) {
    v[0] = d[2] - d[0];
    v[1] = d[2] + d[1];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
}

INLINE void out_line_2(const vf *m, vf *y) {
    y[0] = m[0] + (m[1] + m[2]);
    y[1] = (m[1] - m[2]) + m[3];
}

/* The points are 0, s, -s, 2 s, -2 s. */
static const float S = 0.75f;

INLINE void in_line_4(const vf *d, vf *v) {
    const float s2 = S * S;
    const vf a = d[4] - 4 * s2 * d[2], b = d[3] - 4 * s2 * d[1], c = d[4] - s2 * d[2], e = d[3] - s2 * d[1];
    v[0] = c - 4 * s2 * (d[2] - s2 * d[0]);
    v[1] = a + S * b;
    v[2] = a - S * b;
    v[3] = c + 2 * S * e;
    v[4] = c - 2 * S * e;
    v[5] = d[5] - s2 * d[3] - 4 * s2 * e;
}

INLINE void out_line_4(const vf *m, vf *y) {
    const float s2 = S * S, s3 = s2 * S;
    const vf p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], t = m[3] - m[4];
    y[0] = m[0] + (p + r);
    y[1] = S * (q + 2 * t);
    y[2] = s2 * (p + 4 * r);
    y[3] = s3 * (q + 8 * t) + m[5];
}

/* Of a block that has only two pixels: the points 0, s, -s and infinity, for the same weights. */
INLINE void in_few_4(const vf *d, vf *v) {
    const float s2 = S * S;
    const vf a = -3 * s2 * d[2], b = -3 * s2 * S * d[1];
    v[0] = -4 * s2 * (d[2] - s2 * d[0]);
    v[1] = a + b;
    v[2] = a - b;
    v[3] = v[4] = (vf){0};
    v[5] = d[3] - s2 * d[1];
}

INLINE void out_few_4(const vf *m, vf *y) {
    y[0] = m[0] + (m[1] + m[2]);
    y[1] = S * (m[1] - m[2]) + m[5];
    y[2] = y[3] = (vf){0};
}

/* In steps of 2: the outer taps meet every other pixel, the inner one those between. */
INLINE void in_line_step2_2(const vf *d, vf *v) {
    v[0] = d[0] - d[2];
    v[1] = d[2];
    v[2] = d[4] - d[2];
    v[3] = d[1];
    v[4] = d[3];
}

INLINE void out_line_step2_2(const vf *m, vf *y) {
    y[0] = m[0] + m[1] + m[3];
    y[1] = m[1] + m[2] + m[4];
}

/* The points are 0, s, -s, 2 s. */
INLINE void in_line_step2_4(const vf *d, vf *v) {
    const float s2 = S * S;
    const vf a = d[6] - s2 * d[2], b = d[4] - s2 * d[0], c = s2 * d[2];
    v[0] = a - 2 * S * b;
    v[1] = d[6] - S * d[4] - 2 * c;
    v[2] = d[6] - 3 * S * d[4] + 2 * c;
    v[3] = a;
    v[4] = d[8] - s2 * d[4] - 2 * S * a;
    for (int i = 0; i < 4; i++) v[5 + i] = d[2 * i + 1];
}

INLINE void out_line_step2_4(const vf *m, vf *y) {
    const float s2 = S * S, s3 = s2 * S;
    const vf p = m[1] + m[2], q = m[1] - m[2];
    y[0] = m[0] + (p + m[3]) + m[5];
    y[1] = S * (q + 2 * m[3]) + m[6];
    y[2] = s2 * (p + 4 * m[3]) + m[7];
    y[3] = s3 * (q + 8 * m[3]) + m[4] + m[8];
}

/* The points are 0, s and infinity. */
INLINE void in_few_step2_4(const vf *d, vf *v) {
    const float s2 = S * S;
    v[0] = 2 * s2 * (S * d[0] - d[2]);
    v[1] = -2 * s2 * d[2];
    v[4] = d[4] - S * d[2];
    v[5] = d[1];
    v[6] = d[3];
    v[2] = v[3] = v[7] = v[8] = (vf){0};
}

INLINE void out_few_step2_4(const vf *m, vf *y) {
    y[0] = m[0] + m[1] + m[5];
    y[1] = S * m[1] + m[4] + m[6];
    y[2] = y[3] = (vf){0};
}

/* The points are 0, 1/2, -1/2, 1, -1, 2, -2. A block's data is as large for windows of 4 as for those of 5. */
INLINE void in_line_8(const vf *d, vf *v) {
    const vf a = d[6] - 5 * d[4] + 4 * d[2], b = d[5] - 5 * d[3] + 4 * d[1];
    const vf c = d[6] - 4.25f * d[4] + d[2], e = d[5] - 4.25f * d[3] + d[1];
    const vf f = d[6] - 1.25f * d[4] + 0.25f * d[2], g = d[5] - 1.25f * d[3] + 0.25f * d[1];
    v[0] = d[6] - 5.25f * (d[4] - d[2]) - d[0];
    v[1] = a + 0.5f * b;
    v[2] = a - 0.5f * b;
    v[3] = c + e;
    v[4] = c - e;
    v[5] = f + 2 * g;
    v[6] = f - 2 * g;
    v[7] = d[7] - 5.25f * (d[5] - d[3]) - d[1];
}

INLINE void out_line_phases(const vf *m, vf *y) {
    const vf p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], t = m[3] - m[4], u = m[5] + m[6], x = m[5] - m[6];
    y[0] = m[0] + p + (r + u);
    y[1] = 0.5f * q + t + 2 * x;
    y[2] = 0.25f * p + r + 4 * u;
    y[3] = 0.125f * q + t + 8 * x;
    y[4] = 0.0625f * p + r + 16 * u + m[7];
}

INLINE void out_line_wide(const vf *m, vf *y) {
    const vf p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], t = m[3] - m[4], u = m[5] + m[6], x = m[5] - m[6];
    y[0] = m[0] + p + (r + u);
    y[1] = 0.5f * q + t + 2 * x;
    y[2] = 0.25f * p + r + 4 * u;
    y[3] = 0.125f * q + t + 8 * x + m[7];
}

#define IN 2
#define KIND 2
#define OUT 2
#define SIZE 4
#include "backends/cpu/kernels/winograd_body.h"
#define IN 4
#define KIND 4
#define HAS_FEW
#define OUT 4
#define SIZE 6
#include "backends/cpu/kernels/winograd_body.h"
#define IN step2_2
#define KIND step2_2
#define OUT 2
#define SIZE 5
#include "backends/cpu/kernels/winograd_body.h"
#define IN step2_4
#define KIND step2_4
#define HAS_FEW
#define OUT 4
#define SIZE 9
#include "backends/cpu/kernels/winograd_body.h"
#define IN 8
#define KIND phases
#define OUT 5
#define SIZE 8
#include "backends/cpu/kernels/winograd_body.h"
#define KIND wide
#define OUT 4
#define SIZE 8
#include "backends/cpu/kernels/winograd_body.h"

/* ---- weights ------------------------------------------------------------------------------------------------- */

/* Halves of a vector of channels, in double since it is done once: columns of the window, then rows. Whole vectors fill whole
   lines of planes that lie too far apart to stay in the cache until the next. */
INLINE void weights_at(const WinogradWeights *t, int64_t j, const int taps, const int halves) {
    const int planes = t->planes;
    vd made[WINOGRAD_MOST_PLANES][WINOGRAD_MOST_TAPS][2];
    ROLLED for (int c = 0; c < taps; c++) {
        vd k[WINOGRAD_MOST_TAPS][2];
        for (int r = 0; r < taps; r++)
            for (int h = 0; h < halves; h++) {
                vh x;
                memcpy(&x, t->w + (r * taps + c) * t->width + j + h * VD, sizeof x);
                k[r][h] = __builtin_convertvector(x, vd);
            }
        ROLLED for (int i = 0; i < planes; i++) {
            const double *p = t->points + i * taps;
            for (int h = 0; h < halves; h++) {
                vd sum = p[0] * k[0][h];
                for (int r = 1; r < taps; r++) sum += p[r] * k[r][h];
                made[i][c][h] = sum;
            }
        }
    }
    float *to = t->to + j;
    ROLLED for (int i = 0; i < planes; i++) {
        ROLLED for (int l = 0; l < planes; l++, to += t->step) {
            const double *p = t->points + l * taps;
            for (int h = 0; h < halves; h++) {
                vd sum = p[0] * made[i][0][h];
                for (int c = 1; c < taps; c++) sum += p[c] * made[i][c][h];
                const vh x = __builtin_convertvector(sum, vh);
                memcpy(to + h * VD, &x, sizeof x);
            }
        }
    }
}

INLINE void weights_along(const WinogradWeights *t, const int taps) {
    int64_t j = 0;
    for (; j + VF <= t->width; j += VF) weights_at(t, j, taps, 2);
    for (; j < t->width; j += VD) weights_at(t, j, taps, 1);
}

static void weights(const WinogradWeights *t) {
    if (t->taps == 3) weights_along(t, 3);
    else if (t->taps == 4) weights_along(t, 4);
    else weights_along(t, 5);
}

const WinogradTable ISA_NAME(winograd_table) = {
    .in = {NULL, in_2, in_4, in_step2_2, in_step2_4, in_8, in_8},
    .out = {NULL, out_2, out_4, out_step2_2, out_step2_4, out_wide, out_phases},
    .weights = weights,
};
