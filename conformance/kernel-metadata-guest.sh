#!/bin/bash
# Runs in the guest: typical commands on many small files, with two servers in turn.
# Prints: STEP SERVER WHAT COUNT BEGAN_MS ENDED_MS
set -eu
mount_at() { # PORT SHARE
    mkdir -p /mnt/s
    mount -t cifs "//$KC_SERVER/$2" /mnt/s -o \
        "username=alice,password=secret.0,vers=3.1.1,hard,port=$1"
}
step() { # SERVER WHAT COUNT COMMAND...
    local server=$1 what=$2 count=$3 began
    shift 3
    began=$(date +%s%3N)
    "$@" > /dev/null
    echo "STEP $server $what $count $began $(date +%s%3N)"
}
find_all() { [ "$(find /mnt/s/tree -type f | wc -l)" = "$1" ]; }
list_all() { [ "$(ls -l /mnt/s/flat | wc -l)" = "$(($1 + 1))" ]; }
extract() { tar -xf "$KC_TAR" -C /mnt/s/extracted; }
read_all() { tar -cf - -C /mnt/s/extracted . | cat > /dev/null; }
names=$1
KC_TAR=$2
members=$(tar -tf "$KC_TAR" | wc -l)
for round in 1 2; do
    for server in 445/anabranch/data 446/samba/plain; do
        IFS=/ read -r port name share <<< "$server"
        for what in find_all list_all; do
            # A new mount each time, so that the client has no caches.
            mount_at "$port" "$share"
            step "$name" "$what" "$names" "$what" "$names"
            umount /mnt/s
        done
        mount_at "$port" "$share"
        mkdir /mnt/s/extracted
        step "$name" extract "$members" extract
        umount /mnt/s
        mount_at "$port" "$share"
        step "$name" read_all "$members" read_all
        step "$name" remove "$members" rm -r /mnt/s/extracted
        umount /mnt/s
    done
done
