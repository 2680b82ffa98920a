# SPDX-License-Identifier: Apache-2.0
"""Ops that work element by element."""
import numpy as np

from .core import ANY, generator, oracle
from .types import FLOATS, INTEGERS, NUMPY, SIGNED, UNSIGNED, integer_range, round_to

# ---- one operand ----------------------------------------------------------------------------------------------------

DOMAIN = {
    "Acos": (-1, 1), "Asin": (-1, 1), "Atanh": (-0.99, 0.99), "Acosh": (1, 5), "Log": (0.01, 5), "Sqrt": (0, 9),
    "Tan": (-1.4, 1.4), "Reciprocal": (0.1, 4), "Mish": (-2, 4),
}  # fmt: skip


@generator("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh", "Erf", "Exp",
           "Floor", "HardSwish", "IsNaN", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign",
           "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh")  # fmt: skip
def unary(r):
    low, high = DOMAIN.get(r.op, (-4, 4))
    x = r.values(r.shape(), low=low, high=high, wide=r.chance(0.5))
    if r.dtype in SIGNED and r.op in ("Abs", "Neg"):
        x = np.maximum(x, integer_range(r.dtype)[0] + 1)
    if r.op == "Round" and r.chance(0.5):
        x = round_to(np.round(np.asarray(x, np.float64) * 2) / 2, r.dtype)
    return [r.special(x) if r.op in ("Abs", "Ceil", "Floor", "IsNaN", "Neg", "Relu", "Round") or r.chance(0.2) else x]


@generator("IsInf", detect_negative=(0, 1), detect_positive=(0, 1))
def is_inf(r):
    r.draw("detect_negative")
    r.draw("detect_positive")
    x = r.values(r.shape())
    if r.dtype not in FLOATS and x.size:
        return [round_to(np.where(r.rng.random(x.shape) < 0.4, np.inf, np.asarray(x, np.float32)), r.dtype)]
    return [r.special(x, share=0.5)]


@generator("Celu", "Elu", "LeakyRelu", "Swish", "ThresholdedRelu", alpha=ANY)
def with_alpha(r):
    r.draw("alpha", None, 0.3, 1.7, 0.01)
    return [r.values(r.shape())]


@generator("HardSigmoid", alpha=ANY, beta=ANY)
def hard_sigmoid(r):
    r.draw("alpha", None, 0.3, 1.0, -0.5)
    r.draw("beta", None, 0.4, 0.0, 1.5)
    return [r.values(r.shape())]


@generator("Selu", alpha=ANY, gamma=ANY)
def selu(r):
    r.draw("alpha", None, 0.3, 2.0)
    r.draw("gamma", None, 0.4, 3.0)
    return [r.values(r.shape())]


@generator("Shrink", lambd=ANY, bias=ANY)
def shrink(r):
    r.draw("lambd", None, 0.7, 2.0, 0.0)
    r.draw("bias", None, 0.5, 1.0)
    if r.dtype not in FLOATS:
        r.draw("lambd", None, 2.0)
        r.draw("bias", None, 1.0)
    return [r.values(r.shape(), low=0 if r.dtype in UNSIGNED else -4)]


@oracle("Shrink")
def shrink_oracle(r, x):
    lambd, bias = r.attributes.get("lambd", 0.5), r.attributes.get("bias", 0.0)
    wide = np.asarray(x, np.float64)
    return [np.where(wide < -lambd, wide + bias, np.where(wide > lambd, wide - bias, 0))]


@generator("Gelu", approximate=("none", "tanh"))
def gelu(r):
    r.draw("approximate")
    r.tolerance = 1e-3 if r.dtype == "f32" else None  # what is close to 0 has lost digits
    return [r.values(r.shape())]


@oracle("Gelu")
def gelu_oracle(r, x):
    from math import erf, pi, sqrt

    x = np.asarray(x, np.float64)
    if r.attributes.get("approximate") == "tanh":
        return [0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))]
    return [0.5 * x * (1 + np.vectorize(erf, otypes=[np.float64])(x / sqrt(2)))]


@oracle("HardSwish")
def hard_swish_oracle(r, x):
    """The reference's sixth is a float32."""
    return [x * np.clip(x.astype(np.float64) / 6 + 0.5, 0, 1)]


@oracle("Erf")
def erf_oracle(r, x):
    from math import erf

    return [np.vectorize(erf, otypes=[np.float64])(np.asarray(x, np.float64))]


@oracle("Softsign")
def softsign_oracle(r, x):
    """The reference stumbles over scalars."""
    return [x / (1 + np.abs(x))]


# ---- two and more ---------------------------------------------------------------------------------------------------


@generator("Add", "Sub", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater",
           "GreaterOrEqual", "Less", "LessOrEqual")  # fmt: skip
def binary(r):
    wide = r.chance(0.5)
    operands = [r.values(shape, wide=wide) for shape in r.broadcast(2)]
    if r.op in ("Equal", "GreaterOrEqual", "LessOrEqual", "Greater", "Less") and r.dtype in FLOATS:
        operands = [np.round(x) for x in operands]  # some are equal
    return [r.special(x) for x in operands] if r.chance(0.3) else operands


def divisors(r, shape):
    """No zeros, no -1 to overflow with."""
    divisor = r.values(shape, low=0.5)
    if r.dtype in SIGNED or r.dtype in FLOATS:
        divisor = np.asarray(divisor * np.where(r.rng.integers(0, 2, shape), 1, -1)).astype(divisor.dtype)
    divisor = np.array(divisor)
    divisor[divisor == 0] = 3
    return divisor


@generator("Div")
def divide(r):
    a, b = r.broadcast(2)
    wide = r.chance(0.5)
    x = r.values(a, wide=wide)
    if r.dtype in SIGNED:
        x = np.maximum(x, integer_range(r.dtype)[0] + 1)
    return [x, divisors(r, b)]


@oracle("Div")
def divide_oracle(r, a, b):
    """Integers as Python's, since the reference's go through floats."""
    if r.dtype in FLOATS:
        return [a / b]
    a, b = np.broadcast_arrays(a, b)
    quotients = [abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a.ravel(), b.ravel())]
    return [np.array(quotients, NUMPY[r.dtype]).reshape(a.shape)]


@generator("Mod", fmod=(0, 1))
def modulo(r):
    a, b = r.broadcast(2)
    r.draw("fmod")
    x, y = r.values(a, wide=r.chance(0.5)), divisors(r, b)
    if r.dtype in SIGNED:
        x = np.maximum(x, integer_range(r.dtype)[0] + 1)
    return [r.special(x), r.special(y)] if r.chance(0.4) else [x, y]


@generator("Pow")
def power(r):
    a, b = r.broadcast(2)
    exponent = r.types["T1"]
    if exponent in FLOATS:
        whole = r.dtype not in FLOATS
        y = r.values(b, "T1", low=0 if whole else -2, high=3)
        return [r.values(a, low=1 if whole else 0.2, high=3), np.round(y) if whole else y]
    x = r.values(a, low=-2, high=2) if r.dtype in FLOATS else r.rng.integers(-3, 4, a).astype(NUMPY[r.dtype])
    return [x, np.asarray(r.rng.integers(0, 4, b)).astype(NUMPY[exponent])]


@oracle("Pow")
def power_oracle(r, a, b):
    if r.dtype in FLOATS:
        return [np.power(a.astype(np.float64), b.astype(np.float64))]
    a, b = np.broadcast_arrays(a, b)
    return [np.array([int(x) ** int(y) for x, y in zip(a.ravel(), b.ravel())], NUMPY[r.dtype]).reshape(a.shape)]


@generator("BitShift", direction=("LEFT", "RIGHT"))
def bit_shift(r):
    r.draw("direction")
    a, b = r.broadcast(2)
    bits = 8 * np.dtype(NUMPY[r.dtype]).itemsize
    by = np.asarray(r.rng.integers(0, bits, b))
    if r.chance(0.4):  # beyond the width, and below nothing
        by = np.where(r.rng.random(b) < 0.3, r.rng.choice([bits, bits + 5, 127, *([-1, -bits] if r.dtype in SIGNED else [])], b), by)
    return [r.values(a, wide=True), by.astype(NUMPY[r.dtype])]


@oracle("BitShift")
def bit_shift_oracle(r, x, y):
    bits, left = 8 * x.dtype.itemsize, r.attributes["direction"] == "LEFT"
    x, y = np.broadcast_arrays(x, y)
    shifted = []
    for a, by in zip(x.ravel().tolist(), y.ravel().tolist()):
        by = by if 0 <= by < bits else bits
        shifted.append((a << by) % (1 << bits) if left else a >> by)
    return [np.array(shifted, object).reshape(x.shape).astype(f"u{bits // 8}" if left else x.dtype).astype(x.dtype)]


@generator("Max", "Min", "Sum", "Mean")
def variadic(r):
    wide, special = r.chance(0.5), r.chance(0.3)
    operands = [r.values(shape, wide=wide) for shape in r.broadcast(r.integer(1, 4))]
    return [r.special(x) for x in operands] if special else operands


@oracle("Mean")
def mean_oracle(r, *operands):
    return [sum(a.astype(np.float64) for a in operands) / len(operands)]


@generator("Where")
def where(r):
    c, x, y = r.broadcast(3)
    return [r.values(c, "bool"), r.values(x, "T", wide=True), r.values(y, "T", wide=True)]


@generator("Clip")
def clip(r):
    low, high = np.sort(r.values([2]))
    bound = lambda v: np.asarray(v, NUMPY[r.dtype])  # noqa: E731
    return [r.values(r.shape(), wide=r.chance(0.5)), bound(low) if r.chance(0.7) else None, bound(high) if r.chance(0.7) else None]


@generator("PRelu")
def prelu(r):
    shape = r.shape()
    return [r.values(shape), r.values(r.part_of(shape))]
