/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: MaxPool, AveragePool, LpPool and their global forms (all ONNX 22). */
#include "ops/lower_int.h"
#include <float.h>

#include "ops/nn_int.h"

/* ---- shapes -------------------------------------------------------------------------------------------------- */

tn_status pool_infer(InferCtx *c) {
    size_t kernel = attr_ints(c->node, "kernel_shape").n;
    Shape y = {.rank = (int32_t)kernel + 2};
    if (kernel == 0 || kernel > TN_MAX_RANK - 2)
        return fail(TN_INVALID_MODEL, "kernel_shape has %zu values; 1 to %d are wanted", kernel, TN_MAX_RANK - 2);
    TRY(want_rank(c, 0, y.rank));
    Window window;
    TRY(window_read(c->node, y.rank - 2, &window));
    y.dims[0] = in_dim(c, 0, 0), y.dims[1] = in_dim(c, 0, 1);
    for (int d = 0; d < y.rank - 2; d++)
        TRY(window_out(c->dims, &window, d, in_dim(c, 0, 2 + d), window.kernel[d], &y.dims[2 + d]));
    set_shape(c, 0, &y);
    if (c->n_out > 1) set_type(c, 1, TN_I64, &y);
    return TN_OK;
}

static tn_status lp_pool_infer(InferCtx *c) {
    if (attr_int(c->node, "p") < 1)
        return fail(TN_INVALID_MODEL, "p is %lld; 1 or more is wanted", (long long)attr_int(c->node, "p"));
    return pool_infer(c);
}

static tn_status global_pool_infer(InferCtx *c) {
    if (!rank_known(c, 0)) {
        set_unknown_rank(c, 0, -1);
        return TN_OK;
    }
    Shape y = *in_shape(c, 0);
    if (y.rank < 3)
        return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 3 or more are wanted", IN_NAME(c, 0), y.rank);
    for (int d = 2; d < y.rank; d++) y.dims[d] = 1;
    set_shape(c, 0, &y);
    return TN_OK;
}

static double pool_flops(const Node *node, const Shape *in, const Shape *out) {
    (void)in;
    IntList kernel = attr_ints(node, "kernel_shape");
    double n = 1;
    for (int d = 0; d < out->rank; d++) n *= (double)out->dims[d];
    for (size_t d = 0; d < kernel.n; d++) n *= (double)kernel.data[d];
    return n;
}

static double global_pool_flops(const Node *node, const Shape *in, const Shape *out) {
    (void)node, (void)out;
    double n = 1;
    for (int d = 0; d < in->rank; d++) n *= (double)in->dims[d];
    return n;
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

static void pool_sizes(const Tensor *x, const Tensor *y, Pooling *pool) {
    pool->planes = x->dims[0] * x->dims[1];
    pool->in_plane = pool->out_plane = 1;
    for (int d = 0; d < x->rank - 2; d++) {
        pool->in_plane *= pool->in[d] = x->dims[2 + d];
        pool->out_plane *= pool->out[d] = y->dims[2 + d];
    }
}

tn_status pool_read(const KernelCtx *c, PoolKind kind, const Tensor *x, const Tensor *y, Pooling *pool) {
    *pool = (Pooling){.kind = kind, .p = kind == POOL_LP ? attr_int(c->node, "p") : 1};
    pool->count_padding = kind == POOL_AVERAGE && attr_int(c->node, "count_include_pad") != 0;
    pool->column_major = kind == POOL_MAX && attr_int(c->node, "storage_order") != 0;
    TRY(window_for_kernel(c, NULL, x, y, &pool->window));
    pool_sizes(x, y, pool);
    return TN_OK;
}

/* One window that is the whole plane. */
static void pool_whole(PoolKind kind, const Tensor *x, const Tensor *y, Pooling *pool) {
    *pool = (Pooling){.kind = kind, .window.rank = x->rank - 2};
    pool_sizes(x, y, pool);
    for (int d = 0; d < pool->window.rank; d++) {
        pool->window.kernel[d] = pool->in[d];
        pool->window.stride[d] = pool->window.dilation[d] = 1;
    }
}

/* The taps [lo, hi) of a window that begins at `start` which lie in [0, size). */
static void taps_inside(int64_t start, int64_t dilation, int64_t kernel, int64_t size, int64_t *lo, int64_t *hi) {
    *lo = start < 0 ? (-start + dilation - 1) / dilation : 0;
    *hi = size > start ? min_i64(kernel, (size - 1 - start) / dilation + 1) : 0;
    if (*lo > *hi) *lo = *hi;
}

/* The place of an element in its plane when the first dimension runs fastest. */
static int64_t column_major_place(int rank, const int64_t *dims, int64_t place) {
    int64_t index[TN_MAX_RANK], out = 0;
    for (int d = rank - 1; d >= 0; d--) index[d] = place % dims[d], place /= dims[d];
    for (int d = rank - 1; d >= 0; d--) out = out * dims[d] + index[d];
    return out;
}

/* Taps inside one window, dimension by dimension, and how many elements an average divides by. */
typedef struct Inside {
    int64_t start[TN_MAX_RANK], lo[TN_MAX_RANK], hi[TN_MAX_RANK];
    int64_t taps, divisor;
} Inside;

static void find_inside(const Pooling *pool, const int64_t *position, Inside *in) {
    const Window *w = &pool->window;
    in->taps = in->divisor = 1;
    for (int d = 0; d < w->rank; d++) {
        in->start[d] = position[d] * w->stride[d] - w->begin[d];
        taps_inside(in->start[d], w->dilation[d], w->kernel[d], pool->in[d], &in->lo[d], &in->hi[d]);
        in->taps *= in->hi[d] - in->lo[d];
        /* A window that hangs over the padding too (ceil_mode) counts the padding that there is, and no more. */
        int64_t lo, hi;
        taps_inside(in->start[d] + w->begin[d], w->dilation[d], w->kernel[d], pool->in[d] + w->begin[d] + w->end[d],
                    &lo, &hi);
        in->divisor *= hi - lo;
    }
    if (!pool->count_padding) in->divisor = in->taps;
}

#define BODY "ops/pool_body.h"
#include "ops/each_float_int.h"

/* 8-bit integers are exact in floats. */
static tn_status max_pool_reference(KernelCtx *c) { return RUN_FLOAT(c, max_pool); }
static tn_status average_pool_reference(KernelCtx *c) { return RUN_FLOAT(c, average_pool); }
static tn_status lp_pool_reference(KernelCtx *c) { return RUN_FLOAT(c, lp_pool); }
static tn_status global_max_pool_reference(KernelCtx *c) { return RUN_FLOAT(c, global_max_pool); }
static tn_status global_average_pool_reference(KernelCtx *c) { return RUN_FLOAT(c, global_average_pool); }
static tn_status global_lp_pool_reference(KernelCtx *c) { return RUN_FLOAT(c, global_lp_pool); }

/* ---- schemas ------------------------------------------------------------------------------------------------- */

#define POOL_ATTRS                                                                               \
    {"auto_pad", ATTR_STRING, .s = "NOTSET"}, {"ceil_mode", ATTR_INT}, {"dilations", ATTR_INTS}, \
        {"kernel_shape", ATTR_INTS, ATTR_REQUIRED}, {"pads", ATTR_INTS}, {                       \
        "strides", ATTR_INTS                                                                     \
    }
#define MAX_POOL_TYPES (TS_FLOAT | TS(TN_I8) | TS(TN_U8))
#define FLOAT_TO_FLOAT .inputs = OPERANDS({"X", TS_FLOAT, 'T'}), .outputs = OPERANDS({"Y", TS_FLOAT, 'T'})

const OpSchema op_MaxPool = {
    .name = "MaxPool",
    .summary = "Largest element of each window, and where it was (ONNX 22)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"X", MAX_POOL_TYPES, 'T'}),
    .outputs = OPERANDS({"Y", MAX_POOL_TYPES, 'T'}, {"Indices", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES(POOL_ATTRS, {"storage_order", ATTR_INT}),
    .infer = pool_infer,
    .reference = max_pool_reference,
    .flops = pool_flops,
    .lower = lower_max_pool,
    .lowering = "windows as a strided reading, ReduceMax",
};

const OpSchema op_AveragePool = {
    .name = "AveragePool",
    .summary = "Mean of each window (ONNX 22)",
    .kind = OP_COMPOSITE,
    FLOAT_TO_FLOAT,
    .attrs = ATTRIBUTES(POOL_ATTRS, {"count_include_pad", ATTR_INT}),
    .infer = pool_infer,
    .reference = average_pool_reference,
    .flops = pool_flops,
    .lower = lower_average_pool,
    .lowering = "windows as a strided reading, ReduceSum",
};

const OpSchema op_LpPool = {
    .name = "LpPool",
    .summary = "p-norm of each window (ONNX 22)",
    .kind = OP_COMPOSITE,
    FLOAT_TO_FLOAT,
    .attrs = ATTRIBUTES(POOL_ATTRS, {"p", ATTR_INT, .i = 2}),
    .infer = lp_pool_infer,
    .reference = lp_pool_reference,
    .flops = pool_flops,
    .lower = lower_lp_pool,
    .lowering = "windows as a strided reading, ReduceSum of powers",
};

const OpSchema op_GlobalMaxPool = {
    .name = "GlobalMaxPool",
    .summary = "Largest element of each channel (ONNX 22)",
    .kind = OP_COMPOSITE,
    FLOAT_TO_FLOAT,
    .infer = global_pool_infer,
    .reference = global_max_pool_reference,
    .flops = global_pool_flops,
};

const OpSchema op_GlobalAveragePool = {
    .name = "GlobalAveragePool",
    .summary = "Mean of each channel (ONNX 22)",
    .kind = OP_COMPOSITE,
    FLOAT_TO_FLOAT,
    .infer = global_pool_infer,
    .reference = global_average_pool_reference,
    .flops = global_pool_flops,
};

const OpSchema op_GlobalLpPool = {
    .name = "GlobalLpPool",
    .summary = "p-norm of each channel (ONNX 22)",
    .kind = OP_COMPOSITE,
    FLOAT_TO_FLOAT,
    .attrs = ATTRIBUTES({"p", ATTR_INT, .i = 2}),
    .infer = global_pool_infer,
    .reference = global_lp_pool_reference,
    .flops = global_pool_flops,
};
