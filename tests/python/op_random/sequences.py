# SPDX-License-Identifier: Apache-2.0
"""Sequences and optionals."""
import numpy as np

from .core import ANY, Opt, generator, int64, oracle
from .rows import TypeText, inner_type
from .types import NUMPY, TYPE_NUMBERS


def element_of(r, parameter):
    return inner_type(r.types[parameter])


def some_tensors(r, dtype, low=0):
    return [r.values(r.shape(high=3), dtype, wide=True) for _ in range(r.integer(low, 4))]


def agree(r, sequence, tensor):
    """Parameters of a sequence and of its elements."""
    if tensor in r.fixed_types:
        r.types[sequence] = f"seq({r.types[tensor]})"
    else:
        r.types[tensor] = element_of(r, sequence)
    return r.types[tensor]


def position(r, n):
    return np.array(r.integer(-n, n - 1), NUMPY[r.types["I"]])


@generator("SequenceConstruct")
def sequence_construct(r):
    return some_tensors(r, agree(r, "S", "T"), 1)


@oracle("SequenceConstruct")
def sequence_construct_oracle(r, *tensors):
    return [list(tensors)]


@generator("SequenceEmpty", dtype=ANY)
def sequence_empty(r):
    if r.draw("dtype", None, TYPE_NUMBERS[element_of(r, "S")]) is None:
        if "S" in r.fixed_types:
            r.set("dtype", TYPE_NUMBERS[element_of(r, "S")])
        else:
            r.types["S"] = "seq(f32)"
    return []


@oracle("SequenceEmpty")
def sequence_empty_oracle(r):
    return [[]]


@generator("SequenceAt")
def sequence_at(r):
    tensors = some_tensors(r, agree(r, "S", "T"), 1)
    return [tensors, position(r, len(tensors))]


@oracle("SequenceAt")
def sequence_at_oracle(r, tensors, at):
    return [tensors[int(at)]]


@generator("SequenceLength")
def sequence_length(r):
    return [some_tensors(r, element_of(r, "S"))]


@oracle("SequenceLength")
def sequence_length_oracle(r, tensors):
    return [int64(len(tensors))]


@generator("SequenceErase")
def sequence_erase(r):
    tensors = some_tensors(r, element_of(r, "S"), 1)
    return [tensors, position(r, len(tensors)) if r.chance(0.7) else None]


@oracle("SequenceErase")
def sequence_erase_oracle(r, tensors, at=-1):
    at = int(at) % len(tensors)
    return [tensors[:at] + tensors[at + 1 :]]


@generator("SequenceInsert")
def sequence_insert(r):
    dtype = agree(r, "S", "T")
    tensors = some_tensors(r, dtype)
    at = np.array(r.integer(-len(tensors), len(tensors)), NUMPY[r.types["I"]]) if r.chance(0.7) else None
    return [tensors, r.values(r.shape(high=3), dtype, wide=True), at]


@oracle("SequenceInsert")
def sequence_insert_oracle(r, tensors, tensor, at=None):
    at = len(tensors) if at is None else int(at)
    at = at + len(tensors) if at < 0 else at
    return [[*tensors[:at], tensor, *tensors[at:]]]


@generator("ConcatFromSequence", axis=ANY, new_axis=(0, 1))
def concat_from_sequence(r):
    dtype, new = agree(r, "S", "T"), r.draw("new_axis")
    shape = r.shape(low=0 if new else 1, high=3)
    rank = len(shape) + bool(new)
    axis = r.draw("axis", *range(-rank, rank))
    shapes = [list(shape) for _ in range(r.integer(1, 4))]
    for part in shapes if not new else ():
        part[axis] = r.size()
    return [[r.values(part, dtype, wide=True) for part in shapes]]


@oracle("ConcatFromSequence")
def concat_from_sequence_oracle(r, tensors):
    return [(np.stack if r.attributes.get("new_axis") else np.concatenate)(tensors, axis=r.attributes["axis"])]


@generator("SplitToSequence", axis=ANY, keepdims=(0, 1))
def split_to_sequence(r):
    dtype = agree(r, "S", "T")
    shape = r.shape(low=1, high=3, smallest=1)
    axis = r.draw_axis(len(shape), 0)
    keep = r.draw("keepdims")
    how = r.one_of("none", "chunk", "parts") if keep != 0 or r.chance(0.3) else "none"
    kind, split = NUMPY[r.types["I"]], None
    if how == "chunk":
        split = np.array(r.integer(1, shape[axis] + 1), kind)
    if how == "parts":
        sizes = [r.integer(0, shape[axis])]
        split = np.array([*sizes, shape[axis] - sizes[0]], kind)
    return [r.values(shape, dtype, wide=True), split]


@oracle("SplitToSequence")
def split_to_sequence_oracle(r, x, split=None):
    axis, n = r.attributes.get("axis", 0), x.shape[r.attributes.get("axis", 0)]
    if split is None:
        parts = [x.take([i], axis) for i in range(n)]
        return [parts if r.attributes.get("keepdims", 1) else [p.squeeze(axis) for p in parts]]
    sizes = split.tolist() if split.ndim else [min(int(split), n - i) for i in range(0, n, int(split))]
    starts = np.cumsum([0, *sizes])
    return [[x.take(range(a, b), axis) for a, b in zip(starts, starts[1:])]]


# ---- optionals ------------------------------------------------------------------------------------------------------


def some_value(r, kind):
    if kind.startswith("seq("):  # rows write an optional with an empty one as they write an empty optional
        return some_tensors(r, inner_type(kind), 1)
    return r.values(r.shape(high=3), kind, wide=True)


@generator("Optional", type=ANY)
def optional(r):
    given = r.chance(0.6)
    if "O" in r.fixed_types:
        r.types["V"] = inner_type(r.types["O"])
    r.types["O"] = f"opt({r.types['V']})"
    assert r.types["O"] in r.schema.parameters["O"]
    if "V" in r.fixed_types or "type" in r.fixed and r.fixed["type"] is None:
        given = True
    if r.fixed.get("type") == ANY or not given:
        r.set("type", TypeText(r.types["V"]))
        return []
    return [some_value(r, r.types["V"])]


@oracle("Optional")
def optional_oracle(r, value=None):
    return [Opt(value)]


@generator("OptionalHasElement", "OptionalGetElement")
def optional_element(r):
    kind = r.types["O"]
    if "V" in r.fixed_types:
        kind = r.types["O"] = r.one_of(f"opt({r.types['V']})", r.types["V"])
    inner = inner_type(kind) if kind.startswith("opt(") else kind
    if "V" in r.types:
        r.types["V"] = inner
    if r.op == "OptionalHasElement" and r.chance(0.1) and "O" not in r.fixed_types:
        return []
    empty = kind.startswith("opt(") and r.op == "OptionalHasElement" and r.chance(0.4)
    value = None if empty else some_value(r, inner)
    return [Opt(value) if kind.startswith("opt(") else value]


@oracle("OptionalHasElement")
def optional_has_element_oracle(r, value=None):
    return [np.array(value is not None and not (isinstance(value, Opt) and value.value is None))]


@oracle("OptionalGetElement")
def optional_get_element_oracle(r, value):
    return [value.value if isinstance(value, Opt) else value]
