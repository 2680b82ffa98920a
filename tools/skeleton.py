#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real graphs without their weights.

    tools/skeleton.py strip MODEL.onnx SKELETON.onnx
    tools/skeleton.py fill NAME SKELETON.onnx MODEL.onnx

`strip` replaces each float constant of more than 512 elements by a recipe, "gen:MEAN,DEVIATION,LOW,HIGH" in its
doc_string. `fill` makes weights from the recipes, the same ones each time: constant K of a model comes from numpy's
PCG64 seeded with (CRC32 of the model's name, K). Inputs are recipes too: see make_inputs.
"""
import os
import sys
import zlib

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

SMALLEST = 512


def constants(graph):
    """All tensors of a graph and of the graphs in it, in an order that recipes rely on."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            if attribute.type == AttributeProto.GRAPH:
                yield from constants(attribute.g)


def save(model, path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(model.SerializeToString(deterministic=True))


def strip(source, target, gain=1.0):
    model = onnx.load(source)
    for tensor in constants(model.graph):
        if tensor.data_type != TensorProto.FLOAT or np.prod(tensor.dims) <= SMALLEST:
            continue
        a = numpy_helper.to_array(tensor)
        if a.std() < 1e-12:
            continue
        tensor.doc_string = "gen:%.6g,%.6g,%.6g,%.6g" % (a.mean(), a.std() * gain, a.min(), a.max())
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
    del model.graph.value_info[:]
    for node in model.graph.node:
        node.ClearField("doc_string")
    save(model, target)


def fill(name, source, target):
    model = onnx.load(source)
    seed = zlib.crc32(name.encode())
    for k, tensor in enumerate(constants(model.graph)):
        if not tensor.doc_string.startswith("gen:"):
            continue
        mean, deviation, low, high = map(np.float32, tensor.doc_string[4:].split(","))
        random = np.random.Generator(np.random.PCG64([seed, k]))
        a = random.standard_normal(tuple(tensor.dims), dtype=np.float32)
        a *= deviation
        a += mean
        np.clip(a, low, high, out=a)
        tensor.raw_data = a.astype("<f4").tobytes()
        tensor.ClearField("doc_string")
    save(model, target)


def make_inputs(recipes):
    """(name, array) of each recipe [name, type, shape, kind, ...]: kind "val" with a list of values, "normal",
    "uniform" or "integers" with bounds. Input J comes from PCG64 seeded with (77, J)."""
    for j, (name, dtype, shape, kind, *rest) in enumerate(recipes):
        random = np.random.Generator(np.random.PCG64([77, j]))
        if kind == "val":
            a = np.array(rest[0])
        elif kind == "normal":
            a = random.standard_normal(shape, dtype=np.float32)
        elif kind == "uniform":
            a = random.uniform(*rest, shape)
        else:
            a = random.integers(*rest, shape)
        yield name, a.astype(dtype).reshape(shape)


def write_inputs(recipes, folder):
    os.makedirs(folder, exist_ok=True)
    for j, (name, a) in enumerate(make_inputs(recipes)):
        with open(os.path.join(folder, f"input_{j}.pb"), "wb") as file:
            file.write(numpy_helper.from_array(a, name).SerializeToString())


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "strip":
        strip(*sys.argv[2:])
    elif len(sys.argv) == 5 and sys.argv[1] == "fill":
        fill(*sys.argv[2:])
    else:
        sys.exit(__doc__.strip())
