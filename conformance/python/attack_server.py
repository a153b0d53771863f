"""Shared parts of the attacks: the attacked server, its users, and the list of tests."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time

from raw_smb import nt_hash

ADDRESS = "127.0.%s.71" % os.environ.get("ANABRANCH_TEST_NET", "0")
UIDS = {"attacker": 61101, "victim": 61102, "bystander": 61103, "guest": 61104, "mapped": 61105}
ATTACKER, VICTIM, BYSTANDER = UIDS["attacker"], UIDS["victim"], UIDS["bystander"]
MIB = 1 << 20
# Memory limit of the attacked server, because the machine has other users.
MEMORY_BOUND = 3 << 30


class Fault(Exception):
    """A success of the attack."""


def require(condition, text, *values):
    if not condition:
        raise Fault(text % values if values else text)


MEASURED = []


def measure(text, *values):
    """Records a figure for the row of the running test."""
    MEASURED.append(text % values)


class Test:
    def __init__(self, run, tries):
        self.run, self.tries = run, tries
        self.name = run.__name__
        self.full_name = "%s.%s" % (run.__module__, run.__name__)


TESTS = []


def attack(tries):
    """Registers a test; `tries` describes the attempt."""

    def register(run):
        TESTS.append(Test(run, tries))
        return run

    return register


class Place:
    """The directory for the files of all servers of this run."""

    folder = binary = keys = None

    @classmethod
    def prepare(cls, folder, binary):
        # A copy, because servers also run as ordinary users, who may not reach the build directory.
        cls.folder, cls.binary = folder, shutil.copy2(binary, folder)
        found = subprocess.run([binary, "generate", "configuration"], capture_output=True, text=True, check=True)
        cls.keys = {line[5:-1] for line in found.stdout.splitlines() if line.startswith("### `")}


class Server:
    """The server of one test, with a new folder whose shares grant all permission bits to all users."""

    running = []
    count = 0

    def __init__(self, shares=None, head="", tail="", descriptors=None, uid=None, standard_error=None, address=None,
                 squash="none", is_started=True, is_nfs_explicit=True):
        Server.count += 1
        self.folder = os.path.join(Place.folder, "server%d" % Server.count)
        self.address = address or ADDRESS
        self.smb_port, self.nfs_port, self.admin_port = 24481, 24482, 24483
        self.state, self.uid, self.descriptors = os.path.join(self.folder, "state"), uid, descriptors
        self.log_path = os.path.join(self.folder, "log")
        self.standard_error, self.squash = standard_error, squash
        os.makedirs(self.state, 0o700)
        os.chmod(self.folder, 0o755)
        self._write_users()
        self.is_nfs_explicit = is_nfs_explicit
        self._write_configuration(shares or {"data": ""}, head, tail)
        self.process = None
        if is_started:
            self.start()

    def _write_users(self):
        self.users = os.path.join(self.folder, "users.toml")
        with open(self.users, "w", encoding="utf-8") as file:
            os.chmod(self.users, 0o600)
            for name in ("attacker", "victim", "bystander", "root"):
                account = name if name == "root" else "attack-" + name
                file.write('[user.%s]\nnt_hash = "%s"\nsystem_user = "%s"\n'
                           % (name, nt_hash("password").hex(), account))

    def _write_configuration(self, shares, head, tail):
        host = "[%s]" % self.address if ":" in self.address else self.address
        self.configuration = os.path.join(self.folder, "config.toml")
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write('[server]\nsmb = ["%s:%d"]\nnfs = ["%s:%d"]\nadmin = "%s:%d"\n'
                       % (host, self.smb_port, host, self.nfs_port, host, self.admin_port))
            file.write('users = "%s"\nstate = "%s"\n%s\n%s\n' % (self.users, self.state, head, tail))
            for name, keys in shares.items():
                path = self.root(name)
                if not os.path.isdir(path):
                    os.makedirs(path)
                    os.chmod(path, 0o777)
                file.write('[[share]]\nname = "%s"\npath = "%s"\nnfs_squash = "%s"\n%s\n'
                           % (name, path, self.squash, keys))
                if self.is_nfs_explicit:
                    file.write("nfs = true\n")

    def root(self, share="data"):
        return os.path.join(self.folder, "shares", share)

    def path(self, name, share="data"):
        return os.path.join(self.root(share), name)

    def start(self):
        log = open(self.log_path, "ab")

        def limit():
            if self.descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))
            if self.uid:
                os.setgroups([])
                os.setgid(self.uid)
                os.setuid(self.uid)

        if self.uid:
            for directory, _, files in os.walk(self.folder):
                for name in [directory, *(os.path.join(directory, one) for one in files)]:
                    os.chown(name, self.uid, self.uid, follow_symlinks=False)
        self.process = subprocess.Popen(
            [Place.binary, "serve", "--config", self.configuration], stdin=subprocess.DEVNULL, stdout=log,
            stderr=self.standard_error or log, preexec_fn=limit)
        log.close()
        Server.running.append(self)
        for _ in range(600):
            try:
                socket.create_connection((self.address, self.nfs_port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        raise OSError("the server does not start: " + self.log()[-2000:])

    def stop(self):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        if self in Server.running:
            Server.running.remove(self)

    def kill(self):
        self.process.kill()
        self.process.wait()

    @classmethod
    def stop_all(cls):
        for server in list(cls.running):
            server.kill()
            cls.running.remove(server)
        for folder in os.listdir(Place.folder):
            if folder.startswith("server"):
                remove(os.path.join(Place.folder, folder))

    def put(self, name, text="data", uid=0, mode=0o644, share="data"):
        """Creates a file of the share locally."""
        path = self.path(name, share)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chown(path, uid, uid)
        os.chmod(path, mode)
        return path

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()

    def is_alive(self):
        return self.process.poll() is None

    def _memory(self, field):
        with open("/proc/%d/status" % self.process.pid, encoding="ascii") as file:
            for line in file:
                if line.startswith(field):
                    return int(line.split()[1]) * 1024
        return 0

    def memory(self):
        return self._memory("VmRSS")

    def memory_peak(self):
        return self._memory("VmHWM")

    def cpu_ticks(self):
        with open("/proc/%d/stat" % self.process.pid, encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def settle(self):
        """Waits until the server is idle, at most 30 s."""
        quiet = 0
        for _ in range(150):
            before = self.cpu_ticks()
            time.sleep(0.2)
            quiet = quiet + 1 if self.cpu_ticks() - before <= 1 else 0
            if quiet == 3:
                return

    def open_descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def bound_memory(self):
        """Ends the server if it exceeds the memory limit of the tests."""

        def watch():
            try:
                while self.is_alive():
                    if self.memory() > MEMORY_BOUND:
                        self.process.kill()
                    time.sleep(0.02)
            except OSError:
                # The server has ended.
                return

        threading.Thread(target=watch, daemon=True).start()

    def token(self, name="admin-token"):
        with open(os.path.join(self.state, name), encoding="ascii") as file:
            return file.read().strip()


def remove(folder):
    """Removes a tree, also one deeper than Python's recursion limit."""
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)


class Hung(Exception):
    """A test exceeded its time limit."""


def within(seconds, run):
    def end(*_):
        raise Hung("not ended after %d s" % seconds)

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        return run()
    finally:
        signal.alarm(0)


def mode_of(path):
    """Mode, owner and group as text, for comparison."""
    found = os.lstat(path)
    return "%o %d:%d" % (found.st_mode & 0o7777, found.st_uid, found.st_gid)


def content_of(path):
    with open(path, "rb") as file:
        return file.read()
