# SPDX-License-Identifier: Apache-2.0
"""Passes from Python: written, run by name, chosen for sessions; plug-ins that the package loads."""
import gc
import os
import subprocess
import sys
import threading
import unittest
import warnings

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt  # noqa: E402
from harness import BUILD, scratch  # noqa: E402

FOLDER = scratch("tenonrt_passes")
X = np.array([[-1.0, 2.0, -3.0]], np.float32)
TEXT = """tn 1
graph @main(%x: f32[n,3]) -> (%y) {
  %a = Relu(%x)
  %y = Add(%a, 1.0)
}
"""
BRANCHES = """tn 1
graph @main(%c: bool[], %x: f32[3]) -> (%y) {
  %y = If(%c) {
    then_branch = graph @yes() -> (%e) { %e = Exp(%x) },
    else_branch = graph @no() -> (%m) { %m = Neg(%x) }
  }
}
"""


def plugin(name, folder="tests/plugins"):
    return os.path.join(BUILD, folder, f"{name}.so")


def relu_to_abs(graph):
    for node in graph.nodes:
        if node.op == "Relu":
            node.replace(graph.op("Abs", node.operands, before=node))


class Passes(unittest.TestCase):
    def setUp(self):
        self.model = tenonrt.Model.from_text(TEXT)
        self.registered = []

    def tearDown(self):
        for name in self.registered:
            tenonrt.unregister_pass(name)

    def register(self, function, **options):
        done = tenonrt.register_pass(function, **options)
        self.registered.append(options.get("name") or function.__name__)
        return done

    def answer(self, session):
        return session.run(None, {"x": X})[0].tolist()

    # Registering.

    def test_decorator(self):
        seen = []

        @tenonrt.register_pass
        def look_first(graph):
            """Looks.

            At nothing much."""
            seen.append(1)

        @tenonrt.register_pass(phase="post_rewrite", order=20)
        def look_second(graph, run):
            seen.append(run.name)

        self.registered += ["look_first", "look-second"]
        tenonrt.InferenceSession(self.model)
        self.assertEqual(seen, [1, "look-second"])
        self.assertIn("look_first", dir(tenonrt.passes))
        self.assertEqual(look_first.__name__, "look_first")
        self.assertIn("Looks.\n\nA program pass; runs at post-rewrite 10.", tenonrt.passes.look_first.__doc__)

    def test_what_is_refused(self):
        def fine(graph):
            pass

        for options, says in (
            ({"phase": "pre-rewrite"}, "no phase"),
            ({"kind": "stm"}, "no kind"),
            ({"name": "a b"}, "no name for a pass"),
            ({"name": "remove-dead"}, "already"),
            ({"phase": "post-partition"}, "per_shape"),
            ({"per_shape": True}, "for post-partition only"),
            ({"opt_level": 7}, "levels are 0 to 3"),
            ({"options": {"n": None}}, "neither a number"),
            ({"options": {"a b": 1}}, "no name for an option"),
            ({"options": {f"n{i}": i for i in range(9)}}, "at most 8"),
        ):
            with self.assertRaises(Exception, msg=options) as raised:
                tenonrt.register_pass(fine, **options)
            self.assertIn(says, str(raised.exception))
        with self.assertRaisesRegex(ValueError, "has no name"):
            tenonrt.register_pass(lambda graph: None)
        with self.assertRaises(tenonrt.TenonError):
            tenonrt.unregister_pass("fine")

    def test_names(self):
        self.register(lambda graph: None, name="my_pass")
        with self.assertRaisesRegex(tenonrt.TenonError, "already"):
            tenonrt.register_pass(lambda graph: None, name="my-pass")
        tenonrt.unregister_pass("my-pass")
        tenonrt.register_pass(lambda graph: None, name="my-pass")

    def test_order_and_phases(self):
        seen = []
        for name, phase, order in (
            ("z", "post-rewrite", 10),
            ("y", "post-rewrite", 20),
            ("b", "pre-placement", 5000),
            ("a", "post-rewrite", 20),
            ("c", "post-placement", 0),
            ("d", None, 0),
        ):
            self.register(lambda graph, name=name, *_: seen.append(name), name=f"order-{name}", phase=phase, order=order)
        self.registered = [f"order-{name}" for name in "zybacd"]
        tenonrt.InferenceSession(self.model)
        self.assertEqual("".join(seen), "bczay")
        seen.clear()
        self.model.run_passes(["order-d", "order-z", "order-d"])
        self.assertEqual("".join(seen), "dz")  # the third finds nothing changed

    def test_each_graph(self):
        whole, each = [], []
        self.register(lambda graph: whole.append(graph.name), name="whole")
        self.register(lambda graph: each.append(graph.name), name="each", each_graph=True)
        tenonrt.Model.from_text(BRANCHES).run_passes("whole,each")
        self.assertEqual(whole, ["main"])
        self.assertEqual((set(each[:2]), each[2]), ({"yes", "no"}, "main"))

    def test_each_set_of_sizes(self):
        seen = []
        self.register(
            lambda graph: seen.append(graph.inputs[0].shape), name="sizes", phase="post-partition", order=0, per_shape=True
        )
        session = tenonrt.InferenceSession(self.model)
        for n in (2, 5, 2):
            session.run(None, {"x": np.zeros((n, 3), np.float32)})
        self.assertEqual(seen, [(2, 3), (5, 3)])

    def test_options(self):
        seen = []
        presets = {"n": 3, "f": 0.5, "b": True, "s": 'a "b"'}
        self.register(lambda graph, run: seen.append(run.options), name="opts", phase=None, options=presets)
        tenonrt.passes.opts(self.model)
        tenonrt.passes.opts(self.model, n=-7, f=1e-3, b=False, s="x\\y,z")
        self.assertEqual(seen, [presets, {"n": -7, "f": 1e-3, "b": False, "s": "x\\y,z"}])
        with self.assertRaisesRegex(tenonrt.TenonError, 'no option "m"'):
            tenonrt.passes.opts(self.model, m=1)
        with self.assertRaisesRegex(tenonrt.TenonError, "wants a whole number"):
            tenonrt.passes.opts(self.model, n=1.5)
        with self.assertRaises(ValueError):
            tenonrt.passes.opts(self.model, f=float("nan"))

    # Changing.

    def test_changes(self):
        self.register(relu_to_abs, phase="pre-placement", order=-50)
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model)), [[2, 3, 4]])
        self.assertEqual([node.op for node in self.model.graph.nodes if node.op != "Const"], ["Relu", "Add"])
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model, disabled_optimizers=["relu_to_abs"])), [[1, 3, 1]])

    def test_in_place(self):
        self.register(relu_to_abs, phase=None)
        relu = self.model.graph.find("a").definition
        y = self.model.graph.find("y")
        record = tenonrt.passes.relu_to_abs(self.model.graph)
        self.assertTrue(record)
        self.assertTrue(record.changed)
        self.assertFalse(relu.alive)
        self.assertIs(self.model.graph.find("y"), y)
        self.assertEqual(y.definition.operands[0].definition.op, "Abs")
        self.assertFalse(tenonrt.passes.relu_to_abs(self.model))
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model)), [[2, 3, 4]])

    def test_optimize(self):
        self.register(relu_to_abs, phase=None)
        report = []
        better = self.model.optimize(["relu-to-abs", "remove-dead"], report=report, verify=True)
        self.assertEqual([record.name for record in report], ["relu-to-abs", "remove-dead"])
        self.assertEqual(self.answer(tenonrt.InferenceSession(better, passes="")), [[2, 3, 4]])
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model)), [[1, 3, 1]])

    def test_counts_and_limits(self):
        model = tenonrt.Model.from_text("tn 1\ngraph @main(%x: f32[3]) -> (%z) {\n  %y = Relu(%x)\n  %z = Relu(%y)\n}\n")

        def rename(graph, run):
            for node in graph.nodes:
                if run.may_change():
                    node.results[0].rename(node.op.lower())
                    run.count("renamed")

        self.register(rename, phase=None, kind="stmt")
        (record,) = model.clone().run_passes("rename")
        self.assertEqual((record.counts, record.n_changes), ({"renamed": 2}, 2))
        (record,) = model.clone().run_passes("rename", max_changes=1)
        self.assertEqual((record.counts, record.n_changes), ({"renamed": 1}, 1))
        self.assertEqual(model.clone().run_passes("rename,remove-dead", max_passes=1)[1].outcome, "beyond limit")

    def test_kinds(self):
        self.register(relu_to_abs, phase=None, kind="debug")
        with self.assertRaisesRegex(tenonrt.TenonError, "debug pass"):
            self.model.optimize("relu_to_abs")

    def test_bound_to_what_is_not_there(self):
        seen = []
        self.register(seen.append, name="bound", kernels=["Relu", "fc@cpu"])
        self.register(seen.append, name="elsewhere", targets=["npu"])
        report = []
        self.model.optimize(report=report)
        self.assertEqual(seen, [])
        outcomes = {record.name: (record.outcome, record.why) for record in report}
        self.assertEqual(outcomes["bound"][0], "not applicable")
        self.assertIn("a kernel for fc on cpu", outcomes["bound"][1])
        self.assertIn("npu", outcomes["elsewhere"][1])

    def test_passes_in_a_pass(self):
        def both(graph):
            tenonrt.passes.relu_to_abs(graph)
            graph.model.run_passes("remove-dead")

        self.register(relu_to_abs, phase=None)
        self.register(both, phase=None)
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model, passes="both")), [[2, 3, 4]])
        tenonrt.passes.both(self.model)
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model)), [[2, 3, 4]])

    # What goes wrong.

    def test_exceptions(self):
        class Own(Exception):
            pass

        error = Own("from the pass")

        def fail(graph):
            raise error

        for phase in ("pre-placement", "post-rewrite"):
            self.register(fail, phase=phase)
            for attempt in (
                lambda: tenonrt.InferenceSession(self.model),
                lambda: self.model.optimize(),
                lambda: self.model.run_passes(),
                lambda: tenonrt.passes.fail(self.model),
            ):
                with self.assertRaises(Own) as raised:
                    attempt()
                self.assertIs(raised.exception, error)
            tenonrt.unregister_pass(fail)
            self.registered.pop()
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model)), [[1, 3, 1]])

    def test_exceptions_while_running(self):
        def fail(graph):
            raise KeyError(graph.inputs[0].shape)

        self.register(fail, phase="post-partition", per_shape=True)
        session = tenonrt.InferenceSession(self.model)
        for _ in range(2):
            with self.assertRaises(KeyError):
                session.run(None, {"x": X})
        with self.assertRaises(KeyError):
            tenonrt.InferenceSession(tenonrt.Model.from_text(TEXT.replace("[n,3]", "[1,3]")))

    def test_gone_after_the_pass(self):
        kept = []

        def keep(graph, run):
            constant = next(node for node in graph.nodes if node.op == "Const").results[0]
            kept.extend((graph, graph.nodes[0], graph.inputs[0], graph.model, run, constant.constant()))

        self.register(keep)
        session = tenonrt.InferenceSession(self.model)
        del session
        gc.collect()
        graph, node, value, model, run, array = kept
        for ask in (
            lambda: graph.nodes,
            lambda: len(graph),
            lambda: node.op,
            lambda: node.set("x", 1),
            lambda: value.type,
            lambda: graph.op("Relu", [value]),
            lambda: model.graph,
            lambda: model.text(),
            lambda: model.dot(),
            lambda: model.verify(),
            lambda: model.infer(),
            lambda: model.inputs(),
            lambda: model.outputs(),
            lambda: model.metadata,
            lambda: model.clone(),
            lambda: model.save("x.tn"),
            lambda: model.optimize(),
            lambda: model.run_passes(),
            lambda: tenonrt.InferenceSession(model),
            lambda: tenonrt.visit(graph),
            lambda: tenonrt.visit(model),
            lambda: tenonrt.Mutator().mutate(model),
            lambda: run.options,
            lambda: run.count("x"),
            lambda: run.may_change(),
            lambda: run.model,
            lambda: run.name,
        ):
            self.assertRaises(ReferenceError, ask)
        self.assertFalse(node.alive)
        self.assertIn("ended", repr(model))
        self.assertEqual(array.tolist(), 1)

    def test_kept_in_place(self):
        kept = []
        self.register(lambda graph: kept.append(graph), name="keeping", phase=None)
        tenonrt.passes.keeping(self.model)
        self.assertIs(kept[0], self.model.graph)
        self.assertEqual(len(kept[0].nodes), 3)

    def test_no_session_in_between(self):
        seen = []

        def run_it(graph):
            with self.assertRaisesRegex(tenonrt.TenonError, "clone"):
                tenonrt.InferenceSession(graph.model)
            seen.append(tenonrt.InferenceSession(graph.model.clone(), passes=""))

        self.register(run_it, phase=None)
        tenonrt.InferenceSession(self.model, passes="run_it")
        tenonrt.passes.run_it(self.model)
        for session in seen:
            self.assertEqual(self.answer(session), [[1, 3, 1]])

    def test_sessions_of_the_same_model_in_a_pass(self):
        """They are made and dropped under a lock that the thread holds already."""
        old = [tenonrt.InferenceSession(self.model, passes="")]
        depth = []

        def make_and_drop(graph):
            if depth:
                return
            depth.append(1)
            old.clear()
            gc.collect()
            tenonrt.InferenceSession(self.model)

        self.register(make_and_drop)
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model)), [[1, 3, 1]])
        self.assertEqual(depth, [1])

    def test_threads(self):
        """Some make sessions of one model, whose pass needs the interpreter; others drop theirs meanwhile."""
        errors = []
        self.register(lambda graph: sum(range(2000)), name="slow-pass")

        def work(i):
            try:
                for k in range(10):
                    levels = tenonrt.SessionOptions()
                    levels.graph_optimization_level = tenonrt.GraphOptimizationLevel((i + k) % 3)
                    self.assertEqual(self.answer(tenonrt.InferenceSession(self.model, levels)), [[1, 3, 1]])
                    tenonrt.InferenceSession(tenonrt.Model.from_text(TEXT))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive(), "they wait for each other")
        self.assertEqual(errors, [])

    def test_another_thread_stays_out(self):
        """What reads the model without the interpreter's lock waits until the passes that run on it have ended."""
        found = []

        def look(graph):
            def other():
                for use in (self.model.clone, self.model.optimize, lambda: self.model.save(os.path.join(FOLDER, "no.tn"))):
                    try:
                        use()
                    except tenonrt.TenonError as error:
                        found.append(error.status)

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            self.model.clone()

        self.register(look, phase=None)
        tenonrt.passes.look(self.model)
        self.assertEqual(found, ["STATE"] * 3)
        self.model.clone()

    def test_unregistered_while_it_is_wanted(self):
        def leave(graph):
            tenonrt.unregister_pass("left-over")

        self.register(leave, order=5)
        self.register(lambda graph: self.fail("it was unregistered"), name="left-over")
        self.registered.pop()
        with self.assertRaisesRegex(tenonrt.TenonError, "not registered any more"):
            tenonrt.InferenceSession(self.model)

    # Choosing.

    def test_module(self):
        self.assertIn("remove_dead", dir(tenonrt.passes))
        self.assertEqual(tenonrt.passes.remove_dead.__name__, "remove_dead")
        self.assertIn("nobody reads", tenonrt.passes.remove_dead.__doc__)
        with self.assertRaisesRegex(AttributeError, 'did you mean "remove-dead"'):
            tenonrt.passes.remove_daed
        dead = self.model.graph.op("Neg", [self.model.graph.inputs[0]])
        self.assertTrue(tenonrt.passes.remove_dead(self.model))
        self.assertFalse(dead.alive)

    def test_levels(self):
        ran = []
        for level in range(4):
            self.register(lambda graph, level=level, *_: ran.append(level), name=f"level-{level}", opt_level=level)
        self.registered = [f"level-{level}" for level in range(4)]
        levels = tenonrt.GraphOptimizationLevel
        for wanted, most in (
            (levels.ORT_DISABLE_ALL, 0),
            (levels.ORT_ENABLE_BASIC, 1),
            (levels.ORT_ENABLE_EXTENDED, 2),
            (levels.ORT_ENABLE_LAYOUT, 2),
            (levels.ORT_ENABLE_ALL, 2),
        ):
            ran.clear()
            options = tenonrt.SessionOptions()
            options.graph_optimization_level = wanted
            tenonrt.InferenceSession(self.model.clone(), options)
            self.assertEqual(ran, list(range(most + 1)), wanted)
        ran.clear()
        tenonrt.InferenceSession(self.model, options)
        tenonrt.InferenceSession(self.model, options)
        self.assertEqual(ran, [0, 1, 2], "sessions of one model share what the passes made")
        ran.clear()
        self.model.optimize(opt_level=3)
        self.assertEqual(ran, [0, 1, 2, 3])
        self.assertRaises(ValueError, lambda: self.model.optimize(opt_level=4))

    def test_disabled(self):
        ran = []
        for name in ("off-a", "off-b", "on"):
            self.register(lambda graph, name=name, *_: ran.append(name), name=name)
        self.registered = ["off-a", "off-b", "on"]
        options = tenonrt.SessionOptions()
        options.add_session_config_entry("optimization.disable_specified_optimizers", "off_a; off-b;")
        tenonrt.InferenceSession(self.model, options)
        self.assertEqual(ran, ["on"])
        tenonrt.InferenceSession(self.model, disabled_optimizers=["on", "off-a", "off-b"])
        self.assertEqual(ran, ["on"])
        with self.assertWarnsRegex(UserWarning, "ConstantFolding"):
            tenonrt.InferenceSession(self.model, disabled_optimizers={"ConstantFolding"})
        with self.assertRaisesRegex(tenonrt.TenonError, 'there is no pass "off-c"'):
            self.model.optimize(disable="off-c")

    def test_pipelines(self):
        self.register(relu_to_abs, phase=None)
        options = tenonrt.SessionOptions()
        options.passes = ["relu_to_abs", "remove-dead"]
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model, options)), [[2, 3, 4]])
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model, options, passes="")), [[1, 3, 1]])
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model.optimize(add=["relu_to_abs"]))), [[2, 3, 4]])
        with self.assertRaisesRegex(tenonrt.TenonError, 'did you mean "remove-dead"'):
            tenonrt.InferenceSession(self.model, passes="remove-daed")

    def test_saved(self):
        self.register(relu_to_abs, phase="pre-placement", order=-50)
        for ending in ("tn", "onnx"):
            options = tenonrt.SessionOptions()
            options.optimized_model_filepath = os.path.join(FOLDER, f"better.{ending}")
            tenonrt.InferenceSession(self.model, options)
            saved = tenonrt.load(options.optimized_model_filepath)
            self.assertNotIn("Relu", str(saved))
            self.assertEqual(self.answer(tenonrt.InferenceSession(saved, passes="")), [[2, 3, 4]])

    # Plug-ins.

    def test_plugins(self):
        scale = plugin("scale", "examples")
        text = "tn 1\ngraph @main(%x: f32[n,3]) -> (%y) {\n  %y = com.example.Scale(%x) {factor=3.0}\n}\n"
        self.assertRaisesRegex(tenonrt.TenonError, "no op", tenonrt.Model.from_text, text)
        tenonrt.load_plugin(scale)
        tenonrt.load_plugin(scale)
        session = tenonrt.InferenceSession(tenonrt.Model.from_text(text))
        self.assertEqual(self.answer(session), [[-3, 6, -9]])
        self.assertEqual(session.instructions()[0]["kernel"], "scale_fast")
        self.assertIn(("com.example", "Scale", "atomic", "x times a number"), tenonrt.ops())
        model = tenonrt.Model.new()
        x = model.graph.input("x", "f32[n,3]")
        model.graph.output(model.graph.op("com.example.Scale", [x], factor=-1.0), "y")
        self.assertEqual(self.answer(tenonrt.InferenceSession(model)), [[1, -2, 3]])
        for name in ("no_plugin", "other_version", "newer", "from_the_future", "duplicate"):
            with self.assertRaisesRegex(tenonrt.TenonError, name):
                tenonrt.load_plugin(plugin(name))
        tenonrt.load_plugin(plugin("wrong_pass"))
        self.assertEqual(self.answer(tenonrt.InferenceSession(self.model)), [[2, 3, 4]])
        self.assertEqual(tenonrt.passes.relu_to_abs(self.model.clone()).counts, {"broken": 1})
        tenonrt.unregister_pass("relu-to-abs")

    def run_python(self, code, **variables):
        env = dict(tenonrt_env.environment(), **variables)
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)

    def test_environment(self):
        code = "import tenonrt; print('print_calls' in dir(tenonrt.passes))"
        done = self.run_python(code, TENON_PLUGINS=plugin("print_calls", "examples"))
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"), done.stderr)
        done = self.run_python(code, TENON_PLUGINS="no/such.so")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the environment's TENON_PLUGINS names it", done.stderr)

    def test_ends_quietly(self):
        """A pass that is still registered when Python ends does no harm, nor does what it kept."""
        code = (
            "import tenonrt\nkept = []\ntenonrt.register_pass(kept.append, name='keep')\n"
            f"m = tenonrt.Model.from_text({TEXT!r})\ns = tenonrt.InferenceSession(m)\nprint(len(kept))\n"
        )
        done = self.run_python(code)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "1\n", ""))

    def test_only_what_is_public_shows(self):
        module = os.path.join(BUILD, "python", "tenonrt", "_tenon.abi3.so")
        listed = subprocess.run(["nm", "-D", "--defined-only", module], capture_output=True, text=True, check=True).stdout
        names = {line.split()[-1] for line in listed.strip().split("\n")}
        self.assertIn("tn_load_plugin", names)
        self.assertEqual({name for name in names if not name.startswith("tn_")}, {"PyInit__tenon"})


if __name__ == "__main__":
    warnings.simplefilter("error", ResourceWarning)
    unittest.main()
