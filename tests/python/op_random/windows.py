# SPDX-License-Identifier: Apache-2.0
"""Pools, and norms over channels."""
import numpy as np

from .core import ANY, generator, int64, oracle
from .products import AUTO_PAD, Window, draw_window
from .types import round_to

# ---- pools ----------------------------------------------------------------------------------------------------------

POOL = {"auto_pad": AUTO_PAD, "ceil_mode": (0, 1), "dilations": ANY, "kernel_shape": ANY, "pads": ANY, "strides": ANY}


def draw_pool(r):
    rank = r.integer(1, 3)
    kernel = r.draw("kernel_shape", [r.integer(1, 3) for _ in range(rank)])
    extent = draw_window(r, rank, kernel)
    r.draw("ceil_mode")
    space = [e + r.integer(0, 4) for e in extent]
    return r.values([r.integer(1, 2), r.integer(1, 3), *space])


@generator("MaxPool", storage_order=(0, 1), **POOL)
def max_pool(r):
    r.draw("storage_order")
    r.results = r.integer(1, 2)
    return [draw_pool(r)]


@generator("AveragePool", count_include_pad=(0, 1), **POOL)
def average_pool(r):
    r.draw("count_include_pad")
    return [draw_pool(r)]


@generator("LpPool", p=ANY, **POOL)
def lp_pool(r):
    r.draw("p", None, 1, 2, 3)
    return [draw_pool(r)]


def windows(r, x):
    """For each place of the result its window's elements, their places in x, and how many there are with padding."""
    window = Window(r.attributes, x.shape[2:], r.attributes["kernel_shape"])
    yield window
    for index in np.ndindex(*window.out):
        places = window.places(index)
        inside = [[p for p in ps if 0 <= p < n] for ps, n in zip(places, window.space)]
        padded = [[p for p in ps if p < n + end] for ps, n, end in zip(places, window.space, window.end)]
        elements = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)].reshape(*x.shape[:2], -1)
        yield index, elements, inside, int(np.prod([len(ps) for ps in padded]))


@oracle("MaxPool", "AveragePool", "LpPool")
def pool_oracle(r, x):
    """Window by window: the reference goes wrong with ceil_mode and pads."""
    found = windows(r, x)
    window = next(found)
    y = np.zeros((*x.shape[:2], *window.out))
    at = np.zeros(y.shape, np.int64)
    p = r.attributes.get("p", 2)
    for index, elements, inside, padded in found:
        if r.op == "MaxPool":
            assert elements.shape[2], "a window of padding only"
            y[(..., *index)] = elements.max(-1)
            at[(..., *index)] = largest_places(r, x, elements, inside)
        elif r.op == "LpPool":
            y[(..., *index)] = (abs(elements.astype(np.float64)) ** p).sum(-1) ** (1 / p)
        else:
            count = padded if r.attributes.get("count_include_pad") else elements.shape[2]
            y[(..., *index)] = elements.sum(-1, dtype=np.float64) / count
    return [y, at][: r.results]


def largest_places(r, x, elements, inside):
    """Over the whole tensor, row by row, or column by column within a plane."""
    shape = [len(ps) for ps in inside]
    places = np.unravel_index(elements.argmax(-1), shape)
    places = [np.array(ps)[i] for ps, i in zip(inside, places)]
    space = x.shape[2:]
    if r.attributes.get("storage_order"):
        flat = np.ravel_multi_index(places, space, order="F")
    else:
        flat = np.ravel_multi_index(places, space)
    return flat + np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) * int(np.prod(space))


@generator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(r):
    return [r.values([r.integer(0, 2), r.integer(1, 3), *r.shape(low=1, high=3, smallest=1)])]


@generator("GlobalLpPool", p=ANY)
def global_lp_pool(r):
    r.draw("p", None, 1, 2, 3)
    return [r.values([r.integer(0, 2), r.integer(1, 3), *r.shape(low=1, high=3, smallest=1)])]


@oracle("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool_oracle(r, x):
    axes, x, p = tuple(range(2, x.ndim)), x.astype(np.float64), r.attributes.get("p", 2)
    if r.op == "GlobalLpPool":
        return [(abs(x) ** p).sum(axes, keepdims=True) ** (1 / p)]
    return [x.mean(axes, keepdims=True) if r.op == "GlobalAveragePool" else x.max(axes, keepdims=True)]


@generator("MaxUnpool", kernel_shape=ANY, pads=ANY, strides=ANY)
def max_unpool(r):
    """Of what a MaxPool of the same attributes could have given."""
    rank = r.integer(1, 3)
    kernel = r.draw("kernel_shape", [r.integer(1, 3) for _ in range(rank)])
    strides = r.draw("strides", None, [r.integer(1, 3) for _ in range(rank)]) or [1] * rank
    pads = r.draw("pads", None, [r.integer(0, kernel[i % rank] - 1) for i in range(2 * rank)]) or [0] * 2 * rank
    shape = [r.integer(1, 2), r.integer(1, 2), *(r.integer(2, 4) for _ in range(rank))]
    space = [s * (n - 1) + k - pads[i] - pads[i + rank] for i, (n, s, k) in enumerate(zip(shape[2:], strides, kernel))]
    assert min(space) > 0
    given = [*shape[:2], *(n + r.integer(0, s) for n, s in zip(space, strides))] if r.chance(0.4) else None
    places = int(np.prod([*shape[:2], *space]))
    count = int(np.prod(shape))
    assert count <= places
    at = np.sort(r.rng.permutation(places)[:count]).reshape(shape)
    return [r.values(shape), int64(at), None if given is None else int64(given)]


@oracle("MaxUnpool")
def max_unpool_oracle(r, x, at, given=None):
    """Indices count in a tensor without the given shape's surplus: that of the attributes."""
    rank, kernel = x.ndim - 2, r.attributes["kernel_shape"]
    strides, pads = r.attributes.get("strides", [1] * rank), r.attributes.get("pads", [0] * 2 * rank)
    space = [s * (n - 1) + k - pads[i] - pads[i + rank] for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel))]
    inferred = (*x.shape[:2], *space)
    y = np.zeros(inferred if given is None else given)
    for place, value in zip(at.ravel(), x.ravel()):
        y[np.unravel_index(place, inferred)] = value
    return [y]


@generator("MaxRoiPool", pooled_shape=ANY, spatial_scale=ANY)
def max_roi_pool(r):
    shape = [r.integer(1, 2), r.integer(1, 2), r.integer(2, 6), r.integer(2, 6)]
    r.draw("pooled_shape", [r.integer(1, 3), r.integer(1, 3)])
    scale = r.draw("spatial_scale", None, 0.5, 1.0) or 1.0
    n = r.integer(1, 3)
    corners = lambda size: np.sort(r.rng.integers(0, int(size / scale), (n, 2)), 1)  # noqa: E731
    x, y = corners(shape[3]), corners(shape[2])
    rois = np.stack([r.rng.integers(0, shape[0], n), x[:, 0], y[:, 0], x[:, 1], y[:, 1]], 1)
    return [r.values(shape), round_to(rois, r.dtype)]


@oracle("MaxRoiPool")
def max_roi_pool_oracle(r, x, rois):
    """As in Fast R-CNN: corners rounded to elements, both inside; bins from floor to ceil; an empty bin is 0."""
    height, width = r.attributes["pooled_shape"]
    scale = r.attributes.get("spatial_scale", 1.0)
    y = np.zeros((len(rois), x.shape[1], height, width))
    for k, roi in enumerate(rois.astype(np.float64)):
        left, top, right, bottom = (int(np.floor(v * scale + 0.5)) for v in roi[1:])
        sizes = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i, j in np.ndindex(height, width):
            low = [int(np.floor(a * s / n)) + b for a, s, n, b in zip((i, j), sizes, (height, width), (top, left))]
            high = [int(np.ceil((a + 1) * s / n)) + b for a, s, n, b in zip((i, j), sizes, (height, width), (top, left))]
            low, high = [max(v, 0) for v in low], [min(v, n) for v, n in zip(high, x.shape[2:])]
            if low[0] < high[0] and low[1] < high[1]:
                y[k, :, i, j] = x[int(roi[0]), :, low[0] : high[0], low[1] : high[1]].max((1, 2))
    return [y]


# ---- norms ----------------------------------------------------------------------------------------------------------


def channels(r, c=None):
    c = 2 * r.integer(1, 3) if c is None else c
    return r.values([r.integer(1, 2), c, *r.shape(low=1, high=3, smallest=1)]), c


@generator("LRN", alpha=ANY, beta=ANY, bias=ANY, size=ANY)
def lrn(r):
    for name in ("alpha", "beta", "bias"):
        r.draw(name, None, 0.3, 1.5)
    r.draw("size", 1, 2, 3, 5)
    return [channels(r)[0]]


@oracle("LRN")
def lrn_oracle(r, x):
    """The reference walks over the batch where it should walk over channels."""
    size, x = r.attributes["size"], x.astype(np.float64)
    alpha, beta, bias = (r.attributes.get(name, value) for name, value in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    alpha = float(np.float32(alpha))
    total = np.zeros_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1]
        total[:, c] = (near * near).sum(1)
    return [x / (bias + alpha / size * total) ** beta]


def normalized(x, axes, epsilon):
    x = x.astype(np.float64)
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)


def a_channel(v, rank):
    return np.reshape(v, (1, -1, *[1] * (rank - 2))).astype(np.float64)


@generator("InstanceNormalization", epsilon=ANY)
def instance_norm(r):
    r.draw("epsilon", None, 0.1)
    x, c = channels(r)
    r.tolerance = 1e-4
    return [x, r.values([c]), r.values([c])]


@generator("GroupNormalization", epsilon=ANY, num_groups=ANY, stash_type=(1, 11))
def group_norm(r):
    r.draw("epsilon", None, 0.1)
    r.draw("stash_type")
    x, c = channels(r)
    r.draw("num_groups", 1, 2, c)
    r.tolerance = 1e-4
    return [x, r.values([c]), r.values([c])]


@oracle("InstanceNormalization", "GroupNormalization")
def group_norm_oracle(r, x, scale, bias):
    groups = r.attributes.get("num_groups", x.shape[1])
    parts = x.reshape(x.shape[0], groups, -1)
    y = normalized(parts, 2, r.attributes.get("epsilon", 1e-5)).reshape(x.shape)
    return [y * a_channel(scale, x.ndim) + a_channel(bias, x.ndim)]


@generator("BatchNormalization", epsilon=ANY, momentum=ANY, training_mode=(0, 1))
def batch_norm(r):
    r.draw("epsilon", None, 0.1)
    r.draw("momentum", None, 0.3)
    training = r.draw("training_mode")
    r.results = r.integer(1, 3) if training else 1
    x, c = channels(r)
    if r.chance(0.1):
        x, c = r.values([r.integer(1, 5)]), 1
    r.tolerance = 1e-4 if training else None
    return [x, r.values([c], "T1"), r.values([c], "T1"), r.values([c], "T2"), r.values([c], "T2", low=0.1)]


@oracle("BatchNormalization")
def batch_norm_oracle(r, x, scale, bias, mean, variance):
    momentum, epsilon = r.attributes.get("momentum", np.float32(0.9)), r.attributes.get("epsilon", np.float32(1e-5))
    wide, spread = x.astype(np.float64), (lambda v: v.astype(np.float64) if x.ndim < 2 else a_channel(v, x.ndim))
    running = []
    if r.attributes.get("training_mode"):
        axes = tuple(i for i in range(x.ndim) if i != 1)
        current = wide.mean(axes).reshape(-1), wide.var(axes).reshape(-1)
        running = [old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), current)]
        mean, variance = current
    y = (wide - spread(mean)) / np.sqrt(spread(variance) + epsilon) * spread(scale) + spread(bias)
    return [y, *running][: r.results]
