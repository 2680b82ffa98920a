# SPDX-License-Identifier: Apache-2.0
"""Ops that move elements, make them from nothing or from their places, or change only their type."""
import numpy as np

from .axes import wrapped
from .core import ANY, Opt, generator, int64, oracle
from .rows import Tensor
from .types import (COMPLEX, EXACT, FLOATS, INTEGERS, NUMPY, SMALL_FLOATS, SMALL_INTEGERS, TYPE_NUMBERS, integer_range,
                    round_to)  # fmt: skip


def any_values(r, shape, parameter=None):
    return r.values(shape, parameter, wide=True)


# ---- shapes ---------------------------------------------------------------------------------------------------------


@generator("Transpose", perm=ANY)
def transpose(r):
    shape = r.shape(low=1, high=6)
    r.draw("perm", None, [int(i) for i in r.rng.permutation(len(shape))])
    return [any_values(r, shape)]


@generator("Flatten", axis=ANY)
def flatten(r):
    shape = r.shape(low=1)
    r.draw("axis", None, *range(-len(shape), len(shape) + 1))
    return [any_values(r, shape)]


@oracle("Flatten")
def flatten_oracle(r, x):
    axis = r.attributes.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return [x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))]


@generator("Reshape", allowzero=(0, 1))
def reshape(r):
    if r.draw("allowzero") == 1 and r.chance(0.5):
        return [any_values(r, [0, *r.shape(high=3)]), int64([0, *r.shape(high=3)])]
    shape = r.shape(smallest=1)
    rest, target = int(np.prod(shape)), []
    for divisor in (2, 3, 5, 7, 4):
        if rest % divisor == 0 and r.chance(0.6):
            target.append(divisor)
            rest //= divisor
    target.insert(r.integer(0, len(target)), rest)
    if r.chance(0.5):
        target[r.integer(0, len(target) - 1)] = -1
    if not r.attributes.get("allowzero"):
        target = [0 if i < len(shape) and d == shape[i] and r.chance(0.5) else d for i, d in enumerate(target)]
    return [any_values(r, shape), int64(target)]


@generator("Squeeze")
def squeeze(r):
    shape = r.shape()
    ones = [i for i, d in enumerate(shape) if d == 1]
    if not ones or r.chance(0.2):
        return [any_values(r, shape)]
    axes = [i - len(shape) if r.chance(0.5) else i for i in ones if r.chance(0.7)] or [ones[0]]
    return [any_values(r, shape), int64(axes)]


@generator("Unsqueeze")
def unsqueeze(r):
    shape, n = r.shape(high=4), r.integer(1, 2)
    axes = [int(a) for a in r.rng.permutation(len(shape) + n)[:n]]
    return [any_values(r, shape), int64([a - len(shape) - n if r.chance(0.5) else a for a in axes])]


@generator("Shape", start=ANY, end=ANY)
def shape_of(r):
    shape = r.shape()
    r.draw("start", None, *range(-len(shape) - 1, len(shape) + 2))
    r.draw("end", None, *range(-len(shape) - 1, len(shape) + 2))
    return [any_values(r, shape)]


@oracle("Shape")
def shape_oracle(r, x):
    clamp = lambda v: min(max(v + x.ndim if v < 0 else v, 0), x.ndim)  # noqa: E731
    return [int64(x.shape[clamp(r.attributes.get("start", 0)) : clamp(r.attributes.get("end", x.ndim))])]


@generator("Size", "Identity")
def whole(r):
    kind = r.types[r.schema.inputs[0].parameter]
    make = lambda inner: any_values(r, r.shape(high=3), inner)  # noqa: E731
    if kind.startswith("opt("):
        inner = kind[4:-1]
        held = [make(inner[4:-1]) for _ in range(2)] if inner.startswith("seq(") else make(inner)
        return [Opt(held if r.chance(0.8) else None)]
    if kind.startswith("seq("):
        return [[make(kind[4:-1]) for _ in range(r.integer(0, 3))]]
    return [any_values(r, r.shape())]


@oracle("Size")
def size_oracle(r, x):
    return [int64(x.size)]


@oracle("Identity")
def identity_oracle(r, x):
    return [x]


# ---- pieces ---------------------------------------------------------------------------------------------------------


@generator("Concat", axis=ANY)
def concat(r):
    shape = r.shape(low=1)
    axis = r.draw_axis(len(shape), None)
    operands = []
    for _ in range(r.integer(1, 4)):
        part = list(shape)
        part[axis] = r.integer(0, 3)
        operands.append(any_values(r, part))
    return operands


@generator("Slice")
def slice_(r):
    shape = r.shape(low=1)
    axes = r.axes(len(shape))
    steps = [int(r.rng.choice([-3, -2, -1, 1, 1, 2, 3])) for _ in axes]
    starts = [r.integer(-max(shape[a], 1), 9) for a in axes]  # below, numpy and ONNX differ where a step is negative
    ends = [int(r.rng.choice([-9, -3, -1, 0, 2, 4, 9, 2**31 - 1])) for _ in axes]
    index = NUMPY[r.types["Tind"]]
    given = [np.array(v, index) for v in (starts, ends, axes, steps)]
    if r.chance(0.2):  # the first axes, each element
        return [any_values(r, shape), *(np.array(v[: len(shape)], index) for v in (starts, ends))]
    return [any_values(r, shape), *given]


@generator("Split", axis=ANY, num_outputs=ANY)
def split(r):
    shape = r.shape(low=1, smallest=1)
    axis = r.draw_axis(len(shape), 0)
    if r.draw("num_outputs", None, 1, 2, 3):
        parts = min(r.attributes["num_outputs"], shape[axis])
        size = -(-shape[axis] // parts)
        while (parts - 1) * size >= shape[axis]:  # the last is smaller, but not empty
            parts -= 1
            size = -(-shape[axis] // parts)
        r.results = r.set("num_outputs", parts)
        return [any_values(r, shape)]
    sizes, left = [], shape[axis]
    while left > 0 and len(sizes) < 3:
        sizes.append(r.integer(0, left))
        left -= sizes[-1]
    r.results = len(sizes) + 1
    return [any_values(r, shape), int64(sizes + [left])]


@generator("Pad", mode=("constant", "edge", "reflect", "wrap"))
def pad(r):
    mode = r.draw("mode")
    shape = r.shape(low=1, high=4, smallest=0 if mode in ("constant", None) else 2 if mode == "reflect" else 1)
    axes = r.axes(len(shape)) if r.chance(0.4) else None
    places = range(len(shape)) if axes is None else axes
    sizes = [shape[a] for a in places]
    most = [d - 1 if mode == "reflect" else d if mode == "wrap" else 3 for d in sizes]
    pads = [r.integer(0, m) for m in most + most]
    if r.chance(0.3) and mode in ("constant", None, "edge"):  # negative ones cut
        i = r.integer(0, len(sizes) - 1)
        pads[i], pads[i + len(sizes)] = -r.integer(0, max(sizes[i] - 1, 0)), pads[i + len(sizes)]
    value = any_values(r, []) if mode in (None, "constant") and r.chance(0.5) else None
    index = None if axes is None else np.array(axes, NUMPY[r.types["Tind"]])
    if value is None and r.dtype == "str" and mode in (None, "constant"):
        value = any_values(r, [])
    return [any_values(r, shape), int64(pads), value, index]


@oracle("Pad")
def pad_oracle(r, x, pads, value=None, axes=None):
    mode = r.attributes.get("mode", "constant")
    axes = range(x.ndim) if axes is None else axes
    n = len(axes)
    for k, axis in enumerate(axes):
        before, after = int(pads[k]), int(pads[k + n])
        size = x.shape[axis]
        x = x.take(range(max(-before, 0), size - max(-after, 0)), axis)
        size, before, after = x.shape[axis], max(before, 0), max(after, 0)
        places = np.arange(-before, size + after)
        if mode == "constant":
            blank = np.zeros(1, x.dtype)[0] if value is None else value.item() if x.dtype != object else value[()]
            parts = [np.full([c if i == axis % x.ndim else d for i, d in enumerate(x.shape)], blank, x.dtype) for c in (before, after)]
            x = np.concatenate([parts[0], x, parts[1]], axis)
            continue
        if mode == "edge":
            places = places.clip(0, size - 1)
        elif mode == "wrap":
            places = places % size
        else:
            period = 2 * (size - 1)
            places = places % period
            places = np.where(places >= size, period - places, places)
        x = x.take(places, axis)
    return [x]


@generator("CenterCropPad", axes=ANY)
def center_crop_pad(r):
    shape = r.shape(low=1, high=4, smallest=1)
    axes = r.draw("axes", None, r.axes(len(shape)))
    target = [r.integer(1, 6) for _ in (axes or shape)]
    r.force_type("T", *[t for t in r.schema.parameters["T"] if t != "str"]) if r.dtype == "str" and "T" not in r.fixed_types else None
    return [any_values(r, shape), np.array(target, NUMPY[r.types["Tind"]])]


@oracle("CenterCropPad")
def center_crop_pad_oracle(r, x, target):
    """Odd differences: the start has the smaller half."""
    axes = r.attributes.get("axes") or range(x.ndim)
    for axis, want in zip(axes, target.tolist()):
        size = x.shape[axis]
        if want <= size:
            x = x.take(range((size - want) // 2, (size - want) // 2 + want), axis)
        else:
            before = (want - size) // 2
            y = np.full([want if i == axis % x.ndim else d for i, d in enumerate(x.shape)], "" if x.dtype == object else 0).astype(x.dtype)
            y[tuple(slice(before, before + size) if i == axis % x.ndim else slice(None) for i in range(x.ndim))] = x
            x = y
    return [x]


@generator("Tile")
def tile(r):
    shape = r.shape(low=1, high=4)
    return [any_values(r, shape), r.rng.integers(0, 4, len(shape))]


@generator("Expand")
def expand(r):
    shape = r.shape()
    target = int64(shape if r.chance(0.5) else r.part_of(shape))
    return [any_values(r, r.part_of(shape)), target]


@generator("DepthToSpace", blocksize=ANY, mode=("DCR", "CRD"))
def depth_to_space(r):
    size = r.draw("blocksize", 1, 2, 3)
    r.draw("mode")
    n, c, h, w = r.integer(0, 2), r.integer(1, 3), r.integer(1, 3), r.integer(1, 3)
    return [any_values(r, [n, c * size * size, h, w])]


@generator("SpaceToDepth", blocksize=ANY, mode=("DCR", "CRD"))
def space_to_depth(r):
    size = r.draw("blocksize", 1, 2, 3)
    r.draw("mode")
    n, c, h, w = r.integer(0, 2), r.integer(1, 3), r.integer(1, 3), r.integer(1, 3)
    return [any_values(r, [n, c, h * size, w * size])]


@generator("Trilu", upper=(0, 1))
def trilu(r):
    shape = r.shape(low=2)
    r.draw("upper")
    return [any_values(r, shape), int64(r.integer(-4, 4)) if r.chance(0.7) else None]


@oracle("Trilu")
def trilu_oracle(r, x, k=0):
    keep = np.tri(*x.shape[-2:], int(k) - r.attributes.get("upper", 1), dtype=bool)
    keep = ~keep if r.attributes.get("upper", 1) else keep
    return [np.where(keep, x, np.zeros(1, x.dtype)[0] if x.dtype != object else "")]


@generator("NonZero")
def non_zero(r):
    x = r.values(r.shape(low=1, high=4), low=-1, high=1)
    return [np.round(x) if r.dtype in FLOATS else x]


@oracle("NonZero")
def non_zero_oracle(r, x):
    truth = np.vectorize(lambda v: v != "", otypes=[bool])(x) if x.dtype == object else x.astype(complex) != 0
    return [int64(np.nonzero(truth))]


@generator("Compress", axis=ANY)
def compress(r):
    shape = r.shape(low=1, high=4, smallest=1)
    axis = r.draw("axis", None, *range(-len(shape), len(shape)))
    n = int(np.prod(shape)) if axis is None else shape[axis]
    return [any_values(r, shape), r.values([r.integer(1, n)], "bool")]


@generator("ReverseSequence", batch_axis=(0, 1), time_axis=(0, 1))
def reverse_sequence(r):
    shape = r.shape(low=2, high=4, smallest=1)
    batch, time = r.draw("batch_axis"), r.draw("time_axis")
    batch, time = 1 if batch is None else batch, 0 if time is None else time
    if batch == time:
        name, other = ("batch_axis", "time_axis") if r.fixed.get("batch_axis", -1) == -1 else ("time_axis", "batch_axis")
        free = 1 - (time if name == "batch_axis" else batch)
        r.set(name, free)
        batch, time = (free, time) if name == "batch_axis" else (batch, free)
    return [any_values(r, shape), r.rng.integers(1, shape[time] + 1, shape[batch])]


# ---- by index -------------------------------------------------------------------------------------------------------


def indices(r, low, high, shape, parameter="Tind"):
    return np.asarray(r.rng.integers(low, high, shape)).astype(NUMPY[r.types.get(parameter, "i64")])


@generator("Gather", axis=ANY)
def gather(r):
    shape = r.shape(low=1, high=4, smallest=1)
    axis = r.draw_axis(len(shape), 0)
    return [any_values(r, shape), indices(r, -shape[axis], shape[axis], r.shape(high=2))]


@generator("GatherElements", axis=ANY)
def gather_elements(r):
    shape = r.shape(low=1, high=4, smallest=1)
    axis = r.draw_axis(len(shape), 0)
    part = [r.integer(1, d) for d in shape]
    part[axis] = r.integer(0, 6)
    return [any_values(r, shape), indices(r, -shape[axis], shape[axis], part)]


@oracle("GatherElements")
def gather_elements_oracle(r, x, index):
    """The reference wants all of the other dimensions."""
    axis = r.attributes.get("axis", 0) % x.ndim
    places = list(np.indices(index.shape))
    places[axis] = index % x.shape[axis]
    return [x[tuple(places)]]


@generator("ScatterElements", axis=ANY, reduction=("none", "add", "mul", "max", "min"))
def scatter_elements(r):
    reduction = r.draw("reduction")
    can_reduce(r, reduction)
    shape = r.shape(low=1, high=4, smallest=1)
    axis = r.draw_axis(len(shape), 0)
    part = [r.integer(1, d) for d in shape]
    index = r.rng.integers(-shape[axis], shape[axis], part)
    if r.attributes.get("reduction", "none") == "none":  # no place twice
        order = np.argsort(r.rng.random([shape[axis] if i == axis % len(shape) else d for i, d in enumerate(part)]), axis=axis)
        index = np.take(order, range(part[axis]), axis=axis)
    return [r.values(shape), index.astype(NUMPY[r.types["Tind"]]), r.values(part)]


def can_reduce(r, reduction):
    """Sums of strings, largest complex numbers, and sums of truths have no meaning."""
    reducible = [t for t in r.schema.parameters["T"] if t in FLOATS + INTEGERS]
    if reduction in (None, "none") or r.dtype in reducible:
        return
    if "reduction" in r.fixed:
        r.types["T"] = str(r.rng.choice(reducible))
    else:
        r.set("reduction", "none")


REDUCE = {"none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": max, "min": min}


@oracle("ScatterElements", "ScatterND")
def scatter_oracle(r, x, index, updates):
    reduce = REDUCE[r.attributes.get("reduction", "none")]
    y = x.astype(object) if r.dtype in INTEGERS else np.array(x)
    if r.op == "ScatterElements":
        axis = r.attributes.get("axis", 0) % x.ndim
        places = list(np.indices(index.shape))
        places[axis] = index % x.shape[axis]
        places = list(zip(*(p.ravel().tolist() for p in places)))
        updates = updates.ravel()
    else:
        places = [tuple(i) for i in index.reshape(-1, index.shape[-1]).tolist()]
        updates = updates.reshape(len(places), *x.shape[index.shape[-1] :])
    updates = updates.astype(y.dtype)
    for place, update in zip(places, updates):
        if np.shape(y[place]):
            y[place] = np.vectorize(reduce, otypes=[y.dtype])(y[place], update) if y[place].size else update
        else:
            y[place] = reduce(y[place], update)
    return [wrapped(y, r.dtype) if r.dtype in INTEGERS else y]


@generator("ScatterND", reduction=("none", "add", "mul", "max", "min"))
def scatter_nd(r):
    reduction = r.draw("reduction")
    can_reduce(r, reduction)
    shape = r.shape(low=1, high=4, smallest=1)
    depth = r.integer(1, len(shape))
    places = int(np.prod(shape[:depth]))
    n = r.integer(1, places)
    flat = r.rng.permutation(places)[:n] if r.attributes.get("reduction", "none") == "none" else r.rng.integers(0, places, n)
    index = np.stack(np.unravel_index(flat, shape[:depth]), -1)
    index = np.where(r.rng.random(index.shape) < 0.3, index - np.array(shape[:depth]), index)
    return [r.values(shape), int64(index), r.values([n] + shape[depth:])]


@generator("GatherND", batch_dims=ANY)
def gather_nd(r):
    shape = r.shape(low=1, high=4, smallest=1)
    batch = r.draw("batch_dims", None, *range(max(1, len(shape) - 1))) or 0
    depth = r.integer(1, len(shape) - batch)
    lead = shape[:batch] + r.shape(high=1, smallest=1)
    columns = [r.rng.integers(-d, d, lead) for d in shape[batch : batch + depth]]
    return [any_values(r, shape), np.stack(columns, -1)]


@oracle("GatherND")
def gather_nd_oracle(r, x, index):
    batch = r.attributes.get("batch_dims", 0)
    lead = index.shape[batch:-1]
    parts = []
    for b in np.ndindex(*x.shape[:batch]):
        parts += [np.asarray(x[b][tuple(i)], x.dtype) for i in index[b].reshape(-1, index.shape[-1])]
    y = np.stack(parts) if parts else np.empty(0, x.dtype)
    return [y.reshape((*x.shape[:batch], *lead, *x.shape[batch + index.shape[-1] :]))]


@generator("OneHot", axis=ANY)
def one_hot(r):
    depth, shape = r.integer(1, 5), r.shape(high=3)
    r.draw("axis", None, *range(-len(shape) - 1, len(shape) + 1))
    kind, count = NUMPY[r.types["T1"]], NUMPY[r.types["T2"]]
    low = -depth - 1 if r.types["T1"] not in ("u8", "u16", "u32", "u64") else 0
    return [np.asarray(r.rng.integers(low, depth + 2, shape)).astype(kind),
            np.array(depth if r.chance(0.5) else [depth], count), any_values(r, [2], "T3")]  # fmt: skip


@oracle("OneHot")
def one_hot_oracle(r, index, depth, values):
    """Indices outside -depth..depth-1 get off everywhere."""
    depth, axis = int(np.ravel(depth)[0]), r.attributes.get("axis", -1)
    axis = axis + index.ndim + 1 if axis < 0 else axis
    index = np.asarray(index, np.float64)
    index = np.where((index >= -depth) & (index < 0), index + depth, index)
    hot = np.expand_dims(index, axis) == np.arange(depth).reshape([-1 if i == axis else 1 for i in range(index.ndim + 1)])
    return [np.where(hot, values[1], values[0])]


@generator("TensorScatter", axis=ANY, mode=("linear", "circular"))
def tensor_scatter(r):
    shape = r.shape(low=3 if r.fixed.get("axis", 0) is None else 2, high=4, smallest=1)
    rank = len(shape)
    mode = r.draw("mode")
    axis = r.draw("axis", *[a for a in range(-rank, rank) if a % rank], *[None] * (rank > 2))
    axis = -2 if axis is None else axis
    part = list(shape)
    part[axis] = r.integer(1, shape[axis])
    most = shape[axis] - 1 if mode == "circular" else shape[axis] - part[axis]
    starts = int64([r.integer(0, most) for _ in range(shape[0])]) if r.chance(0.8) else None
    return [any_values(r, shape), any_values(r, part), starts]


@oracle("TensorScatter")
def tensor_scatter_oracle(r, past, update, starts=None):
    y, axis = np.array(past), r.attributes.get("axis", -2) % past.ndim
    for b in range(past.shape[0]):
        start = 0 if starts is None else int(starts[b])
        for k in range(update.shape[axis]):
            at = (start + k) % past.shape[axis]
            place = lambda i: (b, *[i if d == axis else slice(None) for d in range(1, past.ndim)])  # noqa: E731
            y[place(at)] = update[place(k)]
    return [y]


# ---- made from nothing ----------------------------------------------------------------------------------------------


def one_element(r, dtype):
    return Tensor(r.values([1], dtype, wide=True), dtype)


@generator("ConstantOfShape", value=ANY)
def constant_of_shape(r):
    value = one_element(r, r.types["T2"])
    if r.draw("value", None, value) is None:
        if "T2" in r.fixed_types:
            r.set("value", value)
        else:
            r.types["T2"] = "f32"
    return [int64(r.shape())]


@oracle("ConstantOfShape")
def constant_of_shape_oracle(r, shape):
    value = r.attributes.get("value")
    return [np.full(shape, np.float32(0) if value is None else value.array[0])]


@generator("EyeLike", dtype=ANY, k=ANY)
def eye_like(r):
    r.draw("k", None, 1, -2, 5)
    if r.draw("dtype", None, 1) is None:
        r.types["T2"] = r.force_type("T1", *[t for t in r.schema.parameters["T2"] if t in r.schema.parameters["T1"]])
    else:
        r.set("dtype", TYPE_NUMBERS[r.types["T2"]])
    return [r.values(r.shape(low=2, high=2))]


@oracle("EyeLike")
def eye_like_oracle(r, x):
    return [np.eye(*x.shape, r.attributes.get("k", 0))]


@generator("Range", stash_type=(1, 11))
def range_(r):
    r.draw("stash_type")
    kind = NUMPY[r.dtype]
    whole = r.dtype in INTEGERS
    start, delta = r.integer(-5, 5), r.one_of(1, 2, 3, -1, -2) if whole else r.one_of(0.5, -0.25, 1.0, 1.5)
    limit = start + r.integer(-9, 30) * (1 if whole else 0.5) * (1 if delta > 0 else -1)
    scalar = (lambda v: np.array([v], kind)) if r.chance(0.1) else lambda v: np.array(v, kind)  # noqa: E731
    return [scalar(start), scalar(limit), scalar(delta)]


@oracle("Range")
def range_oracle(r, start, limit, delta):
    start, limit, delta = (np.ravel(v)[0].item() for v in (start, limit, delta))
    n = max(int(np.ceil((limit - start) / delta)), 0)
    return [np.array([start + i * delta for i in range(n)])]


# ---- other types ----------------------------------------------------------------------------------------------------


def castable(r, shape, source, target):
    """Values that the target can take, but for those that saturation or infinity is for."""
    if source == "str":
        words = ["1", "-3", "0", "12"] if target not in FLOATS + SMALL_FLOATS else ["1", "-2.5", "1e1", "NaN", "INF", "-inf", "0.75"]
        words = [w for w in words if target[0] != "u" and target != "f8e8m0" or "-" not in w]
        return r.words(shape, words)
    if source in FLOATS and (target in INTEGERS or target in SMALL_INTEGERS):
        low, high = integer_range(target)
        return r.values(shape, source, low=max(low, -9), high=min(high, 9))
    x = r.values(shape, source, low=-9, high=9, wide=True)
    x = r.special(x, source) if source in FLOATS else x
    return np.where(x.astype(np.float64) < 0, np.zeros(1, x.dtype), x) if target == "f8e8m0" else x  # "x < 0: unspecified"


ROUND_MODES = ("up", "down", "nearest")


@generator("Cast", saturate=(0, 1), round_mode=ROUND_MODES, to=ANY)
def cast(r):
    r.set("to", TYPE_NUMBERS[r.types["T2"]])
    cast_attributes(r)
    return [castable(r, r.shape(), r.types["T1"], r.types["T2"])]


def cast_attributes(r):
    """They say something of 8-bit floats only."""
    r.draw("saturate")
    r.draw("round_mode")


@generator("CastLike", saturate=(0, 1), round_mode=ROUND_MODES)
def cast_like(r):
    cast_attributes(r)
    return [castable(r, r.shape(), r.types["T1"], r.types["T2"]), r.values(r.shape(high=2), "T2")]


@oracle("CastLike")
def cast_like_oracle(r, x, like):
    return cast_oracle(r, x)


def decimal_text(value, source):
    """"plain floating-point representation": of the fewest digits that give the number back, of its own type, as Python
    spells them. (numpy takes to powers of ten sooner, each version at another number.)"""
    if source == "bool":
        return "True" if value else "False"
    if source in INTEGERS or source in SMALL_INTEGERS:
        return str(int(value))
    texts = (f"{float(value):.{digits}g}" for digits in range(1, 18))
    return str(float(next(text for text in texts if np.array_equal(round_to(float(text), source), value, equal_nan=True))))


@oracle("Cast")
def cast_oracle(r, x):
    source, target = r.types["T1"], r.types["T2"]
    saturate = r.attributes.get("saturate", 1)
    if source == "str":
        x = np.vectorize(float, otypes=[np.float64])(x)
    if target == "str":
        return [np.vectorize(lambda v: decimal_text(v, source), otypes=[object])(x)]
    if target == "bool":
        return [np.asarray(x, np.float64) != 0 if source in SMALL_FLOATS + FLOATS else x.astype(bool)]
    if target in SMALL_FLOATS:
        return [to_small_float(np.asarray(x, np.float64), target, saturate, r.attributes.get("round_mode", "up"))]
    if target in INTEGERS or target in SMALL_INTEGERS:
        return [to_integer(x, target)]
    return [np.asarray(x, np.float64) if source in SMALL_FLOATS + SMALL_INTEGERS else x]


def to_integer(x, target):
    """Towards zero; of integers the low bits."""
    bits, signed = int(target[1:]), target[0] == "i"
    whole = [int(v) % (1 << bits) for v in np.asarray(x).ravel().tolist()]
    whole = [v - (1 << bits) if signed and v >> bits - 1 else v for v in whole]
    return np.array(whole, object).reshape(np.shape(x)).astype(np.int64 if signed else np.uint64).astype(NUMPY[target])


# largest number; what becomes of infinity and of what is too large when nothing saturates
LARGEST = {"f8e4m3fn": 448.0, "f8e4m3fnuz": 240.0, "f8e5m2": 57344.0, "f8e5m2fnuz": 57344.0, "f4e2m1": 6.0}


def to_small_float(x, target, saturate, round_mode):
    """Four bits hold no NaN, and the text does not say what becomes of it: -0 as in ml_dtypes."""
    if target == "f8e8m0":
        return to_e8m0(x, saturate, round_mode)
    most = LARGEST[target]
    with np.errstate(all="ignore"):
        plain = x.astype(NUMPY[target]).astype(np.float64)  # rounds to even; over the edge NaN or infinity
    large = np.isinf(x) | np.isfinite(x) & (~np.isfinite(plain) | (abs(plain) > most))
    if target == "f4e2m1":
        return np.where(np.isnan(x), -0.0, np.where(large, np.copysign(most, x), plain))
    if saturate:
        return np.where(large, np.copysign(most, x), plain)
    over = np.copysign(np.inf, x) if target == "f8e5m2" else np.nan
    return np.where(large, over, plain)


def to_e8m0(x, saturate, round_mode):
    result = []
    for v in np.ravel(x).tolist():
        if np.isnan(v) or np.isinf(v) and not saturate:
            result.append(np.nan)
            continue
        low = 2.0**-127
        exponent = np.floor(np.log2(v)) if v > 0 and np.isfinite(v) else -np.inf if v == 0 else np.inf
        if v > 0 and np.isfinite(v) and v != 2.0**exponent:
            if round_mode == "up" or round_mode == "nearest" and v / 2.0**exponent >= 1.5:
                exponent += 1
        if exponent > 127:
            result.append(2.0**127 if saturate else np.nan)
        else:
            result.append(max(2.0**exponent, low) if saturate or v >= low else np.nan)
    return np.array(result).reshape(np.shape(x))


@generator("BitCast", to=ANY)
def bit_cast(r):
    sizes = {}
    for t in r.schema.parameters["T2"]:
        sizes.setdefault(bits_of(t), []).append(t)
    if "T2" in r.fixed_types and "T1" not in r.fixed_types:
        r.force_type("T1", *[t for t in r.schema.parameters["T1"] if t in sizes[bits_of(r.types["T2"])]])
    else:
        r.force_type("T2", *sizes[bits_of(r.types["T1"])])
    r.set("to", TYPE_NUMBERS[r.types["T2"]])
    if r.types["T2"] == "bool":  # of which only two have a meaning
        return [r.rng.integers(0, 2, r.shape()).astype(np.uint8).view(EXACT[r.types["T1"]]).astype(NUMPY[r.types["T1"]])]
    return [any_values(r, r.shape(), "T1")]


def bits_of(dtype):
    return 8 if dtype == "bool" else {"c64": 64, "c128": 128}.get(dtype) or int("".join(c for c in dtype.split("e")[0] if c.isdigit()))


@oracle("BitCast")
def bit_cast_oracle(r, x):
    source, target = r.types["T1"], r.types["T2"]
    exact = np.ascontiguousarray(x.astype(EXACT[source])).ravel()
    return [exact.view(EXACT[target]).reshape(x.shape).astype(NUMPY[target])]


@generator("Dropout", seed=ANY)
def dropout(r):
    """In training the mask is random, and so there is only its shape to compare; in inference all is known."""
    r.draw("seed", None, 3, 17)
    training = r.chance(0.3)
    r.results = r.integer(1, 2)
    r.no_data = training
    ratio = np.asarray(round_to(0.5, r.types["T1"])) if r.chance(0.6) or training else None
    return [r.values(r.shape()), ratio, np.array(training) if training or r.chance(0.3) else None]


@oracle("Dropout")
def dropout_oracle(r, x, ratio=None, training=None):
    return [x, np.ones(x.shape, bool)][: r.results]


def is_complex(dtype):
    return dtype in COMPLEX
