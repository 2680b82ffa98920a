/* SPDX-License-Identifier: Apache-2.0 */
/* GatherND (ONNX 13): slices by index tuples, within each entry of the batch. */
#include "ops/lower_int.h"
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), *index = in_shape(c, 1);
    int64_t batch = attr_int(c->node, "batch_dims");
    if (x->rank < 0 || index->rank < 0) return TN_OK;
    if (x->rank < 1 || index->rank < 1) return fail(TN_SHAPE, "data and indices must have at least one dimension");
    if (batch < 0 || batch >= x->rank || batch >= index->rank)
        return fail(TN_OUT_OF_RANGE, "batch_dims is %lld, for ranks %d and %d", (long long)batch, x->rank, index->rank);
    Dim same, tuple = index->dims[index->rank - 1];
    for (int k = 0; k < batch; k++) TRY(dims_must_match(x->dims[k], index->dims[k], "batch dimensions", &same));
    if (!dim_is_const(tuple)) return TN_OK;
    if (tuple < 1 || tuple > x->rank - batch)
        return fail(TN_SHAPE, "index tuples of %lld, for %d dimensions of data", (long long)tuple,
                    x->rank - (int)batch);
    Shape y = {.rank = index->rank - 1 + x->rank - (int)batch - (int)tuple};
    if (y.rank > TN_MAX_RANK) return fail(TN_LIMIT, "the result would have %d dimensions", y.rank);
    int n = 0;
    for (int k = 0; k < index->rank - 1; k++) y.dims[n++] = index->dims[k];
    for (int k = (int)batch + (int)tuple; k < x->rank; k++) y.dims[n++] = x->dims[k];
    set_shape(c, 0, &y);
    return TN_OK;
}

typedef struct Gathering {
    const Tensor *x, *y;
    const int64_t *index;
    const void *data;
    int batch, tuple;
    int64_t inner, per_batch, each; /* elements of a slice and of an entry of the batch; tuples of one */
    int64_t steps[TN_MAX_RANK];
    atomic_bool outside; /* an index was */
} Gathering;

/* Where the slice of tuple n begins; -1: nowhere. */
static int64_t place_of(const Gathering *g, int64_t n) {
    int64_t from = g->batch > 0 ? n / g->each * g->per_batch : 0;
    const int64_t *index = g->index + n * g->tuple;
    for (int k = 0; k < g->tuple; k++) {
        int64_t size = g->x->dims[g->batch + k], at = index[k] + (index[k] < 0 ? size : 0);
        if ((uint64_t)at >= (uint64_t)size) return -1;
        from += at * g->steps[k];
    }
    return from;
}

#define GATHER_ONE(bits)                                                                  \
    static void gather_##bits(Gathering *g, int64_t begin, int64_t end) {                 \
        const uint##bits##_t *x = g->data;                                                \
        uint##bits##_t *y = (uint##bits##_t *)g->y->data + g->y->offset;                  \
        for (int64_t n = begin; n < end; n++) {                                           \
            int64_t from = place_of(g, n);                                                \
            if (from < 0) atomic_store_explicit(&g->outside, true, memory_order_relaxed); \
            else y[n] = x[from];                                                          \
        }                                                                                 \
    }
GATHER_ONE(32)
GATHER_ONE(64)

static void gather_range(void *arg, int64_t begin, int64_t end) {
    Gathering *g = arg;
    int size = g->x->dtype == TN_STRING ? 0 : dtype_size(g->x->dtype);
    if (g->inner == 1 && size == 4) gather_32(g, begin, end);
    else if (g->inner == 1 && size == 8) gather_64(g, begin, end);
    else
        for (int64_t n = begin; n < end; n++) {
            int64_t from = place_of(g, n);
            if (from < 0) atomic_store_explicit(&g->outside, true, memory_order_relaxed);
            else copy_run(g->x->dtype, g->y->data, g->y->offset + n * g->inner, g->data, from, g->inner);
        }
}

/* Sub-byte elements share bytes, and strings are counted: these are for one thread. */
static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *t = c->in[1], *y = &c->out[0];
    Gathering g = {.x = x, .y = y, .inner = 1, .each = 1};
    int64_t tuples = 1, unused;
    if (tensor_count(t) == 0) return TN_OK;
    g.batch = (int)attr_int(c->node, "batch_dims"), g.tuple = (int)t->dims[t->rank - 1];
    TRY(dense_i64(c, 1, &g.index));
    TRY(dense_bytes(c, 0, &g.data));
    for (int k = g.batch + g.tuple; k < x->rank; k++) g.inner *= x->dims[k];
    g.per_batch = g.inner;
    for (int k = g.tuple - 1; k >= 0; k--) {
        g.steps[k] = g.per_batch;
        g.per_batch *= x->dims[g.batch + k];
    }
    for (int k = 0; k < t->rank - 1; k++) tuples *= t->dims[k];
    for (int k = g.batch; k < t->rank - 1; k++) g.each *= t->dims[k];
    atomic_init(&g.outside, false);
    if (x->dtype == TN_STRING || dtype_size(x->dtype) == 0) gather_range(&g, 0, tuples);
    else TRY(kernel_parallel(c, tuples, 3 * g.tuple + 0.1 * (double)g.inner, gather_range, &g));
    for (int64_t n = 0; n < tuples && atomic_load(&g.outside); n++)
        for (int k = 0; k < g.tuple; k++)
            TRY(normal_index(g.index[n * g.tuple + k], x->dims[g.batch + k], g.batch + k, &unused));
    return TN_OK;
}

const OpSchema op_GatherND = {
    .name = "GatherND",
    .summary = "GatherND (ONNX 13): slices by index tuples",
    .kind = OP_COMPOSITE,
    .flags = OP_LOOPS,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"indices", TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"batch_dims", ATTR_INT, 0, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
    .lower = lower_gather_nd,
    .lowering = "tn.Loop; regions where indices are constants",
};
