/* SPDX-License-Identifier: Apache-2.0 */
/* Pad (ONNX 25): constant, reflect, edge and wrap. Each axis is cut into pieces, and each box of pieces is a region;
   the constant itself is read as a region of stride 0, so its value need not be known. */
#include "ops/move_int.h"

enum { DATA, PADS, VALUE, AXES };

/* Begin and end pads of all axes, 0 where none is given. */
typedef struct Pads {
    int64_t begin[TN_MAX_RANK], end[TN_MAX_RANK];
} Pads;

static tn_status spread_pads(const int64_t *pads, int n_pads, const int64_t *axes, int n_axes, int rank, Pads *p) {
    uint32_t mask;
    memset(p, 0, sizeof *p);
    if (n_pads != 2 * n_axes) return fail(TN_SHAPE, "pads has %d entries for %d axes", n_pads, n_axes);
    TRY(normal_axes(axes, (size_t)n_axes, rank, "axes", &mask));
    for (int k = 0; k < n_axes; k++) {
        int axis;
        TRY(normal_axis(axes[k], rank, "axes", &axis));
        p->begin[axis] = pads[k];
        p->end[axis] = pads[n_axes + k];
    }
    return TN_OK;
}

static int all_axes(int rank, int64_t *axes) {
    for (int k = 0; k < rank; k++) axes[k] = k;
    return rank;
}

static tn_status padded_size(int64_t dim, int64_t begin, int64_t end, int axis, int64_t *out) {
    if (add_overflows(dim, begin, out) || add_overflows(*out, end, out))
        return fail(TN_LIMIT, "pads of dimension %d are out of all bounds", axis);
    if (*out < 0) return fail(TN_SHAPE, "pads take more of dimension %d than its size %lld", axis, (long long)dim);
    return TN_OK;
}

static tn_status check_mode(const Node *node) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    for (int k = 0; k < 4; k++)
        if (attr_string_is(node, "mode", modes[k])) return TN_OK;
    return fail(TN_INVALID_ARGUMENT, "mode \"%.*s\" is none of constant, reflect, edge, wrap",
                (int)attr_string(node, "mode").n, attr_string(node, "mode").s);
}

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, DATA);
    Dim pads[2 * TN_MAX_RANK];
    int64_t axes[TN_MAX_RANK], numbers[2 * TN_MAX_RANK];
    int n_pads, n_axes = 0;
    TRY(check_mode(c->node));
    TRY(expect_list(c, PADS, 2 * TN_MAX_RANK));
    TRY(expect_list(c, AXES, TN_MAX_RANK));
    if (x->rank < 0) return TN_OK;
    bool have_axes = true;
    if (has_input(c, AXES)) have_axes = in_ints(c, AXES, axes, TN_MAX_RANK, &n_axes);
    else n_axes = all_axes(x->rank, axes);
    if (!have_axes || !in_content(c, PADS, pads, 2 * TN_MAX_RANK, &n_pads)) {
        set_unknown_rank(c, 0, x->rank);
        return TN_OK;
    }
    for (int k = 0; k < n_pads; k++) numbers[k] = dim_is_const(pads[k]) ? pads[k] : 0;
    Pads p;
    TRY(spread_pads(numbers, n_pads, axes, n_axes, x->rank, &p));
    Shape y = *x;
    for (int k = 0; k < n_axes; k++) {
        int axis;
        TRY(normal_axis(axes[k], x->rank, "axes", &axis));
        Dim dim = x->dims[axis];
        y.dims[axis] = dim_add(c->dims, dim_add(c->dims, dim, pads[k]), pads[n_axes + k]);
        if (dim_is_const(dim) && dim_is_const(pads[k]) && dim_is_const(pads[n_axes + k]))
            TRY(padded_size(dim, pads[k], pads[n_axes + k], axis, &y.dims[axis]));
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

/* ---- regions ------------------------------------------------------------------------------------------------- */

/* A stretch of one axis of the result: elements from `at` on read src, src+step, ... or the constant. */
typedef struct Piece {
    int64_t at, n, src, step;
    bool fill;
} Piece;
typedef struct Pieces {
    Piece *data;
    int64_t n, cap;
} Pieces;

static tn_status add_piece(Arena *arena, Pieces *list, Piece piece) {
    if (piece.n <= 0) return TN_OK;
    if (list->n == MOVE_MAX_REGIONS) return fail(TN_LIMIT, "padding repeats the operand too often");
    if (list->n == list->cap) {
        int64_t cap = list->cap ? list->cap * 2 : 4;
        Piece *data = arena_array(arena, Piece, (size_t)cap);
        if (!data) return TN_OUT_OF_MEMORY;
        if (list->n) memcpy(data, list->data, (size_t)list->n * sizeof *data);
        list->data = data;
        list->cap = cap;
    }
    list->data[list->n++] = piece;
    return TN_OK;
}

/* The result's positions [from, to) on an axis whose kept elements are lo .. lo+size-1 of the operand, the first of
   them at position 0. In `reflect` the operand is continued with period 2*(size-1), in `wrap` with period size. */
static tn_status periodic(Arena *arena, Pieces *list, int64_t from, int64_t to, int64_t shift, int64_t lo, int64_t size,
                          bool reflect) {
    int64_t period = reflect ? 2 * (size - 1) : size;
    while (from < to) {
        int64_t phase = from % period < 0 ? from % period + period : from % period;
        bool back = reflect && phase >= size - 1; /* on the way down */
        int64_t n = min_i64(to - from, back ? period - phase : reflect ? size - 1 - phase : size - phase);
        int64_t src = back ? period - phase : phase;
        TRY(add_piece(arena, list, (Piece){from + shift, n, lo + src, back ? -1 : 1, false}));
        from += n;
    }
    return TN_OK;
}

static tn_status cut_axis(Arena *arena, const Node *node, int64_t dim, int64_t begin, int64_t out, int axis,
                          Pieces *list) {
    /* What is left of the operand stands at before .. before+size-1. Negative pads drop elements first. */
    int64_t before = max_i64(0, min_i64(begin, out)), kept_end = max_i64(0, min_i64(begin + dim, out));
    int64_t size = max_i64(0, kept_end - before), lo = before - begin, after = out - before - size;
    bool edge = attr_string_is(node, "mode", "edge");
    if (attr_string_is(node, "mode", "constant")) {
        TRY(add_piece(arena, list, (Piece){0, before, 0, 0, true}));
        TRY(add_piece(arena, list, (Piece){before, size, lo, 1, false}));
        return add_piece(arena, list, (Piece){before + size, after, 0, 0, true});
    }
    if (before + after > 0 && size == 0)
        return fail(TN_SHAPE, "dimension %d is empty: there is nothing to pad it with", axis);
    if (edge || size == 1) {
        TRY(add_piece(arena, list, (Piece){0, before, lo, 0, false}));
        TRY(add_piece(arena, list, (Piece){before, size, lo, 1, false}));
        return add_piece(arena, list, (Piece){before + size, after, lo + size - 1, 0, false});
    }
    bool reflect = attr_string_is(node, "mode", "reflect");
    TRY(periodic(arena, list, -before, 0, before, lo, size, reflect));
    TRY(add_piece(arena, list, (Piece){before, size, lo, 1, false}));
    return periodic(arena, list, size, size + after, before, lo, size, reflect);
}

/* One box for each choice of pieces; a box whose choice so far is padding takes the rest of the axes whole. */
static tn_status add_boxes(RegionCtx *c, const Pieces *axes, int axis, Region *r) {
    const Tensor *x = c->in[DATA];
    if (axis == x->rank) {
        if (c->lists[0].len >= MOVE_MAX_REGIONS) return fail(TN_LIMIT, "padding repeats the operand too often");
        return add_region(c, 0, r);
    }
    for (int64_t i = 0; i < axes[axis].n; i++) {
        const Piece *p = &axes[axis].data[i];
        Region box = *r;
        box.size[axis] = p->n;
        box.dst_offset += p->at * r->dst_stride[axis];
        if (p->fill) {
            bool given = region_has_input(c, VALUE);
            box.source = given ? VALUE : REGION_FILL;
            box.src_offset = 0;
            memset(box.src_stride, 0, sizeof box.src_stride);
            TRY(add_region(c, 0, &box));
            continue;
        }
        box.src_offset += p->src * x->strides[axis];
        box.src_stride[axis] = p->step * x->strides[axis];
        TRY(add_boxes(c, axes, axis + 1, &box));
    }
    return TN_OK;
}

static tn_status regions(RegionCtx *c) {
    const Tensor *x = c->in[DATA];
    int64_t pads[2 * TN_MAX_RANK], axes[TN_MAX_RANK];
    int n_pads, n_axes = all_axes(x->rank, axes);
    Pads p;
    Pieces pieces[TN_MAX_RANK] = {0};
    if (!region_contents_known(c, PADS) || !region_contents_known(c, AXES)) {
        c->declined = true;
        return TN_OK;
    }
    TRY(region_ints(c, PADS, pads, 2 * TN_MAX_RANK, &n_pads));
    if (region_has_input(c, AXES)) TRY(region_ints(c, AXES, axes, TN_MAX_RANK, &n_axes));
    TRY(spread_pads(pads, n_pads, axes, n_axes, x->rank, &p));
    c->lists[0].covers = true;
    if (tensor_count(&c->out[0]) == 0) return TN_OK;
    for (int k = 0; k < x->rank; k++) {
        int64_t size;
        TRY(padded_size(x->dims[k], p.begin[k], p.end[k], k, &size));
        if (size != c->out[0].dims[k])
            return fail(TN_SHAPE, "dimension %d of the result should be %lld", k, (long long)size);
        TRY(cut_axis(c->lists[0].arena, c->node, x->dims[k], p.begin[k], size, k, &pieces[k]));
    }
    Region r = region_over(c, 0, DATA);
    if (region_has_input(c, VALUE) && tensor_count(c->in[VALUE]) != 1)
        return fail(TN_SHAPE, "constant_value must have one element");
    TRY(add_boxes(c, pieces, 0, &r));
    region_list_merge(&c->lists[0]);
    return TN_OK;
}

static tn_status reference(KernelCtx *c) { return run_as_regions(c); }

const OpSchema op_Pad = {
    .name = "Pad",
    .summary = "Pad (ONNX 25): add to or take from the ends of each dimension",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"pads", TS(TN_I64), 0, 0},
                       {"constant_value", TS_ALL_TENSOR, 'T', OPERAND_OPTIONAL},
                       {"axes", TS(TN_I32) | TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"mode", ATTR_STRING, 0, 0, 0, "constant"}),
    .content_inputs = 1 << PADS | 1 << AXES,
    .infer = infer,
    .regions = regions,
    .reference = reference,
};
