# SPDX-License-Identifier: Apache-2.0
"""Random operands and attributes for the `random` rows of tests/ops/*.case, by op."""
import numpy as np

GENERATORS = {}
MOST_ELEMENTS = 400


def generator(*ops):
    def register(function):
        GENERATORS.update(dict.fromkeys(ops, function))
        return function

    return register


class Random:
    """A source of shapes and values. `dtype` is the row's; f16 and bf16 values are exact in float32."""

    def __init__(self, rng, dtype, attributes):
        self.rng, self.dtype, self.attributes = rng, dtype, dict(attributes)

    def choose(self, name, *values):
        """An attribute: as the row has it, else one of these. None: leave it out."""
        if name not in self.attributes:
            value = values[self.rng.integers(len(values))]
            if value is not None:
                self.attributes[name] = value
        return self.attributes.get(name)

    def integer(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability):
        return self.rng.random() < probability

    def shape(self, low=0, high=5, smallest=0):
        """Odd sizes, ones, now and then a zero."""
        while True:
            rank = self.integer(low, high)
            sizes = [0] * (smallest == 0) + [1, 1, 2, 3, 3, 4, 5, 7]
            dims = [int(self.rng.choice(sizes)) for _ in range(rank)]
            if np.prod(dims) <= MOST_ELEMENTS:
                return dims

    def values(self, shape, dtype=None, low=-4.0, high=4.0, integers=False):
        dtype = dtype or self.dtype
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype in INTEGERS:
            info = np.iinfo(NUMPY[dtype])
            low, high = (info.min, info.max) if integers else (max(info.min, -10), min(info.max, 10))
            return self.rng.integers(low, high, shape, NUMPY[dtype], endpoint=True)
        a = np.asarray(self.rng.uniform(low, high, shape))
        return round_to(a, dtype)

    def distinct(self, shape):
        """No two alike, for what picks the largest."""
        a = self.rng.permutation(int(np.prod(shape))).reshape(shape)
        info = None if self.dtype not in INTEGERS else np.iinfo(NUMPY[self.dtype])
        return (a if info is None or info.max >= a.size else a % info.max).astype(STORED.get(self.dtype, NUMPY.get(self.dtype)))

    def axis(self, rank):
        axis = self.integer(-rank, rank - 1)
        return axis

    def axes(self, rank):
        n = self.integer(1, rank)
        axes = self.rng.permutation(rank)[:n]
        return [int(a) - rank if self.chance(0.5) else int(a) for a in axes]

    def part_of(self, shape):
        """A shape that broadcasts to `shape`."""
        drop = self.integer(0, len(shape))
        return [1 if self.chance(0.3) else d for d in shape[drop:]]

    def broadcast(self, n):
        shape = self.shape()
        shapes = [self.part_of(shape) for _ in range(n)]
        shapes[self.integer(0, n - 1)] = shape
        return shapes


NUMPY = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_, "f16": np.float16,
}  # fmt: skip
INTEGERS = {name for name in NUMPY if name[0] in "iu"}
STORED = {"f16": np.float32, "bf16": np.float32}  # computed in float32, rounded at the end


def round_to(a, dtype):
    """Values of `dtype`, in the type that they are computed in."""
    if dtype == "f16":
        with np.errstate(over="ignore"):
            return np.asarray(a, np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = np.asarray(a, np.float32).view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
        wide = np.asarray(rounded, np.uint32).view(np.float32)
        return np.where(np.isnan(a), np.float32(np.nan), wide).astype(np.float32)
    return np.asarray(a, NUMPY[dtype])


# ---- element-wise ---------------------------------------------------------------------------------------------------

DOMAIN = {
    "Acos": (-1, 1), "Asin": (-1, 1), "Atanh": (-0.99, 0.99), "Acosh": (1, 5), "Log": (0.01, 5), "Sqrt": (0, 9),
    "Tan": (-1.4, 1.4), "Reciprocal": (0.1, 4), "Gelu": (-2, 4), "Mish": (-2, 4),
}  # fmt: skip
UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish
Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign
Sqrt Swish Tan Tanh ThresholdedRelu Cast""".split()


@generator(*UNARY)
def unary(r, op):
    low, high = DOMAIN.get(op, (-4, 4))
    wide = op in ("Abs", "BitwiseNot", "Cast", "Sign", "Relu") and r.dtype in INTEGERS and r.chance(0.5)
    x = r.values(r.shape(), low=low, high=high, integers=wide)
    if r.dtype.startswith("i") and op == "Abs":
        x = np.maximum(x, np.iinfo(x.dtype).min + 1)
    if r.dtype not in INTEGERS and r.dtype != "bool" and op in ("IsInf", "IsNaN"):
        special = np.array([np.nan, np.inf, -np.inf, 1], x.dtype)
        x = np.asarray(special[r.rng.integers(0, 4, x.shape)])
    return [x]


@generator("Add", "Sub", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater",
           "GreaterOrEqual", "Less", "LessOrEqual")  # fmt: skip
def binary(r, op):
    wide = r.chance(0.3)
    operands = [r.values(shape, integers=wide) for shape in r.broadcast(2)]
    if op in ("Equal", "GreaterOrEqual", "LessOrEqual", "Greater", "Less") and r.dtype not in INTEGERS and r.dtype != "bool":
        operands = [np.round(x) for x in operands]  # some are equal
    return operands


@generator("Div", "Mod")
def divide(r, op):
    a, b = r.broadcast(2)
    divisor = np.asarray(r.values(b, low=0.5))
    sign = np.where(r.rng.integers(0, 2, b), 1, -1) if r.dtype not in INTEGERS or r.dtype.startswith("i") else 1
    divisor = np.asarray(divisor * sign).astype(divisor.dtype)
    divisor[divisor == 0] = 3
    return [r.values(a), divisor]


@generator("Pow")
def power(r, op):
    a, b = r.broadcast(2)
    return [r.values(a, low=0.2, high=3), r.values(b, low=-2, high=3)]


@generator("BitShift")
def bit_shift(r, op):
    a, b = r.broadcast(2)
    bits = np.iinfo(NUMPY[r.dtype]).bits
    return [r.values(a, integers=True), r.rng.integers(0, bits, b, NUMPY[r.dtype])]


@generator("Max", "Min", "Sum", "Mean")
def variadic(r, op):
    return [r.values(shape) for shape in r.broadcast(r.integer(1, 4))]


@generator("Where")
def where(r, op):
    c, x, y = r.broadcast(3)
    return [r.values(c, "bool"), r.values(x), r.values(y)]


@generator("Clip")
def clip(r, op):
    low, high = sorted(r.values([2]).tolist())
    bound = lambda v: np.asarray(v, r.values([1]).dtype)  # noqa: E731
    return [r.values(r.shape()), bound(low) if r.chance(0.7) else None, bound(high) if r.chance(0.7) else None]


@generator("PRelu")
def prelu(r, op):
    shape = r.shape()
    return [r.values(shape), r.values(r.part_of(shape))]


# ---- along axes -----------------------------------------------------------------------------------------------------


@generator("ArgMax", "ArgMin")
def arg_reduce(r, op):
    shape = r.shape(low=1, smallest=1)
    r.choose("axis", *range(-len(shape), len(shape)))
    r.choose("keepdims", 0, 1, None)
    r.choose("select_last_index", 0, 1, None)
    return [np.round(r.values(shape))]


@generator("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
           "ReduceSum", "ReduceSumSquare")  # fmt: skip
def reduce(r, op):
    # An empty maximum has no answer in the reference; an empty mean or log warns.
    shape = r.shape(high=4, smallest=0 if op in ("ReduceSum", "ReduceL1", "ReduceSumSquare", "ReduceProd", "ReduceL2") else 1)
    r.choose("keepdims", 0, 1, None)
    low = 0.1 if op == "ReduceLogSum" else -2
    x = r.values(shape, low=low, high=2)
    axes = None if not shape or r.chance(0.2) else np.array(r.axes(len(shape)), np.int64)
    return [x, axes]


@generator("CumSum", "CumProd")
def cumulative(r, op):
    shape = r.shape(low=1)
    r.choose("exclusive", 0, 1, None)
    r.choose("reverse", 0, 1, None)
    return [r.values(shape, low=-1.5, high=1.5), np.array(r.axis(len(shape)), np.int64)]


@generator("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
def soft(r, op):
    shape = r.shape(low=1, smallest=1)
    r.choose("axis", None, *range(-len(shape), len(shape)))
    return [r.distinct(shape).astype(r.values([1]).dtype) if op == "Hardmax" else r.values(shape)]


@generator("LayerNormalization", "RMSNormalization")
def layer_norm(r, op):
    shape = r.shape(low=1, smallest=1)
    axis = r.choose("axis", -1, *range(-len(shape), len(shape)))
    axis = -1 if axis is None or not -len(shape) <= axis < len(shape) else axis
    r.attributes["axis"] = axis
    weights = shape[axis:]
    operands = [r.values(shape), r.values(weights)]
    return operands + [r.values(weights)] * (op == "LayerNormalization" and r.chance(0.6))


@generator("DynamicQuantizeLinear")
def dynamic_quantize(r, op):
    return [r.values(r.shape(smallest=1), low=-3, high=r.integer(-2, 9))]


# ---- moving data ----------------------------------------------------------------------------------------------------


@generator("Transpose")
def transpose(r, op):
    shape = r.shape(high=6)
    if r.chance(0.8):
        r.choose("perm", [int(i) for i in r.rng.permutation(len(shape))])
        if not shape:
            r.attributes.pop("perm", None)
    return [r.values(shape)]


@generator("Flatten")
def flatten(r, op):
    shape = r.shape(low=1)
    r.choose("axis", *range(-len(shape), len(shape) + 1))
    return [r.values(shape)]


@generator("Reshape")
def reshape(r, op):
    shape = r.shape(smallest=1)
    rest, target = int(np.prod(shape)), []
    for divisor in (2, 3, 5, 7, 4):
        if rest % divisor == 0 and r.chance(0.6):
            target.append(divisor)
            rest //= divisor
    target.insert(r.integer(0, len(target)), rest)
    if r.chance(0.5):
        target[r.integer(0, len(target) - 1)] = -1
    return [r.values(shape), np.array(target, np.int64)]


@generator("Squeeze")
def squeeze(r, op):
    shape = r.shape()
    ones = [i for i, d in enumerate(shape) if d == 1]
    if not ones or r.chance(0.2):
        return [r.values(shape)]
    axes = [i - len(shape) if r.chance(0.5) else i for i in ones if r.chance(0.7)] or [ones[0]]
    return [r.values(shape), np.array(axes, np.int64)]


@generator("Unsqueeze")
def unsqueeze(r, op):
    shape, n = r.shape(high=4), r.integer(1, 2)
    axes = [int(a) for a in r.rng.permutation(len(shape) + n)[:n]]
    return [r.values(shape), np.array([a - len(shape) - n if r.chance(0.5) else a for a in axes], np.int64)]


@generator("Concat")
def concat(r, op):
    shape = r.shape(low=1)
    axis = r.choose("axis", *range(-len(shape), len(shape)))
    if not -len(shape) <= axis < len(shape):
        axis = r.attributes["axis"] = 0
    operands = []
    for _ in range(r.integer(1, 4)):
        part = list(shape)
        part[axis] = r.integer(0, 3)
        operands.append(r.values(part))
    return operands


@generator("Slice")
def slice_(r, op):
    shape = r.shape(low=1)
    axes = r.axes(len(shape))
    steps = [int(r.rng.choice([-3, -2, -1, 1, 1, 2, 3])) for _ in axes]
    starts = [r.integer(-max(shape[a], 1), 9) for a in axes]  # below, numpy and ONNX differ where a step is negative
    ends = [int(r.rng.choice([-9, -3, -1, 0, 2, 4, 9, 2**40])) for _ in axes]
    return [r.values(shape)] + [np.array(v, np.int64) for v in (starts, ends, axes, steps)]


@generator("Pad")
def pad(r, op):
    mode = r.choose("mode", "constant", "edge", "reflect", None)
    shape = r.shape(low=1, high=4, smallest=2 if mode == "reflect" else 1)
    most = min(shape) - 1 if mode == "reflect" else 3
    pads = np.array([r.integer(0, most) for _ in range(2 * len(shape))], np.int64)
    value = r.values([]) if mode in (None, "constant") and r.chance(0.5) else None
    return [r.values(shape), pads, value]


@generator("Tile")
def tile(r, op):
    shape = r.shape(low=1, high=4)
    return [r.values(shape), r.rng.integers(0, 4, len(shape))]


@generator("Expand")
def expand(r, op):
    shape = r.shape()
    target = np.array(shape if r.chance(0.5) else r.part_of(shape), np.int64)
    return [r.values(r.part_of(shape)), target]


@generator("Split")
def split(r, op):
    shape = r.shape(low=1, smallest=1)
    axis = r.choose("axis", *range(-len(shape), len(shape)))
    if not -len(shape) <= axis < len(shape):
        axis = r.attributes["axis"] = 0
    if r.attributes.get("num_outputs"):
        return [r.values(shape)]
    sizes, left = [], shape[axis]
    while left > 0 and len(sizes) < 3:
        sizes.append(r.integer(0, left))
        left -= sizes[-1]
    return [r.values(shape), np.array(sizes + [left], np.int64)]


@generator("Gather")
def gather(r, op):
    shape = r.shape(low=1, high=4, smallest=1)
    axis = r.choose("axis", None, *range(-len(shape), len(shape)))
    axis = 0 if axis is None else axis
    if not -len(shape) <= axis < len(shape):
        axis = r.attributes["axis"] = 0
    indices = r.shape(high=2)
    return [r.values(shape), r.rng.integers(-shape[axis], shape[axis], indices)]


@generator("GatherElements", "ScatterElements")
def elements(r, op):
    shape = r.shape(low=1, high=4, smallest=1)
    axis = r.choose("axis", None, *range(-len(shape), len(shape)))
    axis = 0 if axis is None else axis
    if not -len(shape) <= axis < len(shape):
        axis = r.attributes["axis"] = 0
    part = [r.integer(1, d) for d in shape]
    if op == "GatherElements":
        indices = r.rng.integers(-shape[axis], shape[axis], part)
        return [r.values(shape), indices]
    reduction = r.choose("reduction", None, "none", "add", "mul", "max", "min")
    indices = r.rng.integers(0, shape[axis], part)
    if reduction in (None, "none"):  # no place twice
        order = np.argsort(r.rng.random([shape[axis] if i == axis % len(shape) else d for i, d in enumerate(part)]), axis=axis)
        indices = np.take(order, range(part[axis]), axis=axis)
    return [r.values(shape), np.asarray(indices, np.int64), r.values(part)]


@generator("GatherND")
def gather_nd(r, op):
    shape = r.shape(low=1, high=4, smallest=1)
    batch = r.attributes.setdefault("batch_dims", r.integer(0, max(0, len(shape) - 2)))
    depth = r.integer(1, len(shape) - batch)
    lead = shape[:batch] + r.shape(high=1, smallest=1)
    columns = [r.rng.integers(-d, d, lead) for d in shape[batch : batch + depth]]
    return [r.values(shape), np.stack(columns, -1)]


@generator("ScatterND")
def scatter_nd(r, op):
    shape = r.shape(low=1, high=4, smallest=1)
    depth = r.integer(1, len(shape))
    places = int(np.prod(shape[:depth]))
    flat = r.rng.permutation(places)[: r.integer(1, places)]
    indices = np.stack(np.unravel_index(flat, shape[:depth]), -1)
    return [r.values(shape), indices.astype(np.int64), r.values([len(flat)] + shape[depth:])]


@generator("DepthToSpace", "SpaceToDepth")
def blocks(r, op):
    size = r.choose("blocksize", 1, 2, 3)
    n, c, h, w = r.integer(1, 2), r.integer(1, 3), r.integer(1, 3), r.integer(1, 3)
    if op == "DepthToSpace":
        r.choose("mode", "DCR", "CRD", None)
        return [r.values([n, c * size * size, h, w])]
    return [r.values([n, c, h * size, w * size])]


@generator("Trilu")
def trilu(r, op):
    shape = r.shape(low=2)
    r.choose("upper", 0, 1, None)
    return [r.values(shape), np.array(r.integer(-4, 4), np.int64) if r.chance(0.7) else None]


@generator("NonZero")
def non_zero(r, op):
    return [np.round(r.values(r.shape(low=1, high=4), low=-1, high=1))]


@generator("Compress")
def compress(r, op):
    shape = r.shape(low=1, high=4, smallest=1)
    axis = r.choose("axis", None, *range(-len(shape), len(shape)))
    n = int(np.prod(shape)) if axis is None else shape[axis]
    return [r.values(shape), r.values([r.integer(1, n)], "bool")]


@generator("TopK")
def top_k(r, op):
    shape = r.shape(low=1, high=4, smallest=1)
    axis = r.choose("axis", None, *range(-len(shape), len(shape)))
    axis = -1 if axis is None else axis
    r.choose("largest", 0, 1, None)
    r.attributes.setdefault("sorted", 1)
    return [r.distinct(shape), np.array([r.integer(0, shape[axis])], np.int64)]


@generator("ReverseSequence")
def reverse_sequence(r, op):
    shape = r.shape(low=2, high=4, smallest=1)
    batch = r.choose("batch_axis", 0, 1)
    r.attributes["time_axis"] = 1 - (1 if batch is None else batch)
    time = shape[r.attributes["time_axis"]]
    return [r.values(shape), r.rng.integers(1, time + 1, shape[1 if batch is None else batch])]


@generator("OneHot")
def one_hot(r, op):
    depth, shape = r.integer(1, 5), r.shape(high=3)
    r.choose("axis", None, *range(-len(shape) - 1, len(shape) + 1))
    return [np.asarray(r.rng.integers(-depth, depth, shape)), np.array(depth, np.int64), r.values([2])]


# ---- products, windows ----------------------------------------------------------------------------------------------


@generator("MatMul")
def matmul(r, op):
    m, k, n = r.integer(1, 6), r.integer(1, 9), r.integer(1, 6)
    batch = r.shape(high=2)
    a, b = r.part_of(batch) + [m, k], r.part_of(batch) + [k, n]
    if r.chance(0.15):
        a = [k]
    if r.chance(0.15):
        b = [k]
    return [r.values(a), r.values(b)]


@generator("Gemm")
def gemm(r, op):
    m, k, n = r.integer(1, 6), r.integer(1, 9), r.integer(1, 6)
    r.choose("alpha", None, 0.5, -2.0)
    r.choose("beta", None, 0.25)
    a = [k, m] if r.choose("transA", None, 0, 1) else [m, k]
    b = [n, k] if r.choose("transB", None, 0, 1) else [k, n]
    return [r.values(a), r.values(b), r.values(r.part_of([m, n])) if r.chance(0.7) else None]


def window(r, rank, kernel, most_pads=None):
    """Strides, dilations and pads for windows of these sizes."""
    r.choose("strides", None, [r.integer(1, 3) for _ in range(rank)])
    dilations = r.choose("dilations", None, [r.integer(1, 2) for _ in range(rank)]) or [1] * rank
    if r.chance(0.7):
        most = [most_pads if most_pads is not None else k - 1 for k in kernel]
        r.choose("pads", [r.integer(0, most[i % rank]) for i in range(2 * rank)])
    return [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]


@generator("Conv")
def conv(r, op):
    rank = r.integer(1, 3)
    group = r.choose("group", 1, 1, 2, 3)
    kernel = [r.integer(1, 3) for _ in range(rank)]
    extent = window(r, rank, kernel)
    space = [e + r.integer(0, 4 if rank < 3 else 2) for e in extent]
    channels, out = group * r.integer(1, 3), group * r.integer(1, 3)
    operands = [r.values([r.integer(1, 2), channels, *space]), r.values([out, channels // group, *kernel])]
    return operands + [r.values([out])] * r.chance(0.6)


@generator("MaxPool", "AveragePool")
def pool(r, op):
    rank = r.integer(1, 3)
    kernel = r.attributes.setdefault("kernel_shape", [r.integer(1, 3) for _ in range(rank)])
    rank = len(kernel)
    extent = window(r, rank, kernel)
    r.choose("ceil_mode", None, 0, 1)
    if op == "AveragePool":
        r.choose("count_include_pad", None, 0, 1)
    space = [e + r.integer(0, 4) for e in extent]
    return [r.values([r.integer(1, 2), r.integer(1, 3), *space])]


@generator("GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization", "BatchNormalization", "GroupNormalization", "LRN")
def channels(r, op):
    n, c = r.integer(1, 2), 2 * r.integer(1, 3)
    x = r.values([n, c, *r.shape(low=1, high=3, smallest=1)])
    if op == "InstanceNormalization":
        return [x, r.values([c]), r.values([c])]
    if op == "BatchNormalization":
        return [x, r.values([c]), r.values([c]), r.values([c]), r.values([c], low=0.1)]
    if op == "GroupNormalization":
        r.choose("num_groups", 1, 2, c)
        return [x, r.values([c]), r.values([c])]
    if op == "LRN":
        r.choose("size", 1, 3, 5)
    return [x]


@generator("ConvTranspose")
def conv_transpose(r, op):
    rank = r.integer(1, 2)
    group = r.choose("group", 1, 1, 2)
    kernel = [r.integer(1, 3) for _ in range(rank)]
    strides = r.choose("strides", None, [r.integer(1, 3) for _ in range(rank)]) or [1] * rank
    dilations = r.choose("dilations", None, [r.integer(1, 2) for _ in range(rank)]) or [1] * rank
    space = [r.integer(2, 5) for _ in range(rank)]
    if r.chance(0.5):
        most = [(d * (k - 1) + s * (n - 1)) // 2 for d, k, s, n in zip(dilations, kernel, strides, space)]
        r.choose("pads", [r.integer(0, min(2, most[i % rank])) for i in range(2 * rank)])
    if r.chance(0.4):
        r.choose("output_padding", [r.integer(0, max(s, d) - 1) for s, d in zip(strides, dilations)])
    channels, out = group * r.integer(1, 3), r.integer(1, 3)
    operands = [r.values([r.integer(1, 2), channels, *space]), r.values([channels, out, *kernel])]
    return operands + [r.values([group * out])] * r.chance(0.6)


# ---- answers where ONNX's reference is wrong ------------------------------------------------------------------------

ORACLES = {}


def pool_oracle(op, operands, attributes):
    """Window by window: the reference goes wrong with ceil_mode and pads."""
    x, kernel = operands[0], attributes["kernel_shape"]
    rank = len(kernel)
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    pads = attributes.get("pads", [0] * 2 * rank)
    out = []
    for i, n in enumerate(x.shape[2:]):
        room = n + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1
        size = (-(-room // strides[i]) if attributes.get("ceil_mode") else room // strides[i]) + 1
        if attributes.get("ceil_mode") and (size - 1) * strides[i] >= n + pads[i]:
            size -= 1  # the last window would begin in the padding at the end
        out.append(size)
    y = np.zeros((*x.shape[:2], *out), x.dtype)
    for index in np.ndindex(*out):
        places = [
            [i * strides[d] - pads[d] + k * dilations[d] for k in range(kernel[d])] for d, i in enumerate(index)
        ]  # fmt: skip
        real = [[p for p in ps if 0 <= p < n] for ps, n in zip(places, x.shape[2:])]
        padded = [[p for p in ps if p < n + pads[d + rank]] for d, (ps, n) in enumerate(zip(places, x.shape[2:]))]
        window = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *real)].reshape(*x.shape[:2], -1)
        if op == "MaxPool":
            y[(..., *index)] = window.max(-1)
        else:
            count = np.prod([len(ps) for ps in (padded if attributes.get("count_include_pad") else real)])
            y[(..., *index)] = window.sum(-1, dtype=np.float64) / count
    return [y]


def conv_transpose_oracle(op, operands, attributes):
    """Each element of x spreads over its window; the reference stumbles over one channel, groups and pads."""
    x, w = operands[0].astype(np.float64), operands[1].astype(np.float64)
    rank, group = x.ndim - 2, attributes.get("group", 1)
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    pads = attributes.get("pads", [0] * 2 * rank)
    more = attributes.get("output_padding", [0] * rank)
    full = [s * (n - 1) + d * (k - 1) + 1 + p for s, n, d, k, p in zip(strides, x.shape[2:], dilations, w.shape[2:], more)]
    size, out = x.shape[1] // group, w.shape[1]
    y = np.zeros((x.shape[0], group * out, *full))
    for g in range(group):
        products = np.tensordot(x[:, g * size : (g + 1) * size], w[g * size : (g + 1) * size], (1, 0))  # n, x..., out, k...
        products = np.moveaxis(products, 1 + rank, 1)
        for place in np.ndindex(*x.shape[2:]):
            for k in np.ndindex(*w.shape[2:]):
                at = tuple(i * s + j * d for i, s, j, d in zip(place, strides, k, dilations))
                y[(slice(None), slice(g * out, (g + 1) * out), *at)] += products[(slice(None), slice(None), *place, *k)]
    inside = tuple(slice(pads[i], full[i] - pads[i + rank]) for i in range(rank))
    y = y[(slice(None), slice(None), *inside)]
    if len(operands) > 2:
        y = y + operands[2].reshape(1, -1, *[1] * rank)
    return [y.astype(operands[0].dtype)]


def global_max_oracle(op, operands, attributes):
    x = operands[0]
    return [x.max(axis=tuple(range(2, x.ndim)), keepdims=True)]


def lrn_oracle(op, operands, attributes):
    """The reference walks over the batch where it should walk over channels."""
    x, size = operands[0].astype(np.float64), attributes["size"]
    alpha, beta, bias = (attributes.get(name, value) for name, value in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    total = np.zeros_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1]
        total[:, c] = (near * near).sum(1)
    return [(x / (bias + alpha / size * total) ** beta).astype(operands[0].dtype)]


def mean_oracle(op, operands, attributes):
    return [(sum(a.astype(np.float64) for a in operands) / len(operands)).astype(operands[0].dtype)]


def gather_elements_oracle(op, operands, attributes):
    """The reference wants all of the other dimensions."""
    x, indices = operands
    axis = attributes.get("axis", 0) % x.ndim
    places = list(np.indices(indices.shape))
    places[axis] = indices % x.shape[axis]
    return [x[tuple(places)]]


ORACLES.update(MaxPool=pool_oracle, AveragePool=pool_oracle, ConvTranspose=conv_transpose_oracle, LRN=lrn_oracle,
               GlobalMaxPool=global_max_oracle, Mean=mean_oracle, GatherElements=gather_elements_oracle)  # fmt: skip

# Where the answer loses digits that the operands have: relative to the largest magnitude.
TOLERANCES = {"Gelu": 1e-4, "Mish": 1e-4, "GroupNormalization": 1e-4, "InstanceNormalization": 1e-4, "LayerNormalization": 1e-4}
