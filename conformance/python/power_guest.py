#!/usr/bin/python3
"""Runs in the virtual machine of the power-cut lane: the kernel's clients of NFS and SMB.

    power_guest.py PROGRAMS SEED OPERATIONS OUT [--sync-each] [--applications]

The server is the machine outside; the journal is left in OUT.
"""

import argparse
import os
import subprocess
import sys


def mount(kind, what, place, options):
    os.makedirs(place)
    subprocess.run(["mount", "-i", "-t", kind, "-o", options, what, place], check=True)


def mount_all(workload, cache):
    host = workload.GUEST_HOST
    mount("nfs4", host + ":/nfs", "/mnt/nfs", "vers=4.2,addr=%s,clientaddr=%s" % (host, workload.GUEST_CLIENT))
    # Nothing is deferred on the client's side but data.
    options = "ip=%s,vers=3.1.1,username=%s,password=password,closetimeo=0,actimeo=0" % (host, workload.USER)
    for share in ("smb", "ca"):
        mount("cifs", "//%s/%s" % (host, share), "/mnt/" + share, "%s,cache=%s" % (options, cache))


def run_applications(journal, workload):
    import power_applications as programs

    journal.program = "power_applications.py"
    places = {path: "/mnt/" + path for path in programs.applications()}
    for place in places.values():
        os.mkdir(place)
    programs.run(journal, places, workload.COMMITS)


def change_files(journal, workload, seed, operations):
    from power_posix import Mount, PosixClient

    mounts = {
        "nfs/a": Mount("kernel NFS", "/mnt/nfs", "nfs", True, True),
        "smb/a": Mount("kernel SMB", "/mnt/smb", "smb", False, False),
        "ca/a": Mount("kernel SMB CA", "/mnt/ca", "ca", True, False),
    }
    folders = workload.share_folders(journal, ["nfs", "smb", "ca", *mounts])
    journal.disk.sync()
    journal.started = journal.disk.now()
    for path, one in mounts.items():
        client = PosixClient(journal, folders[path], "%d %s" % (seed, path), one)
        journal.disk.sync()
        for _ in range(operations // len(mounts)):
            client.step()
    journal.ended = journal.disk.now()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("seed", type=int)
    parser.add_argument("operations", type=int)
    parser.add_argument("out")
    for name in ("sync-each", "applications"):
        parser.add_argument("--" + name, action="store_true")
    arguments = parser.parse_args()
    sys.path.insert(0, arguments.programs)
    import power_workload as workload
    from power_disk import RemoteDisk
    from power_journal import Journal

    # Programs map files, which takes a cache; SQLite locks bytes twice, which SMB refuses.
    mount_all(workload, "strict,nobrl" if arguments.applications else "none")
    journal = Journal(RemoteDisk(workload.GUEST_HOST, workload.DISK_PORT), arguments.sync_each)
    if arguments.applications:
        run_applications(journal, workload)
    else:
        change_files(journal, workload, arguments.seed, arguments.operations)
    journal.write(arguments.out)


if __name__ == "__main__":
    main()
