#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What new sizes of inputs cost, and going back to sizes that were seen.

    bench/sizes.py MODEL.onnx --input x=1x3x48xN --sizes 64-320
    bench/sizes.py MODEL.onnx --input input_ids=1xN --input attention_mask=1xN --sizes 8-256

N is a size that changes. Columns, in milliseconds, are medians over as many new sizes as were tried:

    new    the first run with a size beyond the median of the runs that follow, each engine in turn
    cold   the same of a size that was seen, after the other engine ran: what cold caches alone cost
    plan   the difference

Below, Tenon by itself: the first run with a size that was seen, after one with another, against the next run with it, as
a median of pairs, with what holds for 95 of 100 choices of pairs.
"""
import argparse
import random
import statistics
import time

import numpy as np
from engines import ENGINES

FOLLOWING = 5
LARGEST_ID = 50  # of tokens: models have more


def elapsed(call):
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def feeds_for(model, inputs, size):
    """Arrays of the model's types: small numbers; ones for what is called a mask."""
    import onnx

    rng, feeds = np.random.default_rng(size), {}
    types = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
    for name, dims in inputs.items():
        shape = [size if d == "N" else int(d) for d in dims.split("x")]
        kind = types[name]
        if kind.kind == "f":
            feeds[name] = rng.random(shape, dtype=np.float32).astype(kind)
        else:
            feeds[name] = (np.ones(shape) if "mask" in name else rng.integers(0, LARGEST_ID, shape)).astype(kind)
    return feeds


def extra(engine, feeds):
    first = elapsed(lambda: engine.run(feeds))
    return first - statistics.median(elapsed(lambda: engine.run(feeds)) for _ in range(FOLLOWING))


def new_sizes(engines, feeds, sizes, warm):
    for engine in engines.values():
        engine.run(feeds[warm])
        engine.run(feeds[warm])
    rows = {name: [] for name in engines}
    for size in sizes:
        new = {name: extra(engine, feeds[size]) for name, engine in engines.items()}
        for name, engine in engines.items():
            rows[name].append((new[name], extra(engine, feeds[size])))
    for name, found in rows.items():
        new, cold = statistics.median(r[0] for r in found), statistics.median(r[1] for r in found)
        print(f"{name:8} new {new:7.3f}  cold {cold:7.3f}  plan {statistics.median(a - b for a, b in found):7.3f}", flush=True)


def seen_again(engine, feeds, a, b, seconds):
    pairs, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(pairs) < 20:
        engine.run(feeds[b])
        back, stay = (elapsed(lambda: engine.run(feeds[a])) for _ in range(2))
        pairs.append(100 * (back / stay - 1))
    draws = sorted(statistics.median(random.choices(pairs, k=len(pairs))) for _ in range(400))
    print(f"seen again, {a} after {b}: {statistics.median(pairs):+.2f} % [{draws[10]:+.2f}, {draws[-11]:+.2f}], "
          f"{len(pairs)} pairs")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--input", action="append", required=True, help="NAME=DIMS, with N where the size stands")
    parser.add_argument("--sizes", default="64-320", help="LEAST-MOST, or LEAST-MOST-STEP")
    parser.add_argument("--count", type=int, default=40, help="new sizes to try")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8, help="for sizes that were seen; 0: none of that")
    parser.add_argument("--engines", default="ort,tenon")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    import onnx

    model = onnx.load(args.model, load_external_data=False)
    inputs = dict(text.rsplit("=", 1) for text in args.input)
    least, most, *step = map(int, args.sizes.split("-"))
    random.seed(args.seed)
    every = list(range(least, most, *step))
    sizes = random.sample(every, min(args.count, len(every)))
    feeds = {size: feeds_for(model, inputs, size) for size in [*sizes, most]}
    engines = {}
    for name in args.engines.split(","):
        engines[name] = ENGINES[name]()
        engines[name].open()
        engines[name].load(args.model, args.threads, list(inputs), [o.name for o in model.graph.output])
    new_sizes(engines, feeds, sizes, most)
    if args.seconds and "tenon" in engines:
        seen_again(engines["tenon"], feeds, sizes[-1], sizes[-2], args.seconds)


main()
