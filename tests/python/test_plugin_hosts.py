# SPDX-License-Identifier: Apache-2.0
"""Whoever holds the library can load plug-ins: a program linked to the shared or the static one, a process with two copies."""
import os
import subprocess
import sys
import unittest

import tenonrt_env
from harness import BUILD, ROOT, compiler, internal_libraries, sanitized, scratch, setting

FOLDER = scratch("plugin_hosts")
PLUGIN = os.path.join(BUILD, "examples", "print_calls.so")
HOST = """\
#include <stdio.h>
#include <tenon/plugin.h>

static tn_status in_program(tn_pass_run *run, tn_graph *graph) {
    printf("%s: %zu nodes\\n", tn_pass_run_pass(run), tn_graph_n_nodes(graph));
    return TN_OK;
}
TN_REGISTER_PASS(TN_PRE_PLACEMENT, 0, in_program);
TN_PLUGIN("host");

int main(int argc, char **argv) {
    tn_context *context;
    tn_model *model;
    const tn_pass_settings settings = {.pipeline = "in_program,print_calls"};
    const char *text = "tn 1\\ngraph @main(%x: f32[2]) -> (%y) {\\n  %y = Relu(%x)\\n}\\n";
    if (argc != 2 || tn_register_plugin(&tn_plugin_info) != TN_OK || tn_load_plugin(argv[1]) != TN_OK ||
        tn_context_create(NULL, &context) != TN_OK || tn_model_from_text(context, text, &model) != TN_OK ||
        tn_model_run_passes(model, &settings, NULL) != TN_OK) {
        puts(tn_last_error());
        return 1;
    }
    tn_model_release(model);
    tn_context_release(context);
    return 0;
}
"""
SAID = "in-program: 1 nodes\ncall :\ntn 1\nRelu\n"


def build(name, *flags):
    source, program = os.path.join(FOLDER, "host.c"), os.path.join(FOLDER, name)
    with open(source, "w", encoding="utf-8") as file:
        file.write(HOST)
    command = [*compiler("-Wall", "-Wextra", "-Werror"), f"-I{ROOT}/include", source, "-o", program, *flags]
    subprocess.run(command, check=True)
    return program


def run(*command):
    # Program and plug-in both have a tn_plugin_info, as they should.
    options = os.environ.get("ASAN_OPTIONS", "") + ":detect_odr_violation=0"
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, ASAN_OPTIONS=options))
    return done.returncode, done.stdout + done.stderr


class Hosts(unittest.TestCase):
    static = [os.path.join(BUILD, "libtenon.a"), *internal_libraries()]

    def test_shared_library(self):
        program = build("shared", f"-L{BUILD}", f"-Wl,-rpath,{BUILD}", "-l:libtenon.so")
        self.assertEqual(run(program, PLUGIN), (0, SAID))

    def test_static_library(self):
        whole = ["-Wl,--whole-archive", self.static[0], "-Wl,--no-whole-archive", *self.static[1:]] if sanitized() else self.static
        self.assertEqual(run(build("static", "-rdynamic", *whole), PLUGIN), (0, SAID))

    @unittest.skipIf(sanitized(), "sanitizers export symbols")
    def test_functions_that_are_not_visible(self):
        code, said = run(build("closed", *self.static), PLUGIN)
        self.assertEqual(code, 1)
        self.assertRegex(said, r"print_calls\.so: .*undefined symbol: tn_\w+\n.*-rdynamic")

    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, "python", "tenonrt", "_tenon.abi3.so")), "no Python package")
    @unittest.skipIf(setting("TENON_SANITIZE") == "thread", "Python cannot be run with it")
    def test_two_copies(self):
        """A plug-in's functions are those of the first copy that was made visible; the other says that they are not its own."""
        code = (
            "import ctypes, sys, tenonrt\n"
            f"other = ctypes.CDLL({os.path.join(BUILD, 'libtenon.so')!r})\n"
            "other.tn_last_error.restype = ctypes.c_char_p\n"
            f"print(other.tn_load_plugin({PLUGIN!r}.encode()))\n"
            f"try:\n    tenonrt.load_plugin({PLUGIN!r})\n"
            "except tenonrt.TenonError as error:\n    print(error.diagnostics.partition('\\n')[0])\n"
            "print('print_calls' in dir(tenonrt.passes))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=tenonrt_env.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.split("\n")
        self.assertEqual((lines[0], lines[2]), ("0", "False"))
        self.assertIn("another copy of Tenon in this process", lines[1])


if __name__ == "__main__":
    unittest.main()
