#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the PP-OCRv4 models, reads the pictures given (or those beside this script) and draws the lines of text that
# were found into build/demo/.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${TENON_BUILD:-$root/build}
models=$root/build/models/ppocrv4

python=$root/.venv/bin/python
[ -x "$python" ] || python=python3
"$python" "$root/tools/fetch_models.py" ppocrv4

[ $# -gt 0 ] || set -- "$root"/examples/ocr/pictures/*.png
mkdir -p "$root/build/demo"
for picture in "$@"; do
    name=$(basename "$picture")
    drawn=$root/build/demo/${name%.*}.png
    printf '\n%s\n' "$name"
    "$build/examples/ocr" "$models/det.onnx" "$models/rec.onnx" "$picture" "$drawn"
    printf 'drawn in %s\n' "${drawn#"$root"/}"
done
