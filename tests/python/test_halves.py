# SPDX-License-Identifier: Apache-2.0
"""Models of 16-bit floats: computed as float32 between casts, by kernels for that, they answer what the reference kernels do
without any pass, up to the last bit of such a number. On odd sizes and with numbers that 16 bits cannot hold; with one thread
and two the answers are the same bits."""
import os
import subprocess

import numpy as np

from harness import TENON, Report, scratch
from tenonrt_env import enter

enter()

import tenonrt  # noqa: E402

CHAIN = """tn 1
graph @main(%x: {t}[b,{n}], %w: {t}[{n},{m}], %g: {t}[{m}], %c: bool[]) -> (%y, %z, %v, %i) {{
  %h = MatMul(%x, %w)
  %a = Add(%h, %g)
  %l = LayerNormalization(%a, %g) {{axis=-1}}
  %e = Gelu(%l)
  %y = Softmax(%e) {{axis=-1}}
  %k = Transpose(%e)
  %s = Sub(%k, %k)
  %q = Div(%k, %s)
  %z = Where(%c, %q, %k)
  %v = If(%c) {{then_branch = graph() -> (%p) {{
    %p = Mul(%a, %e)
  }}, else_branch = graph() -> (%o) {{
    %o = Tanh(%a)
  }}}}
  %i = Greater(%a, %e)
}}
"""
IMAGE = """tn 1
graph @main(%x: {t}[b,3,{n},{m}]) -> (%y) {{
  %k = Const {{data = {t}[2,3,1,1] [0.5, -1, 2, 0.25, 3, -0.125]}}
  %c = Conv(%x, %k)
  %r = HardSwish(%c)
  %p = MaxPool(%r) {{kernel_shape=[2,2]}}
  %y = ReduceMean(%p, [2,3]) {{keepdims=0}}
}}
"""


def narrow(array):
    with np.errstate(over="ignore"):
        return array.astype(np.float16)


def close(got, wanted):
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        near = np.abs(got - wanted) <= 2.0**-6 * np.maximum(np.abs(wanted), 0.05)
    return got.shape == wanted.shape and bool((same | near).all())


def check(report, name, text, feeds):
    path = os.path.join(scratch("halves"), name + ".tn")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    plain = tenonrt.InferenceSession(path, passes="").run(None, feeds)
    first = tenonrt.InferenceSession(path, threads=1).run(None, feeds)
    second = tenonrt.InferenceSession(path, threads=2).run(None, feeds)
    for k, (got, again, wanted) in enumerate(zip(first, second, plain)):
        report.check(close(got, wanted), f"{name}, result {k}: as without passes", (got, wanted))
        report.check(got.tobytes() == again.tobytes(), f"{name}, result {k}: the same bits on two threads")


def main():
    report, random = Report(), np.random.default_rng(5)
    for b, n, m in ((1, 1, 1), (3, 17, 33), (2, 64, 128), (0, 5, 7), (7, 300, 65)):
        for large in (1, 300):
            x, w, g = (narrow(large * random.standard_normal(s)) for s in ((b, n), (n, m), m))
            for c in (True, False):
                check(report, f"chain{b}x{n}x{m}x{large}", CHAIN.format(t="f16", n=n, m=m), {"x": x, "w": w, "g": g, "c": np.array(c)})
    for b, n, m in ((1, 5, 9), (2, 16, 31)):
        check(report, f"image{n}x{m}", IMAGE.format(t="f16", n=n, m=m), {"x": narrow(random.standard_normal((b, 3, n, m)))})
    for name, text in (("bf16_chain", CHAIN.format(t="bf16", n=17, m=33)), ("bf16_image", IMAGE.format(t="bf16", n=9, m=12))):
        path = os.path.join(scratch("halves"), name + ".tn")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([TENON, "check", path, "--shape", "b=3"], capture_output=True, text=True)
        report.check(done.returncode == 0, f"tenon check {name}", done.stdout + done.stderr)
    report.exit()


if __name__ == "__main__":
    main()
