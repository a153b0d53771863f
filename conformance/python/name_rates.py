"""Measures creates, renames and removes per second: the load of conformance/names, and its table.

    name_rates.py load SERVER SECONDS PID|nfsd MOUNTS LOAD...
    name_rates.py local SECONDS DIRECTORY LOAD...
    name_rates.py flushes FILE
    name_rates.py table RATES

A LOAD is own/N or shared/N: N processes, each in its own directory on the first mount, or all in one
directory through eight mounts, because a client locks a directory of a mount during a name change.
`local` runs the same without a server, and syncs the directory after each change. SECONDS applies to
each of the three operations.

Prints for each operation RATE server load operation per_second server_us busy_us: CPU time per
operation of the server (the threads of the process, or nfsd's threads), and of the whole guest with
its client.
"""

import functools
import glob
import multiprocessing
import os
import statistics
import sys
import time

USER = 1000
MOUNTS = 8
OPERATIONS = ("create", "rename", "remove")
TICK = os.sysconf("SC_CLK_TCK")
SERVERS = ("local", "knfsd", "knfsd64", "ganesha", "ours", "relaxed")


def create(name):
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def until(end, act):
    """Calls `act` with a number each time; returns the count when it returns false or the time is over."""
    count = 0
    while time.monotonic() < end and act(count):
        count += 1
    return count


class Names:
    """The names of one process: created, renamed back and forth, and removed."""

    def __init__(self, begin, sync):
        self.begin, self.sync, self.made, self.moved = begin, sync, 0, 0

    def create(self, end):
        def act(number):
            create(f"{self.begin}{number}")
            self.sync()
            return True

        self.made = until(end, act)
        return self.made

    def rename(self, end):
        def act(number):
            # The numbers wrap around, so each rename finds a name.
            place, back = number % self.made, number // self.made % 2
            names = (f"{self.begin}{place}", f"{self.begin}{place}.moved")
            os.rename(names[back], names[1 - back])
            self.sync()
            return True

        self.moved = until(end, act)
        return self.moved

    def remove(self, end):
        turns, rest = divmod(self.moved, self.made)

        def act(number):
            if number == self.made:
                return False
            is_moved = (turns + (number < rest)) % 2 == 1
            os.unlink(f"{self.begin}{number}{'.moved' if is_moved else ''}")
            self.sync()
            return True

        return until(end, act)


def work(seconds, barrier, results, directory, prefix, is_local):
    os.setgid(USER)
    os.setuid(USER)
    descriptor = os.open(directory, os.O_RDONLY)
    sync = functools.partial(os.fsync, descriptor) if is_local else int
    names = Names(f"{directory}/{prefix}", sync)
    for operation in OPERATIONS:
        barrier.wait()
        began = time.monotonic()
        count = getattr(names, operation)(began + seconds)
        results.put((operation, count, began, time.monotonic()))
        barrier.wait()


def server_seconds(which):
    """CPU time of a process, of all threads called nfsd, or none."""
    if which is None:
        return 0.0
    if which != "nfsd":
        return stat_seconds(f"/proc/{which}/stat")
    total = 0.0
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path, encoding="utf-8") as file:
                if file.read().strip() != "nfsd":
                    continue
            # For kernel threads the scheduler statistics are exact; ticks miss short work.
            with open(path.replace("comm", "schedstat"), encoding="utf-8") as file:
                total += int(file.read().split()[0]) / 1e9
        except OSError:
            continue
    return total


def stat_seconds(path):
    with open(path, encoding="utf-8") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / TICK


def busy_seconds():
    """CPU time of the whole guest."""
    with open("/proc/stat", encoding="utf-8") as file:
        words = [int(word) for word in file.readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, _steal = words
    return (user + nice + system + irq + softirq) / TICK


def directories(load, tops):
    """The directory and the prefix of names of each process."""
    layout, count = load.split("/")
    name = load.replace("/", "-")
    if layout == "shared":
        shared = f"{name}-{os.getpid()}"
        make(f"{tops[0]}/{shared}")
        for number in range(int(count)):
            yield f"{tops[number % len(tops)]}/{shared}", f"{number}-"
    else:
        for number in range(int(count)):
            own = f"{tops[0]}/{name}-{os.getpid()}-{number}"
            make(own)
            yield own, ""


def make(directory):
    os.mkdir(directory)
    os.chmod(directory, 0o777)


def run(server, load, seconds, which, tops):
    places = list(directories(load, tops))
    barrier = multiprocessing.Barrier(len(places) + 1)
    results = multiprocessing.Queue()
    processes = [
        multiprocessing.Process(
            target=work,
            args=(seconds, barrier, results, directory, prefix, which is None),
        )
        for directory, prefix in places
    ]
    for process in processes:
        process.start()
    for operation in OPERATIONS:
        before = server_seconds(which), busy_seconds()
        barrier.wait(60)
        counts = [results.get(timeout=60 + seconds) for _ in processes]
        after = server_seconds(which), busy_seconds()
        barrier.wait(60)
        assert all(name == operation for name, *_ in counts), counts
        rate = sum(count / (end - begin) for _, count, begin, end in counts)
        total = max(sum(count for _, count, _, _ in counts), 1)
        cost, busy = ((b - a) / total * 1e6 for a, b in zip(before, after))
        print(f"RATE {server} {load} {operation} {rate:.1f} {cost:.1f} {busy:.1f}", flush=True)
    for process in processes:
        process.join()
        assert process.exitcode == 0


def flushes(path):
    """Measures the cost of stable storage: 4 KiB overwritten, with and without a flush."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    os.write(descriptor, bytes(1 << 20))
    os.fsync(descriptor)
    for what, sync in (("fdatasync", os.fdatasync), ("no flush", lambda _: None)):
        count, end = 0, time.monotonic() + 2
        while time.monotonic() < end:
            os.pwrite(descriptor, bytes([count % 256]) * 4096, count % 256 * 4096)
            sync(descriptor)
            count += 1
        print(f"RATE local flush/1 {what.replace(' ', '_')} {count / 2:.1f} 0 0", flush=True)


def table(path):
    rows, first = {}, {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.startswith("RATE "):
                continue
            _, server, load, operation, *numbers = line.split()
            key = (load, operation)
            first.setdefault(key, len(first))
            rows.setdefault(key, {}).setdefault(server, []).append([float(n) for n in numbers])
    for (load, operation), cells in list(rows.items()):
        if load == "flush/1":
            print(f"{operation.replace('_', ' ')}: {cells['local'][0][0]:.0f} writes of 4 KiB per second")
            del rows[load, operation]
    seen = [name for name in SERVERS if any(name in cells for cells in rows.values())]

    def middle(cells, server, column):
        return statistics.median(one[column] for one in cells[server]) if server in cells else None

    def of(cells, one, other):
        rates = [middle(cells, server, 0) for server in (one, other)]
        return f"{rates[0] / rates[1]:.2f}" if all(rates) else "-"

    print()
    heads = [f"{name} /s" for name in seen] + ["ours : knfsd", "ours : knfsd64", "ours : Ganesha", "relaxed : ours"]
    print("| load | operation | " + " | ".join(heads) + " |")
    print("|---|---|" + "---|" * len(heads))
    for (load, operation), cells in sorted(rows.items(), key=lambda row: first[row[0]]):
        rates = [f"{middle(cells, name, 0):.0f}" if name in cells else "-" for name in seen]
        ratios = [of(cells, "ours", other) for other in ("knfsd", "knfsd64", "ganesha")]
        print(f"| {load} | {operation} | " + " | ".join(rates + ratios + [of(cells, "relaxed", "ours")]) + " |")
    print()
    served = [name for name in seen if name != "local"]
    print("CPU µs an operation: the server / the whole guest, client included")
    print()
    print("| load | operation | " + " | ".join(served) + " |")
    print("|---|---|" + "---|" * len(served))
    for (load, operation), cells in sorted(rows.items(), key=lambda row: first[row[0]]):
        costs = [
            f"{middle(cells, name, 1):.0f} / {middle(cells, name, 2):.0f}" if name in cells else "-"
            for name in served
        ]
        print(f"| {load} | {operation} | " + " | ".join(costs) + " |")


def main():
    what, *rest = sys.argv[1:]
    if what == "load":
        server, seconds, which, mounts, *loads = rest
        for load in loads:
            run(server, load, float(seconds), which, [f"{mounts}/{n}" for n in range(MOUNTS)])
    elif what == "local":
        seconds, directory, *loads = rest
        for load in loads:
            run("local", load, float(seconds), None, [directory])
    elif what == "flushes":
        flushes(*rest)
    else:
        table(*rest)


main()
