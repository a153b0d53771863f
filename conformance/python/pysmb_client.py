"""Tests the server with pysmb, an SMB client in Python.

    pysmb_client.py HOST PORT SHARE USER PASSWORD DIALECT signed STRANGERS-PORT

pysmb starts with an SMB1 NEGOTIATE, switches to SMB 2.0.2, and does not seal. The lane's relay checks the
traffic at PORT. The logon with a wrong password uses STRANGERS-PORT.
"""

import hashlib
import io
import sys

from smb.SMBConnection import SMBConnection
from smb.smb_structs import OperationFailure

ENTRIES = 5000
SIZE = 64 << 20
FOLDER = "pysmb"
NEEDLE = f"{FOLDER}/anabranch-needle"
# It renames to characters of two units by a length that is too short, but opens them.
UNICODE = "Grüße Ω 日本"
TWO_UNITS = "Grüße 😀"
OBJECT_NAME_NOT_FOUND, OBJECT_NAME_COLLISION = 0xC0000034, 0xC0000035
OBJECT_PATH_NOT_FOUND, ACCESS_DENIED, DIRECTORY_NOT_EMPTY = 0xC000003A, 0xC0000022, 0xC0000101

host, port, share, user, password = sys.argv[1:6]


def connect(to_port, with_password):
    client = SMBConnection(
        user, with_password, "client", host, sign_options=SMBConnection.SIGN_WHEN_SUPPORTED, is_direct_tcp=True
    )
    return client, client.connect(host, int(to_port))


def refused(status, what, call, *arguments):
    try:
        call(share, *arguments)
    except OperationFailure as error:
        statuses = [message.status for message in error.smb_messages if getattr(message, "status", 0)]
        assert status in [getattr(s, "internal_value", s) for s in statuses], (what, statuses)
        return
    raise AssertionError(f"{what} was not refused")


_, is_in = connect(sys.argv[8], "wrong")
assert not is_in, "a wrong password was taken"
client, is_in = connect(port, password)
assert is_in and client.isUsingSMB2
names = [entry.filename for entry in client.listPath(share, "many")]
names = [name for name in names if name not in (".", "..")]
assert len(names) == len(set(names)) == ENTRIES, len(names)
assert {"entry-0000-ä", "entry-4999-ä"} <= set(names)
client.createDirectory(share, FOLDER)
data = bytes(range(256)) * (SIZE >> 8)
assert client.storeFile(share, NEEDLE, io.BytesIO(data), timeout=120) == SIZE
back = io.BytesIO()
client.retrieveFile(share, NEEDLE, back, timeout=120)
assert hashlib.sha256(back.getvalue()).digest() == hashlib.sha256(data).digest(), "other bytes came back"
client.rename(share, NEEDLE, f"{FOLDER}/{UNICODE}")
assert client.getAttributes(share, f"{FOLDER}/{UNICODE}").file_size == SIZE
client.storeFile(share, f"{FOLDER}/{TWO_UNITS}", io.BytesIO(b"small"))
assert {UNICODE, TWO_UNITS} <= {entry.filename for entry in client.listPath(share, FOLDER)}
client.deleteFiles(share, f"{FOLDER}/{TWO_UNITS}")
refused(OBJECT_NAME_NOT_FOUND, "a missing file", client.retrieveFile, NEEDLE, io.BytesIO())
refused(OBJECT_PATH_NOT_FOUND, "a missing directory", client.retrieveFile, f"{FOLDER}/no/file", io.BytesIO())
refused(OBJECT_NAME_COLLISION, "a name that exists", client.rename, f"{FOLDER}/{UNICODE}", "many/entry-0000-ä")
refused(OBJECT_NAME_COLLISION, "a directory that exists", client.createDirectory, FOLDER)
refused(ACCESS_DENIED, "a file of somebody else", client.retrieveFile, "denied", io.BytesIO())
refused(DIRECTORY_NOT_EMPTY, "a directory with entries", client.deleteDirectory, FOLDER)
client.deleteFiles(share, f"{FOLDER}/{UNICODE}")
client.deleteDirectory(share, FOLDER)
assert FOLDER not in [entry.filename for entry in client.listPath(share, "/")]
client.close()
