# SPDX-License-Identifier: Apache-2.0
"""tenonrt's visitors and mutators."""
import unittest

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt  # noqa: E402

F32 = np.float32


def chain():
    """y = neg(relu(x + 1) * 2), and z = exp(x + 1)."""
    model = tenonrt.Model.new("chain")
    g = model.graph
    added = g.op("Add", [g.input("x", "f32[n,4]"), F32(1)], name="a")
    g.output(g.op("Neg", [g.op("Mul", [g.op("Relu", [added], name="r"), F32(2)], name="m")]), "y")
    g.output(g.op("Exp", [added]), "z")
    return model


def branches():
    """y = if c then exp(a) else neg(x), where a = x + x."""
    text = """tn 1
    graph @g(%c: bool[], %x: f32[2]) -> (%y) {
      %a: f32[2] = Add(%x, %x) loc "first"
      %y: f32[2] = If(%c) {else_branch = graph @no() -> (%e) { %e: f32[2] = Neg(%x) loc "first" },
                           then_branch = graph @yes() -> (%t) { %t: f32[2] = Exp(%a) }} loc "last"
    }
    """
    return tenonrt.Model.from_text(text)


def run(model, **feeds):
    return tenonrt.InferenceSession(model).run(None, feeds)


class Walking(unittest.TestCase):
    def test_order(self):
        seen = []
        calls = tenonrt.visit(
            branches(),
            {"Exp": lambda node: seen.append("exp")},
            default=lambda node: seen.append(node.op),
            input=lambda value: seen.append(value.name),
            graph=lambda graph: seen.append("@" + graph.name),
        )
        self.assertEqual(calls, len(seen))
        self.assertEqual(seen, ["@g", "c", "x", "Add", "@no", "Neg", "@yes", "exp", "If"])

    def test_all_hooks(self):
        seen = []

        class All(tenonrt.Visitor):
            def note(self, text):
                seen.append(f"{text}:{self.count}")

            def visit_node(self, node):
                self.note(node.results[0].name)

            def visit_Add(self, node):
                self.note("+")

            def visit_graph(self, graph):
                self.note("@" + graph.name)

            def visit_input(self, value):
                self.note(value.name)

            visit_location = visit_op = visit_type = note

        All().visit(branches())
        head = ["@g:1", "bool[]:1", "c:1", "f32[2]:1", "x:1", "first:1", "Add:1", "f32[2]:2", "+:1", "last:1", "If:1", "f32[2]:3"]
        no = ["@no:1", "first:2", "Neg:1", "f32[2]:4", "e:1"]
        yes = ["@yes:1", "Exp:1", "f32[2]:5", "t:1"]
        self.assertEqual(seen, [*head, *no, *yes, "y:1"])
        seen.clear()
        All().visit(branches().graph.find("y").definition.get("then_branch"))
        self.assertEqual(seen, ["@yes:1", "Exp:1", "f32[2]:1", "t:1"])

    def test_what_a_value_depends_on(self):
        g = chain().graph
        seen = []

        class Counts(tenonrt.Visitor):
            def visit_node(self, node):
                seen.append((node.op, self.count))

            def visit_constant(self, node):
                seen.append(("const", self.count))

            def visit_input(self, value):
                seen.append((value.name, self.count))

        Counts().visit(g.op("Add", [g.find("a"), g.find("m")]))
        self.assertEqual(
            seen, [("x", 1), ("const", 1), ("Add", 2), ("Relu", 1), ("const", 1), ("Mul", 1), ("Add", 1)]
        )
        seen.clear()
        Counts().visit(g.inputs[0])
        self.assertEqual(seen, [("x", 1)])

    def test_descend(self):
        seen = []
        model = branches()
        tenonrt.visit(model, default=lambda node: seen.append(node.op), descend=lambda node: node.op != "If")
        self.assertEqual(seen, ["Add", "If"])

        def erase(node):
            node.graphs[0].nodes[0].erase()

        with self.assertRaisesRegex(tenonrt.TenonError, "cannot be changed"):
            tenonrt.visit(model, descend=erase)
        with self.assertRaisesRegex(KeyError, "what"):
            tenonrt.visit(model, default=seen.append, descend=lambda node: {}["what"])
        model.graph.op("Neg", [model.graph.inputs[1]])  # it can be changed again

    def test_ops_of_other_domains(self):
        model = tenonrt.Model.new("g")
        x = model.graph.input("x", "f32[2]")
        for op in ("Gelu", "com.microsoft.Gelu"):
            model.graph.output(model.graph.op(op, [x]))
        seen = []
        tenonrt.visit(model, {"com.microsoft.Gelu": lambda node: seen.append(node.domain)}, lambda node: seen.append("other"))
        self.assertEqual(seen, ["other", "com.microsoft"])

        class Both(tenonrt.Visitor):
            def visit_Gelu(self, node):
                seen.append(node.domain or "onnx")

            def visit_com_microsoft_Gelu(self, node):
                seen.append("ms")

        seen.clear()
        Both().visit(model)
        self.assertEqual(seen, ["onnx", "ms"])

    def test_classes(self):
        class Ops(tenonrt.Visitor):
            def __init__(self):
                self.ops, self.heavy = [], 0

            def visit_Mul(self, node):
                self.heavy += 1

            def visit_node(self, node):
                self.ops.append(node.op)

        visitor = Ops()
        visitor.visit(chain())
        self.assertEqual(visitor.heavy, 1)
        self.assertEqual(visitor.ops, ["Const", "Add", "Relu", "Const", "Neg", "Exp"])

        class Wrong(tenonrt.Visitor):
            def visit_Matmul(self, node):
                pass

        with self.assertRaisesRegex(tenonrt.TenonError, "Matmul"):
            Wrong().visit(chain())

    def test_changes_while_walking(self):
        model = chain()
        tenonrt.visit(model, {"Relu": lambda node: node.replace(node.operands[0])})
        self.assertNotIn("Relu", [node.op for node in model.graph])
        model.verify()
        x = -np.ones((1, 4), F32) * 3
        np.testing.assert_allclose(run(model, x=x)[0], -(x + 1) * 2)

    def test_erasing_others_while_walking(self):
        model = branches()
        y = model.graph.find("y")
        seen = []

        def erase(node):
            seen.append(node.op)
            if node.op == "Neg":  # the node that the walk is in, with what it would come to next
                y.replace_with(model.graph.find("a"))
                y.definition.erase()
                model.graph.op("Relu", [model.graph.inputs[1]])  # not visited

        tenonrt.visit(model, default=erase, location=seen.append)
        self.assertEqual(seen, ["first", "Add", "last", "first", "Neg"])
        model.verify()

    def test_ends(self):
        def fail(node):
            raise KeyError(node.op)

        def stop(node):
            seen.append(node)
            raise tenonrt.StopVisit

        seen = []
        with self.assertRaisesRegex(KeyError, "Mul"):
            tenonrt.visit(chain(), {"Mul": fail})
        tenonrt.visit(chain(), default=stop)
        self.assertEqual(len(seen), 1)
        with self.assertRaisesRegex(tenonrt.TenonError, "Mull"):
            tenonrt.visit(chain(), {"Mull": fail})
        with self.assertRaises(TypeError):
            tenonrt.visit(3)

    def test_long_chains(self):
        model = tenonrt.Model.new("g")
        value = model.graph.input("x", "f32[1]")
        for _ in range(20000):
            value = model.graph.op("Neg", [value])
        counts = []
        tenonrt.visit(value, default=counts.append)
        self.assertEqual(len(counts), 20000)


class Mutating(unittest.TestCase):
    def test_by_op(self):
        class Cheaper(tenonrt.Mutator):
            def mutate_Relu(self, node, graph, operands):
                self.seen = node.results[0].name
                return graph.op("Abs", operands)

        model, mutator = chain(), Cheaper()
        out = mutator.mutate(model)
        self.assertIs(type(out), tenonrt.Model)
        self.assertEqual(mutator.seen, "r")
        self.assertEqual([node.op for node in out.graph], ["Const", "Add", "Abs", "Const", "Mul", "Neg", "Exp"])
        self.assertEqual(out.graph.find("r").definition.op, "Abs")  # the name went over
        self.assertTrue(out.changed)
        self.assertIn("Relu", model.text())
        x = np.linspace(-4, 4, 8, dtype=F32).reshape(2, 4)
        y, z = run(out, x=x)
        np.testing.assert_allclose(y, -abs(x + 1) * 2)
        np.testing.assert_allclose(z, np.exp(x + 1), rtol=1e-5)

    def test_nothing_changes(self):
        kept = []

        class Look(tenonrt.Mutator):
            def mutate_node(self, node, graph, operands):
                kept.extend(operands)
                kept.append(graph)
                graph.op("Neg", [graph.inputs[0]])  # nobody reads it

        model = chain()
        self.assertIs(Look().mutate(model), model)
        self.assertIs(tenonrt.Mutator().mutate(model), model)
        self.assertEqual(len(model.graph), 7)
        for handle in kept:
            self.assertFalse(handle.alive)
            with self.assertRaises(ReferenceError):
                handle.name  # noqa: B018

    def test_nested_graphs(self):
        class Negate(tenonrt.Mutator):
            def mutate_Exp(self, node, graph, operands):
                return graph.op("Neg", [graph.op("Relu", operands)])

        out = Negate().mutate(branches())
        out.infer()
        x = np.array([1, -2], F32)
        np.testing.assert_allclose(run(out, c=np.array(True), x=x)[0], [-2, 0])
        np.testing.assert_allclose(run(out, c=np.array(False), x=x)[0], -x)

    def test_other_hooks(self):
        class Half(tenonrt.Mutator):
            types, graphs = [], []

            def mutate_type(self, text):
                self.types.append(text)
                return text.replace("f32[n", "f64[n") if "n" in text else None

            def mutate_input(self, old, new):
                self.names = (old.name, new.name)
                return new.owner.op("Cast", [new], to=1)

            def mutate_constant(self, node, graph, operands):
                return graph.constant(node.results[0].constant() + 1)

            def mutate_graph(self, old, new):
                self.graphs.append((old.name, len(new)))
                return False

        mutator = Half()
        out = mutator.mutate(chain())
        self.assertEqual(mutator.names, ("x", "x"))
        self.assertEqual(mutator.types.count("f32[n,4]"), 1)
        self.assertEqual(mutator.graphs, [("chain", 8)])
        self.assertEqual(out.graph.inputs[0].type, "f64[n,4]")
        x = np.ones((1, 4))
        np.testing.assert_allclose(run(out, x=x)[0], -(x + 2) * 3)

    def test_locations_and_added_outputs(self):
        class Name(tenonrt.Mutator):
            def mutate_location(self, text):
                return "my " + text if text == "first" else None

            def mutate_graph(self, old, new):
                if old.name != "g":
                    return False
                new.output(new.find("a"), "more")
                return True

        out = Name().mutate(branches())
        self.assertEqual([node.name for node in out.graph], ["my first", "last"])
        self.assertEqual(out.graph.nodes[1].graphs[0].nodes[0].name, "my first")
        np.testing.assert_allclose(run(out, c=np.array(True), x=np.ones(2, F32))[1], [2, 2])

    def test_several_results(self):
        model = tenonrt.Model.new("g")
        g = model.graph
        a, _ = g.op("Split", [g.input("x", "f32[4]")], outputs=2, axis=0, num_outputs=2)
        g.output(a, "y")

        class First(tenonrt.Mutator):
            def mutate_Split(self, node, graph, operands):
                return [graph.op("Slice", [operands[0], np.array([0]), np.array([2])]), None]

        np.testing.assert_array_equal(run(First().mutate(model), x=np.arange(4, dtype=F32))[0], [0, 1])

    def test_wrong_answers(self):
        def mutator(function):
            return type("M", (tenonrt.Mutator,), {"mutate_Relu": staticmethod(function)})()

        model = chain()
        for function, error, said in [
            (lambda node, graph, operands: [None], tenonrt.TenonError, "gave nothing"),
            (lambda node, graph, operands: [], ValueError, "has 1 results"),
            (lambda node, graph, operands: node.results[0], ValueError, "another model"),
            (lambda node, graph, operands: 3, TypeError, ""),
            (lambda node, graph, operands: [3], TypeError, ""),
            (lambda node, graph, operands: {}[node.op], KeyError, "Relu"),
            (lambda node, graph, operands: node.erase(), tenonrt.TenonError, "cannot be changed"),
            (lambda node, graph, operands: graph.op("Nothing", operands), tenonrt.TenonError, "Nothing"),
            (lambda node, graph, operands: operands[0].definition.erase(), tenonrt.TenonError, "was erased"),
            (lambda node, graph, operands: graph.model.infer(), tenonrt.TenonError, "NULL"),
            (lambda node, graph, operands: graph.subgraph().op("Neg", operands), tenonrt.TenonError, "no value of the graph"),
        ]:
            with self.assertRaisesRegex(error, said):
                mutator(function).mutate(model)
            model.verify()
        model.graph.op("Neg", [model.graph.inputs[0]])  # it can be changed again

    def test_erasing_the_node_around(self):
        class Dig(tenonrt.Mutator):
            def mutate_Neg(self, node, graph, operands):
                owner = operands[0].owner.nodes[-1]
                assert owner.op == "If"
                owner.erase()

        with self.assertRaisesRegex(tenonrt.TenonError, "erased the node"):
            Dig().mutate(branches())

    def test_bad_types(self):
        class Wrong(tenonrt.Mutator):
            def mutate_type(self, text):
                return "f32[" if "n" in text else None

        with self.assertRaisesRegex(tenonrt.TenonError, "the text ends"):
            Wrong().mutate(chain())


if __name__ == "__main__":
    unittest.main()
