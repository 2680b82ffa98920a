# SPDX-License-Identifier: Apache-2.0
"""Many more random nodes of every op than `make test` has time for (unit/test_op_fuzz)."""
import os
import subprocess
import sys

from harness import BUILD, ROOT

if __name__ == "__main__":
    sys.exit(subprocess.call([os.path.join(BUILD, "tests", "unit", "test_op_fuzz"), "--times", "5000", "--seed", "1000000"], cwd=ROOT))
