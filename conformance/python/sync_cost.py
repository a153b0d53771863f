#!/usr/bin/env python3
"""Measures the cost of stable names: fsync of each directory, or one syncfs for all waiting programs.

    sync_cost.py FOLDER SECONDS

Threads create files in sequence, each in its own directory, and wait until each file is stable. With `fsync`
each thread syncs its directory. With `syncfs` threads share calls as the server does: a thread that arrives
during a call waits for the next one, with all others. Beside a writer, 16 MiB/s are written to another file
without a sync. Prints a table row for each number of threads, in names per second.
"""

import ctypes
import os
import shutil
import sys
import threading
import time

PROGRAMS = (1, 8, 64)
WRITER_BYTES, WRITES_A_SECOND = 1 << 20, 16
WRITER_FILE_BYTES = 256 << 20


class SharedSync:
    """Runs one syncfs at a time, for all threads that requested it before its start."""

    def __init__(self, folder):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = os.open(folder, os.O_RDONLY)
        self.changed = threading.Condition()
        self.begun, self.ended, self.runs = 0, 0, False

    def wait(self):
        with self.changed:
            mine = self.begun + 1
            while self.ended < mine:
                if self.runs:
                    self.changed.wait()
                    continue
                self.runs, self.begun = True, self.begun + 1
                number = self.begun
                self.changed.release()
                result = self.libc.syncfs(self.descriptor)
                self.changed.acquire()
                if result != 0:
                    raise OSError(ctypes.get_errno(), "syncfs")
                self.runs, self.ended = False, number
                self.changed.notify_all()

    def close(self):
        os.close(self.descriptor)


def program(folder, shared, end, counts):
    os.mkdir(folder)
    directory = os.open(folder, os.O_RDONLY)
    count = 0
    while time.monotonic() < end:
        os.close(os.open(f"f{count}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=directory))
        if shared:
            shared.wait()
        else:
            os.fsync(directory)
        count += 1
    os.close(directory)
    counts.append(count)


def writer(path, stopped):
    data = os.urandom(WRITER_BYTES)
    with open(path, "wb", buffering=0) as file:
        while not stopped.wait(1 / WRITES_A_SECOND):
            if file.tell() >= WRITER_FILE_BYTES:
                file.seek(0)
            file.write(data)


def rate(folder, programs, seconds, is_shared, has_writer):
    work = os.path.join(folder, "work")
    os.mkdir(work)
    os.sync()
    stopped = threading.Event()
    beside = threading.Thread(target=writer, args=(os.path.join(folder, "beside"), stopped))
    if has_writer:
        beside.start()
        time.sleep(1)
    shared = SharedSync(folder) if is_shared else None
    begin, counts = time.monotonic(), []
    arguments = [(os.path.join(work, str(n)), shared, begin + seconds, counts) for n in range(programs)]
    threads = [threading.Thread(target=program, args=one) for one in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begin
    if len(counts) != programs:
        sys.exit("a program failed")
    stopped.set()
    if has_writer:
        beside.join()
    if shared:
        shared.close()
    shutil.rmtree(work)
    return sum(counts) / took


def main():
    folder, seconds = sys.argv[1], float(sys.argv[2])
    kind = os.environ.get("KIND", folder)
    for programs in PROGRAMS:
        columns = [rate(folder, programs, seconds, is_shared, has_writer)
                   for has_writer in (False, True) for is_shared in (False, True)]
        print(f"| {kind} | {programs} | " + " | ".join(f"{column:,.0f}" for column in columns) + " |", flush=True)


main()
