/* SPDX-License-Identifier: Apache-2.0 */
/* ConstantOfShape (ONNX 25): one value all over. There is nothing to read: the result is fill. */
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    const Tensor *value = attr_tensor(c->node, "value");
    Shape y = {0};
    int64_t length = known_length(c, 0), v = 0, count;
    if (value && tensor_count(value) != 1) return fail(TN_SHAPE, "value must have one element");
    set_dtype(c, 0, value ? value->dtype : TN_F32);
    TRY(expect_list(c, 0, TN_MAX_RANK));
    if (!in_content(c, 0, y.dims, TN_MAX_RANK, &y.rank)) {
        set_unknown_rank(c, 0, (int)length);
        return TN_OK;
    }
    for (int k = 0; k < y.rank; k++) {
        if (dim_is_const(y.dims[k]) && y.dims[k] < 0)
            return fail(TN_SHAPE, "input[%d] is %lld, no size", k, (long long)y.dims[k]);
        if (!dim_not_negative(c->dims, y.dims[k])) y.dims[k] = DIM_UNKNOWN;
    }
    set_shape(c, 0, &y);
    if (!value || y.rank > 1 || !shape_is_known(&y) || tensor_ints(value, &v, 1, &count) != TN_OK) {
        diag_clear();
        return TN_OK;
    }
    Dim content[CONTENT_MAX];
    int64_t n = y.rank ? y.dims[0] : 1;
    for (int64_t k = 0; k < n && k < CONTENT_MAX; k++) content[k] = dim_is_const(v) ? v : DIM_UNKNOWN;
    if (n <= CONTENT_MAX) set_content(c, 0, content, (int)n);
    return TN_OK;
}

static tn_status regions(RegionCtx *c) {
    const Tensor *value = attr_tensor(c->node, "value");
    if (!value) return TN_OK; /* zero */
    /* Alone, so that an element of less than a byte stands at the start. Of a string this borrows the reference. */
    void *element = arena_alloc(c->lists[0].arena, 16, 16);
    if (!element) return TN_OUT_OF_MEMORY;
    tn_dtype as = value->dtype == TN_STRING ? TN_U64 : value->dtype;
    copy_elements(as, element, 0, 1, value->data, value->offset, 1, 1);
    c->fill[0] = element;
    return TN_OK;
}

const OpSchema op_ConstantOfShape = {
    .name = "ConstantOfShape",
    .summary = "ConstantOfShape (ONNX 25): one value all over",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"input", TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"output", TS_ALL_TENSOR, 0, 0}),
    .attrs = ATTRIBUTES({"value", ATTR_TENSOR, 0, 0, 0, NULL}),
    .content_inputs = 1 << 0,
    .infer = infer,
    .regions = regions,
};
