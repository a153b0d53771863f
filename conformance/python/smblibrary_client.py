"""Reproduces a race of SMBLibrary (C#) against the server: `smblibrary_client.py HOST PORT`.

Its first request after NEGOTIATE may reuse the message id 0. Each id may be used once (MS-SMB2 3.3.5.2.3), so
the server closes the connection without a reply. The library then fails at once instead of waiting, and
other connections continue. The library itself does not run, because CI cannot reach its registry.
"""

import socket
import struct
import sys

NEGOTIATE, SETUP = 0, 1
# Much longer than a close takes, but below the logon timeout of the server.
PATIENCE_SECONDS = 5
host, port = sys.argv[1], int(sys.argv[2])


def message(command, message_id, body):
    header = b"\xfeSMB" + struct.pack("<HHIHHIIQIIQ", 64, 1, 0, command, 1, 0, 0, message_id, 0, 0, 0) + bytes(16)
    return struct.pack(">I", len(header + body)) + header + body


def exactly(connection, length):
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise EOFError(data)
        data += part
    return data


def reply(connection):
    length = struct.unpack(">I", exactly(connection, 4))[0]
    return exactly(connection, length)


def negotiated():
    connection = socket.create_connection((host, port), timeout=PATIENCE_SECONDS)
    body = struct.pack("<HHHHI16sQHH", 36, 2, 1, 0, 0, bytes(range(16)), 0, 0x202, 0x210)
    connection.sendall(message(NEGOTIATE, 0, body))
    assert struct.unpack_from("<IH", reply(connection), 8) == (0, NEGOTIATE)
    return connection


def setup(message_id):
    token = b"NTLMSSP\0" + struct.pack("<II", 1, 0x20088215) + bytes(16)
    return message(SETUP, message_id, struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 88, len(token), 0) + token)


repeating = negotiated()
repeating.sendall(setup(0))
try:
    received = repeating.recv(4)
except ConnectionResetError:
    received = b""
assert received == b"", "a reply to a message id that was used"
orderly = negotiated()
orderly.sendall(setup(1))
assert struct.unpack_from("<IH", reply(orderly), 8) == (0xC0000016, SETUP), "the next logon goes on"
