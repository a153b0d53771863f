"""Attacks on the log, the audit log and an administrator's terminal by strings of clients: forged lines,
terminal escape sequences, floods, and an unwritable log."""

import collections
import contextlib
import glob
import json
import os
import socket
import struct
import subprocess

from attack_server import ATTACKER, Place, Server, attack, measure, require
from attacks_floods import ELSEWHERE, add_address, admits
from hostile_nfs import TYPE, HostileNfs, lookup
from hostile_smb import LOGOFF, CREATED, READS, READS_AND_WRITES, SUCCESS, HostileSmb
from raw_smb import POSIX_EXTENSIONS, Refused

# A forged line, a sequence that clears the screen, one that sets the window title, and bidirectional marks.
FORGED = '\n2026-01-01T00:00:00Z  INFO logged on user="admin"\r\x1b[2J\x1b]0;pwned\x07\x9b31m\u202e\u2028X'
DENIED = 0xC0000022
LINES_MAX = 200


def obeyed(text):
    """The first sequence that a terminal would execute or a reader would take for a line; None if there is none."""
    if any(line.startswith(b"2026-01-01T") for line in text.split(b"\n")):
        return "has a forged line"
    for what, needle in (("clears the screen", b"\x1b[2J"), ("sets the title", b"\x1b]0"), ("rings", b"\x07"),
                         ("returns the carriage", b"\r"), ("has a C1 control", b"\xc2\x9b"),
                         ("turns text around", "\u202e".encode())):
        if needle in text:
            return what
    return "has an escape sequence" if b"\x1b" in text else None


def say_forged_names(server):
    with contextlib.suppress(Refused, EOFError, ConnectionError):
        smb = HostileSmb(server)
        smb.reply(smb.guess("wrong", user="ev" + FORGED, workstation="W" + FORGED, domain="D" + FORGED))
    with contextlib.suppress(Refused, EOFError, ConnectionError):
        smb = HostileSmb(server)
        smb.reply(smb.guess("wrong", user="victim", workstation="W" + FORGED))
    smb = HostileSmb.of(server, "attacker", posix=True)
    tree = smb.tree
    smb.connected("sh" + FORGED[:30])
    smb.tree = tree
    context = POSIX_EXTENSIONS, struct.pack("<I", 0o600)
    name = "f" + FORGED.replace("/", "")
    status, _ = smb.open(name, READS_AND_WRITES, CREATED, contexts=[context])
    require(status == SUCCESS, "no file of such a name is created: %#x", status)
    for made in os.listdir(server.root()):
        os.chmod(server.path(made), 0)
    other = HostileSmb.of(server, "victim", posix=True)
    require(other.open(name, READS, contexts=[context])[0] == DENIED, "the file is not denied")
    nfs = HostileNfs.mounted(server, ATTACKER)
    del nfs
    nfs = HostileNfs(server, ATTACKER)
    nfs.exchange(("own" + FORGED).encode(), implementation=("impl" + FORGED).encode())
    nfs.make_session()
    nfs.compound(struct.pack(">II", 58, 0))
    nfs = HostileNfs(server, ATTACKER)
    nfs.exchange(("own" + FORGED).encode(), b"another.")
    return smb, nfs


def forge(log_format):
    server = Server(tail='[log]\nformat = "%s"\nlevel = "debug"\naudit = "%s"' % (
        log_format, os.path.join(Place.folder, "server%d" % (Server.count + 1), "audit")))
    kept = say_forged_names(server)
    for command in ("status", "sessions", "channels"):
        found = subprocess.run([Place.binary, command, "--admin", "%s:%d" % (server.address, server.admin_port)],
                               capture_output=True, check=False, env={**os.environ, "XDG_STATE_HOME": server.state,
                                                                      "ANABRANCH_ADMIN_TOKEN": server.token()})
        fault = obeyed(found.stdout + found.stderr)
        require(fault is None, "the output of `anabranch %s` %s", command, fault)
    del kept
    server.stop()
    for path in [server.log_path, *glob.glob(os.path.join(server.folder, "audit*"))]:
        with open(path, "rb") as file:
            fault = obeyed(file.read())
        require(fault is None, "%s: %s", os.path.basename(path), fault)


@attack("Logs on, connects, names files and NFS clients by names with line ends, escape sequences and C1 controls")
def names_of_clients_write_no_lines_of_text_log():
    forge("text")


@attack("The same where the log is JSON")
def names_of_clients_write_no_lines_of_json_log():
    forge("json")


@attack("Makes 2,000 NFS clients whose owner strings have forged lines, faster than their records are stored")
def nfs_owner_strings_write_no_lines():
    server = Server()
    nfs = HostileNfs(server, ATTACKER)
    for i in range(2000):
        if nfs.exchange(b"%06d" % i + FORGED.encode()) or nfs.make_session(slots=1):
            break
    server.stop()
    with open(server.log_path, "rb") as file:
        fault = obeyed(file.read())
    require(fault is None, "the log %s", fault)


@attack("Has a line logged by each request, 3,000 times: uid 4294967295 over NFS")
def nfs_requests_of_impossible_uid_do_not_fill_log():
    server = Server()
    server.put("file", mode=0o666)
    nfs = HostileNfs.mounted(server, ATTACKER)
    root = nfs.find("data")
    nfs.act_as(0xFFFFFFFF, 0xFFFFFFFF)
    before = server.log().count("\n")
    for _ in range(3000):
        nfs.does(root, lookup("file"), TYPE)
    lines = server.log().count("\n") - before
    measure("%d lines", lines)
    require(lines <= LINES_MAX, "%d lines for 3,000 requests", lines)


@attack("Has lines logged by 1,000 refused opens and 300 refused logons over SMB")
def refusals_over_smb_do_not_fill_log():
    server = Server()
    server.put("secret", mode=0o600)
    smb = HostileSmb.of(server, "attacker")
    before = server.log().count("\n")
    for _ in range(1000):
        smb.open("secret")
    for i in range(300):
        with contextlib.suppress(Refused, EOFError, ConnectionError):
            HostileSmb(server).guess("wrong", user="nobody%d" % i)
    lines = server.log().count("\n") - before
    measure("%d lines", lines)
    require(lines <= LINES_MAX, "%d lines for 1,300 refusals", lines)


def server_that_cannot_log():
    server = Server(is_started=False)
    server.put("secret", mode=0o600)
    with open("/dev/full", "wb") as full:
        server.standard_error = full
        server.start()
    return server


@attack("Has lines logged while the log's disk is full: a denied open, a wrong password")
def full_log_breaks_no_connection():
    server = server_that_cannot_log()
    smb = HostileSmb.of(server, "attacker")
    _, file = smb.open("own", READS_AND_WRITES, CREATED)
    for _ in range(3):
        require(smb.open("secret")[0] == DENIED, "the file is not denied")
    require(smb.write(file, b"data") == SUCCESS, "the connection writes no more")
    with contextlib.suppress(Refused, EOFError, ConnectionError):
        HostileSmb(server).guess("wrong")
    server.put("file", mode=0o666)
    admits(server, "the log is full")
    require(server.is_alive(), "the server has ended")


@attack("Opens 1,100 connections from one address and leaves, while the log's disk is full")
def full_log_and_many_connections_leave_server_open():
    server = server_that_cannot_log()
    server.put("file", mode=0o666)
    kept = []
    for _ in range(1100):
        with contextlib.suppress(OSError):
            kept.append(socket.create_connection((server.address, server.smb_port), 3, ("127.0.0.40", 0)))
    for one in kept:
        one.close()
    server.settle()
    for _ in range(3):
        admits(server, "after all others have left")
    server.stop()
    require(server.process.returncode == 0, "the server ends with %s", server.process.returncode)


def audited(server, path):
    """The events of the audit log when the server is idle."""
    server.settle()
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def server_with_audit(**how):
    server = Server(is_started=False, **how)
    path = os.path.join(server.folder, "audit.jsonl")
    with open(server.configuration, "a", encoding="utf-8") as file:
        file.write('[log]\naudit = "%s"\n' % path)
    server.put("file", "data", mode=0o666)
    server.start()
    return server, path


@attack("Logs on and off 2,000 times, so that each end of a session has a line of the audit log")
def ends_of_sessions_do_not_fill_audit_log():
    server, path = server_with_audit()
    for _ in range(2000):
        smb = HostileSmb(server)
        smb.log_on("attacker", "password")
        smb.status(LOGOFF, b"\4\0\0\0")
        smb.close_connection()
    events = audited(server, path)
    kinds = collections.Counter(event["operationName"] for event in events)
    begun = {event["sessionId"] for event in events if event["operationName"] == "SessionSetup"}
    ended = [event for event in events if event["operationName"] == "SessionEnd"]
    measure("%d beginnings, %d ends", kinds["SessionSetup"], kinds["SessionEnd"])
    require(len(ended) <= 1300, "%d ends beside %d beginnings", len(ended), len(begun))
    require({event["sessionId"] for event in ended} >= begun, "a session that began has no end")
    require(all(event["callerIpAddress"] for event in ended), "an end says not whose it is")
    admits(server, "logons")


@attack("Logs on from 1,100 addresses of one IPv6 network (/64), so that others' refusals are not in the audit log")
def network_of_ipv6_hides_nothing_in_audit_log():
    for address in ["fd65::1", "fd66::1", *("fd64::a:%x" % i for i in range(1100))]:
        with contextlib.suppress(FileExistsError):
            add_address(address, 128)
    server, path = server_with_audit(address="fd65::1")
    for i in range(1100):
        with contextlib.suppress(Refused, EOFError, OSError):
            smb = HostileSmb.of(server, "attacker", source="fd64::a:%x" % i)
            for _ in range(30 if i >= 1050 else 1):
                smb.connected("none")
            smb.close_connection()
    smb = HostileSmb.of(server, "victim", source="fd66::1")
    for _ in range(5):
        smb.connected("none")
    events = audited(server, path)
    others = [event["operationName"] for event in events if "fd66::1" in (event["callerIpAddress"] or "")]
    hoarded = [event for event in events if "fd64::" in (event["callerIpAddress"] or "")]
    refusals = sum(event["statusCode"] for event in hoarded)
    measure("%d lines of the network, %d of them refusals", len(hoarded), refusals)
    require(others.count("TreeConnect") >= 6, "of another client is written: %s", sorted(set(others)))
    require(refusals <= 60, "%d refusals of one network are written", refusals)
