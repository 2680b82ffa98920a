# SPDX-License-Identifier: Apache-2.0
"""500 random instances of each deformable op, on the smallest backend and with all kernels, and 200 of each composite op on
the smallest one. One run with other seeds: test_lowering_long.py SEED."""
import sys

from harness import Report
from lowering import EACH_WAY, SMALLEST, check_instances, ops_by_kind
from op_random import (attention, axes, contrib, contrib_attention, elementwise, images, losses, moves, products,
                       quantized, recurrent, sequences, windows)  # noqa: F401  # fmt: skip

report = Report()
kinds = ops_by_kind(report)
seed = int(sys.argv[1]) if len(sys.argv) > 1 else 12
check_instances(report, "deformable", kinds["deformable"], 500, seed, [SMALLEST, []])
check_instances(report, "composite", kinds["composite"], 200, seed, [SMALLEST, *EACH_WAY])
report.exit()
