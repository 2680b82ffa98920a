# SPDX-License-Identifier: Apache-2.0
"""Pictures: resized, sampled, decoded; boxes in them."""
import io

import numpy as np
from PIL import Image

from .core import ANY, generator, int64, oracle
from .types import COMPLEX, FLOATS, INTEGERS, NUMPY, round_to

# ---- Resize ---------------------------------------------------------------------------------------------------------

TRANSFORMATIONS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                   "tf_crop_and_resize")  # fmt: skip


@generator("Resize", antialias=(0, 1), axes=ANY, coordinate_transformation_mode=TRANSFORMATIONS, cubic_coeff_a=ANY,
           exclude_outside=(0, 1), extrapolation_value=ANY, keep_aspect_ratio_policy=("stretch", "not_larger", "not_smaller"),
           mode=("nearest", "linear", "cubic"), nearest_mode=("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))  # fmt: skip
def resize(r):
    numeric = FLOATS + INTEGERS
    mode = r.draw("mode") or "nearest"
    crops = r.draw("coordinate_transformation_mode") == "tf_crop_and_resize"
    if r.dtype not in numeric and (mode != "nearest" or crops):  # there are no averages, no numbers beside them
        if "T1" in r.fixed_types:
            mode, crops = r.set("mode", "nearest"), False
            r.set("coordinate_transformation_mode", "asymmetric")
        else:
            r.force_type("T1", *numeric)
    shape = r.shape(low=1, high=4 if mode == "nearest" else 3, smallest=1)
    for name in ("nearest_mode", "exclude_outside"):
        r.draw(name)
    if mode != "nearest" or "antialias" in r.fixed:
        r.draw("antialias")
    r.draw("cubic_coeff_a", None, -0.5)
    r.draw("extrapolation_value", None, 3.0)
    axes = r.draw("axes", None, r.axes(len(shape)))
    some = [shape[a] for a in axes] if axes else shape
    roi = np.sort(r.rng.uniform(-0.3, 1.3, (2, len(some))), 0).ravel() if crops else None
    roi = None if roi is None else np.asarray(round_to(roi, r.types["T2"]))
    r.tolerance = 1e-5  # coordinates are of float32 whatever the elements are
    x = r.values(shape) if r.dtype in numeric else r.values(shape, wide=True)
    if r.fixed.get("keep_aspect_ratio_policy") or r.chance(0.4):
        r.draw("keep_aspect_ratio_policy")
        return [x, roi, None, int64([r.integer(1, 7) for _ in some])]
    scales = [r.one_of(0.5, 0.3, 1.0, 2.0, 1.7, 3.0) for _ in some]
    return [x, roi, np.array([max(s, 1.01 / d) for s, d in zip(scales, some)], np.float32)]


def resized(n, scale, size, policy_scale):
    """The size of a dimension, and the scale to compute with."""
    if size is None:
        return int(np.floor(np.float32(n) * np.float32(scale))), float(scale)
    return (size, size / n) if policy_scale is None else (int(policy_scale * n + 0.5), policy_scale)


def original(r, out, scale, n, roi):
    """The coordinate in the original of each element. Where scales say how long the result is, a fraction of an element
    counts as in the reference, although the specification speaks of the length of the resized tensor."""
    mode, i = r.attributes.get("coordinate_transformation_mode", "half_pixel"), np.arange(out, dtype=np.float64)
    length = scale * n if abs(scale * n - out) > 1e-3 else out
    single = out == 1 or length <= 1
    if mode == "align_corners":
        return i * 0 if single else i * (n - 1) / (length - 1)
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_crop_and_resize":
        start, end = roi
        return i * 0 + 0.5 * (start + end) * (n - 1) if single else start * (n - 1) + i * (end - start) * (n - 1) / (length - 1)
    if mode == "pytorch_half_pixel" and out == 1:  # "length_resized > 1 ? [...] : 0"; the reference has -0.5
        return i * 0
    half = (i + 0.5) / scale - 0.5
    return half + n / 2 * (1 - out / (scale * n)) if mode == "half_pixel_symmetric" else half


def certain(x, edge, exact=True):
    """Not so close to where a choice turns that float32 would turn it the other way."""
    distance = abs(x - edge)
    assert not ((distance > 0 if exact else True) & (distance < 1e-4)).any(), "depends on rounding"
    return x


def nearest(r, x, scale):
    mode, exact = r.attributes.get("nearest_mode", "round_prefer_floor"), scale * 64 % 1 == 0
    exact = exact and r.attributes.get("coordinate_transformation_mode") not in ("tf_crop_and_resize", "align_corners")
    for edge in (0.5,) if mode.startswith("round") else (0, 1):
        certain(x % 1, edge, exact)
    return {"floor": np.floor(x), "ceil": np.ceil(x), "round_prefer_floor": np.ceil(x - 0.5)}.get(mode, np.floor(x + 0.5))


def kernel(r, x):
    x, a = abs(x), r.attributes.get("cubic_coeff_a", -0.75)
    if r.attributes["mode"] == "linear":
        return (1 - x).clip(0)
    near, far = (a + 2) * x**3 - (a + 3) * x**2 + 1, a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def weights(r, x, scale, n):
    """Of each element of the original in one of the result; beyond the edges the edge element stands in."""
    stretch = min(scale, 1) if r.attributes.get("antialias") else 1
    reach = int(np.ceil(2 / stretch)) + 1
    places = np.arange(int(np.floor(x)) - reach, int(np.floor(x)) + reach + 2)
    found = kernel(r, (places - x) * stretch)
    if r.attributes.get("exclude_outside"):
        found = np.where((places >= 0) & (places < n), found, 0)
    if r.attributes.get("exclude_outside") or r.attributes.get("antialias"):
        assert abs(found.sum()) > 1e-3, "depends on rounding"  # all that counts is outside
        found = found / found.sum()
    row = np.zeros(n)
    np.add.at(row, places.clip(0, n - 1), found)
    return row


@oracle("Resize")
def resize_oracle(r, x, roi=None, scales=None, sizes=None):
    axes = [a % x.ndim for a in r.attributes.get("axes", range(x.ndim))]
    policy, chosen = r.attributes.get("keep_aspect_ratio_policy", "stretch"), None
    if sizes is not None and policy != "stretch":
        ratios = [np.float32(s) / np.float32(x.shape[a]) for s, a in zip(sizes, axes)]
        chosen = float(min(ratios) if policy == "not_larger" else max(ratios))
    is_nearest = r.attributes.get("mode", "nearest") == "nearest"
    crops = r.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    y = x if is_nearest else x.astype(np.float64)
    outside = np.zeros([1] * x.ndim, bool)
    for k, axis in sorted(enumerate(axes), key=lambda pair: pair[1]):
        n = x.shape[axis]
        out, scale = resized(n, None if scales is None else scales[k], None if sizes is None else int(sizes[k]), chosen)
        at = original(r, out, scale, n, None if roi is None else (float(roi[k]), float(roi[k + len(axes)])))
        if is_nearest:
            y = y.take(nearest(r, at, scale).clip(0, n - 1).astype(int), axis)
        else:
            matrix = np.array([weights(r, v, scale, n) for v in at]).reshape(out, n)
            y = np.moveaxis(np.tensordot(matrix, y, (1, axis)), 0, axis)
        if crops:
            beyond = (certain(at, 0) < 0) | (certain(at, n - 1) > n - 1)
            outside = outside | beyond.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    y = np.where(np.broadcast_to(outside, y.shape), r.attributes.get("extrapolation_value", 0), y) if crops else y
    return [whole(r, y, r.attributes.get("antialias")) if r.dtype in INTEGERS and not is_nearest else y]


def whole(r, y, to_nearest=False):
    """Integers from averages: towards zero as in onnxruntime, where the specification says nothing and the reference
    rounds; what is an integer but for the last digits is that."""
    if to_nearest:
        certain(y % 1, 0.5, exact=False)
    certain_y = np.where(abs(y - np.rint(y)) < 1e-4, np.rint(y), y)
    low, high = np.iinfo(NUMPY[r.dtype]).min, np.iinfo(NUMPY[r.dtype]).max
    return (np.rint(y) if to_nearest else np.trunc(certain_y)).clip(low, high)


# ---- sampling -------------------------------------------------------------------------------------------------------


@generator("GridSample", align_corners=(0, 1), mode=("linear", "nearest", "cubic"), padding_mode=("zeros", "border", "reflection"))
def grid_sample(r):
    rank = r.integer(1, 3)
    r.draw("align_corners")
    r.draw("padding_mode")
    if r.draw("mode") == "cubic":
        rank = min(rank, 2)
    if r.dtype in ("str", "bool") and r.attributes.get("mode") != "nearest":  # nothing between two strings
        r.set("mode", "nearest") if "T1" in r.fixed_types else r.force_type("T1", *FLOATS, *INTEGERS)
    r.tolerance = 1e-5 if r.types["T2"] != "f64" else None
    shape = [r.integer(1, 2), r.integer(1, 3), *(r.integer(1, 4) for _ in range(rank))]
    out = [r.integer(0 if r.chance(0.1) else 1, 4) for _ in range(rank)]
    return [r.values(shape), r.values([shape[0], *out, rank], "T2", low=-1.4, high=1.4)]


def mirrored(x, low, high):
    """Between two mirrors."""
    if high <= low:
        return low
    away = (x - low) % (2 * (high - low))
    return low + min(away, 2 * (high - low) - away)


def sample_taps(r, g, n):
    """The elements along a dimension that a normalised coordinate reads, None for nothing; their weights."""
    mode, padding = r.attributes.get("mode", "linear"), r.attributes.get("padding_mode", "zeros")
    low, high = (0.0, n - 1.0) if r.attributes.get("align_corners") else (-0.5, n - 0.5)
    kind = np.float64 if r.types["T2"] == "f64" else np.float32
    g = kind(g)
    x = float((g + 1) / 2 * kind(n - 1) if low == 0 else ((g + 1) * kind(n) - 1) / 2)
    certain(np.array([x % 1]), 0.5 if mode == "nearest" else 0, exact=False)
    x = float(np.rint(x)) if mode == "nearest" else x
    # A cubic window beyond the border stays where it is, as in onnxruntime and PyTorch; the reference moves it.
    if (x < low or x > high) and not (padding == "border" and mode == "cubic"):
        x = min(max(x, 0.0), n - 1.0) if padding == "border" else mirrored(x, low, high) if padding == "reflection" else x
    base, a = int(np.floor(x)), -0.75
    if mode == "nearest":
        places, found = [base], [1.0]
    elif mode == "linear":
        places, found = [base, base + 1], [1 - (x - base), x - base]
    else:
        places = [base + k for k in (-1, 0, 1, 2)]
        near = lambda d: ((a + 2) * d - (a + 3)) * d * d + 1  # noqa: E731
        far = lambda d: ((a * d - 5 * a) * d + 8 * a) * d - 4 * a  # noqa: E731
        found = [(near if abs(x - p) <= 1 else far)(abs(x - p)) for p in places]
    if padding == "border":
        places = [min(max(p, 0), n - 1) for p in places]
    elif padding == "reflection":
        places = [int(mirrored(p, low, high)) for p in places]
    return [p if 0 <= p < n else None for p in places], found


@oracle("GridSample")
def grid_sample_oracle(r, x, grid):
    """The reference weighs integers with integers. "Intermediate values are computed as floating point and cast to
    integer at the end." """
    rank, exact = x.ndim - 2, r.attributes.get("mode") == "nearest"
    wide = x if exact else x.astype(np.complex128 if r.dtype in COMPLEX else np.float64)
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), wide.dtype)
    y = np.full(y.shape, "", object) if r.dtype == "str" else y
    for place in np.ndindex(grid.shape[:-1]):
        taps = [sample_taps(r, grid[place][rank - 1 - d], x.shape[2 + d]) for d in range(rank)]
        for corner in np.ndindex(*[len(places) for places, _ in taps]):
            at = [taps[d][0][k] for d, k in enumerate(corner)]
            if None in at:
                continue
            found = wide[(place[0], slice(None), *at)]
            to = (place[0], slice(None), *place[1:])
            y[to] = found if exact else y[to] + found * np.prod([taps[d][1][k] for d, k in enumerate(corner)])
    return [whole(r, y) if r.dtype in INTEGERS and not exact else y]


@generator("AffineGrid", align_corners=(0, 1))
def affine_grid(r):
    rank, n = r.integer(2, 3), r.integer(1, 3)
    r.draw("align_corners")
    return [r.values([n, rank, rank + 1]), int64([n, r.integer(1, 3), *(r.integer(1, 4) for _ in range(rank))])]


@oracle("AffineGrid")
def affine_grid_oracle(r, theta, size):
    """The reference computes in float32."""
    steps = []
    for n in size[2:].tolist():
        ends = 1 if r.attributes.get("align_corners") else 1 - 1 / n
        steps.append(np.linspace(-ends, ends, n))  # of one corner pixel the first, as in the reference
    places = np.meshgrid(*steps, indexing="ij")
    points = np.stack([*reversed(places), np.ones(places[0].shape)], -1)  # x, y, z, 1
    return [np.einsum("nij,...j->n...i", theta.astype(np.float64), points)]


@generator("RoiAlign", coordinate_transformation_mode=("half_pixel", "output_half_pixel"), mode=("avg", "max"), output_height=ANY,
           output_width=ANY, sampling_ratio=ANY, spatial_scale=ANY)  # fmt: skip
def roi_align(r):
    shape = [r.integer(1, 3), r.integer(1, 3), r.integer(2, 6), r.integer(2, 6)]
    r.draw("coordinate_transformation_mode")
    r.draw("mode")
    for name in ("output_height", "output_width"):
        r.draw(name, None, 1, 2, 3)
    r.draw("sampling_ratio", None, 0, 1, 2, 3)
    scale = r.draw("spatial_scale", None, 0.5, 1.5) or 1.0
    n = r.integer(0, 3)
    corners = [np.sort(r.rng.uniform(-1, (size + 1) / scale, (n, 2)), 1) for size in (shape[3], shape[2])]
    rois = np.stack([corners[0][:, 0], corners[1][:, 0], corners[0][:, 1], corners[1][:, 1]], 1)
    return [r.values(shape), round_to(rois, r.dtype), int64(r.rng.integers(0, shape[0], n))]


@generator("NonMaxSuppression", center_point_box=(0, 1))
def non_max_suppression(r):
    batches, classes, n = r.integer(1, 2), r.integer(1, 3), r.integer(1, 8)
    r.draw("center_point_box")
    boxes = r.values([batches, n, 4], "f32", low=0.1, high=1)
    most = int64(r.integer(0, 5)) if r.chance(0.9) else None
    threshold = lambda: np.array(r.rng.uniform(0, 1), np.float32) if r.chance(0.7) else None  # noqa: E731
    return [boxes, r.values([batches, classes, n], "f32", low=0, high=1), most, threshold(), threshold()]


def overlap(a, b, centred):
    """Intersection over union."""
    corners = []
    for box in (a, b):
        p, q, s, t = box.astype(np.float64)
        corners.append((p - s / 2, q - t / 2, p + s / 2, q + t / 2) if centred else (min(p, s), min(q, t), max(p, s), max(q, t)))
    (a0, a1, a2, a3), (b0, b1, b2, b3) = corners
    inner = max(min(a2, b2) - max(a0, b0), 0) * max(min(a3, b3) - max(a1, b1), 0)
    union = (a2 - a0) * (a3 - a1) + (b2 - b0) * (b3 - b1) - inner
    return inner / union if union > 0 else 0


@oracle("NonMaxSuppression")
def non_max_suppression_oracle(r, boxes, scores, most=None, iou=None, least=None):
    """The reference wants all operands."""
    most, iou, selected = 0 if most is None else int(most), 0 if iou is None else float(iou), []
    for b, c in np.ndindex(scores.shape[:2]):
        kept = []
        for i in np.argsort(-scores[b, c], kind="stable"):
            if len(kept) == most or least is not None and scores[b, c, i] < float(least):
                break
            if all(overlap(boxes[b, i], boxes[b, k], r.attributes.get("center_point_box")) <= iou for k in kept):
                kept.append(int(i))
        selected += [[b, c, i] for i in kept]
    return [int64(selected).reshape(-1, 3)]



@generator("ImageDecoder", pixel_format=("RGB", "BGR", "Grayscale"))
def image_decoder(r):
    """JPEG and lossy WebP are for recorded pictures: what they decode to differs in the last bit between codecs."""
    r.draw("pixel_format")
    kind = r.one_of("bmp", "png", "tiff", "ppm", "webp")
    shape = [r.integer(1, 9), r.integer(1, 9)] + [3] * r.chance(0.6)
    file = io.BytesIO()
    picture = Image.fromarray(r.rng.integers(0, 256, shape).astype(np.uint8))
    picture.convert("RGB" if kind == "webp" else picture.mode).save(file, kind, **({"lossless": True} if kind == "webp" else {}))
    return [np.frombuffer(file.getvalue(), np.uint8)]


@oracle("ImageDecoder")
def image_decoder_oracle(r, stream):
    """The reference leaves a picture of one channel without them."""
    picture, kind = Image.open(io.BytesIO(stream.tobytes())), r.attributes.get("pixel_format", "RGB")
    y = np.array(picture.convert("L" if kind == "Grayscale" else "RGB"))
    return [y[:, :, None] if kind == "Grayscale" else y[:, :, ::-1] if kind == "BGR" else y]
