/* SPDX-License-Identifier: Apache-2.0 */
/* Trilu (ONNX 14): the upper or lower triangle of matrices, zero elsewhere. Small matrices with a known diagonal are a
   region a row. */
#include "ops/lower_int.h"
#include "ops/move_int.h"

#define MAX_ROWS 64

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    if (x->rank >= 0 && x->rank < 2) return fail(TN_SHAPE, "the operand has %d dimensions, fewer than 2", x->rank);
    TRY(expect_list(c, 1, 1));
    set_shape(c, 0, x);
    return TN_OK;
}

static tn_status diagonal(const Tensor *k, int64_t rows, int64_t columns, int64_t *out) {
    int n = 1;
    *out = 0;
    if (k) TRY(tensor_few_ints(k, "k", out, 1, &n));
    if (n != 1) return fail(TN_SHAPE, "k must have one element");
    *out = max_i64(-rows, min_i64(columns, *out)); /* beyond these nothing changes */
    return TN_OK;
}

/* What is kept of row i of all matrices. */
static Region row_box(const Node *node, const Tensor *x, const Tensor *y, int64_t i, int64_t k) {
    int row = x->rank - 2, column = x->rank - 1;
    int64_t columns = x->dims[column], cut = max_i64(0, min_i64(columns, i + k)), end = columns;
    Region r = region_dense(0, y->rank, y->dims);
    if (!attr_int(node, "upper")) {
        end = max_i64(0, min_i64(columns, i + k + 1));
        cut = 0;
    }
    for (int d = 0; d < x->rank; d++) r.src_stride[d] = x->strides[d];
    r.size[row] = 1;
    r.size[column] = end - cut;
    r.src_offset = i * x->strides[row] + cut * x->strides[column];
    r.dst_offset = i * columns + cut;
    return r;
}

static tn_status regions(RegionCtx *c) {
    const Tensor *x = c->in[0];
    int64_t rows = x->dims[x->rank - 2], k;
    c->declined = !region_contents_known(c, 1) || rows > MAX_ROWS;
    if (c->declined) return TN_OK;
    TRY(diagonal(region_has_input(c, 1) ? c->in[1] : NULL, rows, x->dims[x->rank - 1], &k));
    for (int64_t i = 0; i < rows; i++) {
        Region r = row_box(c->node, x, &c->out[0], i, k);
        TRY(add_region(c, 0, &r));
    }
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    int64_t rows = x->dims[x->rank - 2], k;
    RasterOperand source = {x->data, x->offset};
    TRY(diagonal(kernel_has_input(c, 1) ? c->in[1] : NULL, rows, x->dims[x->rank - 1], &k));
    if (tensor_count(y) == 0) return TN_OK;
    TRY(output_zero(c, 0));
    for (int64_t i = 0; i < rows; i++) {
        Region r = row_box(c->node, x, y, i, k);
        RegionList list = {.data = &r, .len = region_count(&r) > 0, .covers = true}; /* no fill: that is done */
        TRY(raster_run(&list, y->dtype, &source, y->data, y->offset, tensor_count(y), NULL, c->pool));
    }
    return TN_OK;
}

const OpSchema op_Trilu = {
    .name = "Trilu",
    .summary = "Trilu (ONNX 14): the upper or lower triangle of matrices",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR, 'T', 0}, {"k", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"upper", ATTR_INT, 0, 1, 0, NULL}),
    .infer = infer,
    .regions = regions,
    .reference = reference,
    .lower = lower_trilu,
    .lowering = "a choice by a mask where it is not known or large",
};
