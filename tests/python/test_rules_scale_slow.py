# SPDX-License-Identifier: Apache-2.0
"""Matching is nearly flat in the number of rules: on large graphs in which no rule applies any more, all rules take less than
twice as long as ten of them."""
import json
import os
import sys

from harness import SKIPPED, Report, sanitized, scratch, tenon
from scale_models import SHAPES

NODES = 100_000
MOST = 2
TIMES = 7
SETTLE = ("infer-shapes,fold-constants,simplify-shapes,canonicalize,remove-identities,share-constants,share-subexpressions,"
          "repeat{apply-rules,fold-constants,simplify-shapes,canonicalize,share-constants,share-subexpressions,remove-dead}")  # fmt: skip


def write_ten(report, path):
    """Ten rules, from all files, under names of their own."""
    done = tenon("rules", "--json")
    report.check(done.returncode == 0, "tenon rules --json", done.stderr)
    rules = [rule for rule in json.loads(done.stdout) if rule["level"] <= 2]
    with open(path, "w", encoding="utf-8") as file:
        for rule in rules[5 :: len(rules) // 10][:10]:
            file.write(rule["text"].replace(rule["name"], f"{rule['name']}_of_ten", 1).rstrip() + "\n")
    return len(rules)


def nanoseconds(report, model, ten, which):
    """Of the pass, which must find nothing to do."""
    done = tenon("opt", model, "--rules", ten, "--unproven", "--passes", f"infer-shapes,apply-rules({which})", "--json")
    if not report.check(done.returncode == 0, model, done.stderr):
        return 1
    record = json.loads(done.stdout)["passes"][-1]
    report.check(not record["changed"], model, "a rule applies")
    return record["nanoseconds"]


def measure(report, model, ten):
    """The least of both, taken by turns; longer where other programs seem to have been in the way."""
    few = every = float("inf")
    for turn in range(4 * TIMES):
        if turn < TIMES or every >= MOST * few:
            few = min(few, nanoseconds(report, model, ten, f'set="{ten}"'))
            every = min(every, nanoseconds(report, model, ten, "level=2"))
    return few, every


def main():
    report = Report()
    folder = scratch("rules_scale")
    ten = os.path.join(folder, "ten.rules")
    n_rules = write_ten(report, ten)
    for name, write in SHAPES.items():
        model, settled = os.path.join(folder, f"{name}.onnx"), os.path.join(folder, f"{name}.tn")
        write(model, NODES)
        done = tenon("opt", model, "--passes", SETTLE, "--output", settled, "--json")
        nodes = json.loads(done.stdout)["passes"][-1]["nodes_after"] if done.returncode == 0 else 0
        report.check(nodes, name, done.stderr)
        if nodes > NODES // 10:  # less is over too soon to be measured
            few, every = measure(report, settled, ten)
            print(f"{name}: {nodes} nodes, {few / 1e6:.2f} ms for 10 rules, {every / 1e6:.2f} ms for {n_rules}: {every / few:.2f}")
            report.check(every < MOST * few, name, f"all rules take {every} ns, ten of them {few} ns")
        os.remove(model)
    report.exit()


if __name__ == "__main__":
    if sanitized():
        sys.exit(SKIPPED)
    main()
