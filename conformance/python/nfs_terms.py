"""Prints the access of clients to a share: nfs_terms.py SERVER PORT SHARE FOLDER LAST..., where each client
connects from 127.10.0.LAST as root and creates a file. A line each: the file's owner, or a refusal."""

import os
import sys

from raw_nfs import NfsStatus, Nfs, words

server, port, share, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]

for last in sys.argv[5:]:
    client = Nfs(server, port, 0, 0, source="127.10.0." + last)
    name = "by-%s-%d" % (last, os.getpid())
    try:
        directory = client.find(share)
    except NfsStatus:
        # One server replies NOENT where the other replies ACCESS.
        print(last, "does not reach it")
        continue
    try:
        state, handle = client.open(directory, name, 3, words(0, 0))
    except NfsStatus as error:
        print(last, "may not write:", error.status)
        continue
    client.close(handle, state)
    status = os.stat(os.path.join(folder, name))
    print(last, "writes as", status.st_uid, status.st_gid)
