"""Runs a server that a client can restart. Each connection to the control address kills the server, starts it
again, and then gets a reply. A request by the share itself would be executed twice, because the killed
server may owe the reply to it. The reply waits until the new server accepts connections: an earlier
client would be refused, and doubles its delay after each refusal.
Arguments: ADDRESS:PORT of the control address, ADDRESS:PORT of the server, a file that gets a line for each
restart, the command."""

import socket
import subprocess
import sys
import time

# Of the new server to listen, in seconds; less than the requesting program waits for the reply.
START_SECONDS_MAX = 15

address, served, record, *command = sys.argv[1:]
host, port = address.rsplit(":", 1)


def is_served():
    """Whether the server accepts a connection within the limit."""
    served_host, served_port = served.rsplit(":", 1)
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            socket.create_connection((served_host, int(served_port)), 1).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


with socket.create_server((host, int(port))) as listener:
    server = subprocess.Popen(command)
    try:
        while True:
            connection, _ = listener.accept()
            with connection:
                server.kill()
                server.wait()
                with open(record, "a", encoding="ascii") as file:
                    file.write("restarted\n")
                server = subprocess.Popen(command)
                # Without a reply the requesting program reports that the server was not started.
                if is_served():
                    connection.sendall(b"restarted\n")
    finally:
        server.kill()
        server.wait()
