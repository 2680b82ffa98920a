# SPDX-License-Identifier: Apache-2.0
"""The models with recorded answers on the smallest backend: what is composite is taken apart, and answers stay."""
import os

from harness import ROOT, Report, prepare
from pass_matrix import check_folders, models_in

report = Report()
groups = {group: models_in(group) for group in ("real", "generated", "quantised")}
for folders in groups.values():
    check_folders(report, "place minimal", folders, "--place", "minimal")
backend = prepare("backend")
suites = [entry.path for entry in os.scandir(backend) if entry.is_dir()] if backend else []
with open(os.path.join(ROOT, "tests", "data", "onnx_backend_expected_failures.txt"), encoding="utf-8") as file:
    wrong_anyway = set(file.read().split("\n"))
for suite in sorted(suites):
    tests = [entry.path for entry in os.scandir(suite) if entry.is_dir()
             and f"{os.path.basename(suite)}/{entry.name}" not in wrong_anyway]  # fmt: skip
    check_folders(report, "place minimal", sorted(tests), "--place", "minimal")
report.exit(missing=not all(groups.values()) or not backend)
