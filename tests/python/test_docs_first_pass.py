# SPDX-License-Identifier: Apache-2.0
"""docs/first-pass.md does what it says: its Python is run, its C compiled and run, and all that they print is on the page."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

import tenonrt_env

tenonrt_env.enter()
from harness import BUILD, ROOT, compiler, internal_libraries, scratch, setting  # noqa: E402

FOLDER = scratch("docs_first_pass")
IN_THE_TREE = """\
/* Runs the page's pass on a model, as the manager of passes does. */
#include <stdio.h>
#include <tenon/passes.h>

#include "pass/pass.h"

extern const Pass pass_print_calls;
static void told(void *user, tn_log_level level, const char *message) {
    if (!strncmp(message, "call", 4)) printf("%s\\n", message);
    (void)user, (void)level;
}
int main(int argc, char **argv) {
    tn_context *context;
    tn_model *model;
    const tn_pass_settings settings = {.pipeline = "print-calls"};
    if (argc != 2 || tn_context_create(&(tn_context_options){.log = told, .log_level = TN_LOG_INFO}, &context) != TN_OK) return 2;
    if (pass_register(&pass_print_calls) != TN_OK || tn_model_load(context, argv[1], &model) != TN_OK) return 3;
    if (tn_model_run_passes(model, &settings, NULL) != TN_OK) return 4;
    tn_model_release(model);
    tn_context_release(context);
    return 0;
}
"""


def blocks():
    """(language, code) of each fenced block of the page, in order."""
    with open(os.path.join(ROOT, "docs", "first-pass.md"), encoding="utf-8") as file:
        return re.findall(r"^```(\w+)\n(.*?)^```$", file.read(), re.S | re.M)


def of(language):
    return [code for name, code in blocks() if name == language]


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER, env=tenonrt_env.environment(), **options)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def write(name, text):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
        file.write(text)


class FirstPass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(FOLDER)
        os.makedirs(FOLDER)
        os.symlink(os.path.join(ROOT, "include"), os.path.join(FOLDER, "include"))
        cls.plugin, cls.in_the_tree = of("c")
        write("print_calls.c", cls.plugin)
        write("page.py", "".join(of("python")[:-1]))
        run([sys.executable, "page.py"])  # saves the model that the others read

    def test_the_command(self):
        """Each line behind a $ is run; what it prints is what stands below it, or begins so where dots follow."""
        (console,) = of("console")
        tools = {"cc": setting("CMAKE_C_COMPILER"), "tenon": os.path.join(BUILD, "tenon")}
        for step in re.split(r"^\$ ", console, flags=re.M)[1:]:
            line, _, printed = step.partition("\n")
            words = shlex.split(line)
            said = run([tools[words[0]], *words[1:]])
            if printed.endswith("...\n"):
                printed = printed[: -len("...\n")]
                said = said[: len(printed)]
            self.assertEqual(said, printed, line)

    def test_in_python(self):
        """All the page's Python as one script: what C prints comes last, when the process ends."""
        run([setting("CMAKE_C_COMPILER"), *shlex.split("-shared -fPIC -I include print_calls.c -o print_calls.so")])
        write("page.py", "".join(of("python")))
        said = [line for line in run([sys.executable, "page.py"]).split("\n") if line]
        self.assertEqual(said, [line for text in of("text") for line in text.split("\n") if line])

    def test_in_the_tree(self):
        write("in_the_tree.c", self.in_the_tree)
        write("main.c", IN_THE_TREE)
        folders = [os.path.join(ROOT, "src"), os.path.join(ROOT, "include"), os.path.join(BUILD, "gen")]
        command = compiler("-Wall", "-Wextra", "-Werror") + [f"-I{folder}" for folder in folders]
        command += ["in_the_tree.c", "main.c", "-o", "in_the_tree"]
        run([*command, os.path.join(BUILD, "libtenon_internal.a"), *internal_libraries()])
        self.assertEqual(run(["./in_the_tree", "add_mul.tn"]), of("text")[1])

    def test_the_example_is_the_page_s(self):
        with open(os.path.join(ROOT, "examples", "plugin", "print_calls.c"), encoding="utf-8") as file:
            self.assertEqual(file.read().partition("#include")[2], self.plugin.partition("#include")[2])


if __name__ == "__main__":
    unittest.main()
