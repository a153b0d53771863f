"""Prints the median time in ms from the start of a server to its first connection, of five starts:
start_time.py ADDRESS:PORT COMMAND..."""

import socket
import statistics
import subprocess
import sys
import time

STARTS = 5
PATIENCE_SECONDS = 60

host, port = sys.argv[1].rsplit(":", 1)
times = []
for _ in range(STARTS):
    begin = time.monotonic()
    server = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                break
            except OSError:
                pass
            if server.poll() is not None or time.monotonic() - begin > PATIENCE_SECONDS:
                server.kill()
                sys.exit("the server did not start:\n" + server.stdout.read().decode())
            time.sleep(0.001)
        times.append((time.monotonic() - begin) * 1000)
    finally:
        server.terminate()
        server.stdout.read()
        server.wait()
print(round(statistics.median(times)))
