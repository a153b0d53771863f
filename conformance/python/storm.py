"""Concurrent processes that create, rename, replace and remove files.

    storm.py ROUNDS DIRECTORY [DIRECTORY]

Two directories must be one directory through two mounts. Each process owns the names that begin with
its number, and checks their outcome. All processes also compete for a few common names, whose content
must always be complete.
"""

import os
import random
import sys
import time
import traceback

PROCESSES = 4
CONTENDED = 3
CLOSE_SECONDS_MAX = 5
REPLACE_TRIES_MAX = 20
REPLACE_WAIT_SECONDS = 0.01
LINE = "from process {} in round {}\n"


def text(number, round_number):
    return LINE.format(number, round_number) * 20


def write(path, content):
    with open(path, "w") as file:
        file.write(content)


def read(path):
    with open(path) as file:
        return file.read()


def whole(content):
    """True if one process wrote all of the content."""
    lines = content.splitlines(keepends=True)
    return len(lines) == 20 and len(set(lines)) == 1 and lines[0].startswith("from process ")


def replace(path, contended):
    """Renames over a file. A file that another client has open cannot be replaced (MS-FSA 2.1.5.15.11). The kernel
    retries once within a millisecond, which the CLOSE of the other client may exceed on a busy machine."""
    for _ in range(REPLACE_TRIES_MAX - 1):
        try:
            return os.rename(path, contended)
        except PermissionError:
            time.sleep(REPLACE_WAIT_SECONDS)
    return os.rename(path, contended)


def process(number, rounds, directory):
    chance = random.Random(number)
    kept = {}
    for round_number in range(rounds):
        name = f"{number}-{round_number}"
        path = os.path.join(directory, name)
        write(path, text(number, round_number))
        match chance.randrange(5):
            case 0:
                os.unlink(path)
                assert not os.path.exists(path), f"{name} is there after its removal"
            case 1:
                os.rename(path, path + "-moved")
                kept[name + "-moved"] = text(number, round_number)
                assert not os.path.exists(path), f"{name} is there after its renaming"
            case 2 if kept:
                victim = chance.choice(sorted(kept))
                os.rename(path, os.path.join(directory, victim))
                kept[victim] = text(number, round_number)
            case 3:
                replace(path, os.path.join(directory, f"contended-{chance.randrange(CONTENDED)}"))
            case _:
                kept[name] = text(number, round_number)
        contended = os.path.join(directory, f"contended-{chance.randrange(CONTENDED)}")
        if chance.randrange(10) == 0:
            try:
                os.unlink(contended)
            except FileNotFoundError:
                pass
    for name, content in kept.items():
        assert read(os.path.join(directory, name)) == content, f"{name} has another's content"
    found = {name for name in os.listdir(directory) if name.startswith(f"{number}-")}
    assert found == set(kept), f"process {number}: {sorted(found ^ set(kept))[:5]} are amiss"


def main():
    rounds, directories = int(sys.argv[1]), sys.argv[2:]
    children = []
    for number in range(PROCESSES):
        child = os.fork()
        if child == 0:
            try:
                process(number, rounds, directories[number % len(directories)])
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    for name in os.listdir(directories[0]):
        if name.startswith("contended-"):
            assert whole(read(os.path.join(directories[0], name))), f"{name} is torn"
    if failed:
        sys.exit(1)
    for name in os.listdir(directories[0]):
        os.unlink(os.path.join(directories[-1], name))
    # With deferred close a client may still have a removed file open, whose name is listed until its
    # close.
    deadline = time.monotonic() + CLOSE_SECONDS_MAX
    while left := os.listdir(directories[0]):
        assert time.monotonic() < deadline, f"left: {left}"
        time.sleep(0.1)


if __name__ == "__main__":
    main()
