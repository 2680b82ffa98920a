# SPDX-License-Identifier: Apache-2.0
"""Reading and the default list on chains, wide fan-outs, diamonds and stacks of transformer layers: in proportion to their
length. `--long` measures a million nodes against a tenth of them, the memory, and onnxruntime beside it where it is
installed."""
import os
import subprocess
import sys
import time

from harness import TENON, Report, scratch
from scale_models import SHAPES

LIMIT = {10: 22, 100: 12.6}  # a short run meets other programs' noise; squares would be 100
MOST_MEMORY = 4 << 30
MOST_OF_ONNXRUNTIME = 0.2
PATIENCE = 60  # seconds for onnxruntime: it took that at least
CREATE = "import onnxruntime as o, sys, time; o.set_default_logger_severity(4); t = time.time(); o.InferenceSession(sys.argv[1]); print(time.time() - t)"


def measure(path, times):
    """Least processor seconds of `tenon opt`, and its most memory."""
    least, memory = None, 0
    for _ in range(times):
        child = subprocess.Popen([TENON, "opt", path], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            return None, 0
        seconds, memory = usage.ru_utime + usage.ru_stime, max(memory, usage.ru_maxrss << 10)
        least = seconds if least is None else min(least, seconds)
    return least, memory


def onnxruntime_seconds(path):
    python = os.environ.get("TENON_PEERS_PYTHON", sys.executable)
    try:
        done = subprocess.run([python, "-c", CREATE, path], capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return PATIENCE
    return float(done.stdout) if done.returncode == 0 else None


def compare(report, name, path):
    """Both by the clock, one after the other."""
    theirs = onnxruntime_seconds(path)
    if theirs is None:
        print("  onnxruntime: not installed here, or it refuses the model; TENON_PEERS_PYTHON names another Python")
        return
    start = time.time()
    subprocess.run([TENON, "opt", path], stdout=subprocess.DEVNULL, check=True)
    ours = time.time() - start
    print(f"  {ours:.2f} s beside onnxruntime's {theirs:.2f} s: {ours / theirs:.3f} of it")
    report.check(ours <= MOST_OF_ONNXRUNTIME * theirs, f"{name} beside onnxruntime", f"{ours} {theirs}")


def main(long):
    report = Report()
    folder = scratch("passes_scale")
    few, times = (100_000, 3) if long else (10_000, 3)
    for name, write in SHAPES.items():
        paths = [os.path.join(folder, f"{name}_{n}.onnx") for n in (few, 10 * few)]
        for path, n in zip(paths, (few, 10 * few)):
            write(path, n)
        (short, _), (tall, memory) = measure(paths[0], times), measure(paths[1], 2)
        if report.check(short and tall, f"{name} is optimised"):
            print(f"{name}: {short:.2f} s for {few}, {tall:.2f} s for {10 * few} ({tall / short:.1f}), {memory >> 20} MiB")
            report.check(tall <= LIMIT[few // 1000] * short, f"{name} in proportion", f"{tall / short}")
            report.check(memory < MOST_MEMORY, f"memory of {name}", memory)
        if long:
            compare(report, name, paths[0])
        for path in paths:
            os.remove(path)
    report.exit()


if __name__ == "__main__":
    main("--long" in sys.argv)
