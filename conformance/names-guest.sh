#!/bin/bash
# Runs in the guest of conformance/names: starts each server in turn on a fresh ext4 and measures it.
set -eEuo pipefail
exec 2>&1
trap 'echo "names: stopped at line $LINENO"; tail -n 20 /mnt/log "$cache/ganesha/srv/log" 2> /dev/null' ERR
checkout=$1 binary=$2 cache=$3 image=$4 rounds=$5 seconds=$6 servers=$7 loads=$8
disk=/dev/nbd0 place=/mnt/disk mounts=/mnt/nfs
loader="python3 $checkout/conformance/python/name_rates.py"
mkdir -p "$place" "$mounts"
server=

make_disk() {
    mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$disk"
    mount -t ext4 "$disk" "$place"
    mkdir -m 777 "$place/load"
}
start_knfsd() { # THREADS
    mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
    mkdir -p /var/lib/nfs/v4recovery
    echo 10 > /proc/fs/nfsd/nfsv4gracetime
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    "$cache/knfsd/usr/sbin/rpc.mountd" --no-nfs-version 3 -F > /mnt/log 2>&1 &
    mountd=$!
    echo "$place *(rw,sync,no_subtree_check,fsid=0,insecure)" > /etc/exports
    "$cache/knfsd/usr/sbin/exportfs" -v -ra >> /mnt/log 2>&1
    "$cache/knfsd/usr/sbin/rpc.nfsd" --no-udp --no-nfs-version 3 --nfs-version 4.2 "$1" >> /mnt/log 2>&1
    path=/load
}
stop_knfsd() {
    "$cache/knfsd/usr/sbin/rpc.nfsd" 0
    "$cache/knfsd/usr/sbin/exportfs" -f -ua
    kill "$mountd"
    wait "$mountd" || true
}
start_ganesha() {
    local root=$cache/ganesha
    mkdir -p "$root/srv/export" "$root/srv/recovery"
    mount --bind "$place" "$root/srv/export"
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
    cat > "$root/srv/config" << END
NFS_CORE_PARAM { Protocols = 4; NFS_Port = 2049; Bind_addr = 127.0.0.1; Enable_NLM = false;
    Enable_RQUOTA = false; Enable_UDP = false; Allow_Set_Io_Flusher_Fail = true; }
NFSV4 { Lease_Lifetime = 15; Grace_Period = 1; Minor_Versions = 1, 2; Allow_Numeric_Owners = true;
    Only_Numeric_Owners = true; RecoveryBackend = fs; RecoveryRoot = /srv/recovery; }
EXPORT { Export_Id = 1; Path = /srv/export; Pseudo = /export; Access_Type = RW;
    Squash = Root_Squash; SecType = sys; PrivilegedPort = false; FSAL { Name = VFS; } }
END
    rm -f "$root/srv/log"
    chroot "$root" /usr/bin/ganesha.nfsd -F -L /srv/log -f /srv/config -p /srv/pid > /dev/null 2>&1 &
    server=$!
    for _ in $(seq 200); do
        grep -qs 'NOT IN GRACE' "$root/srv/log" && break
        sleep 0.1
    done
    path=/export/load
}
start_ours() { # NFS_STABLE
    "$binary" serve --share "data=$place,nfs_stable=$1" --nfs 127.0.0.1:2049 --smb 127.0.0.1:4450 --admin off > /mnt/log 2>&1 &
    server=$!
    path=/data/load
}
start() { # NAME
    server=
    case $1 in
        knfsd) start_knfsd 8 ;;
        knfsd64) start_knfsd 64 ;;
        ganesha) start_ganesha ;;
        ours) start_ours always ;;
        relaxed) start_ours relaxed ;;
    esac
    for _ in $(seq 100); do
        (exec 3<> /dev/tcp/127.0.0.1/2049) 2> /dev/null && break
        sleep 0.1
    done
    # One connection, but a superblock for each directory, because the client serialises name changes
    # within a directory of one superblock.
    for number in 0 1 2 3 4 5 6 7; do
        mkdir -p "$mounts/$number"
        mount -i -t nfs4 -o "vers=4.2,nosharecache,addr=127.0.0.1,clientaddr=127.0.0.1" \
            "127.0.0.1:$path" "$mounts/$number"
    done
    # Waits for the end of the grace period.
    touch "$mounts/0/first"
}
stop() { # NAME
    umount "$mounts"/[0-7]
    case $1 in
        knfsd*) stop_knfsd ;;
        *)
            kill "$server"
            wait "$server" || true
            mountpoint -q "$cache/ganesha/srv/export" && umount "$cache/ganesha/srv/export"
            ;;
    esac
    return 0
}

python3 "$checkout/conformance/python/nbd_disk.py" attach 192.0.2.1 10809 "$image" > /mnt/attached &
until grep -qs attached /mnt/attached; do sleep 0.1; done
sleep 0.2
make_disk
$loader flushes "$place/load/flushes"
for round in $(seq "$rounds"); do
    $loader local "$seconds" "$place/load" $loads
    umount "$place"
    for name in $servers; do
        make_disk
        start "$name"
        $loader load "$name" "$seconds" "${server:-nfsd}" "$mounts" $loads
        stop "$name"
        umount "$place"
    done
    make_disk
    echo "round $round of $rounds"
done
umount "$place"
