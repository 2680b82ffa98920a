# SPDX-License-Identifier: Apache-2.0
"""Ops with graphs in random models, so many for each element type and each attribute, run by `tenon test`.

    test_op_random_graphs.py [--times N] [--seed S] [OP...]
"""
import argparse
import collections
import json
import os
import shutil
import sys
import zlib

import numpy as np

from harness import BUILD, Report, run_folders, scratch
from op_random.core import Random
from op_random.graphs import GRAPHS, as_message
from op_random.types import read_schemas


def keys_of(schema, attributes):
    """(type parameter, type) and (attribute, value); None: it is not there."""
    keys = [(name, kind) for name, kinds in schema.parameters.items() if len(kinds) > 1 for kind in kinds]
    return keys + [(name, value) for name, values in attributes.items() for value in values]


def write(instance, folder):
    os.makedirs(os.path.join(folder, "test_data_set_0"))
    files = {"model.onnx": instance.model}
    for stem, values in (("input", instance.operands), ("output", instance.results)):
        files.update((f"test_data_set_0/{stem}_{i}.pb", as_message(kind, value)) for i, (_, kind, value) in enumerate(values))
    for name, message in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(message.SerializeToString())
    with open(os.path.join(folder, "data.json"), "w", encoding="utf-8") as file:
        json.dump({"rtol": instance.rtol or 1e-5, "atol": 1e-7}, file)


def draw(schema, op, rng, key):
    generator, attributes = GRAPHS[op]
    types = {name: key[1] if name == key[0] else str(rng.choice(kinds)) for name, kinds in schema.parameters.items()}
    r = Random(rng, schema, attributes, types, {}, {key[0]: key[1]} if key[0] in attributes else {})
    instance = generator(r)
    return instance, [*types.items(), *((name, present(r, name, values)) for name, values in attributes.items())]


def present(r, name, values):
    value = r.attributes.get(name)
    return value if value in values else "present"


def write_models(op, schema, args, folder):
    """Models of one op: how many keys, how many models, what is missing."""
    rng = np.random.default_rng([args.seed, zlib.crc32(op.encode())])
    keys, counts = keys_of(schema, GRAPHS[op][1]), collections.Counter()
    for key in keys:
        for _ in range(20 * args.times):
            if counts[key] >= args.times:
                break
            instance, covered = draw(schema, op, rng, key)
            write(instance, os.path.join(folder, op, str(counts["models"])))
            counts.update(["models", *covered])
    missing = [f"{op}: too few models of {key}" for key in keys if counts[key] < args.times]
    return len(keys), counts["models"], missing


def main(times=2, seed=0):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=times, help="instances for each type and each attribute")
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("ops", nargs="*")
    args = parser.parse_args()
    schemas, report = read_schemas(BUILD), Report()
    folder = scratch(f"op_random_graphs_{args.times}")
    shutil.rmtree(folder)
    sums = [write_models(op, schemas[op], args, folder) for op in args.ops or GRAPHS]
    print(f"{len(sums)} ops, {sum(n for n, _, _ in sums)} types and attributes, {sum(n for _, n, _ in sums)} models", flush=True)
    for missing in sum((missing for _, _, missing in sums), []):
        report.check(False, missing)
    for test in run_folders(folder):
        report.check(test["outcome"] == "passed", test["folder"], test.get("reason", ""))
    report.exit()


if __name__ == "__main__":
    main()
