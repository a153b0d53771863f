#!/usr/bin/env python3
"""Sends invalid tickets of the maximum size of a SESSION_SETUP, and parts of one. The server must refuse each
at once, and the connection must accept a logon by password afterwards.

    domain_tokens.py ADDRESS PORT USER PASSWORD
"""

import os
import sys

from raw_smb import Smb

# SecurityBufferLength has 16 bits. MS-SMB2 2.2.5.
TOKEN_BYTES_MAX = 65535
INVALID_PARAMETER, LOGON_FAILURE = 0xC000000D, 0xC000006D
SPNEGO = bytes.fromhex("2b0601050502")
KERBEROS = bytes.fromhex("2a864886f712010202")


def element(tag, *parts):
    """In DER."""
    body = b"".join(parts)
    if len(body) < 128:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def token(ticket_bytes):
    """A NegTokenInit with a Kerberos AP-REQ whose ticket is random. RFC 4178 4.2.1, RFC 4121 4.1."""
    request = element(0x6E, element(0x30, os.urandom(ticket_bytes)))
    ticket = element(0x60, element(6, KERBEROS), b"\1\0", request)
    init = element(0x30, element(0xA0, element(0x30, element(6, KERBEROS))), element(0xA2, element(4, ticket)))
    return element(0x60, element(6, SPNEGO), element(0xA0, init))


def largest():
    surroundings = len(token(TOKEN_BYTES_MAX - 256)) - (TOKEN_BYTES_MAX - 256)
    made = token(TOKEN_BYTES_MAX - surroundings)
    if len(made) != TOKEN_BYTES_MAX:
        sys.exit("not the largest token: %d bytes" % len(made))
    return made


def must_be_refused(what, connection, part, status):
    got = connection._setup(part)[1]
    if got != status:
        sys.exit("%s: %#010x, not %#010x" % (what, got, status))


def main():
    address, port, user, password = sys.argv[1:]
    connection = Smb(address, int(port))
    made = largest()
    for _ in range(8):
        must_be_refused("the largest token", connection, made, LOGON_FAILURE)
    # SMB does not continue split GSS tokens: after the refusal no session exists for the rest.
    must_be_refused("the first half of a token", connection, made[:len(made) // 2], INVALID_PARAMETER)
    must_be_refused("the second half of a token", connection, made[len(made) // 2:], INVALID_PARAMETER)
    if connection.log_on(user, password):
        sys.exit("a guest")


if __name__ == "__main__":
    main()
