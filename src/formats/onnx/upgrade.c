/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what changed between opsets. Rows of one op are applied from old to new, each for models of an opset
   below its number; what they leave has today's meaning. An op that is not here means today what it meant at first,
   apart from element types and attributes that were added with a default that says the same. */
#include "formats/onnx/upgrade_int.h"

static const UpgradeRow rows[] = {
    /* arithmetic: broadcasting was asked for, with an axis, until 7 */
    {"Add", 7, upgrade_broadcast},
    {"And", 7, upgrade_broadcast},
    {"Div", 7, upgrade_broadcast},
    {"Equal", 7, upgrade_broadcast},
    {"Greater", 7, upgrade_broadcast},
    {"Less", 7, upgrade_broadcast},
    {"Mul", 7, upgrade_broadcast},
    {"Or", 7, upgrade_broadcast},
    {"Pow", 7, upgrade_broadcast},
    {"Sub", 7, upgrade_broadcast},
    {"Xor", 7, upgrade_broadcast},
    {"PRelu", 7, upgrade_prelu},
    {"Gemm", 7, upgrade_gemm},
    {"Cast", 6, upgrade_cast},
    {"Clip", 11, upgrade_clip},
    {"Selu", 6, upgrade_selu},
    {"Affine", ONNX_OPSET_ANY, upgrade_affine},
    {"ImageScaler", ONNX_OPSET_ANY, upgrade_image_scaler},
    {"ParametricSoftplus", ONNX_OPSET_ANY, upgrade_parametric_softplus},
    {"ScaledTanh", ONNX_OPSET_ANY, upgrade_scaled_tanh},

    /* shapes: attributes became operands */
    {"Reshape", 5, upgrade_reshape},
    {"Concat", 4, upgrade_concat},
    {"Pad", 11, upgrade_pad},
    {"Slice", 10, upgrade_slice},
    {"Split", 2, upgrade_split_1},
    {"Split", 13, upgrade_split_sizes},
    {"Split", ONNX_OPSET_ANY, upgrade_split_count},
    {"Squeeze", 13, upgrade_axes},
    {"Unsqueeze", 13, upgrade_axes},
    {"Tile", 6, upgrade_tile},
    {"TopK", 10, upgrade_topk},
    {"Scatter", ONNX_OPSET_ANY, upgrade_scatter},
    {"ConstantFill", ONNX_OPSET_ANY, upgrade_constant_fill},
    {"ReduceL1", 18, upgrade_axes},
    {"ReduceL2", 18, upgrade_axes},
    {"ReduceLogSum", 18, upgrade_axes},
    {"ReduceLogSumExp", 18, upgrade_axes},
    {"ReduceMax", 18, upgrade_axes},
    {"ReduceMean", 18, upgrade_axes},
    {"ReduceMin", 18, upgrade_axes},
    {"ReduceProd", 18, upgrade_axes},
    {"ReduceSum", 13, upgrade_axes},
    {"ReduceSumSquare", 18, upgrade_axes},

    /* networks */
    {"Softmax", 13, upgrade_softmax},
    {"LogSoftmax", 13, upgrade_softmax},
    {"Hardmax", 13, upgrade_softmax},
    {"Dropout", 12, upgrade_dropout},
    {"BatchNormalization", 14, upgrade_batch_norm},
    {"GroupNormalization", 21, upgrade_group_norm},
    {"GlobalLpPool", 2, upgrade_lp_pool},
    {"LpPool", 2, upgrade_lp_pool},
    {"RNN", 7, upgrade_recurrent},
    {"GRU", 7, upgrade_recurrent},
    {"LSTM", 7, upgrade_recurrent},
    {"DFT", 20, upgrade_dft},

    /* images */
    {"Upsample", ONNX_OPSET_ANY, upgrade_upsample},
    {"Resize", 11, upgrade_resize_10},
    {"Resize", ONNX_OPSET_ANY, upgrade_resize},
    {"RoiAlign", 16, upgrade_roi_align},
    {"GridSample", 20, upgrade_grid_sample},

    {"Scan", 9, upgrade_scan},
};

bool onnx_is_upgraded(Str type) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].below == ONNX_OPSET_ANY && str_equal(type, str_of(rows[i].op))) return true;
    }
    return false;
}

tn_status onnx_upgrade(Draft *d) {
    Str type = d->type; /* an upgrade may give another */
    /* Said which inputs could be overwritten; nothing reads it. */
    if (d->opset < 6) onnx_remove_attr(d, "consumed_inputs");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (d->opset < rows[i].below && !d->results && str_equal(type, str_of(rows[i].op))) TRY(rows[i].fn(d));
    }
    return TN_OK;
}
