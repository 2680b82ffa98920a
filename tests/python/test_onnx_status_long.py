# SPDX-License-Identifier: Apache-2.0
"""Makes docs/onnx-status.md anew, beside the other engines: what the page says of Tenon must still hold."""
import os
import subprocess
import sys

from harness import BUILD, NO_DOWNLOAD, ROOT, SKIPPED, Report, scratch


def about_tenon(path):
    """Rows of the table up to Tenon's column, and all that it does not pass."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    rows = [line.split("|")[1:5] for line in text.split("\n") if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows], text[text.index("## What Tenon") :]


def main():
    report = Report()
    page = os.path.join(scratch("onnx_status"), "onnx-status.md")
    tool = os.path.join(ROOT, "tools", "onnx_status.py")
    done = subprocess.run([sys.executable, tool, "--build", BUILD, "--into", page])
    if done.returncode == NO_DOWNLOAD:
        print("SKIPPED: the other engines cannot be installed")
        sys.exit(SKIPPED)
    if report.check(done.returncode == 0, "tools/onnx_status.py"):
        new, old = about_tenon(page), about_tenon(os.path.join(ROOT, "docs", "onnx-status.md"))
        for row in new[0]:
            report.check(row in old[0], f"docs/onnx-status.md has the row {row}", "run tools/onnx_status.py")
        report.check(new[1] == old[1], "docs/onnx-status.md lists what Tenon does not pass", new[1])
    report.exit()


if __name__ == "__main__":
    main()
