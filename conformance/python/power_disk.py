#!/usr/bin/env python3
"""Direct access to the disk of the power-cut lane: its clock, and the live file system.

    power_disk.py MOUNT HOST PORT

serves both to clients in a virtual machine, which has another clock and no access to the disk.
"""

import ctypes
import glob
import itertools
import json
import os
import socket
import sys
import threading
import time

from power_journal import CELL

# Extended attributes that the model checks; the kernel manages the others.
FOLLOWED = ("user.", "security.NTACL", "system.posix_acl_access")
# First and last bytes of the attribute of a long stream, which refers to a separate file.
REFERENCE = (b"\0anabranch-stream:1\0", b"\xf0")


class HostDisk:
    """The live file system, mounted on this machine."""

    def __init__(self, mount):
        self.mount = mount

    def now(self):
        """The clock of the recording, in nanoseconds."""
        return time.monotonic_ns()

    def look(self, path):
        """Inode, mode, owner, modification time and extended attributes, in hexadecimal."""
        path = os.path.join(self.mount, path) if path else self.mount
        found = os.lstat(path)
        names = [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith(FOLLOWED)]
        return {
            "inode": found.st_ino, "mode": found.st_mode & 0o7777, "owner": [found.st_uid, found.st_gid],
            "modified": found.st_mtime_ns,
            "attributes": {name: self.value(os.getxattr(path, name, follow_symlinks=False)) for name in names},
        }

    def value(self, value):
        """The value in hexadecimal; for a long stream the runs of cells in its file."""
        if not value.startswith(REFERENCE[0]) or not value.endswith(REFERENCE[1]):
            return value.hex()
        name = value[len(REFERENCE[0]):-len(REFERENCE[1])].hex()
        found = glob.glob(os.path.join(glob.escape(self.mount), "*", ".anabranch-streams", name))
        with open(found[0], "rb") as file:
            data = file.read()
        cells = [data[at:at + CELL] for at in range(0, len(data), CELL)]
        runs = ((len(list(run)), cell) for cell, run in itertools.groupby(cells))
        return "long" + "".join(" %d*%d" % (count, int.from_bytes(cell[:8], "little")) for count, cell in runs)

    def sync(self):
        """Makes all written data stable. syncfs(2) of XFS does not flush the disk cache if the log is clean;
        fsync(2) of a file does."""
        file = os.open(os.path.join(self.mount, ".power-sync"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(file):
                raise OSError(ctypes.get_errno(), "syncfs")
            os.fsync(file)
        finally:
            os.close(file)


class RemoteDisk:
    """The same for a virtual machine: a line with a method and its arguments, then a line with the result."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("r", encoding="utf-8")

    def _call(self, *words):
        self.socket.sendall(json.dumps(words).encode() + b"\n")
        return json.loads(self.file.readline())

    def now(self):
        return self._call("now")

    def look(self, path):
        return self._call("look", path)

    def sync(self):
        return self._call("sync")


def answer(disk, connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for line in connection.makefile("r", encoding="utf-8"):
        method, *arguments = json.loads(line)
        connection.sendall(json.dumps(getattr(disk, method)(*arguments)).encode() + b"\n")


def main():
    mount, host, port = sys.argv[1:]
    disk, listener = HostDisk(mount), socket.create_server((host, int(port)))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(disk, connection), daemon=True).start()


if __name__ == "__main__":
    main()
