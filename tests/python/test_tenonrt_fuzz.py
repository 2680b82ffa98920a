# SPDX-License-Identifier: Apache-2.0
"""Random changes to graphs from Python: whatever is done, the answer is a result or an exception, never a crash."""
import gc
import random
import unittest

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt  # noqa: E402
from test_tenonrt_graph import mlp, with_branches  # noqa: E402

ROUNDS = 300
OPS = ["Neg", "Add", "Relu", "MatMul", "Split", "Concat", "Reshape", "Shape", "Transpose", "Identity", "If", "Softmax", "Cast"]
ATTRIBUTES = [("axis", 1), ("axis", -9), ("perm", [1, 0]), ("to", 7), ("alpha", "x"), ("value", np.ones(2)), ("axis", [0.5])]
REFUSALS = (tenonrt.TenonError, ValueError, TypeError, ReferenceError, NotImplementedError)


def change(rng, model, values, nodes):
    g, pick = model.graph, rng.choice
    kind = rng.randrange(9)
    if kind < 3:
        operands = [pick([*values, None]) for _ in range(rng.randrange(4))]
        before = pick([None, None, *nodes])
        made = g.op(pick(OPS), operands, outputs=rng.choice([1, 1, 1, 2, 0]), before=before)
        values.extend(made if isinstance(made, list) else [made])
    elif kind == 3:
        pick(values).replace_with(pick(values))
    elif kind == 4:
        pick(nodes).erase()
    elif kind == 5:
        pick(nodes).set_operand(rng.randrange(3), pick([*values, None]))
    elif kind == 6:
        pick(nodes).set(*pick(ATTRIBUTES))
    elif kind == 7:
        g.output(pick(values), rng.choice(["", "o", "y"]))
    else:
        pick(values).rename(rng.choice(["a", "x", "", "ä%"]))


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except REFUSALS:
        return None


def use(model, values):
    attempt(model.verify)
    for look in (model.text, model.dot, lambda: [str(v) for v in values], lambda: tenonrt.visit(model, default=repr)):
        attempt(look)
    attempt(model.infer)
    session = attempt(tenonrt.InferenceSession, model)
    if session:
        feed = {"x": np.ones((2, 4), np.float32), "c": np.array(True)}
        attempt(session.run, None, {arg.name: feed[arg.name] for arg in session.get_inputs() if arg.name in feed})


class Fuzz(unittest.TestCase):
    def test_changes(self):
        for seed in range(ROUNDS):
            with self.subTest(seed=seed):
                rng = random.Random(seed)
                model = mlp() if seed % 2 else tenonrt.load(with_branches().SerializeToString())
                values, nodes = list(model.graph.values()), list(model.graph)
                for node in list(nodes):
                    for graph in node.graphs:
                        values += graph.values()
                        nodes += graph
                for _ in range(rng.randrange(1, 12)):
                    attempt(change, rng, model, values, nodes)
                    nodes = [node for node in {*nodes, *model.graph} if node.alive] or nodes
                    nodes.sort(key=repr)
                use(model, values)
        gc.collect()


if __name__ == "__main__":
    unittest.main()
