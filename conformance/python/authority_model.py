"""Model of a caller's rights to a file by MS-DTYP 2.5.3.2, MS-FSA 2.1.5, acl(5), chmod(2) and chown(2):
the expectation of conformance/authority, written independently of the server's code.

A stored descriptor alone decides. Without one the first matching class of the POSIX permissions
decides. The superuser has all rights, except that no caller creates device nodes.
"""

import functools
from dataclasses import dataclass, field

READ_DATA, WRITE_DATA, APPEND_DATA, READ_EA, WRITE_EA = 1, 2, 4, 8, 0x10
EXECUTE, DELETE_CHILD, READ_ATTRIBUTES, WRITE_ATTRIBUTES = 0x20, 0x40, 0x80, 0x100
DELETE, READ_CONTROL, WRITE_DAC, WRITE_OWNER, SYNCHRONIZE = 0x10000, 0x20000, 0x40000, 0x80000, 0x100000
ALL, GENERIC_READ, GENERIC_WRITE, GENERIC_EXECUTE = 0x1F01FF, 0x120089, 0x120116, 0x1200A0
MODIFY = 0x1301BF
OF_CHILDREN = READ_DATA | WRITE_DATA | APPEND_DATA | EXECUTE | DELETE_CHILD

EVERYONE, OWNER_RIGHTS = "everyone", "owner rights"
R, W, X = 4, 2, 1


@dataclass(frozen=True)
class Caller:
    name: str
    uid: int
    gid: int
    groups: tuple = ()

    @property
    def is_root(self):
        return self.uid == 0

    def is_in(self, gid):
        return gid == self.gid or gid in self.groups


@dataclass(frozen=True)
class Subject:
    """A file or directory: its permissions, and the entries of its stored list, if it has one:
    (allows, trustee, mask). `named` are the POSIX entries: ("user" or "group", number) to bits."""

    name: str
    uid: int
    gid: int
    mode: int
    named: dict = field(default_factory=dict)
    mask: int = 7
    stored: tuple = None
    is_directory: bool = False

    def __hash__(self):
        return hash(self.name)


def posix_bits(caller, subject):
    """acl(5), access check algorithm; without named entries that of the mode. With an empty mask Linux checks
    the mode only, whose group bits are the mask."""
    mask = subject.mask if subject.named else 7
    if caller.uid == subject.uid:
        return subject.mode >> 6 & 7
    if mask == 0:
        return 0 if caller.is_in(subject.gid) else subject.mode & 7
    if ("user", caller.uid) in subject.named:
        return subject.named["user", caller.uid] & mask
    entries = [bits for (kind, gid), bits in subject.named.items() if kind == "group" and caller.is_in(gid)]
    entries += [subject.mode >> 3 & 7] if caller.is_in(subject.gid) else []
    if entries:
        return functools.reduce(int.__or__, entries) & mask
    return subject.mode & 7


def by_list(caller, subject):
    """MS-DTYP 2.5.3.2: the first entry with a right decides; owners may read and change the list unless an
    entry for OWNER RIGHTS exists."""
    granted = denied = 0
    is_owner = caller.uid == subject.uid
    for allows, whom, mask in subject.stored:
        is_about = (
            whom == EVERYONE
            or (whom == OWNER_RIGHTS and is_owner)
            or whom == ("user", caller.uid)
            or (whom[0] == "group" and caller.is_in(whom[1]))
        )
        if is_about and allows:
            granted |= mask & ~denied
        elif is_about:
            denied |= mask & ~granted
    if is_owner and all(whom != OWNER_RIGHTS for _, whom, _ in subject.stored):
        granted |= READ_CONTROL | WRITE_DAC
    return granted


def rights(caller, subject):
    """Access by the rules of SMB, where the read right includes the execute right."""
    if caller.is_root:
        return ALL
    if subject.stored is not None:
        return by_list(caller, subject)
    bits = posix_bits(caller, subject)
    data = READ_DATA | READ_EA | EXECUTE if bits & R else 0
    data |= WRITE_DATA | APPEND_DATA | WRITE_EA | WRITE_ATTRIBUTES if bits & W else 0
    data |= DELETE_CHILD if bits & W and subject.is_directory else 0
    data |= EXECUTE if bits & X else 0
    if caller.uid == subject.uid:
        # The owner may change everything except data, regardless of the bits.
        child = DELETE_CHILD if bits & W else 0
        return data | child | WRITE_ATTRIBUTES | DELETE | READ_CONTROL | WRITE_DAC | WRITE_OWNER | \
            READ_ATTRIBUTES | SYNCHRONIZE
    return data | READ_ATTRIBUTES | READ_CONTROL | SYNCHRONIZE


def executes(caller, subject):
    """Access by the rules of NFS: execution by the x bit, for the superuser by any x bit; the mask is the
    group class of the mode."""
    if caller.is_root:
        group = subject.mask << 3 if subject.named else subject.mode
        return subject.is_directory or (subject.mode & 0o101 | group & 0o010) != 0
    if subject.stored is not None and subject.is_directory:
        return searches(caller, subject)
    if subject.stored is not None:
        return by_list(caller, subject) & EXECUTE != 0
    return posix_bits(caller, subject) & X != 0


def searches(caller, directory):
    """Search permission. The kernel decides by the POSIX permissions that the server derives from a stored list.
    The caller's entry (acl(5)) has x if the list grants its trustee, or everyone, any right to the directory's
    contents."""
    if caller.is_root:
        return True
    if directory.stored is None:
        return posix_bits(caller, directory) & X != 0
    listed = {whom for _, whom, _ in directory.stored} | {("group", directory.gid)}
    groups = {("group", gid) for gid in (caller.gid, *caller.groups)}
    if caller.uid == directory.uid:
        allowing = [{("user", caller.uid), ("group", directory.gid), OWNER_RIGHTS}]
        denying = [{("user", caller.uid), OWNER_RIGHTS}]
    elif ("user", caller.uid) in listed:
        allowing = denying = [{("user", caller.uid)}]
    else:
        allowing = denying = [{group} for group in groups & listed] or [set()]
    return any(
        first_entries(directory.stored, allows | {EVERYONE}, denies | {EVERYONE}) & OF_CHILDREN
        for allows, denies in zip(allowing, denying)
    )


def first_entries(entries, allowing, denying):
    granted = denied = 0
    for allows, whom, mask in entries:
        if allows and whom in allowing:
            granted |= mask & ~denied
        elif not allows and whom in denying:
            denied |= mask & ~granted
    return granted


def has(right):
    return lambda caller, subject: rights(caller, subject) & right == right


def is_owner(caller, subject):
    return caller.is_root or caller.uid == subject.uid


def takes(caller, subject):
    """A caller with WRITE_OWNER may set itself as owner, and nobody else. MS-FSA 2.1.5.17."""
    return has(WRITE_OWNER)(caller, subject)


def takes_over_nfs(caller, subject):
    """The same, except that the present owner may be set without effect."""
    return is_owner(caller, subject) or takes(caller, subject)


def gives(caller, _subject):
    """Only the superuser changes the owner, or sets a group of which the caller is no member. chown(2)."""
    return caller.is_root


def sets_times(caller, subject):
    """utimensat(2) requires the owner; a stored list requires the right."""
    if subject.stored is None:
        return is_owner(caller, subject)
    return has(WRITE_ATTRIBUTES)(caller, subject)


def touches(caller, subject):
    """Callers with write permission may also set the times to the present."""
    return rights(caller, subject) & (WRITE_ATTRIBUTES | WRITE_DATA) != 0


def changes_by_anothers_open(caller, subject):
    """WRITE with the state id of another user. RFC 8881 18.32.3; the owner may write, as with knfsd."""
    return has(WRITE_DATA)(caller, subject) or (subject.stored is None and is_owner(caller, subject))


def reads_over_nfs(caller, subject):
    """Execute permission implies read permission, because a client must read a program to execute it."""
    return has(READ_DATA)(caller, subject) or executes(caller, subject) and not caller.is_root


def deletes_in_closed(caller, subject):
    """A move out of a directory that only root may write to."""
    return caller.is_root or (subject.stored is not None and has(DELETE)(caller, subject))


def never(_caller, _subject):
    return False


def adds(right):
    """A creation in a directory: POSIX requires w and x, a list requires ADD_FILE (WRITE_DATA) or
    ADD_SUBDIRECTORY (APPEND_DATA)."""

    def may(caller, directory):
        if caller.is_root:
            return True
        if directory.stored is None:
            return posix_bits(caller, directory) & (W | X) == W | X
        return has(right)(caller, directory)

    return may


def links(right):
    """A hard link: a right of the list counts only as far as the derived POSIX permissions have it, because the
    server performs it as the user, for whom the kernel's protection of hard links applies. Derived entries of
    users exclude rights that the list denies to a group, because a user may be a member of it."""

    def may(caller, directory):
        if not adds(right)(caller, directory) or caller.is_root or directory.stored is None:
            return adds(right)(caller, directory)
        denies_group = any(not allows and whom[0] == "group" for allows, whom, _ in directory.stored)
        is_named = any(whom == ("user", caller.uid) for _, whom, _ in directory.stored)
        return not (denies_group and is_named)

    return may


def removes(caller, directory):
    """Removes the name of a file without a list, which belongs to the directory's owner. MS-FSA 2.1.5.1.2.1:
    requires DELETE_CHILD on the directory or DELETE on the file. The file's owner has DELETE as far as POSIX
    permits: with w and x on the directory, and in a sticky directory for the owner of either only."""
    if caller.is_root:
        return True
    is_owner_of_both = caller.uid == directory.uid
    if directory.stored is None:
        is_sticky = directory.mode & 0o1000 != 0 and not is_owner_of_both
        return posix_bits(caller, directory) & (W | X) == W | X and not is_sticky
    return has(DELETE_CHILD)(caller, directory) or is_owner_of_both and has(WRITE_DATA)(caller, directory)


def moves(caller, directory):
    return removes(caller, directory) and adds(WRITE_DATA)(caller, directory)
