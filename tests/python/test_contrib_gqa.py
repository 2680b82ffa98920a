# SPDX-License-Identifier: Apache-2.0
"""GroupQueryAttention of com.microsoft against its text in numpy: random instances of everything that it can do."""
import sys
import unittest

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt  # noqa: E402
from gqa_instances import Instance  # noqa: E402
from harness import sanitized  # noqa: E402


def differences(found, wanted, tolerance):
    """Caches of integers may round a tie the other way: one level, and what follows from it."""
    for (name, x), (also, y) in zip(found, wanted, strict=True):
        assert name == also
        integers = x.dtype.kind in "iu"
        if x.shape != y.shape:
            yield f"{name} is {x.shape}, not {y.shape}"
        elif integers and np.any(x != y):
            yield f"{name}: {np.count_nonzero(x != y)} of {x.size} levels differ"
        elif not integers and not np.allclose(x, y, rtol=tolerance, atol=tolerance):
            yield f"{name} is off by {np.abs(x - y).max()}"


class GroupQueryAttention(unittest.TestCase):
    def sweep(self, seeds, dtype, tolerance):
        for seed in seeds:
            instance = Instance(seed, dtype)
            with self.subTest(seed=seed, mode=instance.mode, **instance.attributes):
                results = tenonrt.InferenceSession(instance.model()).run(None, instance.feeds)
                wrong = list(differences(instance.specified(results), instance.expected(), tolerance))
                self.assertEqual(wrong, [])

    def test_float(self):
        self.sweep(range(40 if sanitized() else 300), np.float32, 2e-5)

    def test_half(self):
        self.sweep(range(1000, 1040), np.float16, 4e-3)

    def test_steps_do_not_matter(self):
        """A sliding cache has the same rows whether its tokens came at once or one by one."""
        for capacity, window in ((3, 3), (5, 3), (7, 2)):
            tokens = np.random.default_rng(capacity).normal(size=(1, 12, 3 * 16)).astype(np.float32)
            caches = []
            for split in ([12], [1] * 12, [5, 4, 3], [3] * 4):
                cache, at = np.zeros((2, 1, 1, capacity, 16), np.float32), 0
                for n in split:
                    one = Instance(0)
                    one.attributes = {"num_heads": 1, "kv_num_heads": 1, "local_window_size": window, "sliding_window_cache": 1}
                    one.results = one.results[:3]
                    one.feeds = {
                        "query": tokens[:, at : at + n],
                        "past_key": cache[0],
                        "past_value": cache[1],
                        "seqlens_k": np.array([at + n - 1], np.int32),
                        "total_sequence_length": np.array([at + n], np.int32),
                    }
                    cache = np.stack(tenonrt.InferenceSession(one.model()).run(None, one.feeds)[1:])
                    at += n
                kept = 12 if capacity >= 12 else 12 - (capacity - window + 1) * -(-(12 - capacity) // (capacity - window + 1))
                caches.append(cache[:, :, :, :kept])
            for other in caches[1:]:
                np.testing.assert_array_equal(other, caches[0])
            np.testing.assert_array_equal(caches[0][0, 0, 0], tokens[0, 12 - kept :, 16:32])


if __name__ == "__main__":
    sys.exit(unittest.main())
