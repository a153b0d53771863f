"""Random operations through a mount of a kernel: the clients of the power-cut lane in a virtual machine."""

import os
import random as random_
from dataclasses import dataclass

from power_journal import CELL, Client, content


@dataclass(frozen=True)
class Mount:
    """A mounted share, and the stability that its replies promise."""

    row: str
    # Mount point; the share is the first component of a path on the disk.
    place: str
    share: str
    # Whether replies promise stable names and attributes; otherwise only fsync of the file does.
    is_stable: bool
    # Whether modes, owners, times and extended attributes are those of the file system.
    is_posix: bool


class PosixClient(Client):
    """fsync(2) promises stable data."""

    def __init__(self, journal, root, seed, mount):
        super().__init__(mount.row, journal, root, random_.Random(seed))
        self.mount = mount
        self.choices = [
            (self.create, 6), (self.make_directory, 3), (self.link, 2), (self.rename, 4), (self.rename_over, 3),
            (self.rename_directory, 2), (self.unlink, 3), (self.remove_directory, 1), (self.truncate, 3),
            (self.write, 4), (self.write_and_sync, 4), (self.sync_file, 2),
        ]
        if mount.is_posix:
            self.choices += [(self.make_symlink, 2), (self.set_mode, 3), (self.set_owner, 1), (self.set_time, 2),
                             (self.set_attribute, 2), (self.remove_attribute, 1)]

    def path(self, directory, name):
        """In the virtual machine."""
        return os.path.join(self.mount.place, os.path.relpath(directory.path(name), self.mount.share))

    def act(self, row, directory, name, call, promises=None, settles=None):
        def done():
            call(self.path(directory, name))
            return 0

        promises = self.mount.is_stable if promises is None else promises
        return self.perform("%s %s" % (self.mount.row, row), directory.path(name), done, promises, settles)

    def add(self, row, directory, name, kind, call, target=None):
        record = self.act(row, directory, name, call)
        created = self.journal.new(kind, target)
        record.name(directory, name, created)
        record.created(created, directory.path(name))
        return created

    def create(self):
        if self.is_full():
            return False
        mode = self.random.choice((0o600, 0o640, 0o644))
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        self.add("create", self.directory(), self.new_name("f"), "file",
                 lambda path: os.close(os.open(path, flags, mode)))
        return True

    def make_directory(self):
        if len(self.directories) > self.DIRECTORIES_MAX:
            return False
        directory, name = self.directory(), self.new_name("d")
        self.directories.append(self.add("mkdir", directory, name, "directory", os.mkdir))
        return True

    def make_symlink(self):
        if self.is_full():
            return False
        target = "to/%d" % self.count
        self.add("symlink", self.directory(), self.new_name("s"), "symlink",
                 lambda path: os.symlink(target, path), target)
        return True

    def link(self):
        entry = self.entry("file")
        if not entry or self.is_full():
            return False
        directory, name = self.directory(), self.new_name("l")
        record = self.act("link", directory, name, lambda path: os.link(self.path(*entry[:2]), path))
        record.name(directory, name, entry[2])
        return True

    def move(self, row, entry, directory, name):
        record = self.act(row, entry[0], entry[1], lambda path: os.rename(path, self.path(directory, name)))
        record.name(entry[0], entry[1], None)
        record.name(directory, name, entry[2])
        return True

    def rename(self):
        entry = self.entry("file", "symlink")
        return bool(entry) and self.move("rename", entry, self.directory(), self.new_name("r"))

    def rename_over(self):
        entry, other = self.entry("file"), self.entry("file")
        # rename(2) between two names of one file has no effect.
        if not entry or entry[2] is other[2]:
            return False
        return self.move("rename over another", entry, other[0], other[1])

    def rename_directory(self):
        entry, directory = self.entry("directory"), self.directory()
        if not entry or (directory.path() + os.sep).startswith(entry[2].path() + os.sep):
            return False
        return self.move("rename of a directory", entry, directory, self.new_name("e"))

    def unlink(self):
        entry = self.entry("file", "symlink")
        if entry:
            self.act("unlink", entry[0], entry[1], os.unlink).name(entry[0], entry[1], None)
        return bool(entry)

    def remove_directory(self):
        entry = self.entry("directory")
        if not entry or entry[2].children:
            return False
        self.directories.remove(entry[2])
        self.act("rmdir", entry[0], entry[1], os.rmdir).name(entry[0], entry[1], None)
        return True

    # Data.

    def truncate(self):
        entry = self.entry("file")
        if not entry:
            return False
        directory, name, target = entry
        cells = self.random.randrange(self.CELLS_MAX)
        record = self.act("truncate", directory, name, lambda path: os.truncate(path, cells * CELL))
        record.size(target, cells)
        record.seen(target, directory.path(name))
        return True

    def settled(self, target):
        """The effect of fsync: over SMB it sends FLUSH, which also makes the names of the file stable."""
        return {"data" if self.mount.is_stable else "object": target.number}

    def write_by(self, row, is_synced):
        entry = self.entry("file")
        if not entry:
            return False
        directory, name, target = entry
        first, tags = self.place()

        def call(path):
            file = os.open(path, os.O_WRONLY)
            try:
                os.pwrite(file, content(tags), first * CELL)
                if is_synced:
                    os.fsync(file)
            finally:
                os.close(file)

        record = self.act(row, directory, name, call, is_synced, self.settled(target) if is_synced else None)
        record.cells(target, first, tags)
        record.seen(target, directory.path(name))
        return True

    def write(self):
        return self.write_by("write", False)

    def write_and_sync(self):
        return self.write_by("write and fsync", True)

    def sync_file(self):
        entry = self.entry("file")
        if not entry:
            return False
        directory, name, target = entry

        def call(path):
            file = os.open(path, os.O_WRONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)

        self.act("fsync", directory, name, call, True, self.settled(target))
        return True

    # Attributes.

    def change(self, row, kinds, call):
        entry = self.entry(*kinds)
        if not entry:
            return None
        directory, name, target = entry
        record = self.act(row, directory, name, call)
        record.seen(target, directory.path(name))
        return record, target

    def set_mode(self):
        mode = self.random.choice((0o600, 0o644, 0o755, 0o400, 0o700))
        return bool(self.change("chmod", ("file", "directory"), lambda path: os.chmod(path, mode)))

    def set_owner(self):
        owner = (self.random.randrange(100, 200), self.random.randrange(100, 200))
        return bool(self.change("chown", ("file", "directory"), lambda path: os.chown(path, *owner)))

    def set_time(self):
        time = (10 ** 9 + self.random.randrange(10 ** 6)) * 10 ** 9 + 500
        done = self.change("utimensat", ("file",), lambda path: os.utime(path, ns=(time, time)))
        if done:
            done[0].modified(done[1], time)
        return bool(done)

    def set_attribute(self):
        key, value = self.random.choice("ab"), os.urandom(self.random.choice((2, 20, 100))).hex().encode()
        return bool(self.change("setxattr", ("file",), lambda path: os.setxattr(path, "user." + key, value)))

    def remove_attribute(self):
        entry = self.entry("file")
        if not entry or "user.a" not in entry[2].attributes:
            return False
        record = self.act("removexattr", entry[0], entry[1], lambda path: os.removexattr(path, "user.a"))
        record.seen(entry[2], entry[0].path(entry[1]))
        return True
