#!/bin/bash
# Runs in the guest: the server copies a large file by one asynchronous COPY and a small one by a
# synchronous COPY. An interrupted copy leaves the mount usable.
set -e
place=/mnt/nfs
mkdir -p $place
mount -i -t nfs4 -o vers=4.2,addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/data $place
cd $place
calls() { awk -v operation="$1:" '$1 == operation { print $2 }' /proc/self/mountstats; }
head -c 160M /dev/urandom > large
head -c 5M /dev/urandom > small
sync
for name in large small; do
    before=$(calls COPY)
    cp $name copied
    cmp $name copied
    copies=$(($(calls COPY) - before))
    # On a file system with shared blocks the client uses CLONE instead.
    test "$copies" = 1 || test "$(calls CLONE)" != 0
    rm copied
done
timeout -s INT 0.05 cp large copied || true
rm -f copied
cp large copied
cmp large copied
rm large small copied
cd /
umount $place
echo "copies: $copies for each file"
