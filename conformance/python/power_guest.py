#!/usr/bin/python3
"""Runs in the virtual machine of the power-cut lane: the kernel's NFS and SMB clients.

    power_guest.py PROGRAMS SEED OPERATIONS OUT [--sync-each] [--applications]

The server runs on the host. Writes the journal to OUT.
"""

import argparse
import os
import subprocess
import sys

# Programs map files, which requires a cache. SQLite locks bytes twice, which SMB refuses.
APPLICATIONS_CACHE = "strict,nobrl"


def mount(kind, what, place, options):
    os.makedirs(place)
    subprocess.run(["mount", "-i", "-t", kind, "-o", options, what, place], check=True)


def cifs_options(workload, cache):
    """The client defers data only."""
    identity = "ip=%s,vers=3.1.1,username=%s,password=password" % (workload.GUEST_HOST, workload.USER)
    return "%s,closetimeo=0,actimeo=0,cache=%s" % (identity, cache)


def mount_all(workload, cache):
    host = workload.GUEST_HOST
    mount("nfs4", host + ":/nfs", "/mnt/nfs", "vers=4.2,addr=%s,clientaddr=%s" % (host, workload.GUEST_CLIENT))
    for share in ("smb", "ca"):
        mount("cifs", "//%s/%s" % (host, share), "/mnt/" + share, cifs_options(workload, cache))


def run_applications(journal, workload):
    import power_applications as programs

    journal.program = "power_applications.py"
    places = {path: "/mnt/" + path for path in programs.applications()}
    for path, place in places.items():
        if os.path.basename(path) != programs.POSTGRES:
            os.mkdir(place)
    # PostgreSQL requires a private directory; cifs reports the mode of its mount option.
    places["ca/postgres"] = "/mnt/ca-postgres"
    options = "%s,uid=%d,gid=%d,forceuid,forcegid,file_mode=0600,dir_mode=0700"
    mount("cifs", "//%s/ca/postgres" % workload.GUEST_HOST, places["ca/postgres"],
          options % (cifs_options(workload, APPLICATIONS_CACHE), workload.UID, workload.UID))
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

    mount_all(workload, APPLICATIONS_CACHE if arguments.applications else "none")
    journal = Journal(RemoteDisk(workload.GUEST_HOST, workload.DISK_PORT), arguments.sync_each)
    if arguments.applications:
        run_applications(journal, workload)
    else:
        change_files(journal, workload, arguments.seed, arguments.operations)
    journal.write(arguments.out)


if __name__ == "__main__":
    main()
