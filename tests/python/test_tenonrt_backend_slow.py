# SPDX-License-Identifier: Apache-2.0
"""The ONNX project's own runner over tenonrt.backend, beside run_node, devices and feeds of other forms."""
import os
import unittest
import warnings

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import onnx.backend.test  # noqa: E402
import tenonrt.backend as backend  # noqa: E402
from harness import ROOT  # noqa: E402
from onnx import helper  # noqa: E402

LIST = os.path.join(ROOT, "tests", "data", "onnx_backend_expected_failures.txt")
# Random numbers are not those of the reference, some ask for more than their own rounding gives, and the runner itself
# fails at sequences with a scalar in them (loop16_seq_none).
MAY_DIFFER = "bernoulli|training_dropout|attention_4d_causal_fp16_expanded|dft_inverse|loop16_seq_none"
# Big models, which the command's test runs (test_onnx_backend_slow.py).
LEFT_OUT = "test_(bvlc_alexnet|densenet121|inception_v[12]|resnet50|shufflenet|squeezenet|vgg19|zfnet512)_"


def expected_failures():
    with open(LIST, encoding="utf-8") as file:
        names = [line.strip().rsplit("/", 1)[-1] for line in file if line.strip() and not line.startswith("#")]
    return set(names)


def add_backend_tests():
    warnings.simplefilter("ignore", RuntimeWarning)  # overflows are what some of the tests are about
    test = onnx.backend.test.BackendTest(backend, __name__)
    test.exclude(LEFT_OUT).exclude(MAY_DIFFER)
    for name in expected_failures():
        test.exclude(f"^{name}_(cpu|cuda)$")
    globals().update(test.test_cases)


class Interface(unittest.TestCase):
    def test_run_node(self):
        node = helper.make_node("Gemm", ["a", "b", ""], ["y"], alpha=2.0)
        a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
        (y,) = backend.run_node(node, [a, b])
        np.testing.assert_array_equal(y, np.full((2, 2), 6, np.float32))
        (y,) = backend.run_node(node, {"a": a, "b": b}, outputs_info=[(np.float32, (2, 2))])
        self.assertEqual(y.dtype, np.float32)

    def test_devices(self):
        self.assertTrue(backend.supports_device("CPU"))
        self.assertFalse(backend.supports_device("CUDA"))

    def test_feeds(self):
        model = tenonrt_env.onnx_model([helper.make_node("Neg", ["x"], ["y"])], [("x", np.float32, [2])], [("y", np.float32, [2])])
        x, rep = np.ones(2, np.float32), backend.prepare(model)
        for feed in (x, [x], {"x": x}):
            np.testing.assert_array_equal(rep.run(feed).y, -x)
        np.testing.assert_array_equal(backend.run_model(model, [x])["y"], -x)
        self.assertTrue(backend.is_compatible(model))
        model.graph.node[0].op_type = "Nothing"
        self.assertFalse(backend.is_compatible(model))


add_backend_tests()

if __name__ == "__main__":
    unittest.main()
