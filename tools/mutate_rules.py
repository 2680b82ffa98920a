#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks rewrite rules on purpose and sees to it that the proof, or the engine, refuses them.

    tools/mutate_rules.py [--tenon build/tenon] [--instances N] [--again N] [--seed N] [--every K] [--rules FILE...]
                          [--journal FILE] [--progress] [NAME...]

Each rule of src/rules is changed in all the ways that are known here: operands swapped, exchanged and dropped, other ops,
attributes changed, dropped and no longer asked for, numbers a little off, conditions dropped and loosened, functions of sizes
asked of the wrong place. Rules so changed that still are proven are tried again with more instances, and then printed. Exit
status 1 when more than 2 % are, those in tools/mutate_rules.txt aside, or when a rule could not be changed in 8 ways.

A whole run takes long. With a journal it can be stopped at any time and goes on from there; take a new one for a new build.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools" / "mutate_rules.txt"
LEAST_WAYS = 8
SPARE = 4  # ways more than that, since some change nothing
MOST_SURVIVORS = 0.02
AT_ONCE = 12  # rules of one process

TOKEN = re.compile(
    r"""(?P<blank>\s+|\#[^\n]*)|(?P<string>"(?:\\.|[^"\\])*")|(?P<value>%[A-Za-z_0-9.]+)|(?P<var>\$[A-Za-z_0-9]+)|
    (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_0-9]+)*)|
    (?P<punct>\.\.\.|==|!=|<=|>=|\?:|.)""",
    re.X | re.S,
)
COMMUTATIVE = {"Add", "Mul", "And", "Or", "Xor", "Equal", "Max", "Min", "Sum", "Mean", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}
OTHER_OP = {
    "Abs": "Neg", "Add": "Sub", "And": "Or", "BitwiseAnd": "BitwiseOr", "BitwiseOr": "BitwiseAnd", "Ceil": "Floor",
    "Concat": "Sum", "Div": "Mul", "Equal": "Less", "Flatten": "Identity", "Erf": "Tanh", "Exp": "Sqrt", "Floor": "Ceil",
    "Gelu": "Swish", "GlobalAveragePool": "GlobalMaxPool", "GlobalMaxPool": "GlobalAveragePool", "Greater": "Less",
    "GreaterOrEqual": "Greater", "HardSwish": "Mish", "Less": "LessOrEqual", "LessOrEqual": "Less", "Log": "Sqrt",
    "LogSoftmax": "Softmax", "Max": "Min", "Min": "Max", "Mish": "Swish", "Mul": "Div", "Neg": "Abs", "Not": "Identity",
    "Or": "And", "Reciprocal": "Neg", "ReduceMax": "ReduceMin", "ReduceMean": "ReduceSum", "ReduceMin": "ReduceMax",
    "Round": "Abs", "ReduceSum": "ReduceMean", "Relu": "Abs", "RMSNormalization": "SimplifiedLayerNormalization", "Sigmoid": "Tanh",
    "Softmax": "LogSoftmax", "Softplus": "Softsign", "Sqrt": "Abs", "Squeeze": "Unsqueeze", "Sub": "Add", "Swish": "Mish",
    "Tanh": "Sigmoid", "Unsqueeze": "Squeeze",
}  # fmt: skip
NUMERIC = {"Abs", "Add", "Div", "Erf", "Exp", "Log", "Mul", "Neg", "Not", "Pow", "Reciprocal", "Relu", "Sigmoid", "Softmax", "Sqrt", "Sub", "Tanh"}
ALL_ATTRS = {"Concat", "Einsum", "Flatten", "Gather", "Gelu", "GlobalAveragePool", "LeakyRelu", "LogSoftmax", "Reshape", "Softmax", "Transpose"}
PRESETS = {"keepdims": "1", "group": "1", "transA": "0", "transB": "0", "alpha": "1.0", "beta": "1.0", "training_mode": "0", "auto_pad": '"NOTSET"'}
SWITCHES = {"keepdims", "transA", "transB", "is_causal", "count_include_pad", "ceil_mode", "exclusive", "reverse", "interleaved",
            "noop_with_empty_axes", "select_last_index"}  # fmt: skip
OTHER_FUNCTION = {"channels_first": "channels", "channels": "channels_first", "max": "min", "min": "max", "prod": "sum", "sum": "prod"}


class Token:
    def __init__(self, kind, text, at):
        self.kind, self.text, self.at, self.end = kind, text, at, at + len(text)


def tokens_of(text):
    return [Token(m.lastgroup, m.group(), m.start()) for m in TOKEN.finditer(text) if m.lastgroup != "blank"]


class Rule:
    """One rule's text, its tokens, and what of it are calls, attributes and conditions: spans of tokens."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        level = re.match(r"rule\s+\S+\s+level\s+(\d)", text)
        self.level = int(level.group(1)) if level else 1
        self.tokens = tokens_of(text)
        self.close = self.brackets()
        words = [i for i, t in enumerate(self.tokens) if t.kind == "name" and t.text in ("match", "where", "write")]
        marks = {self.tokens[i].text: i for i in reversed(words)}
        end = len(self.tokens)
        self.match = (marks["match"] + 1, marks.get("where", marks["write"]))
        self.where = (marks["where"] + 1, marks["write"]) if "where" in marks else (end, end)
        self.write = (marks["write"] + 1, end)

    def where_also(self, condition, edit):
        """The text with one edit on the left side and one condition more."""
        at = self.tokens[self.write[0] - 1].at
        more = f", {condition}\n  " if self.where[0] < self.where[1] else f"where {condition}\n  "
        place = self.tokens[self.where[1] - 1].end if self.where[0] < self.where[1] else at
        return self.replaced(edit, ((place, at), more))

    def brackets(self):
        pairs, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.text in ("(", "[", "{"):
                stack.append(i)
            elif token.text in (")", "]", "}") and stack:
                pairs[stack.pop()] = i
        return pairs

    def parts(self, first, last):
        """The spans between commas of tokens first..last-1, brackets passed over."""
        spans, start, i = [], first, first
        while i < last:
            if i in self.close:
                i = self.close[i]
            elif self.tokens[i].text == ",":
                spans.append((start, i))
                start = i + 1
            i += 1
        if start < last:
            spans.append((start, last))
        return spans

    def span(self, part):
        return self.tokens[part[0]].at, self.tokens[part[1] - 1].end

    def source(self, part):
        a, b = self.span(part)
        return self.text[a:b]

    def replaced(self, *edits):
        """The text with spans of characters replaced."""
        text = self.text
        for (a, b), new in sorted(edits, reverse=True):
            text = text[:a] + new + text[b:]
        return text

    def commutes(self, op):
        """Whether the operands of an op, or of all that $op may be, can be swapped."""
        if not op.startswith("$"):
            return op in COMMUTATIVE
        at = next(i for i, t in enumerate(self.tokens) if t.text == op)
        if self.tokens[at + 1].text != "[":
            return False
        return all(t.text in COMMUTATIVE for t in self.tokens[at + 2 : self.close[at + 1]] if t.kind == "name")

    def calls(self, section):
        """(op, index of its token, operands, index of the bracket) of each node."""
        first, last = section
        for i in range(first, last - 1):
            token = self.tokens[i]
            op = token.kind == "name" and (token.text[0].isupper() or "." in token.text)
            at = i + 1
            if token.kind == "var" and self.tokens[at].text == "[":
                at = self.close[at] + 1
            if (op or token.kind == "var") and at < last and self.tokens[at].text == "(":
                yield token.text, i, self.parts(at + 1, self.close[at]), self.close[at]

    def attrs(self, section):
        """Spans of single attributes."""
        for i in range(*section):
            if self.tokens[i].text == "{":
                yield from ((part, i) for part in self.parts(i + 1, self.close[i]))

    def ops(self, section):
        """Indices of names of ops, those with alternatives left out."""
        for i in range(*section):
            token, before = self.tokens[i], self.tokens[i - 1].text
            alone = before not in ("|", "[") or section is self.write
            if token.kind == "name" and token.text[0].isupper() and i + 1 < len(self.tokens) and self.tokens[i + 1].text == "(" and alone:
                yield i

    def in_function(self, i):
        """Whether it is part of a function's arguments: sizes, which the engine checks."""
        return any(a < i < b and self.tokens[a].text == "(" and self.tokens[a - 1].kind == "name" and self.tokens[a - 1].text[0].islower()
                   for a, b in self.close.items())  # fmt: skip

    def inside(self, i):
        return any(a < i < b for a, b in self.close.items())

    def begin_of_statement(self, i):
        """Of that whose = is token i."""
        i -= 1
        while self.tokens[i - 1].text == ",":
            i -= 2
        return i

    def has_attrs(self, i):
        close = self.close[i + 1]
        return close + 1 < len(self.tokens) and self.tokens[close + 1].text == "{"

    def results(self, section):
        first, last = section
        return [self.tokens[i].text for i in range(first, last - 1) if self.tokens[i].kind == "value" and self.is_result(i, last)]

    def is_result(self, i, last):
        while i + 1 < last and self.tokens[i + 1].text == ",":
            i += 2
        return i + 1 < last and self.tokens[i + 1].text == "=" and i < last and self.tokens[i].kind in ("value", "name")

    def leaves(self):
        """What the left side is given."""
        made = set(self.results(self.match))
        return [v for v in dict.fromkeys(self.values(self.match)) if v not in made]

    def values(self, section):
        return [t.text for t in self.tokens[section[0] : section[1]] if t.kind == "value"]

    def functions(self, section, names=None):
        for i in range(*section):
            t = self.tokens[i]
            call = t.kind == "name" and t.text[0].islower() and i + 1 < len(self.tokens) and self.tokens[i + 1].text == "("
            if call and (names is None or t.text in names):
                yield t.text, i, self.parts(i + 2, self.close[i + 1])


def changed_number(text):
    return str(int(text) + 1) if text.isdigit() else repr(float(text) * 1.01 + (0.01 if float(text) == 0 else 0))


# Each of these yields (what was done, the rule's new text).


def swap_operands(rule):
    for section in (rule.match, rule.write):
        for op, _, operands, _ in rule.calls(section):
            if len(operands) == 2 and rule.commutes(op):
                continue
            for a, b in zip(operands, operands[1:]):
                x, y = rule.source(a), rule.source(b)
                if x != y and not y.endswith("...") and op != "Clip":
                    yield f"swap {x}, {y} of {op}", rule.replaced((rule.span(a), y), (rule.span(b), x))


def other_operands(rule):
    leaves = rule.leaves()
    for op, _, operands, _ in rule.calls(rule.write):
        for part in operands:
            if part[1] - part[0] != 1 or rule.tokens[part[0]].kind != "value":
                continue
            name = rule.source(part)
            for other in [v for v in leaves if v != name and name in leaves][:3]:
                yield f"{other} for {name} in {op}", rule.replaced((rule.span(part), other))


def drop_operands(rule):
    for op, _, operands, _ in rule.calls(rule.write):
        if len(operands) > 1:
            part = operands[-1]
            yield f"drop {rule.source(part)} of {op}", rule.replaced(((rule.tokens[part[0] - 1].at, rule.span(part)[1]), ""))
        for part in operands:
            if rule.tokens[part[0]].kind == "value" and "?:" in rule.source(part):
                other = rule.source(part).split("?:")[1].strip()
                yield f"{other} for {rule.source(part)}", rule.replaced((rule.span(part), other))


def other_ops(rule):
    for section in (rule.match, rule.write):
        for i in rule.ops(section):
            token = rule.tokens[i]
            other = OTHER_OP.get(token.text)
            if other:
                yield f"{other} for {token.text} at {token.at}", rule.replaced(((token.at, token.end), other))
            if other and section is rule.match and not rule.has_attrs(i) and "queeze" not in other:
                yield f"{other} besides {token.text} at {token.at}", rule.replaced(((token.at, token.end), f"{other}|{token.text}"))


def wrap(rule):
    """A sign on what the right side makes, or reads; or an op left out."""
    first, last = rule.write
    for op, i, operands, close in rule.calls(rule.write):
        end = rule.close[close + 1] if close + 1 < last and rule.tokens[close + 1].text == "{" else close
        whole = (i, end + 1)
        if op in NUMERIC and operands:
            yield f"no {op}", rule.replaced((rule.span(whole), rule.source(operands[0]).split("?:")[0].strip()))
        for part in operands:
            if part[1] - part[0] == 1 and rule.tokens[part[0]].kind == "value":
                yield f"minus {rule.source(part)} in {op}", rule.replaced((rule.span(part), f"Neg({rule.source(part)})"))
    for i in range(first, last - 2):
        alias = rule.tokens[i].text == "=" and rule.tokens[i + 1].kind == "value" and rule.tokens[i - 1].kind == "value"
        if alias:
            name = rule.tokens[i + 1]
            yield f"minus {name.text}", rule.replaced(((name.at, name.end), f"Neg({name.text})"))
    for i in range(first, last - 1):
        if rule.tokens[i].text == "=" and rule.tokens[i + 1].kind == "value" and rule.tokens[i - 1].kind == "value":
            for other in [v for v in rule.leaves() if v not in (rule.tokens[i + 1].text, rule.tokens[i - 1].text)]:
                t = rule.tokens[i + 1]
                yield f"{other} for {t.text}", rule.replaced(((t.at, t.end), other))


def spoil_result(rule):
    """What replaces a value, and something done to it."""
    first, last = rule.write
    made = set(rule.results(rule.match))
    for i in range(first, last - 2):
        t = rule.tokens[i]
        alone = t.kind == "value" and rule.tokens[i + 1].text == "=" and rule.tokens[i - 1].text != ","
        if not alone or t.text not in made:
            continue
        stop = next((k for k in range(i + 2, last - 1) if rule.tokens[k].text == "=" and not rule.inside(k)), None)
        stop = last if stop is None else rule.begin_of_statement(stop)
        source = rule.source((i + 2, stop))
        for form in ("Neg({0})", "Add({0}, {0})", "Exp({0})", "Mul({0}, {0})", "Sub({0}, {0})", "Sqrt({0})", "Cos({0})", "Tanh({0})"):
            yield form.format(source if stop - i == 3 else "..."), rule.replaced((rule.span((i + 2, stop)), form.format(source)))


def tell_apart(rule):
    """What stands twice on the left may be two things."""
    used = set(rule.values(rule.match))
    for op, _, operands, _ in rule.calls(rule.match):
        for part in operands:
            name = rule.source(part)
            again = sum(t.text == name for t in rule.tokens[rule.match[0] : rule.match[1]]) > 1
            if rule.tokens[part[0]].kind == "value" and part[1] - part[0] == 1 and again:
                fresh = name + "9"
                if fresh not in used:
                    yield f"another value for {name} in {op}", rule.replaced((rule.span(part), fresh))
    for i in range(*rule.match):
        t = rule.tokens[i]
        if t.kind == "var" and sum(x.text == t.text for x in rule.tokens[rule.match[0] : rule.match[1]]) > 1:
            yield f"another {t.text} at {t.at}", rule.replaced(((t.at, t.end), t.text + "_other"))


def change_attrs(rule):
    for part, _ in rule.attrs(rule.write):
        source = rule.source(part)
        if "=" not in source:
            yield f"drop {source}", rule.replaced(((rule.span(part)), ""), *comma(rule, part))
            continue
        name, value = (x.strip() for x in source.split("=", 1))
        if name == "keepdims":  # a matter of sizes, which the engine checks
            continue
        if PRESETS.get(name) != value:
            yield f"drop {source}", rule.replaced(((rule.span(part)), ""), *comma(rule, part))
        if value.startswith('"'):
            continue
        if value.startswith("["):
            items = [x.strip() for x in value[1:-1].split(",")]
            if len(items) > 1 and items[1:] + items[:1] != items:
                yield f"rotate {source}", rule.replaced((rule.span(part), f"{name}=[{', '.join(items[1:] + items[:1])}]"))
            continue
        other = f"1 - ({value})" if name in SWITCHES else f"({value}) + 1"
        yield f"{name}={other}", rule.replaced((rule.span(part), f"{name}={other}"))
        if name == "epsilon":
            yield f"{source} times 1.5", rule.replaced((rule.span(part), f"{name}=({value}) * 1.5"))


def comma(rule, part):
    """What goes with a part that is dropped from a list: the comma behind it, or that in front."""
    if rule.tokens[part[1]].text == ",":
        t = rule.tokens[part[1]]
    elif rule.tokens[part[0] - 1].text == ",":
        t = rule.tokens[part[0] - 1]
    else:
        return []
    return [((t.at, t.end), "")]


def ask_less_of_attrs(rule):
    for part, _ in rule.attrs(rule.match):
        source = rule.source(part)
        value = source.split("=", 1)[1].strip() if "=" in source else ""
        if value and not value.startswith("$") and not source.startswith("keepdims"):
            name = source.split("=", 1)[0].strip()
            yield f"any {source}", rule.replaced((rule.span(part), name)), rule.where_also(f"not ($other == {value})", (rule.span(part), f"{name}=$other"))
    for op, at, _, close in rule.calls(rule.match):
        if op in ALL_ATTRS or op.startswith("$") or not rule.has_attrs(at):
            continue
        brace = close + 1
        if not any(rule.tokens[part[0]].text == "*" for part in rule.parts(brace + 1, rule.close[brace])):
            end = rule.tokens[rule.close[brace]].at
            yield f"any other attributes of {op}", rule.replaced(((end, end), ", *"))


def change_numbers(rule):
    for section in (rule.match, rule.write):
        for i in range(*section):
            token = rule.tokens[i]
            switch = rule.tokens[i - 1].text == "=" and rule.tokens[i - 2].text in SWITCHES
            if token.kind == "number" and not switch and not rule.in_function(i):
                new = changed_number(token.text)
                yield f"{new} for {token.text} at {token.at}", rule.replaced(((token.at, token.end), new))


def drop_conditions(rule):
    """All but those that are there for the sake of cost: that something is constant, or read once."""
    parts = rule.parts(*rule.where)
    for part in parts:
        source = rule.source(part)
        if re.fullmatch(r"(const|one_use|is_permutation|is_moderate)\([^()]*\)", source):
            continue
        negated = re.fullmatch(r"not \(([^()]*(?:\([^()]*\)[^()]*)*)\)", source)
        rest = rule.replaced((rule.span(part), negated.group(1) if negated else f"not ({source})"))
        if len(parts) == 1:
            start = rule.tokens[rule.where[0] - 1].at
            yield f"drop {source}", rule.replaced(((start, rule.span(part)[1]), "")), rest
        else:
            yield f"drop {source}", rule.replaced((rule.span(part), ""), *comma(rule, part)), rest


def other_functions(rule):
    for section in (rule.write,):
        for name, i, args in rule.functions(section):
            t, whole = rule.tokens[i], (i, rule.close[i + 1] + 1)
            if name in OTHER_FUNCTION:
                yield f"{OTHER_FUNCTION[name]} for {name}", rule.replaced(((t.at, t.end), OTHER_FUNCTION[name]))
                for arg in args if len(args) == 2 else ():
                    yield f"{rule.source(arg)} for {rule.source(whole)}", rule.replaced((rule.span(whole), rule.source(arg)))
            elif name == "inverse":
                yield "no inverse", rule.replaced((rule.span(whole), rule.source(args[0])))
            elif name == "permute":
                x, y = rule.source(args[0]), rule.source(args[1])
                yield "permute turned", rule.replaced((rule.span(args[0]), y), (rule.span(args[1]), x))


WAYS = [swap_operands, other_operands, drop_operands, other_ops, wrap, tell_apart, change_attrs, ask_less_of_attrs, change_numbers,
        drop_conditions, other_functions, spoil_result]  # fmt: skip


class Mutant:
    """One change. `rest`, unless None, is the rule for those instances only that the change lets in."""

    def __init__(self, rule, what, text, rest, number):
        self.rule, self.what, self.level = rule.name, what, rule.level
        self.name = f"{rule.name}__{number}"
        self.text = text.replace(rule.name, self.name, 1)
        self.rest = rest
        self.outcome = self.why = None


def name_once(what, named):
    """Without the place, but with a number from the second on."""
    what = " ".join(re.sub(r" at \d+$", "", what).split())
    named[what] = named.get(what, 0) + 1
    return what if named[what] == 1 else f"{what} ({named[what]})"


def mutants_of(rule):
    seen, named, out = {rule.text}, {}, []
    for way in WAYS:
        for what, text, *rest in way(rule):
            if way is spoil_result and len(out) >= LEAST_WAYS + SPARE:
                break
            if text not in seen:
                seen.add(text)
                out.append(Mutant(rule, name_once(what, named), text, rest[0] if rest else None, len(out)))
    return out


def rules_in(path):
    text = pathlib.Path(path).read_text()
    starts = [m.start() for m in re.finditer(r"^rule\s", text, re.M)] + [len(text)]
    for a, b in zip(starts, starts[1:]):
        body = text[a:b].rstrip() + "\n"
        yield Rule(body.split()[1], body)


# ---- what the engine says ----


class Journal:
    """What the engine said so far, by text: a file of lines, from which a run that was stopped goes on."""

    def __init__(self, path):
        self.answers, self.lock, self.file = {}, threading.Lock(), None
        if path:
            self.file = open(path, "a+", encoding="utf-8")
            self.file.seek(0)
            for line in self.file:
                if line.endswith("\n"):  # else the run was stopped while it was written
                    self.answers.update([json.loads(line)])

    def get(self, key):
        return self.answers.get(key)

    def put(self, key, answer):
        with self.lock:
            self.answers[key] = answer
            if self.file:
                self.file.write(json.dumps([key, answer]) + "\n")
                self.file.flush()


def ask(args, mutants, path, instances):
    """Runs the proofs of all mutants at once; what is no rule is taken out by its line, one after the other."""
    left, answers = list(mutants), {}
    while left:
        lines, at = [], 1
        for m in left:
            lines.append(m.text)
            m.line, at = at, at + m.text.count("\n")
        path.write_text("".join(lines))
        command = [args.tenon, "rules", "--rules", path, "--prove", "--json", "--as-found", "--instances", str(instances), "--seed",
                   str(args.seed)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.stdout.strip():
            return answers | {p["name"]: [p["outcome"], p["why"], p["exact"]] for p in json.loads(done.stdout)}
        place = re.search(r"line (\d+)", done.stderr)
        if done.returncode != 1 or not place:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr}")
        wrong = max((m for m in left if m.line <= int(place.group(1))), key=lambda m: m.line)
        answers[wrong.name] = ["refused", done.stderr.strip().splitlines()[0], False]
        left.remove(wrong)
    return answers


def judge(args, mutants, instances):
    """In processes that take some of them each."""

    def key(m):
        return hashlib.sha256(f"{instances} {args.seed}\n{m.text}".encode()).hexdigest()

    new = [m for m in mutants if args.journal.get(key(m)) is None]
    for part in (new[k : k + AT_ONCE] for k in range(0, len(new), AT_ONCE)):
        with tempfile.TemporaryDirectory() as folder:
            answers = ask(args, part, pathlib.Path(folder) / "broken.rules", instances)
        for m in part:
            args.journal.put(key(m), answers[m.name])
    for m in mutants:
        m.outcome, m.why, m.exact = args.journal.get(key(m))


def judge_let_in(args, mutants, instances):
    """Of those that hold, what the change lets in, alone."""
    let_in = {m: Mutant.__new__(Mutant) for m in mutants if m.outcome == "holds" and m.rest}
    for m, rest in let_in.items():
        rest.__dict__.update(m.__dict__, text=m.rest.replace(m.rule, m.name, 1), outcome=None)
    judge(args, list(let_in.values()), instances)
    for m, rest in let_in.items():
        if rest.outcome == "refuted":
            m.outcome, m.why = "refuted", rest.why
        elif rest.outcome in ("unknown", "refused"):
            m.outcome = "same"


def judge_all(args, rule, mutants, known):
    """All changes of one rule. Sets outcome to "inexact" where a rule of level 1 no longer keeps every bit, to "refuted" where that
    holds of what the change lets in, and to "same" where that does not exist: there are no instances of it, so nothing was changed."""
    original = Mutant(rule, "", rule.text, None, 0)
    judge(args, [original], args.instances)
    exact = original.outcome == "holds" and original.exact
    judge(args, mutants, args.instances)
    judge_let_in(args, mutants, args.instances)
    left = [m for m in mutants if m.outcome == "holds" and (m.rule, m.what) not in known]
    judge(args, left, args.again)
    judge_let_in(args, left, args.again)
    for m in mutants:
        if m.outcome == "holds" and m.level <= 1 and exact and not m.exact:
            m.outcome = "inexact"


def tell(args, rule, mutants, known, started):
    """What became of one rule's changes, in one piece."""
    lines = [f"{m.outcome:8} {m.rule}: {m.what}: {m.why}" for m in mutants] if args.verbose else []
    for m in mutants:
        if m.outcome == "holds" and (m.rule, m.what) not in known:
            lines += [f"survives: {m.rule} | {m.what}"] + ([m.text] if args.verbose else [])
    if args.progress:
        lines.append(f"{rule.name}: {len(mutants)} changes, {sum(m.outcome == 'holds' for m in mutants)} hold, {time.time() - started:.0f} s")
    if lines:
        print("\n".join(lines), flush=True)


def equivalent():
    """{(rule, what): reason}. Lines: rule | what | reason."""
    known = {}
    if EQUIVALENT.exists():
        for line in EQUIVALENT.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                rule, what, reason = (x.strip() for x in line.split(" | ", 2))
                known[rule, what] = reason
    return known


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default=pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")) / "tenon")
    parser.add_argument("--instances", type=int, default=300)
    parser.add_argument("--again", type=int, default=2000, help="instances for those that survive the first ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="only every K-th change")
    parser.add_argument("--jobs", type=int, default=2)
    # Those that take ops apart are held against the ops' oracles, by tests/python/test_lowering.py, and looked at on request.
    files = sorted(path for path in (ROOT / "src" / "rules").glob("*.rules") if path.name != "lower.rules")
    parser.add_argument("--rules", nargs="*", default=files)
    parser.add_argument("--verbose", action="store_true", help="say what became of each")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--journal", type=Journal, default=Journal(None), metavar="FILE", help="where answers are kept, and taken from")
    parser.add_argument("--progress", action="store_true", help="a line for each rule that is done")
    args = parser.parse_args()
    rules = [r for path in args.rules for r in rules_in(path) if not args.names or r.name in args.names]
    known, failed = equivalent(), False
    if not rules:
        sys.exit("there are no such rules")
    mutants = [m for rule in rules for m in mutants_of(rule)][:: args.every]

    def do(rule):
        started, own = time.time(), [m for m in mutants if m.rule == rule.name]
        judge_all(args, rule, own, known)
        tell(args, rule, own, known, started)

    with ThreadPoolExecutor(args.jobs) as pool:
        try:
            for task in [pool.submit(do, rule) for rule in rules]:
                task.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    all_of_them, mutants = mutants, [m for m in mutants if m.outcome != "same"]
    for rule in rules if args.every == 1 else ():
        ways = sum(m.rule == rule.name for m in mutants)
        if ways < LEAST_WAYS:
            print(f"{rule.name}: only {ways} ways to change it")
            failed = True
    survivors = [m for m in mutants if m.outcome == "holds"]
    new = [m for m in survivors if (m.rule, m.what) not in known]
    counted = len(mutants) - len(survivors) + len(new)
    share = len(new) / counted if counted else 0
    by = {o: sum(m.outcome == o for m in mutants) for o in ("refuted", "inexact", "refused", "unknown", "holds")}
    print(f"{len(mutants)} changes of {len(rules)} rules: {by['refuted']} refuted, {by['inexact']} not exact, {by['refused']} no rule, "
          f"{by['unknown']} without instances, {len(survivors) - len(new)} equivalent, {len(new)} survive ({100 * share:.1f} %); "
          f"{len(all_of_them) - len(mutants)} more let in nothing that was found")  # fmt: skip
    there = {(m.rule, m.what): m.outcome for m in all_of_them}
    judged = {r.name for r in rules}
    for key in known:
        rule, what = key
        if rule in judged and args.every == 1 and there.get(key) in (None, "refuted", "inexact"):
            print(f"{EQUIVALENT.name}: {rule} | {what} {'is refuted' if key in there else 'is no change'}: take it out")
            failed = True
    return failed or share > MOST_SURVIVORS


if __name__ == "__main__":
    sys.exit(main())
