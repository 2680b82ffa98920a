/* SPDX-License-Identifier: Apache-2.0 */
/* PRelu (ONNX 16): x where positive, else slope * x. The slope broadcasts to x, never x to the slope. */
#include "ops/elementwise_int.h"

CHUNK2(prelu_f32, float, T, v > 0 ? v : v * w)
CHUNK2(prelu_f64, double, T, v > 0 ? v : v * w)
CHUNK2(prelu_i64, int64_t, T, v > 0 ? v : WRAP(bits(v) * bits(w)))
CHUNK1(prelu_u64, uint64_t, T, v) /* never negative */

static tn_status prelu_infer(InferCtx *c) {
    Shape s;
    const Shape *x = in_shape(c, 0);
    TRY(broadcast_shapes(c->dims, x, in_shape(c, 1), &s));
    set_like(c, 0, 0);
    if (s.rank < 0) return TN_OK;
    bool grows = s.rank > x->rank;
    for (int k = 0; k < s.rank && !grows; k++) grows = x->dims[k] == 1 && dim_is_const(s.dims[k]) && s.dims[k] != 1;
    return grows ? fail(TN_SHAPE, "the slope does not broadcast to the input's shape") : TN_OK;
}

static tn_status prelu_reference(KernelCtx *c) {
    const ElementwiseFns fns = {.f32 = prelu_f32, .f64 = prelu_f64, .i64 = prelu_i64, .u64 = prelu_u64};
    return run_by_class(c, 2, &fns, NULL, 1);
}

#define TYPES (TS_FLOAT | TS(TN_I32) | TS(TN_I64) | TS(TN_U32) | TS(TN_U64))

const OpSchema op_PRelu = {
    .name = "PRelu",
    .summary = "PRelu (ONNX 16): x where positive, else slope * x",
    .kind = OP_COMPOSITE,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"X", TYPES, 'T', 0}, {"slope", TYPES, 'T', 0}),
    .outputs = OPERANDS({"Y", TYPES, 'T', 0}),
    .infer = prelu_infer,
    .reference = prelu_reference,
};
