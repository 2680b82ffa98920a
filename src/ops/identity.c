/* SPDX-License-Identifier: Apache-2.0 */
/* Identity (ONNX 25): its operand. */
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    set_like(c, 0, 0);
    pass_content(c, 0, 0);
    return TN_OK;
}

static tn_status regions(RegionCtx *c) { return region_whole(c, 0, 0); }

/* Sequences and optionals are shared. */
static tn_status reference(KernelCtx *c) {
    Tensor kept;
    if (c->in[0]->kind == TYPE_TENSOR) return run_as_regions(c);
    TRY(tensor_keep(c->context, c->in[0], &kept));
    return kernel_give_output(c, 0, &kept);
}

const OpSchema op_Identity = {
    .name = "Identity",
    .summary = "Identity (ONNX 25): its operand",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"input", TS_ANY, 'T', 0}),
    .outputs = OPERANDS({"output", TS_ANY, 'T', 0}),
    .infer = infer,
    .regions = regions,
    .reference = reference,
};
