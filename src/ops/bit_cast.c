/* SPDX-License-Identifier: Apache-2.0 */
/* BitCast (ONNX 26): the same bits read as another element type of the same width. */
#include "ops/op_int.h"

static tn_status bit_cast_infer(InferCtx *c) {
    int64_t to = attr_int(c->node, "to");
    tn_dtype from = in_dtype(c, 0);
    set_shape(c, 0, in_shape(c, 0));
    if (to < 1 || to >= TN_DTYPE_END || to == TN_STRING || !dtype_bits((tn_dtype)to))
        return fail(TN_INVALID_MODEL, "to is %lld, no element type of fixed width", (long long)to);
    if (from && dtype_bits(from) != dtype_bits((tn_dtype)to))
        return fail(TN_INVALID_MODEL, "%s has %d bits, but %s has %d", dtype_name(from), dtype_bits(from),
                    dtype_name((tn_dtype)to), dtype_bits((tn_dtype)to));
    set_dtype(c, 0, (tn_dtype)to);
    return TN_OK;
}

static tn_status bit_cast_reference(KernelCtx *c) {
    const Tensor *y = &c->out[0];
    int64_t n = tensor_count(y);
    const void *x;
    if (n == 0) return TN_OK;
    TRY(dense_bytes(c, 0, &x));
    copy_elements(c->in[0]->dtype, y->data, y->offset, 1, x, 0, 1, n);
    return TN_OK;
}

#define TYPES (TS_ALL_TENSOR & ~TS(TN_STRING))

const OpSchema op_BitCast = {
    .name = "BitCast",
    .summary = "The same bits as another element type (ONNX 26)",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"input", TYPES}),
    .outputs = OPERANDS({"output", TYPES}),
    .attrs = ATTRIBUTES({"to", ATTR_INT, ATTR_REQUIRED}),
    .infer = bit_cast_infer,
    .reference = bit_cast_reference,
};
