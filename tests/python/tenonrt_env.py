# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: the package of the build under test, small models."""
import os
import sys
import unittest

from harness import BUILD, ROOT, SKIPPED

PACKAGE = os.path.join(BUILD, "python")
PRELOAD = os.environ.get("TENON_PRELOAD")


def environment():
    """For a process that imports tenonrt: where it lies, and the sanitizer's runtime where the build has one."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [PACKAGE, os.environ.get("PYTHONPATH")])))
    if PRELOAD:
        # Python itself leaves memory behind at its end; with malloc the sanitizer sees each of its objects.
        env.update(LD_PRELOAD=PRELOAD, PYTHONMALLOC="malloc")
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return env


def thread_sanitizer():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return any(line.startswith("TENON_SANITIZE") and line.rstrip().endswith("=thread") for line in file)


def enter():
    """Call before importing tenonrt: leaves with 77 where it is not built, begins anew under the sanitizer's runtime."""
    if thread_sanitizer():
        print("SKIPPED: the thread sanitizer cannot be loaded into Python")
        sys.exit(SKIPPED)
    if not os.path.exists(os.path.join(PACKAGE, "tenonrt", "_tenon.abi3.so")):
        print("SKIPPED: the Python package is not built (no Python headers?)")
        sys.exit(SKIPPED)
    if PRELOAD and os.environ.get("LD_PRELOAD") != PRELOAD:
        os.execve(sys.executable, [sys.executable, *sys.argv], environment())
    sys.path.insert(0, PACKAGE)


def real_model(*parts):
    """The path of a prepared model, or the test is skipped: the pretrained ones need a download."""
    path = os.path.join(ROOT, "build", "models", *parts)
    if not os.path.exists(path):
        raise unittest.SkipTest(f"{os.path.join(*parts)} is not there (tools/prepare_test_models.py)")
    return path


def onnx_model(nodes, inputs, outputs, initializers=(), opset=21, **fields):
    """Inputs and outputs as (name, dtype, shape)."""
    import numpy as np
    from onnx import helper, numpy_helper

    def info(name, dtype, shape):
        code = dtype if isinstance(dtype, int) else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, code, shape)

    graph = helper.make_graph(
        list(nodes),
        fields.pop("graph_name", "g"),
        [info(*item) for item in inputs],
        [info(*item) for item in outputs],
        [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    for name, value in fields.items():
        setattr(model, name, value)
    return model
