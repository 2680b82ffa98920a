# SPDX-License-Identifier: Apache-2.0
"""tenonrt runs models as onnxruntime does: sessions, feeds, errors, values, bindings, types, memory that is shared."""
import gc
import os
import sys
import tempfile
import threading
import unittest

import tenonrt_env

tenonrt_env.enter()
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import tenonrt as ort  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from tenonrt.capi.onnxruntime_pybind11_state import (  # noqa: E402
    InvalidArgument,
    InvalidProtobuf,
    NoSuchFile,
)
from tenonrt_env import onnx_model  # noqa: E402

F32 = np.float32


def add_model():
    """y = x + b, z = relu(y), over [batch,3]."""
    nodes = [helper.make_node("Add", ["x", "b"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    shape = ["batch", 3]
    return onnx_model(nodes, [("x", F32, shape)], [("y", F32, shape), ("z", F32, shape)], {"b": np.array([-1, 0, 1], F32)})


def identity(code, shape, rank=None):
    node = helper.make_node("Identity", ["x"], ["y"])
    return onnx_model([node], [("x", code, shape)], [("y", code, shape)], opset=24)


def add_session(**options):
    return ort.InferenceSession(add_model().SerializeToString(), **options)


X = np.array([[1, 2, 3], [-1, -2, -3]], F32)
Y = X + np.array([-1, 0, 1], F32)


class Sessions(unittest.TestCase):
    def test_inputs_and_outputs(self):
        session = add_session()
        (x,) = session.get_inputs()
        self.assertEqual((x.name, x.type, x.shape), ("x", "tensor(float)", ["batch", 3]))
        self.assertEqual([y.name for y in session.get_outputs()], ["y", "z"])

    def test_run(self):
        session = add_session(providers=["CPUExecutionProvider"])
        y, z = session.run(None, {"x": X})
        np.testing.assert_array_equal(y, Y)
        np.testing.assert_array_equal(z, np.maximum(Y, 0))
        z, y = session.run(["z", "y"], {"x": X})
        np.testing.assert_array_equal(y, Y)
        (z,) = session.run(["z"], {"x": X[:1]})
        np.testing.assert_array_equal(z, np.maximum(Y[:1], 0))
        z, again = session.run(["z", "z"], {"x": X})
        np.testing.assert_array_equal(z, again)

    def test_sources(self):
        data = add_model().SerializeToString()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "é.onnx")
            with open(path, "wb") as file:
                file.write(data)
            from pathlib import Path

            for source in (path, Path(path), data, add_model(), ort.load(path)):
                np.testing.assert_array_equal(ort.InferenceSession(source).run(["y"], {"x": X})[0], Y)

    def test_feeds_of_other_kinds(self):
        session = add_session()
        for value in (X.tolist(), X[::-1][::-1], np.asfortranarray(X), X.astype(">f4"), ort.OrtValue.ortvalue_from_numpy(X)):
            np.testing.assert_array_equal(session.run(["y"], {"x": value})[0], Y)
        wide = np.zeros((2, 6), F32)
        wide[:, ::2] = X
        np.testing.assert_array_equal(session.run(["y"], {"x": wide[:, ::2]})[0], Y)
        misaligned = np.frombuffer(b"-" + X.tobytes(), np.uint8)[1:].view(F32).reshape(2, 3)
        np.testing.assert_array_equal(session.run(["y"], {"x": misaligned})[0], Y)
        frozen = X.copy()
        frozen.flags.writeable = False
        np.testing.assert_array_equal(session.run(["y"], {"x": frozen})[0], Y)

    def test_wrong_feeds(self):
        session = add_session()
        with self.assertRaisesRegex(InvalidArgument, r"tensor\(double\).*tensor\(float\)"):
            session.run(None, {"x": X.astype(np.float64)})
        with self.assertRaisesRegex(InvalidArgument, r'"x" wants f32\[batch,3\], not f32\[2,4\]') as caught:
            session.run(None, {"x": np.zeros((2, 4), F32)})
        self.assertEqual(caught.exception.status, "SHAPE")
        self.assertIsInstance(caught.exception, ort.TenonError)
        self.assertIn("wants", caught.exception.diagnostics)
        with self.assertRaises(InvalidArgument):
            session.run(None, {"x": X[0]})
        with self.assertRaisesRegex(InvalidArgument, "Invalid input name: q"):
            session.run(None, {"x": X, "q": X})
        with self.assertRaisesRegex(InvalidArgument, "nothing"):
            session.run(["nothing"], {"x": X})
        with self.assertRaisesRegex(ValueError, "missing from input feed"):
            session.run(None, {})
        np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], Y)  # none of it harms the session

    def test_bad_models(self):
        with self.assertRaises(NoSuchFile):
            ort.InferenceSession("no/such/file.onnx")
        with self.assertRaises(ort.TenonError):
            ort.InferenceSession(b"no model at all")
        with self.assertRaises((InvalidProtobuf, ort.TenonError)):
            ort.InferenceSession(add_model().SerializeToString()[:-7])
        unknown = onnx_model([helper.make_node("Blub", ["x"], ["y"])], [("x", F32, [1])], [("y", F32, [1])])
        with self.assertRaisesRegex(ort.TenonError, "Blub"):
            ort.InferenceSession(unknown.SerializeToString())

    def test_default_inputs(self):
        node = helper.make_node("Add", ["x", "b"], ["y"])
        inputs = [("x", F32, [3]), ("b", F32, [3])]
        model = onnx_model([node], inputs, [("y", F32, [3])], {"b": np.ones(3, F32)})
        session = ort.InferenceSession(model.SerializeToString())
        self.assertEqual([arg.name for arg in session.get_inputs()], ["x"])
        self.assertEqual([arg.name for arg in session.get_overridable_initializers()], ["b"])
        np.testing.assert_array_equal(session.run(None, {"x": X[0]})[0], X[0] + 1)
        np.testing.assert_array_equal(session.run(None, {"x": X[0], "b": X[0]})[0], X[0] * 2)

    def test_metadata(self):
        model = add_model()
        model.producer_name, model.domain, model.doc_string, model.model_version = "maker", "d", "words", 7
        model.graph.name = "the graph"
        entry = model.metadata_props.add()
        entry.key, entry.value = "names", "{0: 'cat'}"
        meta = ort.InferenceSession(model.SerializeToString()).get_modelmeta()
        found = (meta.producer_name, meta.domain, meta.description, meta.version, meta.graph_name)
        self.assertEqual(found, ("maker", "d", "words", 7, "the graph"))
        self.assertEqual(meta.custom_metadata_map, {"names": "{0: 'cat'}"})

    def test_options(self):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = 3
        options.add_session_config_entry("session.load_model_format", "ONNX")
        self.assertEqual(options.get_session_config_entry("session.load_model_format"), "ONNX")
        options.add_free_dimension_override_by_name("batch", 2)
        with self.assertRaises(AttributeError):
            options.intra_op_threads = 1
        session = add_session(sess_options=options, providers=[("CPUExecutionProvider", {})])
        self.assertIs(session.get_session_options(), options)
        self.assertEqual(session.get_inputs()[0].shape, [2, 3])
        np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], Y)
        with self.assertRaisesRegex(InvalidArgument, "batch is 2"):
            session.run(None, {"x": X[:1]})
        with self.assertWarnsRegex(UserWarning, "CUDAExecutionProvider"):
            self.assertEqual(add_session(providers=["CUDAExecutionProvider"]).get_providers(), ["CPUExecutionProvider"])
        self.assertEqual((ort.get_device(), ort.get_available_providers()), ("CPU", ["CPUExecutionProvider"]))
        with self.assertRaises(TypeError):
            add_session(treads=1)

    def test_files_that_options_ask_for(self):
        import json

        with tempfile.TemporaryDirectory() as folder:
            options = ort.SessionOptions()
            options.optimized_model_filepath = os.path.join(folder, "out.onnx")
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(folder, "profile")
            session = add_session(sess_options=options)
            session.run(None, {"x": X})
            with open(session.end_profiling(), encoding="utf-8") as file:
                events = json.load(file)
            self.assertIn("model_run", [event["name"] for event in events])
            self.assertIn("Add", [event["args"].get("op_name") for event in events])
            saved = ort.InferenceSession(options.optimized_model_filepath)
            np.testing.assert_array_equal(saved.run(["y"], {"x": X})[0], Y)

    def test_run_options(self):
        session, options = add_session(), ort.RunOptions()
        options.timeout = 60.0
        options.log_severity_level = 4
        np.testing.assert_array_equal(session.run(["y"], {"x": X}, options)[0], Y)
        options.terminate = True
        with self.assertRaisesRegex(ort.TenonError, "terminate"):
            session.run(["y"], {"x": X}, options)
        options.terminate = False
        np.testing.assert_array_equal(session.run(["y"], {"x": X}, options)[0], Y)

    def test_terminate_from_another_thread(self):
        nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], body=self.endless_body())]
        model = onnx_model(nodes, [("n", np.int64, []), ("x", F32, [1])], [("y", F32, [1])])
        session, options = ort.InferenceSession(model.SerializeToString()), ort.RunOptions()
        timer = threading.Timer(0.2, lambda: setattr(options, "terminate", True))
        timer.start()
        with self.assertRaises(ort.TenonError) as caught:
            session.run(None, {"n": np.array(1 << 30, np.int64), "x": np.zeros(1, F32)}, options)
        self.assertEqual(caught.exception.status, "CANCELLED")
        timer.join()
        (y,) = session.run(None, {"n": np.array(5, np.int64), "x": np.zeros(1, F32)})
        self.assertEqual(y[0], 5)
        deadline = ort.RunOptions()
        deadline.timeout = 0.1
        with self.assertRaises(ort.TenonError) as caught:
            session.run(None, {"n": np.array(1 << 30, np.int64), "x": np.zeros(1, F32)}, deadline)
        self.assertEqual(caught.exception.status, "DEADLINE")

    @staticmethod
    def endless_body():
        one = helper.make_node("Constant", [], ["one"], value_float=1.0)
        nodes = [one, helper.make_node("Add", ["a", "one"], ["b"]), helper.make_node("Identity", ["go"], ["on"])]
        info = helper.make_tensor_value_info
        inputs = [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("a", TensorProto.FLOAT, [1])]
        return helper.make_graph(nodes, "body", inputs, [info("on", TensorProto.BOOL, []), info("b", TensorProto.FLOAT, [1])])

    def test_async(self):
        done, got = threading.Event(), []

        def back(results, data, error):
            got.extend([results, data, error])
            done.set()

        add_session().run_async(["y"], {"x": X}, back, "tag")
        self.assertTrue(done.wait(60))
        np.testing.assert_array_equal(got[0][0], Y)
        self.assertEqual(got[1:], ["tag", ""])

    def test_many_threads_on_one_session(self):
        session, wrong = add_session(threads=1), []

        def work(seed):
            for i in range(50):
                x = np.full((1 + (seed + i) % 3, 3), seed, F32)
                y, z = session.run(None, {"x": x})
                if not (np.array_equal(y, x + np.array([-1, 0, 1], F32)) and np.array_equal(z, np.maximum(y, 0))):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_what_the_engine_says(self):
        session = add_session()
        session.run(None, {"x": X})
        self.assertEqual([row["op"] for row in session.instructions()], ["Add", "Relu"])
        self.assertTrue(session.info()["planned"])
        add = session.instructions()[0]
        self.assertEqual((add["bytes_read"], add["bytes_written"], add["moved_bytes"]), (X.nbytes + 3 * 4, X.nbytes, 0))

    def test_the_machine(self):
        for threads in (1, 2):
            peak = ort.measure_peak(threads, 100000)
            self.assertTrue(all(1e6 < peak[key] < 1e15 for key in ("flops", "read", "copy")), peak)
        self.assertIsInstance(peak["isa"], str)
        with self.assertRaises(OverflowError):
            ort.measure_peak(1, -1)


class Types(unittest.TestCase):
    def check(self, array, code, expected=None):
        session = ort.InferenceSession(identity(code, list(array.shape)).SerializeToString())
        (y,) = session.run(None, {"x": array})
        expected = array if expected is None else expected
        self.assertEqual((y.dtype, y.shape), (expected.dtype, expected.shape))
        np.testing.assert_array_equal(y, expected)
        return session

    def test_numpys_types(self):
        for kind in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?".split() + ["c8", "c16"]:
            for shape in ((2, 3), (), (0, 3), (1,)):
                array = (np.arange(np.prod(shape)) % 2).reshape(shape).astype(kind)
                session = self.check(array, helper.np_dtype_to_tensor_dtype(array.dtype))
        self.assertEqual(session.get_inputs()[0].type, "tensor(complex128)")

    def test_strings(self):
        for array in (np.array([["a", "é中", ""], ["b\0c", "😀", "d" * 100]]), np.array(["x"]), np.empty((0, 2), "U1")):
            self.check(array, TensorProto.STRING, array.astype(object))
            self.check(array.astype(object), TensorProto.STRING)
        session = ort.InferenceSession(identity(TensorProto.STRING, [2]).SerializeToString())
        (y,) = session.run(None, {"x": np.array([b"raw", b"\xff"])})
        self.assertEqual(y.tolist(), ["raw", "\udcff"])
        (y,) = session.run(None, {"x": ["p", "q"]})
        self.assertEqual(y.tolist(), ["p", "q"])

    def test_small_types(self):
        for code in "BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ FLOAT8E8M0 INT4 UINT4 FLOAT4E2M1".split():
            code = getattr(TensorProto, code)
            kind = np.dtype(helper.tensor_dtype_to_np_dtype(code))
            for shape in ((3, 5), (2, 2), (), (0,)):
                array = (np.arange(np.prod(shape)) % 4 + 1).reshape(shape).astype(np.float32).astype(kind)
                session = self.check(array, code)
            low = np.array([-8, 7, -1, 0, 3], F32).astype(kind) if code == TensorProto.INT4 else None
            if low is not None:
                self.check(low, code)
        bits = np.array([0x3F80, 0x4000], np.uint16)
        session = ort.InferenceSession(identity(TensorProto.BFLOAT16, [2]).SerializeToString())
        (y,) = session.run(None, {"x": bits})
        np.testing.assert_array_equal(y, bits.view(ml_dtypes.bfloat16))
        self.assertEqual(session.get_inputs()[0].type, "tensor(bfloat16)")

    def test_without_ml_dtypes(self):
        from tenonrt import _arrays

        small, _arrays.SMALL = _arrays.SMALL, {}
        try:
            session = ort.InferenceSession(identity(TensorProto.BFLOAT16, [2]).SerializeToString())
            bits = np.array([0x3F80, 0x4000], np.uint16)
            np.testing.assert_array_equal(session.run(None, {"x": bits})[0], bits)
            session = ort.InferenceSession(identity(TensorProto.INT4, [3]).SerializeToString())
            values = np.array([-8, 7, -1], np.int8)
            np.testing.assert_array_equal(session.run(None, {"x": values})[0], values)
        finally:
            _arrays.SMALL = small

    def test_sequences(self):
        info = helper.make_tensor_sequence_value_info
        graph = helper.make_graph(
            [helper.make_node("Identity", ["s"], ["t"])], "g", [info("s", TensorProto.FLOAT, None)], [info("t", TensorProto.FLOAT, None)]
        )
        session = ort.InferenceSession(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)]))
        self.assertEqual(session.get_inputs()[0].type, "seq(tensor(float))")
        items = [X, X[0], np.zeros((0,), F32)]
        (got,) = session.run(None, {"s": items})
        self.assertEqual(len(got), 3)
        for a, b in zip(got, items):
            np.testing.assert_array_equal(a, b)
        got[0][...] = 9  # copies: what was fed stays
        self.assertEqual(items[0][0, 0], 1)
        with self.assertRaises(InvalidArgument):
            session.run(None, {"s": X})


class Memory(unittest.TestCase):
    def test_results_are_the_engines_memory(self):
        (y, _z) = add_session().run(None, {"x": X})
        self.assertTrue(y.flags.writeable)
        self.assertFalse(y.flags.owndata)
        self.assertEqual(y.ctypes.data % 64, 0)
        gc.collect()
        np.testing.assert_array_equal(y, Y)
        y += 1
        np.testing.assert_array_equal(y, Y + 1)

    def test_references_are_given_back(self):
        session, x = add_session(), X.copy()
        bad = np.zeros((2, 4), F32)
        before = sys.getrefcount(x), sys.getrefcount(bad)
        for _ in range(20):
            session.run(None, {"x": x})
            value = ort.OrtValue.ortvalue_from_numpy(x)
            session.run(["y"], {"x": value})
            with self.assertRaises(InvalidArgument):
                session.run(None, {"x": bad})
            del value
        gc.collect()
        self.assertEqual((sys.getrefcount(x), sys.getrefcount(bad)), before)

    def test_values_share_arrays(self):
        x = X.copy()
        value = ort.OrtValue.ortvalue_from_numpy(x)
        self.assertEqual(value.data_ptr(), x.ctypes.data)
        self.assertEqual((value.shape(), value.data_type(), value.element_type()), ([2, 3], "tensor(float)", 1))
        self.assertTrue(value.is_tensor() and value.has_value() and value.device_name() == "cpu")
        del x
        gc.collect()
        np.testing.assert_array_equal(value.numpy(), X)
        value.update_inplace(X * 2)
        np.testing.assert_array_equal(np.asarray(value), X * 2)
        with self.assertRaises(InvalidArgument):
            value.update_inplace(X[:1])
        made = ort.OrtValue.ortvalue_from_shape_and_type([2, 2], np.int64)
        np.testing.assert_array_equal(made.numpy(), np.zeros((2, 2), np.int64))
        self.assertEqual(ort.OrtValue.ortvalue_from_shape_and_type([2], TensorProto.BFLOAT16).data_type(), "tensor(bfloat16)")

    def test_bindings(self):
        session = add_session()
        binding, x, y = session.io_binding(), X.copy(), np.zeros_like(X)
        binding.bind_cpu_input("x", x)
        binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        binding.bind_output("z")
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(y, Y)
        (_y, z) = binding.copy_outputs_to_cpu()
        np.testing.assert_array_equal(z, np.maximum(Y, 0))
        self.assertEqual([value.shape() for value in binding.get_outputs()], [[2, 3], [2, 3]])
        binding.clear_binding_outputs()
        target = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
        binding.bind_ortvalue_output("y", target)
        session.run_with_iobinding(binding)
        first = target.numpy()
        binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
        x *= 2
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(first, Y)
        np.testing.assert_array_equal(target.numpy(), Y + X)
        with self.assertRaises(InvalidArgument):
            binding.bind_cpu_input("nothing", x)
        wrong = session.io_binding()
        wrong.bind_cpu_input("x", x)
        wrong.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_shape_and_type([5], np.float32))
        with self.assertRaises(InvalidArgument):
            session.run_with_iobinding(wrong)
        values = session.run_with_ort_values(["y"], {"x": ort.OrtValue.ortvalue_from_numpy(X)})
        np.testing.assert_array_equal(values[0].numpy(), Y)

    def test_dlpack(self):
        x = X.copy()
        value = ort.from_dlpack(x)
        self.assertEqual(value.data_ptr(), x.ctypes.data)
        out = np.from_dlpack(value)
        self.assertEqual(out.ctypes.data, x.ctypes.data)
        old = value.to_dlpack()  # the protocol before 1.0; nobody takes this one
        taken = ort.from_dlpack(value.to_dlpack())
        with self.assertRaises((ValueError, BufferError)):
            capsule = value.to_dlpack()
            ort.from_dlpack(capsule)
            ort.from_dlpack(capsule)
        del value, x, old
        gc.collect()
        np.testing.assert_array_equal(out, X)
        np.testing.assert_array_equal(taken.numpy(), X)
        frozen = X.copy()
        frozen.flags.writeable = False
        self.assertFalse(np.from_dlpack(ort.from_dlpack(frozen)).flags.writeable)
        with self.assertRaises(BufferError):
            ort.OrtValue.ortvalue_from_numpy(np.array(["a"])).to_dlpack()
        with self.assertRaises(BufferError):
            ort.from_dlpack(np.zeros((4, 4), F32)[:, ::2])

    def test_objects_die_in_any_order(self):
        session = add_session()
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        session.run_with_iobinding(binding)
        values = binding.get_outputs()
        del session, binding
        gc.collect()
        np.testing.assert_array_equal(values[0].numpy(), Y)


if __name__ == "__main__":
    unittest.main()
