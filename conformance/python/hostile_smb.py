"""raw_smb's client for attacks: pipelined requests, forged message ids, sessions, trees and keys, anonymous
and relayed logons, and AES-GMAC."""

import hashlib
import hmac
import os
import struct

import aes_gmac
from raw_smb import (
    ASYNC, CREATE, MORE_PROCESSING, NTLM_FLAGS, PENDING, READ, SETUP, SIGNED, TREE_CONNECT, Refused, Smb,
    authenticate, create_body, utf16,
)

LOGOFF, TREE_DISCONNECT, FLUSH, LOCK, IOCTL, CANCEL, ECHO, LIST, NOTIFY = 2, 4, 7, 10, 11, 12, 13, 14, 15
RELATED, NOTICE_ID = 4, (1 << 64) - 1
ALL_ONES = b"\xff" * 16
ACCESS_DENIED, SUCCESS = 0xC0000022, 0
EXCLUSIVE, SHARED, UNLOCK, AT_ONCE = 2, 1, 4, 0x10
READS, READS_AND_WRITES, EVERYTHING = 0x120089, 0x12019F, 0x1F01FF
OPENED, CREATED, OPENED_OR_CREATED, OVERWRITTEN = 1, 2, 3, 4
DIRECTORY, DELETE_ON_CLOSE, REPARSE_POINT = 1, 0x1000, 0x200000


class Reply:
    def __init__(self, raw):
        self.raw, self.body = raw, raw[64:]
        self.status, self.command = struct.unpack("<IH", raw[8:14])
        self.flags, self.id = struct.unpack("<I", raw[16:20])[0], struct.unpack("<Q", raw[24:32])[0]
        self.tree, self.session = struct.unpack("<IQ", raw[36:48])

    @property
    def is_interim(self):
        return self.status == PENDING and self.flags & ASYNC != 0

    @property
    def is_signed(self):
        return self.flags & SIGNED != 0


class HostileSmb(Smb):
    def __init__(self, server, source=None, is_gmac=False, posix=False, is_sealing=False):
        self.signing_algorithm = 2 if is_gmac else 0
        self.cipher = 2 if is_sealing else None
        self.arrived, self.seen = {}, []
        super().__init__(server.address, server.smb_port, posix, (source, 0) if source else None)
        # The hash of NEGOTIATE, with which each session of the connection begins. MS-SMB2 3.3.5.5.
        self.negotiated = self.preauth

    @classmethod
    def of(cls, server, user, share="data", **how):
        """A connection on which this user has logged on, and has connected to the share."""
        smb = cls(server, **how)
        smb.log_on(user, "password")
        smb.connect(share)
        return smb

    def signature(self, message, key=None):
        key, message = key or self.key, message[:48] + b"\0" * 16 + message[64:]
        if self.signing_algorithm == 0:
            return hmac.new(key, message, hashlib.sha256).digest()[:16]
        is_cancel = struct.unpack("<H", message[12:14])[0] == CANCEL
        role = (message[16] & 1) | (2 if is_cancel else 0)
        return aes_gmac.tag(key, message[24:32] + bytes([role, 0, 0, 0]), message)

    def message(self, command, body, message_id=None, charge=1, credits=64, is_signed=None, key=None,
                session=None, tree=None, flags=0, following=0):
        if message_id is None:
            message_id = self.next
            self.next += charge
        key = key or self.key
        is_signed = key is not None if is_signed is None else is_signed
        head = struct.pack(
            "<HHIHHIIQIIQ", 64, charge, 0, command, credits, flags | (SIGNED if is_signed else 0), following,
            message_id, 0xFEFF, self.tree if tree is None else tree,
            self.session if session is None else session)
        message = b"\xfeSMB" + head + b"\0" * 16 + body
        if is_signed:
            message = message[:48] + self.signature(message, key) + message[64:]
        return message

    def sealed(self, message):
        """The message within SMB2 TRANSFORM_HEADER; the server seals its reply, then. MS-SMB2 2.2.41."""
        nonce = os.urandom(12)
        head = nonce + b"\0" * 4 + struct.pack("<IHHQ", len(message), 0, 1, self.session)
        tag, text = aes_gmac.seal(self.sealing_key, nonce, head, message)
        return b"\xfdSMB" + tag + head + text

    def send(self, *messages):
        self.socket.sendall(b"".join(struct.pack(">I", len(one)) + one for one in messages))

    def send_prefix(self, length):
        """Sends the head of a message only."""
        self.socket.sendall(struct.pack(">I", length))

    def post(self, command, body, **how):
        """Sends a request without waiting for the reply; returns its message id."""
        message = self.message(command, body, **how)
        self.send(message)
        return struct.unpack("<Q", message[24:32])[0]

    def next_reply(self):
        """The next message of the server; parts of a compound one at a time."""
        while not self.seen:
            frame = self._receive()
            while frame:
                following = struct.unpack("<I", frame[20:24])[0]
                self.seen.append(Reply(frame[:following] if following else frame))
                frame = frame[following:] if following else b""
        return self.seen.pop(0)

    def reply(self, message_id, is_interim=False):
        """The reply to this message id; the interim reply on request."""
        while message_id not in self.arrived:
            reply = self.next_reply()
            if reply.is_interim:
                if is_interim and reply.id == message_id:
                    return reply
            elif reply.id != NOTICE_ID:
                self.arrived[reply.id] = reply
        return self.arrived.pop(message_id)

    def request(self, command, body, **how):
        return self.reply(self.post(command, body, **how))

    def status(self, command, body, **how):
        return self.request(command, body, **how).status

    def _call(self, command, body):
        sent = self.message(command, body)
        self.send(sent)
        reply = self.reply(struct.unpack("<Q", sent[24:32])[0])
        return sent, reply.status, reply.raw

    def chain(self, *requests):
        """One frame of several requests: (command, body, flags, session, tree). Their statuses."""
        frame, ids = b"", []
        for i, (command, body, flags, session, tree) in enumerate(requests):
            is_last = i + 1 == len(requests)
            body += b"" if is_last else b"\0" * (-len(body) % 8)
            ids.append(self.next)
            frame += self.message(command, body, flags=flags, session=session, tree=tree,
                                  following=0 if is_last else 64 + len(body))
        self.send(frame)
        return [self.reply(one).status for one in ids]

    def take_credits(self, times=20):
        for _ in range(times):
            self.request(ECHO, b"\4\0\0\0", credits=512)

    def log_on_anonymously(self):
        """A new anonymous session, or an anonymous reauthentication of the present one; returns the status."""
        first = ntlm_negotiate()
        reply = self.request(SETUP, setup_body(first), tree=0)
        if reply.status != MORE_PROCESSING:
            return reply.status
        fields = b"".join(struct.pack("<HHI", size, size, 88) for size in (1, 0, 0, 0, 0, 0))
        last = b"NTLMSSP\0" + struct.pack("<I", 3) + fields + struct.pack("<I", NTLM_FLAGS & ~0x40000000 | 0x800)
        last += b"\6\1\0\0\0\0\0\x0f" + b"\0" * 16 + b"\0"
        self.session = reply.session
        return self.status(SETUP, setup_body(last), tree=0)

    def guess(self, password, user="victim", workstation="ATTACK", domain=""):
        """Sends a logon; returns the message id of its last request."""
        first = ntlm_negotiate()
        reply = self.request(SETUP, setup_body(first), session=0, tree=0, is_signed=False)
        if reply.status != MORE_PROCESSING:
            raise Refused(reply.status)
        last, _ = authenticate(first, token_of(reply), user, password, workstation, domain)
        return self.post(SETUP, setup_body(last), session=reply.session, tree=0, is_signed=False)

    def log_on_again(self, user, password, is_signed=True):
        """Reauthenticates the session as this user; returns the status."""
        first = ntlm_negotiate()
        reply = self.request(SETUP, setup_body(first), tree=0, is_signed=is_signed)
        if reply.status != MORE_PROCESSING:
            return reply.status
        last, _ = authenticate(first, token_of(reply), user, password)
        return self.status(SETUP, setup_body(last), tree=0, is_signed=is_signed)

    def connected(self, share, **how):
        """The status of TREE_CONNECT; success changes the tree."""
        path = utf16("\\\\server\\" + share)
        reply = self.request(TREE_CONNECT, struct.pack("<HHHH", 9, 0, 72, len(path)) + path, tree=0, **how)
        if reply.status == SUCCESS:
            self.tree = reply.tree
        return reply.status

    def open(self, name, access=READS, disposition=OPENED, options=0, contexts=(), oplock=0, **how):
        """The status, and the FileId on success."""
        body = create_body(name, access, disposition, options, contexts, oplock)
        reply = self.request(CREATE, body, **how)
        self.created = reply.raw
        return reply.status, reply.raw[128:144] if reply.status == SUCCESS else None

    def data(self, file, length=64, offset=0, **how):
        """The status and the data."""
        reply = self.request(READ, read_body(file, length, offset), **how)
        if reply.status:
            return reply.status, b""
        at, size = reply.body[2], struct.unpack("<I", reply.body[4:8])[0]
        return SUCCESS, reply.raw[at:at + size]

    def lock(self, file, *ranges):
        return self.status(LOCK, lock_body(file, *ranges))

    def control(self, file, code, data=b"", length=65536):
        """The status and the output of FSCTL."""
        head = struct.pack("<HHI", 57, 0, code) + file
        body = head + struct.pack("<8I", 120, len(data), 0, 0, 0, length, 1, 0) + data
        reply = self.request(IOCTL, body)
        if reply.status:
            return reply.status, b""
        at, size = struct.unpack("<II", reply.body[32:40])
        return SUCCESS, reply.raw[at:at + size]

    def listed(self, file, pattern="*"):
        """The status, and the names of the first reply."""
        pattern = utf16(pattern)
        head = struct.pack("<HBBI", 33, 12, 0, 0) + file
        reply = self.request(LIST, head + struct.pack("<HHI", 96, len(pattern), 65536) + pattern)
        if reply.status:
            return reply.status, []
        at, size = struct.unpack("<HI", reply.body[2:8])
        entries, names = reply.raw[at:at + size], []
        while entries:
            following, _, length = struct.unpack("<III", entries[:12])
            names.append(entries[12:12 + length].decode("utf-16le", "replace"))
            entries = entries[following:] if following else b""
        return SUCCESS, names


def ntlm_negotiate():
    return b"NTLMSSP\0" + struct.pack("<II", 1, NTLM_FLAGS) + b"\0" * 16 + b"\6\1\0\0\0\0\0\x0f"


def setup_body(token, flags=0):
    return struct.pack("<HBBIIHHQ", 25, flags, 1, 0, 0, 88, len(token), 0) + token


def token_of(reply):
    offset, length = struct.unpack("<HH", reply.body[4:8])
    return reply.raw[offset:offset + length]


def read_body(file, length, offset=0):
    return struct.pack("<HBBIQ", 49, 0x50, 0, length, offset) + file + b"\0" * 16 + b"\0"


def write_body(file, data, offset=0):
    return struct.pack("<HHIQ", 49, 112, len(data), offset) + file + b"\0" * 16 + data


def lock_body(file, *ranges):
    """Of (offset, length, flags)."""
    body = struct.pack("<HHI", 48, len(ranges), 0) + file
    return body + b"".join(struct.pack("<QQII", offset, length, flags, 0) for offset, length, flags in ranges)


def notify_body(directory, length=65536, filters=0x17F):
    return struct.pack("<HHI", 32, 0, length) + directory + struct.pack("<II", filters, 0)


def lease(key, state=7):
    return b"RqLs", key + struct.pack("<IIQ", state, 0, 0)


def durable(create_guid, is_persistent=False):
    """Durable for five minutes. MS-SMB2 2.2.13.2.11."""
    return b"DH2Q", struct.pack("<IIQ", 300000, 2 if is_persistent else 0, 0) + create_guid
