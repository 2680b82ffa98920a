/* SPDX-License-Identifier: Apache-2.0 */
/* QLinearConcat (ONNX Runtime 1): 8-bit tensors of different scales joined along a dimension. */
#include "ops/lower_int.h"
#include "ops/qlinear_int.h"

/* Operands after the result's scale and zero point: tensor, scale, zero point, and so on. */
static tn_status check_triples(int n_in, int *parts) {
    if (n_in < 5 || (n_in - 2) % 3 != 0)
        return fail(TN_INVALID_MODEL, "has %d operands, wanted the result's scale and zero point, then three an input",
                    n_in);
    *parts = (n_in - 2) / 3;
    return TN_OK;
}

static tn_status concat_infer(InferCtx *c) {
    int parts, axis;
    TRY(check_triples(c->n_in, &parts));
    set_dtype(c, 0, in_dtype(c, 1));
    Shape s = *in_shape(c, 2);
    for (int k = 0; k < parts; k++)
        if (!rank_known(c, 2 + 3 * k)) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), s.rank, "axis", &axis));
    for (int k = 1; k < parts; k++) {
        const Shape *x = in_shape(c, 2 + 3 * k);
        if (x->rank != s.rank) return fail(TN_SHAPE, "the inputs must have as many dimensions as each other");
        for (int d = 0; d < s.rank; d++) {
            if (d == axis) s.dims[d] = dim_add(c->dims, s.dims[d], x->dims[d]);
            else TRY(dims_must_match(s.dims[d], x->dims[d], "sizes of the inputs", &s.dims[d]));
        }
    }
    set_shape(c, 0, &s);
    return TN_OK;
}

/* Input k's codes as the result's, into the columns from `at` on. */
static tn_status place(KernelCtx *c, int k, const Scale *y, int axis, int64_t at) {
    Scale x;
    const void *bytes;
    uint8_t table[256], *out = tensor_bytes(&c->out[0]);
    const Tensor *in = c->in[2 + 3 * k];
    TRY(read_scale(c, 3 + 3 * k, in->dtype, &x));
    TRY(dense_bytes(c, 2 + 3 * k, &bytes));
    for (int code = 0; code < 256; code++) table[code] = code_of(y, real_of(&x, (uint8_t)code));
    int64_t inner = 1, count = tensor_count(in);
    for (int d = axis + 1; d < in->rank; d++) inner *= in->dims[d];
    int64_t row = in->dims[axis] * inner, out_row = c->out[0].dims[axis] * inner;
    for (int64_t i = 0; i < count; i++)
        out[i / row * out_row + at * inner + i % row] = table[((const uint8_t *)bytes)[i]];
    return kernel_poll(c);
}

static tn_status concat_reference(KernelCtx *c) {
    int parts, axis;
    Scale y;
    TRY(check_triples(c->n_in, &parts));
    TRY(normal_axis(attr_int(c->node, "axis"), c->out[0].rank, "axis", &axis));
    TRY(read_scale(c, 0, c->out[0].dtype, &y));
    for (int64_t k = 0, at = 0; k < parts; k++) {
        TRY(place(c, (int)k, &y, axis, at));
        at += c->in[2 + 3 * k]->dims[axis];
    }
    return TN_OK;
}

const OpSchema op_ms_QLinearConcat = {
    .domain = "com.microsoft",
    .name = "QLinearConcat",
    .summary = "QLinearConcat (ONNX Runtime 1): 8-bit tensors of different scales joined along a dimension",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"Y_scale", TS(TN_F32), 0, 0}, {"Y_zero_point", BYTES, 'Q', 0},
                       {"inputs", BYTES | TS(TN_F32), 0, OPERAND_VARIADIC}),
    .outputs = OPERANDS({"Y", BYTES, 'Q', 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = concat_infer,
    .reference = concat_reference,
    .lower = lower_qlinear_concat,
    .lowering = "Concat of parts that are scaled alike",
};
