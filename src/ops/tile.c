/* SPDX-License-Identifier: Apache-2.0 */
/* Tile (ONNX 13): the operand repeated along each dimension. */
#include "ops/move_int.h"

static void tile_content(InferCtx *c, const Dim *repeats) {
    Dim from[CONTENT_MAX], to[CONTENT_MAX];
    int n;
    if (in_shape(c, 0)->rank != 1 || !dim_is_const(repeats[0]) || !in_content(c, 0, from, CONTENT_MAX, &n)) return;
    if (repeats[0] > CONTENT_MAX || n * repeats[0] > CONTENT_MAX) return;
    for (int k = 0; k < n * repeats[0]; k++) to[k] = from[k % n];
    set_content(c, 0, to, (int)(n * repeats[0]));
}

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Dim repeats[TN_MAX_RANK];
    int n;
    int64_t length = known_length(c, 1);
    TRY(expect_list(c, 1, TN_MAX_RANK));
    if (x->rank >= 0 && length >= 0 && length != x->rank)
        return fail(TN_SHAPE, "repeats has %lld entries for %d dimensions", (long long)length, x->rank);
    if (!in_content(c, 1, repeats, TN_MAX_RANK, &n) || x->rank < 0) {
        set_unknown_rank(c, 0, x->rank >= 0 ? x->rank : (int)length);
        return TN_OK;
    }
    if (n != x->rank) return fail(TN_SHAPE, "repeats has %d entries for %d dimensions", n, x->rank);
    Shape y = *x;
    for (int k = 0; k < n; k++) {
        if (dim_is_const(repeats[k]) && repeats[k] < 0)
            return fail(TN_SHAPE, "repeats[%d] is %lld", k, (long long)repeats[k]);
        y.dims[k] = dim_mul(c->dims, x->dims[k], repeats[k]);
        if (y.dims[k] == DIM_UNKNOWN && dim_is_const(x->dims[k]) && dim_is_const(repeats[k]))
            return fail(TN_LIMIT, "dimension %d would have more than 2^63 elements", k);
    }
    set_shape(c, 0, &y);
    if (n == 1) tile_content(c, repeats);
    return TN_OK;
}

/* One dimension of the operand is two of the box: which copy, and where in it. */
typedef struct Axis {
    int64_t size, src, dst;
    bool repeat;
} Axis;

static int tile_axes(const Tensor *x, const Region *whole, Axis *axes) {
    int n = 0;
    for (int k = 0; k < x->rank; k++) {
        int64_t repeat = x->dims[k] ? whole->size[k] / x->dims[k] : 0;
        if (repeat > 1) axes[n++] = (Axis){repeat, 0, whole->dst_stride[k] * x->dims[k], true};
        if (x->dims[k] > 1) axes[n++] = (Axis){x->dims[k], x->strides[k], whole->dst_stride[k], false};
    }
    return n;
}

/* Boxes with more than TN_MAX_RANK dimensions are taken apart along the smallest repeats. */
static tn_status add_tiles(RegionCtx *c, const Axis *axes, int n, int64_t dst_offset) {
    if (n > TN_MAX_RANK) {
        Axis rest[2 * TN_MAX_RANK];
        int least = -1, m = 0;
        for (int k = 0; k < n; k++)
            if (axes[k].repeat && (least < 0 || axes[k].size < axes[least].size)) least = k;
        for (int k = 0; k < n; k++)
            if (k != least) rest[m++] = axes[k];
        if (least < 0 || axes[least].size > MOVE_MAX_REGIONS || c->lists[0].len > MOVE_MAX_REGIONS)
            return fail(TN_LIMIT, "too many repeats along too many dimensions");
        for (int64_t i = 0; i < axes[least].size; i++) TRY(add_tiles(c, rest, m, dst_offset + i * axes[least].dst));
        return TN_OK;
    }
    Region r = {.rank = n, .dst_offset = dst_offset};
    for (int k = 0; k < n; k++) {
        r.size[k] = axes[k].size;
        r.src_stride[k] = axes[k].src;
        r.dst_stride[k] = axes[k].dst;
    }
    return add_region(c, 0, &r);
}

static tn_status regions(RegionCtx *c) {
    Axis axes[2 * TN_MAX_RANK];
    Region whole = region_over(c, 0, 0);
    c->lists[0].covers = true;
    if (tensor_count(&c->out[0]) == 0) return TN_OK;
    int n = tile_axes(c->in[0], &whole, axes);
    return add_tiles(c, axes, n, 0);
}

const OpSchema op_Tile = {
    .name = "Tile",
    .summary = "Tile (ONNX 13): repeat along each dimension",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR, 'T', 0}, {"repeats", TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .content_inputs = 1 << 1,
    .infer = infer,
    .regions = regions,
};
