# SPDX-License-Identifier: Apache-2.0
"""The engines that are measured, behind one interface. All compute in float32 where the model does."""
import os
import subprocess
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Engine:
    name = ""

    @staticmethod
    def convert(path, folder, feeds):
        """The file that the engine loads, made in the folder where that is not the ONNX file. Not part of what is measured."""
        return path

    def open(self):
        """Imports the engine's library."""

    def load(self, path, threads, inputs, outputs):
        """Reads the model and makes it ready to run. Names of inputs and outputs are in the model's order."""

    def run(self, feeds):
        """The outputs as arrays, in the model's order."""


class Ort(Engine):
    name = "ort"

    def open(self):
        import onnxruntime

        self.library = onnxruntime

    def load(self, path, threads, inputs, outputs):
        options = self.library.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = self.library.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(self, feeds):
        return self.session.run(None, feeds)


class OpenVino(Engine):
    name = "openvino"

    def open(self):
        import openvino

        self.library = openvino

    def load(self, path, threads, inputs, outputs):
        # It would choose bf16 by itself on processors that have it.
        properties = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        self.model = self.library.Core().compile_model(path, "CPU", properties)
        self.request = self.model.create_infer_request()

    def run(self, feeds):
        results = self.request.infer(feeds, share_inputs=True, share_outputs=True)
        return [results[i] for i in range(len(self.model.outputs))]


class Mnn(Engine):
    name = "mnn"

    @staticmethod
    def convert(path, folder, feeds):
        """By the binding: the wheel's own command installs packages and reports usage. It leaves a file where it runs."""
        target = os.path.join(folder, "model.mnn")
        code = "import sys, MNN, _tools; _tools.mnnconvert(sys.argv)"
        arguments = ["-f", "ONNX", "--modelFile", os.path.abspath(path), "--MNNModel", target, "--bizCode", "x"]
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, cwd=folder)
        return target

    def open(self):
        import MNN

        self.library = MNN

    def load(self, path, threads, inputs, outputs):
        self.inputs = inputs
        settings = {"backend": 0, "numThread": threads, "precision": "high"}
        runtime = self.library.nn.create_runtime_manager((settings,))
        self.module = self.library.nn.load_module_from_file(path, inputs, outputs, runtime_manager=runtime)

    def run(self, feeds):
        expr = self.library.expr
        values = []
        for name in self.inputs:
            array = feeds[name]
            if array.dtype == np.int64:
                array = array.astype(np.int32)
            kind = expr.int if array.dtype == np.int32 else expr.float
            values.append(expr.const(array, list(array.shape), expr.NCHW, kind))
        return [np.array(value.read()) for value in self.module.onForward(values)]


class Tenon(Engine):
    """The package that PYTHONPATH has, else the one of the build folder."""

    name = "tenon"

    def open(self):
        try:
            import tenonrt
        except ImportError:
            sys.path.insert(0, os.path.join(ROOT, "build", "python"))
            import tenonrt

        self.library = tenonrt

    def load(self, path, threads, inputs, outputs):
        self.session = self.library.InferenceSession(path, threads=threads)

    def run(self, feeds):
        return self.session.run(None, feeds)


class TenonPacked(Tenon):
    """From a file with weights as this processor's kernels want them, which the command made (build/tenon, or $TENON)."""

    name = "tenon-tn"

    @staticmethod
    def convert(path, folder, feeds):
        target = os.path.join(folder, "model.tn")
        command = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))
        shapes = [f"--shape={name}={'x'.join(map(str, array.shape))}" for name, array in feeds.items()]
        subprocess.run([command, "convert", path, target, "--packed", *shapes], check=True, capture_output=True)
        return target


ENGINES = {engine.name: engine for engine in (Ort, OpenVino, Mnn, Tenon, TenonPacked)}
DEFAULT = [name for name in ENGINES if name != "tenon-tn"]
