/* SPDX-License-Identifier: Apache-2.0 */
/* BitShift (ONNX 28): bits of integers moved up or down. Shifts that are negative or not less than the width leave what
   repeated shifting would: 0, or -1 of a negative number to the right. */
#include "ops/elementwise_int.h"

/* p->a: the width of the element type. Shifts are compared as unsigned, so that negative ones are too large. */
#define WIDE (bits((int64_t)w) >= (uint64_t)p->a)
CHUNK2(left_i64, int64_t, T, WIDE ? 0 : WRAP(bits(v) << w))
CHUNK2(right_i64, int64_t, T, v >> (WIDE ? 63 : w))
CHUNK2(right_u64, uint64_t, T, WIDE ? 0 : v >> w)

static tn_status bit_shift_infer(InferCtx *c) {
    if (!attr_string_is(c->node, "direction", "LEFT") && !attr_string_is(c->node, "direction", "RIGHT"))
        return fail(TN_INVALID_MODEL, "direction must be \"LEFT\" or \"RIGHT\"");
    return infer_broadcast(c);
}

static tn_status bit_shift_reference(KernelCtx *c) {
    const Params p = {.a = dtype_bits(c->in[0]->dtype)};
    const ElementwiseFns left = {.i64 = left_i64}, right = {.i64 = right_i64, .u64 = right_u64};
    return run_by_class(c, 2, attr_string_is(c->node, "direction", "LEFT") ? &left : &right, &p, 1);
}

const OpSchema op_BitShift = {
    .name = "BitShift",
    .summary = "BitShift (ONNX 28): bits moved up or down by as many places as another tensor says",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"X", TS_INT, 'T', 0}, {"Y", TS_INT, 'T', 0}),
    .outputs = OPERANDS({"Z", TS_INT, 'T', 0}),
    .attrs = ATTRIBUTES({"direction", ATTR_STRING, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = bit_shift_infer,
    .reference = bit_shift_reference,
};
