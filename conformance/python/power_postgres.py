"""PostgreSQL for the power-cut lane: a server on a data directory, and a session that commits."""

import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAMS = "/usr/lib/postgresql/*/bin"
START_SECONDS_MAX = 60
# Segments of 1 MiB are recycled often, so that cuts also fall into renames of the log.
SETTINGS = ("listen_addresses=", "max_connections=5", "shared_buffers=4MB", "min_wal_size=2MB", "max_wal_size=4MB",
            "autovacuum=off")
# After a cut the database is only read.
READING = ("fsync=off",)


class ServerFailed(Exception):
    """PostgreSQL does not start, or a query fails."""


def program(name):
    """The path of a program; Debian installs each version in its own directory."""
    found = sorted(glob.glob(os.path.join(PROGRAMS, name)))
    if not found:
        raise FileNotFoundError("%s/%s: PostgreSQL is not installed" % (PROGRAMS, name))
    return found[-1]


def start_as(owner, command, **options):
    """The account for initdb and the server, which refuse to run as root."""
    return subprocess.Popen(command, user=owner, group=owner, extra_groups=[], cwd="/", **options)


def initialise(folder, owner):
    """A new data directory; the caller syncs it."""
    os.mkdir(folder, 0o700)
    os.chown(folder, owner, owner)
    command = [program("initdb"), "-D", folder, "--no-sync", "--locale=C", "--encoding=UTF8", "--auth=trust",
               "--username=postgres", "--wal-segsize=1", "--no-instructions"]
    process = start_as(owner, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = process.communicate()[0]
    if process.returncode:
        raise ServerFailed("initdb: " + output.strip())


class Server:
    """A running server, with the user of its data directory, on its own socket."""

    def __init__(self, folder, settings=()):
        self.owner = os.stat(folder).st_uid
        self.place = tempfile.mkdtemp(prefix="postgres.", dir="/tmp")
        os.chown(self.place, self.owner, self.owner)
        self.log = os.path.join(self.place, "log")
        command = [program("postgres"), "-D", folder, "-k", self.place]
        for setting in (*SETTINGS, *settings):
            command += ["-c", setting]
        with open(self.log, "wb") as log:
            self.process = start_as(self.owner, command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def _wait(self):
        end = time.monotonic() + START_SECONDS_MAX
        while "is ready to accept connections" not in self.text():
            if self.process.poll() is not None or time.monotonic() > end:
                raise ServerFailed("the server does not start: " + self.text().strip()[-1500:])
            time.sleep(0.02)

    def client(self, name, *arguments):
        return [program(name), "-h", self.place, "-U", "postgres", *arguments]

    def stop(self):
        """Stops the server at once, like a crash: it writes no data beyond the commits."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
        shutil.rmtree(self.place, ignore_errors=True)


class Session:
    """One connection by psql, which answers each script when it is done."""

    def __init__(self, server):
        command = server.client("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres")
        self.server = server
        self.process = start_as(server.owner, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def run(self, script):
        """The output lines of the script."""
        self.process.stdin.write(script + "\n\\echo done\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == "done\n":
                return lines
            lines.append(line.rstrip("\n"))
        raise ServerFailed("%s: %s; %s" % (script, " ".join(lines), self.server.text().strip()[-1500:]))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Postgres:
    """A row and a counter in one transaction, by one session; the log is recycled meanwhile."""

    name, server, session = "PostgreSQL", None, None

    def __init__(self, content, require):
        self.content, self.require = content, require

    def set_up(self, folder):
        self.server = Server(folder)
        self.session = Session(self.server)
        self.session.run("CREATE EXTENSION amcheck; CREATE TABLE counter AS SELECT 0 AS number;"
                         "CREATE TABLE row (number integer PRIMARY KEY, text text); CHECKPOINT;")

    def commit(self, number):
        if number % 4 == 0:
            self.session.run("SELECT pg_switch_wal();")
        if number % 7 == 0:
            self.session.run("CHECKPOINT;")
        self.session.run("BEGIN; INSERT INTO row VALUES (%d, '%s'); UPDATE counter SET number = %d; COMMIT;"
                         % (number, self.content(number), number))

    def close(self):
        self.session.close()
        self.server.stop()

    def commits(self, folder):
        """The commits after recovery."""
        self.server = Server(folder, READING)
        try:
            self.session = Session(self.server)
            rows = [line.split("|") for line in self.session.run("SELECT number, text FROM row ORDER BY number;")]
            counter = self.session.run("SELECT number FROM counter;")
            self.session.close()
            self._check()
        finally:
            self.server.stop()
        self.require(counter == [str(len(rows))], "%d rows, and the counter is %s" % (len(rows), counter))
        numbers = [int(number) for number, _ in rows]
        self.require(all(text == self.content(number) for number, (_, text) in zip(numbers, rows)),
                     "a row has another text")
        return numbers

    def _check(self):
        """All tables and indexes of the database, the catalogues among them."""
        command = self.server.client("pg_amcheck", "--heapallindexed", "postgres")
        process = start_as(self.server.owner, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output = process.communicate()[0]
        self.require(process.returncode == 0, "pg_amcheck: " + output.strip()[-1500:])
