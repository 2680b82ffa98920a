# SPDX-License-Identifier: Apache-2.0
"""Expands the rows `Op key=value ... random N (dtypes ...) == reference` of tests/ops/*.case: N random instances each,
answered by ONNX's reference evaluator, written as literal rows and run by the C harness, unit/test_op_cases.

    test_op_random.py [--times K] [--seed S] [OP...]
"""
import argparse
import collections
import glob
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from harness import BUILD, ROOT, scratch
from op_generators import GENERATORS, NUMPY, ORACLES, STORED, TOLERANCES, Random, round_to

ROW = re.compile(r"^([\w.]+)((?:\s+\w+=(?:\[[^\]]*\]|\S+))*)\s+random\s+(\d+)\s*(?:\(dtypes\s+([\w\s]*)\))?\s*==\s*reference")
OPSET = 25
TYPE_NUMBERS = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "u32": 12, "u64": 13,
    "bf16": 16,
}  # fmt: skip

Row = collections.namedtuple("Row", "file line op attributes n dtypes")


# ---- reading rows ---------------------------------------------------------------------------------------------------


def parse_value(text):
    if text.startswith("["):
        return [parse_value(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    if text in TYPE_NUMBERS:
        return TYPE_NUMBERS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text.strip('"')


def read_rows():
    rows, broken = [], []
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", "ops", "*.case"))):
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                line = re.sub(r"\s+#.*|^#.*", "", line).strip()
                if not re.search(r"\srandom\s+\d", line):
                    continue
                match = ROW.match(line)
                name = f"{os.path.relpath(path, ROOT)}:{number}"
                if not match:
                    broken.append(f"{name}: not understood: {line}")
                    continue
                op, attributes, n, dtypes = match.groups()
                attributes = {k: parse_value(v) for k, v in re.findall(r"(\w+)=(\[[^\]]*\]|\S+)", attributes)}
                rows.append(Row(path, number, op, attributes, int(n), (dtypes or "f32").split()))
                if op not in GENERATORS:
                    broken.append(f"{name}: tests/python/op_generators.py has no generator for {op}")
    return rows, broken


# ---- answers --------------------------------------------------------------------------------------------------------


def onnx_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def n_results(op, operands, attributes):
    if op == "Split":
        return attributes.get("num_outputs") or len(operands[1])
    return {"TopK": 2, "DynamicQuantizeLinear": 3}.get(op, 1)


def reference(op, operands, attributes):
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(operands)]
    results = [f"y{i}" for i in range(n_results(op, operands, attributes))]
    node = helper.make_node(op, names, results, **attributes)
    infos = [helper.make_tensor_value_info(n, onnx_type(a), a.shape) for n, a in zip(names, operands) if n]
    outputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in results]
    graph = helper.make_graph([node], "g", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=11)
    feeds = {n: a for n, a in zip(names, operands) if n}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, feeds)]


# ---- writing rows ---------------------------------------------------------------------------------------------------


def type_name(array, dtype):
    """f16 and bf16 are held as float32 until they are written."""
    if dtype in STORED and array.dtype == np.float32:
        return dtype
    return next(name for name, numpy in NUMPY.items() if np.dtype(numpy) == array.dtype)


def spell(value):
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        value = float(value)
        return value.hex() if np.isfinite(value) else str(value)
    return str(int(value))


def tensor_row(array, name):
    dims = ",".join(map(str, array.shape))
    return f"{name}[{dims}] = [{', '.join(spell(v) for v in array.ravel())}]" if array.size and array.ndim else (
        f"{name}[{dims}]" + (f" = {spell(array.ravel()[0])}" if array.size else ""))  # fmt: skip


def attribute_row(name, value):
    if isinstance(value, list):
        return f"{name}=[{','.join(map(str, value))}]"
    return f"{name}={value}"


def make_row(op, dtype, rng, attributes):
    r = Random(rng, dtype, attributes)
    operands = GENERATORS[op](r, op)
    while operands and operands[-1] is None:
        operands.pop()
    operands = [a if a is None else np.asarray(a) for a in operands]
    answers = ORACLES.get(op, reference)(op, operands, r.attributes)
    result_dtype = dtype
    if op == "Cast":
        result_dtype = next(name for name, number in TYPE_NUMBERS.items() if number == r.attributes["to"])
    texts = [op] + [attribute_row(*item) for item in r.attributes.items()]
    texts += ["_" if a is None else tensor_row(a, type_name(a, dtype)) for a in operands]
    results = []
    for answer in answers:
        if result_dtype in STORED and answer.dtype == np.float32:
            answer = round_to(answer, result_dtype)
        results.append(tensor_row(answer, type_name(answer, result_dtype)))
    tolerance = f" ~ {TOLERANCES[op]}" if op in TOLERANCES and dtype not in STORED else ""
    return " ".join(texts) + " -> " + "  ".join(results) + tolerance


def expand(rows, times, seed, folder):
    files, refused = [], collections.Counter()
    for path in sorted({row.file for row in rows}):
        target = os.path.join(folder, os.path.basename(path))
        files.append(target)
        with open(target, "w", encoding="utf-8") as file:
            for row in (row for row in rows if row.file == path):
                rng = np.random.default_rng([seed, row.line])
                file.write(f"# {os.path.relpath(row.file, ROOT)}:{row.line}\n")
                for k in range(row.n * times):
                    dtype = row.dtypes[k % len(row.dtypes)]
                    try:
                        file.write(make_row(row.op, dtype, rng, row.attributes) + "\n")
                    except Exception as error:  # the reference has faults of its own
                        refused[f"{row.op}: {type(error).__name__}: {error}"[:150]] += 1
    for what, n in sorted(refused.items()):
        print(f"{n} without an answer of the reference: {what}")
    return files


def main(times=1, seed=0):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=times, help="instances for each that a row asks for")
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("ops", nargs="*")
    args = parser.parse_args()
    rows, broken = read_rows()
    if args.ops:
        rows = [row for row in rows if row.op in args.ops]
    for line in broken:
        print(line)
    known = [row for row in rows if row.op in GENERATORS]
    files = expand(known, args.times, args.seed, scratch(f"op_random_{args.times}"))
    done = subprocess.run([os.path.join(BUILD, "tests", "unit", "test_op_cases"), *files], cwd=ROOT)
    sys.exit(1 if broken or done.returncode else 0)


if __name__ == "__main__":
    main()
