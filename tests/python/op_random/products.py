# SPDX-License-Identifier: Apache-2.0
"""Matrix products and convolutions."""
import numpy as np

from .core import ANY, generator, oracle
from .types import COMPLEX, FLOATS, NUMPY

AUTO_PAD = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def wide(a, dtype="f32"):
    """What products are computed in: integers must not pass through floats."""
    return a.astype(np.complex128 if dtype in COMPLEX else np.float64 if dtype in FLOATS else np.int64)


# ---- matrices -------------------------------------------------------------------------------------------------------


def matrix_shapes(r, one_dimensional=True):
    m, k, n = r.size(), r.integer(0, 9) if r.chance(0.1) else r.integer(1, 9), r.size()
    batch = r.shape(high=2)
    a, b = r.part_of(batch) + [m, k], r.part_of(batch) + [k, n]
    if one_dimensional and r.chance(0.15):
        a = [k]
    if one_dimensional and r.chance(0.15):
        b = [k]
    return a, b


@generator("MatMul")
def matmul(r):
    a, b = matrix_shapes(r)
    return [r.values(a), r.values(b)]


@oracle("MatMul")
def matmul_oracle(r, a, b):
    return [np.matmul(wide(a, r.dtype), wide(b, r.dtype))]


@generator("Gemm", alpha=ANY, beta=ANY, transA=(0, 1), transB=(0, 1))
def gemm(r):
    m, k, n = r.size(), r.integer(1, 9), r.size()
    r.draw("alpha", None, 0.5, -2.0)
    r.draw("beta", None, 0.25, 0.0)
    a = [k, m] if r.draw("transA") else [m, k]
    b = [n, k] if r.draw("transB") else [k, n]
    if r.dtype not in FLOATS:  # what a fraction of an integer is to be, nobody says
        for name, values in (("alpha", (None, 2.0, -1.0)), ("beta", (None, 3.0, 0.0))):
            r.draw(name, *values if r.dtype[0] == "i" else [v if v is None else abs(v) for v in values])
    return [r.values(a), r.values(b), r.values(r.part_of([m, n])) if r.chance(0.7) else None]


@oracle("Gemm")
def gemm_oracle(r, a, b, c=None):
    attribute = lambda name: r.attributes.get(name, 1.0)  # noqa: E731
    scale = (lambda v: v) if r.dtype in FLOATS else int
    a, b = wide(a, r.dtype), wide(b, r.dtype)
    y = (a.T if r.attributes.get("transA") else a) @ (b.T if r.attributes.get("transB") else b)
    y = y * scale(attribute("alpha"))
    return [y if c is None else y + wide(c, r.dtype) * scale(attribute("beta"))]


@generator("MatMulInteger")
def matmul_integer(r):
    a, b = matrix_shapes(r)
    x, w = r.values(a, "T1", wide=True), r.values(b, "T2", wide=True)
    row = [a[0]] if len(a) == 2 else [*a[:-1], 1]
    column = [b[-1]] if len(b) == 2 else [*b[:-2], 1, b[-1]]
    x_zero = r.values(row if r.chance(0.4) and len(a) > 1 else [], "T1", wide=True) if r.chance(0.6) else None
    w_zero = r.values(column if r.chance(0.4) and len(b) > 1 else [], "T2", wide=True) if r.chance(0.6) else None
    return [x, w, x_zero, w_zero]


@oracle("MatMulInteger")
def matmul_integer_oracle(r, a, b, a_zero=None, b_zero=None):
    a, b = a.astype(np.int64), b.astype(np.int64)
    if a_zero is not None:
        a = a - (a_zero.astype(np.int64)[:, None] if a_zero.ndim == 1 else a_zero)
    return [np.matmul(a, b if b_zero is None else b - b_zero)]


EQUATIONS = ["ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->", "ii->i", "...ij,...jk->...ik", "i,j->ij", "ij,ij->i", "ijk,k",
             "b...i,...i->b...", "aB,Bc -> ca", "ij,jk,kl->il", "i,i", "..., ...", "iij->j", "Ba"]  # fmt: skip


@generator("Einsum", equation=ANY)
def einsum(r):
    equation = r.draw("equation", *EQUATIONS)
    sizes, batch = {}, r.shape(high=2, smallest=1)
    shapes = []
    for term in equation.split("->")[0].replace(" ", "").split(","):
        before, dots, after = term.partition("...")
        size = lambda c: sizes.setdefault(c, r.integer(1, 4))  # noqa: E731
        shapes.append([size(c) for c in before] + (batch if dots else []) + [size(c) for c in after])
    return [r.values(shape) for shape in shapes]


@oracle("Einsum")
def einsum_oracle(r, *operands):
    return [np.einsum(r.attributes["equation"], *(wide(a, r.dtype) for a in operands))]


@generator("Det")
def det(r):
    n = r.integer(1, 4)
    return [r.values([*r.shape(high=2), n, n])]


@oracle("Det", tolerance=1e-4)
def det_oracle(r, x):
    return [np.linalg.det(x.astype(np.float64))]


# ---- windows --------------------------------------------------------------------------------------------------------


class Window:
    """Where windows lie over the spatial dimensions, from attributes."""

    def __init__(self, attributes, space, kernel):
        rank = len(kernel)
        self.rank, self.space, self.kernel = rank, list(space), list(kernel)
        self.strides = attributes.get("strides", [1] * rank)
        self.dilations = attributes.get("dilations", [1] * rank)
        extents = [d * (k - 1) + 1 for d, k in zip(self.dilations, kernel)]
        pads, auto = attributes.get("pads", [0] * 2 * rank), attributes.get("auto_pad", "NOTSET")
        if auto.startswith("SAME"):  # "output_shape[i] = ceil(input_shape[i] / strides[i])"
            totals = [max((-(-n // s) - 1) * s + e - n, 0) for n, s, e in zip(space, self.strides, extents)]
            smaller, larger = [t // 2 for t in totals], [t - t // 2 for t in totals]
            pads = smaller + larger if auto == "SAME_UPPER" else larger + smaller
        elif auto == "VALID":
            pads = [0] * 2 * rank
        self.begin, self.end = pads[:rank], pads[rank:]
        self.out = []
        for i, n in enumerate(space):
            room = n + self.begin[i] + self.end[i] - extents[i]
            # For VALID the text has ceil((n - extent + 1) / stride), which is no ceiling of the other; ONNX's own shape
            # inference and onnxruntime round up as with explicit padding.
            up = attributes.get("ceil_mode") and auto in ("NOTSET", "VALID")
            size = (-(-room // self.strides[i]) if up else room // self.strides[i]) + 1
            if up and (size - 1) * self.strides[i] >= n + self.begin[i]:
                size -= 1  # the last window would begin in the padding at the end
            self.out.append(size)

    def places(self, index):
        """The positions that a window covers, a list a dimension; outside are those of the padding."""
        return [[i * self.strides[d] - self.begin[d] + k * self.dilations[d] for k in range(self.kernel[d])]
                for d, i in enumerate(index)]  # fmt: skip


def draw_window(r, rank, kernel, auto_pad=True, dilations=True):
    """Strides, dilations, pads for windows of these sizes; the extents of the windows."""
    r.draw("strides", None, [r.integer(1, 3) for _ in range(rank)])
    apart = dilations and r.draw("dilations", None, [r.integer(1, 2) for _ in range(rank)]) or [1] * rank
    auto = r.draw("auto_pad") if auto_pad else None
    if auto in (None, "NOTSET"):
        r.draw("pads", None, [r.integer(0, kernel[i % rank] - 1) for i in range(2 * rank)])
    elif r.fixed.get("pads") is ANY:
        r.attributes.pop("auto_pad")
        r.draw("pads", [r.integer(0, kernel[i % rank] - 1) for i in range(2 * rank)])
    return [d * (k - 1) + 1 for d, k in zip(apart, kernel)]


def convolve(x, w, group, window, x_zero=0, w_zero=0):
    """Padding is x's zero point."""
    x, w = x - x_zero, w - w_zero
    n, m, size = x.shape[0], w.shape[0], w.shape[1]
    y = np.zeros((n, m, *window.out), x.dtype)
    for index in np.ndindex(*window.out):
        inside = [[(k, p) for k, p in enumerate(ps) if 0 <= p < s] for ps, s in zip(window.places(index), window.space)]
        taps, places = ([[pair[part] for pair in pairs] for pairs in inside] for part in (0, 1))
        for g in range(group):
            block = x[np.ix_(range(n), range(g * size, (g + 1) * size), *places)]
            block = block.reshape(n, size * int(np.prod([len(ps) for ps in places])))
            rows = range(g * m // group, (g + 1) * m // group)
            weights = w[np.ix_(rows, range(size), *taps)].reshape(len(rows), -1)
            y[(slice(None), list(rows), *index)] = block @ weights.T
    return y


def draw_convolution(r, most_rank=3):
    """Shapes of x and w; attributes set."""
    rank = r.integer(1, most_rank)
    group = r.draw("group", None, 1, 2, 3) or 1
    kernel = [r.integer(1, 3) for _ in range(rank)]
    r.draw("kernel_shape", None, kernel)
    extent = draw_window(r, rank, kernel)
    space = [e + r.integer(0, 4 if rank < 3 else 2) for e in extent]
    size, out = r.integer(1, 3), group * r.integer(1, 3)
    return [r.integer(0, 2) if r.chance(0.2) else 1, group * size, *space], [out, size, *kernel]


CONV = {"auto_pad": AUTO_PAD, "dilations": ANY, "group": ANY, "kernel_shape": ANY, "pads": ANY, "strides": ANY}


@generator("Conv", **CONV)
def conv(r):
    x, w = draw_convolution(r)
    return [r.values(x), r.values(w), r.values([w[0]]) if r.chance(0.6) else None]


@oracle("Conv")
def conv_oracle(r, x, w, bias=None):
    window = Window(r.attributes, x.shape[2:], w.shape[2:])
    y = convolve(wide(x), wide(w), r.attributes.get("group", 1), window)
    return [y if bias is None else y + bias.reshape(1, -1, *[1] * window.rank)]


@generator("ConvInteger", **CONV)
def conv_integer(r):
    x, w = draw_convolution(r, 2)
    w_zero = r.values([w[0]] if r.chance(0.4) else [], "T2", wide=True) if r.chance(0.6) else None
    x_zero = r.values([], "T1", wide=True) if r.chance(0.6) else None
    return [r.values(x, "T1", wide=True), r.values(w, "T2", wide=True), x_zero, w_zero]


def channel_first(a, rank):
    """A number, or one a channel, as it broadcasts to weights."""
    return a.reshape(-1, *[1] * (rank - 1)) if np.ndim(a) == 1 else a


@oracle("ConvInteger")
def conv_integer_oracle(r, x, w, x_zero=None, w_zero=None):
    window = Window(r.attributes, x.shape[2:], w.shape[2:])
    zeros = 0 if x_zero is None else x_zero.astype(np.int64), 0 if w_zero is None else channel_first(w_zero.astype(np.int64), w.ndim)
    return [convolve(x.astype(np.int64), w.astype(np.int64), r.attributes.get("group", 1), window, *zeros)]


@generator("ConvTranspose", auto_pad=AUTO_PAD, dilations=ANY, group=ANY, kernel_shape=ANY, output_padding=ANY,
           output_shape=ANY, pads=ANY, strides=ANY)  # fmt: skip
def conv_transpose(r):
    rank = r.integer(1, 2)
    group = r.draw("group", None, 1, 2) or 1
    kernel = [r.integer(1, 3) for _ in range(rank)]
    r.draw("kernel_shape", None, kernel)
    strides = r.draw("strides", None, [r.integer(1, 3) for _ in range(rank)]) or [1] * rank
    dilations = r.draw("dilations", None, [r.integer(1, 2) for _ in range(rank)]) or [1] * rank
    space = [r.integer(2, 5) for _ in range(rank)]
    extent = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
    more = r.draw("output_padding", None, [r.integer(0, max(s, d) - 1) for s, d in zip(strides, dilations)]) or [0] * rank
    full = [s * (n - 1) + e + m for s, n, e, m in zip(strides, space, extent, more)]
    if "auto_pad" not in r.fixed and r.chance(0.3) or r.fixed.get("output_shape") is ANY:
        r.draw("output_shape", [max(1, f - r.integer(0, 2)) for f in full])
    if not r.attributes.get("output_shape"):
        r.attributes.pop("output_shape", None)
    if r.draw("auto_pad") in (None, "NOTSET") and "output_shape" not in r.attributes:
        most = [(f - m - 1) // 2 for f, m in zip(full, more)]
        r.draw("pads", None, [r.integer(0, min(2, most[i % rank])) for i in range(2 * rank)])
    elif str(r.attributes.get("auto_pad")).startswith("SAME") and any(f < n * s for f, n, s in zip(full, space, strides)):
        r.set("auto_pad", "VALID") if "auto_pad" not in r.fixed else None
    channels, out = group * r.integer(1, 3), r.integer(1, 3)
    operands = [r.values([r.integer(1, 2), channels, *space]), r.values([channels, out, *kernel])]
    return operands + [r.values([group * out])] * r.chance(0.6)


def transposed_pads(attributes, space, full, strides):
    """Begin pads and sizes of the result. "total_padding[i] = stride[i] * (input_size[i] - 1) + output_padding[i] +
    ((kernel_shape[i] - 1) * dilations[i] + 1) - output_shape[i]"; the odd one stands at the end for SAME_UPPER."""
    rank, auto = len(space), attributes.get("auto_pad", "NOTSET")
    want = attributes.get("output_shape") or ([n * s for n, s in zip(space, strides)] if auto.startswith("SAME") else None)
    if want is None:
        pads = [0] * 2 * rank if auto == "VALID" else attributes.get("pads", [0] * 2 * rank)
        return pads[:rank], [f - pads[i] - pads[i + rank] for i, f in enumerate(full)]
    totals = [f - n for f, n in zip(full, want)]
    return [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in totals], want


@oracle("ConvTranspose")
def conv_transpose_oracle(r, x, w, bias=None):
    """Each element of x spreads over its window; the reference stumbles over one channel, groups and pads."""
    x, w = wide(x), wide(w)
    attributes, rank, group = r.attributes, x.ndim - 2, r.attributes.get("group", 1)
    strides, dilations = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    more = attributes.get("output_padding", [0] * rank)
    full = [s * (n - 1) + d * (k - 1) + 1 + p for s, n, d, k, p in zip(strides, x.shape[2:], dilations, w.shape[2:], more)]
    size, out = x.shape[1] // group, w.shape[1]
    begin, want = transposed_pads(attributes, x.shape[2:], full, strides)
    assert min(begin) >= 0, "padding less than none"
    y = np.zeros((x.shape[0], group * out, *full))
    for g in range(group):
        products = np.tensordot(x[:, g * size : (g + 1) * size], w[g * size : (g + 1) * size], (1, 0))  # n, x..., out, k...
        products = np.moveaxis(products, 1 + rank, 1)
        for place in np.ndindex(*x.shape[2:]):
            for k in np.ndindex(*w.shape[2:]):
                at = tuple(i * s + j * d for i, s, j, d in zip(place, strides, k, dilations))
                y[(slice(None), slice(g * out, (g + 1) * out), *at)] += products[(slice(None), slice(None), *place, *k)]
    y = y[(slice(None), slice(None), *(slice(b, b + n) for b, n in zip(begin, want)))]
    return [y if bias is None else y + bias.reshape(1, -1, *[1] * rank)]


@generator("DeformConv", dilations=ANY, group=ANY, kernel_shape=ANY, offset_group=ANY, pads=ANY, strides=ANY)
def deform_conv(r):
    rank = r.integer(1, 3)
    group, offsets = r.draw("group", None, 1, 2) or 1, r.draw("offset_group", None, 1, 2) or 1
    kernel = [r.integer(1, 2) for _ in range(rank)]
    r.draw("kernel_shape", None, kernel)
    extent = draw_window(r, rank, kernel, auto_pad=False)
    space = [e + r.integer(0, 2) for e in extent]
    channels, out = 2 * r.integer(1, 2), group * r.integer(1, 2)
    window, n, taps = Window(r.attributes, space, kernel), r.integer(1, 2), int(np.prod(kernel))
    bias = r.values([out]) if r.chance(0.5) else None
    mask = r.values([n, offsets * taps, *window.out], low=0, high=1) if r.chance(0.5) else None
    moved = r.values([n, offsets * taps * rank, *window.out], low=-1.5, high=1.5)
    return [r.values([n, channels, *space]), r.values([out, channels // group, *kernel]), moved, bias, mask]


def interpolate(x, at):
    """Linear, of the trailing dimensions of x at one point; nothing stands outside."""
    total = 0
    for corner in np.ndindex(*[2] * len(at)):
        places = [int(np.floor(a)) + c for a, c in zip(at, corner)]
        if all(0 <= p < n for p, n in zip(places, x.shape[-len(at) :])):
            weight = np.prod([1 - abs(a - p) for a, p in zip(at, places)])
            total = total + weight * x[(..., *places)]
    return total


@oracle("DeformConv", tolerance=1e-4)
def deform_conv_oracle(r, x, w, offset, bias=None, mask=None):
    x, w = wide(x), wide(w)
    window = Window(r.attributes, x.shape[2:], w.shape[2:])
    group, sets, taps = r.attributes.get("group", 1), r.attributes.get("offset_group", 1), list(np.ndindex(*w.shape[2:]))
    (n, channels), out = x.shape[:2], w.shape[0]
    offset = offset.reshape(n, sets, len(taps), window.rank, *window.out)
    mask = np.ones((n, sets, len(taps), *window.out)) if mask is None else mask.reshape(n, sets, len(taps), *window.out)
    y = np.zeros((n, out, *window.out))
    for b, index in ((b, i) for b in range(n) for i in np.ndindex(*window.out)):
        places = window.places(index)
        found = np.zeros((channels, len(taps)))
        for s, (k, tap) in ((s, pair) for s in range(sets) for pair in enumerate(taps)):
            at = [places[d][tap[d]] + offset[(b, s, k, d, *index)] for d in range(window.rank)]
            part = slice(s * channels // sets, (s + 1) * channels // sets)
            found[part, k] = interpolate(x[b, part], at) * mask[(b, s, k, *index)]
        for g in range(group):
            ins, outs = (slice(g * m // group, (g + 1) * m // group) for m in (channels, out))
            y[(b, outs, *index)] = w[outs].reshape(out // group, -1) @ found[ins].ravel()
    return [y if bias is None else y + bias.reshape(1, -1, *[1] * window.rank)]


@generator("Col2Im", dilations=ANY, pads=ANY, strides=ANY)
def col2im(r):
    rank = r.integer(2, 3)
    kernel = [r.integer(1, 3) for _ in range(rank)]
    extent = draw_window(r, rank, kernel, auto_pad=False)
    space = [e + r.integer(0, 3) for e in extent]
    blocks = int(np.prod(Window(r.attributes, space, kernel).out))
    x = r.values([r.integer(1, 2), r.integer(1, 2) * int(np.prod(kernel)), blocks])
    return [x, np.array(space, np.int64), np.array(kernel, np.int64)]


@oracle("Col2Im")
def col2im_oracle(r, x, space, kernel):
    window, taps = Window(r.attributes, space.tolist(), kernel.tolist()), list(np.ndindex(*kernel))
    x = wide(x, r.dtype).reshape(x.shape[0], -1, len(taps), x.shape[2])
    y = np.zeros((x.shape[0], x.shape[1], *space), x.dtype)
    for block, index in enumerate(np.ndindex(*window.out)):
        places = window.places(index)
        for k, tap in enumerate(taps):
            at = [places[d][tap[d]] for d in range(window.rank)]
            if all(0 <= p < n for p, n in zip(at, space)):
                y[(slice(None), slice(None), *at)] += x[:, :, k, block]
    return [y.astype(np.uint64).astype(NUMPY[r.dtype]) if r.dtype[0] == "u" else y]


@generator("CausalConvWithState", activation=("none", "silu", "swish"))
def causal_conv(r):
    n, c, length, k = r.integer(1, 2), r.integer(1, 4), r.integer(1, 6), r.integer(1, 4)
    r.draw("activation")
    r.results = r.integer(1, 2)
    bias = r.values([c]) if r.chance(0.5) else None
    return [r.values([n, c, length]), r.values([c, 1, k]), bias, r.values([n, c, k - 1]) if r.chance(0.5) else None]


@oracle("CausalConvWithState")
def causal_conv_oracle(r, x, w, bias=None, past=None):
    k = w.shape[2]
    before = np.zeros((*x.shape[:2], k - 1)) if past is None else past
    x, length = np.concatenate([before, x], 2).astype(np.float64), x.shape[2]
    y = sum(w[:, 0, i, None] * x[:, :, i : i + length] for i in range(k))
    y = y if bias is None else y + bias[:, None]
    y = y if r.attributes.get("activation", "none") == "none" else y / (1 + np.exp(-y))
    return [y, x[:, :, x.shape[2] - (k - 1) :]][: r.results]
