# SPDX-License-Identifier: Apache-2.0
"""Models as graphs: reading, building, changing, walking."""
from __future__ import annotations

import os
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from . import _arrays, _tenon
from ._errors import InvalidArgument


class Model(_tenon.Model):
    """A model. While a session of it lives it cannot be changed."""

    __slots__ = ()

    @classmethod
    def load(cls, source: str | os.PathLike[str] | bytes, *, folder: str | None = None, threads: int = 0) -> Model:
        """From a file's name or its bytes: ONNX or Tenon's text. `folder`: where bytes' external weights lie."""
        context = _arrays.context(threads)
        if isinstance(source, (bytes, bytearray, memoryview)):
            return cls.read_bytes(context, bytes(source), *([folder] if folder else []))
        return cls.read_file(context, source)

    @classmethod
    def new(cls, name: str = "main", *, threads: int = 0) -> Model:
        """An empty one."""
        return cls.create(_arrays.context(threads), name)

    @classmethod
    def from_text(cls, text: str, *, threads: int = 0) -> Model:
        """From Tenon's text, whose constants must stand in it."""
        return cls.parse_text(_arrays.context(threads), text)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Model {self.graph.name!r}: {len(self.graph)} nodes>"


class Graph(_tenon.Graph):
    """A graph of a model: the main one, or a body of If, Loop or Scan."""

    __slots__ = ()

    def input(self, name: str, dtype: Any, shape: Sequence[int | None] | None = None) -> Value:
        """A new input. `dtype`: "f32", np.float32, ...; sizes of None are not known, a shape of None not even its rank."""
        return self.add_input(name, _arrays.dtype_name(dtype), shape if shape is None else tuple(shape))

    def constant(self, array: Any, name: str = "", dtype: Any = None) -> Value:
        """A constant with a copy of the array. `dtype`: the type of which the array holds the bits."""
        copy = np.array(array, copy=True, order="C")
        return self.add_constant(_arrays.from_array(_arrays.context(), copy, dtype and _arrays.dtype_name(dtype)), name)

    def op(
        self,
        op: str,
        operands: Sequence[Value | None | Any] = (),
        *,
        outputs: int = 1,
        before: Node | None = None,
        name: str = "",
        **attributes: Any,
    ) -> Any:
        """A node of that op, at the end or before another: its result, or a list of them when `outputs` is not 1.

        Operands are values, None where one is absent, or arrays and numbers, which become constants. `name` names the
        first result. Types are found when the model is inferred or run."""
        values = tuple(item if item is None or isinstance(item, Value) else self.constant(item) for item in operands)
        node = self.add_node(op, values, outputs, before)
        try:
            for key, value in attributes.items():
                node.set(key, value)
            if name:
                node.results[0].rename(name)
        except BaseException:
            node.erase()
            raise
        results = node.results
        return results[0] if outputs == 1 else results

    def output(self, value: Value, name: str = "") -> Value:
        """Makes a value an output, under its own name or this one."""
        self.add_output(value, name or value.name or None)
        return value

    def find(self, name: str) -> Value | None:
        """The input or result of that name in this graph, or None."""
        for value in self.values():
            if value.name == name:
                return value
        return None

    def values(self) -> Iterator[Value]:
        yield from self.inputs
        for node in self.nodes:
            yield from node.results

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self)} nodes>" if self.alive else "<Graph, erased>"


class Node(_tenon.Node):
    """An op with its operands, results and attributes. Two handles of one node are the same object."""

    __slots__ = ()

    @property
    def attributes(self) -> dict[str, Any]:
        """Those that the node has itself, nested graphs left out (they are in `graphs`)."""
        found = {}
        for name in self.attr_names():
            try:
                found[name] = self.get(name)
            except NotImplementedError:
                pass
        return found

    def get(self, name: str) -> Any:
        """An attribute's value, or the op's default for it: int, float, str, array, or a list of those."""
        value = self.get_attr(name)
        return _arrays.to_array(value) if isinstance(value, _tenon.Tensor) else value

    def set(self, name: str, value: Any) -> None:
        """The kind is the one that the op wants of that name."""
        if isinstance(value, np.ndarray):
            value = _arrays.from_array(_arrays.context(), value.copy())
        elif isinstance(value, (np.bool_, np.integer)):
            value = int(value)
        elif isinstance(value, np.floating):
            value = float(value)
        elif isinstance(value, (list, tuple)):
            value = [item.item() if isinstance(item, np.generic) else item for item in value]
        self.set_attr(name, value)

    def replace(self, *values: Value) -> None:
        """Whoever reads a result reads these instead; the node goes."""
        results = self.results
        if len(values) != len(results):
            raise ValueError(f"{self.op} has {len(results)} results, {len(values)} values were given")
        for old, new in zip(results, values):
            old.replace_with(new)
        self.erase()

    def __str__(self) -> str:
        """The node as it stands in the text of what it computes."""
        if not self.alive or not self.results:
            return repr(self)
        lines = self.results[0].text().rstrip().split("\n")
        return (lines[-1] if "(" in lines[-1] or len(lines) == 1 else lines[-2]).strip()

    def __repr__(self) -> str:
        if not self.alive:
            return "<Node, erased>"
        name = (self.results and self.results[0].name) or self.name
        return f"<Node {self.op}{f' %{name}' if name else ''}>"


class Value(_tenon.Value):
    """What a node computes, or a graph's input."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return self.info[1]

    @property
    def dtype(self) -> str | None:
        """"f32"; None when not known."""
        return self.info[2]

    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        return self.info[3]

    @property
    def type(self) -> str:
        """As the text has it: "f32[batch,3]", "seq(f32[*])"."""
        return self.info[5]

    def constant(self) -> Any:
        """A constant's contents as a read-only array over the model's memory; None for other values."""
        tensor = self.constant_tensor()
        return None if tensor is None else _arrays.to_array(tensor)

    def __str__(self) -> str:
        """All that the value is computed from, as a fragment of Tenon's text."""
        return self.text()

    def __repr__(self) -> str:
        return f"<Value %{self.name}: {self.type}>" if self.alive else "<Value, erased>"


_tenon.set_handle_types(Graph, Node, Value)


def load(source: str | os.PathLike[str] | bytes, *, folder: str | None = None, threads: int = 0) -> Model:
    """Reads a model, from a file's name or its bytes."""
    return Model.load(source, folder=folder, threads=threads)


class StopVisit(Exception):
    """Raised by a function of a visitor, it ends the walk."""


def visit(
    model: Model,
    ops: Mapping[str, Callable[[Node], Any]] | None = None,
    default: Callable[[Node], Any] | None = None,
    input: Callable[[Value], Any] | None = None,  # noqa: A002
    graph: Callable[[Graph], Any] | None = None,
) -> int:
    """Calls a function for each node: that of its op ("Conv", "com.microsoft.QGemm"), else `default`. Graphs come before
    their inputs, operands before users, nested graphs before the node that owns them. The order is found before the first
    call, so the functions may change the graph: what they erase is not visited any more, what they add is not visited
    yet. Returns how many calls there were."""
    table = dict(ops or {})
    known = {name for domain, name, *_ in _tenon.ops() for name in (name, f"{domain}.{name}")}
    unknown = [name for name in table if name.lstrip(".") not in known]
    if unknown:
        raise InvalidArgument("NOT_FOUND", f"a visitor is for ops that do not exist: {', '.join(unknown)}")
    calls = 0
    try:
        for kind, handle in model.order():
            if not handle.alive:
                continue
            function: Callable[[Any], Any] | None = graph if kind == "graph" else input
            if kind == "node":
                function = table.get(f"{handle.domain}.{handle.op}") or table.get(handle.op) or default
            if function is not None:
                calls += 1
                function(handle)
    except StopVisit:
        pass
    return calls


class Visitor:
    """Base of visitors: give it methods visit_<Op>(node), and any of visit_node (all other ops), visit_input, visit_graph.

        class Count(tenonrt.Visitor):
            def __init__(self): self.convs = 0
            def visit_Conv(self, node): self.convs += 1

        counter = Count()
        counter.visit(model)
    """

    def visit(self, model: Model) -> int:
        special = ("visit_node", "visit_input", "visit_graph")
        names = [name for name in dir(self) if name.startswith("visit_") and name not in special]
        table = {name[len("visit_") :]: getattr(self, name) for name in names}
        return visit(model, table, self.visit_node, self.visit_input, self.visit_graph)

    def visit_node(self, node: Node) -> None:
        pass

    def visit_input(self, value: Value) -> None:
        pass

    def visit_graph(self, graph: Graph) -> None:
        pass
