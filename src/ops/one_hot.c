/* SPDX-License-Identifier: Apache-2.0 */
/* OneHot (ONNX 28): `on` where an added axis is at the index, `off` elsewhere. */
#include "ops/lower_int.h"
#include "ops/move_int.h"

enum { INDICES, DEPTH, VALUES };

static tn_status read_depth(const InferCtx *c, Dim *depth) {
    int n;
    *depth = DIM_UNKNOWN;
    const Tensor *t = c->in[DEPTH].value;
    if (t && dtype_is_float(t->dtype) && t->data && tensor_count(t) == 1) {
        double d;
        load_f64(&d, t->dtype, t->data, t->offset, 1, 1);
        if (!(d >= 0 && d < 9e15)) return fail(TN_OUT_OF_RANGE, "depth is %g", d);
        *depth = (Dim)d;
    } else if (in_content(c, DEPTH, depth, 1, &n)) {
        if (n != 1) return fail(TN_SHAPE, "depth must have one element");
        if (dim_is_const(*depth) && *depth < 0) return fail(TN_OUT_OF_RANGE, "depth is %lld", (long long)*depth);
    }
    return TN_OK;
}

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, INDICES), *values = in_shape(c, VALUES);
    int axis;
    Dim depth;
    TRY(expect_list(c, DEPTH, 1));
    TRY(read_depth(c, &depth));
    if (values->rank >= 0 && (values->rank != 1 || (dim_is_const(values->dims[0]) && values->dims[0] != 2)))
        return fail(TN_SHAPE, "values must have two elements");
    if (x->rank < 0) return TN_OK;
    if (x->rank == TN_MAX_RANK) return fail(TN_LIMIT, "the result would have more than %d dimensions", TN_MAX_RANK);
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank + 1, "axis", &axis));
    Shape y = {.rank = x->rank + 1};
    for (int k = 0, from = 0; k < y.rank; k++) y.dims[k] = k == axis ? depth : x->dims[from++];
    set_shape(c, 0, &y);
    return TN_OK;
}

/* Indices as integers, fractions cut off. What no integer can hold is out of range of any depth. */
static tn_status read_indices(KernelCtx *c, const int64_t **out) {
    if (!dtype_is_float(c->in[INDICES]->dtype)) return dense_i64(c, INDICES, out);
    int64_t n = tensor_count(c->in[INDICES]), *index = kernel_scratch(c, int64_t, (size_t)max_i64(n, 1));
    const double *x;
    if (!index) return TN_OUT_OF_MEMORY;
    TRY(dense_f64(c, INDICES, &x));
    for (int64_t k = 0; k < n; k++) index[k] = x[k] > -9e18 && x[k] < 9e18 ? (int64_t)x[k] : INT64_MIN;
    *out = index;
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[INDICES], *values = c->in[VALUES], *y = &c->out[0];
    int64_t count = tensor_count(y), inner = 1, n = tensor_count(x);
    const int64_t *index;
    int axis;
    if (count == 0) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), y->rank, "axis", &axis));
    TRY(read_indices(c, &index));
    int64_t depth = y->dims[axis];
    bool is_u64 = x->dtype == TN_U64;
    for (int k = axis + 1; k < y->rank; k++) inner *= y->dims[k];
    copy_elements(y->dtype, y->data, y->offset, 1, values->data, values->offset, 0, count);
    for (int64_t k = 0; k < n; k++) {
        int64_t at = index[k];
        if (at < 0 && is_u64) continue; /* beyond 2^63 */
        if (at < -depth || at >= depth) continue;
        if (at < 0) at += depth;
        int64_t to = (k / inner * depth + at) * inner + k % inner;
        copy_run(y->dtype, y->data, y->offset + to, values->data, values->offset + values->strides[0], 1);
    }
    return TN_OK;
}

const OpSchema op_OneHot = {
    .name = "OneHot",
    .summary = "OneHot (ONNX 28): one-hot vectors along an added axis",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"indices", TS_NUMERIC, 0, 0}, {"depth", TS_NUMERIC, 0, 0}, {"values", TS_ALL_TENSOR, 'T', 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, -1, 0, NULL}),
    .content_inputs = 1 << DEPTH,
    .infer = infer,
    .reference = reference,
    .lower = lower_one_hot,
    .lowering = "a comparison with counting numbers",
};
