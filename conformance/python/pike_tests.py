"""Runs Pike's tests against the server at an address. Arguments: `HOST REPORT [PARTS OF NAMES]`.

The report has the outcome of each test, `passed`, `failed` or `skipped`, and the last line of the reason.
Groups of tests run concurrently, each on the share with the group's name, because several tests wait for
opens to expire.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import time
import unittest

# The groups, and the prefixes of their tests' names; a test belongs to the first matching group. A failed test
# may leave an open of a disconnected client, so each such group has its own share.
GROUPS = {
    "away": ["persistent.Persistent.test_open_while_disconnected"],
    "away-resilient": ["persistent.Persistent.test_resiliency_reconnect_before_timeout"],
    "away-as-long": ["persistent.Persistent.test_resiliency_same_timeout_reconnect_before_timeout"],
    "away-malformed": ["persistent.Persistent.test_buffer_too_small"],
    "timers": ["durable.DurableHandleTest.test_durable_timer", "durable.DurableHandleTest.test_durable_v2_timer"],
    "persistent": ["persistent."],
    "durable": ["durable.", "appinstanceid.", "negotiate.CapPersistent."],
    "credits": ["credit."],
    "links": ["reparse."],
    "disk-ids": ["queryondiskid."],
    "others": [""],
}
# Time limit of a hung test, far above the time of any other.
TEST_SECONDS_MAX = int(os.environ.get("PIKE_TEST_SECONDS_MAX", "500"))


class TimedOut(Exception):
    """A test did not end in its time."""


def raise_timed_out(_signal, _frame):
    raise TimedOut(f"no end within {TEST_SECONDS_MAX} seconds")


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def group_of(name):
    return next(group for group, begins in GROUPS.items() if name.startswith(tuple(begins)))


def run_test(test):
    result = unittest.TestResult()
    signal.alarm(TEST_SECONDS_MAX)
    try:
        test.run(result)
    except TimedOut as error:
        result.errors.append((test, f"TimedOut: {error}"))
    finally:
        signal.alarm(0)
    faults = result.failures + result.errors
    if faults:
        lines = [line for line in faults[0][1].splitlines() if line.strip()]
        named = [line for line in lines if line.startswith(("AssertionError", "pike.", "TimedOut"))]
        return "failed", (named or lines)[-1][:300]
    if result.skipped:
        return "skipped", result.skipped[0][1]
    return "passed", ""


def run_group(group, report, parts):
    # Pike reads the server from the environment when it is loaded.
    import pike.test

    # The garbage collector closes Pike's open files over the network. Within a send or receive that would start
    # another one.
    gc.disable()
    signal.signal(signal.SIGALRM, raise_timed_out)
    suite = unittest.defaultTestLoader.discover(os.path.dirname(pike.test.__file__), pattern="*.py")
    outcomes = {}
    for test in tests_of(suite):
        name = test.id()
        if group_of(name) != group or (parts and not any(part in name for part in parts)):
            continue
        begin = time.monotonic()
        outcome, reason = run_test(test)
        gc.collect()
        seconds = round(time.monotonic() - begin, 1)
        outcomes[name] = {"outcome": outcome, "reason": reason, "seconds": seconds}
    with open(report, "w", encoding="utf-8") as file:
        json.dump(outcomes, file)


def main(server, report, *parts):
    running = {}
    for group in GROUPS:
        environment = dict(os.environ, PIKE_SERVER=server, PIKE_SHARE=group)
        command = [sys.executable, __file__, "--group", group, f"{report}.{group}", *parts]
        with open(f"{report}.{group}.log", "wb") as log:
            running[group] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    outcomes = {}
    for group, process in running.items():
        if process.wait():
            with open(f"{report}.{group}.log", encoding="utf-8", errors="replace") as log:
                sys.exit(f"pike: the tests of {group} did not run: {log.read()[-2000:]}")
        with open(f"{report}.{group}", encoding="utf-8") as file:
            outcomes.update(json.load(file))
    with open(report, "w", encoding="utf-8") as file:
        json.dump(outcomes, file, indent=1)


if __name__ == "__main__":
    if sys.argv[1] == "--group":
        run_group(*sys.argv[2:4], sys.argv[4:])
    else:
        main(*sys.argv[1:])
