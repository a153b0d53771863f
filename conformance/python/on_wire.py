"""Searches the packets of a network interface for plain text: on_wire.py INTERFACE REPORT WORD...

Writes each word to REPORT, a line each, when a packet contains it for the first time. The result
depends on the bytes only, not on statements of server and client.
"""

import socket
import sys

ETH_P_ALL = 3
# Packets beyond this buffer are lost, so it must hold a burst of the client.
BUFFER_BYTES = 1 << 28
# With segmentation offload a packet has up to 64 KiB and its headers.
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
