# SPDX-License-Identifier: Apache-2.0
"""Rules alone, rule files alone and all rules on small models and all cases; test_rules_models_long.py takes all models."""
import os

from harness import Report, prepare
from pass_matrix import models_in
from rule_matrix import check_rules

SMALL = {"generated": ["bilstm_tagger", "dcgan_gen", "gpt_mini_kv", "loop_grucell"]}
EXPECTED = {"drop_zero_term", "fold_batchnorm_into_conv_transpose", "layer_norm"}


def main():
    report = Report()
    models = [os.path.join(prepare(group), name) for group, names in SMALL.items() for name in names]
    fired = check_rules(report, models_in("cases") + models)
    report.check(fired >= EXPECTED, "rules fire in these models", EXPECTED - fired)
    report.exit()


if __name__ == "__main__":
    main()
