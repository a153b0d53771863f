"""A relay that records the protection of the traffic between a client and the server.

    wiretap.py HOST:PORT SERVER:PORT REPORT

Every connection that ends adds a line to REPORT: the negotiated dialect, signing algorithm and cipher, and
the numbers of sealed, signed and plain messages after the logon in each direction. `needles` counts the
messages with a readable file name or content that contains NEEDLE.

The report depends on the bytes only, not on statements of client and server.
"""

import socket
import struct
import sys
import threading

NEEDLE = b"anabranch-needle"
NEEDLES = (NEEDLE, NEEDLE.decode().encode("utf-16-le"))

NEGOTIATE, SESSION_SETUP, LOGOFF, TREE_CONNECT = 0, 1, 2, 3
FLAG_ASYNC, FLAG_SIGNED = 2, 8
STATUS_SUCCESS, STATUS_PENDING = 0, 0x103
UNASKED = 0xFFFF_FFFF_FFFF_FFFF
DIALECTS = {0x0202: "2.0.2", 0x0210: "2.1", 0x0300: "3.0", 0x0302: "3.0.2", 0x0311: "3.1.1"}
# Defaults of a dialect without negotiate contexts.
SIGNING_OF = {0x0202: "HMAC-SHA256", 0x0210: "HMAC-SHA256"}
SIGNING = {0: "HMAC-SHA256", 1: "AES-128-CMAC", 2: "AES-128-GMAC"}
CIPHER_OF = {0x0300: "AES-128-CCM", 0x0302: "AES-128-CCM"}
CIPHERS = {1: "AES-128-CCM", 2: "AES-128-GCM", 3: "AES-256-CCM", 4: "AES-256-GCM"}


class Tap:
    """The state of one connection."""

    def __init__(self):
        self.lock = threading.Lock()
        self.dialect = self.signing = self.cipher = "-"
        self.logged_on = False
        self.needles = 0
        self.counts = {
            side: {"plain": 0, "signed": 0, "sealed": 0} for side in ("requests", "responses")
        }

    def frame(self, side, frame):
        with self.lock:
            if any(needle in frame for needle in NEEDLES):
                self.needles += 1
            if frame[:4] == b"\xfdSMB":
                self.counts[side]["sealed"] += 1
            elif frame[:4] == b"\xfeSMB":
                for header in messages(frame):
                    self.message(side, header)

    def message(self, side, message):
        status, command, _, flags, _, message_id = struct.unpack_from("<IHHIIQ", message, 8)
        if side == "responses" and command == NEGOTIATE:
            self.negotiated(message)
        elif command in (NEGOTIATE, SESSION_SETUP):
            if side == "responses" and status == STATUS_SUCCESS:
                self.logged_on = True
        elif command in (LOGOFF, TREE_CONNECT) and flags & FLAG_SIGNED:
            # Dialect 3.1.1 signs TREE_CONNECT even if nothing else is signed (MS-SMB2
            # 3.2.4.2.5). A client that encrypts for one share does not encrypt TREE_CONNECT.
            pass
        elif self.logged_on and not may_be_plain(flags, status, message_id):
            self.counts[side]["signed" if flags & FLAG_SIGNED else "plain"] += 1

    def negotiated(self, message):
        dialect = struct.unpack_from("<H", message, 64 + 4)[0]
        if dialect not in DIALECTS:  # The answer to a multi-protocol request: another one follows.
            return
        self.dialect = DIALECTS[dialect]
        self.signing = SIGNING_OF.get(dialect, "AES-128-CMAC")
        self.cipher = CIPHER_OF.get(dialect, "-")
        if dialect != 0x0311:
            return
        count, at = struct.unpack_from("<H", message, 64 + 6)[0], struct.unpack_from("<I", message, 64 + 60)[0]
        for _ in range(count):
            kind, length = struct.unpack_from("<HH", message, at)
            if kind in (2, 8):
                chosen = struct.unpack_from("<HH", message, at + 8)[1]
                if kind == 2:
                    self.cipher = CIPHERS.get(chosen, "-")
                else:
                    self.signing = SIGNING[chosen]
            at += (8 + length + 7) // 8 * 8

    def report(self):
        counts = " ".join(
            f"{side}-{kind}={count}" for side, kinds in self.counts.items() for kind, count in kinds.items()
        )
        return f"dialect={self.dialect} signing={self.signing} cipher={self.cipher} {counts} needles={self.needles}\n"


def messages(frame):
    """The messages of a compound."""
    while True:
        following = struct.unpack_from("<I", frame, 20)[0]
        yield frame[:following] if following else frame
        if not following:
            return
        frame = frame[following:]


def may_be_plain(flags, status, message_id):
    """Interim replies and unsolicited messages of the server have no signature (MS-SMB2 3.3.4.1.1)."""
    return message_id == UNASKED or (flags & FLAG_ASYNC and status == STATUS_PENDING)


def exactly(source, length):
    data = bytearray()
    while len(data) < length:
        # Some clients write a header and its data separately, and would wait for delayed acknowledgements.
        source.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        part = source.recv(min(length - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def relay(source, target, tap, side):
    try:
        while True:
            head = exactly(source, 4)
            frame = exactly(source, struct.unpack(">I", head)[0] & 0xFF_FFFF)
            tap.frame(side, frame)
            target.sendall(head + frame)
    except (EOFError, OSError):
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client, server_address, report):
    tap = Tap()
    with client, socket.create_connection(server_address) as server:
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=relay, args=(server, client, tap, "responses"))
        back.start()
        relay(client, server, tap, "requests")
        back.join()
    with open(report, "a") as file:
        file.write(tap.report())


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def main():
    listen, server, report = address(sys.argv[1]), address(sys.argv[2]), sys.argv[3]
    listener = socket.create_server(listen)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, server, report), daemon=True).start()


if __name__ == "__main__":
    main()
