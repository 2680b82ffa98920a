# SPDX-License-Identifier: Apache-2.0
"""All models and cases answer the same with no passes, each pass alone, the default list and ten random pipelines."""
from harness import Report
from pass_matrix import check_answers, check_blame, models_in


def main():
    report = Report()
    models = [folder for group in ("real", "generated", "quantised") for folder in models_in(group)]
    check_answers(report, models_in("cases") + models, n_random=10)
    check_blame(report, models)
    report.exit()


if __name__ == "__main__":
    main()
