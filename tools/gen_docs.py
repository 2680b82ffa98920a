#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/ops.md from what `tenon ops --json` says. With --check: fails when the page is not up to date."""

import argparse
import json
import pathlib
import subprocess
import sys

HEAD = """# Ops

What the engine knows, made from the ops' own schemas by `tools/gen_docs.py`. Names and meanings are ONNX's, newest
opset; older versions are brought to it when a model is read. Kinds: *deformable* ops only move data and are lists of
regions; *host* ops are computed from shapes while planning; *atomic* ops have a kernel; *composite* ops are made of
others. Types are those of the first operand.

"""


def page(ops):
    lines = [HEAD]
    domain = None
    for op in ops:
        if op["domain"] != domain:
            domain = op["domain"]
            lines.append(f"\n## {domain or 'ONNX'}\n\n| op | kind | what it is | types | runs as |\n|---|---|---|---|---|\n")
        summary = op["summary"].replace("|", "\\|")
        lines.append(f"| {op['name']} | {op['kind']} | {summary} | {op['types']} | {op['kernels']} |\n")
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenon", default="build/tenon")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    out = subprocess.run([root / args.tenon, "ops", "--json"], check=True, capture_output=True, text=True).stdout
    ops = json.loads(out)
    text = page(ops["ops"] if isinstance(ops, dict) else ops)
    path = root / "docs" / "ops.md"
    if args.check:
        if not path.exists() or path.read_text() != text:
            sys.exit("docs/ops.md is not up to date: run tools/gen_docs.py")
        return
    path.write_text(text)


if __name__ == "__main__":
    main()
