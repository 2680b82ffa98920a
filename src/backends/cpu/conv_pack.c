/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in panels. */
#include "backends/cpu/conv_int.h"

void conv_panels(const ConvGeom *g, ConvPanels *p) {
    const ConvTable *table = ISA_PICK(conv_table);
    int64_t full = table->vector * table->most_vectors;
    *p = (ConvPanels){.full = full, .n = (g->m + full - 1) / full, .k = g->taps * g->c};
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
} PackJob;

/* One output channel into its column; `step` floats from row to row. */
static void pack_channel(const PackJob *job, int64_t m, float *dst, int64_t step) {
    const ConvGeom *g = job->g;
    const Tensor *w = job->w;
    int64_t tap[CONV_DIMS] = {0};
    for (int64_t t = 0; t < g->taps; t++) {
        int64_t at = w->offset + m * w->strides[0];
        for (int d = 0; d < g->win.rank; d++) at += tap[d] * w->strides[2 + d];
        for (int64_t ch = 0; ch < g->c; ch++, dst += step)
            memcpy(dst, job->data + 4 * (at + ch * w->strides[1]), sizeof *dst);
        for (int d = g->win.rank - 1; d >= 0 && ++tap[d] == g->win.kernel[d]; d--) tap[d] = 0;
    }
}

/* One item is one panel of one group. */
static void pack_range(void *arg, int64_t begin, int64_t end) {
    const PackJob *job = arg;
    const ConvPanels *p = job->p;
    for (int64_t item = begin; item < end; item++) {
        int64_t group = item / p->n, panel = item % p->n, width = panel_width(p, panel), m = panel * p->full;
        float *dst = job->dst + group * p->group + m * p->k;
        for (int64_t j = 0; j < width; j++) {
            if (m + j < job->g->m) pack_channel(job, group * job->g->m + m + j, dst + j, width);
            else
                for (int64_t k = 0; k < p->k; k++) dst[k * width + j] = 0;
        }
    }
}

void conv_pack(const ConvGeom *g, const ConvPanels *p, const Tensor *w, float *dst, Pool *pool) {
    PackJob job = {.g = g, .p = p, .w = w, .data = w->data, .dst = dst};
    parallel_for(pool, g->group * p->n, (double)(p->k * p->full), pack_range, &job);
}
