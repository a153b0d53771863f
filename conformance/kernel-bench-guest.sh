#!/bin/bash
# Runs in the guest: measures copies by the Linux kernel's SMB client with one channel and with four,
# with two servers in turn.
set -eu
mount_at() { # PORT SHARE CHANNELS
    local several=
    [ "$3" = 1 ] || several=",multichannel,max_channels=$3"
    mkdir -p /mnt/s
    mount -t cifs "//$KC_SERVER/$2" /mnt/s -o \
        "username=alice,password=secret.0,vers=3.1.1,hard,port=$1$several"
}
channels() { ss -Htn state established "dport = :$1" | wc -l; }
# rate MIB COMMAND...: prints the rate in MiB/s.
rate() {
    local mib=$1 began ended
    shift
    began=$(date +%s%N)
    "$@" > /dev/null 2>&1
    ended=$(date +%s%N)
    awk "BEGIN { printf \"%.0f\", $mib * 1e9 / ($ended - $began) }"
}
write_files() { for n in 1 2 3 4; do dd if=/dev/zero "of=/mnt/s/f$n" bs=1M count="$1" conv=fsync & done; wait; }
read_files() { for n in 1 2 3 4; do dd "if=/mnt/s/f$n" of=/dev/null bs="$1" & done; wait; }
mib=40
echo "Linux $(uname -r), 4 files of $mib MiB at once, MiB/s"
echo "| server | channels | write 1 MiB | read 1 MiB | read 64 KiB |"
echo "|---|---|---|---|---|"
for round in 1 2; do
    for server in 445/anabranch/data 446/samba/plain; do
        IFS=/ read -r port name share <<< "$server"
        for count in 1 4; do
            mount_at "$port" "$share" "$count"
            n=0
            until [ "$(channels "$port")" = "$count" ] || [ $n = 100 ]; do n=$((n + 1)); sleep 0.1; done
            used=$(channels "$port")
            wrote=$(rate $((4 * mib)) write_files $mib)
            echo 1 > /proc/sys/vm/drop_caches
            read_large=$(rate $((4 * mib)) read_files 1M)
            echo 1 > /proc/sys/vm/drop_caches
            read_small=$(rate $((4 * mib)) read_files 64K)
            echo "| $name, round $round | $used | $wrote | $read_large | $read_small |"
            rm -f /mnt/s/f?
            umount /mnt/s
        done
    done
done
