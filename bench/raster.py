#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The raster's speed: against memcpy of the same bytes, numpy and onnxruntime, in one run and in turns.

Times are medians; a number under `memcpy` is the part of memcpy's rate that is reached, one under `numpy` or `ort` how
many times as fast the raster is. Read ratios: absolute times say little on a shared machine.
"""

import argparse
import ctypes
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# name, element type, dims, permutation (None: the whole as one run)
SHAPES = [
    ("one run, 64 MB", "f4", (4096, 4096), None),
    ("one run, 4 MB", "f4", (1024, 1024), None),
    ("matrix", "f4", (4096, 4096), (1, 0)),
    ("matrix", "f4", (1024, 1024), (1, 0)),
    ("odd matrix", "f4", (1001, 1999), (1, 0)),
    ("keys of attention", "f4", (12, 512, 64), (0, 2, 1)),
    ("batch of matrices", "f4", (16, 197, 768), (0, 2, 1)),
    ("NCHW to NHWC", "f4", (1, 64, 224, 224), (0, 2, 3, 1)),
    ("NHWC to NCHW", "f4", (1, 224, 224, 64), (0, 3, 1, 2)),
    ("NCHW to NHWC", "f4", (8, 256, 28, 28), (0, 2, 3, 1)),
    ("NHWC to NCHW", "f4", (8, 28, 28, 256), (0, 3, 1, 2)),
    ("image to NHWC", "f4", (4, 3, 512, 512), (0, 2, 3, 1)),
    ("image to NCHW", "f4", (4, 512, 512, 3), (0, 3, 1, 2)),
    ("image bytes to NCHW", "u1", (4, 512, 512, 3), (0, 3, 1, 2)),
    ("image bytes to NHWC", "u1", (4, 3, 512, 512), (0, 2, 3, 1)),
    ("heads and keys", "f4", (4, 512, 12, 64), (0, 2, 3, 1)),
    ("reversed order", "f4", (96, 100, 104), (2, 1, 0)),
    ("pixel shuffle", "f4", (1, 64, 2, 2, 112, 112), (0, 1, 4, 2, 5, 3)),
    ("half matrix", "f2", (2048, 2048), (1, 0)),
    ("byte matrix", "u1", (2048, 2048), (1, 0)),
    ("64-bit matrix", "i8", (1024, 1024), (1, 0)),
    ("complex matrix", "c16", (768, 768), (1, 0)),
    ("split heads", "f4", (8, 512, 12, 64), (0, 2, 1, 3)),
    ("windows", "f4", (1, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5)),
    ("shuffled channels", "f4", (4, 2, 58, 28, 28), (0, 2, 1, 3, 4)),
]
TN_TYPES = {"f4": "F32", "f2": "F16", "u1": "U8", "i8": "I64", "c16": "C128"}


def tn_type(name):
    """The number of an element type: read where it is declared."""
    path = os.path.join(ROOT, "include/tenon/dtypes.def")
    found = re.search(rf"^DTYPE\({name}, (\d+)", open(path, encoding="utf-8").read(), re.MULTILINE)
    if not found:
        sys.exit(f"{path} has no {name}")
    return int(found.group(1))


def build_library(build, folder):
    """bench/raster.c over the internal headers and the library's objects."""
    out = os.path.join(folder, "raster.so")
    libraries = open(os.path.join(build, "tests/internal_libraries.txt"), encoding="utf-8").read().split()
    libraries = [x if x.startswith("/") else "-l" + x for x in libraries if "::" not in x]
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-I" + os.path.join(ROOT, "src"),
         "-I" + os.path.join(ROOT, "include"), os.path.join(ROOT, "bench/raster.c"),
         os.path.join(build, "libtenon_internal.a"), *libraries, "-lpthread", "-o", out], check=True)  # fmt: skip
    lib = ctypes.CDLL(out)
    lib.bench_pool.restype = ctypes.c_void_p
    return lib


def aligned(shape, dtype):
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(count + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count].view(dtype).reshape(shape)


def tenon_call(lib, pool, x, y, perm):
    strides = [x.strides[p] // x.itemsize for p in perm]
    dims = (ctypes.c_int64 * len(perm))(*y.shape)
    steps = (ctypes.c_int64 * len(perm))(*strides)
    args = (ctypes.c_void_p(pool), tn_type(TN_TYPES[x.dtype.str[1:]]), len(perm), dims, steps,
            ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))  # fmt: skip
    return lambda: lib.bench_raster(*args)


def memcpy_call(lib, x, z):
    args = (ctypes.c_void_p(z.ctypes.data), ctypes.c_void_p(x.ctypes.data), ctypes.c_size_t(x.nbytes))
    return lambda: lib.bench_memcpy(*args)


def ort_call(x, y, perm, threads):
    try:
        import onnx
        import onnxruntime as ort
    except ImportError:
        return None
    try:
        kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    except (KeyError, ValueError):
        return None
    node = onnx.helper.make_node("Transpose", ["x"], ["y"], perm=list(perm))
    graph = onnx.helper.make_graph(
        [node], "g", [onnx.helper.make_tensor_value_info("x", kind, x.shape)],
        [onnx.helper.make_tensor_value_info("y", kind, y.shape)])  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, x.dtype, x.shape, x.ctypes.data)
        binding.bind_output("y", "cpu", 0, y.dtype, y.shape, y.ctypes.data)
        session.run_with_iobinding(binding)
    except Exception:  # an element type that it does not take
        return None
    return lambda: session.run_with_iobinding(binding)


def medians(calls, threads, seconds):
    """Each in turn, so that what else the machine does falls on all of them. With one thread it is the thread's own time
    that counts, without what the processor did for others meanwhile."""
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    times = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while len(times["tenon"]) < 5 or time.perf_counter() < end:
        for name, call in calls.items():
            start = clock()
            call()
            times[name].append(clock() - start)
    return {name: statistics.median(t) for name, t in times.items()}


def bench(lib, pool, row, threads, seconds):
    name, kind, dims, perm = row
    rng = np.random.default_rng(0)
    x = aligned(dims, kind)
    x.reshape(-1).view(np.uint8)[:] = rng.integers(0, 100, x.nbytes, np.uint8)
    if perm is None:
        perm = tuple(range(len(dims)))
    shape = tuple(dims[p] for p in perm)
    y, y_np, y_ort, z = aligned(shape, kind), aligned(shape, kind), aligned(shape, kind), aligned(dims, kind)
    view = x.transpose(perm)
    calls = {"memcpy": memcpy_call(lib, x, z), "tenon": tenon_call(lib, pool, x, y, perm)}
    if perm != tuple(range(len(dims))):
        calls["numpy"] = lambda: np.copyto(y_np, view)
        ort = ort_call(x, y_ort, perm, threads)
        if ort:
            calls["ort"] = ort
    t = medians(calls, threads, seconds)
    if not np.array_equal(y.view(np.uint8), np.ascontiguousarray(view).view(np.uint8)):
        sys.exit(f"{name} {dims}: wrong answer")
    cell = {k: f"{t[k] / t['tenon']:.2f}" if k in t else "-" for k in ("memcpy", "numpy", "ort")}
    what = "x".join(map(str, dims)) + " " + "".join(map(str, perm))
    print(f"{name:<20} {kind:<4}{what:<28}{t['tenon'] / 1e3:>10.1f}{x.nbytes / t['tenon']:>8.1f}"
          f"{cell['memcpy']:>9}{cell['numpy']:>8}{cell['ort']:>8}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lib = build_library(args.build, folder)
        pool = lib.bench_pool(args.threads)
        print(f"{'':<20} {'':<4}{'dims, permutation':<28}{'us':>10}{'GB/s':>8}{'memcpy':>9}{'numpy':>8}{'ort':>8}")
        for row in SHAPES:
            if args.only in row[0]:
                bench(lib, pool, row, args.threads, args.seconds)


if __name__ == "__main__":
    main()
