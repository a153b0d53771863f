"""Records service manager notifications: notified.py SOCKET FILE appends each message to the file as one line,
with its parts separated by |, until it is ended."""
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener, open(sys.argv[2], "w") as out:
    listener.bind(sys.argv[1])
    print("ready", flush=True)
    while True:
        out.write(listener.recv(4096).decode().replace("\n", "|") + "\n")
        out.flush()
