# SPDX-License-Identifier: Apache-2.0
"""ai.onnx.preview.training.Gradient against finite differences in float64: each op that has a derivative, with static,
symbolic and unknown shapes and once more as a gradient of a gradient, then random graphs, then what must be refused."""
import os
import re
import unittest

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt as rt  # noqa: E402
import tenonrt._errors as errors  # noqa: E402
from harness import ROOT  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

DOMAIN = "ai.onnx.preview.training"
STEP = 1e-5


def node(op, inputs, outputs="y", **attributes):
    """Names in words; `-` is an absent operand."""
    return helper.make_node(op, ["" if name == "-" else name for name in inputs.split()], outputs.split(), **attributes)


def gradient(xs, y, outputs, zs=(), inputs=None, name="grad"):
    fields = {"xs": xs, "y": y, **({"zs": list(zs)} if zs else {})}
    names = [*xs, *zs] if inputs is None else inputs
    return helper.make_node("Gradient", names, outputs, name=name, domain=DOMAIN, **fields)


def info(name, array, shapes):
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    dims = {"static": list(array.shape), "symbolic": [f"{name}{i}" for i in range(array.ndim)], "unknown": None}[shapes]
    return helper.make_tensor_value_info(name, code, dims)


def model_of(nodes, feeds, outputs, shapes="static", opset=25, constants=(), functions=()):
    unknown = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs]
    for value in unknown:
        value.ClearField("type")
    inputs = [info(name, array, shapes) for name, array in feeds.items() if name not in constants]
    weights = [helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.tobytes(), raw=True)
               for n, a in feeds.items() if n in constants]  # fmt: skip
    graph = helper.make_graph(nodes, "g", inputs, unknown, weights)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def session(*args, **options):
    return rt.InferenceSession(model_of(*args, **options).SerializeToString())


def differences(run, feeds, name):
    """The derivative of the sum of what `run` gives by each element of the feed `name`."""
    out = np.empty_like(feeds[name])
    for at in np.ndindex(out.shape):
        sides = []
        for step in (STEP, -STEP):
            moved = feeds[name].copy()
            moved[at] = moved[at] + step
            sides.append(np.sum(run({**feeds, name: moved})))
        out[at] = (sides[0] - sides[1]) / (2 * STEP)
    return out


RNG = np.random.default_rng(4)


def free(feeds):
    """Those to derive by; the others begin with k."""
    return [name for name in feeds if name[0] != "k"]


def around(*shape, least=0.2, most=1.7):
    """Of both signs, away from 0."""
    return np.asarray(RNG.uniform(least, most, shape) * RNG.choice([-1.0, 1.0], shape))


def positive(*shape, least=0.3, most=2.0):
    return RNG.uniform(least, most, shape)


def spread(*shape):
    """No two elements near each other."""
    return RNG.permutation(np.arange(np.prod(shape, dtype=int)) * 0.31 - 1.07).reshape(shape)


def ints(*values):
    return np.array(values, np.int64)


def unary_cases():
    inside, beyond = RNG.uniform(-0.8, 0.8, (2, 3)), positive(2, 3, least=1.2)
    for op in "Abs Atan Ceil Cos Cosh Elu Erf Exp Floor HardSwish Identity LeakyRelu Mish Neg Reciprocal Relu".split():
        yield op, [node(op, "a")], {"a": around(2, 3)}
    for op in "Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Tan Tanh Celu Asinh Flatten".split():
        yield op, [node(op, "a")], {"a": around(2, 3, most=1.3)}
    for op in "Acos Asin Atanh HardSigmoid".split():
        yield op, [node(op, "a")], {"a": inside}
    yield "Acosh", [node("Acosh", "a")], {"a": beyond}
    yield "Log", [node("Log", "a")], {"a": positive(2, 3)}
    yield "Sqrt", [node("Sqrt", "a")], {"a": positive(2, 3)}
    yield "Elu alpha", [node("Elu", "a", alpha=0.6)], {"a": around(4)}
    yield "Celu alpha", [node("Celu", "a", alpha=0.6)], {"a": around(4)}
    yield "Selu own", [node("Selu", "a", alpha=0.6, gamma=1.5)], {"a": around(4)}
    yield "LeakyRelu alpha", [node("LeakyRelu", "a", alpha=0.3)], {"a": around(4)}
    yield "ThresholdedRelu", [node("ThresholdedRelu", "a", alpha=0.9)], {"a": around(4, least=1, most=1.5)}
    yield "Shrink", [node("Shrink", "a", lambd=0.9, bias=0.2)], {"a": around(4, least=1, most=1.5)}
    yield "HardSigmoid alpha", [node("HardSigmoid", "a", alpha=0.5, beta=0.1)], {"a": spread(9) * 3}
    yield "HardSwish ends", [node("HardSwish", "a")], {"a": np.array([-4, -2, 2, 4.0])}
    yield "Gelu", [node("Gelu", "a")], {"a": around(5)}
    yield "Gelu tanh", [node("Gelu", "a", approximate="tanh")], {"a": around(5)}
    yield "Cast", [node("Cast", "a", "b", to=TensorProto.DOUBLE), node("Exp", "b")], {"a": around(4)}
    yield "Dropout", [node("Dropout", "a"), node("Mul", "y y", "z")], {"a": around(4)}


def many_cases():
    for op in ("Add", "Sub", "Mul", "Div"):
        yield op, [node(op, "a b")], {"a": around(2, 3), "b": around(2, 3)}
        yield op + " row", [node(op, "a b")], {"a": around(2, 3), "b": around(3)}
        yield op + " ones", [node(op, "a b")], {"a": around(2, 1, 3), "b": around(4, 1)}
        yield op + " scalar", [node(op, "a b")], {"a": around(), "b": around(2, 2)}
        yield op + " itself", [node(op, "a a")], {"a": around(2, 2)}
    yield "Pow", [node("Pow", "a b")], {"a": positive(2, 3), "b": around(3)}
    yield "Pow constant", [node("Pow", "a k")], {"a": around(3), "k": np.array(2.0)}
    yield "Pow integer", [node("Pow", "a k")], {"a": around(3), "k": ints(0, 2, 3)}
    yield "PRelu", [node("PRelu", "a b")], {"a": around(2, 3), "b": around(3)}
    yield "Where", [node("Where", "k a b")], {"k": np.array([True, False, True]), "a": around(2, 1), "b": around(3)}
    yield "Clip", [node("Clip", "a b c")], {"a": spread(9), "b": np.array(-0.6), "c": np.array(0.9)}
    yield "Clip above", [node("Clip", "a - c")], {"a": spread(9), "c": np.array(0.9)}
    yield "CastLike", [node("CastLike", "a b", "c"), node("Mul", "c b")], {"a": around(3), "b": around(3)}
    for op in ("Max", "Min", "Sum", "Mean"):
        feeds = {"a": spread(2, 3), "b": spread(3) + 0.1, "c": spread(2, 1) + 0.15}
        yield op, [node(op, "a b c")], feeds
        yield op + " one", [node(op, "a")], {"a": spread(2, 3)}


def axis_cases():
    for op in ("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin"):
        yield op, [node(op, "a k")], {"a": spread(2, 3, 2), "k": ints(1)}
        yield op + " kept", [node(op, "a k", keepdims=1)], {"a": spread(2, 3, 2), "k": ints(-1, 0)}
        yield op + " gone", [node(op, "a k", keepdims=0)], {"a": spread(2, 3, 2), "k": ints(-1, 0)}
        yield op + " all", [node(op, "a", keepdims=0)], {"a": spread(2, 3)}
    for op in ("ReduceLogSum", "ReduceLogSumExp"):
        yield op, [node(op, "a k", keepdims=0)], {"a": positive(2, 3, 2), "k": ints(1)}
    yield "ReduceSum nothing", [node("ReduceSum", "a", noop_with_empty_axes=1)], {"a": around(2, 2)}
    for op in ("Softmax", "LogSoftmax"):
        yield op, [node(op, "a", "b"), node("Mul", "b b")], {"a": around(2, 3)}
        yield op + " first", [node(op, "a", "b", axis=0), node("Mul", "b c")], {"a": around(2, 3), "c": around(2, 3)}
    yield "GlobalAveragePool", [node("GlobalAveragePool", "a")], {"a": around(2, 3, 2, 2)}


def shape_cases():
    a = around(2, 3, 4)
    yield "Reshape", [node("Reshape", "a k", "b"), node("Exp", "b")], {"a": a, "k": ints(4, -1)}
    yield "Squeeze", [node("Squeeze", "a", "b"), node("Exp", "b")], {"a": around(2, 1, 3)}
    yield "Unsqueeze", [node("Unsqueeze", "a k", "b"), node("Exp", "b")], {"a": around(2, 3), "k": ints(0, -1)}
    yield "Transpose", [node("Transpose", "a", "b"), node("Mul", "b c")], {"a": a, "c": around(4, 3, 2)}
    yield "Transpose perm", [node("Transpose", "a", "b", perm=[1, 2, 0]), node("Mul", "b c")], {"a": a, "c": around(3, 4, 2)}
    yield "Expand", [node("Expand", "a k", "b"), node("Mul", "b b")], {"a": around(3, 1), "k": ints(2, 1, 4)}
    for axis in (1, -1):
        feeds = {"a": around(2, 3)[:, :2] if axis == 1 else around(2, 3), "b": around(2, 3), "c": around(2)}
        yield f"Concat {axis}", [node("Concat", "a b", "d", axis=axis), node("Mul", "d d")], feeds
    yield "Split", [node("Split", "a k", "b c", axis=-1), node("Mul", "c c")], {"a": a, "k": ints(1, 3)}
    yield "Slice", [node("Slice", "a k ke kx kt", "b"), node("Mul", "b b")], {
        "a": a, "k": ints(-1, 0), "ke": ints(-9, 3), "kx": ints(2, 1), "kt": ints(-2, 2)}  # fmt: skip
    yield "Gather", [node("Gather", "a k", "b", axis=1), node("Mul", "b b")], {"a": a, "k": ints(0, 2, 0)}
    yield "GatherElements", [node("GatherElements", "a k", "b", axis=1), node("Exp", "b")], {
        "a": around(2, 3), "k": ints(0, 0, 2, 1).reshape(2, 2)}  # fmt: skip
    yield "GatherND", [node("GatherND", "a k", "b"), node("Exp", "b")], {"a": around(2, 3), "k": ints(1, 1, 0).reshape(3, 1)}
    yield "Tile", [node("Tile", "a k", "b"), node("Exp", "b")], {"a": around(2, 3), "k": ints(2, 1)}
    yield "Trilu", [node("Trilu", "a", "b"), node("Exp", "b")], {"a": around(3, 3)}
    yield "DepthToSpace", [node("DepthToSpace", "a", "b", blocksize=2), node("Exp", "b")], {"a": around(1, 4, 2, 1)}
    yield "SpaceToDepth", [node("SpaceToDepth", "a", "b", blocksize=2), node("Exp", "b")], {"a": around(1, 1, 2, 4)}
    yield "ReverseSequence", [node("ReverseSequence", "a k", "b"), node("Mul", "b c")], {
        "a": around(3, 2), "k": ints(2, 3), "c": around(3, 2)}  # fmt: skip
    yield "CenterCropPad", [node("CenterCropPad", "a k", "b"), node("Exp", "b")], {"a": around(2, 4), "k": ints(3, 2)}
    yield "Compress", [node("Compress", "a k", "b", axis=1), node("Exp", "b")], {"a": around(2, 3), "k": np.array([True, False, True])}
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield f"Pad {mode}", [node("Pad", "a k", "b", mode=mode), node("Mul", "b b")], {"a": around(3, 3), "k": ints(1, 0, 1, 2)}
    yield "Pad value", [node("Pad", "a k k2", "b"), node("Exp", "b")], {"a": around(3), "k": ints(-1, 2), "k2": np.array(0.5)}
    yield "ScatterElements", [node("ScatterElements", "a k b", "c", reduction="add"), node("Exp", "c")], {
        "a": around(3), "k": ints(1, 1), "b": around(2)}  # fmt: skip


def product_cases():
    def matrix(a, b):
        return [node("MatMul", "a b", "m"), node("Mul", "m m")], {"a": around(*a), "b": around(*b)}

    for a, b in (((2, 3), (3, 4)), ((3,), (3,)), ((3,), (2, 3, 2)), ((2, 2, 3), (3,)), ((2, 1, 2, 3), (4, 3, 1)), ((4, 3), (2, 3, 2))):
        yield f"MatMul {a} {b}", *matrix(a, b)
    for ta in (0, 1):
        for tb in (0, 1):
            feeds = {"a": around(3, 2) if ta else around(2, 3), "b": around(4, 3) if tb else around(3, 4), "c": around(4)}
            yield f"Gemm {ta} {tb}", [node("Gemm", "a b c", "m", transA=ta, transB=tb, alpha=0.5, beta=2.0), node("Mul", "m m")], feeds
    yield "MaxPool", [node("MaxPool", "a", "b", kernel_shape=[2, 2], strides=[1, 1]), node("Mul", "b b")], {"a": spread(1, 2, 3, 3)}
    padded = node("MaxPool", "a", "b", kernel_shape=[3], pads=[1, 1], strides=[2])
    yield "MaxPool padded", [padded, node("Mul", "b b")], {"a": spread(2, 1, 5)}


def conv_cases():
    def conv(a, b, op="Conv", bias=None, **attributes):
        feeds = {"a": around(*a), "b": around(*b), "c": around(bias or b[0])}
        return [node(op, "a b c", "m", **attributes), node("Mul", "m m")], feeds

    yield "Conv", *conv((2, 2, 4, 5), (3, 2, 2, 3))
    yield "Conv strides", *conv((1, 2, 6, 5), (2, 2, 3, 2), strides=[2, 3], pads=[1, 0, 2, 1])
    yield "Conv dilations", *conv((1, 1, 7), (2, 1, 2), dilations=[3], strides=[2], pads=[0, 1])
    yield "Conv groups", *conv((2, 4, 4), (6, 2, 3), group=2, pads=[1, 1])
    yield "Conv depthwise", *conv((2, 3, 3, 3), (3, 1, 2, 2), group=3, strides=[2, 2])
    yield "Conv same", *conv((1, 1, 5), (1, 1, 4), auto_pad="SAME_UPPER", strides=[2])
    up = {"op": "ConvTranspose"}
    yield "ConvTranspose", *conv((1, 2, 3), (2, 2, 3), bias=2, strides=[2], pads=[1, 0], output_padding=[1], **up)
    yield "ConvTranspose groups", *conv((2, 4, 2, 2), (4, 1, 2, 2), bias=2, group=2, dilations=[1, 2], **up)
    yield "Conv same lower", *conv((1, 1, 5), (1, 1, 4), auto_pad="SAME_LOWER")


def swish_cases():
    yield "Swish", [node("Swish", "a", alpha=0.7)], {"a": around(5)}


# What the derivatives themselves look at has to be static there, or is decided by the rank.
KNOWN_SIZES = ("Conv", "MatMul")


class Numeric(unittest.TestCase):
    def compare(self, name, nodes, feeds, shapes="static"):
        y, xs = nodes[-1].output[0], free(feeds)
        back = gradient(xs, y, ["d_" + n for n in xs], zs=[n for n in feeds if n not in xs])
        values = session([*nodes, back], feeds, [y], shapes)
        slopes = session([*nodes, back], feeds, ["d_" + n for n in xs], shapes)
        found = slopes.run(None, feeds)
        for x, slope in zip(xs, found):
            self.assertEqual(slope.shape, feeds[x].shape, (name, shapes, x))
            want = differences(lambda f: values.run(None, f)[0], feeds, x)
            np.testing.assert_allclose(slope, want, rtol=1e-5, atol=1e-7, err_msg=f"{name} {shapes} by {x}")

    def second(self, name, nodes, feeds):
        """The gradient of the sum of squares of the first gradient's."""
        y, xs = nodes[-1].output[0], free(feeds)
        zs = [n for n in feeds if n not in xs]
        first = gradient(xs, y, ["d_" + n for n in xs], zs, name="first")
        squares = [node("ReduceSumSquare", "d_" + n, "q_" + n, keepdims=0) for n in xs]
        total = helper.make_node("Sum", ["q_" + n for n in xs], ["total"])
        again = gradient(xs, "total", ["e_" + n for n in xs], zs, name="second")
        nodes = [*nodes, first, *squares, total, again]
        values, slopes = session(nodes, feeds, ["total"]), session(nodes, feeds, ["e_" + n for n in xs])
        for x, slope in zip(xs, slopes.run(None, feeds)):
            want = differences(lambda f: values.run(None, f)[0], feeds, x)
            np.testing.assert_allclose(slope, want, rtol=1e-4, atol=1e-6, err_msg=f"{name} twice by {x}")

    def sweep(self, cases):
        for name, nodes, feeds in cases:
            with self.subTest(name):
                for shapes in ("static", "symbolic", "unknown"):
                    known = name.startswith(KNOWN_SIZES) or (name.startswith("Softmax") and shapes == "unknown")
                    if shapes == "static" or not known:
                        self.compare(name, nodes, feeds, shapes)
                self.second(name, nodes, feeds)

    def test_all_of_the_table(self):
        """Each op that has a derivative is in a case."""
        with open(os.path.join(ROOT, "src", "formats", "onnx", "gradient_table.c"), encoding="utf-8") as file:
            rows = set(re.findall(r'^    \{"(\w+)"', file.read(), re.M))
        cases = (unary_cases, many_cases, axis_cases, shape_cases, product_cases, conv_cases, swish_cases)
        ops = {n.op_type for of in cases for _, nodes, _ in of() for n in nodes}
        self.assertTrue(rows)
        self.assertEqual(rows - ops, set())

    def test_one_operand(self):
        self.sweep(unary_cases())

    def test_many_operands(self):
        self.sweep(many_cases())

    def test_axes(self):
        self.sweep(axis_cases())

    def test_shapes(self):
        self.sweep(shape_cases())

    def test_products(self):
        self.sweep(product_cases())

    def test_convolutions(self):
        self.sweep(conv_cases())

    def test_swish(self):
        self.sweep(swish_cases())

    def test_random_graphs(self):
        rng = np.random.default_rng(17)
        unary = ["Tanh", "Sigmoid", "Sin", "Cos", "Softplus", "Neg", "Identity", "Erf"]
        binary = ["Add", "Sub", "Mul", "MatMul", "Max", "Min"]
        for trial in range(25):
            names, nodes = ["a", "b", "c"], []
            for k in range(rng.integers(3, 9)):
                some = [names[i] for i in rng.integers(0, len(names), 2)]
                op = str(rng.choice(unary + binary + ["Softmax", "Transpose", "ReduceMean"]))
                inputs = some if op in binary else some[:1]
                nodes.append(helper.make_node(op, inputs, [f"t{k}"]))
                names.append(f"t{k}")
            feeds = {n: np.random.default_rng(trial).normal(size=(3, 3)) * (1 + i) / 3 for i, n in enumerate("abc")}
            with self.subTest(trial):
                self.compare(f"trial {trial}", nodes, feeds, ["static", "symbolic"][trial % 2])


class Meaning(unittest.TestCase):
    def run_one(self, nodes, feeds, outputs, **options):
        given = {name: array for name, array in feeds.items() if name not in options.get("constants", ())}
        return session(nodes, feeds, outputs, **options).run(None, given)

    def test_other_values(self):
        """The operands need not be the tensors named: the nodes between are computed anew."""
        nodes = [node("Mul", "w x", "h"), node("Exp", "h", "i"), node("Mul", "i z", "y")]
        feeds = {n: around(3) for n in ("w", "x", "z", "other")}
        back = gradient(["h", "z"], "y", ["dh", "dz"], inputs=["other", "z"])
        dh, dz, y = self.run_one([*nodes, back], feeds, ["dh", "dz", "y"])
        np.testing.assert_allclose(dh, np.exp(feeds["other"]) * feeds["z"])
        np.testing.assert_allclose(dz, np.exp(feeds["other"]))
        np.testing.assert_allclose(y, np.exp(feeds["w"] * feeds["x"]) * feeds["z"])

    def test_intermediate_tensors(self):
        """What is named ends the walk: nothing goes on to what it was made of, not even past a sibling."""
        nodes = [node("Exp", "x", "h"), node("Split", "h k", "p q"), node("Mul", "p q", "y")]
        feeds = {"x": around(4), "k": ints(2, 2)}
        p, q = np.exp(feeds["x"][:2]), np.exp(feeds["x"][2:])
        back = [gradient(["p", "x"], "y", ["dp", "dx"]), gradient(["q"], "y", ["dq"], zs=["p"], name="other")]
        dp, dx, dq = self.run_one([*nodes, *back], feeds, ["dp", "dx", "dq"])
        np.testing.assert_allclose(dp, q)
        np.testing.assert_allclose(dx, np.concatenate([np.zeros(2), p * q]))
        np.testing.assert_allclose(dq, p)

    def test_no_dependence(self):
        feeds = {"x": around(2, 3), "w": around(3)}
        nodes = [node("Exp", "w", "y"), node("Mul", "x x", "t")]
        back = gradient(["x", "w"], "y", ["dx", ""])
        (dx,) = self.run_one([*nodes, back], feeds, ["dx"])
        np.testing.assert_array_equal(dx, np.zeros((2, 3)))
        (dy,) = self.run_one([gradient(["x"], "x", ["dx"])], feeds, ["dx"])
        np.testing.assert_array_equal(dy, np.ones((2, 3)))

    def test_ties_and_zeros(self):
        feeds = {"a": np.array([1.0, 0, 2]), "b": np.array([1.0, 3, 0])}
        nodes = [node("Max", "a b", "m"), node("ReduceMax", "m", "y", keepdims=0), node("Pow", "a b", "p")]
        back = [gradient(["a", "b"], "m", ["da", "db"]), gradient(["a", "b"], "p", ["pa", "pb"], name="p")]
        da, db, pa, pb = self.run_one([*nodes, *back], feeds, ["da", "db", "pa", "pb"])
        np.testing.assert_array_equal(da, [0.5, 0, 1])
        np.testing.assert_array_equal(db, [0.5, 1, 0])
        np.testing.assert_allclose(pa, [1, 0, 0])
        np.testing.assert_allclose(pb, [0, 0, np.log(2)])

    def test_constants_and_types(self):
        for dtype in (np.float16, np.float32):
            feeds = {"x": np.array([1, 2], dtype), "w": np.array([3, 0.5], dtype)}
            nodes = [node("Mul", "x w", "t"), node("ReduceSum", "t", "y", keepdims=0)]
            (dx,) = self.run_one([*nodes, gradient(["x"], "y", ["dx"])], feeds, ["dx"], constants=["w"])
            self.assertEqual(dx.dtype, dtype)
            np.testing.assert_array_equal(dx, feeds["w"])

    def test_order_of_the_file(self):
        """The Gradient may stand before the nodes that it derives."""
        feeds = {"x": around(3)}
        nodes = [gradient(["x"], "y", ["dx"]), node("Mul", "x x", "y"), node("Neg", "dx", "out")]
        (out,) = self.run_one(nodes, feeds, ["out"])
        np.testing.assert_allclose(out, -2 * feeds["x"])

    def test_in_functions_and_branches(self):
        body = [node("Mul", "p q", "y"), gradient(["p", "q"], "y", ["dp", "dq"])]
        imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
        function = helper.make_function("local", "Twice", ["p", "q"], ["dp", "dq"], body, imports)
        call = helper.make_node("Twice", ["a", "b"], ["da", "db"], domain="local")
        feeds = {"a": around(3), "b": around(3)}
        da, db = self.run_one([call], feeds, ["da", "db"], functions=[function])
        np.testing.assert_allclose(da, feeds["b"])
        np.testing.assert_allclose(db, feeds["a"])
        result = helper.make_empty_tensor_value_info("d")
        then, otherwise = (helper.make_graph([gradient(["a"], "y", ["d"], name=n)], n, [], [result]) for n in "tf")
        choose = helper.make_node("If", ["c"], ["d"], then_branch=then, else_branch=otherwise)
        (d,) = self.run_one([node("Mul", "a b", "y"), choose], {**feeds, "c": np.array(True)}, ["d"])
        np.testing.assert_allclose(d, feeds["b"])


class Refused(unittest.TestCase):
    FEEDS = {"x": np.ones(3), "k": ints(1), "t": np.array(True)}

    def refuse(self, error, text, nodes, feeds=None):
        feeds = self.FEEDS if feeds is None else feeds
        with self.assertRaises(error) as caught:
            session(nodes, feeds, ["d"])
        self.assertIn(text, str(caught.exception))

    def test_no_derivative(self):
        self.refuse(errors.NotImplemented, "no derivative of the op CumSum", [node("CumSum", "x k"), gradient(["x"], "y", ["d"])])
        body = helper.make_graph([node("Exp", "x", "o")], "b", [], [helper.make_empty_tensor_value_info("o")])
        choose = helper.make_node("If", ["t"], ["y"], then_branch=body, else_branch=body)
        self.refuse(errors.NotImplemented, "no derivative of the op If", [choose, gradient(["x"], "y", ["d"])])
        again = gradient(["x"], "y", ["d"], inputs=["z"])
        self.refuse(errors.NotImplemented, "If is not run for other values", [choose, node("Neg", "x", "z"), again])
        scatter = node("ScatterElements", "x k x", reduction="mul")
        self.refuse(errors.NotImplemented, "reduction", [scatter, gradient(["x"], "y", ["d"])])
        dropout, feeds = [node("Dropout", "x r t"), gradient(["x"], "y", ["d"])], {**self.FEEDS, "r": np.array(0.5)}
        self.refuse(errors.NotImplemented, "training mode", dropout, feeds)

    def test_unknown_sizes(self):
        for op, feeds in (("MatMul", {"x": np.ones((2, 2))}), ("Conv", {"x": np.ones((1, 1, 2))})):
            nodes = [node(op, "x x"), gradient(["x"], "y", ["d"])]
            session(nodes, feeds, ["d"]).run(None, feeds)
            with self.assertRaises(errors.NotImplemented) as caught:
                session(nodes, feeds, ["d"], "unknown")
            self.assertIn("of known", str(caught.exception))

    def test_names(self):
        self.refuse(errors.InvalidGraph, "names twice", [node("Exp", "x"), gradient(["x"], "y", ["d"], zs=["x"])])
        self.refuse(errors.InvalidGraph, "no input, initialiser or node defines", [gradient(["x"], "nothing", ["d"])])
        self.refuse(errors.InvalidGraph, "depends on itself", [node("Neg", "d", "y"), gradient(["x"], "y", ["d"])])
        self.refuse(errors.InvalidGraph, "not floating", [node("Cast", "k", "y", to=11), gradient(["k"], "y", ["d"])])
        self.refuse(errors.InvalidGraph, "not floating", [node("Shape", "x", "y"), gradient(["x"], "y", ["d"])])
        self.refuse(errors.InvalidGraph, "needs the names", [helper.make_node("Gradient", ["x"], ["d"], domain=DOMAIN, xs=["x"])])
        self.refuse(errors.InvalidGraph, "1 operands and 1 results for 2 xs", [gradient(["x", "k"], "x", ["d"], inputs=["x"])])

    def test_blow_up(self):
        """A gradient of a gradient of ... has three times the nodes each time."""
        nodes = [node("Tanh", "x", "y0")]
        for k in range(40):
            nodes.append(gradient(["x"], f"y{k}", [f"y{k + 1}"], name=f"g{k}"))
        nodes.append(node("Neg", "y40", "d"))
        self.refuse(Exception, "out of a file of", nodes)

    def test_depth(self):
        """A long chain, which no recursion would survive."""
        count = 20000
        nodes = [helper.make_node("Sin", [f"t{k}"], [f"t{k + 1}"]) for k in range(count)]
        nodes = [node("Identity", "x", "t0"), *nodes, gradient(["x"], f"t{count}", ["d"])]
        (d,) = session(nodes, {"x": np.full(1, 0.5)}, ["d"]).run(None, {"x": np.full(1, 0.5)})
        want, at = 1.0, 0.5
        for _ in range(count):
            want, at = want * np.cos(at), np.sin(at)
        np.testing.assert_allclose(d, [want], rtol=1e-9)


if __name__ == "__main__":
    unittest.main()
