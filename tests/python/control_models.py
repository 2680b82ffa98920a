# SPDX-License-Identifier: Apache-2.0
"""Random models of If, Loop and Scan with arithmetic on sizes, as text, with the inputs to run them on. Each is valid for
these inputs, though much in it would fail if it ran where it must not: in branches that are not taken and in loops that
make no turn. When asked for, declared types may be wrong."""
import random

import numpy as np

DEPTH = 3  # of nesting


class Value:
    """What is known of a value while the text is written: `content` is an integer array where it always holds that."""

    def __init__(self, name, dtype, shape, content=None):
        self.name, self.dtype, self.shape, self.content = name, dtype, tuple(shape), content

    def __str__(self):
        return f"%{self.name}"


class Maker:
    def __init__(self, seed, lies=False):
        self.lies, self.random = lies, random.Random(seed)
        self.count = self.nested = 0
        self.inputs, self.feeds, self.loose = [], {}, []

    # ---- words ----------------------------------------------------------------------------------------------------------

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def chance(self, p):
        return self.random.random() < p

    def pick(self, values):
        return self.random.choice(values) if values else None

    def lie(self, value):
        """Now and then a declared type: right, partly unknown, or wrong. In nested graphs it would decide what runs."""
        if not self.lies or value.dtype != "f32" or self.nested or not self.chance(0.25):
            return f"%{value.name}"
        sizes = [self.random.choice([str(d), "?", "n", str(d + 3)]) for d in value.shape]
        return f"%{value.name}: f32[{','.join(sizes)}]"

    def loc(self):
        return f' loc "{self.name("at")}"' if self.chance(0.3) else ""

    def input(self, dtype, array, sizes):
        name = self.name("x")
        self.inputs.append(f"%{name}: {dtype}[{','.join(sizes)}]")
        self.feeds[name] = array
        return Value(name, dtype, array.shape, None)

    def emit(self, lines, result, text):
        lines.append(f"{self.lie(result)} = {text}{self.loc()}")
        return result

    # ---- plain nodes ----------------------------------------------------------------------------------------------------

    def unary(self, lines, x, op=None):
        op = op or self.random.choice(["Relu", "Neg", "Tanh", "Abs", "Sigmoid", "Identity"])
        return self.emit(lines, Value(self.name("u"), "f32", x.shape), f"{op}({x})")

    def binary(self, lines, x, others):
        same = [v for v in others if v.shape == x.shape]
        right = str(self.pick(same)) if same and self.chance(0.7) else self.random.choice(["2.0", "0.5", "-1.25"])
        op = self.random.choice(["Add", "Mul", "Sub", "Max", "Min"])
        return self.emit(lines, Value(self.name("b"), "f32", x.shape), f"{op}({x}, {right})")

    def move(self, lines, x):
        if len(x.shape) >= 2 and self.chance(0.4):
            perm = list(range(len(x.shape)))
            self.random.shuffle(perm)
            shape = [x.shape[k] for k in perm]
            return self.emit(lines, Value(self.name("t"), "f32", shape), f"Transpose({x}) {{perm={perm}}}")
        if x.shape and self.chance(0.5) and np.prod(x.shape) < 200:
            axis = self.random.randrange(len(x.shape))
            shape = list(x.shape)
            shape[axis] *= 2
            return self.emit(lines, Value(self.name("c"), "f32", shape), f"Concat({x}, {x}) {{axis={axis}}}")
        if len(x.shape) == 2:
            shape = (x.shape[0], x.shape[0])
            t = self.emit(lines, Value(self.name("t"), "f32", x.shape[::-1]), f"Transpose({x}) {{perm=[1,0]}}")
            return self.emit(lines, Value(self.name("m"), "f32", shape), f"MatMul({x}, {t})")
        return self.unary(lines, x)

    # ---- sizes ----------------------------------------------------------------------------------------------------------

    def int_value(self, lines, content, text):
        content = np.asarray(content, np.int64)
        value = Value(self.name("n"), "i64", content.shape, content)
        lines.append(f"%{value.name} = {text}{self.loc()}")
        return value

    def sizes(self, lines, floats, ints):
        """One more integer value, computed from shapes."""
        lists = [v for v in ints if v.content.ndim == 1 and 0 < v.content.size <= 6]
        numbers = [v for v in ints if v.content.ndim == 0]
        kind = self.random.randrange(7)
        if kind <= 1 or not ints:
            x = self.pick(floats)
            if self.chance(0.2):
                return self.int_value(lines, np.prod(x.shape, dtype=np.int64), f"Size({x})")
            return self.int_value(lines, x.shape, f"Shape({x})")
        if kind == 2 and lists:
            v = self.pick(lists)
            at = self.random.randrange(-v.content.size, v.content.size)
            if self.chance(0.5):
                return self.int_value(lines, v.content[at], f"Gather({v}, i64 {at})")
            return self.int_value(lines, v.content[[at]], f"Gather({v}, i64[1] [{at}])")
        if kind == 3 and lists:
            v = self.pick(lists)
            start, end = self.random.randrange(3), self.random.choice([1, 2, 3, 2**63 - 1])
            cut = v.content[start:end]
            if cut.size:
                return self.int_value(lines, cut, f"Slice({v}, i64[1] [{start}], i64[1] [{end}], i64[1] [0])")
            return self.int_value(lines, v.content[::-1],
                                  f"Slice({v}, i64[1] [-1], i64[1] [{-2**63}], i64[1] [0], i64[1] [-1])")
        if kind == 4 and numbers:
            v = self.pick(numbers)
            return self.int_value(lines, v.content[None], f"Unsqueeze({v}, i64[1] [0])")
        if kind == 5 and lists:
            a, b = self.pick(lists), self.pick(lists)
            return self.int_value(lines, np.concatenate([a.content, b.content]), f"Concat({a}, {b}) {{axis=0}}")
        if numbers:
            a, b = self.pick(numbers), self.pick(numbers)
            op, f = self.random.choice([("Add", np.add), ("Mul", np.multiply), ("Sub", np.subtract)])
            result = f(a.content, b.content)
            if abs(int(result)) < 10**9:
                return self.int_value(lines, result, f"{op}({a}, {b})")
        x = self.pick(floats)
        return self.int_value(lines, x.shape, f"Shape({x})")

    def target(self, lines, shape, ints):
        """A list of these sizes, of parts that are computed where there are such."""
        parts = []
        for size in shape:
            known = [v for v in ints if v.content.size == 1 and int(v.content.reshape(-1)[0]) == size]
            v = self.pick(known) if self.chance(0.8) else None
            if v is not None and v.content.ndim == 0:
                v = self.int_value(lines, v.content[None], f"Unsqueeze({v}, i64[1] [0])")
            parts.append(str(v) if v is not None else f"i64[1] [{size}]")
        if not parts:
            return None
        return self.int_value(lines, shape, f"Concat({', '.join(parts)}) {{axis=0}}")

    def reshape(self, lines, x, ints):
        count = int(np.prod(x.shape, dtype=np.int64))
        shape, left = [], count
        for _ in range(self.random.randrange(3)):
            divisors = [d for d in range(1, 13) if left % d == 0] if left else [1]
            known = [d for d in divisors if d in x.shape]
            shape.append(self.pick(known if known and self.chance(0.6) else divisors))
            left //= shape[-1]
        shape.append(left)
        self.random.shuffle(shape)
        if 0 in shape or not shape:
            return self.unary(lines, x)
        target = self.target(lines, shape, ints)
        ints.append(target)
        operand = str(target)
        if self.chance(0.2):
            at = self.random.randrange(len(shape))
            operand = f"i64[{len(shape)}] {[-1 if k == at else d for k, d in enumerate(shape)]}"
        zero = " {allowzero=1}" if self.chance(0.2) else ""
        return self.emit(lines, Value(self.name("r"), "f32", shape), f"Reshape({x}, {operand}){zero}")

    def merge(self, lines, x, ints):
        """A Reshape that makes one of two neighbouring sizes, or keeps all, by what Shape says."""
        s, n = self.int_value(lines, x.shape, f"Shape({x})"), len(x.shape)
        at = self.random.randrange(-1, n - 1)
        if at < 0:
            parts = [self.int_value(lines, [d], f"Gather({s}, i64[1] [{k}])") for k, d in enumerate(x.shape)]
        else:
            parts = []
            for k in range(n):
                part = self.int_value(lines, [x.shape[k]], f"Slice({s}, i64[1] [{k}], i64[1] [{k + 1}])")
                if k == at + 1:
                    last = parts.pop()
                    part = self.int_value(lines, last.content * part.content, f"Mul({last}, {part})")
                parts.append(part)
        content = np.concatenate([p.content for p in parts])
        target = self.int_value(lines, content, f"Concat({', '.join(map(str, parts))}) {{axis=0}}")
        ints.append(target)
        return self.emit(lines, Value(self.name("r"), "f32", content.tolist()), f"Reshape({x}, {target})")

    def expand(self, lines, x, ints):
        shape = [d if d != 1 else self.random.choice([1, 2, 3]) for d in x.shape]
        if not shape or np.prod(shape) > 300:
            return self.unary(lines, x)
        target = self.target(lines, shape, ints)
        ints.append(target)
        return self.emit(lines, Value(self.name("e"), "f32", shape), f"Expand({x}, {target})")

    # ---- what must not run ----------------------------------------------------------------------------------------------

    def failing(self, lines, floats, ints):
        x = self.pick(floats)
        what = self.random.randrange(4)
        name = self.name("bad")
        if what == 0:
            lines.append(f"%{name} = Gather({x}, i64[1] [99]) {{axis=0}}" if x.shape else f"%{name} = Neg({x})")
        elif what == 1:
            shape = self.int_value(lines, x.shape, f"Shape({x})")
            lines.append(f"%{name} = Div({shape}, %zero)")
        elif what == 2 and ints:
            lines.append(f"%{name} = Reshape({x}, %odd)")
        else:
            lines.append(f"%{name} = Add({x}, %odd_sized)")
        return name

    # ---- nested graphs --------------------------------------------------------------------------------------------------

    def condition(self, lines, ints, conditions):
        """(text, truth) of a boolean."""
        kind = self.random.randrange(4)
        truth = self.chance(0.5)
        if kind == 0:
            return f"bool {str(truth).lower()}", truth
        if kind == 1 and ints:
            numbers = [v for v in ints if v.content.ndim == 0]
            if numbers:
                v = self.pick(numbers)
                name = self.name("q")
                lines.append(f"%{name} = Equal({v}, i64 {int(v.content) if truth else int(v.content) + 1})")
                return f"%{name}", truth
        name, truth = self.pick(conditions)
        return f"%{name}", truth

    def block(self, floats, ints, conditions, depth, n, may_fail=False):
        """Statements, and the values that they add."""
        lines, floats, ints = [], list(floats), list(ints)
        self.nested += depth < DEPTH
        for _ in range(n):
            kind = self.random.random()
            x = self.pick(floats[-6:])
            if may_fail and self.chance(0.2):
                self.failing(lines, floats, ints)
            elif kind < 0.25:
                floats.append(self.unary(lines, x) if self.chance(0.5) else self.binary(lines, x, floats))
            elif kind < 0.35:
                floats.append(self.move(lines, x))
            elif kind < 0.6:
                ints.append(self.sizes(lines, floats, ints))
            elif kind < 0.7:
                floats.append((self.merge if x.shape and self.chance(0.5) else self.reshape)(lines, x, ints))
            elif kind < 0.75:
                floats.append(self.expand(lines, x, ints))
            elif depth > 0 and kind < 0.85:
                self.branch(lines, floats, ints, conditions, depth)
            elif depth > 0 and kind < 0.95:
                self.loop(lines, floats, ints, conditions, depth)
            elif depth > 0:
                self.scan(lines, floats, ints, conditions, depth)
        self.nested -= depth < DEPTH
        return lines, floats, ints

    @staticmethod
    def indent(lines):
        return "\n".join("  " + line for text in lines for line in text.split("\n"))

    def branch(self, lines, floats, ints, conditions, depth):
        text, truth = self.condition(lines, ints, conditions)
        inner = list(conditions) + ([(text[1:], truth)] if text[0] == "%" else []) * 3
        taken, values, _ = self.block(floats, ints, inner, depth - 1, self.random.randrange(1, 5))
        other, others, _ = self.block(floats, ints, inner, depth - 1, self.random.randrange(0, 3), may_fail=True)
        result = Value(self.name("if"), "f32", values[-1].shape)
        graphs = {truth: (taken, values[-1]), not truth: (other, others[-1])}
        parts = [f"{'then' if t else 'else'}_branch = graph () -> ({graphs[t][1]}) {{\n{self.indent(graphs[t][0])}\n}}"
                 for t in (True, False)]  # fmt: skip
        self.emit(lines, result, f"If({text}) {{{', '.join(parts)}}}")
        floats.append(result)

    def same_shape(self, lines, values, like):
        """A value of that shape for the next turn."""
        good = [v for v in values if v.shape == like.shape]
        return self.unary(lines, self.pick(good[-4:]), "Tanh")

    def loop(self, lines, floats, ints, conditions, depth):
        init = self.pick(floats)
        trips = self.random.choice([0, 0, 1, 2, 3, 5, 9])
        limit = "_"
        if self.chance(0.75):
            limit = f"i64 {trips}" if self.chance(0.6) else f"%{self.number(trips)}"
        text, truth = self.condition(lines, ints, conditions) if self.chance(0.5) else ("_", True)
        i, go, h = self.name("i"), self.name("go"), Value(self.name("h"), "f32", init.shape)
        first = f": i64[{self.random.choice(['', '1'])}]" if self.chance(0.3) else ""
        begin = len(floats)
        enters = truth and (limit == "_" or trips > 0)
        body, values, _ = self.block(floats + [h], ints, conditions, depth - 1, self.random.randrange(1, 5), not enters)
        stop = self.name("stop")
        kind = self.random.randrange(4) if limit != "_" else 4
        if kind == 0:
            body.append(f"%{stop} = Const {{data = bool true}}")
        elif kind == 1:
            body.append(f"%{stop} = Identity(%{go})")
        elif kind == 2:
            body.append(f"%{stop} = Const {{data = bool false}}")
        elif kind == 3:
            stop = go
        else:
            last = self.random.randrange(4)
            number = self.name("j")
            body.append(f"%{number} = Squeeze(%{i})")
            body.append(f"%{stop} = Less(%{number}, i64 {last})")
        if self.chance(0.4):
            body += [f"%{i}f = Cast(%{i}) {{to=1}}", f"%{i}s = Squeeze(%{i}f)", f"%{h.name}i = Add({h}, %{i}s)"]
            values.append(Value(f"{h.name}i", "f32", h.shape))
        self.nested += 1
        following = self.same_shape(body, values, h)
        self.nested -= 1
        slices = [v for v in values[begin:] if v.name != h.name]
        stacked = self.pick(slices) if slices and self.chance(0.7) else None
        outputs = [f"%{stop}", str(following)] + ([str(stacked)] if stacked else [])
        result = Value(self.name("loop"), "f32", init.shape)
        results = [self.lie(result)] if self.chance(0.9) else [f"%{result.name}"]
        if stacked:
            name = self.name("stack")
            results.append(f"%{name}")
            if enters:
                counts = limit != "_" and text == "_"  # the body's condition is ignored then
                turns = trips if counts else {2: 1, 4: last + 1 if kind == 4 else 0}.get(kind, trips)
                floats.append(Value(name, "f32", (turns, *stacked.shape))) if len(stacked.shape) < 4 else None
            elif depth == DEPTH:
                self.loose.append(name)
        floats.append(result)
        graph = f"graph (%{i}{first}, %{go}, {h}) -> ({', '.join(outputs)}) {{\n{self.indent(body)}\n}}"
        lines.append(f"{', '.join(results)} = Loop({limit}, {text}, {init}) {{body = {graph}}}{self.loc()}")

    def scan(self, lines, floats, ints, conditions, depth):
        scanned = [v for v in floats if v.shape and min(v.shape) > 0 and max(v.shape) <= 12]
        if not scanned:
            return
        x, init = self.pick(scanned), self.pick(floats)
        axis = self.random.randrange(len(x.shape))
        rest = x.shape[:axis] + x.shape[axis + 1 :]
        h, s = Value(self.name("h"), "f32", init.shape), Value(self.name("s"), "f32", rest)
        begin = len(floats)
        body, values, _ = self.block(floats + [h, s], ints, conditions, depth - 1, self.random.randrange(1, 4))
        self.nested += 1
        following = self.same_shape(body, values, h)
        self.nested -= 1
        stacked = self.pick([v for v in values[begin:] if len(v.shape) < 4] or [s])
        where = self.random.randrange(-len(stacked.shape) - 1, len(stacked.shape) + 1)
        shape = list(stacked.shape)
        shape.insert(where if where >= 0 else len(shape) + 1 + where, x.shape[axis])
        attributes = ["num_scan_inputs=1", f"scan_input_axes=[{axis - (len(x.shape) if self.chance(0.3) else 0)}]",
                      f"scan_output_axes=[{where}]", f"scan_input_directions=[{self.random.randrange(2)}]",
                      f"scan_output_directions=[{self.random.randrange(2)}]"]  # fmt: skip
        graph = f"graph ({h}, {s}) -> ({following}, {stacked}) {{\n{self.indent(body)}\n}}"
        state, stack = Value(self.name("scan"), "f32", init.shape), Value(self.name("stack"), "f32", shape)
        lines.append(f"{state}, {stack} = Scan({init}, {x}) {{body = {graph}, {', '.join(attributes)}}}{self.loc()}")
        floats += [state, stack]

    def number(self, value):
        """An input that holds it."""
        return self.input("i64", np.array(value, np.int64), []).name

    # ---- models ---------------------------------------------------------------------------------------------------------

    def model(self, n):
        """(text, inputs by name, names of outputs whose sizes may differ where they are empty)"""
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        floats = []
        for _ in range(self.random.randrange(1, 4)):
            shape = [self.random.choice([1, 2, 3, 4]) for _ in range(self.random.randrange(1, 4))]
            sizes = [self.random.choice([str(d), f"n{d}", f"m{d}", "?"]) for d in shape]
            floats.append(self.input("f32", rng.standard_normal(shape).astype(np.float32), sizes))
        conditions = []
        for truth in (True, False):
            conditions.append((self.input("bool", np.array(truth), []).name, truth))
        self.inputs += ["%zero: i64[]", "%odd: i64[k]", "%odd_sized: f32[odd]"]
        self.feeds |= {"zero": np.array(0, np.int64), "odd": np.array([7, 11], np.int64),
                       "odd_sized": np.zeros(13, np.float32)}  # fmt: skip
        before = {v.name for v in floats}
        lines, floats, ints = self.block(floats, [], conditions, DEPTH, n)
        outputs = [v.name for v in floats if v.name not in before][-8:] + [v.name for v in ints][-8:]
        text = "\n".join(lines)
        outputs += self.loose
        if not outputs:
            return None
        text = (f"tn 1\ngraph @main({', '.join(self.inputs)}) -> ({', '.join('%' + o for o in outputs)}) {{\n"
                f"{self.indent(lines)}\n}}\n")  # fmt: skip
        return text, self.feeds, self.loose
