"""Delegations of the Linux kernel's NFS client: granted, used, recalled by another NFS client and by an SMB
client; and reads of each of the three after writes of the others.
Arguments: one directory three times, over NFSv4.1, NFSv4.2 and SMB."""

import fcntl
import hashlib
import os
import random
import sys
import threading
import time

one, other, smb = sys.argv[1:]
NAME = "file"


def count(directory, operation):
    """The number of requests of an operation on the mount of the directory."""
    mount, found = os.path.dirname(directory), False
    for line in open("/proc/self/mountstats"):
        words = line.split()
        if line.startswith("device "):
            found = f" mounted on {mount} " in line
        elif found and words and words[0] == f"{operation}:":
            return int(words[1])
    raise AssertionError(f"{mount} has no {operation}")


def write(directory, data, name=NAME):
    with open(f"{directory}/{name}", "wb") as file:
        file.write(data)


def read(directory, name=NAME):
    with open(f"{directory}/{name}", "rb") as file:
        return file.read()


def make(data):
    write(one, data)
    os.chmod(f"{one}/{NAME}", 0o666)


def remove():
    os.unlink(f"{one}/{NAME}")


def is_opened_by_itself(directory):
    """True if the client opens a file for reading without a request."""
    read(directory)

    def asked():
        return count(directory, "OPEN") + count(directory, "OPEN_NOATTR")

    before = asked()
    for _ in range(20):
        read(directory)
    return asked() == before


def recalled_by(what, by):
    """Checks that a change recalls the delegation of the first client, and that no data is lost."""
    # A new file, because the server does not delegate a recalled one again at once.
    make(b"before")
    assert is_opened_by_itself(one), f"{what}: nothing was delegated"
    given_back = count(one, "DELEGRETURN")
    start = time.monotonic()
    by()
    took = time.monotonic() - start
    # The server may reply to the waiting client first; the first client counts its replies.
    while count(one, "DELEGRETURN") == given_back and time.monotonic() < start + took + 1:
        time.sleep(0.01)
    assert count(one, "DELEGRETURN") > given_back, f"{what}: it was not recalled"
    assert took < 10, f"{what} took {took:.1f} s"
    print(f"recalled by {what} within {took:.2f} s", flush=True)


def written(directory, data):
    write(directory, data)
    assert read(one) == data, f"{directory} was not read by the first client"


def through_smb():
    written(smb, b"by SMB")


def renamed():
    os.rename(f"{smb}/{NAME}", f"{smb}/new name")
    assert sorted(os.listdir(one)) == ["new name"]
    os.rename(f"{smb}/new name", f"{smb}/{NAME}")


def kept_by_its_writer():
    """A client sees the length of data that another client has written and caches."""
    make(b"")
    with open(f"{one}/{NAME}", "r+b", buffering=0) as file:
        file.write(b"x" * 1000)
        size = os.stat(f"{other}/{NAME}").st_size
        assert size == 1000, f"the size of cached data is not visible: {size}"
    assert read(smb) == b"x" * 1000, "written data is missing after the close"
    remove()


def waits_for_lock():
    """A waiting lock is granted as soon as the range is free."""
    make(b"lock")
    first = open(f"{one}/{NAME}", "r+b")
    fcntl.lockf(first, fcntl.LOCK_EX)
    got = []

    def wait():
        with open(f"{other}/{NAME}", "r+b") as second:
            fcntl.lockf(second, fcntl.LOCK_EX)
            got.append(time.monotonic())

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(4)
    assert not got, "two clients have the lock"
    start = time.monotonic()
    fcntl.lockf(first, fcntl.LOCK_UN)
    waiter.join(60)
    took = got[0] - start
    print(f"a lock was had {took:.2f} s after it was free", flush=True)
    assert took < 3, f"it was had {took:.1f} s after it was free"
    first.close()
    remove()


def coherence(rounds):
    """A client that opens a file reads the data of the client that closed it before."""
    chance = random.Random(1)
    names = [f"shared {number}" for number in range(4)]
    sums = {}
    for number in range(rounds):
        name = chance.choice(names)
        if name not in sums or chance.random() < 0.4:
            data = chance.randbytes(chance.choice([1, 100, 5000, 70000]))
            where = chance.choice([one, other, smb]) if name in sums else one
            write(where, data, name)
            if name not in sums:
                os.chmod(f"{one}/{name}", 0o666)
            sums[name] = hashlib.sha256(data).digest()
        for where in chance.sample([one, other, smb], 2):
            data = read(where, name)
            assert hashlib.sha256(data).digest() == sums[name], f"round {number}: {where}/{name}"
    for name in sums:
        os.unlink(f"{one}/{name}")
    print(f"{rounds} rounds by three clients", flush=True)


recalled_by("another NFS client", lambda: written(other, b"by another"))
remove()
recalled_by("SMB", through_smb)
remove()
recalled_by("a rename over SMB", renamed)
remove()
recalled_by("a mode", lambda: os.chmod(f"{other}/{NAME}", 0o600))
remove()
kept_by_its_writer()
waits_for_lock()
coherence(200)
