# SPDX-License-Identifier: Apache-2.0
"""What the random instances leave out, and where onnxruntime is not asked, with reasons."""

# Ops without a generator.
NO_GENERATOR = {
    "If": "test_op_random_graphs.py",
    "Loop": "test_op_random_graphs.py",
    "Scan": "test_op_random_graphs.py",
    "SequenceMap": "test_op_random_graphs.py",
    "ai.onnx.preview.FlexAttention": "test_op_random_graphs.py",
    "tn.Const": "it has no operands: each row of constants makes some",
    "tn.Fused": "the IR's own, no model names it; unit/test_fused.c",
    "tn.Loop": "the IR's own, no model names it; what is lowered to it, by test_lowering.py",
    "tn.Raster": "the IR's own, no model names it; unit/test_geom_raster.c",
    "tn.View": "the IR's own, no model names it; unit/test_geom_region.c",
}

# (op, type parameter or attribute, values, why)
EXCEPTIONS = [
    ("Col2Im", "T", ("str", "bool"), "where blocks overlap they are added up; nothing says what sums of these are"),
    ("com.microsoft.Attention", "do_rotary", (1,), "'Rotary embedding is not supported in Attention CPU kernel.' (onnxruntime)"),
    ("com.microsoft.QAttention", "do_rotary", (1,), "the same, and nothing says which of its layouts"),
    ("com.microsoft.Attention", "past_present_share_buffer", (1,), "for onnxruntime's beam search, whose buffers it shares"),
    ("com.microsoft.QAttention", "past_present_share_buffer", (1,), "the same"),
    ("com.microsoft.MatMulNBits", "weight_prepacked", (1, 2), "layouts of CUDA kernels that nothing describes"),
]  # fmt: skip


def excepted(op, name):
    return {value for wanted, part, values, _ in EXCEPTIONS if wanted == op and part == name for value in values}


def at(r, name, *values):
    return r.attributes.get(name) in values


def own_activations(r, _):
    return any(name in r.attributes for name in ("activations", "activation_alpha", "activation_beta", "clip"))


def smaller_than_stride(r):
    kernel = r.attributes["kernel_shape"]
    return any(k < s for k, s in zip(kernel, r.attributes.get("strides", [1] * len(kernel))))


def base_values(r):
    return r.attributes.get("base_values", r.attributes.get("base_values_as_tensor", []))


def labels(r):
    return r.attributes.get("classlabels_int64s") or r.attributes.get("classlabels_strings")


def lacks_zero_point(_, operands):
    return len(operands) < 5 or any(a is None for a in operands)


# Where the specification's text is not what onnxruntime 1.32 does: op -> (test of an instance, why) ...
PEER_DIFFERS = {
    "ai.onnx.ml.CastMap": [
        (lambda r, _: at(r, "cast_to", "TO_STRING"), "it writes six decimals of a float, which are not its value"),
    ],
    "ai.onnx.ml.LinearClassifier": [
        (lambda r, _: at(r, "post_transform", "PROBIT"), "with one score for two classes it has 1 - p for the second, of which p "
         "is no probability but a quantile"),
    ],
    "ai.onnx.ml.SVMClassifier": [
        (lambda r, _: at(r, "post_transform", "PROBIT"), "the same"),
    ],
    "ai.onnx.ml.SVMRegressor": [
        (lambda r, _: at(r, "post_transform", "PROBIT"), "it does none: 'Indicates the transform to apply to the score.'"),
    ],
    "ai.onnx.ml.TreeEnsemble": [
        (lambda r, _: at(r, "post_transform", 1, 2), "it takes 1 for LOGISTIC: \"'SOFTMAX' (1), 'LOGISTIC' (2)\""),
        (lambda r, _: "membership_values" in r.attributes, "its sets hold small whole numbers only"),
    ],
    "ai.onnx.ml.TreeEnsembleClassifier": [
        (lambda r, _: len(set(r.attributes["class_ids"])) == 2 and len(labels(r)) == 2, "of two classes it names the one by "
         "the other's sign, or number 0 or 1 for its label: 'Returns the top class for each of N inputs'"),
        (lambda r, _: len(base_values(r)) == 2, "it adds the second one only: 'added to final class score'"),
    ],
    "ai.onnx.ml.TreeEnsembleRegressor": [
        (lambda r, _: len(base_values(r)) > 1, "a target without votes gets none: 'added to final prediction after applying aggregate_function'"),
    ],
    "com.microsoft.DynamicQuantizeLSTM": [
        (own_activations, "defaults and clip are not as ONNX's LSTM has them, whose words its description repeats"),
    ],
    "com.microsoft.GroupQueryAttention": [
        (lambda r, _: max(r.past) > 0 and sum(r.results) == 1, "it loses what is in the cache unless present_key is wanted"),
    ],
    "com.microsoft.MultiHeadAttention": [
        (lambda r, operands: len(operands) > 6 and r.results == [True], "the same"),
        (lambda r, _: r.attributes.get("unidirectional") and r.results == [True] * 4,
         "the scores of keys that are not seen are the least float instead of -inf"),
    ],
    "com.microsoft.QLinearAveragePool": [
        (lambda r, _: at(r, "ceil_mode", 1) and at(r, "count_include_pad", 1), "it counts what lies beyond the pads, where "
         "AveragePool does not"),
        (lambda r, _: str(r.attributes.get("auto_pad", "")).startswith("SAME") and smaller_than_stride(r), "its pads become negative"),
    ],
    # ... or where it crashes.
    "com.microsoft.QLinearLeakyRelu": [(lacks_zero_point, "it crashes without a zero point, which is optional")],
    "com.microsoft.QLinearSigmoid": [(lacks_zero_point, "the same")],
}  # fmt: skip


def differs(r, operands):
    """Why onnxruntime is not asked about an instance, or None."""
    return next((why for test, why in PEER_DIFFERS.get(r.op, ()) if test(r, operands)), None)
