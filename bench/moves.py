#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it is worth to leave data where it is: runs with views, values that are read through, and parts made in the whole's
place; with views alone; and with every result of an op that only moves data made.

    bench/moves.py --tenon build/tenon MODEL.onnx...

    share  bytes that are moved, of those that the ops would move one by one
    least  milliseconds of the fastest run as it is; the others are multiples of that
"""
import argparse
import json
import os
import subprocess

WAYS = {"least": [], "but views": ["--add", "choose-kernels(moves=but-views)"], "all": ["--add", "choose-kernels(moves=all)"]}


def measure(tenon, model, options, args):
    done = subprocess.run([tenon, "bench", model, "--json", "--threads", str(args.threads), "--seconds", str(args.seconds),
                           *options, *args.rest], capture_output=True, text=True, check=True)  # fmt: skip
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tenon", default="build/tenon")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each run of `tenon bench`")
    parser.add_argument("--rounds", type=int, default=4, help="in which the ways take turns")
    args, args.rest = parser.parse_known_args()
    print(f"{'model':32} {'share':>6} {'least':>9} {'but views':>9} {'all':>6}")
    for model in args.models:
        best, plan = {}, None
        for _ in range(args.rounds):
            for way, options in WAYS.items():
                found = measure(args.tenon, model, options, args)
                best[way] = min(best.get(way, 1e30), found["times"]["least_ms"])
                plan = found["plan"] if way == "least" else plan
        name = os.path.basename(os.path.dirname(os.path.abspath(model)))
        moves = plan.get("moves_bytes", 0)
        share = plan.get("moved_bytes", 0) / moves if moves else 0
        ratios = [best[way] / best["least"] for way in ("but views", "all")]
        print(f"{name:32} {share:6.3f} {best['least']:9.3f} {ratios[0]:9.3f} {ratios[1]:6.3f}", flush=True)


main()
