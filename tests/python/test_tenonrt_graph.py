# SPDX-License-Identifier: Apache-2.0
"""tenonrt reads, builds, changes and walks graphs."""
import gc
import os
import tempfile
import unittest

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from tenonrt_env import onnx_model  # noqa: E402

F32 = np.float32


def mlp():
    """Conv-free and small: y = softmax(relu(x @ w + 1) * 2)."""
    model = tenonrt.Model.new("mlp")
    g = model.graph
    x = g.input("x", "f32", [None, 4])
    w = g.constant(np.arange(12, dtype=F32).reshape(4, 3) / 10, "w")
    h = g.op("MatMul", [x, w], name="h")
    h = g.op("Relu", [g.op("Add", [h, F32(1)])], name="r")
    g.output(g.op("Softmax", [g.op("Mul", [h, F32(2)])], axis=-1), "y")
    return model


def expected(x):
    h = np.maximum(x @ (np.arange(12, dtype=F32).reshape(4, 3) / 10) + 1, 0) * 2
    e = np.exp(h - h.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


X = np.array([[1, 2, 3, 4], [-4, -3, -2, -1]], F32)


def with_branches():
    info = helper.make_tensor_value_info
    branch = lambda name, op: helper.make_graph(  # noqa: E731
        [helper.make_node(op, ["x"], [name])], f"{name}_graph", [], [info(name, TensorProto.FLOAT, [2])]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "Exp"), else_branch=branch("b", "Neg"))
    return onnx_model([node], [("c", np.bool_, []), ("x", F32, [2])], [("y", F32, [2])])


class Building(unittest.TestCase):
    def test_build_and_run(self):
        model = mlp()
        self.assertTrue(model.changed)
        model.verify()
        model.infer()
        self.assertEqual(model.graph.name, "mlp")
        self.assertEqual(model.graph.outputs[0].shape[1], 3)
        np.testing.assert_allclose(tenonrt.InferenceSession(model).run(None, {"x": X})[0], expected(X), rtol=1e-5)

    def test_save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            for ending in ("onnx", "tn"):
                path = os.path.join(folder, f"m.{ending}")
                model = mlp()
                model.infer()
                model.save(path)
                again = tenonrt.load(path)
                np.testing.assert_allclose(tenonrt.InferenceSession(again).run(None, {"x": X})[0], expected(X), rtol=1e-5)
            with open(path.replace(".tn", ".onnx"), "rb") as file:
                self.assertEqual(len(tenonrt.load(file.read()).graph), len(again.graph))
            with self.assertRaises(tenonrt.TenonError):
                model.save(os.path.join(folder, "m.what"))

    def test_text(self):
        model = mlp()
        model.infer()
        self.assertIn("graph @mlp", model.text())
        self.assertEqual(str(model), model.text())
        again = tenonrt.Model.from_text("tn 1\ngraph @g(%x: f32[3]) -> (%y) {\n  %y = Neg(%x)\n}\n")
        self.assertEqual(again.graph.outputs[0].type, "f32[3]")
        self.assertTrue(model.dot().startswith("digraph"))
        with self.assertRaisesRegex(tenonrt.TenonError, "text"):
            tenonrt.Model.from_text("tn 1\ngraph")

    def test_values_print(self):
        model = mlp()
        model.infer()
        r = model.graph.find("r")
        self.assertIn("free_var %x", str(r))
        self.assertIn("Relu(", str(r).strip().split("\n")[-1])
        self.assertIn("Relu(", str(r.definition))
        self.assertIn("%r", repr(r))

    def test_attributes(self):
        g = tenonrt.Model.new("g").graph
        x = g.input("x", np.float32, [1, 2, 8, 8])
        pool = g.op("MaxPool", [x], kernel_shape=[2, 2], strides=(np.int64(2), 2), auto_pad="VALID").definition
        self.assertEqual(pool.attributes, {"auto_pad": "VALID", "kernel_shape": [2, 2], "strides": [2, 2]})
        self.assertEqual(pool.get("ceil_mode"), 0)  # the op's default
        pool.set("ceil_mode", True)
        self.assertEqual(pool.get("ceil_mode"), 1)
        relu = g.op("LeakyRelu", [x], alpha=1).definition  # an int where a float is wanted
        self.assertEqual(relu.attributes, {"alpha": 1.0})
        made = g.op("ConstantOfShape", [np.array([2], np.int64)], value=np.array([7], np.int32)).definition
        self.assertEqual(made.get("value").tolist(), [7])
        with self.assertRaises(TypeError):
            pool.set("kernel_shape", "2x2")
        with self.assertRaises(TypeError):
            relu.set("alpha", "much")
        with self.assertRaises(tenonrt.TenonError):
            pool.get("nothing")

    def test_lists_of_floats_and_strings(self):
        g = tenonrt.Model.new("g").graph
        node = g.op("StringNormalizer", [g.input("s", str, [3])], stopwords=["a", "é"]).definition
        self.assertEqual(node.get("stopwords"), ["a", "é"])
        x = g.input("t", "i64", [3])
        node = g.op("TfIdfVectorizer", [x], weights=[0.5, 2], mode="TF").definition
        self.assertEqual(node.get("weights"), [0.5, 2.0])
        self.assertEqual(node.get("mode"), "TF")

    def test_errors(self):
        g = tenonrt.Model.new("g").graph
        x = g.input("x", "f32", [2])
        with self.assertRaisesRegex(tenonrt.TenonError, 'did you mean "Relu"'):
            g.op("Rela", [x])
        other = tenonrt.Model.new("other").graph.input("x", "f32", [2])
        with self.assertRaisesRegex(ValueError, "another model"):
            g.op("Neg", [other])
        with self.assertRaises(tenonrt.TenonError):
            g.input("y", "f99", [1])
        with self.assertRaises(ValueError):
            g.input("y", "f32", [1] * 20)
        with self.assertRaises(TypeError):
            tenonrt.Graph()
        with self.assertRaises(TypeError):
            tenonrt.Model()
        self.assertEqual(len(g), 0)

    def test_constants_are_copies(self):
        model = tenonrt.Model.new("g")
        array = np.ones(3, F32)
        value = model.graph.constant(array, "c")
        array[:] = 5
        np.testing.assert_array_equal(value.constant(), np.ones(3, F32))
        self.assertFalse(value.constant().flags.writeable)
        payload = value.constant()
        del model, value
        gc.collect()
        np.testing.assert_array_equal(payload, np.ones(3, F32))


class Changing(unittest.TestCase):
    def test_replace_and_erase(self):
        model = mlp()
        g = model.graph
        r = g.find("r")
        node = r.definition
        node.replace(g.op("Identity", node.operands, before=node))
        self.assertFalse(node.alive)
        self.assertFalse(r.alive)
        self.assertIn("erased", repr(r))
        with self.assertRaises(ReferenceError):
            node.op  # noqa: B018
        with self.assertRaises(ReferenceError):
            g.op("Neg", [r])
        self.assertNotIn("Relu", model.text())
        model.verify()

    def test_used_results_stay(self):
        g = mlp().graph
        node = g.find("h").definition
        with self.assertRaisesRegex(tenonrt.TenonError, "still read"):
            node.erase()
        self.assertTrue(node.alive)
        self.assertEqual(node.op, "MatMul")

    def test_operands(self):
        model = mlp()
        g = model.graph
        add = [node for node in g if node.op == "Add"][0]
        add.set_operand(1, g.constant(F32(3)))
        self.assertIsNot(add.operands[1], None)
        with self.assertRaises(tenonrt.TenonError):
            add.set_operand(7, g.inputs[0])
        g.find("h").rename("hidden")
        self.assertIsNone(g.find("h"))
        self.assertEqual(g.find("hidden").n_uses, 1)

    def test_handles_are_one_object(self):
        model = mlp()
        h = model.graph.find("h")
        self.assertIs(h, model.graph.find("h"))
        self.assertIs(h.definition.results[0], h)
        self.assertIs(h.model, model)
        self.assertIs(model.graph, model.graph)
        graph = model.graph
        del model, h
        gc.collect()
        self.assertEqual(graph.find("h").definition.op, "MatMul")

    def test_models_in_use(self):
        model = mlp()
        session = tenonrt.InferenceSession(model)
        with self.assertRaisesRegex(tenonrt.TenonError, "in use by a session"):
            model.graph.op("Neg", [model.graph.inputs[0]])
        del session
        gc.collect()
        model.graph.op("Neg", [model.graph.inputs[0]])

    def test_erasing_nested_graphs(self):
        model = tenonrt.load(with_branches().SerializeToString())
        (node,) = model.graph.nodes
        inner = node.graphs[0].nodes[0]
        self.assertIn(inner.op, ("Exp", "Neg"))
        new = model.graph.op("Exp", [model.graph.find("x")])
        node.replace(new)
        self.assertFalse(inner.alive)
        np.testing.assert_allclose(
            tenonrt.InferenceSession(model).run(None, {"x": np.zeros(2, F32), "c": np.array(False)})[0], np.ones(2)
        )


class Walking(unittest.TestCase):
    def test_order(self):
        seen = []
        model = tenonrt.load(with_branches().SerializeToString())
        calls = tenonrt.visit(
            model,
            {"Exp": lambda node: seen.append("exp")},
            default=lambda node: seen.append(node.op),
            input=lambda value: seen.append(value.name),
            graph=lambda graph: seen.append(graph.name),
        )
        self.assertEqual(calls, len(seen))
        self.assertEqual(seen[:3], ["g", "c", "x"])
        self.assertEqual(seen[-1], "If")  # nested graphs before the node that owns them
        self.assertEqual(set(seen[3:-1]), {"a_graph", "b_graph", "exp", "Neg"})

    def test_classes(self):
        class Ops(tenonrt.Visitor):
            def __init__(self):
                self.ops, self.heavy = [], 0

            def visit_MatMul(self, node):
                self.heavy += 1

            def visit_node(self, node):
                self.ops.append(node.op)

        visitor = Ops()
        visitor.visit(mlp())
        self.assertEqual(visitor.heavy, 1)
        self.assertIn("Softmax", visitor.ops)
        self.assertNotIn("MatMul", visitor.ops)

    def test_changes_while_walking(self):
        model = mlp()

        def drop(node):
            node.replace(node.operands[0])

        tenonrt.visit(model, {"Relu": drop})
        self.assertNotIn("Relu", [node.op for node in model.graph])
        model.verify()

    def test_ends(self):
        def fail(node):
            raise KeyError(node.op)

        def stop(node):
            seen.append(node)
            raise tenonrt.StopVisit

        seen = []
        with self.assertRaisesRegex(KeyError, "MatMul"):
            tenonrt.visit(mlp(), {"MatMul": fail})
        tenonrt.visit(mlp(), default=stop)
        self.assertEqual(len(seen), 1)
        with self.assertRaisesRegex(tenonrt.TenonError, "Matmul"):
            tenonrt.visit(mlp(), {"Matmul": fail})


if __name__ == "__main__":
    unittest.main()
