#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All rules, broken in all ways that tools/mutate_rules.py knows: at least 98 % are refuted."""
import os
import subprocess
import sys

from harness import ROOT, SKIPPED, TENON, sanitized

if sanitized():
    sys.exit(SKIPPED)
sys.exit(subprocess.run([sys.executable, os.path.join(ROOT, "tools", "mutate_rules.py"), "--tenon", TENON]).returncode)
