"""Compares the outcomes of Microsoft's suites with the list: `LIST REPORT [part]`.

The exit status is 1 if an unlisted test fails or does not apply, or if a listed one passes. Tests of the
table `sometimes` may pass or fail. `part` is for a report of some of the tests.
"""

import collections
import json
import sys
import tomllib

OUTCOMES = {"expected": "failed", "inapplicable": "inapplicable", "sometimes": "sometimes"}


def read_list(path):
    """The listed outcome of each test, and errors in the list itself."""
    with open(path, "rb") as file:
        tables = tomllib.load(file)
    listed, wrong = {}, []
    for table, outcome in OUTCOMES.items():
        names = [name for entry in tables.get(table, []) for name in entry.get("tests", [entry.get("test")])]
        if table == "expected" and names != sorted(set(names)):
            wrong.append("the expected failures are not in alphabetical order, or have a test twice")
        wrong += [f"{name} is listed twice" for name in names if name in listed]
        wrong += [f"no reason is given: {entry}" for entry in tables.get(table, []) if not entry["reason"].strip()]
        listed.update(dict.fromkeys(names, outcome))
    return listed, wrong


def main(list_path, report_path, part=None):
    listed, wrong = read_list(list_path)
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    if not part:
        wrong += [f"{name} is listed, and there is no such test" for name in sorted(listed.keys() - report.keys())]
    counts = collections.Counter()
    for name, test in sorted(report.items()):
        outcome = test["outcome"]
        counts[name.split(".")[0], outcome] += 1
        if listed.get(name) == "sometimes" and outcome in ("passed", "failed"):
            continue
        if outcome != listed.get(name, "passed"):
            wrong.append(f"{name} is listed as {listed.get(name, 'passed')}, and is {outcome}: {test['reason']}")
    if not any(outcome == "passed" for _suite, outcome in counts):
        wrong.append("no test passes")
    for line in wrong:
        print(line, file=sys.stderr)
    for suite in sorted({suite for suite, _outcome in counts}):
        passed, failed, other = (counts[suite, outcome] for outcome in ("passed", "failed", "inapplicable"))
        print(f"wpts: {suite}: {passed} of {passed + failed + other} tests pass, {failed} fail, {other} do not apply")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])
