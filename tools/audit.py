#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The audit of the source: who includes whom, registries, sizes, banned calls. Prints every offence; exit 1 if any.

    tools/audit.py [--quiet] [--root FOLDER]
"""
import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

# Folder of src/ -> what it may include besides its own headers: a folder stands for its one header.
# `formats/*` and `backends/*` stand for each folder below, which may not include its siblings.
MAY_INCLUDE = {
    "base": [],
    "ir": ["base", "ops/ops.def"],
    "geom": ["base"],
    "plan": ["base"],
    "ops": ["base", "ir", "geom"],
    "kernel": ["base", "ir", "geom"],
    "eval": ["base", "ir", "geom", "ops"],
    "rewrite": ["base", "ir", "ops", "eval"],
    "pass": ["base", "ir"],
    "passes": ["base", "ir", "ops", "geom", "eval", "kernel", "plan", "pass", "rewrite", "place", "partition"],
    "place": ["base", "ir", "ops", "kernel", "pass", "<tenon/driver.h>"],
    "partition": ["base", "ir", "ops", "kernel", "pass", "<tenon/driver.h>"],
    "program": ["base", "ir", "ops", "geom", "eval", "kernel", "plan", "place", "partition", "<tenon/driver.h>"],
    "backends": ["<tenon/driver.h>", "base", "geom", "kernel/kernel.h", "ops/op.h"],
    "backends/*": ["<tenon/driver.h>", "base", "geom", "kernel/kernel.h", "ops/op.h"],
    "formats": ["base", "ir", "ops/op.h", "formats/common"],
    "formats/*": ["base", "ir", "ops/op.h", "formats", "formats/common"],
    "session": ["*"],
}

# The words that all share: status codes and element types.
PUBLIC_TO_ALL = {"tenon/types.h", "tenon/dtypes.def", "tenon/status.def"}

# A folder's one header, where it is not named after the folder.
MAIN_HEADER = {"ops": "ops/op.h"}

SYSTEM_HEADERS = set(
    """assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h setjmp.h signal.h
    stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h tgmath.h time.h
    threads.h uchar.h wchar.h wctype.h dirent.h dlfcn.h fcntl.h libgen.h pthread.h sched.h strings.h unistd.h endian.h
    linux/futex.h linux/openat2.h malloc.h sys/auxv.h sys/mman.h sys/random.h sys/resource.h sys/stat.h sys/syscall.h
    sys/sysinfo.h sys/time.h sys/types.h sys/uio.h sys/wait.h cpuid.h elf.h immintrin.h arm_neon.h asm/hwcap.h
    sanitizer/asan_interface.h sanitizer/tsan_interface.h""".split()
)

# Third-party header -> the only folders of src/ that may include it. A backend may include its device's library.
THIRD_PARTY = {
    "pthreadpool.h": ["base"],
    "xxhash.h": ["base"],
    "pb.h": ["formats"],
    "pb_common.h": ["formats"],
    "pb_decode.h": ["formats"],
    "pb_encode.h": ["formats"],
    "jansson.h": ["formats", "session"],
    "pcre2.h": ["ops"],
    "png.h": ["ops"],
    "jpeglib.h": ["ops"],
    "webp/decode.h": ["ops"],
    "tiffio.h": ["ops"],
    "openjpeg.h": ["ops"],
}

# .def file -> its macro, where the file or folder of a row is ({} is its name), and what in a file there asks for a
# row (None: all do).
REGISTRIES = {
    "src/pass/passes.def": ("PASS", "src/passes/{}.c", None),
    "src/kernel/kernels.def": ("KERNEL", "src/backends/**/{}.c", r"^const KernelDesc kernel_\w+ ="),
    "src/formats/formats.def": ("FORMAT", "src/formats/{}/", None),
    "src/backends/backends.def": ("BACKEND", "src/backends/{}/", None),
}
NO_ROW_NEEDED = {"src/passes/passes.c", "src/formats/common/", "src/formats/npy/", "src/backends/reference/", "src/backends/cpu/", "src/backends/minimal/"}

ALLOCATION = "malloc calloc realloc free aligned_alloc posix_memalign reallocarray strdup strndup asprintf vasprintf"
BANNED = {
    **{name: "allocate through base" for name in ALLOCATION.split()},
    **{name: "it does not know the size of its buffer" for name in "strcpy strcat sprintf vsprintf gets".split()},
    **{name: "it cannot report an error" for name in "atoi atol atoll atof".split()},
    **{name: "a library does not write to its caller's output" for name in "printf vprintf puts putchar".split()},
    **{name: "return a status" for name in "exit _exit _Exit quick_exit abort".split()},
}

MAX_FILE = 1000
MAX_FUNCTION = 120
LENGTH_EXEMPT = {
    "src/backends/*/kernels/*": "a kernel: its cases are written out",
    "src/ir/parse.c": "a parser: one case a rule of the grammar",
    "src/rewrite/parse.c": "a parser: one case a rule of the grammar",
}

BUDGETS = [
    ("base + ir", ["src/base", "src/ir"], 5_000),
    ("geom + eval + kernel + plan", ["src/geom", "src/eval", "src/kernel", "src/plan"], 4_000),
    ("rewrite + pass + passes", ["src/rewrite", "src/pass", "src/passes"], 8_000),
    ("place + partition + program + session", ["src/place", "src/partition", "src/program", "src/session"], 6_000),
    ("ops", ["src/ops"], 20_000),
    ("formats", ["src/formats"], 8_000),
    ("backends", ["src/backends"], 20_000),
    ("cli", ["cli"], 4_000),
]

PUBLIC_ONLY = ("cli", "python", "examples")
C_FOLDERS = ("src", "include", "cli", "python", "examples", "fuzz", "bench", "tests")

COMMENT = re.compile(r'(//[^\n]*|/\*.*?\*/)|("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.M)


def blank(text):
    """The same lines with nothing on them."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    return COMMENT.sub(lambda m: blank(m.group(1)) if m.group(1) else m.group(2), text)


def only_code(text):
    """Without comments, and with the contents of strings and the preprocessor's lines blanked out."""
    text = COMMENT.sub(lambda m: blank(m.group(1)) if m.group(1) else '"' + blank(m.group(2)[1:-1]) + '"', text)
    return DIRECTIVE.sub(lambda m: blank(m.group()), text)


def line_at(text, position):
    return text.count("\n", 0, position) + 1


def functions(code):
    """(name, first line, last line) of each function. A brace in column 0 closes one, whatever #if did before it."""
    depth, start, open_at = 0, 0, None
    for match in re.finditer(r"[{};]|\n(?=})", code):
        token, at = match.group(), match.start()
        if token == "\n":
            depth = min(depth, 1)
        elif token == "{":
            if depth == 0:
                head = code[start:at]
                if re.search(r'\bextern\s*"\s*"\s*$', head):
                    start = at + 1
                    continue
                open_at = (start + len(head) - len(head.lstrip()), head) if re.search(r"\)[\s\w]*$", head) else None
            depth += 1
        elif token == "}":
            depth = max(depth - 1, 0)
            if depth == 0:
                if open_at:
                    names = re.findall(r"(\w+)\s*\(", open_at[1])
                    name = next((n for n in names if not n.startswith("__")), "?")
                    yield name, line_at(code, open_at[0]), line_at(code, at)
                start, open_at = at + 1, None
        elif depth == 0:
            start = at + 1


class Audit:
    def __init__(self, root):
        self.root = Path(root).resolve()
        self.offences = set()
        self.texts = {}
        for top in C_FOLDERS:
            for path in sorted((self.root / top).rglob("*")):
                name = path.relative_to(self.root).as_posix()
                if path.suffix in (".c", ".h", ".def") and path.is_file() and not name.startswith("tests/data/"):
                    self.texts[name] = path.read_text(encoding="utf-8", errors="replace")

    def offend(self, file, line, message):
        self.offences.add((file, line, message))

    # Includes

    @staticmethod
    def folder_of(name):
        """The folder of src/ that a file (relative to src/) is part of: base, formats, formats/onnx, ..."""
        parts = name.split("/")
        nested = parts[0] in ("formats", "backends") and len(parts) > 2
        return "/".join(parts[:2]) if nested else parts[0]

    @staticmethod
    def main_header(folder):
        return MAIN_HEADER.get(folder, f"{folder}/{folder.split('/')[-1]}.h")

    def includes(self, name):
        text = without_comments(self.texts[name])
        for match in INCLUDE.finditer(text):
            yield line_at(text, match.start()), match.group(1) == "<", match.group(2).strip()

    def check_includes(self):
        users_of_pthreadpool = []
        for name in self.texts:
            top = name.split("/")[0]
            for line, angled, header in self.includes(name):
                if top == "src":
                    self.check_library_include(name, line, angled, header)
                    if header == "pthreadpool.h":
                        users_of_pthreadpool.append((name, line))
                elif top in PUBLIC_ONLY:
                    self.check_public_user(name, line, angled, header)
                elif top == "include":
                    if not (angled and (header in SYSTEM_HEADERS or header.startswith("tenon/"))):
                        self.offend(name, line, f"a public header includes {header}: only <tenon/...> and the C library")
        for name, line in users_of_pthreadpool[1:]:
            self.offend(name, line, f"pthreadpool is for one file only, and {users_of_pthreadpool[0][0]} includes it")

    def check_public_user(self, name, line, angled, header):
        if angled:
            return  # The build gives these no path to the library's own headers.
        target = os.path.normpath(os.path.join(os.path.dirname(name), header)).replace(os.sep, "/")
        if not target.startswith(name.split("/")[0] + "/") or target not in self.texts:
            self.offend(name, line, f'includes "{header}": only <tenon/...> and headers of its own')

    def check_library_include(self, name, line, angled, header):
        folder = self.folder_of(name[len("src/") :])
        rule = MAY_INCLUDE.get(folder) or MAY_INCLUDE.get(re.sub(r"/.*", "/*", folder), [])
        if angled:
            self.check_angled(name, line, folder, rule, header)
            return
        if header.startswith("tenon/"):
            self.offend(name, line, f'"{header}" is public: write <{header}>')
            return
        target = header
        if f"src/{header}" not in self.texts:
            beside = f"{os.path.dirname(name)}/{header}"
            target = beside[len("src/") :] if beside in self.texts else header
        owner = self.folder_of(target) if "/" in target else folder
        if owner == folder:
            return
        if target.endswith(("_int.h", "_body.h")):
            self.offend(name, line, f"{target} is private to {owner}")
        elif rule == ["*"]:
            if not target.endswith(".def") and target != self.main_header(owner):
                self.offend(name, line, f"{target} is not {owner}'s one header, {self.main_header(owner)}")
        elif target not in rule and not (owner in rule and target == self.main_header(owner)):
            allowed = ", ".join(rule) or "nothing of src/"
            self.offend(name, line, f"{folder} may not include {target} (it may: {allowed})")

    def check_angled(self, name, line, folder, rule, header):
        if header in SYSTEM_HEADERS or header in PUBLIC_TO_ALL or f"<{header}>" in rule:
            return
        if header.startswith("tenon/"):
            if rule != ["*"]:
                self.offend(name, line, f"{folder} may not include <{header}>")
        elif header in THIRD_PARTY:
            if folder.split("/")[0] not in THIRD_PARTY[header]:
                self.offend(name, line, f"<{header}> is for {', '.join(THIRD_PARTY[header])} only")
        elif f"src/{header}" in self.texts:
            self.offend(name, line, f'<{header}> is ours: write "{header}"')
        elif not folder.startswith("backends/"):
            self.offend(name, line, f"<{header}> is not the C library's (tools/audit.py lists what is)")

    def check_headers(self):
        for name in self.texts:
            if not name.startswith("src/"):
                continue
            inner = name[len("src/") :]
            folder = self.folder_of(inner)
            if "/" not in inner:
                self.offend(name, 1, "a source belongs in a folder of src/")
            elif folder not in MAY_INCLUDE and re.sub(r"/.*", "/*", folder) not in MAY_INCLUDE:
                self.offend(name, 1, f"the folder {folder} is not in the audit's table of includes")
            if name.endswith(".h") and not name.endswith(("_int.h", "_body.h")) and inner != self.main_header(folder):
                self.offend(name, 1, f"{folder}'s one header is {self.main_header(folder)}; others end in _int.h, or _body.h for code by type")

    # Registries

    def rows(self, file, macro):
        """(name, line) of each row of a .def file."""
        code = DIRECTIVE.sub(lambda m: blank(m.group()), without_comments(self.texts.get(file, "")))
        rows, seen = [], {}
        for match in re.finditer(r"^[ \t]*(\w+)[ \t]*\([ \t]*(\w*)", code, re.M):
            line = line_at(code, match.start(1))
            if match.group(1) != macro:
                self.offend(file, line, f"rows are {macro}(name), not {match.group(1)}(...)")
                continue
            if match.group(2) in seen:
                self.offend(file, line, f"{match.group(2)} is in line {seen[match.group(2)]} already")
            seen.setdefault(match.group(2), line)
            rows.append((match.group(2), line))
        return rows

    def check_registries(self):
        for file, (macro, where, marker) in REGISTRIES.items():
            there = {}
            for path in self.root.glob(where.format("*")):
                relative = path.relative_to(self.root).as_posix()
                if where.endswith("/"):
                    relative += "/"
                    if not any(name.startswith(relative) and name.endswith(".c") for name in self.texts):
                        continue
                there[path.stem] = relative
            rows = {name: line for name, line in self.rows(file, macro)}
            for name, line in rows.items():
                if name not in there:
                    self.offend(file, line, f"{macro}({name}) has no {where.format(name)}")
            for name, path in sorted(there.items()):
                asks = marker is None or re.search(marker, self.texts[path], re.M)
                if asks and name not in rows and path not in NO_ROW_NEEDED:
                    self.offend(path, 1, f"no row {macro}({name}) in {file}")

    def ops_defined_in(self, name):
        """Ops that a source defines, by hand or by a macro, in which case the preprocessor writes them out."""
        definition = re.compile(r"(?:^|[;}])\s*const\s+OpSchema\s+op_(\w+)\s*=", re.M)
        text = self.texts[name]
        found = definition.findall(only_code(text))
        if found and "op_##" not in text:
            return found
        folders = [f"-I{self.root / folder}" for folder in ("include", "src", "build/gen")]
        command = [os.environ.get("CC", "cc"), "-E", "-P", *folders, str(self.root / name)]
        try:
            if "<openjpeg.h>" in text:  # the one library whose headers lie in a folder of their own
                flags = subprocess.run(["pkg-config", "--cflags", "libopenjp2"], capture_output=True, text=True)
                command += flags.stdout.split()
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            self.offend(name, 1, f"cannot be preprocessed: {error}")
            return found
        if done.returncode != 0:
            first = done.stderr.strip().split("\n")[0]
            self.offend(name, 1, f"cannot be preprocessed, so its ops are unknown: {first}")
            return found
        return definition.findall(only_code(done.stdout))

    def check_ops(self):
        file = "src/ops/ops.def"
        rows = self.rows(file, "OP")
        names = [name for name, _ in rows]
        defined = {}
        for name in self.texts:
            if name.startswith("src/ops/") and name.endswith(".c"):
                for op in self.ops_defined_in(name):
                    defined[op] = name
        for op, line in rows:
            if op not in defined:
                self.offend(file, line, f"OP({op}): no file of src/ops defines `const OpSchema op_{op}`")
        page = self.root / "docs/ops.md"
        words = set(re.findall(r"[\w.]*\w", page.read_text(encoding="utf-8"))) if page.exists() else set()
        for op, name in sorted(defined.items()):
            if op not in names:
                self.offend(name, 1, f"defines op_{op}, which has no row OP({op}) in {file}")
            case = f"tests/ops/{Path(name).stem}.case"
            if not (self.root / case).exists():
                self.offend(name, 1, f"has no test {case}")
            if not words & {op, op.split("_", 1)[-1]}:  # ids of other domains begin with a short name of the domain
                self.offend("docs/ops.md", 1, f"has no entry for {op} ({name})")

    # Text

    def check_banned(self):
        for name, text in self.texts.items():
            if not name.startswith("src/"):
                continue
            code = only_code(text)
            # Macros are code too here, unlike in only_code.
            macros = COMMENT.sub(lambda m: blank(m.group()), text)
            for source in (code, macros):
                for match in re.finditer(r"(?<![\w.])(?<!->)(\w+)\s*\(", source):
                    word = match.group(1)
                    if word in BANNED and not (word in ALLOCATION.split() and name.startswith("src/base/")):
                        self.offend(name, line_at(source, match.start(1)), f"calls {word}: {BANNED[word]}")

    def check_lengths(self):
        for name, text in self.texts.items():
            if name.endswith(".def") or any(Path(name).match(pattern) for pattern in LENGTH_EXEMPT):
                continue
            lines = text.count("\n")
            if lines > MAX_FILE:
                self.offend(name, MAX_FILE + 1, f"has {lines} lines; {MAX_FILE} is the most")
            for function, first, last in functions(only_code(text)):
                if last - first + 1 > MAX_FUNCTION:
                    self.offend(name, first, f"{function} has {last - first + 1} lines; {MAX_FUNCTION} is the most")

    def check_licences(self):
        for name, text in self.texts.items():
            if not text.startswith("/* SPDX-License-Identifier: Apache-2.0 */\n"):
                self.offend(name, 1, "must begin with /* SPDX-License-Identifier: Apache-2.0 */")

    def check_budgets(self, quiet):
        decisions = self.root / "docs/decisions.md"
        explained = decisions.read_text(encoding="utf-8") if decisions.exists() else ""
        rows = []
        for title, folders, budget in BUDGETS:
            under = [name for name in self.texts if name.startswith(tuple(f"{folder}/" for folder in folders))]
            lines = sum(self.texts[name].count("\n") for name in under)
            rows.append((title, len(under), lines, budget))
            if lines > budget and f"Budget: {title}" not in explained:
                message = f"{title} has {lines} lines, its budget is {budget}: explain it under `Budget: {title}`"
                self.offend("docs/decisions.md", 1, message)
        if not quiet:
            print(f"{'lines of C':<40}{'files':>7}{'lines':>9}{'budget':>9}{'used':>7}")
            for title, files, lines, budget in rows:
                print(f"{title:<40}{files:>7}{lines:>9,}{budget:>9,}{lines / budget:>7.0%}")
            totals = [sum(row[i] for row in rows) for i in (1, 2, 3)]
            print(f"{'all':<40}{totals[0]:>7}{totals[1]:>9,}{totals[2]:>9,}{totals[1] / totals[2]:>7.0%}")

    def run(self, quiet):
        self.check_includes()
        self.check_headers()
        self.check_registries()
        self.check_ops()
        self.check_banned()
        self.check_lengths()
        self.check_licences()
        self.check_budgets(quiet)
        for file, line, message in sorted(self.offences):
            print(f"{file}:{line}: {message}")
        verdict = f"{len(self.offences)} offences" if self.offences else "no offence"
        print(f"audit: {verdict} in {len(self.texts)} files")
        return 1 if self.offences else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quiet", action="store_true", help="leave out the table of sizes")
    parser.add_argument("--root", default=Path(__file__).resolve().parent.parent, help="the tree to audit")
    options = parser.parse_args()
    return Audit(options.root).run(options.quiet)


if __name__ == "__main__":
    sys.exit(main())
