# SPDX-License-Identifier: Apache-2.0
"""Random instances of every op, so many for each element type and each value of each attribute, answered by ONNX's
reference evaluator or an oracle of ours (op_random/), written as rows and run by unit/test_op_cases. Fails too where an
op, a type or a value has none.

    test_op_random.py [--times N] [--seed S] [--peer] [--show] [OP...]

With --peer onnxruntime, which must be installed, answers those of com.microsoft and ai.onnx.ml.
"""
import argparse
import collections
import os
import subprocess
import sys

from harness import BUILD, ROOT, scratch
from op_random import (attention, axes, contrib, contrib_attention, elementwise, images, losses, ml, moves, products,
                       quantized, recurrent, sequences, signal, strings, trees, windows)  # noqa: F401  # fmt: skip
from op_random.core import GENERATORS
from op_random.exceptions import NO_GENERATOR
from op_random.peer import answer_of_peer, is_for_peer
from op_random.sweep import Sweep
from op_random.types import read_schemas


def unknown_ops(schemas):
    wrong = [f"{op}: neither a generator nor a reason why not" for op in schemas if op not in GENERATORS | NO_GENERATOR.keys()]
    return wrong + [f"{op}: is no op" for op in [*GENERATORS, *NO_GENERATOR] if op not in schemas]


def sweep(schema, op, args, path):
    with open(path, "w", encoding="utf-8") as file:
        return Sweep(schema, op, args.times, args.seed, file, answer_of_peer if args.peer else None)


def sweep_apart(schema, op, args, path):
    """In a process of its own, since onnxruntime may crash: then only the row that it crashes on is missing."""
    child = os.fork()
    if child == 0:
        with open(path, "w", encoding="utf-8", buffering=1) as file:
            Sweep(schema, op, args.times, args.seed, file, answer_of_peer)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        print(f"{op}: onnxruntime ends with {status}", flush=True)


def sweep_all(schemas, ops, args, folder):
    """Rows for each op; what is wrong with the generators; how much there was."""
    files, wrong, totals = [], [], collections.Counter()
    for op in ops:
        files.append(os.path.join(folder, op + ".case"))
        if args.peer:
            sweep_apart(schemas[op], op, args, files[-1])
            continue
        found = sweep(schemas[op], op, args, files[-1])
        wrong += found.wrong + [f"{op}: too few instances of {name} {value}" for name, value in found.missing]
        totals.update(rows=found.n_rows, keys=found.n_keys, refused=sum(found.refused.values()))
        for what, n in found.refused.items() if args.show or found.missing else ():
            print(f"{op}: {n} without an answer: {what}")
    if not args.peer:
        print(f"{len(ops)} ops, {totals['keys']} types and values of attributes, {totals['rows']} instances; "
              f"{totals['refused']} more without an answer", flush=True)  # fmt: skip
    return files, wrong


def main(times=2, seed=0):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=times, help="instances for each type and each value")
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--peer", action="store_true", help="ask onnxruntime")
    parser.add_argument("--show", action="store_true", help="say what the reference could not answer")
    parser.add_argument("ops", nargs="*")
    args = parser.parse_args()
    schemas = read_schemas(BUILD)
    wrong = [] if args.ops else unknown_ops(schemas)
    ops = args.ops or [op for op in schemas if op in GENERATORS and (is_for_peer(op) or not args.peer)]
    files, gaps = sweep_all(schemas, ops, args, scratch(f"op_random_{args.times}" + "_peer" * args.peer))
    done = subprocess.run([os.path.join(BUILD, "tests", "unit", "test_op_cases"), *files], cwd=ROOT)
    for line in wrong + gaps:
        print("FAIL", line)
    return 1 if wrong or gaps or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
