# SPDX-License-Identifier: Apache-2.0
"""Small models against recorded answers, and through text and back: also in the sanitizer builds."""
import os

from harness import Report, prepare, run_folders, scratch
from round_trip import round_trip

SMALL = {
    "generated": ["bilstm_tagger", "crnn_ocr", "dcgan_gen", "loop_grucell", "gpt_mini_kv"],
    "quantised": ["bert_base_s_dynamic_s8", "bilstm_dynamic_s8", "mobilenet_v1_s_qdq_u8s8"],
}


def main():
    report = Report()
    folders = [prepare("cases")]
    for group, names in SMALL.items():
        folder = prepare(group)
        folders += [os.path.join(folder, name) for name in names]
    for test in run_folders(*folders):
        report.check(test["outcome"] == "passed", test["folder"], test.get("reason"))
    cases = sorted(entry.path for entry in os.scandir(folders[0]) if entry.is_dir())
    for folder in cases + folders[1:]:
        name = os.path.basename(folder)
        round_trip(report, name, folder, os.path.join(scratch("models"), name))
    report.exit()


if __name__ == "__main__":
    main()
