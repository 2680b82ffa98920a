# SPDX-License-Identifier: Apache-2.0
"""Files in and out of the command: numpy reads what it writes, it reads what numpy writes."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.numpy_helper
from PIL import Image

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
TYPES = {
    "f16": "<f2", "f32": "<f4", "f64": "<f8", "i8": "|i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "|u1",
    "u16": "<u2", "u32": "<u4", "u64": "<u8", "bool": "|b1", "c64": "<c8", "c128": "<c16", "str": "<U5",
}  # fmt: skip
failures = []


def tenon(*arguments):
    return subprocess.run([os.path.join(BUILD, "tenon"), *arguments], capture_output=True, text=True)


def expect(what, holds, done=None):
    if not holds:
        failures.append(what)
        print(f"FAIL {what}{': ' + done.stderr.strip() if done else ''}")


def identity(folder, dtype, shape):
    path = os.path.join(folder, f"identity_{dtype}.tn")
    sizes = ",".join(map(str, shape))
    with open(path, "w") as file:
        file.write(f"tn 1\ngraph @identity(%x: {dtype}[{sizes}]) -> (%y) {{\n  %y = Identity(%x)\n}}\n")
    return path


def array_of(code, shape):
    random = np.random.default_rng(1)
    if code == "<U5":
        return np.array(["é中x", "", "hello", "😀", "a", "bc"]).reshape(shape)
    return (random.integers(0, 200, shape) / (1 if code[1] in "iub" else 8)).astype(code)


def check_round_trips(folder):
    for dtype, code in TYPES.items():
        array = array_of(code, (2, 3))
        path, out = os.path.join(folder, "x.npy"), os.path.join(folder, f"out_{dtype}")
        np.save(path, array)
        done = tenon("run", identity(folder, dtype, array.shape), "-i", path, "-o", out)
        got = np.load(os.path.join(out, "y.npy")) if done.returncode == 0 else None
        expect(f"{dtype} round trip", got is not None and got.dtype == array.dtype and np.array_equal(got, array), done)


def check_sequences(folder):
    """What is no tensor becomes a message that ONNX's own reader knows."""
    x, pieces = onnx.helper.make_tensor_value_info("x", 1, [5]), onnx.helper.make_tensor_sequence_value_info("s", 1, None)
    nodes = [onnx.helper.make_node("SplitToSequence", ["x"], ["s"], keepdims=1)]
    path, out = os.path.join(folder, "split.onnx"), os.path.join(folder, "out_sequence")
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [pieces]), ir_version=10), path)
    np.save(os.path.join(folder, "x.npy"), np.arange(5, dtype="f4"))
    done = tenon("run", path, "-i", os.path.join(folder, "x.npy"), "-o", out)
    found = onnx.SequenceProto()
    if done.returncode == 0:
        with open(os.path.join(out, "s.pb"), "rb") as file:
            found.ParseFromString(file.read())
    values = [array.tolist() for array in onnx.numpy_helper.to_list(found)] if found.tensor_values else None
    expect("a sequence as .pb", found.name == "s" and values == [[0], [1], [2], [3], [4]], done)


def check_layouts(folder):
    array = np.arange(6, dtype="f4").reshape(2, 3)
    model = identity(folder, "f32", array.shape)
    variants = {"fortran.npy": np.asfortranarray(array), "big.npy": array.astype(">f4")}
    for name, variant in variants.items():
        path, out = os.path.join(folder, name), os.path.join(folder, name + ".out")
        np.save(path, variant)
        done = tenon("run", model, "-i", path, "-o", out)
        expect(name, done.returncode == 0 and np.array_equal(np.load(os.path.join(out, "y.npy")), array), done)


def check_archives(folder):
    array = np.arange(6, dtype="f4").reshape(2, 3)
    model, path, out = identity(folder, "f32", array.shape), os.path.join(folder, "a.npz"), os.path.join(folder, "npz")
    for save in (np.savez, np.savez_compressed):
        save(path, other=array + 1, x=array)
        done = tenon("run", model, "-i", f"x={path}", "-o", out)
        expect(save.__name__, done.returncode == 0 and np.array_equal(np.load(os.path.join(out, "y.npy")), array), done)
    np.savez(path, a=array, b=array)
    done = tenon("run", model, "-i", path)
    expect("npz without the array", done.returncode == 1 and 'holds no array "x"' in done.stderr, done)
    with open(path, "wb") as file:
        file.write(b"PK\x03\x04 no archive")
    done = tenon("run", model, "-i", path)
    expect("damaged npz", done.returncode == 1 and "no .npz file" in done.stderr, done)


def check_pictures(folder):
    """A smooth picture, so that compression changes little."""
    rows, columns = np.mgrid[0:24, 0:16]
    pixels = np.stack([rows * 8, columns * 12, 255 - rows * 4], axis=-1).astype("u1")
    for name, shape, tolerance in (("p.png", (1, 3, 24, 16), 1e-6), ("p.jpg", (1, 3, 24, 16), 0.03), ("p.png", (1, 24, 16, 3), 1e-6)):
        path, out = os.path.join(folder, name), os.path.join(folder, "pictures")
        Image.fromarray(pixels).save(path, **({"quality": 95, "subsampling": 0} if name.endswith("jpg") else {}))
        done = tenon("run", identity(folder, "f32", shape), "-i", path, "-o", out)
        want = pixels.astype("f4")[None] / 255
        want = want if shape[-1] == 3 else want.transpose(0, 3, 1, 2)
        got = np.load(os.path.join(out, "y.npy")) if done.returncode == 0 else np.zeros(shape)
        expect(f"{name} as {shape}", np.abs(got - want).max() < tolerance, done)
    # A picture of another size is scaled.
    done = tenon("run", identity(folder, "f32", (1, 3, 12, 8)), "-i", path, "--json")
    mean = json.loads(done.stdout)["outputs"][0]["mean"] if done.returncode == 0 else 0
    expect("scaled picture", abs(mean - pixels.mean() / 255) < 0.01, done)
    Image.fromarray(pixels).convert("L").save(path)
    done = tenon("run", identity(folder, "u8", (1, 1, 24, 16)), "-i", path, "--json")
    expect("grey picture of bytes", done.returncode == 0, done)


def check_status():
    add = os.path.join(ROOT, "tests", "data", "cli", "add.tn")
    for status, arguments in ((0, ["version"]), (2, ["rnu"]), (2, ["run", add, "--treads", "2"]), (1, ["run", "no.tn"]), (2, [])):
        expect(f"status of {arguments}", tenon(*arguments).returncode == status)
    done = tenon("run", add, "--json", "--profile", "--repeat", "3")
    answer = json.loads(done.stdout)
    expect("json of run", answer["times"]["runs"] == 3 and len(answer["profile"]) == 2 and len(answer["outputs"]) == 2)


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_round_trips(folder)
        check_sequences(folder)
        check_layouts(folder)
        check_archives(folder)
        check_pictures(folder)
    check_status()
    print(f"{len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
