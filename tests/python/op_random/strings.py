# SPDX-License-Identifier: Apache-2.0
"""Ops over strings, and over words as numbers."""
import re

import numpy as np

from .core import ALWAYS, ANY, generator, int64, oracle

VOCABULARY = ["a", "b", "to", "The", "THE", "été", "Ärger", "", "x1"]


@generator("StringConcat")
def string_concat(r):
    return [r.words(shape) for shape in r.broadcast(2)]


@oracle("StringConcat")
def string_concat_oracle(r, x, y):
    return [x + y]


@generator("StringSplit", delimiter=ANY, maxsplit=ANY)
def string_split(r):
    delimiter = r.draw("delimiter", None, "", ",", "ab", " ")
    r.draw("maxsplit", None, 0, 1, 3)
    r.results = 2
    mark = delimiter or " "
    return [r.words(r.shape(), ["", "a", f"a{mark}b", f"{mark}a{mark}{mark}b{mark}c", mark, f" x {mark} y ", "é" + mark])]


@oracle("StringSplit")
def string_split_oracle(r, x):
    delimiter, most = r.attributes.get("delimiter") or None, r.attributes.get("maxsplit", -1)
    parts = [v.split(delimiter, most) for v in x.ravel()]
    parts = [[p.rstrip() for p in part] if delimiter is None else part for part in parts]
    width = max(map(len, parts), default=0)
    y = np.full((len(parts), width), "", object)
    for i, part in enumerate(parts):
        y[i, : len(part)] = part
    return [y.reshape(*x.shape, width), int64([len(part) for part in parts]).reshape(x.shape)]


@generator("StringNormalizer", case_change_action=("LOWER", "UPPER", "NONE"), is_case_sensitive=(0, 1), locale=ANY,
           stopwords=ANY)  # fmt: skip
def string_normalizer(r):
    for name in ("case_change_action", "is_case_sensitive"):
        r.draw(name)
    r.draw("locale", None, "en_US", "C")
    r.draw("stopwords", None, ["a"], ["the", "été"], ["to", "THE", ""])
    n = r.integer(1, 6)
    return [r.words([n] if r.chance(0.5) else [1, n], VOCABULARY)]


@oracle("StringNormalizer")
def string_normalizer_oracle(r, x):
    a = r.attributes
    fold = (lambda v: v) if a.get("is_case_sensitive") else str.lower
    stops = {fold(word) for word in a.get("stopwords", [])}
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(a.get("case_change_action"), str)
    kept = [change(word) for word in x.ravel() if fold(word) not in stops] or [""]
    return [np.array(kept, object).reshape([1, -1] if x.ndim == 2 else [-1])]


PATTERNS = ["a", "[a-z]+", "(ab)*", r"\d{2,}", "a|b", ".*e", "", r"\w+\s?\w*", "(?i)THE", "[^a]x?"]


@generator("RegexFullMatch", pattern=ALWAYS)
def regex_full_match(r):
    r.draw("pattern", *PATTERNS)
    return [r.words(r.shape(), ["", "a", "ab", "abab", "12", "1", "the", "The", "x y", "é", "ae"])]


@oracle("RegexFullMatch")
def regex_oracle(r, x):
    """Patterns that mean the same in RE2 and in Python."""
    pattern = re.compile(r.attributes["pattern"], re.ASCII)
    return [np.vectorize(lambda v: pattern.fullmatch(v) is not None, otypes=[bool])(x)]


@generator("TfIdfVectorizer", max_gram_length=ANY, max_skip_count=ANY, min_gram_length=ANY, mode=("TF", "IDF", "TFIDF"),
           ngram_counts=ANY, ngram_indexes=ANY, pool_int64s=ANY, pool_strings=ANY, weights=ANY)  # fmt: skip
def tfidf(r):
    if r.fixed.get("pool_strings") == ANY or "pool_int64s" in r.fixed and r.fixed["pool_int64s"] is None:
        r.types["T"] = "str"
    if r.fixed.get("pool_int64s") == ANY or "pool_strings" in r.fixed and r.fixed["pool_strings"] is None:
        r.force_type("T", "i32", "i64")
    longest, words = r.integer(1, 3), r.types["T"] == "str"
    smallest = r.draw("min_gram_length", r.integer(1, longest))
    r.draw("max_gram_length", r.integer(smallest, longest))
    r.draw("max_skip_count", 0, 1, 2)
    r.draw("mode")
    pool, counts, grams = [], [], 0
    for size in range(1, longest + 1):
        counts.append(len(pool))
        some = {tuple(int(v) for v in r.rng.integers(0, 4, size)) for _ in range(r.integer(1, 3))}
        grams += len(some)
        pool += [v for gram in sorted(some) for v in gram]
    r.set("ngram_counts", counts)
    r.set("ngram_indexes", [int(i) for i in r.rng.permutation(grams)])
    r.set("pool_strings" if words else "pool_int64s", [f"w{v}" for v in pool] if words else pool)
    r.draw("weights", None, [float(v) for v in r.rng.uniform(0.5, 2, grams)])
    shape = r.one_of([r.integer(1, 7)], [r.integer(1, 3), r.integer(1, 7)])
    x = r.rng.integers(0, 5, shape)
    return [np.array([f"w{v}" for v in x.ravel()], object).reshape(shape) if words else x.astype(np.int32 if r.dtype == "i32" else np.int64)]


@oracle("TfIdfVectorizer")
def tfidf_oracle(r, x):
    """"The i-th element in weights is the weight of the i-th n-gram in pool": onnxruntime and the reference take that of
    the i-th column."""
    a = r.attributes
    pool, starts = a.get("pool_strings", a.get("pool_int64s")), a["ngram_counts"]
    grams = []
    for size, (begin, end) in enumerate(zip(starts, [*starts[1:], len(pool)]), 1):
        grams += [tuple(pool[i : i + size]) for i in range(begin, end, size)]
    column = {gram: (a["ngram_indexes"][i], a.get("weights", [1.0] * len(grams))[i]) for i, gram in enumerate(grams)}
    rows = x.reshape(-1, x.shape[-1]).tolist()
    y = np.zeros((len(rows), len(grams)))
    for row, out in zip(rows, y):
        for size in range(a["min_gram_length"], a["max_gram_length"] + 1):
            for step in range(1, a["max_skip_count"] + 2) if size > 1 else (1,):
                for start in range(len(row) - step * (size - 1)):
                    found = column.get(tuple(row[start + step * k] for k in range(size)))
                    if found and a["mode"] == "TF":
                        out[found[0]] += 1
                    elif found:
                        out[found[0]] = found[1] if a["mode"] == "IDF" else out[found[0]] + found[1]
    return [y.reshape([*x.shape[:-1], len(grams)])]
