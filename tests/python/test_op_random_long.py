# SPDX-License-Identifier: Apache-2.0
"""Many more random instances of ops than `make test` has time for; onnxruntime answers those of com.microsoft and
ai.onnx.ml too, where build/peers has it or can get it."""
import os
import subprocess
import sys

from harness import ROOT, sanitized

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(ROOT, "tools"))
MANY = ["--times", "20", "--seed", "1"]


def run(python, test, *options):
    return subprocess.run([python, os.path.join(HERE, test), *MANY, *options]).returncode == 0


def ask_onnxruntime():
    """The answers do not depend on the build: one that is quick asks."""
    import onnx_status

    if sanitized():
        return True
    try:
        python = onnx_status.install()
    except SystemExit:
        print("SKIPPED: onnxruntime cannot be installed")
        return True
    return run(python, "test_op_random.py", "--peer")


def main():
    good = [run(sys.executable, "test_op_random.py"), run(sys.executable, "test_op_random_graphs.py"), ask_onnxruntime()]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
