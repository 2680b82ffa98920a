# SPDX-License-Identifier: Apache-2.0
"""If, Loop, Scan, SequenceMap and FlexAttention: random models, of which the answers are known as they are built."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .attention import shared_heads, softmax
from .core import Opt, int64
from .rows import inner_type
from .types import ARITHMETIC, EXACT, TYPE_NUMBERS, round_to, type_proto

GRAPHS = {}  # op -> function of a Random, attribute -> its values
CLASSIC = ("f32", "u8", "i8", "u16", "i16", "i32", "i64", "str", "bool", "f16", "f64", "u32", "u64", "c64", "c128")
PRESENT = "present"


def graph_generator(op, **attributes):
    def register(function):
        GRAPHS[op] = function, attributes
        return function

    return register


class Instance:
    """A model of one node: operands by name, and the results; each a (name, type, value)."""

    def __init__(self, node, operands, results, shaped=False, rtol=None):
        inputs = [helper.make_value_info(name, type_proto(kind, np.shape(value) if shaped else None)) for name, kind, value in operands]
        outputs = [helper.make_value_info(name, type_proto(kind)) for name, kind, _ in results]
        graph = helper.make_graph([node], "g", inputs, outputs)
        opsets = [helper.make_opsetid("", 25), helper.make_opsetid("ai.onnx.preview", 1)]
        self.model = helper.make_model(graph, opset_imports=opsets, ir_version=13)
        self.operands, self.results, self.rtol = operands, results, rtol


class Body:
    """A nested graph while it is written, and what it does."""

    def __init__(self, r, prefix):
        self.r, self.prefix, self.nodes, self.steps = r, prefix, [], []

    def add(self, op, operands, does, **attributes):
        name = f"{self.prefix}{len(self.steps)}"
        self.nodes.append(helper.make_node(op, operands, [name], **attributes))
        self.steps.append((name, operands, does))
        return name

    def constant(self, value):
        return self.add("Constant", [], lambda: value, value=numpy_helper.from_array(value))

    def mix(self, kind, values):
        """A value more of that type and shape out of some that are alike."""
        first, second = (values[self.r.integer(0, len(values) - 1)] for _ in range(2))
        if kind in ARITHMETIC and self.r.chance(0.6):
            op, does = self.r.one_of(("Add", np.add), ("Sub", np.subtract), ("Max", np.maximum))
            return self.add(op, [first, second], lambda a, b: round_to(does(a, b), kind))
        if not kind.startswith(("seq", "opt")) and self.r.chance(0.5):
            axes = self.r.one_of([1, 0], [0, 1])
            return self.add("Transpose", [first], lambda a: a.transpose(axes), perm=axes)
        if kind.startswith("seq") and inner_type(kind) in CLASSIC and self.r.chance(0.5):
            first = self.add("SequenceInsert", [first, "item"], lambda a, item: [*a, item])
        return self.add("Identity", [first], lambda a: a)

    def run(self, known):
        known = dict(known)
        for name, operands, does in self.steps:
            known[name] = does(*(known[operand] for operand in operands))
        return known

    def graph(self, inputs, outputs):
        """Each a list of (name, type)."""
        inputs, outputs = ([helper.make_value_info(name, type_proto(kind)) for name, kind in named] for named in (inputs, outputs))
        return helper.make_graph(self.nodes, "body", inputs, outputs)


def square(r, kind, n):
    """A value of any type: tensors are squares, which may be turned."""
    if kind.startswith("seq("):
        return [square(r, inner_type(kind), n) for _ in range(r.integer(0, 3))]
    if kind.startswith("opt("):
        return Opt(square(r, inner_type(kind), n) if r.chance(0.8) else None)
    return r.values([n, n], kind)


def items(r, kind, n):
    """What sequences grow by, as an operand of the model."""
    grows = kind.startswith("seq(") and inner_type(kind) in CLASSIC
    return [("item", inner_type(kind), r.values([n, n], inner_type(kind)))] if grows else []


def known_of(operands):
    return {name: value for name, _, value in operands}


# ---- If -------------------------------------------------------------------------------------------------------------


def branch(r, kind, names, results, prefix, depth=0):
    body = Body(r, prefix)
    values = list(names)
    for _ in range(r.integer(1, 3)):
        values.append(body.mix(kind, values))
    chosen = [values[r.integer(len(names), len(values) - 1)] for _ in range(results)]
    if depth == 0 and r.chance(0.3):
        chosen[0] = nested_if(r, body, kind, values, prefix)
    outputs = [body.add("Identity", [name], lambda a: a) for name in chosen]
    return body, outputs


def nested_if(r, body, kind, values, prefix):
    """Whose branches see the values of the branch that they stand in."""
    parts = [branch(r, kind, values, 1, f"{prefix}{side}_", 1) for side in "te"]
    graphs = [part.graph([], [(name, kind) for name in outputs]) for part, outputs in parts]
    condition = body.constant(np.array(r.chance(0.5)))
    name = f"{prefix}{len(body.steps)}"
    body.nodes.append(helper.make_node("If", [condition], [name], then_branch=graphs[0], else_branch=graphs[1]))

    def does(chosen, *seen):
        part, outputs = parts[0 if chosen else 1]
        return part.run(zip([*values, "item"], seen))[outputs[0]]

    more = ["item"] if kind.startswith("seq(") and inner_type(kind) in CLASSIC else []
    body.steps.append((name, [condition, *values, *more], does))
    return name


@graph_generator("If", then_branch=(PRESENT,), else_branch=(PRESENT,))
def if_model(r):
    kind, n, results = r.types["V"], r.size(), r.integer(1, 3)
    operands = [("c", "bool", np.array(r.chance(0.5)).reshape(r.one_of([], [1])))]
    operands += [(name, kind, square(r, kind, n)) for name in ("x", "y")] + items(r, kind, n)
    sides = [branch(r, kind, ["x", "y"], results, prefix) for prefix in "te"]
    graphs = [body.graph([], [(name, kind) for name in outputs]) for body, outputs in sides]
    names = [f"out{i}" for i in range(results)]
    node = helper.make_node("If", ["c"], names, then_branch=graphs[0], else_branch=graphs[1])
    body, outputs = sides[0 if operands[0][2].item() else 1]
    found = body.run(known_of(operands))
    return Instance(node, operands, [(name, kind, found[output]) for name, output in zip(names, outputs)], r.chance(0.5))


# ---- Loop -----------------------------------------------------------------------------------------------------------


def end_of_loop(r, body, has_trips):
    """Names the condition that a body comes to. Without a trip count it ends the loop."""
    if has_trips and r.chance(0.5):
        return body.add("Identity", ["go"], lambda go: go)
    most = body.constant(int64(r.integer(-1, 3)))
    return body.add("Less", ["turn", most], lambda turn, most: turn < most)


def run_loop(body, known, names, carried, trips, go, watched):
    """Turns and what they leave: `names` of the carried, what becomes of them, and what is stacked up."""
    turn, stacks = 0, [[] for _ in watched]
    counts_only, go = go is None and trips is not None, go is None or go
    while go and (trips is None or turn < trips):
        found = body.run({**known, "turn": int64(turn), "go": np.array(go)})
        known.update((name, found[value]) for name, value in zip(names, carried[1:]))
        for stack, name in zip(stacks, watched):
            stack.append(found[name])
        go, turn = counts_only or bool(found[carried[0]]), turn + 1
    return stacks


def loop_operands(r):
    trips = r.integer(0, 4) if r.chance(0.7) else None
    go = r.chance(0.8) if trips is None or r.chance(0.6) else None
    operands = [] if trips is None else [("trips", "i64", int64(trips).reshape(r.one_of([], [1])))]
    operands += [] if go is None else [("start", "bool", np.array(go).reshape(r.one_of([], [1])))]
    return trips, go, operands


@graph_generator("Loop", body=(PRESENT,))
def loop_model(r):
    kind, n = r.types["V"], r.size(1)
    trips, go, operands = loop_operands(r)
    names = [f"v{i}" for i in range(r.integer(1, 3))]
    starts = [(f"x{i}", kind, square(r, kind, n)) for i in range(len(names))]
    operands += starts + [("outer", kind, square(r, kind, n))] + items(r, kind, n)
    body = Body(r, "b")
    carried = [end_of_loop(r, body, trips is not None), *(body.mix(kind, [*names, "outer"]) for _ in names)]
    stacked = r.integer(0, 2) if not kind.startswith(("seq", "opt")) else 0
    watched = [body.mix(kind, [*names, *carried[1:]]) for _ in range(stacked)]
    graph = body.graph([("turn", "i64"), ("go", "bool"), *((name, kind) for name in names)],
                       [(carried[0], "bool"), *((name, kind) for name in [*carried[1:], *watched])])  # fmt: skip
    known = {**known_of(operands), **{name: value for name, (_, _, value) in zip(names, starts)}}
    stacks = run_loop(body, known, names, carried, trips, go, watched)
    results = [(f"out{i}", kind, known[name]) for i, name in enumerate(names)]
    results += [(f"all{i}", kind, stacked_up(stack, n, kind)) for i, stack in enumerate(stacks)]
    first = ["" if trips is None else "trips", "" if go is None else "start"]
    node = helper.make_node("Loop", first + [name for name, _, _ in starts], [name for name, _, _ in results], body=graph)
    turns = len(stacks[0]) if stacks else 1
    return Instance(node, operands, results, turns == 0 or r.chance(0.5))  # without turns only declared sizes tell the rest


def stacked_up(stack, n, kind):
    return np.stack(stack) if stack else np.zeros((0, n, n), EXACT[kind])


# ---- Scan -----------------------------------------------------------------------------------------------------------


def draw_each(r, name, n, values):
    """A list attribute with an entry for each scan input or output, or what stands for it."""
    if n == 0 or r.fixed.get(name, PRESENT if r.chance(0.4) else None) is None:
        return [0] * n
    return r.set(name, [r.one_of(*values) for _ in range(n)])


@graph_generator("Scan", body=(PRESENT,), num_scan_inputs=(1, 2, 3), scan_input_axes=(PRESENT, None),
                 scan_input_directions=(PRESENT, None), scan_output_axes=(PRESENT, None),
                 scan_output_directions=(PRESENT, None))  # fmt: skip
def scan_model(r):
    kind, n, turns = r.types["V"], r.size(1), r.integer(1, 4)
    inputs, states = r.draw("num_scan_inputs"), [f"s{i}" for i in range(r.integer(0, 2))]
    body = Body(r, "b")
    slices = [f"p{i}" for i in range(inputs)]
    carried = [body.mix(kind, [*states, *slices]) for _ in states]
    watched = [body.mix(kind, [*states, *slices, *carried]) for _ in range(r.integer(not states, 2))]
    in_axes, out_axes = (draw_each(r, f"scan_{side}_axes", count, range(-3, 3))
                         for side, count in (("input", inputs), ("output", len(watched))))  # fmt: skip
    in_ways, out_ways = (draw_each(r, f"scan_{side}_directions", count, (0, 1))
                         for side, count in (("input", inputs), ("output", len(watched))))  # fmt: skip
    stacks = [np.stack([r.values([n, n], kind) for _ in range(turns)]) for _ in slices]
    operands = [(f"x{i}", kind, r.values([n, n], kind)) for i in range(len(states))]
    known = {state: value for state, (_, _, value) in zip(states, operands)}
    operands += [(f"x{len(states) + i}", kind, np.moveaxis(stack[::-1] if way else stack, 0, axis))
                 for i, (stack, axis, way) in enumerate(zip(stacks, in_axes, in_ways))]  # fmt: skip
    found = run_scan(body, known, states, carried, dict(zip(slices, stacks)), watched)
    results = [(f"out{i}", kind, known[state]) for i, state in enumerate(states)]
    results += [(f"all{i}", kind, np.moveaxis(np.stack(stack[::-1] if way else stack), 0, axis))
                for i, (stack, axis, way) in enumerate(zip(found, out_axes, out_ways))]  # fmt: skip
    graph = body.graph([(name, kind) for name in [*states, *slices]], [(name, kind) for name in [*carried, *watched]])
    node = helper.make_node("Scan", [name for name, _, _ in operands], [name for name, _, _ in results], body=graph, **r.attributes)
    return Instance(node, operands, results, r.chance(0.5))


def run_scan(body, known, states, carried, stacks, watched):
    found = [[] for _ in watched]
    for turn in range(len(next(iter(stacks.values())))):
        values = body.run({**known, **{name: stack[turn] for name, stack in stacks.items()}})
        known.update((state, values[value]) for state, value in zip(states, carried))
        for stack, name in zip(found, watched):
            stack.append(values[name])
    return found


# ---- SequenceMap ----------------------------------------------------------------------------------------------------


@graph_generator("SequenceMap", body=(PRESENT,))
def sequence_map_model(r):
    kind, n, length = inner_type(r.types["S"]), r.size(), r.integer(0, 3)
    more = r.types["V"]  # of one additional operand, which the body hands on
    operands = [("items", f"seq({kind})", [r.values([n, n], kind) for _ in range(length)])]
    operands.append(("more", more, [r.values([n, n], inner_type(more)) for _ in range(length)] if more.startswith("seq") else square(r, more, n)))
    body, inner = Body(r, "b"), inner_type(more) if more.startswith("seq") else more
    first = body.mix(kind, ["item", "item"])
    second = body.mix(inner, ["other", "other"])
    graph = body.graph([("item", kind), ("other", inner)], [(first, kind), (second, inner)])
    found = [body.run({"item": item, "other": operands[1][2][i] if more.startswith("seq") else operands[1][2]})
             for i, item in enumerate(operands[0][2])]  # fmt: skip
    results = [("out0", f"seq({kind})", [values[first] for values in found]), ("out1", f"seq({inner})", [values[second] for values in found])]
    return Instance(helper.make_node("SequenceMap", ["items", "more"], ["out0", "out1"], body=graph), operands, results)


# ---- FlexAttention --------------------------------------------------------------------------------------------------


def modifier(r, kind, prefix, masks):
    """A graph that changes scores or probabilities, and what it does to them in double."""
    body, value = Body(r, prefix), "x"
    by = np.array(r.rng.uniform(0.5, 2), EXACT[kind])
    if r.chance(0.7):
        value = body.add("Mul", [value, body.constant(by)], lambda a, b: a * b.astype(np.float64))
    if r.chance(0.4):
        value = body.add("Tanh", [value], np.tanh)
    if masks is not None and r.chance(0.5):
        low = np.where(masks, 0.0, -np.inf)
        value = body.add("Add", [value, body.constant(low.astype(EXACT[kind]))], lambda a, b: a + b.astype(np.float64))
    value = body.add("Identity", [value], lambda a: a)
    return body.graph([("x", kind)], [(value, kind)]), lambda x: body.run({"x": x})[value]


@graph_generator("ai.onnx.preview.FlexAttention", prob_mod=(PRESENT, None), scale=(0.5, None), score_mod=(PRESENT, None),
                 softmax_precision=(1, 10, 11, 16, None))  # fmt: skip
def flex_model(r):
    kind, batch, kv_heads, queries, keys = r.types["T1"], r.size(), r.integer(1, 2), r.size(), r.size(1)
    heads, size, v_size = kv_heads * r.integer(1, 3), r.size(1), r.size(1)
    precision = r.draw("softmax_precision") or (11 if kind == "f64" else 1)
    inner = next(name for name, number in TYPE_NUMBERS.items() if number == precision)
    scale = r.draw("scale") or 1 / np.sqrt(size)
    q, k, v = (r.values(shape, kind, low=-1, high=1)
               for shape in ([batch, heads, queries, size], [batch, kv_heads, keys, size], [batch, kv_heads, keys, v_size]))
    masks = r.rng.integers(0, 2, (queries, keys)).astype(bool)
    masks[:, 0] = True
    changes = {}
    for name in ("score_mod", "prob_mod"):
        if r.draw(name):
            r.attributes[name], changes[name] = modifier(r, inner, name[0], masks if name == "score_mod" else None)
    same = lambda x: x  # noqa: E731
    scores = q.astype(np.float64) @ shared_heads(k.astype(np.float64), heads).swapaxes(-1, -2) * scale
    weights = changes.get("prob_mod", same)(softmax(changes.get("score_mod", same)(scores)))
    y = round_to(weights @ shared_heads(v.astype(np.float64), heads), kind)
    operands = [("q", kind, q), ("k", kind, k), ("v", kind, v)]
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", **r.attributes)
    coarse = {"bf16": 3e-2, "f16": 4e-3}
    return Instance(node, operands, [("y", kind, y)], rtol=max(coarse.get(kind, 1e-4), coarse.get(inner, 1e-4)))


# ---- files ----------------------------------------------------------------------------------------------------------


def as_message(kind, value):
    """A value as ONNX's tests have it in a file."""
    if kind.startswith("seq("):
        return helper.make_sequence("s", 1, [as_message(inner_type(kind), item) for item in value])
    if kind.startswith("opt("):
        inner = inner_type(kind)
        if value.value is None:
            return helper.make_optional("o", 0, None)
        return helper.make_optional("o", 3 if inner.startswith("seq(") else 1, as_message(inner, value.value))
    if kind == "str":
        flat = [text.encode() for text in np.asarray(value, object).ravel()]
        return helper.make_tensor("t", TensorProto.STRING, np.shape(value), flat)
    return numpy_helper.from_array(np.asarray(value).astype(EXACT[kind]))
