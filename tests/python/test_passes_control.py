# SPDX-License-Identifier: Apache-2.0
"""Random models of If, Loop, Scan and sizes give the same bits before and after the passes that take them apart: each
alone, all together, again and again, and the default list. What the passes made is saved and read again.

    test_passes_control.py [SEED [COUNT]]
"""
import os
import shutil
import sys

import numpy as np

from control_models import Maker
from harness import Report, sanitized, scratch, tenon

PASSES = ["simplify-shapes", "select-branches", "unroll-loops", "hoist-invariants"]
ALL = ",".join(PASSES)
PIPELINES = PASSES + [f"{ALL},infer-shapes,remove-dead", f"repeat(max=4){{{ALL},remove-dead}}",
                      "infer-shapes,unroll-loops(max_trips=20,max_nodes=100000),simplify-shapes,select-branches",
                      f"{','.join(reversed(PASSES))}"]  # fmt: skip
# What does not ask what is declared, for models that declare what is wrong.
CAREFUL = [p for p in PIPELINES if "unroll" not in p]
FOLDER = scratch("passes_control")


def run(model, inputs, pipeline):
    """(outputs by name, what went wrong)"""
    out = os.path.join(FOLDER, "out")
    shutil.rmtree(out, ignore_errors=True)
    done = tenon("run", model, *inputs, "-o", out, "-t", "1", *([] if pipeline is None else ["--passes", pipeline]))
    if done.returncode != 0:
        return None, done.stderr
    return {name[:-4]: np.load(os.path.join(out, name)) for name in os.listdir(out)}, ""


def same(a, b, loose):
    if a.dtype == b.dtype and a.shape == b.shape:
        return a.tobytes() == b.tobytes()
    return loose and a.dtype == b.dtype and a.size == b.size == 0


def compare(report, what, expected, found, loose):
    if not report.check(set(expected) == set(found), f"{what}: outputs", f"{sorted(expected)} {sorted(found)}"):
        return
    for name, a in expected.items():
        b = found[name]
        report.check(same(a, b, name in loose), f"{what}: output {name}", f"{a.dtype}{a.shape} {b.dtype}{b.shape}\n{a}\n{b}")


def try_seed(report, seed, size):
    lies = seed % 3 == 0
    made = Maker(seed, lies).model(size)
    if not made:
        return False
    text, feeds, loose = made
    model, optimised = os.path.join(FOLDER, f"{seed}.tn"), os.path.join(FOLDER, "optimised.tn")
    with open(model, "w", encoding="utf-8") as file:
        file.write(text)
    inputs = []
    for name, array in feeds.items():
        path = os.path.join(FOLDER, f"{name}.npy")
        np.save(path, array)
        inputs += ["-i", f"{name}={path}"]
    expected, why = run(model, inputs, "")
    if expected is None:
        # What is declared of sizes may be too wrong for the model to be read; else it is one that runs.
        report.check(lies and why.startswith("tenon: "), f"{model} does not run", why)
        return False
    wrong = report.wrong
    for pipeline in CAREFUL if lies else PIPELINES:
        done = tenon("opt", model, "--passes", pipeline, "--verify", "-o", optimised)
        if not report.check(done.returncode == 0, f"{model}: {pipeline}", done.stderr):
            continue
        found, why = run(optimised, inputs, "")
        if report.check(found is not None, f"{model} after {pipeline}", why):
            compare(report, f"{model} after {pipeline}", expected, found, loose)
    found, why = (None, "") if lies else run(model, inputs, None)
    if not lies and report.check(found is not None, f"{model} with the default list", why):
        compare(report, f"{model} with the default list", expected, found, loose)
    if report.wrong == wrong:
        os.remove(model)
    return True


def main():
    report = Report()
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 12 if sanitized() else 40
    done = sum(try_seed(report, seed + i, 6 + (seed + i) % 20) for i in range(count))
    report.check(done * 2 > count, "few of the models could be run", f"{done} of {count}")
    report.exit()


if __name__ == "__main__":
    main()
