# SPDX-License-Identifier: Apache-2.0
"""Random models of element-wise nodes, heavy nodes and what stands between them give the same bits before and after
fuse-loops, in any form in which they can be saved, and have the same nodes again after unfuse-loops.

    test_passes_fuse_loops.py [SEED [COUNT]]
"""
import collections
import os
import random
import re
import shutil
import sys

import numpy as np

from harness import Report, prepare, sanitized, scratch, tenon

FOLDER = scratch("passes_fuse_loops")
NODE = re.compile(r" = (tn\.Fused|[A-Z]\w*)\(")
MODELS = [("generated", "loop_grucell"), ("generated", "gpt_mini_kv"), ("quantised", "mobilenet_v1_s_qdq_u8s8")]

UNARY = ["Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Erf", "HardSwish", "Softplus", "Floor", "Elu", "Sqrt", "Exp"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min", "Div"]


class Maker:
    """Writes a model as text. A value has a name, an element type and sizes, which are numbers or names."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines, self.values, self.inputs, self.count = [], [], [], 0
        self.sizes = {"n": self.random.choice([0, 1, 2, 3]), "m": self.random.choice([1, 5, 17])}

    def choice(self, items):
        return self.random.choice(items)

    def maybe(self, p):
        return self.random.random() < p

    def name(self, prefix="v"):
        self.count += 1
        return f"{prefix}{self.count}"

    def input(self, sizes, dtype="f32"):
        name = self.name("x")
        self.inputs.append((name, dtype, sizes))
        self.values.append((name, dtype, sizes))

    def node(self, op, operands, sizes, dtype="f32", attributes="", declare=True):
        name = self.name()
        # A type is mostly left to inference.
        typed = f": {dtype}[{','.join(map(str, sizes))}]" if declare and self.maybe(0.2) else ""
        loc = f' loc "at {name}"' if self.maybe(0.3) else ""
        attributes = f" {{{attributes}}}" if attributes else ""
        self.lines.append(f"%{name}{typed} = {op}({', '.join(operands)}){attributes}{loc}")
        self.values.append((name, dtype, sizes))
        return name

    def floats(self, sizes):
        count = int(np.prod(sizes)) if sizes else 1
        data = [f"{self.random.uniform(-2, 2):.3f}" for _ in range(count)]
        return f"f32[{','.join(map(str, sizes))}] [{', '.join(data)}]" if sizes else f"f32 {data[0]}"

    def constant(self, sizes):
        name = self.name("c")
        self.lines.append(f"%{name} = Const {{data = {self.floats(sizes)}}}")
        return name

    def pick(self, dtype="f32", least=0):
        found = [v for v in self.values if v[1] == dtype and len(v[2]) >= least]
        if not found:
            return None
        return self.choice(found[-6:] if self.maybe(0.7) else found)

    def broadcast(self, sizes):
        """An operand that broadcasts to these sizes: a value, a constant along an axis or all of it, a scalar."""
        found = [
            v[0]
            for v in self.values
            if v[1] == "f32"
            and len(v[2]) <= len(sizes)
            and all(a in (1, b) for a, b in zip(reversed(v[2]), reversed(sizes)))
        ]
        if found and self.maybe(0.6):
            return "%" + self.choice(found)
        known = [k for k, d in enumerate(sizes) if isinstance(d, int)]
        if known and self.maybe(0.5):
            k = self.choice(known)
            return "%" + self.constant([sizes[k]] + [1] * (len(sizes) - k - 1))
        if self.maybe(0.3) and self.shared:
            return "%" + self.choice(self.shared)
        return self.floats([])

    # One node each

    def unary(self):
        v = self.pick()
        self.node(self.choice(UNARY), ["%" + v[0]], v[2])

    def binary(self):
        v = self.pick()
        operands = ["%" + v[0], self.broadcast(v[2])]
        op = self.choice(BINARY)
        if self.maybe(0.3):
            operands.reverse()
        self.node(op, operands, v[2])

    def clip(self):
        v = self.pick()
        self.node("Clip", ["%" + v[0], self.choice(["-1.5", "_"]), self.choice(["2.0", "_"])], v[2])

    def where(self):
        v = self.pick()
        mask = self.pick("bool")
        if not mask or mask[2] != v[2] or self.maybe(0.5):
            op = self.choice(["Greater", "LessOrEqual", "Equal"])
            mask = (self.node(op, ["%" + v[0], self.broadcast(v[2])], v[2], "bool"),)
        self.node("Where", ["%" + mask[0], "%" + v[0], self.broadcast(v[2])], v[2])

    def cast(self):
        v = self.pick()
        code, dtype = self.choice([(10, "f16"), (6, "i32"), (11, "f64")])
        middle = self.node("Cast", ["%" + v[0]], v[2], dtype, f"to={code}")
        if dtype != "i32":
            middle = self.node("Tanh", ["%" + middle], v[2], dtype)
        self.node("Cast", ["%" + middle], v[2], "f32", "to=1")

    def quantize(self):
        v = self.pick()
        q = self.node("QuantizeLinear", ["%" + v[0], "f32 0.05", "u8 128"], v[2], "u8")
        self.node("DequantizeLinear", ["%" + q, "f32 0.05", "u8 128"], v[2])

    def prelu(self):
        v = self.pick(least=2)
        if v and isinstance(v[2][-1], int):
            self.node("PRelu", ["%" + v[0], "%" + self.constant([v[2][-1]])], v[2])

    def matmul(self):
        v = self.pick(least=2)
        if v and isinstance(v[2][-1], int):
            n = self.choice([v[2][-1], 7, 96])
            self.node("MatMul", ["%" + v[0], "%" + self.constant([v[2][-1], n])], v[2][:-1] + [n])

    def conv(self):
        v = self.pick(least=4)
        if not v or len(v[2]) != 4 or not isinstance(v[2][1], int):
            return
        n = self.choice([v[2][1], 3])
        operands = ["%" + v[0], "%" + self.constant([n, v[2][1], 3, 3])]
        if self.maybe(0.5):
            operands.append("%" + self.constant([n]))
        self.node("Conv", operands, [v[2][0], n, *v[2][2:]], attributes="pads=[1,1,1,1]")

    def normalise(self):
        v = self.pick(least=2)
        if not v or not isinstance(v[2][-1], int):
            return
        if self.maybe(0.5):
            self.node("Softmax", ["%" + v[0]], v[2], attributes="axis=-1")
        else:
            n = [v[2][-1]]
            self.node("LayerNormalization", ["%" + v[0], "%" + self.constant(n), "%" + self.constant(n)], v[2])

    def batch_norm(self):
        v = self.pick(least=3)
        if not v or not isinstance(v[2][1], int):
            return
        n = [v[2][1]]
        variance = self.name("c")
        self.lines.append(f"%{variance} = Const {{data = f32[{n[0]}] [{', '.join(['0.5'] * n[0])}]}}")
        operands = [v[0], self.constant(n), self.constant(n), self.constant(n), variance]
        self.node("BatchNormalization", ["%" + o for o in operands], v[2])

    def reduce(self):
        v = self.pick(least=2)
        if not v:
            return
        axis = self.random.randrange(len(v[2]))
        kept = self.maybe(0.6)
        sizes = v[2][:axis] + [1] * kept + v[2][axis + 1 :]
        self.node(self.choice(["ReduceMean", "ReduceMax", "ReduceSum"]), ["%" + v[0], f"i64[1] [{axis}]"], sizes,
                  attributes=f"keepdims={int(kept)}")  # fmt: skip

    def pool(self):
        v = self.pick(least=4)
        if v and len(v[2]) == 4:
            self.node("AveragePool", ["%" + v[0]], v[2], attributes="kernel_shape=[3,3], pads=[1,1,1,1]")

    def move(self):
        v = self.pick(least=1)
        if not v:
            return
        if self.maybe(0.5) or len(v[2]) < 2:
            other = self.node("CumSum", ["%" + v[0], "0"], v[2])
            self.node("Identity", ["%" + other], v[2])
        else:
            perm = list(range(len(v[2])))
            self.random.shuffle(perm)
            self.node("Transpose", ["%" + v[0]], [v[2][k] for k in perm], attributes=f"perm={perm}")

    def sizes_of(self):
        """Sizes computed from a shape, and a value that gets them."""
        v = self.pick(least=1)
        if not v:
            return
        shape = self.name("s")
        self.lines.append(f"%{shape} = Shape(%{v[0]})")
        self.lines.append(f"%{shape}a = Mul(%{shape}, 2)")
        self.lines.append(f"%{shape}b = Add(%{shape}a, -1)")
        self.lines.append(f"%{shape}c = Max(%{shape}b, 1)")
        self.lines.append(f"%{shape}d = Div(%{shape}c, 100000)")
        self.lines.append(f"%{shape}e = Add(%{shape}d, %{shape})")
        self.node("Reshape", ["%" + v[0], f"%{shape}e"], v[2], attributes="allowzero=1")

    def branch(self):
        v, w = self.pick(), self.pick()
        inner = self.name()
        body = f"%{inner} = Mul(%{v[0]}, {self.broadcast(v[2])})"
        if self.maybe(0.6):
            body = f"%{inner}a = Sigmoid(%{v[0]}) %{inner}b = Mul(%{v[0]}, %{inner}a) %{inner} = Add(%{inner}b, 0.5)"
        name = self.name()
        self.lines.append(
            f"%{name} = If(%yes) {{then_branch = graph() -> (%{inner}) {{ {body} }}, else_branch = graph() -> (%{w[0]}) {{}}}}"
        )
        if v[2] == w[2]:
            self.values.append((name, "f32", v[2]))
        else:
            self.extra.append(name)

    def loop(self):
        v, w = self.pick(), self.pick()
        name = self.name()
        self.lines.append(
            f"%{name} = Loop(3, _, %{v[0]}) {{body = graph(%{name}i: i64[], %{name}c: bool[], %{name}v: f32) -> "
            f"(%{name}c, %{name}z) {{ %{name}r = Relu(%{name}v) %{name}m = Mul(%{name}r, 0.5) "
            f"%{name}z = Add(%{name}m, {self.broadcast(v[2])}) }}}}".replace("v: f32)", "v)")
        )
        self.values.append((name, "f32", v[2]))

    def model(self, size):
        """(text, inputs)"""
        self.extra = []
        for sizes in self.choice([
            [["n", 4, 6, 6], ["n", 4, 1, 1], [4, 1, 1]],
            [["n", "m", 16], ["m", 16], [16], ["n", 1, 1]],
            [["n", 80], [1, 80], ["n", 1]],
            [["n", 3, "m", 5], [1, 3, 1, 1]],
        ]):  # fmt: skip
            self.input(sizes)
        self.shared = [self.constant([]) for _ in range(2)]
        steps = [
            (self.unary, 10), (self.binary, 12), (self.clip, 2), (self.where, 3), (self.cast, 2), (self.quantize, 1), (self.prelu, 1),
            (self.matmul, 2), (self.conv, 4), (self.normalise, 2), (self.batch_norm, 1), (self.reduce, 2), (self.pool, 1),
            (self.move, 3), (self.sizes_of, 1), (self.branch, 1), (self.loop, 1),
        ]  # fmt: skip
        for _ in range(size):
            self.random.choices([s for s, _ in steps], [w for _, w in steps])[0]()
        made = [v[0] for v in self.values[len(self.inputs) :]] + self.extra
        outputs = {made[-1], *self.random.sample(made, min(len(made), self.choice([1, 2, 4])))}
        inputs = ", ".join(f"%{name}: {dtype}[{','.join(map(str, sizes))}]" for name, dtype, sizes in self.inputs)
        text = f"tn 1\ngraph @main({inputs}, %yes: bool[]) -> ({', '.join('%' + o for o in sorted(outputs))}) {{\n"
        text += "\n".join("  " + line for line in self.lines) + "\n}\n"
        numbers = np.random.default_rng(self.count)
        feeds = {"yes": np.array(self.maybe(0.5))}
        for name, _, sizes in self.inputs:
            dims = [self.sizes.get(d, d) for d in sizes]
            feeds[name] = numbers.standard_normal(dims).astype(np.float32)
        return text, feeds


def run(model, inputs, pipeline):
    """(outputs by name, what went wrong), on the reference kernels, which add up in the same order whatever is fused."""
    out, after = os.path.join(FOLDER, "out"), os.path.join(FOLDER, "after.tn")
    shutil.rmtree(out, ignore_errors=True)
    if pipeline:
        done = tenon("opt", model, "--passes", pipeline, "-o", after)
        if done.returncode != 0:
            return None, done.stderr
        model = after
    done = tenon("run", model, *inputs, "-o", out, "-t", "1", "--passes", "", "--place", "reference")
    if done.returncode != 0:
        return None, done.stderr
    return {name[:-4]: np.load(os.path.join(out, name)) for name in os.listdir(out)}, ""


def compare(report, what, expected, model, inputs, pipeline):
    found, why = run(model, inputs, pipeline)
    if not report.check(found is not None, what, why):
        return
    report.check(set(expected) == set(found), f"{what}: outputs", f"{sorted(expected)} {sorted(found)}")
    for name in set(expected) & set(found):
        a, b = expected[name], found[name]
        same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        report.check(same, f"{what}: output {name}", f"{a.dtype}{a.shape} {b.dtype}{b.shape}\n{a}\n{b}")


def nodes(report, model, pipeline):
    """How often each op stands in the model after a pipeline, nested graphs included."""
    done = tenon("opt", model, "--passes", pipeline, "--verify", "--text")
    report.check(done.returncode == 0, f"{model} through {pipeline}", done.stderr)
    return collections.Counter(NODE.findall(done.stdout))


def try_seed(report, seed, size):
    """How many groups there are; None where the model cannot be run."""
    text, feeds = Maker(seed).model(size)
    model, fused, onnx = (os.path.join(FOLDER, f"{seed}{end}") for end in (".tn", ".fused.tn", ".onnx"))
    with open(model, "w", encoding="utf-8") as file:
        file.write(text)
    inputs = []
    for name, array in feeds.items():
        path = os.path.join(FOLDER, f"{name}.npy")
        np.save(path, array)
        inputs += ["-i", f"{name}={path}"]
    expected, why = run(model, inputs, "infer-shapes")
    if not report.check(expected is not None, f"{model} runs", why):
        return None
    wrong = report.wrong
    plain, after, again = (nodes(report, model, f"infer-shapes{more}") for more in ("", ",fuse-loops(any=true)", ",fuse-loops(any=true),unfuse-loops"))
    groups = after.pop("tn.Fused", 0)
    report.check(plain == after == again, f"{model}: nodes", f"{plain}\n{after}\n{again}")
    compare(report, f"{model} fused", expected, model, inputs, "infer-shapes,fuse-loops(any=true)")
    compare(report, f"{model} fused twice, with clean-up", expected, model, inputs,
            "infer-shapes,fuse-loops(max_nodes=3,any=true),share-constants,share-subexpressions,fuse-loops(any=true),remove-dead,infer-shapes")  # fmt: skip
    compare(report, f"{model} taken apart", expected, model, inputs, "infer-shapes,fuse-loops(any=true),unfuse-loops")
    for saved in (fused, onnx):
        done = tenon("opt", model, "--passes", "fuse-loops(any=true)", "-o", saved)
        if report.check(done.returncode == 0, f"{saved} is saved", done.stderr):
            compare(report, f"{saved} read again", expected, saved, inputs, "infer-shapes")
    if report.wrong == wrong:
        for path in (model, fused, onnx):
            os.remove(path)
    return groups


def try_model(report, group, name):
    folder = prepare(group)
    done = tenon("test", os.path.join(folder, name), "--add", "fuse-loops(any=true)") if folder else None
    if done:
        report.check(done.returncode == 0, f"{name} with fuse-loops(any=true)", done.stdout + done.stderr)
        done = tenon("test", os.path.join(folder, name), "--passes", "pre-placement,fuse-loops(any=true)")
        report.check(done.returncode == 0, f"{name} with the default list and fuse-loops(any=true)", done.stdout + done.stderr)


def main():
    report = Report()
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10 if sanitized() else 50
    groups = [try_seed(report, seed + i, 4 + (seed + i) % 37) for i in range(count)]
    report.check(sum(g or 0 for g in groups) > count, "few groups were made", groups)
    for group, name in MODELS if len(sys.argv) < 2 else []:
        try_model(report, group, name)
    report.exit()


if __name__ == "__main__":
    main()
