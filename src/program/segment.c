/* SPDX-License-Identifier: Apache-2.0 */
/* Planning a segment: shapes and kernels of instructions in order, up to the first whose operands' sizes or deciding
   contents are only known once the ones before have run; then memory for the results. */
#include "program/program_int.h"

#include <stdio.h>

/* ---- what is known ------------------------------------------------------------------------------------------- */

/* Whether the bytes of a slot are there while this segment is planned. */
static bool is_ready(const Planning *p, int32_t s) {
    const Slot *slot = &p->f->program->slots.data[s];
    if (p->f->state[s].fixed) return true;
    return slot->kind == SLOT_RESULT ? slot->def < p->seg->start : p->index > 0;
}

static bool is_earlier(const Planning *p, int32_t s) {
    const Slot *slot = &p->f->program->slots.data[s];
    return slot->kind == SLOT_RESULT && slot->def < p->seg->start;
}

static bool instr_ready(const Planning *p, const Instr *instr) {
    for (uint32_t k = 0; k < instr->n_in; k++) {
        if (instr->in[k] < 0) continue;
        if (!p->f->state[instr->in[k]].known) return false;
        if (k < 32 && instr->node->op->content_inputs & 1u << k && !is_ready(p, instr->in[k])) return false;
    }
    for (uint32_t k = 0; k < instr->n_captures; k++)
        if (!p->f->state[instr->captures[k]].known) return false;
    return true;
}

/* ---- assumptions --------------------------------------------------------------------------------------------- */

static bool is_plain_bytes(const Tensor *t) {
    return t->kind == TYPE_TENSOR && t->dtype != TN_STRING && tensor_is_dense(t) && dtype_size(t->dtype);
}

static tn_status assume(Planning *p, int32_t s, bool contents) {
    Frame *f = p->f;
    bool given = f->program->slots.data[s].kind != SLOT_RESULT;
    if (f->state[s].fixed || p->index == 0) return TN_OK;
    if (!contents && (given || !is_earlier(p, s))) return TN_OK; /* dims of given tensors: see frame_fits */
    Assumption a = {.slot = s, .like = f->t[s]};
    if (contents) {
        a.n_bytes = SIZE_MAX; /* unless they can be kept: never the same again */
        if (is_plain_bytes(&f->t[s]) && tensor_count(&f->t[s]) <= FOLD_ELEMENTS) {
            a.n_bytes = (size_t)(tensor_count(&f->t[s]) * dtype_size(f->t[s].dtype));
            void *copy = arena_alloc(&p->seg->arena, a.n_bytes + 1, 8);
            if (!copy) return TN_OUT_OF_MEMORY;
            if (a.n_bytes) memcpy(copy, tensor_bytes(&f->t[s]), a.n_bytes);
            a.bytes = copy;
        }
    }
    if (p->assumptions.len == p->assumptions.cap) {
        size_t cap = p->assumptions.cap * 2 + 16;
        Assumption *more = arena_array(&p->seg->arena, Assumption, cap);
        if (!more) return TN_OUT_OF_MEMORY;
        if (p->assumptions.len) memcpy(more, p->assumptions.data, p->assumptions.len * sizeof *more);
        p->assumptions.data = more;
        p->assumptions.cap = cap;
    }
    p->assumptions.data[p->assumptions.len++] = a;
    return TN_OK;
}

bool segment_holds(const Frame *f, size_t k) {
    const Segment *seg = &f->segments.data[k];
    for (size_t i = 0; i < seg->n_assumptions; i++) {
        const Assumption *a = &seg->assumptions[i];
        const Tensor *t = &f->t[a->slot];
        size_t n = (size_t)a->like.rank * sizeof *t->dims;
        if (t->kind != a->like.kind || t->dtype != a->like.dtype || t->rank != a->like.rank ||
            memcmp(t->dims, a->like.dims, n) != 0 || memcmp(t->strides, a->like.strides, n) != 0 ||
            t->offset != a->like.offset)
            return false;
        if (a->n_bytes == SIZE_MAX) return false;
        if (a->n_bytes && memcmp(tensor_bytes(t), a->bytes, a->n_bytes) != 0) return false;
    }
    return true;
}

/* ---- results known now --------------------------------------------------------------------------------------- */

static tn_status make_facts(Planning *p, const Instr *instr, Facts *x) {
    x->in = arena_array(p->scratch, const Tensor *, instr->n_in + 1);
    x->known = arena_array(p->scratch, InferValue, instr->n_in + 1);
    x->found = arena_array(p->scratch, InferValue, instr->n_out + 1);
    x->out = arena_array(p->scratch, Tensor, instr->n_out + 1);
    if (!x->in || !x->known || !x->found || !x->out) return TN_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < instr->n_in; k++) {
        int32_t s = instr->in[k];
        if (s < 0) continue;
        const Tensor *t = &p->f->t[s];
        bool deciding = k < 32 && instr->node->op->content_inputs & 1u << k;
        x->in[k] = t;
        x->known[k] = infer_concrete(t, p->f->state[s].fixed || deciding);
        TRY(assume(p, s, deciding));
    }
    return TN_OK;
}

static tn_status set_results(Planning *p, const Instr *instr, const Facts *x) {
    for (uint32_t k = 0; k < instr->n_out; k++) {
        const InferValue *v = &x->found[k];
        Tensor *t = &p->f->t[instr->out[k]];
        SlotState *state = &p->f->state[instr->out[k]];
        const Slot *slot = &p->f->program->slots.data[instr->out[k]];
        *state = (SlotState){.root = instr->out[k],
                             .root_first = slot->def,
                             .root_last = (int32_t)max_i64(slot->def, slot->last_use),
                             .gives_output = slot->is_output && p->f->outermost};
        *t = x->out[k] = (Tensor){.dtype = v->dtype, .kind = v->kind};
        state->told = v->kind != TYPE_TENSOR || !shape_is_known(&v->shape);
        TRY(op_check_known(instr->node, k, v));
        if (v->kind != TYPE_TENSOR) continue; /* its kernel brings it */
        if (!v->dtype && !(state->told && instr->node->op->flags & OP_DYNAMIC_OUT))
            return fail(TN_SHAPE, "the element type of result %u is not known", k);
        if (state->told) continue;
        size_t bytes;
        tensor_set_dense(t, v->dtype, v->shape.rank, v->shape.dims);
        TRY(checked_bytes(v->dtype, tensor_count(t), &bytes));
        if (bytes > p->f->runner->ctx->limits.max_bytes)
            return fail(TN_LIMIT, "a result would take %zu bytes, more than the limit of %llu", bytes,
                        (unsigned long long)p->f->runner->ctx->limits.max_bytes);
        state->known = true;
        state->bytes = (int64_t)bytes;
        x->out[k] = *t;
    }
    return TN_OK;
}

/* ---- computing while planning -------------------------------------------------------------------------------- */

static bool is_foldable(const Planning *p, const Instr *instr, bool *from_run_time) {
    const OpSchema *op = instr->node->op;
    *from_run_time = false;
    if (!op_is_pure(op)) return false;
    for (uint32_t k = 0; k < instr->n_in; k++) {
        int32_t s = instr->in[k];
        if (s < 0 || (k < 32 && op->shape_inputs & 1u << k)) continue;
        if (!is_ready(p, s) || p->f->t[s].kind != TYPE_TENSOR) return false;
        if (!p->f->state[s].fixed) *from_run_time = true;
    }
    int64_t bytes = 0;
    for (uint32_t k = 0; k < instr->n_out; k++) {
        const Tensor *t = &p->f->t[instr->out[k]];
        const SlotState *state = &p->f->state[instr->out[k]];
        if (!state->known || t->dtype == TN_STRING) return false;
        if (*from_run_time &&
            (dtype_is_float(t->dtype) || dtype_is_complex(t->dtype) || tensor_count(t) > FOLD_ELEMENTS))
            return false;
        bytes += state->bytes;
    }
    return bytes <= FOLD_BYTES;
}

/* Constants may be large, and made for this only. */
static tn_status eval_held(Planning *p, const Instr *instr, const Facts *x, Tensor *results) {
    Context *ctx = p->f->runner->ctx;
    tn_status status = TN_OK;
    uint32_t held = 0;
    for (; held < instr->n_in && status == TN_OK; held++)
        if (x->in[held] && x->in[held]->data) status = bytes_hold(x->in[held]->data, ctx->pool);
    if (status != TN_OK) held--;
    else status = eval_node(ctx, p->scratch, instr->node, x->in, results);
    for (uint32_t k = 0; k < held; k++)
        if (x->in[k] && x->in[k]->data) bytes_let_go(x->in[k]->data);
    return status;
}

static tn_status fold(Planning *p, const Instr *instr, const Facts *x) {
    Frame *f = p->f;
    for (uint32_t k = 0; k < instr->n_in; k++)
        if (instr->in[k] >= 0 && !(k < 32 && instr->node->op->shape_inputs & 1u << k))
            TRY(assume(p, instr->in[k], true));
    Tensor *results = arena_array(p->scratch, Tensor, instr->n_out + 1);
    if (!results) return TN_OUT_OF_MEMORY;
    TRY(eval_held(p, instr, x, results));
    tn_status status = TN_OK;
    for (uint32_t k = 0; k < instr->n_out; k++) {
        Tensor *t = &f->t[instr->out[k]];
        SlotState *state = &f->state[instr->out[k]];
        void *copy = status == TN_OK ? arena_alloc(&p->seg->arena, (size_t)state->bytes + 1, PLAN_ALIGN) : NULL;
        if (copy && state->bytes) memcpy(copy, results[k].data, (size_t)state->bytes);
        if (!copy) status = TN_OUT_OF_MEMORY;
        t->data = copy;
        state->fixed = true;
        state->home = HOME_CONST;
        tensor_release(&results[k]);
    }
    return status;
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

static bool same_place(const Frame *f, int32_t s, int32_t other) {
    const Tensor *a = &f->t[s], *b = &f->t[other];
    size_t n = (size_t)a->rank * sizeof *a->dims;
    return a->rank == b->rank && a->offset == b->offset && f->state[s].at == f->state[other].at &&
           memcmp(a->dims, b->dims, n) == 0 && memcmp(a->strides, b->strides, n) == 0;
}

/* Whether result 0 of instruction i may lie where operand k does. */
static bool may_replace(const Planning *p, const Instr *instr, int32_t i, uint32_t k) {
    Frame *f = p->f;
    int32_t out = instr->out[0], s = instr->in[k];
    if (s < 0 || f->state[s].fixed) return false;
    const Tensor *a = &f->t[s], *y = &f->t[out];
    const SlotState *root = &f->state[slot_root(f, s)];
    bool unplaced = root->home == HOME_NONE;
    if ((root->home != HOME_ARENA && !unplaced) || root->root_last != i || root->bytes != f->state[out].bytes)
        return false;
    if (f->outermost && f->program->slots.data[out].is_output && !unplaced) return false;
    if (a->offset != 0 || a->rank != y->rank || dtype_bits(a->dtype) != dtype_bits(y->dtype) || a->dtype == TN_STRING ||
        y->dtype == TN_STRING || dtype_size(a->dtype) == 0)
        return false;
    size_t n = (size_t)a->rank * sizeof *a->dims;
    if (memcmp(a->dims, y->dims, n) != 0 || memcmp(a->strides, y->strides, n) != 0) return false;
    for (uint32_t j = 0; j < instr->n_in; j++) /* the same memory read in another way would be overwritten */
        if (instr->in[j] >= 0 && slot_root(f, instr->in[j]) == f->state[s].root && !same_place(f, instr->in[j], s))
            return false;
    return true;
}

static void try_in_place(Planning *p, const Instr *instr, int32_t i, const KernelDesc *kernel) {
    Frame *f = p->f;
    if (!kernel->in_place || instr->n_out == 0 || !f->state[instr->out[0]].known) return;
    uint32_t mask = kernel->in_place(instr->node);
    for (uint32_t k = 0; k < instr->n_in && k < 32; k++) {
        if (!(mask & 1u << k) || !may_replace(p, instr, i, k)) continue;
        SlotState *state = &f->state[instr->out[0]], *root = &f->state[f->state[instr->in[k]].root];
        root->root_last = state->root_last;
        root->gives_output |= state->gives_output;
        state->root = f->state[instr->in[k]].root;
        state->home = root->home;
        return;
    }
}

/* Of one of the model's constants, also of a graph around this one, or of a view of one. */
static void *constant_data(Frame *f, int32_t s) {
    int32_t root = slot_root(f, s);
    const Slot *slot = &f->program->slots.data[root];
    bool constant = slot->kind == SLOT_CONST || (slot->kind == SLOT_CAPTURE && value_payload(slot->value));
    return constant && !f->state[s].made && f->t[root].data ? (char *)f->t[root].data + f->state[s].at : NULL;
}

/* Kernels see the bytes of the model's constants, which never change, and of nothing else. */
static tn_status describe_query(Planning *p, const Instr *instr, const Facts *x, KernelQuery *q) {
    Frame *f = p->f;
    Tensor *in = arena_array(p->scratch, Tensor, instr->n_in + 1);
    const Tensor **ins = arena_array(p->scratch, const Tensor *, instr->n_in + 1);
    if (!in || !ins) return TN_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < instr->n_in; k++) {
        if (!x->in[k]) continue;
        in[k] = *x->in[k];
        in[k].data = constant_data(f, instr->in[k]);
        ins[k] = &in[k];
    }
    *q = (KernelQuery){.node = instr->node,
                       .n_in = (int)instr->n_in,
                       .n_out = (int)instr->n_out,
                       .in = ins,
                       .out = x->out,
                       .accurate = f->runner->accurate};
    return TN_OK;
}

int frame_usual_way(Frame *f, size_t i) {
    const Instr *instr = &f->program->instrs.data[i];
    const KernelDesc *kernel = f->steps[i].kernel;
    Tensor in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    const Tensor *ins[OP_MAX_INPUTS] = {NULL};
    int usual = 0;
    if (!kernel->offers || instr->n_in > OP_MAX_INPUTS || instr->n_out > OP_MAX_OUTPUTS) return 0;
    for (uint32_t k = 0; k < instr->n_in; k++) {
        if (instr->in[k] < 0) continue;
        in[k] = f->t[instr->in[k]];
        in[k].data = constant_data(f, instr->in[k]);
        ins[k] = &in[k];
    }
    for (uint32_t k = 0; k < instr->n_out; k++) out[k] = f->t[instr->out[k]];
    KernelQuery q = {.node = instr->node,
                     .n_in = (int)instr->n_in,
                     .n_out = (int)instr->n_out,
                     .in = ins,
                     .out = out,
                     .kernel = kernel,
                     .accurate = f->runner->accurate};
    return kernel->offers(&q, &usual) ? usual : 0;
}

/* Whether the strides are those of the same elements, in another order, without gaps. */
static bool is_reordered(const Tensor *t) {
    int64_t next = 1;
    bool seen[TN_MAX_RANK] = {false};
    for (int n = 0; n < t->rank; n++) {
        int k = 0;
        while (k < t->rank && (seen[k] || (t->dims[k] != 1 && t->strides[k] != next))) k++;
        if (k == t->rank) return tensor_count(t) == 0;
        seen[k] = true;
        next *= t->dims[k];
    }
    return true;
}

/* Outputs lie row-major in the caller's memory, whatever the kernel would like. */
static tn_status order_results(Planning *p, const Instr *instr, const KernelQuery *q, Facts *x) {
    Frame *f = p->f;
    for (uint32_t k = 0; q->kernel->order && k < instr->n_out; k++) {
        int32_t s = instr->out[k];
        Tensor t = f->t[s];
        if (!f->state[s].known || f->state[s].gives_output || dtype_size(t.dtype) == 0 || t.dtype == TN_STRING)
            continue;
        q->kernel->order(q, (int)k, &t);
        if (!is_reordered(&t)) return fail(TN_INTERNAL, "kernel \"%s\" wants an order with gaps", q->kernel->name);
        memcpy(f->t[s].strides, t.strides, sizeof t.strides);
        x->out[k] = f->t[s];
    }
    return TN_OK;
}

/* Bit k: operand k is a constant that `prepare` may read. */
static uint64_t constants_of(const KernelQuery *q) {
    uint64_t mask = 0;
    for (int k = 0; k < q->n_in && k < 64; k++)
        if (q->in[k] && q->in[k]->data) mask |= (uint64_t)1 << k;
    return mask;
}

/* A reading of part of a constant may be of another part for other sizes. */
static bool constants_stay(const Planning *p, int32_t i, const KernelQuery *q) {
    const Instr *instr = &p->f->program->instrs.data[i];
    for (int k = 0; k < q->n_in; k++)
        if (q->in[k] && q->in[k]->data && p->f->program->slots.data[instr->in[k]].kind == SLOT_RESULT) return false;
    return q->n_in < 64;
}

static bool serves(const Step *step, const KernelQuery *q) {
    const Held *held = step->kernel == q->kernel && q->kernel->keeps ? step->held : NULL;
    return held && held->way == q->way && held->constants == constants_of(q) && q->kernel->keeps(q, &held->prepared);
}

static tn_status prepare_new(Context *ctx, const KernelQuery *q, bool stay, Held **out) {
    Prepared prepared = {0};
    TRY(q->kernel->prepare(q, ctx, &prepared));
    TRY(hold(ctx, &prepared, q->way, out));
    (*out)->constants = stay ? constants_of(q) : HELD_ONCE;
    return TN_OK;
}

/* What a kernel prepared survives new sizes where it says so. */
static tn_status prepare_kernel(Planning *p, int32_t i, KernelQuery *q, Step *step) {
    Context *ctx = p->f->runner->ctx;
    const Step *like = p->f->like ? &p->f->like->steps[i] : NULL;
    Held *before = step->held;
    TRY(choose_way(p, i, q, step));
    bool stay = constants_stay(p, i, q);
    if (stay && serves(step, q)) return TN_OK;
    step->held = NULL;
    tn_status status = TN_OK;
    if (stay && like && serves(like, q)) {
        step->held = like->held;
        step->held->n_holders++;
    } else if (q->kernel->prepare && !p->f->runner->plan_only) {
        status = prepare_new(ctx, q, stay, &step->held);
    }
    step_let_go(before, &ctx->allocator); /* now, so that what both share stays */
    return status;
}

static void need_operands(Planning *p, const Instr *instr) {
    for (uint32_t k = 0; k < instr->n_in; k++)
        if (instr->in[k] >= 0 && !(k < 32 && instr->node->op->shape_inputs & 1u << k)) need_bytes(p->f, instr->in[k]);
    for (uint32_t k = 0; k < instr->n_captures; k++) need_bytes(p->f, instr->captures[k]);
}

/* Results behind what they begin with, where the kernel can write them there. */
static void grow_results(Planning *p, const Instr *instr, const KernelDesc *kernel) {
    for (uint32_t k = 0; kernel->grows && k < instr->n_out; k++) {
        int past = kernel->grows(instr->node, (int)k);
        if (past >= 0 && (uint32_t)past < instr->n_in && instr->in[past] >= 0)
            plan_grown(p, instr->in[past], instr->out[k]);
    }
}

static tn_status plan_kernel(Planning *p, const Instr *instr, int32_t i, Step *step, Facts *x) {
    KernelQuery q;
    const KernelDesc *kernel;
    need_operands(p, instr);
    TRY(describe_query(p, instr, x, &q));
    TRY(kernel_pick(&q, p->f->runner->targets, &kernel));
    q.kernel = kernel;
    TRY(order_results(p, instr, &q, x));
    grow_results(p, instr, kernel);
    TRY(prepare_kernel(p, i, &q, step));
    step->kernel = kernel;
    step->action = STEP_KERNEL;
    step->pack = 0;
    uint32_t strided = kernel->strided ? kernel->strided(instr->node) : 0;
    for (uint32_t k = 0; k < instr->n_in && k < 32; k++)
        if (x->in[k] && !(strided & 1u << k) && !tensor_is_dense(x->in[k])) step->pack |= 1u << k;
    try_in_place(p, instr, i, kernel);
    return TN_OK;
}

/* ---- one instruction ----------------------------------------------------------------------------------------- */

/* Whatever does not fit, it is told with what is there. */
static void note_operands(const Instr *instr, const Facts *x) {
    char text[400];
    size_t n = 0;
    for (uint32_t k = 0; k < instr->n_in && n + 200 < sizeof text; k++) {
        const InferValue *v = &x->known[k];
        if (!v->present || v->kind != TYPE_TENSOR || v->shape.rank < 0) continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s[", n ? ", " : "", dtype_name(v->dtype));
        for (int d = 0; d < v->shape.rank && n + 24 < sizeof text; d++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", d ? "," : "", (long long)v->shape.dims[d]);
        n += (size_t)snprintf(text + n, sizeof text - n, "]");
    }
    if (n) diag_note("its operands are %s", text);
}

static tn_status plan_instr(Planning *p, int32_t i) {
    const Instr *instr = &p->f->program->instrs.data[i];
    Step *step = &p->f->steps[i];
    Facts x;
    bool declined, from_run_time;
    if (reuse_step(p, i)) {
        need_operands(p, instr);
        grow_results(p, instr, step->kernel);
        try_in_place(p, instr, i, step->kernel);
        want_constants(p->f, instr, trials_replaced(step));
        return TN_OK;
    }
    TRY(make_facts(p, instr, &x));
    tn_status status = op_infer(instr->node, NULL, x.known, x.found, NULL);
    if (status == TN_SHAPE) note_operands(instr, &x);
    TRY(status);
    TRY(set_results(p, instr, &x));
    step->folded = is_foldable(p, instr, &from_run_time);
    if (step->folded) {
        step->action = STEP_NOTHING;
        return fold(p, instr, &x);
    }
    step->made = NULL;
    if (instr->node->op->regions) {
        TRY(plan_moves(p, i, &x, &declined));
        if (!declined) {
            want_constants(p->f, instr, 0);
            return TN_OK;
        }
    }
    TRY(plan_kernel(p, instr, i, step, &x));
    want_constants(p->f, instr, trials_replaced(step));
    return TN_OK;
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

static int32_t output_index(const Frame *f, int32_t s) {
    for (size_t i = 0; i < f->program->outputs.len; i++)
        if (f->program->outputs.data[i] == s) return (int32_t)i;
    return -1;
}

/* Results that are outputs go straight into the caller's memory, and what they replace in place with them. */
static void place_outputs(Planning *p) {
    Frame *f = p->f;
    for (int32_t i = p->seg->start; f->outermost && i < p->seg->end; i++) {
        const Instr *instr = &f->program->instrs.data[i];
        for (uint32_t k = 0; k < instr->n_out; k++) {
            int32_t s = instr->out[k];
            SlotState *root = &f->state[f->state[s].root];
            if (!f->program->slots.data[s].is_output || !f->state[s].known || root->home != HOME_NONE) continue;
            if (f->t[s].dtype == TN_STRING) continue; /* in memory of its own: see add_items */
            root->home = HOME_OUTPUT;
            root->offset = output_index(f, s);
        }
    }
}

static bool is_new_root(const Frame *f, int32_t s) {
    return f->state[s].known && f->state[s].root == s && f->state[s].home == HOME_NONE && !f->state[s].made;
}

enum { PAGE = 4096, SMALL = 16 * PAGE, APART = 9 * PLAN_ALIGN };

/* Two tensors of whole pages, one behind the other, would have their elements at the same places of pages. Processors take a
   load from the one for a load of what has just been stored to the other, and keep both in the same few lines of the cache. */
static int64_t bytes_in_plan(int64_t bytes) { return bytes >= SMALL && bytes % PAGE == 0 ? bytes + APART : bytes; }

static tn_status add_items(Planning *p, PlanItem *items, int32_t *slots, size_t *n) {
    Frame *f = p->f;
    int32_t start = p->seg->start;
    for (int32_t i = 0; i < p->seg->end; i++) {
        const Instr *instr = &f->program->instrs.data[i];
        for (uint32_t k = 0; k < instr->n_out; k++) {
            int32_t s = instr->out[k];
            SlotState *state = &f->state[s];
            bool earlier = i < start;
            if (earlier ? !(state->home == HOME_ARENA && state->root == s && state->root_last >= start)
                        : !is_new_root(f, s))
                continue;
            if (f->t[s].dtype == TN_STRING) { /* counted references: in memory of its own, made when it runs */
                state->home = HOME_OWNED;
                continue;
            }
            state->home = HOME_ARENA;
            slots[*n] = s;
            items[(*n)++] = (PlanItem){.size = bytes_in_plan(state->bytes),
                                       .fixed = earlier ? state->offset : -1,
                                       .first = earlier ? 0 : state->root_first - start,
                                       .last = state->root_last - start,
                                       .alias = -1};
        }
    }
    return TN_OK;
}

static tn_status place_memory(Planning *p) {
    Frame *f = p->f;
    place_outputs(p);
    avoid_pages(p);
    size_t n = 0, most = f->program->slots.len + 1;
    PlanItem *items = arena_array(p->scratch, PlanItem, most);
    int32_t *slots = arena_array(p->scratch, int32_t, most);
    int64_t *offsets = arena_array(p->scratch, int64_t, most);
    if (!items || !slots || !offsets) return TN_OUT_OF_MEMORY;
    TRY(add_items(p, items, slots, &n));
    PlanResult result;
    TRY(plan_offsets(p->scratch, items, n, offsets, &result));
    for (size_t i = 0; i < n; i++) f->state[slots[i]].offset = offsets[i];
    f->arena_size = max_i64(f->arena_size, result.size);
    for (int32_t i = p->seg->start; i < p->seg->end; i++) {
        const Instr *instr = &f->program->instrs.data[i];
        for (uint32_t k = 0; k < instr->n_out; k++) {
            SlotState *state = &f->state[instr->out[k]];
            if (state->known) state->home = f->state[state->root].home;
        }
    }
    return TN_OK;
}

/* ---- a segment ----------------------------------------------------------------------------------------------- */

/* Later segments read bytes. Roots are final. */
static void settle(Planning *p) {
    Frame *f = p->f;
    for (int32_t i = p->seg->start; i < p->seg->end; i++) {
        const Instr *instr = &f->program->instrs.data[i];
        for (uint32_t k = 0; k < instr->n_out; k++) {
            int32_t s = instr->out[k];
            if (f->program->slots.data[s].last_use >= p->seg->end) need_bytes(f, s);
            slot_root(f, s);
        }
    }
}

static tn_status plan_all(Planning *p) {
    Frame *f = p->f;
    int32_t n = (int32_t)f->program->instrs.len, i = p->seg->start;
    for (; i < n && instr_ready(p, &f->program->instrs.data[i]); i++) {
        ArenaMark mark = arena_mark(p->scratch);
        tn_status status = plan_instr(p, i);
        arena_release(p->scratch, mark);
        if (status == TN_OK) continue;
        const Node *node = f->program->instrs.data[i].node;
        diag_set_node(node->loc.n ? node->loc.s : "", node->op->name);
        if (node->graph->model->file.n) diag_set_file(node->graph->model->file.s);
        return status;
    }
    if (i == p->seg->start && i < n && p->index > 0) return fail(TN_INTERNAL, "instruction %d waits for itself", i);
    p->seg->end = i;
    settle(p);
    return TN_OK;
}

static void forget(Frame *f, int32_t start) {
    for (size_t i = 0; i < f->segments.len; i++)
        if (f->segments.data[i].start >= start) f->segments.data[i].planned = false;
    for (size_t i = (size_t)start; i < f->program->instrs.len; i++) {
        const Instr *instr = &f->program->instrs.data[i];
        for (uint32_t k = 0; k < instr->n_out; k++) {
            frame_disown(f, instr->out[k]);
            f->state[instr->out[k]] = (SlotState){0};
        }
    }
}

tn_status segment_choose(Frame *f, size_t k) {
    const Allocator *a = &f->runner->ctx->allocator;
    if (f->segments.len == k) {
        TRY(vec_push(a, &f->segments, (Segment){0}));
        arena_init(&f->segments.data[k].arena, a);
    }
    Segment *seg = &f->segments.data[k];
    seg->planned = false;
    seg->start = k > 0 ? f->segments.data[k - 1].end : 0;
    forget(f, seg->start);
    arena_reset(&seg->arena);
    Planning p = {.f = f, .seg = seg, .index = k, .scratch = &f->runner->scratch};
    ArenaMark mark = arena_mark(p.scratch);
    tn_status status = plan_all(&p);
    arena_release(p.scratch, mark);
    seg->assumptions = p.assumptions.data;
    seg->n_assumptions = p.assumptions.len;
    return status;
}

tn_status segment_place(Frame *f, size_t k) {
    Segment *seg = &f->segments.data[k];
    Planning p = {.f = f, .seg = seg, .index = k, .scratch = &f->runner->scratch};
    ArenaMark mark = arena_mark(p.scratch);
    tn_status status = place_memory(&p);
    arena_release(p.scratch, mark);
    seg->planned = status == TN_OK;
    return status;
}

tn_status segment_plan(Frame *f, size_t k) {
    TRY(segment_choose(f, k));
    return segment_place(f, k);
}
