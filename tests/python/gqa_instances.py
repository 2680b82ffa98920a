# SPDX-License-Identifier: Apache-2.0
"""com.microsoft.GroupQueryAttention: random instances of all that it can do, and its text in numpy, entry by entry."""
import math

import numpy as np
from onnx import helper

OPERANDS = """query key value past_key past_value seqlens_k total_sequence_length cos_cache sin_cache position_ids
    attention_bias head_sink k_scale v_scale q_norm_weight k_norm_weight query_seqlens""".split()
RESULTS = ["output", "present_key", "present_value", "output_qk"]


class Instance:
    """feeds and attributes; `past`, `added` and `last` say of each entry how many tokens were cached, are new, are there."""

    def __init__(self, seed, dtype=np.float32, norms=True):
        self.rng, self.dtype, self.feeds, self.attributes = np.random.default_rng(seed), dtype, {}, {}
        rng, feeds, attributes = self.rng, self.feeds, self.attributes
        self.kv_heads, self.size = int(rng.integers(1, 3)), 16 * int(rng.integers(1, 3))
        self.heads = self.kv_heads * int(rng.integers(1, 4))
        attributes.update(num_heads=self.heads, kv_num_heads=self.kv_heads)
        self.sliding = self.chance(0.3)
        self.choose_lengths()
        self.choose_cache()
        b, s = self.batch, self.steps
        if self.chance(0.4):
            feeds["query"] = self.normal(b, s, (self.heads + 2 * self.kv_heads) * self.size)
        else:
            feeds["query"] = self.normal(b, s, self.heads * self.size)
            feeds["key"], feeds["value"] = (self.normal(b, s, self.kv_heads * self.size) for _ in range(2))
        feeds["seqlens_k"] = (self.last - 1).astype(np.int32)
        feeds["total_sequence_length"] = np.array([self.total], np.int32)
        if self.counted:
            feeds["query_seqlens"] = self.added.astype(np.int32)
        self.choose_options(norms)

    def chance(self, p):
        return bool(self.rng.random() < p)

    def normal(self, *shape):
        return self.rng.normal(size=shape).astype(self.dtype)

    def choose_lengths(self):
        rng = self.rng
        self.mode = str(rng.choice(["prompt", "decode", "chunk", "padded"]))
        self.counted = self.mode == "padded"
        self.batch = 1 if self.mode == "chunk" else int(rng.integers(1, 4))
        self.steps = 1 if self.mode == "decode" else int(rng.integers(2, 7))
        b, s = self.batch, self.steps
        if self.mode == "prompt":
            self.past, self.added = np.zeros(b, int), np.full(b, s)
            if not self.sliding:  # in a sliding cache onnxruntime takes no shorter entries without query_seqlens
                self.added = np.maximum(rng.integers(1, s + 1, b), np.arange(b) == 0) if b > 1 else self.added
                self.added[int(rng.integers(b))] = s
        elif self.mode == "padded":
            self.past, self.added = rng.integers(0, 9, b), rng.integers(0, s + 1, b)
            self.added = np.maximum(self.added, self.past == 0)
        else:
            self.past, self.added = rng.integers(1, 9, b), np.full(b, s)
        self.last = self.past + self.added
        self.total = int(self.last.max()) if self.mode != "padded" else int(max(self.last.max(), s))

    def choose_cache(self):
        """Capacities, then a cache of floats or one of 8 or 4 bits; rows that hold nothing are noise."""
        rng, attributes = self.rng, self.attributes
        quantised = self.chance(0.35)
        if self.sliding:
            self.window = int(rng.integers(1, 6))
            self.capacity = self.window + int(rng.choice([0, 0, 1, 3]))
            attributes.update(sliding_window_cache=1, local_window_size=self.window)
            self.cached = self.capacity
            if self.counted:
                self.total += int(rng.integers(0, 3))
        else:
            self.window = -1
            most = int(self.past.max())
            room = most + self.steps if self.counted else self.total
            self.cached = int(rng.choice([most, room, room + 2]))
            if self.counted and self.cached < most + self.steps:
                self.total = most + self.steps
            self.capacity = max(self.cached, self.total)
        if not (self.cached or quantised or self.counted):
            return
        shape = (self.batch, self.kv_heads, self.cached, self.size)
        if not quantised:
            self.feeds["past_key"], self.feeds["past_value"] = self.normal(*shape), self.normal(*shape)
            return
        bits, each = int(rng.choice([4, 8])), self.chance(0.5)
        if self.sliding and self.size % 32:
            bits = 8  # onnxruntime has no other there
        attributes["kv_cache_bit_width"] = bits
        for side, scale in (("key", "k_scale"), ("value", "v_scale")):
            stored = (*shape[:3], self.size // 2) if bits == 4 else shape
            low, high, kind = (0, 256, np.uint8) if bits == 4 else (-128, 128, np.int8)
            self.feeds["past_" + side] = rng.integers(low, high, stored).astype(kind)
            scales = rng.uniform(0.1, 0.4, (1, self.kv_heads, 1, self.size) if each else (1,)) / (1 if bits == 4 else 12)
            self.feeds[scale] = scales.astype(np.float32)
            attributes[scale[0] + "_quant_type"] = "PER_CHANNEL" if each else "PER_TENSOR"

    def choose_options(self, norms):
        rng, feeds, attributes = self.rng, self.feeds, self.attributes
        if self.chance(0.5):
            columns = self.size // 2 if self.chance(0.6) else 8
            attributes.update(do_rotary=1, rotary_interleaved=int(rng.integers(2)))
            feeds["cos_cache"], feeds["sin_cache"] = self.normal(32, columns), self.normal(32, columns)
            if self.chance(0.4):
                feeds["position_ids"] = rng.integers(0, 20, (self.batch, self.steps))
        if norms and self.chance(0.2):
            feeds["q_norm_weight"], feeds["k_norm_weight"] = self.normal(self.size), self.normal(self.size)
            attributes.update(qk_norm_epsilon=0.01, **({"q_norm_epsilon": 0.5} if self.chance(0.5) else {}))
        if self.chance(0.3):
            attributes["softcap"] = float(rng.uniform(0.5, 3))
        if self.chance(0.3):
            attributes["smooth_softmax"] = 1
        elif self.chance(0.3):
            feeds["head_sink"] = self.normal(self.heads)
        if not self.sliding and self.chance(0.4):
            self.window = attributes["local_window_size"] = int(rng.integers(1, 6))
        elif not self.sliding and not self.counted and self.chance(0.2):
            attributes["causal"] = 0
        if self.chance(0.3):
            batch, heads = int(rng.choice([1, self.batch])), int(rng.choice([1, self.heads]))
            feeds["attention_bias"] = self.normal(batch, heads, self.steps, self.total)
        if self.chance(0.3):
            attributes["scale"] = float(rng.uniform(0.1, 1))
        self.results = RESULTS[:3]
        if not self.sliding and self.chance(0.3):
            attributes["qk_output"], self.results = int(rng.integers(1, 3)), RESULTS

    def model(self):
        names = [name if name in self.feeds else "" for name in OPERANDS]
        while not names[-1]:
            names.pop()
        node = helper.make_node("GroupQueryAttention", names, self.results, domain="com.microsoft", **self.attributes)
        kinds = [self.dtype, *[self.feeds.get("past_key", self.feeds["query"]).dtype] * 2, self.dtype]
        code = helper.np_dtype_to_tensor_dtype
        inputs = [helper.make_tensor_value_info(n, code(a.dtype), a.shape) for n, a in self.feeds.items()]
        outputs = [helper.make_tensor_value_info(n, code(np.dtype(k)), None) for n, k in zip(self.results, kinds)]
        graph = helper.make_graph([node], "g", inputs, outputs)
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()

    def kept(self, length):
        cut = self.capacity - self.window + 1
        if not self.sliding or length <= self.capacity:
            return length
        return length - cut * math.ceil((length - self.capacity) / cut)

    def specified(self, results):
        """What the text says: without rows of padding, and of caches that hold nothing."""
        output, keys, values, *qk = results
        for b in range(self.batch):
            n, t = self.added[b], self.last[b]
            yield "output", output[b, :n]
            yield "present_key", keys[b, :, : self.kept(t)]
            yield "present_value", values[b, :, : self.kept(t)]
            for scores in qk:
                yield "output_qk", scores[b, :, :n, :t]

    # ---- the oracle ------------------------------------------------------------------------------------------------

    def levels(self, side, rows):
        """Real numbers to what a cache holds, and back."""
        attributes, scale = self.attributes, self.feeds.get(side + "_scale")
        if scale is None:
            return rows, rows
        scale = np.broadcast_to(scale.reshape(-1, 1, scale.shape[-1] if scale.ndim == 4 else 1), (self.kv_heads, 1, self.size))
        most = 7 if attributes["kv_cache_bit_width"] == 4 else 127
        levels = np.clip(np.rint(rows.astype(np.float32) / scale), -most - 1, most)
        return levels, levels * scale.astype(np.float64)

    def unpack(self, side, b, n):
        """The first n rows of the past of an entry, as levels and as real numbers."""
        past = self.feeds.get("past_key" if side == "k" else "past_value")
        if past is None or n == 0:
            return (np.zeros((self.kv_heads, 0, self.size)),) * 2
        rows = past[b, :, :n]
        if self.attributes.get("kv_cache_bit_width") == 4:
            rows = np.stack([rows & 15, rows >> 4], -1).reshape(*rows.shape[:2], -1).astype(int) - 8
        rows = rows.astype(np.float64)
        scale = self.feeds.get(side + "_scale")
        if scale is None:
            return rows, rows
        scale = scale.reshape(self.kv_heads, 1, self.size) if scale.ndim == 4 else scale
        return rows, rows * scale

    def pack(self, rows):
        if self.attributes.get("kv_cache_bit_width") != 4:
            return rows
        nibbles = (rows + 8).astype(int)
        return nibbles[..., 0::2] + 16 * nibbles[..., 1::2]

    def heads_of(self, name, b):
        """[heads, added, size] of the entry's new tokens."""
        n, feeds = self.added[b], self.feeds
        sizes = np.cumsum([self.heads, self.kv_heads]) * self.size
        packed = dict(zip(("query", "key", "value"), np.split(feeds["query"], sizes, -1))) if "key" not in feeds else feeds
        heads = self.heads if name == "query" else self.kv_heads
        return packed[name][b, :n].reshape(n, heads, self.size).transpose(1, 0, 2).astype(np.float64)

    def turn(self, x, b):
        if not self.attributes.get("do_rotary"):
            return x
        at = self.past[b] + np.arange(x.shape[1])
        if "position_ids" in self.feeds:
            given = self.feeds["position_ids"]
            at = given[0, 0] + np.arange(x.shape[1]) if self.mode == "prompt" else given[b, : x.shape[1]]
        cosines, sines = self.feeds["cos_cache"][at].astype(float), self.feeds["sin_cache"][at].astype(float)
        half, y = cosines.shape[1], x.copy()
        first, second = slice(0, half), slice(half, 2 * half)
        if self.attributes["rotary_interleaved"]:
            first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
        y[..., first] = cosines * x[..., first] - sines * x[..., second]
        y[..., second] = sines * x[..., first] + cosines * x[..., second]
        return y

    def normalise(self, x, which):
        weight, a = self.feeds.get(which + "_norm_weight"), self.attributes
        if weight is None:
            return x
        epsilon = a.get(which + "_norm_epsilon", a.get("qk_norm_epsilon", 1e-6))
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + epsilon) * weight

    def expected_entry(self, b):
        a, n, past, last = self.attributes, self.added[b], self.past[b], self.last[b]
        before = self.kept(past)
        q = self.turn(self.normalise(self.heads_of("query", b), "q"), b)
        sides = []
        for side, new in (("k", self.turn(self.normalise(self.heads_of("key", b), "k"), b)), ("v", self.heads_of("value", b))):
            old_levels, old = self.unpack(side, b, before)
            levels, new = self.levels(side, new)
            stored = np.concatenate([old_levels, levels], 1)[:, before + n - self.kept(last) :]
            sides.append((np.concatenate([old, new], 1), self.pack(stored)))
        (k, key), (v, value) = sides
        k, v = (np.repeat(x, self.heads // self.kv_heads, 0) for x in (k, v))
        scores = q @ k.transpose(0, 2, 1) * (a.get("scale") or 1 / math.sqrt(self.size))
        if a.get("softcap"):
            scores = a["softcap"] * np.tanh(scores / a["softcap"])
        at, positions = past + np.arange(n)[:, None], last - k.shape[1] + np.arange(k.shape[1])
        if "attention_bias" in self.feeds:
            bias = self.feeds["attention_bias"]
            bias = bias[b % bias.shape[0]][:, :n, positions]
            scores = scores + bias
        seen = np.ones((n, k.shape[1]), bool)
        if a.get("causal", 1):
            seen = (positions <= at) & ((self.window < 0) | (positions > at - self.window))
        sink = self.feeds["head_sink"].astype(float) if "head_sink" in self.feeds else np.zeros(self.heads)
        top = np.maximum(np.max(np.where(seen, scores, -np.inf), -1, initial=-1e30), sink[:, None])[..., None]
        weights = np.where(seen, np.exp(scores - top), 0)
        extra = np.exp(sink[:, None, None] - top) if "head_sink" in self.feeds or a.get("smooth_softmax") else 0
        weights = weights / (weights.sum(-1, keepdims=True) + extra)
        y = (weights @ v).transpose(1, 0, 2).reshape(n, self.heads * self.size)
        return y, key, value, np.where(seen, scores, 0) if a.get("qk_output") == 1 else weights

    def expected(self):
        for b in range(self.batch):
            yield from zip(self.results, self.expected_entry(b))
