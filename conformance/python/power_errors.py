#!/usr/bin/env python3
"""Tests the replies to clients and the reports to administrators when the disk fails under the server.

    power_errors.py --binary FILE --mount FOLDER --work FOLDER --bad-sector TEXT --no-room TEXT

`cargo xtask power --errors` starts it. A disk write of data that contains a TEXT fails, as on a bad sector
or for lack of space. The line `gone` on standard output makes all later requests to the disk fail.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import power_workload as workload  # noqa: E402
from power_nfs import FILE_SYNC, UNSTABLE, mode_attribute  # noqa: E402
from raw_nfs import ANONYMOUS, Nfs, attributes, long, opaque, put, words  # noqa: E402
from raw_smb import CREATE, Refused, Smb, create_body  # noqa: E402

BLOCK = 4096
FLUSH = 7
ACCESS, WRITE_THROUGH, CREATE_NEW = 0x12019F, 2, 2
IO_ERROR, DISK_FULL = 0xC00000E9, 0xC000007F
NFS_IO, NFS_NO_SPACE, NFS_READ_ONLY = 5, 28, 30
SHARES = ("ca", "nfs", "smb")


def require(condition, text):
    if not condition:
        sys.exit("FAILED: " + text)


def ok(text):
    print("ok: " + text, flush=True)


class Scenario:
    """A server without failures so far, and a client of each share."""

    def __init__(self, arguments):
        self.arguments = arguments
        # A fresh state directory without former clients, so without a grace period.
        self.state_folder = tempfile.mkdtemp(prefix="state.", dir=arguments.work)
        config = workload.configure(arguments.work, arguments.mount, workload.HOST, self.state_folder)
        log = os.path.join(arguments.work, "log")
        self.server = workload.start(arguments.binary, config, log)
        self.nfs = Nfs(workload.HOST, workload.NFS_PORT, 0, 0)
        self.export = self.nfs.find("nfs")
        self.smb, self.ca = self.connected("smb"), self.connected("ca")
        self.require_unmarked()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait(60)

    def connected(self, share):
        smb = Smb(workload.HOST, workload.SMB_PORT)
        smb.log_on(workload.USER, "password")
        smb.connect(share)
        return smb

    # NFS. RFC 8881.

    def nfs_create(self, name):
        how = attributes((33, words(0o644)))
        state, handle = self.nfs.open(self.export, name, 2, create=how)
        require(self.nfs.close(handle, state) == 0, "NFS CLOSE of %s" % name)
        return handle

    def nfs_write(self, handle, data, stability):
        """The status, and the verifier."""
        body = words(38) + ANONYMOUS + long(0) + words(stability) + opaque(data)
        status, reply = self.nfs.compound(put(handle), body)
        return status, reply[-8:]

    def nfs_commit(self, handle):
        status, reply = self.nfs.compound(put(handle), words(5) + long(0) + words(0))
        return status, reply[-8:]

    # SMB. MS-SMB2.

    @staticmethod
    def open(smb, name, disposition=CREATE_NEW, options=0, is_persistent=False):
        context = (b"DH2Q", b"\0" * 4 + b"\2\0\0\0" + b"\0" * 8 + os.urandom(16))
        file = smb.create(name, ACCESS, disposition, options, [context] if is_persistent else [])
        require(not is_persistent or b"DH2Q" in smb.created, "the open of %s is not persistent" % name)
        return file

    @staticmethod
    def flush(smb, file):
        return smb.call(FLUSH, b"\x18\0" + b"\0" * 6 + file)[0]

    # Status, metrics and health, for administrators.

    def status(self):
        token = os.path.join(self.state_folder, "admin-token")
        command = [self.arguments.binary, "status", "--admin", "127.0.0.1:%d" % workload.ADMIN_PORT,
                   "--admin-token-file", token]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        shown = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
        return text, json.loads(shown)

    def page(self, path, token):
        with open(os.path.join(self.state_folder, token), encoding="ascii") as file:
            headers = {"Authorization": "Bearer " + file.read().strip()}
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (workload.ADMIN_PORT, path), headers=headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read().decode()

    def metrics(self, name):
        found = re.findall(r'^%s\{share="(\w+)"\} (\d+)$' % name, self.page("/metrics", "metrics-token"), re.MULTILINE)
        return {share: int(value) for share, value in found}

    def failing(self):
        """The failing health checks."""
        health = json.loads(self.page("/v1/health", "admin-token"))
        return health["state"], {one["name"]: one["text"] for one in health["checks"] if one["state"] == "failing"}

    def require_unmarked(self):
        text, shown = self.status()
        require(not shown["disk_failures"] and "disk" not in text, "a disk is marked before it fails: " + text)
        require(not self.metrics("anabranch_share_disk_failures_total"), "metrics before the disk fails")
        require(not self.failing()[1], "health before the disk fails: %s" % (self.failing(),))

    def require_marked(self, error=None):
        """Each share reports the failed disk, and the continuously available one has stopped."""
        text, shown = self.status()
        disks = shown["disk_failures"]
        require(sorted(disks) == list(SHARES), "status marks %s" % disks)
        require(all(disks[share]["stopped"] == (share == "ca") for share in SHARES), "status: %s" % disks)
        require(all(disks[share]["count"] > 0 and disks[share]["error"] for share in SHARES), "status: %s" % disks)
        require(not error or all(disks[share]["error"] == error for share in SHARES), "status: %s" % disks)
        for share in SHARES:
            found = (share, disks[share]["error"], disks[share]["count"])
            line = "share %s: written data was not stored (%s; failures: %d)" % found
            require(line + ("; the share has stopped" if share == "ca" else ":") in text, text)
        failures = self.metrics("anabranch_share_disk_failures_total")
        require(failures == {share: disks[share]["count"] for share in SHARES}, "metrics: %s" % failures)
        require(self.metrics("anabranch_share_stopped") == {"ca": 1}, "the metric of stopped shares")
        state, failing = self.failing()
        marked = {"disk of share " + share for share in SHARES}
        require(state == "failing" and marked <= failing.keys(), "health: %s %s" % (state, failing))
        require("the share has stopped" in failing["disk of share ca"], "health: %s" % failing)
        ok("status, metrics and health name the shares of the disk")

    def require_stopped(self, file):
        """The server refuses all requests except those that release state."""
        for what, status in (("READ", self.ca.read(file, 16)), ("WRITE", self.ca.write(file, b"again")),
                             ("FLUSH", self.flush(self.ca, file)),
                             ("CREATE", self.ca.call(CREATE, create_body("another", ACCESS, CREATE_NEW))[0])):
            require(status == IO_ERROR, "%s on the stopped share: %#x" % (what, status))
        try:
            self.connected("ca")
            require(False, "the stopped share is connected to")
        except Refused as refused:
            require(refused.status == IO_ERROR, "TREE_CONNECT to the stopped share: %s" % refused)
        require(self.ca.close(file) == 0, "CLOSE on the stopped share")
        ok("the continuously available share has stopped, and opens are closed")


def committed_write_fails(scenario, bad):
    good, number = b"g" * BLOCK, os.urandom(4).hex()
    name = "committed-" + number
    before, victim = scenario.nfs_create(name + "-before"), scenario.nfs_create(name)
    held = scenario.open(scenario.ca, name, is_persistent=True)
    status, verifier = scenario.nfs_write(before, good, UNSTABLE)
    require(status == 0, "NFS WRITE: %d" % status)
    require(scenario.nfs_write(victim, bad, UNSTABLE) == (0, verifier), "NFS WRITE of what cannot be kept")
    status = scenario.nfs_commit(victim)[0]
    require(status == NFS_IO, "NFS COMMIT: %d" % status)
    ok("NFS COMMIT of what was not kept is answered NFS4ERR_IO")
    # Linux reports the failure once. The changed verifier makes the client write the data again.
    after = [scenario.nfs_commit(before), scenario.nfs_commit(victim), scenario.nfs_write(before, good, UNSTABLE)]
    require(all(status == 0 and other != verifier for status, other in after), "the verifier: %s" % after)
    require(len({other for _, other in after}) == 1, "the verifier goes on changing: %s" % after)
    ok("the write verifier is another one")
    scenario.require_marked("I/O error")
    scenario.require_stopped(held)
    file = scenario.open(scenario.smb, name)
    require(scenario.smb.write(file, good) == 0 and scenario.flush(scenario.smb, file) == 0, "the ordinary share")
    require(scenario.nfs_write(victim, good, FILE_SYNC)[0] == 0, "NFS WRITE after the failure")
    ok("ordinary shares and exports go on")


def stable_write_fails(scenario, bad):
    name = "stable-" + os.urandom(4).hex()
    file = scenario.nfs_create(name)
    status = scenario.nfs_write(file, bad, FILE_SYNC)[0]
    require(status == NFS_IO, "NFS WRITE with FILE_SYNC: %d" % status)
    ok("NFS WRITE with FILE_SYNC of what was not kept is answered NFS4ERR_IO")
    scenario.require_marked()


def flush_fails(scenario, bad):
    name = "flushed-" + os.urandom(4).hex()
    file = scenario.open(scenario.smb, name)
    require(scenario.smb.write(file, bad) == 0, "SMB WRITE")
    status = scenario.flush(scenario.smb, file)
    require(status == IO_ERROR, "SMB FLUSH: %#x" % status)
    ok("SMB FLUSH of what was not kept is answered STATUS_UNEXPECTED_IO_ERROR")
    scenario.require_marked()


def write_through_fails(scenario, bad):
    file = scenario.open(scenario.smb, "through-" + os.urandom(4).hex(), options=WRITE_THROUGH)
    status = scenario.smb.write(file, bad)
    require(status == IO_ERROR, "SMB WRITE by a write-through open: %#x" % status)
    ok("SMB WRITE by a write-through open is answered STATUS_UNEXPECTED_IO_ERROR")
    scenario.require_marked()


def available_write_fails(scenario, bad):
    file = scenario.open(scenario.ca, "available-" + os.urandom(4).hex(), is_persistent=True)
    status = scenario.ca.write(file, bad)
    require(status == IO_ERROR, "SMB WRITE on the continuously available share: %#x" % status)
    ok("SMB WRITE on the continuously available share is answered STATUS_UNEXPECTED_IO_ERROR")
    scenario.require_stopped(file)
    scenario.require_marked()


def room_is_lacking(scenario, large):
    """The error is a full disk, which does not stop the share; the client must still write the data again."""
    name, good = "room-" + os.urandom(4).hex(), b"g" * BLOCK
    before, victim = scenario.nfs_create(name + "-before"), scenario.nfs_create(name)
    status, verifier = scenario.nfs_write(before, good, UNSTABLE)
    require(status == 0 and scenario.nfs_write(victim, large, UNSTABLE)[0] == 0, "NFS WRITE")
    status = scenario.nfs_commit(victim)[0]
    require(status == NFS_NO_SPACE, "NFS COMMIT without room: %d" % status)
    status, other = scenario.nfs_commit(before)
    require(status == 0 and other != verifier, "the verifier: %d %s" % (status, other))
    file = scenario.open(scenario.smb, name)
    require(scenario.smb.write(file, large) == 0, "SMB WRITE")
    status = scenario.flush(scenario.smb, file)
    require(status == DISK_FULL, "SMB FLUSH without room: %#x" % status)
    ok("COMMIT and FLUSH without room are answered NFS4ERR_NOSPC and STATUS_DISK_FULL")
    disks = scenario.status()[1]["disk_failures"]
    require(all(disks[share]["error"] == "no space left" and not disks[share]["stopped"] for share in SHARES),
            "status: %s" % disks)
    require(not scenario.failing()[1], "health: %s" % (scenario.failing(),))
    held = scenario.open(scenario.ca, name, is_persistent=True)
    require(scenario.ca.write(held, good) == 0, "the continuously available share has stopped")
    ok("shares are marked, and go on")


def disk_goes_away(scenario, _):
    """No stable change succeeds, because the file system has aborted its journal."""
    victim, name = scenario.nfs_create("gone"), b"gone"
    scenario.nfs_create("gone-moved")
    state, opened = scenario.nfs.open(scenario.export, "gone", 2)
    # The file stays open, as in a client that still has to commit.
    moved = scenario.nfs.open(scenario.export, "gone-moved", 2)[1]
    written, held = scenario.open(scenario.smb, "gone"), scenario.open(scenario.ca, "gone", is_persistent=True)
    require(scenario.smb.write(written, b"x" * BLOCK) == 0, "SMB WRITE")
    require(scenario.nfs_write(moved, b"x" * BLOCK, UNSTABLE)[0] == 0, "NFS WRITE")
    print("gone", flush=True)
    require(sys.stdin.readline() == "done\n", "the disk is still there")
    root, answers = put(scenario.export), {}
    answers["CREATE"] = [root, words(6, 2) + opaque(b"gone-folder") + mode_attribute(0o755)]
    answers["LINK"] = [put(victim), words(32), root, words(11) + opaque(b"gone-linked")]
    answers["RENAME"] = [root, words(32), root, words(29) + opaque(b"gone-moved") + opaque(b"gone-there")]
    answers["SETATTR"] = [put(victim), words(34) + ANONYMOUS + mode_attribute(0o600)]
    answers["WRITE"] = [put(opened), words(38) + state + long(0) + words(FILE_SYNC) + opaque(b"y" * BLOCK)]
    answers["COMMIT"] = [put(moved), words(5) + long(0) + words(0)]
    answers["COMMIT without an open"] = [put(victim), words(5) + long(0) + words(0)]
    answers["REMOVE"] = [root, words(28) + opaque(name)]
    answers = {what: scenario.nfs.compound(*operations)[0] for what, operations in answers.items()}
    require(answers["CREATE"] == NFS_IO, "the first answer on a disk that is gone: %s" % answers)
    # RFC 8881 15.2 has no NFS4ERR_ROFS for COMMIT.
    commits = [answers.pop(what) for what in ("COMMIT", "COMMIT without an open")]
    require(commits == [NFS_IO, NFS_IO], "COMMIT on a disk that is gone: %s" % commits)
    require(all(status in (NFS_IO, NFS_READ_ONLY) for status in answers.values()), "a disk that is gone: %s" % answers)
    ok("NFS on a disk that is gone: COMMIT and the first CREATE are answered NFS4ERR_IO, then %s" % answers)
    status = scenario.flush(scenario.smb, written)
    require(status == IO_ERROR, "SMB FLUSH on a disk that is gone: %#x" % status)
    ok("SMB FLUSH on a disk that is gone is answered STATUS_UNEXPECTED_IO_ERROR")
    scenario.require_stopped(held)
    scenario.require_marked()


def main():
    parser = argparse.ArgumentParser()
    for name in ("binary", "mount", "work", "bad-sector", "no-room"):
        parser.add_argument("--" + name, required=True)
    arguments = parser.parse_args()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.chmod(arguments.mount, 0o755)
    bad, large = (text.encode().ljust(BLOCK, b".") for text in (arguments.bad_sector, arguments.no_room))
    # Finally the disk disappears.
    for check, data in ((committed_write_fails, bad), (stable_write_fails, bad), (flush_fails, bad),
                        (write_through_fails, bad), (available_write_fails, bad), (room_is_lacking, large),
                        (disk_goes_away, bad)):
        with Scenario(arguments) as scenario:
            check(scenario, data)


if __name__ == "__main__":
    main()
