#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/ops.md and the table of docs/geometry.md from what `tenon ops --json` says, and the tables of docs/passes.md from
`tenon passes`. With --check:
fails when a page is not up to date."""

import argparse
import json
import pathlib
import subprocess
import sys

HEAD = """# Ops

What the engine knows, made from the ops' own schemas by `tools/gen_docs.py`. Names and meanings are ONNX's, newest
opset; older versions are brought to it when a model is read. Kinds: *deformable* ops only move data and are lists of
regions; *host* ops are computed from shapes while planning; *atomic* ops have a kernel; *composite* ops are made of
others. Types are those of the first operand. What models bring as functions, and `Gradient` of
ai.onnx.preview.training, become these ops when a model is read; `src/formats/onnx/gradient_table.c` lists the ops that
have a derivative.

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


BEGIN = "<!-- made by tools/gen_docs.py from `tenon passes --json` -->\n"
BEGIN_KINDS = "<!-- made by tools/gen_docs.py from `tenon ops --json` -->\n"
END = "<!-- end -->\n"


def cell(text):
    return str(text).replace("|", "\\|")


def needs(p):
    """What a pass is bound to, in a cell."""
    parts = [(p["targets"], "for"), (p["excluded"], "not for"), (p["kernels"], "kernels"), (p["required"], "after")]
    return "; ".join(f"{word} {what}" for what, word in parts if what)


def pass_tables(passes, pipeline):
    lines = ["\n| pass | kind | phase | order | level | what it does | needs |\n|---|---|---|---|---|---|---|\n"]
    for p in passes:
        order = p["order"] if p["phase"] else ""
        what = f"{p['summary']}: `{p['pipeline']}`" if p["pipeline"] else p["summary"]
        level = p["level"] if p["phase"] else ""
        row = [f"`{p['name']}`", p["kind"], p["phase"], order, level, cell(what), cell(needs(p))]
        lines.append(f"| {' | '.join(map(str, row))} |\n")
    lines.append("\n| option | preset | what it is |\n|---|---|---|\n")
    for p in passes:
        for o in p["options"]:
            preset = f"`{o['preset']}`" if o["preset"] else "empty"
            lines.append(f"| `{p['name']}({o['name']}=...)` | {preset} | {cell(o['help'])} |\n")
    lines.append(f"\nThe default list:\n\n```\n{wrap(pipeline)}\n```\n\n")
    return "".join(lines)


def kinds_table(ops):
    """Ops by kind; those that are made of others with what they are made of."""
    names = {id(op): f"{op['domain']}.{op['name']}" if op["domain"] else op["name"] for op in ops}
    lines = []
    for kind in ("deformable", "composite"):
        found = [op for op in ops if op["kind"] == kind]
        lines.append(f"\n{len(found)} {kind} ops:\n\n| op | made of | ways |\n|---|---|---|\n")
        lines += [f"| {names[id(op)]} | {cell(op['lowering'])} | {op['ways']} |\n" for op in found]
    for kind in ("host", "atomic"):
        found = [names[id(op)] for op in ops if op["kind"] == kind]
        lines.append(f"\n{len(found)} {kind} ops: {', '.join(found)}.\n")
    return "".join(lines) + "\n"


def wrap(pipeline):
    """One line a phase, long ones broken behind a comma."""
    text = pipeline.strip().replace("},", "},\n")
    lines = []
    for line in text.split("\n"):
        while len(line) > 110:
            at = line.rindex(",", 0, 110) + 1
            lines.append(line[:at])
            line = "    " + line[at:]
        lines.append(line)
    return "\n".join(lines)


def with_tables(page, tables, begin=BEGIN):
    """The page with what stands between the marks replaced."""
    before, rest = page.split(begin)
    return before + begin + tables + END + rest.split(END, 1)[1]


def ask(tenon, *arguments):
    return subprocess.run([tenon, *arguments], check=True, capture_output=True, text=True).stdout


def pages(root, tenon):
    """What each page should hold."""
    ops = json.loads(ask(tenon, "ops", "--json"))
    ops = ops["ops"] if isinstance(ops, dict) else ops
    tables = pass_tables(json.loads(ask(tenon, "passes", "--json")), ask(tenon, "passes", "--pipeline"))
    passes = root / "docs" / "passes.md"
    geometry = root / "docs" / "geometry.md"
    return {root / "docs" / "ops.md": page(ops),
            geometry: with_tables(geometry.read_text(), kinds_table(ops), BEGIN_KINDS),
            passes: with_tables(passes.read_text(), tables)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenon", default="build/tenon")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    for path, text in pages(root, root / args.tenon).items():
        if not args.check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"docs/{path.name} is not up to date: run tools/gen_docs.py")


if __name__ == "__main__":
    main()
