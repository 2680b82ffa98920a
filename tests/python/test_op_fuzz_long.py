# SPDX-License-Identifier: Apache-2.0
"""Many more random nodes of every op than `make test` has time for (unit/test_op_fuzz), made out of random instances too."""
import os
import subprocess
import sys

from harness import BUILD, ROOT, scratch

if __name__ == "__main__":
    times = "3"  # its own folder of rows
    made = subprocess.call([sys.executable, os.path.join(ROOT, "tests", "python", "test_op_random.py"), "--times", times])
    fuzz = [os.path.join(BUILD, "tests", "unit", "test_op_fuzz"), "--times", "5000", "--seed", "1000000"]
    sys.exit(subprocess.call([*fuzz, "--rows", scratch(f"op_random_{times}")], cwd=ROOT) or made)
