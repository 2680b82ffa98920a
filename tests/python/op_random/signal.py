# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms, windows, filters; random numbers."""
import numpy as np

from .core import ANY, generator, int64, oracle
from .types import INTEGERS, NUMPY, TYPE_NUMBERS

# ---- Fourier transforms ---------------------------------------------------------------------------------------------


@generator("DFT", inverse=(0, 1), onesided=(0, 1))
def dft(r):
    shape = r.shape(low=1, high=3, smallest=1)
    inverse, onesided = r.draw("inverse"), r.draw("onesided")
    complex_in = bool(inverse) if onesided else r.chance(0.5)
    axis = r.one_of(None, *range(-len(shape) - 1, -1), *range(len(shape)))
    at = -2 if axis is None else axis
    if onesided and inverse:
        shape[at + 1 if at < 0 else at] = r.integer(2, 7)
    length = r.integer(1, 8) if r.chance(0.4) else None
    if onesided and inverse and length is None:
        length = 2 * (shape[at + 1 if at < 0 else at] - 1) if r.chance(0.5) else None
    kind = NUMPY[r.types["T2"]]
    return [r.values([*shape, 2 if complex_in else 1]), None if length is None else np.array(length, kind),
            None if axis is None else int64(axis)]  # fmt: skip


def resized(x, n, axis):
    """Cut, or filled up with zeros."""
    x = x.take(range(min(n, x.shape[axis])), axis)
    return np.concatenate([x, np.zeros([n - x.shape[axis] if i == axis else d for i, d in enumerate(x.shape)])], axis)


def as_complex(x):
    x = x.astype(np.float64)
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0] + 0j


def as_pairs(x):
    return np.stack([x.real, x.imag], -1)


@oracle("DFT", tolerance=1e-5)
def dft_oracle(r, x, length=None, axis=None):
    """Of a one-sided spectrum the other half is its mirror."""
    onesided, inverse = r.attributes.get("onesided"), r.attributes.get("inverse")
    axis = int(-2 if axis is None else axis)
    axis = axis + x.ndim if axis < 0 else axis
    x, size = as_complex(x), x.shape[axis]
    n = int(length) if length is not None else 2 * (size - 1) if onesided and inverse else size
    r.tolerance = 1e-9 if r.dtype == "f64" else None
    if onesided and inverse:
        return [np.fft.irfft(x, n, axis)[..., None]]
    y = (np.fft.ifft if inverse else np.fft.fft)(resized(x, n, axis), axis=axis)
    return [as_pairs(y.take(range(n // 2 + 1), axis) if onesided else y)]


@generator("STFT", onesided=(0, 1))
def stft(r):
    length, complex_in = r.integer(2, 12), r.chance(0.4)
    if (r.draw("onesided") in (1, None)) and complex_in:
        complex_in = False
    kind = NUMPY[r.types["T2"]]
    frame = r.integer(1, length)
    window = r.values([frame], low=0, high=1) if r.chance(0.5) else None
    size = np.array(frame, kind) if window is None and r.chance(0.7) or window is not None and r.chance(0.4) else None
    return [r.values([r.integer(1, 2), length, 2 if complex_in else 1]), np.array(r.integer(1, 4), kind), window, size]


@oracle("STFT", tolerance=1e-5)
def stft_oracle(r, x, step, window=None, size=None):
    size = int(size) if size is not None else len(window) if window is not None else x.shape[1]
    x, step = as_complex(x), int(step)
    frames = [x[:, i : i + size] * (1 if window is None else window) for i in range(0, x.shape[1] - size + 1, step)]
    y = np.fft.fft(np.stack(frames, 1), axis=2)
    r.tolerance = 1e-9 if r.dtype == "f64" else None
    return [as_pairs(y[:, :, : size // 2 + 1] if r.attributes.get("onesided", 1) else y)]


@generator("HannWindow", "HammingWindow", "BlackmanWindow", periodic=(0, 1), output_datatype=ANY)
def window_function(r):
    r.draw("periodic")
    output_type(r, "T2")
    return [np.array(r.integer(2, 12), NUMPY[r.types["T1"]])]


def output_type(r, parameter):
    if r.draw("output_datatype", None, TYPE_NUMBERS[r.types[parameter]]) is None:
        if parameter in r.fixed_types:
            r.set("output_datatype", TYPE_NUMBERS[r.types[parameter]])
        else:
            r.types[parameter] = "f32"


@oracle("HannWindow", "HammingWindow", "BlackmanWindow")
def window_oracle(r, size):
    n = int(size)
    turn = 2 * np.pi * np.arange(n) / (n if r.attributes.get("periodic", 1) else n - 1)
    weights = {"HannWindow": (0.5, 0.5, 0), "HammingWindow": (25 / 46, 21 / 46, 0), "BlackmanWindow": (0.42, 0.5, 0.08)}[r.op]
    y = weights[0] - weights[1] * np.cos(turn) + weights[2] * np.cos(2 * turn)
    y = np.where(abs(y - np.rint(y)) < 1e-12, np.rint(y), y)
    return [np.trunc(y) if r.types["T2"] in INTEGERS else y]


@generator("MelWeightMatrix", output_datatype=ANY)
def mel_weights(r):
    output_type(r, "T3")
    whole, real = NUMPY[r.types["T1"]], lambda v: np.asarray(v, NUMPY[r.types["T2"]])
    length, rate = r.integer(4, 40), r.one_of(64, 100, 8000)
    low, high = 0.0, rate / r.one_of(2, 4)
    return [np.array(r.integer(1, 6), whole), np.array(length, whole), np.array(rate, whole), real(low), real(high)]


# ---- random numbers -------------------------------------------------------------------------------------------------


def random_type(r, parameter, default):
    """The dtype attribute, or what it is without."""
    kind = r.types[parameter]
    if r.draw("dtype", None, TYPE_NUMBERS[kind]) is not None:
        return
    if parameter in r.fixed_types or default not in r.schema.parameters[parameter]:
        r.set("dtype", TYPE_NUMBERS[kind])
        assert r.fixed.get("dtype", 0) is not None
    else:
        r.types[parameter] = default


@generator("RandomNormal", dtype=ANY, mean=ANY, scale=ANY, seed=ANY, shape=ANY)
@generator("RandomUniform", dtype=ANY, high=ANY, low=ANY, seed=ANY, shape=ANY)
@generator("RandomNormalLike", dtype=ANY, mean=ANY, scale=ANY, seed=ANY)
@generator("RandomUniformLike", dtype=ANY, high=ANY, low=ANY, seed=ANY)
@generator("Bernoulli", dtype=ANY, seed=ANY)
@generator("Multinomial", dtype=ANY, sample_size=ANY, seed=ANY)
def random_numbers(r):
    """Only types and shapes: unit/test_random_distribution.c looks at the numbers."""
    r.no_data = True
    for name, values in (("mean", (1.5, -2.0)), ("scale", (0.5, 3.0)), ("low", (-1.0, 0.5)), ("high", (2.0, 7.0)), ("seed", (1.0, 2.5))):
        if name in r.schema.attributes:
            r.draw(name, None, *values)
    if not r.schema.inputs:
        random_type(r, r.schema.outputs[0].parameter, "f32")
        r.draw("shape", r.shape(low=1))
        return []
    random_type(r, "T2", "i32" if r.op == "Multinomial" else r.types["T1"])
    if r.op == "Multinomial":
        r.draw("sample_size", None, 1, 5)
        return [r.values([r.integer(1, 3), r.integer(1, 4)])]
    return [r.values(r.shape(), low=0, high=1)]


@oracle("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")
def random_oracle(r, x=None):
    if r.op == "Multinomial":
        return [np.zeros((len(x), r.attributes.get("sample_size", 1)))]
    return [np.zeros(r.attributes["shape"] if x is None else x.shape)]
