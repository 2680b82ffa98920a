#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How alike sentences are: a sentence encoder (all-MiniLM-L6-v2 and kin), mean pooling, cosines.

    encode.py MODEL.onnx SENTENCES.txt

Each line of SENTENCES.txt holds the token ids of one sentence as its tokenizer gives them, e.g. `101 7592 2088 102`.
A script as it is written for onnxruntime; only the import differs.
"""
import argparse

import numpy as np
import tenonrt as ort


def read_sentences(path):
    with open(path, encoding="utf-8") as file:
        return [[int(token) for token in line.split()] for line in file if line.strip()]


def encode(session, sentences):
    longest = max(map(len, sentences))
    ids = np.zeros((len(sentences), longest), np.int64)
    mask = np.zeros_like(ids)
    for i, tokens in enumerate(sentences):
        ids[i, : len(tokens)] = tokens
        mask[i, : len(tokens)] = 1
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    feed = {name: value for name, value in feed.items() if name in [arg.name for arg in session.get_inputs()]}
    hidden = session.run(["last_hidden_state"], feed)[0]
    weights = mask[:, :, None].astype(hidden.dtype)
    pooled = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("sentences", help="a file of token ids, one sentence a line")
    args = parser.parse_args()

    session = ort.InferenceSession(args.model)
    vectors = encode(session, read_sentences(args.sentences))
    for row in vectors @ vectors.T:
        print("  ".join(f"{value:6.3f}" for value in row))


if __name__ == "__main__":
    main()
