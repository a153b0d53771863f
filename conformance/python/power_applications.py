#!/usr/bin/env python3
"""Programs whose commits must survive a power cut: SQLite, git and a mail spool.

    power_applications.py MOUNT

prints the present commits as the tree that the model compares: a directory for each program on each
share, with an entry for each commit. Fails if a program's data is inconsistent.
"""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys

from power_postgres import Postgres

ROOT_INODE = 1
# Last path component of PostgreSQL's data directories, which exist before the other folders.
POSTGRES = "postgres"


def content(number):
    """The data of the commit with this number."""
    return hashlib.sha256(b"%d" % number).hexdigest() * (1 + number % 40)


class Unsound(Exception):
    """An inconsistency that no power cut may leave."""


def require(condition, text):
    if not condition:
        raise Unsound(text)


class Sqlite:
    """A row and a counter in one transaction."""

    def __init__(self, mode):
        self.mode, self.name, self.database = mode, "SQLite, %s" % mode, None

    def open(self, folder):
        self.database = sqlite3.connect(os.path.join(folder, "database"), isolation_level=None)
        # Without shared memory, which a network file system does not support.
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = " + self.mode, "synchronous = FULL"):
            self.database.execute("PRAGMA " + pragma).fetchall()

    def set_up(self, folder):
        self.open(folder)
        self.database.execute("CREATE TABLE row (number INTEGER PRIMARY KEY, text TEXT)")
        self.database.execute("CREATE TABLE counter (number INTEGER)")
        self.database.execute("INSERT INTO counter VALUES (0)")

    def commit(self, number):
        self.database.execute("BEGIN IMMEDIATE")
        self.database.execute("INSERT INTO row VALUES (?, ?)", (number, content(number)))
        self.database.execute("UPDATE counter SET number = ?", (number,))
        self.database.execute("COMMIT")

    def close(self):
        self.database.close()

    def commits(self, folder):
        self.open(folder)
        try:
            found = self.database.execute("PRAGMA integrity_check").fetchall()
            require(found == [("ok",)], "integrity_check: %s" % found)
            rows = self.database.execute("SELECT number, text FROM row ORDER BY number").fetchall()
            counter = self.database.execute("SELECT number FROM counter").fetchall()
        except sqlite3.DatabaseError as error:
            raise Unsound(str(error)) from error
        finally:
            self.close()
        require(counter == [(len(rows),)], "%d rows, and the counter is %s" % (len(rows), counter))
        require(all(text == content(number) for number, text in rows), "a row has another text")
        return [number for number, _ in rows]


class Git:
    """A changed file and a commit, all of it synced."""

    name, folder = "git", None

    def git(self, *arguments):
        command = ["git", "-c", "safe.directory=*", "-C", self.folder, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        require(done.returncode == 0, "git %s: %s" % (arguments[0], done.stderr.strip()))
        return done.stdout

    def set_up(self, folder):
        self.folder = folder
        self.git("init", "-q")
        for key, value in (("user.name", "nobody"), ("user.email", "nobody@example.org"), ("core.fsync", "all"),
                           ("gc.auto", "0")):
            self.git("config", key, value)

    def commit(self, number):
        with open(os.path.join(self.folder, "file"), "w", encoding="ascii") as file:
            file.write(content(number))
        self.git("add", "file")
        self.git("commit", "-q", "-m", str(number))

    def close(self):
        pass

    def commits(self, folder):
        self.folder = folder
        self.git("fsck", "--strict", "--no-progress")
        if not self.git("rev-list", "--all"):
            return []
        numbers = sorted(int(line) for line in self.git("log", "--format=%s").split())
        for number in numbers:
            shown = self.git("show", "HEAD~%d:file" % (numbers[-1] - number))
            require(shown == content(number), "commit %d has another file" % number)
        return numbers


class Spool:
    """Writes, syncs and renames a message."""

    name, folder = "mail spool", None

    def set_up(self, folder):
        self.folder = folder
        for name in ("tmp", "new"):
            os.mkdir(os.path.join(folder, name))

    def commit(self, number):
        temporary = os.path.join(self.folder, "tmp", str(number))
        with open(temporary, "w", encoding="ascii") as file:
            file.write(content(number))
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, os.path.join(self.folder, "new", str(number)))

    def close(self):
        pass

    def commits(self, folder):
        numbers = sorted(int(name) for name in os.listdir(os.path.join(folder, "new")))
        for number in numbers:
            with open(os.path.join(folder, "new", str(number)), encoding="ascii") as file:
                require(file.read() == content(number), "message %d is not whole" % number)
        return numbers


def applications():
    """The programs by their folders on the disk."""
    kinds = {"wal": lambda: Sqlite("WAL"), "rollback": lambda: Sqlite("DELETE"), "git": Git, "spool": Spool,
             POSTGRES: lambda: Postgres(content, require)}
    return {"%s/%s" % (share, name): make() for share in ("nfs", "ca") for name, make in kinds.items()}


def inode(place, number=0):
    """The numbers that the journal and the tree share."""
    return ROOT_INODE + (place + 1) * 100000 + number


def run(journal, places, counts):
    """Performs commits of each program, where it is mounted; `counts` by the last part of its folder."""
    root = journal.new("directory")
    journal.perform("setup", "setup", "programs", lambda: 0, True).made(root, ROOT_INODE)
    folders = []
    for place, (path, application) in enumerate(applications().items()):
        application.set_up(places[path])
        folder = journal.new("directory")
        record = journal.perform("setup", "setup", path, lambda: 0, True)
        record.name(root, path, folder)
        record.made(folder, inode(place))
        folders.append((place, path, application, folder))
    journal.disk.sync()
    journal.started = journal.disk.now()
    for place, path, application, folder in folders:
        row = "%s over %s" % (application.name, "NFS" if path.startswith("nfs") else "SMB CA")
        for number in range(1, counts[os.path.basename(path)] + 1):
            def act(application=application, number=number):
                application.commit(number)
                return 0

            commit = journal.new("file")
            record = journal.perform(path, row, "commit %d" % number, act, True)
            record.name(folder, str(number), commit)
            record.made(commit, inode(place, number))
        # The final commit must not count before the end.
        journal.ended = journal.disk.now()
    for _, _, application, _ in folders:
        application.close()


def observed(kind):
    return {"kind": kind, "mode": 0, "owner": [0, 0], "size": 0, "modified": 0, "links": 1, "attributes": {},
            "cells": [], "target": None}


def main():
    mount = sys.argv[1]
    names, inodes = {ROOT_INODE: {}}, {ROOT_INODE: observed("directory")}
    for place, (path, application) in enumerate(applications().items()):
        try:
            numbers = application.commits(os.path.join(mount, path))
        except Exception as error:  # pylint: disable=broad-except
            sys.exit("%s: %s: %s" % (path, type(error).__name__, error))
        if numbers != list(range(1, len(numbers) + 1)):
            sys.exit("%s: unexpected commits %s" % (path, numbers))
        names[ROOT_INODE][path] = inode(place)
        inodes[inode(place)] = observed("directory")
        names[inode(place)] = {str(number): inode(place, number) for number in numbers}
        inodes.update({inode(place, number): observed("file") for number in numbers})
    print(json.dumps({"root": ROOT_INODE, "inodes": inodes, "names": names}))


if __name__ == "__main__":
    main()
