# SPDX-License-Identifier: Apache-2.0
"""docs/passes.md keeps to the truth: its tables are what `tenon passes` says, the passes and rules that it names exist, and
each row on the passes of others names a test that exists, the work that is to come, or why it is not wanted."""
import glob
import json
import os
import re
import subprocess
import sys

from harness import ROOT, TENON, Report, tenon

COMING = {"rules", "devices", "geometry", "fast on the CPU", "fewer bits", "Paddle models"}
PATH = re.compile(r"`([\w./*-]+/[\w.*-]+\.(?:tn|test|case|c|py))`")


def rows(text):
    """(line number, cells) of the tables in a part of the page."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("|") and not set(line) <= set("|- "):
            yield number, [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def check_shown(report, where, shown):
    """The last column of a row."""
    if shown.startswith("coming: "):
        report.check(shown[8:] in COMING, f"{where}: \"{shown[8:]}\" is no work that is to come")
        return
    if shown.startswith("not wanted: "):
        report.check(len(shown) > 30, f"{where}: a reason is missing", shown)
        return
    paths = PATH.findall(shown)
    report.check(paths and PATH.sub("", shown).strip() == "", f"{where}: names no test", shown)
    for path in paths:
        report.check(glob.glob(os.path.join(ROOT, "tests", path)), f"{where}: tests/{path} does not exist")


def check_others(report, page):
    others = page.split("## Passes of others, and what does it here\n")[1]
    engines = re.split(r"^### ", others, flags=re.M)[1:]
    report.check([e.split("\n")[0] for e in engines] == ["Paddle Lite", "TensorFlow", "TVM", "MNN", "ONNX Runtime",
                                                         "onnxoptimizer, onnxsim"], "the engines")  # fmt: skip
    for engine in engines:
        name, n = engine.split("\n")[0], 0
        for number, cells in rows(engine):
            if cells[0] == "there":
                continue
            n += 1
            where = f"{name}, row {number}"
            if report.check(len(cells) == 3, f"{where}: {len(cells)} cells"):
                check_shown(report, where, cells[2])
        report.check(n >= 10, f"{name}: {n} rows")


def names_in_rules():
    text = "".join(open(path, encoding="utf-8").read() for path in glob.glob(os.path.join(ROOT, "src/rules/*.rules")))
    return set(re.findall(r"^rule (\w+)", text, re.M))


def main():
    report = Report()
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "gen_docs.py"), "--tenon", TENON, "--check"],
                          capture_output=True, text=True)  # fmt: skip
    report.check(done.returncode == 0, "the pages are up to date", done.stderr)
    with open(os.path.join(ROOT, "docs", "passes.md"), encoding="utf-8") as file:
        page = file.read()
    listed = tenon("passes", "--json")
    if not report.check(listed.returncode == 0, "tenon passes --json", listed.stderr):
        report.exit()
    passes = {p["name"]: p for p in json.loads(listed.stdout)}
    for name, p in passes.items():
        report.check(f"| `{name}` | {p['kind']} |" in page, f"{name} is not described")
        report.check(p["summary"] in page, f"{name}: another summary")
    others = page.split("## Passes of others, and what does it here\n")[1]
    rules = names_in_rules()
    for name in set(re.findall(r"`([a-z]+(?:[-_][a-z0-9]+)+)`", others)):
        known = name in passes or name in rules or name.startswith("tn_") or name == "post-partition"
        report.check(known, f"`{name}` is neither a pass nor a rule")
    check_others(report, page)
    report.exit()


if __name__ == "__main__":
    main()
