#!/usr/bin/env python3
"""Tests that a slow verification of one ticket does not delay other clients.

    domain_slow.py KEYTAB PORT TICKETS

The server reads the keytab for each ticket. The test replaces it by a FIFO, so that a verification
waits until the test closes its end. The test is therefore independent of timing: other operations must
complete while a ticket is blocked, and each wait ends after a minute. TICKETS is the folder of the
ticket caches.
"""

import os
import subprocess
import sys
import time

SECONDS_MAX = 60
KEYTAB, PORT, TICKETS = sys.argv[1:]
COPY = KEYTAB + ".copy"
# Addresses of the server. A local client has the address that it connects to as its source, and each client
# address has its own verification threads.
NEAR, FAR = "10.66.0.2", "10.66.0.3"


def client(address, commands, user=None, **options):
    """Runs smbclient with a ticket of the user, or with alice's password."""
    by = ["-U", "alice%secret.0", "--use-kerberos=off"]
    environment = dict(os.environ)
    if user:
        by = ["--use-kerberos=required", "-N"]
        environment["KRB5CCNAME"] = "FILE:%s/tickets.%s" % (TICKETS, user)
    command = ["stdbuf", "-oL", "timeout", str(2 * SECONDS_MAX), "smbclient", "//files.corp.test/data", "-I", address]
    command += ["-p", PORT, *by]
    command += ["-c", commands] if commands else []
    return subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, **options)


def output(process):
    return process.communicate(timeout=2 * SECONDS_MAX)[0]


def must_pass(what, process):
    text = output(process)
    if process.returncode:
        sys.exit("%s: %s" % (what, text))


def must_be_refused(what, process):
    text = output(process)
    if "LOGON_FAILURE" not in text:
        sys.exit("%s: not a refusal: %s" % (what, text))


class Browser:
    """A connected client that lists the share on request."""

    def __init__(self, user):
        self.process = client(NEAR, None, user)

    def list(self):
        self.process.stdin.write("ls\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if "blocks available" in line:
                return
            if "NT_STATUS" in line:
                sys.exit("a listing: " + line)
        sys.exit("an existing client lost its connection")

    def end(self):
        self.process.communicate("quit\n", timeout=SECONDS_MAX)


class HeldTicket:
    """Blocks the verification of one ticket at the FIFO; later ones read the keytab."""

    def __init__(self, address, user):
        os.mkfifo(KEYTAB + ".fifo")
        os.rename(KEYTAB + ".fifo", KEYTAB)
        self.client = client(address, "ls", user)
        self.end_of_fifo = self.wait_for_judge()
        restore()

    @staticmethod
    def wait_for_judge():
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                # The open succeeds only while a process reads the FIFO.
                return os.open(KEYTAB, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                time.sleep(0.02)
        sys.exit("the server verifies no ticket")

    def release(self):
        os.close(self.end_of_fifo)


def restore():
    with open(COPY, "rb") as source, open(KEYTAB + ".new", "wb") as target:
        os.fchmod(target.fileno(), 0o600)
        target.write(source.read())
    os.rename(KEYTAB + ".new", KEYTAB)


def main():
    os.rename(KEYTAB, COPY)
    restore()
    browsers = [Browser(user) for user in ("wide", "many", "wide", None, None, None)]
    for browser in browsers:
        browser.list()
    held = HeldTicket(NEAR, "many")
    for browser in browsers:
        browser.list()
    must_pass("a password, while a ticket is held", client(NEAR, "ls"))
    must_pass("another's ticket, while one is held", client(NEAR, "ls", "wide"))
    must_pass("another address's ticket, while one is held", client(FAR, "ls", "wide"))
    print("6 connections, a password and 2 other tickets succeed while one verification is blocked")
    held.release()
    must_be_refused("the ticket that was held", held.client)
    both = [HeldTicket(NEAR, "many"), HeldTicket(NEAR, "wide")]
    # All verification threads of the address are blocked.
    third = client(NEAR, "ls", "wide")
    must_pass("another address's ticket, while two are held", client(FAR, "ls", "wide"))
    for browser in browsers:
        browser.list()
    must_be_refused("a ticket that finds no judge", third)
    for one in both:
        must_be_refused("a ticket that is held to its deadline", one.client)
    print("a ticket whose verification takes too long is refused")
    for one in both:
        one.release()
    must_pass("a ticket, once the keytab can be read", client(NEAR, "ls", "many"))
    for browser in browsers:
        browser.list()
        browser.end()


if __name__ == "__main__":
    main()
