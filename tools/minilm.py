#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sentence encoder all-MiniLM-L6-v2 as an ONNX graph around its published weights.

    tools/minilm.py FOLDER MODEL.onnx [--int8]

FOLDER holds model.safetensors and config.json. Inputs: input_ids, attention_mask, token_type_ids [N,S]; outputs:
last_hidden_state, sentence_embedding. --int8 quantises the weights: u8 for tables, s8 for products, whose other operand
is quantised as the model runs.
"""
import json
import math
import os
import struct
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    types = {"F32": np.float32, "I64": np.int64}
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + n + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


class Builder:
    """A graph in the making. Values are their names."""

    def __init__(self, weights, int8):
        self.weights, self.int8 = weights, int8
        self.nodes, self.constants, self.quantised = [], {}, {}

    def const(self, array, name=None):
        name = name or f"c{len(self.constants)}"
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def weight(self, name):
        return self.const(self.weights[name], name)

    def op(self, op, *operands, results=1, **attributes):
        names = [f"t{len(self.nodes)}_{k}" for k in range(results)]
        self.nodes.append(helper.make_node(op, operands, names, f"{op}_{len(self.nodes)}", **attributes))
        return names[0] if results == 1 else names

    def ints(self, *values):
        return self.const(np.array(values, np.int64))

    def number(self, value):
        return self.const(np.float32(value))

    def table(self, name, indices):
        """Rows of a table of weights."""
        w = self.weights[name]
        if not self.int8:
            return self.op("Gather", self.weight(name), indices)
        low, high = min(float(w.min()), 0.0), max(float(w.max()), 0.0)
        scale = np.float32((high - low) / 255)
        zero = np.uint8(round(-low / float(scale)))
        q = np.clip(np.rint(w / scale) + np.float32(zero), 0, 255).astype(np.uint8)
        rows = self.op("Gather", self.const(q, name + "_q"), indices)
        return self.op("DequantizeLinear", rows, self.const(scale, name + "_scale"), self.const(zero, name + "_zero"))

    def product(self, x, name):
        w = self.weights[name].T
        if not self.int8:
            return self.op("MatMul", x, self.const(w, name + "T"))
        if x not in self.quantised:
            self.quantised[x] = self.op("DynamicQuantizeLinear", x, results=3)
        q, scale, zero = self.quantised[x]
        w_scale = np.float32(2 * float(np.abs(w).max()) / 254)
        w_q = np.clip(np.rint(w / w_scale), -127, 127).astype(np.int8)
        y = self.op("MatMulInteger", q, self.const(w_q, name + "T_q"), zero)
        y = self.op("Cast", y, to=TensorProto.FLOAT)
        return self.op("Mul", y, self.op("Mul", scale, self.const(w_scale, name + "T_scale")))

    def linear(self, x, name):
        return self.op("Add", self.product(x, name + ".weight"), self.weight(name + ".bias"))

    def norm(self, x, name, epsilon):
        return self.op("LayerNormalization", x, self.weight(name + ".weight"), self.weight(name + ".bias"), axis=-1,
                       epsilon=epsilon)

    def gelu(self, x):
        y = self.op("Add", self.op("Erf", self.op("Div", x, self.number(math.sqrt(2)))), self.number(1))
        return self.op("Mul", self.op("Mul", x, y), self.number(0.5))


def attention(b, x, layer, mask, heads, size):
    def split(name):
        y = b.linear(x, f"{layer}attention.self.{name}")
        return b.op("Transpose", b.op("Reshape", y, b.ints(0, 0, heads, size)), perm=[0, 2, 1, 3])

    query, key, value = split("query"), split("key"), split("value")
    scores = b.op("MatMul", query, b.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = b.op("Div", scores, b.number(math.sqrt(size)))
    scores = b.op("Softmax", b.op("Add", scores, mask), axis=-1)
    y = b.op("Transpose", b.op("MatMul", scores, value), perm=[0, 2, 1, 3])
    return b.linear(b.op("Reshape", y, b.ints(0, 0, heads * size)), layer + "attention.output.dense")


def encoder(b, config):
    width, heads, epsilon = config["hidden_size"], config["num_attention_heads"], config["layer_norm_eps"]
    length = b.op("Slice", b.op("Shape", "input_ids"), b.ints(1), b.ints(2), b.ints(0))
    place = b.op("Slice", b.weight("embeddings.position_embeddings.weight"), b.ints(0), length, b.ints(0))
    word = b.table("embeddings.word_embeddings.weight", "input_ids")
    kind = b.table("embeddings.token_type_embeddings.weight", "token_type_ids")
    x = b.norm(b.op("Add", b.op("Add", word, kind), place), "embeddings.LayerNorm", epsilon)
    present = b.op("Cast", "attention_mask", to=TensorProto.FLOAT)
    mask = b.op("Sub", b.number(1), b.op("Unsqueeze", present, b.ints(1, 2)))
    mask = b.op("Mul", mask, b.number(-1e4))
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        y = attention(b, x, layer, mask, heads, width // heads)
        x = b.norm(b.op("Add", x, y), layer + "attention.output.LayerNorm", epsilon)
        y = b.linear(b.gelu(b.linear(x, layer + "intermediate.dense")), layer + "output.dense")
        x = b.norm(b.op("Add", x, y), layer + "output.LayerNorm", epsilon)
    present = b.op("Unsqueeze", present, b.ints(2))
    total = b.op("ReduceSum", b.op("Mul", x, present), b.ints(1), keepdims=0)
    mean = b.op("Div", total, b.op("ReduceSum", present, b.ints(1), keepdims=0))
    return x, b.op("Div", mean, b.op("ReduceL2", mean, axes=[1], keepdims=1)), width


def make_model(folder, int8=False):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    b = Builder(read_safetensors(os.path.join(folder, "model.safetensors")), int8)
    hidden, sentence, width = encoder(b, config)
    names = "input_ids", "attention_mask", "token_type_ids"
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["N", "S"]) for name in names]
    outputs = []
    for value, name, shape in ((hidden, "last_hidden_state", ["N", "S", width]), (sentence, "sentence_embedding", ["N", width])):
        b.nodes.append(helper.make_node("Identity", [value], [name]))
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    graph = helper.make_graph(b.nodes, "minilm", inputs, outputs, list(b.constants.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["--int8"]):
        sys.exit(__doc__.strip())
    onnx.save(make_model(sys.argv[1], len(sys.argv) == 4), sys.argv[2])
