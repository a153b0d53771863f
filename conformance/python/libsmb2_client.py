"""Tests the server with libsmb2, an SMB client in C.

    libsmb2_client.py HOST PORT SHARE USER PASSWORD DIALECT signed|sealed STRANGERS-PORT

The lane's relay checks the traffic at PORT. The logon with a wrong password uses STRANGERS-PORT.
"""

import ctypes
import errno
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

ENTRIES = 5000
SIZE = 64 << 20
FOLDER = "libsmb2"
NEEDLE = f"{FOLDER}/anabranch-needle"
UNICODE = f"{FOLDER}/Grüße Ω 日本 😀"
DIALECTS = {"2.0.2": 0x0202, "2.1": 0x0210, "3.0": 0x0300, "3.0.2": 0x0302, "3.1.1": 0x0311}
SIGNING_ENABLED, SIGNING_REQUIRED = 1, 2
NTLMSSP = 1


class Stat(ctypes.Structure):
    """`struct smb2_stat_64`."""

    _fields_ = [
        ("kind", c_uint32),
        ("links", c_uint32),
        ("inode", c_uint64),
        ("size", c_uint64),
        ("times", c_uint64 * 8),
    ]


class Entry(ctypes.Structure):
    """`struct smb2dirent`."""

    _fields_ = [("name", c_char_p), ("stat", Stat)]


library = ctypes.CDLL("libsmb2.so.6")
for name, result, arguments in (
    ("init_context", c_void_p, []),
    ("set_version", None, [c_void_p, c_int]),
    ("set_security_mode", None, [c_void_p, c_uint16]),
    ("set_authentication", None, [c_void_p, c_int]),
    ("set_sign", None, [c_void_p, c_int]),
    ("set_seal", None, [c_void_p, c_int]),
    ("set_user", None, [c_void_p, c_char_p]),
    ("set_password", None, [c_void_p, c_char_p]),
    ("connect_share", c_int, [c_void_p, c_char_p, c_char_p, c_char_p]),
    ("disconnect_share", c_int, [c_void_p]),
    ("destroy_context", None, [c_void_p]),
    ("get_error", c_char_p, [c_void_p]),
    ("get_max_read_size", c_uint32, [c_void_p]),
    ("get_max_write_size", c_uint32, [c_void_p]),
    ("opendir", c_void_p, [c_void_p, c_char_p]),
    ("readdir", POINTER(Entry), [c_void_p, c_void_p]),
    ("closedir", None, [c_void_p, c_void_p]),
    ("open", c_void_p, [c_void_p, c_char_p, c_int]),
    ("close", c_int, [c_void_p, c_void_p]),
    ("pread", c_int, [c_void_p, c_void_p, POINTER(c_uint8), c_uint32, c_uint64]),
    ("pwrite", c_int, [c_void_p, c_void_p, POINTER(c_uint8), c_uint32, c_uint64]),
    ("stat", c_int, [c_void_p, c_char_p, POINTER(Stat)]),
    ("mkdir", c_int, [c_void_p, c_char_p]),
    ("rmdir", c_int, [c_void_p, c_char_p]),
    ("unlink", c_int, [c_void_p, c_char_p]),
    ("rename", c_int, [c_void_p, c_char_p, c_char_p]),
):
    function = getattr(library, f"smb2_{name}")
    function.restype, function.argtypes = result, arguments

host, port, share, user, password, dialect, protection = sys.argv[1:8]


class Client:
    """One connection; a call is one of the library's, without the context."""

    def __init__(self, to_port, with_password):
        self.context = library.smb2_init_context()
        library.smb2_set_version(self.context, DIALECTS[dialect])
        library.smb2_set_security_mode(self.context, SIGNING_ENABLED | SIGNING_REQUIRED)
        library.smb2_set_authentication(self.context, NTLMSSP)
        library.smb2_set_sign(self.context, 1)
        library.smb2_set_seal(self.context, protection == "sealed")
        library.smb2_set_user(self.context, user.encode())
        library.smb2_set_password(self.context, with_password.encode())
        self.status = self.connect_share(f"{host}:{to_port}", share, user)

    def __getattr__(self, name):
        function = getattr(library, f"smb2_{name}")

        def call(*arguments):
            arguments = [a.encode() if isinstance(a, str) else a for a in arguments]
            return function(self.context, *arguments)

        return call

    def succeed(self, name, *arguments):
        result = getattr(self, name)(*arguments)
        assert result is not None and result >= 0, (name, result, self.get_error())
        return result

    def names_in(self, path):
        directory = self.opendir(path)
        assert directory, self.get_error()
        names = []
        while entry := self.readdir(directory):
            names.append(entry.contents.name.decode())
        self.closedir(directory)
        return [name for name in names if name not in (".", "..")]

    def copy(self, name, file, data, step):
        for at in range(0, len(data), step):
            count = min(step, len(data) - at)
            part = (c_uint8 * count).from_buffer(data, at)
            done = self.succeed(name, file, part, count, at)
            assert done == count, (name, at, done)


stranger = Client(sys.argv[8], "wrong")
assert stranger.status < 0 and b"LOGON_FAILURE" in stranger.get_error(), (stranger.status, stranger.get_error())
stranger.destroy_context()
client = Client(port, password)
assert client.status == 0, client.get_error()
names = client.names_in("many")
assert len(names) == len(set(names)) == ENTRIES, len(names)
assert {"entry-0000-ä", "entry-4999-ä"} <= set(names)

client.succeed("mkdir", FOLDER)
data = bytearray(os.urandom(1 << 20) * (SIZE >> 20))
file = client.open(NEEDLE, os.O_WRONLY | os.O_CREAT)
assert file, client.get_error()
client.copy("pwrite", file, data, min(client.get_max_write_size(), 1 << 20))
client.succeed("close", file)
back = bytearray(SIZE)
file = client.open(NEEDLE, os.O_RDONLY)
client.copy("pread", file, back, min(client.get_max_read_size(), 1 << 20))
client.succeed("close", file)
assert back == data, "other bytes came back"
client.succeed("rename", NEEDLE, UNICODE)
about = Stat()
client.succeed("stat", UNICODE, byref(about))
assert about.size == SIZE
assert [f"{FOLDER}/{name}" for name in client.names_in(FOLDER)] == [UNICODE]

for wanted, name, arguments in (
    (errno.ENOENT, "stat", (NEEDLE, byref(about))),
    (errno.ENOENT, "stat", (f"{FOLDER}/no/file", byref(about))),
    (errno.ENOENT, "unlink", (NEEDLE,)),
    (errno.EEXIST, "mkdir", (FOLDER,)),
    (errno.EEXIST, "rename", (UNICODE, "many/entry-0000-ä")),
    (errno.EACCES, "unlink", ("closed/file",)),
):
    result = getattr(client, name)(*arguments)
    assert result == -wanted, (name, arguments, result, errno.errorcode.get(-result), client.get_error())
assert not client.open("denied", os.O_RDONLY) and b"ACCESS_DENIED" in client.get_error(), client.get_error()
client.succeed("unlink", UNICODE)
client.succeed("rmdir", FOLDER)
assert FOLDER not in client.names_in("")
client.succeed("disconnect_share")
client.destroy_context()
