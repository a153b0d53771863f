"""Attacks on shared resources: one user, address or client requests all that it can get."""

import contextlib
import fcntl
import os
import socket
import struct
import threading
import time

from attack_server import ATTACKER, MIB, Place, Server, attack, measure, require
from hostile_nfs import HostileNfs, read
from hostile_smb import (
    AT_ONCE, CANCEL, CREATED, DIRECTORY, ECHO, EVERYTHING, EXCLUSIVE, FLUSH, IOCTL, LOCK, NOTIFY, OPENED_OR_CREATED,
    READS, READS_AND_WRITES, SUCCESS, TREE_CONNECT, UNLOCK, HostileSmb, durable, lease, lock_body, notify_body, read_body,
)
from attacks_identity import http_status
from raw_nfs import ANONYMOUS
from raw_smb import CREATE, PENDING, READ, SET, Refused, create_body, descriptor, sid, utf16

# A small descriptor limit of the server process makes floods short. The server divides what it finds.
DESCRIPTORS = 2048
ELSEWHERE = "127.0.0.9"
# Time limit in seconds for a flush and a stable create, or a rename, beside copies of another user, also on a
# slow disk.
COPIES_DELAY_MAX = 2
# Time limit in seconds for a create while requests of another user, and other programs, use all CPUs.
COSTLY_DELAY_MAX = 4


def admits(server, what, name="file", source=ELSEWHERE, user="bystander"):
    """Another user connects, logs on and opens a file."""
    try:
        smb = HostileSmb.of(server, user, source=source)
        status = smb.open(name)[0]
    except (OSError, EOFError, Refused) as error:
        require(False, "%s: another client is refused: %r", what, error)
    require(status == SUCCESS, "%s: another client opens nothing: %#x", what, status)
    return smb


def serves(smb, file, what):
    """A client from before the flood still gets replies."""
    try:
        status, data = smb.data(file)
    except (OSError, EOFError) as error:
        require(False, "%s: the client from before is not answered: %r", what, error)
    require(status == SUCCESS and data, "%s: the client from before reads %#x", what, status)


def settled(server):
    """The server with a file that all users may access, and a client from before the flood."""
    server.put("file", "data", mode=0o666)
    smb = HostileSmb.of(server, "victim", source=ELSEWHERE)
    _, file = smb.open("file")
    return smb, file


def open_until_refused(smb, most, body=None, batch=64):
    """Opens one file repeatedly; returns the number of opens and the status of the refusal."""
    count = 0
    body = body or (lambda number: create_body("file", READS))
    while count < most:
        ids = [smb.post(CREATE, body(count + i)) for i in range(batch)]
        statuses = [smb.reply(one).status for one in ids]
        count += statuses.count(SUCCESS)
        refused = [status for status in statuses if status != SUCCESS]
        if refused:
            return count, refused[0]
    return count, SUCCESS


@attack("Opens files by one session until it is refused")
def opens_of_one_user_leave_room_for_others():
    server = Server(descriptors=DESCRIPTORS)
    victim, file = settled(server)
    smb = HostileSmb.of(server, "attacker")
    smb.take_credits()
    count, status = open_until_refused(smb, 20000)
    measure("%d opens, then %#x", count, status)
    require(status != SUCCESS, "%d opens are granted", count)
    serves(victim, file, "opens")
    require(victim.open("file")[0] == SUCCESS, "the client from before opens nothing")
    require(victim.open("new", READS_AND_WRITES, CREATED)[0] == SUCCESS, "the client from before creates nothing")
    for _ in range(3):
        admits(server, "opens")
    found = http_status(server, "GET", "/v1/status", Authorization="Bearer " + server.token())
    require(found == 200, "the admin API answers %d", found)


@attack("Keeps as many durable opens as it gets for five minutes, and leaves")
def durable_opens_of_user_who_left_leave_room_for_others():
    server = Server(descriptors=DESCRIPTORS)
    victim, file = settled(server)
    for i in range(3000):
        server.put("hoard%d" % i, "", ATTACKER)
    smb = HostileSmb.of(server, "attacker")
    smb.take_credits()

    def durably(number):
        contexts = [lease(number.to_bytes(16, "little"), 3), durable(os.urandom(16))]
        return create_body("hoard%d" % (number % 3000), READS, contexts=contexts, oplock=0xFF)

    count, _ = open_until_refused(smb, 2900, durably, 50)
    more, _ = open_until_refused(smb, 20000)
    measure("%d durable opens, %d others", count, more)
    smb.close_connection()
    kept = []
    for i in range(60):
        kept.append(admits(server, "client %d after the hoarder left" % i))
    serves(victim, file, "durable opens")


@attack("Opens connections from one address without a logon until it is refused")
def connections_without_logon_leave_room_for_others():
    server = Server(head="connections_max = 600")
    victim, file = settled(server)
    kept = []
    for i in range(900):
        with contextlib.suppress(OSError):
            source = "127.0.0.%d" % (30 + i % 4), 0
            kept.append(socket.create_connection((server.address, server.smb_port), 3, source))
    serves(victim, file, "connections")
    for _ in range(3):
        admits(server, "connections")


def add_address(address, bits):
    """Adds an address to the loopback interface by SIOCSIFADDR."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8916, struct.pack("16sIi", socket.inet_pton(socket.AF_INET6, address), bits, 1))


@attack("Opens connections without a logon from many addresses of one IPv6 network (/64)")
def network_of_ipv6_counts_as_one_address():
    for address in ["fd65::1", "fd66::1", *("fd64::%x" % i for i in range(0x100, 0x140))]:
        with contextlib.suppress(FileExistsError):
            add_address(address, 128)
    server = Server(head="connections_max = 600", address="fd65::1")
    server.put("file", "data", mode=0o666)
    kept = []
    for i in range(900):
        with contextlib.suppress(OSError):
            kept.append(socket.create_connection(
                (server.address, server.smb_port), 3, ("fd64::%x" % (0x100 + i % 64), 0)))
    for _ in range(3):
        admits(server, "connections of one /64", source="fd66::1")


@attack("Makes NFS client records and sessions by one connection until it is refused")
def nfs_clients_of_one_address_leave_room_for_others():
    server = Server()
    server.put("file", "data", mode=0o666)
    early = HostileNfs.mounted(server, 0, source=None)
    handle = early.find("data", "file")
    nfs, count, status = HostileNfs(server, 0), 0, 0
    while count < 17000 and status == 0:
        status = nfs.exchange(b"flood%06d" % count + b"x" * 1000) or nfs.make_session(slots=1)
        count += status == 0
    measure("%d clients, then %s", count, status)
    require(early.does(handle, read(ANONYMOUS, 0, 4)) == 0, "the client from before is not served")
    late = HostileNfs(server, 0, source=ELSEWHERE)
    status = late.exchange(os.urandom(8)) or late.make_session()
    require(status == 0, "after %d clients a new one of another address is refused: %s", count, status)
    admits(server, "NFS clients")


@attack("Opens 80 connections to the admin API and says nothing on them")
def silent_admin_connections_leave_room_for_others():
    server = Server()
    kept = [socket.create_connection((server.address, server.admin_port), 5) for _ in range(80)]
    try:
        # Less than the 15 s after which the server ends silent connections.
        found = http_status(server, "GET", "/v1/status", seconds=10, Authorization="Bearer " + server.token())
    except OSError as error:
        require(False, "no answer beside %d silent connections: %r", len(kept), error)
    require(found == 200, "with %d silent connections: %d", len(kept), found)


@attack("Holds connections to the admin API by 80 threads with the token for metrics alone, and comes back at once")
def metrics_token_leaves_room_for_administrators():
    server = Server()
    head = "GET /metrics HTTP/1.1\r\nHost: %s:%d\r\nAuthorization: Bearer %s\r\n\r\n" % (
        server.address, server.admin_port, server.token("metrics-token"))
    until = time.monotonic() + 30

    def hold():
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                with socket.create_connection((server.address, server.admin_port), 5) as one:
                    while time.monotonic() < until:
                        one.sendall(head.encode())
                        if not one.recv(1 << 17):
                            break
                        time.sleep(1)
            time.sleep(0.05)

    threads = [threading.Thread(target=hold, daemon=True) for _ in range(80)]
    for thread in threads:
        thread.start()
    time.sleep(3)
    try:
        found = http_status(server, "GET", "/v1/status", seconds=10, Authorization="Bearer " + server.token())
    except OSError as error:
        require(False, "no answer beside %d threads: %r", len(threads), error)
    finally:
        until = 0
    require(found == 200, "beside %d threads: %d", len(threads), found)


@attack("Connects one session to a share 65,000 times")
def tree_connects_are_bounded():
    server = Server()
    victim, file = settled(server)
    smb = HostileSmb.of(server, "attacker")
    smb.take_credits()
    path, count, status = utf16("\\\\server\\data"), 0, SUCCESS
    body = struct.pack("<HHHH", 9, 0, 72, len(path)) + path
    before = server.memory()
    while count < 65600 and status == SUCCESS:
        for one in [smb.post(TREE_CONNECT, body, tree=0, credits=16) for _ in range(256)]:
            status = status or smb.reply(one).status
            count += 1
    grown = server.memory() - before
    measure("%d trees, then %#x; %d MiB", count, status, grown // MIB)
    require(grown < 128 * MIB, "%d trees hold %d MiB", count, grown // MIB)
    serves(victim, file, "trees")


def send_reading(smb, messages):
    """Sends and discards replies until the server ends the connection."""
    try:
        for message in messages:
            smb.socket.settimeout(15)
            smb.send(message)
            smb.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while smb.socket.recv(1 << 16):
                    pass
    except (OSError, EOFError):
        return


def check_flood(server, victim, file, what, most=256 * MIB):
    require(server.is_alive(), "%s: the server has ended", what)
    serves(victim, file, what)
    admits(server, what)
    measure("peak %d MiB", server.memory_peak() // MIB)
    require(server.memory_peak() < most, "%s: the server has taken %d MiB", what, server.memory_peak() // MIB)


@attack("Watches 500 directories 20 times each (CHANGE_NOTIFY)")
def flood_of_watches_is_withstood():
    server = Server()
    victim, file = settled(server)
    smb = HostileSmb.of(server, "attacker")
    smb.take_credits(4)
    directories = []
    for i in range(500):
        status, directory = smb.open("directory%d" % i, READS, OPENED_OR_CREATED, DIRECTORY)
        require(status == SUCCESS, "directory %d: %#x", i, status)
        directories.append(directory)
    send_reading(smb, (smb.message(NOTIFY, notify_body(one)) for _ in range(20) for one in directories))
    with open(server.path("directory0/new"), "w", encoding="ascii") as new:
        new.write("1")
    check_flood(server, victim, file, "watches")


# Number of elements of the largest LOCK request, and its credit charge.
ELEMENTS = 4096
CREDITS = 2


def bytes_apart(first, count=ELEMENTS, flags=EXCLUSIVE | AT_ONCE):
    """That many ranges of one byte, each two bytes apart."""
    return [(first + 2 * i, 1, flags) for i in range(count)]


def locked(smb, file, ranges):
    return smb.status(LOCK, lock_body(file, *ranges), charge=CREDITS)


@attack("Unlocks 4,096 ranges by one request, beside 24,000 others, where 1,000 requests wait for all of them; in 4 files")
def unlock_of_many_ranges_decides_waits_once():
    server = Server()
    victim, file = settled(server)
    prepared = []
    for name in ("one", "two", "three", "four"):
        holder = HostileSmb.of(server, "attacker")
        holder.take_credits(4)
        _, held = holder.open(name, READS_AND_WRITES, CREATED)
        for i in range(7):
            first = 10 ** 6 + 2 * ELEMENTS * i if i < 6 else 0
            require(locked(holder, held, bytes_apart(first)) == SUCCESS, "%s: part %d is not locked", name, i)
        for _ in range(2):
            smb = HostileSmb.of(server, "attacker")
            smb.take_credits(4)
            _, waits = smb.open(name, READS_AND_WRITES)
            wanted = lock_body(waits, (0, 2 * ELEMENTS, EXCLUSIVE))
            for one in [smb.post(LOCK, wanted) for _ in range(500)]:
                require(smb.reply(one, is_interim=True).status == PENDING, "%s: a lock does not wait", name)
            prepared.append(smb)
        prepared.append((holder, holder.message(LOCK, lock_body(held, *bytes_apart(0, flags=UNLOCK)), charge=CREDITS)))
    for holder, unlock in (one for one in prepared if isinstance(one, tuple)):
        holder.send(unlock)
    check_flood(server, victim, file, "unlocks")


@attack("Asks 16 times on 8 connections for 4,096 ranges, of which the last is locked, beside 24,000 others")
def refused_requests_for_many_ranges_cost_little():
    server = Server()
    victim, file = settled(server)
    prepared = []
    for i in range(8):
        smb = HostileSmb.of(server, "attacker")
        smb.take_credits(8)
        _, held = smb.open("locked%d" % i, READS_AND_WRITES, CREATED)
        for part in range(6):
            status = locked(smb, held, bytes_apart(2 * ELEMENTS * part))
            require(status == SUCCESS, "file %d, part %d: %#x", i, part, status)
        wanted = bytes_apart(10 ** 6, ELEMENTS - 1) + [(0, 1, EXCLUSIVE | AT_ONCE)]
        prepared.append((smb, [smb.message(LOCK, lock_body(held, *wanted), charge=CREDITS) for _ in range(16)]))
    for smb, wanted in prepared:
        smb.send(*wanted)
    check_flood(server, victim, file, "refused requests")


@attack("Locks 8,192 ranges in each of as many files as it may")
def ranges_of_one_user_leave_room_for_others():
    server = Server()
    victim, file = settled(server)
    smb = HostileSmb.of(server, "attacker")
    smb.take_credits(8)
    count, status = 0, SUCCESS
    for i in range(1000):
        _, held = smb.open("locked%d" % i, READS_AND_WRITES, CREATED)
        for first in (0, 2 * ELEMENTS):
            status = status or locked(smb, held, bytes_apart(first))
            count += ELEMENTS if status == SUCCESS else 0
        if status != SUCCESS:
            break
    measure("%d ranges, then %#x", count, status)
    require(status != SUCCESS, "%d ranges are granted", count)
    require(locked(victim, file, [(0, 1, AT_ONCE | EXCLUSIVE)]) == SUCCESS, "the client from before locks nothing")
    check_flood(server, victim, file, "ranges of many files", 128 * MIB)


@attack("Waits for a lock 20,000 times, and has all of them granted by one unlock")
def flood_of_waiting_locks_is_withstood():
    server = Server()
    victim, file = settled(server)
    holder = HostileSmb.of(server, "attacker")
    _, held = holder.open("locked", READS_AND_WRITES, CREATED)
    require(holder.lock(held, (0, 100, EXCLUSIVE | AT_ONCE)) == SUCCESS, "the lock is not taken")
    smb = HostileSmb.of(server, "attacker")
    smb.take_credits(4)
    _, waits = smb.open("locked", READS_AND_WRITES)
    send_reading(smb, (smb.message(LOCK, lock_body(waits, (i % 100, 1, EXCLUSIVE))) for i in range(20000)))
    serves(victim, file, "waiting locks")
    for i in range(100):
        holder.lock(held, (1000 + i, 1, EXCLUSIVE | AT_ONCE))
    holder.lock(held, (0, 100, UNLOCK))
    check_flood(server, victim, file, "waiting locks")


@attack("Holds 60,000 ranges of a file, and writes beside them")
def flood_of_ranges_is_withstood():
    server = Server()
    victim, file = settled(server)
    smb = HostileSmb.of(server, "attacker")
    _, held = smb.open("locked", READS_AND_WRITES, CREATED)
    count = 0
    smb.take_credits(4)
    for i in range(15):
        if locked(smb, held, bytes_apart(2 * ELEMENTS * i)) != SUCCESS:
            break
        count += ELEMENTS
    measure("%d ranges", count)
    other = HostileSmb.of(server, "attacker")
    _, beside = other.open("locked", READS_AND_WRITES)
    for i in range(100):
        other.write(beside, b"x", 2 * count + 10 + i)
    check_flood(server, victim, file, "ranges")
    smb.close(held)
    serves(victim, file, "the end of the ranges")


@attack("Sends 10,000 CHANGE_NOTIFY, each with a CANCEL behind it")
def flood_of_cancels_is_withstood():
    server = Server()
    victim, file = settled(server)
    smb = HostileSmb.of(server, "attacker")
    smb.take_credits(4)
    _, directory = smb.open("", READS, options=DIRECTORY)

    def pairs():
        for _ in range(10000):
            watch = smb.message(NOTIFY, notify_body(directory))
            yield watch
            yield smb.message(CANCEL, b"\4\0\0\0", message_id=struct.unpack("<Q", watch[24:32])[0])

    send_reading(smb, pairs())
    check_flood(server, victim, file, "cancels")


@attack("Sends half of a request on as many connections as it gets, after a logon on each")
def requests_cut_short_leave_room_for_others():
    server = Server(descriptors=DESCRIPTORS)
    victim, file = settled(server)
    kept = []
    for _ in range(3000):
        try:
            smb = HostileSmb.of(server, "attacker")
            message = smb.message(READ, read_body(b"\0" * 16, 8 * MIB))
            smb.socket.sendall(struct.pack(">I", len(message)) + message[:40])
        except (OSError, EOFError, Refused):
            break
        kept.append(smb)
    measure("%d connections", len(kept))
    check_flood(server, victim, file, "requests cut short", 512 * MIB)


@attack("Takes persistent opens, which outlive the server, until it is refused")
def persistent_opens_are_bounded():
    server = Server({"data": "continuously_available = true"}, descriptors=DESCRIPTORS)
    victim, file = settled(server)
    smb = HostileSmb.of(server, "attacker")
    smb.take_credits()

    def persistently(_):
        contexts = [lease(os.urandom(16), 3), durable(os.urandom(16), is_persistent=True)]
        return create_body("file", 0x80, contexts=contexts, oplock=0xFF)

    count, status = open_until_refused(smb, 20000, persistently, 50)
    size = sum(os.path.getsize(os.path.join(where, name))
               for where, _, names in os.walk(server.state) for name in names)
    measure("%d opens, then %#x; %d KiB of state", count, status, size // 1024)
    require(status != SUCCESS, "%d persistent opens are granted", count)
    require(size < 64 * MIB, "the journal has %d MiB", size // MIB)
    serves(victim, file, "persistent opens")
    admits(server, "persistent opens")


@attack("Takes a persistent open as an ordinary user, so that the server, killed, is to restore it as that user")
def killed_server_with_users_open_starts_again():
    server = Server({"data": "continuously_available = true"})
    server.put("file", "data", mode=0o666)
    server.put("own", "", ATTACKER)
    smb = HostileSmb.of(server, "attacker")
    contexts = [lease(os.urandom(16)), durable(os.urandom(16), is_persistent=True)]
    status, _ = smb.open("own", READS_AND_WRITES, contexts=contexts, oplock=0xFF)
    require(status == SUCCESS and b"DH2Q" in smb.created, "no persistent open is granted: %#x", status)
    server.kill()
    try:
        server.start()
    except OSError:
        require(False, "the server does not start again")
    admits(server, "a restart")


@attack("Locks and closes persistent opens 60 times with 1,200 ranges each, so that the journal grows")
def journal_of_persistent_opens_does_not_grow():
    server = Server({"data": "continuously_available = true"})
    victim, file = settled(server)
    smb = HostileSmb.of(server, "attacker")
    smb.take_credits(4)
    for number in range(60):
        contexts = [lease(os.urandom(16)), durable(os.urandom(16), is_persistent=True)]
        status, held = smb.open("journal%d" % (number % 20), READS_AND_WRITES, OPENED_OR_CREATED, contexts=contexts,
                                oplock=0xFF)
        require(status == SUCCESS, "open %d: %#x", number, status)
        for i in range(20):
            smb.lock(held, *((j * 20 + i, 1, EXCLUSIVE | AT_ONCE) for j in range(60)))
        smb.close(held)
    size = sum(os.path.getsize(os.path.join(where, name))
               for where, _, names in os.walk(server.state) for name in names)
    measure("%d KiB of state", size // 1024)
    require(size < 32 * MIB, "the state has %d MiB after everything was closed", size // MIB)
    serves(victim, file, "the journal")


@attack("Reconnects to opens that nobody has, beside 10,000 opens of the same user: does each look at all?")
def reconnects_to_nothing_do_not_search_all_opens():
    server = Server()
    settled(server)
    smb, other = HostileSmb.of(server, "attacker"), HostileSmb.of(server, "attacker")
    for one in (smb, other):
        one.take_credits()

    def reconnect(start):
        before = server.cpu_ticks()
        for at in range(0, 1000, 100):
            bodies = [create_body("file", 0x80, contexts=[(b"DHnC", struct.pack("<QQ", (1 << 40) + start + at + i, 0))],
                                  oplock=9) for i in range(100)]
            for body in [other.post(CREATE, body) for body in bodies]:
                require(other.reply(body).status != SUCCESS, "an open is found")
        return server.cpu_ticks() - before

    alone = reconnect(0)
    count, _ = open_until_refused(smb, 10000, lambda _: create_body("file", 0x80), 100)
    beside = reconnect(5000)
    measure("%d and %d ticks for 1,000, with %d opens", alone, beside, count)
    # A linear search of 10,000 opens would cost a hundred times as much.
    require(beside < 10 * alone + 200, "beside %d opens they cost %d ticks, without them %d", count, beside, alone)


@attack("Sends descriptors, attribute lists, contexts, paths, patterns and chains of great length")
def great_lengths_are_withstood():
    server = Server()
    victim, file = settled(server)
    smb = HostileSmb.of(server, "attacker")
    smb.take_credits()
    _, own = smb.open("own", EVERYTHING, CREATED)
    for count in (100, 1000, 2500):
        entries = [(0, 0, READS, sid(22, 1, 100000 + i)) for i in range(count)]
        smb.set(own, 3, 0, descriptor(entries=entries), 4)
        smb.open("own")
    lies = struct.pack("<BBHIIII", 1, 0, 0x8004, 0, 0, 0, 20) + struct.pack("<BBHHH", 2, 0, 8, 65535, 0)
    require(smb.set(own, 3, 0, lies, 4) != SUCCESS, "a list with fewer entries than it says is taken")
    tiny = b"".join(struct.pack("<IBBH", 16 if i < 3999 else 0, 0, 5, 1) + b"e%04d\0x\0" % i for i in range(4000))
    smb.set(own, 1, 15, tiny)
    for i in range(300):
        smb.open("own:stream%d" % i, 2, CREATED)
    smb.status(CREATE, create_body("own", READS, contexts=[(b"XxXx", b"")] * 2700))
    for name in ("x" * 32000, "a\\" * 15000 + "b"):
        require(smb.open(name, 0x80)[0] != SUCCESS, "a name of %d units is opened", len(name))
    smb.open("a\\..\\" * 5000 + "own", 0x80)
    for i in range(300):
        server.put("a" * 240 + "%03d" % i, "")
    for pattern in ("*a" * 120 + "*b", "<a" * 120 + "<b"):
        _, directory = smb.open("", 0x100081, options=DIRECTORY)
        smb.listed(directory, pattern)
        smb.close(directory)
    smb.chain(*((CREATE, create_body("own", READS), 0, smb.session, smb.tree) for _ in range(64)))
    check_flood(server, victim, file, "great lengths")


@attack("Makes directories 1,000 deep")
def deep_directories_are_withstood():
    server = Server()
    victim, file = settled(server)
    smb = HostileSmb.of(server, "attacker")
    path = ""
    for depth in range(1000):
        deeper = path + ("\\" if path else "") + "d"
        status, directory = smb.open(deeper, 0x81, CREATED, DIRECTORY)
        if status != SUCCESS:
            break
        smb.close(directory)
        path = deeper
    measure("%d levels", depth)
    check_flood(server, victim, file, "deep directories")


@attack("Lists a directory of 20,000 names in 40 sessions at once")
def listings_by_many_sessions_are_withstood():
    server = Server()
    victim, file = settled(server)
    os.mkdir(server.path("many"))
    for i in range(20000):
        os.mknod(server.path("many/%06d_abcdefghijklmnop" % i))
    listers = []
    for _ in range(40):
        smb = HostileSmb.of(server, "attacker")
        smb.take_credits(2)
        _, directory = smb.open("many", 0x100081, options=DIRECTORY)
        listers.append((smb, directory))
    pattern = utf16("*")
    for _ in range(20):
        for smb, directory in listers:
            head = struct.pack("<HBBI", 33, 37, 0, 0) + directory
            smb.post(14, head + struct.pack("<HHI", 96, len(pattern), 65536) + pattern)
    check_flood(server, victim, file, "listings")


def copy_ahead(server, smb, number):
    """Sends 1,000 server-side copies of 16 MiB each without waiting for replies. MS-SMB2 2.2.31.1.1."""
    smb.take_credits(3)
    _, source = smb.open("source")
    _, target = smb.open("target%d" % number, READS_AND_WRITES, OPENED_OR_CREATED)
    status, key = smb.control(source, 0x140078, length=64)
    require(status == SUCCESS, "the source has no key: %#x", status)
    chunks = b"".join(struct.pack("<QQII", 0, 0, MIB, 0) for _ in range(16))
    data = key[:24] + struct.pack("<II", 16, 0) + chunks
    head = struct.pack("<HHI", 57, 0, 0x1480F2) + target
    body = head + struct.pack("<8I", 120, len(data), 0, 0, 0, 64, 1, 0) + data
    with contextlib.suppress(OSError):
        smb.socket.settimeout(2)
        smb.send(*(smb.message(IOCTL, body) for _ in range(1000)))


@attack("Sends 1,000 server-side copies on each of 70 connections: do others' flushes and stable changes wait for them?")
def copies_of_one_user_hold_up_no_others():
    stable = 'smb_stable = "always"' if "smb_stable" in Place.keys else ""
    server = Server({"data": "", "stable": stable})
    server.put("source", "x" * MIB, mode=0o666)
    victim = HostileSmb.of(server, "victim", source=ELSEWHERE)
    _, file = victim.open("file", READS_AND_WRITES, CREATED)
    changer = HostileSmb.of(server, "victim", "stable", source=ELSEWHERE)
    # The attacker also requests stable changes, so that those of others may wait in one batch with them.
    attacker = HostileSmb.of(server, "attacker", "stable")
    longest = 0

    def serve(number):
        nonlocal longest
        attacker.post(CREATE, create_body("own%d" % number, READS_AND_WRITES, CREATED))
        began = time.monotonic()
        status = victim.status(FLUSH, struct.pack("<HHI", 24, 0, 0) + file)
        require(status == SUCCESS, "after %d connections with copies a flush gets %#x", number, status)
        status = changer.open("new%d" % number, READS_AND_WRITES, CREATED)[0]
        require(status == SUCCESS, "after %d connections with copies a stable create gets %#x", number, status)
        longest = max(longest, time.monotonic() - began)

    copiers = []
    for number in range(70):
        smb = HostileSmb.of(server, "attacker")
        copiers.append(smb)
        copy_ahead(server, smb, number)
        if number % 10 == 9:
            serve(number)
    measure("both take %.2f s at most", longest)
    require(longest < COPIES_DELAY_MAX, "a flush and a stable create take %.1f s", longest)


@attack("Renames a directory 10 times behind 1,000 server-side copies on each of 10 connections: do others' renames wait?")
def rename_behind_copies_holds_up_no_others():
    server = Server()
    server.put("source", "x" * MIB, mode=0o666)
    victim = HostileSmb.of(server, "victim", source=ELSEWHERE)
    _, file = victim.open("file", EVERYTHING, CREATED)
    attacker = HostileSmb.of(server, "attacker")
    _, directory = attacker.open("directory", EVERYTHING, CREATED, DIRECTORY)
    copiers = []
    # At most the queue limit of one user, beyond which the server refuses the rename at once.
    for number in range(10):
        copiers.append(HostileSmb.of(server, "attacker"))
        copy_ahead(server, copiers[-1], number)
    for number in range(10):
        name = utf16("moved%d" % number)
        head = struct.pack("<HBBIHHI", 33, 1, 10, 20 + len(name), 96, 0, 0) + directory
        attacker.post(SET, head + struct.pack("<B7xQI", 0, 0, len(name)) + name)
    # Delay until the server has received these requests.
    attacker.request(ECHO, b"\4\0\0\0")
    began = time.monotonic()
    status = victim.rename(file, "renamed")
    took = time.monotonic() - began
    measure("%.2f s", took)
    require(status == SUCCESS, "a rename gets %#x", status)
    require(took < COPIES_DELAY_MAX, "a rename takes %.1f s", took)


def send_at_once(smb, messages):
    smb.socket.settimeout(60)
    with contextlib.suppress(OSError):
        smb.send(*messages)


@attack("Sends 400 access lists, or 400 queries for ranges, on each of 10 connections: is anybody else served meanwhile?")
def costly_requests_of_one_user_hold_up_no_others():
    server = Server()
    with open(server.path("sparse"), "wb") as file:
        for at in range(3000):
            file.seek(at * 8192)
            file.write(b"x")
    os.chmod(server.path("sparse"), 0o666)
    wide = descriptor(entries=[(0, 0, READS, sid(22, 1, 70000 + number)) for number in range(300)])
    smb = HostileSmb.of(server, "attacker")
    _, file = smb.open("sparse", READS_AND_WRITES)
    require(smb.control(file, 0x900C4)[0] == SUCCESS, "the file is not made sparse")

    def set_list(smb, number):
        _, file = smb.open("own%d" % number, EVERYTHING, CREATED)
        return SET, struct.pack("<HBBIHHI", 33, 3, 0, len(wide), 96, 0, 4) + file + wide

    def query_ranges(smb, _):
        _, file = smb.open("sparse", READS)
        head = struct.pack("<HHI", 57, 0, 0x940CF) + file + struct.pack("<8I", 120, 16, 0, 0, 0, 65536, 1, 0)
        return IOCTL, head + struct.pack("<QQ", 0, 1 << 40)

    # One on each thread of the server.
    victims = [HostileSmb.of(server, "victim", source=ELSEWHERE) for _ in range(4)]
    longest = 0
    for what, ask, count in (("lists", set_list, 400), ("ranges", query_ranges, 400)):
        connections, senders = [HostileSmb.of(server, "attacker") for _ in range(10)], []
        for number, smb in enumerate(connections):
            smb.take_credits(3)
            command, body = ask(smb, number)
            sent = [smb.message(command, body) for _ in range(count)]
            senders.append(threading.Thread(target=send_at_once, args=(smb, sent), daemon=True))
        for sender in senders:
            sender.start()
        number, last = 0, 20
        while number < last:
            began = time.monotonic()
            status = victims[number % 4].open("new-%s%d" % (what, number), READS_AND_WRITES, CREATED)[0]
            longest = max(longest, time.monotonic() - began)
            require(status == SUCCESS, "beside %s a create gets %#x", what, status)
            require(longest < COSTLY_DELAY_MAX, "beside %s a create takes %.1f s", what, longest)
            number += 1
            if any(sender.is_alive() for sender in senders):
                last = number + 20
    measure("a create takes %.2f s at most", longest)
