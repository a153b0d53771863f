#!/bin/bash
# Runs in the guest: opens and locks of a client survive restarts of the server.
set -e
trees=$1
# Linux is one client for each minor version. With one version the server would see one client, and the
# second mount would not know the delegations of the first.
for mount in one/4.2 other/4.1; do
    place=${mount%/*}
    mkdir -p /mnt/$place
    mount -i -t nfs4 -o vers=${mount#*/},nosharecache,addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/data /mnt/$place
done
timeout 120 python3 "$trees/nfs_restart.py" 192.0.2.1 /mnt/one /mnt/other
umount /mnt/one /mnt/other
