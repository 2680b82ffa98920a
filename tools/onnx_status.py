#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the ONNX project's backend tests on Tenon, onnxruntime, OpenVINO and ONNX's reference evaluator, and writes
docs/onnx-status.md.

    tools/onnx_status.py [--build FOLDER] [--into FILE]

The engines are installed into build/peers, an environment of their own (a network is needed the first time), and run
each test in a process that may crash or hang without harm. All are held to the rule of the ONNX project's own runner.
Exit status 75: they could not be installed.
"""
import argparse
import collections
import fcntl
import glob
import json
import os
import select
import subprocess
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = os.path.join(ROOT, "build", "peers")
PACKAGES = [
    "numpy==2.4.6", "ml_dtypes==0.6.0", "pillow==13.0.0", "onnx==1.23.2", "onnxruntime==1.32.0", "openvino==2026.4.1",
]  # fmt: skip
ENGINES = {"tenon": "Tenon", "onnxruntime": "onnxruntime", "openvino": "OpenVINO", "reference": "onnx reference"}
SECONDS = 120  # that one test may take
NO_DOWNLOAD = 75


# ---- one engine, in a process of its own ----------------------------------------------------------------------------


def run_tenon(path, model, feed):
    import tenonrt

    return tenonrt.InferenceSession(path).run(None, feed)


def run_onnxruntime(path, model, feed):
    import onnxruntime
    from onnx import helper

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    values = {}
    for name, value in feed.items():
        if getattr(value, "dtype", None) is not None and value.dtype.kind == "V":  # a type that numpy lacks
            bits = value.view(f"u{value.dtype.itemsize}")
            code = helper.np_dtype_to_tensor_dtype(value.dtype)
            values[name] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, code)
    if values:
        values.update({k: onnxruntime.OrtValue.ortvalue_from_numpy(v) for k, v in feed.items() if k not in values})
        return [value.numpy() for value in session.run_with_ort_values(None, values)]
    return session.run(None, feed)


def run_openvino(path, model, feed):
    import openvino

    # Without these it computes in bfloat16 where the processor can.
    options = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}
    compiled = openvino.Core().compile_model(path, "CPU", options)
    answer = compiled(feed)
    return [answer[output] for output in compiled.outputs]


def run_reference(path, model, feed):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, feed)


def read_value(path, info):
    import onnx
    from onnx import numpy_helper

    with open(path, "rb") as file:
        data = file.read()
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    if kind == "map_type":
        return numpy_helper.to_dict(onnx.MapProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data)).copy()  # some engines want to be able to write there


def compare(want, got, rtol, atol):
    """The rule of onnx.backend.test.runner."""
    import numpy as np

    if want is None or got is None:
        assert want is None and got is None, "one is missing"
    elif isinstance(want, dict):
        assert want == got, "the maps differ"
    elif isinstance(want, (list, tuple)):
        assert len(want) == len(got), f"{len(got)} elements, not {len(want)}"
        for pair in zip(want, got):
            compare(*pair, rtol, atol)
    elif want.dtype.kind in "OSU":
        assert want.shape == np.shape(got) and (want == got).all(), "the strings differ"
    else:
        if want.dtype.kind == "V" and np.asarray(got).dtype == f"u{want.dtype.itemsize}":
            got = np.asarray(got).view(want.dtype)  # bits of a type that numpy lacks
        assert np.asarray(got).dtype == want.dtype, f"{np.asarray(got).dtype}, not {want.dtype}"
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def run_test(engine, folder):
    import onnx

    path = os.path.join(folder, "model.onnx")
    model = onnx.load(path)
    given = {tensor.name for tensor in model.graph.initializer}
    infos = [value for value in model.graph.input if value.name not in given]
    with open(os.path.join(folder, "data.json"), encoding="utf-8") as file:
        tolerance = json.load(file)
    for data in sorted(glob.glob(os.path.join(folder, "test_data_set_*"))):
        files = [(info, os.path.join(data, f"input_{i}.pb")) for i, info in enumerate(infos)]
        feed = {info.name: read_value(file, info) for info, file in files if os.path.exists(file)}
        got = globals()["run_" + engine](path, model, feed)
        want = [read_value(os.path.join(data, f"output_{i}.pb"), info) for i, info in enumerate(model.graph.output)]
        compare(want, list(got), tolerance["rtol"], tolerance["atol"])


def serve(engine):
    """Answers folders on the standard input, one a line."""
    import warnings

    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # engines print what they like
    for line in sys.stdin:
        try:
            run_test(engine, line.rstrip("\n"))
            reason = ""
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}".strip() or "failed"
        answers.write(json.dumps(reason) + "\n")
        answers.flush()


# ---- all engines ----------------------------------------------------------------------------------------------------


def install():
    """Python with the engines. Tests of several builds may ask for it at once."""
    os.makedirs(os.path.dirname(PEERS), exist_ok=True)
    with open(PEERS + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return install_alone()


def install_alone():
    python = os.path.join(PEERS, "bin", "python")
    stamp = os.path.join(PEERS, "packages")
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == "\n".join(PACKAGES):
        return python
    print("installing the engines into build/peers", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", PEERS], check=True)
    if subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES]).returncode:
        sys.exit(NO_DOWNLOAD)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write("\n".join(PACKAGES))
    return python


class Worker:
    """One engine's process, begun anew when it ends or hangs."""

    def __init__(self, python, engine, build):
        self.command = [python, os.path.abspath(__file__), "--serve", engine]
        self.environment = dict(os.environ, PYTHONPATH=os.path.join(build, "python"), ORT_LOGGING_LEVEL="4")
        self.process = None

    def ask(self, folder):
        """"" or why the test fails."""
        if not self.process:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True, env=self.environment)  # fmt: skip
        self.process.stdin.write(folder + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.close()
        return "crashes" if ready else f"takes more than {SECONDS} seconds"

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def run_engine(python, engine, build, folders):
    worker = Worker(python, engine, build)
    reasons = {}
    for n, folder in enumerate(folders, 1):
        reasons[folder] = worker.ask(folder)
        if sys.stdout.isatty():
            print(f"\r{engine}: {n} of {len(folders)}", end="", flush=True)
    worker.close()
    print(f"\r{ENGINES[engine]}: {sum(not reason for reason in reasons.values())} of {len(folders)} pass", flush=True)
    return reasons


# ---- the page -------------------------------------------------------------------------------------------------------


def group_of(folder):
    """(kind of test, domain of its ops)"""
    import onnx

    model = onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False)
    domains = {node.domain for node in model.graph.node} - {"", "ai.onnx"}
    return os.path.basename(os.path.dirname(folder)), min(domains) if domains else "ai.onnx"


def schema_text(op, begins, domain=""):
    """The paragraph of an op's specification, or an attribute's text, that begins so."""
    from onnx import defs

    schema = defs.get_schema(op, domain=domain)
    texts = schema.doc.split("\n\n") + [attribute.description for attribute in schema.attributes.values()]
    texts += [sentence + "." for text in texts for sentence in text.split(". ")]
    found = [" ".join(text.split()) for text in texts if " ".join(text.split()).startswith(begins)]
    assert found, f"the specification of {op} no longer says \"{begins}\""
    return min(found, key=len)


# How the names of tests begin; op and domain and how the sentence of its specification begins, or None; what follows.
REASONS = [
    ("test_bernoulli", "Bernoulli", "", "This operator is non-deterministic",
     "The test wants the numbers of numpy's generator. (Tenon's own are the same on every machine; their distribution is "
     "tested.)"),
    ("test_training_dropout", "Dropout", "", "(Optional) Seed to the random generator",
     "Nothing says which generator: the test wants the mask that numpy's makes of the seed. The equation "
     "`output = scale * data * mask` holds, and so does the ratio."),
    ("test_dft_inverse", None, None, None,
     "The outputs that the test wants are float32's rounding errors, 1.9e-7, where the transform of a transform is 0. Tenon "
     "computes in float64 and finds 1e-15; the test allows 1e-7 beside a thousandth of its own error. By the rule of `tenon "
     "test`, which measures errors by the largest element, it passes."),
]  # fmt: skip


def explain(name, reason):
    for begins, op, domain, sentence, why in REASONS:
        if name.startswith(begins):
            return f"{op}'s specification: “{schema_text(op, sentence, domain)}” {why}" if op else why
    return f"Not understood yet: {reason.splitlines()[0] if reason else '?'}"


def table(results, groups):
    lines = ["| tests | domain | cases | " + " | ".join(ENGINES.values()) + " |", "|---|---|" + "--:|" * (1 + len(ENGINES))]
    rows = collections.defaultdict(list)
    for folder, group in groups.items():
        rows[group].append(folder)
    for (kind, domain), folders in [*sorted(rows.items()), (("all", ""), list(groups))]:
        passed = [sum(not results[engine][folder] for folder in folders) for engine in ENGINES]
        lines.append(f"| {kind} | {domain} | {len(folders)} | " + " | ".join(map(str, passed)) + " |")
    return "\n".join(lines)


def failures(reasons):
    by_text = collections.defaultdict(list)
    for folder, reason in reasons.items():
        if reason:
            name = os.path.basename(folder)
            by_text[explain(name, reason)].append(f"`{name}`")
    return "\n\n".join(
        textwrap.fill(f"* {', '.join(sorted(names))}", 118, subsequent_indent="  ", break_on_hyphens=False)
        + "\n\n" + textwrap.fill(text, 118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        for text, names in sorted(by_text.items())
    )  # fmt: skip


def page(results, groups):
    versions = ", ".join(package.replace("==", " ") for package in PACKAGES[3:])
    return f"""# Where Tenon stands with ONNX

The ONNX project's own backend tests, run by `tools/onnx_status.py`, which writes this page: models with inputs and the
outputs that are right. *node* tests are one op each, some of them again as the function that ONNX defines the op by;
*light* are classifiers with constant weights, *pytorch* what PyTorch's exporter once made of single layers and ops. Each
engine runs each test through its Python interface, in a process that may crash; the answers are held to the project's own
rule and tolerances (element by element, 1e-3 relative unless a test says otherwise, and of the type that the model
declares). What an engine leaves out says what it is for, not how good it is: onnxruntime, for one, has few kernels for
bfloat16 on processors, and its Python interface no arrays of 4-bit and 8-bit floats.

With {versions}:

{table(results, groups)}

## What Tenon does not pass

{failures(results["tenon"])}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="FOLDER", help="where Tenon is built (build)")
    parser.add_argument("--into", default=os.path.join(ROOT, "docs", "onnx-status.md"), metavar="FILE")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve)
        return
    sys.path.insert(0, os.path.join(ROOT, "tools"))
    import prepare_test_models

    suite = prepare_test_models.prepare("backend", os.path.join(ROOT, "build", "models"))
    folders = sorted(os.path.dirname(path) for path in glob.glob(os.path.join(suite, "*", "*", "model.onnx")))
    python = install()
    groups = {folder: group_of(folder) for folder in folders}
    results = {engine: run_engine(python, engine, os.path.abspath(args.build), folders) for engine in ENGINES}
    with open(args.into, "w", encoding="utf-8") as file:
        file.write(page(results, groups))
    print(f"{os.path.relpath(args.into)} is written")


if __name__ == "__main__":
    main()
