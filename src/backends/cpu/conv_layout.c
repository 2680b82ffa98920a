/* SPDX-License-Identifier: Apache-2.0 */
/* Data and results with neighbouring channels: as they are where they lie so, else by way of scratch memory. */
#include "backends/cpu/conv_int.h"

void channels_last(int rank, const int64_t *dims, int64_t *strides) {
    int64_t stride = max_i64(dims[1], 1);
    for (int d = rank - 1; d >= 2; d--) {
        strides[d] = stride;
        stride *= max_i64(dims[d], 1);
    }
    strides[0] = stride;
    strides[1] = 1;
}

void order_channels_last(const KernelQuery *q, int k, Tensor *out) {
    (void)q;
    if (k == 0 && out->rank >= 3) channels_last(out->rank, out->dims, out->strides);
}

static bool channels_are_neighbours(const Tensor *t) { return t->dims[1] <= 1 || t->strides[1] == 1; }

void conv_data(const Tensor *t, ConvData *out) {
    out->data = tensor_bytes(t);
    out->image = t->strides[0];
    for (int d = 2; d < t->rank; d++) out->stride[d - 2] = t->strides[d];
}

bool pixels_follow(const Tensor *t, int64_t *ld) {
    int64_t pixels = 1;
    *ld = max_i64(t->dims[1], 1);
    for (int d = t->rank - 1; d >= 2; d--) {
        if (t->dims[d] == 1) continue;
        if (pixels == 1) *ld = t->strides[d];
        else if (t->strides[d] != pixels * *ld) return false;
        pixels *= t->dims[d];
    }
    return true;
}

/* ---- copies -------------------------------------------------------------------------------------------------- */

static tn_status move(KernelCtx *c, const Tensor *from, void *to, int64_t to_offset, const int64_t *to_strides,
                      int64_t count, bool covers) {
    RegionList list = {.arena = c->scratch, .covers = covers};
    Region r = {.rank = from->rank, .dst_offset = to_offset};
    for (int d = 0; d < from->rank; d++) {
        r.size[d] = from->dims[d];
        r.src_stride[d] = from->strides[d];
        r.dst_stride[d] = to_strides[d];
    }
    TRY(region_push(&list, &r));
    RasterOperand source = {from->data, from->offset};
    return raster_run(&list, TN_F32, &source, to, 0, count, NULL, c->pool);
}

static float *scratch_floats(KernelCtx *c, int64_t count) {
    size_t bytes;
    if (checked_bytes(TN_F32, count, &bytes) != TN_OK) return NULL;
    return arena_raw(c->scratch, bytes ? bytes : 1, 64);
}

/* A copy with its channels last and `before` zeros in front of each spatial dimension, which become dims[2..] long. */
static tn_status copy_last(KernelCtx *c, const Tensor *t, const int64_t *before, const int64_t *dims, ConvData *out) {
    int64_t strides[TN_MAX_RANK], count, offset = 0;
    TRY(checked_count(t->rank, dims, &count));
    channels_last(t->rank, dims, strides);
    bool covers = true;
    for (int d = 2; d < t->rank; d++) {
        offset += (before ? before[d - 2] : 0) * strides[d];
        covers &= dims[d] == t->dims[d];
    }
    float *data = scratch_floats(c, count);
    if (!data) return TN_OUT_OF_MEMORY;
    *out = (ConvData){.data = data, .image = strides[0]};
    for (int d = 2; d < t->rank; d++) out->stride[d - 2] = strides[d];
    return move(c, t, data, offset, strides, count, covers);
}

/* ---- data ---------------------------------------------------------------------------------------------------- */

/* Sizes of the data with the zeros around it that windows reach. False: they would be most of it. */
static bool padded_sizes(const ConvGeom *g, int64_t *sizes) {
    double before = 1, after = 1;
    for (int d = 0; d < g->win.rank; d++) {
        const ConvWindow *w = &g->win;
        int64_t reach = (g->out[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1;
        sizes[d] = max_i64(w->begin[d] + g->in[d], reach);
        before *= (double)g->in[d];
        after *= (double)sizes[d];
    }
    return after <= 2 * before + 4096;
}

tn_status conv_input(KernelCtx *c, const Tensor *x, ConvGeom *g, bool pad, ConvData *out) {
    if (channels_are_neighbours(x)) {
        conv_data(x, out);
        return TN_OK;
    }
    int64_t dims[TN_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    if (!pad || !padded_sizes(g, dims + 2)) return copy_last(c, x, NULL, x->dims, out);
    TRY(copy_last(c, x, g->win.begin, dims, out));
    g->in_px = 1;
    for (int d = 0; d < g->win.rank; d++) {
        g->in_px *= g->in[d] = dims[2 + d];
        g->win.begin[d] = g->win.end[d] = 0;
    }
    return TN_OK;
}

/* ---- results and what lies like them ------------------------------------------------------------------------- */

static bool lies_well(const Tensor *t, int64_t *ld) {
    return channels_are_neighbours(t) && pixels_follow(t, ld) && t->dtype == TN_F32;
}

tn_status conv_output(KernelCtx *c, const Tensor *y, ConvData *out, int64_t *ld) {
    if (lies_well(y, ld)) {
        conv_data(y, out);
        return TN_OK;
    }
    int64_t strides[TN_MAX_RANK], count;
    TRY(checked_count(y->rank, y->dims, &count));
    channels_last(y->rank, y->dims, strides);
    *ld = y->dims[1];
    *out = (ConvData){.data = scratch_floats(c, count), .image = strides[0]};
    for (int d = 2; d < y->rank; d++) out->stride[d - 2] = strides[d];
    return out->data ? TN_OK : TN_OUT_OF_MEMORY;
}

tn_status conv_output_done(KernelCtx *c, const Tensor *y, const ConvData *data) {
    if (data->data == tensor_bytes(y)) return TN_OK;
    Tensor from = *y;
    int64_t end = 1;
    channels_last(y->rank, y->dims, from.strides);
    from.data = data->data;
    from.offset = 0;
    for (int d = 0; d < y->rank; d++) end += (y->dims[d] - 1) * y->strides[d];
    return move(c, &from, tensor_bytes(y), 0, y->strides, end, true);
}

tn_status conv_like_output(KernelCtx *c, const Tensor *t, ConvData *out, int64_t *ld) {
    if (lies_well(t, ld)) {
        conv_data(t, out);
        return TN_OK;
    }
    *ld = t->dims[1];
    return copy_last(c, t, NULL, t->dims, out);
}

tn_status conv_vector(KernelCtx *c, const Tensor *t, int64_t n, int64_t room, const float **out) {
    float *v = scratch_floats(c, room);
    if (!v) return TN_OUT_OF_MEMORY;
    int64_t stride = 0;
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d] == n) stride = t->strides[d];
    for (int64_t i = 0; i < room; i++) v[i] = 0;
    for (int64_t i = 0; i < n; i++) memcpy(&v[i], (const char *)t->data + 4 * (t->offset + i * stride), sizeof *v);
    *out = v;
    return TN_OK;
}
