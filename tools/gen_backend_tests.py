#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the ONNX project's backend tests, out of the onnx package, as folders that `tenon test` runs.

    tools/gen_backend_tests.py FOLDER

FOLDER/KIND/NAME/{model.onnx,data.json,test_data_set_N/{input,output}_N.pb}; the kinds are node, simple,
pytorch-converted, pytorch-operator and light. data.json holds the tolerances of the project's own runner.
"""
import glob
import json
import os
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests

RTOL, ATOL = 1e-3, 1e-7
HALF_RTOL = 2e-2
HALF = {TensorProto.FLOAT16, TensorProto.BFLOAT16}


def serialise(value, info):
    kind = info.type.WhichOneof("value")
    if isinstance(value, TensorProto):
        proto = value
    elif kind == "map_type":
        proto = numpy_helper.from_dict(value, info.name)
    elif kind == "sequence_type":
        proto = numpy_helper.from_list(value, info.name)
    elif kind == "optional_type":
        proto = numpy_helper.from_optional(value, info.name)
    else:
        proto = numpy_helper.from_array(np.asarray(value), info.name)
    return proto.SerializeToString()


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def write_tolerances(folder, model, rtol, atol):
    outputs = {output.type.tensor_type.elem_type for output in model.graph.output}
    if outputs & HALF:
        rtol = max(rtol, HALF_RTOL)
    write(os.path.join(folder, "data.json"), json.dumps({"rtol": rtol, "atol": atol}).encode())


def write_node_test(folder, case):
    graph = case.model.graph
    write(os.path.join(folder, "model.onnx"), case.model.SerializeToString(deterministic=True))
    for i, (inputs, outputs) in enumerate(case.data_sets):
        for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for j, (value, info) in enumerate(zip(values, infos)):
                write(os.path.join(folder, f"test_data_set_{i}", f"{kind}_{j}.pb"), serialise(value, info))
    write_tolerances(folder, case.model, case.rtol, case.atol)


def copy_test(folder, case):
    shutil.copytree(case.model_dir, folder)
    write_tolerances(folder, onnx.load(os.path.join(folder, "model.onnx")), case.rtol, case.atol)


def write_light_test(folder, path):
    """A big model whose weights are constants; the runner's input is a ramp from 0 to 1."""
    model = onnx.load(path)
    given = {tensor.name for tensor in model.graph.initializer}
    (info,) = [value for value in model.graph.input if value.name not in given]
    shape = [d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim]
    count = int(np.prod(shape))
    ramp = (np.arange(count).reshape(shape) / count).astype(np.float32)
    os.makedirs(folder)
    shutil.copy(path, os.path.join(folder, "model.onnx"))
    write(os.path.join(folder, "test_data_set_0", "input_0.pb"), serialise(ramp, info))
    shutil.copy(path.replace(".onnx", "_output_0.pb"), os.path.join(folder, "test_data_set_0", "output_0.pb"))
    write_tolerances(folder, model, RTOL, ATOL)


def write_all(into):
    warnings.simplefilter("ignore", RuntimeWarning)  # overflows are what some of the tests are about
    for case in load_model_tests(kind="node"):
        write_node_test(os.path.join(into, "node", case.name), case)
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        for case in load_model_tests(kind=kind):
            copy_test(os.path.join(into, kind, case.name), case)
    for path in sorted(glob.glob(os.path.join(DATA_DIR, "light", "*.onnx"))):
        write_light_test(os.path.join(into, "light", os.path.basename(path)[: -len(".onnx")]), path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    write_all(sys.argv[1])
