#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many nodes are left of models after Tenon's default list, and after onnxsim, onnxslim and onnxruntime's level 2.

Exit status 1 when Tenon leaves more than the best of the others anywhere. `tenon` is its default list, which is what is held
against the others; `fused` is what fuse-loops makes of that.

What counts: all nodes but constants, those of nested graphs too. A fused node, on either side, counts one for each heavy op
in it (convolutions, products, reductions, normalisations ...) and one for each sixteen, begun, of its other ops. tn.Fused
says itself what is in it; of the others FUSED says it, FusedConv being a Conv and an activation, which is 2, as they
are for Tenon. Ops of ONNX's own domain count one, Attention apart, whoever wrote them.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NEEDED = {"onnx": "onnx", "onnxsim": "onnxsim", "onnxslim": "onnxslim", "onnxruntime": "onnxruntime"}
PEERS = ("onnxsim", "onnxslim", "onnxruntime")
SECONDS = 300
SIXTEEN = 16

# Ops that are several: how many heavy ones, how many others.
FUSED = {
    "Attention": (3, 6), "com.microsoft.Attention": (4, 10), "com.microsoft.BiasGelu": (0, 2), "com.microsoft.BiasSoftmax": (1, 1),
    "com.microsoft.DynamicQuantizeMatMul": (2, 3), "com.microsoft.EmbedLayerNormalization": (4, 2), "com.microsoft.FusedConv": (1, 1),
    "com.microsoft.FusedGemm": (1, 1), "com.microsoft.FusedMatMul": (1, 1), "com.microsoft.GroupQueryAttention": (3, 12),
    "com.microsoft.MatMulIntegerToFloat": (1, 3), "com.microsoft.MultiHeadAttention": (3, 8), "com.microsoft.QAttention": (5, 12),
    "com.microsoft.QGemm": (1, 4), "com.microsoft.QLinearAveragePool": (1, 2), "com.microsoft.QLinearGlobalAveragePool": (1, 2),
    "com.microsoft.QLinearReduceMean": (1, 2), "com.microsoft.QLinearSoftmax": (1, 2), "com.microsoft.SkipLayerNormalization": (1, 2),
    "com.microsoft.SkipSimplifiedLayerNormalization": (1, 2),
}  # fmt: skip
HEAVY = frozenset(
    """AveragePool CausalConvWithState Conv ConvInteger ConvTranspose DeformConv Einsum Gemm GlobalAveragePool GlobalLpPool
    GlobalMaxPool GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization LogSoftmax LpNormalization LpPool
    MatMul MatMulInteger MaxPool MeanVarianceNormalization QLinearConv QLinearMatMul RMSNormalization ReduceL1 ReduceL2
    ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
    SimplifiedLayerNormalization Softmax""".split()
)


def of_parts(heavy, light):
    return heavy + -(-light // SIXTEEN)


def parts_of(op):
    if op in FUSED:
        return FUSED[op]
    return (1, 0) if op in HEAVY or op.removeprefix("com.microsoft.") in HEAVY else (0, 1)


def weight(op):
    return of_parts(*FUSED[op]) if op in FUSED else 1


class Count:
    """Nodes, and how many of each op."""

    def __init__(self):
        self.nodes, self.ops = 0, {}

    def add(self, op, nodes):
        self.nodes += nodes
        self.ops[op] = self.ops.get(op, 0) + 1


# ---- Tenon ----


def count_text(text):
    """Of a graph in Tenon's language."""
    count, depth, fused = Count(), 0, None
    for line in text.split("\n"):
        line = re.sub(r'"(?:\\.|[^"\\])*"', "", line)
        node = re.match(r"\s*(?:%|_)[^=]*=\s*([A-Za-z_][\w.]*)\(", line)
        if node and fused:
            heavy, light = parts_of(node.group(1))
            fused[1] += heavy
            fused[2] += light
        elif node and node.group(1) == "tn.Fused":
            fused = [depth, 0, 0]
        elif node:
            count.add(node.group(1), weight(node.group(1)))
        depth += line.count("{") - line.count("}")
        if fused and depth == fused[0]:
            count.add("tn.Fused", of_parts(fused[1], fused[2]))
            fused = None
    return count


def count_tenon(tenon, model, *options):
    done = subprocess.run([tenon, "opt", model, "--text", *options], capture_output=True, text=True, errors="replace", timeout=SECONDS)
    if done.returncode != 0:
        sys.exit(f"tenon opt {model} failed: {done.stderr.strip()}")
    return count_text(done.stdout)


# ---- the others, each in a process of its own ----


def simplify(peer, model, into):
    import onnx

    if peer == "onnxruntime":
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = into
        options.log_severity_level = 3
        ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return
    if peer == "onnxsim":
        import onnxsim

        result, _ = onnxsim.simplify(onnx.load(model))
    else:
        import onnxslim

        result = onnxslim.slim(model)
    onnx.save(result, into)


def count_graph(count, graph):
    for node in graph.node:
        if node.op_type != "Constant":
            op = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
            count.add(op, weight(op))
        for attribute in node.attribute:
            for nested in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                count_graph(count, nested)


def count_file(path):
    import onnx

    model, count = onnx.load(path, load_external_data=False), Count()
    count_graph(count, model.graph)
    return count


def count_peer(peer, model):
    """None where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        into = os.path.join(folder, "simplified.onnx")
        command = [sys.executable, __file__, "--as", peer, model, "--into", into]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return None
        return count_file(into) if done.returncode == 0 and os.path.exists(into) else None


# ---- the table ----


def missing():
    import importlib.util

    return [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]


def find_models(paths):
    for path in paths:
        if path.endswith((".onnx", ".tn")):
            yield path
        else:
            found = sorted(str(p) for p in pathlib.Path(path).rglob("model.onnx"))
            yield from (p for p in found if not {"backend", "cases"} & set(pathlib.Path(p).parts))


def measure(args, model):
    counts = {"before": count_file(model), "tenon": count_tenon(args.tenon, model)}
    counts["fused"] = count_tenon(args.tenon, model, "--add", "fuse-loops(any=true)")
    counts.update((peer, count_peer(peer, model)) for peer in PEERS)
    least = min(counts[peer].nodes for peer in PEERS if counts[peer])
    return {
        "model": os.path.basename(os.path.dirname(os.path.abspath(model))),
        "nodes": {name: c.nodes if c else None for name, c in counts.items()},
        "ops": {name: dict(sorted(c.ops.items())) if c else None for name, c in counts.items()},
        "least": least,
        "more": counts["tenon"].nodes - least,
    }


COLUMNS = ("before", "fused", "tenon", *PEERS)


def print_row(row):
    counts = " ".join(f"{'failed' if row['nodes'][c] is None else row['nodes'][c]:>{max(len(c), 6)}}" for c in COLUMNS)
    more = f"{row['more']:+}" if row["more"] > 0 else ""
    print(f"{row['model'][:26]:26} {counts} {more:>5}", flush=True)


def print_ops(row):
    """Of which ops Tenon has more than the best of the others."""
    best = min((p for p in PEERS if row["ops"][p]), key=lambda p: row["nodes"][p])
    ours, theirs = row["ops"]["tenon"], row["ops"][best]
    for op in sorted({*ours, *theirs}):
        if ours.get(op, 0) != theirs.get(op, 0):
            print(f"    {op}: {ours.get(op, 0)}, {best} {theirs.get(op, 0)}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["build/models"], help="model files, or folders to search")
    parser.add_argument("--tenon", default="build/tenon")
    parser.add_argument("--ops", action="store_true", help="say of which ops there are more or fewer where Tenon leaves more")
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument("--as", dest="peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--into", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = arguments()
    lacking = missing()
    if lacking:
        sys.exit(f"these packages are not there: {', '.join(lacking)}. Run it in an environment that has them:\n"
                 f"  python3 -m venv build/simplifiers\n  build/simplifiers/bin/pip install {' '.join(NEEDED.values())}\n"
                 "  build/simplifiers/bin/python bench/simplify.py")  # fmt: skip
    if args.peer:
        simplify(args.peer, args.models[0], args.into)
        return 0
    rows = []
    if not args.json:
        print(f"{'model':26} {' '.join(f'{c:>{max(len(c), 6)}}' for c in COLUMNS)}  more")
    for model in find_models(args.models):
        rows.append(measure(args, model))
        if not args.json:
            print_row(rows[-1])
            if args.ops and rows[-1]["more"] > 0:
                print_ops(rows[-1])
    if not rows:
        sys.exit(f"there is no model in {', '.join(args.models)}")
    worse = sum(row["more"] > 0 for row in rows)
    if args.json:
        print(json.dumps({"models": rows, "worse": worse}, indent=2))
    else:
        print(f"{len(rows)} models; Tenon leaves more than the best of the others in {worse}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
