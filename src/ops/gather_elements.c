/* SPDX-License-Identifier: Apache-2.0 */
/* GatherElements (ONNX 13): y[i][j][k] = x[i][index[i][j][k]][k], for axis 1. */
#include "ops/lower_int.h"
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), *index = in_shape(c, 1);
    int axis;
    set_shape(c, 0, index);
    if (x->rank < 0) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    if (index->rank < 0) {
        set_unknown_rank(c, 0, x->rank);
        return TN_OK;
    }
    if (x->rank != index->rank)
        return fail(TN_SHAPE, "data has %d dimensions, but indices has %d", x->rank, index->rank);
    for (int k = 0; k < x->rank; k++)
        if (k != axis && dim_is_const(x->dims[k]) && dim_is_const(index->dims[k]) && index->dims[k] > x->dims[k])
            return fail(TN_SHAPE, "dimension %d of indices is %lld, but data has only %lld there", k,
                        (long long)index->dims[k], (long long)x->dims[k]);
    return TN_OK;
}

typedef struct Gathering {
    const Tensor *x, *y;
    const int64_t *index;
    int axis;
    int64_t size, step,
        across;  /* of the axis; the operand's stride along rows of the result, 0 where they run along the axis */
    int64_t row; /* the length of these */
    atomic_bool outside; /* an index was */
} Gathering;

/* One row: places in the operand are looked up, and checked, as they come. */
#define GATHER_LOOP(place)                                \
    for (int64_t i = 0; i < g->row; i++) {                \
        int64_t k = index[i] + (index[i] < 0 ? size : 0); \
        if ((uint64_t)k >= (uint64_t)size) return false;  \
        y[i] = x[place];                                  \
    }
#define GATHER_ROW(bits)                                                      \
    static bool gather_##bits(const Gathering *g, int64_t from, int64_t to) { \
        const uint##bits##_t *x = (const uint##bits##_t *)g->x->data + from;  \
        uint##bits##_t *y = (uint##bits##_t *)g->y->data + g->y->offset + to; \
        const int64_t *index = g->index + to, size = g->size, step = g->step; \
        if (g->across == 0 && step == 1) GATHER_LOOP(k)                       \
        else GATHER_LOOP(i * g->across + k * step)                            \
        return true;                                                          \
    }
GATHER_ROW(8)
GATHER_ROW(16)
GATHER_ROW(32)
GATHER_ROW(64)

static bool gather_any(const Gathering *g, int64_t from, int64_t to) {
    for (int64_t i = 0; i < g->row; i++) {
        int64_t k = g->index[to + i] + (g->index[to + i] < 0 ? g->size : 0);
        if ((uint64_t)k >= (uint64_t)g->size) return false;
        copy_run(g->x->dtype, g->y->data, g->y->offset + to + i, g->x->data, from + i * g->across + k * g->step, 1);
    }
    return true;
}

static bool gather_row(const Gathering *g, int64_t from, int64_t to) {
    switch (g->x->dtype == TN_STRING ? 0 : dtype_size(g->x->dtype)) {
    case 1: return gather_8(g, from, to);
    case 2: return gather_16(g, from, to);
    case 4: return gather_32(g, from, to);
    case 8: return gather_64(g, from, to);
    default: return gather_any(g, from, to);
    }
}

static void gather_rows(void *arg, int64_t begin, int64_t end) {
    Gathering *g = arg;
    const Tensor *x = g->x, *y = g->y;
    int64_t at[TN_MAX_RANK], from = x->offset, left = begin;
    for (int d = y->rank - 2; d >= 0; d--) {
        at[d] = left % y->dims[d];
        left /= y->dims[d];
        if (d != g->axis) from += at[d] * x->strides[d];
    }
    for (int64_t row = begin; row < end; row++) {
        if (!gather_row(g, from, row * g->row)) atomic_store_explicit(&g->outside, true, memory_order_relaxed);
        for (int d = y->rank - 2; d >= 0; d--) {
            int64_t stride = d == g->axis ? 0 : x->strides[d];
            from += stride;
            if (++at[d] < y->dims[d]) break;
            from -= stride * y->dims[d];
            at[d] = 0;
        }
    }
}

/* Sub-byte elements share bytes, and strings are counted: these are for one thread. */
static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    Gathering g = {.x = x, .y = y, .row = y->rank > 0 ? y->dims[y->rank - 1] : 1};
    int64_t count = tensor_count(y), unused;
    if (count == 0) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &g.axis));
    TRY(dense_i64(c, 1, &g.index));
    g.size = x->dims[g.axis], g.step = x->strides[g.axis];
    g.across = g.axis == x->rank - 1 ? 0 : x->strides[x->rank - 1];
    atomic_init(&g.outside, false);
    if (x->dtype == TN_STRING || dtype_size(x->dtype) == 0) gather_rows(&g, 0, count / g.row);
    else TRY(kernel_parallel(c, count / g.row, 1.5 * (double)g.row + 5, gather_rows, &g));
    if (!atomic_load(&g.outside)) return TN_OK;
    for (int64_t n = 0; n < count; n++) TRY(normal_index(g.index[n], g.size, g.axis, &unused));
    return TN_OK;
}

const OpSchema op_GatherElements = {
    .name = "GatherElements",
    .summary = "GatherElements (ONNX 13): elements of an axis by index",
    .kind = OP_COMPOSITE,
    .flags = OP_LOOPS,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"indices", TS(TN_I32) | TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
    .lower = lower_gather_elements,
    .lowering = "tn.Loop; regions where indices are constants",
};
