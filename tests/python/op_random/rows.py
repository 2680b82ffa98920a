# SPDX-License-Identifier: Apache-2.0
"""Instances as rows of a .case file (tests/ops/README.md)."""
import re

import numpy as np

from .core import Opt
from .types import FLOATS, NUMPY, SMALL_FLOATS, inner_type, round_to

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
RESERVED = ("true", "false", "inf", "nan", "ints", "floats", "strings", "tensors", "types", "lists", "graphs", "type")
HALF_TOLERANCES = {"f16": 3e-3, "bf16": 2e-2}


def quote(text):
    if isinstance(text, bytes):
        text = text.decode()
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def spell(value, dtype):
    if dtype == "str":
        return quote(value)
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in ("c64", "c128"):
        return f"{float(value.real)!r}{float(value.imag):+.17g}i"
    if dtype in FLOATS or dtype in SMALL_FLOATS:
        value = float(value)
        return value.hex() if np.isfinite(value) else str(value)
    return str(int(value))


def spell_decimal(value, dtype):
    """As the IR's text has it."""
    return repr(float(value)) if dtype in FLOATS or dtype in SMALL_FLOATS else spell(value, dtype)


def tensor_row(array, dtype, spell=spell):
    array = np.asarray(array)
    row = f"{dtype}[{','.join(map(str, array.shape))}]"
    if not array.size:
        return row
    elements = [spell(v, dtype) for v in array.ravel()]
    return f"{row} = [{', '.join(elements)}]" if array.ndim else f"{row} = {elements[0]}"


def value_row(value, kind):
    """`kind`: f32, seq(f32), opt(seq(f32)), map(i64, f32)"""
    if value is None:
        return "_"
    if kind.startswith("seq("):
        inner = inner_type(kind)
        return f"seq({', '.join(value_row(v, inner) for v in value) or empty_type(inner)})"
    if kind.startswith("opt("):
        inner = inner_type(kind)
        return f"opt({empty_type(inner) if value.value is None else value_row(value.value, inner)})"
    if kind.startswith("map("):
        key, inner = inner_type(kind).split(", ", 1)
        keys = np.array(list(value), NUMPY[key])
        return f"map({tensor_row(keys, key)}, {tensor_row(np.array(list(value.values()), NUMPY[inner]), inner)})"
    return tensor_row(value, kind)


def empty_type(kind):
    """What stands for the items where there are none."""
    return f"{kind[:4]}{empty_type(inner_type(kind))})" if kind[3:4] == "(" else f"{kind}[*]"


def attribute_value(value):
    if isinstance(value, (str, bytes)):
        text = value.decode() if isinstance(value, bytes) else value
        return text if PLAIN.match(text) and text not in RESERVED and text not in NUMPY else quote(text)
    if isinstance(value, TypeText):
        return f"type {empty_type(value.kind)}"
    if isinstance(value, float):  # a row takes no exponents in lists
        return repr(value) if not np.isfinite(value) else np.format_float_positional(value, trim="0")
    if isinstance(value, Tensor):
        return tensor_row(value.array, value.dtype, spell_decimal).replace(" = ", "=")
    return str(int(value))


def attribute_row(name, value):
    if isinstance(value, list):
        return f"{name}=[{','.join(map(attribute_value, value))}]"
    return f"{name}={attribute_value(value)}"


class TypeText:
    """A type as an attribute."""

    def __init__(self, kind):
        self.kind = kind


class Tensor:
    """A tensor as an attribute."""

    def __init__(self, array, dtype):
        self.array, self.dtype = np.asarray(array), dtype


def formal_of(formals, i):
    return formals[i] if i < len(formals) else formals[-1]


def kind_of(r, formals, i):
    """The type of an operand or result. Generators whose operands' types take turns say them themselves."""
    if r.kinds and formals is r.schema.inputs:
        return r.kinds[i]
    return r.types[formal_of(formals, i).parameter]


def stored(value, kind):
    """An answer in the type that it is to have, f16 and bf16 rounded."""
    if value is None or kind.startswith("map("):
        return value
    if kind.startswith("seq("):
        return [stored(v, inner_type(kind)) for v in value]
    if kind.startswith("opt("):
        return Opt(None if value.value is None else stored(value.value, inner_type(kind)))
    if kind == "str":
        return np.asarray(value, object)
    return round_to(value, kind)


def tolerance_of(r, floats):
    """What is said behind a row. Halves have what the test holds right, but where an engine rounds more than once."""
    halves = floats & HALF_TOLERANCES.keys()
    if halves:
        return max(r.tolerance, *(HALF_TOLERANCES[half] for half in halves)) if r.peer else None
    return r.tolerance or (1e-11 if floats == {"f64"} else None)


def instance_row(r, operands, answers):
    texts = [r.op] + [attribute_row(*item) for item in sorted(r.attributes.items())]
    texts += [value_row(a, kind_of(r, r.schema.inputs, i)) for i, a in enumerate(operands)]
    results, kinds = [], []
    for i, answer in enumerate(answers):
        kinds.append(kind_of(r, r.schema.outputs, i))
        row = value_row(stored(answer, kinds[-1]), kinds[-1])
        results.append(row.split(" = ")[0] if r.no_data else row)
    tolerance = tolerance_of(r, {kind for kind in kinds if kind in FLOATS})
    suffix = f" ~ {tolerance}" if tolerance else ""
    return " ".join(texts) + " -> " + "  ".join(results) + suffix
