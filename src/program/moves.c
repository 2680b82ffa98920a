/* SPDX-License-Identifier: Apache-2.0 */
/* Results that only move data. Where a strided reading of one value does, the result is that view. Where the values it is
   made of can be written into its memory in the first place, they are. Where all readers only move data too, it stays
   virtual: they read what it is made of. What is left is moved by a raster. */
#include "program/program_int.h"

/* ---- roots --------------------------------------------------------------------------------------------------- */

/* A root that was joined to another's memory is one no more; whoever lay in it lies in that one now. */
int32_t slot_root(Frame *f, int32_t s) {
    int32_t root = f->state[s].root;
    int64_t at = f->state[s].at;
    if (root == s || f->state[root].root == root) return root;
    while (f->state[root].root != root) {
        at += f->state[root].at;
        root = f->state[root].root;
    }
    for (int32_t each = s; f->state[each].root != root;) { /* shortens the way for the next */
        SlotState *state = &f->state[each];
        int32_t next = state->root;
        int64_t step = state->at;
        state->root = root;
        state->at = at;
        at -= step;
        each = next;
    }
    return root;
}

static SlotState *root_state(Frame *f, int32_t s) { return &f->state[slot_root(f, s)]; }

static void keep_until(Frame *f, int32_t s, int32_t instr) {
    SlotState *root = root_state(f, s);
    root->root_last = (int32_t)max_i64(root->root_last, instr);
}

static bool is_given(const Made *m, size_t i) { return m->list.data[i].source != REGION_FILL; }
static int32_t source_of(const Made *m, size_t i) { return m->sources[m->list.data[i].source]; }

void need_bytes(Frame *f, int32_t s) {
    if (!f->state[s].made) return;
    f->state[s].made->runs = true;
    f->state[s].made = NULL;
    f->steps[f->program->slots.data[s].def].action = STEP_RASTER;
}

/* ---- virtual operands ---------------------------------------------------------------------------------------- */

/* What source k is made of, when it is virtual; else NULL. */
static Made *part_at(const Frame *f, const Made *m, int32_t k) {
    return m->sources[k] >= 0 ? f->state[m->sources[k]].made : NULL;
}

/* Many small boxes cost more than they save. */
static size_t most_regions(int64_t count) { return (size_t)min_i64(max_i64(count / 64, 8), 256); }

static bool same_fill(const void *a, const void *b, tn_dtype dtype) {
    static const uint8_t zero[16];
    size_t n = dtype_size(dtype) ? (size_t)dtype_size(dtype) : 1;
    return memcmp(a ? a : zero, b ? b : zero, n) == 0;
}

/* The composed list has one fill value: the reader's, or else that of the first operand that has one. */
static int32_t fill_for(const Made *part, tn_dtype dtype, bool *taken, const void **fill) {
    if (part->list.covers) return REGION_FILL;
    if (!*taken) *fill = part->fill;
    *taken = true;
    return same_fill(*fill, part->fill, dtype) ? REGION_FILL : COMPOSE_NO_FILL;
}

static tn_status describe(Planning *p, const Made *m, tn_dtype dtype, ComposeSource *sources, Made *composed) {
    Frame *f = p->f;
    bool taken = !m->list.covers;
    int32_t n = 0, *slots;
    for (int32_t k = 0; k < m->n_sources; k++) {
        const Made *part = part_at(f, m, k);
        n += part ? part->n_sources : 1;
    }
    composed->sources = slots = arena_array(&p->seg->arena, int32_t, (size_t)n + 1);
    int32_t *map = arena_array(p->scratch, int32_t, (size_t)n + 1);
    if (!slots || !map) return TN_OUT_OF_MEMORY;
    for (int32_t i = 0; i < n; i++) map[i] = i;
    composed->fill = m->fill;
    for (int32_t k = 0; k < m->n_sources; k++) {
        const Made *part = part_at(f, m, k);
        sources[k] = (ComposeSource){.map = map + composed->n_sources};
        if (!part) {
            slots[composed->n_sources++] = m->sources[k];
            continue;
        }
        sources[k].made_of = &part->list;
        sources[k].count = tensor_count(&f->t[m->sources[k]]);
        sources[k].fill = fill_for(part, dtype, &taken, &composed->fill);
        memcpy(slots + composed->n_sources, part->sources, (size_t)part->n_sources * sizeof *slots);
        composed->n_sources += part->n_sources;
    }
    return TN_OK;
}

/* Reads what virtual operands are made of; where that cannot be put into boxes, those are made. */
static tn_status see_through(Planning *p, int32_t out, Made *m) {
    Frame *f = p->f;
    bool any = false, declined;
    for (int32_t k = 0; k < m->n_sources; k++) any |= part_at(f, m, k) != NULL;
    if (!any) return TN_OK;
    Made composed = {.list = {.arena = &p->seg->arena}};
    ComposeSource *sources = arena_array(p->scratch, ComposeSource, (size_t)m->n_sources + 1);
    if (!sources) return TN_OUT_OF_MEMORY;
    TRY(describe(p, m, f->t[out].dtype, sources, &composed));
    TRY(regions_compose(&m->list, sources, (size_t)m->n_sources, most_regions(tensor_count(&f->t[out])), &composed.list,
                        &declined));
    if (!declined) *m = composed;
    for (int32_t k = 0; declined && k < m->n_sources; k++)
        if (m->sources[k] >= 0) need_bytes(f, m->sources[k]);
    return TN_OK;
}

/* ---- views --------------------------------------------------------------------------------------------------- */

/* A view keeps all of its source alive: a small part of a large value that nobody else needs is copied instead. */
static bool is_worth_keeping(Frame *f, int32_t source, int32_t out) {
    const SlotState *root = root_state(f, source);
    if (root->home != HOME_ARENA && root->home != HOME_NONE) return true;
    return f->program->slots.data[out].last_use <= root->root_last || f->state[out].bytes * 4 > root->bytes;
}

static bool try_view(Planning *p, int32_t out, Made *m) {
    Frame *f = p->f;
    Tensor *t = &f->t[out];
    SlotState *state = &f->state[out];
    int64_t offset, strides[TN_MAX_RANK] = {0};
    int32_t k;
    if (!m->list.covers || state->gives_output) return false; /* outputs go into the caller's memory */
    if (!regions_as_view(&m->list, t->rank, t->dims, strides, &offset, &k)) return false;
    int32_t source = m->sources[k];
    if (f->t[source].dtype != t->dtype || !is_worth_keeping(f, source, out)) return false;
    memcpy(t->strides, strides, sizeof strides);
    t->offset = f->t[source].offset + offset;
    state->root = slot_root(f, source);
    state->at = f->state[source].at; /* a root's own is 0 */
    state->home = f->state[state->root].home;
    keep_until(f, source, f->program->slots.data[out].last_use);
    m->list = (RegionList){0};
    return true;
}

/* ---- in the place of its parts ------------------------------------------------------------------------------- */

/* A region that is one run: of a root's memory, to the result's, that much further on. */
typedef struct Part {
    int32_t root; /* -1: it cannot lie in the result's memory */
    int64_t shift, bytes;
    bool joins;
} Part;

enum { MOST_PARTS = 256, NEAR = 24 /* instructions */ };

/* Whether others after instruction i that compute with the value would keep the room of the whole result. */
static bool read_later(const Frame *f, int32_t s, int32_t i) {
    const Slot *slot = &f->program->slots.data[s];
    if (slot->last_use <= i) return false;
    const Node *here = f->program->instrs.data[i].node;
    for (const Use *use = slot->value->uses; use; use = use->next)
        if (!use->user->op->regions && (use->user->graph != here->graph || node_comes_before(here, use->user)))
            return true;
    return false;
}

static bool is_free(Frame *f, int32_t root, int32_t out, int32_t i) {
    const SlotState *r = &f->state[root];
    if (f->program->slots.data[root].kind != SLOT_RESULT || root == out) return false;
    if (r->home != HOME_NONE || r->gives_output || r->made || r->told) return false;
    return i - r->root_first <= NEAR || r->bytes * 4 >= f->state[out].bytes * 3; /* a part of old keeps room for all */
}

static Part part_of(Frame *f, int32_t out, const Made *m, size_t k, int32_t i) {
    Part none = {.root = -1};
    if (!is_given(m, k)) return none;
    Region r = m->list.data[k];
    int32_t s = source_of(m, k), root = slot_root(f, s);
    const Tensor *t = &f->t[s];
    int64_t size = dtype_size(t->dtype);
    bool longer = f->state[root].root_last > f->state[out].root_last && f->state[root].bytes < f->state[out].bytes;
    if (t->dtype != f->t[out].dtype || !is_free(f, root, out, i) || (longer && read_later(f, s, i))) return none;
    region_coalesce(&r);
    if (r.rank > 1 || (r.rank == 1 && (r.src_stride[0] != 1 || r.dst_stride[0] != 1))) return none;
    int64_t from = f->state[s].at + (t->offset + r.src_offset) * size;
    return (Part){.root = root, .shift = r.dst_offset * size - from, .bytes = region_count(&r) * size};
}

/* A root joins when all of its memory moves by as much. */
static bool find_parts(Frame *f, int32_t out, const Made *m, int32_t i, Part *parts) {
    bool all = true;
    for (size_t k = 0; k < m->list.len; k++) parts[k] = part_of(f, out, m, k, i);
    for (size_t k = 0; k < m->list.len; k++) {
        int64_t bytes = 0;
        for (size_t j = 0; j < m->list.len; j++)
            if (parts[j].root == parts[k].root && parts[j].shift == parts[k].shift) bytes += parts[j].bytes;
        parts[k].joins = parts[k].root >= 0 && bytes == f->state[parts[k].root].bytes;
        all &= parts[k].joins;
    }
    return all;
}

static void join(Frame *f, int32_t out, const Part *part) {
    SlotState *from = &f->state[part->root], *whole = &f->state[out];
    from->root = out;
    from->at = part->shift;
    whole->root_first = (int32_t)min_i64(whole->root_first, from->root_first);
    whole->root_last = (int32_t)max_i64(whole->root_last, from->root_last);
}

static void join_parts(Frame *f, int32_t out, Made *m, const Part *parts) {
    size_t left = 0;
    for (size_t k = 0; k < m->list.len; k++) {
        const SlotState *root = parts[k].joins ? &f->state[parts[k].root] : NULL;
        if (root && root->root == parts[k].root) join(f, out, &parts[k]);
        else if (!root || root->root != out || root->at != parts[k].shift) m->list.data[left++] = m->list.data[k];
    }
    m->list.len = left;
}

/* ---- virtual results ----------------------------------------------------------------------------------------- */

/* The elements that a reader makes of it, as far as the graph tells; -1. */
static int64_t elements_of(const Node *node) {
    int64_t sum = 0, count;
    for (uint32_t k = 0; k < node->n_results; k++) {
        const Type *type = node->results[k]->type;
        if (type->kind != TYPE_TENSOR || !shape_is_known(&type->shape)) return -1;
        if (checked_count(type->shape.rank, type->shape.dims, &count) != TN_OK) return -1;
        sum += count;
    }
    return sum;
}

/* All who read it only move data, and do not move it more often than once on the whole. */
static bool only_moves_on(const Slot *slot, int64_t count) {
    const Node *first = NULL;
    int64_t sum = 0;
    for (const Use *use = slot->value->uses; use; use = use->next) {
        const Node *user = use->user;
        size_t k = (size_t)(use - user->operands);
        if (user->op == &op_return) continue; /* a wanted output does not come here; others are not made */
        if (k < 32 && user->op->shape_inputs & 1u << k) continue;
        if (user->graph != slot->value->graph || !user->op->regions || k >= 32 || user->op->content_inputs & 1u << k)
            return false;
        if (user == first) continue;
        int64_t n = first || use->next ? elements_of(user) : count;
        if (n < 0 || (sum += n) > count) return false;
        first = user;
    }
    return first != NULL;
}

static bool may_stay_virtual(Frame *f, int32_t out, const Made *m) {
    const Slot *slot = &f->program->slots.data[out];
    if (slot->is_output || !only_moves_on(slot, tensor_count(&f->t[out]))) return false;
    for (size_t i = 0; i < m->list.len; i++)
        if (is_given(m, i) && !is_worth_keeping(f, source_of(m, i), out)) return false;
    return true;
}

static void stay_virtual(Frame *f, int32_t out, Made *m) {
    for (size_t i = 0; i < m->list.len; i++)
        if (is_given(m, i)) keep_until(f, source_of(m, i), f->program->slots.data[out].last_use);
    f->state[out].made = m;
}

/* ---- by a raster --------------------------------------------------------------------------------------------- */

static tn_status make(Planning *p, int32_t i, int32_t out, Made *m) {
    RegionList whole = {.arena = &p->seg->arena};
    bool declined = true;
    int64_t count = tensor_count(&p->f->t[out]);
    if (!m->list.covers && p->f->t[out].dtype != TN_STRING)
        TRY(regions_resolve(&m->list, count, most_regions(count), &whole, &declined));
    if (!declined) m->list = whole;
    for (size_t k = 0; k < m->list.len; k++)
        if (is_given(m, k)) keep_until(p->f, source_of(m, k), i);
    p->f->steps[i].action = STEP_RASTER;
    m->runs = true;
    return TN_OK;
}

/* ---- the order of results ------------------------------------------------------------------------------------ */

/* The largest operand of the result's rank says in which order that should lie: dimensions by their strides, the widest
   first. False: row-major. */
static bool find_order(const Frame *f, const Tensor *t, const Made *m, int *order) {
    const Tensor *like = NULL;
    for (size_t k = 0; k < m->list.len; k++) {
        const Tensor *each = is_given(m, k) ? &f->t[source_of(m, k)] : NULL;
        if (each && each->rank == t->rank && (!like || tensor_count(each) > tensor_count(like))) like = each;
    }
    bool moved = false;
    for (int n = 0; like && n < t->rank; n++) {
        int at = n;
        for (; at > 0 && like->dims[n] != 1 && like->strides[order[at - 1]] < like->strides[n]; at--)
            order[at] = order[at - 1];
        order[at] = n;
        moved |= at != n;
    }
    return moved;
}

/* The same list for memory in another order, and the result's strides there. */
static tn_status reorder(Planning *p, Tensor *t, const int *order, Made *m, bool *done) {
    int64_t dims[TN_MAX_RANK] = {0}, row_major[TN_MAX_RANK] = {0}, strides[TN_MAX_RANK] = {0}, count = tensor_count(t);
    bool declined;
    RegionList composed = {.arena = &p->seg->arena}, reader = {.arena = p->scratch, .covers = true};
    for (int64_t k = t->rank - 1, stride = 1; k >= 0; stride *= t->dims[k--]) row_major[k] = stride;
    for (int k = 0; k < t->rank; k++) dims[k] = t->dims[order[k]];
    Region r = region_dense(0, t->rank, dims);
    for (int k = 0; k < t->rank; k++) {
        strides[order[k]] = r.dst_stride[k];
        r.src_stride[k] = row_major[order[k]];
    }
    int32_t *same = arena_array(p->scratch, int32_t, (size_t)m->n_sources + 1);
    if (!same) return TN_OUT_OF_MEMORY;
    for (int32_t k = 0; k < m->n_sources; k++) same[k] = k;
    ComposeSource whole = {.made_of = &m->list, .count = count, .map = same, .fill = REGION_FILL};
    TRY(region_push(&reader, &r));
    TRY(regions_compose(&reader, &whole, 1, most_regions(count), &composed, &declined));
    *done = !declined;
    if (declined) return TN_OK;
    composed.covers = m->list.covers;
    m->list = composed;
    memcpy(t->strides, strides, sizeof strides);
    return TN_OK;
}

static tn_status place_result(Planning *p, int32_t i, int32_t out, Made *m) {
    Frame *f = p->f;
    bool text = f->t[out].dtype == TN_STRING;
    int order[TN_MAX_RANK] = {0};
    if (!text) TRY(see_through(p, out, m));
    int made = f->runner->made_moves;
    if (!text && plan_append(p, out, m)) return m->list.len == 0 ? TN_OK : make(p, i, out, m);
    if (made < 2 && try_view(p, out, m)) return TN_OK;
    bool joinable = !text && dtype_size(f->t[out].dtype) > 0 && m->list.covers && f->state[out].bytes > 0 &&
                    m->list.len > 0 && m->list.len <= MOST_PARTS;
    bool reordered = joinable && !f->state[out].gives_output && find_order(f, &f->t[out], m, order);
    Tensor row_major = f->t[out];
    Made plain = *m;
    if (reordered) TRY(reorder(p, &f->t[out], order, m, &reordered));
    if (made) return make(p, i, out, m);
    joinable &= m->list.len <= MOST_PARTS;
    Part *parts = arena_array(p->scratch, Part, joinable ? m->list.len : 1);
    if (!parts) return TN_OUT_OF_MEMORY;
    bool all = joinable && find_parts(f, out, m, i, parts);
    if (!all && !text && may_stay_virtual(f, out, &plain)) {
        f->t[out] = row_major;
        *m = plain;
        stay_virtual(f, out, m);
        return TN_OK;
    }
    if (joinable) join_parts(f, out, m, parts);
    if (joinable && reordered) join_rows(p, out, m, i, is_free);
    return joinable && m->list.len == 0 ? TN_OK : make(p, i, out, m);
}

/* ---- an instruction ------------------------------------------------------------------------------------------ */

/* Operands as the op's regions take them: contents only where they are known, virtual ones as if they were dense. */
static tn_status describe_operands(Planning *p, const Instr *instr, const Facts *x, const Tensor ***out) {
    Tensor *in = arena_array(p->scratch, Tensor, instr->n_in + 1);
    const Tensor **ins = arena_array(p->scratch, const Tensor *, instr->n_in + 1);
    if (!in || !ins) return TN_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < instr->n_in; k++) {
        if (!x->in[k]) continue;
        in[k] = *x->in[k];
        if (!x->known[k].value) in[k].data = NULL;
        ins[k] = &in[k];
    }
    *out = ins;
    return TN_OK;
}

tn_status plan_moves(Planning *p, int32_t i, const Facts *x, bool *declined) {
    Frame *f = p->f;
    const Instr *instr = &f->program->instrs.data[i];
    Step *step = &f->steps[i];
    const Tensor **ins;
    const void **fill = arena_array(&p->seg->arena, const void *, OP_MAX_OUTPUTS);
    RegionList *lists = arena_array(p->scratch, RegionList, instr->n_out + 1);
    Made *made = arena_array(&p->seg->arena, Made, instr->n_out + 1);
    *declined = true;
    for (uint32_t k = 0; k < instr->n_out; k++)
        if (!f->state[instr->out[k]].known) return TN_OK;
    if (!fill || !lists || !made) return TN_OUT_OF_MEMORY;
    TRY(describe_operands(p, instr, x, &ins));
    for (uint32_t k = 0; k < instr->n_out; k++) lists[k].arena = &p->seg->arena;
    TRY(op_regions(instr->node, ins, (int)instr->n_in, x->out, (int)instr->n_out, lists, fill, declined));
    if (*declined) return TN_OK;
    step->made = made;
    step->action = STEP_NOTHING;
    for (uint32_t k = 0; k < instr->n_out; k++) {
        made[k] = (Made){.list = lists[k],
                         .sources = instr->in,
                         .n_sources = (int32_t)instr->n_in,
                         .fill = k < OP_MAX_OUTPUTS ? fill[k] : NULL};
        TRY(place_result(p, i, instr->out[k], &made[k]));
    }
    return TN_OK;
}
