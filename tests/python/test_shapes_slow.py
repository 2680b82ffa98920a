# SPDX-License-Identifier: Apache-2.0
"""Shapes of every value of every test model, beside what ONNX's own inference finds (strict off, data propagation on):
never less informative, never in contradiction, and never in contradiction with a run.

    test_shapes_slow.py [FOLDER...]
"""
import collections
import glob
import json
import os
import re
import sys

import onnx
from onnx import TensorProto, numpy_helper, shape_inference

import tenonrt_env
from harness import ROOT, SKIPPED, Report, prepare, tenon

# ONNX's numbers of element types by Tenon's names.
DTYPES = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "str": 8, "bool": 9, "f16": 10, "f64": 11, "u32": 12,
    "u64": 13, "c64": 14, "c128": 15, "bf16": 16, "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20, "u4": 21,
    "i4": 22, "f4e2m1": 23, "f8e8m0": 24, "u2": 25, "i2": 26,
}  # fmt: skip


# ---- what ONNX knows ------------------------------------------------------------------------------------------------


def graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
                yield from graphs(body)


def dims(info, symbols):
    """Sizes: numbers, symbols, None. A symbol that no input has is only a way to say that the size is not known."""
    if not info.HasField("shape"):
        return None
    found = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in info.shape.dim]
    return [size if size in symbols or isinstance(size, int) and size >= 0 else None for size in found]


def impossible(value):
    return any(dim.HasField("dim_value") and dim.dim_value < 0 for dim in value.type.tensor_type.shape.dim)


def left_out(model, inferred):
    """Names of what ONNX does not infer: outputs of nested graphs, which it takes as the file declares them; elements of
    sequences, and what follows from them, for which it takes the shape of the first, or the declared one; results of nodes
    that cannot be."""
    bodies = list(graphs(model.graph))
    out = {output.name for body in bodies[1:] for output in body.output}
    wrong = {value.name for body in graphs(inferred.graph) for value in body.value_info if impossible(value)}
    for body in bodies:
        for node in body.node:
            if node.op_type == "SequenceAt" or out.intersection(node.input) or wrong.intersection(node.output):
                out.update(node.output)
    return out


def onnx_types(model, path):
    """name -> (element type, sizes or None) of the tensors whose name stands in one graph only."""
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except Exception as error:
        print(f"{path}: ONNX's inference gives up: {error}")
        inferred = model
    symbols = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim} - {"", "?"}
    types, seen = {}, set()
    for graph in graphs(inferred.graph):
        for value in [*graph.input, *graph.value_info, *graph.output]:
            where = (value.name, id(graph))
            if value.type.HasField("tensor_type") and where not in seen:
                tensor = value.type.tensor_type
                types[value.name] = None if value.name in types else (tensor.elem_type, dims(tensor, symbols))
            seen.add(where)
    skipped = left_out(model, inferred)
    return {name: found for name, found in types.items() if found and name not in skipped}


# ---- what Tenon knows -----------------------------------------------------------------------------------------------

SIZES = re.compile(r"^[?\w]+\[(.*)\]$")
SIZE = re.compile(r'(?:"(?:\\.|[^"\\])*"|\((?:[^()]|\([^()]*\))*\)|[^,"()])+')


def sizes(text):
    """The sizes in `f32[batch,3,(h + 3)/8]`: numbers, expressions as text, None; None for an unknown rank."""
    match = SIZES.match(text)
    if not match or match.group(1) == "*":
        return None
    return [int(size) if size.isdigit() else None if size == "?" else size for size in SIZE.findall(match.group(1))]


def tenon_types(path, report):
    """name -> the JSON of `tenon show --shapes` of tensors, with `sizes`."""
    done = tenon("show", path, "--shapes", "--json")
    if not report.check(done.returncode == 0, f"{path}: tenon show --shapes", done.stderr):
        return {}
    values = {value["name"]: value for value in json.loads(done.stdout)}
    for value in values.values():
        value["sizes"] = sizes(value["type"])
    return values


NAME = re.compile(r'"((?:\\.|[^"\\])*)"|[A-Za-z_]\w*(?:\.\w+)*')
FUNCTIONS = {"ceildiv": lambda a, b: -(-a // b), "mod": lambda a, b: a % b, "min": min, "max": max}


def evaluate(expression, bound):
    """An expression over sizes, None where one of them is not known."""
    unknown = []

    def number(match):
        if match.group() in FUNCTIONS:
            return match.group()
        if match.group() not in bound:
            unknown.append(match.group())
        return str(bound.get(match.group()))

    python = NAME.sub(number, expression).replace("/", "//")
    return None if unknown else eval(python, {"__builtins__": {}}, FUNCTIONS)


# ---- comparing ------------------------------------------------------------------------------------------------------


def compare(theirs, ours):
    """What is wrong with Tenon's answer, or None."""
    dtype, shape = theirs
    if dtype != TensorProto.UNDEFINED and dtype != DTYPES.get(ours["dtype"]):
        return f"element type {ours['dtype']}, ONNX has {TensorProto.DataType.Name(dtype)}"
    found = ours["sizes"]
    if shape is None:
        return None
    if found is None or len(found) != len(shape):
        return f"{ours['type']}, ONNX has {shape}"
    for want, got in zip(shape, found):
        if want is not None and got is None:
            return f"{ours['type']} does not know what ONNX does: {shape}"
        if isinstance(want, int) and isinstance(got, int) and got != want:
            return f"{ours['type']}, ONNX has {shape}"
        if isinstance(want, int) and not isinstance(got, int):
            return f"{ours['type']} is an expression where ONNX has a number: {shape}"
    return None


def bind(value, actual, bound):
    """Symbols that stand alone get the sizes of this tensor. What contradicts, or None."""
    if value["sizes"] is None:
        return None
    if len(value["sizes"]) != len(actual):
        return f"{value['type']}, but a run gives {actual}"
    for size, got in zip(value["sizes"], actual):
        if isinstance(size, str) and NAME.fullmatch(size):
            bound.setdefault(size, got)
        known = size if isinstance(size, int) or size is None else evaluate(size, bound)
        if known is not None and known != got:
            return f"{value['type']} with {bound}, but a run gives {actual}"
    return None


# ---- runs -----------------------------------------------------------------------------------------------------------


def read_input(path, info):
    with open(path, "rb") as file:
        data = file.read()
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(TensorProto.FromString(data))


def run(folder, model, ours):
    """name -> the tensor that a run on recorded inputs gives, of the inputs and of what the nodes of the outermost graph make."""
    import tenonrt

    given = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in given]
    feed = {}
    for i, info in enumerate(inputs):
        path = os.path.join(folder, "test_data_set_0", f"input_{i}.pb")
        if os.path.exists(path):
            feed[info.name] = read_input(path, info)
    made = {name for node in model.graph.node for name in node.output}
    names = [name for name, value in ours.items() if name and name in made and value["op"] != "Const" and "shape" in value]
    session = tenonrt.InferenceSession(os.path.join(folder, "model.onnx"))
    answers = dict(zip(names, session.run(names, feed))) if names else {}
    return {**{name: value for name, value in feed.items() if hasattr(value, "shape")}, **answers}


def check_run(report, folder, model, ours, counts):
    try:
        answers = run(folder, model, ours)
    except Exception as error:
        counts["models not run"] += 1
        print(f"{folder}: not run: {error}")
        return
    bound = {}
    for name, answer in answers.items():  # inputs first: they tell what symbols stand for
        counts["values run"] += 1
        wrong = name in ours and bind(ours[name], list(answer.shape), bound)
        report.check(not wrong, f"{folder}: {name}", wrong)


def check_model(report, folder, counts):
    path = os.path.join(folder, "model.onnx")
    model = onnx.load(path)
    ours = tenon_types(path, report)
    counts["models"] += 1
    for name, theirs in onnx_types(model, path).items():
        if name not in ours:
            continue
        counts["values"] += 1
        wrong = compare(theirs, ours[name])
        report.check(not wrong, f"{path}: {name} ({ours[name]['op']})", wrong)
    check_run(report, folder, model, ours, counts)


# ---- all models -----------------------------------------------------------------------------------------------------

GROUPS = ("cases", "backend", "generated", "quantised", "real")


def may_be_refused():
    """Backend tests that Tenon does not read."""
    with open(os.path.join(ROOT, "tests", "data", "onnx_backend_expected_failures.txt"), encoding="utf-8") as file:
        return {line.strip() for line in file if line.strip() and not line.startswith("#")}


def folders_of(groups):
    refused = may_be_refused()
    for group in groups:
        for path in sorted(glob.glob(os.path.join(group, "**", "model.onnx"), recursive=True)):
            folder = os.path.dirname(path)
            if os.path.relpath(folder, group) not in refused and not os.path.exists(os.path.join(folder, "expect_error")):
                yield folder


def main():
    tenonrt_env.enter()
    report, counts = Report(), collections.Counter()
    groups = [os.path.abspath(folder) for folder in sys.argv[1:]] or [prepare(group) for group in GROUPS]
    for folder in folders_of(group for group in groups if group):
        check_model(report, folder, counts)
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    if None in groups and not report.wrong:
        sys.exit(SKIPPED)
    report.exit()


if __name__ == "__main__":
    main()
