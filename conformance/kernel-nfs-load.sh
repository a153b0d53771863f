#!/bin/bash
# Runs in the guest: mixed load with a hard mount while connections are cut, one after the other
# and all at once, or while the server is killed. Arguments: where the programs are, `cut` or
# `kill`, how often at least, seconds, and numbers of connections.
set -e
trees=$1 trouble=$2 anew=$3 seconds=$4
shift 4
place=/mnt/nfs
mkdir -p $place
for connections in "$@"; do
    # Half of them each.
    version=4.$((1 + connections / 16))
    options=vers=$version,hard,nconnect=$connections,addr=192.0.2.1,clientaddr=192.0.2.2
    mount -i -t nfs4 -o "$options" 192.0.2.1:/data $place
    head -c 8M /dev/urandom > $place/kept
    sum=$(sha256sum < $place/kept)
    python3 "$trees/nfs_load.py" $place "$seconds" "$anew" "$trouble"
    umount $place
    mount -i -t nfs4 -o "$options" 192.0.2.1:/data $place
    test "$(sha256sum < $place/kept)" = "$sum"
    rm $place/kept
    umount $place
    echo "version $version: load on $connections connections"
done
