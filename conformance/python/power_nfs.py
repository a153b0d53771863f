"""The NFS client of the power-cut lane. RFC 8881, RFC 7862, RFC 8276."""

import os
import struct

from power_journal import CELL, Client, content
from raw_nfs import ANONYMOUS, Nfs, attributes, long, opaque, put, words

UNSTABLE, FILE_SYNC = 0, 2
UNCHECKED, GUARDED, EXCLUSIVE = 0, 1, 3
SAVE = words(32)
MODE, SIZE, OWNER, OWNER_GROUP, MODIFIED, ACL = 33, 4, 36, 37, 54, 12
# ACE4_FILE_INHERIT_ACE and ACE4_DIRECTORY_INHERIT_ACE; the attribute of the stored descriptor.
INHERIT, DESCRIPTOR = 1 | 2, "security.NTACL"
NOT_SUPPORTED = 10004


def mode_attribute(mode):
    return attributes((MODE, words(mode)))


class NfsClient(Client):
    """Each successful reply promises stable storage, except for unstable writes until COMMIT."""

    def __init__(self, name, journal, root, random, address, export, is_cloning):
        super().__init__(name, journal, root, random)
        self.nfs = Nfs(*address, 0, 0)
        root.handle = self.nfs.find(export, *root.path().split(os.sep)[1:])
        self.unstable = []
        self.choices = [
            (self.create, 6), (self.make_directory, 3), (self.make_inheriting_directory, 2), (self.make_symlink, 2), (self.link, 3), (self.rename, 4),
            (self.rename_over, 3), (self.rename_directory, 2), (self.remove, 4), (self.remove_directory, 1),
            (self.set_mode, 3), (self.set_owner, 2), (self.set_owner_and_mode, 2), (self.set_size, 3), (self.set_time, 2), (self.truncating_open, 1),
            (self.set_attribute, 3), (self.remove_attribute, 1), (self.write_stable, 3), (self.write_unstable, 3),
            (self.commit, 3), (self.allocate, 1), (self.deallocate, 1), (self.copy, 1),
        ] + ([(self.clone, 1)] if is_cloning else [])

    def call(self, *operations):
        """A compound as an action that stores its reply."""

        def act():
            status, self.reply = self.nfs.compound(*operations)
            return status

        return act

    def text(self, directory, name):
        return directory.path(name)

    def add(self, record, directory, name, kind, target=None):
        created = self.journal.new(kind, target)
        record.name(directory, name, created)
        record.created(created, directory.path(name))
        found = [put(directory.handle), words(15) + opaque(name.encode()), words(10)]
        _, reply = self.nfs.compound(*found)
        created.handle = reply[28:28 + struct.unpack(">I", reply[24:28])[0]]
        return created

    def open_body(self, name, how):
        owner = self.nfs.client + opaque(b"power" + os.urandom(4))
        return words(18, 0, 2, 0) + owner + words(1) + how + words(0) + opaque(name.encode())

    def create(self):
        if self.is_full():
            return False
        directory, name, mode = self.directory(), self.new_name("f"), self.random.choice((0o600, 0o640, 0o664))
        how = self.random.choice((UNCHECKED, GUARDED, EXCLUSIVE))
        verifier = os.urandom(8) if how == EXCLUSIVE else b""
        body = self.open_body(name, words(how) + verifier + mode_attribute(mode))
        row = {UNCHECKED: "NFS create", GUARDED: "NFS guarded create", EXCLUSIVE: "NFS exclusive create"}[how]
        record = self.perform(row, "%s mode %o" % (self.text(directory, name), mode),
                              self.call(put(directory.handle), body), True)
        state = self.reply[16:32]
        created = self.add(record, directory, name, "file")
        assert created.mode == mode or DESCRIPTOR in directory.attributes, "created with mode %o, not %o" % (created.mode, mode)
        self.nfs.close(created.handle, state)
        return True

    def make_directory(self):
        if len(self.directories) > self.DIRECTORIES_MAX:
            return False
        directory, name = self.directory(), self.new_name("d")
        inherits = DESCRIPTOR in directory.attributes
        row = "NFS mkdir that inherits" if inherits else "NFS mkdir"
        body = words(6, 2) + opaque(name.encode()) + mode_attribute(0o750)
        record = self.perform(row, self.text(directory, name), self.call(put(directory.handle), body), True)
        created = self.add(record, directory, name, "directory")
        assert not inherits or DESCRIPTOR in created.attributes, "the directory has inherited nothing"
        self.directories.append(created)
        return True

    def make_inheriting_directory(self):
        """A directory with an access list, and a subdirectory."""
        if not self.make_directory():
            return False
        directory = self.directories[-1]
        entries = [(0x1F01FF, b"OWNER@"), (0x1200A9, b"%d" % self.random.randrange(100, 200)), (0x120089, b"EVERYONE@")]
        acl = words(len(entries)) + b"".join(words(0, INHERIT, mask) + opaque(who) for mask, who in entries)
        body = words(34) + ANONYMOUS + attributes((ACL, acl))
        record = self.perform("NFS setattr acl", directory.path(), self.call(put(directory.handle), body), True)
        record.seen(directory, directory.path())
        assert DESCRIPTOR in directory.attributes, "the access list is not stored"
        # Such directories are few, and later random creations in them also inherit.
        chosen, self.directory = self.directory, lambda: directory
        try:
            return self.make_directory() or True
        finally:
            self.directory = chosen

    def make_symlink(self):
        if self.is_full():
            return False
        directory, name, target = self.directory(), self.new_name("s"), "to/%d" % self.count
        body = words(6, 5) + opaque(target.encode()) + opaque(name.encode()) + attributes()
        record = self.perform("NFS symlink", self.text(directory, name), self.call(put(directory.handle), body), True)
        self.add(record, directory, name, "symlink", target)
        return True

    def link(self):
        entry = self.entry("file")
        if not entry or self.is_full():
            return False
        source, old, target = entry
        directory, name = self.directory(), self.new_name("l")
        body = words(11) + opaque(name.encode())
        text = "%s to %s" % (self.text(source, old), self.text(directory, name))
        record = self.perform("NFS link", text, self.call(put(target.handle), SAVE, put(directory.handle), body), True)
        record.name(directory, name, target)
        return True

    def move(self, row, entry, directory, name):
        source, old, target = entry
        body = words(29) + opaque(old.encode()) + opaque(name.encode())
        text = "%s to %s" % (self.text(source, old), self.text(directory, name))
        record = self.perform(row, text, self.call(put(source.handle), SAVE, put(directory.handle), body), True)
        record.name(source, old, None)
        record.name(directory, name, target)
        return True

    def rename(self):
        entry = self.entry("file", "symlink")
        return bool(entry) and self.move("NFS rename", entry, self.directory(), self.new_name("r"))

    def rename_over(self):
        entry, other = self.entry("file"), self.entry("file")
        # RENAME between two names of one file has no effect. RFC 8881 18.26.3.
        if not entry or entry[2] is other[2]:
            return False
        return self.move("NFS rename over another", entry, other[0], other[1])

    def rename_directory(self):
        entry, directory = self.entry("directory"), self.directory()
        if not entry or (directory.path() + os.sep).startswith(entry[2].path() + os.sep):
            return False
        return self.move("NFS rename of a directory", entry, directory, self.new_name("e"))

    def remove_entry(self, row, entry):
        directory, name, _ = entry
        body = words(28) + opaque(name.encode())
        record = self.perform(row, self.text(directory, name), self.call(put(directory.handle), body), True)
        record.name(directory, name, None)
        return True

    def remove(self):
        entry = self.entry("file", "symlink")
        return bool(entry) and self.remove_entry("NFS remove", entry)

    def remove_directory(self):
        entry = self.entry("directory")
        if not entry or entry[2].children:
            return False
        self.directories.remove(entry[2])
        return self.remove_entry("NFS rmdir", entry)

    def set(self, row, kinds, *pairs):
        """SETATTR of a random object; returns the record, the object and its location."""
        entry = self.entry(*kinds)
        # A new owner invalidates a stored descriptor, as chown(2) does.
        if not entry or (DESCRIPTOR in entry[2].attributes and any(one == OWNER for one, _ in pairs)):
            return None
        directory, name, target = entry
        body = words(34) + ANONYMOUS + attributes(*pairs)
        record = self.perform(row, self.text(directory, name), self.call(put(target.handle), body), True)
        path = directory.path(name)
        record.seen(target, path)
        return record, target, path

    def set_mode(self):
        mode = self.random.choice((0o600, 0o644, 0o755, 0o400, 0o700))
        done = self.set("NFS setattr mode", ("file", "directory"), (MODE, words(mode)))
        assert not done or done[1].mode == mode
        return bool(done)

    def set_owner(self):
        owner = (self.random.randrange(100, 200), self.random.randrange(100, 200))
        pairs = [(OWNER, opaque(b"%d" % owner[0])), (OWNER_GROUP, opaque(b"%d" % owner[1]))]
        done = self.set("NFS setattr owner", ("file", "directory", "symlink"), *pairs)
        assert not done or done[1].owner == list(owner)
        return bool(done)

    def set_owner_and_mode(self):
        owner = (self.random.randrange(100, 200), self.random.randrange(100, 200))
        mode = self.random.choice((0o600, 0o644, 0o755, 0o440, 0o066))
        pairs = [(MODE, words(mode)), (OWNER, opaque(b"%d" % owner[0])), (OWNER_GROUP, opaque(b"%d" % owner[1]))]
        done = self.set("NFS setattr owner and mode", ("file", "directory"), *pairs)
        assert not done or (done[1].owner, done[1].mode) == (list(owner), mode)
        return bool(done)

    def set_size(self):
        cells = self.random.randrange(self.CELLS_MAX)
        done = self.set("NFS setattr size", ("file",), (SIZE, long(cells * CELL)))
        if done:
            done[0].size(done[1], cells)
        return bool(done)

    def set_time(self):
        seconds = 10 ** 9 + self.random.randrange(10 ** 6)
        done = self.set("NFS setattr time", ("file",), (MODIFIED, words(1) + long(seconds) + words(500)))
        if done:
            done[0].modified(done[1], seconds * 10 ** 9 + 500)
        return bool(done)

    def truncating_open(self):
        entry = self.entry("file")
        if not entry or not entry[2].cells:
            return False
        directory, name, target = entry
        how = words(UNCHECKED) + attributes((SIZE, long(0)))
        record = self.perform("NFS open with truncation", self.text(directory, name),
                              self.call(put(directory.handle), self.open_body(name, how)), True)
        self.nfs.close(target.handle, self.reply[16:32])
        record.size(target, 0)
        return True

    def attribute(self, row, entry, body):
        directory, name, target = entry
        record = self.perform(row, self.text(directory, name), self.call(put(target.handle), body), True)
        record.seen(target, directory.path(name))
        return True

    def set_attribute(self):
        entry = self.entry("file", "directory")
        if not entry:
            return False
        key, value = self.random.choice((b"a", b"b")), os.urandom(self.random.choice((4, 40, 200))).hex().encode()
        return self.attribute("NFS setxattr", entry, words(73, 0) + opaque(key) + opaque(value))

    def remove_attribute(self):
        entry = self.entry("file", "directory")
        keys = [key for key in ("a", "b") if entry and "user." + key in entry[2].attributes]
        if not keys:
            return False
        return self.attribute("NFS removexattr", entry, words(75) + opaque(keys[0].encode()))

    def write(self, row, stability):
        entry = self.entry("file")
        if not entry:
            return None
        directory, name, target = entry
        first, tags = self.place()
        body = words(38) + ANONYMOUS + long(first * CELL) + words(stability) + opaque(content(tags))
        text = "%s cells %d to %d" % (self.text(directory, name), first, first + len(tags))
        record = self.perform(row, text, self.call(put(target.handle), body), stability == FILE_SYNC)
        written, committed = struct.unpack(">II", self.reply[-16:-8])
        assert written == len(tags) * CELL and committed >= stability, "WRITE: %d bytes, %d" % (written, committed)
        record.entry["promises"] = committed == FILE_SYNC
        record.cells(target, first, tags)
        return target

    def write_stable(self):
        return self.write("NFS write FILE_SYNC", FILE_SYNC) is not None

    def write_unstable(self):
        target = self.write("NFS write UNSTABLE", UNSTABLE)
        if target and target not in self.unstable:
            self.unstable.append(target)
        return target is not None

    def commit(self):
        self.unstable = [target for target in self.unstable if self.names_of(target)]
        if not self.unstable:
            return False
        target = self.unstable.pop(self.random.randrange(len(self.unstable)))
        self.perform("NFS commit", "object %d" % target.number,
                     self.call(put(target.handle), words(5) + long(0) + words(0)), True, {"data": target.number})
        return True

    def allocate(self):
        entry = self.entry("file")
        if not entry:
            return False
        directory, name, target = entry
        first, count = self.random.randrange(64), self.random.choice((8, 16))
        body = words(59) + ANONYMOUS + long(first * CELL) + long(count * CELL)
        record = self.perform("NFS allocate", self.text(directory, name), self.call(put(target.handle), body), True)
        if first + count > len(target.cells):
            record.size(target, first + count)
        else:
            record.modified(target)
        return True

    def deallocate(self):
        entry = self.entry("file")
        if not entry or len(entry[2].cells) < 16:
            return False
        directory, name, target = entry
        first = self.random.randrange(len(target.cells) - 8)
        body = words(62) + ANONYMOUS + long(first * CELL) + long(8 * CELL)
        record = self.perform("NFS deallocate", self.text(directory, name), self.call(put(target.handle), body), True)
        record.cells(target, first, [0] * 8)
        return True

    def copying(self, row, body_of, promises_of):
        source, entry = self.entry("file"), self.entry("file")
        # A clone needs whole blocks of 4 KiB.
        blocks = len(source[2].cells) // 8 if source else 0
        if not blocks or source[2] is entry[2]:
            return False
        directory, name, target = entry
        count, to = self.random.randint(1, blocks), self.random.randrange(4)
        start = self.random.randint(0, blocks - count)
        body = body_of(long(start * 4096) + long(to * 4096) + long(count * 4096))
        text = "%s %d blocks to %s" % (self.text(source[0], source[1]), count, self.text(directory, name))
        record = self.perform(row, text, self.call(put(source[2].handle), SAVE, put(target.handle), body), True)
        record.entry["promises"] = promises_of()
        record.cells(target, to * 8, source[2].cells[start * 8:(start + count) * 8])
        if not record.entry["promises"] and target not in self.unstable:
            self.unstable.append(target)
        return True

    def copy(self):
        # Count, how it was committed, verifier, consecutive, synchronous. RFC 7862 15.2.2.
        return self.copying("NFS copy", lambda range_: words(60) + ANONYMOUS * 2 + range_ + words(1, 1, 0),
                            lambda: struct.unpack(">I", self.reply[-20:-16])[0] == FILE_SYNC)

    def clone(self):
        return self.copying("NFS clone", lambda range_: words(71) + ANONYMOUS * 2 + range_, lambda: True)
