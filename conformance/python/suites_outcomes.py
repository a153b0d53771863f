"""Compares what a suite found over NFS with the failures that are expected: `SUITE LIST NFS [REFERENCE]`.

REFERENCE is what it found on a local file system, or through the kernel's own server: what fails there
is left out. The status is 1 if another test fails that is not in LIST, or does not run that runs
there, or one of LIST passes. Of LIST what was not run is no fault: a share of the suite may have been.
"""

import sys
import tomllib


def read_list(path, suite):
    """The expected failures of the suite, and what is wrong with the list itself."""
    with open(path, "rb") as file:
        entries = tomllib.load(file).get("expected", [])
    keys = [(entry["suite"], entry["test"]) for entry in entries]
    wrong = []
    if keys != sorted(set(keys)):
        wrong.append("the list is not in alphabetical order, or has a test twice")
    wrong += [f"{entry['test']} is expected without a reason" for entry in entries if not entry["reason"].strip()]
    return {entry["test"] for entry in entries if entry["suite"] == suite}, wrong


def read_report(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return {line[0]: (line[1], line[2] if len(line) > 2 else "") for line in lines}


def main(suite, expected_path, nfs_path, reference_path=None):
    expected, wrong = read_list(expected_path, suite)
    nfs = read_report(nfs_path)
    reference = read_report(reference_path or nfs_path)
    passed = counted = 0
    for test in sorted(nfs.keys() | reference.keys()):
        outcome, why = nfs.get(test, ("missing", ""))
        there = reference.get(test, ("missing", ""))[0]
        if outcome == there != "passed" and (reference_path or outcome == "skipped"):
            continue
        counted += 1
        passed += outcome == "passed"
        if outcome == "passed" and test in expected:
            wrong.append(f"{test} passes: take it off the list")
        if outcome != "passed" and there != "failed" and test not in expected or (
            not reference_path and outcome == "failed" and test not in expected
        ):
            wrong.append(f"{test} {outcome}, {there} on the reference: {why}")
    if not passed:
        wrong.append("no test passes")
    for line in wrong:
        print(f"{suite}: {line}", file=sys.stderr)
    than = f"that run on {reference_path.rpartition('.')[2]}" if reference_path else "that run"
    print(f"{suite}: {passed} pass of the {counted} tests {than}")
    sys.exit(bool(wrong))


main(*sys.argv[1:])
