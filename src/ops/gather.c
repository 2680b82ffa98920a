/* SPDX-License-Identifier: Apache-2.0 */
/* Gather (ONNX 13): slices of an axis by index. A few runs of indices that are known are regions; else a kernel copies
   slice by slice. */
#include "ops/lower_int.h"
#include "ops/move_int.h"

#define MAX_RUNS 256
#define MAX_SCANNED 65536

static void gather_content(InferCtx *c) {
    Dim data[CONTENT_MAX], out[CONTENT_MAX];
    int64_t index[CONTENT_MAX], at;
    int n_data, n;
    if (in_shape(c, 0)->rank != 1 || !in_content(c, 0, data, CONTENT_MAX, &n_data)) return;
    if (!in_ints(c, 1, index, CONTENT_MAX, &n)) return;
    for (int k = 0; k < n; k++) {
        at = index[k] < 0 ? index[k] + n_data : index[k];
        if (at < 0 || at >= n_data) return; /* the run will say so */
        out[k] = data[at];
    }
    set_content(c, 0, out, n);
}

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), *index = in_shape(c, 1);
    int axis;
    if (x->rank < 0) return TN_OK;
    if (x->rank == 0) return fail(TN_SHAPE, "data must have at least one dimension");
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    if (index->rank < 0) return TN_OK;
    Shape y = {.rank = x->rank + index->rank - 1};
    if (y.rank > TN_MAX_RANK)
        return fail(TN_LIMIT, "the result would have %d dimensions, more than %d", y.rank, TN_MAX_RANK);
    int k = 0;
    for (int i = 0; i < axis; i++) y.dims[k++] = x->dims[i];
    for (int i = 0; i < index->rank; i++) y.dims[k++] = index->dims[i];
    for (int i = axis + 1; i < x->rank; i++) y.dims[k++] = x->dims[i];
    set_shape(c, 0, &y);
    gather_content(c);
    return TN_OK;
}

static tn_status normalise(int64_t *index, int64_t n, int64_t size, int axis) {
    for (int64_t k = 0; k < n; k++) TRY(normal_index(index[k], size, axis, &index[k]));
    return TN_OK;
}

/* The result as (dims before the axis, index, dims behind it): one region for each run of the indices. */
static tn_status regions(RegionCtx *c) {
    const Tensor *x = c->in[0];
    int axis;
    int64_t *index, n, sizes[TN_MAX_RANK];
    c->declined = !region_contents_known(c, 1) || tensor_count(c->in[1]) > MAX_SCANNED;
    if (c->declined) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    TRY(tensor_all_ints(c->in[1], c->lists[0].arena, &index, &n));
    TRY(normalise(index, n, x->dims[axis], axis));
    memcpy(sizes, x->dims, sizeof sizes);
    sizes[axis] = n;
    Region whole = region_dense(0, x->rank, sizes);
    for (int k = 0; k < x->rank; k++) whole.src_stride[k] = x->strides[k];
    c->lists[0].covers = true;
    if (tensor_count(&c->out[0]) == 0) return TN_OK;
    for (int64_t k = 0, runs = 0; k < n; runs++) {
        IndexRun run = index_run(index + k, n - k);
        Region r = whole;
        if (runs == MAX_RUNS) {
            c->declined = true;
            c->lists[0].len = 0;
            return TN_OK;
        }
        r.size[axis] = run.n;
        r.src_offset = run.first * x->strides[axis];
        r.src_stride[axis] = run.step * x->strides[axis];
        r.dst_offset = k * whole.dst_stride[axis];
        TRY(add_region(c, 0, &r));
        k += run.n;
    }
    return TN_OK;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

typedef struct Job {
    tn_dtype dtype;
    const void *from;
    void *to;
    int64_t to_offset, size, n, inner;
    const int64_t *index;
} Job;

static void copy_rows(void *arg, int64_t begin, int64_t end) {
    const Job *j = arg;
    for (int64_t row = begin; row < end; row++) {
        int64_t outer = row / j->n, at = j->index[row % j->n];
        copy_run(j->dtype, j->to, j->to_offset + row * j->inner, j->from, (outer * j->size + at) * j->inner, j->inner);
    }
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    int axis;
    int64_t *index, n;
    if (tensor_count(y) == 0 && tensor_count(c->in[1]) == 0) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    TRY(tensor_all_ints(c->in[1], c->scratch, &index, &n));
    TRY(normalise(index, n, x->dims[axis], axis));
    if (tensor_count(y) == 0) return TN_OK;
    Job job = {.dtype = x->dtype, .to = y->data, .to_offset = y->offset, .size = x->dims[axis], .n = n, .index = index};
    int64_t outer = 1;
    job.inner = 1;
    for (int k = 0; k < axis; k++) outer *= x->dims[k];
    for (int k = axis + 1; k < x->rank; k++) job.inner *= x->dims[k];
    TRY(dense_bytes(c, 0, &job.from));
    /* Rows of sub-byte elements may share a byte, so one thread writes them. */
    Pool *pool = dtype_size(x->dtype) ? c->pool : NULL;
    parallel_for(pool, outer * n, 20 + 0.2 * (double)job.inner * dtype_size(x->dtype), copy_rows, &job);
    return TN_OK;
}

const OpSchema op_Gather = {
    .name = "Gather",
    .summary = "Gather (ONNX 13): slices of an axis by index",
    .kind = OP_DEFORMABLE,
    .flags = OP_LOOPS,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"indices", TS(TN_I32) | TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 0, 0, NULL}),
    .infer = infer,
    .regions = regions,
    .reference = reference,
    .lower = lower_gather,
    .lowering = "tn.Loop where indices are not known",
};
