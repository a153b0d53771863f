"""The SMB client of the power-cut lane. MS-SMB2, MS-FSCC, MS-FSA."""

import os
import struct

from power_journal import CELL, Client, content
from raw_smb import CREATE, WRITE, Refused, Smb, create_body, descriptor, sid

LOGOFF, TREE_DISCONNECT, FLUSH, IOCTL = 2, 4, 7, 11
FILE_ACCESS = 0x1F019F
WRITE_THROUGH, DIRECTORY, DELETE_ON_CLOSE = 2, 1, 0x1000
OPEN, CREATE_NEW, OPEN_IF, OVERWRITE = 1, 2, 3, 4
SET_ZERO_DATA, REQUEST_RESUME_KEY, COPYCHUNK = 0x000980C8, 0x00140078, 0x001480F2
# MS-FSCC 2.3.81, 2.1.2.4.
SET_REPARSE_POINT, TAG_SYMLINK, RELATIVE = 0x000900A4, 0xA000000C, 1
# Cells of a stream of 64 KiB: one write, which together with the end mark exceeds the largest attribute.
LONG_CELLS = 128
EVERYONE_ALL = (0, 0, 0x1F01FF, sid(1, 0))


class SmbOpen:
    """An open of this client, and its entry."""

    def __init__(self, file, directory, name, target, writes_through):
        self.file, self.directory, self.name, self.target = file, directory, name, target
        self.writes_through = writes_through


class SmbClient(Client):
    """FLUSH and write-through promise stable storage; on a continuously available share each reply does."""

    OPENS_MAX = 6

    def __init__(self, name, journal, root, random, address, share, user, uid, is_available, writes_through=0.0):
        super().__init__(name, journal, root, random)
        self.destination = address, user, share
        self.smb = self.new_session()
        self.kind = "SMB CA" if is_available else "SMB"
        self.is_available, self.write_through_share = is_available, writes_through
        self.opens, self.uid = [], uid
        self.choices = [
            (self.create, 5), (self.create_with_descriptor, 2), (self.create_with_dos_attributes, 1),
            (self.create_with_extended_attribute, 1), (self.create_with_stream, 1), (self.open, 2), (self.close, 3),
            (self.make_directory, 2), (self.make_directory_with_descriptor, 1), (self.write, 5), (self.rename, 4),
            (self.rename_over, 2), (self.rename_directory, 1), (self.set_size, 3), (self.delete, 3), (self.delete_by_open, 2),
            (self.remove_directory, 1), (self.set_security, 2), (self.set_security_of_directory, 1),
            (self.set_dos_attributes, 2), (self.set_time, 1), (self.create_stream, 2), (self.write_stream, 2),
            (self.write_long_stream, 2), (self.remove_stream, 2), (self.write_finder_information, 2), (self.set_reparse_point, 1),
            (self.delete_by_tree_disconnect, 1), (self.delete_by_logoff, 1),
            (self.link, 1), (self.set_extended_attribute, 1), (self.overwrite, 1), (self.zero, 1), (self.copy, 1),
            (self.flush, 3), (self.flush_directory, 1),
        ]
        if not uid:
            # Only the superuser can change the owner of a file.
            self.choices.append((self.give, 4))

    def new_session(self):
        address, user, share = self.destination
        smb = Smb(*address)
        smb.log_on(user, "password")
        smb.connect(share)
        return smb

    # The promise of an operation, and its row in the table.

    def promises(self, open_=None):
        return self.is_available or bool(open_ and open_.writes_through)

    def row(self, what, open_=None):
        through = " by a write-through open" if open_ and open_.writes_through and not self.is_available else ""
        return "%s %s%s" % (self.kind, what, through)

    def smb_path(self, directory, name):
        """The path relative to the share, which is the first component."""
        return "\\".join(directory.path(name).split(os.sep)[1:])

    def text(self, open_):
        return open_.directory.path(open_.name)

    def action(self, command, body):
        def act():
            status, self.reply = self.smb.call(command, body)
            return status

        return act

    def create_action(self, path, access, disposition, options=0, contexts=(), attributes=0x80):
        contexts = list(contexts)
        if self.is_available:
            contexts.append((b"DH2Q", struct.pack("<IIQ", 0, 2, 0) + os.urandom(16)))
        act = self.action(CREATE, create_body(path, access, disposition, options, contexts, attributes=attributes))

        def opened():
            status = act()
            if not status and self.is_available and not options & DIRECTORY and ":" not in path:
                assert b"DH2Q" in self.reply, "the open is not persistent"
            return status

        return opened

    def some_open(self, is_shared=True):
        """A random open; with `is_shared` false one of a file with a single open."""
        found = [one for one in self.opens if is_shared or self.opens_of(one.target) == 1]
        return self.random.choice(found) if found else None

    def opens_of(self, target):
        return sum(1 for one in self.opens if one.target is target)

    def writes_through(self):
        return self.random.random() < self.write_through_share

    # Opens.

    def create(self):
        return self.create_by("create")

    def create_with_descriptor(self):
        """Creates a file with a descriptor. It must never exist with inherited rights. MS-SMB2 2.2.13.2.2."""
        entries = [(0, 0, 0x1F01FF, sid(22, 1, self.uid)), (0, 0, 0x120089, sid(22, 1, self.random.randrange(100, 200)))]
        return self.create_by("create with a descriptor", [(b"SecD", descriptor(entries=entries))])

    def create_with_dos_attributes(self):
        """Attributes without hidden and system, as in `set_dos_attributes`."""
        return self.create_by("create with DOS attributes", attributes=self.random.choice((0x2000, 0x1020)))

    def create_with_extended_attribute(self):
        value = b"%d" % self.random.randrange(10 ** 6)
        data = struct.pack("<IBBH", 0, 0, 4, len(value)) + b"NAME\0" + value
        return self.create_by("create with an extended attribute", [(b"ExtA", data)])

    def create_with_stream(self):
        """Creates a file by creating its stream, and closes the stream."""
        if not self.create_by("create by a stream", stream=":a"):
            return False
        self.smb.close(self.opens.pop().file)
        return True

    def create_by(self, row, contexts=(), attributes=0x80, stream=""):
        if self.is_full() or len(self.opens) >= self.OPENS_MAX:
            return False
        directory, name = self.directory(), self.new_name("f")
        open_ = SmbOpen(None, directory, name, self.journal.new("file"), self.writes_through())
        options = WRITE_THROUGH if open_.writes_through else 0
        path = self.smb_path(directory, name) + stream
        act = self.create_action(path, FILE_ACCESS, CREATE_NEW, options, contexts, attributes)
        record = self.perform(self.row(row, open_), self.text(open_), act, self.promises(open_))
        open_.file = self.reply[128:144]
        record.name(directory, name, open_.target)
        record.created(open_.target, self.text(open_))
        self.opens.append(open_)
        return True

    def open_by(self, row, disposition):
        entry = self.entry("file")
        if not entry or len(self.opens) >= self.OPENS_MAX:
            return None
        open_ = SmbOpen(None, *entry, self.writes_through())
        options = WRITE_THROUGH if open_.writes_through else 0
        act = self.create_action(self.smb_path(*entry[:2]), FILE_ACCESS, disposition, options)
        record = self.perform(self.row(row, open_), self.text(open_), act, self.promises(open_))
        open_.file = self.reply[128:144]
        self.opens.append(open_)
        return record, open_

    def open(self):
        done = self.open_by("open", OPEN)
        if done:
            done[0].seen(done[1].target, self.text(done[1]))
        return bool(done)

    def overwrite(self):
        done = self.open_by("overwrite", OVERWRITE)
        if done:
            done[0].size(done[1].target, 0)
            done[0].seen(done[1].target, self.text(done[1]))
        return bool(done)

    def close(self):
        open_ = self.some_open()
        if not open_:
            return False
        self.opens.remove(open_)
        act = self.action(6, struct.pack("<HHI", 24, 0, 0) + open_.file)
        record = self.perform(self.row("close", open_), self.text(open_), act, self.promises(open_))
        record.seen(open_.target, self.text(open_))
        return True

    def close_all(self):
        while self.close():
            pass

    # Names.

    def make_directory(self):
        return self.make_directory_by("mkdir")

    def make_directory_with_descriptor(self):
        """Creates an object that inherits from its directory."""
        entries = [(0, 3, 0x1F01FF, sid(1, 0)), (0, 3, 0x120089, sid(22, 1, self.random.randrange(100, 200)))]
        return self.make_directory_by("mkdir with a descriptor", [(b"SecD", descriptor(entries=entries))])

    def make_directory_by(self, row, contexts=()):
        if len(self.directories) > self.DIRECTORIES_MAX:
            return False
        directory, name, created = self.directory(), self.new_name("d"), self.journal.new("directory")
        act = self.create_action(self.smb_path(directory, name), 0x1F01FF, CREATE_NEW, DIRECTORY, contexts)
        record = self.perform(self.row(row), directory.path(name), act, self.promises())
        self.smb.close(self.reply[128:144])
        record.name(directory, name, created)
        record.created(created, directory.path(name))
        self.directories.append(created)
        return True

    def move(self, row, open_, directory, name):
        path = self.smb_path(directory, name).encode("utf-16le")
        data = struct.pack("<B7xQI", 1, 0, len(path)) + path
        text = "%s to %s" % (self.text(open_), directory.path(name))
        record = self.perform(self.row(row, open_), text, self.set_action(open_, 1, 10, data), self.promises(open_))
        record.name(open_.directory, open_.name, None)
        record.name(directory, name, open_.target)
        open_.directory, open_.name = directory, name
        record.seen(open_.target, self.text(open_))
        return True

    def set_action(self, open_, kind, information, data, additional=0):
        return lambda: self.smb.set(open_.file, kind, information, data, additional)

    def single_open(self):
        """An open whose file has no other open and no other name."""
        open_ = self.some_open(is_shared=False)
        return open_ if open_ and self.names_of(open_.target) == 1 else None

    def rename(self):
        open_ = self.single_open()
        return bool(open_) and self.move("rename", open_, self.directory(), self.new_name("r"))

    def rename_over(self):
        open_, entry = self.single_open(), self.entry("file")
        if not open_ or not entry or self.opens_of(entry[2]):
            return False
        return self.move("rename over another", open_, entry[0], entry[1])

    def is_open_below(self, directory):
        return any((one.directory.path() + os.sep).startswith(directory.path() + os.sep) for one in self.opens)

    def open_directory(self, entry):
        act = self.create_action(self.smb_path(*entry[:2]), 0x1F01FF, OPEN, DIRECTORY)
        if act():
            raise Refused(struct.unpack("<I", self.reply[8:12])[0])
        return SmbOpen(self.reply[128:144], *entry, False)

    def rename_directory(self):
        entry, directory = self.entry("directory"), self.directory()
        if not entry or self.is_open_below(entry[2]):
            return False
        if (directory.path() + os.sep).startswith(entry[2].path() + os.sep):
            return False
        open_ = self.open_directory(entry)
        self.move("rename of a directory", open_, directory, self.new_name("e"))
        self.smb.close(open_.file)
        return True

    def delete_by(self, open_, row):
        status = self.smb.set(open_.file, 1, 13, b"\1")
        if status:
            raise Refused(status)
        act = self.action(6, struct.pack("<HHI", 24, 0, 0) + open_.file)
        record = self.perform(self.row(row, open_), self.text(open_), act, self.promises(open_))
        record.name(open_.directory, open_.name, None)
        return True

    def delete(self):
        open_ = self.single_open()
        if not open_:
            return False
        self.opens.remove(open_)
        return self.delete_by(open_, "delete on close")

    def delete_by_open(self):
        """Deletes in the form of Linux: an open with FILE_DELETE_ON_CLOSE, and its close."""
        entry = self.entry("file")
        if not entry or self.opens_of(entry[2]):
            return False
        open_ = SmbOpen(None, *entry, self.writes_through())
        options = DELETE_ON_CLOSE | (WRITE_THROUGH if open_.writes_through else 0)
        status = self.create_action(self.smb_path(*entry[:2]), FILE_ACCESS, OPEN, options)()
        if status:
            raise Refused(status)
        act = self.action(6, struct.pack("<HHI", 24, 0, 0) + self.reply[128:144])
        row = self.row("delete by an open with FILE_DELETE_ON_CLOSE", open_)
        self.perform(row, self.text(open_), act, self.promises(open_)).name(open_.directory, open_.name, None)
        return True

    def delete_by_end(self, what, command):
        """Ends the tree or session of a delete-pending open. A persistent open survives that. MS-SMB2 3.3.5.6,
        3.3.5.8."""
        entry = self.entry("file")
        if not entry or self.opens_of(entry[2]):
            return False
        open_ = SmbOpen(None, *entry, self.writes_through())
        options = WRITE_THROUGH if open_.writes_through else 0
        smb = self.new_session()
        status, reply = smb.call(CREATE, create_body(self.smb_path(*entry[:2]), FILE_ACCESS, OPEN, options))
        if not status:
            open_.file = reply[128:144]
            status = smb.set(open_.file, 1, 13, b"\1")
        if status:
            raise Refused(status)
        act = lambda: smb.call(command, struct.pack("<HH", 4, 0))[0]  # noqa: E731
        row = self.row("delete on close by %s" % what, open_)
        self.perform(row, self.text(open_), act, self.promises(open_)).name(open_.directory, open_.name, None)
        smb.close_connection()
        return True

    def delete_by_tree_disconnect(self):
        return self.delete_by_end("TREE_DISCONNECT", TREE_DISCONNECT)

    def delete_by_logoff(self):
        return self.delete_by_end("LOGOFF", LOGOFF)

    def set_reparse_point(self):
        """Turns an empty file into a symbolic link, which is a new object with that name."""
        if not self.create_by("create"):
            return False
        open_, target = self.opens.pop(), "target%d" % self.count
        name = target.encode("utf-16le")
        data = struct.pack("<HHHHI", 0, len(name), len(name), len(name), RELATIVE) + name + name
        act = self.control(open_, SET_REPARSE_POINT, struct.pack("<IHH", TAG_SYMLINK, len(data), 0) + data, 0)
        record = self.perform(self.row("set reparse point", open_), self.text(open_), act, self.promises(open_))
        link = self.journal.new("symlink", target)
        record.name(open_.directory, open_.name, link)
        record.created(link, self.text(open_))
        self.smb.close(open_.file)
        return True

    def remove_directory(self):
        entry = self.entry("directory")
        if not entry or entry[2].children:
            return False
        self.directories.remove(entry[2])
        return self.delete_by(self.open_directory(entry), "delete of a directory")

    def link(self):
        open_ = self.single_open()
        if not open_ or self.is_full():
            return False
        directory, name = self.directory(), self.new_name("l")
        path = self.smb_path(directory, name).encode("utf-16le")
        act = self.set_action(open_, 1, 11, struct.pack("<B7xQI", 0, 0, len(path)) + path)
        text = "%s to %s" % (self.text(open_), directory.path(name))
        record = self.perform(self.row("link", open_), text, act, self.promises(open_))
        record.name(directory, name, open_.target)
        return True

    # Data.

    def write(self):
        open_ = self.some_open()
        if not open_:
            return False
        first, tags = self.place()
        # The flag of the request also requests write-through. MS-SMB2 2.2.21.
        flag = int(not open_.writes_through and self.writes_through())
        data = content(tags)
        body = struct.pack("<HHIQ", 49, 112, len(data), first * CELL) + open_.file + struct.pack("<IIHHI", 0, 0, 0, 0, flag)
        row = self.row("write", open_) + (" through" if flag else "")
        text = "%s cells %d to %d" % (self.text(open_), first, first + len(tags))
        record = self.perform(row, text, self.action(WRITE, body + data), self.promises(open_) or bool(flag))
        record.cells(open_.target, first, tags)
        record.seen(open_.target, self.text(open_))
        return True

    def set_size(self):
        open_ = self.some_open()
        if not open_:
            return False
        cells = self.random.randrange(self.CELLS_MAX)
        act = self.set_action(open_, 1, 20, struct.pack("<Q", cells * CELL))
        record = self.perform(self.row("set size", open_), self.text(open_), act, self.promises(open_))
        record.size(open_.target, cells)
        record.seen(open_.target, self.text(open_))
        return True

    def control(self, open_, code, data, output):
        body = struct.pack("<HHI", 57, 0, code) + open_.file
        body += struct.pack("<IIIIIIII", 120, len(data), 0, 0, 0, output, 1, 0) + data
        return self.action(IOCTL, body)

    def zero(self):
        open_ = self.some_open()
        if not open_ or len(open_.target.cells) < 16:
            return False
        first = self.random.randrange(len(open_.target.cells) - 8)
        act = self.control(open_, SET_ZERO_DATA, struct.pack("<QQ", first * CELL, (first + 8) * CELL), 0)
        record = self.perform(self.row("zero data", open_), self.text(open_), act, self.promises(open_))
        record.cells(open_.target, first, [0] * 8)
        record.seen(open_.target, self.text(open_))
        return True

    def copy(self):
        source, open_ = self.some_open(), self.some_open()
        if not source or source.target is open_.target or len(source.target.cells) < 2:
            return False
        act = self.control(source, REQUEST_RESUME_KEY, b"", 32)
        if act():
            raise Refused(struct.unpack("<I", self.reply[8:12])[0])
        offset = struct.unpack("<I", self.reply[64 + 32:64 + 36])[0]
        key = self.reply[offset:offset + 24]
        count, to = len(source.target.cells) // 2, self.random.randrange(16)
        chunk = struct.pack("<QQII", 0, to * CELL, count * CELL, 0)
        act = self.control(open_, COPYCHUNK, key + struct.pack("<II", 1, 0) + chunk, 12)
        text = "%s %d cells to %s" % (self.text(source), count, self.text(open_))
        record = self.perform(self.row("server-side copy", open_), text, act, self.promises(open_))
        record.cells(open_.target, to, source.target.cells[:count])
        record.seen(open_.target, self.text(open_))
        return True

    # Attributes.

    def set(self, what, kind, information, data, additional=0):
        open_ = self.some_open()
        if not open_:
            return None
        act = self.set_action(open_, kind, information, data, additional)
        record = self.perform(self.row(what, open_), self.text(open_), act, self.promises(open_))
        record.seen(open_.target, self.text(open_))
        return record, open_

    def set_security(self):
        mask = self.random.choice((0x120089, 0x12019F, 0x1200A9))
        entries = [EVERYONE_ALL, (0, 0, mask, sid(22, 1, self.random.randrange(100, 200)))]
        if self.random.randrange(3) == 0:
            # The server stores no descriptor for this list, because the mode expresses it.
            entries = [EVERYONE_ALL]
        return bool(self.set("set security", 3, 0, descriptor(entries=entries), 4))

    def set_security_of_directory(self):
        entry = self.entry("directory")
        if not entry:
            return False
        open_ = self.open_directory(entry)
        entries = [(0, 3, 0x1F01FF, sid(1, 0)), (0, 0, 0x120089, sid(22, 1, self.random.randrange(100, 200)))]
        act = self.set_action(open_, 3, 0, descriptor(entries=entries), 4)
        record = self.perform(self.row("set security of a directory"), self.text(open_), act, self.promises())
        record.seen(open_.target, self.text(open_))
        self.smb.close(open_.file)
        return True

    def give(self):
        """Sets another owner and other rights in one request."""
        mask, other = self.random.choice((0x120089, 0x12019F)), self.random.randrange(100, 200)
        owner, group = sid(22, 1, self.random.randrange(200, 300)), sid(22, 2, self.random.randrange(200, 300))
        entries = [(0, 0, 0x1F01FF, owner), (0, 0, mask, sid(22, 1, other)), (0, 0, 0x1F01FF, sid(22, 1, 0))]
        data = descriptor(owner, group, entries)
        return bool(self.set("set owner and rights", 3, 0, data, 1 | 2 | 4))

    def set_dos_attributes(self):
        # Without hidden and system, which an overwrite would have to specify. MS-FSA 2.1.5.1.2.
        bits = self.random.choice((0x20, 0x80, 0x2000, 0x2020, 0x1020))
        return bool(self.set("set DOS attributes", 1, 4, struct.pack("<QQQQI4x", 0, 0, 0, 0, bits)))

    def set_time(self):
        seconds = 10 ** 9 + self.random.randrange(10 ** 6)
        written = (seconds + 11644473600) * 10 ** 7
        done = self.set("set time", 1, 4, struct.pack("<QQQQI4x", 0, 0, written, 0, 0))
        if done:
            done[0].modified(done[1].target, seconds * 10 ** 9)
        return bool(done)

    def set_extended_attribute(self):
        value = b"%d" % self.random.randrange(10 ** 6)
        data = struct.pack("<IBBH", 0, 0, 4, len(value)) + b"NAME\0" + value
        return bool(self.set("set extended attribute", 1, 15, data))

    def open_stream(self, row, disposition, names="ab"):
        """Opens a stream of an open file; returns the record, that open and the stream's open."""
        open_ = self.some_open()
        if not open_:
            return None
        path = "%s:%s" % (self.smb_path(open_.directory, open_.name), self.random.choice(names))
        has_it = "user.DosStream.%s:$DATA" % path[-1] in open_.target.attributes
        if disposition != OPEN_IF and has_it != (disposition == OPEN):
            return None
        options = WRITE_THROUGH if open_.writes_through else 0
        act = self.create_action(path, FILE_ACCESS, disposition, options)
        record = self.perform(self.row(row, open_), path, act, self.promises(open_))
        record.seen(open_.target, self.text(open_))
        return open_, SmbOpen(self.reply[128:144], open_.directory, open_.name, open_.target, open_.writes_through)

    def create_stream(self):
        opened = self.open_stream("create stream", CREATE_NEW)
        if opened:
            self.smb.close(opened[1].file)
        return bool(opened)

    def write_stream(self):
        opened = self.open_stream("open stream", OPEN)
        if not opened:
            return False
        open_, stream = opened
        data = os.urandom(self.random.choice((8, 60, 120)))
        act = lambda: self.smb.write(stream.file, data)  # noqa: E731
        record = self.perform(self.row("write stream", open_), self.text(open_), act, self.promises(open_))
        record.seen(open_.target, self.text(open_))
        self.smb.close(stream.file)
        return True

    def write_long_stream(self):
        """Writes a stream larger than any extended attribute. The first write moves it into a file."""
        opened = self.open_stream("open long stream", OPEN_IF, "l")
        if not opened:
            return False
        open_, stream = opened
        is_long = open_.target.attributes["user.DosStream.l:$DATA"].startswith("long")
        first = self.random.randrange(LONG_CELLS - 8) if is_long else 0
        count = self.random.randrange(1, LONG_CELLS - first) if is_long else LONG_CELLS
        data = content([self.journal.tag()] * count)
        act = lambda: self.smb.write(stream.file, data, first * CELL)  # noqa: E731
        row = "write long stream" if is_long else "lengthen stream"
        record = self.perform(self.row(row, open_), self.text(open_), act, self.promises(open_))
        record.seen(open_.target, self.text(open_))
        self.smb.close(stream.file)
        return True

    def remove_stream(self):
        opened = self.open_stream("open stream", OPEN, "abl")
        if not opened:
            return False
        open_, stream = opened
        status = self.smb.set(stream.file, 1, 13, b"\1")
        if status:
            raise Refused(status)
        act = self.action(6, struct.pack("<HHI", 24, 0, 0) + stream.file)
        record = self.perform(self.row("remove stream", open_), self.text(open_), act, self.promises(open_))
        record.seen(open_.target, self.text(open_))
        return True

    def write_finder_information(self):
        """Sets type and creator in the form of macOS, in a stream that the server stores as an attribute."""
        open_ = self.some_open()
        if not open_:
            return False
        path = self.smb_path(open_.directory, open_.name) + ":AFP_AfpInfo"
        act = self.create_action(path, FILE_ACCESS, OPEN_IF, WRITE_THROUGH if open_.writes_through else 0)
        record = self.perform(self.row("open Finder information", open_), self.text(open_), act, self.promises(open_))
        record.seen(open_.target, self.text(open_))
        file, data = self.reply[128:144], b"AFP\0" + struct.pack(">I8x", 0x10000) + os.urandom(8) + bytes(36)
        act = lambda: self.smb.write(file, data)  # noqa: E731
        record = self.perform(self.row("write Finder information", open_), self.text(open_), act, self.promises(open_))
        record.seen(open_.target, self.text(open_))
        self.smb.close(file)
        return True

    # Promises.

    def flush_by(self, row, open_, settles):
        act = self.action(FLUSH, struct.pack("<HHI", 24, 0, 0) + open_.file)
        record = self.perform(self.row(row), self.text(open_), act, True, settles)
        record.seen(open_.target, self.text(open_))

    def flush(self):
        open_ = self.some_open()
        if open_:
            self.flush_by("flush", open_, {"object": open_.target.number})
        return bool(open_)

    def flush_directory(self):
        entry = self.entry("directory")
        if not entry:
            return False
        open_ = self.open_directory(entry)
        self.flush_by("flush of a directory", open_, {"directory": entry[2].number})
        self.smb.close(open_.file)
        return True
