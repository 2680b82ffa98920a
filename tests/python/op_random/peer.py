# SPDX-License-Identifier: Apache-2.0
"""Answers of onnxruntime, where it is installed."""
import numpy as np
from onnx import helper

from .answers import make_node
from .core import Opt
from .exceptions import differs
from .rows import kind_of
from .types import EXACT, type_proto


def versions(op):
    """That onnxruntime 1.32 knows; 5 of ai.onnx.ml no longer has the older tree ensembles."""
    return {"": 21, "ai.onnx.ml": 3 if op.startswith("TreeEnsemble") and op != "TreeEnsemble" else 5, "com.microsoft": 1}


def exact(value, kind):
    if kind.startswith(("seq(", "map(")):
        return value
    return np.asarray(value).astype(EXACT[kind])


def answer_of_peer(r, operands):
    import onnxruntime

    why_not = differs(r, operands)
    assert why_not is None, why_not
    onnxruntime.set_default_logger_severity(4)
    node = make_node(r, operands)
    kinds = [kind_of(r, r.schema.inputs, i) for i in range(len(operands))]
    inputs = [helper.make_value_info(f"x{i}", type_proto(kinds[i], np.shape(a))) for i, a in enumerate(operands) if a is not None]
    outputs = [helper.make_value_info(name, type_proto(kind_of(r, r.schema.outputs, i))) for i, name in enumerate(node.output) if name]
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions(r.schema.name).items()]
    model = helper.make_model(helper.make_graph([node], "g", inputs, outputs), opset_imports=opsets, ir_version=10)
    feeds = {f"x{i}": exact(a, kind) for i, (a, kind) in enumerate(zip(operands, kinds)) if a is not None}
    assert not any(isinstance(a, Opt) for a in feeds.values())
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = session.run(None, feeds)
    r.tolerance = max(r.tolerance or 0, tolerance_of(found))
    found = iter(found)
    return [next(found) if name else None for name in node.output]


def tolerance_of(answers):
    """Its activations are wrong by so much of 1, however small their results are."""
    floats = [np.abs(a[np.isfinite(a)]) for a in answers if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    return 1e-5 / min([1.0, *(max(a.max(), 1e-6) for a in floats if a.size)])


def is_for_peer(op):
    return op.startswith(("com.microsoft.", "ai.onnx.ml."))
