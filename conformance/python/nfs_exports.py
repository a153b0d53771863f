"""Tests the access of NFS clients at several addresses: nfs_exports.py SERVER PORT WORK, where WORK has the
zones of dns_server.py, and a program `reload` that reloads the server's configuration."""

import json
import os
import subprocess
import sys
import time

from raw_nfs import LOOKUP, NfsStatus, Nfs, opaque, words

OK, NOENT, ROFS, DELAY = 0, 2, 30, 10008
PUTROOTFH, READDIR = 24, 26

server, port, work = sys.argv[1], int(sys.argv[2]), sys.argv[3]
clients = {}


def client(last):
    if last not in clients:
        clients[last] = Nfs(server, port, 0, 0, source="127.10.0.%d" % last)
    return clients[last]


def once(last, *path):
    lookups = [words(LOOKUP) + opaque(name.encode()) for name in path]
    return client(last).compound(words(PUTROOTFH), *lookups)[0]


def reaches(last, *path):
    """The status of a walk after the server has resolved the client's name."""
    for _ in range(600):
        status = once(last, *path)
        if status != DELAY:
            return status
        time.sleep(0.05)
    raise TimeoutError("the server does not resolve the client's name")


def writes(last, share):
    """The status of a creation."""
    if reaches(last, share) != OK:
        return reaches(last, share)
    directory = client(last).find(share)
    try:
        state, handle = client(last).open(directory, "by-%d" % last, 3, words(0, 0))
        client(last).close(handle, state)
        return OK
    except NfsStatus as error:
        return error.status


def names(last, *path):
    for _ in range(600):
        lookups = [words(LOOKUP) + opaque(name.encode()) for name in path]
        read = words(READDIR) + bytes(16) + words(1000, 8000, 0)
        status, reply = client(last).compound(words(PUTROOTFH), *lookups, read)
        if status != DELAY:
            break
        time.sleep(0.05)
    assert status == OK, status
    at, found = 8 * (1 + len(path)) + 8 + 8, []
    while reply[at:at + 4] == words(1):
        length = int.from_bytes(reply[at + 12:at + 16], "big")
        found.append(reply[at + 16:at + 16 + length].decode())
        at += 16 + length + -length % 4 + 8
    return found


def zones(change):
    path = os.path.join(work, "zones")
    with open(path, encoding="ascii") as file:
        present = json.load(file)
    change(present)
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(present, file)
    os.rename(path + ".new", path)


def said(what, *found):
    print("ok: " + what, *found, flush=True)


def check(found, expected, what):
    assert found == expected, "%s: %r, not %r" % (what, found, expected)
    said(what)


check(writes(1, "data"), OK, "a host by its name writes")
check(writes(2, "data"), ROFS, "a host by a wildcard only reads")
check(reaches(3, "data"), NOENT, "a name that does not lead back to its address is none")
check(writes(4, "data"), OK, "a member of a netgroup writes")
check(reaches(5, "data"), NOENT, "an address without a name is none of the named")
check(reaches(8, "data"), NOENT, "a short name of a foreign domain is in no netgroup")
check(writes(9, "data"), OK, "an address in a netgroup needs no name")

began = time.monotonic()
check(once(6, "data"), DELAY, "a client that no name service answers for is told to come again")
check(writes(1, "data"), OK, "meanwhile others are served")
took = time.monotonic() - began
assert took < 1, took
check(reaches(6, "data"), NOENT, "once the look-up has failed no entry by name lets it in")
check(reaches(6, "bounded"), NOENT, "nor does a wider entry behind one that it may be meant by")
check(writes(12, "bounded"), ROFS, "which is for others")

check(sorted(names(2)), ["allowed", "data"], "the root lists what the client may reach, by name")
check(names(5), [], "and nothing to a client that may reach nothing")
check(client(1).find("srv", "files", "data"), client(1).find("data"), "path and name lead to one handle")
check(names(1, "srv", "files"), ["data"], "a directory of the path lists what leads on")
check(reaches(5, "srv"), NOENT, "of a path that leads to nothing a client finds nothing")
check(reaches(7, "closed"), OK, "another share is there")
check(reaches(1, "closed"), NOENT, "and not for everybody")

status = json.loads(subprocess.check_output([os.path.join(work, "status")]))
# The address from which the client sent EXCHANGE_ID.
used = {one["client"].split(":")[0]: one["exports"] for one in status["nfs"]["clients"]}
check(used["127.10.0.1"], ["data"], "status shows which client uses which exports")
check(used["127.10.0.7"], ["closed"], "of each client its own")


def moved(present):
    present["names"]["build.lab.test"] = ["127.10.0.7"]


zones(moved)
check(writes(1, "data"), OK, "an answer counts until it is refreshed")
subprocess.check_call([os.path.join(work, "reload")])
for _ in range(100):
    if once(1, "data") == NOENT:
        break
    time.sleep(0.05)
check(reaches(1, "data"), NOENT, "a reload looks up anew, and a session goes on under other terms")
check(writes(7, "data"), OK, "the host's new address has its terms")
