"""Measures the cost of name changes over NFSv4.2 for the server: system calls by strace, CPU time and rate.

    name_costs.py count PORT PID COUNT DIRECTORY [TRACES]
    name_costs.py time PORT PID SECONDS SLOTS DIRECTORY

`count` sends each operation COUNT times in sequence, in the form of Linux, and prints the system calls of
one operation. With TRACES it stores a trace of one operation of each kind there. `time` keeps SLOTS
operations in flight on one connection and prints COST operation count us us rate: the server's CPU time
of an operation, that of the connection's thread alone, and operations per second. DIRECTORY is relative
to the root of the exports. The requests are of user 1000.
"""

import collections
import glob
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

from raw_nfs import GETFH, LOOKUP, Nfs, NfsStatus, attributes, opaque, put, words

USER = 1000
ACCESS, CLOSE, CREATE, GETATTR, LINK, OPEN = 3, 4, 6, 9, 11, 18
REMOVE, RENAME, RESTOREFH, SAVEFH, SETATTR = 28, 29, 31, 32, 34
# nfs4_fattr_bitmap of Linux: type, change, size, fsid, fileid; mode, numlinks, owner, owner_group,
# rawdev, space_used, time_access, time_metadata, time_modify, mounted_on_fileid.
SHOWN = words(GETATTR, 2, 0x0010011A, 0x00B0A23A)
AFTER_CLOSE = words(GETATTR, 2, 0x00000018, 0x00300000)
ANY_ACCESS = words(ACCESS, 0x2D)
MODE = attributes((33, words(0o644)))
EXCLUSIVE4_1, DIRECTORY, SYMLINK = 3, 2, 5


def name(kind, number):
    return b"%s-%06d" % (kind.encode(), number)


class Operations:
    """The bodies of COMPOUNDs in the form of Linux, by number. Each stage uses the files of earlier ones."""

    def __init__(self, client, directory, file):
        self.client, self.here, self.file = client, put(directory), put(file)

    def lookup(self, number):
        return [self.here, words(LOOKUP) + opaque(name("file", number)), words(GETFH), SHOWN]

    def missing(self, number):
        return [self.here, words(LOOKUP) + opaque(name("moved", number)), words(GETFH), SHOWN]

    def open(self, number):
        body = words(OPEN, 0, 2, 0) + self.client + opaque(b"owner%d" % number)
        body += words(1, EXCLUSIVE4_1) + struct.pack(">Q", number + 1) + MODE
        return [self.here, body + words(0) + opaque(name("file", number)), words(GETFH), ANY_ACCESS, SHOWN]

    def close(self, handle, state):
        return [put(handle), AFTER_CLOSE, words(CLOSE, 0) + state]

    def setattr(self, number):
        return [self.file, words(SETATTR) + b"\0" * 16 + attributes((33, words(0o600 + number % 2))), SHOWN]

    def link(self, number):
        link = words(LINK) + opaque(name("link", number))
        return [self.file, words(SAVEFH), self.here, link, words(RESTOREFH), SHOWN]

    def rename(self, number):
        rename = words(RENAME) + opaque(name("file", number)) + opaque(name("moved", number))
        return [self.here, words(SAVEFH), self.here, rename]

    def remove(self, number):
        return [self.here, words(REMOVE) + opaque(name("moved", number))]

    def unlink(self, number):
        return [self.here, words(REMOVE) + opaque(name("link", number))]

    def mkdir(self, number):
        body = words(CREATE, DIRECTORY) + opaque(name("sub", number)) + attributes((33, words(0o755)))
        return [self.here, body, words(GETFH), SHOWN]

    def rmdir(self, number):
        return [self.here, words(REMOVE) + opaque(name("sub", number))]

    def symlink(self, number):
        body = words(CREATE, SYMLINK) + opaque(b"file-000000") + opaque(name("to", number))
        return [self.here, body + attributes(), words(GETFH), SHOWN]

    def unsymlink(self, number):
        return [self.here, words(REMOVE) + opaque(name("to", number))]


ORDER = (
    "open", "close", "lookup", "missing", "setattr", "link", "unlink", "rename", "remove", "mkdir",
    "rmdir", "symlink", "unsymlink",
)
NOENT, GRACE = 2, 10013
# Maximum number of files open at once, limited by the descriptors of a server.
OPENS_MAX = 1500


def opened(reply):
    """State id and handle of PUTFH, OPEN, GETFH."""
    at = 16 + 16 + 20 + 4
    at += 4 + 4 * struct.unpack(">I", reply[at:at + 4])[0] + 4 + 8
    length = struct.unpack(">I", reply[at:at + 4])[0]
    return reply[at + 4:at + 4 + length], reply[16:32]


class Names:
    """The operations of one client, and the state ids of its opens."""

    def __init__(self, port, path, slots=1):
        self.nfs = Nfs("127.0.0.1", port, USER, USER, slots=slots)
        directory = self.nfs.find(*path.split("/"))
        state, file = self.first_open(directory)
        self.nfs.close(file, state)
        self.opens = {}
        self.operations = Operations(self.nfs.client, directory, file)

    def first_open(self, directory):
        """Waits for the end of the grace period, which exists if an earlier server had clients."""
        while True:
            try:
                return self.nfs.open(directory, "kept", 2, MODE)
            except NfsStatus as refused:
                if refused.status != GRACE:
                    raise
                time.sleep(1)

    def request(self, kind, number):
        if kind == "close":
            return self.operations.close(*self.opens.pop(number))
        return getattr(self.operations, kind)(number)

    def take(self, kind, number, status, reply):
        if status != (NOENT if kind == "missing" else 0):
            raise NfsStatus((kind, number, status))
        if kind == "open":
            self.opens[number] = opened(reply)

    def do(self, kind, number):
        self.take(kind, number, *self.nfs.compound(*self.request(kind, number)))


class Strace:
    """Traces the system calls of a process in this context; `file` gets a line for each."""

    def __init__(self, pid, file):
        self.command = ["strace", "-f", "-tt", "-y", "-p", str(pid), "-o", file]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        self.process.stderr.readline()
        time.sleep(0.3)

    def __exit__(self, *_):
        time.sleep(0.1)
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


CALL = re.compile(r"^(\d+) +[\d:.]+ (\w+)\(")
# Threads that execute requests. The other threads wake about once a second.
SERVING = ("connections", "worker")


def threads(pid):
    """The names of the threads of a process."""
    names = {}
    for path in glob.glob("/proc/%s/task/*/comm" % pid):
        with open(path, encoding="utf-8") as file:
            names[path.split("/")[4]] = file.read().strip()
    return names


def calls(file, names):
    """The calls of the threads that execute requests, including ended ones."""
    with open(file, encoding="utf-8", errors="replace") as lines:
        found = (CALL.match(line) for line in lines)
        return collections.Counter(
            match[2] for match in found if match and names.get(match[1], SERVING[0]) in SERVING)


def count(port, pid, times, path, traces):
    names = Names(port, path)
    for kind in ORDER:
        for number in range(-20, 0):
            # The caches are filled from the second operation on.
            names.do(kind, 900000 - number)
    with tempfile.NamedTemporaryFile() as file:
        for kind in ORDER:
            with Strace(pid, file.name):
                for number in range(times):
                    names.do(kind, number)
            by_call = calls(file.name, threads(pid))
            shown = ", ".join("%s %.2f" % (call, count / times) for call, count in by_call.most_common(24)
                              if count * 20 > times)
            print("| %s | %.1f | %s |" % (kind, sum(by_call.values()) / times, shown), flush=True)
    for kind in ORDER if traces else ():
        with Strace(pid, "%s/%s" % (traces, kind)):
            names.do(kind, 800000)


def cpu_seconds(pid):
    """CPU time of the process, and of its busiest thread that has connections."""
    names, used = threads(pid), {}
    for thread in names:
        with open("/proc/%s/task/%s/schedstat" % (pid, thread), encoding="utf-8") as file:
            used[thread] = int(file.read().split()[0]) / 1e9
    busiest = max(used[thread] for thread in used if names[thread] == SERVING[0])
    return sum(used.values()), busiest


class Pipeline:
    """A connection with one operation in flight on each of its slots."""

    def __init__(self, names, slots):
        self.names, self.nfs = names, names.nfs
        self.sequences = [0] * slots
        self.sequences[0] = self.nfs.sequence
        self.in_flight = {}

    def send(self, kind, slot, number):
        nfs = self.nfs
        nfs.xid += 1
        self.sequences[slot] += 1
        sequence = words(53) + nfs.session + words(self.sequences[slot], slot, len(self.sequences) - 1, 0)
        operations = [sequence, *self.names.request(kind, number)]
        message = words(nfs.xid, 0, 2, 100003, 4, 1) + nfs.credential + words(0, 0)
        message += opaque(b"") + words(2, len(operations)) + b"".join(operations)
        self.in_flight[nfs.xid] = (slot, number)
        nfs.socket.sendall(words(0x80000000 | len(message)) + message)

    def receive(self, kind):
        record = self.nfs._record()
        slot, number = self.in_flight.pop(struct.unpack(">I", record[:4])[0])
        status, length = struct.unpack(">II", record[24:32])
        reply = record[32 + length + -length % 4 + 4:]
        self.names.take(kind, number, status, reply[44:])
        return slot

    def run(self, kind, numbers, end):
        done, numbers = 0, iter(numbers)
        free = list(range(len(self.sequences)))
        while True:
            while free and time.monotonic() < end and (number := next(numbers, None)) is not None:
                self.send(kind, free.pop(), number)
            if not self.in_flight:
                return done
            free.append(self.receive(kind))
            done += 1


def measure(port, pid, seconds, slots, path):
    names = Names(port, path, slots)
    pipeline = Pipeline(names, slots)
    made = {}
    needs = {
        "close": "open", "lookup": "open", "missing": "open", "rename": "open", "remove": "rename",
        "unlink": "link", "rmdir": "mkdir", "unsymlink": "symlink",
    }
    for kind in ORDER:
        numbers = range(made.get(needs.get(kind), OPENS_MAX if kind == "open" else 1 << 30))
        # The remaining operations run unmeasured.
        must_all = kind in ("close", "rename")
        began, (before, at_front) = time.monotonic(), cpu_seconds(pid)
        done = pipeline.run(kind, numbers, began + seconds)
        took, (after, front) = time.monotonic() - began, cpu_seconds(pid)
        made[kind] = done
        each, of_connection = ((after - before) * 1e6 / done, (front - at_front) * 1e6 / done)
        print("COST %s %d %.1f %.1f %.0f" % (kind, done, each, of_connection, done / took), flush=True)
        if must_all:
            pipeline.run(kind, range(done, len(numbers)), float("inf"))
            made[kind] = len(numbers)


def main():
    mode, port, pid, *rest = sys.argv[1:]
    if mode == "count":
        times, path, *traces = rest
        count(int(port), int(pid), int(times), path, traces[0] if traces else None)
    else:
        seconds, slots, path = rest
        measure(int(port), int(pid), float(seconds), int(slots), path)


main()
