#!/bin/bash
# Runs in the guest of conformance/newcomer as root: PACKAGE ROOT. Each step is a command that a
# newcomer types; installing programs of the distribution is not counted.
set -euo pipefail
package=$1
base=$2
seconds_max=60
layer=/tmp/layer
root=/tmp/root
mkdir -p "$layer" "$root" /tmp/smb /tmp/nfs
mount -t tmpfs none "$layer"
mkdir "$layer/upper" "$layer/work"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$layer/upper,workdir=$layer/work" "$root"
mount -t proc none "$root/proc"
mount -t tmpfs none "$root/run"
mount --rbind /dev "$root/dev"
cp "$package" "$root/root/anabranch.deb"
ip link set lo up
echo '127.0.0.1 localhost' > "$root/etc/hosts"

total_ms=0
server=
finish() {
    status=$?
    if [ -n "$server" ]; then kill "$server" 2> /dev/null || true; fi
    if [ "$status" != 0 ]; then cat "$root/root/log" "$root/root/out" >&2 2> /dev/null || true; fi
}
trap finish EXIT
within=(chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 ANABRANCH_PASSWORD=secret.0)
inside() { "${within[@]}" "$@"; }
# step NAME COMMAND...: runs and times a command.
step() {
    local name=$1 begun ended
    shift
    begun=$(date +%s%N)
    "$@" > "$root/root/out" 2>&1 || { echo "FAILED: $name" >&2; exit 1; }
    ended=$(date +%s%N)
    total_ms=$((total_ms + (ended - begun) / 1000000))
    printf 'ok: %s: %d ms\n' "$name" $(((ended - begun) / 1000000))
}
configure() {
    cat > "$root/etc/anabranch/anabranch.toml" << 'END'
[server]
smb = ["127.0.0.1:445"]
nfs = ["127.0.0.1:2049"]
admin = "127.0.0.1:4480"

[[share]]
name = "data"
path = "/srv/data"
END
    inside anabranch check /etc/anabranch/anabranch.toml
}
add_user() { echo secret.0 | inside anabranch user add alice --password-stdin; }
begin() {
    # No function: its process must be the server's.
    "${within[@]}" anabranch serve --config /etc/anabranch/anabranch.toml > "$root/root/log" 2>&1 < /dev/null &
    server=$!
    for _ in $(seq 300); do
        if (exec 3<> /dev/tcp/127.0.0.1/445) 2> /dev/null; then return; fi
        sleep 0.1
    done
    return 1
}
over_smb() {
    mount -t cifs //127.0.0.1/data /tmp/smb -o username=alice,password=secret.0,vers=3.1.1
    grep -qx hello /tmp/smb/hello.txt
    echo smb > /tmp/smb/from-smb
    grep -qx smb "$root/srv/data/from-smb"
}
over_nfs() {
    mount -t nfs -o vers=4.2 127.0.0.1:/data /tmp/nfs
    grep -qx smb /tmp/nfs/from-smb
    # root of a client is nobody on the server.
    setpriv --reuid "$(stat -c %u "$root/srv/data")" --clear-groups rm /tmp/nfs/from-smb
    # The SMB client may hold attributes for a second (actimeo).
    for _ in $(seq 50); do
        if [ ! -e /tmp/smb/from-smb ]; then return; fi
        sleep 0.1
    done
    return 1
}
step "install the package" inside dpkg --install /root/anabranch.deb
step "a system user" inside useradd --create-home alice
step "a directory" inside install --directory --owner alice /srv/data
step "the configuration, checked" configure
step "the user's password" add_user
step "start the server" begin
echo hello > "$root/root/hello.txt"
step "a file by anabranch copy" inside anabranch copy /root/hello.txt smb://alice@127.0.0.1/data/ --quiet
step "mount by the kernel's SMB client, write a file" over_smb
step "mount by the kernel's NFS client, remove it" over_nfs
step "the server's status" inside anabranch status
umount /tmp/nfs /tmp/smb
kill "$server"
wait "$server" || { echo "FAILED: the server did not end cleanly" >&2; exit 1; }
server=
[ "$total_ms" -lt $((seconds_max * 1000)) ] || { echo "FAILED: the commands took $total_ms ms, more than $seconds_max s" >&2; exit 1; }
echo "newcomer: 10 steps in $total_ms ms, of at most $seconds_max s"
