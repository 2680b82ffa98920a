# SPDX-License-Identifier: Apache-2.0
"""Ops in the forms of old opsets: Tenon gives what they meant, and what it writes of them is valid ONNX of today that
ONNX's own reference evaluator finds the same answers for."""
import os
import shutil

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import harness

RANDOM = np.random.default_rng(1)
# What the reference evaluator cannot run.
NOT_EVALUATED = ("GlobalLpPool", "Scan_backwards")


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def behind(x, n):
    """n dimensions of size 1 behind the last."""
    return x.reshape(x.shape + (1,) * n)


def softmax_of_matrix(x, axis):
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    e = np.exp(rows - rows.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).reshape(x.shape)


class Case:
    """One node of an opset; inputs by name, those in `constants` as initialisers; the outputs it must have."""

    def __init__(self, name, op, opset, inputs, outputs, constants=(), names=None, **attributes):
        self.name = f"{name}_{opset}"
        self.inputs = [(key, value) for key, value in inputs.items() if value is not None and key not in constants]
        self.outputs = [np.asarray(y) for y in outputs]
        outs = names or [f"y{i}" for i in range(len(outputs))]
        node = helper.make_node(op, [key if value is not None else "" for key, value in inputs.items()], outs, **attributes)

        def info(key, value):
            return helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

        graph = helper.make_graph(
            [node], name, [info(*pair) for pair in self.inputs],
            [info(key, value) for key, value in zip((o for o in outs if o), self.outputs)],
            [numpy_helper.from_array(inputs[key], key) for key in constants])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3 if opset < 8 else 4)
        if opset < 8:  # IR 3 has every initialiser among its inputs
            graph_inputs = self.model.graph.input
            graph_inputs.extend(info(key, inputs[key]) for key in constants)

    def write(self, folder):
        """A test folder, as `tenon test` takes them."""
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data)
        onnx.save(self.model, os.path.join(folder, "model.onnx"))
        for kind, values in (("input", [v for _, v in self.inputs]), ("output", self.outputs)):
            for i, value in enumerate(values):
                with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(value).SerializeToString())


def arithmetic_cases():
    x = floats(2, 3, 4, 5)
    for op, apply in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)):
        b = floats(3, 4)
        yield Case(f"{op}_axis", op, 6, {"x": x, "b": b}, [apply(x, behind(b, 1))], broadcast=1, axis=1)
        yield Case(f"{op}_axis", op, 1, {"x": x, "b": b[:, 0]}, [apply(x, behind(b[:, 0], 2))], broadcast=1, axis=1,
                   consumed_inputs=[0, 0])
        yield Case(f"{op}_suffix", op, 6, {"x": x, "b": x[0, 0]}, [apply(x, x[0, 0])], broadcast=1)
    p, q = x > 0, x[0, :, 0, 0] > 0
    for op, apply in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
        yield Case(op, op, 1, {"x": p, "b": q}, [apply(p, behind(q, 2))], broadcast=1, axis=1)
    b = floats(3)
    yield Case("Pow", "Pow", 1, {"x": np.abs(x), "b": b}, [np.abs(x) ** behind(b, 2)], broadcast=1, axis=1)
    yield Case("Greater", "Greater", 1, {"x": x, "b": b}, [x > behind(b, 2)], broadcast=1, axis=1)
    yield Case("PRelu", "PRelu", 6, {"x": x, "s": b}, [np.where(x < 0, x * behind(b, 2), x)])
    a, b, c = floats(2, 3), floats(3, 4), floats(4)
    yield Case("Gemm", "Gemm", 6, {"a": a, "b": b, "c": c}, [a @ b / 2 + 2 * c], broadcast=1, alpha=0.5, beta=2.0)
    yield Case("Cast", "Cast", 1, {"x": x}, [x.astype(np.int32)], to="INT32")
    for dtype in (np.float16, np.float32, np.float64):
        v = x.astype(dtype)
        yield Case(f"Clip_{v.dtype}", "Clip", 6, {"x": v}, [np.clip(v, dtype(-0.5), dtype(0.5))], min=-0.5, max=0.5)
    selu = (1.0507 * np.where(x > 0, x, 1.6732 * (np.exp(x) - 1))).astype(np.float32)
    yield Case("Selu", "Selu", 1, {"x": x}, [selu])


def shape_cases():
    x = floats(2, 3, 4, 5)
    yield Case("Reshape", "Reshape", 1, {"x": x}, [x.reshape(2, -1)], shape=[0, -1])
    yield Case("Concat", "Concat", 1, {"x": x, "z": x}, [np.concatenate([x, x], 1)])
    m = floats(6, 4)
    padded = np.pad(m, ((1, 0), (0, 2)), constant_values=2)
    yield Case("Pad", "Pad", 1, {"x": m}, [padded], paddings=[1, 0, 0, 2], value=2.0)
    yield Case("Pad", "Pad", 2, {"x": m}, [padded], pads=[1, 0, 0, 2], value=2.0)
    yield Case("Slice", "Slice", 1, {"x": x}, [x[:, 1:, :, -3:-1]], starts=[1, -3], ends=[1000, -1], axes=[1, 3])
    yield Case("Split_sizes", "Split", 2, {"x": m}, [m[:2], m[2:]], split=[2, 4])
    yield Case("Split", "Split", 11, {"x": m}, [m[:, :2], m[:, 2:]], axis=-1)
    yield Case("Split", "Split", 13, {"x": m}, [m[:2], m[2:4], m[4:]], axis=0)
    yield Case("Squeeze", "Squeeze", 1, {"x": m[None, :, None]}, [m[:, None]], axes=[0])
    yield Case("Unsqueeze", "Unsqueeze", 11, {"x": m}, [m[None, :, :, None]], axes=[-1, 0])
    sizes = {"x": m, "t": np.float32([3]), "a": np.float32([1])}
    yield Case("Tile", "Tile", 1, sizes, [np.tile(m, (1, 3))], constants=("t", "a"))
    order = np.argsort(-m, 1)[:, :3]
    yield Case("TopK", "TopK", 1, {"x": m}, [np.take_along_axis(m, order, 1), order], k=3)
    y = m.copy()
    y[[1, 0, 2, 4], [0, 1, 2, 3]] = 9
    scatter = {"x": m, "i": np.int64([[1, 0, 2, 4]]), "u": np.float32([[9, 9, 9, 9]])}
    yield Case("Scatter", "Scatter", 9, scatter, [y], axis=0)
    for op, apply in (("ReduceSum", np.sum), ("ReduceMean", np.mean), ("ReduceMax", np.max), ("ReduceProd", np.prod)):
        yield Case(op, op, 11, {"x": x}, [apply(x, (0, 3))], axes=[-1, 0], keepdims=0)
        yield Case(f"{op}_all", op, 9, {"x": x}, [apply(x, keepdims=True)])


def network_cases():
    x = floats(2, 3, 4, 5)
    for axis in range(4):
        y = softmax_of_matrix(x, axis)
        yield Case(f"Softmax_{axis}", "Softmax", 9, {"x": x}, [y], axis=axis)
        yield Case(f"LogSoftmax_{axis}", "LogSoftmax", 11, {"x": x}, [np.log(y)], axis=axis - 4)
    yield Case("Softmax", "Softmax", 11, {"x": x}, [softmax_of_matrix(x, 1)])
    yield Case("Dropout", "Dropout", 1, {"x": x}, [x], ratio=0.3, is_test=1, consumed_inputs=[0])
    yield Case("Dropout_mask", "Dropout", 7, {"x": x}, [x, np.ones_like(x)], ratio=0.3)
    per_channel = {"s": floats(3), "b": floats(3), "m": floats(3), "v": np.abs(floats(3)) + 0.1}

    def normal(s, b, m, v):
        return (x - m) / np.sqrt(v + np.float32(1e-5)) * s + b

    y = normal(*(behind(v, 2) for v in per_channel.values()))
    yield Case("BatchNormalization", "BatchNormalization", 6, {"x": x, **per_channel}, [y], is_test=1)
    yield Case("BatchNormalization", "BatchNormalization", 9, {"x": x, **per_channel}, [y], names=["y", "", "", "", ""])
    everywhere = {"s": floats(3, 4, 5), "b": floats(3, 4, 5), "m": floats(3, 4, 5), "v": np.abs(floats(3, 4, 5)) + 0.1}
    y = normal(*everywhere.values())
    yield Case("BatchNormalization_spatial", "BatchNormalization", 7, {"x": x, **everywhere}, [y], spatial=0)
    g, s, b = floats(2, 6, 3, 3), floats(3), floats(3)
    groups = g.reshape(2, 3, -1)
    groups = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    y = (groups * behind(s, 1) + behind(b, 1)).reshape(g.shape)
    yield Case("GroupNormalization", "GroupNormalization", 18, {"x": g, "s": s, "b": b}, [y], num_groups=3)
    y = np.sqrt((g**2).sum((2, 3), keepdims=True))
    yield Case("GlobalLpPool", "GlobalLpPool", 1, {"x": g}, [y], p=2.0)
    y = g.repeat(2, 2).repeat(3, 3)
    yield Case("Upsample", "Upsample", 1, {"x": g}, [y], mode="nearest", height_scale=2.0, width_scale=3.0)
    yield Case("Upsample", "Upsample", 7, {"x": g}, [y], scales=[1.0, 1.0, 2.0, 3.0])
    scales = np.float32([1, 1, 2, 3])
    yield Case("Upsample", "Upsample", 9, {"x": g, "s": scales}, [y], constants=("s",))
    yield Case("Resize", "Resize", 10, {"x": g, "s": scales}, [y], constants=("s",))


def scan_cases():
    def info(name):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2])

    nodes = [helper.make_node("Add", ["sum", "each"], ["next"]), helper.make_node("Identity", ["next"], ["seen"])]
    body = helper.make_graph(nodes, "body", [info("sum"), info("each")], [info("next"), info("seen")])
    start, each = floats(3, 2), floats(3, 4, 2)
    for name, order in (("Scan", each), ("Scan_backwards", each[:, ::-1])):
        outputs = [start + each.sum(1), start[:, None] + order.cumsum(1)]
        yield Case(name, "Scan", 8, {"lengths": None, "start": start, "each": each}, outputs, body=body, num_scan_inputs=1,
                   directions=[int(order is not each)])


def close(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and np.allclose(a, b, 1e-3 if a.dtype == np.float16 else 1e-4, 1e-5)


def check_written(report, case, path):
    """What Tenon wrote is ONNX of today, has the same inputs and outputs, and the same answers."""
    try:
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path)
        report.check([i.name for i in model.graph.input] == [key for key, _ in case.inputs], f"{case.name}: inputs")
        if case.name.startswith(NOT_EVALUATED):
            return
        outputs = ReferenceEvaluator(model).run(None, dict(case.inputs))
    except Exception as error:  # the checker and the evaluator raise what they like
        report.check(False, f"{case.name}: ONNX takes what was written", error)
        return
    for i, (got, wanted) in enumerate(zip(outputs, case.outputs)):
        report.check(close(np.asarray(got), wanted), f"{case.name}: output {i} of what was written")


def main():
    report = harness.Report()
    work = harness.scratch("onnx_roundtrip")
    shutil.rmtree(work)
    cases = [*arithmetic_cases(), *shape_cases(), *network_cases(), *scan_cases()]
    for case in cases:
        folder = os.path.join(work, case.name)
        case.write(folder)
        written = os.path.join(folder, "written.onnx")
        done = harness.tenon("convert", os.path.join(folder, "model.onnx"), written)
        if report.check(done.returncode == 0, f"{case.name}: convert", done.stderr):
            check_written(report, case, written)
    for test in harness.run_folders(*(os.path.join(work, case.name) for case in cases)):
        report.check(test["outcome"] == "passed", f"{os.path.basename(test['folder'])}: runs", test.get("reason"))
    report.exit()


if __name__ == "__main__":
    main()
