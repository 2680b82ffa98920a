# SPDX-License-Identifier: Apache-2.0
"""Bytes that a run moves without arithmetic, of those that the ops which only move data would move one by one: as a table,
and at most a quarter over all models."""
import glob
import json
import os

import onnx
from harness import Report, prepare, tenon

MOST = 0.25
MIB = 1 << 20


def shapes_of(folder, path):
    """Of the inputs of the first test."""
    graph = onnx.load(path, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in constants]
    for i, name in enumerate(names):
        tensor = onnx.TensorProto()
        file = os.path.join(folder, "test_data_set_0", f"input_{i}.pb")
        if os.path.exists(file):
            with open(file, "rb") as f:
                tensor.ParseFromString(f.read())
            if tensor.dims:
                yield from ("--shape", f"{name}=" + "x".join(str(d) for d in tensor.dims))


def plan_of(path):
    done = tenon("show", path, "--json", *shapes_of(os.path.dirname(path), path))
    return json.loads(done.stdout)["plan"] if done.returncode == 0 else None


def main():
    report = Report()
    moved = moves = 0
    folders = [folder for folder in map(prepare, ("real", "generated", "quantised")) if folder]
    for path in sorted(path for folder in folders for path in glob.glob(os.path.join(folder, "*", "*.onnx"))):
        plan = plan_of(path)
        if not report.check(plan, f"{path} is planned"):
            continue
        some, all_of_it = plan["moved_bytes"], plan["moves_bytes"]
        moved, moves = moved + some, moves + all_of_it
        name = os.path.basename(os.path.dirname(path))
        print(f"{name:32} {some / MIB:8.2f} of {all_of_it / MIB:8.2f} MiB  {some / all_of_it if all_of_it else 0:6.3f}")
        if "densenet" in name or "squeezenet" in name or "vit" in name:
            report.check(some <= 0.02 * all_of_it, f"{name} moves next to nothing", f"{some} of {all_of_it}")
    print(f"{'all':32} {moved / MIB:8.2f} of {moves / MIB:8.2f} MiB  {moved / max(moves, 1):6.3f}")
    if folders:
        report.check(moved <= MOST * moves, "a quarter at most", f"{moved} of {moves}")
    report.exit()


main()
