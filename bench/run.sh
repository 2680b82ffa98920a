#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times the prepared models (tools/prepare_test_models.py) and prints a table. Arguments go to bench/models.py.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
[ -d build/models ] || .venv/bin/python tools/prepare_test_models.py
exec .venv/bin/python bench/models.py "$@"
