# SPDX-License-Identifier: Apache-2.0
"""lit's configuration: runs the RUN lines of tests/{passes,ir,cli} with the command of the build that TENON_BUILD names."""
import glob
import os
import shutil

import lit.formats

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
build = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(root, "build")))


def find_tool(name):
    """The newest of LLVM's tools by this name: plain, or in one of the versioned folders that Debian uses."""
    found = shutil.which(name)
    versioned = glob.glob(f"/usr/lib/llvm-*/bin/{name}")
    by_version = sorted(versioned, key=lambda path: int(path.split("llvm-")[1].split("/")[0]))
    if not found and not by_version:
        lit_config.fatal(f"{name} was not found: run tools/setup.sh")
    return found or by_version[-1]


def link(name, target):
    """Puts a tool on the tests' path under its plain name. Several lit runs may do so at once."""
    temporary = os.path.join(tools, f".{name}.{os.getpid()}")
    os.symlink(target, temporary)
    os.replace(temporary, os.path.join(tools, name))


if not os.access(os.path.join(build, "tenon"), os.X_OK):
    lit_config.fatal(f"no `tenon` in {build}: build it, or set TENON_BUILD")
tools = os.path.join(build, "lit", "bin")
os.makedirs(tools, exist_ok=True)
for tool in ("FileCheck", "not"):
    link(tool, find_tool(tool))
link("tenon", os.path.join(build, "tenon"))

config.name = "tenon"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".tn", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.join(root, "tests")
config.test_exec_root = os.path.join(build, "lit")

config.environment["PATH"] = os.pathsep.join([tools, os.environ["PATH"]])
config.environment["TENON_ROOT"] = root
for variable in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "TENON_BUILD"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
config.substitutions.append(("%root", root))
config.substitutions.append(("%data", os.path.join(root, "tests", "data")))
config.substitutions.append(("%plugins", os.path.join(build, "tests", "plugins")))
config.substitutions.append(("%examples", os.path.join(build, "examples")))
