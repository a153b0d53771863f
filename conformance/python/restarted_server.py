"""Runs a server that a client has killed and started again. Each connection to the given address
kills it, starts it again and is then answered. A request in the share itself would be carried out
twice: the killed server may owe the reply of the very operation that asked for its end.
Arguments: ADDRESS:PORT to listen on, a file that gets a line for each restart, the command."""

import socket
import subprocess
import sys

address, record, *command = sys.argv[1:]
host, port = address.rsplit(":", 1)

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
                connection.sendall(b"restarted\n")
    finally:
        server.kill()
        server.wait()
