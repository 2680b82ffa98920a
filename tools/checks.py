#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of the files themselves: what pre-commit and `make test` run.

    tools/checks.py [--fix] [CHECK...] [-- FILE...]

Without names every check runs; without files, over all that git tracks or would track. Only --fix changes a file.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

MAX_BYTES = 500_000
MAX_DATA_BYTES = 8_000_000  # a file of tests/data: a model
MAX_DATA_TOTAL = 30_000_000

# Files whose bytes are the point: they are read as they are.
VERBATIM = ("tests/data/", "fuzz/corpus/")


def list_files():
    git = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True)
    if git.returncode == 0:
        names = [name for name in git.stdout.decode().split("\0") if name]
    else:  # an unpacked archive
        names = []
        for folder, folders, files in os.walk(ROOT):
            folders[:] = [f for f in folders if f not in ("build", ".venv", ".cache", ".git", "__pycache__")]
            names += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files]
    return sorted({name for name in names if os.path.lexists(os.path.join(ROOT, name))})


def path_of(name):
    return os.path.join(ROOT, name)


def read(name):
    """The bytes of a text file, or None for one that is binary, a link, or read as it is."""
    path = path_of(name)
    if name.startswith(VERBATIM) or os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        data = file.read()
    return None if b"\0" in data[:8192] else data


def write(name, data):
    with open(path_of(name), "wb") as file:
        file.write(data)


def crlf(names, fix):
    """CRLF end-lines remover"""
    for name in names:
        data = read(name)
        if data is None or b"\r\n" not in data:
            continue
        if fix:
            write(name, data.replace(b"\r\n", b"\n"))
        else:
            line = data[: data.index(b"\r\n")].count(b"\n") + 1
            yield f"{name}:{line}: line ends in CR LF"


def large_files(names, fix):
    """Check for added large files"""
    total = 0
    for name in names:
        path = path_of(name)
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        size = os.path.getsize(path)
        in_data = name.startswith("tests/data/")
        total += size if in_data else 0
        limit = MAX_DATA_BYTES if in_data else MAX_BYTES
        if size > limit:
            yield f"{name}:1: {size:,} bytes, more than {limit:,}"
    if total > MAX_DATA_TOTAL:
        yield f"tests/data:1: {total:,} bytes in all, more than {MAX_DATA_TOTAL:,}"


def merge_conflicts(names, fix):
    """Check for merge conflicts"""
    marker = re.compile(rb"^(<{7} .*|={7}|>{7} .*)$", re.M)
    for name in names:
        data = read(name) or b""
        found = [match for match in marker.finditer(data)]
        # A row of seven equals signs alone may underline a heading.
        if any(match.group()[:1] != b"=" for match in found):
            yield f"{name}:{data[: found[0].start()].count(10) + 1}: merge conflict marker"


def broken_symlinks(names, fix):
    """Check for broken symlinks"""
    for name in names:
        if os.path.islink(path_of(name)) and not os.path.exists(path_of(name)):
            yield f"{name}:1: links to {os.readlink(path_of(name))}, which is not there"


def private_keys(names, fix):
    """Detect Private Key"""
    begin = re.compile(rb"BEGIN ((RSA|DSA|EC|OPENSSH|ENCRYPTED|PGP) )?PRIVATE " rb"KEY|PuTTY-User-Key-" rb"File-2")
    for name in names:
        data = read(name) or b""
        match = begin.search(data)
        if match:
            yield f"{name}:{data[: match.start()].count(10) + 1}: looks like a private key"


def end_of_file(names, fix):
    """Fix End of Files"""
    for name in names:
        data = read(name)
        if not data:
            continue
        good = data.rstrip(b"\r\n") + b"\n"
        if good.strip() == b"" or good == data:
            continue
        if fix:
            write(name, good)
        else:
            yield f"{name}:{data.count(10) + 1}: must end in one newline"


def find_clang_format():
    """The version that requirements.txt pins; another formats differently."""
    pinned = os.path.join(ROOT, ".venv", "bin", "clang-format")
    return pinned if os.path.exists(pinned) else shutil.which("clang-format")


def clang_format(names, fix):
    """clang-format"""
    tool = find_clang_format()
    sources = [name for name in names if name.endswith((".c", ".h")) and read(name) is not None]
    if not tool:
        yield "tools/setup.sh:1: clang-format was not found: run it"
        return

    def run(name):
        command = [tool, "-i", name] if fix else [tool, "--dry-run", "--Werror", "--ferror-limit=1", name]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, done in zip(sources, pool.map(run, sources)):
            if done.returncode != 0:
                where = re.search(r":(\d+):\d+: ", done.stderr)
                yield f"{name}:{where.group(1) if where else 1}: not formatted; run `make fmt`"


LICENCE = "SPDX-License-Identifier: Apache-2.0"
C_LIKE = (".c", ".h", ".def", ".cl")
HASH_LIKE = (".py", ".sh", ".cmake", ".cmake.in", "CMakeLists.txt", "Makefile", ".ci/run")


def licence(names, fix):
    """licence header"""
    for name in names:
        if name.endswith(C_LIKE):
            want = f"/* {LICENCE} */"
        elif name.endswith(HASH_LIKE):
            want = f"# {LICENCE}"
        else:
            continue
        lines = (read(name) or b"").decode("utf-8", "replace").split("\n")
        if lines == [""]:
            continue
        first = 1 if lines[0].startswith("#!") and len(lines) > 1 else 0
        if lines[first].rstrip("\r") == want:
            continue
        if fix:
            write(name, "\n".join(lines[:first] + [want] + lines[first:]).encode())
        else:
            yield f"{name}:{first + 1}: must begin with `{want}`"


CHECKS = {
    "crlf": crlf,
    "large-files": large_files,
    "merge-conflicts": merge_conflicts,
    "broken-symlinks": broken_symlinks,
    "private-keys": private_keys,
    "end-of-file": end_of_file,
    "clang-format": clang_format,
    "licence": licence,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(CHECKS))
    arguments = sys.argv[1:]
    files = None
    if "--" in arguments:
        at = arguments.index("--")
        arguments, files = arguments[:at], arguments[at + 1 :]
    options = parser.parse_args(arguments)
    unknown = [check for check in options.checks if check not in CHECKS]
    if unknown:
        parser.error(f"no check is called {unknown[0]}; there are {', '.join(CHECKS)}")

    names = list_files() if files is None else [os.path.relpath(os.path.abspath(file), ROOT) for file in files]
    failed = 0
    for check in options.checks or CHECKS:
        offences = list(CHECKS[check](names, options.fix))
        failed += len(offences)
        verdict = "Failed" if offences else "Passed"
        print(f"{CHECKS[check].__doc__:.<60}{verdict}")
        for offence in offences:
            print(f"  {offence}")
    if failed:
        print(f"{failed} to repair; `make fmt` repairs line ends and format", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
