/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft.NhwcConv (ONNX Runtime 1): Conv whose data and result have their channels last, its weights likewise:
   [M, k1, ..., C/group], as ONNX Runtime's converter writes them and its kernels read them. All it does is read Conv's
   operands and result in another order. */
#include "ops/lower_int.h"
#include "ops/nn_int.h"

static tn_status conv_infer(InferCtx *c) { return conv_infer_operands(c, 0, 1, 2); }
static tn_status nhwc_conv_infer(InferCtx *c) { return infer_channels_last(c, 2, conv_infer); }
static tn_status nhwc_conv_reference(KernelCtx *c) { return run_channels_last(c, 2, conv_reference); }

const OpSchema op_ms_NhwcConv = {
    .domain = "com.microsoft",
    .name = "NhwcConv",
    .kind = OP_COMPOSITE,
    .summary = "Convolution with channels last (ONNX Runtime 1)",
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"W", TS_FLOAT, 'T'}, {"B", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES(CONV_ATTRS),
    .infer = nhwc_conv_infer,
    .reference = nhwc_conv_reference,
    .flops = conv_flops,
    .lower = lower_nhwc_conv,
    .lowering = "Conv between transpositions",
};
