# SPDX-License-Identifier: Apache-2.0
"""Attention and what stands around it."""
import numpy as np

from .core import ANY, generator, int64, oracle
from .types import TYPE_NUMBERS, TYPE_OF_NUMBER, round_to

# ---- scaled dot products --------------------------------------------------------------------------------------------


def softmax(x):
    """Over the last dimension; a row of -inf gives zeros."""
    most = x.max(-1, keepdims=True) if x.shape[-1] else x.sum(-1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(most), most, 0))
    total = e.sum(-1, keepdims=True)
    return np.where(total == 0, 0, e / np.where(total == 0, 1, total))


def split_heads(x, heads):
    """[batch, length, heads * size] to [batch, heads, length, size]; 4 dimensions stay."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def join_heads(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def shared_heads(x, heads):
    return np.repeat(x, heads // x.shape[1], 1)


def window_bias(lengths, total, offsets, causal, left=-1, right=-1):
    """-inf where a query must not look: [batch, 1, queries, keys]."""
    query = np.arange(lengths)[None, :, None] + np.asarray(offsets)[:, None, None]
    key = np.arange(total)
    seen = np.ones((len(offsets), lengths, total), bool)
    seen &= key <= query if causal else True
    seen &= key >= query - left if left >= 0 else True
    seen &= key <= query + right if right >= 0 else True
    return np.where(seen, 0, -np.inf)[:, None]


@generator("Attention", is_causal=(0, 1), kv_num_heads=ANY, left_window_size=ANY, q_num_heads=ANY, qk_matmul_output_mode=(0, 1, 2, 3),
           right_window_size=ANY, scale=ANY, softcap=ANY, softmax_precision=(1, 10, 11, 16))  # fmt: skip
def attention(r):
    batch, kv_heads, group = r.integer(1, 2), r.integer(1, 2), r.integer(1, 3)
    heads, queries, keys, size, v_size = kv_heads * group, r.integer(1, 4), r.integer(1, 5), r.integer(1, 4), r.integer(1, 4)
    flat = r.fixed.get("q_num_heads") == ANY or r.fixed.get("kv_num_heads") == ANY or r.chance(0.4)
    flat = flat and not (r.fixed.get("q_num_heads", ANY) is None or r.fixed.get("kv_num_heads", ANY) is None)
    for name, n in (("q_num_heads", heads), ("kv_num_heads", kv_heads)):
        r.set(name, n) if flat else None
    for name in ("is_causal", "softmax_precision"):
        r.draw(name)
    r.draw("left_window_size", None, -1, 0, 2)
    r.draw("right_window_size", None, -1, 0, 1)
    r.draw("scale", None, 0.5)
    r.draw("softcap", None, 0.0, 2.0)
    r.results = r.one_of([True], [True, True, True], [True, True, True, True], [True, False, False, True])
    r.draw("qk_matmul_output_mode")
    cache = r.one_of("none", "none", "inside", "outside")
    if cache == "outside" and r.results != [True]:
        r.results = [True]
    shape = lambda h, n, d: [batch, n, h * d] if flat else [batch, h, n, d]  # noqa: E731
    past = r.integer(1, 3) if cache == "inside" else 0
    operands = [r.values(shape(heads, queries, size)), r.values(shape(kv_heads, keys, size)), r.values(shape(kv_heads, keys, v_size), "T2")]
    mask = None
    if r.chance(0.6) or "U" in r.fixed_types:
        width = past + keys if r.chance(0.8) else r.integer(1, past + keys)
        mask = r.values(r.one_of([queries, width], [1, 1, queries, width], [batch, heads, queries, width], [batch, 1, 1, width]), "U")
    operands.append(mask)
    if cache == "inside":
        operands += [r.values([batch, kv_heads, past, size]), r.values([batch, kv_heads, past, v_size], "T2")]
    if cache == "outside":
        least = 1 if mask is None else 0
        operands += [None, None, int64(r.rng.integers(least, (keys if mask is None else min(keys, mask.shape[-1])) + 1, batch))]
    r.tolerance = {1: 1e-5, 10: 2e-3, 16: 2e-2}.get(r.attributes.get("softmax_precision"))
    return operands


@oracle("Attention")
def attention_oracle(r, q, k, v, mask=None, past_k=None, past_v=None, valid=None):
    a, flat = r.attributes, q.ndim == 3
    q, k, v = (split_heads(x.astype(np.float64), h) for x, h in ((q, a.get("q_num_heads")), (k, a.get("kv_num_heads")), (v, a.get("kv_num_heads"))))
    if past_k is not None:
        k, v = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    present = [k, v]
    heads, queries, total, size = q.shape[1], q.shape[2], k.shape[2], q.shape[3]
    k, v = shared_heads(k, heads), shared_heads(v, heads)
    offsets = np.full(len(q), 0 if past_k is None else past_k.shape[2])
    offsets = offsets if valid is None else valid - queries
    bias = window_bias(queries, total, offsets, a.get("is_causal"), a.get("left_window_size", -1), a.get("right_window_size", -1))
    if valid is not None:
        bias = bias + np.where(np.arange(total) < valid[:, None], 0, -np.inf)[:, None, None]
    if mask is not None:
        added = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        added = np.pad(added, [(0, 0)] * (added.ndim - 1) + [(0, total - added.shape[-1])], constant_values=-np.inf)
        bias = bias + added
    raw = q @ k.swapaxes(-1, -2) * a.get("scale", 1 / np.sqrt(size))
    cap = a.get("softcap", 0)
    capped = cap * np.tanh(raw / cap) if cap else raw
    low = TYPE_OF_NUMBER[a.get("softmax_precision", 11)]
    weights = round_to(softmax(round_to(capped + bias, low).astype(np.float64)), low).astype(np.float64)
    y = weights @ v
    shown = [raw, capped, capped + bias, weights][a.get("qk_matmul_output_mode", 0)]
    results = [join_heads(y) if flat else y, *present, shown]
    return [x if want else None for x, want in zip(results, r.results)]


# ---- rotary embeddings ----------------------------------------------------------------------------------------------


@generator("RotaryEmbedding", interleaved=(0, 1), num_heads=ANY, rotary_embedding_dim=ANY)
def rotary_embedding(r):
    batch, heads, length, size = r.integer(1, 2), r.integer(1, 3), r.integer(1, 4), 2 * r.integer(1, 3)
    r.draw("interleaved")
    part = r.draw("rotary_embedding_dim", None, 0, *range(2, size + 1, 2)) or size
    flat = r.draw("num_heads", None, heads)
    shape = [batch, length, heads * size] if flat else [batch, heads, length, size]
    if r.chance(0.5):
        most = length + 2
        caches = [r.values([most, part // 2], low=-1, high=1) for _ in range(2)]
        return [r.values(shape), *caches, int64(r.rng.integers(0, most, (batch, length)))]
    return [r.values(shape), *(r.values([batch, length, part // 2], low=-1, high=1) for _ in range(2))]


def rotate(x, cos, sin, interleaved, part):
    """[batch, heads, length, size]; cos and sin [batch, length, part / 2]"""
    turned, rest = x[..., :part].astype(np.float64), x[..., part:]
    cos, sin = cos[:, None], sin[:, None]
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else (turned[..., : part // 2], turned[..., part // 2 :])
    pair = a * cos - b * sin, a * sin + b * cos
    turned = np.stack(pair, -1).reshape(turned.shape) if interleaved else np.concatenate(pair, -1)
    return np.concatenate([turned, rest], -1)


@oracle("RotaryEmbedding")
def rotary_oracle(r, x, cos, sin, ids=None):
    cos, sin = (cos, sin) if ids is None else (cos[ids], sin[ids])
    heads = split_heads(x, r.attributes.get("num_heads"))
    y = rotate(heads, cos, sin, r.attributes.get("interleaved"), 2 * cos.shape[-1])
    return [join_heads(y) if x.ndim == 3 else y]


# ---- others ---------------------------------------------------------------------------------------------------------


@generator("LinearAttention", chunk_size=ANY, kv_num_heads=ANY, q_num_heads=ANY, scale=ANY,
           update_rule=("linear", "gated", "delta", "gated_delta"))  # fmt: skip
def linear_attention(r):
    batch, heads, length, k_size, v_size = r.integer(1, 2), r.integer(1, 2), r.integer(1, 4), r.integer(1, 3), r.integer(1, 3)
    q_heads = heads * r.integer(1, 3)
    r.draw("kv_num_heads", heads)
    r.draw("q_num_heads", q_heads)
    r.draw("chunk_size", None, 2, 64)
    r.draw("scale", None, 0.0, 0.7)
    rule = r.draw("update_rule") or "gated_delta"
    r.results = 2
    state = r.values([batch, heads, k_size, v_size], "S") if r.chance(0.5) or "S" in r.fixed_types else None
    decay = r.values([batch, length, heads * r.one_of(1, k_size)], low=-2, high=0) if "gated" in rule else None
    beta = r.values([batch, length, r.one_of(1, heads)], low=0, high=1) if "delta" in rule else None
    key = r.values([batch, length, heads * k_size], low=-0.7, high=0.7)
    if state is None:
        r.types["S"] = r.dtype
    return [r.values([batch, length, q_heads * k_size]), key, r.values([batch, length, heads * v_size]), state, decay, beta]


@oracle("LinearAttention")
def linear_attention_oracle(r, q, k, v, state=None, decay=None, beta=None):
    a, heads = r.attributes, r.attributes["kv_num_heads"]
    q, k, v = (split_heads(x.astype(np.float64), h) for x, h in ((q, a["q_num_heads"]), (k, heads), (v, heads)))
    batch, _, length, k_size = k.shape
    state = np.zeros((batch, heads, k_size, v.shape[3])) if state is None else state.astype(np.float64)
    scale = a.get("scale", 0) or 1 / np.sqrt(k_size)
    keep = np.ones((batch, heads, length, 1)) if decay is None else np.exp(split_heads(decay.astype(np.float64), heads))
    rate = np.ones((batch, 1, length, 1)) if beta is None else beta.astype(np.float64).transpose(0, 2, 1)[..., None]
    y = np.zeros((*q.shape[:3], v.shape[3]))
    for t in range(length):
        state = state * keep[:, :, t, :, None]
        news = v[:, :, t] if beta is None else rate[:, :, t] * (v[:, :, t] - np.einsum("bhkv,bhk->bhv", state, k[:, :, t]))
        state = state + k[:, :, t, :, None] * news[:, :, None]
        y[:, :, t] = scale * np.einsum("bhkv,bhk->bhv", shared_heads(state, q.shape[1]), q[:, :, t])
    return [join_heads(y), state]


@generator("SwiGLU", alpha=ANY)
def swiglu(r):
    shape = r.shape()
    r.draw("alpha", None, 0.5, 1.7)
    return [r.values(shape), r.values(shape)]


@oracle("SwiGLU")
def swiglu_oracle(r, a, b):
    a = a.astype(np.float64)
    return [a / (1 + np.exp(-r.attributes.get("alpha", 1.0) * a)) * b]


@generator("SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization", axis=ANY, epsilon=ANY,
           stash_type=(1, 10, 11, 16))  # fmt: skip
def simplified_layer_norm(r):
    """RMSNormalization as onnxruntime names it, in ONNX's domain too."""
    shape = r.shape(low=1, smallest=1)
    axis = r.draw_axis(len(shape), -1)
    r.draw("epsilon", None, 0.1)
    if "inv_std_var" in r.fixed_types:
        r.set("stash_type", TYPE_NUMBERS[r.types["inv_std_var"]])
    else:
        r.types["inv_std_var"] = TYPE_OF_NUMBER[r.draw("stash_type") or 1]
    r.results = r.integer(1, 2)
    r.tolerance = 1e-4 if r.results == 1 else {"bf16": 2e-2, "f16": 2e-3}.get(r.types["inv_std_var"], 1e-4)
    return [r.values(shape), r.values(shape[axis:], "V")]


@oracle("SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization")
def simplified_layer_norm_oracle(r, x, scale):
    x = x.astype(np.float64)
    axes = tuple(range(r.attributes.get("axis", -1) % x.ndim, x.ndim))
    inverse = 1 / np.sqrt((x * x).mean(axes, keepdims=True) + r.attributes.get("epsilon", 1e-5))
    return [x * inverse * scale, inverse][: r.results]
