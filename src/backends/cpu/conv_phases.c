/* SPDX-License-Identifier: Apache-2.0 */
/* Data of a convolution in steps of 2 by its phases: a pixel for every two rows and columns, with four channels for each one.
   Windows of up to 8 are then windows of up to 4 in steps of 1. */
#include "backends/cpu/conv_int.h"

typedef struct Phases {
    const ConvGeom *g;
    const Tensor *x;
    int64_t high, wide; /* pixels that are made of an image */
    float *to;
} Phases;

/* Where there is padding, or elements of a row are no neighbours. */
static void copy_apart(const Phases *p, const char *row, int64_t first, int64_t end, float *to) {
    const int64_t wide = p->g->in[1], pixel = 4 * p->g->c;
    for (int64_t q = first; q < end; q++)
        for (int64_t k = 0; k < 2; k++) {
            int64_t col = 2 * q + k - p->g->win.begin[1];
            float v = 0;
            if (col >= 0 && col < wide) memcpy(&v, row + 4 * col * p->x->strides[3], sizeof v);
            to[q * pixel + k] = v;
        }
}

/* One channel's elements of one row of the data. */
static void copy_row(const Phases *p, int64_t image, int64_t c, int64_t row, float *to) {
    const ConvGeom *g = p->g;
    const int64_t *s = p->x->strides, before = g->win.begin[1], pixel = 4 * g->c;
    if (row < 0 || row >= g->in[0]) {
        for (int64_t q = 0; q < p->wide; q++) to[q * pixel] = to[q * pixel + 1] = 0;
        return;
    }
    const char *from = (const char *)p->x->data + 4 * (p->x->offset + image * s[0] + c * s[1] + row * s[2]);
    int64_t inside = s[3] == 1 ? min_i64(p->wide, (before + 1) / 2) : p->wide;
    int64_t outside = max_i64(inside, min_i64(p->wide, (before + g->in[1]) / 2));
    copy_apart(p, from, 0, inside, to);
    for (int64_t q = inside; q < outside; q++) memcpy(to + q * pixel, from + 4 * (2 * q - before), 2 * sizeof *to);
    copy_apart(p, from, outside, p->wide, to);
}

/* One item is a row of pixels. */
static void copy_rows(void *arg, int64_t begin, int64_t end) {
    const Phases *p = arg;
    const ConvGeom *g = p->g;
    for (int64_t item = begin; item < end; item++) {
        float *to = p->to + item * p->wide * 4 * g->c;
        int64_t image = item / p->high, row = item % p->high * 2 - g->win.begin[0];
        for (int64_t k = 0; k < 2 * g->c; k++) copy_row(p, image, k / 2, row + k % 2, to + 2 * k);
    }
}

tn_status conv_phases(KernelCtx *c, const ConvGeom *g, const Tensor *x, ConvGeom *phases, ConvData *out) {
    const int block = winograd_spec[WINOGRAD_PHASES].out, taps = winograd_spec[WINOGRAD_PHASES].taps;
    int64_t size[2], count;
    size_t bytes;
    for (int d = 0; d < 2; d++) size[d] = (g->out[d] + block - 1) / block * block + taps - 1;
    const int64_t dims[] = {g->batch, 4 * g->c, size[0], size[1]};
    TRY(checked_count(4, dims, &count));
    TRY(checked_bytes(TN_F32, count, &bytes));
    Phases p = {.g = g, .x = x, .high = size[0], .wide = size[1], .to = arena_raw(c->scratch, bytes, 64)};
    if (!p.to) return TN_OUT_OF_MEMORY;
    *phases = *g;
    phases->c *= 4;
    phases->taps = taps * taps;
    phases->in_px = size[0] * size[1];
    *out = (ConvData){.data = p.to, .image = phases->in_px * phases->c, .stride = {size[1] * phases->c, phases->c}};
    for (int d = 0; d < 2; d++) {
        phases->in[d] = size[d];
        phases->win.kernel[d] = taps, phases->win.stride[d] = 1, phases->win.begin[d] = phases->win.end[d] = 0;
    }
    return kernel_parallel(c, g->batch * p.high, (double)(p.wide * phases->c) / 2, copy_rows, &p);
}
