"""A disk with real flushes for User-Mode Linux, whose own disk does not flush.

    nbd_disk.py serve ADDRESS PORT FILE      on the host: FILE is the disk, a flush is fdatasync
    nbd_disk.py attach ADDRESS PORT FILE     in the guest: /dev/nbd0, as long as the process lives

`attach` reads only the size of FILE. Implements the transmission phase of the network block device's
protocol (doc/proto.md of nbd), without the handshake.
"""

import fcntl
import os
import socket
import struct
import sys

REQUEST, REPLY = 0x25609513, 0x67446698
READ, WRITE, DISCONNECT, FLUSH = range(4)
SET_SOCK, SET_BLOCK_SIZE, DO_IT, CLEAR_SOCK, SET_BLOCKS, SET_FLAGS = (
    0xAB00, 0xAB01, 0xAB03, 0xAB04, 0xAB07, 0xAB0A,
)
HAS_FLAGS, SEND_FLUSH = 1, 4
BLOCK_BYTES = 4096


def receive(connection, count):
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


def serve(address, port, path):
    disk = os.open(path, os.O_RDWR)
    listener = socket.create_server((address, int(port)))
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        magic, kind, handle, offset, length = struct.unpack(">II8sQI", receive(connection, 28))
        assert magic == REQUEST
        kind &= 0xFFFF
        answer = struct.pack(">II8s", REPLY, 0, handle)
        if kind == READ:
            connection.sendall(answer + os.pread(disk, length, offset))
        elif kind == WRITE:
            os.pwrite(disk, receive(connection, length), offset)
            connection.sendall(answer)
        elif kind == FLUSH:
            os.fdatasync(disk)
            connection.sendall(answer)
        else:
            sys.exit(0)


def attach(address, port, path):
    size = os.stat(path).st_size
    device = os.open("/dev/nbd0", os.O_RDWR)
    connection = socket.create_connection((address, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    fcntl.ioctl(device, SET_BLOCK_SIZE, BLOCK_BYTES)
    fcntl.ioctl(device, SET_BLOCKS, size // BLOCK_BYTES)
    fcntl.ioctl(device, SET_FLAGS, HAS_FLAGS | SEND_FLUSH)
    fcntl.ioctl(device, SET_SOCK, connection.fileno())
    print("attached", flush=True)
    fcntl.ioctl(device, DO_IT)


{"serve": serve, "attach": attach}[sys.argv[1]](*sys.argv[2:])
