#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Median times of models under Tenon, and under onnxruntime in the same run when it can be imported.

Absolute times say little on a shared machine: read the ratio, and run it again.
"""

import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import time


def find_models(paths):
    for path in paths:
        if path.endswith((".onnx", ".tn")):
            yield path
        else:
            yield from sorted(glob.glob(os.path.join(path, "**", "model.onnx"), recursive=True))


def input_files(folder):
    return sorted(glob.glob(os.path.join(folder, "test_data_set_0", "input_*.pb")), key=lambda p: (len(p), p))


def read_inputs(folder):
    import onnx
    from onnx import numpy_helper

    arrays = []
    for path in input_files(folder):
        tensor = onnx.TensorProto()
        with open(path, "rb") as file:
            tensor.ParseFromString(file.read())
        arrays.append(numpy_helper.to_array(tensor))
    return arrays


def time_tenon(tenon, model, names, repeat, threads):
    command = [tenon, "run", model, "--json", "--repeat", str(repeat), "--threads", str(threads)]
    for name, path in zip(names, input_files(os.path.dirname(model))):
        command += ["--input", f"{name}={path}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().split("\n")[0]
    return json.loads(done.stdout)["times"]["median_ms"], None


def time_onnxruntime(model, arrays, repeat, threads):
    try:
        import onnxruntime as ort
    except ImportError:
        return None
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {i.name: a for i, a in zip(session.get_inputs(), arrays)}
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        session.run(None, feed)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def input_names(model):
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    constants = {t.name for t in graph.initializer}
    return [i.name for i in graph.input if i.name not in constants]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["build/models"], help="model files, or folders to search")
    parser.add_argument("--tenon", default="build/tenon")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    print(f"{'model':36} {'tenon ms':>10} {'peer ms':>10} {'ratio':>7}")
    for model in find_models(args.models):
        folder = os.path.dirname(model)
        if not input_files(folder) or "backend" in folder.split(os.sep) or "cases" in folder.split(os.sep):
            continue
        ours, trouble = time_tenon(args.tenon, model, input_names(model), args.repeat, args.threads)
        peer = time_onnxruntime(model, read_inputs(folder), args.repeat, args.threads) if ours else None
        ratio = f"{ours / peer:7.2f}" if ours and peer else " " * 7
        times = f"{ours:10.1f} {peer:10.1f}" if peer else f"{ours:10.1f} {'':10}" if ours else trouble
        print(f"{os.path.basename(folder):36} {times} {ratio}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
