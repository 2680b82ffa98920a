/* SPDX-License-Identifier: Apache-2.0 */
/* How many bytes an instruction reads and writes, and what it computes. Asked of a plan, never while one is made. */
#include "program/program_int.h"

static uint64_t bytes(tn_dtype dtype, int64_t count) { return ((uint64_t)count * (uint64_t)dtype_bits(dtype) + 7) / 8; }

/* Elements that lie in memory once are read once, however often a broadcast shows them. */
static int64_t distinct(int rank, const int64_t *sizes, const int64_t *strides) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        if (strides[d] != 0 || sizes[d] == 0) n *= sizes[d];
    return n;
}

static uint64_t slot_bytes(const Frame *f, int32_t s) {
    if (s < 0 || !f->state[s].known || f->t[s].kind != TYPE_TENSOR) return 0;
    const Tensor *t = &f->t[s];
    return bytes(t->dtype, distinct(t->rank, t->dims, t->strides));
}

static uint64_t results_bytes(const Frame *f, const Instr *instr) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < instr->n_out; k++)
        if (f->program->slots.data[instr->out[k]].last_use >= 0) sum += slot_bytes(f, instr->out[k]);
    return sum;
}

static Traffic raster_traffic(const Frame *f, const Instr *instr, const Step *step) {
    Traffic t = {0};
    for (uint32_t k = 0; k < instr->n_out; k++) {
        const Made *made = &step->made[k];
        int32_t s = instr->out[k];
        uint64_t written = 0;
        if (!made->runs) continue;
        for (size_t i = 0; i < made->list.len; i++) {
            const Region *r = &made->list.data[i];
            t.read += bytes(f->t[s].dtype, distinct(r->rank, r->size, r->src_stride));
            written += bytes(f->t[s].dtype, region_count(r));
        }
        /* Where regions leave gaps all of it is filled first, but for what was there before. */
        t.written += f->state[s].grew || made->list.covers ? written : slot_bytes(f, s);
    }
    t.moved = t.written;
    return t;
}

static bool is_read_before(const Instr *instr, uint32_t k) {
    for (uint32_t j = 0; j < k; j++)
        if (instr->in[j] == instr->in[k]) return true;
    return false;
}

static Traffic kernel_traffic(const Frame *f, const Instr *instr, const Step *step) {
    const OpSchema *op = instr->node->op;
    Traffic t = {.written = results_bytes(f, instr)};
    if (op->regions) t.moved = t.written;
    for (uint32_t k = 0; k < instr->n_in; k++) {
        if (instr->in[k] < 0 || is_read_before(instr, k)) continue;
        if (k < 32 && op->shape_inputs & 1u << k) continue;
        uint64_t n = slot_bytes(f, instr->in[k]);
        if (op->regions && n > t.written) n = t.written; /* of a table only what is taken from it */
        t.read += n;
        if (k < 32 && step->pack & 1u << k)
            t.moved += bytes(f->t[instr->in[k]].dtype, tensor_count(&f->t[instr->in[k]]));
    }
    for (uint32_t k = 0; k < instr->n_captures; k++) t.read += slot_bytes(f, instr->captures[k]);
    return t;
}

Traffic frame_traffic(const Frame *f, size_t i) {
    const Instr *instr = &f->program->instrs.data[i];
    const Step *step = &f->steps[i];
    if (step->folded || step->action == STEP_NOTHING) return (Traffic){0};
    return step->action == STEP_RASTER ? raster_traffic(f, instr, step) : kernel_traffic(f, instr, step);
}

static Shape shape_now(const Frame *f, int32_t s) {
    if (s < 0 || !f->state[s].known || f->t[s].kind != TYPE_TENSOR) return shape_unknown();
    return shape_make(f->t[s].rank, f->t[s].dims);
}

double frame_flops(const Frame *f, size_t i) {
    const Instr *instr = &f->program->instrs.data[i];
    Shape in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    if (f->steps[i].folded || instr->n_in > OP_MAX_INPUTS || instr->n_out > OP_MAX_OUTPUTS || instr->n_out == 0)
        return 0;
    for (uint32_t k = 0; k < instr->n_in; k++) in[k] = shape_now(f, instr->in[k]);
    for (uint32_t k = 0; k < instr->n_out; k++) out[k] = shape_now(f, instr->out[k]);
    return shape_is_known(&out[0]) ? op_flops(instr->node, in, out) : 0;
}
