# SPDX-License-Identifier: Apache-2.0
"""Large ONNX models of five shapes, written without a library so that a million nodes take seconds: a chain, wide fan-outs,
diamonds, stacks of transformer layers and of convolutions."""
from test_scale_slow import block, number, value_info, varint

F32 = 1


def node(op, inputs, outputs, attributes=b""):
    names = b"".join(block(1, name) for name in inputs) + b"".join(block(2, name) for name in outputs)
    return block(1, names + block(4, op) + attributes)


def ints(name, values):
    return block(5, block(1, name) + b"".join(number(8, v) for v in values) + number(20, 7))


def tensor(name, dims, data):
    return block(5, b"".join(number(1, d) for d in dims) + number(2, F32) + block(8, name) + block(9, data))


def write(path, nodes, inputs, outputs, tensors=()):
    parts = [block(2, b"large"), *tensors, *(block(11, i) for i in inputs), *(block(12, o) for o in outputs), *nodes]
    with open(path, "wb") as file:
        file.write(number(1, 8) + block(8, block(1, b"") + number(2, 17)) + varint(7 << 3 | 2) + varint(sum(map(len, parts))))
        file.writelines(parts)


def chain(path, n):
    ops = [b"Relu", b"Neg", b"Tanh", b"Abs"]
    nodes = [node(ops[i % 4], [b"v%d" % i], [b"v%d" % (i + 1)]) for i in range(n)]
    write(path, nodes, [value_info(b"v0", (2, 3))], [value_info(b"v%d" % n, (2, 3))])


def fan_out(path, n):
    """Values that a thousand nodes read each, summed up again."""
    nodes, last = [], b"x"
    for group in range(n // 1001):
        tops = [b"g%d_%d" % (group, i) for i in range(1000)]
        nodes += [node(b"Tanh" if i % 2 else b"Sigmoid", [last], [top]) for i, top in enumerate(tops)]
        last = b"s%d" % group
        nodes.append(node(b"Sum", tops, [last]))
    write(path, nodes, [value_info(b"x", (2, 3))], [value_info(last, (2, 3))])


def diamonds(path, n):
    nodes, last = [], b"x"
    for i in range(n // 3):
        nodes.append(node(b"Tanh", [last], [b"a%d" % i]))
        nodes.append(node(b"Neg", [last], [b"b%d" % i]))
        last = b"c%d" % i
        nodes.append(node(b"Add", [b"a%d" % i, b"b%d" % i], [last]))
    write(path, nodes, [value_info(b"x", (2, 3))], [value_info(last, (2, 3))])


def transformer(path, n):
    """Layers as exporters write them, of 30 nodes, on weights that all share."""
    weight = tensor(b"w", (8, 8), bytes(256)), tensor(b"b", (8,), bytes(32)), tensor(b"e", (), b"\x17\xb7\xd1\x38")
    two, scale = tensor(b"two", (), b"\0\0\0\x40"), tensor(b"k", (), b"\xf3\x04\x35\x3f")
    nodes, last = [], b"x"

    def add(op, inputs, attributes=b""):
        name = b"n%d" % len(nodes)
        nodes.append(node(op, inputs, [name], attributes))
        return name

    def norm(x):
        centred = add(b"Sub", [x, add(b"ReduceMean", [x], ints(b"axes", [2]))])
        variance = add(b"ReduceMean", [add(b"Pow", [centred, b"two"])], ints(b"axes", [2]))
        return add(b"Div", [centred, add(b"Sqrt", [add(b"Add", [variance, b"e"])])])

    def linear(x):
        return add(b"Add", [add(b"MatMul", [x, b"w"]), b"b"])

    for _ in range(n // 30):
        x = norm(last)
        q, k, v = linear(x), linear(x), linear(x)
        weights = add(b"Mul", [add(b"MatMul", [q, add(b"Transpose", [k], ints(b"perm", [0, 2, 1]))]), b"k"])
        mixed = add(b"MatMul", [add(b"Softmax", [weights]), v])
        y = add(b"Add", [linear(mixed), last])
        up = linear(norm(y))
        last = add(b"Add", [linear(add(b"Mul", [up, add(b"Sigmoid", [up])])), y])
    write(path, nodes, [value_info(b"x", (1, 4, 8))], [value_info(last, (1, 4, 8))], [*weight, two, scale])


def conv_net(path, n):
    """Residual blocks of 8 nodes, on weights that all share."""
    scales = [b"s0", b"s1", b"s2", b"s3"]
    tensors = [tensor(b"w", (8, 8, 1, 1), bytes(256)), tensor(b"low", (), bytes(4)), tensor(b"high", (), b"\0\0\xc0\x40")]
    tensors += [tensor(name, (8,), b"\0\0\x80\x3f" * 8) for name in scales]
    nodes, last = [], b"x"

    def add(op, *inputs):
        name = b"n%d" % len(nodes)
        nodes.append(node(op, inputs, [name]))
        return name

    def conv(x):
        return add(b"BatchNormalization", add(b"Conv", x, b"w"), *scales)

    for _ in range(n // 8):
        last = add(b"Clip", add(b"Relu", add(b"Add", conv(add(b"Relu", conv(last))), last)), b"low", b"high")
    write(path, nodes, [value_info(b"x", (1, 8, 4, 4))], [value_info(last, (1, 8, 4, 4))], tensors)


SHAPES = {"chain": chain, "fan_out": fan_out, "diamonds": diamonds, "transformer": transformer, "conv_net": conv_net}
