#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every op that models have beside products and convolutions, in sizes and element types that they have there: against
onnxruntime, slowest first.

    bench/every_op.py
    bench/every_op.py --only TopK --only Scatter --threads 2

Each row is a model of one node, run by both engines in one process, in turns; results are held against each other. `x` is
Tenon's shortest run as a multiple of onnxruntime's. Rows that onnxruntime cannot run say so. bench/ops.py has products,
convolutions and what is bound by memory, against what the machine can do.
"""
import argparse
import json
import sys
import time
from dataclasses import dataclass, field

import numpy as np
from onnx import helper, numpy_helper

import engines

OPSET, ML_OPSET = 20, 4
RANDOM = np.random.default_rng(7)


def floats(*shape, dtype=np.float32, low=None, high=1.0):
    x = RANDOM.standard_normal(shape) if low is None else RANDOM.uniform(low, high, shape)
    return np.asarray(x).astype(dtype)


def ints(*shape, low=0, high=100, dtype=np.int64):
    return RANDOM.integers(low, high, shape).astype(dtype)


def truths(*shape, part=0.5):
    return RANDOM.random(shape) < part


@dataclass
class Case:
    """A node. `inputs` are arrays; those whose places `constant` names are part of the model. None: absent."""

    kind: str
    what: str
    inputs: list
    attributes: dict = field(default_factory=dict)
    constant: tuple = ()
    outputs: int = 1
    domain: str = ""
    opset: int = OPSET
    check: bool = True

    @property
    def name(self):
        return f"{self.kind} {self.what}"

    def model(self):
        names = ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]
        results = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.kind, names, results, domain=self.domain, **self.attributes)
        infos, constants = [], []
        for i, x in enumerate(self.inputs):
            if x is None:
                continue
            if i in self.constant:
                constants.append(numpy_helper.from_array(x, f"x{i}"))
            else:
                infos.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape))
        graph = helper.make_graph([node], "op", infos, [helper.make_empty_tensor_value_info(r) for r in results], constants)
        imports = [helper.make_opsetid("", self.opset)]
        if self.domain:
            imports.append(helper.make_opsetid(self.domain, ML_OPSET if self.domain == "ai.onnx.ml" else 1))
        return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()

    def feeds(self):
        return {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None and i not in self.constant}


# ---- the ops ----

SEQUENCE, IMAGE, LARGE = (1, 128, 768), (1, 64, 56, 56), (1 << 20,)
OF_SIZE = {"seq": SEQUENCE, "image": IMAGE, "1M": LARGE}


def unary():
    plain = "Abs Ceil Cos Erf Exp Floor Neg Reciprocal Relu Round Sigmoid Sign Sin Softplus Softsign Tanh Atan Sinh Cosh Tan Asinh"
    for kind in [*plain.split(), "Elu", "Selu", "Celu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "ThresholdedRelu", "Mish", "IsNaN", "IsInf", "Shrink"]:
        yield Case(kind, "f32 seq", [floats(*SEQUENCE)])
    for kind in ("Log", "Sqrt"):
        yield Case(kind, "f32 seq", [floats(*SEQUENCE, low=0.1)])
    for kind in ("Acos", "Asin", "Atanh"):
        yield Case(kind, "f32 seq", [floats(*SEQUENCE, low=-0.99)])
    yield Case("Acosh", "f32 seq", [floats(*SEQUENCE, low=1, high=9)])
    yield Case("Not", "bool 1M", [truths(*LARGE)])
    for kind, dtype in (("Abs", np.int64), ("Neg", np.int64), ("Sign", np.int64), ("Abs", np.int32), ("Neg", np.int32)):
        yield Case(kind, f"{np.dtype(dtype).name} 1M", [ints(*LARGE, low=-99, dtype=dtype)])
    for kind in ("Exp", "Tanh", "Sigmoid", "Relu", "Erf", "Sqrt"):
        yield Case(kind, "f16 seq", [floats(*SEQUENCE, dtype=np.float16, low=0.1)])
        yield Case(kind, "f64 seq", [floats(*SEQUENCE, dtype=np.float64, low=0.1)])
    for dtype in (np.float16, np.float64, np.int64, np.int32):
        yield Case("Clip", f"{np.dtype(dtype).name} 1M", [ints(*LARGE, dtype=dtype), np.array(3, dtype), np.array(50, dtype)], constant=(1, 2))
    yield Case("Clip", "f32 1M", [floats(*LARGE), np.array(0, np.float32), np.array(0.5, np.float32)], constant=(1, 2))
    yield Case("BitwiseNot", "i32 1M", [ints(*LARGE, dtype=np.int32)])


def binary():
    for kind in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Mod"):
        for dtype in (np.float32, np.float64, np.float16, np.int64, np.int32):
            if kind == "Mod" and np.dtype(dtype).kind == "f":
                continue
            x, y = (ints(*LARGE, low=1, dtype=dtype) for _ in "xy")
            yield Case(kind, f"{np.dtype(dtype).name} 1M", [x, y])
            if kind in ("Add", "Mul", "Mod", "Div"):
                yield Case(kind, f"{np.dtype(dtype).name} 1M by one", [x, np.array(7, dtype)], constant=(1,))
    yield Case("Mod", "f32 fmod 1M", [floats(*LARGE), floats(*LARGE, low=0.5)], {"fmod": 1})
    yield Case("Add", "i64 row 1024x1024", [ints(1024, 1024), ints(1024)])
    yield Case("Add", "u8 1M", [ints(*LARGE, dtype=np.uint8) for _ in "xy"])
    for exponent in (0.5, 2.0, 3.0, 4.0, 1.7, -0.5, -2.0):
        yield Case("Pow", f"f32 1M {exponent}", [floats(*LARGE, low=0.1, high=2), np.array(exponent, np.float32)], constant=(1,))
    yield Case("Pow", "f32 256k each", [floats(1 << 18, low=0.1, high=2), floats(1 << 18, low=-2, high=2)])
    yield Case("Pow", "i64 1M 2", [ints(*LARGE), np.array(2, np.int64)], constant=(1,))
    yield Case("Pow", "f32 10000 to positions", [np.array([10000.0], np.float32), floats(4096, low=0)])
    for kind in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        for dtype in (np.float32, np.int64, np.int32, np.float16, np.float64):
            yield Case(kind, f"{np.dtype(dtype).name} 1M", [ints(*LARGE, dtype=dtype) for _ in "xy"])
    yield Case("Equal", "i64 1M by one", [ints(*LARGE), np.array(5)], constant=(1,))
    yield Case("Equal", "bool 1M", [truths(*LARGE), truths(*LARGE)])
    yield Case("LessOrEqual", "i64 mask 512x512", [ints(1, 512), ints(512, 1)])
    for kind in ("And", "Or", "Xor"):
        yield Case(kind, "bool 1M", [truths(*LARGE), truths(*LARGE)])
        yield Case(kind, "bool mask 512x512", [truths(1, 1, 512, 512), truths(1, 1, 1, 512)])
    for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield Case(kind, "i32 1M", [ints(*LARGE, dtype=np.int32) for _ in "xy"])
    yield Case("BitShift", "u32 1M", [ints(*LARGE, dtype=np.uint32), np.array(3, np.uint32)], {"direction": "RIGHT"}, (1,))
    yield Case("BitShift", "u8 1M each", [ints(*LARGE, dtype=np.uint8), ints(*LARGE, high=7, dtype=np.uint8)], {"direction": "LEFT"})
    for dtype in (np.float32, np.int64, np.int32, np.float16, np.float64, np.uint8, bool):
        x, y = (ints(*LARGE, high=2).astype(dtype) for _ in "xy")
        yield Case("Where", f"{np.dtype(dtype).name} 1M", [truths(*LARGE), x, y])
    yield Case("Where", "f32 mask, one", [truths(1, 1, 128, 128), floats(1, 12, 128, 128), np.array(-1e9, np.float32)], constant=(2,))
    yield Case("Where", "f32 zeros 128x128", [truths(1, 1, 128, 128), np.array(0, np.float32), np.array(-1e9, np.float32)], constant=(1, 2))
    yield Case("Where", "i64 one 1M", [truths(*LARGE), ints(*LARGE), np.array(0)], constant=(2,))
    yield Case("PRelu", "f32 image", [floats(*IMAGE), floats(64, 1, 1)], constant=(1,))
    for kind in ("Max", "Min", "Sum", "Mean"):
        yield Case(kind, "f32 three 256k", [floats(1 << 18) for _ in "xyz"])


def cast():
    types = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "i8": np.int8, "bool": bool}
    for name, dtype in types.items():
        for to, kind in types.items():
            if name != to:
                yield Case("Cast", f"{name} to {to} 1M", [ints(*LARGE, high=2 if bool in (dtype, kind) else 100).astype(dtype)], {"to": int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))})
    yield Case("Cast", "f32 to bf16 1M", [floats(*LARGE)], {"to": 16})


def reduced():
    for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"):
        x = np.abs(floats(1, 128, 768)) + np.float32(0.1)
        axes = np.array([-1])
        yield Case(f"Reduce{kind}", "f32 seq rows", [x, axes], constant=(1,))
        yield Case(f"Reduce{kind}", "f32 image channels", [floats(*IMAGE, low=0.1), np.array([1])], constant=(1,))
        yield Case(f"Reduce{kind}", "f32 image plane", [floats(*IMAGE, low=0.1), np.array([2, 3])], constant=(1,))
        yield Case(f"Reduce{kind}", "f32 all 1M", [floats(*LARGE, low=0.5)], {"keepdims": 0})
    for kind in ("Sum", "Mean", "Max", "Min", "Prod"):
        for dtype in (np.int64, np.int32, np.float64, np.float16):
            yield Case(f"Reduce{kind}", f"{np.dtype(dtype).name} 1024x1024 rows", [ints(1024, 1024, high=3, dtype=dtype), np.array([1])], constant=(1,), check=dtype != np.float16)
    yield Case("ReduceSum", "i64 1024x1024 columns", [ints(1024, 1024), np.array([0])], constant=(1,))
    for kind in ("ArgMax", "ArgMin"):
        yield Case(kind, "f32 1x1000", [floats(1, 1000)], {"axis": 1})
        yield Case(kind, "f32 vocabulary", [floats(1, 8, 50257)], {"axis": -1})
        yield Case(kind, "f32 segmentation", [floats(1, 21, 256, 256)], {"axis": 1})
        yield Case(kind, "i64 128x768", [ints(128, 768)], {"axis": 1})
        yield Case(kind, "i32 512x512", [ints(512, 512, dtype=np.int32)], {"axis": 1})
    yield Case("ArgMax", "f16 vocabulary", [floats(1, 8, 50257, dtype=np.float16)], {"axis": -1})
    yield Case("CumSum", "f32 128x768 rows", [floats(128, 768), np.array(1)], constant=(1,))
    yield Case("CumSum", "f32 128x768 columns", [floats(128, 768), np.array(0)], constant=(1,))
    yield Case("CumSum", "i64 8x512", [ints(8, 512), np.array(1)], constant=(1,))
    yield Case("CumSum", "i32 1x128", [ints(1, 128, high=2, dtype=np.int32), np.array(1)], constant=(1,))
    yield Case("CumSum", "f32 1M", [floats(*LARGE), np.array(0)], constant=(1,), check=False)


def normed():
    for kind in ("Softmax", "LogSoftmax", "Hardmax"):
        yield Case(kind, "f32 12x128x128", [floats(12, 128, 128)], {"axis": -1})
        yield Case(kind, "f32 channels", [floats(1, 21, 128, 128)], {"axis": 1})
        yield Case(kind, "f64 128x768", [floats(128, 768, dtype=np.float64)], {"axis": -1})
        yield Case(kind, "f16 128x768", [floats(128, 768, dtype=np.float16)], {"axis": -1})
    yield Case("LRN", "f32 image", [floats(*IMAGE)], {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0})
    yield Case("LRN", "f32 alexnet", [floats(1, 96, 54, 54)], {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 2.0})
    yield Case("LpNormalization", "f32 seq", [floats(*SEQUENCE)], {"axis": -1, "p": 2})
    yield Case("LpNormalization", "f32 image", [floats(*IMAGE)], {"axis": 1, "p": 2})
    yield Case("MeanVarianceNormalization", "f32 image", [floats(*IMAGE)])
    yield Case("InstanceNormalization", "f32 image", [floats(*IMAGE), floats(64), floats(64)], constant=(1, 2))
    yield Case("BatchNormalization", "f32 image", [floats(*IMAGE), *(floats(64, low=0.5) for _ in "sbmv")], constant=(1, 2, 3, 4))
    yield Case("GroupNormalization", "f32 image", [floats(*IMAGE), floats(64), floats(64)], {"num_groups": 8}, (1, 2), opset=21)
    yield Case("LayerNormalization", "f32 seq", [floats(*SEQUENCE), floats(768), floats(768)], constant=(1, 2))
    yield Case("LayerNormalization", "f64 seq", [floats(*SEQUENCE, dtype=np.float64), floats(768, dtype=np.float64), floats(768, dtype=np.float64)], constant=(1, 2))
    yield Case("LayerNormalization", "f16 seq", [floats(*SEQUENCE, dtype=np.float16), floats(768, dtype=np.float16), floats(768, dtype=np.float16)], constant=(1, 2))
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    yield Case("LpPool", "f32 image", [floats(*IMAGE)], {**window, "p": 2})
    yield Case("MaxPool", "f32 image", [floats(*IMAGE)], window)
    yield Case("MaxPool", "f32 image with places", [floats(*IMAGE)], window, outputs=2)
    yield Case("MaxPool", "u8 image", [ints(*IMAGE, dtype=np.uint8)], window)
    yield Case("AveragePool", "f32 image", [floats(*IMAGE)], window)
    yield Case("GlobalLpPool", "f32 image", [floats(*IMAGE)])
    yield Case("GlobalMaxPool", "f32 image", [floats(*IMAGE)])
    pooled = np.arange(64 * 28 * 28, dtype=np.int64).reshape(1, 64, 28, 28)
    y, x = pooled % (28 * 28) // 28 * 2, pooled % 28 * 2
    places = pooled // (28 * 28) * 56 * 56 + y * 56 + x
    yield Case("MaxUnpool", "f32 image", [floats(1, 64, 28, 28), places], {"kernel_shape": [2, 2], "strides": [2, 2]})


def indexed():
    table = floats(30522, 768)
    yield Case("Gather", "f32 embeddings", [table, ints(1, 128, high=30522)], constant=(0,))
    yield Case("Gather", "f32 rows 128 of 512x64", [floats(1, 512, 64), ints(128, high=512)], {"axis": 1})
    yield Case("Gather", "f32 columns 1024x1024", [floats(1024, 1024), ints(512, high=1024)], {"axis": 1})
    yield Case("Gather", "i64 elements 100k", [ints(100000), ints(100000, high=100000)])
    yield Case("GatherElements", "f32 128x768 rows", [floats(128, 768), ints(128, 768, high=128)], {"axis": 0})
    yield Case("GatherElements", "f32 8x50257 by 64", [floats(8, 50257), ints(8, 64, high=50257)], {"axis": 1})
    yield Case("GatherElements", "f32 disentangled", [floats(12, 128, 256), ints(12, 128, 128, high=256)], {"axis": 2})
    yield Case("GatherElements", "f32 last 1024x1024", [floats(1024, 1024), ints(1024, 1024, high=1024)], {"axis": 1})
    yield Case("GatherND", "f32 slices", [floats(1, 512, 768), np.stack([np.zeros((1, 128), np.int64), ints(1, 128, high=512)], -1)])
    yield Case("GatherND", "f32 elements 100k", [floats(512, 768), np.stack([ints(100000, high=512), ints(100000, high=768)], -1)])
    yield Case("GatherND", "f32 batched", [floats(8, 512, 64), ints(8, 128, 1, high=512)], {"batch_dims": 1})
    yield Case("GatherND", "i64 elements 4096", [ints(64, 64), np.stack([ints(4096, high=64), ints(4096, high=64)], -1)])
    for reduction in ("none", "add", "max"):
        attributes = {"reduction": reduction} if reduction != "none" else {}
        rows = RANDOM.permutation(512)[:128].reshape(128, 1)
        yield Case("ScatterND", f"f32 rows {reduction}", [floats(512, 768), rows, floats(128, 768)], attributes)
        places = RANDOM.permutation(512 * 768)[:100000]
        places = np.stack([places // 768, places % 768], -1)
        yield Case("ScatterND", f"f32 elements {reduction} 100k", [floats(512, 768), places, floats(100000)], attributes)
        yield Case("ScatterElements", f"f32 {reduction} 128x768", [floats(512, 768), np.argsort(floats(512, 768), 0)[:128].copy(), floats(128, 768)], {"axis": 0, **attributes})
        yield Case("ScatterElements", f"f32 last {reduction}", [floats(128, 768), np.argsort(floats(128, 768), 1)[:, :256].copy(), floats(128, 256)], {"axis": 1, **attributes})
    yield Case("ScatterND", "i64 one row", [ints(8, 512), np.array([[3]]), ints(1, 512)])
    yield Case("ScatterND", "f32 state row", [floats(12, 1024, 64), np.array([[i, 7] for i in range(12)]), floats(12, 64)])
    yield Case("ScatterElements", "f32 bins add", [np.zeros(4096, np.float32), ints(1 << 17, high=4096), floats(1 << 17)], {"reduction": "add"}, check=False)
    yield Case("TensorScatter", "f32 cache", [floats(1, 12, 1024, 64), floats(1, 12, 1, 64), np.array([17])], {"axis": 2}, opset=24)
    yield Case("TopK", "f32 1000 by 5", [floats(1, 1000), np.array([5])], constant=(1,), outputs=2)
    yield Case("TopK", "f32 vocabulary by 50", [floats(1, 50257), np.array([50])], constant=(1,), outputs=2)
    yield Case("TopK", "f32 8400 by 300", [floats(1, 8400), np.array([300])], constant=(1,), outputs=2)
    yield Case("TopK", "f32 16k by 1000", [floats(1, 16800), np.array([1000])], constant=(1,), outputs=2)
    yield Case("TopK", "f32 sorted 8192", [floats(1, 8192), np.array([8192])], constant=(1,), outputs=2)
    yield Case("TopK", "f32 mixture 128x64 by 2", [floats(128, 64), np.array([2])], constant=(1,), outputs=2)
    yield Case("TopK", "f32 columns 100x256", [floats(1, 100, 256), np.array([10])], {"axis": 1}, constant=(1,), outputs=2)
    yield Case("TopK", "i64 8400 by 300", [ints(1, 8400, high=1 << 40), np.array([300])], constant=(1,), outputs=2)
    yield Case("NonZero", "bool 512x512 half", [truths(512, 512)])
    yield Case("NonZero", "bool 1x8400 few", [truths(1, 8400, part=0.02)])
    yield Case("NonZero", "f32 128x768", [floats(128, 768)])
    yield Case("NonZero", "i64 1x512", [ints(1, 512, high=2)])
    yield Case("Compress", "f32 rows", [floats(8400, 85), truths(8400, part=0.1)], {"axis": 0})
    yield Case("Compress", "f32 elements", [floats(1 << 18), truths(1 << 18)])
    yield Case("Unique", "i64 16k", [ints(1 << 14, high=1000)], outputs=4)
    yield Case("Unique", "f32 16k", [floats(1 << 14)], outputs=4)
    yield Case("OneHot", "i64 128x30522", [ints(16, high=30522), np.array(30522), np.array([0, 1], np.float32)], constant=(1, 2))
    yield Case("OneHot", "i64 1M of 64", [ints(1 << 14, high=64), np.array(64), np.array([0, 1], np.float32)], constant=(1, 2))
    yield Case("OneHot", "i64 axis 1", [ints(1, 128, 128, high=21), np.array(21), np.array([0, 1], np.float32)], {"axis": 1}, constant=(1, 2))
    yield Case("NonMaxSuppression", "8400 boxes", nms(1, 1, 8400), constant=(2, 3, 4))
    yield Case("NonMaxSuppression", "1000 boxes 80 classes", nms(1, 80, 1000), constant=(2, 3, 4))
    yield Case("NonMaxSuppression", "1917 boxes 90 classes", nms(1, 90, 1917), constant=(2, 3, 4))
    yield Case("RoiAlign", "f32 100 of 7x7", [floats(1, 64, 50, 50), rois(100), np.zeros(100, np.int64)], {"output_height": 7, "output_width": 7, "sampling_ratio": 2, "spatial_scale": 0.25})
    yield Case("MaxRoiPool", "f32 100 of 7x7", [floats(1, 64, 50, 50), np.hstack([np.zeros((100, 1), np.float32), rois(100)])], {"pooled_shape": [7, 7], "spatial_scale": 0.25})
    for mode in ("linear", "nearest", "cubic"):
        yield Case("GridSample", f"f32 {mode} 64@56", [floats(*IMAGE), floats(1, 56, 56, 2, low=-1)], {"mode": mode})
        yield Case("GridSample", f"f32 {mode} 3@224", [floats(1, 3, 224, 224), floats(1, 224, 224, 2, low=-1)], {"mode": mode})
    yield Case("GridSample", "f32 volume", [floats(1, 8, 16, 32, 32), floats(1, 16, 32, 32, 3, low=-1)], {"mode": "linear"})
    yield Case("GridSample", "f32 deformable attention", [floats(8, 32, 32, 32), floats(8, 300, 4, 2, low=-1)], {"mode": "linear"})
    yield Case("AffineGrid", "f32 224", [floats(1, 2, 3), np.array([1, 3, 224, 224])], constant=(1,))
    yield Case("ReverseSequence", "f32 128x4x512", [floats(128, 4, 512), ints(4, low=1, high=128)], {"time_axis": 0, "batch_axis": 1})


def nms(batch, classes, boxes):
    corners = floats(batch, boxes, 2, low=0, high=600)
    sizes = floats(batch, boxes, 2, low=10, high=100)
    return [np.concatenate([corners, corners + sizes], -1), floats(batch, classes, boxes, low=0), np.array([100]), np.array([0.5], np.float32), np.array([0.3], np.float32)]


def rois(n):
    corners = floats(n, 2, low=0, high=120)
    return np.concatenate([corners, corners + floats(n, 2, low=10, high=80)], -1)


def moved():
    yield Case("Trilu", "f32 512x512", [floats(512, 512)], {"upper": 1})
    yield Case("Trilu", "bool 512x512", [truths(512, 512)], {"upper": 0})
    yield Case("EyeLike", "f32 512", [floats(512, 512)], {})
    yield Case("Tile", "f32", [floats(1, 64, 64), np.array([8, 2, 2])], constant=(1,))
    yield Case("Expand", "f32", [floats(1, 1, 128, 64), np.array([8, 8, 128, 64])], constant=(1,))
    yield Case("Concat", "f32 two", [floats(1, 64, 56, 56), floats(1, 64, 56, 56)], {"axis": 1})
    yield Case("Pad", "f32 constant", [floats(*IMAGE), np.array([0, 0, 1, 1, 0, 0, 1, 1])], constant=(1,))
    yield Case("Pad", "f32 reflect", [floats(*IMAGE), np.array([0, 0, 1, 1, 0, 0, 1, 1])], {"mode": "reflect"}, constant=(1,))
    yield Case("Slice", "f32", [floats(*IMAGE), np.array([1, 1]), np.array([55, 55]), np.array([2, 3])], constant=(1, 2, 3))
    yield Case("Slice", "i64 run-time", [ints(512, 512), np.array([3]), np.array([400]), np.array([0])])
    yield Case("DepthToSpace", "f32", [floats(*IMAGE)], {"blocksize": 2})
    yield Case("Range", "i64 100k", [np.array(0), np.array(100000), np.array(1)])
    yield Case("Range", "f32 100k", [np.array(0, np.float32), np.array(100000, np.float32), np.array(1, np.float32)])
    yield Case("Resize", "f32 nearest x2", [floats(*IMAGE), None, np.array([1, 1, 2, 2], np.float32)], {"mode": "nearest"}, (2,))
    yield Case("Resize", "f32 linear x2", [floats(*IMAGE), None, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}, (2,))
    yield Case("Resize", "f32 cubic x2", [floats(*IMAGE), None, np.array([1, 1, 2, 2], np.float32)], {"mode": "cubic"}, (2,))
    yield Case("Resize", "u8 linear 480 to 224", [ints(1, 3, 480, 480, high=255, dtype=np.uint8), None, None, np.array([1, 3, 224, 224])], {"mode": "linear"}, (3,), check=False)
    yield Case("Col2Im", "f32", [floats(1, 64 * 9, 28 * 28), np.array([28, 28]), np.array([3, 3])], {"pads": [1, 1, 1, 1]}, (1, 2))


def transformed():
    for n, rows in ((512, 64), (768, 512), (128, 256), (400, 100), (1000, 32), (257, 32)):
        yield Case("DFT", f"f32 real {rows}x{n}", [floats(1, rows, n, 1), None, np.array(2)], {}, (2,))
        yield Case("DFT", f"f32 complex {rows}x{n}", [floats(1, rows, n, 2), None, np.array(2)], {}, (2,))
    yield Case("DFT", "f32 fnet tokens", [floats(1, 512, 768, 2), None, np.array(1)], {}, (2,))
    yield Case("DFT", "f32 onesided 64x512", [floats(1, 64, 512, 1), None, np.array(2)], {"onesided": 1}, (2,))
    yield Case("DFT", "f32 inverse 64x512", [floats(1, 64, 512, 2), None, np.array(2)], {"inverse": 1}, (2,))
    yield Case("STFT", "f32 16000 by 160 of 400", [floats(1, 16000, 1), np.array(160), floats(400)], {}, (1, 2))
    yield Case("STFT", "f32 16000 by 256 of 1024", [floats(1, 16000, 1), np.array(256), floats(1024)], {}, (1, 2))
    yield Case("MelWeightMatrix", "", [np.array(80), np.array(512), np.array(16000), np.array(0.0, np.float32), np.array(8000.0, np.float32)])
    yield Case("HannWindow", "400", [np.array(400)])
    yield Case("Det", "f32 64 of 4x4", [floats(64, 4, 4)], check=False)
    yield Case("Einsum", "f32 bhqd,bhkd", [floats(1, 12, 128, 64), floats(1, 12, 128, 64)], {"equation": "bhqd,bhkd->bhqk"})
    yield Case("MatMul", "f64 256", [floats(256, 256, dtype=np.float64), floats(256, 256, dtype=np.float64)])
    yield Case("MatMul", "f16 256", [floats(256, 256, dtype=np.float16), floats(256, 256, dtype=np.float16)], check=False)
    yield Case("MatMul", "i32 256", [ints(256, 256, dtype=np.int32), ints(256, 256, dtype=np.int32)])
    yield Case("MatMulInteger", "u8 256", [ints(256, 256, dtype=np.uint8), ints(256, 256, dtype=np.uint8)], {})
    yield Case("Conv", "f16 64@28", [floats(1, 64, 28, 28, dtype=np.float16), floats(64, 64, 3, 3, dtype=np.float16)], {"pads": [1, 1, 1, 1]}, (1,), check=False)
    yield Case("DeformConv", "f32 32@28", [floats(1, 32, 28, 28), floats(32, 32, 3, 3), floats(1, 18, 28, 28)], {"pads": [1, 1, 1, 1]}, (1,), opset=19)
    yield Case("QuantizeLinear", "u8 1M", [floats(*LARGE), np.array(0.02, np.float32), np.array(128, np.uint8)], {}, (1, 2))
    yield Case("QuantizeLinear", "i8 channels", [floats(*IMAGE), floats(64, low=0.01, high=0.1), np.zeros(64, np.int8)], {"axis": 1}, (1, 2))
    yield Case("DequantizeLinear", "u8 1M", [ints(*LARGE, high=255, dtype=np.uint8), np.array(0.02, np.float32), np.array(128, np.uint8)], {}, (1, 2))
    yield Case("DequantizeLinear", "i8 channels", [ints(*IMAGE, low=-99, dtype=np.int8), floats(64, low=0.01, high=0.1), np.zeros(64, np.int8)], {"axis": 1}, (1, 2))
    yield Case("DynamicQuantizeLinear", "seq", [floats(*SEQUENCE)], outputs=3)
    yield Case("NegativeLogLikelihoodLoss", "f32 128x1000", [floats(128, 1000), ints(128, high=1000)])
    yield Case("SoftmaxCrossEntropyLoss", "f32 128x1000", [floats(128, 1000), ints(128, high=1000)])
    yield Case("RandomNormal", "1M", [], {"shape": [1 << 20], "seed": 1.0}, check=False)
    yield Case("RandomUniform", "1M", [], {"shape": [1 << 20], "seed": 1.0}, check=False)
    yield Case("RandomNormalLike", "seq", [floats(*SEQUENCE)], {"seed": 1.0}, check=False)
    yield Case("Bernoulli", "seq", [floats(*SEQUENCE, low=0)], {"seed": 1.0}, check=False)
    yield Case("Multinomial", "1x50257", [floats(1, 50257)], {"seed": 1.0, "sample_size": 1}, check=False)


def classical():
    ml = "ai.onnx.ml"
    yield Case("Scaler", "1000x30", [floats(1000, 30)], {"offset": [0.5] * 30, "scale": [2.0] * 30}, domain=ml)
    yield Case("Normalizer", "1000x30", [floats(1000, 30)], {"norm": "L2"}, domain=ml)
    yield Case("Binarizer", "1000x30", [floats(1000, 30)], {"threshold": 0.1}, domain=ml)
    yield Case("Imputer", "1000x30", [floats(1000, 30)], {"imputed_value_floats": [1.0] * 30, "replaced_value_float": 0.0}, domain=ml)
    yield Case("LinearRegressor", "1000x30", [floats(1000, 30)], {"coefficients": floats(30).tolist(), "intercepts": [0.5], "targets": 1}, domain=ml)
    yield Case("LinearClassifier", "1000x30", [floats(1000, 30)], {"coefficients": floats(90).tolist(), "intercepts": [0.5] * 3, "classlabels_ints": [0, 1, 2], "post_transform": "SOFTMAX"}, domain=ml, outputs=2)
    yield Case("OneHotEncoder", "1000x30", [ints(1000, 30, high=20)], {"cats_int64s": list(range(20))}, domain=ml)
    yield Case("LabelEncoder", "i64 30000", [ints(30000, high=20)], {"keys_int64s": list(range(20)), "values_floats": [float(i) for i in range(20)]}, domain=ml)
    yield Case("FeatureVectorizer", "1000x30", [floats(1000, 10), floats(1000, 20)], {"inputdimensions": [10, 20]}, domain=ml)
    yield Case("ArrayFeatureExtractor", "1000x30", [floats(1000, 30), ints(10, high=30)], domain=ml)
    yield Case("TreeEnsembleRegressor", "100 trees, 1000x30", [floats(1000, 30)], forest(100, 6, 30), domain=ml)
    yield Case("TreeEnsembleRegressor", "100 trees, 1x30", [floats(1, 30)], forest(100, 6, 30), domain=ml)
    support = floats(200, 30)
    yield Case("SVMRegressor", "1000x30", [floats(1000, 30)], {"coefficients": floats(200).tolist(), "support_vectors": support.ravel().tolist(), "n_supports": 200, "rho": [0.1], "kernel_type": "RBF", "kernel_params": [0.05, 0.0, 3.0]}, domain=ml)


def forest(trees, depth, features):
    nodes = (1 << (depth + 1)) - 1
    rows = {key: [] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    target = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        for node in range(nodes):
            leaf = node >= nodes // 2
            values = (tree, node, int(RANDOM.integers(features)), float(RANDOM.standard_normal()), "LEAF" if leaf else "BRANCH_LEQ", 0 if leaf else 2 * node + 1, 0 if leaf else 2 * node + 2)
            for key, value in zip(rows, values):
                rows[key].append(value)
            if leaf:
                for key, value in zip(target, (tree, node, 0, float(RANDOM.standard_normal()))):
                    target[key].append(value)
    return {**{f"nodes_{k}": v for k, v in rows.items()}, **{f"target_{k}": v for k, v in target.items()}, "n_targets": 1}


def cases():
    for family in (unary, binary, cast, reduced, normed, indexed, moved, transformed, classical):
        yield from family()


# ---- running ----


def aligned(array):
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def bound_call(session, feeds, results):
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    for i, array in enumerate(results):
        binding.bind_output(f"y{i}", "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    return lambda kept=results: session.run_with_iobinding(binding)  # noqa: ARG005


def caller(session, feeds, results, fixed):
    """Over memory that is bound once where the results' sizes are known beforehand."""
    return bound_call(session, feeds, [aligned(r) for r in results]) if fixed else lambda: session.run(None, feeds)


def open_ort(model, threads):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def difference(a, b):
    """The largest, as part of the largest number; 1 where shapes or what is no number differ."""
    if a.shape != b.shape:
        return 1.0
    if a.size == 0:
        return 0.0
    if a.dtype.kind not in "fiub":
        return 0.0 if (a == b).all() else 1.0
    a, b = a.astype(np.float64), b.astype(np.float64)
    if (np.isfinite(a) != np.isfinite(b)).any():
        return 1.0
    a, b = (np.where(np.isfinite(x), x, 0) for x in (a, b))
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30))


FIXED = {"NonZero", "Compress", "Unique", "NonMaxSuppression", "Slice", "Range", "HannWindow", "MelWeightMatrix", "AffineGrid"}


def measure(case, threads, seconds, tenonrt):
    model = case.model()
    feeds = {name: aligned(x) for name, x in case.feeds().items()}
    options = tenonrt.SessionOptions()
    options.enable_profiling = True
    profiled = tenonrt.InferenceSession(model, options, threads=threads)
    ours = profiled.run(None, feeds)
    row = {"op": case.name, "kernels": [r["kernel"] for r in profiled.instructions() if r["kernel"] not in ("view", "virtual", "folded")]}
    fixed = case.kind not in FIXED and all(isinstance(r, np.ndarray) and r.dtype.kind in "fiub" for r in ours)
    calls = {"tenon": caller(tenonrt.InferenceSession(model, threads=threads), feeds, ours, fixed)}
    try:
        session = open_ort(model, threads)
        theirs = session.run(None, feeds)
        calls["ort"] = caller(session, feeds, theirs, fixed)
        row["differs"] = max(difference(np.asarray(a), np.asarray(b)) for a, b in zip(ours, theirs)) if case.check else 0.0
    except Exception as error:  # noqa: BLE001
        row["refused"] = str(error).splitlines()[0][:120]
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    times = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while len(times["tenon"]) < 12 or time.perf_counter() < end:
        for name, call in calls.items():
            for _ in range(4):
                start = clock()
                call()
                times[name].append(clock() - start)
        if time.perf_counter() > end + 1:
            break
    row |= {f"{name}_us": 1e-3 * min(values) for name, values in times.items()}
    row["ratio"] = row["tenon_us"] / row["ort_us"] if "ort_us" in row else None
    return row


def show(row):
    ort = f"{row['ort_us']:11.1f}{row['ratio']:8.2f}" if row.get("ratio") else f"{'-':>11}{'-':>8}"
    wrong = "" if row.get("differs", 0) < 1e-5 else f"  DIFFERS by {row['differs']:.1e}"
    print(f"{row['op'][:48]:48}{row['tenon_us']:11.1f}{ort}  {' '.join(row['kernels'])}{wrong}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each op")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="ops whose row begins with this")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every N-th row from the I-th on")
    parser.add_argument("--json", metavar="FILE", help="write all figures there, too")
    args = parser.parse_args()
    first, every = map(int, args.part.split("/"))
    chosen = [c for c in cases() if not args.only or any(c.name.startswith(text) for text in args.only)][first::every]
    if not chosen:
        sys.exit(f"no row begins with {' or '.join(args.only)}")
    engine = engines.Tenon()
    engine.open()
    rows = []
    for case in chosen:
        try:
            rows.append(measure(case, args.threads, args.seconds, engine.library))
        except Exception as error:  # noqa: BLE001
            print(f"{case.name}: {error}", file=sys.stderr)
    print(f"{'op':48}{'us':>11}{'ort us':>11}{'x':>8}  kernels")
    for row in sorted(rows, key=lambda row: -(row["ratio"] or 0)):
        show(row)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
