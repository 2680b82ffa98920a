#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single ops, on the shapes that they have in well-known models: against what the machine can do, and against onnxruntime.

    bench/ops.py
    bench/ops.py --threads 2 --only conv3x3

Each op is a model of one node, run by both engines in one process, in turns. The machine's limits are measured around
them: multiply-adds in registers, reads and copies of as many bytes as the op has.

    least us   the shortest run, from the call to the return, conversions of layouts at both ends included; with one thread the
               thread's own time, without what the processor did for others meanwhile
    op us      the same of the instructions that compute, without what only moves data; of a convolution as it is inside of a
               network: between others, which leave and take its channels last, or the first, of an image as it comes
    limit      the time that the machine needs at least: for the multiply-adds with what is no padding, or (mem) for the bytes,
               each read or written once where as many bytes lie
    %          the limit as part of `op us`; more than 100 where a kernel needs fewer operations than the op's definition
    ort us, x  onnxruntime's shortest run, and `least us` as a multiple of it
"""
import argparse
import json
import math
import statistics
import sys
import time
from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import engines

OPSET = 20
IN_A_ROW, LONG_NS = 4, 20e6


@dataclass
class Op:
    """`inputs` are shapes, `weights` shapes of constants behind them; `flops` what the op's definition takes. `then` are ops
    behind it, each of what is so far and as many of the next inputs as it wants: a number."""

    name: str
    kind: str
    inputs: list
    weights: list = field(default_factory=list)
    output: tuple = ()
    flops: float = 0
    padding: float = 0  # of these, what is done with zeros around the data
    attributes: dict = field(default_factory=dict)
    then: list = field(default_factory=list)

    def read(self):
        return 4 * sum(math.prod(shape) for shape in [*self.inputs, *self.weights])

    def written(self):
        return 4 * math.prod(self.output)

    def takes_image(self):
        """Its first operand comes from outside, as of a network's first layer."""
        return self.inputs[0][1] <= 4

    def arrays(self, inside=False):
        random, made = np.random.default_rng(2), {}
        for i, shape in enumerate(self.inputs):
            made[f"x{i}"] = aligned(channels_last(shape) if inside and not self.takes_image() else shape)
            made[f"x{i}"][...] = random.standard_normal(made[f"x{i}"].shape, np.float32)
        return made

    def model(self, inside=False):
        """`inside`: a node in front makes its first operand, unless that is an image, and that operand and the result lie
        channels last."""
        random = np.random.default_rng(1)
        weights = [random.standard_normal(shape, np.float32) / math.sqrt(max(math.prod(shape[1:]), 1)) for shape in self.weights]
        constants = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
        names = [f"x{i}" for i in range(len(self.inputs))]
        first = len(names) - sum(wanted for _, wanted in self.then)
        results = [f"t{i}" for i in range(len(self.then))] + ["y"]
        operands = names[:first] + [c.name for c in constants]
        nodes = [helper.make_node(self.kind, operands, results[:1], name=self.name, **self.attributes)]
        for i, (kind, wanted) in enumerate(self.then):
            nodes.append(helper.make_node(kind, [results[i], *names[first : first + wanted]], [results[i + 1]]))
            first += wanted
        shapes, output = list(self.inputs), self.output
        if inside:
            output, nodes[-1].output[0] = channels_last(output), "result"
            nodes.append(helper.make_node("Transpose", ["result"], ["y"], perm=[0, 2, 3, 1]))
        if inside and not self.takes_image():
            shapes[0], nodes[0].input[0] = channels_last(shapes[0]), "made"
            before = [helper.make_node("Transpose", ["x0"], ["turned"], perm=[0, 3, 1, 2]), helper.make_node("Abs", ["turned"], ["made"])]
            nodes = [*before, *nodes]
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes)]
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, output)
        graph = helper.make_graph(nodes, "op", infos, [result], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9).SerializeToString()


def channels_last(shape):
    return (shape[0], *shape[2:], shape[1])


# ---- the ops ----


def matmul(m, n, k, batch=(), constant=True):
    a, b, y = (*batch, m, k), (*batch, k, n), (*batch, m, n)
    inputs, weights = ([a], [b]) if constant else ([a, b], [])
    what = "gemm" if constant else "matmul"
    text = f"{'x'.join(map(str, batch))}{' ' if batch else ''}{m}x{n}x{k}"
    return Op(f"{what} {text}", "MatMul", inputs, weights, y, 2 * math.prod(y) * k)


def conv(channels, side, features, kernel, stride=1, groups=1, dilation=1, then=()):
    out = (side + stride - 1) // stride
    pads = max((out - 1) * stride + (kernel - 1) * dilation + 1 - side, 0)
    shape = (features, channels // groups, kernel, kernel)
    output = (1, features, out, out)
    what = "depthwise" + (f"{kernel}x{kernel}" if kernel != 3 else "") if groups == channels > 1 else f"conv{kernel}x{kernel}"
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "group": groups, "dilations": [dilation] * 2,
                  "pads": [pads // 2] * 2 + [pads - pads // 2] * 2}  # fmt: skip
    text = f"{what} {channels}@{side}" + (f" to {features}" if features != channels else "") + (f" /{stride}" if stride > 1 else "")
    text += (f" in {groups}" if 1 < groups < channels else "") + (f" apart {dilation}" if dilation > 1 else "")
    flops = 2 * math.prod(output) * math.prod(shape[1:])
    inside = sum(0 <= at * stride - pads // 2 + tap * dilation < side for at in range(out) for tap in range(kernel))
    padding = flops * (1 - (inside / (out * kernel)) ** 2)
    return Op(text, "Conv", [(1, channels, side, side)], [shape, (features,)], output, flops, padding, attributes, list(then))


def elementwise(kind, shape, others=(), **attributes):
    text = " ".join("x".join(map(str, s)) for s in (shape, *others))
    return Op(f"{kind.lower()} {text}", kind, [shape, *others], [], shape, attributes=attributes)


def bandwidth(count, cache):
    """Ops that compute little, on rows of 1024 numbers, as many as fit a cache or more."""
    rows = (count // 1024, 1024)

    def op(what, kind, others, then=()):
        return Op(f"{cache} {what}", kind, [rows, *others], [], rows, then=list(then))

    return [op("add", "Add", [rows]), op("mul+add+relu", "Mul", [rows, rows], [("Add", 1), ("Relu", 0)]),
            op("gelu", "Gelu", []), op("add a row", "Add", [(1024,)]), op("mul by a column", "Mul", [(count // 1024, 1)])]  # fmt: skip


def transpose(shape, perm):
    text = f"transpose {'x'.join(map(str, shape))} {''.join(map(str, perm))}"
    return Op(text, "Transpose", [shape], [], tuple(shape[p] for p in perm), attributes={"perm": perm})


def layer_norm(rows, width):
    return Op(f"layernorm {rows}x{width}", "LayerNormalization", [(rows, width)], [(width,), (width,)], (rows, width),
              attributes={"axis": -1})  # fmt: skip


def pool(kind, channels, side, kernel=0, stride=1):
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4} if kernel else {}
    out = (side + 2 * (kernel // 2) - kernel) // stride + 1 if kernel else 1
    output = (1, channels, out, out)
    return Op(f"{kind.lower()} {channels}@{side}", kind, [(1, channels, side, side)], [], output, attributes=attributes)


def depthwise(kernel, stride, *shapes):
    return [conv(channels, side, channels, kernel, stride, channels) for channels, side in shapes]


# of mobilenet v1 to v3, mnasnet, efficientnet, ghostnet, shufflenet, convnext; and two and four results of a channel
DEPTHWISE = [
    *depthwise(3, 1, (16, 112), (32, 112), (24, 56), (72, 56), (128, 56), (144, 56), (40, 28), (58, 28), (88, 28), (120, 28),
               (192, 28), (256, 28), (116, 14), (184, 14), (200, 14), (384, 14), (480, 14), (512, 14), (576, 14), (96, 7), (232, 7),
               (960, 7), (1024, 7)),
    *depthwise(3, 2, (48, 112), (64, 112), (72, 112), (96, 112), (24, 56), (58, 56), (72, 56), (128, 56), (144, 56), (116, 28),
               (192, 28), (240, 28), (256, 28), (200, 14), (232, 14), (512, 14), (576, 14)),
    *depthwise(5, 1, (72, 28), (88, 48), (120, 28), (240, 28), (40, 14), (144, 14), (480, 14), (672, 14), (576, 7), (960, 7),
               (1152, 7)),
    *depthwise(5, 2, (72, 56), (144, 56), (88, 28), (96, 28), (288, 14), (672, 14)),
    *depthwise(7, 1, (96, 56), (128, 56), (192, 28), (384, 14), (768, 7), (1024, 7)),
    *(conv(c, s, m * c, 3, step, c) for c, s, m, step in ((32, 56, 2, 1), (64, 28, 2, 1), (64, 28, 2, 2), (128, 14, 4, 1))),
]  # fmt: skip

RELU = [("Relu", 0)]
FIRST = [
    *(conv(3, side, m, 3, 2, then=RELU) for side, m in ((224, 16), (224, 24), (224, 32), (224, 64), (299, 32), (640, 16), (640, 48))),
    *(conv(3, side, m, 3, then=RELU) for side, m in ((224, 64), (416, 32))),
    *(conv(c, 112, 32, 3, then=RELU) for c in (1, 2, 4)),
    conv(3, 112, 64, 5, then=RELU),
]  # fmt: skip
# 3x3 that no other algorithm takes: few channels in steps of 2, groups, taps that lie apart
DIRECT = [
    *(conv(c, 112, m, 3, 2, then=RELU) for c, m in ((8, 16), (16, 16), (16, 32))),
    conv(64, 56, 64, 3, 2, 4, then=RELU),
    *(conv(c, 28, c, 3, dilation=d, then=RELU) for c, d in ((64, 2), (256, 2), (512, 4))),
]

OPS = [
    *(matmul(n, n, n) for n in (512, 768, 1024, 1536, 2048)),
    *(matmul(128, *nk) for nk in ((768, 768), (3072, 768), (768, 3072))),  # bert
    *(matmul(*mnk) for mnk in ((3136, 256, 64), (784, 128, 512), (196, 256, 1024), (49, 512, 2048))),  # resnet50
    *(matmul(1, *nk) for nk in ((1000, 2048), (2304, 768), (768, 3072), (50257, 768))),  # a classifier; gpt2, one token
    matmul(128, 128, 64, (12,), False),
    matmul(128, 64, 128, (12,), False),
    *(conv(*cso, 1) for cso in ((64, 56, 256), (256, 56, 64), (512, 28, 128), (128, 28, 512), (1024, 14, 256), (2048, 7, 512))),
    *(conv(*cso, 1) for cso in ((16, 112, 96), (24, 56, 144), (96, 14, 576), (160, 7, 960))),  # mobilenet_v2
    *(conv(c, s, c, 3) for c, s in ((64, 56), (128, 28), (256, 14), (512, 7))),
    *(conv(c, s, 2 * c, 3, 2) for c, s in ((64, 56), (128, 28), (256, 14))),
    conv(3, 224, 64, 7, 2),
    *FIRST,
    *DIRECT,
    *DEPTHWISE,
    elementwise("Softmax", (12, 128, 128), axis=-1),
    elementwise("Softmax", (1, 1000), axis=-1),
    layer_norm(128, 768),
    elementwise("Gelu", (128, 3072)),
    *(elementwise(kind, (1, 128, 768)) for kind in ("Exp", "Tanh", "Sigmoid", "Erf", "HardSwish")),
    elementwise("Relu", (1, 256, 56, 56)),
    elementwise("Add", (1, 256, 56, 56), [(1, 256, 56, 56)]),
    elementwise("Add", (1, 2048, 7, 7), [(1, 2048, 7, 7)]),
    elementwise("Mul", (1, 144, 56, 56), [(1, 144, 1, 1)]),
    elementwise("Add", (128, 768), [(768,)]),
    *(op for size in ((1 << 11, "L1"), (1 << 15, "L2"), (1 << 20, "L3"), (1 << 24, "memory")) for op in bandwidth(*size)),
    pool("MaxPool", 64, 112, 3, 2),
    pool("AveragePool", 192, 28, 3, 1),
    pool("GlobalAveragePool", 2048, 7),
    transpose((1, 128, 12, 64), (0, 2, 1, 3)),
    transpose((12, 128, 64), (0, 2, 1)),
    transpose((1, 64, 56, 56), (0, 2, 3, 1)),
    transpose((1, 56, 56, 64), (0, 3, 1, 2)),
    transpose((1024, 1024), (1, 0)),
]


# ---- running ----


def bound_call(session, arrays, result):
    """A run over memory that is bound once: the same interface in both libraries."""
    binding = session.io_binding()
    for name, array in arrays.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output("y", "cpu", 0, result.dtype, result.shape, result.ctypes.data)
    return lambda _bound=(arrays, result): session.run_with_iobinding(binding)  # which knows where they lie, and keeps neither


def ort_session(model, threads):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def profiled_session(tenonrt, model, threads):
    options = tenonrt.SessionOptions()
    options.enable_profiling = True
    return tenonrt.InferenceSession(model, options, threads=threads)


def aligned(shape):
    count = math.prod(shape)
    raw = np.zeros(count + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + count].reshape(shape)


class Timer:
    """Calls in turns, so that what else the machine does falls on all of them; some in a row, so that each finds its memory in
    the caches as after itself. Between turns onnxruntime's threads are given the time in which they go to sleep."""

    def __init__(self, calls, threads):
        self.calls, self.times = calls, {name: [] for name in calls}
        self.clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
        self.pause = 0.003 if threads > 1 else 0
        for call in calls.values():
            call()

    def turn(self):
        for name, call in self.calls.items():
            time.sleep(self.pause)
            for _ in range(IN_A_ROW):
                start = self.clock()
                call()
                self.times[name].append(self.clock() - start)
                if self.times[name][-1] > LONG_NS:
                    break

    def least_us(self, name):
        return 1e-3 * min(self.times[name]) if name in self.times else None


def instruction_us(rows, kind):
    """Time of the instructions that hold such a node, else of what computes, else of all."""
    works = [r for r in rows if kind in r["op"].split("+")]
    works = works or [r for r in rows if r["kernel"] not in ("raster", "view", "virtual", "folded")]
    return 1e-3 * sum(r["nanoseconds"] for r in works or rows)


class Profiled:
    """Runs under the profile, and the time in them of the instructions that compute."""

    def __init__(self, session, run, kind, threads):
        self.session, self.run, self.kind, self.threads = session, run, kind, threads
        self.computing, self.rest, self.own = [], [], []

    def __call__(self):
        start, own = time.perf_counter_ns(), time.thread_time_ns()
        self.run()
        wall, own = 1e-3 * (time.perf_counter_ns() - start), 1e-3 * (time.thread_time_ns() - own)
        self.computing.append(instruction_us(self.session.instructions(), self.kind))
        self.rest.append(wall - self.computing[-1])
        self.own.append(own)

    def least_us(self):
        """With one thread from its own time, less the shortest time of the rest."""
        return min(self.own) - min(self.rest) if self.threads == 1 else min(self.computing)


def better(a, b):
    return {key: max(a[key], b[key]) for key in ("flops", "read", "copy")}


def measure(op, threads, seconds, tenonrt, with_ort):
    model, arrays, inside = op.model(), op.arrays(), op.kind == "Conv"
    results = {name: aligned(op.output) for name in ("tenon", "ort")}
    results["profiled"] = aligned(channels_last(op.output) if inside else op.output)
    calls = {"tenon": bound_call(tenonrt.InferenceSession(model, threads=threads), arrays, results["tenon"])}
    if with_ort:
        calls["ort"] = bound_call(ort_session(model, threads), arrays, results["ort"])
    session = profiled_session(tenonrt, op.model(inside), threads)
    run = bound_call(session, op.arrays(inside), results["profiled"])
    calls["profiled"] = profiled = Profiled(session, run, op.kind, threads)
    peak = tenonrt.measure_peak(threads, op.read() + op.written())
    timer, end = Timer(calls, threads), time.perf_counter() + seconds
    while len(profiled.own) < 5 or time.perf_counter() < end:
        timer.turn()
    peak = better(peak, tenonrt.measure_peak(threads, op.read() + op.written()))
    row = {"op": op.name, "threads": threads, "least_us": timer.least_us("tenon"), "op_us": profiled.least_us(),
           "kernels": [r["kernel"] for r in session.instructions() if r["kernel"] not in ("view", "virtual", "folded")],
           "ort_us": timer.least_us("ort"), "flops": op.flops, "padding": op.padding, "read": op.read(), "written": op.written(),
           "peak": peak}  # fmt: skip
    if with_ort:
        scale = float(np.max(np.abs(results["ort"]))) or 1.0
        row["differs"] = float(np.max(np.abs(results["tenon"] - results["ort"]))) / scale
    return add_limit(row)


def add_limit(row):
    """Writing takes what a copy takes longer than reading."""
    peak = row["peak"]
    write = max(2 / peak["copy"] - 1 / peak["read"], 0)
    multiply = 1e6 * (row["flops"] - row["padding"]) / peak["flops"]
    move = 1e6 * (row["read"] / peak["read"] + row["written"] * write)
    row["limit_us"], row["bound"] = max((multiply, "fma"), (move, "mem"))
    row["of_limit"] = row["limit_us"] / row["op_us"] if row["op_us"] > 0 else None
    row["ratio"] = row["least_us"] / row["ort_us"] if row["ort_us"] else None
    return row


# ---- the table ----


def print_heading():
    print(f"{'op':34} T{'least us':>11}{'op us':>11}{'limit':>10}    {'%':>4}{'GFLOP/s':>9}{'GB/s':>7}{'ort us':>11}{'x':>8}"
          "  kernels")  # fmt: skip


def print_row(row):
    gflops = f"{1e-3 * row['flops'] / row['op_us']:.1f}" if row["flops"] else "-"
    ort = f"{row['ort_us']:11.1f}{row['ratio']:8.2f}" if row["ort_us"] else f"{'-':>11}{'-':>8}"
    wrong = "" if row.get("differs", 0) < 1e-3 else f"  DIFFERS by {row['differs']:.1e}"
    print(f"{row['op'][:34]:34} {row['threads']}{row['least_us']:11.1f}{row['op_us']:11.1f}{row['limit_us']:10.2f} {row['bound']}"
          f"{100 * row['of_limit']:5.0f}{gflops:>9}{1e-3 * (row['read'] + row['written']) / row['op_us']:7.1f}{ort}"
          f"  {' '.join(row['kernels'])}{wrong}", flush=True)  # fmt: skip


def print_summary(rows):
    for threads in sorted({row["threads"] for row in rows}):
        ratios = [r["ratio"] for r in rows if r["threads"] == threads and r["ratio"]]
        for bound, what in (("fma", "multiply-adds"), ("mem", "bytes")):
            parts = [r["of_limit"] for r in rows if r["threads"] == threads and r["bound"] == bound and r["of_limit"]]
            if parts:
                mean = statistics.geometric_mean(parts)
                print(f"{threads}T: {len(parts)} ops bound by {what} reach {mean:.0%} of the limit, the worst {min(parts):.0%}")
        if ratios:
            mean = statistics.geometric_mean(ratios)
            print(f"{threads}T: {mean:.2f} times onnxruntime's time over {len(ratios)} ops, the worst {max(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=lambda text: [int(t) for t in text.split(",")], default=[1], help="1, or 1,2")
    parser.add_argument("--seconds", type=float, default=0.7, help="for each op and number of threads")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="ops whose name has this in it")
    parser.add_argument("--json", metavar="FILE", help="write all figures there, too")
    args = parser.parse_args()
    ops = [op for op in OPS if not args.only or any(text in op.name for text in args.only)]
    if not ops:
        sys.exit(f"no op has {' or '.join(args.only)} in its name")
    engine = engines.Tenon()
    engine.open()
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        print("onnxruntime is not there: no comparison")
    with_ort, rows = "onnxruntime" in sys.modules, []
    print_heading()
    for op in ops:
        for threads in args.threads:
            rows.append(measure(op, threads, args.seconds, engine.library, with_ort))
            print_row(rows[-1])
    print_summary(rows)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
