#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon rules`: all rules of the tree are proven; rules of a user's file are proven when they are loaded, used, or refused."""
import json
import os
import sys
import time

from harness import TENON, sanitized, scratch, tenon

FOLDER = scratch("rules")
failures = []

GOOD = """rule relu_of_neg_of_neg        # two signs are none
  match
    %a = Neg(%x)
    %b = Neg(%a)
    %y = Relu(%b)
  write
    %y = Relu(%x)
"""
WRONG = """# mine
rule forgets_the_bias
  match
    %c = Conv(%x, %w, %b?) {*}
    %y = Mul(%c, %s)
  where const(%w, %s), count(%s) == 1, rank(%s) == 0
  write
    %y = Conv(%x, Mul(%w, %s), %b) {*%c}
"""
PLANTED = """rule double_of_neg
  match
    %a = Neg(%x)
    %b = Neg(%a)
  write
    %b = %x

rule forgets_relu
  match
    %a = Relu(%x)
    %y = Tanh(%a)
  write
    %y = Tanh(%x)
"""
PLANTED_MODEL = """tn 1
graph @g(%x: f32[2,3]) -> (%z) {
  %a = Neg(%x)
  %b = Neg(%a)
  %c = Relu(%b)
  %y = Tanh(%c) loc "bend"
  %z = Exp(%y)
}
"""
MODEL = """tn 1
graph @g(%x: f32[2]) -> (%y) {
  %a = Neg(%x)
  %b = Neg(%a)
  %y = Relu(%b)
}
"""


def check(what, condition, *details):
    if not condition:
        failures.append(what)
        print(f"FAILED: {what}", *details, sep="\n")


def write(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def all_rules_hold():
    started = time.time()
    done = tenon("rules", "--prove", "--json", "--instances", "20" if sanitized() else "200")
    check("proofs run", done.returncode in (0, 1) and done.stdout, done.stderr)
    proofs = json.loads(done.stdout)
    print(f"{len(proofs)} rules, {sum(p['instances'] for p in proofs)} instances in {time.time() - started:.1f} s")
    for p in proofs:
        check(f"{p['set']}: {p['name']} holds", p["outcome"] == "holds", p["why"], p["counterexample"])
        check(f"{p['name']}: enough instances", p["instances"] >= (20 if sanitized() else 200) or p["outcome"] != "holds", p)
    listed = json.loads(tenon("rules", "--json").stdout)
    check("all rules are proven", [p["name"] for p in proofs] == [r["name"] for r in listed])
    check("rules have a summary", all(r["summary"] for r in listed), [r["name"] for r in listed if not r["summary"]])
    for p in proofs:  # what levels promise: docs/rules.md
        check(f"{p['name']} is of level {p['level']} and keeps every bit", p["level"] > 1 or p["exact"], p)


def proofs_repeat():
    twice = [tenon("rules", "--prove", "--json", "--seed", "7", "--instances", "30", "conv").stdout for _ in range(2)]
    check("the same seed gives the same proofs", twice[0] == twice[1] and json.loads(twice[0]))
    other = tenon("rules", "--prove", "--json", "--seed", "8", "--instances", "30", "conv").stdout
    check("another seed gives others", other != twice[0])


def good_rules_are_used():
    rules, model = write("good.rules", GOOD), write("model.tn", MODEL)
    done = tenon("opt", model, "--rules", rules, "--passes", "apply-rules", "--text")
    check("a rule of one's own is applied", done.returncode == 0 and "%y: f32[2] = Relu(%x)" in done.stdout, done.stdout, done.stderr)
    check("and no other", "Neg" not in done.stdout, done.stdout)
    done = tenon("run", model, "--rules", rules, "--input", "x=random")
    check("run takes rules", done.returncode == 0, done.stderr)
    done = tenon("rules", "--rules", rules)
    check("rules of a file are listed alone", "relu_of_neg_of_neg" in done.stdout and "\n1 rules" in done.stdout, done.stdout)
    done = tenon("rules", "--rules", rules, "relu_of_neg_of_neg")
    check("a rule is shown", GOOD.rstrip() in done.stdout, done.stdout)


def wrong_rules_are_refused():
    rules, model = write("wrong.rules", WRONG), write("model.tn", MODEL)
    done = tenon("opt", model, "--rules", rules, "--text")
    check("a wrong rule is refused", done.returncode == 1 and not done.stdout, done.stdout)
    check("by name and line", "rule forgets_the_bias is wrong" in done.stderr and "at line 2 of" in done.stderr, done.stderr)
    at = done.stderr.find("tn 1")
    check("with a counterexample", at > 0, done.stderr)
    example = write("counterexample.tn", done.stderr[at:])
    check("that is a model", tenon("show", example).returncode == 0, done.stderr[at:])
    lines = done.stderr[at:].splitlines()
    check("and small", len(lines) < 20 and max(map(len, lines)) < 400, done.stderr[at:])
    blamed = tenon("check", example, "--rules", rules, "--unproven", "--passes", "apply-rules(rule=forgets_the_bias)")
    check("whose answer the rule changes", blamed.returncode == 1 and "apply-rules" in blamed.stdout, blamed.stdout, blamed.stderr)
    done = tenon("opt", model, "--rules", rules, "--unproven", "--text")
    check("unless it is taken unproven", done.returncode == 0, done.stderr)
    done = tenon("rules", "--prove", "--json", "--rules", rules)
    check("a proof of it fails", done.returncode == 1 and json.loads(done.stdout)[0]["outcome"] == "refuted", done.stdout)


def planted_rules_are_named():
    rules, model = write("planted.rules", PLANTED), write("planted.tn", PLANTED_MODEL)
    for options in ([], ["--bisect"]):
        done = tenon("check", model, "--rules", rules, "--unproven", "--json", *options)
        check(f"a wrong rule is found {options}", done.returncode == 1, done.stdout, done.stderr)
        fault = json.loads(done.stdout)["checks"][0]
        check(f"by name {options}", fault["by"] == 'rule forgets_relu at node "bend" (Tanh)', fault)
        check(f"with the value {options}", fault["value"] == "y" and fault["op"] == "Tanh", fault)
    done = tenon("check", model, "--rules", rules, "--unproven")
    check("and printed", "  by     rule forgets_relu" in done.stdout, done.stdout)
    done = tenon("check", model, "--rules", write("right.rules", PLANTED.split("\n\n")[0] + "\n"), "--unproven")
    check("a right one is not blamed", done.returncode == 0, done.stdout)


def what_is_no_rule_is_located():
    rules = write("no.rules", "rule r\n  match\n    %y = Relu(%x)\n  write\n    %y = Rely(%x)\n")
    for arguments in (["rules"], ["opt", write("model.tn", MODEL)]):
        done = tenon(*arguments, "--rules", rules)
        check(f"{arguments[0]}: a syntax error is located", done.returncode == 1 and "line 5, column 10" in done.stderr, done.stderr)
        check(f"{arguments[0]}: and corrected", 'did you mean "Relu"' in done.stderr, done.stderr)
    check("no file", tenon("rules", "--rules", os.path.join(FOLDER, "none.rules")).returncode == 1)
    for name, text in {"empty": "", "comments": "# nothing\n", "binary": "\0\1\2", "cut": GOOD[:60]}.items():
        done = tenon("rules", "--rules", write(f"{name}.rules", text))
        check(f"{name}: no crash", done.returncode in (0, 1), done.returncode, done.stderr)
    done = tenon("rules", "fold_batchnorm_into_konv")
    check("a wrong name is corrected", done.returncode == 2 and "fold_batchnorm_into_conv" in done.stderr, done.stderr)
    twice = write("twice.rules", GOOD + GOOD.replace("# two signs", "# again: two signs"))
    check("a name that stands twice", "there is a rule" in tenon("rules", "--rules", twice).stderr)
    own = write("own.rules", GOOD.replace("relu_of_neg_of_neg", "transpose_of_transpose"))
    check("a name that the tree has", "there is a rule transpose_of_transpose already" in tenon("rules", "--rules", own).stderr)


def main():
    if not os.path.exists(TENON):
        sys.exit(f"{TENON} is not there: build first")
    for test in (all_rules_hold, proofs_repeat, good_rules_are_used, wrong_rules_are_refused, planted_rules_are_named, what_is_no_rule_is_located):
        test()
    print("ok" if not failures else f"{len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
