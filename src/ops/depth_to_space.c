/* SPDX-License-Identifier: Apache-2.0 */
/* DepthToSpace and SpaceToDepth (ONNX 28): blocks of channels to blocks of pixels and back, one region each. */
#include "ops/move_int.h"

static tn_status block_of(const Node *node, int64_t *block) {
    *block = attr_int(node, "blocksize");
    if (*block < 1 || *block > INT32_MAX) return fail(TN_INVALID_ARGUMENT, "blocksize is %lld", (long long)*block);
    return TN_OK;
}

static tn_status divided(Dim d, int64_t by, const char *what) {
    if (dim_is_const(d) && d % by != 0)
        return fail(TN_SHAPE, "%s %lld cannot be divided by %lld", what, (long long)d, (long long)by);
    return TN_OK;
}

static tn_status start(InferCtx *c, int64_t *block, bool *done) {
    const Shape *x = in_shape(c, 0);
    if (!attr_string_is(c->node, "mode", "DCR") && !attr_string_is(c->node, "mode", "CRD"))
        return fail(TN_INVALID_ARGUMENT, "mode is neither DCR nor CRD");
    TRY(block_of(c->node, block));
    *done = x->rank < 0;
    if (x->rank >= 0 && x->rank != 4) return fail(TN_SHAPE, "the operand has %d dimensions, not 4", x->rank);
    if (*done) set_unknown_rank(c, 0, 4);
    return TN_OK;
}

static tn_status depth_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    int64_t b;
    bool done;
    TRY(start(c, &b, &done));
    if (done) return TN_OK;
    TRY(divided(x->dims[1], b * b, "the channel count"));
    Shape y = *x;
    y.dims[1] = dim_floordiv(c->dims, x->dims[1], b * b);
    y.dims[2] = dim_mul(c->dims, x->dims[2], b);
    y.dims[3] = dim_mul(c->dims, x->dims[3], b);
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status space_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    int64_t b;
    bool done;
    TRY(start(c, &b, &done));
    if (done) return TN_OK;
    TRY(divided(x->dims[2], b, "the height"));
    TRY(divided(x->dims[3], b, "the width"));
    Shape y = *x;
    y.dims[1] = dim_mul(c->dims, x->dims[1], b * b);
    y.dims[2] = dim_floordiv(c->dims, x->dims[2], b);
    y.dims[3] = dim_floordiv(c->dims, x->dims[3], b);
    set_shape(c, 0, &y);
    return TN_OK;
}

/* y[n, c, h*b + i, w*b + j] = x[n, channel(c, i, j), h, w]; the box counts n, c, h, i, w, j. */
static tn_status depth_regions(RegionCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    int64_t b, channel = x->strides[1];
    TRY(block_of(c->node, &b));
    c->lists[0].covers = true;
    if (tensor_count(y) == 0) return TN_OK;
    bool dcr = attr_string_is(c->node, "mode", "DCR");
    int64_t depth = y->dims[1], step = dcr ? depth * channel : channel;
    const int64_t sizes[6] = {x->dims[0], depth, x->dims[2], b, x->dims[3], b};
    Region r = region_dense(0, 6, sizes);
    const int64_t src[6] = {x->strides[0], dcr ? channel : b * b * channel, x->strides[2], b * step, x->strides[3],
                            step};
    memcpy(r.src_stride, src, sizeof src);
    return add_region(c, 0, &r);
}

/* y[n, channel(c, i, j), h, w] = x[n, c, h*b + i, w*b + j]; the box counts n, then i, j, c (or c, i, j), then h, w. */
static tn_status space_regions(RegionCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    int64_t b;
    TRY(block_of(c->node, &b));
    c->lists[0].covers = true;
    if (tensor_count(y) == 0) return TN_OK;
    int first = attr_string_is(c->node, "mode", "DCR") ? 1 : 2, channel = first == 1 ? 3 : 1;
    int64_t sizes[6] = {x->dims[0], 0, 0, 0, y->dims[2], y->dims[3]}, src[6];
    src[0] = x->strides[0];
    sizes[channel] = x->dims[1];
    src[channel] = x->strides[1];
    sizes[first] = sizes[first + 1] = b;
    src[first] = x->strides[2];
    src[first + 1] = x->strides[3];
    src[4] = b * x->strides[2];
    src[5] = b * x->strides[3];
    Region r = region_dense(0, 6, sizes);
    memcpy(r.src_stride, src, sizeof src);
    return add_region(c, 0, &r);
}

const OpSchema op_DepthToSpace = {
    .name = "DepthToSpace",
    .summary = "DepthToSpace (ONNX 28): blocks of channels to blocks of pixels",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR, 'T', 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"blocksize", ATTR_INT, ATTR_REQUIRED, 0, 0, NULL}, {"mode", ATTR_STRING, 0, 0, 0, "DCR"}),
    .infer = depth_infer,
    .regions = depth_regions,
};

const OpSchema op_SpaceToDepth = {
    .name = "SpaceToDepth",
    .summary = "SpaceToDepth (ONNX 28): blocks of pixels to blocks of channels",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR, 'T', 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"blocksize", ATTR_INT, ATTR_REQUIRED, 0, 0, NULL}, {"mode", ATTR_STRING, 0, 0, 0, "DCR"}),
    .infer = space_infer,
    .regions = space_regions,
};
