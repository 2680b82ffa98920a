# SPDX-License-Identifier: Apache-2.0
"""What generators are written with: random types, shapes and values, drawn attributes, the tables that they fill."""
import numpy as np

from .exceptions import excepted
from .types import COMPLEX, FLOATS, INTEGERS, NUMPY, SMALL_INTEGERS, full_name, integer_range, round_to

GENERATORS = {}  # op -> (function of a Random, attribute -> its values or ANY)
ORACLES = {}  # op -> function of operands and an Instance: the results
TOLERANCES = {}  # op -> relative to the largest magnitude, where the answer loses digits that the operands have
MOST_ELEMENTS = 400
ANY = "any"  # an attribute that is a number, or a list: drawn by the generator
ALWAYS = "always"  # the same, never absent: optional in the schema, but nothing says what would hold without it
WORDS = ["a", "b", "ab", "", "Straße", "x y", "12", "-3.5", "z"]


def generator(*ops, **attributes):
    """Registers a generator, a function that returns operands; None is one that is absent. `attributes` has all that
    the op knows: tuples of values, each of which is tried, ANY or ALWAYS."""

    def register(function):
        for op in ops:
            assert op not in GENERATORS, op
            GENERATORS[op] = function, attributes
        return function

    return register


def oracle(*ops, tolerance=None):
    """Registers an answer where ONNX's reference has none, or a wrong one."""

    def register(function):
        ORACLES.update(dict.fromkeys(ops, function))
        if tolerance:
            TOLERANCES.update(dict.fromkeys(ops, tolerance))
        return function

    return register


def microsoft(*names):
    return [f"com.microsoft.{name}" for name in names]


def ml(*names):
    return [f"ai.onnx.ml.{name}" for name in names]


class Opt:
    """An optional with what it holds, or None."""

    def __init__(self, value):
        self.value = value


class Random:
    """One instance while it is drawn: a source of shapes and values, its element types and its attributes."""

    def __init__(self, rng, schema, table, types, fixed_types, fixed):
        self.rng, self.schema, self.op, self.table = rng, schema, full_name(schema), table
        self.types = dict(types)  # by type parameter, to begin with
        self.fixed_types = fixed_types  # of them those that the test wants
        self.fixed = fixed  # attributes that the test wants
        self.attributes = {}
        self.results = 1  # how many, or for each whether it is wanted
        self.no_data = False  # of the results only types and shapes are known
        self.tolerance = None
        self.kinds = None  # the operands' types where parameters do not tell
        self.peer = False  # it is for an engine that takes less than the specification allows

    @property
    def dtype(self):
        """The element type of the first operand."""
        return self.types[self.schema.inputs[0].parameter]

    # ---- attributes and types

    def draw(self, name, *values):
        """An attribute: as the test wants it, else one of `values`, or of the generator's table; None leaves it out."""
        values = values or [v for v in self.table[name] if v not in excepted(self.op, name)]
        if name in self.fixed and self.fixed[name] is not ANY:
            value = self.fixed[name]
        else:
            if self.fixed.get(name) is ANY:
                values = [value for value in values if value is not None]
            value = values[self.rng.integers(len(values))]
        self.attributes.pop(name, None)
        if value is not None:
            self.set(name, value)
        return self.attributes.get(name)

    def set(self, name, value):
        """An attribute that follows from others. Floats as the 32 bits that a model has."""
        if isinstance(value, float):
            value = float(np.float32(value))
        if isinstance(value, (list, tuple)):
            value = [float(np.float32(v)) if isinstance(v, float) else v for v in value]
        self.attributes[name] = value
        return value

    def optional(self, name, default, *values):
        """A drawn attribute, or its default when it is left out."""
        value = self.draw(name, None, default, *values)
        return default if value is None else value

    def force_type(self, parameter, *allowed):
        """A type parameter that is bound to what stands there already; True when it could be had."""
        if self.types[parameter] not in allowed:
            self.types[parameter] = str(self.rng.choice(allowed))
        return self.types[parameter]

    # ---- numbers

    def integer(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability):
        return self.rng.random() < probability

    def one_of(self, *values):
        return values[self.rng.integers(len(values))]

    # ---- shapes

    def size(self, smallest=0):
        return int(self.rng.choice([0] * (smallest == 0) + [1, 1, 2, 3, 3, 4, 5, 7]))

    def shape(self, low=0, high=5, smallest=0):
        """Odd sizes, ones, now and then a zero."""
        while True:
            dims = [self.size(smallest) for _ in range(self.integer(low, high))]
            if np.prod(dims) <= MOST_ELEMENTS:
                return dims

    def axis(self, rank):
        return self.integer(-rank, rank - 1)

    def axes(self, rank, least=1):
        axes = self.rng.permutation(rank)[: self.integer(least, rank)]
        return [int(a) - rank if self.chance(0.5) else int(a) for a in axes]

    def draw_axis(self, rank, default, name="axis"):
        """The attribute, of which any value in range will do."""
        value = self.draw(name, *range(-rank, rank), *([None] if default is not None and -rank <= default < rank else []))
        return default if value is None else value

    def part_of(self, shape):
        """A shape that broadcasts to `shape`."""
        drop = self.integer(0, len(shape))
        return [1 if self.chance(0.3) else d for d in shape[drop:]]

    def broadcast(self, n):
        shape = self.shape()
        shapes = [self.part_of(shape) for _ in range(n)]
        shapes[self.integer(0, n - 1)] = shape
        return shapes

    # ---- elements

    def values(self, shape, dtype=None, low=-4.0, high=4.0, wide=False):
        """Of an element type, or of a type parameter. `wide`: all integers that there are."""
        dtype = dtype or self.dtype
        dtype = self.types.get(dtype, dtype)
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype == "str":
            return np.array([WORDS[i] for i in self.rng.integers(0, len(WORDS), int(np.prod(shape)))], object).reshape(shape)
        if dtype in INTEGERS or dtype in SMALL_INTEGERS:
            least, most = integer_range(dtype)
            if not wide:
                least, most = max(least, min(int(low * 3), 10)), min(most, max(int(high * 3), 0))
            kind = np.uint64 if most > 2**63 - 1 else np.int64
            return np.asarray(self.rng.integers(least, most, shape, kind, endpoint=True)).astype(NUMPY[dtype])
        if dtype == "f8e8m0":
            return np.asarray(2.0 ** self.rng.integers(-3, 4, shape)).astype(NUMPY[dtype])
        a = self.rng.uniform(low, high, shape)
        if dtype in COMPLEX:
            a = a + 1j * self.rng.uniform(low, high, shape)
        return round_to(a, dtype)

    def special(self, a, dtype=None, share=0.2):
        """Some elements of floats become infinities, NaN, zeros of either sign, the largest and smallest numbers."""
        dtype = dtype or self.dtype
        if dtype not in FLOATS or not a.size:
            return a
        tiny = {"f16": 6e-8, "bf16": 1e-38, "f32": 1e-45, "f64": 5e-324}[dtype]
        most = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38, "f64": 1.7e308}[dtype]
        pool = round_to([np.inf, -np.inf, np.nan, 0.0, -0.0, most, -most, tiny, -tiny, 1.0, 0.5, 2.5], dtype)
        where = self.rng.random(a.shape) < share
        return np.where(where, pool[self.rng.integers(0, len(pool), a.shape)], a).astype(a.dtype)

    def distinct(self, shape, dtype=None):
        """No two alike, where the type has that many; for what picks the largest."""
        dtype = dtype or self.dtype
        a = self.rng.permutation(int(np.prod(shape))).reshape(shape)
        if dtype in INTEGERS or dtype in SMALL_INTEGERS:
            low, high = integer_range(dtype)
            a = a % min(high, a.size + 1) + (low if self.chance(0.5) else 0)
        return round_to(a, dtype)

    def words(self, shape, words=WORDS):
        return np.array([words[i] for i in self.rng.integers(0, len(words), int(np.prod(shape)))], object).reshape(shape)


def int64(values):
    return np.array(values, np.int64)
