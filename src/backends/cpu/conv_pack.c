/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in panels. */
#include "backends/cpu/conv_int.h"

void conv_panels(const ConvGeom *g, int64_t taps, ConvPanels *p) {
    const ConvTable *table = ISA_PICK(conv_table);
    int64_t full = table->vector * table->most_vectors;
    *p = (ConvPanels){.full = full, .n = (g->m + full - 1) / full, .k = taps * g->c};
    int64_t rest = g->m - (p->n - 1) * full;
    p->last = (rest + table->vector - 1) / table->vector * table->vector;
    p->group = p->n ? ((p->n - 1) * full + p->last) * p->k : 0;
    p->floats = g->group * p->group;
}

typedef struct PackJob {
    const ConvGeom *g;
    const ConvPanels *p;
    const Tensor *w;
    const char *data; /* maybe askew */
    float *dst;
    int64_t group, m, c; /* strides */
} PackJob;

/* Channels [m, m + n) under one tap, whose weights begin at `at`. */
static void pack_tap(const PackJob *job, int64_t at, int64_t n, int64_t width, float *dst) {
    for (int64_t ch = 0; ch < job->g->c; ch++, dst += width, at += job->c) {
        for (int64_t j = 0; j < n; j++) memcpy(&dst[j], job->data + 4 * (at + j * job->m), sizeof *dst);
        for (int64_t j = n; j < width; j++) dst[j] = 0;
    }
}

/* One item is one panel of one group. */
static void pack_range(void *arg, int64_t begin, int64_t end) {
    const PackJob *job = arg;
    const ConvGeom *g = job->g;
    const ConvPanels *p = job->p;
    for (int64_t item = begin; item < end; item++) {
        int64_t group = item / p->n, panel = item % p->n, width = panel_width(p, panel), m = panel * p->full;
        int64_t n = min_i64(width, g->m - m), tap[CONV_DIMS] = {0};
        float *dst = job->dst + group * p->group + m * p->k;
        for (int64_t t = 0; t < g->taps; t++, dst += g->c * width) {
            int64_t at = job->w->offset + group * job->group + m * job->m;
            for (int d = 0; d < g->win.rank; d++) at += tap[d] * job->w->strides[2 + d];
            pack_tap(job, at, n, width, dst);
            for (int d = g->win.rank - 1; d >= 0 && ++tap[d] == g->win.kernel[d]; d--) tap[d] = 0;
        }
    }
}

void conv_pack(const ConvGeom *g, const ConvPanels *p, const Tensor *w, bool c_first, float *dst, Pool *pool) {
    PackJob job = {.g = g, .p = p, .w = w, .data = w->data, .dst = dst, .m = w->strides[0], .c = w->strides[1]};
    job.group = g->m * job.m;
    if (c_first) {
        job.m = w->strides[1], job.c = w->strides[0];
        job.group = g->c * job.c;
    }
    parallel_for(pool, g->group * p->n, (double)(p->k * p->full), pack_range, &job);
}
