# SPDX-License-Identifier: Apache-2.0
"""ONNX's ops that quantise, and those over quantised data."""
import numpy as np

from .core import ANY, generator, oracle
from .moves import to_small_float
from .products import CONV, Window, channel_first, convolve, draw_convolution, matrix_shapes
from .types import INTEGERS, SMALL_FLOATS, SMALL_INTEGERS, TYPE_NUMBERS, TYPE_OF_NUMBER, integer_range, round_to


def scales(r, shape, dtype="f32", least=0.05, most=0.9):
    return np.asarray(round_to(r.rng.uniform(least, most, shape), dtype))


def undecided(v):
    """Whether numbers are to be rounded that stand so close to the middle that the order of two products matters."""
    return np.any(abs(v % 1 - 0.5) < 1e-4 * (1 + abs(v) / 64))


def to_range(v, dtype, zero=0):
    """To the nearest even integer, moved by the zero point, within the type's range."""
    assert not undecided(v), "depends on rounding"
    low, high = integer_range(dtype)
    return (np.rint(v) + np.asarray(zero, np.float64)).clip(low, high)


# ---- QuantizeLinear, DequantizeLinear -------------------------------------------------------------------------------


def granularity(r):
    """Shapes of x and of its scales; attributes axis and block_size set."""
    shape = r.shape(low=1, high=3, smallest=1)
    kind = "block" if r.fixed.get("block_size") == ANY else r.one_of("tensor", "axis", "block")
    if r.fixed.get("block_size", ANY) is None and kind == "block":
        kind = "axis"
    axis = r.draw("axis", *range(-len(shape), len(shape)), *[None] * (len(shape) > 1))
    axis = 1 if axis is None else axis
    if kind == "tensor":
        r.draw("block_size", None)
        return shape, [] if r.chance(0.8) else [1]
    if kind == "axis":
        r.draw("block_size", None, 0)
        return shape, [shape[axis]]
    block = r.draw("block_size", *range(1, shape[axis] + 1))
    return shape, [-(-d // block) if i == axis % len(shape) else d for i, d in enumerate(shape)]


def spread(r, a, shape):
    """Scales or zero points, one an element of x."""
    axis, block = r.attributes.get("axis", 1), r.attributes.get("block_size")
    if a is None or a.size == 1:
        return a if a is None else a.reshape(())
    if block:
        return np.repeat(a, block, axis).take(range(shape[axis]), axis)
    return a.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


@generator("QuantizeLinear", axis=ANY, block_size=ANY, output_dtype=ANY, precision=(1, 10, 11, 16), saturate=(0, 1))
def quantize_linear(r):
    shape, scale_shape = granularity(r)
    r.draw("saturate")
    scale, target = r.types["T2"], r.types["T3"]
    if r.draw("precision") is None and scale in ("i32", "f8e8m0"):
        r.set("precision", 1)  # what a division within these types would be, nobody knows
    r.draw("output_dtype", None, TYPE_NUMBERS[target])
    zero = r.values(scale_shape, "T3") if r.chance(0.6) else None
    if zero is None and "output_dtype" not in r.attributes and target != "u8":
        zero = r.values(scale_shape, "T3")
    if zero is not None and target in SMALL_FLOATS:
        zero = np.asarray(round_to(np.round(np.asarray(zero, np.float64)), target))
    s = r.rng.integers(1, 9, scale_shape).astype(np.int32) if scale == "i32" else scales(r, scale_shape, scale)
    reach = 3 if target in SMALL_INTEGERS + ("f4e2m1",) else 60
    return [r.values(shape, "T1", low=-reach, high=reach), s, zero]


@oracle("QuantizeLinear")
def quantize_oracle(r, x, scale, zero=None):
    """"The type of y_scale determines the precision of the division operation between x and y_scale, unless the
    precision attribute is specified." """
    precision = TYPE_OF_NUMBER[r.attributes["precision"]] if "precision" in r.attributes else r.types["T2"]
    target = r.types["T3"]
    a, b = (round_to(np.asarray(v, np.float64), precision).astype(np.float64) for v in (x, spread(r, scale, x.shape)))
    quotient = round_to(a / b, precision).astype(np.float64)
    zero = 0 if zero is None else spread(r, zero, x.shape).astype(np.float64)
    if target in SMALL_FLOATS:
        return [to_small_float(quotient + zero, target, r.attributes.get("saturate", 1), "up")]
    exact = precision in ("f16", "bf16")  # whose ties are ties for everybody
    low, high = integer_range(target)
    assert exact or not undecided(quotient), "depends on rounding"
    return [(np.rint(quotient) + zero).clip(low, high)]


@generator("DequantizeLinear", axis=ANY, block_size=ANY, output_dtype=ANY)
def dequantize_linear(r):
    shape, scale_shape = granularity(r)
    if r.draw("output_dtype", None, TYPE_NUMBERS[r.types["T3"]]) is None:
        if r.types["T2"] == "f8e8m0":
            r.set("output_dtype", TYPE_NUMBERS[r.types["T3"]])
        elif "T3" in r.fixed_types:
            r.types["T2"] = r.types["T3"]
        else:
            r.types["T3"] = r.types["T2"]
    if "output_dtype" in r.fixed and r.fixed["output_dtype"] is None and r.types["T2"] == "f8e8m0":
        r.types["T2"] = r.types["T3"]
        r.attributes.pop("output_dtype")
    has_zero = r.chance(0.6) and r.types["T1"] != "i32"
    zero = r.values(scale_shape, "T1", low=-2, high=2) if has_zero else None
    return [r.values(shape, "T1"), scales(r, scale_shape, r.types["T2"]), zero]


@oracle("DequantizeLinear")
def dequantize_oracle(r, x, scale, zero=None):
    zero = 0 if zero is None else spread(r, zero, x.shape).astype(np.float64)
    return [(x.astype(np.float64) - zero) * spread(r, scale, x.shape).astype(np.float64)]


@generator("DynamicQuantizeLinear")
def dynamic_quantize(r):
    r.results = 3
    return [r.values(r.shape(smallest=1), low=-3, high=r.integer(-2, 9))]


def dynamic_range(x):
    """8-bit numbers, their scale and zero point."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    scale = np.float32(np.float32(high - low) / np.float32(255)) or np.float32(1)
    zero = np.rint(np.clip(-low / float(scale), 0, 255))
    quotient = x.astype(np.float64) / float(scale)
    assert not undecided(quotient) and not undecided(-low / float(scale)), "depends on rounding"
    return (np.rint(quotient) + zero).clip(0, 255), scale, zero


@oracle("DynamicQuantizeLinear")
def dynamic_quantize_oracle(r, x):
    return list(dynamic_range(x))


# ---- products -------------------------------------------------------------------------------------------------------


def finite(r, shape, dtype):
    return r.values(shape, dtype, wide=r.types.get(dtype, dtype) in INTEGERS)


@generator("QLinearMatMul")
def qlinear_matmul(r):
    a, b = matrix_shapes(r, one_dimensional=False)
    kind = r.types["TS"]
    rows, columns = ([a[0]] if len(a) == 2 else [*a[:-1], 1]), ([b[-1]] if len(b) == 2 else [*b[:-2], 1, b[-1]])
    if len(a) > 2 or len(b) > 2 or r.chance(0.6):
        rows = columns = []
    return [finite(r, a, "T1"), scales(r, rows, kind), finite(r, rows, "T1"), finite(r, b, "T2"), scales(r, columns, kind),
            finite(r, columns, "T2"), scales(r, [], kind, 0.5, 9), finite(r, [], "T3")]  # fmt: skip


@oracle("QLinearMatMul")
def qlinear_matmul_oracle(r, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (
        np.asarray(v, np.float64) for v in (a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero))
    row = lambda v: v[:, None] if v.ndim == 1 else v  # noqa: E731
    y = np.matmul((a - row(a_zero)) * row(a_scale), (b - b_zero) * b_scale) / y_scale
    if r.types["T3"] in SMALL_FLOATS:
        y = y + y_zero
        steps = abs(to_small_float(y * (1 + 1e-5), r.types["T3"], 1, "up") - to_small_float(y * (1 - 1e-5), r.types["T3"], 1, "up"))
        assert not steps.any(), "depends on rounding"
        return [to_small_float(y, r.types["T3"], 1, "up")]
    return [to_range(y, r.types["T3"], y_zero)]


@generator("QLinearConv", **CONV)
def qlinear_conv(r):
    x, w = draw_convolution(r, 2)
    channels = [w[0]] if r.chance(0.5) else []
    bias = r.values([w[0]], "i32", low=-30, high=30) if r.chance(0.6) else None
    return [finite(r, x, "T1"), scales(r, []), finite(r, [], "T1"), finite(r, w, "T2"), scales(r, channels),
            finite(r, channels, "T2"), scales(r, [], "f32", 5, 90), finite(r, [], "T3"), bias]  # fmt: skip


@oracle("QLinearConv")
def qlinear_conv_oracle(r, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias=None):
    window = Window(r.attributes, x.shape[2:], w.shape[2:])
    wide = [np.asarray(v, np.int64) for v in (x, w, x_zero, w_zero)]
    sums = convolve(wide[0], wide[1], r.attributes.get("group", 1), window, wide[2], channel_first(wide[3], w.ndim))
    each = lambda v: v.reshape(1, -1, *[1] * (x.ndim - 2)) if np.ndim(v) == 1 else v  # noqa: E731
    sums = sums if bias is None else sums + each(bias.astype(np.int64))
    scale = np.float64(x_scale) * each(w_scale.astype(np.float64)) / np.float64(y_scale)
    return [to_range(sums * scale, r.types["T3"], y_zero)]
