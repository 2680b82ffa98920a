# SPDX-License-Identifier: Apache-2.0
"""Small models and all cases answer the same whatever passes run; test_passes_models_long.py takes all models."""
import os

from harness import Report, prepare
from pass_matrix import check_answers, check_blame

SMALL = {
    "generated": ["bilstm_tagger", "dcgan_gen", "loop_grucell", "gpt_mini_kv"],
    "quantised": ["bilstm_dynamic_s8"],
}


def main():
    report = Report()
    models = [os.path.join(prepare(group), name) for group, names in SMALL.items() for name in names]
    check_answers(report, [prepare("cases"), *models], n_random=4)
    check_blame(report, models)
    report.exit()


if __name__ == "__main__":
    main()
