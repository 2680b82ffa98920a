#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sample of rules that were broken on purpose is refuted (tools/mutate_rules.py); test_rules_mutated_long.py takes all."""
import os
import subprocess
import sys

from harness import ROOT, TENON, sanitized

EVERY = 211 if sanitized() else 43
sys.exit(subprocess.run([sys.executable, os.path.join(ROOT, "tools", "mutate_rules.py"), "--tenon", TENON, "--every", str(EVERY)]).returncode)
