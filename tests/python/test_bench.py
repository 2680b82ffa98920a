# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks are made of: the models are valid and run, the ops are what they say, ratios are right."""
import math
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import networks  # noqa: E402
import ops  # noqa: E402
import peers  # noqa: E402

LARGE = 1e7  # bytes; the graph of an op is the same with smaller weights


class Models(unittest.TestCase):
    def test_small_networks_run(self):
        with tempfile.TemporaryDirectory() as folder:
            made = [sys.executable, os.path.join(ROOT, "bench", "make_models.py"), "--small", "--into", folder]
            subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(sorted(os.listdir(folder)), sorted(networks.SMALL))
            for name in networks.SMALL:
                path = os.path.join(folder, name, "model.onnx")
                onnx.checker.check_model(path)
                run = [os.path.join(BUILD, "tenon"), "bench", path, "--repeat=1", "--warmup=0", *self.arguments(name, path)]
                done = subprocess.run(run, capture_output=True, text=True)
                self.assertEqual((name, done.returncode, done.stderr), (name, 0, ""))

    @staticmethod
    def arguments(name, path):
        """All open sizes, and indices in range: ones."""
        inputs = onnx.load(path).graph.input
        sizes = {"N": 1, "S": 1, **networks.SIZES.get(name, {})}
        declared = {d.dim_param for i in inputs for d in i.type.tensor_type.shape.dim}
        whole = [i.name for i in inputs if i.type.tensor_type.elem_type == onnx.TensorProto.INT64]
        return [f"--shape={k}={v}" for k, v in sizes.items() if k in declared] + [f"--input={n}=1" for n in whole]

    def test_a_model_is_made_once_and_the_same(self):
        first, second = networks.SMALL["mobilenet_v2"](), networks.SMALL["mobilenet_v2"]()
        self.assertEqual(first.SerializeToString(deterministic=True), second.SerializeToString(deterministic=True))

    def test_unknown_names(self):
        made = [sys.executable, os.path.join(ROOT, "bench", "make_models.py"), "resnet19"]
        done = subprocess.run(made, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no model resnet19", done.stderr)


class Ops(unittest.TestCase):
    def test_shapes(self):
        self.assertEqual(len({op.name for op in ops.OPS}), len(ops.OPS))
        for op in ops.OPS:
            if op.read() > LARGE:
                continue
            model = onnx.load_from_string(op.model())
            del model.graph.output[0].type.tensor_type.shape.dim[:]
            model.graph.output[0].type.tensor_type.ClearField("shape")
            shape = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output[0].type.tensor_type.shape
            self.assertEqual((op.name, tuple(d.dim_value for d in shape.dim)), (op.name, tuple(op.output)))

    def test_work(self):
        gemm, conv = ops.matmul(3, 5, 7), ops.conv(8, 9, 16, 3, 2)
        self.assertEqual((gemm.flops, gemm.read(), gemm.written()), (2 * 3 * 5 * 7, 4 * (3 * 7 + 7 * 5), 4 * 3 * 5))
        self.assertEqual(conv.output, (1, 16, 5, 5))
        self.assertEqual(conv.flops, 2 * 16 * 25 * 8 * 9)
        self.assertEqual(ops.conv(8, 9, 8, 3, 1, 8).flops, 2 * 8 * 81 * 9)

    def test_limit(self):
        peak = {"flops": 2e6, "read": 2**20, "copy": 2**19}  # so writing a byte takes three times what reading one takes
        row = {"flops": 9, "padding": 1, "read": 1, "written": 1, "peak": peak, "op_us": 8.0, "least_us": 6.0, "ort_us": 3.0}
        row = ops.add_limit(row)
        self.assertEqual((row["limit_us"], row["bound"], row["of_limit"], row["ratio"]), (4.0, "fma", 0.5, 2.0))
        row = ops.add_limit({**row, "flops": 0, "ort_us": None})
        self.assertAlmostEqual(row["limit_us"], 4e6 / 2**20)
        self.assertEqual((row["bound"], row["ratio"]), ("mem", None))


class Peers(unittest.TestCase):
    def test_ratios(self):
        rows = [self.row(name, value) for name, value in (("ort", 4.0), ("mnn", 2.0), ("tenon", 1.0), ("openvino", 1.0), ("fast", 0.5))]
        rows[3]["error"] = "cannot"
        rows[4]["diff"] = 0.5  # no peer: its answers are wrong
        peers.add_ratios(rows)
        self.assertEqual([row.get("median_ms_x") for row in rows], [2.0, 0.5, 0.5, None, 0.25])
        self.assertEqual([row.get("median_ms_of_ort") for row in rows], [None, 0.5, 0.25, None, 0.125])

    @staticmethod
    def row(engine, value, model="m"):
        return {"model": model, "threads": 2, "engine": engine, "diff": 0.0, **{key: value for key in peers.MEASURES}}

    def test_summary(self):
        rows = []
        for model, (ours, theirs) in {"a": (1.0, 1.0), "b": (4.0, 1.0)}.items():
            pair = [self.row("tenon", ours, model), self.row("ort", theirs, model)]
            peers.add_ratios(pair)
            rows += pair
        (line,) = (s for s in peers.summarise(rows) if (s["engine"], s["what"], s["against"]) == ("tenon", "median", "the best"))
        self.assertEqual((line["models"], line["worst"], line["worst_model"]), (2, 4.0, "b"))
        self.assertTrue(math.isclose(line["mean"], 2.0))

    def test_comparison(self):
        one = np.array([1.0, np.inf, -4.0])
        self.assertEqual(peers.compare([one], [one]), {"diff": 0.0, "same_integers": True})
        self.assertEqual(peers.compare([np.array([1.0, np.inf, -3.0])], [one])["diff"], 0.25)
        for wrong in ([1.0, 2.0, -4.0], [1.0, np.nan, -4.0], [np.nan, np.inf, -4.0], [1.0, np.inf]):
            self.assertEqual(peers.compare([np.array(wrong)], [one])["diff"], math.inf)
        self.assertFalse(peers.compare([np.array([1, 2])], [np.array([2, 1])])["same_integers"])

    def test_arguments(self):
        self.assertEqual(peers.sizes_of("batch=1,seq=128"), {"batch": 1, "seq": 128})
        self.assertEqual(peers.name_of("x/resnet18/model.onnx"), "resnet18")
        self.assertEqual(peers.name_of("x/net.onnx"), "net.onnx")


if __name__ == "__main__":
    unittest.main()
