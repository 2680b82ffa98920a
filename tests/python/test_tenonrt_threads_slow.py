# SPDX-License-Identifier: Apache-2.0
"""Two Python threads do nearly twice the work of one: the lock is released while a session runs."""
import os
import sys
import threading
import time

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt  # noqa: E402
from harness import SKIPPED, Report  # noqa: E402

SECONDS = 1.5
WANTED = 1.8
TRIES = 8  # other work on the machine takes turns with this


def model():
    made = tenonrt.Model.new("heavy")
    g = made.graph
    h = g.input("x", "f32", [64, 256])
    weight = g.constant(np.eye(256, dtype=np.float32), "w")
    for _ in range(8):
        h = g.op("MatMul", [h, weight])
    g.output(h, "y")
    made.infer()
    return made


def runs_per_second(sessions, x):
    """Of one thread for each session in the list."""
    counts, start, end = [0] * len(sessions), threading.Barrier(len(sessions)), [0.0]

    def work(i):
        sessions[i].run(None, {"x": x})
        start.wait()
        if i == 0:
            end[0] = time.perf_counter() + SECONDS
        start.wait()
        while time.perf_counter() < end[0]:
            sessions[i].run(None, {"x": x})
            counts[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def main():
    if len(os.sched_getaffinity(0)) < 2:
        print("SKIPPED: one processor")
        sys.exit(SKIPPED)
    report, x = Report(), np.ones((64, 256), np.float32)
    made = model()
    made.save(os.path.join(tenonrt_env.scratch("tenonrt_threads"), "heavy.onnx"))
    path = os.path.join(tenonrt_env.scratch("tenonrt_threads"), "heavy.onnx")
    one = tenonrt.InferenceSession(path, threads=1)
    other = tenonrt.InferenceSession(path, threads=1)
    for what, pair in (("two sessions", [one, other]), ("one session", [one, one])):
        ratios = []
        while len(ratios) < TRIES and (not ratios or max(ratios) < WANTED):
            ratios.append(runs_per_second(pair, x) / runs_per_second(pair[:1], x))
        report.check(max(ratios) >= WANTED, f"{what} in two threads", " ".join(f"{ratio:.2f}" for ratio in ratios))
        print(f"{what} in two threads: {max(ratios):.2f} times the throughput of one")
    report.exit()


if __name__ == "__main__":
    main()
