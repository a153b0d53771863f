"""Cuts NFS connections while a share has a file `cut`: each connection singly, then all at once, repeatedly.
Arguments: the command, its admin API's address, the share, and a file for the number of cuts."""

import json
import os
import subprocess
import sys
import time

binary, admin, share, log = sys.argv[1:]
PAUSE_SECONDS = 0.2
PEACE_SECONDS = 1
cut = 0


def channels(*arguments):
    return subprocess.run(
        [binary, "channels", "--admin", admin, *arguments], capture_output=True, check=False
    )


def connections():
    listed = channels("--json")
    if listed.returncode != 0:
        return []
    sessions = json.loads(listed.stdout)["NfsClients"]
    return [link["ConnectionId"] for session in sessions for link in session["Connections"]]


while True:
    for pause in (PAUSE_SECONDS, 0):
        for connection in connections():
            if not os.path.exists(f"{share}/cut"):
                break
            # It may have ended by itself, or been in two sessions.
            if channels("--cut", str(connection)).returncode == 0:
                cut += 1
            time.sleep(pause)
        with open(log, "w", encoding="ascii") as file:
            print(cut, file=file)
        time.sleep(PEACE_SECONDS)
