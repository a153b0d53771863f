"""Compares the outcomes of pynfs with the expected failures. Arguments: the list, and pynfs's report. The exit
status is 1 if an unlisted test fails, or a listed one passes."""

import json
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    entries = tomllib.load(file)["expected"]
with open(sys.argv[2], encoding="utf-8") as file:
    tests = json.load(file)["testcase"]
expected = {entry["test"] for entry in entries}
names = [entry["test"] for entry in entries]
wrong = []
if names != sorted(set(names)):
    wrong.append("the list is not in alphabetical order, or has a test twice")
if any(not entry["reason"].strip() for entry in entries):
    wrong.append("something is expected without a reason")
wrong += [f"{test} is expected to fail, and there is no such test" for test in sorted(expected - {t["code"] for t in tests})]
passed = 0
for test in tests:
    if "skipped" in test:
        continue
    failed = "failure" in test
    passed += not failed
    if failed and test["code"] not in expected:
        why = test["failure"].get("message") or test["failure"].get("err") or "no reason is given"
        wrong.append(f"{test['code']} ({test['name']}) fails: {' '.join(why.split())[-300:]}")
    if not failed and test["code"] in expected:
        wrong.append(f"{test['code']} passes: take it off the list")
if not passed:
    wrong.append("no test passes")
for line in wrong:
    print(line, file=sys.stderr)
print(f"pynfs: {passed} tests pass")
sys.exit(bool(wrong))
