#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tenon against other engines: installs them in build/bench-venv, then measures.
#     bench/run.sh [ARGUMENT...]        bench/peers.py; where no argument names a model, those of bench/make_models.py, which are
#                                       made, and the real and generated ones of the tests
#     bench/run.sh ops [ARGUMENT...]    bench/ops.py
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/bench-venv
wanted=$(sha256sum bench/requirements.txt | cut -d' ' -f1)
if [ "$(cat "$venv/.requirements" 2>/dev/null)" != "$wanted" ]; then
    echo "bench: installing the engines in $venv" >&2
    /usr/bin/python3 -m venv --clear "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check -q install -r bench/requirements.txt
    echo "$wanted" >"$venv/.requirements"
fi

export PYTHONPATH=build/python
if [ "${1:-}" = ops ]; then
    shift
    exec "$venv/bin/python" bench/ops.py "$@"
fi

for argument in "$@"; do
    if [ -e "$argument" ]; then exec "$venv/bin/python" bench/peers.py "$@"; fi
done
"$venv/bin/python" bench/make_models.py
"$venv/bin/python" tools/prepare_test_models.py real generated
exec "$venv/bin/python" bench/peers.py build/bench-models build/models/real build/models/generated "$@"
