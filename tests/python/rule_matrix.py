# SPDX-License-Identifier: Apache-2.0
"""Models with their recorded answers under rules: each rule alone where it fires, each rule file alone, all at each level."""
import collections
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

from harness import tenon
from pass_matrix import check_folders

BEFORE = "infer-shapes,fold-constants,simplify-shapes,canonicalize,remove-identities"
LEVELS = range(4)


def model_of(folder):
    names = ("model.onnx", "model.tn")
    return next((os.path.join(folder, n) for n in names if os.path.exists(os.path.join(folder, n))), None)


class Rules:
    """What there is, and the lists of passes that try it. A rule is alone on the graph as it is read, or on what the other
    files' rules leave."""

    def __init__(self, report):
        done = tenon("rules", "--json")
        report.check(done.returncode == 0, "tenon rules --json", done.stderr)
        self.all = [r for r in json.loads(done.stdout) if r["level"] in LEVELS]  # beyond: lowering, by a pass of its own
        self.files = sorted({r["set"] for r in self.all})
        report.check(self.files, "there are rules")

    def starts(self, file):
        others = [f"apply-rules(set={f})" for f in self.files if f != file]
        return BEFORE, ",".join([BEFORE, *others, "fold-constants,remove-dead"])


def applied(start, options):
    return f"{start},apply-rules({options},level=3),remove-dead"


def ops_after(folder, passes):
    """None when the model cannot be read, as that of a test that is to fail."""
    done = tenon("opt", model_of(folder), "--passes", passes, "--text")
    return set(re.findall(r"= ([A-Za-z_][\w.]*)\(", done.stdout)) if done.returncode == 0 else None


def could_fire(rule, ops):
    """Whether each node of the left side could be there. Classes of ops, such as unary, could."""
    left = re.search(r"\bmatch\b(.*?)\n  (?:where|write)\b", rule["text"], re.S).group(1)
    for line in re.findall(r"=\s*((?:\$\w+\[[^\]]*\]|[\w.|]+))\s*\(", left):
        names = re.findall(r"[A-Za-z_][\w.]*", line.split("[")[-1])
        if not ops & set(names) and not {"unary", "binary", "elementwise"} & set(names):
            return False
    return True


def fires(rule, folder, passes):
    done = tenon("opt", model_of(folder), "--passes", passes, "--json")
    found = json.loads(done.stdout)["passes"] if done.returncode == 0 else []
    return any(p["counts"].get(rule["name"]) for p in found if p["pass"] == "apply-rules")


def place(rules, folder):
    """[(rule's name, list of passes)]: where each fires that does, alone."""
    found, ops = [], {}
    for rule in rules.all:
        for start in rules.starts(rule["set"]):
            if start not in ops:
                ops[start] = ops_after(folder, start)
            passes = applied(start, f"rule={rule['name']}")
            if ops[start] and could_fire(rule, ops[start]) and fires(rule, folder, passes):
                found.append((rule["name"], passes))
                break
    return found


def places(rules, folders):
    """{(rule's name, list of passes): folders}."""
    where = collections.defaultdict(list)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for folder, found in zip(folders, pool.map(lambda f: place(rules, f), folders)):
            for key in found:
                where[key].append(folder)
    return where


def check_rules(report, folders):
    """The names of rules that fired somewhere."""
    rules = Rules(report)
    folders = [f for f in folders if model_of(f)]
    where = places(rules, folders)
    for (name, passes), found in where.items():
        check_folders(report, f"{name} alone", found, "--passes", passes)
    several = sorted({f for found in where.values() for f in found})
    for file in rules.files:
        check_folders(report, f"the rules of {file}", several, "--passes", applied(BEFORE, f"set={file}"))
    for level in LEVELS:
        check_folders(report, f"level {level}", several, "-O", str(level))
    fired = {name for name, _ in where}
    print(f"{len(fired)} of {len(rules.all)} rules fired in {len(several)} of {len(folders)} folders", flush=True)
    return fired
