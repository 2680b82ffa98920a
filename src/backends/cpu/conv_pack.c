/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in panels. */
#include "backends/cpu/conv_int.h"
#include "backends/cpu/gemm_int.h"

/* Whether lanes along the input channels take less time than lanes along the output channels, of which most would be empty;
   adding up the lanes is 3 operations for each element of the result. */
static bool are_few(const ConvGeom *g, int64_t taps) {
    const ConvFewTable *table = ISA_PICK(conv_few_table);
    if (g->m < 1 || g->m > CONV_MOST_FEW || table->rows[g->m] == 0) return false;
    int64_t steps = (g->c + table->vector - 1) / table->vector;
    const int64_t unit = ISA_PICK(conv_table)->unit;
    return g->m * (steps * taps + 3) < g->c * taps * ((g->m + unit - 1) / unit) * unit / table->vector;
}

void conv_panels(const ConvGeom *g, int64_t taps, ConvPanels *p) {
    if (are_few(g, taps)) {
        *p = (ConvPanels){.few = true, .full = g->m, .n = 1, .k = taps * g->c, .last = g->m};
        p->group = g->m * p->k;
        p->floats = g->group * p->group;
        return;
    }
    const ConvTable *table = ISA_PICK(conv_table);
    int64_t full = table->unit * table->most;
    *p = (ConvPanels){.full = full, .n = (g->m + full - 1) / full, .k = taps * g->c};
    int64_t rest = g->m - (p->n - 1) * full;
    p->last = (rest + table->unit - 1) / table->unit * table->unit;
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

enum { BLOCK = 16 /* channels, whose weights in a row are not so many lines of the cache */ };

static void pack_few(const PackJob *job, int64_t at, float *dst) {
    for (int64_t j = 0; j < job->g->m; j++, dst += job->p->k)
        for (int64_t ch = 0; ch < job->g->c; ch++)
            memcpy(&dst[ch], job->data + 4 * (at + j * job->m + ch * job->c), sizeof *dst);
}

/* Channels [m, m + n) under one tap, whose weights begin at `at`. */
static void pack_tap(const PackJob *job, int64_t at, int64_t n, int64_t width, float *dst) {
    if (job->c == 1 || job->m == 1) {
        ISA_PICK(gemm_table)->pack(dst, width, job->data + 4 * at, job->c, job->m, job->g->c, n);
        return;
    }
    for (int64_t first = 0; first < job->g->c; first += BLOCK, dst += BLOCK * width, at += BLOCK * job->c) {
        int64_t channels = min_i64(BLOCK, job->g->c - first);
        for (int64_t j = 0; j < n; j++)
            for (int64_t ch = 0; ch < channels; ch++)
                memcpy(&dst[ch * width + j], job->data + 4 * (at + ch * job->c + j * job->m), sizeof *dst);
        for (int64_t ch = 0; n < width && ch < channels; ch++)
            memset(&dst[ch * width + n], 0, (size_t)(width - n) * sizeof *dst);
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
        for (int64_t t = 0; t < g->taps; t++, dst += g->c * (p->few ? 1 : width)) {
            int64_t at = job->w->offset + group * job->group + m * job->m;
            for (int d = 0; d < g->win.rank; d++) at += tap[d] * job->w->strides[2 + d];
            if (p->few) pack_few(job, at, dst);
            else pack_tap(job, at, n, width, dst);
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
