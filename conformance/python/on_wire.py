"""Tells what can be read on a network interface: on_wire.py INTERFACE REPORT WORD...

Each word is written to REPORT, a line each, when a packet has it for the first time. What server
and client say of themselves is not believed: only the bytes are.
"""

import socket
import sys

ETH_P_ALL = 3
# What does not fit is lost: the client must not be quicker than we are.
BUFFER_BYTES = 1 << 28
# With segments joined a packet has up to 64 KiB, and heads.
PACKET_BYTES_MAX = 1 << 17

interface, report, *words = sys.argv[1:]
unseen = {word.encode() for word in words}
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
wire.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), BUFFER_BYTES)
wire.bind((interface, 0))
with open(report, "w", encoding="ascii") as file:
    while True:
        packet = wire.recv(PACKET_BYTES_MAX)
        for word in [word for word in unseen if word in packet]:
            unseen.remove(word)
            print(word.decode(), file=file, flush=True)
