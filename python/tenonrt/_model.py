# SPDX-License-Identifier: Apache-2.0
"""Models as graphs: reading, building, changing, walking."""
from __future__ import annotations

import operator
import os
from typing import Any, Iterator, Sequence

import numpy as np

from . import _arrays, _passes, _tenon


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

    def clone(self) -> Model:
        """A copy that can be changed while sessions of this one live; the constants' memory is shared."""
        return super().clone()

    def extract(self, *paths: tuple[Sequence[str], Sequence[str]]) -> Model:
        """A part as a model of its own. A path is (names where it begins, names where it ends); one that begins nowhere goes
        back to the model's inputs. Any value of the model may be named."""
        return super().extract(tuple((tuple(begin), tuple(end)) for begin, end in paths))

    def optimize(
        self,
        passes: str | Sequence[str] | None = None,
        opt_level: int | None = None,
        *,
        add: str | Sequence[str] = (),
        disable: str | Sequence[str] = (),
        verify: bool = False,
        max_passes: int = 0,
        max_changes: int = 0,
        report: list[_passes.PassRecord] | None = None,
    ) -> Model:
        """A better model; this one stays as it is. `passes`: a list that takes the place of the default one, as names or as
        the text of a pipeline; `opt_level`: 0 to 3 (2); `add`, `disable`: passes to run besides, not to run; `verify`:
        check the model after each; `report`: a list to which what each of them did is added."""
        given = _passes.settings(passes, opt_level, add, disable, verify, max_passes, max_changes)
        better, rows = super().optimize(given)
        if report is not None:
            report += _passes.records(rows)
        return better

    def run_passes(
        self,
        passes: str | Sequence[str] | None = None,
        opt_level: int | None = None,
        *,
        add: str | Sequence[str] = (),
        disable: str | Sequence[str] = (),
        verify: bool = False,
        max_passes: int = 0,
        max_changes: int = 0,
    ) -> list[_passes.PassRecord]:
        """The same on the model itself, and what each of them did. Handles of what is not erased stay good."""
        given = _passes.settings(passes, opt_level, add, disable, verify, max_passes, max_changes)
        return _passes.records(super().run_passes(given))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        try:
            return f"<Model {self.graph.name!r}: {len(self.graph)} nodes>"
        except ReferenceError:
            return "<Model, of a pass that has ended>"


class Graph(_tenon.Graph):
    """A graph of a model: the main one, or a body of If, Loop or Scan."""

    __slots__ = ()

    def input(self, name: str, dtype: Any = None, shape: Sequence[int | str | None] | None = None) -> Value:
        """A new input: input("x", "f32[batch,3]"), the type as the text has it, or input("x", np.float32, ["batch", 3]).
        A size is a number, a name or an expression like "(h + 1)/2" of what is known when the model runs, or None; a shape
        of None says not even the rank, a type of None nothing."""
        if dtype is None or (shape is None and isinstance(dtype, str) and _is_type(dtype)):
            return self.add_typed_input(name, "?" if dtype is None else dtype)
        kind = _arrays.dtype_name(dtype)
        if shape is not None and any(isinstance(size, str) for size in shape):
            return self.add_typed_input(name, f"{kind}[{','.join(map(_size_text, shape))}]")
        return self.add_input(name, kind, shape if shape is None else tuple(shape))

    def subgraph(self, name: str = "") -> Graph:
        """A graph to be nested in a node of this one: fill it with inputs, ops and outputs before or after it is handed to
        an op, `g.op("Loop", [trips, None, x], body=body)`. It may read this graph's values. A model whose values are read
        by a graph that no node holds is not valid; `erase()` gives such a graph up."""
        return self.add_subgraph(name)

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

        Operands are values, None where one is absent, or arrays and numbers, which become constants. Attributes are
        numbers, text, arrays, lists of those, and graphs made by `subgraph`. `name` names the first result. Types are
        found when the model is inferred or run."""
        values = tuple(item if item is None or isinstance(item, Value) else self.constant(item) for item in operands)
        node = self.add_node(op, values, outputs, before)
        try:
            for key, value in attributes.items():
                node.set(key, value)
            if name:
                node.results[0].rename(name)
        except BaseException:
            for key, value in attributes.items():
                if isinstance(value, Graph) and value in node.graphs:
                    node.take_graph(key)  # it is the caller's still
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


def _is_type(text: str) -> bool:
    return "[" in text or text in ("", "?") or text.startswith(("seq(", "opt(", "map("))


def _size_text(size: int | str | None) -> str:
    """In brackets, so that it is one size whatever it says."""
    if isinstance(size, str):
        return size if size.isidentifier() else f"({size})"
    return "?" if size is None or size < 0 else str(operator.index(size))


class Node(_tenon.Node):
    """An op with its operands, results and attributes. Two handles of one node are the same object."""

    __slots__ = ()

    @property
    def attributes(self) -> dict[str, Any]:
        """Those that the node has itself, nested graphs left out (they are in `graphs`)."""
        found = {}
        for name in self.attr_names():
            try:
                value = self.get(name)
            except NotImplementedError:
                continue
            if not isinstance(value, Graph):
                found[name] = value
        return found

    def get(self, name: str) -> Any:
        """An attribute's value, or the op's default for it: int, float, str, array, a list of those, or a graph."""
        value = self.get_attr(name)
        return _arrays.to_array(value) if isinstance(value, _tenon.Tensor) else value

    def set(self, name: str, value: Any) -> None:
        """The kind is the one that the op wants of that name. A nested graph that stood there is erased."""
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
_tenon.set_model_type(Model)


def load(source: str | os.PathLike[str] | bytes, *, folder: str | None = None, threads: int = 0) -> Model:
    """Reads a model, from a file's name or its bytes."""
    return Model.load(source, folder=folder, threads=threads)
