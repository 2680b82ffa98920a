# SPDX-License-Identifier: Apache-2.0
"""Every test model against recorded answers, and through text and back."""
import os
import sys

from harness import SKIPPED, Report, prepare, run_folders, scratch
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
    if None in groups and not report.wrong:
        print(f"{report.checked} checks, none wrong, but the pretrained models are missing")
        sys.exit(SKIPPED)
    report.exit()


if __name__ == "__main__":
    main()
