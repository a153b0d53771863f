"""Compares the outcomes of a suite over NFS with the expected failures: `SUITE LIST NFS [REFERENCE]`.

REFERENCE has the outcomes on a local file system or through the kernel's server: tests that fail there do
not count. The exit status is 1 if an unlisted test fails or is skipped that passes in the reference, or if
a listed test passes. Listed tests that did not run are ignored, because the run may be a part of the suite.
An entry with `numbers` applies to these tests of one file; one with `sometimes` may pass.
"""

import sys
import tomllib


def read_list(path, suite):
    """The expected failures of the suite, those that may pass, and errors in the list itself."""
    with open(path, "rb") as file:
        entries = tomllib.load(file).get("expected", [])
    keys = [(entry["suite"], entry["test"]) for entry in entries]

    def tests(entry):
        return [f"{entry['test']} {number}" for number in entry["numbers"]] if "numbers" in entry else [entry["test"]]

    wrong = []
    if keys != sorted(set(keys)):
        wrong.append("the list is not in alphabetical order, or has a test twice")
    wrong += [f"{entry['test']} is expected without a reason" for entry in entries if not entry["reason"].strip()]
    entries = [entry for entry in entries if entry["suite"] == suite]
    expected = {test for entry in entries for test in tests(entry)}
    return expected, {test for entry in entries if entry.get("sometimes") for test in tests(entry)}, wrong


def read_report(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return {line[0]: (line[1], line[2] if len(line) > 2 else "") for line in lines}


def main(suite, expected_path, nfs_path, reference_path=None):
    expected, sometimes, wrong = read_list(expected_path, suite)
    nfs = read_report(nfs_path)
    reference = read_report(reference_path) if reference_path else {}
    passed = counted = 0
    for test in sorted(nfs.keys() | reference.keys()):
        outcome, why = nfs.get(test, ("missing", ""))
        there = reference.get(test, ("unknown", ""))[0]
        if outcome != "passed" and there == "failed" or outcome == "skipped" and there in ("unknown", "skipped"):
            continue
        counted += 1
        passed += outcome == "passed"
        if outcome == "passed" and test in expected - sometimes:
            wrong.append(f"{test} passes: take it off the list")
        if outcome != "passed" and test not in expected:
            wrong.append(f"{test} {outcome}, {there} on the reference: {why}")
    if not passed:
        wrong.append("no test passes")
    for line in wrong:
        print(f"{suite}: {line}", file=sys.stderr)
    print(f"{suite}: {passed} of {counted} tests pass")
    sys.exit(bool(wrong))


main(*sys.argv[1:])
