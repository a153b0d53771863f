"""The operations of the clients of the power-cut lane, and the changes by each.

The model in crates/xtask/src/power reads the journal: for each operation the times of request and reply,
whether the reply promises stable storage, and its effects on names, attributes and data.
"""

import itertools
import json
import os
import struct

CELL = 512


class Unexpected(Exception):
    """An operation failed that must succeed: an error of the lane or of the server."""


class Object:
    """The state of a file, directory or symbolic link that the clients know."""

    def __init__(self, number, kind, target=None):
        self.number, self.kind, self.target = number, kind, target
        self.inode, self.mode, self.owner, self.attributes = 0, 0, [0, 0], {}
        # Tags of its cells, each CELL bytes; 0 is zeros.
        self.cells = []
        # Of a directory: its children by name, and its own location.
        self.children, self.parent, self.name = {}, None, None
        self.handle = None
        # Its modification time, in nanoseconds, if it was set and not changed since.
        self.set_time = None

    @property
    def size(self):
        return len(self.cells) * CELL

    def path(self, name=None):
        above = self.parent.path(self.name) if self.parent else ""
        return os.path.join(above, name) if name else above


class Record:
    """One operation and its effects."""

    def __init__(self, journal, client, row, text, promises, settles):
        self.journal, self.effects = journal, []
        self.entry = {"client": client, "row": row, "text": text, "promises": promises, "settles": settles,
                      "effects": self.effects}

    def _effect(self, effect, **values):
        self.effects.append({effect: values})

    def name(self, directory, name, target):
        """The entry `name` now refers to `target`, or does not exist."""
        if target is None:
            directory.children.pop(name, None)
        else:
            directory.children[name] = target
            if target.kind == "directory":
                target.parent, target.name = directory, name
        self._effect("name", directory=directory.number, name=name, object=target and target.number)

    def created(self, target, path):
        found = self.journal.disk.look(path)
        target.inode, target.mode, target.owner = found["inode"], found["mode"], found["owner"]
        self._effect("created", object=target.number, kind=target.kind, inode=target.inode, mode=target.mode,
                     owner=target.owner, target=target.target)
        self._attributes(target, found["attributes"])

    def made(self, target, inode):
        """Like `created`, for a commit of a program instead of a file."""
        self._effect("created", object=target.number, kind=target.kind, inode=inode, mode=0, owner=[0, 0], target=None)

    def cells(self, target, first, tags):
        """Data from the cell `first` on; the file grows as needed."""
        grown = first + len(tags) - len(target.cells)
        if grown > 0:
            target.cells += [0] * grown
            self._effect("size", object=target.number, bytes=target.size)
        target.cells[first:first + len(tags)] = tags
        self._effect("data", object=target.number, cell=first, tags=tags)
        self.modified(target)

    def size(self, target, cells):
        old = len(target.cells)
        target.cells = target.cells[:cells] + [0] * (cells - old)
        self._effect("size", object=target.number, bytes=target.size)
        if cells < old:
            self._effect("data", object=target.number, cell=cells, tags=[0] * (old - cells))
        self.modified(target)

    def modified(self, target, nanoseconds=None):
        """Sets the modification time, or makes it unknown."""
        if nanoseconds != target.set_time:
            self._effect("modified", object=target.number, nanoseconds=nanoseconds)
        target.set_time = nanoseconds

    def seen(self, target, path):
        """Mode, owner and extended attributes of the live file system."""
        found = self.journal.disk.look(path)
        if found["mode"] != target.mode:
            self._effect("mode", object=target.number, mode=found["mode"])
        if found["owner"] != target.owner:
            self._effect("owner", object=target.number, owner=found["owner"])
        target.mode, target.owner = found["mode"], found["owner"]
        if found["modified"] != target.set_time:
            self.modified(target)
        self._attributes(target, found["attributes"])

    def _attributes(self, target, now):
        for name in sorted(now.keys() | target.attributes.keys()):
            if now.get(name) != target.attributes.get(name):
                self._effect("attribute", object=target.number, name=name, value=now.get(name))
        target.attributes = now


class Journal:
    """All operations of a run. Clients share it; each object belongs to one client."""

    def __init__(self, disk, syncs_each=False):
        self.disk, self.entries = disk, []
        # With this option no server can lose data, which checks the lane itself.
        self.syncs_each = syncs_each
        self._objects, self._tags = itertools.count(1), itertools.count(1)
        self.started = self.ended = 0
        # The program that prints the tree after a cut, if that is not the files, and its input.
        self.program, self.facts = None, None

    def new(self, kind, target=None):
        return Object(next(self._objects), kind, target)

    def tag(self):
        return next(self._tags)

    def perform(self, client, row, text, act, promises, settles=None):
        """Carries out `act`, which returns a status; the record gets its effects from the caller."""
        record = Record(self, client, row, text, promises, settles)
        record.entry["request"] = self.disk.now()
        status = act()
        if self.syncs_each:
            self.disk.sync()
        record.entry["answer"] = self.disk.now()
        if status:
            raise Unexpected("%s: %s (%s): status %#x" % (client, row, text, status))
        self.entries.append(record.entry)
        return record

    def write(self, path):
        whole = {"started": self.started, "ended": self.ended, "program": self.program,
                 "facts": self.facts, "operations": self.entries}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(whole, file)


def content(tags):
    """The bytes of cells: each repeats its tag."""
    return b"".join(struct.pack("<Q", tag) * (CELL // 8) for tag in tags)


class Client:
    """Chooses random operations among the possible ones and performs them."""

    FILES_MAX, DIRECTORIES_MAX, CELLS_MAX = 24, 6, 96

    def __init__(self, name, journal, root, random):
        self.name, self.journal, self.root, self.random = name, journal, root, random
        self.directories, self.count = [root], 0
        self.choices = []

    def perform(self, row, text, act, promises, settles=None):
        return self.journal.perform(self.name, row, text, act, promises, settles)

    def step(self):
        """Performs the first possible choice."""
        calls, weights = zip(*self.choices)
        while not self.random.choices(calls, weights)[0]():
            pass

    def new_name(self, letter):
        self.count += 1
        return "%s%d" % (letter, self.count)

    def directory(self):
        return self.random.choice(self.directories)

    def entries(self, *kinds):
        return [(directory, name, target) for directory in self.directories
                for name, target in directory.children.items() if target.kind in kinds]

    def entry(self, *kinds):
        """A random entry of these kinds, or None."""
        found = self.entries(*kinds)
        return self.random.choice(found) if found else None

    def is_full(self):
        return len(self.entries("file", "symlink")) >= self.FILES_MAX

    def place(self):
        """First cell and tags of a write."""
        first, count = self.random.randrange(self.CELLS_MAX - 32), self.random.choice((1, 2, 8, 9, 32))
        return first, [self.journal.tag()] * count

    def names_of(self, target):
        return sum(1 for _, _, other in self.entries(target.kind) if other is target)
