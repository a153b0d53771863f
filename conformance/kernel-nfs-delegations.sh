#!/bin/bash
# Runs in the guest: two NFS clients and one SMB client on the same files. Mounts with different minor
# versions are different clients of the server.
set -e
trees=$1
mkdir -p /mnt/one /mnt/other /mnt/smb
mount -i -t nfs4 -o vers=4.1,addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/data /mnt/one
# This mount caches no attributes, so that it shows those of the server.
mount -i -t nfs4 -o vers=4.2,actimeo=0,lookupcache=none,addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/data /mnt/other
mkdir -m 777 /mnt/one/folder
mount -t cifs //192.0.2.1/data /mnt/smb -o username=alice,password=secret.0,actimeo=0
timeout 300 python3 "$trees/nfs_delegations.py" /mnt/one/folder /mnt/other/folder /mnt/smb/folder
# Linux removes the renamed file (.nfsXXXX) asynchronously after its last close.
for attempt in $(seq 20); do
    if rmdir /mnt/one/folder 2> /dev/null; then break; fi
    if [ "$attempt" = 20 ]; then
        ls -la /mnt/one/folder /mnt/other/folder /mnt/smb/folder
        exit 1
    fi
    sleep 0.5
done
umount /mnt/smb /mnt/one /mnt/other
