# SPDX-License-Identifier: Apache-2.0
"""com.microsoft's attention, by onnxruntime's descriptions; the long test asks onnxruntime itself."""
import numpy as np

from .attention import join_heads, rotate, shared_heads, softmax, split_heads, window_bias
from .core import ANY, generator, int64, microsoft, oracle
from .quantized import finite, scales

# ---- masks and heads ------------------------------------------------------------------------------------------------


def int32(values):
    return np.array(values, np.int32)


def draw_key_mask(r, batch, queries, total, past):
    """Lengths, lengths and beginnings, keys, or scores; key `past` is always seen."""
    kind = r.one_of("none", "lengths", "ranges", "keys", "scores")
    if kind == "lengths" or kind == "ranges":
        ends = r.rng.integers(past + 1, total + 1, batch)
        return int32(ends if kind == "lengths" else [*ends, *r.rng.integers(0, past + 1, batch)])
    if kind in ("keys", "scores"):
        mask = r.rng.integers(0, 2, [batch, total] if kind == "keys" else [batch, queries, total])
        mask[..., past] = 1
        return int32(mask)
    return None


def key_bias(mask, filtered, batch, queries, total):
    """What is added to scores [batch, 1, queries, total]."""
    if mask is None:
        return np.zeros((1, 1, 1, total))
    keys = np.arange(total)
    if mask.ndim == 1:
        seen = keys < mask[:batch, None]
        seen &= keys >= mask[batch:, None] if len(mask) > batch else True
        seen = seen[:, None]
    else:
        seen = mask.astype(bool).reshape(batch, -1, total)
    return np.where(seen, 0.0, filtered)[:, None]


def attended(r, q, k, v, mask, added, past):
    """[batch, heads, length, size] each."""
    a, batch, queries, total = r.attributes, len(q), q.shape[2], k.shape[2]
    scores = q @ k.swapaxes(-1, -2) * (a.get("scale", 0) or 1 / np.sqrt(q.shape[3]))
    scores = scores + key_bias(mask, a.get("mask_filter_value", -10000.0), batch, queries, total) + (0 if added is None else added)
    if a.get("unidirectional"):
        scores = scores + window_bias(queries, total, [past] * batch, True)
    weights = softmax(scores)
    return join_heads(weights @ v), scores


def draw_common(r):
    r.draw("mask_filter_value", None, -1000.0)
    r.draw("scale", None, 0.4)
    r.draw("unidirectional")
    r.tolerance = 1e-4


def draw_added(r, batch, heads, queries, total):
    return r.values([r.one_of(1, batch), r.one_of(1, heads), queries, total], "T") if r.chance(0.4) else None


# ---- Attention, QAttention ------------------------------------------------------------------------------------------

PROJECTED = {"do_rotary": (0, 1), "mask_filter_value": ANY, "num_heads": ANY, "past_present_share_buffer": (0, 1), "scale": ANY,
             "unidirectional": (0, 1)}  # fmt: skip


@generator(*microsoft("Attention"), qkv_hidden_sizes=ANY, rotary_embedding_dim=(0, 32), **PROJECTED)
def attention(r):
    batch, length, width, heads, size = r.integer(1, 2), r.integer(1, 4), r.integer(1, 4), r.integer(1, 3), r.integer(1, 3)
    r.set("num_heads", heads)
    for name in ("do_rotary", "past_present_share_buffer", "rotary_embedding_dim"):
        r.draw(name)
    v_size = size
    if r.fixed.get("qkv_hidden_sizes") == ANY or "qkv_hidden_sizes" not in r.fixed and r.chance(0.3):
        v_size = r.integer(1, 3)
        r.set("qkv_hidden_sizes", [heads * size, heads * size, heads * v_size])
    past = r.integer(1, 3) if v_size == size and r.chance(0.4) else 0
    r.results = 2 if past or v_size == size and r.chance(0.3) else 1
    draw_common(r)
    total, columns = past + length, heads * (2 * size + v_size)
    bias = r.values([columns], "T", low=-1, high=1) if r.chance(0.7) else None
    mask = draw_key_mask(r, batch, length, total, past)
    state = r.values([2, batch, heads, past, size], "T") if past else None
    return [r.values([batch, length, width], "T"), r.values([width, columns], "T", low=-1, high=1), bias, mask, state,
            draw_added(r, batch, heads, length, total)]  # fmt: skip


def attend_projected(r, projected, mask, state, added=None):
    """`projected`: queries, keys and values behind each other."""
    heads = r.attributes["num_heads"]
    sizes = r.attributes.get("qkv_hidden_sizes") or [projected.shape[-1] // 3] * 3
    q, k, v = (split_heads(part, heads) for part in np.split(projected, np.cumsum(sizes)[:2], -1))
    past = 0 if state is None else state.shape[3]
    if past:
        k, v = np.concatenate([state[0], k], 2), np.concatenate([state[1], v], 2)
    y = attended(r, q, k, v, mask, added, past)[0]
    return [y, np.stack([k, v])][: r.results] if r.results > 1 else [y]


@oracle(*microsoft("Attention"))
def attention_oracle(r, x, weights, bias=None, mask=None, state=None, added=None):
    projected = x.astype(np.float64) @ weights + (0 if bias is None else bias)
    return attend_projected(r, projected, mask, state, added)


@generator(*microsoft("QAttention"), **PROJECTED)
def qattention(r):
    batch, length, width, heads, size = r.integer(1, 2), r.integer(1, 4), r.integer(1, 4), r.integer(1, 3), r.integer(1, 3)
    r.set("num_heads", heads)
    for name in ("do_rotary", "past_present_share_buffer"):
        r.draw(name)
    past = r.integer(1, 3) if r.chance(0.4) else 0
    r.results = 2 if past or r.chance(0.3) else 1
    draw_common(r)
    columns, kind = 3 * heads * size, r.types["T"]
    mask = draw_key_mask(r, batch, length, past + length, past)
    each = [columns] if r.chance(0.3) else []
    zeros = [finite(r, [], "A") if r.chance(0.7) else None, finite(r, each, "B") if r.chance(0.7) else None]
    return [finite(r, [batch, length, width], "A"), finite(r, [width, columns], "B"), r.values([columns], "T", low=-1, high=1),
            scales(r, [], kind, 0.002, 0.01), scales(r, each, kind, 0.002, 0.01), mask, *zeros,
            r.values([2, batch, heads, past, size], "T") if past else None]  # fmt: skip


@oracle(*microsoft("QAttention"))
def qattention_oracle(r, x, weights, bias, x_scale, w_scale, mask=None, x_zero=None, w_zero=None, state=None):
    x, weights = (v.astype(np.float64) - (0 if zero is None else zero) for v, zero in ((x, x_zero), (weights, w_zero)))
    return attend_projected(r, x @ weights * (np.float64(x_scale) * w_scale.astype(np.float64)) + bias, mask, state)


# ---- MultiHeadAttention ---------------------------------------------------------------------------------------------


@generator(*microsoft("MultiHeadAttention"), mask_filter_value=ANY, num_heads=ANY, scale=ANY, unidirectional=(0, 1))
def multi_head_attention(r):
    r.types["T"] = r.types["qk"] = r.fixed_types.get("qk", r.types["T"])
    batch, heads, size = r.integer(1, 2), r.integer(1, 3), r.integer(1, 3)
    r.set("num_heads", heads)
    draw_common(r)
    form = r.one_of("apart", "apart", "packed kv", "packed qkv", "heads")
    queries = r.integer(1, 4)
    keys = queries if form == "packed qkv" or r.attributes.get("unidirectional") else r.integer(1, 4)
    v_size = r.integer(1, 3) if form == "apart" else size
    past = r.integer(1, 3) if form == "apart" and r.chance(0.4) else 0
    total = past + keys
    bias = r.values([heads * (2 * size + v_size)], "T", low=-1, high=1) if r.chance(0.5) and form != "heads" else None
    mask = draw_key_mask(r, batch, queries, total, past)
    mask = mask if mask is None or mask.ndim > 1 or len(mask) == batch and not past else None
    q = r.values([batch, queries, heads, 3, size] if form == "packed qkv" else [batch, queries, heads * size], "T")
    k = v = None
    if form == "apart":
        k, v = r.values([batch, keys, heads * size], "T"), r.values([batch, keys, heads * v_size], "T")
    elif form == "packed kv":
        k = r.values([batch, keys, heads, 2, size], "T")
    elif form == "heads":
        k, v = (r.values([batch, heads, keys, size], "T") for _ in range(2))
    state = [r.values([batch, heads, past, n], "T") for n in (size, v_size)] if past else [None, None]
    shown = r.chance(0.3) or "qk" in r.fixed_types
    r.results = [True] if form != "apart" else [True] * 4 if shown else r.one_of([True], [True, True, True])
    return [q, k, v, bias, mask, draw_added(r, batch, heads, queries, total), *state]


@oracle(*microsoft("MultiHeadAttention"))
def multi_head_oracle(r, q, k=None, v=None, bias=None, mask=None, added=None, past_k=None, past_v=None):
    heads = r.attributes["num_heads"]
    flat = lambda x: x.reshape(*x.shape[:2], -1)  # noqa: E731
    if q.ndim == 5:
        q, k, v = (flat(q[:, :, :, part]) for part in range(3))
    elif k.ndim == 5:
        k, v = flat(k[:, :, :, 0]), flat(k[:, :, :, 1])
    parts = [x.astype(np.float64) for x in (q, k, v)]
    if bias is not None:
        shares = np.split(bias, np.cumsum([q.shape[-1], k.shape[-1]]))
        parts = [x + share for x, share in zip(parts, shares)]
    q, k, v = (split_heads(x, heads) for x in parts)
    past = 0 if past_k is None else past_k.shape[2]
    if past:
        k, v = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    y, scores = attended(r, q, k, v, mask, added, past)
    return [x if want else None for x, want in zip([y, k, v, scores], r.results)]


# ---- RotaryEmbedding ------------------------------------------------------------------------------------------------


@generator(*microsoft("RotaryEmbedding"), interleaved=(0, 1), is_packed_batching=(0, 1), num_heads=ANY, rotary_embedding_dim=ANY,
           scale=(1.0, 0.5))  # fmt: skip
def rotary_embedding(r):
    batch, heads, length, size = r.integer(1, 2), r.integer(1, 3), r.integer(1, 4), 2 * r.integer(1, 3)
    for name in ("interleaved", "is_packed_batching", "scale"):
        r.draw(name)
    part = size
    if r.fixed.get("num_heads") == ANY or r.fixed.get("rotary_embedding_dim") == ANY or not r.fixed and r.chance(0.5):
        part = 2 * r.integer(1, size // 2)
        r.set("num_heads", heads)
        r.set("rotary_embedding_dim", part)
    shape = [batch, length, heads * size] if r.chance(0.5) or part != size else [batch, heads, length, size]
    most = length + 3
    at = int64([r.integer(0, 3)]) if r.chance(0.4) else int64(r.rng.integers(0, most, (batch, length)))
    r.heads = heads
    return [r.values(shape, "T"), at, *(r.values([most, part // 2], "T", low=-1, high=1) for _ in range(2))]


@oracle(*microsoft("RotaryEmbedding"))
def rotary_oracle(r, x, at, cos, sin):
    heads = split_heads(x, r.heads)
    at = at if at.ndim == 2 else np.tile(at[0] + np.arange(heads.shape[2]), (len(x), 1))
    y = rotate(heads, cos[at], sin[at], r.attributes.get("interleaved"), 2 * cos.shape[1])
    return [join_heads(y) if x.ndim == 3 else y]


# ---- GroupQueryAttention --------------------------------------------------------------------------------------------


def draw_caches(r, batch, heads, rows, size):
    """Past keys and values as they are stored, and their scales."""
    kind = r.types["C"]
    if kind in ("i8", "u8"):
        quant = r.attributes.get("k_quant_type") or r.one_of("PER_TENSOR", "PER_CHANNEL")
        for name in ("k_quant_type", "v_quant_type"):
            r.set(name, quant)
        r.set("kv_cache_bit_width", 8 if kind == "i8" else 4)
        shape = [1] if quant == "PER_TENSOR" else [1, heads, 1, size]
        stored = size if kind == "i8" else (size + 1) // 2
        caches = [finite(r, [batch, heads, rows, stored], "C") for _ in range(2)]
        if kind == "u8" and size % 2:  # the half byte that is not used
            caches = [np.concatenate([c[..., :-1], c[..., -1:] & 15], -1) for c in caches]
        return caches, [scales(r, shape, "f32", 0.05, 0.2) for _ in range(2)]
    return [r.values([batch, heads, rows, size], "T") for _ in range(2)], [None, None]


def draw_group(r):
    """Which kind of call: attributes that decide shapes."""
    quant = [r.fixed.get(name) for name in ("k_quant_type", "v_quant_type") if r.fixed.get(name) not in (None, "NONE")]
    if quant or r.fixed.get("kv_cache_bit_width") in (4, 8):
        r.types["C"] = {4: "u8", 8: "i8"}.get(r.fixed.get("kv_cache_bit_width")) or r.one_of("u8", "i8")
        r.set("k_quant_type", quant[0] if quant else r.one_of("PER_TENSOR", "PER_CHANNEL"))
    elif r.types["C"] not in ("i8", "u8"):
        if "C" in r.fixed_types:
            r.types["T"] = r.types["C"]
        r.types["C"] = r.types["T"]
    return r.types["C"] in ("i8", "u8")


@generator(*microsoft("GroupQueryAttention"), causal=(0, 1), do_rotary=(0, 1), k_norm_epsilon=ANY,
           k_quant_type=("NONE", "PER_TENSOR", "PER_CHANNEL"), kv_cache_bit_width=(4, 8), kv_num_heads=ANY, local_window_size=ANY,
           num_heads=ANY, q_norm_epsilon=ANY, qk_norm_epsilon=ANY, qk_output=(0, 1, 2), rotary_interleaved=(0, 1), scale=ANY,
           sliding_window_cache=(0, 1), smooth_softmax=(0, 1), softcap=ANY, v_quant_type=("NONE", "PER_TENSOR", "PER_CHANNEL"))  # fmt: skip
def group_query_attention(r):
    batch, kv_heads, group, size = r.integer(1, 2), r.integer(1, 2), r.integer(1, 3), 8 if r.peer else 2 * r.integer(1, 3)
    quantised = draw_group(r)
    sliding = r.draw("sliding_window_cache") == 1
    if sliding and any(r.fixed.get(name, 1) in (0, None) for name in ("causal", "local_window_size")):
        sliding = bool(r.set("sliding_window_cache", 0))
    steps, cached = r.integer(1, 3), quantised or sliding or r.chance(0.5)
    rows = r.integer(1, 5) if cached else 0
    past = r.rng.integers(0, rows + 1, batch) if cached else np.zeros(batch, int)
    r.set("num_heads", kv_heads * group)
    r.set("kv_num_heads", kv_heads)
    for name in ("rotary_interleaved", "smooth_softmax", "qk_output", "k_quant_type", "v_quant_type"):
        if name not in r.attributes and not (quantised and name.endswith("quant_type")):
            r.draw(name, *((None, "NONE") if name.endswith("quant_type") else ()))
    for name, values in (("scale", (0.4,)), ("softcap", (0.0, 2.0)), ("k_norm_epsilon", (0.1,)), ("q_norm_epsilon", (0.2,)), ("qk_norm_epsilon", (0.05,))):
        r.draw(name, None, *values)
    if sliding:
        r.set("causal", 1)
        r.set("local_window_size", max(int(past.max()), r.integer(1, rows)))  # so that nothing is out of the window yet
        r.attributes.pop("qk_output", None)
    elif r.draw("causal") != 0:
        r.draw("local_window_size", None, -1, 1, 2)
    if r.fixed.get("causal", 1) == 0:
        r.attributes.pop("local_window_size", None)
    return group_operands(r, batch, steps, size, past, rows, sliding)


def group_operands(r, batch, steps, size, past, rows, sliding):
    heads, kv_heads = r.attributes["num_heads"], r.attributes["kv_num_heads"]
    total, packed = int(past.max()) + steps, r.chance(0.3)
    if total == steps:  # the first call, which pads on the right what is shorter
        past = np.zeros(batch, int)
    widths = [heads * size, kv_heads * size, kv_heads * size]
    x = [r.values([batch, steps, sum(widths)], "T"), None, None] if packed else [r.values([batch, steps, w], "T") for w in widths]
    caches, cache_scales = draw_caches(r, batch, kv_heads, rows, size) if rows else ([None, None], [None, None])
    rotary = [None, None]
    if r.draw("do_rotary") == 1:
        rotary = [r.values([total + 2, size // 2], "T", low=-1, high=1) for _ in range(2)]
    wants_norm = any(r.fixed.get(name) == ANY for name in ("k_norm_epsilon", "q_norm_epsilon", "qk_norm_epsilon"))
    norms = [r.values([size], "T") for _ in range(2)] if wants_norm or r.chance(0.3) and not r.peer else [None, None]
    added = r.values([r.one_of(1, batch), r.one_of(1, heads), steps, total], "T") if r.chance(0.3) else None
    sink = r.values([heads], "T") if r.chance(0.2) else None
    shown = r.attributes.get("qk_output", 0) > 0
    r.results = [True] if sliding else [True, True, True, True] if shown else r.one_of([True], [True, True, True])
    r.past = past
    low = r.types["T"] if not rows or r.types["C"] in ("i8", "u8") else r.types["C"]
    r.tolerance = 1e-4 if low == "f32" else None
    return [*x, *caches, int32(past + steps - 1), int32(total), *rotary, None, added, sink, *cache_scales, *norms]


def unpacked_cache(r, cache, scale, size):
    """Whole numbers, and what they stand for."""
    if r.types["C"] == "u8":
        cache = np.stack([cache & 15, cache >> 4], -1).reshape(*cache.shape[:-1], -1)[..., :size].astype(np.float64) - 8
    return cache.astype(np.float64), np.ones(1) if scale is None else scale.astype(np.float64)


def stored_cache(r, cache, rows):
    if r.types["C"] != "u8":
        return cache
    half = (cache + 8).astype(np.uint8)
    half = np.where(rows[:, None, :, None], half, 0)
    half = np.pad(half, [(0, 0)] * 3 + [(0, half.shape[-1] % 2)])
    return half[..., 0::2] | half[..., 1::2] << 4


def appended(r, new, cache, scale, total, size):
    """The cache with the new rows put in, as stored, and as real numbers."""
    capacity = max(total, 0 if cache is None else cache.shape[2])
    whole, by = (np.zeros((*new.shape[:2], 0, size)), np.ones(1)) if cache is None else unpacked_cache(r, cache, scale, size)
    rows = np.zeros((*new.shape[:2], capacity, size))
    there = np.zeros((len(new), capacity), bool)
    for b, past in enumerate(r.past):
        rows[b, :, :past] = whole[b, :, :past]
        fresh = new[b]
        if r.types["C"] in ("i8", "u8"):
            most = 127 if r.types["C"] == "i8" else 7
            fresh = fresh / (by[0] if by.ndim == 4 else by)
            assert (abs(fresh % 1 - 0.5) > 1e-3).all(), "depends on rounding"
            fresh = np.rint(fresh).clip(-most - 1, most)
        rows[b, :, past : past + new.shape[2]] = fresh
        there[b, : past + new.shape[2]] = True
    return stored_cache(r, rows, there), rows * (by if r.types["C"] in ("i8", "u8") else 1)


def normalised(x, weight, epsilon):
    return x if weight is None else x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


@oracle(*microsoft("GroupQueryAttention"))
def group_query_oracle(r, q, k, v, past_k, past_v, lengths, total, cos=None, sin=None, ids=None, added=None, sink=None,
                       k_scale=None, v_scale=None, q_norm=None, k_norm=None):  # fmt: skip
    a, heads, kv_heads, total = r.attributes, r.attributes["num_heads"], r.attributes["kv_num_heads"], int(total)
    if k is None:
        size = q.shape[2] // (heads + 2 * kv_heads)
        q, k, v = np.split(q, [heads * size, (heads + kv_heads) * size], -1)
    q, k, v = (split_heads(x.astype(np.float64), n) for x, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
    size, steps = q.shape[3], q.shape[2]
    epsilon = a.get("qk_norm_epsilon", 1e-6)
    q, k = normalised(q, q_norm, a.get("q_norm_epsilon", epsilon)), normalised(k, k_norm, a.get("k_norm_epsilon", epsilon))
    if a.get("do_rotary"):
        at = r.past[:, None] + np.arange(steps)
        q, k = (rotate(x, cos[at], sin[at], a.get("rotary_interleaved"), size) for x in (q, k))
    present_k, keys = appended(r, k, past_k, k_scale, total, size)
    present_v, values = appended(r, v, past_v, v_scale, total, size)
    keys, values = shared_heads(keys[:, :, :total], heads), shared_heads(values[:, :, :total], heads)
    scores = q @ keys.swapaxes(-1, -2) * (a.get("scale", 0) or 1 / np.sqrt(size))
    cap = a.get("softcap", 0)
    scores = cap * np.tanh(scores / cap) if cap else scores
    window = a.get("local_window_size", -1)
    scores = scores + window_bias(steps, total, r.past, a.get("causal", 1), window - 1 if window > 0 else -1) + (0 if added is None else added)
    scores = scores + np.where(np.arange(total) < (r.past + steps)[:, None], 0, -np.inf)[:, None, None]
    if sink is not None or a.get("smooth_softmax"):  # a key more, which is dropped
        more = np.zeros(heads) if sink is None else sink.astype(np.float64)
        weights = softmax(np.concatenate([scores, np.broadcast_to(more[:, None, None], (*scores.shape[:3], 1))], -1))[..., :-1]
    else:
        weights = softmax(scores)
    shown = weights if a.get("qk_output") == 2 else np.where(np.isfinite(scores), scores, 0)
    return [x if want else None for x, want in zip([join_heads(weights @ values), present_k, present_v, shown], r.results)]
