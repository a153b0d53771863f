"""Measures the server's memory for each idle connection.

idle.py HOST PORT PID COUNT     (COUNT below this process's limit of descriptors)
"""

import resource
import socket
import struct
import sys
import time

host, port, pid, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def resident_kib():
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


header = b"\xfeSMB" + struct.pack("<HHIHHIIQIIQ", 64, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + bytes(16)
body = struct.pack("<HHHHI16sQH", 36, 1, 1, 0, 0, b"a" * 16, 0, 0x0302)
negotiate = struct.pack(">I", len(header + body)) + header + body

before, begin, held = resident_kib(), time.time(), []
for _ in range(count):
    connection = socket.create_connection((host, port))
    connection.sendall(negotiate)
    assert connection.recv(4096)
    held.append(connection)
after = resident_kib()
print(f"{count} connections in {time.time() - begin:.1f} s, {(after - before) * 1024 // count} bytes each")
