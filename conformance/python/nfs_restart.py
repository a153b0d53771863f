"""Opens and locks of a program over restarts of the server, on two independent mounts: the second mount
checks that the lock still excludes it. Arguments: server, both mounts."""

import errno
import fcntl
import os
import socket
import sys

server, one, other = sys.argv[1:]


def restart(number):
    # The reply arrives when the server has been started again.
    with socket.create_connection((server, 447), 20) as connection:
        assert connection.recv(16), "the server was not started again"
    print(f"restart {number}", flush=True)


def is_locked():
    """True if another open by name cannot lock the whole file."""
    with open(f"{other}/folder/file", "r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except OSError as error:
            assert error.errno in (errno.EAGAIN, errno.EACCES), error
            return True


os.mkdir(f"{one}/folder")
with open(f"{one}/folder/file", "wb+", buffering=0) as file:
    os.link(f"{one}/folder/file", f"{one}/second name")
    fcntl.lockf(file, fcntl.LOCK_EX)
    for number in range(2):
        assert is_locked(), "the lock is missing before the restart"
        restart(number)
        assert is_locked(), "the restart lost the lock"
        file.write(b"%d" % number)
        os.fsync(file.fileno())
    assert os.pread(file.fileno(), 9, 0) == b"01"
    fcntl.lockf(file, fcntl.LOCK_UN)
    assert not is_locked(), "the lock was not released"
# A rename with a directory handle from before the restarts, which the other mount must see.
os.rename(f"{one}/folder/file", f"{one}/folder/moved")
assert os.stat(f"{other}/folder/moved").st_ino == os.stat(f"{one}/second name").st_ino
for name in ("folder/moved", "second name"):
    os.unlink(f"{one}/{name}")
os.rmdir(f"{one}/folder")
