#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the models that are measured, in INTO/NAME/model.onnx. What is there already is left alone.

    bench/make_models.py [--into FOLDER] [--small] [--int8] [NAME...]

Needs numpy and onnx, and onnxruntime for --int8. 1.1 GB and a minute; with --small little of either.
"""
import argparse
import os
import sys
import tempfile

import networks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PICTURE = (1, 3, 224, 224)


def write(path, data):
    """Complete or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


def make(name, build, into):
    path = os.path.join(into, name, "model.onnx")
    if not os.path.exists(path):
        write(path, build().SerializeToString(deterministic=True))
        print(f"{path}: {os.path.getsize(path) / 1e6:.0f} MB", flush=True)
    return path


# ---- int8, by onnxruntime's quantiser ----


def calibration(shape):
    import numpy as np
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):
        def __init__(self):
            random = np.random.default_rng(11)
            self.batches = iter([{"input": random.standard_normal(shape, np.float32)} for _ in range(4)])

        def get_next(self):
            return next(self.batches, None)

    return Reader()


def quantise_picture_model(source, target, layout, per_channel):
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder:
        prepared = os.path.join(folder, "prepared.onnx")
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantize_static(prepared, target, calibration(PICTURE), quant_format=getattr(QuantFormat, layout),
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=per_channel,
                        calibrate_method=CalibrationMethod.MinMax)  # fmt: skip


def quantise_text_model(source, target):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(source, target, weight_type=QuantType.QInt8)


INT8 = {
    "resnet50_qdq": ("resnet50", lambda s, t: quantise_picture_model(s, t, "QDQ", True)),
    "resnet50_qoperator": ("resnet50", lambda s, t: quantise_picture_model(s, t, "QOperator", False)),
    "mobilenet_v2_qdq": ("mobilenet_v2", lambda s, t: quantise_picture_model(s, t, "QDQ", True)),
    "bert_base_dynamic": ("bert_base", quantise_text_model),
}


def make_int8(name, sources, into):
    path = os.path.join(into, name, "model.onnx")
    base, quantise = INT8[name]
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    quantise(make(base, sources[base], into), path + ".part")
    os.replace(path + ".part", path)
    print(f"{path}: {os.path.getsize(path) / 1e6:.0f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join([*networks.NETWORKS, *INT8]))
    parser.add_argument("--into", metavar="FOLDER", help="build/bench-models, or build/bench-models-small")
    parser.add_argument("--small", action="store_true", help="narrow and shallow versions of the same graphs")
    parser.add_argument("--int8", action="store_true", help="the quantised models, too")
    args = parser.parse_args()
    sources = networks.SMALL if args.small else networks.NETWORKS
    unknown = set(args.names) - set(sources) - set(INT8)
    if unknown:
        sys.exit(f"no model {', '.join(sorted(unknown))}; there are {', '.join([*sources, *INT8])}")
    into = args.into or os.path.join(ROOT, "build", "bench-models-small" if args.small else "bench-models")
    for name in args.names or [*sources, *(INT8 if args.int8 else ())]:
        if name in INT8:
            make_int8(name, sources, into)
        else:
            make(name, sources[name], into)


if __name__ == "__main__":
    main()
