"""Attacks on identities: guessed passwords; sessions, trees, opens and client records of other users;
tokens of the admin API. MS-SMB2 3.3.5.2, 3.3.5.9; RFC 8881 18.35."""

import contextlib
import json
import os
import select
import socket
import struct
import threading
import time

from attack_server import ATTACKER, VICTIM, Server, attack, measure, mode_of, require
from hostile_nfs import DESTROY_CLIENTID, DESTROY_SESSION, HostileNfs, lookup, read
from hostile_smb import (
    ALL_ONES, CREATED, ECHO, LOGOFF, OPENED_OR_CREATED, READS, READS_AND_WRITES, RELATED, SUCCESS, TREE_DISCONNECT,
    HostileSmb, durable, lease, read_body, setup_body,
)
from raw_nfs import ANONYMOUS, NfsStatus, put, words
from raw_smb import CLOSE, CREATE, NEGOTIATE, READ, SETUP, Refused, create_body

GUESSES = 60
GUESSED_FROM = "127.0.0.8"
LOGON_FAILURE = 0xC000006D


def judged(smb, ids, began):
    """Requires that the server judges few of these guesses: ten at once, then one per second."""
    count, seconds, left = 0, 0, set(ids)
    # Replies that are ready arrive at once. The test does not wait for queued guesses.
    while left and (smb.seen or select.select([smb.socket], [], [], 3)[0]):
        try:
            reply = smb.next_reply()
        except (EOFError, ConnectionError):
            break
        if reply.id in left and not reply.is_interim:
            left.remove(reply.id)
            if reply.status in (SUCCESS, LOGON_FAILURE):
                count, seconds = count + 1, time.monotonic() - began
    measure("%d judged in %.1f s", count, seconds)
    require(count <= 10 + seconds, "%d guesses are judged in %.1f s", count, seconds)


@attack("Sends 60 wrong passwords and the right one ahead on one connection: how many are judged?")
def guesses_sent_ahead_are_judged_late():
    server = Server()
    smb, ids, began = HostileSmb(server), [], time.monotonic()
    with contextlib.suppress(Refused, EOFError, ConnectionError):
        for i in range(GUESSES):
            ids.append(smb.guess("wrong%d" % i))
        ids.append(smb.guess("password"))
    judged(smb, ids, began)


@attack("Logs on to an own account between guesses, so that the count of wrong passwords begins anew")
def own_success_between_guesses_resets_nothing():
    server = Server()
    smb, ids, began = HostileSmb(server), [], time.monotonic()
    for turn in range(6):
        with contextlib.suppress(Refused, EOFError, ConnectionError):
            for i in range(GUESSES // 6):
                ids.append(smb.guess("wrong%d.%d" % (turn, i)))
        with contextlib.suppress(Refused, EOFError, OSError):
            HostileSmb(server).log_on("attacker", "password")
    judged(smb, ids, began)


@contextlib.contextmanager
def guessing(server, users, source, connections):
    """Guesses from one address on that many connections at once, with a new connection for each guess."""
    is_over = threading.Event()

    def guess(number):
        while not is_over.is_set():
            with contextlib.suppress(OSError, EOFError, Refused):
                smb = HostileSmb(server, source)
                try:
                    smb.reply(smb.guess("wrong", users(number)))
                finally:
                    smb.close_connection()

    threads = [threading.Thread(target=guess, args=(i,), daemon=True) for i in range(connections)]
    for thread in threads:
        thread.start()
    # After this time the first guesses, which the server judges at once, are over, and all others wait.
    time.sleep(5)
    try:
        yield
    finally:
        is_over.set()


def logs_on_beside_guesses(users, source, connections=10):
    """The victim, who has no usual network yet, logs on at the first attempt beside guesses from GUESSED_FROM."""
    server = Server()
    with guessing(server, users, GUESSED_FROM, connections):
        for _ in range(3):
            began = time.monotonic()
            try:
                smb = HostileSmb(server, source)
                smb.socket.settimeout(20)
                smb.log_on("victim", "password")
                smb.close_connection()
            except (Refused, EOFError, OSError) as error:
                require(False, "the right password is refused after %.1f s: %r", time.monotonic() - began, error)
            measure("%.1f s", time.monotonic() - began)


@attack("Guesses at an account from its owner's address, which the account is new to, on 10 connections at once")
def guesses_from_own_address_leave_owner_in():
    logs_on_beside_guesses(lambda _: "victim", GUESSED_FROM)


@attack("Guesses at an account from another address, on 80 connections at once")
def guesses_from_elsewhere_leave_owner_in():
    logs_on_beside_guesses(lambda _: "victim", "127.0.0.7", 80)


@attack("Guesses at another account from the same address, on 80 connections at once")
def guesses_at_one_account_leave_others_in():
    logs_on_beside_guesses(lambda _: "bystander", GUESSED_FROM, 80)


@attack("Guesses at many accounts from the same address, on 10 connections at once")
def guesses_at_many_accounts_leave_others_in():
    logs_on_beside_guesses(lambda number: "user%d" % number, GUESSED_FROM)


@attack("Renews a session as another user, who may not have the share that it is connected to")
def renewed_session_loses_what_its_user_may_not_have():
    server = Server({"data": 'users = ["attacker"]', "other": ""}, 'guest = "attack-guest"')
    server.put("own", uid=ATTACKER, mode=0o600)
    server.put("secret", "SECRET")
    smb = HostileSmb.of(server, "attacker")
    smb.open("own")
    status = smb.log_on_again("victim", "password")
    # A refused reauthentication leaves the session to the attacker, who then must own the new file.
    smb.open("victim", READS_AND_WRITES, OPENED_OR_CREATED)
    path = server.path("victim")
    require(not os.path.exists(path) or os.lstat(path).st_uid == ATTACKER,
            "a user whom the share is not for has made a file: %s", mode_of(path) if os.path.exists(path) else "")
    if status == SUCCESS:
        require(smb.open("secret")[0] != SUCCESS, "a user whom the share is not for reads")


@attack("Uses the session, tree and open ids of another's session, signed with an own key or not at all")
def ids_of_another_session_open_nothing():
    server = Server({"data": "", "theirs": 'users = ["victim"]'})
    server.put("secret", "SECRET", VICTIM, 0o600, share="theirs")
    server.put("file", mode=0o666)
    victim = HostileSmb.of(server, "victim", "theirs")
    _, file = victim.open("secret")
    smb = HostileSmb.of(server, "attacker")
    require(smb.connected("theirs") != SUCCESS, "the share is connected to")
    body = create_body("secret", READS)
    for tree in (0, 1, 2, 3, victim.tree, 0xFFFFFFFF):
        if tree != smb.tree:
            require(smb.status(CREATE, body, tree=tree) != SUCCESS, "tree %#x opens it", tree)
    require(smb.data(file)[0] != SUCCESS, "the open of another session reads")
    _, key = victim.control(file, 0x140078, length=32)
    _, target = smb.open("copy", READS_AND_WRITES, CREATED)
    copied = smb.control(target, 0x1440F2, key[:24] + struct.pack("<IIQQII", 1, 0, 0, 0, 6, 0), 12)[0]
    require(copied != SUCCESS, "the key of another session's file copies it")
    for connection, is_signed in ((smb, True), (HostileSmb(server), False)):
        try:
            status = connection.status(READ, read_body(file, 20), session=victim.session, tree=victim.tree,
                                       is_signed=is_signed)
        except (EOFError, ConnectionError):
            continue
        require(status != SUCCESS, "another's session id reads")


@attack("Binds a connection to another's session without its key")
def session_of_another_is_not_bound():
    server = Server()
    victim, smb = HostileSmb.of(server, "victim"), HostileSmb.of(server, "attacker")
    connection = HostileSmb(server)
    try:
        reply = connection.request(SETUP, setup_body(b"NTLMSSP\0" + b"\0" * 32, flags=1), session=victim.session,
                                   key=smb.key)
    except (EOFError, ConnectionError):
        return
    require(reply.status not in (SUCCESS, 0xC0000016), "binding goes on: %#x", reply.status)


@attack("Chains requests so that one runs by the session, tree or file of another, or after a logoff")
def chained_requests_borrow_nothing():
    server = Server({"data": "", "theirs": 'users = ["victim"]'})
    server.put("secret", "SECRET", VICTIM, 0o600)
    server.put("file", mode=0o666)
    victim = HostileSmb.of(server, "victim")
    smb = HostileSmb.of(server, "attacker")
    session, tree, all_ones = smb.session, smb.tree, (1 << 64) - 1
    reads = read_body(ALL_ONES, 20)
    opens, denied = create_body("file", READS), create_body("secret", READS)
    closes = struct.pack("<HHI", 24, 0, 0) + ALL_ONES
    require(smb.chain((READ, reads, RELATED, session, tree))[0] != SUCCESS, "the first one is related")
    require(smb.chain((READ, reads, 0, session, tree))[0] != SUCCESS, "it has a file by nothing")
    got = smb.chain((CREATE, opens, 0, session, tree), (READ, reads, RELATED, all_ones, 0xFFFFFFFF))
    require(got == [SUCCESS, SUCCESS], "an honest chain fails: %s", got)
    got = smb.chain((CREATE, denied, 0, session, tree), (READ, reads, RELATED, all_ones, 0xFFFFFFFF),
                    (CLOSE, closes, RELATED, all_ones, 0xFFFFFFFF))
    require(SUCCESS not in got, "requests run after one that was refused: %s", got)
    try:
        got = smb.chain((CREATE, opens, 0, session, tree), (CREATE, denied, RELATED, victim.session, victim.tree))
        require(got[1] != SUCCESS, "the chain goes on as the victim")
    except (EOFError, ConnectionError):
        smb = HostileSmb.of(server, "attacker")
    for gone in (LOGOFF, TREE_DISCONNECT):
        other = HostileSmb.of(server, "attacker")
        try:
            got = other.chain((gone, b"\4\0\0\0", 0, other.session, other.tree),
                              (CREATE, opens, RELATED, other.session, other.tree))
            require(got[1] != SUCCESS, "it works on after command %d", gone)
        except (EOFError, ConnectionError):
            pass


@attack("Negotiates again, alone and within a chain")
def second_negotiation_is_refused():
    server = Server()
    for is_chained in (False, True):
        smb = HostileSmb.of(server, "attacker")
        body = struct.pack("<HHHHI", 36, 1, 1, 0, 0x7F) + os.urandom(16) + b"\0" * 8 + struct.pack("<H", 0x210)
        try:
            if is_chained:
                status = smb.chain((ECHO, b"\4\0\0\0", 0, 0, 0), (NEGOTIATE, body, 0, 0, 0))[1]
            else:
                status = smb.status(NEGOTIATE, body, is_signed=False)
        except (EOFError, ConnectionError):
            continue
        require(status != SUCCESS, "it is answered")


@attack("Reconnects to another's durable open by its ids, lease key and client guid")
def durable_open_is_not_given_to_another_user():
    server = Server()
    server.put("secret", "SECRET", VICTIM, 0o600)
    key, guid = os.urandom(16), os.urandom(16)
    victim = HostileSmb.of(server, "victim")
    status, file = victim.open("secret", READS_AND_WRITES, oplock=0xFF, contexts=[lease(key), durable(guid)])
    require(status == SUCCESS and b"DH2Q" in victim.created, "no durable open is granted: %#x", status)
    victim.close_connection()
    again = b"DH2C", file + guid + b"\0" * 4
    first = b"DHnC", file
    for contexts in ([lease(key), again], [lease(key), first], [again], [first]):
        smb = HostileSmb.of(server, "attacker")
        try:
            status = smb.open("secret", READS_AND_WRITES, oplock=0xFF, contexts=contexts)[0]
        except (EOFError, ConnectionError):
            continue
        require(status != SUCCESS, "the attacker has it by %r", contexts[-1][0])


@attack("Works unsealed on a share that requires encryption")
def share_that_requires_encryption_gives_nothing_unsealed():
    # The configuration does not permit NFS without TLS for such a share.
    server = Server({"data": "encryption_required = true"}, is_nfs_explicit=False)
    server.put("file", mode=0o666)
    smb = HostileSmb(server)
    smb.log_on("attacker", "password")
    if smb.connected("data") == SUCCESS:
        require(smb.open("file")[0] != SUCCESS, "a file is opened")


@attack("Takes the owner string of a client that has a session and no opens, with a new verifier (EXCHANGE_ID)")
def client_record_is_not_ended_by_another_principal():
    server = Server()
    victim = HostileNfs(server, VICTIM, VICTIM)
    victim.mount(b"Linux NFSv4.1 victim")
    other = HostileNfs(server, ATTACKER, ATTACKER)
    if other.exchange(b"Linux NFSv4.1 victim", b"AAAAAAAA") == 0:
        other.make_session()
    require(victim.compound()[0] == 0, "the victim's session is gone")


@attack("Takes the owner string of a client that has files open")
def client_with_opens_is_not_ended_by_another_principal():
    server = Server()
    server.put("file", mode=0o666)
    victim = HostileNfs(server, VICTIM, VICTIM)
    victim.mount(b"Linux NFSv4.1 victim")
    victim.open(victim.find("data"), "file", 3)
    other = HostileNfs(server, ATTACKER, ATTACKER)
    if other.exchange(b"Linux NFSv4.1 victim", b"AAAAAAAA") == 0:
        other.make_session()
    require(victim.compound()[0] == 0, "the victim's session is gone")


@attack("Takes the owner string while the server, started again, waits for the clients that it had")
def client_record_is_not_taken_after_restart():
    server = Server()
    server.put("file", mode=0o666)
    victim = HostileNfs(server, VICTIM, VICTIM)
    victim.mount(b"Linux NFSv4.1 victim")
    victim.open(victim.find("data"), "file", 3)
    server.stop()
    server.start()
    other = HostileNfs(server, ATTACKER, ATTACKER)
    require(other.exchange(b"Linux NFSv4.1 victim", b"AAAAAAAA") != 0, "another principal has the victim's name")


@attack("Guesses another's session id from an own one, and destroys that session")
def session_id_is_not_guessed_from_another():
    server = Server()
    before, victim = HostileNfs.mounted(server, ATTACKER), HostileNfs.mounted(server, VICTIM)
    after = HostileNfs.mounted(server, ATTACKER)
    for end in (before, after):
        for at in range(0, 16, 4):
            for step in (*range(-8, 0), *range(1, 9)):
                word = struct.unpack(">I", end.session[at:at + 4])[0] + step & 0xFFFFFFFF
                end.alone(words(DESTROY_SESSION) + end.session[:at] + words(word) + end.session[at + 4:])
    same = sum(a == b for a, b in zip(before.session, victim.session))
    require(same < 8, "%d of 16 bytes are those of another session", same)
    require(victim.compound()[0] == 0, "the victim's session is destroyed")


@attack("Destroys another's session and client record, as another principal")
def state_of_another_client_is_not_destroyed():
    server = Server()
    victim = HostileNfs.mounted(server, VICTIM)
    other = HostileNfs.mounted(server, ATTACKER)
    other.alone(words(DESTROY_CLIENTID) + victim.client)
    require(victim.compound()[0] == 0, "the victim's client record is gone")


@attack("Says from an ordinary port, as any program can, that it is a uid of its choice")
def unreserved_port_reads_nothing():
    server = Server()
    server.put("secret", "SECRET", VICTIM, 0o600)
    nfs = HostileNfs(server, VICTIM, VICTIM, is_reserved=False)
    try:
        nfs.mount()
        handle = nfs.find("data", "secret")
        status, reply = nfs.compound(put(handle), read(ANONYMOUS, 0, 20))
    except (NfsStatus, EOFError, ConnectionError):
        return
    require(status != 0 or b"SECRET" not in reply, "the victim's file is read")


@attack("Reads root's and another's files as uid 0, with group 0, with groups of its choice and as uid 4294967295")
def squashed_root_reads_nothing():
    server = Server({"data": ""}, squash="root")
    server.put("of-root", "SECRET", 0, 0o600)
    server.put("of-victim", "SECRET", VICTIM, 0o600)
    nfs = HostileNfs.mounted(server, ATTACKER)
    handles = [nfs.find("data", name) for name in ("of-root", "of-victim")]
    for uid, gid, groups in ((0, 0, ()), (ATTACKER, 0, (0,)), (ATTACKER, ATTACKER, (VICTIM,)),
                             (0xFFFFFFFF, 0xFFFFFFFF, ())):
        nfs.act_as(uid, gid, groups)
        for handle in handles:
            status, reply = nfs.compound(put(handle), read(ANONYMOUS, 0, 20))
            require(status != 0 or b"SECRET" not in reply, "read as %d:%d %s", uid, gid, groups)


@attack("Looks up shares over NFS that are for other hosts or for named users only")
def shares_for_others_are_not_found_over_nfs():
    server = Server({"data": "", "hosts": 'hosts_allowed = ["10.0.0.0/8"]', "users": 'users = ["victim"]'},
                    is_nfs_explicit=False)
    nfs = HostileNfs.mounted(server, ATTACKER)
    for name in ("hosts", "users"):
        require(nfs.compound(words(24), lookup(name))[0] != 0, "%s is found", name)


def http(server, method, path, body=None, seconds=15, **headers):
    """The complete reply, if no part of it takes longer than this."""
    found = {"Host": "%s:%d" % (server.address, server.admin_port), "Connection": "close"}
    found.update({name.replace("_", "-"): value for name, value in headers.items()})
    if body is not None:
        found["Content-Length"] = str(len(body))
    lines = ["%s %s HTTP/1.1" % (method, path)] + ["%s: %s" % pair for pair in found.items()]
    with socket.create_connection((server.address, server.admin_port), seconds) as connection:
        answer = b""
        try:
            connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b""))
            while True:
                data = connection.recv(65536)
                if not data:
                    break
                answer += data
        except ConnectionError:
            pass
    return answer


def http_status(*request, **headers):
    line = http(*request, **headers).split(b"\r\n")[0].split()
    return int(line[1]) if len(line) > 1 else 0


@attack("Calls each operation of the admin API without a token, and with the one that is for metrics alone")
def admin_operation_needs_its_token():
    server = Server()
    bearer = "Bearer " + server.token()
    document = json.loads(http(server, "GET", "/v1/openapi.json", Authorization=bearer).split(b"\r\n\r\n", 1)[1])
    require(len(document["paths"]) > 5, "the document is nearly empty")
    for path, methods in document["paths"].items():
        for method in set(methods) & {"get", "post", "put", "patch", "delete"}:
            if path == "/health":
                continue
            real = path.replace("{id}", "1").replace("{name}", "data").replace("{session}", "1")
            found = http_status(server, method.upper(), real, b"{}")
            require(found == 401, "%s %s without a token: %d", method, path, found)
            metrics = "Bearer " + server.token("metrics-token")
            found = http_status(server, method.upper(), real, b"{}", Authorization=metrics)
            require(found == 403 or path == "/metrics", "%s %s with the token for metrics: %d", method, path, found)


@attack("Reaches the admin API by a name that an attacker's DNS points to it, from a foreign page, and by odd paths")
def admin_api_answers_no_foreign_page():
    server = Server()
    bearer = "Bearer " + server.token()
    require(http_status(server, "GET", "/v1/status", Authorization=bearer) == 200, "it does not answer at all")
    for host in ("evil.example", "evil.example:24483", "127.0.0.1.evil.example"):
        found = http_status(server, "GET", "/v1/status", Authorization=bearer, Host=host)
        require(found >= 400, "host %s: %d", host, found)
    for origin in ("http://evil", "null"):
        found = http_status(server, "GET", "/v1/status", Authorization=bearer, Origin=origin)
        require(found >= 400, "origin %s: %d", origin, found)
    for path in ("/../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/v1/../../../etc/passwd",
                 "//etc/passwd", "/v1/sessions/%00", "/v1/sessions/9999999999999999999999999",
                 "/v1/shares/" + "a" * 15000):
        answer = http(server, "GET", path, Authorization=bearer)
        require(b"root:" not in answer and b" 200" not in answer.split(b"\r\n")[0], "%.40s is answered", path)
    for headers in ({"X": "a" * 20000}, {"X%d" % i: "1" for i in range(200)}):
        require(http_status(server, "GET", "/v1/status", Authorization=bearer, **headers) != 200, "any head is taken")
    http(server, "POST", "/v1/drain", b"[" * 16000, Authorization=bearer, Content_Type="application/json")
    require(server.is_alive() and http_status(server, "GET", "/v1/status", Authorization=bearer) == 200,
            "it does not answer any more")
