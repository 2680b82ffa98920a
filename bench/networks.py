# SPDX-License-Identifier: Apache-2.0
"""Well-known networks as ONNX models, built node by node, with weights that are the same each time.

Each weight comes from numpy's PCG64 seeded with (CRC32 of the model's name, its number in the model), scaled so that
activations neither vanish nor overflow. BatchNormalizations stay nodes, activations are spelt out as exporters write them:
folding and fusing them is the engines' work.
"""
import zlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
CLASSES = 1000


class Net:
    """Nodes and weights of a graph in the making. Values are names."""

    def __init__(self, name, opset=17):
        self.name, self.opset = name, opset
        self.nodes, self.weights = [], []
        self._seed, self._streams = zlib.crc32(name.encode()), 0
        self._bounds = None

    def random(self):
        self._streams += 1
        return np.random.Generator(np.random.PCG64([self._seed, self._streams]))

    def constant(self, array, name=None):
        name = name or f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def number(self, value):
        return self.constant(np.float32(value))

    def integers(self, *values):
        return self.constant(np.array(values, np.int64))

    def normal(self, shape, deviation, mean=0.0):
        values = self.random().standard_normal(shape, dtype=np.float32) * np.float32(deviation) + np.float32(mean)
        return self.constant(values.astype(np.float32), f"w{len(self.weights)}")

    def op(self, op, inputs, n_outputs=1, **attributes):
        number = len(self.nodes)
        outputs = [f"t{number}_{i}" if n_outputs > 1 else f"t{number}" for i in range(n_outputs)]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=f"n{number}_{op}", **attributes))
        return outputs if n_outputs > 1 else outputs[0]

    def model(self, inputs, outputs):
        """`inputs` are (name, type, shape), `outputs` pairs of a value and such a triple."""
        for value, (name, _, _) in outputs:
            self.nodes.append(helper.make_node("Identity", [value], [name], name="out_" + name))
        infos = [[helper.make_tensor_value_info(*i) for i in some] for some in (inputs, [o for _, o in outputs])]
        graph = helper.make_graph(self.nodes, self.name, *infos, self.weights)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="tenon bench")

    # Layers.

    def conv(self, x, channels, features, kernel, stride=1, groups=1, bias=False, gain=2.0):
        pad = (kernel - 1) // 2
        per_group = channels // groups
        shape = (features, per_group, kernel, kernel)
        inputs = [x, self.normal(shape, (gain / (per_group * kernel * kernel)) ** 0.5)]
        if bias:
            inputs.append(self.normal((features,), 0.02))
        return self.op("Conv", inputs, kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[pad] * 4,
                       group=groups, dilations=[1, 1])  # fmt: skip

    def norm(self, x, channels, gain=1.0):
        random = self.random()
        ranges = ((0.9 * gain, 1.1 * gain), (-0.1, 0.1), (-0.1, 0.1), (0.8, 1.2))
        inputs = [self.constant(random.uniform(low, high, channels).astype(np.float32)) for low, high in ranges]
        return self.op("BatchNormalization", [x, *inputs], epsilon=1e-5)

    def relu(self, x):
        return self.op("Relu", [x])

    def relu6(self, x):
        self._bounds = self._bounds or (self.number(0), self.number(6))
        return self.op("Clip", [x, *self._bounds])

    def silu(self, x):
        return self.op("Mul", [x, self.op("Sigmoid", [x])])

    def dense(self, x, inputs, outputs):
        weight = self.normal((outputs, inputs), (1.0 / inputs) ** 0.5)
        return self.op("Gemm", [x, weight, self.normal((outputs,), 0.02)], transB=1)

    def linear(self, x, inputs, outputs, deviation=None):
        y = self.op("MatMul", [x, self.normal((inputs, outputs), deviation or (1.0 / inputs) ** 0.5)])
        return self.op("Add", [y, self.normal((outputs,), 0.02)])

    def layer_norm(self, x, width):
        return self.op("LayerNormalization", [x, self.normal((width,), 0.05, 1.0), self.normal((width,), 0.02)],
                       axis=-1, epsilon=1e-5)  # fmt: skip

    def gelu(self, x):
        y = self.op("Add", [self.op("Erf", [self.op("Div", [x, self.number(2**0.5)])]), self.number(1)])
        return self.op("Mul", [self.op("Mul", [x, y]), self.number(0.5)])

    def gelu_tanh(self, x):
        cube = self.op("Pow", [x, self.number(3)])
        y = self.op("Add", [x, self.op("Mul", [cube, self.number(0.044715)])])
        y = self.op("Mul", [y, self.number((2 / np.pi) ** 0.5)])
        y = self.op("Add", [self.op("Tanh", [y]), self.number(1)])
        return self.op("Mul", [self.op("Mul", [x, y]), self.number(0.5)])

    def split_heads(self, x, heads, width):
        return self.op("Transpose", [self.op("Reshape", [x, self.integers(0, 0, heads, width)])], perm=[0, 2, 1, 3])

    def join_heads(self, x, width):
        return self.op("Reshape", [self.op("Transpose", [x], perm=[0, 2, 1, 3]), self.integers(0, 0, width)])

    def classifier(self, x, channels):
        return self.dense(self.op("Flatten", [self.op("GlobalAveragePool", [x])], axis=1), channels, CLASSES)

    def classifies(self, y, side=224):
        return self.model([("input", FLOAT, ["N", 3, side, side])], [(y, ("output", FLOAT, ["N", CLASSES]))])


# ---- pictures ----


def resnet(depth, width=1.0):
    net = Net(f"resnet{depth}")
    bottleneck = depth >= 50
    blocks = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth]
    sizes = [max(8, int(c * width)) for c in (64, 128, 256, 512)]
    x = net.relu(net.norm(net.conv("input", 3, sizes[0], 7, 2), sizes[0]))
    x = net.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = sizes[0]
    for stage, (size, n) in enumerate(zip(sizes, blocks)):
        features = size * 4 if bottleneck else size
        for i in range(n):
            stride = 2 if stage > 0 and i == 0 else 1
            if bottleneck:
                y = net.relu(net.norm(net.conv(x, channels, size, 1), size))
                y = net.relu(net.norm(net.conv(y, size, size, 3, stride), size))
                y = net.norm(net.conv(y, size, features, 1), features, 0.3)
            else:
                y = net.relu(net.norm(net.conv(x, channels, size, 3, stride), size))
                y = net.norm(net.conv(y, size, size, 3), size, 0.3)
            if stride > 1 or channels != features:
                x = net.norm(net.conv(x, channels, features, 1, stride, gain=1.0), features)
            x = net.relu(net.op("Add", [y, x]))
            channels = features
    return net.classifies(net.classifier(x, channels))


def mobilenet_v1(width=1.0):
    net = Net("mobilenet_v1")
    layers = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    layers += [(512, 512, 1)] * 5 + [(512, 1024, 2), (1024, 1024, 1)]

    def size(channels):
        return max(8, int(channels * width))

    x = net.relu(net.norm(net.conv("input", 3, size(32), 3, 2), size(32)))
    for before, after, stride in layers:
        c, f = size(before), size(after)
        x = net.relu(net.norm(net.conv(x, c, c, 3, stride, groups=c), c))
        x = net.relu(net.norm(net.conv(x, c, f, 1), f))
    y = net.op("Mul", [net.classifier(x, size(1024)), net.number(4)])
    return net.classifies(net.op("Softmax", [y], axis=1))


def mobilenet_v2(width=1.0):
    net = Net("mobilenet_v2")
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]

    def size(channels):
        return max(8, int(channels * width + 4) // 8 * 8)

    x = net.relu6(net.norm(net.conv("input", 3, size(32), 3, 2), size(32)))
    channels = size(32)
    for expansion, after, n, first_stride in stages:
        for i in range(n):
            stride, hidden, features = first_stride if i == 0 else 1, channels * expansion, size(after)
            adds = stride == 1 and channels == features
            y = x
            if expansion > 1:
                y = net.relu6(net.norm(net.conv(y, channels, hidden, 1), hidden))
            y = net.relu6(net.norm(net.conv(y, hidden, hidden, 3, stride, groups=hidden), hidden))
            y = net.norm(net.conv(y, hidden, features, 1), features, 0.7 if adds else 1.0)
            x = net.op("Add", [x, y]) if adds else y
            channels = features
    x = net.relu6(net.norm(net.conv(x, channels, 1280, 1), 1280))
    return net.classifies(net.classifier(x, 1280))


class Yolo:
    """A detector without anchors: a backbone of split blocks, pooling pyramid, two features fed upwards, boxes decoded and
    chosen in the graph."""

    def __init__(self, width=1.0, side=320, classes=20):
        self.net = Net("yolo_tiny")
        self.width, self.side, self.classes = width, side, classes

    def size(self, channels):
        return max(8, int(channels * self.width))

    def block(self, x, channels, features, kernel=3, stride=1):
        return self.net.silu(self.net.norm(self.net.conv(x, channels, features, kernel, stride), features))

    def stage(self, x, channels, n, adds=True):
        half = channels // 2
        y, rest = self.net.op("Split", [self.block(x, channels, channels, 1), self.net.integers(half, half)], 2, axis=1)
        for _ in range(n):
            z = self.block(self.block(y, half, half, 1), half, half)
            y = self.net.op("Add", [y, z]) if adds else z
        return self.block(self.net.op("Concat", [y, rest], axis=1), channels, channels, 1)

    def pools(self, x, channels):
        levels = [x]
        for _ in range(3):
            levels.append(self.net.op("MaxPool", levels[-1:], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
        return self.block(self.net.op("Concat", levels, axis=1), 4 * channels, self.size(256), 1)

    def upscaled(self, x):
        scales = self.net.constant(np.array([1, 1, 2, 2], np.float32))
        return self.net.op("Resize", [x, "", scales], mode="nearest", coordinate_transformation_mode="asymmetric",
                           nearest_mode="floor")  # fmt: skip

    def merged(self, x, y, channels):
        return self.stage(self.net.op("Concat", [self.upscaled(x), y], axis=1), channels, 1, False)

    def features(self):
        s = self.size
        x = self.block("input", 3, s(16), 3, 2)
        x = self.stage(self.block(x, s(16), s(32), 3, 2), s(32), 1)
        near = self.stage(self.block(x, s(32), s(64), 3, 2), s(64), 2)
        middle = self.stage(self.block(near, s(64), s(128), 3, 2), s(128), 2)
        x = self.block(middle, s(128), s(256), 3, 2)
        x = self.block(x, s(256), s(128), 1)
        far = self.stage(self.pools(x, s(128)), s(256), 1, False)
        f4 = self.merged(self.block(far, s(256), s(128), 1), middle, 2 * s(128))
        f3 = self.merged(self.block(f4, 2 * s(128), s(64), 1), near, 2 * s(64))
        return (f3, 2 * s(64), 8), (f4, 2 * s(128), 16), (far, s(256), 32)

    def decoded(self, feature, channels, step):
        net, cells = self.net, self.side // step
        t = self.block(feature, channels, self.size(64))
        box = net.conv(t, self.size(64), 4, 1, bias=True, gain=30.0)
        score = net.conv(t, self.size(64), self.classes, 1, bias=True, gain=60.0)
        box = net.op("Transpose", [net.op("Reshape", [box, net.integers(0, 4, -1)])], perm=[0, 2, 1])
        at, extent = net.op("Split", [box, net.integers(2, 2)], 2, axis=2)
        y, x = np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij")
        grid = net.constant((np.stack([x, y], -1).reshape(1, -1, 2) + 0.5).astype(np.float32))
        centre = net.op("Mul", [net.op("Add", [at, grid]), net.number(step)])
        half = net.op("Mul", [net.op("Sigmoid", [extent]), net.number(2)])
        half = net.op("Mul", [net.op("Pow", [half, net.number(2)]), net.number(step)])
        corners = [net.op("Sub", [centre, half]), net.op("Add", [centre, half])]
        boxes = net.op("Concat", corners, axis=2)
        return boxes, net.op("Reshape", [net.op("Sigmoid", [score]), net.integers(0, self.classes, -1)])

    def model(self):
        net = self.net
        boxes, scores = zip(*(self.decoded(*f) for f in self.features()))
        boxes, scores = net.op("Concat", list(boxes), axis=1), net.op("Concat", list(scores), axis=2)
        limits = [net.integers(10), net.constant(np.array([0.5], np.float32)), net.constant(np.array([0.6], np.float32))]
        chosen = net.op("NonMaxSuppression", [boxes, scores, *limits])
        outputs = [(boxes, ("boxes", FLOAT, [1, "A", 4])), (scores, ("scores", FLOAT, [1, self.classes, "A"])),
                   (chosen, ("selected", INT64, ["K", 3]))]  # fmt: skip
        return net.model([("input", FLOAT, [1, 3, self.side, self.side])], outputs)


# ---- text ----


def bert(layers=12, width=768, heads=12, words=30522, positions=512):
    net = Net("bert_base")
    each = width // heads
    embedded = net.op("Gather", [net.normal((words, width), 0.5), "input_ids"])
    length = net.op("Slice", [net.op("Shape", ["input_ids"]), net.integers(1), net.integers(2), net.integers(0)])
    at = net.op("Slice", [net.normal((1, positions, width), 0.2), net.integers(0), length, net.integers(1)])
    kinds = net.op("Gather", [net.normal((2, width), 0.2), "token_type_ids"])
    x = net.layer_norm(net.op("Add", [net.op("Add", [embedded, kinds]), at]), width)
    mask = net.op("Cast", [net.op("Unsqueeze", ["attention_mask", net.integers(1, 2)])], to=FLOAT)
    mask = net.op("Mul", [net.op("Sub", [net.number(1), mask]), net.number(-1e4)])
    for _ in range(layers):
        q, k, v = (net.split_heads(net.linear(x, width, width), heads, each) for _ in range(3))
        scores = net.op("MatMul", [q, net.op("Transpose", [k], perm=[0, 1, 3, 2])])
        scores = net.op("Add", [net.op("Div", [scores, net.number(each**0.5)]), mask])
        y = net.join_heads(net.op("MatMul", [net.op("Softmax", [scores], axis=-1), v]), width)
        x = net.layer_norm(net.op("Add", [x, net.linear(y, width, width)]), width)
        y = net.linear(net.gelu(net.linear(x, width, 4 * width)), 4 * width, width)
        x = net.layer_norm(net.op("Add", [x, y]), width)
    first = net.op("Gather", [x, net.constant(np.int64(0))], axis=1)
    pooled = net.op("Tanh", [net.linear(first, width, width)])
    inputs = [(name, INT64, ["N", "S"]) for name in ("input_ids", "attention_mask", "token_type_ids")]
    outputs = [(x, ("last_hidden_state", FLOAT, ["N", "S", width])), (pooled, ("pooler_output", FLOAT, ["N", width]))]
    return net.model(inputs, outputs)


def gpt2(layers=12, width=768, heads=12, words=50257, positions=1024):
    """A decoder with the keys and values of the P tokens before: one step of writing text."""
    net = Net("gpt2_small")
    each = width // heads
    table = net.normal((words, width), 0.1)
    new = net.op("Gather", [net.op("Shape", ["input_ids"]), net.constant(np.int64(1))])
    old = net.op("Gather", [net.op("Shape", ["past_k_0"]), net.constant(np.int64(2))])
    total, one, zero = net.op("Add", [new, old]), net.constant(np.int64(1)), net.constant(np.int64(0))
    at = net.op("Range", [old, total, one])
    x = net.op("Gather", [table, "input_ids"])
    x = net.op("Add", [x, net.op("Gather", [net.normal((positions, width), 0.05), at])])
    every = net.op("Unsqueeze", [net.op("Range", [zero, total, one]), net.integers(0)])
    seen = net.op("LessOrEqual", [every, net.op("Unsqueeze", [at, net.integers(1)])])
    hidden, scale = net.number(-3e4), net.number(each**-0.5)
    inputs, outputs = [("input_ids", INT64, ["N", "S"])], []
    for i in range(layers):
        y = net.linear(net.layer_norm(x, width), width, 3 * width)
        parts = net.op("Split", [y, net.integers(width, width, width)], 3, axis=2)
        q, k, v = (net.split_heads(part, heads, each) for part in parts)
        inputs += [(f"past_{c}_{i}", FLOAT, ["N", heads, "P", each]) for c in "kv"]
        k, v = net.op("Concat", [f"past_k_{i}", k], axis=2), net.op("Concat", [f"past_v_{i}", v], axis=2)
        outputs += [(t, (f"present_{c}_{i}", FLOAT, ["N", heads, "T", each])) for c, t in (("k", k), ("v", v))]
        scores = net.op("MatMul", [q, net.op("Transpose", [k], perm=[0, 1, 3, 2])])
        scores = net.op("Where", [seen, net.op("Mul", [scores, scale]), hidden])
        y = net.join_heads(net.op("MatMul", [net.op("Softmax", [scores], axis=-1), v]), width)
        x = net.op("Add", [x, net.linear(y, width, width, deviation=0.3 * width**-0.5)])
        y = net.gelu_tanh(net.linear(net.layer_norm(x, width), width, 4 * width))
        x = net.op("Add", [x, net.linear(y, 4 * width, width, deviation=0.3 * (4 * width) ** -0.5)])
    logits = net.op("MatMul", [net.layer_norm(x, width), net.op("Transpose", [table], perm=[1, 0])])
    return net.model(inputs, [(logits, ("logits", FLOAT, ["N", "S", words])), *outputs])


NETWORKS = {
    "resnet18": lambda: resnet(18),
    "resnet50": lambda: resnet(50),
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "yolo_tiny": lambda: Yolo().model(),
    "bert_base": bert,
    "gpt2_small": gpt2,
}
SMALL = {
    "resnet18": lambda: resnet(18, 0.25),
    "resnet50": lambda: resnet(50, 0.25),
    "mobilenet_v1": lambda: mobilenet_v1(0.25),
    "mobilenet_v2": lambda: mobilenet_v2(0.35),
    "yolo_tiny": lambda: Yolo(0.5, 128).model(),
    "bert_base": lambda: bert(2, 128, 2, 1000, 128),
    "gpt2_small": lambda: gpt2(2, 128, 4, 1000, 128),
}

# Sizes that the models leave open, for measuring: a sentence; one token after 127.
SIZES = {"bert_base": {"S": 128}, "gpt2_small": {"P": 127}}
