# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: the build under test, the prepared models, runs of the command with a report."""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
TENON = os.path.join(BUILD, "tenon")
SKIPPED = 77
NO_DOWNLOAD = 75


def setting(name):
    """From CMake's cache of the build; "" when there is none."""
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return next((line.partition("=")[2].strip() for line in file if line.startswith(f"{name}:")), "")


def sanitized():
    """Whether the build has address and undefined-behaviour sanitizers, which make it some ten times slower."""
    return setting("TENON_SANITIZE") != ""


def internal_libraries():
    """What a program is linked with that holds the library's objects, as the compiler takes it."""
    with open(os.path.join(BUILD, "tests", "internal_libraries.txt"), encoding="utf-8") as file:
        names = [name.strip() for name in file if name.strip()]
    return ["-pthread" if "::" in name else name if name.startswith(("/", "-")) else f"-l{name}" for name in names]


def compiler(*warnings):
    """The build's C compiler with what every program of the build needs, to compile code of the tests."""
    sanitize = setting("TENON_SANITIZE")
    return [setting("CMAKE_C_COMPILER"), "-std=gnu17", *warnings, *([f"-fsanitize={sanitize}"] if sanitize else [])]


def scratch(name):
    """A folder of this build for a test's files."""
    folder = os.path.join(BUILD, "tests", "scratch", name)
    os.makedirs(folder, exist_ok=True)
    return folder


def prepare(group):
    """The folder of a group of test models (tools/prepare_test_models.py), or None when it cannot be downloaded."""
    tool = os.path.join(ROOT, "tools", "prepare_test_models.py")
    done = subprocess.run([sys.executable, tool, group], cwd=ROOT)
    if done.returncode == NO_DOWNLOAD:
        print(f"SKIPPED: the {group} models cannot be downloaded")
        return None
    if done.returncode != 0:
        sys.exit(f"tools/prepare_test_models.py {group} failed")
    return os.path.join(ROOT, "build", "models", group)


def tenon(*arguments, **options):
    return subprocess.run([TENON, *arguments], capture_output=True, text=True, errors="replace", **options)


def run_folders(*arguments):
    """`tenon test --json`: the list of tests, each with folder, outcome, reason."""
    done = tenon("test", *arguments, "--json")
    try:
        return json.loads(done.stdout)["tests"]
    except (ValueError, KeyError):
        sys.exit(f"tenon test {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")


class Report:
    """Counts what was checked and prints what was wrong."""

    def __init__(self):
        self.checked = self.wrong = 0

    def check(self, holds, what, details=""):
        self.checked += 1
        if not holds:
            self.wrong += 1
            print(f"FAIL {what}" + "".join(f"\n  {line}" for line in str(details).strip().split("\n") if line), flush=True)
        return holds

    def exit(self, missing=False):
        """missing: some models could not be downloaded, so nothing wrong is not yet all right."""
        if missing and not self.wrong:
            print(f"{self.checked} checks, none wrong, but some models are missing")
            sys.exit(SKIPPED)
        print(f"{self.checked} checks, {self.wrong} wrong")
        sys.exit(1 if self.wrong or not self.checked else 0)
