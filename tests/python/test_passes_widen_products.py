# SPDX-License-Identifier: Apache-2.0
"""Random products of 8-bit integers by constants give the same numbers with widen-products as without: with zero points of every
kind, sizes known and not, few and many terms, up to where f32 holds no sum of so many, and factors at the ends of their types.

    test_passes_widen_products.py [SEED [COUNT]]
"""
import random
import sys

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt  # noqa: E402
from harness import Report  # noqa: E402

OPS = ["MatMulInteger", "com.microsoft.MatMulIntegerToFloat", "com.microsoft.DynamicQuantizeMatMul", "QLinearMatMul",
       "com.microsoft.QGemm"]  # fmt: skip


class Product:
    """One op by itself, and what it is given."""

    def __init__(self, seed):
        self.r, self.n = random.Random(seed), np.random.default_rng(seed)
        r = self.r
        self.op = OPS[seed % len(OPS)]
        self.x_type, self.w_type = r.choice([np.uint8, np.int8]), r.choice([np.uint8, np.int8])
        self.rows, self.terms, self.columns = r.choice([1, 2, 5, 17]), r.choice([1, 3, 40, 300, 515, 520, 1100]), r.choice([1, 4, 33])
        self.model = tenonrt.Model.new()
        self.feeds = {}
        x = self.given("x", self.array(self.x_type, self.rows, self.terms), ["n", self.terms])
        w = self.model.graph.constant(self.array(self.w_type, self.terms, self.columns))
        self.model.graph.output(self.node(x, w), "y")

    def array(self, dtype, *shape):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        if self.r.random() < 0.3:  # the largest sums
            return np.full(shape, self.r.choice([low, high]), dtype)
        return self.n.integers(low, high + 1, shape).astype(dtype)

    def given(self, name, values, shape):
        self.feeds[name] = values
        return self.model.graph.input(name, values.dtype, shape)

    def zero(self, name, dtype, columns=0):
        shape = (columns,) if columns and self.r.random() < 0.5 else ()
        values = self.array(dtype, *shape)
        if shape and self.r.random() < 0.5:
            values[...] = values[0]
        if name and self.r.random() < 0.3:
            return self.given(name, np.asarray(values), list(shape))
        return self.model.graph.constant(values)

    def scale(self, columns=0):
        shape = (columns,) if columns and self.r.random() < 0.5 else ()
        return self.model.graph.constant(self.n.uniform(0.001, 0.1, shape).astype(np.float32))

    def node(self, x, w):
        g, r, n = self.model.graph, self.r, self.columns
        x_zero, w_zero = self.zero("xz", self.x_type), self.zero("wz", self.w_type, n)
        if self.op == "MatMulInteger":
            return g.op(self.op, [x, w, r.choice([x_zero, None]), r.choice([w_zero, None])])
        if self.op.endswith("ToFloat"):
            bias = r.choice([None, g.constant(self.n.standard_normal(n).astype(np.float32))])
            return g.op(self.op, [x, w, self.scale(), self.scale(n), x_zero, w_zero, bias])
        if self.op.endswith("DynamicQuantizeMatMul"):
            f = self.given("f", self.n.standard_normal((self.rows, self.terms)).astype(np.float32), ["n", self.terms])
            self.feeds.pop("x")
            self.unused = x
            return g.op(self.op, [f, w, self.scale(n), w_zero])
        y_zero = self.zero(None, self.x_type)
        if self.op == "QLinearMatMul":
            return g.op(self.op, [x, self.scale(), x_zero, w, self.scale(n), w_zero, self.scale(), y_zero])
        bias = r.choice([None, g.constant(self.n.integers(-(1 << r.choice([10, 22])), 1 << 10, n).astype(np.int32))])
        return g.op(self.op, [x, self.scale(), x_zero, w, self.scale(n), w_zero, bias, self.scale(), y_zero], alpha=1.0)


def try_seed(report, seed):
    p = Product(seed)
    if "x" not in p.feeds:
        p.feeds["x"] = p.array(p.x_type, p.rows, p.terms)
    what = f"seed {seed}: {p.op} of {p.terms} terms"
    with_it, without = (tenonrt.InferenceSession(p.model, disabled_optimizers=off) for off in ([], ["widen-products"]))
    found, want = (s.run(None, p.feeds)[0] for s in (with_it, without))
    report.check(found.dtype == want.dtype and np.array_equal(found, want), what, f"{found.ravel()[:8]} {want.ravel()[:8]}")
    text = str(p.model.optimize())
    return p.op, "= MatMul(" in text


def main():
    seed, count = (int(a) for a in (sys.argv[1:] + ["1", "300"][len(sys.argv) - 1 :])[:2])
    report = Report()
    widened = {op: [0, 0] for op in OPS}
    for k in range(seed, seed + count):
        op, done = try_seed(report, k)
        widened[op][done] += 1
    for op, (stayed, done) in widened.items():
        report.check(count < 100 or (stayed and done), f"{op} is widened at times", f"{done} were, {stayed} were not")
    report.exit()


if __name__ == "__main__":
    main()
