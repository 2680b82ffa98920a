# SPDX-License-Identifier: Apache-2.0
"""Every op has one of four kinds, and what is not atomic runs without a kernel of its own, and each way that it has: a few
random instances of each.
test_lowering_long.py has many, test_lowering_slow.py the models."""
from harness import Report
from lowering import EACH_WAY, SMALLEST, check_instances, ops_by_kind
from op_random import (attention, axes, contrib, contrib_attention, elementwise, images, losses, moves, products,
                       quantized, recurrent, windows)  # noqa: F401  # fmt: skip

report = Report()
kinds = ops_by_kind(report)
print(", ".join(f"{len(names)} {kind}" for kind, names in sorted(kinds.items())))
for kind in ("deformable", "composite"):
    check_instances(report, kind, kinds[kind], 6, 11, [SMALLEST, *EACH_WAY])
report.exit()
