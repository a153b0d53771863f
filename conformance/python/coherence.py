"""Files through two mounts: each side must see data that the other wrote, closed or flushed.

    coherence.py [--seconds N] [--seed N] [--grace-ms N] [--remembers] [--kinds A,B] [--tally]
                 DIRECTORY DIRECTORY

The directories must be one directory through two mounts. After every close or fsync the writer
publishes the version of the file in shared memory. From then on a reader must see this version
completely, or a later one that was begun.

First both sides write their own files and read the other's, as fast as they can. Then they take
turns with common files, and both check each version before the next.

A reader must see a version --grace-ms after its publication. The server breaks a read cache without
waiting for the client (MS-SMB2 3.3.4.7), and Linux measures the lifetime of attributes in ticks of up
to 10 ms. With --remembers the mounts cache attributes for longer: a file during its replacement may be
read with the length of the former one. With --tally errors are counted and nothing fails.
"""

import argparse
import collections
import ctypes
import errno
import mmap
import os
import random
import struct
import sys
import time
import traceback
import zlib

RECORD = 1000
SLOTS = 16
HISTORY = 1 << 14
PATTERN_LENGTH = 20_000
HEADER = struct.Struct("<IQI")
TURN_SECONDS_MAX = 60
REMOVAL_SECONDS_MAX = 5
REPLACE_SECONDS_MAX = 5
# Counts of the actions of this process, for the printed result.
COUNTS = collections.Counter()


def record(version, length=RECORD):
    """A record of the version: a head with the version and a checksum, and bytes derived from the version."""
    body = random.Random(version).randbytes(length - HEADER.size)
    return HEADER.pack(length, version, zlib.crc32(body)) + body


def parse(data):
    """The version of a whole record, or None."""
    if len(data) < HEADER.size:
        return None
    length, version, checksum = HEADER.unpack_from(data)
    if length != len(data) or zlib.crc32(data[HEADER.size :]) != checksum:
        return None
    return version


def write(path, flags, at, data, flush=False):
    descriptor = os.open(path, flags, 0o644)
    try:
        assert os.pwrite(descriptor, data, at) == len(data), "a short write"
        if flush:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def beside(path):
    return f"{path}-{os.getpid()}"


class Slots:
    """Records overwritten in place, by writes or through a mapping."""

    mapped = True

    def content(self, version):
        return b"".join(record(max(1, self.last(version, slot))) for slot in range(SLOTS))

    def last(self, version, slot):
        """The version that wrote this slot last."""
        return version - (version - slot) % SLOTS

    def write(self, path, version, chance):
        if version == 1:
            write(path, os.O_WRONLY | os.O_CREAT, 0, record(1) * SLOTS)
            return
        at = version % SLOTS * RECORD
        how = chance.randrange(3)
        if how == 2:
            descriptor = os.open(path, os.O_RDWR)
            with mmap.mmap(descriptor, SLOTS * RECORD) as mapping:
                mapping[at : at + RECORD] = record(version)
                mapping.flush()
            os.close(descriptor)
        else:
            write(path, os.O_WRONLY, at, record(version), flush=how == 1)

    def amiss(self, data, floor, begun):
        """During a change only the slots that are being written may be torn."""
        if len(data) != SLOTS * RECORD:
            return "length"
        for slot in range(SLOTS):
            found = parse(data[slot * RECORD : (slot + 1) * RECORD])
            settled = max(1, self.last(floor, slot))
            if found is None:
                if self.last(begun, slot) <= floor:
                    return "torn"
            elif found < settled:
                return "stale"
        return None


class Log:
    """Records are appended until the file is truncated to zero and starts again."""

    mapped = False

    def first(self, version):
        return version - (version - 1) % 40

    def content(self, version):
        return b"".join(record(number, 700) for number in range(self.first(version), version + 1))

    def write(self, path, version, chance):
        empty = os.O_CREAT | os.O_TRUNC if version == self.first(version) else 0
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | empty, 0o644)
        os.write(descriptor, record(version, 700))
        if chance.randrange(2):
            os.fsync(descriptor)
        os.close(descriptor)

    def amiss(self, data, floor, begun):
        """While the file grows, the published records are present."""
        if self.first(floor) != self.first(begun):
            return None
        told = self.content(floor)
        if len(data) < len(told):
            return "stale"
        return None if data[: len(told)] == told else "torn"


class Whole:
    """The complete file is rewritten each time, in several lengths."""

    mapped = False

    def content(self, version):
        return record(version, 20 + version * 7919 % 9000)

    def write(self, path, version, chance):
        flush = chance.randrange(2) == 1
        write(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0, self.content(version), flush)

    def amiss(self, data, floor, begun):
        found = parse(data)
        return "stale" if found is not None and found < floor else None


class Replaced(Whole):
    """A new file replaces the old one by rename, so that readers always see a complete one."""

    def write(self, path, version, chance):
        write(beside(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0, self.content(version))
        os.rename(beside(path), path)

    def amiss(self, data, floor, begun):
        found = parse(data)
        if found is None:
            return "torn"
        return "stale" if found < floor else None


class Resized:
    """The file is truncated and extended, and has a record at its start."""

    mapped = False

    def first(self, version):
        return version - (version - 1) % 16

    def length(self, version):
        if version == self.first(version):
            return PATTERN_LENGTH
        return RECORD + version * 7919 % PATTERN_LENGTH

    def content(self, version):
        first = self.first(version)
        kept = min(self.length(number) for number in range(first, version + 1))
        data = bytearray(record(first, PATTERN_LENGTH)[:kept])
        data.extend(bytes(self.length(version) - kept))
        data[:RECORD] = record(version)
        return bytes(data)

    def write(self, path, version, chance):
        if version == self.first(version):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            write(path, flags, 0, record(version, PATTERN_LENGTH))
            write(path, os.O_WRONLY, 0, record(version))
            return
        if chance.randrange(2):
            os.truncate(path, self.length(version))
            write(path, os.O_WRONLY, 0, record(version))
            return
        descriptor = os.open(path, os.O_WRONLY)
        os.pwrite(descriptor, record(version), 0)
        os.ftruncate(descriptor, self.length(version))
        os.fsync(descriptor)
        os.close(descriptor)

    def amiss(self, data, floor, begun):
        found = parse(data[:RECORD])
        return "stale" if found is not None and found < floor else None


KINDS = {"slots": Slots, "log": Log, "whole": Whole, "replaced": Replaced, "resized": Resized}


class Board:
    """The begun and the published version of one file, in memory that all processes share."""

    def __init__(self):
        self.words = (ctypes.c_uint64 * (HISTORY + 4)).from_buffer(mmap.mmap(-1, (HISTORY + 4) * 8))

    begun = property(lambda self: self.words[0])
    told = property(lambda self: self.words[1])

    def begin(self, version):
        assert version < HISTORY, "too many versions"
        self.words[0] = version

    def tell(self, version):
        self.words[4 + version] = time.monotonic_ns()
        self.words[1] = version

    def told_since(self, moment):
        """The last version that was published by then."""
        version = self.told
        while version and self.words[4 + version] > moment:
            version -= 1
        return version

    def age_ms(self, version):
        return (time.monotonic_ns() - self.words[4 + version]) / 1e6

    def seen(self, side, version=None):
        """The version that this side has seen, for turns."""
        if version is not None:
            self.words[2 + side] = version
        return self.words[2 + side]


class Reader:
    """The reads of one file by one side: by a new open, by a long open, by a mapping."""

    def __init__(self, path, kind, board, options, chance):
        self.path, self.kind, self.board, self.options, self.chance = path, kind, board, options, chance
        self.name = type(kind).__name__.lower()
        self.held = None
        self.tally = collections.Counter()

    def release(self):
        if self.held is not None:
            os.close(self.held)
        self.held = None

    def ways(self):
        if isinstance(self.kind, Replaced):
            return ["opened", "sized"]
        return ["opened", "sized", "held"] + (["mapped"] if self.kind.mapped else [])

    def read(self, way):
        if way == "held":
            if self.held is None:
                self.held = os.open(self.path, os.O_RDONLY)
            return os.pread(self.held, 1 << 17, 0)
        with open(self.path, "rb", buffering=0) as file:
            if way == "mapped":
                # A new mapping each time: a server cannot invalidate the mapping of an open without a lease.
                with mmap.mmap(file.fileno(), SLOTS * RECORD, prot=mmap.PROT_READ) as mapping:
                    return mapping[:]
            data = file.read(1 << 17)
            if way == "sized":
                size = os.fstat(file.fileno()).st_size
                # The size and the data must belong to the same versions.
                if size < len(data):
                    data = data[:size]
                elif size > len(data):
                    data += bytes(size - len(data))
            return data

    def look_until(self, way):
        """With turns no version follows, so retries are possible until the grace time ends."""
        told = self.board.told
        while self.board.age_ms(told) < self.options.grace_ms:
            if self.read(way) == self.kind.content(told):
                self.tally[way] += 1
                return
            self.tally[f"{way} seen late"] += 1
            time.sleep(0.001)
        self.look(way)

    def look(self, way):
        """Fails if published data is missing, or data is wrong that the writer did not change."""
        asked = time.monotonic_ns()
        floor = self.board.told_since(asked - self.options.grace_ms * 1_000_000)
        if floor == 0:
            return
        try:
            data = self.read(way)
        except FileNotFoundError:
            data = None
        except OSError as error:
            # The file is replaced repeatedly between the lookup of its name and the open.
            if error.errno != errno.ESTALE or self.board.begun == floor:
                raise
            self.tally[f"{way} and told it is another file"] += 1
            return
        begun = self.board.begun
        self.tally[way] += 1
        if begun == floor:
            if data == self.kind.content(floor):
                return
            wrong = "missing" if data is None else self.kind.amiss(data, floor, begun) or "other"
        else:
            wrong = None if data is None else self.kind.amiss(data, floor, begun)
            if wrong == "torn" and isinstance(self.kind, Replaced) and self.options.remembers:
                # The length of one file with the content of the next, which reuses the inode number.
                wrong = None
        if wrong is None:
            self.tally[f"{way} while it changed"] += 1
        else:
            self.wrong(way, wrong, data, floor, begun)

    def wrong(self, way, wrong, data, floor, begun):
        text = (
            f"{self.name} {way}: {wrong}: {describe(data)}, but version {floor}, {describe(self.kind.content(floor))}, "
            f"was told {self.board.age_ms(floor):.1f} ms ago; {begun} is begun"
        )
        if not self.options.tally:
            raise AssertionError(text)
        self.tally[f"{way} WRONG {wrong}"] += 1
        longest = f"{way} WRONG {wrong} for at most ms"
        self.tally[longest] = max(self.tally[longest], int(self.board.age_ms(floor)))
        if self.tally[f"{way} WRONG {wrong}"] <= 2:
            print(text, flush=True)

    def count(self):
        for what, count in self.tally.items():
            COUNTS[f"{self.name} {what}"] += count


def describe(data):
    if data is None:
        return "nothing"
    return f"{len(data)} bytes that begin as version {HEADER.unpack_from(data)[1] if len(data) >= HEADER.size else None}"


def put(kind, board, path, version, chance):
    board.begin(version)
    deadline = time.monotonic() + REPLACE_SECONDS_MAX
    while True:
        try:
            kind.write(path, version, chance)
            break
        except OSError as error:
            # The other side has the replaced file open at this moment.
            if not isinstance(kind, Replaced) or time.monotonic() > deadline:
                raise
            COUNTS[f"replaced again after {error.strerror}"] += 1
            if os.path.exists(beside(path)):
                os.unlink(beside(path))
            time.sleep(0.002)
    board.tell(version)


def write_freely(files, options, directory, seed):
    chance = random.Random(seed)
    until = time.monotonic() + options.seconds
    versions = dict.fromkeys(files, 0)
    while time.monotonic() < until:
        name = chance.choice(sorted(files))
        kind, board = files[name]
        # Some versions follow each other at once, others find a reader with full caches.
        for _ in range(chance.choice((1, 1, 3, 8))):
            versions[name] += 1
            put(kind, board, os.path.join(directory, name), versions[name], chance)
        if chance.randrange(4) == 0:
            time.sleep(chance.random() * 0.02)
    COUNTS["versions"] = sum(versions.values())


def read_freely(files, options, directory, seed):
    chance = random.Random(seed)
    readers = [Reader(os.path.join(directory, name), *files[name], options, chance) for name in sorted(files)]
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        reader = chance.choice(readers)
        for _ in range(chance.choice((1, 2, 5))):
            reader.look(chance.choice(reader.ways()))
        if chance.randrange(20) == 0:
            reader.release()
    for reader in readers:
        reader.release()
        reader.count()


def take_turns(files, options, directory, side, seed):
    """Both sides choose the same next writer by the seed, after both have seen the last version."""
    common, chance = random.Random(seed), random.Random(seed + side)
    readers = {name: Reader(os.path.join(directory, name), *files[name], options, chance) for name in sorted(files)}
    started = time.monotonic()
    versions = dict.fromkeys(files, 0)
    while True:
        name, writer = common.choice(sorted(files)), common.randrange(2)
        kind, board = files[name]
        versions[name] = version = versions[name] + 1
        reader = readers[name]
        if writer == side:
            if chance.randrange(3) == 0:
                reader.release()
            # The last version number stands for the end.
            if time.monotonic() - started > options.seconds:
                board.tell(HISTORY - 1)
                break
            put(kind, board, reader.path, version, chance)
        deadline = time.monotonic() + TURN_SECONDS_MAX
        while board.told < version:
            time.sleep(0.0002)
            assert time.monotonic() < deadline, "the other side wrote no version"
        if board.told == HISTORY - 1:
            break
        for way in chance.sample(reader.ways(), len(reader.ways())):
            reader.look_until(way)
        if chance.randrange(3) == 0:
            reader.release()
        board.seen(side, version)
        while board.seen(1 - side) < version:
            time.sleep(0.0002)
            assert time.monotonic() < deadline, "the other side has not read the version"
    COUNTS["versions"] = sum(versions.values())
    for reader in readers.values():
        reader.release()
        reader.count()


def run(what, processes, tally):
    """Runs each function in a child process; all must succeed."""
    children = []
    for name, function, arguments in processes:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                function(*arguments)
                status = 0
            except BaseException:
                print(f"{name}:", file=sys.stderr)
                traceback.print_exc()
            counts = ", ".join(f"{key} {count}" for key, count in sorted(COUNTS.items()))
            if tally or status:
                print(f"{name}: {counts}", flush=True)
            sys.stderr.flush()
            os._exit(status)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    if failed:
        sys.exit(f"{what}: failed")


def fresh(kinds):
    files = {}
    for name in kinds:
        files[name] = (KINDS[name](), Board())
    return files


def remove(directory):
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))
    deadline = time.monotonic() + REMOVAL_SECONDS_MAX
    while True:
        try:
            os.rmdir(directory)
            return
        except OSError:
            # The other side still has files open.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--grace-ms", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--remembers", action="store_true")
    parser.add_argument("--tally", action="store_true")
    parser.add_argument("directories", nargs=2)
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    freely = []
    for side, directory in enumerate(options.directories):
        name, other = f"of-{side}", options.directories[1 - side]
        os.mkdir(os.path.join(directory, name))
        files = fresh(kinds)
        written = (files, options, os.path.join(directory, name), options.seed + side)
        read = (files, options, os.path.join(other, name), options.seed + side + 10)
        freely.append((f"writer {side}", write_freely, written))
        freely.append((f"reader {1 - side}", read_freely, read))
    run("freely", freely, options.tally)
    files = fresh(kinds)
    os.mkdir(os.path.join(options.directories[0], "turns"))
    turns = []
    for side, directory in enumerate(options.directories):
        arguments = (files, options, os.path.join(directory, "turns"), side, options.seed)
        turns.append((f"side {side}", take_turns, arguments))
    run("in turns", turns, options.tally)
    for name in ("of-0", "of-1", "turns"):
        remove(os.path.join(options.directories[1], name))


if __name__ == "__main__":
    main()
