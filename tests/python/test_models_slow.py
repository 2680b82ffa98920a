# SPDX-License-Identifier: Apache-2.0
"""Every test model against recorded answers, and through text and back."""
import os

from harness import Report, prepare, run_folders, scratch
from round_trip import round_trip


def main():
    report = Report()
    groups = [prepare(group) for group in ("real", "generated", "quantised")]
    folders = [folder for folder in groups if folder]
    for test in run_folders(*folders):
        report.check(test["outcome"] == "passed", test["folder"], test.get("reason"))
    for group in folders:
        for name in sorted(os.listdir(group)):
            round_trip(report, name, os.path.join(group, name), os.path.join(scratch("models_slow"), name))
    report.exit(missing=None in groups)


if __name__ == "__main__":
    main()
