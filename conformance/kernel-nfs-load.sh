#!/bin/bash
# Runs in the guest: mixed load while connections are cut, one after the other and all at once,
# with a hard mount. Arguments: where the programs are, seconds, and numbers of connections.
set -e
trees=$1 seconds=$2
shift 2
place=/mnt/nfs
mkdir -p $place
for connections in "$@"; do
    # Half of them each.
    version=4.$((1 + connections / 16))
    options=vers=$version,hard,nconnect=$connections,addr=192.0.2.1,clientaddr=192.0.2.2
    mount -i -t nfs4 -o "$options" 192.0.2.1:/data $place
    head -c 8M /dev/urandom > $place/kept
    sum=$(sha256sum < $place/kept)
    python3 "$trees/nfs_load.py" $place "$seconds" 2
    umount $place
    mount -i -t nfs4 -o "$options" 192.0.2.1:/data $place
    test "$(sha256sum < $place/kept)" = "$sum"
    rm $place/kept
    umount $place
    echo "version $version: load on $connections connections"
done
