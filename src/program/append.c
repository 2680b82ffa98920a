/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs that begin with an input whose memory has room behind it: the input stays where it is, what is new is written
   there. */
#include "program/program_int.h"

static const Growth *growth_of(const Frame *f, int32_t out) {
    const Runner *r = f->runner;
    for (size_t i = 0; f->outermost && f->program->slots.data[out].is_output && i < r->n_growths; i++)
        if (f->program->outputs.data[r->growths[i].output] == out) return &r->growths[i];
    return NULL;
}

void growth_strides(Tensor *t, int axis, int64_t room) {
    int64_t stride = 1;
    for (int k = t->rank - 1; k >= 0; k--) {
        t->strides[k] = stride;
        stride *= max_i64(k == axis ? room : t->dims[k], 1);
    }
}

static bool has_room(const Tensor *past, const Tensor *t, const Growth *g) {
    Tensor like = *past;
    if (past->dtype != t->dtype || dtype_size(t->dtype) == 0 || past->rank != t->rank || past->offset != 0)
        return false;
    if (g->axis >= t->rank || t->dims[g->axis] > g->room) return false;
    for (int k = 0; k < t->rank; k++)
        if (k != g->axis && past->dims[k] != t->dims[k]) return false;
    growth_strides(&like, g->axis, g->room);
    return memcmp(like.strides, past->strides, (size_t)t->rank * sizeof *like.strides) == 0;
}

/* A dimension that runs through several whole rows becomes two. */
static void split_rows(Region *r, int64_t row) {
    for (int k = 0; k < r->rank && r->rank < TN_MAX_RANK; k++) {
        int64_t stride = r->dst_stride[k], each = stride > 0 && row % stride == 0 ? row / stride : 0;
        if (each <= 1 || r->size[k] <= each || r->size[k] % each != 0) continue;
        int last = r->rank++;
        r->size[last] = r->size[k] / each;
        r->src_stride[last] = r->src_stride[k] * each;
        r->dst_stride[last] = row;
        r->size[k] = each;
    }
}

/* From rows of `row` elements, one behind the other, to rows that are `wide` apart. A box that goes over the end of a row
   stays what it is. */
static bool widen(Region *r, int64_t row, int64_t wide) {
    split_rows(r, row);
    int64_t within = r->dst_offset % row;
    r->dst_offset = r->dst_offset / row * wide + within;
    for (int k = 0; k < r->rank; k++) {
        int64_t stride = r->dst_stride[k];
        if (r->size[k] == 1) continue;
        if (stride <= 0) return false;
        if (stride % row == 0) r->dst_stride[k] = stride / row * wide;
        else within += (r->size[k] - 1) * stride;
    }
    return within < row;
}

static bool stays(const Region *r) {
    bool same = r->src_offset == r->dst_offset;
    for (int k = 0; k < r->rank; k++) same &= r->size[k] == 1 || r->src_stride[k] == r->dst_stride[k];
    return same;
}

static void lie_in(Frame *f, int32_t out, int32_t past, const Growth *g) {
    growth_strides(&f->t[out], g->axis, g->room);
    f->state[out].root = past;
    f->state[out].at = 0;
    f->state[out].home = HOME_INPUT;
    f->state[out].grew = true;
}

void plan_grown(Planning *p, int32_t past, int32_t out) {
    Frame *f = p->f;
    const Growth *g = growth_of(f, out);
    if (g && f->program->inputs.data[g->input] == past && has_room(&f->t[past], &f->t[out], g)) lie_in(f, out, past, g);
}

bool plan_append(Planning *p, int32_t out, Made *m) {
    Frame *f = p->f;
    const Growth *g = growth_of(f, out);
    if (!g || !m->list.covers) return false;
    int32_t past = f->program->inputs.data[g->input];
    Tensor *t = &f->t[out];
    Region *regions = arena_array(p->scratch, Region, m->list.len + 1);
    if (!regions || !has_room(&f->t[past], t, g)) return false;
    int64_t inner = 1;
    size_t n = 0;
    for (int k = g->axis + 1; k < t->rank; k++) inner *= t->dims[k];
    for (size_t i = 0; i < m->list.len; i++) {
        Region r = m->list.data[i];
        bool own = r.source != REGION_FILL && m->sources[r.source] == past;
        if (!widen(&r, max_i64(t->dims[g->axis] * inner, 1), g->room * inner) || (own && !stays(&r))) return false;
        if (!own) regions[n++] = r;
    }
    memcpy(m->list.data, regions, n * sizeof *regions);
    m->list.len = n;
    lie_in(f, out, past, g);
    return true;
}
