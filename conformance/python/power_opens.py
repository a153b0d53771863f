#!/usr/bin/env python3
"""Persistent opens and their locks through a loss of power: the server's own state.

    power_opens.py MOUNT < FACTS

starts the server on what a cut has left, comes back for every open of the run, and says which it got,
as the tree that the model compares: an entry for each open and each lock. MS-SMB2 3.3.5.9.12.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile

from power_applications import ROOT_INODE, inode, observed, require
from raw_smb import Refused, Smb

SHARE, ACCESS = "ca", 0x12019F
LOCK, UNLOCK, EXCLUSIVE, AT_ONCE = 10, 4, 2, 0x10
NOT_FOUND, NOT_GRANTED = 0xC0000034, 0xC0000055
OPENS_MAX = 12


def connect(address, user, client_guid=None):
    smb = Smb.__new__(Smb)
    smb.client_guid = client_guid
    Smb.__init__(smb, *address)
    smb.log_on(user, "password")
    smb.connect(SHARE)
    return smb


def lock_body(file, offset, flags):
    return struct.pack("<HHI", 48, 1, 0) + file + struct.pack("<QQII", offset, 1, flags, 0)


class OpensClient:
    """Opens, locks, unlocks and closes at random; what it still has has to be there after a cut."""

    def __init__(self, journal, address, user, random):
        self.journal, self.random, self.guid = journal, random, os.urandom(16)
        self.smb = connect(address, user, self.guid)
        self.root = journal.new("directory")
        journal.perform("setup", "setup", "opens", lambda: 0, True).made(self.root, ROOT_INODE)
        self.opens, self.all, self.count = [], [], 0

    def perform(self, row, text, command, body, name, is_made, number):
        def act():
            status, self.reply = self.smb.call(command, body)
            return status

        record = self.journal.perform("opens", row, text, act, True)
        target = self.journal.new("file") if is_made else None
        record.name(self.root, name, target)
        if is_made:
            record.made(target, inode(0, number))

    def open(self):
        from raw_smb import CREATE, create_body

        if len(self.opens) >= OPENS_MAX:
            return False
        self.count += 1
        guid, name = os.urandom(16), "opened%d" % self.count
        context = (b"DH2Q", struct.pack("<IIQ", 0, 2, 0) + guid)
        body = create_body(name, ACCESS, 2, 0, [context])
        self.perform("SMB CA persistent open", name, CREATE, body, name, True, self.count * 100)
        require(b"DH2Q" in self.reply, "the open is not persistent")
        opened = {"name": name, "guid": guid.hex(), "file": self.reply[128:144].hex(), "number": self.count * 100}
        self.opens.append((opened, []))
        self.all.append(opened)
        return True

    def close(self):
        if not self.opens:
            return False
        opened, locks = self.opens.pop(self.random.randrange(len(self.opens)))
        # Its locks end with it; the model has them end first.
        for offset in list(locks):
            self.unlock_at(opened, locks, offset)
        body = struct.pack("<HHI", 24, 0, 0) + bytes.fromhex(opened["file"])
        self.perform("SMB CA persistent close", opened["name"], 6, body, opened["name"], False, 0)
        return True

    def lock(self):
        if not self.opens:
            return False
        opened, locks = self.random.choice(self.opens)
        offset = self.random.randrange(20)
        if offset in locks:
            return False
        body = lock_body(bytes.fromhex(opened["file"]), offset, EXCLUSIVE | AT_ONCE)
        name = "%s lock %d" % (opened["name"], offset)
        self.perform("SMB CA persistent lock", name, LOCK, body, name, True, opened["number"] + 1 + offset)
        locks.append(offset)
        return True

    def unlock_at(self, opened, locks, offset):
        locks.remove(offset)
        name = "%s lock %d" % (opened["name"], offset)
        body = lock_body(bytes.fromhex(opened["file"]), offset, UNLOCK)
        self.perform("SMB CA persistent unlock", name, LOCK, body, name, False, 0)

    def unlock(self):
        held = [one for one in self.opens if one[1]]
        if not held:
            return False
        opened, locks = self.random.choice(held)
        self.unlock_at(opened, locks, self.random.choice(locks))
        return True

    def step(self):
        choices = [(self.open, 3), (self.close, 2), (self.lock, 4), (self.unlock, 2)]
        names, weights = zip(*choices)
        while not self.random.choices(names, weights)[0]():
            pass


def reclaimed(smb, opened):
    """The open's identifier, if the server still has it."""
    file, guid = bytes.fromhex(opened["file"]), bytes.fromhex(opened["guid"])
    try:
        return smb.create(opened["name"], ACCESS, 1, 0, [(b"DH2C", file + guid + struct.pack("<I", 2))])
    except Refused as refused:
        require(refused.status == NOT_FOUND, "%s comes back: %s" % (opened["name"], refused))
        return None


def find(address, facts):
    """Entries of what the server still has, by name."""
    smb, other = connect(address, facts["user"], bytes.fromhex(facts["client"])), connect(address, facts["user"])
    found = {}
    for opened in facts["opens"]:
        if not reclaimed(smb, opened):
            continue
        found[opened["name"]] = inode(0, opened["number"])
        beside = other.create(opened["name"], ACCESS, 1)
        for offset in range(20):
            status = other.call(LOCK, lock_body(beside, offset, EXCLUSIVE | AT_ONCE))[0]
            require(status in (0, NOT_GRANTED), "a lock beside: %#x" % status)
            if status:
                found["%s lock %d" % (opened["name"], offset)] = inode(0, opened["number"] + 1 + offset)
    return found


def main():
    import power_workload as workload

    mount, facts = sys.argv[1], json.load(sys.stdin)
    if os.environ.get("ANABRANCH_POWER_OPENS") != "yes":
        # With the mounts of the others: a copy of theirs would keep their disks of earlier cuts.
        command = ["unshare", "--net", sys.executable, *sys.argv]
        environment = {**os.environ, "ANABRANCH_POWER_OPENS": "yes"}
        done = subprocess.run(command, input=json.dumps(facts), text=True, env=environment, check=False)
        sys.exit(done.returncode)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="power-opens.") as folder:
        os.chmod(folder, 0o755)
        config = workload.configure(folder, mount, workload.HOST, os.path.join(mount, "state"))
        server = workload.start(facts["binary"], config, os.path.join(folder, "log"))
        try:
            found = find((workload.HOST, workload.SMB_PORT), facts)
        finally:
            server.kill()
            server.wait()
    inodes = {ROOT_INODE: observed("directory"), **{number: observed("file") for number in found.values()}}
    print(json.dumps({"root": ROOT_INODE, "inodes": inodes, "names": {ROOT_INODE: found}}))


if __name__ == "__main__":
    main()
