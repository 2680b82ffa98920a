/* SPDX-License-Identifier: Apache-2.0 */
/* Results that are made of several side by side, row by row: channels-last images joined along their channels. A part that
   fills all of its memory may lie in the whole's instead, its rows as far apart as the whole's are, when whoever writes it
   can leave gaps between rows and whoever read it already takes any strides. In the same way rows are laid a line further
   apart that lie at the same few places of all pages, where a kernel is slow on such. */
#include "program/program_int.h"

enum {
    MOST_INSTRS = 4096, /* looked at for one part */
    PAGE_PART = 512,    /* rows a multiple of so many bytes apart begin in few lines of the first cache */
    LINE = 64,
    FEW_ROWS = 16 /* are there at once */
};

/* Rows of one root's memory within a result's. Counted in elements. */
typedef struct Rows {
    int32_t root;
    int64_t n, width, wide; /* rows; from row to row in the root, and in the result */
    int64_t shift;          /* from a place in the root's first row to that in the result's */
    int64_t covered;        /* elements of the root's that move by as much */
} Rows;

/* A region as rows of a root; false when it is none. */
static bool rows_of(Frame *f, const Made *m, size_t k, Rows *out) {
    Region r = m->list.data[k];
    out->root = -1;
    if (r.source == REGION_FILL) return false;
    int32_t s = m->sources[r.source];
    int64_t size = dtype_size(f->t[s].dtype);
    *out = (Rows){.root = slot_root(f, s)};
    region_coalesce(&r);
    if (r.rank != 2 || r.src_stride[1] != 1 || r.dst_stride[1] != 1 || f->state[s].at % size != 0) return false;
    int64_t from = f->state[s].at / size + f->t[s].offset + r.src_offset;
    *out = (Rows){.root = out->root,
                  .n = r.size[0],
                  .width = r.src_stride[0],
                  .wide = r.dst_stride[0],
                  .shift = r.dst_offset - from,
                  .covered = r.size[0] * r.size[1]};
    return r.src_stride[0] >= r.size[1] && from >= 0 && from + r.size[1] <= r.src_stride[0] &&
           r.dst_offset + r.size[1] <= r.dst_stride[0];
}

static bool same_rows(const Rows *a, const Rows *b) {
    return a->root == b->root && a->n == b->n && a->width == b->width && a->wide == b->wide && a->shift == b->shift;
}

/* ---- whether everybody can take it -------------------------------------------------------------------------------- */

/* A place in the root's memory, once rows lie further apart. */
static int64_t moved(const Rows *r, int64_t at) { return at / r->width * r->wide + at % r->width; }

/* Whether a reading goes along rows and across them, but not over the end of one. */
static bool follows_rows(const Frame *f, const Rows *r, int32_t s) {
    const Tensor *t = &f->t[s];
    int64_t size = dtype_size(t->dtype), at = f->state[s].at, across;
    if (size == 0 || at % size != 0 || tensor_count(t) == 0) return false;
    across = at / size % r->width + t->offset % r->width;
    for (int k = 0; k < t->rank; k++) {
        if (t->dims[k] == 1) continue;
        if (t->strides[k] < 0) return false;
        if (t->strides[k] % r->width != 0) across += (t->dims[k] - 1) * t->strides[k];
    }
    return across < r->width;
}

static bool moves_from(Frame *f, const Instr *instr, const Step *step, int32_t root) {
    for (uint32_t k = 0; step->made && k < instr->n_out; k++)
        for (size_t i = 0; i < step->made[k].list.len; i++) {
            int32_t source = step->made[k].list.data[i].source;
            if (source != REGION_FILL && slot_root(f, step->made[k].sources[source]) == root) return true;
        }
    return false;
}

static bool may_read(Frame *f, const Instr *instr, const Step *step, int32_t root) {
    uint32_t strided = step->action == STEP_KERNEL && step->kernel->strided ? step->kernel->strided(instr->node) : 0;
    for (uint32_t k = 0; k < instr->n_captures; k++)
        if (slot_root(f, instr->captures[k]) == root) return false;
    if (step->action != STEP_KERNEL) return !moves_from(f, instr, step, root);
    for (uint32_t k = 0; k < instr->n_in; k++)
        if (instr->in[k] >= 0 && slot_root(f, instr->in[k]) == root && (k >= 32 || !(strided & 1u << k))) return false;
    return true;
}

static bool may_write(Frame *f, const Rows *r, const Instr *instr, const Step *step) {
    for (uint32_t k = 0; k < instr->n_out; k++) {
        int32_t s = instr->out[k];
        if (!f->state[s].known || slot_root(f, s) != r->root) continue;
        if (!follows_rows(f, r, s) || f->state[s].made || f->state[s].told) return false;
        if (step->action == STEP_KERNEL && (k > 0 || !step->kernel->gaps)) return false;
        if (step->action == STEP_RASTER && step->made[k].runs) return false;
    }
    return true;
}

static bool all_may(Frame *f, const Rows *r, int32_t i) {
    int32_t first = f->state[r->root].root_first;
    if (i - first > MOST_INSTRS) return false;
    for (int32_t j = first; j < i; j++) {
        const Instr *instr = &f->program->instrs.data[j];
        const Step *step = &f->steps[j];
        if (step->folded) continue;
        if (!may_write(f, r, instr, step) || !may_read(f, instr, step, r->root)) return false;
    }
    return true;
}

/* ---- doing it ------------------------------------------------------------------------------------------------------ */

static void spread_slot(Frame *f, const Rows *r, int32_t s) {
    Tensor *t = &f->t[s];
    SlotState *state = &f->state[s];
    int64_t size = dtype_size(t->dtype);
    state->spread = true;
    state->at = moved(r, state->at / size) * size;
    t->offset = moved(r, t->offset);
    for (int k = 0; k < t->rank; k++)
        if (t->strides[k] % r->width == 0) t->strides[k] = t->strides[k] / r->width * r->wide;
}

/* All that lies in the root's memory and is made before instruction `end`. */
static void spread(Frame *f, const Rows *r, int32_t end) {
    for (int32_t j = f->state[r->root].root_first; j < end; j++) {
        const Instr *instr = &f->program->instrs.data[j];
        for (uint32_t k = 0; k < instr->n_out; k++)
            if (f->state[instr->out[k]].known && slot_root(f, instr->out[k]) == r->root)
                spread_slot(f, r, instr->out[k]);
    }
}

static void join(Frame *f, const Rows *r, int32_t out, int32_t i) {
    SlotState *whole = &f->state[out], *part = &f->state[r->root];
    int64_t size = dtype_size(f->t[out].dtype);
    spread(f, r, i);
    part->root = out;
    part->at = r->shift * size;
    whole->root_first = (int32_t)min_i64(whole->root_first, part->root_first);
    whole->root_last = (int32_t)max_i64(whole->root_last, part->root_last);
}

void join_rows(Planning *p, int32_t out, Made *m, int32_t i,
               bool (*is_free)(Frame *f, int32_t root, int32_t out, int32_t i)) {
    Frame *f = p->f;
    Rows r, other;
    if (f->program->instrs.data[i].n_out > 1) return; /* lists of other results read with the strides of now */
    for (size_t k = 0; k < m->list.len; k++) {
        if (!rows_of(f, m, k, &r) || f->t[r.root].dtype != f->t[out].dtype || !is_free(f, r.root, out, i)) continue;
        int64_t covered = 0, size = dtype_size(f->t[out].dtype);
        bool elsewhere = false; /* what else is read of it would be read with the strides of now */
        for (size_t j = 0; j < m->list.len; j++) {
            if (rows_of(f, m, j, &other) && same_rows(&r, &other)) covered += other.covered;
            else elsewhere |= other.root == r.root;
        }
        if (elsewhere || covered * size != f->state[r.root].bytes || r.n * r.width != covered || !all_may(f, &r, i))
            continue;
        size_t left = 0;
        for (size_t j = 0; j < m->list.len; j++)
            if (!rows_of(f, m, j, &other) || !same_rows(&r, &other)) m->list.data[left++] = m->list.data[j];
        m->list.len = left;
        join(f, &r, out, i);
        k = (size_t)-1; /* the list is another one now */
    }
}

/* ---- pages ----------------------------------------------------------------------------------------------------------- */

/* The rows of a result that fills its memory; none when it has no rows, or few, or they lie well. */
static bool page_rows_of(const Frame *f, int32_t s, Rows *out) {
    const Tensor *t = &f->t[s];
    int64_t size = dtype_size(t->dtype), count = tensor_count(t);
    for (int k = 0; size > 0 && k < t->rank; k++) {
        int64_t width = t->dims[k];
        if (t->strides[k] != 1 || width <= 1 || width * size % PAGE_PART != 0 || count / width < FEW_ROWS) continue;
        *out = (Rows){.root = s, .n = count / width, .width = width, .wide = width + LINE / size, .covered = count};
        return t->offset == 0 && count * size == f->state[s].bytes;
    }
    return false;
}

/* Whether a kernel that reads or writes the root, by operand or result 0, would gain. */
static bool gains(Frame *f, int32_t root) {
    for (int32_t j = f->state[root].root_first; j <= f->state[root].root_last; j++) {
        const Instr *instr = &f->program->instrs.data[j];
        const Step *step = &f->steps[j];
        if (step->folded || step->action != STEP_KERNEL || !step->kernel->avoids_pages) continue;
        bool reads = instr->n_in > 0 && instr->in[0] >= 0 && slot_root(f, instr->in[0]) == root;
        bool writes = instr->n_out > 0 && slot_root(f, instr->out[0]) == root;
        if ((reads || writes) && step->kernel->avoids_pages(instr->node)) return true;
    }
    return false;
}

void avoid_pages(Planning *p) {
    Frame *f = p->f;
    for (int32_t i = p->seg->start; i < p->seg->end; i++) {
        const Instr *instr = &f->program->instrs.data[i];
        for (uint32_t k = 0; k < instr->n_out; k++) {
            int32_t s = instr->out[k];
            SlotState *state = &f->state[s];
            Rows r;
            if (!state->known || state->root != s || state->home != HOME_NONE || state->made) continue;
            if (state->root_first < p->seg->start || state->root_last >= p->seg->end) continue;
            if (!page_rows_of(f, s, &r) || !gains(f, s) || !all_may(f, &r, state->root_last + 1)) continue;
            spread(f, &r, state->root_last + 1);
            state->bytes = r.n * r.wide * dtype_size(f->t[s].dtype);
        }
    }
}
