#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says what is in a picture: the five likeliest classes of an image classifier (ResNet, MobileNet, ...).

    classify.py MODEL.onnx PICTURE... [--labels FILE]

A script as it is written for onnxruntime; only the import differs. Needs Pillow.
"""
import argparse

import numpy as np
import tenonrt as ort
from PIL import Image

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def preprocess(path, size):
    """ImageNet's way: the short side to 8/7 of the size, the middle of that, normalised, channels first."""
    picture = Image.open(path).convert("RGB")
    scale = size * 8 / 7 / min(picture.size)
    picture = picture.resize([max(size, round(n * scale)) for n in picture.size], Image.Resampling.BILINEAR)
    left, top = ((n - size) // 2 for n in picture.size)
    pixels = np.asarray(picture.crop((left, top, left + size, top + size)), np.float32) / 255
    return ((pixels - MEAN) / STD).transpose(2, 0, 1)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("pictures", nargs="+", metavar="PICTURE")
    parser.add_argument("--labels", help="a file with one class a line")
    args = parser.parse_args()

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    image = session.get_inputs()[0]
    size = image.shape[2] if isinstance(image.shape[2], int) else 224
    labels = None
    if args.labels:
        with open(args.labels, encoding="utf-8") as file:
            labels = file.read().splitlines()
    for path in args.pictures:
        batch = np.expand_dims(preprocess(path, size), 0)
        (scores,) = session.run([session.get_outputs()[0].name], {image.name: batch})
        chances = softmax(scores.reshape(-1))
        print(path)
        for i in np.argsort(-chances)[:5]:
            print(f"  {100 * chances[i]:5.1f} %  {labels[i] if labels else f'class {i}'}")


if __name__ == "__main__":
    main()
