#!/bin/bash
# Runs in the guest: what a client has open and locked outlives the server.
set -e
trees=$1
for place in one other; do
    mkdir -p /mnt/$place
    mount -i -t nfs4 -o vers=4.2,nosharecache,addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/data /mnt/$place
done
timeout 120 python3 "$trees/nfs_restart.py" 192.0.2.1 /mnt/one /mnt/other
umount /mnt/one /mnt/other
