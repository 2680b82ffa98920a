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

    def test_an_expression_prints(self):
        model = tenonrt.Model.new("g")
        g = model.graph
        x = g.input("x", "float32", [1, 16])
        y = g.op("Mul", [g.op("Add", [x, F32(1)]), F32(1)])
        lines = ["free_var %x: f32[1,16]", "%0: f32[] = Const {data = f32 1.0}", "%1 = Add(%x, %0)"]
        lines += ["%2: f32[] = Const {data = f32 1.0}", "Mul(%1, %2)", ""]
        self.assertEqual(str(y), "\n".join(lines))
        self.assertEqual(str(x), "free_var %x: f32[1,16]\n%x\n")
        model.infer()
        self.assertEqual(str(y), "\n".join(lines).replace("%1 =", "%1: f32[1,16] ="))

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

    def test_types_of_inputs(self):
        g = tenonrt.Model.new("g").graph
        self.assertEqual(g.input("a", "f32[batch,3,(h + 1)/2]").shape, ("batch", 3, "(h + 1)/2"))
        self.assertEqual(g.input("b", "seq(f32[*])").type, "seq(f32[*])")
        self.assertEqual(g.input("c", "float32", ["batch", 3, None]).shape, ("batch", 3, None))
        self.assertEqual(g.input("d", np.int64, ["(h + 1) / 2", "min(h, 4)"]).type, "i64[(h + 1)/2,min(h, 4)]")
        self.assertEqual(g.input("e").type, "?")
        self.assertEqual(g.input("f", "f32").type, "f32[*]")
        self.assertEqual(g.input("g", "u8[]").shape, ())
        before = len(g.inputs)
        for wrong, said in [
            ("f32[a", "the text ends"), ("f32[2] x", "expected the end of the type, not `x`"), ("f33[2]", "not `f33`"),
            ("f32[-1]", "a size cannot be -1"), ("f32[1+]", "expected a dimension"), ("seq(f32", "expected"), ("", "expected a type"),
        ]:  # fmt: skip
            with self.assertRaisesRegex(tenonrt.TenonError, said):
                g.input("x", wrong)
        for size in ("a,b", "*", "", "my dim", "2]"):
            with self.assertRaisesRegex(tenonrt.TenonError, "expected"):
                g.input("x", "f32", [size])
        with self.assertRaises(TypeError):
            g.input("x", "f32", ["a", 1.5])
        self.assertEqual(len(g.inputs), before)

    def test_sizes_with_names_run(self):
        model = tenonrt.Model.new("g")
        g = model.graph
        x = g.input("x", "f32", ["n", "n*2"])
        g.output(g.op("ReduceSum", [g.op("Transpose", [x])], keepdims=0), "y")
        model.infer()
        self.assertEqual(g.nodes[0].results[0].shape, ("n*2", "n"))
        session = tenonrt.InferenceSession(model)
        self.assertEqual(session.run(None, {"x": np.ones((2, 4), F32)})[0], 8)

    def test_clone(self):
        model = mlp()
        copy = model.clone()
        self.assertIs(type(copy), tenonrt.Model)
        session = tenonrt.InferenceSession(model)
        copy.infer()
        self.assertEqual(copy.text(), model.text())
        node = copy.graph.find("r").definition
        node.replace(copy.graph.op("Neg", node.operands, before=node))
        self.assertIn("Relu", model.text())
        self.assertNotIn("Relu", copy.text())
        weights = copy.graph.find("w")
        del model, session
        gc.collect()
        np.testing.assert_array_equal(weights.constant(), np.arange(12, dtype=F32).reshape(4, 3) / 10)
        h = np.exp(-(X @ weights.constant() + 1) * 2)
        wanted = h / h.sum(-1, keepdims=True)
        np.testing.assert_allclose(tenonrt.InferenceSession(copy).run(None, {"x": X})[0], wanted, rtol=1e-5)

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


class Nesting(unittest.TestCase):
    def test_if(self):
        model = tenonrt.Model.new("g")
        g = model.graph
        cond, x = g.input("c", "bool[]"), g.input("x", "f32[n]")
        double = g.op("Add", [x, x], name="double")
        yes, no = g.subgraph("yes"), g.subgraph("no")
        yes.output(yes.op("Exp", [double]), "t")
        y = g.op("If", [cond], then_branch=yes, else_branch=no, name="y")
        no.output(no.op("Neg", [x]), "e")  # after it was handed over
        g.output(y)
        model.verify()
        model.infer()
        self.assertEqual(y.type, "f32[n]")
        node = y.definition
        self.assertEqual({graph.name for graph in node.graphs}, {"yes", "no"})
        self.assertIs(node.get("then_branch"), yes)
        self.assertEqual(node.attributes, {})
        session = tenonrt.InferenceSession(model)
        data = np.array([1, 2], F32)
        np.testing.assert_allclose(session.run(None, {"c": np.array(True), "x": data})[0], np.exp(2 * data), rtol=1e-6)
        np.testing.assert_allclose(session.run(None, {"c": np.array(False), "x": data})[0], -data)

    def loop(self):
        """sum_{i<n} (x + i), and each of its terms."""
        model = tenonrt.Model.new("g")
        g = model.graph
        n, x = g.input("n", "i64[]"), g.input("x", "f32[k]")
        body = g.subgraph("body")
        i, cond, total = body.input("i"), body.input("cond"), body.input("total")
        term = body.op("Add", [x, body.op("Cast", [i], to=1)], name="term")
        for value, name in ((cond, "go"), (body.op("Add", [total, term]), "total_out"), (term, "each")):
            body.output(value, name)
        zero = g.op("Sub", [x, x])
        total, terms = g.op("Loop", [n, None, zero], outputs=2, body=body)
        g.output(total, "sum")
        g.output(terms, "terms")
        return model

    def test_loop(self):
        model = self.loop()
        model.infer()
        self.assertEqual([value.shape for value in model.graph.outputs], [("k",), (None, "k")])
        self.check_loop(model)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "loop.onnx")
            model.save(path)
            self.check_loop(tenonrt.load(path))
        self.check_loop(model.clone())

    def check_loop(self, model):
        x = np.array([1, 2], F32)
        total, terms = tenonrt.InferenceSession(model).run(None, {"n": np.array(3), "x": x})
        np.testing.assert_allclose(total, 3 * x + 3)
        np.testing.assert_allclose(terms, [x, x + 1, x + 2])

    def test_scan_within_a_loop(self):
        model = tenonrt.Model.new("g")
        g = model.graph
        x = g.input("x", "f32[t,k]")
        body = g.subgraph()
        inner = body.subgraph("inner")
        _, cond, carried = body.input("i"), body.input("cond"), body.input("carried")
        state, row = inner.input("state"), inner.input("row")
        state = inner.op("Add", [state, inner.op("Mul", [row, carried])])  # reads the loop's value
        inner.output(state)
        inner.output(inner.op("Identity", [state]))
        first = body.op("ReduceSum", [body.op("Mul", [x, F32(0)]), np.array([0])], keepdims=0)
        last, _ = body.op("Scan", [first, x], outputs=2, body=inner, num_scan_inputs=1)
        body.output(cond)
        body.output(last)
        g.output(g.op("Loop", [np.array(2), None, g.op("ReduceMax", [x, np.array([0])], keepdims=0)], body=body))
        model.infer()
        x = np.array([[1, 2], [3, 1]], F32)
        once = x.sum(0) * x.max(0)
        np.testing.assert_allclose(tenonrt.InferenceSession(model).run(None, {"x": x})[0], x.sum(0) * once)

    def test_graphs_that_no_node_holds(self):
        model = tenonrt.Model.new("g")
        g = model.graph
        x = g.input("x", "f32[2]")
        g.output(g.op("Neg", [x]))
        body = g.subgraph("body")
        inner = body.subgraph("inner")
        value = inner.op("Exp", [x])
        with self.assertRaisesRegex(tenonrt.TenonError, 'no node holds the graph "body"|no node holds the graph "inner"'):
            model.verify()
        with self.assertRaisesRegex(tenonrt.TenonError, "not made to be nested"):
            g.op("Loop", [np.array(1), None], outputs=0, body=inner)
        inner.erase()
        self.assertFalse(inner.alive or value.alive)
        with self.assertRaises(ReferenceError):
            inner.op("Exp", [x])
        model.verify()
        with self.assertRaisesRegex(tenonrt.TenonError, "cannot be erased"):
            g.erase()
        body.erase()
        self.assertEqual(repr(body), "<Graph, erased>")

    def test_wrong_places(self):
        g = tenonrt.Model.new("g").graph
        x = g.input("x", "bool[]")
        body, other = g.subgraph("body"), tenonrt.Model.new("other").graph.subgraph()
        with self.assertRaisesRegex(tenonrt.TenonError, "no attribute \"body\" that holds a graph"):
            g.op("Neg", [x], body=body)
        with self.assertRaisesRegex(ValueError, "another model"):
            g.op("If", [x], then_branch=body, else_branch=other)
        self.assertTrue(body.alive)  # the caller's still
        with self.assertRaises(TypeError):
            g.op("If", [x], then_branch=3)
        node = g.op("If", [x], then_branch=body).definition
        with self.assertRaisesRegex(tenonrt.TenonError, "a node holds the graph"):
            node.set("else_branch", body)
        with self.assertRaisesRegex(tenonrt.TenonError, "a node holds the graph"):
            body.erase()
        with self.assertRaisesRegex(tenonrt.TenonError, "no attribute"):
            node.take_graph("else_branch")
        self.assertEqual(len(g), 1)

    def test_other_graph_for_a_node(self):
        model = self.loop()
        g = model.graph
        node = g.nodes[-1]
        body = node.get("body")
        term = body.find("term")
        n, _, zero = node.operands
        taken = node.take_graph("body")
        self.assertIs(taken, body)
        self.assertEqual(node.graphs, [])
        total, terms = g.op("Loop", [n, None, zero], outputs=2, body=taken)
        node.replace(total, terms)
        self.assertTrue(term.alive)
        model.verify()
        self.check_loop(model)
        total.definition.set("body", g.subgraph("empty"))  # what was there goes
        self.assertFalse(body.alive or term.alive)

    def test_depth_is_bounded(self):
        graph = tenonrt.Model.new("g").graph
        with self.assertRaisesRegex(tenonrt.TenonError, "nested deeper"):
            for _ in range(10000):
                graph = graph.subgraph()

    def test_reading_what_was_erased_with_the_graph_around(self):
        g = tenonrt.Model.new("g").graph
        outer = g.subgraph("outer")
        node = g.op("If", [g.input("c", "bool[]")], then_branch=outer).definition
        read = outer.op("Exp", [g.input("x", "f32")], name="read")
        loose = outer.subgraph("loose")
        reader = loose.op("Neg", [read]).definition
        node.erase()
        self.assertFalse(outer.alive or read.alive)
        with self.assertRaises(ReferenceError):
            reader.operands[0].definition  # noqa: B018


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


if __name__ == "__main__":
    unittest.main()
