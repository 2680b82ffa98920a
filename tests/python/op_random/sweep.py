# SPDX-License-Identifier: Apache-2.0
"""Instances of an op until each of its element types and each value of its attributes has had enough of them."""
import collections
import zlib

import numpy as np

from .answers import answer
from .core import ALWAYS, ANY, GENERATORS, Random
from .exceptions import excepted
from .rows import formal_of, instance_row, kind_of

# A key is (type parameter, type) or (=attribute, value); ANY: the attribute is there, None: it is not.


def hashable(value):
    return tuple(value) if isinstance(value, list) else value


def keys_of(schema, op):
    """What is to be covered, and what the generator's table lacks or has too much."""
    table = GENERATORS[op][1]
    wrong = [f"{op}: the generator says nothing about {name}" for name in schema.attributes if name not in table]
    wrong += [f"{op}: there is no attribute {name}" for name in table if name not in schema.attributes]
    keys = [(name, kind) for name, kinds in schema.parameters.items() if len(kinds) > 1 for kind in kinds
            if kind not in excepted(op, name)]  # fmt: skip
    for name, values in table.items():
        optional = not schema.attributes.get(name) and values is not ALWAYS
        values = [ANY] if values in (ANY, ALWAYS) else list(values)
        if optional and None not in values:
            values.append(None)
        keys += [("=" + name, v) for v in values if hashable(v) not in excepted(op, name)]
    return keys, wrong


def covered(r, operands, answers):
    table = GENERATORS[r.op][1]
    for formals, values in ((r.schema.inputs, operands), (r.schema.outputs, answers)):
        for i, value in enumerate(values):
            if value is not None:
                yield formal_of(formals, i).parameter, kind_of(r, formals, i)
    for name, values in table.items():
        value = r.attributes.get(name)
        yield "=" + name, hashable(ANY if values in (ANY, ALWAYS) and value is not None else value)


def draw(schema, op, rng, key=None, peer=None):
    name, value = key or ("", None)
    attributes = {name[1:]: value} if name.startswith("=") else {}
    fixed = {name: value} if name and not attributes else {}
    types = {}
    for parameter, kinds in schema.parameters.items():
        excluded = excepted(op, parameter)
        types[parameter] = fixed.get(parameter) or str(rng.choice([k for k in kinds if k not in excluded]))
    r = Random(rng, schema, GENERATORS[op][1], types, fixed, attributes)
    r.peer = peer is not None
    operands = list(GENERATORS[op][0](r))
    while operands and operands[-1] is None:
        operands.pop()
    operands = [np.asarray(a) if isinstance(a, (np.generic, np.ndarray)) else a for a in operands]
    answers = answer(r, operands)
    return r, operands, peer(r, operands) if peer else answers


class Sweep:
    """Writes the rows of one op, and tells what they leave uncovered. `peer` answers instead of oracles."""

    def __init__(self, schema, op, n, seed, file, peer=None):
        self.file, self.n_rows, self.refused = file, 0, collections.Counter()
        self.counts, keys = collections.Counter(), []
        keys, self.wrong = keys_of(schema, op)
        rng = np.random.default_rng([seed, zlib.crc32(op.encode())])
        for key in keys or [None]:
            self.cover(schema, op, rng, key, n, peer)
        self.missing = [key for key in keys if self.counts[hashable_key(key)] < n]
        self.n_keys = len(keys)

    def cover(self, schema, op, rng, key, n, peer):
        for _ in range(10 * n + 40 if peer is None else 2 * n + 10):
            if self.counts[hashable_key(key)] >= n:
                return
            try:
                r, operands, answers = draw(schema, op, rng, key, peer)
            except Exception as error:  # the reference has faults of its own
                self.refused[f"{type(error).__name__}: {error}"[:200]] += 1
                continue
            self.file.write(instance_row(r, operands, answers) + "\n")
            self.n_rows += 1
            for each in [None, *covered(r, operands, answers)]:
                self.counts[hashable_key(each)] += 1


def hashable_key(key):
    return key and (key[0], hashable(key[1]))
