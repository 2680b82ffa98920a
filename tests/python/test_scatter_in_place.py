# SPDX-License-Identifier: Apache-2.0
"""Scatters whose data are made in the graph and read by nobody else, so that the result takes their memory: also where indices
or updates are that same memory."""
import os

import numpy as np

from harness import Report, scratch
from tenonrt_env import enter

enter()

import tenonrt  # noqa: E402

TEXT = """tn 1
graph @scatters(%x: {type}[n], %i: i64[m], %u: {type}[m]) -> (%y) {{
  %d = Neg(%x)
  {node}
}}
"""
ROWS = [  # what stands in the graph; the same in numpy, on d, i and u
    ("f32", "%y = ScatterElements(%d, %i, %u)", lambda d, i, u: put(d, i, u)),
    ("f32", '%y = ScatterElements(%d, %i, %u) {reduction="add"}', lambda d, i, u: put(d, i, d[i] + u)),
    ("f32", "%y = ScatterElements(%d, %i, %d)", lambda d, i, u: put(d, i, d)),
    ("f32", '%y = ScatterElements(%d, %i, %d) {reduction="max"}', lambda d, i, u: put(d, i, np.maximum(d[i], d))),
    ("i64", "%y = ScatterElements(%d, %d, %d)", lambda d, i, u: put(d, d, d)),
    ("i64", '%y = ScatterElements(%d, %d, %u) {reduction="mul"}', lambda d, i, u: put(d, d, d[d] * u)),
    ("f32", "%k = Unsqueeze(%i, [1]) %y = ScatterND(%d, %k, %u)", lambda d, i, u: put(d, i, u)),
    ("f32", "%k = Unsqueeze(%i, [1]) %y = ScatterND(%d, %k, %d)", lambda d, i, u: put(d, i, d)),
]


def put(d, i, values):
    d = d.copy()
    d[i] = values
    return d


def main():
    report, random = Report(), np.random.default_rng(3)
    path = os.path.join(scratch("scatter_in_place"), "model.tn")
    for kind, node, expected in ROWS:
        with open(path, "w", encoding="utf-8") as file:
            file.write(TEXT.format(type=kind, node=node.replace("} %", "}\n  %").replace(") %", ")\n  %")))
        for n in (1, 7, 700):
            order = random.permutation(n)
            x = -order if kind == "i64" else random.standard_normal(n).astype(np.float32)
            u = random.integers(-9, 9, n).astype(x.dtype)
            got = tenonrt.InferenceSession(path).run(None, {"x": x, "i": order, "u": u})[0]
            report.check(np.array_equal(got, expected(-x, order, u)), f"{node}, {n} elements", got)
    report.exit()


if __name__ == "__main__":
    main()
