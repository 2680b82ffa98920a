#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opt level 3 by the modelled cost: no model gets dearer than at level 2, several get cheaper, and saturation says why it
stopped and keeps to the nodes, memory and time that it is given."""
import json
import os
import time

from harness import Report, prepare, scratch, tenon

REASONS = tuple(f"stopped: {why}" for why in ("saturated", "nodes", "iterations", "memory", "time"))
LOWERED = 3
DEEP = 3000
CLEAN = "infer-shapes,fold-constants,simplify-shapes,settle-graph"


def passes(model, *options):
    done = tenon("opt", model, "--json", *options, timeout=600)
    return json.loads(done.stdout)["passes"] if done.returncode == 0 else []


def counts_of(records, name):
    return [record["counts"] for record in records if record["pass"] == name and record["number"] > 0]


def cost(report, model, level):
    records = passes(model, "--level", str(level), "--add", "estimate-cost")
    costs = counts_of(records, "estimate-cost")
    report.check(len(costs) == 1, model, f"no cost at level {level}")
    if level == 3:
        for counts in counts_of(records, "saturate-rules"):
            report.check(any(reason in counts for reason in REASONS), model, "no reason for stopping")
    return costs[0]["ns"] if costs else 0


def compare(report, model, name):
    two, three = cost(report, model, 2), cost(report, model, 3)
    report.check(three <= two * (1 + 1e-6), name, f"level 3 costs {three} ns, level 2 {two} ns")
    if three < two * (1 - 1e-5):
        print(f"{name}: {two} ns at level 2, {100 * (two - three) / two:.3f} % less at level 3")
        return 1
    return 0


def keeps_to_limits(report, model):
    """Each limit by itself stops it, and at once."""
    for limit, reason in (("max-nodes=0", "nodes"), ("max-iterations=0", "iterations"), ("max-mib=1", "memory"),
                          ("max-ms=1", "time")):
        started = time.time()
        others = "".join(f"{name}=1000000," for name in ("max-nodes", "max-iterations") if name not in limit)
        records = passes(model, "--passes", f"{CLEAN},saturate-rules({others}{limit})")
        counts = counts_of(records, "saturate-rules")
        report.check(counts and f"stopped: {reason}" in counts[0], model, f"{limit}: stopped for another reason than {reason}: {counts}")
        report.check(time.time() - started < 60, model, f"{limit}: took {time.time() - started:.0f} s")


def bears_depth(report):
    """What is read twice at each of very many levels costs more, as a tree, than there are numbers for."""
    path = os.path.join(scratch("saturation"), "deep.tn")
    with open(path, "w", encoding="utf-8") as file:
        file.write("tn 1\ngraph @deep(%x0: f32[4,8], %w: f32[8,8]) -> (%y) {\n")
        for i in range(DEEP):
            file.write(f"  %m{i} = MatMul(%x{i}, %w)\n  %a{i} = Mul(%m{i}, %m{i})\n  %x{i + 1} = Softmax(%a{i})\n")
        file.write(f"  %y = Relu(%x{DEEP})\n}}\n")
    records = passes(path, "--level", "3")
    report.check(counts_of(records, "saturate-rules"), path, "saturation does not bear depth")


def main():
    report = Report()
    bears_depth(report)
    groups = [prepare(group) for group in ("generated", "real", "quantised")]
    lowered = 0
    for group in filter(None, groups):
        for name in sorted(os.listdir(group)):
            model = os.path.join(group, name, "model.onnx")
            lowered += compare(report, model, name) if os.path.exists(model) else 0
    if groups[0]:
        report.check(lowered >= LOWERED, "level 3", f"{lowered} models are cheaper than at level 2, {LOWERED} are wanted")
    if groups[0]:
        keeps_to_limits(report, os.path.join(groups[0], "bert_mini", "model.onnx"))
    report.exit(missing=None in groups)


if __name__ == "__main__":
    main()
