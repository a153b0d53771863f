#!/bin/bash
# Runs in the guest: what a client has open and locked outlives the server.
set -e
trees=$1
# Linux is one client for each minor version: of one, the second mount would know
# nothing of what the first has delegated, nor the server that there are two.
for mount in one/4.2 other/4.1; do
    place=${mount%/*}
    mkdir -p /mnt/$place
    mount -i -t nfs4 -o vers=${mount#*/},nosharecache,addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/data /mnt/$place
done
timeout 120 python3 "$trees/nfs_restart.py" 192.0.2.1 /mnt/one /mnt/other
umount /mnt/one /mnt/other
