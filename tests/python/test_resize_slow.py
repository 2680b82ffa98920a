# SPDX-License-Identifier: Apache-2.0
"""Sizes that change: A, B, A, B on one session gives bit for bit what fresh sessions give, on every test model with open
sizes (the small ones; `--long`: all); a small model at a thousand random sizes does too; and memory stays where it is over
a thousand sizes and a thousand sessions."""
import glob
import os
import sys

import tenonrt_env
from harness import Report, prepare, sanitized

tenonrt_env.enter()

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import tenonrt as ort  # noqa: E402

ROUNDS = 100 if sanitized() else 1000
SLACK = 0.02
SMALL = 3 << 20  # bytes of a model's file


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# ---- the test models ------------------------------------------------------------------------------------------------


def first_inputs(folder, session):
    feeds = {}
    for i, info in enumerate(session.get_inputs()):
        path = os.path.join(folder, "test_data_set_0", f"input_{i}.pb")
        if os.path.exists(path):
            tensor = onnx.TensorProto()
            with open(path, "rb") as file:
                tensor.ParseFromString(file.read())
            feeds[info.name] = numpy_helper.to_array(tensor)
    return feeds


def grown(session, feeds, rng):
    """The same with each open size larger by a multiple of 32 where it is one, else by 3; equal names stay equal."""
    more, out = {}, {}
    for info in session.get_inputs():
        x = feeds[info.name]
        for axis, d in enumerate(info.shape):
            if isinstance(d, int):
                continue
            add = more.setdefault(d or (info.name, axis), 32 if x.shape[axis] % 32 == 0 else 3)
            index = rng.integers(0, max(x.shape[axis], 1), x.shape[axis] + add)
            x = np.take(x, index, axis) if x.shape[axis] else x
        out[info.name] = np.ascontiguousarray(x)
    return out


def answer(session, feeds):
    """The outputs' bytes, or the kind of error."""
    try:
        return [(y.shape, y.tobytes()) if isinstance(y, np.ndarray) else repr(y) for y in session.run(None, feeds)]
    except Exception as error:  # what a fresh session says, the old one must say
        return type(error).__name__


def try_model(report, path, rng):
    name = os.path.basename(os.path.dirname(path))
    session = ort.InferenceSession(path)
    if all(isinstance(d, int) for info in session.get_inputs() for d in info.shape):
        return
    a = first_inputs(os.path.dirname(path), session)
    if len(a) != len(session.get_inputs()):
        return
    b = grown(session, a, rng)
    fresh = [answer(ort.InferenceSession(path), feeds) for feeds in (a, b)]
    report.check(not isinstance(fresh[0], str), f"{name} runs", fresh[0])
    for k, feeds in enumerate((a, b, a, b)):
        report.check(answer(session, feeds) == fresh[k & 1], f"{name}, run {k}", "a fresh session says something else")


# ---- a small model that moves much ----------------------------------------------------------------------------------


def small_model():
    """Heads split and put together, a shifted window, a concat: [n, t, 8]."""
    ints = lambda name, v: numpy_helper.from_array(np.array(v, np.int64), name)  # noqa: E731
    weight = numpy_helper.from_array(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8), "w")
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["q"]),
        node("Reshape", ["q", "heads"], ["h"]),
        node("Transpose", ["h"], ["ht"], perm=[0, 2, 1, 3]),
        node("Transpose", ["h"], ["hk"], perm=[0, 2, 3, 1]),
        node("MatMul", ["ht", "hk"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "ht"], ["m"]),
        node("Transpose", ["m"], ["mt"], perm=[0, 2, 1, 3]),
        node("Reshape", ["mt", "merge"], ["y"]),
        node("Slice", ["x", "one", "end", "axis"], ["tail"]),
        node("Slice", ["x", "zero", "one", "axis"], ["head"]),
        node("Concat", ["tail", "head"], ["rolled"], axis=1),
        node("Concat", ["rolled", "y"], ["both"], axis=2),
        node("Pad", ["both", "pads"], ["padded"], mode="reflect"),
        node("ReduceSum", ["padded", "axis"], ["sum"], keepdims=0),
        node("Relu", ["rolled"], ["z"]),
    ]
    constants = [weight, ints("heads", [0, 0, 2, 4]), ints("merge", [0, 0, 8]), ints("one", [1]), ints("zero", [0])]
    constants += [ints("end", [2**62]), ints("axis", [1]), ints("pads", [0, 0, 1, 0, 0, 2])]
    shape = ["n", "t", 8]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("sum", "z", "padded")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()


def input_of(n, t):
    return {"x": np.sin(np.arange(n * t * 8, dtype=np.float32)).reshape(n, t, 8)}


def random_sizes(report, model, rng):
    session, known = ort.InferenceSession(model), {}
    for _ in range(ROUNDS):
        size = int(rng.integers(1, 5)), int(rng.integers(1, 40))
        if size not in known:
            known[size] = answer(ort.InferenceSession(model), input_of(*size))
        report.check(answer(session, input_of(*size)) == known[size], f"size {size}", "a fresh session says something else")


def flat(report, what, once):
    """Over the last nine tenths of the rounds."""
    start = None
    for i in range(ROUNDS):
        once(i)
        if i == ROUNDS // 10:
            start = resident()
    grown_by = resident() - start
    report.check(sanitized() or grown_by <= SLACK * start, f"memory over {ROUNDS} {what}", f"{grown_by} bytes more than {start}")


def main(long):
    report, rng = Report(), np.random.default_rng(5)
    model = small_model()
    random_sizes(report, model, rng)
    session = ort.InferenceSession(model)
    flat(report, "sizes", lambda i: session.run(None, input_of(1 + i % 7, 1 + int(rng.integers(0, 60)))))
    flat(report, "sessions", lambda i: ort.InferenceSession(model).run(None, input_of(1 + i % 3, 9)))
    groups = [folder for folder in map(prepare, ("real", "generated", "quantised")) if folder]
    for path in sorted(path for folder in groups for path in glob.glob(os.path.join(folder, "*", "*.onnx"))):
        if long or os.path.getsize(path) <= SMALL:
            try_model(report, path, rng)
    report.exit()


if __name__ == "__main__":
    main("--long" in sys.argv)
