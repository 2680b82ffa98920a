/* SPDX-License-Identifier: Apache-2.0 */
/* tn.Loop: a counted loop that moves one box of elements in each turn, to and from places that index operands may name. What
   gathers and scatters are made of where their indices are not known: one kernel, whatever the number of turns.

       y = data, or zeros
       for each turn t of the box `trips`, in row-major order:
           y[to(t) + i * to_strides] = reduction(that, source[from(t) + i * from_strides])    for all i of the box `size`
       from(t) = from_offset + t * from_steps + source_index[t] * from_scales

   An index operand has a tuple for each turn. Its numbers count from the end where they are negative; from_bounds says how
   many there are in each place of the tuple. A source that is absent is y itself, as the turns before have left it.

   What follows from the operands' sizes may be -1: the first of trips, from the number of indices; the first of bounds, from
   the number of elements; and with the first of trips that of `shape`. */
#include "ops/scatter_int.h"

enum { LOOP_DATA, LOOP_SOURCE, LOOP_SOURCE_INDEX, LOOP_RESULT_INDEX };

/* One side of the copies. */
typedef struct LoopSide {
    int64_t offset;
    IntList strides, steps, bounds, scales;
    const int64_t *index;
    int64_t first_bound;     /* of bounds */
    int64_t lowest, highest; /* of the box, from where it begins */
    int64_t count;           /* elements that are there; -1: not known */
} LoopSide;

typedef struct CopyLoop {
    IntList trips, size;
    int64_t first, n_turns; /* the first of trips; -1: not known */
    LoopSide from, to;
} CopyLoop;

/* ---- attributes ---------------------------------------------------------------------------------------------- */

static tn_status wrong_length(const char *what, size_t n, size_t want) {
    return fail(TN_INVALID_MODEL, "%s has %zu numbers where %zu are wanted", what, n, want);
}

static tn_status check_sizes(const char *what, IntList list, int64_t least) {
    if (list.n > TN_MAX_RANK) return fail(TN_LIMIT, "%s has %zu dimensions, more than %d", what, list.n, TN_MAX_RANK);
    for (size_t k = 0; k < list.n; k++)
        if (list.data[k] < least) return fail(TN_SHAPE, "%s[%zu] is %lld", what, k, (long long)list.data[k]);
    return TN_OK;
}

/* How far the box reaches on either side of where it begins. */
static tn_status find_extent(const CopyLoop *l, LoopSide *side) {
    for (size_t k = 0; k < l->size.n; k++) {
        int64_t reach;
        if (l->size.data[k] == 0) continue;
        if (mul_overflows(l->size.data[k] - 1, side->strides.data[k], &reach) ||
            add_overflows(reach < 0 ? side->lowest : side->highest, reach, reach < 0 ? &side->lowest : &side->highest))
            return fail(TN_LIMIT, "a box of the loop reaches further than 64 bits tell");
    }
    return TN_OK;
}

static tn_status read_side(const Node *node, const char *which, const CopyLoop *l, LoopSide *side) {
    bool from = which[0] == 'f';
    *side = (LoopSide){.offset = attr_int(node, from ? "from_offset" : "to_offset"),
                       .strides = attr_ints(node, from ? "from_strides" : "to_strides"),
                       .steps = attr_ints(node, from ? "from_steps" : "to_steps"),
                       .bounds = attr_ints(node, from ? "from_bounds" : "to_bounds"),
                       .scales = attr_ints(node, from ? "from_scales" : "to_scales"),
                       .count = -1};
    if (side->strides.n != l->size.n)
        return wrong_length(from ? "from_strides" : "to_strides", side->strides.n, l->size.n);
    if (side->steps.n != l->trips.n) return wrong_length(from ? "from_steps" : "to_steps", side->steps.n, l->trips.n);
    if (side->scales.n != side->bounds.n)
        return wrong_length(from ? "from_scales" : "to_scales", side->scales.n, side->bounds.n);
    return find_extent(l, side);
}

static tn_status read_loop(const Node *node, CopyLoop *l) {
    *l = (CopyLoop){.trips = attr_ints(node, "trips"), .size = attr_ints(node, "size")};
    TRY(check_sizes("trips", l->trips, l->trips.n && l->trips.data[0] == -1 ? -1 : 0));
    TRY(check_sizes("size", l->size, 0));
    TRY(read_side(node, "from", l, &l->from));
    return read_side(node, "to", l, &l->to);
}

/* The first of trips from the number of indices, where they say it; -1: not known. */
static tn_status count_turns(CopyLoop *l, int64_t n_from, int64_t n_to) {
    int64_t rest = 1, from = (int64_t)l->from.bounds.n, to = (int64_t)l->to.bounds.n;
    if (l->trips.n > 1) TRY(checked_count((int)l->trips.n - 1, l->trips.data + 1, &rest));
    l->first = l->trips.n ? l->trips.data[0] : 1;
    for (size_t k = 1; k < l->trips.n; k++)
        if (l->trips.data[k] < 0) return fail(TN_SHAPE, "trips[%zu] is %lld", k, (long long)l->trips.data[k]);
    if (l->first < 0 && from && n_from >= 0) l->first = rest ? n_from / from / rest : 0;
    else if (l->first < 0 && to && n_to >= 0) l->first = rest ? n_to / to / rest : 0;
    if (l->first < 0 && !from && !to) return fail(TN_SHAPE, "trips[0] is -1, but there are no indices to count");
    l->n_turns = -1;
    if (l->first >= 0 && mul_overflows(l->first, rest, &l->n_turns)) return fail(TN_LIMIT, "too many turns");
    return TN_OK;
}

/* ---- shapes -------------------------------------------------------------------------------------------------- */

static tn_status check_index(const InferCtx *c, int i, const CopyLoop *l, const LoopSide *side, const char *what) {
    int64_t count;
    if (has_input(c, i) != (side->bounds.n > 0))
        return fail(TN_INVALID_MODEL, "%s goes with an index operand, and that with it", what);
    if (!has_input(c, i) || !shape_is_known(in_shape(c, i))) return TN_OK;
    TRY(checked_count(in_shape(c, i)->rank, in_shape(c, i)->dims, &count));
    if (l->n_turns < 0) return TN_OK;
    if (count % (int64_t)side->bounds.n != 0 || count / (int64_t)side->bounds.n != l->n_turns)
        return fail(TN_SHAPE, "%lld indices, for %lld turns of %zu each", (long long)count, (long long)l->n_turns,
                    side->bounds.n);
    return TN_OK;
}

static int64_t count_of(const InferCtx *c, int i) {
    int64_t count = -1;
    if (has_input(c, i) && shape_is_known(in_shape(c, i)) &&
        checked_count(in_shape(c, i)->rank, in_shape(c, i)->dims, &count) != TN_OK)
        diag_clear();
    return count;
}

static tn_status infer(InferCtx *c) {
    CopyLoop l;
    Reduction reduction;
    IntList dims = attr_ints(c->node, "shape");
    if (!has_input(c, LOOP_DATA) && !has_input(c, LOOP_SOURCE))
        return fail(TN_INVALID_MODEL, "neither data nor a source");
    TRY(read_loop(c->node, &l));
    TRY(count_turns(&l, count_of(c, LOOP_SOURCE_INDEX), count_of(c, LOOP_RESULT_INDEX)));
    TRY(scatter_reduction(c->node, in_dtype(c, has_input(c, LOOP_DATA) ? LOOP_DATA : LOOP_SOURCE), &reduction));
    TRY(check_index(c, LOOP_SOURCE_INDEX, &l, &l.from, "from_bounds"));
    TRY(check_index(c, LOOP_RESULT_INDEX, &l, &l.to, "to_bounds"));
    if (has_input(c, LOOP_DATA)) {
        if (dims.n) return fail(TN_INVALID_MODEL, "the result has the shape of data: none is to be given");
        set_shape(c, 0, in_shape(c, LOOP_DATA));
        return TN_OK;
    }
    bool counted = dims.n && dims.data[0] == -1 && l.trips.n && l.trips.data[0] == -1;
    TRY(check_sizes("shape", dims, counted ? -1 : 0));
    Shape y = shape_make((int)dims.n, dims.data);
    for (size_t k = counted; k < dims.n; k++)
        if (dims.data[k] < 0) return fail(TN_SHAPE, "shape[%zu] is %lld", k, (long long)dims.data[k]);
    if (counted) y.dims[0] = l.first < 0 ? DIM_UNKNOWN : l.first;
    set_shape(c, 0, &y);
    return TN_OK;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

static bool move_by(int64_t n, int64_t step, int64_t *at) {
    int64_t distance;
    return !mul_overflows(n, step, &distance) && !add_overflows(*at, distance, at);
}

/* Where the box of a turn begins; all of it must be there. */
static tn_status place_box(const LoopSide *side, const int64_t *turn, int64_t number, int64_t *at) {
    size_t tuple = side->bounds.n;
    *at = side->offset;
    for (size_t k = 0; k < side->steps.n; k++)
        if (!move_by(turn[k], side->steps.data[k], at))
            return fail(TN_OUT_OF_RANGE, "turn %lld is far out", (long long)number);
    for (size_t k = 0; k < tuple; k++) {
        int64_t index, bound = k ? side->bounds.data[k] : side->first_bound;
        TRY(normal_index(side->index[number * (int64_t)tuple + (int64_t)k], bound, (int)k, &index));
        if (!move_by(index, side->scales.data[k], at))
            return fail(TN_OUT_OF_RANGE, "turn %lld is far out", (long long)number);
    }
    if (*at < 0 || *at + side->lowest < 0 || side->highest >= side->count || *at > side->count - 1 - side->highest)
        return fail(TN_OUT_OF_RANGE, "turn %lld reaches beyond the %lld elements there are", (long long)number,
                    (long long)side->count);
    return TN_OK;
}

typedef struct BoxCopy {
    tn_dtype dtype;
    Reduction reduction;
    const void *src;
    void *dst;
    int64_t dst_offset;
} BoxCopy;

static void copy_box(const BoxCopy *b, const CopyLoop *l, int64_t from, int64_t to) {
    int rank = (int)l->size.n, inner = rank - 1;
    bool runs = rank > 0 && l->from.strides.data[inner] == 1 && l->to.strides.data[inner] == 1;
    int64_t at[TN_MAX_RANK] = {0}, run = runs ? l->size.data[inner] : 1;
    int outer = runs ? inner : rank, d;
    for (;;) {
        scatter_combine(b->reduction, b->dtype, b->dst, b->dst_offset + to, b->src, from, run);
        for (d = outer - 1; d >= 0; d--) {
            from += l->from.strides.data[d];
            to += l->to.strides.data[d];
            if (++at[d] < l->size.data[d]) break;
            from -= l->from.strides.data[d] * at[d];
            to -= l->to.strides.data[d] * at[d];
            at[d] = 0;
        }
        if (d < 0) return;
    }
}

static tn_status begin_result(KernelCtx *c) {
    const Tensor *y = &c->out[0];
    if (!kernel_has_input(c, LOOP_DATA)) return output_zero(c, 0);
    return copy_dense(c->in[LOOP_DATA], y->data, y->offset, c->pool);
}

static bool box_is_empty(const CopyLoop *l) {
    for (size_t k = 0; k < l->size.n; k++)
        if (l->size.data[k] == 0) return true;
    return l->n_turns == 0;
}

static void bound_first(LoopSide *side) {
    if (side->bounds.n == 0) return;
    side->first_bound = side->bounds.data[0];
    if (side->first_bound == -1 && side->scales.data[0] > 0) side->first_bound = side->count / side->scales.data[0];
}

static int64_t n_indices(const KernelCtx *c, int i) { return kernel_has_input(c, i) ? tensor_count(c->in[i]) : -1; }

static tn_status reference(KernelCtx *c) {
    const Tensor *y = &c->out[0];
    CopyLoop l;
    BoxCopy box = {.dtype = y->dtype, .dst = y->data, .dst_offset = y->offset};
    int64_t turn[TN_MAX_RANK] = {0}, from, to;
    TRY(read_loop(c->node, &l));
    TRY(scatter_reduction(c->node, y->dtype, &box.reduction));
    TRY(count_turns(&l, n_indices(c, LOOP_SOURCE_INDEX), n_indices(c, LOOP_RESULT_INDEX)));
    TRY(begin_result(c));
    if (box_is_empty(&l)) return TN_OK;
    if ((uint64_t)l.n_turns > c->context->limits.max_loop_trips)
        return fail(TN_LIMIT, "%lld turns, more than the limit", (long long)l.n_turns);
    bool itself = !kernel_has_input(c, LOOP_SOURCE);
    l.to.count = tensor_count(y);
    l.from.count = itself ? l.to.count : tensor_count(c->in[LOOP_SOURCE]);
    bound_first(&l.from);
    bound_first(&l.to);
    if (itself) box.src = y->data;
    else TRY(dense_bytes(c, LOOP_SOURCE, &box.src));
    if (l.from.bounds.n) TRY(dense_i64(c, LOOP_SOURCE_INDEX, &l.from.index));
    if (l.to.bounds.n) TRY(dense_i64(c, LOOP_RESULT_INDEX, &l.to.index));
    for (int64_t n = 0; n < l.n_turns; n++) {
        TRY(place_box(&l.from, turn, n, &from));
        TRY(place_box(&l.to, turn, n, &to));
        copy_box(&box, &l, from + (itself ? y->offset : 0), to);
        for (int d = (int)l.trips.n - 1; d >= 0 && ++turn[d] == (d ? l.trips.data[d] : l.first); d--) turn[d] = 0;
        if (n % 4096 == 4095) TRY(kernel_poll(c));
    }
    return TN_OK;
}

#define INDEX_TYPES TS(TN_I32) | TS(TN_I64), 0, OPERAND_OPTIONAL
#define LIST(name) \
    { name, ATTR_INTS, 0, 0, 0, NULL }

const OpSchema op_tn_Loop = {
    .domain = "tn",
    .name = "Loop",
    .summary = "boxes of elements moved one after the other, to and from where indices say",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', OPERAND_OPTIONAL}, {"source", TS_ALL_TENSOR, 'T', OPERAND_OPTIONAL},
                       {"source_index", INDEX_TYPES}, {"result_index", INDEX_TYPES}),
    .outputs = OPERANDS({"result", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES(LIST("from_bounds"), {"from_offset", ATTR_INT, 0, 0, 0, NULL}, LIST("from_scales"),
                        LIST("from_steps"), LIST("from_strides"), {"reduction", ATTR_STRING, 0, 0, 0, "none"},
                        LIST("shape"), LIST("size"), LIST("to_bounds"), {"to_offset", ATTR_INT, 0, 0, 0, NULL},
                        LIST("to_scales"), LIST("to_steps"), LIST("to_strides"), LIST("trips")),
    .infer = infer,
    .reference = reference,
};
