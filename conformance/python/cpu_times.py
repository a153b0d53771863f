"""Records the CPU time of processes and their children every tenth of a second.

    cpu_times.py FILE NAME=PID...

A line: milliseconds since 1970, then for each NAME the milliseconds of CPU time so far.
"""

import os
import sys
import time

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def processes():
    """Parent, own time and that of children that have ended, by process."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
            found[int(entry)] = (int(fields[1]), own + ended)
    return found


def used_ms(root, found):
    """Of a process and all below it."""
    children = {}
    for process, (parent, _) in found.items():
        children.setdefault(parent, []).append(process)
    ticks, line = 0, [root]
    while line:
        process = line.pop()
        ticks += found.get(process, (0, 0))[1]
        line += children.get(process, [])
    return ticks * TICK_MS


def main():
    roots = [int(argument.partition("=")[2]) for argument in sys.argv[2:]]
    with open(sys.argv[1], "w", encoding="utf-8", buffering=1) as out:
        while all(os.path.exists(f"/proc/{root}") for root in roots):
            found = processes()
            times = [f"{used_ms(root, found):.0f}" for root in roots]
            print(round(time.time() * 1000), *times, file=out)
            time.sleep(0.1)


main()
