#!/bin/bash
# Runs in the guest: mixed load on a hard mount while connections are cut, singly and all at once, or
# while the server is killed. Arguments: the directory of the programs, `cut` or `kill`, the minimum
# number of reconnections, seconds, and numbers of connections.
set -e
trees=$1 fault=$2 reconnections=$3 seconds=$4
shift 4
place=/mnt/nfs
mkdir -p $place
for connections in "$@"; do
    # Up to 15 connections use NFSv4.1, 16 use NFSv4.2.
    version=4.$((1 + connections / 16))
    options=vers=$version,hard,nconnect=$connections,addr=192.0.2.1,clientaddr=192.0.2.2
    mount -i -t nfs4 -o "$options" 192.0.2.1:/data $place
    head -c 8M /dev/urandom > $place/unchanged
    sum=$(sha256sum < $place/unchanged)
    python3 "$trees/nfs_load.py" $place "$seconds" "$reconnections" "$fault"
    umount $place
    mount -i -t nfs4 -o "$options" 192.0.2.1:/data $place
    test "$(sha256sum < $place/unchanged)" = "$sum"
    rm $place/unchanged
    umount $place
    echo "version $version: load on $connections connections"
done
