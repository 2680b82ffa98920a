# SPDX-License-Identifier: Apache-2.0
"""ai.onnx.ml without trees and support vectors. Where the specification leaves something open the oracles answer as
onnxruntime does, as the engine is to; the long test asks onnxruntime itself."""
import numpy as np

from .core import ALWAYS, ANY, generator, ml, oracle
from .rows import Tensor
from .types import FLOATS, NUMPY

POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

# ---- what classifiers share -----------------------------------------------------------------------------------------


def logistic(x):
    return 1 / (1 + np.exp(-x))


def probit(p):
    """Winitzki's approximation of the inverse of the normal distribution."""
    x = 2 * p - 1
    term = np.log((1 - x) * (1 + x))
    v, v2 = 2 / (3.14159 * 0.147) + 0.5 * term, term / 0.147
    return 1.41421356 * np.where(x < 0, -1, 1) * np.sqrt(-v + np.sqrt(v * v - v2))


def softmax_scores(x, keep_zeros):
    zero = (abs(x) <= 1e-7) & keep_zeros
    e = np.exp(x - x.max())
    return np.where(zero, x * np.exp(-x.max()), e) / np.where(zero, 0, e).sum()


def transformed(post, scores, second=None):
    """A row of scores. `second`: what a single one is for two classes, "complement" or "opposite"."""
    scores = np.asarray(scores, np.float64)
    if len(scores) == 1:
        v = probit(scores[0]) if post == "PROBIT" else scores[0]
        if second is None:
            return np.array([v])
        if post == "LOGISTIC":
            return np.array([logistic(-v), logistic(v)])
        return np.array([-v if second == "opposite" else 1 - v, v])
    if post in ("SOFTMAX", "SOFTMAX_ZERO"):
        return softmax_scores(scores, post == "SOFTMAX_ZERO")
    return {"LOGISTIC": logistic, "PROBIT": probit}.get(post, np.asarray)(scores)


def clear_winner(scores):
    best = np.sort(scores)[::-1]
    assert len(best) < 2 or best[0] - best[1] > 1e-4, "depends on rounding"
    return int(np.argmax(scores))


def draw_labels(r, n, ints="classlabels_ints", strings="classlabels_strings", parameter="T2"):
    """One of two attributes, by the type of the result or by what the test wants."""
    if r.fixed.get(ints) == ANY or r.fixed.get(strings, 0) is None:
        r.types[parameter] = r.schema.parameters[parameter][-1]
    if r.fixed.get(strings) == ANY or r.fixed.get(ints, 0) is None:
        r.types[parameter] = r.schema.parameters[parameter][0]
    words = "str" in r.types[parameter]
    labels = [f"c{i}" for i in range(n)] if words else [int(i) for i in r.rng.permutation(20)[:n]]
    return r.set(strings if words else ints, labels)


def label_array(labels):
    return np.array(labels, object if isinstance(labels[0], str) else np.int64)


def features(r, n, width):
    x = r.values([n, width], low=-2, high=2)
    return x[0] if n == 1 and r.chance(0.5) else x


def rows_of(x):
    x = np.asarray(x, np.float32 if x.dtype.kind == "f" else x.dtype).astype(np.float64)
    return x[None] if x.ndim == 1 else x


def floats(r, n, low=-1.0, high=1.0):
    return [float(np.float32(v)) for v in r.rng.uniform(low, high, n)]


# ---- linear models --------------------------------------------------------------------------------------------------


@generator(*ml("LinearClassifier"), classlabels_ints=ANY, classlabels_strings=ANY, coefficients=ANY, intercepts=ANY,
           multi_class=(0, 1), post_transform=POST)  # fmt: skip
def linear_classifier(r):
    width, n = r.integer(1, 4), r.integer(1, 3)
    classes = r.integer(2, 4)
    targets = 1 if classes == 2 and r.chance(0.4) else classes
    draw_labels(r, classes)
    r.draw("multi_class")
    post = r.draw("post_transform")
    few = 0.05 if post == "PROBIT" else 1.0
    r.draw("coefficients", floats(r, targets * width, -few, few))
    r.draw("intercepts", floats(r, targets, 0.3, 0.7), *[None] * (post != "PROBIT"))
    r.results = r.integer(1, 2)
    r.tolerance = 1e-2 if post == "PROBIT" else 1e-4  # it loses digits around 1/2
    return [features(r, n, width)]


@oracle(*ml("LinearClassifier"))
def linear_classifier_oracle(r, x):
    a, x = r.attributes, rows_of(x)
    labels = a.get("classlabels_ints") or a["classlabels_strings"]
    weights = np.reshape(a["coefficients"], (-1, x.shape[1]))
    scores = x @ weights.T + np.asarray(a.get("intercepts", np.zeros(len(weights))))
    second = "complement" if len(weights) == 1 else None
    chosen = [int(row[0] > 0) if second else clear_winner(row) for row in scores]
    z = np.array([transformed(a.get("post_transform", "NONE"), row, second) for row in scores])
    assert np.isfinite(z).all()
    return [label_array(labels)[chosen], z][: r.results]


@generator(*ml("LinearRegressor"), coefficients=ALWAYS, intercepts=ANY, post_transform=POST, targets=ANY)
def linear_regressor(r):
    width, targets = r.integer(1, 4), r.draw("targets", None, 1, 2, 3) or 1
    post = r.draw("post_transform")
    few = 0.05 if post == "PROBIT" else 1.0
    r.draw("coefficients", floats(r, targets * width, -few, few))
    r.draw("intercepts", floats(r, targets, 0.3, 0.7), *[None] * (post != "PROBIT" or "intercepts" in r.fixed))
    r.tolerance = 1e-2 if post == "PROBIT" else 1e-4  # it loses digits around 1/2
    return [features(r, r.integer(1, 3), width)]


@oracle(*ml("LinearRegressor"))
def linear_regressor_oracle(r, x):
    a, x = r.attributes, rows_of(x)
    scores = x @ np.reshape(a["coefficients"], (-1, x.shape[1])).T + np.asarray(a.get("intercepts", 0.0))
    y = np.array([transformed(a.get("post_transform", "NONE"), row) for row in scores])
    assert np.isfinite(y).all()
    return [y]


# ---- features -------------------------------------------------------------------------------------------------------


@generator(*ml("ArrayFeatureExtractor"))
def array_feature_extractor(r):
    shape = r.shape(low=1, high=3, smallest=1)
    n = r.integer(1, 4)
    return [r.values(shape, wide=True), np.asarray(r.rng.integers(0, shape[-1], r.one_of([n], [1, n])), np.int64)]


@oracle(*ml("ArrayFeatureExtractor"))
def array_feature_extractor_oracle(r, x, index):
    y = x[..., index.ravel()]
    return [y[None] if x.ndim == 1 else y]


@generator(*ml("Binarizer"), threshold=ANY)
def binarizer(r):
    r.draw("threshold", None, 0.5, -1.0)
    return [r.values(r.shape())]


@oracle(*ml("Binarizer"))
def binarizer_oracle(r, x):
    return [x.astype(np.float64) > r.attributes.get("threshold", 0.0)]


@generator(*ml("FeatureVectorizer"), inputdimensions=ANY)
def feature_vectorizer(r):
    n, widths = r.integer(1, 3), [r.integer(1, 4) for _ in range(r.integer(1, 4))]
    r.draw("inputdimensions", widths)
    return [r.values([w] if n == 1 and r.chance(0.3) else [n, w]) for w in widths]


@oracle(*ml("FeatureVectorizer"))
def feature_vectorizer_oracle(r, *operands):
    return [np.concatenate([x[None] if x.ndim == 1 else x for x in operands], 1)]


@generator(*ml("Imputer"), imputed_value_floats=ANY, imputed_value_int64s=ANY, replaced_value_float=ANY, replaced_value_int64=ANY)
def imputer(r):
    for name in r.fixed:
        if r.fixed[name] == ANY and "T" not in r.fixed_types:
            r.force_type("T", *(("f32", "f64") if "float" in name else ("i32", "i64")))
        if r.fixed[name] is None and name.startswith("imputed") and "T" not in r.fixed_types:
            r.force_type("T", *(("f32", "f64") if "int64" in name else ("i32", "i64")))
    n, width, kind = r.integer(1, 4), r.integer(1, 4), "float" if r.dtype in FLOATS else "int64"
    count = r.one_of(1, width)
    x = np.round(r.values([n, width], low=-1, high=1)).astype(NUMPY[r.dtype])
    r.draw(f"imputed_value_{kind}s", [float(v) if kind == "float" else int(v) for v in r.rng.integers(3, 9, count)])
    if kind == "float":
        missing = r.draw("replaced_value_float", None, 1.0, float("nan"))
        x = np.where(r.rng.random(x.shape) < 0.3, np.nan, x).astype(x.dtype) if missing != missing else x
    else:
        r.draw("replaced_value_int64", None, 1, -2)
    return [x]


@oracle(*ml("Imputer"))
def imputer_oracle(r, x):
    a, kind = r.attributes, "float" if r.dtype in FLOATS else "int64"
    missing = a.get(f"replaced_value_{kind}", 0)
    gone = np.isnan(x) if missing != missing else x == missing
    return [np.where(gone, np.asarray(a[f"imputed_value_{kind}s"]), x)]


@generator(*ml("Normalizer"), norm=("MAX", "L1", "L2"))
def normalizer(r):
    r.draw("norm")
    n, width = r.integer(1, 4), r.integer(1, 4)
    x = r.values([n, width] if r.chance(0.7) else [width])
    return [x * 0 if r.chance(0.1) else x]


@oracle(*ml("Normalizer"))
def normalizer_oracle(r, x):
    """Of absolute values: "L1: Y = X / sum(X)" is meant for what a norm is, and all implementations take it so. MAX
    divides by the largest element itself."""
    x, norm = x.astype(np.float64), r.attributes.get("norm", "MAX")
    by = {"MAX": lambda v: v.max(-1, keepdims=True), "L1": lambda v: abs(v).sum(-1, keepdims=True),
          "L2": lambda v: np.sqrt((v * v).sum(-1, keepdims=True))}[norm](x)  # fmt: skip
    return [np.where(by == 0, x, x / np.where(by == 0, 1, by))]


@generator(*ml("Scaler"), offset=ALWAYS, scale=ALWAYS)
def scaler(r):
    n, width = r.integer(1, 4), r.integer(1, 4)
    count = r.one_of(1, width)
    r.draw("offset", floats(r, count))
    r.draw("scale", floats(r, count))
    return [r.values([n, width] if r.chance(0.7) else [width])]


@oracle(*ml("Scaler"))
def scaler_oracle(r, x):
    return [(x.astype(np.float64) - np.array(r.attributes["offset"])) * np.array(r.attributes["scale"])]


# ---- categories -----------------------------------------------------------------------------------------------------


def words_and_numbers(r, n):
    return [f"w{i}" for i in range(n)], [int(v) for v in r.rng.permutation(30)[:n]]


@generator(*ml("CategoryMapper"), cats_int64s=ALWAYS, cats_strings=ALWAYS, default_int64=ANY, default_string=ANY)
def category_mapper(r):
    words, numbers = words_and_numbers(r, r.integer(1, 5))
    to_words = r.types["T2"] == "str" if "T2" in r.fixed_types else r.types["T1"] == "i64"
    r.types["T1"], r.types["T2"] = ("i64", "str") if to_words else ("str", "i64")
    r.set("cats_strings", words)
    r.set("cats_int64s", numbers)
    r.draw("default_string", None, "none")
    r.draw("default_int64", None, -7)
    shape = r.shape(high=2)
    return [r.words(shape, words + ["?"]) if not to_words else np.asarray(r.rng.choice(numbers + [99], shape), np.int64)]


@oracle(*ml("CategoryMapper"))
def category_mapper_oracle(r, x):
    words, numbers = r.attributes["cats_strings"], r.attributes["cats_int64s"]
    if x.dtype == object:
        table, default = dict(zip(words, numbers)), r.attributes.get("default_int64", -1)
        return [np.vectorize(lambda v: table.get(v, default), otypes=[np.int64])(x)]
    table, default = dict(zip(numbers, words)), r.attributes.get("default_string", "_Unused")
    return [np.vectorize(lambda v: table.get(v, default), otypes=[object])(x)]


KEYS = {"str": "strings", "i64": "int64s", "f32": "floats"}


def some_keys(r, dtype, n):
    if dtype == "str":
        return [f"w{i}" for i in r.rng.permutation(9)[:n]]
    values = [int(v) for v in r.rng.permutation(19)[:n] - 5]
    return [float(v) / 2 for v in values] if dtype in FLOATS else values


@generator(*ml("LabelEncoder"), default_float=ANY, default_int64=ANY, default_string=ANY, default_tensor=ANY, keys_floats=ANY,
           keys_int64s=ANY, keys_strings=ANY, keys_tensor=ANY, values_floats=ANY, values_int64s=ANY, values_strings=ANY,
           values_tensor=ANY)  # fmt: skip
def label_encoder(r):
    for side, parameter in (("keys_", "T1"), ("values_", "T2")):
        for dtype, name in KEYS.items():
            if r.fixed.get(side + name) == ANY or r.fixed.get(f"default_{name[:-1]}") == ANY and parameter == "T2":
                r.types[parameter] = dtype
    n, defaults = r.integer(1, 5), {"str": "other", "i64": -9, "f32": 0.25}
    for side, parameter in (("keys_", "T1"), ("values_", "T2")):
        dtype = r.types[parameter]
        found = some_keys(r, dtype, n)
        if dtype not in KEYS or r.fixed.get(side + "tensor") == ANY or "tensor" not in str(list(r.fixed)) and r.chance(0.2):
            r.set(side + "tensor", Tensor(np.array(found, NUMPY[dtype]), dtype))
        else:
            r.set(side + KEYS[dtype], found)
    dtype = r.types["T2"]
    if r.fixed.get("default_tensor") == ANY or dtype not in KEYS and r.chance(0.6):
        r.set("default_tensor", Tensor(np.array([defaults.get(dtype, 7)], NUMPY[dtype]), dtype))
    elif dtype in KEYS:
        r.draw(f"default_{KEYS[dtype][:-1]}", None, defaults[dtype])
    x = some_keys(r, r.types["T1"], 6)
    shape = r.shape(high=2)
    return [np.array([x[i] for i in r.rng.integers(0, len(x), int(np.prod(shape)))], NUMPY[r.types["T1"]]).reshape(shape)]


@oracle(*ml("LabelEncoder"))
def label_encoder_oracle(r, x):
    a, to = r.attributes, r.types["T2"]
    lists = []
    for side, dtype in (("keys_", r.types["T1"]), ("values_", to)):
        lists.append(a[side + "tensor"].array.tolist() if side + "tensor" in a else a[side + KEYS[dtype]])
    fallback = "_Unused" if to == "str" else -0.0 if to in FLOATS else -1
    if "default_tensor" in a:
        fallback = a["default_tensor"].array[0]
    elif to in KEYS:
        fallback = a.get(f"default_{KEYS[to][:-1]}", fallback)
    table = dict(zip(*lists))
    return [np.vectorize(lambda v: table.get(v, fallback), otypes=[NUMPY[to]])(x)]


@generator(*ml("OneHotEncoder"), cats_int64s=ANY, cats_strings=ANY, zeros=(0, 1))
def one_hot_encoder(r):
    if r.fixed.get("cats_strings") == ANY or r.fixed.get("cats_int64s", 0) is None:
        r.types["T"] = "str"
    if r.fixed.get("cats_int64s") == ANY or r.fixed.get("cats_strings", 0) is None:
        r.force_type("T", *[t for t in r.schema.parameters["T"] if t != "str"])
    words, numbers = words_and_numbers(r, r.integer(1, 5))
    strings, shape = r.dtype == "str", r.shape(high=2)
    known = r.set("cats_strings" if strings else "cats_int64s", words if strings else numbers)
    if r.draw("zeros") != 0:
        known = known + (["?"] if strings else [77])
    if strings:
        return [r.words(shape, known)]
    x = np.asarray(r.rng.choice(known, shape), np.float64)
    return [np.asarray(x + (0.25 if r.dtype in FLOATS else 0)).astype(NUMPY[r.dtype])]


@oracle(*ml("OneHotEncoder"))
def one_hot_encoder_oracle(r, x):
    known = r.attributes.get("cats_strings") or r.attributes["cats_int64s"]
    x = x if x.dtype == object else np.trunc(x)
    return [np.stack([x == v for v in known], -1)]


# ---- maps -----------------------------------------------------------------------------------------------------------


def key_and_value(kind):
    return kind[4:-1].split(", ")


def some_map(r, kind, keys):
    value = key_and_value(kind)[1]
    chosen = [k for k in keys if r.chance(0.6)]
    values = r.values([len(chosen)], value) if value != "str" else r.words([len(chosen)], ["1", "-2.5", "30"])
    return dict(zip(chosen, values))


@generator(*ml("DictVectorizer"), int64_vocabulary=ANY, string_vocabulary=ANY)
def dict_vectorizer(r):
    fits = r.schema.parameters["T1"]
    if "T2" in r.fixed_types:
        fits = [k for k in fits if key_and_value(k)[1] == r.types["T2"]]
    for name, key in (("int64_vocabulary", "i64"), ("string_vocabulary", "str")):
        if r.fixed.get(name) == ANY or name in r.fixed and r.fixed[name] is None:
            wanted = key if r.fixed[name] == ANY else {"i64": "str", "str": "i64"}[key]
            fits = [k for k in fits if key_and_value(k)[0] == wanted]
    kind = r.force_type("T1", *fits)
    key, r.types["T2"] = key_and_value(kind)
    words, numbers = words_and_numbers(r, r.integer(1, 5))
    known = r.set("string_vocabulary", words) if key == "str" else r.set("int64_vocabulary", numbers)
    return [some_map(r, kind, known)]


@oracle(*ml("DictVectorizer"))
def dict_vectorizer_oracle(r, x):
    """"A 1-D tensor": models declare [1, n] all the same, since that is what onnxruntime gives."""
    known, dtype = r.attributes.get("string_vocabulary") or r.attributes["int64_vocabulary"], r.types["T2"]
    return [np.array([x.get(k, "" if dtype == "str" else 0) for k in known], NUMPY[dtype])[None]]


@generator(*ml("CastMap"), cast_to=("TO_FLOAT", "TO_STRING", "TO_INT64"), map_form=("DENSE", "SPARSE"), max_map=ANY)
def cast_map(r):
    wants = {"f32": "TO_FLOAT", "str": "TO_STRING", "i64": "TO_INT64"}
    if "cast_to" in r.fixed:
        r.types["T2"] = {v: k for k, v in wants.items()}[r.fixed["cast_to"] or "TO_FLOAT"]
        r.draw("cast_to")
    else:
        r.set("cast_to", wants[r.types["T2"]])
    sparse = r.draw("map_form") == "SPARSE" or r.fixed.get("max_map") == ANY
    if sparse:
        r.set("map_form", "SPARSE")
        r.set("max_map", r.integer(9, 12))
    return [some_map(r, r.types["T1"], [int(v) for v in r.rng.permutation(9)])]


@oracle(*ml("CastMap"))
def cast_map_oracle(r, x):
    to = r.types["T2"]
    convert = {"f32": float, "i64": lambda v: int(float(v)), "str": lambda v: v if isinstance(v, str) else str(np.float32(v))}[to]
    if r.attributes.get("map_form") == "SPARSE":
        y = ["" if to == "str" else 0] * r.attributes["max_map"]
        for k, v in x.items():
            y[k] = convert(v)
    else:
        y = [convert(x[k]) for k in sorted(x)]
    return [np.array(y, NUMPY[to])[None]]


@generator(*ml("ZipMap"), classlabels_int64s=ANY, classlabels_strings=ANY)
def zip_map(r):
    n = r.integer(1, 4)
    draw_labels(r, n, "classlabels_int64s", parameter="T")
    return [r.values([r.integer(1, 3), n], "f32")]


@oracle(*ml("ZipMap"))
def zip_map_oracle(r, x):
    labels = r.attributes.get("classlabels_int64s") or r.attributes["classlabels_strings"]
    return [[dict(sorted(zip(labels, row))) for row in x]]  # maps are in the order of their keys
