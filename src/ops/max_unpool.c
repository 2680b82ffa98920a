/* SPDX-License-Identifier: Apache-2.0 */
/* MaxUnpool (ONNX 22): puts the elements that MaxPool kept back where they were, zeros elsewhere. */
#include "ops/move_int.h"
#include "ops/nn_int.h"

/* The size that MaxPool had, as far as attributes tell. */
static Dim unpooled(DimTable *dims, const Window *w, int d, Dim in) {
    Dim steps = dim_mul(dims, dim_sub(dims, in, 1), w->stride[d]);
    return dim_add(dims, steps, w->kernel[d] - w->begin[d] - w->end[d]);
}

static tn_status max_unpool_infer(InferCtx *c) {
    size_t kernel = attr_ints(c->node, "kernel_shape").n;
    Shape y = {.rank = (int32_t)kernel + 2};
    if (kernel == 0 || kernel > TN_MAX_RANK - 2)
        return fail(TN_INVALID_MODEL, "kernel_shape has %zu values; 1 to %d are wanted", kernel, TN_MAX_RANK - 2);
    TRY(want_rank(c, 0, y.rank));
    TRY(want_rank(c, 1, y.rank));
    for (int d = 0; d < y.rank; d++) {
        Dim same;
        TRY(dims_must_match(in_dim(c, 0, d), in_dim(c, 1, d), "X and I", &same));
    }
    Window w;
    TRY(window_read(c->node, y.rank - 2, &w));
    Dim asked[TN_MAX_RANK];
    int n = 0;
    if (has_input(c, 2)) {
        TRY(want_vector(c, 2, y.rank, false));
        if (!in_content(c, 2, asked, TN_MAX_RANK, &n)) {
            set_unknown_rank(c, 0, y.rank);
            return TN_OK;
        }
        if (n != y.rank) return fail(TN_SHAPE, "output_shape has %d values where %d are wanted", n, y.rank);
    }
    for (int d = 0; d < y.rank; d++) {
        y.dims[d] = n ? asked[d] : d < 2 ? in_dim(c, 0, d) : unpooled(c->dims, &w, d - 2, in_dim(c, 0, d));
        if (dim_is_const(y.dims[d]) && y.dims[d] < 0)
            return fail(TN_SHAPE, "size %lld in dimension %d of the result", (long long)y.dims[d], d);
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

/* Indices count in the shape that the attributes imply; that box is then cut to, or lies at the start of, the result. */
static tn_status max_unpool_reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    Window w;
    TRY(window_for_kernel(c, NULL, x, y, &w));
    int64_t dims[TN_MAX_RANK], total, size = dtype_size(x->dtype), n = tensor_count(x);
    for (int d = 0; d < x->rank; d++) {
        dims[d] = d < 2 ? x->dims[d] : unpooled(NULL, &w, d - 2, x->dims[d]);
        if (dims[d] < 0) return fail(TN_SHAPE, "size %lld in dimension %d before output_shape", (long long)dims[d], d);
    }
    TRY(checked_count(x->rank, dims, &total));
    const void *data;
    const int64_t *indices;
    TRY(dense_bytes(c, 0, &data));
    TRY(dense_i64(c, 1, &indices));
    char *out = tensor_bytes(y);
    if (tensor_count(y)) memset(out, 0, (size_t)(tensor_count(y) * size));
    bool same = memcmp(dims, y->dims, (size_t)x->rank * sizeof *dims) == 0; /* an index is the place then */
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = indices[k], offset = 0, step = 1;
        if (rest < 0 || rest >= total)
            return fail(TN_OUT_OF_RANGE, "index %lld is not in 0..%lld", (long long)rest, (long long)total - 1);
        if (same && size == 4) memcpy(out + 4 * rest, (const char *)data + 4 * k, 4);
        else if (same) copy_run(x->dtype, out, rest, data, k, 1);
        if (same) continue;
        bool inside = true;
        for (int d = x->rank - 1; d >= 0; d--) {
            int64_t i = rest % dims[d];
            rest /= dims[d];
            inside = inside && i < y->dims[d];
            offset += i * step;
            step *= y->dims[d];
        }
        if (inside) memcpy(out + offset * size, (const char *)data + k * size, (size_t)size);
    }
    return TN_OK;
}

const OpSchema op_MaxUnpool = {
    .name = "MaxUnpool",
    .summary = "Puts elements back where MaxPool found them (ONNX 22)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"I", TS(TN_I64)}, {"output_shape", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"kernel_shape", ATTR_INTS, ATTR_REQUIRED}, {"pads", ATTR_INTS}, {"strides", ATTR_INTS}),
    .content_inputs = 4,
    .infer = max_unpool_infer,
    .reference = max_unpool_reference,
};
