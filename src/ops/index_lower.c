/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of ops that move elements to or from where indices say: each is one tn.Loop, with what is computed of its indices
   before. */
#include "ops/lower_int.h"
#include "ops/scatter_int.h"

#include <math.h>

/* The axis attribute, and whether all sizes are known, but for some first ones; else declined. */
static bool read_axis(LowerCtx *c, int rank, int *axis) {
    if (rank < 0 || !lower_inner_sizes_known(c)) return c->declined = true, false;
    c->status = normal_axis(attr_int(c->node, "axis"), rank, "axis", axis);
    return c->status == TN_OK;
}

static bool is_whole(const Value *v) { return shape_is_known(lower_shape(v)); }

/* ---- gathers ------------------------------------------------------------------------------------------------- */

/* What regions do well is left to them. */
static bool is_few_runs(const Value *index) {
    const Tensor *t = value_constant(index);
    int64_t ints[1024], n, runs = 0;
    if (!t) return false;
    if (tensor_ints(t, ints, 1024, &n) != TN_OK) {
        diag_clear();
        return false;
    }
    for (int64_t k = 0; k < n; runs++) k += index_run(ints + k, n - k).n;
    return runs <= 64;
}

tn_status lower_gather(LowerCtx *c) {
    Value *x = lower_in(c, 0), *index = lower_in(c, 1);
    int axis;
    if (is_few_runs(index)) return lower_decline(c);
    if (!read_axis(c, lower_shape(x)->rank, &axis)) return TN_OK;
    if ((axis > 0 && !is_whole(x)) || (axis > 0 && !is_whole(index))) return lower_decline(c);
    Shape of_x = lower_counted(x), of_index = lower_counted(index), *s = &of_x, *i = &of_index;
    int64_t inner = lower_product(s, axis + 1, s->rank), n = is_whole(index) ? lower_product(i, 0, i->rank) : -1;
    LowerLoop l = {.source = x, .source_index = index, .n_trips = 1, .trips = {n}, .n_size = 2};
    l.shape = (Shape){.rank = s->rank + i->rank - 1};
    for (int k = 0, d = 0; k < l.shape.rank; k++)
        l.shape.dims[k] = k >= axis && k < axis + i->rank ? i->dims[k - axis]
                                                          : s->dims[k < axis ? d++ : k - i->rank + 1];
    l.size[0] = lower_product(s, 0, axis);
    l.size[1] = inner;
    l.from = (LowerSide){
        .strides = {s->dims[axis] * inner, 1}, .n_index = 1, .bounds = {s->dims[axis]}, .scales = {inner}};
    l.to = (LowerSide){.strides = {n * inner, 1}, .steps = {inner}};
    c->out[0] = lower_loop(c, &l);
    return TN_OK;
}

/* A turn for each index: along `axis` it says where, along the other dimensions the turn does. */
static void turns_over(LowerLoop *l, const Shape *index, const Shape *data, int axis, LowerSide *indexed,
                       LowerSide *straight) {
    int64_t strides[TN_MAX_RANK];
    l->n_trips = index->rank;
    memcpy(l->trips, index->dims, sizeof l->trips);
    lower_strides(index->rank, index->dims, straight->steps);
    lower_strides(data->rank, data->dims, strides);
    for (int d = 0; d < index->rank; d++) indexed->steps[d] = d == axis ? 0 : strides[d];
    indexed->n_index = 1;
    indexed->bounds[0] = data->dims[axis];
    indexed->scales[0] = strides[axis];
}

tn_status lower_gather_elements(LowerCtx *c) {
    int axis;
    if (!read_axis(c, lower_shape(lower_in(c, 0))->rank, &axis)) return TN_OK;
    Shape data = lower_counted(lower_in(c, 0)), index = lower_counted(lower_in(c, 1));
    LowerLoop l = {.source = lower_in(c, 0), .source_index = lower_in(c, 1), .shape = index};
    turns_over(&l, &index, &data, axis, &l.from, &l.to);
    c->out[0] = lower_loop(c, &l);
    return TN_OK;
}

/* Turns over tuples of indices, each for a slice of `inner` elements. */
static void turns_over_tuples(LowerLoop *l, const Shape *index, const Shape *data, int batch, LowerSide *indexed,
                              LowerSide *straight) {
    int64_t strides[TN_MAX_RANK], inner;
    int tuple = (int)index->dims[index->rank - 1];
    inner = lower_product(data, batch + tuple, data->rank);
    lower_strides(data->rank, data->dims, strides);
    l->n_trips = index->rank - 1;
    memcpy(l->trips, index->dims, sizeof l->trips);
    lower_strides(l->n_trips, l->trips, straight->steps);
    for (int d = 0; d < l->n_trips; d++) straight->steps[d] *= inner;
    for (int d = 0; d < batch; d++) indexed->steps[d] = strides[d];
    indexed->n_index = tuple;
    for (int k = 0; k < tuple; k++) {
        indexed->bounds[k] = data->dims[batch + k];
        indexed->scales[k] = strides[batch + k];
    }
    l->n_size = 1;
    l->size[0] = inner;
    straight->strides[0] = indexed->strides[0] = 1;
}

tn_status lower_gather_nd(LowerCtx *c) {
    Value *x = lower_in(c, 0), *index = lower_in(c, 1);
    if (!lower_inner_sizes_known(c)) return TN_OK;
    int batch = (int)attr_int(c->node, "batch_dims");
    if ((batch && !(is_whole(x) && is_whole(index))) ||
        !dim_is_const(lower_shape(index)->dims[lower_shape(index)->rank - 1]))
        return lower_decline(c);
    Shape of_x = lower_counted(x), of_index = lower_counted(index), *s = &of_x, *i = &of_index;
    LowerLoop l = {.source = x, .source_index = index};
    turns_over_tuples(&l, i, s, batch, &l.from, &l.to);
    l.shape = (Shape){.rank = l.n_trips + s->rank - batch - l.from.n_index};
    for (int k = 0; k < l.shape.rank; k++)
        l.shape.dims[k] = k < l.n_trips ? i->dims[k] : s->dims[k - l.n_trips + batch + l.from.n_index];
    c->out[0] = lower_loop(c, &l);
    return TN_OK;
}

/* ---- scatters ------------------------------------------------------------------------------------------------ */

static const char *reduction_of(LowerCtx *c) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    Reduction reduction = REDUCE_NONE;
    c->status = scatter_reduction(c->node, lower_dtype(lower_in(c, 0)), &reduction);
    return names[reduction];
}

tn_status lower_scatter_elements(LowerCtx *c) {
    LowerLoop l = {.data = lower_in(c, 0), .source = lower_in(c, 2), .result_index = lower_in(c, 1)};
    int axis;
    if (!read_axis(c, lower_shape(l.data)->rank, &axis)) return TN_OK;
    Shape data = lower_counted(l.data), index = lower_counted(l.result_index);
    l.reduction = reduction_of(c);
    turns_over(&l, &index, &data, axis, &l.to, &l.from);
    c->out[0] = lower_loop(c, &l);
    return TN_OK;
}

tn_status lower_scatter_nd(LowerCtx *c) {
    LowerLoop l = {.data = lower_in(c, 0), .source = lower_in(c, 2), .result_index = lower_in(c, 1)};
    if (!lower_inner_sizes_known(c)) return TN_OK;
    Shape data = lower_counted(l.data), index = lower_counted(l.result_index);
    if (index.dims[index.rank - 1] < 0) return lower_decline(c);
    l.reduction = reduction_of(c);
    turns_over_tuples(&l, &index, &data, 0, &l.to, &l.from);
    c->out[0] = lower_loop(c, &l);
    return TN_OK;
}

/* Where each step of each batch entry goes: [batch, steps]. */
static Value *write_places(LowerCtx *c, const Shape *cache, int64_t steps, int axis) {
    Value *places = lower_counting(c, steps, 1, 2), *first = lower_in(c, 2);
    int64_t room = cache->dims[axis], column[] = {cache->dims[0], 1}, all[] = {cache->dims[0], steps};
    if (!first) return LOWER(c, "Expand", places, lower_ints(c, all, 2));
    places = LOWER(c, "Add", places, lower_reshape(c, first, column, 2));
    if (attr_string_is(c->node, "mode", "circular"))
        return LOWER(c, "Mod", places, lower_number(c, TN_I64, (double)room));
    /* Negative places are out of range, not from the end. */
    Value *beyond = lower_number(c, TN_I64, (double)room);
    return LOWER(c, "Where", LOWER(c, "Less", places, lower_number(c, TN_I64, 0)), beyond, places);
}

tn_status lower_tensor_scatter(LowerCtx *c) {
    LowerLoop l = {.data = lower_in(c, 0), .source = lower_in(c, 1)};
    int axis;
    if (!lower_sizes_known(c) || !read_axis(c, lower_shape(l.data)->rank, &axis)) return TN_OK;
    const Shape *x = lower_shape(l.data), *u = lower_shape(l.source);
    int64_t inner = lower_product(x, axis + 1, x->rank), middle = lower_product(x, 1, axis);
    int64_t room = x->dims[axis], steps = u->dims[axis];
    l.result_index = write_places(c, x, steps, axis);
    l.n_trips = l.n_size = 2;
    l.trips[0] = x->dims[0], l.trips[1] = steps;
    l.size[0] = middle, l.size[1] = inner;
    l.from = (LowerSide){.strides = {steps * inner, 1}, .steps = {middle * steps * inner, inner}};
    l.to = (LowerSide){.strides = {room * inner, 1}, .steps = {middle * room * inner, 0}, .n_index = 1};
    l.to.bounds[0] = room, l.to.scales[0] = inner;
    c->out[0] = lower_loop(c, &l);
    return TN_OK;
}

/* ---- sequences ----------------------------------------------------------------------------------------------- */

/* Where step t of the result is read: len - 1 - t within the sequence, t behind it. */
static Value *reversed_places(LowerCtx *c, Value *lens, int64_t steps) {
    int64_t row[] = {1, lower_shape(lens)->dims[0]};
    Value *t = lower_counting(c, steps, 0, 2), *len = lower_reshape(c, lens, row, 2);
    Value *back = LOWER(c, "Sub", LOWER(c, "Sub", len, lower_number(c, TN_I64, 1)), t);
    Value *place = LOWER(c, "Where", LOWER(c, "Less", t, len), back, t);
    Value *wrong = LOWER(c, "Less", len, lower_number(c, TN_I64, 0));
    return LOWER(c, "Where", wrong, lower_number(c, TN_I64, (double)steps), place); /* there is no such place */
}

tn_status lower_reverse_sequence(LowerCtx *c) {
    Value *x = lower_in(c, 0), *lens = lower_in(c, 1);
    int batch = (int)attr_int(c->node, "batch_axis"), time = (int)attr_int(c->node, "time_axis");
    if (value_constant(lens)) return lower_decline(c);
    if (!lower_sizes_known(c)) return TN_OK;
    const Shape *s = lower_shape(x);
    int64_t strides[TN_MAX_RANK];
    LowerLoop l = {.source = x, .source_index = reversed_places(c, lens, s->dims[time]), .shape = *s, .n_trips = 2};
    lower_strides(s->rank, s->dims, strides);
    l.trips[0] = s->dims[time], l.trips[1] = s->dims[batch];
    for (int d = 0; d < s->rank; d++) {
        if (d == batch || d == time) continue;
        l.from.strides[l.n_size] = l.to.strides[l.n_size] = strides[d];
        l.size[l.n_size++] = s->dims[d];
    }
    l.to.steps[0] = strides[time];
    l.from.steps[1] = l.to.steps[1] = strides[batch];
    l.from.n_index = 1;
    l.from.bounds[0] = s->dims[time], l.from.scales[0] = strides[time];
    c->out[0] = lower_loop(c, &l);
    return TN_OK;
}

enum { MOST_SUMMED = 512 };

/* Without loops each element is the sum or product of a window that ends, or begins, with it: windows overlap, and beyond the
   end there is what changes nothing. */
static Value *accumulate_windows(LowerCtx *c, Value *x, int axis, bool product, bool reverse) {
    Shape s = *lower_shape(x);
    int64_t inner = lower_product(&s, axis + 1, s.rank), n = s.dims[axis], outer = lower_product(&s, 0, axis), last = 3;
    int64_t pads[2 * TN_MAX_RANK] = {0}, sizes[] = {outer, n, inner, n};
    int64_t strides[] = {(2 * n - 1) * inner, inner, 1, inner};
    if (n > MOST_SUMMED) return c->declined = true, NULL;
    pads[axis + (reverse ? s.rank : 0)] = n - 1;
    Value *wide = lower_pad(c, x, pads, lower_number(c, lower_dtype(x), product));
    Value *windows = lower_view(c, wide, 0, sizes, strides, 4);
    return lower_reshape(c, lower_reduce(c, product ? "ReduceProd" : "ReduceSum", windows, &last, 1, false), s.dims,
                         s.rank);
}

/* A running sum or product along one axis: each step takes up what the one before has become. */
static Value *accumulate(LowerCtx *c, Value *x, int axis) {
    bool product = strcmp(c->node->op->name, "CumProd") == 0, reverse = attr_int(c->node, "reverse") != 0;
    const Shape *s = lower_shape(x);
    int64_t inner = lower_product(s, axis + 1, s->rank), size = s->dims[axis], last = reverse ? (size - 1) * inner : 0;
    int64_t pads[2 * TN_MAX_RANK] = {0}, step = reverse ? -inner : inner;
    pads[axis + (reverse ? s->rank : 0)] = 1;
    pads[axis + (reverse ? 0 : s->rank)] = -1;
    if (attr_int(c->node, "exclusive")) x = lower_pad(c, x, pads, lower_number(c, lower_dtype(x), product));
    if (!c->loops) return accumulate_windows(c, x, axis, product, reverse);
    LowerLoop l = {.data = x, .reduction = product ? "mul" : "add", .n_trips = 1, .n_size = 2};
    l.trips[0] = max_i64(size - 1, 0);
    l.size[0] = lower_product(s, 0, axis), l.size[1] = inner;
    l.from = (LowerSide){.offset = last, .strides = {size * inner, 1}, .steps = {step}};
    l.to = l.from;
    l.to.offset += step;
    return lower_loop(c, &l);
}

/* Where the axis is not known, along each of them, and one is picked. */
tn_status lower_cumulative(LowerCtx *c) {
    Value *x = lower_in(c, 0), *at = lower_in(c, 1), *each[TN_MAX_RANK];
    int64_t value, n, front = 0;
    int axis, rank = lower_shape(x)->rank;
    if (lower_by_widening(c) || !lower_sizes_known(c)) return TN_OK;
    if (value_constant(at)) {
        TRY(tensor_ints(value_constant(at), &value, 1, &n));
        TRY(normal_axis(value, rank, "axis", &axis));
        c->out[0] = accumulate(c, x, axis);
        return TN_OK;
    }
    for (int d = 0; d < rank; d++) each[d] = LOWER(c, "Unsqueeze", accumulate(c, x, d), lower_ints(c, &front, 1));
    Value *all = lower_node(c, "Concat", each, (size_t)rank, ATTRS(attr_i("axis", 0)), 1);
    c->out[0] = LOWER(c, "Gather", all, lower_reshape(c, at, NULL, 0));
    return TN_OK;
}

/* ---- masks --------------------------------------------------------------------------------------------------- */

/* Regions do it where the diagonal is known and rows are few. */
tn_status lower_trilu(LowerCtx *c) {
    Value *x = lower_in(c, 0), *k = lower_in(c, 1);
    if (!lower_sizes_known(c)) return TN_OK;
    const Shape *s = lower_shape(x);
    int64_t rows = s->dims[s->rank - 2], columns = s->dims[s->rank - 1];
    if (rows <= 64 && (!k || value_constant(k))) return lower_decline(c);
    k = k ? k : lower_number(c, TN_I64, 0);
    k = LOWER(c, "Max", lower_number(c, TN_I64, (double)-rows),
              LOWER(c, "Min", lower_number(c, TN_I64, (double)columns), k));
    Value *diagonal = LOWER(c, "Add", lower_counting(c, rows, 0, 2), k), *column = lower_counting(c, columns, 1, 2);
    Value *keep = LOWER(c, attr_int(c->node, "upper") ? "LessOrEqual" : "GreaterOrEqual", diagonal, column);
    c->out[0] = LOWER(c, "Where", keep, x, lower_number(c, lower_dtype(x), 0));
    return TN_OK;
}

/* The numbers below `n`, along one of `rank` dimensions. Zeros of that shape are added so that a negative one fails. */
static Value *counting_to(LowerCtx *c, Value *n, int axis, int rank) {
    int64_t dims[TN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = d == axis ? -1 : 1;
    Value *numbers = LOWER(c, "Range", lower_number(c, TN_I64, 0), n, lower_number(c, TN_I64, 1));
    int64_t one = 1;
    Value *zeros = LOWER(c, "ConstantOfShape", lower_reshape(c, n, &one, 1));
    numbers = LOWER(c, "Add", numbers, lower_cast(c, zeros, TN_I64));
    return LOWER(c, "Reshape", numbers, lower_ints(c, dims, rank));
}

tn_status lower_one_hot(LowerCtx *c) {
    Value *index = lower_in(c, 0), *values = lower_in(c, 2), *depth = lower_in(c, 1);
    int axis;
    if (!read_axis(c, lower_shape(index)->rank + 1, &axis)) return TN_OK;
    int rank = lower_shape(index)->rank + 1;
    int64_t at = axis,
            size = lower_shape(c->node->results[0])->rank == rank ? lower_shape(c->node->results[0])->dims[axis] : -1;
    bool known = dim_is_const(size) && size >= 0;
    depth = known ? lower_number(c, TN_I64, (double)size) : lower_reshape(c, lower_cast(c, depth, TN_I64), NULL, 0);
    if (lower_dtype(index) == TN_U64) index = LOWER(c, "Min", index, lower_cast(c, depth, TN_U64));
    index = lower_cast(c, index, TN_I64);
    Value *wrapped = LOWER(c, "Add", index, depth);
    index = LOWER(c, "Where", LOWER(c, "Less", index, lower_number(c, TN_I64, 0)), wrapped, index);
    Value *numbers = known ? lower_counting(c, size, axis, rank) : counting_to(c, depth, axis, rank);
    Value *hit = LOWER(c, "Equal", LOWER(c, "Unsqueeze", index, lower_ints(c, &at, 1)), numbers);
    Value *on = lower_reshape(c, lower_slice(c, values, 0, 1, 2), NULL, 0);
    c->out[0] = LOWER(c, "Where", hit, on, lower_reshape(c, lower_slice(c, values, 0, 0, 1), NULL, 0));
    return TN_OK;
}

/* ArgMax takes NaN for the largest, Hardmax does so only where it stands first. */
tn_status lower_hardmax(LowerCtx *c) {
    Value *x = lower_in(c, 0);
    int axis;
    if (!lower_sizes_known(c) || !read_axis(c, lower_shape(x)->rank, &axis)) return TN_OK;
    int rank = lower_shape(x)->rank;
    int64_t size = lower_shape(x)->dims[axis];
    Value *first = lower_slice(c, x, axis, 0, min_i64(size, 1));
    Value *low = LOWER(c, "Where", LOWER(c, "IsNaN", x), lower_number(c, lower_dtype(x), (double)-INFINITY), x);
    Value *at = LOWER_WITH(c, "ArgMax", ATTRS(attr_i("axis", axis)), low);
    at = LOWER(c, "Where", LOWER(c, "IsNaN", first), lower_number(c, TN_I64, 0), at);
    c->out[0] = lower_cast(c, LOWER(c, "Equal", at, lower_counting(c, size, axis, rank)), lower_dtype(x));
    return TN_OK;
}

/* It follows from sizes alone. */
tn_status lower_eye_like(LowerCtx *c) {
    if (!lower_sizes_known(c)) return TN_OK;
    const Shape *s = lower_shape(lower_in(c, 0));
    tn_dtype dtype = lower_dtype(c->node->results[0]);
    int64_t k = attr_int(c->node, "k");
    if (dtype == TN_UNDEFINED) return lower_decline(c);
    Value *row = LOWER(c, "Add", lower_counting(c, s->dims[0], 0, 2), lower_number(c, TN_I64, (double)k));
    c->out[0] = lower_cast(c, LOWER(c, "Equal", row, lower_counting(c, s->dims[1], 1, 2)), dtype);
    return TN_OK;
}

/* ---- casts, means -------------------------------------------------------------------------------------------- */

tn_status lower_cast_like(LowerCtx *c) {
    Str mode = attr_string(c->node, "round_mode");
    if (!lower_dtype(lower_in(c, 1))) return lower_decline(c);
    Attr attrs[] = {attr_i("to", lower_dtype(lower_in(c, 1))),
                    attr_i("saturate", attr_int(c->node, "saturate")),
                    {.name = STR("round_mode"), .kind = ATTR_STRING, .s = mode}};
    c->out[0] = lower_node(c, "Cast", (Value *[]){lower_in(c, 0)}, 1, (AttrList){attrs, mode.n ? 3 : 2}, 1);
    return TN_OK;
}

/* In f64, so that no sum overflows that has a mean. */
tn_status lower_mean(LowerCtx *c) {
    Value *operands[OP_MAX_INPUTS];
    size_t n = c->node->n_operands;
    if (n > OP_MAX_INPUTS) return lower_decline(c);
    tn_dtype dtype = lower_dtype(lower_in(c, 0));
    for (size_t k = 0; k < n; k++) operands[k] = lower_cast(c, lower_in(c, k), TN_F64);
    Value *sum = lower_node(c, "Sum", operands, n, (AttrList){NULL, 0}, 1);
    c->out[0] = lower_cast(c, LOWER(c, "Div", sum, lower_number(c, TN_F64, (double)n)), dtype);
    return TN_OK;
}
