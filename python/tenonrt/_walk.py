# SPDX-License-Identifier: Apache-2.0
"""Walking and rebuilding models: functions and classes with a method for each op."""
from __future__ import annotations

from typing import Any, Callable, Generic, Mapping, Sequence, TypeVar, Union

from . import _tenon
from ._errors import InvalidArgument
from ._model import Graph, Model, Node, Value

F = TypeVar("F", bound=Callable[..., Any])
Start = Union[Model, Graph, Value]


class StopVisit(Exception):
    """Raised by a function of a visitor, it ends the walk."""


class _ByOp(Generic[F]):
    """Functions by the name of an op: "Conv" (of any domain), "com.microsoft.QGemm", or that with underscores for dots."""

    def __init__(self, whose: str, functions: Mapping[str, F], default: F | None, constant: F | None) -> None:
        known: set[str] = set()
        for domain, name, *_ in _tenon.ops():
            full = f"{domain}.{name}".lstrip(".")
            known.update((name, full, full.replace(".", "_")))
        unknown = [name for name in functions if name.lstrip(".") not in known]
        if unknown:
            raise InvalidArgument("NOT_FOUND", f"a {whose} is for ops that do not exist: {', '.join(unknown)}")
        self.functions = {name.lstrip("."): function for name, function in functions.items()}
        self.default = default
        self.constant = constant
        self.found: dict[tuple[str, str], F | None] = {}

    def of(self, node: Node) -> F | None:
        key = (node.domain, node.op)
        if key not in self.found:
            full = ".".join(filter(None, key))
            names = (full, full.replace(".", "_"), node.op)
            found = [self.functions[name] for name in names if name in self.functions]
            first = self.constant if key == ("tn", "Const") else None
            self.found[key] = first or (found[0] if found else self.default)
        return self.found[key]


def _methods(owner: object, prefix: str, special: Sequence[str]) -> dict[str, Any]:
    """The methods by op of an object, by the op's name."""
    names = [name for name in dir(owner) if name.startswith(prefix) and name[len(prefix) :] not in special]
    return {name[len(prefix) :]: getattr(owner, name) for name in names}


# ---- visiting ------------------------------------------------------------------------------------------------------


def _walk(
    start: Start,
    nodes: _ByOp[Any],
    others: Mapping[str, Callable[[Any], Any] | None],
    descend: Callable[[Node], Any] | None,
    counted: Visitor | None,
) -> int:
    heads = any(others.get(kind) for kind in ("location", "op", "type"))
    calls = 0
    try:
        for kind, item, count, of in _tenon.walk_order(start, heads, descend):
            if not of.alive:
                continue
            function = nodes.of(item) if kind in ("node", "constant") else others.get(kind)
            if function is None:
                continue
            if counted is not None:
                counted.count = count
            calls += 1
            function(item)
    except StopVisit:
        pass
    return calls


def visit(
    start: Start,
    ops: Mapping[str, Callable[[Node], Any]] | None = None,
    default: Callable[[Node], Any] | None = None,
    input: Callable[[Value], Any] | None = None,  # noqa: A002
    graph: Callable[[Graph], Any] | None = None,
    *,
    constant: Callable[[Node], Any] | None = None,
    location: Callable[[str], Any] | None = None,
    op: Callable[[str], Any] | None = None,
    type: Callable[[str], Any] | None = None,  # noqa: A002
    descend: Callable[[Node], Any] | None = None,
) -> int:
    """Calls a function for each node of a model, of a graph, or of what a value depends on: that of its op ("Conv",
    "com.microsoft.QGemm"), else `default`; `constant` for constants.

    Graphs come before their inputs, operands before users; of a node come its location, its op, the types of its results,
    the graphs nested in it (where `descend(node)` says so, or is not given), then itself. The order is found before the
    first call, so the functions may change the graph: what they erase is not visited any more, what they add is not
    visited yet. Returns how many calls there were."""
    others = {"input": input, "graph": graph, "location": location, "op": op, "type": type}
    return _walk(start, _ByOp("visitor", ops or {}, default, constant), others, descend, None)


class Visitor:
    """Base of visitors: give it methods visit_<Op>(node), and any of visit_node (all other ops), visit_constant,
    visit_input(value), visit_graph(graph), visit_location(text), visit_op(name), visit_type(text), descend(node).

        class Count(tenonrt.Visitor):
            def __init__(self): self.convs = 0
            def visit_Conv(self, node): self.convs += 1

        counter = Count()
        counter.visit(model)

    An op of another domain than ONNX's is visit_QGemm or visit_com_microsoft_QGemm."""

    #: While a method runs: how often what it is given was reached. The same location, op or type so far; from a value,
    #: how often what is visited reads a node or an input; else 1.
    count: int = 0

    def visit(self, start: Start) -> int:
        """Walks a model, a graph, or all that a value depends on; see `tenonrt.visit`."""
        special = ("node", "constant", "input", "graph", "location", "op", "type")
        method: dict[str, Any] = {name: getattr(self, f"visit_{name}", None) for name in special}
        nodes = _ByOp("visitor", _methods(self, "visit_", special), method["node"], method["constant"])
        return _walk(start, nodes, method, getattr(self, "descend", None), self)

    def visit_node(self, node: Node) -> None:
        pass

    def visit_input(self, value: Value) -> None:
        pass

    def visit_graph(self, graph: Graph) -> None:
        pass


# ---- rebuilding ----------------------------------------------------------------------------------------------------


class Mutator:
    """Base of what rebuilds models: give it methods mutate_<Op>(node, graph, operands), and any of mutate_node (all other
    ops) and mutate_constant. `operands` are what became of the node's operands, in `graph` of the new model, to which the
    method adds nodes. It returns what stands for the node's results there (a value, or a list of them; None for a result
    that nobody reads), or None to have the node copied.

        class Cheaper(tenonrt.Mutator):
            def mutate_Softplus(self, node, graph, operands):
                return graph.op("Relu", operands)

        model = Cheaper().mutate(model)

    Further: mutate_input(old, new), whose answer is what readers of the input get; mutate_graph(old, new), when all that
    is in it was rebuilt, which answers whether it changed it; mutate_location(text) and mutate_type(text) of what is
    copied, each answering other text or None."""

    def mutate(self, model: Model) -> Model:
        """A new model whose types are to be found (`infer`), or `model` itself where nothing changed."""
        special = ("node", "constant", "input", "graph", "location", "type")
        method: dict[str, Any] = {name: getattr(self, f"mutate_{name}", None) for name in special}
        nodes = _ByOp("mutator", _methods(self, "mutate_", special), method["node"], method["constant"])

        def node(old: Node, graph: Graph, operands: list[Value | None]) -> tuple[Value | None, ...] | None:
            function = nodes.of(old)
            answer = function(old, graph, operands) if function is not None else None
            return answer if answer is None else (answer,) if isinstance(answer, Value) else tuple(answer)

        wanted: Any = node if nodes.functions or nodes.default or nodes.constant else None
        return model.rebuild(wanted, *(method[name] for name in special[2:]))
