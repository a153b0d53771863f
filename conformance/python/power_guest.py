#!/usr/bin/python3
"""Runs in the virtual machine of the power-cut lane: the kernel's clients of NFS and SMB.

    power_guest.py PROGRAMS SEED OPERATIONS OUT [--sync-each]

The server is the machine outside; the journal is left in OUT.
"""

import argparse
import os
import subprocess
import sys


def mount(kind, what, place, options):
    os.makedirs(place)
    subprocess.run(["mount", "-i", "-t", kind, "-o", options, what, place], check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("seed", type=int)
    parser.add_argument("operations", type=int)
    parser.add_argument("out")
    parser.add_argument("--sync-each", action="store_true")
    arguments = parser.parse_args()
    sys.path.insert(0, arguments.programs)
    import power_workload as workload
    from power_disk import RemoteDisk
    from power_journal import Journal
    from power_posix import Mount, PosixClient

    host = workload.GUEST_HOST
    # Nothing is deferred on the client's side but data.
    smb = "ip=%s,vers=3.1.1,username=%s,password=password,cache=none,closetimeo=0,actimeo=0" % (host, workload.USER)
    mount("nfs4", host + ":/nfs", "/mnt/nfs", "vers=4.2,addr=%s,clientaddr=%s" % (host, workload.GUEST_CLIENT))
    for share in ("smb", "ca"):
        mount("cifs", "//%s/%s" % (host, share), "/mnt/" + share, smb)
    mounts = {
        "nfs/a": Mount("kernel NFS", "/mnt/nfs", "nfs", True, True),
        "smb/a": Mount("kernel SMB", "/mnt/smb", "smb", False, False),
        "ca/a": Mount("kernel SMB CA", "/mnt/ca", "ca", True, False),
    }
    journal = Journal(RemoteDisk(host, workload.DISK_PORT), arguments.sync_each)
    folders = workload.share_folders(journal, ["nfs", "smb", "ca", *mounts])
    journal.disk.sync()
    journal.started = journal.disk.now()
    for path, one in mounts.items():
        client = PosixClient(journal, folders[path], "%d %s" % (arguments.seed, path), one)
        journal.disk.sync()
        for _ in range(arguments.operations // len(mounts)):
            client.step()
    journal.ended = journal.disk.now()
    journal.write(arguments.out)


if __name__ == "__main__":
    main()
