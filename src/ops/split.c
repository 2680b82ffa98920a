/* SPDX-License-Identifier: Apache-2.0 */
/* Split (ONNX 18): parts along an axis, of given sizes or as equal as they go. */
#include "ops/move_int.h"

/* Sizes of the parts when no operand gives them: ceil(dim / n) each, the last one smaller. */
static tn_status even_sizes(const Node *node, DimTable *dims, Dim dim, int n, Dim *sizes) {
    if (attr_present(node, "num_outputs") && attr_int(node, "num_outputs") != n)
        return fail(TN_INVALID_ARGUMENT, "num_outputs is %lld, but the node has %d results",
                    (long long)attr_int(node, "num_outputs"), n);
    Dim part = dim_ceildiv(dims, dim, n);
    for (int i = 0; i < n; i++) sizes[i] = part;
    sizes[n - 1] = dim_sub(dims, dim, dim_mul(dims, part, n - 1));
    if (dim_is_const(sizes[n - 1]) && sizes[n - 1] < 0)
        return fail(TN_SHAPE, "dimension of size %lld cannot be split into %d parts of %lld", (long long)dim, n,
                    (long long)part);
    return TN_OK;
}

static tn_status given_sizes(InferCtx *c, Dim dim, Dim *sizes) {
    int n;
    Dim total = 0;
    int64_t length = known_length(c, 1);
    if (length >= 0 && length != c->n_out)
        return fail(TN_SHAPE, "split has %lld sizes for %d results", (long long)length, c->n_out);
    if (!in_content(c, 1, sizes, OP_MAX_OUTPUTS, &n)) {
        for (int i = 0; i < c->n_out; i++) sizes[i] = c->n_out == 1 ? dim : DIM_UNKNOWN;
        return TN_OK;
    }
    if (n != c->n_out) return fail(TN_SHAPE, "split has %d sizes for %d results", n, c->n_out);
    for (int i = 0; i < n; i++) {
        if (dim_is_const(sizes[i]) && sizes[i] < 0)
            return fail(TN_SHAPE, "split has the size %lld", (long long)sizes[i]);
        total = dim_add(c->dims, total, sizes[i]);
    }
    if (dim_is_const(total) && dim_is_const(dim) && total != dim)
        return fail(TN_SHAPE, "the sizes in split add up to %lld, but the dimension has %lld", (long long)total,
                    (long long)dim);
    return TN_OK;
}

static void split_content(InferCtx *c, const Dim *sizes) {
    Dim content[CONTENT_MAX];
    int n;
    if (in_shape(c, 0)->rank != 1 || !in_content(c, 0, content, CONTENT_MAX, &n)) return;
    int64_t at = 0;
    for (int i = 0; i < c->n_out; i++) {
        if (!dim_is_const(sizes[i]) || sizes[i] > n - at) return;
        set_content(c, i, content + at, (int)sizes[i]);
        at += sizes[i];
    }
}

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Dim sizes[OP_MAX_OUTPUTS];
    int axis;
    if (c->n_out < 1 || c->n_out > OP_MAX_OUTPUTS)
        return fail(TN_LIMIT, "%d results, more than %d", c->n_out, OP_MAX_OUTPUTS);
    TRY(expect_list(c, 1, c->n_out));
    if (x->rank < 0) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    if (has_input(c, 1)) TRY(given_sizes(c, x->dims[axis], sizes));
    else TRY(even_sizes(c->node, c->dims, x->dims[axis], c->n_out, sizes));
    for (int i = 0; i < c->n_out; i++) {
        Shape y = *x;
        y.dims[axis] = sizes[i];
        set_shape(c, i, &y);
    }
    split_content(c, sizes);
    return TN_OK;
}

/* The results' sizes say it all. */
static tn_status regions(RegionCtx *c) {
    const Tensor *x = c->in[0];
    int axis;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    int64_t at = 0;
    for (int i = 0; i < c->n_out; i++) {
        if (c->out[i].dims[axis] > x->dims[axis] - at) return fail(TN_SHAPE, "the results are larger than the operand");
        Region r = region_over(c, i, 0);
        for (int k = 0; k < x->rank; k++) r.src_stride[k] = x->strides[k];
        r.src_offset = at * x->strides[axis];
        at += c->out[i].dims[axis];
        c->lists[i].covers = true;
        TRY(add_region(c, i, &r));
    }
    return TN_OK;
}

const OpSchema op_Split = {
    .name = "Split",
    .summary = "Split (ONNX 18): parts along an axis",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR, 'T', 0}, {"split", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"outputs", TS_ALL_TENSOR, 'T', OPERAND_VARIADIC}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 0, 0, NULL}, {"num_outputs", ATTR_INT, 0, 0, 0, NULL}),
    .content_inputs = 1 << 1,
    .infer = infer,
    .regions = regions,
};
