#!/usr/bin/env python3
"""Persistent opens and their locks over a power cut: the server's own state.

    power_opens.py MOUNT < FACTS

starts the server on the disk after a cut, reconnects every open of the run, and prints the restored
ones as the tree that the model compares: an entry for each open, for the path of its file, and for each
lock. The clients rename files by their opens, and an NFS client renames them, too. MS-SMB2 3.3.5.9.12.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile

from power_applications import ROOT_INODE, inode, observed, require
from raw_nfs import Nfs, opaque, put, words
from raw_smb import Refused, Smb

# With DELETE, which a rename requires.
SHARE, ACCESS = "ca", 0x13019F
SET_INFO, QUERY_INFO, RENAME, NORMALIZED_NAME = 17, 16, 10, 48
LOCK, UNLOCK, EXCLUSIVE, AT_ONCE = 10, 4, 2, 0x10
NOT_FOUND, NOT_GRANTED = 0xC0000034, 0xC0000055
OPENS_MAX = 12
# The number of an open's path entry, after those of the open and its locks.
PLACE = 50


def connect(address, user, client_guid=None):
    smb = Smb.__new__(Smb)
    smb.client_guid = client_guid
    Smb.__init__(smb, *address)
    smb.log_on(user, "password")
    smb.connect(SHARE)
    return smb


def lock_body(file, offset, flags):
    return struct.pack("<HHI", 48, 1, 0) + file + struct.pack("<QQII", offset, 1, flags, 0)


def place(opened, path):
    """The entry with the path of an open's file."""
    return "%s is %s" % (opened["name"], path)


class OpensClient:
    """Opens, locks, unlocks, renames and closes at random. Its remaining opens and locks must survive a cut."""

    def __init__(self, journal, address, nfs_address, user, random):
        self.journal, self.random, self.guid = journal, random, os.urandom(16)
        self.smb = connect(address, user, self.guid)
        self.root = journal.new("directory")
        journal.perform("setup", "setup", "opens", lambda: 0, True).made(self.root, ROOT_INODE)
        self.nfs = Nfs(*nfs_address, 0, 0)
        self.folder = self.nfs.find(SHARE)
        self.opens, self.all, self.count = [], [], 0

    def smb_action(self, command, body):
        def act():
            status, self.reply = self.smb.call(command, body)
            return status

        return act

    def nfs_action(self, *operations):
        return lambda: self.nfs.compound(*operations)[0]

    def perform(self, row, text, command, body, name, is_made, number):
        record = self.journal.perform("opens", row, text, self.smb_action(command, body), True)
        target = self.journal.new("file") if is_made else None
        record.name(self.root, name, target)
        if is_made:
            record.made(target, inode(0, number))
        return record

    def open(self):
        from raw_smb import CREATE, create_body

        if len(self.opens) >= OPENS_MAX:
            return False
        self.count += 1
        guid, name = os.urandom(16), "opened%d" % self.count
        context = (b"DH2Q", struct.pack("<IIQ", 0, 2, 0) + guid)
        body = create_body(name, ACCESS, 2, 0, [context])
        record = self.perform("SMB CA persistent open", name, CREATE, body, name, True, self.count * 100)
        require(b"DH2Q" in self.reply, "the open is not persistent")
        opened = {"name": name, "guid": guid.hex(), "file": self.reply[128:144].hex(), "number": self.count * 100,
                  "path": name}
        where = self.journal.new("file")
        record.name(self.root, place(opened, name), where)
        record.made(where, inode(0, opened["number"] + PLACE))
        self.opens.append((opened, []))
        self.all.append(opened)
        return True

    def close(self):
        if not self.opens:
            return False
        opened, locks = self.opens.pop(self.random.randrange(len(self.opens)))
        # The close ends its locks; in the model they end first.
        for offset in list(locks):
            self.unlock_at(opened, locks, offset)
        body = struct.pack("<HHI", 24, 0, 0) + bytes.fromhex(opened["file"])
        record = self.perform("SMB CA persistent close", opened["name"], 6, body, opened["name"], False, 0)
        record.name(self.root, place(opened, opened["path"]), None)
        return True

    def rename(self):
        if not self.opens:
            return False
        opened, _ = self.random.choice(self.opens)
        self.count += 1
        old, new = opened["path"], "renamed%d" % self.count
        if self.random.random() < 0.5:
            row, path = "SMB CA persistent rename", new.encode("utf-16le")
            data = struct.pack("<B7xQI", 0, 0, len(path)) + path
            body = struct.pack("<HBBIHHI", 33, 1, RENAME, len(data), 96, 0, 0) + bytes.fromhex(opened["file"]) + data
            act = self.smb_action(SET_INFO, body)
        else:
            row = "NFS rename of a persistent open's file"
            body = words(29) + opaque(old.encode()) + opaque(new.encode())
            act = self.nfs_action(put(self.folder), words(32), put(self.folder), body)
        record = self.journal.perform("opens", row, "%s: %s to %s" % (opened["name"], old, new), act, True)
        where = self.root.children[place(opened, old)]
        record.name(self.root, place(opened, old), None)
        record.name(self.root, place(opened, new), where)
        opened["path"] = new
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
        choices = [(self.open, 3), (self.close, 2), (self.lock, 4), (self.unlock, 2), (self.rename, 4)]
        names, weights = zip(*choices)
        while not self.random.choices(names, weights)[0]():
            pass


def reclaimed(smb, opened):
    """The FileId of the open, if the server still has it."""
    file, guid = bytes.fromhex(opened["file"]), bytes.fromhex(opened["guid"])
    try:
        return smb.create(opened["name"], ACCESS, 1, 0, [(b"DH2C", file + guid + struct.pack("<I", 2))])
    except Refused as refused:
        require(refused.status == NOT_FOUND, "%s comes back: %s" % (opened["name"], refused))
        return None


def path_of(smb, file):
    """The path of an open's file in the server."""
    body = struct.pack("<HBBIHHIII", 41, 1, NORMALIZED_NAME, 4096, 0, 0, 0, 0, 0) + file + b"\0"
    status, reply = smb.call(QUERY_INFO, body)
    require(not status, "the name of an open: %#x" % status)
    offset = struct.unpack_from("<H", reply, 64 + 2)[0]
    length = struct.unpack_from("<I", reply, offset)[0]
    return reply[offset + 4:offset + 4 + length].decode("utf-16le").lstrip("\\")


def find(address, facts, mount):
    """The entries of the restored opens and locks, by name."""
    smb, other = connect(address, facts["user"], bytes.fromhex(facts["client"])), connect(address, facts["user"])
    found = {}
    for opened in facts["opens"]:
        file = reclaimed(smb, opened)
        if not file:
            continue
        path = path_of(smb, file)
        require(os.path.exists(os.path.join(mount, SHARE, path)), "%s is not at %s" % (opened["name"], path))
        found[opened["name"]] = inode(0, opened["number"])
        found[place(opened, path)] = inode(0, opened["number"] + PLACE)
        beside = other.create(path, ACCESS, 1)
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
        # Shares the mounts of the other workers: a copied mount namespace would keep their former disks busy.
        command = ["unshare", "--net", sys.executable, *sys.argv]
        environment = {**os.environ, "ANABRANCH_POWER_OPENS": "yes"}
        done = subprocess.run(command, input=json.dumps(facts), text=True, env=environment, check=False)
        sys.exit(done.returncode)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="power-opens.") as folder:
        os.chmod(folder, 0o755)
        # Without NFS, whose clients may reclaim locks first.
        config = workload.configure(folder, mount, workload.HOST, os.path.join(mount, "state"))
        server = workload.start(facts["binary"], config, os.path.join(folder, "log"))
        try:
            found = find((workload.HOST, workload.SMB_PORT), facts, mount)
        finally:
            server.kill()
            server.wait()
    inodes = {ROOT_INODE: observed("directory"), **{number: observed("file") for number in found.values()}}
    print(json.dumps({"root": ROOT_INODE, "inodes": inodes, "names": {ROOT_INODE: found}}))


if __name__ == "__main__":
    main()
