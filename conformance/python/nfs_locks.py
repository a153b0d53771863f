"""Byte range locks of several mounts of the Linux kernel, compared with a model.

    nfs_locks.py [--seed N] [--steps N] [--smb FILE] FILE FILE

All paths are one file through independent mounts: NFS mounts, where locks of one owner merge and split as
POSIX specifies, and with --smb an SMB mount, which locks single bytes. A lock must succeed exactly if no
other owner has a conflicting byte, and a test must return a conflicting lock. A seed gives the same steps
on every machine.
"""

import argparse
import collections
import errno
import fcntl
import os
import random
import struct
import sys

BYTES = 24
FLOCK = "hhqqi4x"
TYPES = {fcntl.F_RDLCK: "shared", fcntl.F_WRLCK: "exclusive", fcntl.F_UNLCK: "none"}
REFUSED = (errno.EAGAIN, errno.EACCES)


class Owner:
    """An owner with the file open through one mount, and its lock on each byte."""

    def __init__(self, path, is_smb):
        self.path, self.is_smb = path, is_smb
        self.file = os.open(path, os.O_RDWR)
        self.held = [fcntl.F_UNLCK] * BYTES

    def ask(self, kind, at, length):
        """Requests the lock; returns whether it was granted."""
        try:
            fcntl.fcntl(self.file, fcntl.F_SETLK, struct.pack(FLOCK, kind, os.SEEK_SET, at, length, 0))
        except OSError as error:
            assert error.errno in REFUSED, error
            return False
        self.held[at : at + length] = [kind] * length
        return True

    def look(self, kind, at, length):
        """The conflicting lock: kind, first byte, number of bytes."""
        answer = fcntl.fcntl(self.file, fcntl.F_GETLK, struct.pack(FLOCK, kind, os.SEEK_SET, at, length, 0))
        found, _, start, count, _ = struct.unpack(FLOCK, answer)
        return found, start, count

    def reopen(self):
        """Closes the file, which releases all its locks."""
        os.close(self.file)
        self.file = os.open(self.path, os.O_RDWR)
        self.held = [fcntl.F_UNLCK] * BYTES

    def is_in_the_way(self, kind, byte):
        return fcntl.F_WRLCK in (self.held[byte], kind) and self.held[byte] != fcntl.F_UNLCK


class Run:
    def __init__(self, owners, chance):
        self.owners, self.chance = owners, chance
        self.history = collections.deque(maxlen=12)
        self.counts = collections.Counter()

    def others(self, owner):
        return [other for other in self.owners if other is not owner]

    def obstacles(self, owner, kind, at, length):
        """The bytes that other owners have locked in conflict."""
        span = range(at, at + length)
        return [byte for byte in span if any(other.is_in_the_way(kind, byte) for other in self.others(owner))]

    def step(self):
        which = self.chance.randrange(len(self.owners))
        owner = self.owners[which]
        kind = self.chance.choice([fcntl.F_RDLCK, fcntl.F_WRLCK])
        at = self.chance.randrange(BYTES)
        length = self.chance.randint(1, min(8, BYTES - at))
        operation = self.chance.choice(["lock"] * 5 + ["unlock"] * 3 + ["look"] * 3 + ["reopen"])
        if owner.is_smb:
            # Windows releases exactly one granted lock, and changes no existing lock.
            length, kind = 1, fcntl.F_WRLCK
            if operation == "look" or operation == "lock" and owner.held[at] != fcntl.F_UNLCK:
                operation = "unlock"
        self.history.append(f"{which} {operation} {TYPES[kind]} {at}+{length}; {[o.held for o in self.owners]}")
        outcome = getattr(self, operation)(owner, kind, at, length)
        self.counts[f"{operation} {outcome}".strip()] += 1

    def lock(self, owner, kind, at, length):
        obstacles = self.obstacles(owner, kind, at, length)
        was_had = owner.ask(kind, at, length)
        assert was_had == (not obstacles), f"granted: {was_had}, although other owners have {obstacles}"
        return "had" if was_had else "refused"

    def unlock(self, owner, kind, at, length):
        if owner.is_smb and owner.held[at] == fcntl.F_UNLCK:
            return "of nothing"
        assert owner.ask(fcntl.F_UNLCK, at, length)
        return ""

    def look(self, owner, kind, at, length):
        obstacles = self.obstacles(owner, kind, at, length)
        found, start, count = owner.look(kind, at, length)
        if not obstacles:
            assert found == fcntl.F_UNLCK, f"reported {TYPES[found]} {start}+{count}, which no owner has"
            return "free"
        span = range(start, start + count if count else BYTES)
        assert found != fcntl.F_UNLCK, f"the conflicts {obstacles} were not reported"
        assert set(span) & set(obstacles), f"reported {start}+{count}, the conflicts are {obstacles}"
        holders = [o for o in self.others(owner) if all(o.held[byte] == found for byte in span)]
        assert holders, f"no owner has {TYPES[found]} {start}+{count}"
        return "held"

    def reopen(self, owner, kind, at, length):
        owner.reopen()
        return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--smb")
    parser.add_argument("paths", nargs=2)
    arguments = parser.parse_args()
    owners = [Owner(path, False) for path in arguments.paths]
    if arguments.smb:
        owners.append(Owner(arguments.smb, True))
    run, step = Run(owners, random.Random(arguments.seed)), 0
    try:
        for step in range(arguments.steps):
            run.step()
    except (AssertionError, OSError) as error:
        history = "\n".join("  " + line for line in run.history)
        sys.exit(f"locks: seed {arguments.seed}, step {step}: {error!r}; the steps before, with what each had:\n{history}")
    for owner in owners:
        os.close(owner.file)
    print(", ".join(f"{what}: {count}" for what, count in sorted(run.counts.items())), flush=True)


if __name__ == "__main__":
    main()
