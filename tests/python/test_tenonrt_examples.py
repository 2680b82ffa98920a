# SPDX-License-Identifier: Apache-2.0
"""Scripts written for onnxruntime run with the import changed: examples/python on small or prepared models."""
import os
import re
import subprocess
import sys
import unittest
import wave

import tenonrt_env

tenonrt_env.enter()
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from harness import ROOT, scratch  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from PIL import Image  # noqa: E402

EXAMPLES = os.path.join(ROOT, "examples", "python")
FOLDER = scratch("tenonrt_examples")


def example(name, *arguments):
    command = [sys.executable, os.path.join(EXAMPLES, name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=tenonrt_env.environment())
    if done.returncode != 0:
        raise AssertionError(f"{name} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def colour_classifier(path):
    """Red, green or blue: the mean of each channel, by a convolution and a pool."""
    eye = np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["scores"]),
    ]
    inputs, outputs = [("image", np.float32, ["n", 3, 32, 32])], [("scores", np.float32, ["n", 3])]
    onnx.save(tenonrt_env.onnx_model(nodes, inputs, outputs, {"w": eye * 4}), path)


class Examples(unittest.TestCase):
    def test_the_import_alone_differs(self):
        for name in os.listdir(EXAMPLES):
            if name.endswith(".py"):
                with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
                    code = [line for line in file.read().split("\n") if "tenon" in line]
                self.assertEqual(code, ["import tenonrt as ort"], name)

    def test_classify(self):
        model, picture, labels = (os.path.join(FOLDER, name) for name in ("colour.onnx", "green.png", "labels.txt"))
        colour_classifier(model)
        Image.new("RGB", (50, 70), (20, 200, 30)).save(picture)
        with open(labels, "w", encoding="utf-8") as file:
            file.write("red\ngreen\nblue\n")
        lines = example("classify.py", model, picture, "--labels", labels).split("\n")
        self.assertEqual(lines[0], picture)
        self.assertRegex(lines[1], r"^ +\d+\.\d %  green$")

    def test_encode(self):
        model = tenonrt_env.real_model("real", "minilm_l6_v2", "model.onnx")
        tokens = os.path.join(FOLDER, "tokens.txt")
        with open(tokens, "w", encoding="utf-8") as file:  # two greetings and a question about a bank account
            file.write("101 7592 2088 102\n101 7592 2045 102\n101 2129 2172 2769 2003 1999 2026 4070 1029 102\n")
        rows = [[float(number) for number in line.split()] for line in example("encode.py", model, tokens).strip().split("\n")]
        for i in range(3):
            self.assertAlmostEqual(rows[i][i], 1, places=2)
        self.assertGreater(rows[0][1], 0.5)
        self.assertLess(rows[0][2], 0.3)

    def test_listen(self):
        model = tenonrt_env.real_model("real", "silero_vad", "model.onnx")
        data = os.path.join(os.path.dirname(model), "test_data_set_0", "input_0.pb")
        with open(data, "rb") as file:
            piece = numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))
        self.assertLessEqual(piece.shape[1], 576)
        sound = os.path.join(FOLDER, "silence.wav")
        with wave.open(sound, "wb") as out:
            out.setparams((1, 2, 16000, 0, "NONE", ""))
            out.writeframes(np.zeros(16000, "<i2").tobytes())
        self.assertEqual(example("listen.py", model, sound), "")
        spoken = example("listen.py", model, sound, "--threshold", "0.0")
        self.assertTrue(re.match(r"^ +0\.00 s to +1\.02 s\n$", spoken), spoken)


if __name__ == "__main__":
    unittest.main()
