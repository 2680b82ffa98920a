# SPDX-License-Identifier: Apache-2.0
"""ONNX to text, text to the same text, text to ONNX: the model stays valid and answers the same."""
import os
import shutil

import onnx

from harness import run_folders, tenon


def read(path):
    with open(path, "rb") as file:
        return file.read()


def converted(report, name, source, target):
    done = tenon("convert", source, target, "--force")
    return report.check(done.returncode == 0, f"{name}: {os.path.basename(source)} -> {target.split('/')[-1]}", done.stderr)


def round_trip(report, name, folder, work):
    """`folder` holds model.onnx and its data sets."""
    shutil.rmtree(work, ignore_errors=True)
    text, again, back = (os.path.join(work, part) for part in ("text", "again", "back"))
    for part in (text, again, back):
        os.makedirs(part)
    if not converted(report, name, os.path.join(folder, "model.onnx"), f"{text}/model.tn"):
        return
    if converted(report, name, f"{text}/model.tn", f"{again}/model.tn"):
        report.check(read(f"{text}/model.tn") == read(f"{again}/model.tn"), f"{name}: the text parses and prints the same")
    if not converted(report, name, f"{text}/model.tn", f"{back}/model.onnx"):
        return
    try:
        onnx.checker.check_model(f"{back}/model.onnx")
    except onnx.checker.ValidationError as error:
        report.check(False, f"{name}: the checker takes the ONNX file", error)
    for entry in os.listdir(folder):
        if entry != "model.onnx":
            for part in (text, back):
                os.symlink(os.path.join(folder, entry), os.path.join(part, entry))
    for test in run_folders(text, back):
        report.check(test["outcome"] == "passed", f"{name}: {os.path.basename(test['folder'])} answers the same", test.get("reason"))
    shutil.rmtree(work)
