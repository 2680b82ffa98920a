#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The audit finds what it is there to find: each case spoils a good tree in one way and says what must be reported."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"

GOOD = {
    "include/tenon/types.h": SPDX + "#include <stdint.h>\n",
    "include/tenon/driver.h": SPDX + "#include <tenon/types.h>\n",
    "src/base/base.h": SPDX + "#include <tenon/types.h>\n",
    "src/base/alloc.c": SPDX + '#include "base/base.h"\n#include <stdlib.h>\nvoid *get(void) { return malloc(1); }\n',
    "src/base/threads.c": SPDX + "#include <pthreadpool.h>\n",
    "src/ir/ir.h": SPDX + '#include "base/base.h"\n',
    "src/ir/verify.c": SPDX + '#include "ir/ir.h"\n#include "ops/ops.def"\n',
    "src/geom/geom.h": SPDX + '#include "base/base.h"\n',
    "src/ops/op.h": SPDX + '#include "ir/ir.h"\n#include "geom/geom.h"\n',
    "src/ops/op_int.h": SPDX + '#include "ops/op.h"\n',
    "src/ops/ops.def": SPDX + "OP(Abs)\nOP(Neg)\nOP(Transpose)\n",
    "src/ops/transpose.c": SPDX + '#include "ops/op_int.h"\nconst OpSchema op_Transpose = {1};\n',
    "src/ops/unary.c": SPDX + "#define UNARY(n) const OpSchema op_##n = {0};\nUNARY(Abs)\nUNARY(Neg)\n",
    "src/kernel/kernel.h": SPDX + '#include "ir/ir.h"\n',
    "src/kernel/kernels.def": SPDX + "KERNEL(matmul_f32)\n",
    "src/backends/backends.def": SPDX + "BACKEND(cpu)\n",
    "src/backends/cpu/helper.c": SPDX,
    "src/backends/cpu/cpu.c": SPDX + '#include <tenon/driver.h>\n#include "kernel/kernel.h"\n#include "ops/op.h"\n',
    "src/backends/cpu/kernels/matmul_f32.c": SPDX + "const KernelDesc kernel_matmul_f32 = {0};\n" * 2000,
    "src/formats/formats.def": SPDX + "FORMAT(onnx)\n",
    "src/formats/common/common.h": SPDX + '#include "ir/ir.h"\n',
    "src/formats/onnx/onnx.c": SPDX + '#include "formats/common/common.h"\n#include "formats/onnx/onnx.pb.h"\n',
    "src/session/session.c": SPDX + '#include "kernel/kernel.h"\n#include <tenon/driver.h>\n',
    "cli/cli.h": SPDX,
    "cli/main.c": SPDX + '#include "cli.h"\n#include <tenon/types.h>\n#include <popt.h>\n',
    "tests/unit/test_ops.c": SPDX + '#include "ops/op_int.h"\n',
    "tests/ops/unary.case": "",
    "tests/ops/transpose.case": "",
    "docs/ops.md": "## Abs\n## Neg\n## Transpose\n",
}

LONG_FUNCTION = "int f(void) {\n" + "    g();\n" * 130 + "}\n"

# What is spoilt: (file, its new text or None to remove it, what the audit must say).
CASES = [
    ("src/geom/a.c", SPDX + '\n#include "ir/ir.h"\n', "src/geom/a.c:3: geom may not include ir/ir.h"),
    ("src/ir/a.c", SPDX + '#include "ops/op.h"\n', "src/ir/a.c:2: ir may not include ops/op.h"),
    ("src/ops/a.c", SPDX + "#include <tenon/driver.h>\n", "src/ops/a.c:2: ops may not include <tenon/driver.h>"),
    ("src/eval/a.c", SPDX + '#include "ops/op_int.h"\n', "src/eval/a.c:2: ops/op_int.h is private to ops"),
    ("src/session/a.c", SPDX + '#include "ops/op_int.h"\n', "src/session/a.c:2: ops/op_int.h is private to ops"),
    ("src/formats/onnx/a.c", SPDX + '#include "formats/npy/npy.h"\n', "formats/onnx may not include formats/npy/npy.h"),
    ("src/backends/cpu/a.c", SPDX + '#include "ir/ir.h"\n', "backends/cpu may not include ir/ir.h"),
    ("src/base/other.h", SPDX, "src/base/other.h:1: base's one header is base/base.h"),
    ("src/base/a.c", SPDX + "#include <pthreadpool.h>\n", "pthreadpool is for one file only"),
    ("src/ir/b.c", SPDX + "#include <pb.h>\n", "src/ir/b.c:2: <pb.h> is for formats only"),
    ("src/novel/a.c", SPDX, "src/novel/a.c:1: the folder novel is not in the audit's table"),
    ("cli/a.c", SPDX + '#include "../src/ir/ir.h"\n', 'cli/a.c:2: includes "../src/ir/ir.h"'),
    ("examples/a.c", SPDX + '#include "ir/ir.h"\n', 'examples/a.c:2: includes "ir/ir.h"'),
    ("src/ops/ops.def", SPDX + "OP(Abs)\nOP(Neg)\nOP(Tan)\nOP(Transpose)\n", "ops.def:4: OP(Tan): no file"),
    ("src/ops/ops.def", SPDX + "OP(Abs)\nOP(Transpose)\n", "src/ops/unary.c:1: defines op_Neg, which has no row"),
    ("tests/ops/unary.case", None, "src/ops/unary.c:1: has no test tests/ops/unary.case"),
    ("docs/ops.md", "Abs Transpose\n", "docs/ops.md:1: has no entry for Neg"),
    ("src/kernel/kernels.def", SPDX, "src/backends/cpu/kernels/matmul_f32.c:1: no row KERNEL(matmul_f32)"),
    ("src/formats/formats.def", SPDX + "FORMAT(npy)\nFORMAT(onnx)\n", "formats.def:2: FORMAT(npy) has no"),
    ("src/passes/fold_constants.c", SPDX, "src/passes/fold_constants.c:1: no row PASS(fold_constants)"),
    ("src/ir/c.c", SPDX + "void f(void *p) {\n    free(p);\n}\n", "src/ir/c.c:3: calls free"),
    ("src/base/b.c", SPDX + "void f(void) { abort(); }\n", "src/base/b.c:2: calls abort"),
    ("src/base/c.c", SPDX + "#define DIE() exit(1)\n", "src/base/c.c:2: calls exit"),
    ("src/base/d.c", SPDX + LONG_FUNCTION, "src/base/d.c:2: f has 132 lines"),
    ("src/base/e.c", SPDX + "int x;\n" * 1000, "src/base/e.c:1001: has 1001 lines"),
    ("src/base/f.c", "int x;\n", "src/base/f.c:1: must begin with /* SPDX"),
]

# Not offences, though they look like one.
INNOCENT = SPDX + (
    '/* malloc(1) */\n// free(x)\nconst char *s = "abort()";\n'
    "__attribute__((format(printf, 1, 2))) void log_it(const char *format, ...);\n"
    "void f(Pool *p) { p->free(p->data); p->table.free(0); my_free(p); }\n"
    "struct Table { void (*free)(void *); };\n" + "#define LONG \\\n" + "    x; \\\n" * 200 + "    y\n"
)


def audit(tree):
    with tempfile.TemporaryDirectory() as root:
        for name, text in tree.items():
            if text is not None:
                path = Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        command = [sys.executable, str(ROOT / "tools/audit.py"), "--root", root]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class AuditTest(unittest.TestCase):
    def test_good_tree(self):
        status, output = audit(GOOD)
        self.assertEqual(status, 0, output)
        self.assertIn("audit: no offence", output)

    def test_innocent(self):
        status, output = audit({**GOOD, "src/base/innocent.c": INNOCENT})
        self.assertEqual(status, 0, output)

    def test_offences(self):
        for file, text, message in CASES:
            with self.subTest(message):
                status, output = audit({**GOOD, file: text})
                self.assertIn(message, output)
                self.assertEqual(status, 1)

    def test_budget(self):
        big = {f"src/ir/big{i}.c": SPDX + "int x;\n" * 999 for i in range(6)}
        status, output = audit({**GOOD, **big})
        self.assertIn("base + ir has 60", output)
        self.assertEqual(status, 1)
        status, output = audit({**GOOD, **big, "docs/decisions.md": "## Budget: base + ir\nBecause.\n"})
        self.assertEqual(status, 0, output)


if __name__ == "__main__":
    unittest.main()
