#!/bin/bash
# Runs in the guest of conformance/quotas as root: FILE-SYSTEM BINARY.
set -euo pipefail
binary=$2
# The guest's own /tmp; the host's files are below a temporary overlay.
work=$(mktemp -d /tmp/quotas.XXXXXX)
address=127.0.0.1
server=
finish() {
    status=$?
    if [ -n "$server" ]; then kill "$server" 2> /dev/null || true; fi
    if [ "$status" != 0 ]; then tail -n 20 "$work/log" >&2 || true; fi
}
trap finish EXIT
fail() {
    echo "FAILED: $1" >&2
    exit 1
}
# has TEXT PATTERN: fails unless the text matches.
has() { grep -Eq "$2" <<< "$1" || fail "expected $2, got: $1"; }

ip link set lo up
truncate -s 400M "$work/image"
mkdir "$work/share"
case $1 in
    ext4) mkfs.ext4 -q -O quota -E quotatype=usrquota "$work/image"; options=loop,usrquota ;;
    xfs) mkfs.xfs -q "$work/image"; options=loop,uquota ;;
esac
mount -o "$options" "$work/image" "$work/share"
chmod 755 "$work"
chmod 1777 "$work/share"
"$binary" serve --share "data=$work/share" --user alice:secret.0 --user root:secret.1 \
    --smb "$address:445" --admin off > "$work/log" 2>&1 &
server=$!
for _ in $(seq 100); do
    if (exec 3<> "/dev/tcp/$address/445") 2> /dev/null; then break; fi
    sleep 0.1
done
quotas() {
    user=$1
    shift
    smbcquotas "//$address/data" -U "$user" -m SMB3 "$@" 2>&1 || true
}
client() { smbclient "//$address/data" -U 'alice%secret.0' -c "$1" 2>&1 || true; }

head -c 2M /dev/zero > "$work/2M"
has "$(client "put $work/2M two")" 'putting file'
alice=$(id -u alice)
# XFS counts preallocated blocks of data that is not yet on the disk.
sync -f "$work/share"
has "$(quotas alice%secret.0 -n -u "S-1-22-1-$alice")" ': +2097152/18446744073709551615/'
has "$(quotas alice%secret.0 -n -u S-1-22-1-0)" ACCESS_DENIED
has "$(quotas alice%secret.0 -n -S "UQLIM:S-1-22-1-$alice:0/0")" ACCESS_DENIED
echo "ok: $1: each user sees their own usage and limits only"
quotas root%secret.1 -n -S "UQLIM:S-1-22-1-$alice:3145728/4194304" > /dev/null
has "$(quotas root%secret.1 -n -L)" "S-1-22-1-$alice *: *2097152/ *3145728/ *4194304"
has "$(quotas root%secret.1 -n -L)" 'S-1-22-1-0 '
has "$(quotas root%secret.1 -u alice)" '3145728'
has "$(quotas root%secret.1 -F)" 'Deny Disk: +On'
echo "ok: $1: the superuser reads and sets all quotas"
available=$(client du | sed -nE 's/[^0-9]*([0-9]+) blocks of size ([0-9]+)\. ([0-9]+) blocks available.*/\2 \3/p')
[ -n "$available" ] || fail "smbclient du printed no space: $(client du)"
read -r block blocks <<< "$available"
[ $((block * blocks)) = 2097152 ] || fail "$blocks free blocks of $block bytes differ from the rest of the quota"
echo "ok: $1: the free space is the rest of the quota"
head -c 3M /dev/zero > "$work/3M"
has "$(client "put $work/3M three")" 'DISK_FULL|QUOTA'
echo "ok: $1: a write beyond the limit fails with the quota error"
quotas root%secret.1 -n -S "UQLIM:S-1-22-1-$alice:0/0" > /dev/null
has "$(client "put $work/3M three")" 'putting file'
echo "ok: $1: a limit is removed"
