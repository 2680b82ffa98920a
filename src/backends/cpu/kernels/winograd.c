/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's transforms of data, of sums and of weights, vectors along the channels. */
#include "backends/cpu/winograd_int.h"
#include "backends/cpu/kernels/math_int.h"

#define NAMED_(name, out) name##_##out
#define NAMED(name, out) NAMED_(name, out)

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

/* What a row of three weights becomes at each point. It is done once, so in double. */
static const double g_2[4][3] = {{-1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
#define AT(x, n) \
    { 1 / (n), (x) / (n), (x) * (x) / (n) }
#define D 0.75
#define D4 (D * D * D * D)
static const double g_4[6][3] = {AT(0, 4 * D4),      AT(D, -6 * D4),      AT(-D, -6 * D4),
                                 AT(2 * D, 24 * D4), AT(-2 * D, 24 * D4), {0, 0, 1}};

#define OUT 2
#include "backends/cpu/kernels/winograd_body.h"
#undef OUT
#define OUT 4
#include "backends/cpu/kernels/winograd_body.h"
#undef OUT

const WinogradTable ISA_NAME(winograd_table) = {in_2, in_4, out_2, out_4, weights_2, weights_4};
