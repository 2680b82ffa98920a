# SPDX-License-Identifier: Apache-2.0
"""Ops on the smallest backend, whose kernels are those of the atomic ops: random instances of each, answered by op_random's
oracles, and models."""
import json
import os
import subprocess

from harness import BUILD, ROOT, scratch, tenon
from op_random.core import GENERATORS
from op_random.sweep import Sweep, keys_of
from op_random.types import read_schemas

SMALLEST = ["--place", "minimal"]
# Whole, as simpler ops and regions, with counted loops: where the processor's kernels and the reference kernels stand by.
EACH_WAY = [["--place", "cpu", "--lowering", f"*={how}"] for how in ("origin", "geometry", "loop")]


def ops_by_kind(report):
    """The ops of each kind, by name; checks that the smallest backend leaves none out and writes atomic ones only."""
    done = tenon("ops", "--json")
    report.check(done.returncode == 0, "tenon ops --json", done.stderr)
    kinds, lowering = {}, {}
    for op in json.loads(done.stdout):
        name = f"{op['domain']}.{op['name']}" if op["domain"] else op["name"]
        kinds.setdefault(op["kind"], []).append(name)
        lowering[name] = op["lowering"]
    done = tenon("ops", "--backend", "minimal", "--json")
    report.check(done.returncode == 0, "tenon ops --backend minimal", done.stderr)
    by = {op["op"]: op["by"] for op in json.loads(done.stdout)["ops"]}
    wanted = {"atomic": "minimal_atomic", "deformable": "regions", "composite": "lowered", "host": "host"}
    for kind, names in kinds.items():
        report.check(kind in wanted, f"{kind} is one of the four kinds")
        for name in names:
            report.check(by[name] == wanted[kind], f"{name} runs as {wanted[kind]}", by[name])
            report.check(bool(lowering[name]) == (kind in ("deformable", "composite")), f"{name} says what it is made of")
    return kinds


def instances(op, schema, n, seed, folder):
    """A file of about n instances at least; how many."""
    times = max(1, -(-n // max(1, len(keys_of(schema, op)[0]))))
    path = os.path.join(folder, op + ".case")
    while True:
        with open(path, "w", encoding="utf-8") as file:
            rows = Sweep(schema, op, times, seed, file).n_rows
        if rows >= n or times > 64 * n:
            return path, rows
        times *= 2


def run_cases(report, path, rows, *options):
    """`rows` that are wrong are told by the program."""
    program = os.path.join(BUILD, "tests", "unit", "test_op_cases")
    done = subprocess.run([program, *options, path], cwd=ROOT, capture_output=True, text=True, errors="replace")
    wrong = [line for line in (done.stdout + done.stderr).split("\n") if ".case:" in line or "rows," in line]
    what = f"{rows} instances of {os.path.basename(path)[:-5]} {' '.join(options)}"
    report.check(done.returncode == 0, what, "\n".join(wrong[:6]))


def check_instances(report, kind, names, n, seed, places):
    """Instances of ops of one kind; how many ops and instances there were."""
    schemas, folder = read_schemas(BUILD), scratch(f"lowering_{kind}_{n}")
    ops = total = 0
    for op in names:
        if op not in GENERATORS:
            continue
        path, rows = instances(op, schemas[op], n, seed, folder)
        for place in places:
            run_cases(report, path, rows, *place)
        ops, total = ops + 1, total + rows
    print(f"{kind}: {total} instances of {ops} ops", flush=True)
