# SPDX-License-Identifier: Apache-2.0
"""Models saved with packed weights answer the same bit for bit, and are never taken for others."""
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness import Report, scratch, tenon

FOLDER = scratch("packed")


def save_model(path):
    """A convolution of each kind, and products of matrices, of which one size is left open."""
    rng = np.random.default_rng(5)

    def weights(name, *shape):
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 4, name)

    nodes = [
        helper.make_node("Conv", ["x", "w3", "b3"], ["c3"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c3"], ["r3"]),
        helper.make_node("Conv", ["r3", "w1"], ["c1"]),
        helper.make_node("Conv", ["c1", "w9"], ["c9"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["c9", "wd"], ["cd"], group=24, pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["cd"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["q"]),
        helper.make_node("Gemm", ["q", "g", "gb"], ["y"], transB=1),
    ]
    constants = [weights("w3", 20, 3, 3, 3), weights("b3", 20), weights("w1", 24, 20, 1, 1), weights("wd", 24, 1, 3, 3),
                 weights("w9", 24, 24, 3, 3),
                 weights("m", 24, 70), weights("g", 10, 70), weights("gb", 10)]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 17, 19])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])
    graph = helper.make_graph(nodes, "packed", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def answer(report, model, what, *options):
    out = os.path.join(FOLDER, "out")
    shutil.rmtree(out, ignore_errors=True)
    done = tenon("run", model, "--seed", "7", "-o", out, *options)
    report.check(done.returncode == 0, f"{what} runs", done.stdout + done.stderr)
    return np.load(os.path.join(out, "y.npy")), done.stderr


def main():
    report = Report()
    source, saved = os.path.join(FOLDER, "net.onnx"), os.path.join(FOLDER, "net.tn")
    weights, packed = os.path.join(FOLDER, "net.safetensors"), os.path.join(FOLDER, "net.packed.safetensors")
    save_model(source)
    for path in (saved, weights, packed):
        if os.path.exists(path):
            os.remove(path)
    done = tenon("convert", source, saved, "--packed", "--shape", "n=1")
    report.check(done.returncode == 0 and os.path.getsize(packed) > 10000, "packed", done.stdout + done.stderr)
    for n in (1, 3):
        want, _ = answer(report, source, "the source", "--shape", f"n={n}")
        got, said = answer(report, saved, "the packed model", "--shape", f"n={n}")
        report.check(np.array_equal(want, got) and not said, f"the same answer for {n}", f"{want}\n{got}\n{said}")
        exact = [answer(report, model, "accurately", "--shape", f"n={n}", "--accuracy", "high")[0] for model in (source, saved)]
        report.check(np.array_equal(*exact) and not np.array_equal(want, exact[0]), f"a session asked to be accurate, {n}", exact)

    bytes_packed, bytes_weights = open(packed, "rb").read(), open(weights, "rb").read()
    # Packed weights that were changed are used as they are: so it is they that are read.
    marked = bytearray(bytes_packed)
    head = 8 + int.from_bytes(marked[:8], "little")
    marked[head:] = np.float32(1).tobytes() * ((len(marked) - head) // 4)
    open(packed, "wb").write(marked)
    got, _ = answer(report, saved, "the changed file", "--shape", "n=1")
    want, _ = answer(report, source, "the source", "--shape", "n=1")
    report.check(not np.array_equal(want, got), "the packed weights are what is read")
    # Those of other weights, and what is no such file, are not.
    open(packed, "wb").write(bytes_packed)
    other = bytearray(bytes_weights)
    other[-8192:] = np.float32(0.5).tobytes() * 2048
    open(weights, "wb").write(other)
    _, said = answer(report, saved, "other weights", "--shape", "n=1")
    report.check("not used" in said, "packed of other weights", said)
    open(weights, "wb").write(bytes_weights)
    for what, data in (("cut short", bytes_packed[: len(bytes_packed) // 2]), ("no such file", b"nonsense" * 50), ("empty", b"")):
        open(packed, "wb").write(data)
        got, said = answer(report, saved, what, "--shape", "n=1")
        report.check("not used" in said and np.array_equal(want, got), what, said)

    done = tenon("convert", source, os.path.join(FOLDER, "net2.onnx"), "--packed")
    report.check(done.returncode == 2 and ".tn" in done.stderr, "--packed wants .tn", done.stderr)
    done = tenon("convert", source, saved, "--force")
    report.check(done.returncode == 0 and not os.path.exists(packed), "saving plainly removes what was packed", done.stderr)
    return report.exit()


if __name__ == "__main__":
    sys.exit(main())
