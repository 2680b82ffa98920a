# SPDX-License-Identifier: Apache-2.0
"""Damaged and hostile models: a status and a message, never a crash, in bounded time and memory.

    test_hostile.py          every prefix of small files, 20,000 random changes, files made to do harm
"""
import glob
import os
import resource
import shutil
import subprocess
import sys
import time

import onnx
from onnx import AttributeProto, TensorProto, helper

from harness import BUILD, ROOT, TENON, Report, prepare, sanitized, scratch

SECONDS = 20
MEGABYTES = 300  # of memory for one `tenon show`
f32 = TensorProto.FLOAT


# ---- the wire format, by hand -------------------------------------------------------------------------------------


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def model_bytes(graph, opset=17, extra=b""):
    """ModelProto: ir_version, graph, opset_import."""
    return number(1, 8) + block(7, graph) + block(8, block(1, b"") + number(2, opset)) + extra


def value_info(name, dims=(2,), dtype=1):
    shape = b"".join(block(1, number(1, d)) for d in dims)
    return block(1, name) + block(2, block(1, number(1, dtype) + block(2, shape)))


def node(op, inputs, outputs, attributes=b""):
    return block(1, b"".join(block(1, i) for i in inputs) + b"".join(block(2, o) for o in outputs) + block(4, op) + attributes)


def tensor(name, dims, dtype=1, raw=None, more=b""):
    return b"".join(number(1, d) for d in dims) + number(2, dtype) + block(8, name) + (b"" if raw is None else block(9, raw)) + more


def identity(initializer=b"", extra=b"", inputs=(b"x",), nodes=None):
    graph = nodes if nodes is not None else node(b"Identity", [b"x"], [b"y"])
    graph += block(2, b"g") + b"".join(block(11, value_info(i)) for i in inputs) + block(12, value_info(b"y"))
    return graph + (block(5, initializer) if initializer else b"") + extra


def add_with(initializer):
    return model_bytes(identity(initializer, nodes=node(b"Add", [b"x", b"w"], [b"y"])))


def external(location, offset=None, length=None):
    entries = [(b"location", location)]
    entries += [(b"offset", offset)] * (offset is not None) + [(b"length", length)] * (length is not None)
    more = b"".join(block(13, block(1, key) + block(2, text)) for key, text in entries)
    return add_with(tensor(b"w", [2], more=more + number(14, 1)))


def deep(levels, field=7):
    data = b""
    for _ in range(levels):
        data = block(field, data)
    return data


# ---- files that must be refused -----------------------------------------------------------------------------------


def wire_files():
    yield "empty", b""
    yield "text", b"hello, this is no model\n"
    yield "zeros", bytes(1000)
    yield "long_varint", b"\x08" + b"\xff" * 20
    yield "length_beyond_end", b"\x3a\xff\xff\xff\xff\x0f" + b"a" * 10
    yield "length_near_2_63", b"\x3a" + varint(2**63 - 1) + b"a" * 10
    yield "nested_groups", b"\x9b\x06" * 100000
    yield "wrong_wire_type", b"\x38\x01" + model_bytes(identity())
    yield "field_zero", b"\x02\x01a" + model_bytes(identity())
    yield "deep_unknown_groups", model_bytes(identity(), extra=b"\xa3\x06" * 5000)
    bad = b"\xff\xfe"
    yield "bad_utf8", model_bytes(identity(nodes=node(b"Identity", [b"x"], [bad]), extra=block(12, value_info(bad))))


def tensor_files():
    yield "negative_dim", add_with(tensor(b"w", [-2], raw=b"\0" * 8))
    yield "product_2_32_2_32", add_with(tensor(b"w", [2**32, 2**32], raw=b""))
    yield "product_2_62_4", add_with(tensor(b"w", [2**62, 4], raw=b""))
    yield "overflow_then_zero", add_with(tensor(b"w", [2**62, 2**62, 0], raw=b""))
    yield "rank_40", add_with(tensor(b"w", [1] * 40, raw=b"\0" * 4))
    yield "raw_too_short", add_with(tensor(b"w", [100], raw=b"\0" * 8))
    yield "raw_too_long", add_with(tensor(b"w", [2], raw=b"\0" * 800))
    yield "raw_and_float_data", add_with(tensor(b"w", [2], raw=b"\0" * 8, more=block(4, b"\0" * 8)))
    yield "float_data_short", add_with(tensor(b"w", [3], more=block(4, b"\0" * 8)))
    yield "huge_without_data", add_with(tensor(b"w", [2**33]))
    yield "unknown_dtype", add_with(tensor(b"w", [2], dtype=99, raw=b"\0" * 8))
    yield "undefined_dtype", add_with(tensor(b"w", [2], dtype=0, raw=b"\0" * 8))
    yield "int8_out_of_range", add_with(tensor(b"w", [2], dtype=3, more=block(5, varint(300) + varint(1))))
    yield "bool_out_of_range", add_with(tensor(b"w", [2], dtype=9, more=block(5, varint(300) + varint(-1))))
    yield "wrong_typed_field", add_with(tensor(b"w", [2], dtype=7, more=block(4, b"\0" * 8)))


def external_files(folder):
    os.makedirs(f"{folder}/outside", exist_ok=True)
    with open(f"{folder}/outside/secret.bin", "wb") as file:
        file.write(b"\0" * 4096)
    with open(f"{folder}/short.bin", "wb") as file:
        file.write(b"\0" * 4)
    os.makedirs(f"{folder}/in/sub", exist_ok=True)
    for link, target in (("final", "../outside/secret.bin"), ("parent", "../outside")):
        if not os.path.lexists(f"{folder}/in/{link}"):
            os.symlink(target, f"{folder}/in/{link}")
    if not os.path.exists(f"{folder}/in/fifo"):
        os.mkfifo(f"{folder}/in/fifo")
    shutil.copy(f"{folder}/short.bin", f"{folder}/in/short.bin")
    names = {
        "parent_folder": b"../outside/secret.bin", "through_sub": b"sub/../../outside/secret.bin", "absolute": b"/etc/passwd",
        "no_location": b"", "link_outside": b"final", "link_folder": b"parent/secret.bin", "fifo": b"fifo", "folder": b"sub",
        "device": b"/dev/zero", "proc": b"/proc/self/maps", "backslash": b"..\\outside\\secret.bin", "missing": b"no_such.bin",
        "past_end": b"short.bin", "nul": b"short.bin\0",
    }  # fmt: skip
    for name, location in names.items():
        yield f"in/external_{name}", external(location)
    for name, offset, length in (
        ("negative_offset", b"-8", b"8"),
        ("negative_length", b"0", b"-8"),
        ("huge_offset", b"9223372036854775807", b"8"),
        ("huge_length", b"0", b"9223372036854775807"),
        ("not_a_number", b"x", b"8"),
    ):
        yield f"in/external_{name}", external(b"short.bin", offset, length)


def attribute(name, value):
    return block(5, helper.make_attribute(name, value).SerializeToString())


def reference_attribute(name):
    proto = AttributeProto(name=name, ref_attr_name="nobody", type=AttributeProto.INT)
    return block(5, proto.SerializeToString())


def graph_files():
    two = [b"x"], [b"y"]
    ring = node(b"Add", [b"x", b"b"], [b"a"]) + node(b"Neg", [b"a"], [b"b"])
    yield "cycle", model_bytes(identity(nodes=ring + node(b"Neg", [b"a"], [b"y"])))
    yield "self_loop", model_bytes(identity(nodes=node(b"Add", [b"x", b"y"], [b"y"])))
    yield "undefined_input", model_bytes(identity(nodes=node(b"Neg", [b"nobody"], [b"y"])))
    yield "defined_twice", model_bytes(identity(nodes=node(b"Neg", *two) + node(b"Abs", *two)))
    yield "defines_an_input", model_bytes(identity(nodes=node(b"Neg", [b"x"], [b"x"]) + node(b"Neg", *two)))
    yield "input_twice", model_bytes(identity(inputs=(b"x", b"x")))
    yield "too_many_inputs", model_bytes(identity(nodes=node(b"Neg", [b"x"] * 5, [b"y"])))
    yield "too_many_outputs", model_bytes(identity(nodes=node(b"Neg", [b"x"], [b"y", b"z"])))
    yield "missing_input", model_bytes(identity(nodes=node(b"Add", [b"x", b""], [b"y"])))
    yield "no_input_at_all", model_bytes(identity(nodes=node(b"Add", [], [b"y"])))
    yield "attribute_twice", model_bytes(identity(nodes=node(b"Softmax", *two, attribute("axis", 0) * 2)))
    yield "attribute_of_other_type", model_bytes(identity(nodes=node(b"Softmax", *two, attribute("axis", "zero"))))
    yield "unresolved_reference", model_bytes(identity(nodes=node(b"Softmax", *two, reference_attribute("axis"))))
    yield "unknown_op", model_bytes(identity(nodes=node(b"NoSuchOp", *two)))
    yield "opset_zero", model_bytes(identity(), opset=0)
    yield "opset_2_31", model_bytes(identity(), opset=2**31)
    yield "no_opset", number(1, 8) + block(7, identity())
    yield "output_never_made", model_bytes(identity(nodes=node(b"Neg", [b"x"], [b"z"])))
    yield "no_graph", number(1, 8)
    yield "function_recursion", functions({"F": ["F"]}, "F")
    yield "mutual_recursion", functions({"F": ["G"], "G": ["F"]}, "F")
    yield "nested_10000", nested_ifs(10000)
    yield "functions_2_60", doubling_functions(60)


def nested_ifs(depth):
    """Written by hand: protobuf's own code gives up at a depth of 100."""
    graph = node(b"Neg", [b"x"], [b"o"]) + block(12, value_info(b"o"))
    for _ in range(depth):
        branches = (b"then_branch", graph), (b"else_branch", b"")
        attributes = b"".join(block(5, block(1, name) + number(20, 5) + block(6, body)) for name, body in branches)
        graph = node(b"If", [b"c"], [b"o"], attributes) + block(12, value_info(b"o"))
    inputs = block(11, value_info(b"x")) + block(11, value_info(b"c", (), 9))
    return model_bytes(graph + node(b"Neg", [b"o"], [b"y"]) + inputs + block(12, value_info(b"y")))


def functions(calls, first):
    """A model that calls `first`; each function is a chain of calls, "Neg" being ONNX's own."""
    parts = [block(8, block(1, b"d") + number(2, 1))]
    for name, chain in calls.items():
        names = ["a", *(f"m{i}" for i in range(len(chain) - 1)), "b"]
        nodes = [helper.make_node(op, [names[i]], [names[i + 1]], domain="" if op == "Neg" else "d") for i, op in enumerate(chain)]
        opsets = [helper.make_opsetid("d", 1), helper.make_opsetid("", 17)]
        parts.append(block(25, helper.make_function("d", name, ["a"], ["b"], nodes, opsets).SerializeToString()))
    call = helper.make_node(first, ["x"], ["y"], domain="d").SerializeToString()
    return model_bytes(identity(nodes=block(1, call)), extra=b"".join(parts))


def doubling_functions(levels):
    """Inlining them all would make 2^levels nodes."""
    return functions({f"F{k}": [f"F{k - 1}"] * 2 if k else ["Neg"] * 2 for k in range(levels)}, f"F{levels - 1}")


# ---- files that may load, but must not cost -----------------------------------------------------------------------


def costly_files():
    def chain(nodes, initializer=()):
        x, y = helper.make_tensor_value_info("x", f32, [2]), helper.make_tensor_value_info("y", f32, None)
        graph = helper.make_graph(nodes, "g", [x], [y], list(initializer))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    huge = helper.make_tensor("s", TensorProto.INT64, [3], [2**20, 2**20, 2**10])
    fill, total = helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("ReduceSum", ["c"], ["r"])
    yield "constant_of_a_petabyte", chain([fill, total, helper.make_node("Add", ["x", "r"], ["y"])], [huge])
    doubling = [helper.make_node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(60)]
    yield "doubling_60_times", chain([helper.make_node("Identity", ["x"], ["v0"]), *doubling, helper.make_node("Neg", ["v60"], ["y"])])
    limits = [helper.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in (("a", 0), ("b", 2**62), ("d", 1))]
    yield "endless_range", chain([helper.make_node("Range", ["a", "b", "d"], ["r"]), helper.make_node("Cast", ["r"], ["y"], to=1)], limits)
    # What inference finds is believed, not what a file declares.
    unsqueeze = node(b"Unsqueeze", [b"x", b"a"], [b"y"])
    yield "shape_contradicts", model_bytes(identity(nodes=unsqueeze, initializer=tensor(b"a", [1], 7, bytes(8))))
    yield "unknown_fields", model_bytes(identity(), extra=number(1000, 7) * 2_000_000)
    yield "same_field_again", model_bytes(identity()) + number(1, 8) * 2_000_000
    yield "many_unpacked", add_with(tensor(b"w", [2], more=number(5, 1) * 2_000_000))


def limit_memory():
    """The sanitizers reserve terabytes: there, time alone is bounded."""
    if not sanitized():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def show(path):
    """What `tenon show` says, and whether it stayed within bounds."""
    start = time.monotonic()
    child = subprocess.Popen([TENON, "show", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit_memory)
    try:
        message = child.stderr.read(100000).decode(errors="replace")
        _, status, usage = os.wait4(child.pid, 0)
    finally:
        child.stderr.close()
    code = os.waitstatus_to_exitcode(status)
    return code, message, time.monotonic() - start, usage.ru_maxrss / 1024


def check_file(report, folder, name, data, may_load):
    path = os.path.join(folder, name + ".onnx")
    with open(path, "wb") as file:
        file.write(data)
    code, message, seconds, megabytes = show(path)
    report.check(code in ((0, 1) if may_load else (1,)), f"{name}: ends with {code}", message[:600])
    report.check(code == 0 or "tenon: " in message, f"{name}: says what is wrong", message[:300])
    report.check(seconds < SECONDS, f"{name}: took {seconds:.1f} s")
    report.check(megabytes < MEGABYTES or sanitized(), f"{name}: took {megabytes:.0f} MB")


def check_hostile(report):
    folder = scratch("hostile")
    os.makedirs(f"{folder}/in", exist_ok=True)
    for files in (wire_files(), tensor_files(), external_files(folder), graph_files()):
        for name, data in files:
            check_file(report, folder, name, data, may_load=False)
    for name, data in costly_files():
        check_file(report, folder, name, data, may_load=True)


# ---- prefixes and changes -----------------------------------------------------------------------------------------


def seeds(backend):
    """The small cases as ONNX and as text, and a model with a Loop; the small ones of the backend tests too."""
    folder, cases = scratch("hostile_seeds"), prepare("cases")
    paths = []
    for path in sorted(glob.glob(os.path.join(cases, "*", "model.onnx"))):
        text = os.path.join(folder, os.path.basename(os.path.dirname(path)) + ".tn")
        subprocess.run([TENON, "convert", "--force", path, text], check=True)
        paths += [path, text]
    if backend:
        nodes = sorted(glob.glob(os.path.join(prepare("backend"), "node", "*", "model.onnx")))
        paths += [path for path in nodes if os.path.getsize(path) < 3000]
    return paths + [os.path.join(prepare("generated"), "loop_grucell", "model.onnx")]


def fuzz(report, runs, seed, cuts, backend):
    save = os.path.join(scratch("hostile"), f"crash-{seed}")
    target = os.path.join(BUILD, "fuzz", "read_model")
    command = [target, "--runs", str(runs), "--seed", str(seed), "--save", save, *(["--cuts"] if cuts else []), *seeds(backend)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=ROOT)
    print(done.stdout.strip())
    report.check(done.returncode == 0, f"the input in {save} ends the process with {done.returncode}", done.stderr[:6000])


def main(runs=20000, n_seeds=1, first_seed=1, backend=False):
    report = Report()
    check_hostile(report)
    for seed in range(first_seed, first_seed + n_seeds):
        fuzz(report, runs, seed, seed == first_seed, backend)
    report.exit()


if __name__ == "__main__":
    main()
