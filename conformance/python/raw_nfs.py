"""An NFSv4.2 client that sends the given operations with the given credentials, without dependencies.
RFC 8881, RFC 7862, RFC 8276."""

import os
import socket
import struct

ANONYMOUS = b"\0" * 16
PUTFH, PUTROOTFH, LOOKUP, GETFH = 22, 24, 15, 10


def words(*numbers):
    return b"".join(struct.pack(">I", number & 0xFFFFFFFF) for number in numbers)


def long(number):
    return struct.pack(">Q", number)


def opaque(data):
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


def attributes(*pairs):
    """fattr4 of (number, value), in the order of their numbers."""
    mask = [0, 0, 0]
    for number, _ in pairs:
        mask[number // 32] |= 1 << (number % 32)
    return words(3, *mask) + opaque(b"".join(value for _, value in pairs))


def put(handle):
    return words(PUTFH) + opaque(handle)


class NfsStatus(Exception):
    def __init__(self, status):
        super().__init__("NFS status %s" % (status,))
        self.status = status


class Nfs:
    """A client with a session. Its requests use the credentials set last."""

    def __init__(self, host, port, uid, gid, groups=(), is_nobody=False, source="", slots=4):
        self.socket = connected(host, port, source)
        self.buffer, self.xid, self.sequence = b"", int.from_bytes(os.urandom(3), "big"), 0
        self.is_nobody = is_nobody
        self.act_as(uid, gid, groups)
        reply = self._succeed([words(42) + os.urandom(8) + opaque(os.urandom(8)) + words(0, 0, 0)])
        self.client, first = reply[8:16], struct.unpack(">I", reply[16:20])[0]
        channel = words(0, 1 << 20, 1 << 20, 8192, 16, slots, 0)
        back = words(0, 4096, 4096, 0, 2, 1, 0)
        body = words(43) + self.client + words(first, 0) + channel + back
        reply = self._succeed([body + words(0x40000000, 1, 0)])
        self.session = reply[8:24]
        self.compound(words(58, 0))

    def close_connection(self):
        self.socket.close()

    def act_as(self, uid, gid, groups=()):
        body = words(0) + opaque(b"matrix") + words(uid, gid, len(groups), *groups)
        self.credential = words(0, 0) if self.is_nobody else words(1) + opaque(body)

    def _need(self, count):
        while len(self.buffer) < count:
            data = self.socket.recv(1 << 18)
            if not data:
                raise EOFError("the server has closed the connection")
            self.buffer += data
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def _record(self):
        record, is_last = b"", False
        while not is_last:
            mark = struct.unpack(">I", self._need(4))[0]
            record, is_last = record + self._need(mark & 0x7FFFFFFF), mark >> 31 == 1
        return record

    def _request(self, operations):
        self.xid += 1
        message = words(self.xid, 0, 2, 100003, 4, 1) + self.credential + words(0, 0)
        message += opaque(b"") + words(2, len(operations)) + b"".join(operations)
        self.socket.sendall(words(0x80000000 | len(message)) + message)
        record = self._record()
        while record[4:8] == words(0):
            # A callback of the server: the client replies to the first one only, CB_NULL.
            if record[20:24] == words(0):
                answer = record[:4] + words(1, 0, 0, 0, 0)
                self.socket.sendall(words(0x80000000 | len(answer)) + answer)
            record = self._record()
        if record[4:24] != words(1, 0, 0, 0, 0):
            raise NfsStatus(("rpc", record[:24].hex()))
        status, length = struct.unpack(">II", record[24:32])
        return status, record[32 + length + -length % 4 + 4:]

    def _succeed(self, operations):
        status, reply = self._request(operations)
        if status:
            raise NfsStatus(status)
        return reply

    def compound(self, *operations):
        """The status, and the results after that of SEQUENCE."""
        self.sequence += 1
        sequence = words(53) + self.session + words(self.sequence, 0, 0, 0)
        status, reply = self._request([sequence, *operations])
        return status, reply[44:]

    def find(self, *path):
        lookups = [words(LOOKUP) + opaque(name.encode()) for name in path]
        status, reply = self.compound(words(PUTROOTFH), *lookups, words(GETFH))
        if status:
            raise NfsStatus(status)
        at = 8 * (1 + len(path)) + 8
        length = struct.unpack(">I", reply[at:at + 4])[0]
        return reply[at + 4:at + 4 + length]

    def open(self, directory, name, access, create=None):
        """The state id and the file's handle; `create` is the attributes of an UNCHECKED one."""
        how = words(0) if create is None else words(1, 0) + create
        body = words(18, 0, access, 0) + self.client + opaque(b"owner" + os.urandom(4)) + how
        body += words(0) + opaque(name.encode())
        status, reply = self.compound(put(directory), body, words(GETFH))
        if status:
            raise NfsStatus(status)
        # State id, change of the directory, flags, attributes set; no delegation, since the
        # client has no back channel.
        at = 16 + 16 + 20 + 4
        at += 4 + 4 * struct.unpack(">I", reply[at:at + 4])[0] + 4 + 8
        length = struct.unpack(">I", reply[at:at + 4])[0]
        return reply[16:32], reply[at + 4:at + 4 + length]

    def close(self, handle, state):
        return self.compound(put(handle), words(4, 0) + state)[0]


def connected(host, port, source=""):
    """Connects from a reserved port if this process may use one."""
    for local in range(1023, 600, -1):
        try:
            return socket.create_connection((host, port), 15, (source, local))
        except PermissionError:
            break
        except OSError:
            continue
    return socket.create_connection((host, port), 15, (source, 0))
