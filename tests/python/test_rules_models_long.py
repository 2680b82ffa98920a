# SPDX-License-Identifier: Apache-2.0
"""Wherever a rule fires in a model, a case or a test of ONNX's own, the answers stay the same: with that rule alone, with each
rule file alone, with all of them at each level; and `tenon check` finds nothing to blame."""
import os

from harness import Report, prepare
from pass_matrix import check_blame, models_in
from rule_matrix import check_rules


def backend_tests():
    folder = prepare("backend")
    found = (path for path, _, files in os.walk(folder) if "model.onnx" in files) if folder else ()
    return sorted(path for path in found if os.sep + "node" + os.sep in path)


def main():
    report = Report()
    models = [folder for group in ("real", "generated", "quantised") for folder in models_in(group)]
    check_rules(report, models_in("cases") + models)
    check_rules(report, backend_tests())
    check_blame(report, models)
    report.exit()


if __name__ == "__main__":
    main()
