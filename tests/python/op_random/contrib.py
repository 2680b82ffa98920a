# SPDX-License-Identifier: Apache-2.0
"""com.microsoft without attention, by onnxruntime's descriptions; the long test asks onnxruntime itself."""
import numpy as np

from .axes import normal_parts
from .core import ANY, generator, microsoft, oracle
from .elementwise import gelu_oracle
from .products import AUTO_PAD, CONV, Window, convolve, draw_convolution, draw_window, matrix_shapes, wide
from .quantized import dynamic_range, finite, scales, spread, to_range
from .recurrent import draw_layer, run_layers, states
from .types import NUMPY, integer_range

# ---- element-wise ---------------------------------------------------------------------------------------------------


def gelu(r, x, approximate="none"):
    r.attributes["approximate"] = approximate
    y = gelu_oracle(r, x)[0]
    r.attributes.pop("approximate")
    return y


@generator(*microsoft("Gelu"))
def gelu_generator(r):
    r.tolerance = 1e-4 if r.dtype == "f32" else None
    return [r.values(r.shape())]


@oracle(*microsoft("Gelu"))
def gelu_contrib_oracle(r, x):
    return [gelu(r, x)]


@generator(*microsoft("BiasGelu", "FastGelu"))
def bias_gelu(r):
    shape = r.shape(low=1)
    r.tolerance = 1e-3 if r.dtype == "f32" else None  # what is close to 0 has lost digits
    return [r.values(shape, low=-2), r.values(shape[-1:], low=-1) if r.schema.name == "BiasGelu" or r.chance(0.6) else None]


@oracle(*microsoft("BiasGelu", "FastGelu"))
def bias_gelu_oracle(r, x, bias=None):
    x = x.astype(np.float64) + (0 if bias is None else bias)
    return [gelu(r, x, "tanh" if r.schema.name == "FastGelu" else "none")]


@generator(*microsoft("QuickGelu"), alpha=ANY)
def quick_gelu(r):
    r.draw("alpha", None, 1.0, -0.5)
    return [r.values(r.shape())]


@oracle(*microsoft("QuickGelu"))
def quick_gelu_oracle(r, x):
    x = x.astype(np.float64)
    return [x / (1 + np.exp(-r.attributes.get("alpha", float(np.float32(1.702))) * x))]


# ---- products -------------------------------------------------------------------------------------------------------


@generator(*microsoft("FusedMatMul"), alpha=ANY, transA=(0, 1), transB=(0, 1), transBatchA=(0, 1), transBatchB=(0, 1))
def fused_matmul(r):
    r.draw("alpha", None, 0.5, -2.0)
    flags = [r.draw(name) for name in ("transA", "transB", "transBatchA", "transBatchB")]
    m, k, n, batch = r.integer(1, 4), r.integer(1, 5), r.integer(1, 4), r.shape(low=1, high=2, smallest=1)
    operands = []
    for rows, columns, flip, first in ((m, k, flags[0], flags[2]), (k, n, flags[1], flags[3])):
        rows, columns = (columns, rows) if flip else (rows, columns)
        operands.append(r.values([rows, *batch, columns] if first else [*batch, rows, columns]))
    return operands


@oracle(*microsoft("FusedMatMul"))
def fused_matmul_oracle(r, a, b):
    """transBatchA: the rows stand before the batch."""
    found = []
    for x, flip, first in ((a, "transA", "transBatchA"), (b, "transB", "transBatchB")):
        x = np.moveaxis(x, 0, -2) if r.attributes.get(first) else x
        found.append(wide(x.swapaxes(-1, -2) if r.attributes.get(flip) else x))
    return [np.matmul(*found) * r.attributes.get("alpha", 1.0)]


FUSED = ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid")
FUSED_PARAMETERS = {"LeakyRelu": [0.25], "Clip": [-0.5, 1.5], "HardSigmoid": [0.3, 0.6]}


def activated(name, x, parameters):
    a, b = [*parameters, 0.0, 0.0][:2]
    return {"Relu": lambda: x.clip(0), "Tanh": lambda: np.tanh(x), "Sigmoid": lambda: 1 / (1 + np.exp(-x)),
            "LeakyRelu": lambda: np.where(x < 0, a * x, x), "Clip": lambda: x.clip(a, b),
            "HardSigmoid": lambda: (a * x + b).clip(0, 1), None: lambda: x}[name]()  # fmt: skip


@generator(*microsoft("FusedConv"), activation=FUSED, activation_params=ANY, **CONV)
def fused_conv(r):
    if r.fixed.get("activation_params") == ANY:
        r.set("activation", r.one_of(*FUSED_PARAMETERS))
    else:
        r.draw("activation")
    if r.attributes.get("activation") in FUSED_PARAMETERS:
        r.set("activation_params", FUSED_PARAMETERS[r.attributes["activation"]])
    x, w = draw_convolution(r)
    window = Window(r.attributes, x[2:], w[2:])
    bias = r.values([w[0]]) if r.chance(0.6) else None
    return [r.values(x), r.values(w), bias, r.values([x[0], w[0], *window.out]) if r.chance(0.4) else None]


@oracle(*microsoft("FusedConv"))
def fused_conv_oracle(r, x, w, bias=None, z=None):
    y = convolve(wide(x), wide(w), r.attributes.get("group", 1), Window(r.attributes, x.shape[2:], w.shape[2:]))
    y = y if bias is None else y + bias.reshape(1, -1, *[1] * (x.ndim - 2))
    return [activated(r.attributes.get("activation"), y if z is None else y + z, r.attributes.get("activation_params", []))]


@generator(*microsoft("NhwcConv"), **CONV)
def nhwc_conv(r):
    x, w = draw_convolution(r)
    last = lambda shape: [shape[0], *shape[2:], shape[1]]  # noqa: E731
    return [r.values(last(x)), r.values(last(w)), r.values([w[0]]) if r.chance(0.6) else None]


@oracle(*microsoft("NhwcConv"))
def nhwc_conv_oracle(r, x, w, bias=None):
    x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1)
    y = convolve(wide(x), wide(w), r.attributes.get("group", 1), Window(r.attributes, x.shape[2:], w.shape[2:]))
    return [np.moveaxis(y, 1, -1) + (0 if bias is None else bias)]


@generator(*microsoft("FusedGemm"), activation=("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid"), activation_alpha=ANY,
           activation_beta=ANY, activation_gamma=ANY, alpha=ANY, beta=ANY, transA=(0, 1), transB=(0, 1))  # fmt: skip
def fused_gemm(r):
    takes = {"activation_alpha": ("LeakyRelu", "HardSigmoid"), "activation_beta": ("HardSigmoid",)}
    for name, kinds in takes.items():
        if r.fixed.get(name) == ANY:
            r.set("activation", r.one_of(*kinds))
            break
    else:
        r.draw("activation")
    if r.attributes.get("activation") in takes["activation_alpha"]:
        r.draw("activation_alpha", 0.3)
    if r.attributes.get("activation") == "HardSigmoid":
        r.draw("activation_beta", 0.6)
    if any(r.fixed.get(name, 0) is None for name in takes):
        r.attributes.pop("activation_alpha", None), r.attributes.pop("activation_beta", None)
        r.set("activation", "Tanh")
    r.draw("activation_gamma", None, 1.5)  # nobody takes it
    r.draw("alpha", None, 0.5)
    r.draw("beta", None, -0.5)
    m, k, n = r.integer(1, 5), r.integer(1, 6), r.integer(1, 5)
    a, b = [k, m] if r.draw("transA") else [m, k], [n, k] if r.draw("transB") else [k, n]
    return [r.values(a), r.values(b), r.values(r.part_of([m, n])) if r.chance(0.7) else None]


@oracle(*microsoft("FusedGemm"))
def fused_gemm_oracle(r, a, b, c=None):
    attributes = r.attributes
    y = wide(a.T if attributes.get("transA") else a) @ wide(b.T if attributes.get("transB") else b) * attributes.get("alpha", 1.0)
    y = y if c is None else y + wide(c) * attributes.get("beta", 1.0)
    parameters = [attributes.get("activation_alpha", 0.0), attributes.get("activation_beta", 0.0)]
    return [activated(attributes.get("activation"), y, parameters)]


@generator(*microsoft("MatMulIntegerToFloat"))
def matmul_integer_to_float(r):
    a, b = matrix_shapes(r, one_dimensional=False)
    kind = r.types["S"]
    columns = [b[-1]] if r.chance(0.5) and len(b) == 2 else []
    r.tolerance = 1e-5
    return [finite(r, a, "T"), finite(r, b, "U"), scales(r, [], kind), scales(r, columns, kind),
            finite(r, [], "T") if r.chance(0.6) else None, finite(r, columns, "U") if r.chance(0.6) else None,
            r.values([b[-1]], "S") if r.chance(0.5) else None]  # fmt: skip


@oracle(*microsoft("MatMulIntegerToFloat"))
def matmul_integer_to_float_oracle(r, a, b, a_scale, b_scale, a_zero=0, b_zero=0, bias=0):
    a_zero, b_zero, bias = (0 if v is None else v for v in (a_zero, b_zero, bias))
    y = np.matmul(a.astype(np.int64) - a_zero, b.astype(np.int64) - b_zero)
    return [y * (np.float64(a_scale) * b_scale.astype(np.float64)) + bias]


@generator(*microsoft("DynamicQuantizeMatMul"))
def dynamic_quantize_matmul(r):
    m, k, n = r.integer(1, 5), r.integer(1, 6), r.integer(1, 5)
    a = r.values([*r.shape(high=1, smallest=1), m, k])
    columns = [n] if r.chance(0.5) else []
    zero = finite(r, columns, "U") if r.chance(0.6) else None
    return [a, finite(r, [k, n], "U"), scales(r, columns), zero, r.values([n], "f32") if r.chance(0.5) else None]


@oracle(*microsoft("DynamicQuantizeMatMul"), tolerance=1e-4)
def dynamic_quantize_matmul_oracle(r, a, b, b_scale, b_zero=None, bias=None):
    quantised, scale, zero = dynamic_range(a)
    y = np.matmul((quantised - zero) * float(scale), (b.astype(np.int64) - (0 if b_zero is None else b_zero)) * b_scale.astype(np.float64))
    return [y if bias is None else y + bias]


@generator(*microsoft("QGemm"), alpha=ANY, transA=(0, 1), transB=(0, 1))
def qgemm(r):
    m, k, n = r.integer(1, 5), r.integer(1, 6), r.integer(1, 5)
    r.draw("alpha", None, 0.5)
    a, b = [k, m] if r.draw("transA") else [m, k], [n, k] if r.draw("transB") else [k, n]
    columns = [n] if r.chance(0.4) else []
    operands = [finite(r, a, "T"), scales(r, []), finite(r, [], "T"), finite(r, b, "U"), scales(r, columns), finite(r, columns, "U")]
    operands.append(r.values(r.one_of([n], [m, n], [1, n]), "i32", low=-30, high=30) if r.chance(0.6) else None)
    if r.types["Y"] == "f32" and "y_zero_point" not in r.fixed_types:
        return operands
    r.types["Y"] = r.types["y_zero_point"] = r.fixed_types.get("Y", r.types["y_zero_point"])
    return operands + [scales(r, [], "f32", 5, 90), finite(r, [], "y_zero_point")]


@oracle(*microsoft("QGemm"))
def qgemm_oracle(r, a, a_scale, a_zero, b, b_scale, b_zero, c=None, y_scale=None, y_zero=None):
    a, b = a.astype(np.int64) - a_zero, (b.T if r.attributes.get("transB") else b).astype(np.int64) - b_zero
    sums = (a.T if r.attributes.get("transA") else a) @ b + (0 if c is None else c)
    y = sums * (r.attributes.get("alpha", 1.0) * np.float64(a_scale) * b_scale.astype(np.float64))
    return [y if y_scale is None else to_range(y / np.float64(y_scale), r.types["Y"], y_zero)]


@generator(*microsoft("MatMulNBits"), K=ANY, N=ANY, accuracy_level=(0, 1, 2, 3, 4), bits=(2, 4, 8), block_size=ANY, weight_prepacked=(0, 1, 2))
def matmul_nbits(r):
    """Levels of accuracy below float let an implementation quantise A, which this engine does not."""
    k, n, block, bits = r.integer(1, 40), r.integer(1, 5), r.one_of(16, 32), r.draw("bits") or 4
    for name, value in (("K", k), ("N", n), ("block_size", block)):
        r.set(name, value)
    r.draw("accuracy_level")
    r.draw("weight_prepacked")
    blocks = -(-k // block)
    b = r.rng.integers(0, 256, [n, blocks, block * bits // 8]).astype(np.uint8)
    zero = None
    if "zero_points" in r.fixed_types or r.chance(0.6):
        if r.types["zero_points"] != "u8":
            if "zero_points" in r.fixed_types:
                r.types["T"] = r.types["zero_points"]
            else:
                r.types["zero_points"] = r.dtype
            zero = np.round(r.values([n, blocks], "zero_points", low=0, high=5))
        else:
            zero = r.rng.integers(0, 256, [n, -(-blocks * bits // 8)]).astype(np.uint8)
    r.tolerance = 1e-5
    return [r.values([*r.shape(high=1, smallest=1), r.integer(1, 4), k]), b, scales(r, [n, blocks], r.dtype), zero, None,
            r.values([n]) if r.chance(0.5) else None]  # fmt: skip


def unpacked(a, bits):
    """Of bytes along the last dimension, the lowest bits first."""
    parts = [a >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*a.shape[:-1], -1).astype(np.float64)


@oracle(*microsoft("MatMulNBits"))
def matmul_nbits_oracle(r, a, b, scale, zero=None, g_idx=None, bias=None):
    bits, blocks = r.attributes.get("bits", 4), scale.shape[1]
    if zero is None:
        zero = np.full(scale.shape, 2.0 ** (bits - 1))
    elif zero.dtype == np.uint8:
        zero = unpacked(zero, bits)[:, :blocks]
    weights = (unpacked(b, bits) - zero[..., None]) * scale[..., None].astype(np.float64)
    y = a.astype(np.float64) @ weights.reshape(len(b), -1)[:, : r.attributes["K"]].T
    return [y if bias is None else y + bias]


# ---- quantised data -------------------------------------------------------------------------------------------------


def quantised_operand(r, shape, group="Q"):
    """x, its scale and zero point."""
    return [finite(r, shape, group), scales(r, [], "f32", 0.01, 0.1), finite(r, [], group) if r.chance(0.8) else None]


def real(x, scale, zero):
    return (x.astype(np.float64) - (0 if zero is None else zero)) * np.float64(scale)


@generator(*microsoft("QLinearAdd", "QLinearMul"))
def qlinear_binary(r):
    a, b = r.broadcast(2)
    return [*quantised_operand(r, a), *quantised_operand(r, b), scales(r, [], "f32", 0.01, 0.1), finite(r, [], "Q") if r.chance(0.8) else None]


@oracle(*microsoft("QLinearAdd", "QLinearMul"))
def qlinear_binary_oracle(r, a, a_scale, a_zero, b, b_scale, b_zero, c_scale, c_zero=None):
    x, y = real(a, a_scale, a_zero), real(b, b_scale, b_zero)
    return [to_range((x + y if r.schema.name == "QLinearAdd" else x * y) / np.float64(c_scale), r.types["Q"], 0 if c_zero is None else c_zero)]


@generator(*microsoft("QLinearLeakyRelu"), alpha=ANY)
@generator(*microsoft("QLinearSigmoid"))
def qlinear_unary(r):
    if r.schema.name == "QLinearLeakyRelu":
        r.draw("alpha", None, 0.3)
    scale = scales(r, [], "f32", 0.01, 0.1) if r.schema.name == "QLinearLeakyRelu" else np.float32(1 / 256)
    return [*quantised_operand(r, r.shape()), scale, finite(r, [], "Q") if r.chance(0.8) else None]


@oracle(*microsoft("QLinearLeakyRelu", "QLinearSigmoid"))
def qlinear_unary_oracle(r, x, scale, zero, y_scale, y_zero=None):
    x = real(x, scale, zero)
    y = 1 / (1 + np.exp(-x)) if r.schema.name == "QLinearSigmoid" else np.where(x < 0, r.attributes.get("alpha", float(np.float32(0.01))) * x, x)
    return [to_range(y / np.float64(y_scale), r.types["Q"], 0 if y_zero is None else y_zero)]


@generator(*microsoft("QLinearSoftmax"), axis=ANY, opset=(11, 13))
def qlinear_softmax(r):
    r.draw("opset")
    shape = r.shape(low=1, high=3, smallest=1)
    r.draw_axis(len(shape), -1)
    zero = integer_range(r.dtype)[0]
    return [finite(r, shape, "Q"), scales(r, [], "f32", 0.01, 0.2), finite(r, [], "Q") if r.chance(0.8) else None,
            np.array(1 / 256, np.float32), np.array(zero, NUMPY[r.dtype])]  # fmt: skip


@oracle(*microsoft("QLinearSoftmax"))
def qlinear_softmax_oracle(r, x, scale, zero, y_scale, y_zero):
    axis = r.attributes.get("axis", -1) % x.ndim
    over = tuple(range(axis, x.ndim)) if r.attributes["opset"] < 13 else axis
    e = real(x, scale, zero)
    e = np.exp(e - e.max(over, keepdims=True))
    return [to_range(e / e.sum(over, keepdims=True) / np.float64(y_scale), r.types["Q"], y_zero)]


@generator(*microsoft("QLinearAveragePool"), auto_pad=AUTO_PAD, ceil_mode=(0, 1), channels_last=(0, 1), count_include_pad=(0, 1),
           kernel_shape=ANY, pads=ANY, strides=ANY)  # fmt: skip
def qlinear_average_pool(r):
    rank = r.integer(1, 3)
    kernel = r.draw("kernel_shape", [r.integer(1, 3) for _ in range(rank)])
    extent = draw_window(r, rank, kernel, dilations=False)
    for name in ("ceil_mode", "count_include_pad"):
        r.draw(name)
    space, n, c = [e + r.integer(0, 4) for e in extent], r.integer(1, 2), r.integer(1, 3)
    shape = [n, *space, c] if r.draw("channels_last") else [n, c, *space]
    return pooled_operands(r, shape)


def pooled_operands(r, shape):
    x = quantised_operand(r, shape, "T")
    return [*x, scales(r, [], "f32", 0.01, 0.1), finite(r, [], "T") if r.chance(0.8) else None]


@oracle(*microsoft("QLinearAveragePool"))
def qlinear_average_pool_oracle(r, x, scale, zero, y_scale, y_zero=None):
    from .windows import windows

    last = r.attributes.get("channels_last")
    found = windows(r, real(np.moveaxis(x, -1, 1) if last else x, scale, zero))
    window = next(found)
    y = np.zeros((len(x), x.shape[-1 if last else 1], *window.out))
    for index, elements, _, padded in found:
        y[(..., *index)] = elements.sum(-1) / (padded if r.attributes.get("count_include_pad") else elements.shape[2])
    y = to_range(y / np.float64(y_scale), r.types["T"], 0 if y_zero is None else y_zero)
    return [np.moveaxis(y, 1, -1) if last else y]


@generator(*microsoft("QLinearGlobalAveragePool"), channels_last=(0, 1))
def qlinear_global_average_pool(r):
    n, c, space = r.integer(1, 2), r.integer(1, 3), r.shape(low=1, high=3, smallest=1)
    return pooled_operands(r, [n, *space, c] if r.draw("channels_last") else [n, c, *space])


@oracle(*microsoft("QLinearGlobalAveragePool"))
def qlinear_global_average_pool_oracle(r, x, scale, zero, y_scale, y_zero=None):
    axes = tuple(range(1, x.ndim - 1) if r.attributes.get("channels_last") else range(2, x.ndim))
    y = real(x, scale, zero).mean(axes, keepdims=True)
    return [to_range(y / np.float64(y_scale), r.types["T"], 0 if y_zero is None else y_zero)]


@generator(*microsoft("QLinearConcat"), axis=ANY)
def qlinear_concat(r):
    """Tensors, scales and zero points in turn, which one list of operands has types for."""
    shape, kind = r.shape(low=1, high=3), r.types["Q"]
    axis = r.draw_axis(len(shape), None)
    operands = [scales(r, [], "f32", 0.01, 0.1), finite(r, [], "Q")]
    r.kinds = ["f32", kind]
    for _ in range(r.integer(1, 3)):
        part = [r.integer(0, 3) if i == axis % len(shape) else d for i, d in enumerate(shape)]
        operands += [finite(r, part, "Q"), scales(r, [], "f32", 0.01, 0.1), finite(r, [], "Q")]
        r.kinds += [kind, "f32", kind]
    return operands


@oracle(*microsoft("QLinearConcat"))
def qlinear_concat_oracle(r, y_scale, y_zero, *parts):
    y = np.concatenate([real(*parts[i : i + 3]) for i in range(0, len(parts), 3)], r.attributes["axis"])
    return [to_range(y / np.float64(y_scale), r.types["Q"], y_zero)]


@generator(*microsoft("QuantizeLinear", "DequantizeLinear"), axis=ANY)
def quantize(r):
    shape = r.shape(low=1, high=3, smallest=1)
    axis = r.draw("axis", *range(-len(shape), len(shape)), *[None] * (len(shape) > 1))
    axis = 1 if axis is None else axis
    channels = [] if r.chance(0.5) or axis >= len(shape) else [shape[axis]]
    if r.schema.name == "QuantizeLinear":
        to = r.types["y"] = r.types["y_zero_point"] = r.fixed_types.get("y", r.types["y_zero_point"])
        zero = r.values(channels, to) if to != "u8" or r.chance(0.6) else None
        reach = 3 if to in ("u4", "i4") else 60
        return [r.values(shape, "T", low=-reach, high=reach), scales(r, channels, r.types["T"]), zero]
    zero = r.values(channels, "Q") if r.chance(0.6) and r.types["Q"] != "i32" else None
    return [r.values(shape, "Q"), scales(r, channels, r.types["T"]), zero]


@oracle(*microsoft("QuantizeLinear"))
def quantize_contrib_oracle(r, x, scale, zero=None):
    quotient = x.astype(np.float64) / spread(r, scale, x.shape).astype(np.float64)
    return [to_range(quotient, r.types["y"], 0 if zero is None else spread(r, zero, x.shape))]


@oracle(*microsoft("DequantizeLinear"))
def dequantize_contrib_oracle(r, x, scale, zero=None):
    zero = 0 if zero is None else spread(r, zero, x.shape).astype(np.float64)
    return [(x.astype(np.float64) - zero) * spread(r, scale, x.shape).astype(np.float64)]


# ---- norms, embeddings, LSTM ----------------------------------------------------------------------------------------


@generator(*microsoft("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), epsilon=ANY)
def skip_layer_norm(r):
    batch, length, size = r.integer(1, 2), r.integer(1, 4), r.integer(1, 5)
    r.draw("epsilon", None, 0.1)
    r.results = r.one_of([True], [True, False, False, True], [True, True, True, True])
    skip = r.one_of([batch, length, size], [1, length, size], [length, size])
    simple = r.schema.name == "SkipSimplifiedLayerNormalization"
    if simple and r.results == [True, True, True, True]:  # there is no mean
        r.results = [True, False, True, True]
    r.tolerance = 1e-4
    return [r.values([batch, length, size]), r.values(skip), r.values([size]),
            *([] if simple else [r.values([size]) if r.chance(0.6) else None]), r.values([size]) if r.chance(0.5) else None]  # fmt: skip


@oracle(*microsoft("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"))
def skip_layer_norm_oracle(r, x, skip, gamma, *rest):
    simple = r.schema.name == "SkipSimplifiedLayerNormalization"
    beta, bias = ([None] if simple else []) + list(rest) + [None] * (2 - len(rest) - simple)
    total = x.astype(np.float64) + skip + (0 if bias is None else bias)
    epsilon = r.attributes.get("epsilon", float(np.float32(1e-12)))
    mean, inverse = normal_parts(total, -1, epsilon)
    if simple:
        mean, inverse = None, 1 / np.sqrt((total * total).mean(-1, keepdims=True) + epsilon)
    y = (total - (0 if simple else mean)) * inverse * gamma + (0 if beta is None else beta)
    return [v if want else None for v, want in zip([y, mean, inverse, total], r.results)]


@generator(*microsoft("EmbedLayerNormalization"), epsilon=ANY, mask_index_type=(0, 1))
def embed_layer_norm(r):
    batch, length, size, words = r.integer(1, 2), r.integer(1, 4), r.integer(1, 5), r.integer(1, 6)
    r.draw("epsilon", None, 0.1)
    r.draw("mask_index_type")
    ids = lambda most, shape=(batch, length): r.rng.integers(0, most, shape).astype(np.int32)  # noqa: E731
    segments, positions = r.chance(0.6), r.chance(0.4)
    operands = [ids(words), ids(2) if segments else None, r.values([words, size], "T"), r.values([length + 1, size], "T"),
                r.values([2, size], "T") if segments else None, r.values([size], "T"), r.values([size], "T"),
                ids(2) if r.chance(0.5) else None, ids(length + 1, (r.one_of(1, batch), length)) if positions else None]  # fmt: skip
    r.results = r.integer(1, 3)
    r.tolerance = 1e-4
    return operands


@oracle(*microsoft("EmbedLayerNormalization"))
def embed_layer_norm_oracle(r, ids, segments, words, places, kinds, gamma, beta, mask=None, positions=None):
    at = np.arange(ids.shape[1])[None] if positions is None else positions
    total = words[ids].astype(np.float64) + places[at] + (0 if segments is None else kinds[segments])
    mean, inverse = normal_parts(total, -1, r.attributes.get("epsilon", float(np.float32(1e-12))))
    counts = np.zeros(len(ids)) if mask is None else mask.sum(1)
    return [(total - mean) * inverse * gamma + beta, counts, total][: r.results]


@generator(*microsoft("DynamicQuantizeLSTM"), activation_alpha=ANY, activation_beta=ANY, activations=ANY, clip=ANY,
           direction=("forward", "reverse", "bidirectional"), hidden_size=ANY, input_forget=(0, 1))  # fmt: skip
def dynamic_quantize_lstm(r):
    r.draw("input_forget")
    steps, batch, size, hidden, directions = draw_layer(r, "LSTM")
    kind = r.schema.inputs[1].parameter
    columns = [directions, 4 * hidden] if r.chance(0.5) else [directions]
    weights = [finite(r, [directions, n, 4 * hidden], kind) for n in (size, hidden)]
    bias = r.values([directions, 8 * hidden], "f32", low=-1, high=1) if r.chance(0.6) else None
    lens = r.rng.integers(1, steps + 1, batch).astype(np.int32) if r.chance(0.3) else None
    given = states(r, (directions, batch, hidden), 2)
    peepholes = r.values([directions, 3 * hidden], "f32", low=-1, high=1) if r.chance(0.4) else None
    quantised = [v for _ in range(2) for v in (scales(r, columns, "f32", 0.002, 0.01), finite(r, columns, kind))]
    r.results = r.integer(1, 3)
    return [r.values([steps, batch, size], "f32", low=-1, high=1), *weights, bias, lens, *given, peepholes, *quantised]


def in_8_bits(x):
    """As DynamicQuantizeLinear and its inverse."""
    low, high = min(x.min(initial=0), 0), max(x.max(initial=0), 0)
    scale = (high - low) / 255 or 1
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale


@oracle(*microsoft("DynamicQuantizeLSTM"), tolerance=5e-2)
def dynamic_quantize_lstm_oracle(r, x, w, q, b, lens, h, c, p, w_scale, w_zero, q_scale, q_zero):
    """As near as a rounding of the state that goes the other way comes."""
    each = lambda v: v.reshape(len(v), 1, -1).astype(np.float64)  # noqa: E731
    weights = [((v - each(zero)) * each(scale)).transpose(0, 2, 1) for v, scale, zero in ((w, w_scale, w_zero), (q, q_scale, q_zero))]
    return run_layers("LSTM", r.attributes, x, *weights, b, lens, h, c, p, in_8_bits)[: r.results]
