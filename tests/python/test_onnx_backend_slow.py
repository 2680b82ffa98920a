# SPDX-License-Identifier: Apache-2.0
"""The ONNX project's backend tests. Those in onnx_backend_expected_failures.txt may fail, all others must pass.

    test_onnx_backend_slow.py [--update]     writes that file anew
"""
import collections
import os
import re
import sys

from harness import ROOT, Report, prepare, run_folders

LIST = os.path.join(ROOT, "tests", "data", "onnx_backend_expected_failures.txt")
HEADER = """\
# Backend tests of ONNX that fail, by reason. Written by tests/python/test_onnx_backend_slow.py --update; a test that
# passes now is reported there and is to be removed.
"""


def read_list():
    with open(LIST, encoding="utf-8") as file:
        return {line.strip() for line in file if line.strip() and not line.startswith("#")}


def reason_of(test):
    reason = test.get("reason", "").split("\n")[0]
    unknown = re.search(r"ops that Tenon does not know: (.*)", reason)
    if unknown:
        return "no " + ", ".join(re.findall(r"([\w.]+) \(\d+, first", unknown.group(1)))
    return re.sub(r'^\w+: (\S*/model.onnx: )?(node "[^"]*" )?', "", reason)


def write_list(failed):
    by_reason = collections.defaultdict(list)
    for name, test in failed.items():
        by_reason[reason_of(test)].append(name)
    with open(LIST, "w", encoding="utf-8") as file:
        file.write(HEADER)
        for reason, names in sorted(by_reason.items()):
            file.write(f"\n# {reason}\n" + "".join(f"{name}\n" for name in sorted(names)))


def main():
    folder, report = prepare("backend"), Report()
    tests = {os.path.relpath(test["folder"], folder): test for test in run_folders(folder)}
    failed = {name: test for name, test in tests.items() if test["outcome"] == "failed"}
    if sys.argv[1:] == ["--update"]:
        write_list(failed)
    expected = read_list()
    for name, test in sorted(tests.items()):
        if name in expected and name not in failed:
            print(f"passes now, to be removed from {os.path.basename(LIST)}: {name}")
        report.check(name not in failed or name in expected, name, test.get("reason"))
    report.check(len(tests) > 2000, "all tests were found", f"only {len(tests)} tests")
    report.check(expected <= set(tests), "the list names tests that are there", sorted(expected - set(tests)))
    print(f"{len(tests)} backend tests: {len(tests) - len(failed)} pass, {len(failed)} fail, {len(expected)} may")
    report.exit()


if __name__ == "__main__":
    main()
