"""Compares the outcomes of Pike's tests with the expected failures: `LIST REPORT [SAMBA'S REPORT]`.

The exit status is 1 if an unlisted test fails, a listed one passes, or one fails that passes on Samba.
"""

import json
import sys
import tomllib


def read_list(path):
    """The expected failures, and errors in the list itself."""
    with open(path, "rb") as file:
        entries = tomllib.load(file)["expected"]
    names = [entry["test"] for entry in entries]
    wrong = []
    if names != sorted(set(names)):
        wrong.append("the list is not in alphabetical order, or has a test twice")
    wrong += [f"{entry['test']} is expected without a reason" for entry in entries if not entry["reason"].strip()]
    return set(names), wrong


def read_report(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def names_with(report, outcome):
    return {name for name, test in report.items() if test["outcome"] == outcome}


def main(expected_path, report_path, samba_path=None):
    expected, wrong = read_list(expected_path)
    report = read_report(report_path)
    passed, failed, skipped = (names_with(report, outcome) for outcome in ("passed", "failed", "skipped"))
    wrong += [f"{name} is expected to fail, and there is no such test" for name in sorted(expected - report.keys())]
    wrong += [f"{name} fails: {report[name]['reason']}" for name in sorted(failed - expected)]
    wrong += [f"{name} passes: take it off the list" for name in sorted(passed & expected)]
    wrong += [f"{name} was skipped: {report[name]['reason']}" for name in sorted(skipped)]
    if not passed:
        wrong.append("no test passes")
    if samba_path:
        samba = read_report(samba_path)
        better = names_with(samba, "passed") - passed
        wrong += [f"{name} passes on Samba: {report[name]['reason']}" for name in sorted(better)]
        print(f"pike: on Samba {len(names_with(samba, 'passed'))} of {len(samba)} tests pass")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"pike: {len(passed)} of {len(report)} tests pass, {len(failed & expected)} fail as expected")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])
