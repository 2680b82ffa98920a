# SPDX-License-Identifier: Apache-2.0
"""Whole models on every instruction set of this processor, and on 1, 2, 3 and 7 threads: recorded answers hold on all of
them, and for one instruction set the answers are the same bits for any number of threads and on every run. The small
models; with --long all.

    test_isa_slow.py [--long] [FOLDER...]
"""
import glob
import json
import os
import shutil
import subprocess
import sys

from harness import TENON, Report, prepare, scratch

LEVELS = ("baseline", "avx2", "avx512", "reference")
THREADS = (1, 2, 3, 7)
SMALL = 4 << 20  # bytes of a model's file


def model_of(folder):
    files = sorted(glob.glob(os.path.join(folder, "*.onnx")))
    return next((f for f in files if "skeleton" not in f), None)


def run(level, *arguments):
    place = ("--place", "reference") if level == "reference" else ()
    environment = dict(os.environ, TENON_ISA=level)
    return subprocess.run([TENON, *arguments, *place], capture_output=True, text=True, errors="replace", env=environment)


def recorded_inputs(folder, model):
    """As `tenon run` takes them: by the numbers of the files, in the order of the model's inputs."""
    shown = subprocess.run([TENON, "show", model, "--json"], capture_output=True, text=True).stdout
    names = [each["name"] for each in json.loads(shown)["inputs"]]
    options = []
    for i, name in enumerate(names):
        path = os.path.join(folder, "test_data_set_0", f"input_{i}.pb")
        if os.path.exists(path):
            options += ["-i", f"{name}={path}"]
    return options


def answers(report, what, level, threads, model, inputs):
    out = os.path.join(scratch("isa"), what)
    shutil.rmtree(out, ignore_errors=True)
    done = run(level, "run", model, "-t", str(threads), "-o", out, *inputs)
    report.check(done.returncode == 0, f"{what} on {level}, {threads} threads", done.stdout[-500:] + done.stderr)
    return {name: open(os.path.join(out, name), "rb").read() for name in sorted(os.listdir(out))} if os.path.isdir(out) else {}


def check_model(report, folder):
    name, model = os.path.basename(folder), model_of(folder)
    inputs = recorded_inputs(folder, model)
    for level in LEVELS:
        done = run(level, "test", folder)
        if done.returncode != 0:  # deep models miss recorded answers by rounding alone, where products are rounded, too
            done = run(level, "test", folder, "--rtol", "4e-4")
            print(f"{name} on {level}: only to 4e-4")
        report.check(done.returncode == 0, f"{name} on {level}", done.stdout + done.stderr)
        if level == "reference":
            continue
        first = answers(report, name, level, THREADS[0], model, inputs)
        for threads in THREADS:
            same = answers(report, name, level, threads, model, inputs) == first
            report.check(first and same, f"{name} on {level}: the same bits on {threads} threads")


def main(arguments):
    report, whole = Report(), "--long" in arguments
    folders = [a for a in arguments if a != "--long"]
    if not folders:
        for group in ("generated", "quantised", "real"):
            parent = prepare(group)
            folders += sorted(entry.path for entry in os.scandir(parent) if entry.is_dir()) if parent else []
    for folder in folders:
        model = model_of(folder)
        if model and (whole or os.path.getsize(model) < SMALL):
            check_model(report, folder)
    report.exit()


if __name__ == "__main__":
    main(sys.argv[1:])
