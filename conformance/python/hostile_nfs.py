"""raw_nfs's client for attacks: connections without a client record, forged owners, verifiers and sessions,
and pipelined requests."""

import os
import socket
import struct

from raw_nfs import Nfs, NfsStatus, connected, opaque, put, words

CREATE, LOOKUP, LOOKUPP, OPEN, READ, READDIR, REMOVE, RENAME = 6, 15, 16, 18, 25, 26, 28, 29
SAVEFH, SETATTR, WRITE = 32, 34, 38
EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, SEQUENCE, DESTROY_CLIENTID, RECLAIM_COMPLETE = 42, 43, 44, 53, 57, 58


class HostileNfs(Nfs):
    """A connection; `mount` makes it a client."""

    def __init__(self, server, uid=0, gid=0, groups=(), source=None, is_reserved=True, is_nobody=False):
        host, port = server.address, server.nfs_port
        if source or not is_reserved:
            self.socket = socket.create_connection((host, port), 15, (source or "", 0))
        else:
            self.socket = connected(host, port)
        self.buffer, self.xid, self.sequence = b"", int.from_bytes(os.urandom(3), "big"), 0
        self.is_nobody = is_nobody
        self.act_as(uid, gid, groups)

    @classmethod
    def mounted(cls, server, uid, gid=None, groups=(), **how):
        nfs = cls(server, uid, uid if gid is None else gid, groups, **how)
        nfs.mount()
        return nfs

    def mount(self, owner=None, is_called_back=False):
        status = self.exchange(owner or os.urandom(8)) or self.make_session(is_called_back=is_called_back)
        if status:
            raise NfsStatus(status)
        self.compound(words(RECLAIM_COMPLETE, 0))

    def exchange(self, owner, verifier=b"verifier", implementation=None):
        """The status of EXCHANGE_ID."""
        named = words(0)
        if implementation is not None:
            named = words(1) + opaque(b"domain") + opaque(implementation) + words(0, 0, 0)
        status, reply = self._request([words(EXCHANGE_ID) + verifier + opaque(owner) + words(0, 0) + named])
        if status == 0:
            self.client, self.first = reply[8:16], struct.unpack(">I", reply[16:20])[0]
        return status

    def make_session(self, slots=4, is_called_back=False):
        """The status of CREATE_SESSION. With a back channel on this connection the server delegates."""
        channel = words(0, 1049620, 1049620, 8192, 64, slots, 0)
        back = words(0, 4096, 4096, 0, 2, 1, 0)
        body = words(CREATE_SESSION) + self.client + words(self.first, 2 if is_called_back else 0) + channel + back
        status, reply = self._request([body + words(0x40000000, 1, 0)])
        if status == 0:
            self.session, self.sequence = reply[8:24], 0
            self.first += 1
        return status

    def open_delegated(self, directory, name, tries=50):
        """The state id of the write delegation that OPEN gets after the server has tested the back channel."""
        for _ in range(tries):
            body = words(OPEN, 0, 3, 0) + self.client + opaque(b"owner") + words(0) + words(0) + opaque(name.encode())
            status, reply = self.compound(put(directory), body)
            if status:
                raise NfsStatus(status)
            # After the state id: change_info4 of the directory, flags, attributes set.
            at = 16 + 16 + 20 + 4
            at += 4 + 4 * struct.unpack(">I", reply[at:at + 4])[0]
            if reply[at:at + 4] == words(2):
                return reply[at + 4:at + 20]
            self.close(self.find("data", name), reply[16:32])
        raise NfsStatus("no delegation")

    def does(self, handle, *operations):
        """The status of the operations on the handle."""
        return self.compound(put(handle), *operations)[0]

    def alone(self, operation):
        """The status of an operation outside any session."""
        return self._request([operation])[0]


def lookup(name):
    return words(LOOKUP) + opaque(name if isinstance(name, bytes) else name.encode())


def attributes_of(handle_numbers):
    mask = [0, 0, 0]
    for number in handle_numbers:
        mask[number // 32] |= 1 << (number % 32)
    return words(9, 3, *mask)


TYPE = attributes_of([1])


def read(state, offset, count):
    return words(READ) + state + struct.pack(">QI", offset, count)


def write(state, data, offset=0, stable=2):
    return words(WRITE) + state + struct.pack(">QI", offset, stable) + opaque(data)


def set_attributes(values, state=b"\0" * 16):
    """`values` is a complete fattr4."""
    return words(SETATTR) + state + values


def make(kind, name, values, data=b""):
    """CREATE of an object other than a regular file."""
    return words(CREATE, kind) + data + opaque(name.encode()) + values
