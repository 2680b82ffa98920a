# SPDX-License-Identifier: Apache-2.0
"""Random equations of Einsum, with sizes known and not, some 0 and 1, give what numpy's einsum gives once they are products
of matrices; none is left but diagonals of sizes that are not known. 16-bit floats are rounded once.

    test_passes_expand_einsum.py [SEED [COUNT]]
"""
import os
import random
import re
import sys

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt  # noqa: E402
from harness import Report, scratch  # noqa: E402

FOLDER = scratch("passes_expand_einsum")
EACH = 24  # equations of one model


def term(r, letters):
    chosen = r.sample(letters, r.randint(1, min(4, len(letters))))
    if r.random() < 0.08:
        chosen.append(r.choice(chosen))
    return chosen


def has_diagonal(terms):
    return any(len(set(term)) < len(term) for term in terms.split(","))


def equation(r):
    """(terms, result) as lists of letters"""
    letters = list("abcdefgh"[: r.randint(2, 7)])
    terms = [term(r, letters) for _ in range(r.choice([1, 2, 2, 2, 2, 2, 3]))]
    seen = sorted({c for t in terms for c in t})
    result = r.sample(seen, r.randint(0, min(len(seen), 5)))
    return terms, result


def build(r, known):
    """The model's text, what it is fed with and what each output is to be."""
    inputs, nodes, outputs, feeds, expected = [], [], [], {}, {}
    for n in range(EACH):
        terms, result = equation(r)
        dtype = r.choice(["f32", "f32", "f32", "f64", "f16"])
        sizes = {c: r.choice([1, 2, 3, 4, 5, 7, 0 if r.random() < 0.15 else 6]) for t in terms for c in t}
        arrays = []
        for k, letters in enumerate(terms):
            shape = [sizes[c] for c in letters]
            if r.random() < 0.15:  # of one size here, repeated
                shape[r.randrange(len(shape))] = 1
            symbol = lambda s, c: "?" if r.random() < 0.3 else f"s{c}{n}" if s == sizes[c] else f"t{n}{k}{c}"  # noqa: E731
            declared = [str(s) if known or r.random() < 0.5 else symbol(s, c) for s, c in zip(shape, letters)]
            numpy_type = {"f32": np.float32, "f64": np.float64, "f16": np.float16}[dtype]
            values = np.array([r.uniform(-1, 1) for _ in range(int(np.prod(shape)))]).reshape(shape).astype(numpy_type)
            name = f"x{n}_{k}"
            inputs.append(f"%{name}: {dtype}[{','.join(declared)}]")
            feeds[name] = values
            arrays.append(values)
        text = ",".join("".join(t) for t in terms) + "->" + "".join(result)
        try:
            want = np.einsum(text, *(a.astype(np.float64) for a in arrays))
        except ValueError:  # a diagonal of different sizes
            for k in range(len(terms)):
                feeds.pop(f"x{n}_{k}")
                inputs.pop()
            continue
        nodes.append(f'  %y{n} = Einsum({", ".join(f"%x{n}_{k}" for k in range(len(terms)))}) {{equation="{text}"}}')
        outputs.append(f"%y{n}")
        expected[f"y{n}"] = (text, want, numpy_type)
    head = f"graph @main({', '.join(inputs)}) -> ({', '.join(outputs)}) {{"
    return "\n".join(["tn 1", head, *nodes, "}", ""]), feeds, expected


def try_seed(report, seed):
    r = random.Random(seed)
    known = seed % 2 == 0
    text, feeds, expected = build(r, known)
    path = os.path.join(FOLDER, f"{seed}.tn")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    session = tenonrt.InferenceSession(path)
    names = [o.name for o in session.get_outputs()]
    for name, found in zip(names, session.run(names, feeds)):
        equation_text, want, numpy_type = expected[name]
        what = f"seed {seed}: {name} {equation_text}"
        if not report.check(found.shape == want.shape and found.dtype == numpy_type, f"{what}: shape", f"{found.shape} {want.shape}"):
            continue
        rounding = {np.float32: 1e-6, np.float64: 1e-14, np.float16: 2**-11}[numpy_type]
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        wrong = np.abs(found.astype(np.float64) - want)
        limit = 2 * rounding * scale * 8 if numpy_type is not np.float16 else np.abs(want) * rounding * 1.01 + 1e-6 * scale
        report.check(bool(np.all(wrong <= limit)), what, f"{found}\n{want}")
    model = tenonrt.load(path).optimize(passes="infer-shapes,expand-einsum,remove-dead")
    left = [m for m in re.findall(r'= Einsum\(.*equation="([^"]*)->', str(model)) if known or not has_diagonal(m)]
    report.check(not left, f"seed {seed}: none is left", f"{left} are")


def main():
    seed, count = (int(a) for a in (sys.argv[1:] + ["1", "40"][len(sys.argv) - 1 :])[:2])
    report = Report()
    for k in range(seed, seed + count):
        try_seed(report, k)
    report.exit()


if __name__ == "__main__":
    main()
