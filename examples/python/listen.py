#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When somebody speaks: Silero VAD over a sound file, a piece at a time, its state carried from piece to piece.

    listen.py silero_vad.onnx SOUND.wav [--threshold 0.5]

The sound is 16-bit, one channel, 16 kHz. A script as it is written for onnxruntime; only the import differs.
"""
import argparse
import sys
import wave

import numpy as np
import tenonrt as ort

RATE = 16000
PIECE = 512  # samples that are judged at once
CONTEXT = 64  # samples before them that the model sees too


class Detector:
    def __init__(self, model):
        options = ort.SessionOptions()
        options.inter_op_num_threads = 1
        options.intra_op_num_threads = 1
        self.session = ort.InferenceSession(model, providers=["CPUExecutionProvider"], sess_options=options)
        self.reset()

    def reset(self):
        self.state = np.zeros((2, 1, 128), dtype="float32")
        self.context = np.zeros((1, CONTEXT), dtype="float32")

    def __call__(self, piece):
        x = np.concatenate([self.context, piece[np.newaxis, :]], axis=1)
        inputs = {"input": x, "state": self.state, "sr": np.array(RATE, dtype="int64")}
        out, self.state = self.session.run(None, inputs)
        self.context = x[:, -CONTEXT:]
        return float(out[0, 0])


def read_sound(path):
    with wave.open(path) as sound:
        if (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) != (RATE, 1, 2):
            sys.exit(f"{path}: 16-bit, one channel, {RATE} Hz is wanted")
        samples = np.frombuffer(sound.readframes(sound.getnframes()), dtype="<i2")
    return samples.astype(np.float32) / 32768


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("sound")
    parser.add_argument("--threshold", type=float, default=0.5)
    args = parser.parse_args()

    detector = Detector(args.model)
    samples = read_sound(args.sound)
    samples = np.pad(samples, (0, -len(samples) % PIECE))
    began = None
    for at in range(0, len(samples), PIECE):
        speech = detector(samples[at : at + PIECE]) >= args.threshold
        if speech and began is None:
            began = at
        if not speech and began is not None:
            print(f"{began / RATE:8.2f} s to {at / RATE:8.2f} s")
            began = None
    if began is not None:
        print(f"{began / RATE:8.2f} s to {len(samples) / RATE:8.2f} s")


if __name__ == "__main__":
    main()
