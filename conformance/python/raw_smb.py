"""An SMB 3.1.1 client that sends the given requests, without dependencies: signed with HMAC-SHA256,
authenticated by NTLMv2. MS-SMB2, MS-NLMP."""

import hashlib
import hmac
import os
import socket
import struct

NEGOTIATE, SETUP, TREE_CONNECT, CREATE, CLOSE, READ, WRITE, QUERY, SET = 0, 1, 3, 5, 6, 8, 9, 16, 17
PENDING, MORE_PROCESSING = 0x103, 0xC0000016
SIGNED, ASYNC = 8, 2
POSIX_EXTENSIONS = bytes.fromhex("93AD25509CB411E7B42383DE968BCD7C")
NTLM_FLAGS = 0xE2088297


def utf16(text):
    return text.encode("utf-16le", "surrogatepass")


def md4(message):
    """MD4, RFC 1320, which OpenSSL no longer provides."""

    def rotated(value, by):
        return ((value << by) | (value >> (32 - by))) & 0xFFFFFFFF

    data = message + b"\x80" + b"\0" * (-(len(message) + 9) % 64) + struct.pack("<Q", len(message) * 8)
    state = [0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476]
    rounds = [
        (lambda x, y, z: (x & y) | (~x & z), 0, [3, 7, 11, 19], list(range(16))),
        (lambda x, y, z: (x & y) | (x & z) | (y & z), 0x5A827999, [3, 5, 9, 13],
         [i % 4 * 4 + i // 4 for i in range(16)]),
        (lambda x, y, z: x ^ y ^ z, 0x6ED9EBA1, [3, 9, 11, 15],
         [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15]),
    ]
    for at in range(0, len(data), 64):
        words = struct.unpack("<16I", data[at:at + 64])
        a, b, c, d = state
        for mix, constant, shifts, order in rounds:
            for i, word in enumerate(order):
                total = (a + mix(b, c, d) + words[word] + constant) & 0xFFFFFFFF
                a, b, c, d = d, rotated(total, shifts[i % 4]), b, c
        state = [(x + y) & 0xFFFFFFFF for x, y in zip(state, (a, b, c, d))]
    return struct.pack("<4I", *state)


def nt_hash(password):
    return md4(utf16(password))


def hmac_md5(key, data):
    return hmac.new(key, data, hashlib.md5).digest()


def rc4(key, data):
    state, j, out = list(range(256)), 0, bytearray()
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def sid(authority, *parts):
    head = struct.pack("<BB6s", 1, len(parts), authority.to_bytes(6, "big"))
    return head + struct.pack("<%dI" % len(parts), *parts)


def descriptor(owner=None, group=None, entries=None):
    """Self-relative; entries are (type, flags, mask, sid). MS-DTYP 2.4.6."""
    body, offsets, control = b"", [0, 0, 0], 0x8000
    for i, one in enumerate((owner, group)):
        if one:
            offsets[i] = 20 + len(body)
            body += one
    if entries is not None:
        control |= 4
        offsets[2] = 20 + len(body)
        packed = b"".join(struct.pack("<BBHI", kind, flags, 8 + len(who), mask) + who
                          for kind, flags, mask, who in entries)
        body += struct.pack("<BBHHH", 2, 0, 8 + len(packed), len(entries), 0) + packed
    return struct.pack("<BBHIIII", 1, 0, control, offsets[0], offsets[1], 0, offsets[2]) + body


def create_body(name, access, disposition=1, options=0, contexts=(), oplock=0, attributes=0x80):
    """The body of CREATE. MS-SMB2 2.2.13."""
    name, packed = utf16(name), b""
    for i, (kind, data) in enumerate(contexts):
        padding = -len(kind) % 8
        one = struct.pack("<HHHHI", 16, len(kind), 0, 16 + len(kind) + padding if data else 0, len(data))
        one += kind + b"\0" * padding + data
        one += b"\0" * (-(len(one) + 4) % 8) if i + 1 < len(contexts) else b""
        packed += struct.pack("<I", len(one) + 4 if i + 1 < len(contexts) else 0) + one
    padding = -len(name) % 8 if packed else 0
    at = 120 + len(name) + padding if packed else 0
    body = struct.pack("<HBBIQQIIIIIHHII", 57, 0, oplock, 2, 0, 0, access, attributes, 7, disposition, options,
                       120, len(name), at, len(packed))
    return body + ((name + b"\0" * padding + packed) or b"\0")


class Refused(Exception):
    def __init__(self, status):
        super().__init__("%#010x" % status)
        self.status = status


class Smb:
    """A connection with a session, and a share connected to."""

    # HMAC-SHA256. MS-SMB2 2.2.3.1.7.
    signing_algorithm = 0
    # Offered cipher: none, or AES-128-GCM (2). MS-SMB2 2.2.3.1.2.
    cipher = None
    # ClientGuid: new for each connection, or that of the client that reconnects its opens.
    client_guid = None

    def __init__(self, host, port, posix=False, source=None):
        self.socket = socket.create_connection((host, port), 15, source)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.next, self.session, self.tree = b"", 0, 0, 0
        self.key, self.preauth = None, b"\0" * 64
        self.posix = posix
        self._negotiate()

    def close_connection(self):
        self.socket.close()

    def _receive(self):
        def need(count):
            while len(self.buffer) < count:
                data = self.socket.recv(1 << 18)
                if not data:
                    raise EOFError("the server has closed the connection")
                self.buffer += data

        need(4)
        length = struct.unpack(">I", self.buffer[:4])[0]
        need(4 + length)
        frame, self.buffer = self.buffer[4:4 + length], self.buffer[4 + length:]
        return frame

    def _send(self, command, body):
        flags = SIGNED if self.key else 0
        head = struct.pack("<HHIHHIIQIIQ", 64, 1, 0, command, 64, flags, 0, self.next, 0xFEFF,
                           self.tree, self.session)
        message = b"\xfeSMB" + head + b"\0" * 16 + body
        if self.key:
            signature = hmac.new(self.key, message, hashlib.sha256).digest()[:16]
            message = message[:48] + signature + message[64:]
        self.next += 1
        self.socket.sendall(struct.pack(">I", len(message)) + message)
        return message

    def _call(self, command, body):
        """Sends the request; returns the status and the complete reply, without interim replies."""
        sent = self._send(command, body)
        while True:
            reply = self._receive()
            status, flags = struct.unpack("<I", reply[8:12])[0], struct.unpack("<I", reply[16:20])[0]
            is_notice = reply[24:32] == b"\xff" * 8
            if not is_notice and not (status == PENDING and flags & ASYNC):
                return sent, status, reply

    def call(self, command, body):
        return self._call(command, body)[1:]

    def _hash(self, *messages):
        for message in messages:
            self.preauth = hashlib.sha512(self.preauth + message).digest()

    def _negotiate(self):
        contexts = [
            (1, struct.pack("<HHH", 1, 32, 1) + os.urandom(32)),
            (8, struct.pack("<HH", 1, self.signing_algorithm)),
        ]
        if self.cipher:
            contexts.append((2, struct.pack("<HH", 1, self.cipher)))
        if self.posix:
            contexts.append((0x100, POSIX_EXTENSIONS))
        packed = b""
        for kind, data in contexts:
            packed += b"\0" * (-len(packed) % 8) + struct.pack("<HHI", kind, len(data), 0) + data
        dialects = struct.pack("<H", 0x311) + b"\0" * 2
        body = struct.pack("<HHHHI", 36, 1, 1, 0, 0x7F) + (self.client_guid or os.urandom(16))
        body += struct.pack("<IHH", 64 + 36 + len(dialects), len(contexts), 0) + dialects + packed
        sent, status, reply = self._call(NEGOTIATE, body)
        if status:
            raise Refused(status)
        self._hash(sent, reply)

    def _setup(self, token):
        body = struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 88, len(token), 0) + token
        return self._call(SETUP, body)

    def log_on(self, user, password):
        """True for a guest, whose messages are not signed."""
        first = b"NTLMSSP\0" + struct.pack("<II", 1, NTLM_FLAGS) + b"\0" * 16 + b"\6\1\0\0\0\0\0\x0f"
        sent, status, reply = self._setup(first)
        if status != MORE_PROCESSING:
            raise Refused(status)
        self._hash(sent, reply)
        self.session = struct.unpack("<Q", reply[40:48])[0]
        offset, length = struct.unpack("<HH", reply[68:72])
        last, key = authenticate(first, reply[offset:offset + length], user, password)
        sent, status, reply = self._setup(last)
        if status:
            raise Refused(status)
        self._hash(sent)
        is_guest = struct.unpack("<H", reply[66:68])[0] & 3 != 0
        if not is_guest:
            self.key = self._derived(key, b"SMBSigningKey\0")
            self.sealing_key = self._derived(key, b"SMBC2SCipherKey\0")
        return is_guest

    def _derived(self, key, label):
        """MS-SMB2 3.1.4.2."""
        text = struct.pack(">I", 1) + label + b"\0" + self.preauth + struct.pack(">I", 128)
        return hmac.new(key, text, hashlib.sha256).digest()[:16]

    def connect(self, share):
        path = utf16("\\\\server\\" + share)
        status, reply = self.call(TREE_CONNECT, struct.pack("<HHHH", 9, 0, 72, len(path)) + path)
        if status:
            raise Refused(status)
        self.tree = struct.unpack("<I", reply[36:40])[0]

    def create(self, name, access, disposition=1, options=0, contexts=()):
        """Returns the FileId; `created` has the complete reply of CREATE."""
        status, reply = self.call(CREATE, create_body(name, access, disposition, options, contexts))
        if status:
            raise Refused(status)
        self.created = reply
        return reply[128:144]

    def close(self, file):
        return self.call(CLOSE, struct.pack("<HHI", 24, 0, 0) + file)[0]

    def read(self, file, length, offset=0):
        body = struct.pack("<HBBIQ", 49, 0x50, 0, length, offset) + file + b"\0" * 16 + b"\0"
        return self.call(READ, body)[0]

    def write(self, file, data, offset=0):
        body = struct.pack("<HHIQ", 49, 112, len(data), offset) + file + b"\0" * 16 + data
        return self.call(WRITE, body)[0]

    def set(self, file, kind, information, data, additional=0):
        body = struct.pack("<HBBIHHI", 33, kind, information, len(data), 96, 0, additional) + file + data
        return self.call(SET, body)[0]

    def rename(self, file, name, information=10):
        """Renames, or creates a hard link with information class 11."""
        name = utf16(name)
        return self.set(file, 1, information, struct.pack("<B7xQI", 0, 0, len(name)) + name)


def authenticate(first, challenge, user, password, workstation="MATRIX", domain=""):
    """AUTHENTICATE_MESSAGE with its integrity code, and the session's key. MS-NLMP 3.1.5.1.2."""
    flags = struct.unpack("<I", challenge[20:24])[0]
    length, at = struct.unpack("<H2xI", challenge[40:48])
    pairs, target, offset, stamp = b"", challenge[at:at + length], 0, b"\0" * 8
    while offset + 4 <= len(target):
        kind, size = struct.unpack("<HH", target[offset:offset + 4])
        if kind == 0:
            break
        if kind == 7:
            stamp = target[offset + 4:offset + 12]
        pairs += target[offset:offset + 4 + size]
        offset += 4 + size
    pairs += struct.pack("<HHI", 6, 4, 2) + b"\0" * 4
    owner = hmac_md5(nt_hash(password), utf16(user.upper() + domain))
    blob = b"\1\1" + b"\0" * 6 + stamp + os.urandom(8) + b"\0" * 4 + pairs + b"\0" * 4
    proof = hmac_md5(owner, challenge[24:32] + blob)
    base = hmac_md5(owner, proof)
    key = os.urandom(16) if flags & 0x40000000 else base
    wrapped = rc4(base, key) if flags & 0x40000000 else b""
    fields, payload, at = b"", b"", 88
    for part in (b"\0" * 24, proof + blob, utf16(domain), utf16(user), utf16(workstation), wrapped):
        fields += struct.pack("<HHI", len(part), len(part), at)
        payload += part
        at += len(part)
    head = b"NTLMSSP\0" + struct.pack("<I", 3) + fields + struct.pack("<I", flags)
    message = head + b"\6\1\0\0\0\0\0\x0f" + b"\0" * 16 + payload
    return message[:72] + hmac_md5(key, first + challenge + message) + message[88:], key
