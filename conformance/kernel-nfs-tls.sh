#!/bin/bash
# Runs in the guest: NFS over TLS. The kernel requests each handshake from tlshd, whose configuration
# this script changes; it checks the result by the mount options and the server's connections.
set -eE
trees=$1 root=$2 binary=$3
tlshd='' log=/tmp/tlshd
ok() { echo "ok: $1 ($SECONDS s)"; }
fail() { echo "FAILED: $1" >&2; return 1; }
trap 'echo "at line $LINENO, after $SECONDS s" >&2; tail -n 30 $log >&2; dmesg | tail -n 20 >&2' ERR
uname -r
# Without this symbol the kernel has no handshake interface.
grep -q ' handshake_' /proc/kallsyms || exit 77

# tlshd needs newer libraries than this machine's, so it runs in this root directory.
for place in proc sys dev "${trees#/}"; do
    mkdir -p "$root/$place"
    mount --rbind "/$place" "$root/$place"
done

# uses [LINE...]: restarts tlshd with these lines of configuration.
uses() {
    if [ -n "$tlshd" ]; then
        kill "$tlshd"
        wait "$tlshd" || true
        tlshd=
    fi
    [ $# != 0 ] || return 0
    {
        printf '[debug]\nloglevel=1\n[authenticate.client]\n'
        printf '%s\n' "$@"
    } > "$root/etc/tlshd.test"
    chroot "$root" "$trees/tlshd" -s -c /etc/tlshd.test >> $log 2>&1 &
    tlshd=$!
    # Waits until tlshd listens on its generic netlink socket (16) in a group. Without a listener the
    # kernel fails a handshake at once.
    until awk '$2 == 16 && $4 != "00000000" { found = 1 } END { exit !found }' /proc/net/netlink; do
        kill -0 "$tlshd" || fail "tlshd has ended"
        sleep 0.1
    done
}
trusts=x509.truststore=$trees/tls/ca.pem
# shows NAME: the same, with this client certificate.
shows() { uses "$trusts" "x509.certificate=$trees/tls/$1.pem" "x509.private_key=$trees/tls/$1.key"; }

# The server's certificate is for server.test. The name needs no resolution, since addr= is given.
mounts() { # SHARE OPTIONS [SERVER]
    mkdir -p /mnt/nfs
    timeout 60 mount -i -t nfs4 -o "addr=192.0.2.1,clientaddr=192.0.2.2,$2" "${3:-server.test}:/$1" /mnt/nfs
}
refused() { # WHAT SHARE OPTIONS [SERVER]
    local status=0
    mounts "${@:2}" 2> /tmp/refused || status=$?
    [ "$status" != 0 ] || fail "$1: mounted"
    # A refusal, not a timeout.
    [ "$status" != 124 ] || fail "$1: the mount hangs"
    ok "refused: $1"
}
# distrusted ...: the same, and tlshd must have failed the handshake.
distrusted() {
    local before
    before=$(grep -c 'Handshake with .* failed' $log || true)
    refused "$@"
    [ "$(grep -c 'Handshake with .* failed' $log)" -gt "$before" ] || fail "$1: tlshd accepted the certificate"
}
admin() { "$binary" "$1" --admin 192.0.2.1:4480 --admin-token-file "$trees/state/admin-token" --json; }
# is_under_tls COUNT: fails unless the mount uses TLS and the server has exactly that many connections,
# all with TLS, which also carry its callbacks.
is_under_tls() {
    grep ' /mnt/nfs nfs4 ' /proc/mounts | grep -q xprtsec=tls || fail "the mount is without TLS"
    admin channels > /tmp/channels
    admin status > /tmp/status
    python3 - "$1" <<'END'
import json, sys
channels = [c for s in json.load(open("/tmp/channels"))["NfsClients"] for c in s["Connections"]]
sessions = [s for c in json.load(open("/tmp/status"))["nfs"]["clients"] for s in c["sessions"]]
count = int(sys.argv[1])
assert [c["Tls"] for c in channels] == [True] * count, channels
facts = [(s["connections"], s["tls_connections"], s["callbacks"]) for s in sessions]
assert facts == [(count, count, True)], sessions
END
}
# Drops the client's page cache.
drops_cache() { sync && echo 3 > /proc/sys/vm/drop_caches; }
writes_word() { # WORD FILE
    yes "$1" | head -c 1M > "$2"
    drops_cache
    yes "$1" | head -c 1M | cmp - "$2"
    rm "$2"
}
head -c 48M /dev/urandom > /tmp/random

refused "TLS without tlshd" data vers=4.2,xprtsec=tls
uses "$trusts"
if ! mounts open vers=4.2,xprtsec=tls; then
    # A newer tlshd may need a socket option that the kernel lacks: ktls-utils 1.4 with Linux 6.12.
    ! grep -q 'setsockopt.*Protocol not available' $log || exit 77
    fail "no mount under TLS"
fi
is_under_tls 1
umount /mnt/nfs
ok "a share that does not require it, under TLS"
refused "a share that requires TLS, without" data vers=4.2,xprtsec=none
mounts '' vers=4.2
test "$(echo /mnt/nfs/*)" = '/mnt/nfs/data /mnt/nfs/open'
if ls /mnt/nfs/data > /tmp/listed 2>&1; then fail "without TLS: $(cat /tmp/listed)"; fi
umount /mnt/nfs
ok "without TLS the root lists the share, and its contents are refused"
mounts open vers=4.2
writes_word first.in.the.open /mnt/nfs/first.in.the.open
# Linux reuses its existing connection without TLS (SEMANTICS.md), which the server refuses.
mkdir /mnt/second
options=vers=4.2,addr=192.0.2.1,clientaddr=192.0.2.2,xprtsec=tls
if mount -i -t nfs4 -o $options server.test:/data /mnt/second 2> /dev/null; then
    grep ' /mnt/second nfs4 ' /proc/mounts | grep -q xprtsec=tls || fail "reached without TLS"
    umount /mnt/second
    ok "a mount with TLS beside one without"
else
    ok "refused: a mount with TLS for which Linux reuses a connection without TLS"
fi
umount /mnt/nfs

for kind in 4.1/1 4.2/4; do
    version=${kind%/*} connections=${kind#*/}
    mounts data "vers=$version,nconnect=$connections,xprtsec=tls"
    is_under_tls "$connections"
    cd /mnt/nfs
    cp -r "$trees/tree" copy
    drops_cache
    diff -r "$trees/tree" copy
    mv copy moved
    test "$(ls)" = moved
    rm -r moved
    cp /tmp/random large
    drops_cache
    cmp /tmp/random large
    rm large
    writes_word under.the.seal under.the.seal
    mkdir work
    cd work
    python3 "$trees/nfs_files.py" "$version"
    cd /
    rmdir /mnt/nfs/work
    is_under_tls "$connections"
    umount /mnt/nfs
    ok "version $version, connections under TLS: $connections"
done
# By name and mount.nfs, as administrators mount.
if command -v mount.nfs > /dev/null; then
    echo 192.0.2.1 server.test >> /etc/hosts
    timeout 60 mount -t nfs -o vers=4.2,xprtsec=tls server.test:/data /mnt/nfs
    is_under_tls 1
    umount /mnt/nfs
    ok "by mount.nfs"
fi

# restarts: kills the server and starts it again; returns when it listens.
restarts() { [ "$(cat < /dev/tcp/192.0.2.1/447)" = restarted ] || fail "the server was not started again"; }
# The file stays open while the server is killed twice: during writes and during reads.
mounts data vers=4.2,nconnect=4,xprtsec=tls
exec 5> /mnt/nfs/open
for part in $(seq 0 11); do
    if [ "$part" = 3 ]; then restarts & fi
    dd if=/tmp/random bs=4M count=1 skip="$part" conv=fsync status=none >&5
    # Operations before the end of the request may still reach the old server.
    if [ "$part" = 5 ]; then wait $!; fi
done
exec 5>&-
drops_cache
exec 5< /mnt/nfs/open
for part in $(seq 0 11); do
    if [ "$part" = 3 ]; then restarts & fi
    dd bs=4M count=1 iflag=fullblock status=none <&5
    if [ "$part" = 5 ]; then wait $!; fi
done | cmp - /tmp/random
exec 5<&-
is_under_tls 4
rm /mnt/nfs/open
umount /mnt/nfs
ok "the server was killed twice, the file is whole, and all connections are under TLS again"

distrusted "a name that the certificate has not" data vers=4.2,xprtsec=tls 192.0.2.1
uses "x509.truststore=$trees/tls/stranger.pem"
distrusted "an authority that the client does not trust" data vers=4.2,xprtsec=tls
distrusted "the same, where TLS is not required" open vers=4.2,xprtsec=tls

uses "$trusts"
refused "a certificate is wanted, the client is to show none" data vers=4.2,xprtsec=tls,port=2050
refused "a certificate is wanted, the client has none" data vers=4.2,xprtsec=mtls,port=2050
shows stranger
refused "a certificate is wanted, the client's is a stranger's" data vers=4.2,xprtsec=mtls,port=2050
shows client
mounts data vers=4.2,nconnect=4,xprtsec=mtls,port=2050
grep ' /mnt/nfs nfs4 ' /proc/mounts | grep -q xprtsec=mtls
cp /tmp/random /mnt/nfs/large
drops_cache
cmp /tmp/random /mnt/nfs/large
rm /mnt/nfs/large
writes_word under.the.seal /mnt/nfs/under.the.seal
umount /mnt/nfs
ok "with the client's certificate"

uses
mounts open vers=4.2
writes_word last.in.the.open /mnt/nfs/last.in.the.open
umount /mnt/nfs
