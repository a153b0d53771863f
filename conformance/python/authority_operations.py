"""Each changing operation over SMB and NFS, with the callers that may perform it.

An operation acts on a file or directory of one cell, and raises Refused or NfsStatus. The disk shows
its changes. MS-SMB2 2.2.39, RFC 8881 18.
"""

import struct
from dataclasses import dataclass

import authority_model as model
from authority_model import adds, has
from raw_nfs import ANONYMOUS, NfsStatus, attributes, long, opaque, put, words
from raw_smb import POSIX_EXTENSIONS, Refused, descriptor, sid

SIZE, ACL, MODE, OWNER, GROUP, ACCESSED, CREATED, MODIFIED, MASKED = 4, 12, 33, 36, 37, 48, 50, 54, 74
STRANGER, STRANGERS = 61099, 61098
EVERYONE_ALL = [(0, 0, model.ALL, sid(1, 0))]
DELETE_ON_CLOSE = 0x1000


@dataclass(frozen=True)
class Operation:
    name: str
    protocol: str
    may: object
    run: object
    # Whether the operation took effect, by the state of the disk: (before, after, caller).
    took_place: object
    # The operation must clear set-user-ID and set-group-ID bits, unless the owner performs it.
    drops_set_ids: bool = False


def succeed(status, error=Refused):
    if status:
        raise error(status)


def data_changed(before, after, _caller):
    return before["data"] != after["data"]


def mode_became(mode):
    """Only the owner may set the set-user-ID and set-group-ID bits. chmod(2)."""

    def became(before, after, caller):
        is_owner = caller.is_root or caller.uid == before["uid"]
        given = mode if is_owner else mode & ~0o6000
        if not caller.is_root and not caller.is_in(before["gid"]):
            given &= ~0o2000
        return after["mode"] == given

    return became


def owner_became(uid):
    return lambda before, after, caller: after["uid"] == (caller.uid if uid is None else uid)


def group_became(gid):
    return lambda before, after, caller: after["gid"] == (caller.gid if gid is None else gid)


def changed(key):
    return lambda before, after, _caller: before[key] != after[key]


def anything(_before, _after, _caller):
    return True


def is_gone(_before, after, _caller):
    return after is None


def has_child(name):
    return lambda _before, after, _caller: name in after["names"]


def has_lost_child(_before, after, _caller):
    return "child" not in after["names"]


# SMB: `at` is a cell's (connections, name, caller); the name is relative to the share.


def opened(access, act, **how):
    def run(at):
        smb = at.smb
        file = smb.create(at.path, access, **how)
        try:
            succeed(act(smb, file, at) or 0)
        finally:
            closed = smb.close(file)
        succeed(closed)

    return run


def opened_as_posix(mode):
    """chmod in the form of Linux: an ACE with the mode, on an open with the POSIX context."""

    def run(at):
        context = [(POSIX_EXTENSIONS, words(0))]
        file = at.smb_posix.create(at.path.replace("\\", "/"), model.WRITE_DAC, contexts=context)
        said = descriptor(entries=[(0, 0, model.ALL, sid(5, 88, 3, mode))])
        status = at.smb_posix.set(file, 3, 0, said, 4)
        at.smb_posix.close(file)
        succeed(status)

    return run


def set_basic(smb, file, written=0, bits=0):
    return smb.set(file, 1, 4, struct.pack("<QQQQI4x", 0, 0, written, 0, bits))


def set_ea(smb, file, _at):
    return smb.set(file, 1, 15, struct.pack("<IBBH", 0, 0, 4, 5) + b"name\0value")


def set_owner(uid):
    def act(smb, file, at):
        who = sid(22, 1, at.caller.uid if uid is None else uid)
        return smb.set(file, 3, 0, descriptor(owner=who), 1)

    return act


def set_group(gid):
    def act(smb, file, at):
        who = sid(22, 2, at.caller.gid if gid is None else gid)
        return smb.set(file, 3, 0, descriptor(group=who), 2)

    return act


def nothing(_smb, _file, _at):
    return 0


def renamed(to, information=10):
    def run(at):
        access = model.DELETE if information == 10 else model.READ_ATTRIBUTES
        file = at.smb.create(at.path + "\\child", access)
        status = at.smb.rename(file, at.path + "\\" + to, information)
        at.smb.close(file)
        succeed(status)

    return run


def in_directory(name, access, **how):
    def run(at):
        succeed(at.smb.close(at.smb.create(at.path + "\\" + name, access, **how)))

    return run


SMB_FILE = [
    Operation("read", "SMB", has(model.READ_DATA), opened(1, lambda s, f, _: s.read(f, 4)), anything),
    Operation("write", "SMB", has(model.WRITE_DATA), opened(2, lambda s, f, _: s.write(f, b"new")),
              data_changed, True),
    Operation("append", "SMB", has(model.APPEND_DATA), opened(4, lambda s, f, _: s.write(f, b"new", 4)),
              data_changed, True),
    Operation("overwrite", "SMB", has(model.WRITE_DATA), opened(0x80, nothing, disposition=4),
              data_changed, True),
    Operation("set the size", "SMB", has(model.WRITE_DATA),
              opened(2, lambda s, f, _: s.set(f, 1, 20, struct.pack("<Q", 1))), data_changed, True),
    Operation("set times", "SMB", has(model.WRITE_ATTRIBUTES),
              opened(0x100, lambda s, f, _: set_basic(s, f, written=0x01D00000_00000000)),
              changed("modified")),
    Operation("set attributes", "SMB", has(model.WRITE_ATTRIBUTES),
              opened(0x100, lambda s, f, _: set_basic(s, f, bits=2)), changed("xattrs")),
    Operation("set an extended attribute", "SMB", has(model.WRITE_EA), opened(0x10, set_ea),
              changed("xattrs")),
    Operation("create a stream", "SMB", has(model.WRITE_DATA),
              lambda at: succeed(at.smb.close(at.smb.create(at.path + ":s", 2, 2))), changed("xattrs")),
    Operation("set the list", "SMB", has(model.WRITE_DAC),
              opened(model.WRITE_DAC, lambda s, f, _: s.set(f, 3, 0, descriptor(entries=EVERYONE_ALL), 4)),
              lambda before, after, _: after["mode"] & 0o666 == 0o666, True),
    Operation("take ownership", "SMB", model.takes, opened(model.WRITE_OWNER, set_owner(None)),
              owner_became(None), True),
    Operation("give away", "SMB", model.gives, opened(model.WRITE_OWNER, set_owner(STRANGER)),
              owner_became(STRANGER)),
    Operation("give an own group", "SMB", model.takes, opened(model.WRITE_OWNER, set_group(None)),
              group_became(None), True),
    Operation("give a foreign group", "SMB", model.gives, opened(model.WRITE_OWNER, set_group(STRANGERS)),
              group_became(STRANGERS)),
    Operation("set mode 4755", "SMB", has(model.WRITE_DAC), opened_as_posix(0o4755), mode_became(0o4755)),
    Operation("set mode 2755", "SMB", has(model.WRITE_DAC), opened_as_posix(0o2755), mode_became(0o2755)),
    Operation("delete", "SMB", model.deletes_in_closed,
              opened(model.DELETE, nothing, options=DELETE_ON_CLOSE), is_gone),
]

SMB_DIRECTORY = [
    Operation("list", "SMB", has(model.READ_DATA), opened(1, nothing, options=1), anything),
    Operation("open to add files", "SMB", has(model.WRITE_DATA), opened(2, nothing, options=1), anything),
    Operation("create a file", "SMB", adds(model.WRITE_DATA), in_directory("new", 2, disposition=2),
              has_child("new")),
    Operation("create a directory", "SMB", adds(model.APPEND_DATA),
              in_directory("new", 0x80, disposition=2, options=1), has_child("new")),
    Operation("delete a child", "SMB", model.removes,
              in_directory("child", model.DELETE, options=DELETE_ON_CLOSE), has_lost_child),
    Operation("rename a child", "SMB", model.moves, renamed("new"), has_child("new")),
    Operation("link a child", "SMB", model.links(model.WRITE_DATA), renamed("new", 11), has_child("new")),
]


# NFS.


def by_open(access, *operations, create=None):
    """OPEN, an operation with its state id, CLOSE."""

    def run(at):
        state, handle = at.nfs.open(at.nfs_directory, at.name, access, create)
        try:
            for operation in operations:
                succeed(at.nfs.compound(put(handle), operation(state))[0], NfsStatus)
        finally:
            at.nfs.close(handle, state)

    return run


def write(state):
    return words(38) + state + long(0) + words(2) + opaque(b"new")


def on_file(*operation):
    def run(at):
        succeed(at.nfs.compound(put(at.handle), b"".join(operation))[0], NfsStatus)

    return run


def set_attributes(*pairs):
    """None stands for the value of the caller."""

    def run(at):
        own = {OWNER: at.caller.uid, GROUP: at.caller.gid}
        values = [(number, value or opaque(str(own[number]).encode())) for number, value in pairs]
        operation = words(34) + ANONYMOUS + attributes(*values)
        succeed(at.nfs.compound(put(at.handle), operation)[0], NfsStatus)

    return run


def by_anothers_open(operation):
    """The superuser of the same client has the file open; the share does not squash root."""

    def run(at):
        at.nfs.act_as(0, 0)
        state, handle = at.nfs.open(at.nfs_directory, at.name, 2)
        at.nfs.act_as(at.caller.uid, at.caller.gid, at.caller.groups)
        try:
            succeed(at.nfs.compound(put(handle), operation(state))[0], NfsStatus)
        finally:
            at.nfs.close(handle, state)

    return run


def in_nfs_directory(*operations):
    def run(at):
        succeed(at.nfs.compound(put(at.handle), *operations)[0], NfsStatus)

    return run



def link_child(at):
    child = at.nfs.find(*at.nfs_path, "child")
    made = words(11) + opaque(b"new")
    succeed(at.nfs.compound(put(child), words(32), put(at.handle), made)[0], NfsStatus)


def remove_file(at):
    succeed(at.nfs.compound(put(at.nfs_directory), words(28) + opaque(at.name.encode()))[0], NfsStatus)


def made(kind, mode=0o644):
    return words(6) + kind + opaque(b"new") + attributes((MODE, words(mode)))


TO_CLIENT_TIME = words(1) + long(1_000_000_000) + words(0)
EVERYONE_ALL_NFS = words(1, 0, 0, model.ALL) + opaque(b"EVERYONE@")

NFS_FILE = [
    Operation("read", "NFS", model.reads_over_nfs,
              by_open(1, lambda state: words(25) + state + long(0) + words(4)), anything),
    Operation("write", "NFS", has(model.WRITE_DATA), by_open(2, write), data_changed, True),
    Operation("write without an open", "NFS", has(model.WRITE_DATA), on_file(write(ANONYMOUS)),
              data_changed, True),
    Operation("write by another's open", "NFS", model.changes_by_anothers_open, by_anothers_open(write),
              data_changed, True),
    Operation("set the size by another's open", "NFS", model.changes_by_anothers_open,
              by_anothers_open(lambda state: words(34) + state + attributes((SIZE, long(1)))), data_changed, True),
    Operation("deallocate by another's open", "NFS", model.changes_by_anothers_open,
              by_anothers_open(lambda state: words(62) + state + long(0) + long(2)), data_changed, True),
    Operation("allocate by another's open", "NFS", model.changes_by_anothers_open,
              by_anothers_open(lambda state: words(59) + state + long(0) + long(99)), data_changed, True),
    Operation("truncate at OPEN", "NFS", has(model.WRITE_DATA),
              by_open(2, create=attributes((SIZE, long(0)))), data_changed, True),
    Operation("set the size", "NFS", has(model.WRITE_DATA), set_attributes((SIZE, long(1))),
              data_changed, True),
    Operation("deallocate", "NFS", has(model.WRITE_DATA), on_file(words(62), ANONYMOUS, long(0), long(2)),
              data_changed, True),
    Operation("allocate", "NFS", has(model.WRITE_DATA), on_file(words(59), ANONYMOUS, long(0), long(99)),
              data_changed),
    Operation("set mode 0640", "NFS", has(model.WRITE_DAC), set_attributes((MODE, words(0o640))),
              mode_became(0o640)),
    Operation("set mode 4755", "NFS", has(model.WRITE_DAC), set_attributes((MODE, words(0o4755))),
              mode_became(0o4755)),
    Operation("set mode 2755", "NFS", has(model.WRITE_DAC), set_attributes((MODE, words(0o2755))),
              mode_became(0o2755)),
    Operation("set all bits by mode_set_masked", "NFS", has(model.WRITE_DAC),
              set_attributes((MASKED, words(0o4755, 0o7777))), mode_became(0o4755)),
    Operation("take ownership", "NFS", model.takes_over_nfs, set_attributes((OWNER, None)), owner_became(None), True),
    Operation("give away", "NFS", model.gives, set_attributes((OWNER, opaque(b"%d" % STRANGER))),
              owner_became(STRANGER)),
    Operation("give an own group", "NFS", model.takes, set_attributes((GROUP, None)), group_became(None),
              True),
    Operation("give a foreign group", "NFS", model.gives, set_attributes((GROUP, opaque(b"%d" % STRANGERS))),
              group_became(STRANGERS)),
    Operation("set times", "NFS", model.sets_times,
              set_attributes((ACCESSED, TO_CLIENT_TIME), (MODIFIED, TO_CLIENT_TIME)), changed("modified")),
    Operation("set times to now", "NFS", model.touches,
              set_attributes((ACCESSED, words(0)), (MODIFIED, words(0))), changed("modified")),
    Operation("set the time of creation", "NFS", has(model.WRITE_ATTRIBUTES),
              set_attributes((CREATED, long(1_000_000_000) + words(0))), changed("xattrs")),
    Operation("set the list", "NFS", has(model.WRITE_DAC), set_attributes((ACL, EVERYONE_ALL_NFS)),
              lambda before, after, _: after["mode"] & 0o666 == 0o666, True),
    Operation("set an extended attribute", "NFS", has(model.WRITE_EA),
              on_file(words(73, 0), opaque(b"name"), opaque(b"value")), changed("xattrs")),
    Operation("delete", "NFS", model.deletes_in_closed, remove_file, is_gone),
]

NFS_DIRECTORY = [
    Operation("list", "NFS", has(model.READ_DATA),
              in_nfs_directory(words(26) + long(0) + bytes(8) + words(1000, 4000, 0)), anything),
    Operation("look up", "NFS", model.searches, in_nfs_directory(words(15) + opaque(b"child")), anything),
    Operation("create a file", "NFS", adds(model.WRITE_DATA),
              lambda at: at.nfs.open(at.handle, "new", 2, attributes((MODE, words(0o644)))),
              has_child("new")),
    Operation("create a directory", "NFS", adds(model.APPEND_DATA), in_nfs_directory(made(words(2))),
              has_child("new")),
    Operation("create a symbolic link", "NFS", adds(model.WRITE_DATA),
              in_nfs_directory(words(6, 5) + opaque(b"child") + opaque(b"new") + attributes()),
              has_child("new")),
    Operation("create a pipe", "NFS", adds(model.WRITE_DATA), in_nfs_directory(made(words(7))),
              has_child("new")),
    Operation("create a device node", "NFS", model.never, in_nfs_directory(made(words(4, 1, 5))),
              has_child("new")),
    Operation("delete a child", "NFS", model.removes, in_nfs_directory(words(28) + opaque(b"child")),
              has_lost_child),
    Operation("rename a child", "NFS", model.moves,
              lambda at: succeed(at.nfs.compound(put(at.handle), words(32), words(29) + opaque(b"child")
                                                 + opaque(b"new"))[0], NfsStatus), has_child("new")),
    Operation("link a child", "NFS", model.links(model.WRITE_DATA), link_child, has_child("new")),
]
