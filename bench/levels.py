#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What opt level 3 gains over level 2, model by model: sessions of both in one process, in turns.

    bench/levels.py build/bench-models
    bench/levels.py --seconds 6 --all resnet50.onnx

A model that both levels make the same program of is told so and not measured, unless --all asks for it: it then shows how far
apart two sessions of the same program are on this machine. Sessions are made anew several times, the other one first each time,
since where weights come to lie makes one faster than the other. For each pair of sessions the runs take turns, and the ratio is
that of the lower quartiles; shown are the middle one of these ratios, and the least and the largest.

    passes ms  what making the graph took at either level
    ratio      level 3 / level 2: below 1 is faster
"""
import argparse
import statistics
import time

import numpy as np

import engines
import networks
import peers


def inputs_of(session, path):
    recorded = peers.recorded_inputs(path)
    if recorded:
        return dict(zip((i.name for i in session.get_inputs()), map(peers.read_tensor, recorded)))
    random, sizes = np.random.default_rng(0), networks.SIZES.get(peers.name_of(path), {})
    return {i.name: peers.random_input(i, sizes, random) for i in session.get_inputs()}


def program_of(session):
    keys = ("op", "kernel", "way", "dtype", "shape", "flops", "bytes_read", "bytes_written", "moved_bytes")
    return [tuple(line[key] for key in keys) for line in session.instructions()]


class Levels:
    """A model, optimised at each of the levels."""

    def __init__(self, library, path, levels, threads):
        self.library, self.threads, self.graphs, self.passes_ms = library, threads, [], []
        model = library.Model.load(path, threads=threads)
        for level in levels:
            start = time.perf_counter()
            self.graphs.append(model.optimize(opt_level=level))
            self.passes_ms.append(1e3 * (time.perf_counter() - start))

    def open(self, k):
        return self.library.InferenceSession(self.graphs[k], threads=self.threads, passes="lower-composites")


def quartile(times):
    return sorted(times)[len(times) // 4]


def take_turns(sessions, feeds, seconds):
    """Lower quartiles. The first two runs do not count."""
    times, turn = ([], []), 0
    end = time.perf_counter() + seconds
    while turn < 6 or time.perf_counter() < end:
        for k in (turn % 2, 1 - turn % 2):
            start = time.perf_counter()
            sessions[k].run(None, feeds)
            if turn >= 2:
                times[k].append(time.perf_counter() - start)
        turn += 1
    return [quartile(t) for t in times]


def ratios_of(levels, feeds, args):
    ratios, least = [], [float("inf")] * 2
    for turn in range(args.rounds):
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        sessions = {k: levels.open(k) for k in order}
        times = take_turns(sessions, feeds, args.seconds / args.rounds)
        ratios.append(times[1] / times[0])
        least = [min(pair) for pair in zip(least, times)]
    return sorted(ratios), least


def measure(library, path, args):
    name = peers.name_of(path)[:34]
    try:
        levels = Levels(library, path, args.levels, args.threads)
        sessions = [levels.open(k) for k in (0, 1)]
        feeds = inputs_of(sessions[0], path)
        wanted, got = (s.run(None, feeds) for s in sessions)
    except Exception as trouble:
        print(f"{name:34} {str(trouble).splitlines()[0][:80]}", flush=True)
        return
    same = program_of(sessions[0]) == program_of(sessions[1])
    del sessions
    spent = f"{levels.passes_ms[0]:9.1f}{levels.passes_ms[1]:9.1f}"
    if same and not args.all or args.list:
        print(f"{name:34}{spent}  {'the same program' if same else 'another program'}", flush=True)
        return
    ratios, least = ratios_of(levels, feeds, args)
    differs = peers.compare(got, wanted)["diff"]
    print(f"{name:34}{spent}{1e3 * least[0]:10.3f}{1e3 * least[1]:10.3f}{statistics.median(ratios):8.3f}"
          f"{ratios[0]:8.3f}{ratios[-1]:7.3f}{differs:10.1e}{'  the same program' if same else ''}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="model files, or folders to search for model.onnx")
    parser.add_argument("--levels", type=peers.list_of(int), default=[2, 3], help="which two (2,3)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each model (4)")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of sessions within that (5)")
    parser.add_argument("--all", action="store_true", help="measure models of which both levels make the same program, too")
    parser.add_argument("--list", action="store_true", help="tell which become other programs, and measure nothing")
    args = parser.parse_args()
    if len(args.levels) != 2:
        parser.error("two levels are compared")
    tenon = engines.Tenon()
    tenon.open()
    a, b = args.levels
    print(f"{'':34}{'passes ' + str(a):>9}{'ms ' + str(b):>9}{'ms at ' + str(a):>10}{'ms at ' + str(b):>10}{'ratio':>8}"
          f"{'from':>8}{'to':>7}{'differs':>10}")  # fmt: skip
    for path in peers.find_models(args.models):
        measure(tenon.library, path, args)


if __name__ == "__main__":
    main()
