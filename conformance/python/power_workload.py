#!/usr/bin/env python3
"""The workload of the power-cut lane: a server on a mounted disk, its clients, and their journal.

    power_workload.py --binary FILE --mount FOLDER --work FOLDER --journal FILE --seed N --operations N
        [--clones] [--sync-each] [--guest] [--applications] [--opens]

`cargo xtask power` starts it in mount and network namespaces. Each client first works alone, because a
commit for one client makes changes of others stable, too; then all work at once. With `--guest` the
clients are those of a kernel in a virtual machine, with `--applications` programs there. With `--opens`
the server's own state is on the disk, and clients have persistent opens and locks.
"""

import argparse
import os
import pwd
import random
import shutil
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import power_postgres  # noqa: E402
from power_applications import POSTGRES  # noqa: E402
from power_disk import HostDisk  # noqa: E402
from power_journal import Journal  # noqa: E402
from power_nfs import NfsClient  # noqa: E402
from power_opens import OpensClient  # noqa: E402
from power_smb import SmbClient  # noqa: E402
from raw_smb import nt_hash  # noqa: E402

USER, ACCOUNT, UID = "writer", "power-writer", 61201
ADMIN = "admin"
HOST, SMB_PORT, NFS_PORT, ADMIN_PORT = "127.0.0.1", 445, 2049, 4450
# Addresses that conformance/kclient-run gives, and where power_disk.py serves.
GUEST_HOST, GUEST_CLIENT, DISK_PORT = "192.0.2.1", "192.0.2.2", 4451
GUEST_SECONDS_MAX = 240
# Commits of each program on each share; git starts many processes, which are slow in the guest.
COMMITS = {"wal": 20, "rollback": 20, "git": 8, "spool": 30, "postgres": 25}
PROGRAMS = os.path.dirname(os.path.abspath(__file__))


def write_users(folder):
    """Adds the server's users to an /etc/passwd of the mount namespace."""
    users = os.path.join(folder, "users.toml")
    with open(users, "w", encoding="utf-8") as file:
        os.chmod(users, 0o600)
        for user, account in ((USER, ACCOUNT), (ADMIN, "root")):
            file.write('[user.%s]\nnt_hash = "%s"\nsystem_user = "%s"\n' % (user, nt_hash("password").hex(), account))
    try:
        pwd.getpwnam(ACCOUNT)
        return users
    except KeyError:
        pass
    texts = {
        "passwd": "root:x:0:0::/root:/bin/sh\n%s:x:%d:%d::/:/bin/false\n" % (ACCOUNT, UID, UID),
        "group": "root:x:0:\n%s:x:%d:\n" % (ACCOUNT, UID),
    }
    for name, text in texts.items():
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o644)
        subprocess.run(["mount", "--bind", path, "/etc/" + name], check=True)
    return users


def configure(folder, mount, host, state, exports_available=False):
    """Writes the configuration; shares and state are on the recorded disk."""
    users = write_users(folder)
    os.makedirs(state, 0o700, exist_ok=True)
    config = os.path.join(folder, "config.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write('[server]\nsmb = ["%s:%d"]\nnfs = ["%s:%d"]\nadmin = "127.0.0.1:%d"\nusers = "%s"\nstate = "%s"\n'
                   % (host, SMB_PORT, host, NFS_PORT, ADMIN_PORT, users, state))
        available = 'nfs = true\nnfs_squash = "none"' if exports_available else "nfs = false"
        for name, more in (("nfs", 'nfs = true\nnfs_squash = "none"'), ("smb", "nfs = false"),
                           ("ca", "%s\ncontinuously_available = true" % available)):
            path = os.path.join(mount, name)
            if not os.path.isdir(path):
                os.mkdir(path)
                os.chown(path, UID, UID)
            file.write('[[share]]\nname = "%s"\npath = "%s"\n%s\n' % (name, path, more))
    return config


def start(binary, config, log):
    with open(log, "wb") as file:
        server = subprocess.Popen([binary, "serve", "--config", config], stdin=subprocess.DEVNULL, stdout=file,
                                  stderr=file)
    for _ in range(600):
        try:
            for port in (NFS_PORT, SMB_PORT):
                socket.create_connection((HOST, port), 1).close()
            return server
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.05)
    with open(log, encoding="utf-8", errors="replace") as file:
        sys.exit("the server does not start:\n" + file.read()[-4000:])


def share_folders(journal, names):
    """An object for each initial directory, by path."""
    root = journal.new("directory")
    record = journal.perform("setup", "setup", "shares", lambda: 0, True)
    record.created(root, "")
    folders = {}
    for path in names:
        above, name = os.path.split(path)
        folders[path] = journal.new("directory")
        record.name(folders[above] if above else root, name, folders[path])
        record.created(folders[path], path)
    return folders


def make_folders(mount, paths):
    for path in paths:
        os.mkdir(os.path.join(mount, path))
        os.chown(os.path.join(mount, path), UID, UID)


def clients(journal, arguments, generator):
    smb, nfs = (HOST, SMB_PORT), (HOST, NFS_PORT)
    kinds = {
        "nfs/a": lambda *base: NfsClient(*base, nfs, "nfs", arguments.clones),
        "nfs/b": lambda *base: NfsClient(*base, nfs, "nfs", arguments.clones),
        "smb/a": lambda *base: SmbClient(*base, smb, "smb", USER, UID, False),
        "smb/b": lambda *base: SmbClient(*base, smb, "smb", USER, UID, False, 0.7),
        "ca/a": lambda *base: SmbClient(*base, smb, "ca", USER, UID, True),
        "ca/b": lambda *base: SmbClient(*base, smb, "ca", USER, UID, True),
        "ca/c": lambda *base: SmbClient(*base, smb, "ca", ADMIN, 0, True),
    }
    make_folders(arguments.mount, kinds)
    folders = share_folders(journal, ["nfs", "smb", "ca", *kinds])
    return [make(path, journal, folders[path], random.Random(generator.getrandbits(64))) for path, make in kinds.items()]


def work(journal, all_clients, operations):
    """Runs half of the operations by one client after another, and half by all at once."""
    each = max(1, operations // (2 * len(all_clients)))
    errors = []

    def steps(client):
        try:
            for _ in range(each):
                client.step()
        except BaseException as error:
            errors.append(error)
            raise

    for client in all_clients:
        # Earlier changes must be stable already, or their commits could make those of this client stable.
        journal.disk.sync()
        steps(client)
    journal.disk.sync()
    threads = [threading.Thread(target=steps, args=(client,)) for client in all_clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def run_raw(arguments, config, log):
    """Runs the clients in this process."""
    server = start(arguments.binary, config, log)
    try:
        journal = Journal(HostDisk(arguments.mount), arguments.sync_each)
        if arguments.opens:
            run_opens(journal, arguments)
            return
        all_clients = clients(journal, arguments, random.Random(arguments.seed))
        journal.disk.sync()
        journal.started = journal.disk.now()
        work(journal, all_clients, arguments.operations)
        journal.ended = journal.disk.now()
        journal.write(arguments.journal)
    finally:
        server.terminate()
        server.wait(60)


def run_opens(journal, arguments):
    """Runs one client. After a cut the program requests its state from the server."""
    client = OpensClient(journal, (HOST, SMB_PORT), (HOST, NFS_PORT), USER, random.Random(arguments.seed))
    journal.disk.sync()
    journal.started = journal.disk.now()
    for _ in range(arguments.operations):
        client.step()
    journal.ended = journal.disk.now()
    journal.program = "power_opens.py"
    journal.facts = {"binary": arguments.binary, "user": USER, "client": client.guid.hex(), "opens": client.all}
    journal.write(arguments.journal)


def run_guest(arguments, config, log):
    """Runs the clients in a virtual machine, which gets the programs and returns the journal."""
    if arguments.applications:
        for share in ("nfs", "ca"):
            power_postgres.initialise(os.path.join(arguments.mount, share, POSTGRES), UID)
    else:
        make_folders(arguments.mount, ["nfs/a", "smb/a", "ca/a"])
    # The virtual machine has its own /tmp, so shared files are elsewhere.
    programs, out = os.path.join(arguments.work, "programs"), os.path.join(arguments.work, "out")
    shutil.copytree(PROGRAMS, programs)
    disk = "%s %s/power_disk.py %s %s %d &" % (sys.executable, PROGRAMS, arguments.mount, GUEST_HOST, DISK_PORT)
    serve = "%s exec %s serve --config %s > %s 2>&1" % (disk, arguments.binary, config, log)
    options = ["--" + name for name in ("sync-each", "applications") if getattr(arguments, name.replace("-", "_"))]
    done = subprocess.run(
        [os.path.join(PROGRAMS, "..", "kclient-run"), "-k", "uml", "--share", "/", "--chroot", "-o", out,
         "-t", str(GUEST_SECONDS_MAX), "--server", serve, "--wait", str(NFS_PORT),
         os.path.join(PROGRAMS, "power_guest.py"), programs, str(arguments.seed), str(arguments.operations),
         "/mnt/out/journal", *options], check=False)
    if done.returncode:
        sys.exit("the virtual machine ended with status %d" % done.returncode)
    shutil.copy(os.path.join(out, "journal"), arguments.journal)


def main():
    parser = argparse.ArgumentParser()
    for name in ("binary", "mount", "work", "journal"):
        parser.add_argument("--" + name, required=True)
    for name in ("seed", "operations"):
        parser.add_argument("--" + name, type=int, required=True)
    for name in ("clones", "sync-each", "guest", "applications", "opens"):
        parser.add_argument("--" + name, action="store_true")
    arguments = parser.parse_args()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.chmod(arguments.mount, 0o755)
    # The state directory is elsewhere, because its commits would also make changes of the shares stable.
    state = os.path.join(arguments.mount if arguments.opens else arguments.work, "state")
    host = GUEST_HOST if arguments.guest else HOST
    config = configure(arguments.work, arguments.mount, host, state, arguments.opens)
    (run_guest if arguments.guest else run_raw)(arguments, config, os.path.join(arguments.work, "log"))


if __name__ == "__main__":
    main()
