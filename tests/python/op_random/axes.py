# SPDX-License-Identifier: Apache-2.0
"""Ops along axes: reductions, running sums, softmax, norms, sorting."""
import numpy as np

from .core import ANY, generator, int64, oracle
from .types import FLOATS, TYPE_NUMBERS, TYPE_OF_NUMBER


@generator("ArgMax", "ArgMin", axis=ANY, keepdims=(0, 1), select_last_index=(0, 1))
def arg_reduce(r):
    shape = r.shape(low=1, smallest=1)
    r.draw_axis(len(shape), 0)
    r.draw("keepdims")
    r.draw("select_last_index")
    return [np.asarray(np.round(r.values(shape)), r.values([1]).dtype)]


REDUCTIONS = ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
              "ReduceProd", "ReduceSum", "ReduceSumSquare"]  # fmt: skip


@generator(*REDUCTIONS, keepdims=(0, 1), noop_with_empty_axes=(0, 1))
def reduce(r):
    # A maximum of nothing is the least number, a mean or a logarithm of nothing are none.
    empty_is_known = r.op not in ("ReduceMean", "ReduceLogSum", "ReduceLogSumExp") or r.dtype in FLOATS
    shape = r.shape(high=4, smallest=0 if empty_is_known and r.op != "ReduceMean" else 1)
    r.draw("keepdims")
    r.draw("noop_with_empty_axes")
    low = 0.5 if r.op == "ReduceLogSum" else -2
    x = r.values(shape, low=low, high=2)
    axes = None if r.chance(0.2) else int64(r.axes(len(shape), least=0)) if shape else int64([])
    return [x, axes]


@oracle(*REDUCTIONS)
def reduce_oracle(r, x, axes=None):
    """The reference knows no empty maximum, and lets integers pass through floats."""
    op, keep = r.op[6:], bool(r.attributes.get("keepdims", 1))
    over = tuple(axes.tolist()) if axes is not None and len(axes) else None
    if over is None and r.attributes.get("noop_with_empty_axes"):
        over = ()
    kwargs = {"axis": over, "keepdims": keep}
    wide = x if x.dtype == bool else x.astype(np.float64) if r.dtype in FLOATS else x.astype(object)
    if op in ("Max", "Min"):
        if not x.size:
            return [np.full(np.sum(np.zeros(x.shape), **kwargs).shape, lowest(r.dtype, op == "Min"))]
        return [np.asarray((x.max if op == "Max" else x.min)(**kwargs))]
    if op in ("Sum", "L1", "SumSquare", "Prod"):
        wide = np.asarray(abs(wide) if op == "L1" else wide * wide if op == "SumSquare" else wide, wide.dtype)
        return [wrapped((wide.prod if op == "Prod" else wide.sum)(**kwargs), r.dtype)]
    total = np.asarray({"L2": wide * wide, "LogSumExp": np.exp(wide.astype(np.float64))}.get(op, wide)).sum(**kwargs)
    total = np.asarray(total, np.float64)
    if op == "Mean":
        count = x.size // max(total.size, 1) if total.size else 1
        return [total / count if r.dtype in FLOATS else np.trunc(total / count)]
    result = np.sqrt(total) if op == "L2" else np.log(total)
    return [result if r.dtype in FLOATS else np.trunc(result)]


def lowest(dtype, most):
    if dtype == "bool":
        return most
    if dtype in FLOATS:
        return np.inf if most else -np.inf
    info = np.iinfo(dtype.replace("i", "int").replace("u", "uint"))
    return info.max if most else info.min


def wrapped(a, dtype):
    """Python's integers brought to so many bits."""
    if dtype in FLOATS:
        return a
    bits = int(dtype[1:])
    a = np.asarray(a, object) % (1 << bits)
    return np.asarray(a, object).astype(f"uint{bits}").astype(f"{'u' if dtype[0] == 'u' else ''}int{bits}")


@generator("CumSum", "CumProd", exclusive=(0, 1), reverse=(0, 1))
def cumulative(r):
    shape = r.shape(low=1)
    r.draw("exclusive")
    r.draw("reverse")
    axis = np.array(r.axis(len(shape)), np.int32 if r.types["T2"] == "i32" else np.int64)
    return [r.values(shape, low=-1.5, high=1.5), axis]


@oracle("CumSum", "CumProd")
def cumulative_oracle(r, x, axis):
    axis = int(axis) % x.ndim
    wide = x.astype(np.float64) if r.dtype in FLOATS else x.astype(object)
    neutral = 0 if r.op == "CumSum" else 1
    if r.attributes.get("reverse"):
        wide = np.flip(wide, axis)
    if r.attributes.get("exclusive"):
        first = np.full([1 if i == axis else d for i, d in enumerate(x.shape)], neutral, wide.dtype)
        wide = np.concatenate([first, wide], axis).take(range(x.shape[axis]), axis)
    result = (np.cumsum if r.op == "CumSum" else np.cumprod)(wide, axis)
    return [wrapped(np.flip(result, axis) if r.attributes.get("reverse") else result, r.dtype)]


@generator("Softmax", "LogSoftmax", "Hardmax", axis=ANY)
def soft(r):
    shape = r.shape(low=1)
    r.draw_axis(len(shape), -1)
    return [r.distinct(shape) if r.op == "Hardmax" else r.values(shape)]


@oracle("Softmax", "LogSoftmax")
def soft_oracle(r, x):
    axis = r.attributes.get("axis", -1)
    wide = x.astype(np.float64)
    if not x.size:
        return [wide]
    wide = wide - wide.max(axis, keepdims=True)
    total = np.exp(wide).sum(axis, keepdims=True)
    return [np.exp(wide) / total if r.op == "Softmax" else wide - np.log(total)]


@oracle("Hardmax")
def hardmax_oracle(r, x):
    axis = r.attributes.get("axis", -1)
    if not x.size:
        return [x]
    first = np.expand_dims(x.argmax(axis), axis)
    places = np.arange(x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return [(places == first).astype(np.float64)]


@generator("LpNormalization", axis=ANY, p=(1, 2))
def lp_normalization(r):
    shape = r.shape(low=1, smallest=1)
    r.draw_axis(len(shape), -1)
    r.draw("p")
    return [r.values(shape) if r.chance(0.9) else r.values(shape) * 0]


@oracle("LpNormalization")
def lp_normalization_oracle(r, x):
    """The reference adds signed numbers up where p is 1. "When the Lp norm is zero [...], the output is defined to be
    zero"."""
    axis, p = r.attributes.get("axis", -1), r.attributes.get("p", 2)
    x = x.astype(np.float64)
    norm = (abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
    return [np.where(norm == 0, 0, x / norm)]


def layer_axis(r, rank):
    axis = r.draw_axis(rank, -1)
    return axis % rank


@generator("LayerNormalization", axis=ANY, epsilon=ANY, stash_type=(1, 16))
def layer_norm(r):
    shape = r.shape(low=1, smallest=1)
    axis = layer_axis(r, len(shape))
    r.draw("epsilon", None, 0.1, 1e-3)
    if "U" in r.fixed_types:
        r.set("stash_type", TYPE_NUMBERS[r.types["U"]])
    else:
        r.types["U"] = TYPE_OF_NUMBER[r.draw("stash_type") or 1]
    r.results = r.integer(1, 3)
    r.tolerance = 2e-2 if r.types["U"] == "bf16" else 1e-4
    bias = r.values(r.part_of(shape[axis:])) if r.chance(0.6) else None
    return [r.values(shape), r.values(r.part_of(shape[axis:])), bias]


def normal_parts(x, axes, epsilon):
    """Mean, and one by the deviation."""
    mean = x.mean(axes, keepdims=True)
    return mean, 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)


@oracle("LayerNormalization")
def layer_norm_oracle(r, x, scale, bias=None):
    axis = r.attributes.get("axis", -1) % x.ndim
    x = x.astype(np.float64)
    mean, inverse = normal_parts(x, tuple(range(axis, x.ndim)), r.attributes.get("epsilon", 1e-5))
    y = (x - mean) * inverse * scale + (0 if bias is None else bias)
    return [y, mean, inverse][: r.results]


@generator("RMSNormalization", axis=ANY, epsilon=ANY, stash_type=(1, 11))
def rms_norm(r):
    shape = r.shape(low=1, smallest=1)
    axis = layer_axis(r, len(shape))
    r.draw("epsilon", None, 0.1, 1e-3)
    r.draw("stash_type")
    r.tolerance = 1e-4 if r.dtype != "f64" else 1e-6
    return [r.values(shape), r.values(r.part_of(shape[axis:]), "V")]


@oracle("RMSNormalization")
def rms_norm_oracle(r, x, scale):
    axis = r.attributes.get("axis", -1) % x.ndim
    x = x.astype(np.float64)
    mean = (x * x).mean(tuple(range(axis, x.ndim)), keepdims=True)
    return [x / np.sqrt(mean + r.attributes.get("epsilon", 1e-5)) * scale]


@generator("MeanVarianceNormalization", axes=ANY)
def mean_variance(r):
    shape = r.shape(low=4, high=4, smallest=1)
    r.draw("axes", None, sorted(set(a % 4 for a in r.axes(4))))
    r.tolerance = 1e-3
    return [r.values(shape)]


@oracle("MeanVarianceNormalization")
def mean_variance_oracle(r, x):
    x = x.astype(np.float64)
    axes = tuple(r.attributes.get("axes", [0, 2, 3]))
    mean = x.mean(axes, keepdims=True)
    deviation = np.sqrt(((x * x).mean(axes, keepdims=True) - mean * mean).clip(0))
    return [(x - mean) / (deviation + 1e-9)]


@generator("TopK", axis=ANY, largest=(0, 1), sorted=(0, 1))
def top_k(r):
    shape = r.shape(low=1, high=4, smallest=1)
    axis = r.draw_axis(len(shape), -1)
    r.draw("largest")
    r.draw("sorted")
    r.results = 2
    x = np.asarray(np.round(r.values(shape)), r.values([1]).dtype) if r.chance(0.5) else r.distinct(shape)
    return [x, int64([shape[axis] if r.attributes.get("sorted") == 0 else r.integer(0, shape[axis])])]


@oracle("TopK")
def top_k_oracle(r, x, k):
    """Of equal elements the first comes first; unsorted ones (all of them, then) come in that order too."""
    axis = r.attributes.get("axis", -1)
    key = x.astype(np.float64) if r.dtype in FLOATS else x.astype(object)
    order = np.argsort(-key if r.attributes.get("largest", 1) else key, axis=axis, kind="stable")
    order = order.take(range(int(k[0])), axis)
    return [np.take_along_axis(x, order, axis), order]


@generator("Unique", axis=ANY, sorted=(0, 1))
def unique(r):
    shape = r.shape(low=1, high=3, smallest=1)
    r.draw("axis", None, *range(-len(shape), len(shape)))
    r.draw("sorted")
    r.results = r.integer(1, 4)
    x = r.values(shape, low=-1, high=1)
    return [x if r.dtype in ("str", "bool") else np.round(x).astype(x.dtype)]


@oracle("Unique")
def unique_oracle(r, x):
    axis, is_sorted = r.attributes.get("axis"), r.attributes.get("sorted", 1)
    slices = x.ravel() if axis is None else np.moveaxis(x, axis, 0)
    found = {}
    for i, part in enumerate(slices):
        found.setdefault(tuple(np.asarray(part).ravel().tolist()), []).append(i)
    keys = sorted(found, key=lambda key: [(v.real, v.imag) if isinstance(v, complex) else v for v in key]) if is_sorted else list(found)
    first = [found[key][0] for key in keys]
    inverse = np.zeros(len(slices), np.int64)
    for k, key in enumerate(keys):
        inverse[found[key]] = k
    y = slices[first]
    y = y if axis is None else np.moveaxis(y, 0, axis)
    return [y, int64(first), inverse, int64([len(found[key]) for key in keys])][: r.results]
