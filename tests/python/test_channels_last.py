# SPDX-License-Identifier: Apache-2.0
"""Random networks of convolutions, pools, element-wise nodes, and joins, splits, slices and shuffles along channels: kernels
that lay results channels last, into their places in what is joined later, and pixels of whole parts of pages a line apart,
answer as the reference kernels do.

    test_channels_last.py [SEED [COUNT]]
"""
import os
import random
import shutil
import sys

import numpy as np

from harness import Report, sanitized, scratch, tenon

FOLDER = scratch("channels_last")
UNARY = ("Relu", "HardSwish", "Sigmoid", "Neg", "Abs")


class Net:
    """Values are (name, channels), all of one image size; a few sizes come by pools and strides."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.size = (self.random.choice([1, 2, 5, 8]), self.random.choice([1, 3, 7, 9]))
        self.batch = self.random.choice([1, 1, 2])
        self.wide = self.random.random() < 0.3  # pixels are parts of pages
        self.inputs, self.lines, self.values = [], [], []
        for _ in range(self.random.choice([1, 2])):
            self.input()
        for _ in range(self.random.randint(4, 16)):
            self.random.choice([self.conv, self.conv, self.unary, self.binary, self.pool, self.concat, self.concat, self.split,
                                self.slice, self.shuffle, self.resize])()  # fmt: skip

    def weights(self, *shape):
        name = f"w{len(self.inputs)}"
        self.inputs.append(f"%{name}: f32[{','.join(map(str, shape))}]")
        return f"%{name}"

    def input(self):
        channels = self.random.choice([16, 128, 256] if self.wide else [1, 3, 4, 16, 17])
        name = f"x{len(self.inputs)}"
        self.inputs.append(f"%{name}: f32[{self.batch},{channels},{self.size[0]},{self.size[1]}]")
        self.values.append((name, channels))

    def pick(self):
        """Mostly what came last, so that chains become deep."""
        return self.random.choice(self.values[-3:] if self.random.random() < 0.7 else self.values)

    def add(self, channels, text):
        name = f"v{len(self.lines)}"
        self.lines.append(f"%{name} = {text}")
        self.values.append((name, channels))

    def conv(self):
        x, channels = self.pick()
        kernel = self.random.choice([1, 1, 3])
        group = channels if self.random.random() < (0.5 if self.wide else 0.3) else 1
        to = channels if group > 1 else self.random.choice([16, 128, 128, 256] if self.wide else [1, 4, 8, 16, 20])
        pad = kernel // 2
        w = self.weights(to, channels // group, kernel, kernel)
        bias = f", {self.weights(to)}" if self.random.random() < 0.5 else ""
        self.add(to, f"Conv(%{x}, {w}{bias}) {{pads=[{pad},{pad},{pad},{pad}], group={group}}}")

    def unary(self):
        x, channels = self.pick()
        self.add(channels, f"{self.random.choice(UNARY)}(%{x})")

    def binary(self):
        x, channels = self.pick()
        others = [name for name, c in self.values if c in (channels, 1)]
        self.add(channels, f"{self.random.choice(['Add', 'Mul', 'Sub'])}(%{x}, %{self.random.choice(others)})")

    def pool(self):
        x, channels = self.pick()
        op = self.random.choice(["MaxPool", "AveragePool"])
        self.add(channels, f"{op}(%{x}) {{kernel_shape=[3,3], pads=[1,1,1,1]}}")

    def concat(self):
        parts = [self.pick() for _ in range(self.random.randint(2, 4))]
        self.add(sum(c for _, c in parts), f"Concat({', '.join('%' + n for n, _ in parts)}) {{axis=1}}")

    def split(self):
        x, channels = self.pick()
        if channels % 2:
            return
        name = f"v{len(self.lines)}"
        self.lines.append(f"%{name}, %{name}b = Split(%{x}) {{axis=1, num_outputs=2}}")
        self.values += [(name, channels // 2), (name + "b", channels // 2)]

    def slice(self):
        x, channels = self.pick()
        start = self.random.randrange(channels)
        end = self.random.randint(start + 1, channels)
        self.add(end - start, f"Slice(%{x}, i64[1] [{start}], i64[1] [{end}], i64[1] [1])")

    def shuffle(self):
        x, channels = self.pick()
        if channels % 4:
            return
        n, (h, w) = self.batch, self.size
        k = len(self.lines)
        self.lines.append(f"%r{k} = Reshape(%{x}, i64[5] [{n},4,{channels // 4},{h},{w}])")
        self.lines.append(f"%s{k} = Transpose(%r{k}) {{perm=[0,2,1,3,4]}}")
        self.add(channels, f"Reshape(%s{k}, i64[4] [{n},{channels},{h},{w}])")

    def resize(self):
        x, channels = self.pick()
        k, sizes = len(self.lines), f"i64[4] [{self.batch},{channels},{self.size[0]},{self.size[1]}]"
        self.lines.append(f"%h{k} = MaxPool(%{x}) {{kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]}}")
        mode = self.random.choice(["nearest", "linear"])
        where = self.random.choice(["asymmetric", "half_pixel", "align_corners"])
        self.add(channels, f'Resize(%h{k}, _, _, {sizes}) {{mode="{mode}", coordinate_transformation_mode="{where}"}}')

    def text(self):
        inner = [name for name, _ in self.values if name.startswith("v")]
        outputs = dict.fromkeys(inner[-1:] + self.random.sample(inner, min(len(inner), self.random.choice([0, 0, 1, 2]))))
        ends = ", ".join("%" + name for name in outputs) or "%y"
        last = [] if outputs else [f"%y = Neg(%{self.values[0][0]})"]
        return f"tn 1\ngraph @g({', '.join(self.inputs)}) -> ({ends}) {{\n  " + "\n  ".join(self.lines + last) + "\n}\n"


def answers(report, path, seed, what, *options):
    out = os.path.join(FOLDER, "out")
    shutil.rmtree(out, ignore_errors=True)
    done = tenon("run", path, "--seed", str(seed), "-o", out, *options)
    report.check(done.returncode == 0, f"seed {seed} {what}", done.stdout[-300:] + done.stderr)
    return {name: np.load(os.path.join(out, name)) for name in sorted(os.listdir(out))} if os.path.isdir(out) else {}


def main():
    report = Report()
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 40 if sanitized() else 300
    path = os.path.join(FOLDER, "net.tn")
    for seed in range(first, first + count):
        with open(path, "w", encoding="utf-8") as file:
            file.write(Net(seed).text())
        want = answers(report, path, seed, "on the reference kernels", "--place", "reference")
        for options in (("-t", "1"), ("-t", "2", "-O0")):
            got = answers(report, path, seed, "on the processor's", *options)
            for name, y in want.items():
                scale = np.max(np.abs(y), initial=1e-6)
                near = name in got and got[name].shape == y.shape and np.max(np.abs(got[name] - y), initial=0) <= 2e-5 * scale
                report.check(near, f"seed {seed} {' '.join(options)}: {name}")
    report.exit()


if __name__ == "__main__":
    main()
