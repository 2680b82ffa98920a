# SPDX-License-Identifier: Apache-2.0
"""How bench/simplify.py counts nodes: of Tenon's text, and of ops that are several."""
import importlib.util
import os

from harness import ROOT, Report, scratch, tenon

TEXT = """tn 1
graph @g(%x: f32[2,3], %w: f32[3,3], %c: bool[]) -> (%y, %z, %v) {
  %k = Const {data = f32[3] [1.0, 2.0, 3.0]}
  %m = MatMul(%x, %w)
  %a = Add(%m, %k)
  %y = Relu(%a)
  %n = Neg(%x)
  %o = Exp(%n)
  %z = Cos(%o)
  %v = If(%c) {then_branch = graph() -> (%t) {
    %t = Abs(%x)
  }, else_branch = graph() -> (%e) {
    %e0 = Sin(%x)
    %e = Neg(%e0)
  }} loc "a = Not(an op) {"
}
"""


def load():
    spec = importlib.util.spec_from_file_location("simplify", os.path.join(ROOT, "bench", "simplify.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    report, simplify = Report(), load()
    path = os.path.join(scratch("simplify"), "model.tn")
    with open(path, "w", encoding="utf-8") as file:
        file.write(TEXT)
    plain = simplify.count_text(tenon("opt", path, "--passes", "", "--text").stdout)
    report.check(plain.nodes == 10, "constants do not count, nested graphs do", plain.ops)
    report.check(plain.ops.get("Neg") == 2 and "Not" not in plain.ops, "each op", plain.ops)
    fused = simplify.count_text(tenon("opt", path, "--passes", "infer-shapes,fuse-loops(any=true)", "--text").stdout)
    report.check(fused.ops.get("tn.Fused", 0) >= 1, "there are fused nodes", fused.ops)
    report.check(fused.nodes < plain.nodes, "which count less than their parts", fused.nodes)
    report.check(simplify.of_parts(1, 0) == 1 and simplify.of_parts(1, 1) == 2, "a heavy op counts one, others one in all")
    report.check(simplify.of_parts(0, 16) == 1 and simplify.of_parts(2, 17) == 4, "or one for each sixteen, begun")
    report.check(simplify.weight("com.microsoft.FusedConv") == 2 and simplify.weight("Conv") == 1, "of others' ops, too")
    report.exit()


if __name__ == "__main__":
    main()
