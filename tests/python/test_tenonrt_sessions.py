# SPDX-License-Identifier: Apache-2.0
"""Sessions beyond one run of a whole model: parts of it, state from run to run, what a session says of itself."""
import os
import threading
import unittest

import tenonrt_env
from harness import scratch

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt as ort  # noqa: E402
from tenonrt.capi.onnxruntime_pybind11_state import Fail, InvalidArgument  # noqa: E402

F32 = np.float32

NET = """tn 1
graph @net(%x: f32[n,4], %weight: f32[4,4]) -> (%y, "second" = %z) {
  %product = MatMul(%x, %weight)
  %relu = Relu(%product)
  %sum = Add(%relu, %x)
  %y = Tanh(%sum)
  %exp = Exp(%relu)
  %z = MatMul(%exp, %weight)
}
"""

DECODER = """tn 1
graph @decoder(%x: f32[batch,2,new,4], %past: f32[batch,2,old,4]) -> (%y, %present) {
  %k = Tanh(%x)
  %present = Concat(%past, %k) {axis=2}
  %t = Transpose(%present) {perm=[0,1,3,2]}
  %q = MatMul(%x, %t)
  %s = Softmax(%q) {axis=-1}
  %y = MatMul(%s, %present)
}
"""


def feed(seed=0):
    random = np.random.default_rng(seed)
    return {"x": random.standard_normal((3, 4)).astype(F32), "weight": random.standard_normal((4, 4)).astype(F32)}


class Parts(unittest.TestCase):
    def test_one_part(self):
        model = ort.Model.from_text(NET)
        relu, y = ort.InferenceSession(model).run(["relu", "y"], feed())
        part = ort.InferenceSession(model, paths=[(["relu"], ["y"])])
        self.assertEqual([arg.name for arg in part.get_inputs()], ["relu", "x"])
        self.assertEqual([arg.name for arg in part.get_outputs()], ["y"])
        (got,) = part.run(None, {"relu": relu, "x": feed()["x"]})
        np.testing.assert_array_equal(got, y)

    def test_parts_that_meet(self):
        model = ort.Model.from_text(NET)
        want = ort.InferenceSession(model).run(["y", "relu", "second"], feed())
        part = model.extract((["relu"], ["y"]), ([], ["relu", "second"]))
        self.assertEqual([info[0] for info in part.inputs()], ["x", "weight"])
        for a, b in zip(ort.InferenceSession(part).run(None, feed()), want, strict=True):
            np.testing.assert_array_equal(a, b)
        self.assertEqual([info[0] for info in model.outputs()], ["y", "second"])

    def test_wrong_parts(self):
        model = ort.Model.from_text(NET)
        with self.assertRaisesRegex(ort.TenonError, 'did you mean "product"'):
            model.extract((["prodct"], ["y"]))
        with self.assertRaisesRegex(InvalidArgument, "which none of its ends needs"):
            ort.InferenceSession(model, paths=[(["exp"], ["y"])])
        with self.assertRaises(TypeError):
            model.extract(([1], ["y"]))
        with self.assertRaises(TypeError):
            super(ort.Model, model).extract((("x", "y"),))


class State(unittest.TestCase):
    def test_decoding(self):
        steps = [np.random.default_rng(i).standard_normal((2, 2, 1 if i else 5, 4)).astype(F32) for i in range(12)]
        model = ort.Model.from_text(DECODER)
        by_hand, bound = ort.InferenceSession(model), ort.InferenceSession(model)
        bound.bind_state("past", "present", 16)
        for _ in range(2):
            past = np.zeros((2, 2, 0, 4), F32)
            for x in steps:
                want, past = by_hand.run(None, {"x": x, "past": past})
                got, kept = bound.run(None, {"x": x})
                np.testing.assert_array_equal(got, want)
                self.assertIsNone(kept)
            bound.reset_state()
        (got,) = bound.run(["y"], {"x": steps[0], "past": past})  # from here on
        np.testing.assert_array_equal(got, by_hand.run(["y"], {"x": steps[0], "past": past})[0])

    def test_wrong_states(self):
        session = ort.InferenceSession(ort.Model.from_text(DECODER))
        with self.assertRaisesRegex(ort.TenonError, 'did you mean "present"'):
            session.bind_state("past", "presents")
        with self.assertRaises(InvalidArgument):
            session.bind_state("past", "present", -1)

    def test_one_at_a_time(self):
        session = ort.InferenceSession(ort.Model.from_text(DECODER))
        session.bind_state("past", "present")
        taken = session._pool(()).take()
        refused = []

        def run():
            try:
                session.run(None, {"x": np.zeros((1, 2, 1, 4), F32)})
            except Fail as error:
                refused.append(str(error))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        session._pool(()).give(taken)
        self.assertIn("another thread", refused[0])
        with self.assertRaises(Fail):
            session.run_with_iobinding(session.io_binding())


class Shapes(unittest.TestCase):
    TEXT = """tn 1
graph @g(%x: f32[n,4], %w: f32[3,4]) -> (%y, %z) {
  %y = Softmax(%x)
  %z = Softmax(%w)
}
"""

    def test_modes(self):
        session = ort.InferenceSession(ort.Model.from_text(self.TEXT))
        w = np.ones((3, 4), F32)
        session.set_shape_mode("traced")
        for n in (2, 5):
            session.run(None, {"x": np.ones((n, 4), F32), "w": w})
        self.assertEqual(session.info()["n_stay"], 1)
        session.set_shape_mode("fixed")
        (y,) = session.run(["y"], {"x": np.ones((7, 4), F32), "w": w})
        np.testing.assert_array_equal(y, np.full((7, 4), 0.25, F32))
        binding = session.io_binding()
        binding.bind_cpu_input("x", np.ones((6, 4), F32))
        binding.bind_cpu_input("w", w)
        binding.bind_output("z")
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.full((3, 4), 0.25, F32))
        with self.assertRaisesRegex(InvalidArgument, "inner"):
            session.run(["inner"], {"x": w, "w": w})
        with self.assertRaisesRegex(ValueError, "traced"):
            session.set_shape_mode("still")


class Info(unittest.TestCase):
    def test_resize(self):
        session = ort.InferenceSession(ort.Model.from_text(NET))
        self.assertEqual((session.info()["resize"], session.info()["n_plans"]), ("needed", 0))
        session.run(None, feed())
        self.assertEqual((session.info()["resize"], session.info()["n_plans"]), ("done", 1))
        mixed = 'tn 1\ngraph @g(%x: f32[n], %w: f32[m]) -> (%y) {\n  %y = Add(%x, %w)\n}\n'
        session = ort.InferenceSession(ort.Model.from_text(mixed))
        for _ in range(2):
            with self.assertRaisesRegex(ort.TenonError, r"Add(.|\n)*f32\[3\], f32\[4\]"):
                session.run(None, {"x": np.zeros(3, F32), "w": np.zeros(4, F32)})
            self.assertEqual(session.info()["resize"], "failed")
            self.assertIn("f32[3], f32[4]", session.info()["resize_error"])
        session.run(None, {"x": np.zeros(3, F32), "w": np.zeros(1, F32)})
        self.assertEqual((session.info()["resize"], session.info()["resize_error"]), ("done", ""))


class Tuning(unittest.TestCase):
    def setUp(self):
        self.path = os.path.join(scratch("tuning"), "net.tuning.json")
        if os.path.exists(self.path):
            os.remove(self.path)
        random = np.random.default_rng(3)
        weights = ", ".join(f"{v:.4f}" for v in random.standard_normal(24 * 16 * 9) / 9)
        self.model = ort.Model.from_text(
            "tn 1\ngraph @g(%x: f32[1,16,n,n]) -> (%y) {\n"
            f"  %w = Const {{data = f32[24,16,3,3] [{weights}]}}\n"
            "  %c = Conv(%x, %w) {pads=[1,1,1,1]}\n  %y = Relu(%c)\n}\n"
        )
        self.x = random.standard_normal((1, 16, 20, 20)).astype(F32)

    def session(self, threads=1, tune=False):
        options = ort.SessionOptions()
        options.tuning_file, options.tune = self.path, tune
        return ort.InferenceSession(self.model, options, threads=threads)

    def test_measured_and_used(self):
        want = ort.InferenceSession(self.model).run(None, {"x": self.x})[0]
        session = self.session(tune=True)
        got = session.run(None, {"x": self.x})[0]
        self.assertEqual((session.info()["n_tuned"], session.info()["n_measured"]), (1, 1))
        self.assertTrue([row["way"] for row in session.instructions() if row["tuned"]][0])
        np.testing.assert_allclose(got, want, atol=1e-4)
        for threads in (1, 2, 3, 7):
            session = self.session(threads)
            np.testing.assert_array_equal(session.run(None, {"x": self.x})[0], got)
            self.assertEqual((session.info()["n_tuned"], session.info()["n_measured"]), (1, 0))

    def test_many_at_once(self):
        session, answers = self.session(tune=True), []
        run = lambda: answers.append(session.run(None, {"x": self.x})[0])  # noqa: E731
        run()
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(answers), 5)
        for answer in answers[1:]:
            np.testing.assert_array_equal(answer, answers[0])

    def test_refused(self):
        options = ort.SessionOptions()
        options.tune = True
        with self.assertRaisesRegex(InvalidArgument, "tuning_file"):
            ort.InferenceSession(self.model, options)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("no JSON")
        with self.assertRaisesRegex(ort.TenonError, "no tuning file"):
            self.session()


    def test_accuracy(self):
        def ways(accuracy):
            options = ort.SessionOptions()
            options.accuracy = accuracy
            session = ort.InferenceSession(self.model, options)
            answer = session.run(None, {"x": self.x})[0]
            return answer, {row["way"] for row in session.instructions() if row["op"].startswith("Conv")}

        normal, some = ways("normal")
        high, others = ways("high")
        self.assertTrue(any(way.startswith("winograd") for way in some), some)
        self.assertEqual(others, {"direct"})
        np.testing.assert_allclose(high, normal, atol=1e-5)
        with self.assertRaisesRegex(InvalidArgument, "normal"):
            ways("hihg")


class Lowering(unittest.TestCase):
    def run_with(self, lowering):
        options = ort.SessionOptions()
        options.lowering = lowering
        session = ort.InferenceSession(ort.Model.from_text(NET), options)
        return session.run(None, feed()), "+".join(row["op"] for row in session.instructions())

    def test_lowering(self):
        want, whole = self.run_with("")
        got, apart = self.run_with("Relu=geometry")
        for a, b in zip(want, got):
            np.testing.assert_array_equal(a, b)
        self.assertIn("Relu", whole)
        self.assertNotIn("Relu", apart)
        with self.assertRaisesRegex(ort.TenonError, "did you mean"):
            self.run_with("Reluu=geometry")

    def test_lowering_of_a_path(self):
        model = ort.Model.from_text(
            "tn 1\ngraph @g(%x: f32[3]) -> (%y, %z) {\n  %h = Abs(%x)\n"
            "  %a = Elu(%h)\n  %y = Relu(%a)\n  %b = Selu(%h)\n  %z = Relu(%b)\n}\n"
        )
        x = {"x": np.array([-2, 0.5, 3], np.float32)}
        want = ort.InferenceSession(model).run(None, x)

        def ops(how_y, how_z, names=None):
            paths = [(["x"], ["y"], how_y), ([], ["z"], how_z)]
            session = ort.InferenceSession(model, paths=paths, passes="lower-composites")
            self.assertEqual([arg.name for arg in session.get_outputs()], ["y", "z"])
            for a, b in zip(session.run(None, x), want):
                np.testing.assert_allclose(a, b, rtol=1e-6)
            for name, b in (("z", want[1]), ("y", want[0]), ("h", np.abs(x["x"]))):
                np.testing.assert_allclose(session.run([name], x)[0], b, rtol=1e-6)
            both = session.run(["z", "h", "y"], x)
            np.testing.assert_allclose(both[2], want[0], rtol=1e-6)
            return [row["op"] for row in session.instructions()]

        self.assertEqual(ops(None, None).count("Relu"), 2)
        self.assertEqual(ops("Relu=geometry", None).count("Relu"), 1)
        self.assertEqual(ops(None, "Relu=geometry").count("Relu"), 1)
        self.assertEqual(ops("*=geometry", "*=geometry").count("Relu"), 0)
        self.assertEqual(ops("Elu=geometry", "Elu=geometry,Selu=origin").count("Selu"), 1)
        with self.assertRaisesRegex(ort.TenonError, "did you mean"):
            ops("Reluu=loop", None)
        with self.assertRaises(TypeError):
            ort.InferenceSession(model, paths=[(["x"], ["y"], "Relu=geometry", 1)])
        with self.assertRaises(TypeError):
            ort.InferenceSession(model, paths=[(["x"], ["y"], 7)])


if __name__ == "__main__":
    unittest.main()
