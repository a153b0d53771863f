"""Random reads, writes, truncations, mappings and copies of a file, compared with a model in memory.

    fsx.py [--seed N] [--operations N] [--no-map] [--turns | --locked] [--model FILE] PATH [PATH]

Two paths must be one file through two mounts. Every operation then uses either of them; with --locked
under a lock of the whole file. --model reads the expected content from FILE if it exists, and writes it
there at the end, so that a run can continue after a new mount. A seed gives the same operations on
every machine.
"""

import argparse
import collections
import fcntl
import mmap
import os
import random
import sys
import time

LENGTH_MAX = 1 << 18
TRANSFER_MAX = 1 << 16
TURN_SECONDS = 0.05


class Subject:
    """The file under test, open through each path or through one at a time."""

    def __init__(self, paths, turns, locked, chance):
        self.paths, self.turns, self.locked, self.chance = paths, turns, locked, chance
        self.last = 0
        self.descriptors = {}
        for which in range(1 if turns else len(paths)):
            self.descriptors[which] = os.open(paths[which], os.O_RDWR | os.O_CREAT, 0o644)

    def any(self):
        self.last = self.chance.choice(sorted(self.descriptors))
        return self.taken(self.descriptors[self.last])

    def taken(self, descriptor):
        """An NFS client revalidates its cache when it gets a lock, and writes it back before the unlock."""
        if self.locked:
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
        return descriptor

    def release(self):
        if self.locked:
            for descriptor in self.descriptors.values():
                fcntl.lockf(descriptor, fcntl.LOCK_UN)

    def reopen(self):
        """The same path, or the other one with --turns."""
        self.any()
        os.close(self.descriptors.pop(self.last))
        if self.turns:
            self.last = (self.last + 1) % len(self.paths)
            # The server breaks a read cache without an acknowledgement (MS-SMB2 3.3.4.7).
            time.sleep(TURN_SECONDS)
        self.descriptors[self.last] = os.open(self.paths[self.last], os.O_RDWR)

    def close(self):
        for descriptor in self.descriptors.values():
            os.close(descriptor)


class Run:
    def __init__(self, subject, model, chance):
        self.subject, self.model, self.chance = subject, model, chance
        self.history = collections.deque(maxlen=12)

    def region(self, limit):
        at = self.chance.randrange(limit) if limit else 0
        return at, self.chance.randint(1, TRANSFER_MAX)

    def bytes(self, length):
        return self.chance.randbytes(length)

    def expect(self, got, at, length, what):
        expected = bytes(self.model[at : at + length])
        if got == expected:
            return
        where = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
        raise AssertionError(f"{what} at {at}: {len(got)} bytes for {len(expected)}, they part at {at + where}")

    def extend(self, length):
        self.model.extend(bytes(max(0, length - len(self.model))))

    # The operations.

    def read(self):
        at, length = self.region(LENGTH_MAX)
        self.note(at=at, bytes=length)
        self.expect(os.pread(self.subject.any(), length, at), at, length, "read")

    def write(self):
        at, length = self.region(LENGTH_MAX - TRANSFER_MAX)
        self.write_at(at, self.bytes(length))

    def append(self):
        if len(self.model) < LENGTH_MAX - TRANSFER_MAX:
            self.write_at(len(self.model), self.bytes(self.region(1)[1]))

    def write_at(self, at, data):
        descriptor, done = self.subject.any(), 0
        self.note(at=at, bytes=len(data))
        while done < len(data):
            done += os.pwrite(descriptor, data[done:], at + done)
        self.extend(at + len(data))
        self.model[at : at + len(data)] = data

    def truncate(self):
        length = self.chance.randrange(LENGTH_MAX)
        self.note(to=length)
        os.ftruncate(self.subject.any(), length)
        del self.model[length:]
        self.extend(length)

    def length(self):
        length = os.fstat(self.subject.any()).st_size
        assert length == len(self.model), f"the length is {length}, not {len(self.model)}"

    def synchronize(self):
        os.fsync(self.subject.any())

    def reopen(self):
        self.subject.reopen()

    def map_read(self):
        self.mapped(mmap.PROT_READ)

    def map_write(self):
        self.mapped(mmap.PROT_READ | mmap.PROT_WRITE)

    def mapped(self, protection):
        if not self.model:
            return
        at, length = self.region(len(self.model))
        length = min(length, len(self.model) - at)
        self.note(at=at, bytes=length)
        with mmap.mmap(self.subject.any(), len(self.model), prot=protection) as view:
            self.expect(view[at : at + length], at, length, "mapped read")
            if protection & mmap.PROT_WRITE:
                data = self.bytes(length)
                view[at : at + length] = data
                view.flush()
                self.model[at : at + length] = data

    def copy(self):
        """A server-side copy; the two ranges must not overlap."""
        half = len(self.model) // 2
        if not half:
            return
        at, length = self.region(half)
        length = min(length, half - at)
        target = half + self.chance.randrange(half)
        self.note(source=at, target=target, bytes=length)
        done, descriptor = 0, self.subject.any()
        # The kernel copies nothing beyond the last length that it knows.
        os.fstat(descriptor)
        while done < length:
            count = os.copy_file_range(descriptor, descriptor, length - done, at + done, target + done)
            assert count, f"a copy from {at} to {target} stands still at {done}"
            done += count
        self.extend(target + length)
        self.model[target : target + length] = self.model[at : at + length]

    def everything(self):
        for descriptor in self.subject.descriptors.values():
            length = os.fstat(self.subject.taken(descriptor)).st_size
            assert length == len(self.model), f"the length is {length}, not {len(self.model)}"
            whole = bytearray()
            while part := os.pread(descriptor, 1 << 20, len(whole)):
                whole += part
            self.expect(bytes(whole), 0, len(self.model), "reading everything")
            self.subject.release()

    def step(self, operations):
        operation = self.chance.choice(operations)
        self.history.append([operation, f"length {len(self.model)}"])
        try:
            getattr(self, operation)()
            self.subject.release()
        finally:
            self.note(through=self.subject.last)

    def note(self, **facts):
        """Describes the current operation for the history."""
        self.history[-1] += [f"{name} {value}" for name, value in facts.items()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=1000)
    parser.add_argument("--no-map", action="store_true")
    parser.add_argument("--turns", action="store_true", help="one path at a time is open")
    parser.add_argument("--locked", action="store_true", help="each operation has the file locked")
    parser.add_argument("--model")
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()

    chance = random.Random(arguments.seed)
    subject = Subject(arguments.paths, arguments.turns, arguments.locked, chance)
    model = bytearray()
    if arguments.model and os.path.exists(arguments.model):
        with open(arguments.model, "rb") as file:
            model = bytearray(file.read())
    run = Run(subject, model, chance)
    operations = ["read", "read", "write", "write", "append", "truncate", "length", "synchronize", "reopen", "copy"]
    if not arguments.no_map:
        operations += ["map_read", "map_write"]
    step = 0
    try:
        run.everything()
        for step in range(1, arguments.operations + 1):
            run.step(operations)
            if step % 100 == 0:
                run.everything()
        subject.reopen()
        run.everything()
    except (AssertionError, OSError) as error:
        history = "\n".join("  " + ", ".join(facts) for facts in run.history)
        sys.exit(f"fsx: seed {arguments.seed}, operation {step}: {error!r}; before that:\n{history}")
    subject.close()
    if arguments.model:
        with open(arguments.model, "wb") as file:
            file.write(model)


if __name__ == "__main__":
    main()
