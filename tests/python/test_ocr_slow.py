# SPDX-License-Identifier: Apache-2.0
"""The example reads the text in its pictures: PP-OCRv4 on this engine, every line exactly."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
PICTURES = os.path.join(ROOT, "examples", "ocr", "pictures")
MODELS = os.path.join(ROOT, "build", "models", "ppocrv4")
LINE = re.compile(r"^ *[\d.]+ % +[\d.]+ ms  (.*)$")


def fetch_models():
    status = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "fetch_models.py"), "ppocrv4"]).returncode
    if status == 75:
        print("skipped: the models cannot be downloaded")
        sys.exit(77)
    if status != 0:
        sys.exit(status)


def read_picture(picture, drawn):
    command = [os.path.join(BUILD, "examples", "ocr"), f"{MODELS}/det.onnx", f"{MODELS}/rec.onnx", picture, drawn]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode != 0:
        return [f"status {done.returncode}: {done.stderr.strip()}"]
    return [match.group(1) for match in map(LINE.match, done.stdout.split("\n")) if match]


def main():
    fetch_models()
    wrong = 0
    names = sorted(name[: -len(".png")] for name in os.listdir(PICTURES) if name.endswith(".png"))
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            with open(os.path.join(PICTURES, name + ".txt"), encoding="utf-8") as file:
                want = file.read().splitlines()
            drawn = os.path.join(folder, name + ".png")
            got = read_picture(os.path.join(PICTURES, name + ".png"), drawn)
            if got == want and os.path.getsize(drawn) > 0:
                continue
            wrong += 1
            print(f"{name}: read {got}, expected {want}")
    print(f"{len(names)} pictures, {wrong} read wrongly")
    return wrong > 0 or not names


if __name__ == "__main__":
    sys.exit(main())
