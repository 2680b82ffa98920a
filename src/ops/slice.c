/* SPDX-License-Identifier: Apache-2.0 */
/* Slice (ONNX 13): starts, ends and steps along some axes, as numpy's x[a:b:s]. */
#include "ops/move_int.h"

enum { DATA, STARTS, ENDS, AXES, STEPS };

/* What is taken of one axis. */
typedef struct Cut {
    int64_t start, step, count;
} Cut;

static int64_t clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

static tn_status cut_axis(int64_t dim, int64_t start, int64_t end, int64_t step, Cut *cut) {
    if (step == 0) return fail(TN_INVALID_ARGUMENT, "steps has a 0");
    if (step < -INT64_MAX) step = -INT64_MAX;
    if (start < 0 && start >= -dim) start += dim;
    else if (start < 0) start = -1; /* before the first, however far */
    if (end < 0 && end >= -dim) end += dim;
    else if (end < 0) end = -1;
    int64_t span;
    if (step > 0) {
        start = clamp(start, 0, dim);
        span = clamp(end, 0, dim) - start;
    } else {
        /* A start before the first element is clamped to it, as ONNX says (numpy would take nothing). */
        start = clamp(start, 0, dim - 1);
        span = start - clamp(end, -1, dim - 1);
    }
    int64_t pace = step > 0 ? step : -step;
    *cut = (Cut){start, step, span > 0 && dim > 0 ? (span - 1) / pace + 1 : 0};
    return TN_OK;
}

/* A bound of a size that is not a number, as a distance from the start; DIM_UNKNOWN when nothing can be said. */
static Dim bound(DimTable *t, Dim dim, Dim v) {
    if (dim_is_const(v) && v < 0) return v <= -INT32_MAX ? 0 : dim_make(t, DIM_MAX, dim_add(t, dim, v), 0);
    if (dim_is_const(v) && v >= INT32_MAX) return dim;
    if (v == 0 || v == dim) return v;
    return dim_not_negative(t, v) ? dim_make(t, DIM_MIN, v, dim) : DIM_UNKNOWN;
}

static Dim symbolic_count(DimTable *t, Dim dim, Dim start, Dim end, Dim step) {
    if (!dim_is_const(step)) return DIM_UNKNOWN;
    if (step < 0) { /* only the whole of it, backwards */
        bool whole = (start == -1 || (dim_is_const(start) && start >= INT32_MAX)) && dim_is_const(end) &&
                     end <= -INT32_MAX;
        return whole && step > -INT32_MAX ? dim_ceildiv(t, dim, -step) : DIM_UNKNOWN;
    }
    Dim from = bound(t, dim, start), to = bound(t, dim, end);
    Dim n = dim_sub(t, to, from);
    /* min(a, dim) - 0 and dim - 0 cannot fall below zero. */
    if (from != 0) n = dim_make(t, DIM_MAX, n, 0);
    return dim_ceildiv(t, n, step);
}

/* starts, ends, axes and steps as dims; DIM_UNKNOWN where only their number is known. */
typedef struct Ranges {
    int n;
    Dim starts[TN_MAX_RANK], ends[TN_MAX_RANK], axes[TN_MAX_RANK], steps[TN_MAX_RANK];
} Ranges;

static tn_status operand_dims(const InferCtx *c, int i, int n, Dim *out) {
    int count;
    int64_t length = known_length(c, i);
    if (has_input(c, i) && length >= 0 && length != n)
        return fail(TN_SHAPE, "%s has %lld entries, but starts has %d", op_input_spec(c->node->op, (size_t)i)->name,
                    (long long)length, n);
    for (int k = 0; k < n; k++) out[k] = has_input(c, i) ? DIM_UNKNOWN : i == AXES ? k : 1;
    if (in_content(c, i, out, TN_MAX_RANK, &count) && count != n)
        return fail(TN_SHAPE, "%s has %d entries, but starts has %d", op_input_spec(c->node->op, (size_t)i)->name,
                    count, n);
    return TN_OK;
}

static tn_status read_ranges(const InferCtx *c, int rank, Ranges *r) {
    int64_t n = known_length(c, STARTS);
    if (n < 0) n = known_length(c, ENDS);
    r->n = n < 0 ? -1 : (int)min_i64(n, rank + 1);
    if (r->n < 0) return TN_OK;
    if (r->n > rank) return fail(TN_SHAPE, "starts has %lld entries for %d dimensions", (long long)n, rank);
    TRY(operand_dims(c, STARTS, r->n, r->starts));
    TRY(operand_dims(c, ENDS, r->n, r->ends));
    TRY(operand_dims(c, AXES, r->n, r->axes));
    TRY(operand_dims(c, STEPS, r->n, r->steps));
    return TN_OK;
}

static bool all_const(const Dim *d, int n) {
    for (int k = 0; k < n; k++)
        if (!dim_is_const(d[k])) return false;
    return true;
}

static void slice_content(InferCtx *c, const Cut *cut) {
    Dim from[CONTENT_MAX], to[CONTENT_MAX];
    int n;
    if (in_shape(c, DATA)->rank != 1 || !in_content(c, DATA, from, CONTENT_MAX, &n)) return;
    for (int64_t k = 0; k < cut->count; k++) to[k] = from[cut->start + k * cut->step];
    set_content(c, 0, to, (int)cut->count);
}

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, DATA);
    Ranges r;
    for (int i = STARTS; i <= STEPS; i++) TRY(expect_list(c, i, TN_MAX_RANK));
    if (x->rank < 0) return TN_OK;
    TRY(read_ranges(c, x->rank, &r));
    if (r.n < 0 || !all_const(r.axes, r.n)) {
        set_unknown_rank(c, 0, x->rank);
        return TN_OK;
    }
    Shape y = *x;
    uint32_t mask;
    TRY(normal_axes(r.axes, (size_t)r.n, x->rank, "axes", &mask));
    for (int k = 0; k < r.n; k++) {
        int axis;
        TRY(normal_axis(r.axes[k], x->rank, "axes", &axis));
        Dim dim = x->dims[axis];
        if (r.steps[k] == 0) return fail(TN_INVALID_ARGUMENT, "steps has a 0");
        if (dim_is_const(dim) && dim_is_const(r.starts[k]) && dim_is_const(r.ends[k]) && dim_is_const(r.steps[k])) {
            Cut cut;
            TRY(cut_axis(dim, r.starts[k], r.ends[k], r.steps[k], &cut));
            y.dims[axis] = cut.count;
            slice_content(c, &cut);
        } else {
            y.dims[axis] = symbolic_count(c->dims, dim, r.starts[k], r.ends[k], r.steps[k]);
        }
    }
    if (r.n == 0) pass_content(c, 0, DATA);
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status regions(RegionCtx *c) {
    const Tensor *x = c->in[DATA];
    int64_t starts[TN_MAX_RANK], ends[TN_MAX_RANK], axes[TN_MAX_RANK], steps[TN_MAX_RANK];
    int n, n_ends, n_axes, n_steps;
    for (int i = STARTS; i <= STEPS; i++)
        if (!region_contents_known(c, i)) c->declined = true;
    if (c->declined) return TN_OK;
    TRY(region_ints(c, STARTS, starts, TN_MAX_RANK, &n));
    TRY(region_ints(c, ENDS, ends, TN_MAX_RANK, &n_ends));
    n_axes = n_steps = n;
    for (int k = 0; k < n; k++) {
        axes[k] = k;
        steps[k] = 1;
    }
    if (region_has_input(c, AXES)) TRY(region_ints(c, AXES, axes, TN_MAX_RANK, &n_axes));
    if (region_has_input(c, STEPS)) TRY(region_ints(c, STEPS, steps, TN_MAX_RANK, &n_steps));
    if (n != n_ends || n != n_axes || n != n_steps)
        return fail(TN_SHAPE, "starts, ends, axes and steps differ in length");
    Region r = region_over(c, 0, DATA);
    for (int k = 0; k < x->rank; k++) r.src_stride[k] = x->strides[k];
    c->lists[0].covers = true;
    if (tensor_count(&c->out[0]) == 0) return TN_OK;
    for (int k = 0; k < n; k++) {
        int axis;
        Cut cut;
        TRY(normal_axis(axes[k], x->rank, "axes", &axis));
        TRY(cut_axis(x->dims[axis], starts[k], ends[k], steps[k], &cut));
        if (cut.count != r.size[axis])
            return fail(TN_SHAPE, "dimension %d of the result is %lld, but should be %lld", axis,
                        (long long)r.size[axis], (long long)cut.count);
        r.src_offset += cut.start * x->strides[axis];
        r.src_stride[axis] = cut.count > 1 ? x->strides[axis] * cut.step : 0;
    }
    return add_region(c, 0, &r);
}

static tn_status reference(KernelCtx *c) { return run_as_regions(c); }

const OpSchema op_Slice = {
    .name = "Slice",
    .summary = "Slice (ONNX 13): ranges with steps along some axes",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"starts", TS(TN_I32) | TS(TN_I64), 'I', 0},
                       {"ends", TS(TN_I32) | TS(TN_I64), 'I', 0},
                       {"axes", TS(TN_I32) | TS(TN_I64), 'I', OPERAND_OPTIONAL},
                       {"steps", TS(TN_I32) | TS(TN_I64), 'I', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .content_inputs = 1 << STARTS | 1 << ENDS | 1 << AXES | 1 << STEPS,
    .infer = infer,
    .regions = regions,
    .reference = reference,
};
