#!/bin/bash
# Runs in the guest: two NFS clients and one of SMB on the same files. To a server the two
# versions are two clients.
set -e
trees=$1
mkdir -p /mnt/one /mnt/other /mnt/smb
mount -i -t nfs4 -o vers=4.1,addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/data /mnt/one
# This one asks for attributes each time, so that what it shows is what the server says.
mount -i -t nfs4 -o vers=4.2,actimeo=0,lookupcache=none,addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/data /mnt/other
mkdir -m 777 /mnt/one/folder
mount -t cifs //192.0.2.1/data /mnt/smb -o username=alice,password=secret.0,actimeo=0
timeout 300 python3 "$trees/nfs_delegations.py" /mnt/one/folder /mnt/other/folder /mnt/smb/folder
# What was removed while it was open goes a moment after its last close: Linux does not wait for it.
for attempt in $(seq 20); do
    if rmdir /mnt/one/folder 2> /dev/null; then break; fi
    if [ "$attempt" = 20 ]; then
        ls -la /mnt/one/folder /mnt/other/folder /mnt/smb/folder
        exit 1
    fi
    sleep 0.5
done
umount /mnt/smb /mnt/one /mnt/other
