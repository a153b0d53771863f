"""Attacks on memory: replies that no client reads, and requests that are never completed."""

import os
import selectors
import socket
import struct

from attack_server import ATTACKER, MIB, VICTIM, Place, Server, attack, measure, require
from attacks_tls import server_with_tls, under_tls
from hostile_nfs import READDIR, HostileNfs, read
from hostile_smb import CREATED, DIRECTORY, LIST, NOTIFY, READS_AND_WRITES, SUCCESS, HostileSmb, notify_body, read_body
from raw_nfs import ANONYMOUS, NfsStatus, attributes, long, opaque, put, words
from raw_smb import CREATE, PENDING, READ, SETUP, create_body

GIB = 1 << 30
CONNECTIONS = 100
READ_MAX = 8 * MIB
FILE_BYTES = 256 * MIB
LISTED = 8000


def put_big(server):
    """Creates a file that is not in the page cache until it is read."""
    path = server.path("big")
    block = os.urandom(MIB)
    with open(path, "wb") as file:
        for _ in range(FILE_BYTES // MIB):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(path, 0o644)
    server.put("small", "small", mode=0o644)
    return path


def warm(path, is_cold):
    with open(path, "rb") as file:
        if is_cold:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        else:
            while file.read(MIB):
                pass


def check_memory(server, what):
    peak = server.memory_peak() if server.is_alive() else 0
    require(server.is_alive(), "%s: the server has taken more than 3 GiB", what)
    require(peak < GIB, "%s: the server has taken %d MiB", what, peak // MIB)
    return peak


def check_bystander(server):
    """Another user can log on and read during the attack."""
    measure("peak %d MiB", server.memory_peak() // MIB)
    smb = HostileSmb.of(server, "bystander", source="127.0.0.9")
    status, file = smb.open("small")
    require(status == SUCCESS and smb.data(file)[1] == b"small", "nobody else can read")


def take_no_answers(socket_):
    socket_.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


def hoard_smb(server, path, is_cold, is_spread=False, is_sealing=False):
    """Runs the attack by one user from one address, or by two users with a new address for each connection."""
    warm(path, is_cold)
    connections = []
    for number in range(CONNECTIONS):
        user = "victim" if is_spread and number % 2 else "attacker"
        source = "127.0.2.%d" % (number + 1) if is_spread else None
        smb = HostileSmb.of(server, user, source=source, is_sealing=is_sealing)
        take_no_answers(smb.socket)
        smb.take_credits(24)
        _, file = smb.open("big")
        if is_cold:
            warm(path, is_cold)
        messages = [smb.message(READ, read_body(file, READ_MAX, i * READ_MAX % FILE_BYTES), charge=128,
                                is_signed=not is_sealing)
                    for i in range(number % 2, 48 if number < 8 else 12)]
        if is_sealing:
            messages = [smb.sealed(one) for one in messages]
        smb.send(*messages)
        connections.append(smb)
        check_memory(server, "after %d connections" % len(connections))
    server.settle()
    check_memory(server, "%d connections over SMB" % CONNECTIONS)
    check_bystander(server)
    return connections


@attack("Reads 8 MiB many times on each of 100 SMB connections and takes no answer, of data in the cache")
def answers_not_taken_over_smb_stay_under_one_gib():
    server = Server()
    path = put_big(server)
    server.bound_memory()
    hoard_smb(server, path, False)


@attack("The same of data that is not in the cache")
def cold_answers_not_taken_over_smb_stay_under_one_gib():
    server = Server()
    path = put_big(server)
    server.bound_memory()
    hoard_smb(server, path, True)


def sent_ahead(nfs, sessions, operations):
    """Requests for each slot except the first of further sessions: SEQUENCE and these operations."""
    requests = b""
    for turn in range(sessions):
        require(nfs.make_session(slots=64) == 0, "there is no session")
        if turn == 0:
            nfs.compound(words(58, 0))
        for slot in range(1, 64):
            behind = operations(turn, slot)
            nfs.xid += 1
            message = words(nfs.xid, 0, 2, 100003, 4, 1) + nfs.credential + words(0, 0) + opaque(b"")
            message += words(2, 1 + len(behind)) + words(53) + nfs.session + words(1, slot, 63, 0) + b"".join(behind)
            requests += words(0x80000000 | len(message)) + message
    return requests


def hoard_nfs(server, path, is_cold, connect):
    """Runs the attack on connections; `connect` returns one by its number."""
    warm(path, is_cold)
    connections, chunks = [], FILE_BYTES // MIB
    for number in range(CONNECTIONS):
        nfs = connect(number)
        take_no_answers(nfs.socket)
        require(nfs.exchange(os.urandom(8)) == 0, "connection %d is no client", number)
        handles = []

        def reads(turn, slot):
            if not handles:
                handles.append(nfs.find("data", "big"))
            offset = (number * 251 + turn * 63 + slot) % chunks * MIB
            return [put(handles[0]), read(ANONYMOUS, offset, MIB)]

        requests = sent_ahead(nfs, 4, reads)
        if is_cold:
            # Earlier connections have read the file.
            warm(path, is_cold)
        nfs.socket.sendall(requests)
        connections.append(nfs)
        check_memory(server, "after %d connections" % len(connections))
    server.settle()
    check_memory(server, "%d connections over NFS" % CONNECTIONS)
    check_bystander(server)
    return connections


@attack("Reads 252 MiB on each of 100 NFS connections by 4 sessions and takes no answer, of data in the cache")
def answers_not_taken_over_nfs_stay_under_one_gib():
    server = Server()
    path = put_big(server)
    server.bound_memory()
    hoard_nfs(server, path, False, lambda _: HostileNfs(server, ATTACKER, ATTACKER))


@attack("Reads as much on each of 100 NFS connections and takes no answer, of data that is not in the cache")
def cold_answers_not_taken_over_nfs_stay_under_one_gib():
    server = Server()
    path = put_big(server)
    server.bound_memory()
    hoard_nfs(server, path, True, lambda _: HostileNfs(server, ATTACKER, ATTACKER))


@attack("Reads as much within sealed requests, so that each answer is sealed, and takes none")
def sealed_answers_not_taken_stay_under_one_gib():
    server = Server()
    path = put_big(server)
    server.bound_memory()
    hoard_smb(server, path, False, is_sealing=True)


@attack("Takes no answers of data that is not in the cache on 100 SMB connections of two users and 100 addresses")
def answers_not_taken_by_many_over_smb_stay_under_one_gib():
    server = Server()
    path = put_big(server)
    server.bound_memory()
    hoard_smb(server, path, True, is_spread=True)


@attack("Takes no answers of data that is not in the cache on 100 NFS connections of 100 addresses")
def answers_not_taken_by_many_over_nfs_stay_under_one_gib():
    server = Server(head="reserved_ports = false" if "reserved_ports" in Place.keys else "")
    path = put_big(server)
    server.bound_memory()

    def connect(number):
        return HostileNfs(server, ATTACKER, ATTACKER, source="127.0.2.%d" % (number + 1))

    hoard_nfs(server, path, True, connect)


def put_names(server):
    """A directory whose listing has about 2 MiB over either protocol."""
    os.mkdir(server.path("many"), 0o755)
    for i in range(LISTED):
        os.mknod(server.path("many/%06d_%s" % (i, "x" * 60)), 0o644)
    server.put("small", "small", mode=0o644)


@attack("Lists 8,000 names from the start many times on each of 100 SMB connections, and takes no answer")
def listings_not_taken_over_smb_stay_under_one_gib():
    server = Server()
    put_names(server)
    server.bound_memory()
    connections = []
    for number in range(CONNECTIONS):
        smb = HostileSmb.of(server, "victim" if number % 2 else "attacker", source="127.0.2.%d" % (number + 1))
        take_no_answers(smb.socket)
        smb.take_credits(24)
        _, directory = smb.open("many", 0x100081, options=DIRECTORY)
        # FileIdBothDirectoryInformation, from the start, 1 MiB.
        body = struct.pack("<HBBI", 33, 37, 1, 0) + directory + struct.pack("<HHI", 96, 2, MIB) + b"*\0"
        smb.send(*(smb.message(LIST, body, charge=16) for _ in range(200)))
        connections.append(smb)
        check_memory(server, "after %d connections" % len(connections))
    server.settle()
    check_memory(server, "%d connections over SMB" % CONNECTIONS)
    check_bystander(server)


@attack("Lists 8,000 names with attributes and handles many times on each of 100 NFS connections, and takes no answer")
def listings_not_taken_over_nfs_stay_under_one_gib():
    server = Server(head="reserved_ports = false" if "reserved_ports" in Place.keys else "")
    put_names(server)
    server.bound_memory()
    connections = []
    # Type, size, handle, mode, owner and group: RFC 8881 18.23.
    body = list_all(1 << 1 | 1 << 4 | 1 << 19, 1 << 1 | 1 << 4 | 1 << 5)
    for number in range(CONNECTIONS):
        nfs = HostileNfs(server, ATTACKER, ATTACKER, source="127.0.2.%d" % (number + 1))
        take_no_answers(nfs.socket)
        nfs.mount()
        folder = nfs.find("data", "many")
        nfs.socket.sendall(sent_ahead(nfs, 4, lambda _turn, _slot, at=folder: [put(at), body]))
        connections.append(nfs)
        check_memory(server, "after %d connections" % len(connections))
    server.settle()
    check_memory(server, "%d connections over NFS" % CONNECTIONS)
    check_bystander(server)


def list_all(*attributes):
    """READDIR from the start with the maximum size of a reply."""
    return words(READDIR) + bytes(16) + words(MIB, MIB) + words(len(attributes), *attributes)


@attack("Lists 8,000 names with their access lists on each slot of 4 NFS connections: is anybody else served?")
def listings_with_access_lists_leave_room_for_others():
    server = Server(head="reserved_ports = false" if "reserved_ports" in Place.keys else "")
    put_names(server)
    server.bound_memory()
    early, connections = HostileNfs.mounted(server, VICTIM, source="127.0.0.9"), []
    try:
        for number in range(4):
            nfs = HostileNfs.mounted(server, ATTACKER, source="127.0.2.%d" % (number + 1))
            folder = nfs.find("data", "many")
            # FATTR4_ACL. The server opens each file to read its list.
            nfs.socket.sendall(sent_ahead(nfs, 4, lambda _turn, _slot, at=folder: [put(at), list_all(1 << 12)]))
            connections.append(nfs)
        status, reply = early.compound(put(early.find("data", "small")), read(ANONYMOUS, 0, 5))
        require(status == 0 and b"small" in reply, "a client from before reads nothing: %s", status)
        check_bystander(server)
    except TimeoutError:
        require(False, "beside %d connections nobody is served for 15 s", len(connections))


@attack("Takes no answers on 100 NFS connections under TLS, of data in the cache")
def answers_not_taken_under_tls_stay_under_one_gib():
    server, folder = server_with_tls()
    path = put_big(server)
    server.bound_memory()
    hoard_nfs(server, path, False, lambda _: under_tls(server, folder, "client"))


def push(connections, count):
    """Sends that many bytes on each connection, as far as the server accepts them; returns their number."""
    selector, taken, block = selectors.DefaultSelector(), 0, bytes(256 << 10)
    for one in connections:
        one.setblocking(False)
        selector.register(one, selectors.EVENT_WRITE, count)
    while selector.get_map():
        ready = selector.select(2)
        if not ready:
            break
        for key, _ in ready:
            try:
                sent = key.fileobj.send(block[:min(len(block), key.data)])
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(key.fileobj)
                continue
            taken += sent
            if key.data == sent:
                selector.unregister(key.fileobj)
            else:
                selector.modify(key.fileobj, selectors.EVENT_WRITE, key.data - sent)
    selector.close()
    return taken


@attack("Sends 7.9 of 8 MiB of a request on each of 400 connections of one user, and waits")
def requests_half_sent_over_smb_stay_under_one_gib():
    server = Server()
    server.put("small", "small", mode=0o644)
    server.bound_memory()
    connections = []
    for _ in range(400):
        try:
            smb = HostileSmb.of(server, "attacker")
            smb.send_prefix(READ_MAX + 200)
        except (OSError, EOFError):
            break
        connections.append(smb)
    measure("%d connections", len(connections))
    require(len(connections) > 100, "only %d connections are to be had", len(connections))
    for part in (MIB, 3 * MIB, 3 * MIB, 9 * MIB // 10):
        push([smb.socket for smb in connections], part)
        check_memory(server, "%d connections" % len(connections))
    check_bystander(server)


@attack("Sends records of 1 MiB over NFS that lack their end, on 300 connections, and waits")
def requests_half_sent_over_nfs_stay_under_one_gib():
    server = Server()
    server.put("small", "small", mode=0o644)
    server.bound_memory()
    connections = []
    for i in range(300):
        try:
            nfs = HostileNfs.mounted(server, ATTACKER, source="127.0.0.%d" % (10 + i % 4), is_reserved=True)
            nfs.socket.sendall(words(0x80000000 | MIB))
        except (OSError, EOFError):
            break
        connections.append(nfs.socket)
        check_memory(server, "%d connections" % len(connections))
    measure("%d connections", len(connections))
    require(len(connections) > 50, "only %d connections are to be had", len(connections))
    push(connections, MIB - 1000)
    check_memory(server, "%d connections" % len(connections))
    check_bystander(server)


@attack("Begins 63 logons on each of 400 connections, and ends none")
def logons_half_done_stay_under_one_gib():
    server = Server()
    server.put("small", "small", mode=0o644)
    server.bound_memory()
    token = b"NTLMSSP\0" + struct.pack("<II", 1, 0xE2088297) + b"\0" * 1000
    connections, before = [], server.memory()
    for i in range(400):
        try:
            smb = HostileSmb(server, source="127.0.0.%d" % (20 + i % 3))
            body = struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 88, len(token), 0) + token
            smb.request(SETUP, body, credits=100)
            smb.send(*(smb.message(SETUP, body, credits=2) for _ in range(63)))
        except (OSError, EOFError):
            continue
        connections.append(smb)
    server.settle()
    require(server.memory() - before < GIB // 4, "the logons hold %d MiB", (server.memory() - before) // MIB)
    check_bystander(server)


@attack("Makes 30,000 calls on each of 400 named pipes by one connection, and reads no answer")
def pipe_answers_not_read_are_bounded():
    server = Server()
    server.put("small", "small", mode=0o644)
    server.bound_memory()
    smb = HostileSmb.of(server, "attacker", share="IPC$")
    # Of an unknown RPC operation: each gets a fault of 32 bytes.
    calls = 2500 * struct.pack("<BBBB4sHHIIHH", 5, 0, 0, 3, b"\x10\0\0\0", 24, 0, 1, 0, 0, 200)
    pipes, refusals = 0, 0
    while pipes < 400 and refusals < 20:
        status, pipe = smb.open("srvsvc", READS_AND_WRITES)
        require(status == SUCCESS, "the pipe %d is refused: %#x", pipes, status)
        pipes += 1
        for _ in range(12):
            status = smb.write(pipe, calls)
            if status:
                refusals += 1
                break
        require(server.memory_peak() < GIB // 4, "%d pipes take %d MiB", pipes, server.memory_peak() // MIB)
    measure("%d pipes, %d of them refused with %#x", pipes, refusals, status)
    check_bystander(server)
    victim = HostileSmb.of(server, "victim", share="IPC$", source="127.0.0.9")
    status, pipe = victim.open("srvsvc", READS_AND_WRITES)
    status = status or victim.write(pipe, calls)
    require(status == SUCCESS, "another user's pipe is refused: %#x", status)


WATCHED_LEVELS, WATCHES_EACH = 8, 250


@attack("Watches 8 directories above a file by 250 handles each, and asks for none of 2,000 changes of its name")
def changes_not_asked_for_are_bounded():
    server = Server()
    server.put("small", "small", mode=0o644)
    levels = ["/".join(["d"] * (level + 1)) for level in range(WATCHED_LEVELS)]
    for level in levels:
        os.mkdir(server.path(level))
        os.chmod(server.path(level), 0o777)
    server.bound_memory()
    connections, watches = [], 0
    for level in levels:
        smb = HostileSmb.of(server, "attacker")
        smb.take_credits()
        body = create_body(level.replace("/", "\\"), 0x100081, options=DIRECTORY)
        opened = [smb.reply(one) for one in [smb.post(CREATE, body) for _ in range(WATCHES_EACH)]]
        directories = [one.raw[128:144] for one in opened if one.status == SUCCESS]
        # WATCH_TREE. The first change completes the request; the server buffers the others for the next one.
        tail = struct.pack("<II", 0x17F, 0)
        smb.send(*(smb.message(NOTIFY, struct.pack("<HHI", 32, 1, 65536) + one + tail) for one in directories))
        connections.append(smb)
        watches += len(directories)
    changer = HostileSmb.of(server, "attacker")
    name = levels[-1].replace("/", "\\")
    status, file = changer.open(name + "\\a", READS_AND_WRITES | 0x10000, CREATED)
    require(status == SUCCESS, "the file is not created: %#x", status)
    for i in range(2000):
        changer.rename(file, name + ("\\a" if i % 2 else "\\b"))
        if i % 100 == 0:
            peak = server.memory_peak()
            require(peak < GIB // 4, "%d changes for %d handles take %d MiB", i, watches, peak // MIB)
    measure("%d handles", watches)
    check_bystander(server)
    victim = HostileSmb.of(server, "victim", source="127.0.0.9")
    _, root = victim.open("", 0x100081, options=DIRECTORY)
    waits = victim.post(NOTIFY, notify_body(root))
    status = victim.reply(waits, is_interim=True).status
    require(status == PENDING, "another user's watch is refused: %#x", status)


def lock_compound(nfs, state, file, numbers):
    """LOCKs of one byte each by lock-owners of 1,024 bytes. RFC 8881 18.10."""
    operations = [put(file)]
    for number in numbers:
        owner = nfs.client + opaque(struct.pack(">Q", number) + b"O" * 1016)
        operations.append(words(12, 2, 0) + long(2 * number) + long(1) + words(1, 0) + state + words(0) + owner)
    return nfs.compound(*operations)[0]


@attack("Locks 8,000 ranges by as many lock-owners of 1,024 bytes on each of 12 NFS clients of 4 addresses")
def lock_owners_are_bounded():
    server = Server(head="reserved_ports = false" if "reserved_ports" in Place.keys else "")
    server.put("small", "small", mode=0o644)
    os.chmod(server.root(), 0o777)
    server.bound_memory()
    connections, owners, refusals = [], 0, 0
    for number in range(12):
        nfs = HostileNfs(server, ATTACKER, ATTACKER, source="127.0.2.%d" % (number % 4 + 1))
        nfs.mount()
        connections.append(nfs)
        root = nfs.find("data")
        try:
            state, file = nfs.open(root, "locked%d" % number, 3, attributes((33, words(0o600))))
        except NfsStatus:
            # The address also gets no memory for an open.
            refusals += 1
            continue
        for first in range(0, 8000, 50):
            status = lock_compound(nfs, state, file, range(first, first + 50))
            if status:
                refusals += 1
                break
            owners += 50
        require(server.memory_peak() < GIB // 4, "%d owners take %d MiB", owners, server.memory_peak() // MIB)
    measure("%d lock-owners, %d of 12 clients refused", owners, refusals)
    check_bystander(server)
