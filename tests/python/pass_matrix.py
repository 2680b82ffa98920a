# SPDX-License-Identifier: Apache-2.0
"""Models with their recorded answers under pipelines: none, each pass alone, the default list, random ones."""
import json
import os
import random

from harness import Report, prepare, run_folders, tenon

SEED = 5
AT_ONCE = 200  # folders of one command
RTOL = "4e-4"  # of an output's scale


def pass_names(report):
    done = tenon("passes", "--json")
    report.check(done.returncode == 0, "tenon passes --json", done.stderr)
    return sorted(p["name"] for p in json.loads(done.stdout) if p["phase"] != "post-partition" and p["kind"] != "debug")


def random_pipelines(names, n):
    rng = random.Random(SEED)
    lists = []
    for _ in range(n):
        items = [rng.choice(names) for _ in range(rng.randint(2, 10))]
        inner = ",".join(rng.choice(names) for _ in range(2))
        items.insert(rng.randrange(len(items)), f"repeat(max=2){{{inner}}}")
        lists.append(",".join(items))
    return lists


def pipelines(report, n_random):
    names = pass_names(report)
    yield "-O0", ["-O", "0"]
    yield "default", []
    yield "-O3", ["-O", "3"]
    for name in names:
        yield f"{name} alone", ["--passes", name]
    for text in random_pipelines(names, n_random):
        yield text, ["--passes", text]


def check_folders(report, what, folders, *options):
    """Where the recorded answers are not met, a few times the usual rounding is let through, and told: some answers of deep
    models are close to that as they are."""
    for k in range(0, len(folders), AT_ONCE):
        tests = run_folders(*folders[k : k + AT_ONCE], *options)
        failed = [test["folder"] for test in tests if test["outcome"] not in ("passed", "skipped")]
        again = run_folders(*failed, *options, "--rtol", RTOL) if failed else []
        good = {test["folder"] for test in tests} - {test["folder"] for test in again if test["outcome"] != "passed"}
        for test in tests:
            report.check(test["folder"] in good, f"{test['folder']} with {what}", test.get("reason"))
        for folder in failed:
            if folder in good:
                print(f"only to {RTOL}: {folder} with {what}", flush=True)


def check_answers(report, folders, n_random):
    for name, options in pipelines(report, n_random):
        check_folders(report, name, folders, *options)


def check_blame(report, folders):
    """`tenon check` finds nothing to blame."""
    for folder in folders:
        done = tenon("check", folder, "--json")
        report.check(done.returncode == 0, f"tenon check {os.path.basename(folder)}", done.stdout + done.stderr)


def models_in(group):
    folder = prepare(group)
    return sorted(entry.path for entry in os.scandir(folder) if entry.is_dir()) if folder else []
