#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenon and other engines side by side on the same ONNX models.

    bench/peers.py build/bench-models
    bench/peers.py --engines ort,tenon --threads 1 --shape batch=1,seq=128 bert.onnx

Each engine has a process of its own, loads the model once, and then all take turns in short blocks, so that what else the
machine does falls on all of them. Inputs are a test_data_set_0 beside the model, else random ones of sizes that --shape gives.

    first ms   from opening the model's file to the end of the first run; importing the library is not counted, except for
               `import and first` in the summary
    mem MB     what is resident at most until then, beyond what was before the import: libraries, weights, activations
    median ms  of the runs in all blocks; min ms the least of them; cpu ms the median of the processor's time for a run, of all
               threads, which other work on the machine does not lengthen
    x          each as a multiple of the best of the other engines whose answers are right; in the summary /ort of onnxruntime
    differs    largest difference from onnxruntime without optimisations, relative to the output's largest value; `int`: integer
               outputs (indices of boxes, say) are not the same
"""
import argparse
import glob
import json
import multiprocessing
import os
import re
import statistics
import sys
import tempfile
import time

import numpy as np

import engines
import networks

DTYPES = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(int64)": np.int64,
    "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(bool)": np.bool_,
}  # fmt: skip
MEASURES = {
    "first_ms": "first answer", "whole_ms": "import and first", "first_cpu_ms": "first, processor", "mem_mb": "memory", "median_ms": "median", "min_ms": "least",
    "cpu_ms": "processor",
}  # fmt: skip
WRONG = 0.05  # an answer that differs by more; of quantised models right ones differ by a fiftieth


# ---- models and their inputs ----


def find_models(paths):
    for path in paths:
        if os.path.isdir(path):
            yield from sorted(glob.glob(os.path.join(glob.escape(path), "**", "model.onnx"), recursive=True))
        else:
            yield path


def name_of(path):
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return folder if os.path.basename(path) == "model.onnx" else os.path.basename(path)


def recorded_inputs(path):
    files = glob.glob(os.path.join(glob.escape(os.path.dirname(path) or "."), "test_data_set_0", "input_*.pb"))
    return sorted(files, key=lambda p: int(re.search(r"input_(\d+)", p).group(1)))


def read_tensor(path):
    import onnx

    return onnx.numpy_helper.to_array(onnx.load_tensor(path))


def random_input(info, sizes, random):
    """Whole numbers stay small, as they are likely to be indices; masks let all through."""
    shape = [d if isinstance(d, int) and d > 0 else sizes.get(str(d), sizes.get("*", 1)) for d in info.shape]
    dtype = DTYPES[info.type]
    if np.issubdtype(dtype, np.floating):
        return random.standard_normal(shape).astype(dtype)
    if dtype == np.bool_ or "mask" in info.name:
        return np.ones(shape, dtype)
    return random.integers(0, 2 if "type" in info.name else 100, shape).astype(dtype)


class Case:
    """A model with inputs, and what onnxruntime without optimisations makes of them."""

    def __init__(self, path, sizes):
        import onnxruntime as ort

        self.path, self.name = path, name_of(path)
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = [i.name for i in session.get_inputs()]
        self.outputs = [o.name for o in session.get_outputs()]
        recorded = [] if sizes else recorded_inputs(path)
        if recorded:
            self.feeds = dict(zip(self.inputs, map(read_tensor, recorded)))
        else:
            random, sizes = np.random.default_rng(0), sizes or networks.SIZES.get(self.name, {})
            self.feeds = {i.name: random_input(i, sizes, random) for i in session.get_inputs()}
        self.wanted = session.run(None, self.feeds)


def apart(got, wanted):
    """Relative to the largest value. Infinite where shapes or the places of infinities and NaNs differ."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    finite = np.isfinite(wanted)
    if got.shape != wanted.shape or not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    most = float(np.max(np.abs(got[finite] - wanted[finite])) / (np.max(np.abs(wanted[finite])) + 1e-30))
    return float("inf") if np.isnan(most) else most


def compare(got, wanted):
    """The largest difference between floats, and whether all else is the same: indices of boxes may change places by a
    rounding of their scores."""
    pairs = [(g, w) for g, w in zip(got, wanted) if isinstance(w, np.ndarray) and w.dtype.kind not in "OUS" and w.size]
    floats = [apart(g, w) for g, w in pairs if w.dtype.kind == "f"]
    return {"diff": max(floats, default=0.0), "same_integers": all(np.array_equal(g, w) for g, w in pairs if w.dtype.kind != "f")}


# ---- an engine's process ----


def resident_mb(key):
    with open("/proc/self/status", encoding="ascii") as file:
        return int(re.search(key + r":\s+(\d+)", file.read()).group(1)) / 1024


def forget_peak():
    """So that what this process held before, say while it received the inputs, does not count."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def load(engine, path, threads, case):
    forget_peak()
    before, start = resident_mb("VmRSS"), time.perf_counter()
    engine.open()
    opened, cpu = time.perf_counter(), time.process_time()
    engine.load(path, threads, case.inputs, case.outputs)
    loaded = time.perf_counter()
    got = engine.run(case.feeds)
    end, cpu = time.perf_counter(), time.process_time() - cpu
    memory = resident_mb("VmHWM") - before
    return {
        "import_ms": 1e3 * (opened - start), "load_ms": 1e3 * (loaded - opened), "first_ms": 1e3 * (end - opened),
        "whole_ms": 1e3 * (end - start), "first_cpu_ms": 1e3 * cpu,
        "mem_mb": memory, "mem_after_mb": resident_mb("VmRSS") - before, **compare(got, case.wanted),
    }  # fmt: skip


def run_block(engine, feeds, seconds):
    """Threads that slept and caches that others filled are no part of it, unless runs take long."""
    end = time.perf_counter() + seconds
    for _ in range(2):
        engine.run(feeds)
        if time.perf_counter() > end:
            break
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start, cpu = time.perf_counter(), time.process_time()
        engine.run(feeds)
        times.append((1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - cpu)))
    return times


def work(name, path, threads, case, pipe):
    """Loads, then runs a block whenever a number of seconds comes, until None does."""
    sys.stdout.flush()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        engine = engines.ENGINES[name]()
        pipe.send(load(engine, path, threads, case))
        while (seconds := pipe.recv()) is not None:
            pipe.send({"times": run_block(engine, case.feeds, seconds)})
    except Exception as trouble:  # an engine that cannot run a model keeps its row
        pipe.send({"error": f"{type(trouble).__name__}: {trouble}".split("\n")[0][:90]})


class Worker:
    """An engine's process as the one that measures sees it. `row` gets what is found, or an `error`."""

    def __init__(self, name, path, threads, case):
        context = multiprocessing.get_context("spawn")
        self.row = {"model": case.name, "engine": name, "threads": threads}
        self.times = []
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=work, args=(name, path, threads, case, there), daemon=True)
        self.process.start()
        there.close()
        self.receive()

    def receive(self):
        try:
            answer = self.pipe.recv()
        except EOFError:
            answer = {"error": "the engine's process died"}
        self.times += answer.pop("times", [])
        self.row.update(answer)

    def turn(self, seconds):
        if "error" in self.row:
            return
        try:
            self.pipe.send(seconds)
        except BrokenPipeError:
            pass
        self.receive()

    def end(self):
        if "error" not in self.row:
            self.pipe.send(None)
            wall, cpu = zip(*self.times)
            self.row.update(median_ms=statistics.median(wall), min_ms=min(wall), cpu_ms=statistics.median(cpu), runs=len(wall))
        self.process.join()
        return self.row


def measure(case, threads, args, files):
    workers = [Worker(name, files[name], threads, case) if files[name] else None for name in args.engines]
    for _ in range(args.rounds):
        for worker in filter(None, workers):
            worker.turn(args.seconds / args.rounds)
    rows = []
    for name, worker in zip(args.engines, workers):
        absent = {"model": case.name, "engine": name, "threads": threads, "error": "its converter fails"}
        rows.append(worker.end() if worker else absent)
    add_ratios(rows)
    return rows


def add_ratios(rows):
    """Best of the others: of the engines that are neither this one nor Tenon, and whose answers are right."""
    good = [row for row in rows if "error" not in row]
    peers = [row for row in good if not row["engine"].startswith("tenon") and row["diff"] <= WRONG]
    for row in good:
        for key in MEASURES:
            others = [r[key] for r in peers if r["engine"] != row["engine"]]
            row[key + "_x"] = row[key] / min(others) if others and min(others) > 0 else None
            ort = [r[key] for r in good if r["engine"] == "ort" != row["engine"]]
            row[key + "_of_ort"] = row[key] / ort[0] if ort and ort[0] > 0 else None


# ---- the table ----


def times_text(value):
    return f"{value:.2f}" if value is not None else "-"


COLUMNS = [
    ("first_ms", "first ms", 10, ".1f"), ("mem_mb", "mem MB", 8, ".0f"), ("median_ms", "median ms", 11, ".3f"),
    ("min_ms", "min ms", 10, ".3f"), ("cpu_ms", "cpu ms", 10, ".3f"),
]  # fmt: skip


def print_heading():
    figures = "".join(f"{title:>{width}}{'x':>7}" for _, title, width, _ in COLUMNS)
    print(f"{'model':26} T {'engine':9}{figures}{'differs':>10}", flush=True)


def print_row(row):
    start = f"{row['model'][:26]:26} {row['threads']} {row['engine']:9}"
    if "error" in row:
        print(f"{start}  {row['error']}", flush=True)
        return
    figures = "".join(f"{row[key]:{width}{form}}{times_text(row[key + '_x']):>7}" for key, _, width, form in COLUMNS)
    notes = (" WRONG" if row["diff"] > WRONG else "") + ("" if row["same_integers"] else " int")
    print(f"{start}{figures}{row['diff']:10.1e}{notes}", flush=True)


def summarise(rows):
    """For each engine, number of threads and measure: the geometric mean over models, and the worst."""
    lines = []
    for threads in sorted({row["threads"] for row in rows}):
        for engine in dict.fromkeys(row["engine"] for row in rows):
            mine = [r for r in rows if (r["engine"], r["threads"]) == (engine, threads)]
            for key, what in MEASURES.items():
                for kind, against in (("_x", "the best"), ("_of_ort", "ort")):
                    found = [(r[key + kind], r["model"]) for r in mine if r.get(key + kind)]
                    if found:
                        mean = statistics.geometric_mean(value for value, _ in found)
                        worst, model = max(found)
                        lines.append({"engine": engine, "threads": threads, "what": what, "against": against,
                                      "models": len(found), "mean": mean, "worst": worst, "worst_model": model})  # fmt: skip
    return lines


def print_summary(lines):
    print("\nAs multiples of the best of the other engines, and of onnxruntime; geometric means over the models that both run:")
    print(f"T {'engine':9} {'what':19}{'models':>7}{'mean':>7}{'worst':>7}")
    for s in lines:
        best = s["against"] == "the best"
        first = [MEASURES[key] for key in ("first_ms", "whole_ms", "first_cpu_ms")]
        if best or s["engine"].startswith("tenon") and s["what"] in first:
            what = s["what"] + ("" if best else " /ort")
            print(f"{s['threads']} {s['engine']:9} {what:22}{s['models']:>4}{s['mean']:7.2f}{s['worst']:7.2f}  {s['worst_model']}")


def convert_all(names, case, folder):
    files = {}
    for name in names:
        into = os.path.join(folder, name)
        os.mkdir(into)
        try:
            files[name] = engines.ENGINES[name].convert(case.path, into, case.feeds)
        except Exception:  # whatever goes wrong in a converter
            files[name] = None
    return files


def measure_model(path, args):
    rows = []
    try:
        case = Case(path, args.shape)
    except Exception as trouble:
        print(f"{name_of(path)[:26]:26} no reference: {str(trouble).splitlines()[0][:90]}", flush=True)
        return rows
    with tempfile.TemporaryDirectory() as folder:
        files = convert_all(args.engines, case, folder)
        for threads in args.threads:
            rows += measure(case, threads, args, files)
            for row in rows[-len(args.engines) :]:
                print_row(row)
    return rows


def list_of(kind):
    return lambda text: [kind(word) for word in text.split(",") if word]


def sizes_of(text):
    return {name: int(size) for name, size in (pair.split("=") for pair in text.split(",") if pair)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="model files, or folders to search for model.onnx")
    parser.add_argument("--engines", type=list_of(str), default=engines.DEFAULT, help=",".join(engines.ENGINES))
    parser.add_argument("--threads", type=list_of(int), default=[1, 2], help="1,2")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each engine, model and number of threads (2)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine within that (5)")
    parser.add_argument("--shape", type=sizes_of, default={}, help="open sizes by name: batch=1,seq=128; *=N for any other")
    parser.add_argument("--json", metavar="FILE", help="write all figures there, too")
    args = parser.parse_args()
    unknown = [name for name in args.engines if name not in engines.ENGINES]
    if unknown:
        parser.error(f"no engine {', '.join(unknown)}")
    models, rows = list(find_models(args.models)), []
    if not models:
        sys.exit(f"there is no model in {', '.join(args.models)}")
    print_heading()
    for path in models:
        rows += measure_model(path, args)
    lines = summarise(rows)
    print_summary(lines)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows, "summary": lines}, file, indent=1)


if __name__ == "__main__":
    main()
