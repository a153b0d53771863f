#!/bin/bash
# Runs in the guest: random operations on a file, compared with a model, with each version and 1, 4 and
# 16 connections; and through two independent mounts, of which one at a time has the file open or
# locked. Then random locks through three mounts, two of NFS and one of SMB. Arguments: the directory
# of the programs, and the number of operations of a run.
set -e
trees=$1 operations=$2
mount_at() { # DIRECTORY VERSION OPTIONS
    mkdir -p "$1"
    mount -i -t nfs4 -o "vers=$2,addr=192.0.2.1,clientaddr=192.0.2.2,$3" 192.0.2.1:/data "$1"
}
fsx() { python3 "$trees/fsx.py" --operations "$operations" "$@"; }
seed=0
for version in 4.1 4.2; do
    for connections in 1 4 16; do
        seed=$((seed + 1))
        model=/tmp/model-$seed
        mount_at /mnt/one $version nconnect=$connections
        fsx --seed $seed --model $model /mnt/one/random
        umount /mnt/one
        # A new mount reads the data from the server.
        mount_at /mnt/one $version nconnect=$connections
        cmp $model /mnt/one/random
        fsx --seed $((seed + 100)) --model $model /mnt/one/random
        cmp $model /mnt/one/random
        rm /mnt/one/random
        umount /mnt/one
        echo "version $version with $connections connections: random operations"
    done
done

# Mounts with different minor versions are different clients of the server.
mount_at /mnt/one 4.1 nconnect=4
mount_at /mnt/other 4.2 nconnect=4
for way in --turns --locked; do
    for seed in 1 2; do
        fsx $way --seed $seed /mnt/one/random /mnt/other/random
        rm /mnt/one/random
    done
    echo "random operations through two mounts: $way"
done
echo > /mnt/one/locks
chmod 666 /mnt/one/locks
for seed in 1 2 3; do
    python3 "$trees/nfs_locks.py" --seed $seed --steps "$operations" /mnt/one/locks /mnt/other/locks
done
mkdir -p /mnt/smb
# Without the cache the client sends each lock to the server.
mount -t cifs //192.0.2.1/data /mnt/smb -o username=alice,password=secret.0,cache=none,nolease
for seed in 4 5 6; do
    python3 "$trees/nfs_locks.py" --seed $seed --steps "$operations" --smb /mnt/smb/locks /mnt/one/locks /mnt/other/locks
done
umount /mnt/smb
rm /mnt/one/locks
umount /mnt/one /mnt/other
