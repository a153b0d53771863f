"""Attacks on files of other users: set-user-ID bits, owners, device nodes, truncation, permissive Windows
ACLs, restricted shares, and names and links that lead out of the share."""

import os
import shutil
import struct
import subprocess

from attack_server import ATTACKER, MIB, VICTIM, Place, Server, attack, content_of, mode_of, require
from hostile_nfs import (
    LOOKUPP, OPEN, REMOVE, RENAME, SAVEFH, TYPE, HostileNfs, lookup, make, read, set_attributes, write,
)
from hostile_smb import (
    CREATED, DELETE_ON_CLOSE, DIRECTORY, EVERYTHING, OPENED, OPENED_OR_CREATED, OVERWRITTEN, READS,
    READS_AND_WRITES, REPARSE_POINT, SUCCESS, HostileSmb,
)
from raw_nfs import ANONYMOUS, attributes, long, opaque, put, words
from raw_smb import POSIX_EXTENSIONS, descriptor, sid, utf16

EVERYONE, OWNER_RIGHTS = sid(1, 0), sid(3, 4)
SECURITY, OWNER, GROUP, LIST = 3, 1, 2, 4
SIZE, MODE, OWNER_ATTRIBUTE, GROUP_ATTRIBUTE, MODE_MASKED = 4, 33, 36, 37, 74
SUPERSEDED, OVERWRITTEN_OR_CREATED = 0, 5
READ_DATA, WRITE_DATA, EXECUTE = 1, 2, 0x20
ACCESS, ACCESS_READS, ACCESS_WRITES, ACCESS_EXECUTES, ACCESS_LOOKUP = 3, 0x01, 0x0C, 0x20, 0x02


def user_sid(uid):
    return sid(22, 1, uid)


def group_sid(gid):
    return sid(22, 2, gid)


def posix_context(mode=0o755):
    return POSIX_EXTENSIONS, struct.pack("<I", mode)


def set_mode(mode):
    return set_attributes(attributes((MODE, words(mode))))


def is_run_as_another(path):
    return os.lstat(path).st_mode & 0o6000 != 0


def grant_everybody(server, name, owner="root"):
    """Creates a file of this owner whose stored list grants everyone full control; returns its path."""
    path = server.path(name)
    if os.path.exists(path):
        os.unlink(path)
    smb = HostileSmb.of(server, owner)
    _, file = smb.open(name, EVERYTHING, CREATED)
    status = smb.set(file, SECURITY, 0, descriptor(entries=[(0, 0, EVERYTHING, EVERYONE)]), LIST)
    require(status == SUCCESS, "the list is not stored: %#x", status)
    smb.close(file)
    smb.close_connection()
    return path


def opened_by_posix(server, name, mode=0o755, disposition=OPENED):
    smb = HostileSmb.of(server, "attacker", posix=True)
    status, file = smb.open(name, EVERYTHING, disposition, contexts=[posix_context(mode)])
    return smb, status, file


@attack("Gives an own file to root and to others, and to groups that the owner is not in, over SMB")
def owner_cannot_give_file_away_over_smb():
    server = Server()
    for is_posix in (False, True):
        smb = HostileSmb.of(server, "attacker", posix=is_posix)
        contexts = [posix_context()] if is_posix else []
        status, file = smb.open("own%d" % is_posix, EVERYTHING, CREATED, contexts=contexts)
        require(status == SUCCESS, "no file is created: %#x", status)
        path = server.path("own%d" % is_posix)
        for other in (0, 42, VICTIM):
            whom, group = (sid(5, 88, 1, other), sid(5, 88, 2, other)) if is_posix else (
                user_sid(other), group_sid(other))
            smb.set(file, SECURITY, 0, descriptor(owner=whom), OWNER)
            smb.set(file, SECURITY, 0, descriptor(group=group), GROUP)
            entries = [(0, 0, EVERYTHING, EVERYONE)]
            smb.set(file, SECURITY, 0, descriptor(whom, group, entries), OWNER | GROUP | LIST)
            found = os.lstat(path)
            require((found.st_uid, found.st_gid) == (ATTACKER, ATTACKER), "it is now of %d:%d",
                    found.st_uid, found.st_gid)


@attack("Creates a file with a descriptor that names root as its owner and group")
def file_created_with_descriptor_of_root_is_own():
    server = Server()
    smb = HostileSmb.of(server, "attacker")
    wanted = descriptor(user_sid(0), group_sid(0), [(0, 0, EVERYTHING, EVERYONE)])
    smb.open("made", EVERYTHING, CREATED, contexts=[(b"SecD", wanted)])
    if os.path.exists(server.path("made")):
        found = os.lstat(server.path("made"))
        require((found.st_uid, found.st_gid) == (ATTACKER, ATTACKER), "it is of %d:%d", found.st_uid, found.st_gid)


@attack("Opens another's file for its list, its owner and its audit list, and sets them by a handle that reads")
def list_of_foreign_file_is_not_changed():
    server = Server()
    path = server.put("foreign", uid=VICTIM)
    before = mode_of(path)
    smb = HostileSmb.of(server, "attacker")
    for access in (0x40000, 0x80000, 0x1000000, 0x10000000, 0x2040000):
        require(smb.open("foreign", access)[0] != SUCCESS, "access %#x is granted", access)
    _, file = smb.open("foreign", READS)
    status = smb.set(file, SECURITY, 0, descriptor(entries=[(0, 0, EVERYTHING, EVERYONE)]), LIST)
    require(status != SUCCESS and mode_of(path) == before, "the list is set by a handle that reads")
    require(smb.rename(file, "linked", information=11) != SUCCESS or not os.path.exists(server.path("linked")),
            "a file that is only read gets a second name")


@attack("Writes, truncates and overwrites another's set-user-ID file that everybody may write, over SMB and NFS")
def change_by_another_takes_set_ids():
    server = Server()
    path = server.put("tool", "#!/bin/sh\n", VICTIM, 0o777)
    smb = HostileSmb.of(server, "attacker")
    nfs = HostileNfs.mounted(server, ATTACKER)
    handle = nfs.find("data", "tool")

    def by_open(disposition):
        smb.close(smb.open("tool", READS_AND_WRITES, disposition)[1])

    def by_handle(change):
        file = smb.open("tool", READS_AND_WRITES)[1]
        change(file)
        smb.close(file)

    changes = {
        "SMB WRITE": lambda: by_handle(lambda file: smb.write(file, b"evil")),
        "SMB end of file": lambda: by_handle(lambda file: smb.set(file, 1, 20, struct.pack("<Q", 3))),
        "SMB allocation": lambda: by_handle(lambda file: smb.set(file, 1, 19, struct.pack("<Q", 0))),
        "SMB overwrite": lambda: by_open(OVERWRITTEN),
        "SMB supersede": lambda: by_open(SUPERSEDED),
        "NFS WRITE": lambda: nfs.does(handle, write(ANONYMOUS, b"evil")),
        "NFS SETATTR size": lambda: nfs.does(handle, set_attributes(attributes((4, long(2))))),
    }
    for name, change in changes.items():
        os.chmod(path, 0o6777)
        change()
        if os.path.exists(path) and os.lstat(path).st_uid != ATTACKER:
            require(not is_run_as_another(path), "after %s it is %s", name, mode_of(path))


def changes_by_state(source, state):
    """The NFS operations that change data by a state id, by name."""
    return {
        "WRITE": [write(state, b"evil")],
        "SETATTR size": [set_attributes(attributes((SIZE, long(2))), state)],
        "ALLOCATE": [words(59) + state + long(0) + long(65536)],
        "DEALLOCATE": [words(62) + state + long(0) + long(4096)],
        "COPY": [put(source), words(SAVEFH), put, words(60) + ANONYMOUS + state + long(0) * 2 + long(4) + words(1, 1, 0)],
    }


def change_by_state(nfs, handle, source, path, state):
    """Changes root's program as the attacker, with root's state id."""
    nfs.act_as(ATTACKER, ATTACKER)
    for name, operations in changes_by_state(source, state).items():
        os.chmod(path, 0o6777)
        status = nfs.does(handle, *[put(handle) if one is put else one for one in operations])
        require(status == 0, "the attacker's own right to write does not let it %s: %s", name, status)
        require(not is_run_as_another(path), "after %s by root's state id it is %s", name, mode_of(path))


@attack("Changes another's set-user-ID file by the open and the delegation that root has on the same client")
def change_by_roots_state_takes_set_ids():
    server = Server()
    path = server.put("tool", "#!/bin/sh\n" + " " * 8192, VICTIM, 0o777)
    server.put("source", "evil", mode=0o666)
    nfs = HostileNfs.mounted(server, 0)
    handle, source = nfs.find("data", "tool"), nfs.find("data", "source")
    change_by_state(nfs, handle, source, path, nfs.open(nfs.find("data"), "tool", 3)[0])
    # Another file, because the server grants no delegation for an open one.
    path = server.put("other", "#!/bin/sh\n" + " " * 8192, VICTIM, 0o777)
    nfs = HostileNfs(server, 0, 0)
    nfs.mount(is_called_back=True)
    handle = nfs.find("data", "other")
    change_by_state(nfs, handle, source, path, nfs.open_delegated(nfs.find("data"), "other"))


@attack("Takes ownership by a list of Windows, then gives the file to group root")
def taken_file_gets_no_foreign_group():
    server = Server()
    path = grant_everybody(server, "granted", "victim")
    smb = HostileSmb.of(server, "attacker")
    _, file = smb.open("granted", EVERYTHING)
    smb.set(file, SECURITY, 0, descriptor(owner=user_sid(ATTACKER)), OWNER)
    smb.set(file, SECURITY, 0, descriptor(group=group_sid(0)), GROUP)
    require(os.lstat(path).st_gid != 0, "it is %s", mode_of(path))


def set_ids_by_posix_entry(server, name):
    path = grant_everybody(server, name, "victim")
    smb, _, file = opened_by_posix(server, name)
    for mode in (0o2755, 0o4755, 0o6755):
        if file:
            smb.set(file, SECURITY, 0, descriptor(entries=[(0, 0, EVERYTHING, sid(5, 88, 3, mode))]), LIST)
            require(not is_run_as_another(path), "it is %s", mode_of(path))


@attack("Makes another's file set-user-ID by a POSIX entry of its list (S-1-5-88-3), granted full control")
def grantee_sets_no_set_ids_by_posix_entry():
    set_ids_by_posix_entry(Server(), "tool")


@attack("Makes another's file set-user-ID by SETATTR of mode and masked mode over NFS, granted full control")
def grantee_sets_no_set_ids_by_setattr():
    server = Server()
    nfs = HostileNfs.mounted(server, ATTACKER)
    for owner in ("victim", "root"):
        for mode in (0o2755, 0o4755, 0o6755):
            path = grant_everybody(server, "tool", owner)
            handle = nfs.find("data", "tool")
            nfs.does(handle, set_mode(mode))
            require(not is_run_as_another(path), "of %s: SETATTR: it is %s", owner, mode_of(path))
            nfs.does(handle, set_attributes(attributes((MODE_MASKED, words(mode, 0o7777)))))
            require(not is_run_as_another(path), "of %s: masked: it is %s", owner, mode_of(path))


@attack("Writes a program into root's granted file, makes it set-user-ID and runs it")
def grantee_runs_nothing_as_root():
    server = Server()
    path = grant_everybody(server, "tool")
    nfs = HostileNfs.mounted(server, ATTACKER)
    handle, program = nfs.find("data", "tool"), content_of(shutil.which("id"))
    for at in range(0, len(program), 32768):
        nfs.does(handle, write(ANONYMOUS, program[at:at + 32768], at))
    nfs.does(handle, set_mode(0o4755))
    os.chmod(path, os.lstat(path).st_mode | 0o111)
    who = ["setpriv", "--reuid", str(ATTACKER), "--regid", str(ATTACKER), "--clear-groups", path]
    found = subprocess.run(who, capture_output=True, text=True, check=False).stdout
    require("euid=0" not in found, "run by the attacker it says %s", found.strip())


@attack("Creates over root's granted file with set-user-ID mode, in each disposition (SMB POSIX, NFS OPEN)")
def create_over_foreign_file_gives_no_set_ids():
    server = Server()
    for disposition in (SUPERSEDED, OPENED_OR_CREATED, OVERWRITTEN, OVERWRITTEN_OR_CREATED):
        path = grant_everybody(server, "tool")
        smb, _, file = opened_by_posix(server, "tool", 0o6755, disposition)
        if file:
            smb.close(file)
        if os.path.exists(path) and os.lstat(path).st_uid != ATTACKER:
            require(not is_run_as_another(path), "disposition %d: it is %s", disposition, mode_of(path))
    nfs = HostileNfs.mounted(server, ATTACKER)
    path, root = grant_everybody(server, "tool"), nfs.find("data")
    body = words(OPEN, 0, 3, 0) + nfs.client + opaque(b"owner") + words(1, 0)
    nfs.does(root, body + attributes((MODE, words(0o6755))) + words(0) + opaque(b"tool"))
    require(not is_run_as_another(path), "NFS OPEN: it is %s", mode_of(path))


@attack("Gives root's granted file a foreign group and a new owner over NFS, then set-group-ID")
def grantee_gives_no_foreign_group_over_nfs():
    server = Server()
    path = grant_everybody(server, "tool")
    nfs = HostileNfs.mounted(server, ATTACKER)
    handle = nfs.find("data", "tool")
    nfs.does(handle, set_attributes(attributes((GROUP_ATTRIBUTE, opaque(b"42")))))
    nfs.does(handle, set_attributes(attributes((OWNER_ATTRIBUTE, opaque(b"%d" % ATTACKER)))))
    nfs.does(handle, set_mode(0o2755))
    found = os.lstat(path)
    is_foreign = found.st_gid not in (0, ATTACKER) or found.st_uid == ATTACKER and found.st_gid == 0 and (
        found.st_mode & 0o2000)
    require(not is_foreign and not is_run_as_another(path), "it is %s", mode_of(path))


@attack("Makes a granted directory of root set-group-ID over NFS")
def grantee_sets_no_group_bit_of_directory():
    server = Server()
    path = server.path("directory")
    os.mkdir(path)
    smb = HostileSmb.of(server, "root")
    _, file = smb.open("directory", EVERYTHING, options=DIRECTORY)
    smb.set(file, SECURITY, 0, descriptor(entries=[(0, 3, EVERYTHING, EVERYONE)]), LIST)
    nfs = HostileNfs.mounted(server, ATTACKER)
    nfs.does(nfs.find("data", "directory"), set_mode(0o2777))
    require(not is_run_as_another(path), "it is %s", mode_of(path))


def access_of(nfs, handle):
    """The access bits that ACCESS grants the caller. RFC 8881 18.1."""
    status, reply = nfs.compound(put(handle), words(ACCESS, 0x3F))
    require(status == 0, "ACCESS is refused: %d", status)
    return struct.unpack(">I", reply[20:24])[0]


def gets_nothing(nfs, handle, state, name, denied):
    """ACCESS, READ and WRITE of a caller whose class lacks these bits, also with another user's state id."""
    given = access_of(nfs, handle) & denied
    require(given == 0, "ACCESS says %#x of %s, which is denied", given, name)
    for stateid in (ANONYMOUS, state):
        if denied & ACCESS_READS:
            status, reply = nfs.compound(put(handle), read(stateid, 0, 20))
            require(status != 0 or b"SECRET" not in reply, "%s is read by READ", name)
        if denied & ACCESS_WRITES:
            require(nfs.does(handle, write(stateid, b"evil")) != 0, "%s is written by WRITE", name)


@attack("Reads 0604 and writes 0606 files as their group, which has no bits, while others have them open (NFS, SMB)")
def class_without_bits_gets_nothing_while_others_do():
    server = Server()
    other, member = HostileNfs.mounted(server, VICTIM), HostileNfs.mounted(server, ATTACKER)
    by_smb = HostileSmb.of(server, "attacker")
    for name, mode, denied in (("reads", 0o604, ACCESS_READS | ACCESS_WRITES | ACCESS_EXECUTES),
                               ("writes", 0o606, ACCESS_READS | ACCESS_WRITES | ACCESS_EXECUTES),
                               ("runs", 0o645, ACCESS_WRITES | ACCESS_EXECUTES)):
        path = server.put(name, "SECRET", mode=mode)
        os.chown(path, 0, ATTACKER)
        state, handle = other.open(other.find("data"), name, 3 if mode & 2 else 1)
        require(access_of(other, handle) & ACCESS_READS, "others may not read %s", name)
        gets_nothing(member, handle, state, name, denied)
        for access, bits in ((READ_DATA, ACCESS_READS), (WRITE_DATA, ACCESS_WRITES), (EXECUTE, ACCESS_READS)):
            if denied & bits:
                require(by_smb.open(name, access)[0] != SUCCESS, "SMB grants %#x of %s", access, name)


@attack("Reads a file and a directory whose list denies the caller by name, while others have them open (NFS)")
def user_denied_by_name_gets_nothing_while_others_do():
    server = Server()
    path, directory = server.put("file", "SECRET"), server.path("directory")
    os.mkdir(directory)
    below = server.put("directory/below", "SECRET")
    # Owner, the denied user, group, mask, others. Version 2; tag, permissions, id: acl(5).
    for where, bits in ((path, 4), (directory, 5)):
        entries = ((1, 7, -1), (2, 0, ATTACKER), (4, bits, -1), (16, bits, -1), (32, bits, -1))
        packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
        os.setxattr(where, "system.posix_acl_access", packed)
    other, named = HostileNfs.mounted(server, VICTIM), HostileNfs.mounted(server, ATTACKER)
    state, handle = other.open(other.find("data"), "file", 1)
    other.open(other.find("data", "directory"), "below", 1)
    require(access_of(other, handle) & ACCESS_READS, "others may not read the file")
    gets_nothing(named, handle, state, "the file", ACCESS_READS | ACCESS_WRITES)
    folder = other.find("data", "directory")
    given = access_of(named, folder) & (ACCESS_READS | ACCESS_LOOKUP)
    require(given == 0, "ACCESS says %#x of the directory, which is denied", given)
    require(named.does(folder, lookup("below")) != 0, "a name in the directory is looked up")
    require(os.path.exists(below), "the file below has gone")


def make_nodes(keys, posture):
    server = Server({"data": keys})
    smb = HostileSmb.of(server, "root")
    status, file = smb.open("open", EVERYTHING, CREATED, options=DIRECTORY)
    require(status == SUCCESS, "no directory is created: %#x", status)
    smb.set(file, SECURITY, 0, descriptor(entries=[(0, 3, 0x1301BF, EVERYONE)]), LIST)
    nfs = HostileNfs.mounted(server, ATTACKER)
    device = os.stat(server.root()).st_dev
    for parent in ("open", None):
        directory = nfs.find("data", "open") if parent else nfs.find("data")
        for kind, name, major, minor in ((3, "disk", os.major(device), os.minor(device)), (4, "memory", 1, 1)):
            nfs.does(directory, make(kind, name, attributes((MODE, words(0o666))), words(major, minor)))
            path = server.path(os.path.join(parent or "", name))
            require(not os.path.lexists(path), "%s: the attacker has made the device node %s", posture, name)


@attack("Makes device nodes of the disk and of memory in a directory that lets everybody add files")
def user_makes_no_device_nodes():
    make_nodes("", "by default")


@attack("The same where the share has device nodes")
def user_makes_no_device_nodes_where_shares_have_them():
    make_nodes("device_nodes = true" if "device_nodes" in Place.keys else "", "where they are served")


@attack("Writes right after root has worked on the same connection, so that the bit of a file survives (SMB)")
def write_after_work_of_root_is_the_users():
    server = Server()
    path = server.put("tool", "#!/bin/sh\n", VICTIM, 0o777)
    server.put("other")
    smb = HostileSmb.of(server, "attacker")
    _, file = smb.open("tool", READS_AND_WRITES)
    own = smb.session, smb.tree, smb.key
    root = second_session(smb, "root")
    for _ in range(6):
        os.chmod(path, 0o6777)
        smb.session, smb.tree, smb.key = root
        smb.close(smb.open("other", READS_AND_WRITES)[1])
        smb.session, smb.tree, smb.key = own
        require(smb.write(file, b"evil") == SUCCESS, "the write is refused")
        require(not is_run_as_another(path), "it is %s", mode_of(path))


def second_session(smb, user):
    """Another session on the same connection: session, tree and key."""
    other = HostileSmb.__new__(HostileSmb)
    other.__dict__.update(smb.__dict__)
    other.session, other.tree, other.key, other.preauth = 0, 0, None, smb.negotiated
    other.log_on(user, "password")
    other.connect("data")
    smb.next, smb.buffer = other.next, other.buffer
    return other.session, other.tree, other.key


@attack("The same over NFS, after a request of uid 4294967295, which no thread can become")
def write_after_impossible_uid_is_the_users():
    server = Server()
    path = server.put("tool", "#!/bin/sh\n", VICTIM, 0o777)
    nfs = HostileNfs.mounted(server, ATTACKER)
    root = nfs.find("data")
    state, handle = nfs.open(root, "tool", 3)
    for _ in range(6):
        os.chmod(path, 0o6777)
        nfs.act_as(0xFFFFFFFF, ATTACKER)
        nfs.does(root, lookup("tool"), TYPE)
        nfs.act_as(ATTACKER, ATTACKER)
        require(nfs.does(handle, write(state, b"evil", stable=0)) == 0, "the write is refused")
        require(not is_run_as_another(path), "it is %s", mode_of(path))


@attack("Fills an ext4 up to the superuser's reserve, and beyond it after root has worked on the same connection")
def write_does_not_reach_reserve_of_superuser():
    server = Server(is_started=False)
    image = os.path.join(server.folder, "image")
    with open(image, "wb") as file:
        file.truncate(32 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m", "20", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, server.root()], check=True)
    try:
        os.chmod(server.root(), 0o777)
        server.put("other")
        server.start()
        fill(server)
    finally:
        server.stop()
        subprocess.run(["umount", server.root()], check=True)


def fill(server):
    smb = HostileSmb.of(server, "attacker")
    _, file = smb.open("fill", READS_AND_WRITES, CREATED)
    own = smb.session, smb.tree, smb.key
    root = second_session(smb, "root")
    block, offset = os.urandom(65536), 0

    def fills():
        nonlocal offset
        count = 0
        while count < 1024 and smb.write(file, block, offset) == SUCCESS:
            count, offset = count + 1, offset + len(block)
        return count

    smb.session, smb.tree, smb.key = own
    require(fills() > 16, "nothing is written")
    for _ in range(3):
        smb.session, smb.tree, smb.key = root
        smb.close(smb.open("other", READS_AND_WRITES)[1])
        smb.session, smb.tree, smb.key = own
        more = fills()
        require(more <= 2, "%d KiB of the reserve are written", more * 64)


def drop_box(server):
    """A directory where every user may create files, and only owners change and delete them; with one file of
    the victim."""
    shutil.rmtree(server.path("drop"), ignore_errors=True)
    root = HostileSmb.of(server, "root")
    _, directory = root.open("drop", EVERYTHING, CREATED, options=DIRECTORY)
    entries = [(0, 0, 0x1200AB, EVERYONE), (0, 11, EVERYTHING, OWNER_RIGHTS), (0, 3, EVERYTHING, user_sid(0))]
    require(root.set(directory, SECURITY, 0, descriptor(entries=entries), LIST) == SUCCESS, "the list is not stored")
    root.close(directory)
    victim = HostileSmb.of(server, "victim")
    status, file = victim.open("drop\\letter", READS_AND_WRITES, CREATED)
    require(status == SUCCESS and victim.write(file, b"VICTIM") == SUCCESS, "nothing can be put there")
    victim.close(file)
    return server.path("drop/letter")


def own_in_drop_box(smb, contexts=()):
    separator = "/" if smb.posix else "\\"
    access = READS_AND_WRITES | 0x10000
    status, file = smb.open("drop" + separator + "own", access, OPENED_OR_CREATED, contexts=contexts)
    require(status == SUCCESS, "the attacker may not add a file: %#x", status)
    smb.write(file, b"EVIL")
    return file


def onto(smb, file, name, information):
    name = utf16(name)
    return smb.set(file, 1, information, struct.pack("<B7xQI", 1, 0, len(name)) + name)


@attack("Replaces another's file in a drop box by rename and by hard link, over SMB, SMB POSIX and NFS")
def file_of_drop_box_is_not_replaced():
    server = Server()
    path = drop_box(server)
    smb = HostileSmb.of(server, "attacker")
    for access, disposition in ((0x10000, OPENED), (2, OPENED), (1, OVERWRITTEN), (1, SUPERSEDED)):
        require(smb.open("drop\\letter", access, disposition)[0] != SUCCESS, "opened by %#x, %d", access, disposition)
    posix = HostileSmb.of(server, "attacker", posix=True)

    def by_nfs():
        smb.close(own_in_drop_box(smb))
        nfs = HostileNfs.mounted(server, ATTACKER)
        directory, letter = nfs.find("data", "drop"), nfs.find("data", "drop", "letter")
        nfs.does(directory, words(SAVEFH), words(RENAME) + opaque(b"own") + opaque(b"letter"))
        nfs.does(directory, words(REMOVE) + opaque(b"letter"))
        nfs.does(letter, set_attributes(attributes((4, long(0)))))

    ways = {
        "SMB rename": lambda: onto(smb, own_in_drop_box(smb), "drop\\letter", 10),
        "SMB link": lambda: onto(smb, own_in_drop_box(smb), "drop\\letter", 11),
        "POSIX rename": lambda: onto(posix, own_in_drop_box(posix, [posix_context()]), "drop/letter", 10),
        "NFS": by_nfs,
    }
    for name, way in ways.items():
        path = drop_box(server)
        way()
        found = content_of(path) if os.path.exists(path) else None
        require(found == b"VICTIM" and os.lstat(path).st_uid == VICTIM, "%s: it is now %r", name, found)


@attack("Overwrites and supersedes a file that may only be read")
def file_for_reading_is_not_truncated():
    server = Server()
    path = server.put("read-only", "KEEP")
    smb = HostileSmb.of(server, "attacker")
    for disposition in (SUPERSEDED, OVERWRITTEN, OVERWRITTEN_OR_CREATED):
        for access in (READS, 0x80000000, 0x80, 1, 0x2000000):
            smb.open("read-only", access, disposition)
            require(content_of(path) == b"KEEP", "disposition %d by %#x truncates it", disposition, access)


CHANGES_BY_CONTROL = {
    "sparse": (0x900C4, b"\1"), "zeros": (0x980C8, struct.pack("<QQ", 0, 4)),
    "trim": (0x98208, struct.pack("<IIIIQQ", 0, 1, 24, 0, 0, 4)), "compression": (0x9C040, b"\1\0"),
    "reparse point": (0x900A4, struct.pack("<IHH", 0x80001234, 4, 0) + b"abcd"),
}
CHANGES_BY_INFORMATION = {
    "end of file": (1, 20, struct.pack("<Q", 0), 0), "allocation": (1, 19, struct.pack("<Q", 0), 0),
    "times": (1, 4, struct.pack("<QQQQII", 0, 0, 132000000000000000, 0, 1, 0), 0), "deletion": (1, 13, b"\1", 0),
    "attributes": (1, 15, struct.pack("<IBBH", 0, 0, 3, 1) + b"abc\0x", 0),
    "list": (3, 0, descriptor(entries=[]), LIST),
}


@attack("Tries each way to change a file of a read-only share that everybody may write")
def share_for_reading_is_not_changed():
    server = Server({"data": "read_only = true"})
    path = server.put("file", "KEEP", ATTACKER, 0o666)
    before = os.lstat(path)
    smb = HostileSmb.of(server, "attacker")
    for access in (2, 0x10000, 0x100, 0x10, 0x40000, 0x80000):
        require(smb.open("file", access)[0] != SUCCESS, "access %#x is granted", access)
    for disposition in (SUPERSEDED, OVERWRITTEN, OVERWRITTEN_OR_CREATED):
        require(smb.open("file", READS, disposition)[0] != SUCCESS, "disposition %d is granted", disposition)
    require(smb.open("new", READS, CREATED)[0] != SUCCESS, "a file is created")
    _, file = smb.open("file", READS)
    for name, (code, data) in CHANGES_BY_CONTROL.items():
        require(smb.control(file, code, data)[0] != SUCCESS, "%s is set", name)
    for name, (kind, information, data, additional) in CHANGES_BY_INFORMATION.items():
        require(smb.set(file, kind, information, data, additional) != SUCCESS, "%s is set", name)
    require(smb.rename(file, "moved") != SUCCESS and smb.rename(file, "linked", 11) != SUCCESS, "it gets a new name")
    nfs = HostileNfs.mounted(server, ATTACKER)
    handle = nfs.find("data", "file")
    for operation in (write(ANONYMOUS, b"x"), set_mode(0o777), set_attributes(attributes((4, long(0))))):
        require(nfs.does(handle, operation) != 0, "it is changed over NFS")
    after = os.lstat(path)
    is_same = (before.st_mode, before.st_mtime_ns, before.st_size) == (after.st_mode, after.st_mtime_ns, after.st_size)
    require(is_same and os.listdir(server.root()) == ["file"], "the share has changed")


@attack("Writes, creates and deletes as a user whom the share lets only read")
def user_for_reading_changes_nothing():
    server = Server({"data": 'read_users = ["attacker"]'})
    server.put("file", "KEEP", ATTACKER, 0o666)
    smb = HostileSmb.of(server, "attacker")
    tries = (("file", 2, OPENED, 0), ("file", 1, OVERWRITTEN, 0), ("new", 1, CREATED, 0),
             ("file", 0x10000, OPENED, DELETE_ON_CLOSE))
    for name, access, disposition, options in tries:
        require(smb.open(name, access, disposition, options)[0] != SUCCESS, "%s: %#x, %d", name, access, disposition)
    require(smb.open("file", READS)[0] == SUCCESS, "it may not even be read")


def lay_traps(server):
    """A secret file outside of the share, and links to it."""
    outside = os.path.join(server.folder, "shares", "outside")
    os.makedirs(outside)
    os.chmod(outside, 0o777)
    for name in ("secret",):
        path = os.path.join(outside, name)
        with open(path, "w", encoding="ascii") as file:
            file.write("OUTSIDE")
        os.chmod(path, 0o666)
    os.symlink(os.path.join(outside, "secret"), server.path("absolute"))
    os.symlink("../outside/secret", server.path("relative"))
    os.symlink("../outside", server.path("directory"))
    os.symlink("/proc/self/root", server.path("process"))
    return outside


@attack("Opens, renames to and links to names that lead out of the share, through links, dots and mapped characters")
def names_do_not_lead_out_over_smb():
    server = Server()
    outside = lay_traps(server)
    smb = HostileSmb.of(server, "attacker")
    names = ("absolute", "relative", "directory\\secret", "process\\etc\\passwd", "..\\outside\\secret",
             "a\\..\\..\\outside\\secret", "./../outside/secret", "/etc/passwd", "\\etc\\passwd",
             "..\\..\\..\\..\\etc\\passwd", ".\\..\\outside", "\uf02e\uf02e\\outside\\secret", "\uf02f..\\x", "x\0y")
    for name in names:
        status, file = smb.open(name, READS)
        found = smb.data(file)[1] if file else b""
        require(b"OUTSIDE" not in found and b"root:" not in found, "%r is opened", name)
    _, file = smb.open("own", EVERYTHING, OPENED_OR_CREATED)
    for name in ("..\\outside\\taken", "\\..\\outside\\taken", "../outside/taken", "directory\\taken",
                 "\uf02e\uf02e\\outside\\taken", "a\\..\\..\\outside\\taken"):
        for information in (10, 11):
            smb.rename(file, name, information)
            require(os.listdir(outside) == ["secret"], "%r leads out", name)


@attack("Makes symlinks with targets outside of the share over SMB, and opens them")
def made_links_do_not_lead_out_over_smb():
    server = Server()
    lay_traps(server)
    smb = HostileSmb.of(server, "attacker")
    for i, (target, flags) in enumerate((("/etc/passwd", 1), ("..\\outside\\secret", 1), ("/etc/passwd", 0))):
        name = "link%d" % i
        _, file = smb.open(name, READS_AND_WRITES | 0x10000, CREATED, REPARSE_POINT)
        smb.control(file, 0x900A4, link_data(target, flags))
        smb.close(file)
        _, file = smb.open(name, READS)
        found = smb.data(file)[1] if file else b""
        require(b"OUTSIDE" not in found and b"root:" not in found, "%s is followed", target)


@attack("Stores symlinks with targets outside of the share, for programs on the server to follow, over SMB and NFS")
def links_that_lead_out_are_not_stored():
    server = Server()
    os.mkdir(server.path("directory"))
    os.chmod(server.path("directory"), 0o777)
    smb, nfs = HostileSmb.of(server, "attacker"), HostileNfs.mounted(server, ATTACKER)
    targets = ("/etc/passwd", "..", "../outside", "directory/../../outside", "./../data/../../x")
    for i, text in enumerate(targets):
        for folder in ("", "directory/"):
            target = "../" + text if folder and text[0] != "/" else text
            name = "%slink%d" % (folder, i)
            _, file = smb.open(name.replace("/", "\\"), READS_AND_WRITES | 0x10000, CREATED, REPARSE_POINT)
            smb.control(file, 0x900A4, link_data(target.replace("/", "\\"), 0 if target[0] == "/" else 1))
            smb.close(file)
            root = nfs.find("data", folder[:-1]) if folder else nfs.find("data")
            nfs.does(root, make(5, "nfs%d" % i, words(0, 0), opaque(target.encode())))
            for made in (name, "%snfs%d" % (folder, i)):
                require(not os.path.islink(server.path(made)), "%s leads to %s", made, target)
    require(nfs.does(nfs.find("data"), make(5, "honest", words(0, 0), opaque(b"directory"))) == 0,
            "a link within the share is refused")


@attack("Moves and hard-links symlinks up out of deep directories, so that they lead out, over SMB and NFS")
def links_do_not_lead_out_by_a_new_name():
    server = Server()
    os.makedirs(server.path("a/b"))
    for folder in ("a", "a/b"):
        os.chmod(server.path(folder), 0o777)
    smb, nfs = HostileSmb.of(server, "attacker"), HostileNfs.mounted(server, ATTACKER)
    root, deep = nfs.find("data"), nfs.find("data", "a", "b")
    for name in ("moved", "linked"):
        status = nfs.does(deep, make(5, name, words(0, 0), opaque(b"../../outside")))
        require(status == 0, "a link within the share is refused: %s", status)
    nfs.does(deep, words(SAVEFH), put(root), words(RENAME) + opaque(b"moved") + opaque(b"by-rename"))
    nfs.does(nfs.find("data", "a", "b", "linked"), words(SAVEFH), put(root), words(11) + opaque(b"by-link"))
    _, file = smb.open("a\\b\\smb", EVERYTHING, CREATED, REPARSE_POINT)
    status, _ = smb.control(file, 0x900A4, link_data("..\\..\\outside", 1))
    require(status == SUCCESS, "a link within the share is refused over SMB: %#x", status)
    smb.close(file)
    for information, to in ((10, "by-smb-rename"), (11, "by-smb-link")):
        _, file = smb.open("a\\b\\smb", EVERYTHING, OPENED, REPARSE_POINT)
        smb.rename(file, to, information)
        smb.close(file)
    for name in os.listdir(server.root()):
        require(not os.path.islink(server.path(name)), "%s leads out", name)
    does = nfs.does(deep, words(SAVEFH), words(RENAME) + opaque(b"moved") + opaque(b"beside"))
    require(does == 0, "a link that stays within the share is not renamed: %s", does)


def link_data(target, flags):
    """SYMBOLIC_LINK_REPARSE_DATA_BUFFER; flag 1 is SYMLINK_FLAG_RELATIVE. MS-FSCC 2.1.2.4."""
    text = utf16(target)
    data = struct.pack("<HHHHI", 0, len(text), len(text), len(text), flags) + text + text
    return struct.pack("<IHH", 0xA000000C, len(data), 0) + data


def with_vetoed_names():
    server = Server({"data": 'veto_names = ["*.key", "private"]'})
    server.put("secret.key", "VETOED", ATTACKER, 0o666)
    os.mkdir(server.path("private"), 0o777)
    os.chmod(server.path("private"), 0o777)
    with open(server.path("private/x"), "w", encoding="ascii") as file:
        file.write("VETOED")
    server.put("plain", "plain", ATTACKER, 0o666)
    return server


@attack("Opens and lists vetoed names in other spellings: case, trailing dots and spaces, streams, ~1, POSIX")
def vetoed_names_stay_hidden_in_every_spelling():
    server = with_vetoed_names()
    smb = HostileSmb.of(server, "attacker")
    for name in ("secret.key", "SECRET.KEY", "secret.key::$DATA", "secret.key:x", "secret.key.", "secret.key ",
                 "secret.key...", "secret.kE\u212a", "private", "private\\x", "PRIVATE\\x", "private.\\x",
                 "private ::$INDEX_ALLOCATION", "private:$I30:$INDEX_ALLOCATION", "SECRET~1.KEY", ".\\secret.key",
                 "plain\\..\\secret.key", "plain\\..\\private\\x"):
        require(smb.open(name, READS)[0] != SUCCESS, "%r is opened", name)
    _, directory = smb.open("", 0x100081, options=DIRECTORY)
    names = smb.listed(directory)[1]
    require("plain" in names and not {"secret.key", "private"} & set(names), "they are listed: %s", names)
    posix = HostileSmb.of(server, "attacker", posix=True)
    for name in ("secret.key", "private/x", "./secret.key", "private"):
        require(posix.open(name, READS, contexts=[posix_context(0o600)])[0] != SUCCESS, "POSIX: %r is opened", name)


@attack("Creates vetoed names, and renames and links files to them, in other spellings")
def vetoed_names_are_created_in_no_spelling():
    server = with_vetoed_names()
    smb = HostileSmb.of(server, "attacker")
    before = sorted(os.listdir(server.root()))
    for name in ("new.key", "new.KEY", "new.key:s", "new.key::$DATA", "new.key.", "new.key ", "private.", "private "):
        smb.open(name, READS_AND_WRITES, OPENED_OR_CREATED)
        require(sorted(os.listdir(server.root())) == before, "%r is created", name)
    _, file = smb.open("plain", EVERYTHING)
    for name in ("r.key", "r.key.", "r.key ", "private", "private\\y", "r.KEY"):
        for information in (10, 11):
            smb.rename(file, name, information)
            require(sorted(os.listdir(server.root())) == before, "the file becomes %r", name)


@attack("Opens a vetoed file by a symlink to it that stands in the share, and makes files in a vetoed directory so")
def vetoed_file_is_not_opened_by_link():
    server = with_vetoed_names()
    for target, link in (("secret.key", "link"), ("link", "again"), ("private", "folder"), ("private/x", "below")):
        os.symlink(target, server.path(link))
    for posix in (False, True):
        smb = HostileSmb.of(server, "attacker", posix=posix)
        contexts = [posix_context()] if posix else []
        for name in ("link", "again", "below", "folder\\x"):
            _, file = smb.open(name.replace("\\", "/") if posix else name, READS, contexts=contexts)
            require(not file or b"VETOED" not in smb.data(file)[1], "%s is opened", name)
    smb = HostileSmb.of(server, "attacker")
    require(smb.open("folder\\new", READS_AND_WRITES, CREATED)[0] != SUCCESS, "a file is made below it")
    _, file = smb.open("plain", EVERYTHING)
    for information in (10, 11):
        smb.rename(file, "folder\\plain", information)
    require(os.listdir(server.path("private")) == ["x"], "the directory has got %s", os.listdir(server.path("private")))


@attack("Guesses and changes file handles of NFS")
def forged_handles_are_refused():
    server = Server()
    server.put("file", mode=0o666)
    nfs = HostileNfs.mounted(server, ATTACKER)
    handle = nfs.find("data", "file")
    require(nfs.does(handle, TYPE) == 0, "the true one is refused")
    for at in range(len(handle)):
        for bit in (1, 128):
            forged = bytearray(handle)
            forged[at] ^= bit
            require(nfs.does(bytes(forged), TYPE) != 0, "with byte %d changed it is taken", at)
    for _ in range(300):
        require(nfs.does(os.urandom(len(handle)), TYPE) != 0, "a random one is taken")
    require(nfs.does(b"", TYPE) != 0, "an empty one is taken")


@attack("Looks up dots, slashes and links that lead out, goes above the root, and renames to dots, over NFS")
def names_do_not_lead_out_over_nfs():
    server = Server({"data": 'veto_names = ["*.key"]'})
    outside = lay_traps(server)
    server.put("secret.key", uid=ATTACKER, mode=0o666)
    server.put("own", uid=ATTACKER)
    nfs = HostileNfs.mounted(server, ATTACKER)
    root = nfs.find("data")
    for name in (b"..", b".", b"", b"a/b", b"../outside/secret", b"x\0y", b"secret.key"):
        require(nfs.does(root, lookup(name)) != 0, "LOOKUP of %r succeeds", name)
    # The link must be refused, or created and not followed.
    nfs.does(root, make(5, "link", words(0, 0), opaque(b"../outside")))
    for name in ("link", "directory", "process"):
        require(nfs.does(root, lookup(name), lookup("secret")) != 0, "LOOKUP goes through %s", name)
    require(nfs.does(root, words(LOOKUPP), words(LOOKUPP)) != 0, "LOOKUPP goes above the root")
    require(nfs.does(root, words(SAVEFH), words(RENAME) + opaque(b"own") + opaque(b"..")) != 0, "renamed to ..")
    require(nfs.does(root, words(REMOVE) + opaque(b".")) != 0, "REMOVE of . succeeds")
    require(os.listdir(outside) == ["secret"], "something is outside")


@attack("Sets set-user-ID on another's file, and gives an own file to root and others, over NFS")
def owner_cannot_give_file_away_over_nfs():
    server = Server()
    foreign, own = server.put("foreign", uid=VICTIM), server.put("own", uid=ATTACKER)
    nfs = HostileNfs.mounted(server, ATTACKER)
    before = mode_of(foreign)
    nfs.does(nfs.find("data", "foreign"), set_mode(0o4777))
    require(mode_of(foreign) == before, "the foreign file is %s", mode_of(foreign))
    for whom in (b"0", b"%d" % VICTIM):
        nfs.does(nfs.find("data", "own"), set_attributes(attributes((OWNER_ATTRIBUTE, opaque(whom)))))
        nfs.does(nfs.find("data", "own"), set_attributes(attributes((GROUP_ATTRIBUTE, opaque(whom)))))
        found = os.lstat(own)
        require((found.st_uid, found.st_gid) == (ATTACKER, ATTACKER), "the own file is %s", mode_of(own))


@attack("Asks for pipes by names that lead to files")
def pipes_do_not_lead_to_files():
    server = Server()
    smb = HostileSmb(server)
    smb.log_on("attacker", "password")
    smb.connect("IPC$")
    for name in ("..\\..\\..\\etc\\passwd", "../../../../tmp/x", "PIPE\\..\\srvsvc", "srvsvc\\..\\..\\x", "srvsvc\0x",
                 "\\PIPE\\srvsvc/../../x", ""):
        require(smb.open(name, READS_AND_WRITES)[0] != SUCCESS, "%r is opened", name)


@attack("Tries names, links and read-only files of others where the server itself runs as an ordinary user")
def server_of_ordinary_user_lets_nobody_out():
    server = Server(uid=VICTIM)
    outside = lay_traps(server)
    foreign = server.put("foreign", "KEEP", 0, 0o644)
    smb = HostileSmb.of(server, "victim")
    for name in ("absolute", "relative", "directory\\secret", "process\\etc\\passwd", "..\\outside\\secret"):
        _, file = smb.open(name, READS)
        found = smb.data(file)[1] if file else b""
        require(b"OUTSIDE" not in found and b"root:" not in found, "%r is opened", name)
    for disposition in (SUPERSEDED, OVERWRITTEN, OVERWRITTEN_OR_CREATED):
        smb.open("foreign", READS, disposition)
        if os.path.exists(foreign) and os.lstat(foreign).st_uid == 0:
            require(content_of(foreign) == b"KEEP", "disposition %d truncates it", disposition)
    require(os.listdir(outside) == ["secret"], "something is outside")
