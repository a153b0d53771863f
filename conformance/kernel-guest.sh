#!/bin/bash
# Runs in the guest: tests the share with the Linux kernel's SMB client.
#   kernel-guest.sh TREE PYTHON-PROGRAMS PYTHON OPERATIONS GRACE-MS
set -eu
programs=$2 python=$3 operations=$4 grace=$5
mount_at() { # DIRECTORY OPTIONS
    mkdir -p "$1"
    mount -t cifs "//$KC_SERVER/data" "$1" -o "username=alice,password=secret.0,iocharset=utf8,$2"
}
ok() { echo "ok: $1 (${SECONDS} s)"; }
# shellcheck source=conformance/kernel-posix.sh
. "$programs/kernel-posix.sh"
trap 'echo "FAILED at line $LINENO after $SECONDS s" >&2' ERR
uname -r
# A local copy, so that comparisons do not read the tree of the host repeatedly.
cp -r "$1" /mnt/tree
files=$(find /mnt/tree -type f | wc -l)
ways='vers=2.1,sign vers=3.0,sign vers=3.0,seal vers=3.1.1,sign vers=3.1.1,seal'

for options in $ways; do
    mount_at /mnt/s "$options,port=446"
    echo 'anabranch-needle' > /mnt/s/anabranch-needle
    grep -q needle /mnt/s/anabranch-needle
    rm /mnt/s/anabranch-needle
    umount /mnt/s
done
ok "one short mount each with $ways"

# Copies the tree to the share, and compares it after a new mount.
for options in $ways; do
    mount_at /mnt/s "$options"
    cp -r /mnt/tree /mnt/s/there
    umount /mnt/s
    mount_at /mnt/s "$options"
    diff -r /mnt/tree /mnt/s/there
    rm -r /mnt/s/there
    # `given` is the directory that the POSIX tests need.
    [ "$(ls -A /mnt/s)" = given ]
    umount /mnt/s
    ok "$options: $files files there and back"
done

# Random operations, compared with a model, and once more after a new mount.
random() { # NAME SEED [OPTIONS OF fsx.py] -- PATH...
    local name=$1 seed=$2
    shift 2
    "$python" "$programs/fsx.py" --operations "$operations" --seed "$seed" --model "/mnt/model-${name//\//-}" "$@"
}
for options in vers=2.1,sign vers=3.1.1,sign vers=3.1.1,seal vers=3.1.1,sign,cache=none; do
    # With cache=none reads do not see changes by a mapping.
    case $options in *cache=none) maps=--no-map ;; *) maps= ;; esac
    for seed in 1 2; do
        mount_at /mnt/s "$options"
        random "$options" "$seed" $maps /mnt/s/random
        umount /mnt/s
    done
    mount_at /mnt/s "$options"
    cmp "/mnt/model-$options" /mnt/s/random
    rm /mnt/s/random
    umount /mnt/s
    ok "$options: random reads, writes, truncations, copies, mappings"
done

# One file and one directory through two independent mounts: concurrently without caches, in turns with
# caches, which the server recalls by lease and oplock breaks. With leases deferred close must be off:
# a client with the file open for writing ignores a shorter length from any server (with the same
# seeds Samba fails at the same operations).
for way in cache=none,nolease/--no-map cache=strict,closetimeo=0/--turns cache=strict,vers=2.0/--turns; do
    options=vers=3.1.1,sign,actimeo=0,nosharesock,${way%/*}
    mount_at /mnt/s "$options"
    mount_at /mnt/b "$options"
    random "two-$way" 3 "${way#*/}" /mnt/s/random /mnt/b/random
    rm /mnt/s/random
    ok "${way%/*}: random operations through two mounts"
    mkdir /mnt/s/storm
    "$python" "$programs/storm.py" "$((operations / 10))" /mnt/s/storm /mnt/b/storm
    rmdir /mnt/b/storm
    umount /mnt/s /mnt/b
    ok "${way%/*}: a storm of names through two mounts"
done

# A client sees the data that another one wrote, closed or flushed: at once if the mounts cache no
# attributes. By default Linux caches attributes for a second and handles for another one, so that it
# reads old lengths with any server.
for way in "closetimeo=0,actimeo=0 --grace-ms $grace" "posix,actimeo=0,closetimeo=0 --grace-ms $grace" "cache=strict --grace-ms 2500 --remembers"; do
    options=vers=3.1.1,sign,nosharesock,${way%% *}
    if ! mount_at /mnt/s "$options" 2> /mnt/refused; then
        # Linux 6.1 cannot mount with posix: see below.
        [[ $way = posix* ]]
        echo "skipped: ${way%% *} through two mounts"
        continue
    fi
    mount_at /mnt/b "$options"
    # shellcheck disable=SC2086
    "$python" "$programs/coherence.py" --seconds 5 ${way#* } /mnt/s /mnt/b
    umount /mnt/s /mnt/b
    ok "${way%% *}: each of two mounts sees data that the other closed or flushed"
done

mount_at /mnt/s vers=3.1.1,sign
mkdir /mnt/s/storm
"$python" "$programs/storm.py" "$((operations / 10))" /mnt/s/storm
rmdir /mnt/s/storm
ok "a storm of names in one mount"

# A git repository is created and cloned; the clone commits and pushes.
cd /mnt/s
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
export GIT_CONFIG_KEY_1=protocol.file.allow GIT_CONFIG_VALUE_1=always
git init -q -b main repository
mkdir repository/sources
find /mnt/tree -name '*.rs' -size -20k | head -n "$((operations / 5))" | while read -r file; do
    cp "$file" "repository/sources/$(echo "${file#/mnt/tree/}" | tr / _)"
done
git -C repository add .
git -C repository commit -qm first
git clone -q repository clone
echo more >> clone/more
rm "clone/sources/$(ls clone/sources | head -n 1)"
git -C clone add -A
git -C clone commit -qm second
git -C clone push -q origin main:second
git -C repository merge -q second
git -C clone gc -q
for copy in repository clone; do
    git -C "$copy" fsck --full --strict --no-progress > /mnt/fsck 2>&1 || { cat /mnt/fsck >&2; false; }
    [ -z "$(git -C "$copy" status --porcelain)" ]
done
[ "$(git -C repository rev-parse main)" = "$(git -C clone rev-parse main)" ]
diff -r -x .git repository clone
rm -r repository clone
ok "git: clone, commit, push, gc, fsck on the mount"

# Lengths, holes, appends.
printf abc > f
truncate -s 1M f
printf xyz >> f
[ "$(stat -c %s f)" = 1048579 ]
[ "$(tail -c 3 f)" = xyz ]
truncate -s 2 f
[ "$(cat f)" = ab ]
rm f
ok "truncate and append"

cp -r /mnt/tree left
cd /
umount /mnt/s

mkdir -p /mnt/p
if mount_at /mnt/p "$posix_options" 2> /mnt/refused; then
    umount /mnt/p
    posix_mount
else
    # Linux 6.1 adds the file type to a mode that has it already, so that the root seems not to be a
    # directory, also with Samba 4.25. The lane requires that the newest kernel mounts.
    grep -q 'error(20)' /mnt/refused
    echo "skipped: posix: $(head -n 1 /mnt/refused)"
fi
# Symbolic links that the server shows. An old kernel cannot create them, but read them.
links=username=alice,password=secret.0,iocharset=utf8,vers=3.1.1,sign
makes=yes
mount -t cifs "//$KC_SERVER/links" /mnt/s -o "$links,symlink=native" 2> /mnt/refused || {
    makes=
    mount -t cifs "//$KC_SERVER/links" /mnt/s -o "$links"
}
for way in listed unlisted; do
    if [ "$way" = listed ]; then ls -l /mnt/s > /mnt/listed; fi
    [ "$(readlink /mnt/s/to-file)" = dir/file ]
    # Newer kernels append a slash to the target if it is a directory.
    [[ "$(readlink /mnt/s/to-dir)" =~ ^dir/?$ ]]
    [ "$(readlink /mnt/s/dangling)" = nowhere ]
    [ "$(cat /mnt/s/to-file /mnt/s/to-dir/file)" = "inside
inside" ]
    [ -L /mnt/s/out ]
    [ ! -e /mnt/s/dangling ]
    umount /mnt/s
    mount -t cifs "//$KC_SERVER/links" /mnt/s -o "$links${makes:+,symlink=native}"
done
grep -q '^l.* to-file -> dir/file$' /mnt/listed
rm /mnt/s/to-file /mnt/s/to-dir
[ "$(cat /mnt/s/dir/file)" = inside ]
ok "symbolic links are read, listed, followed by the kernel, and deleted without their targets"
if [ -n "$makes" ]; then
    [ -p /mnt/s/special/pipe ]
    cd /mnt/s
    ln -s dir/file made
    ln -s ../dir/./file dir/up
    [ "$(readlink made)" = dir/file ]
    [ "$(cat made dir/up)" = "inside
inside" ]
    mv made moved
    [ "$(readlink moved)" = dir/file ]
    mv moved made
    mkfifo fifo
    mknod null c 1 3
    cd /
    umount /mnt/s
    mount -t cifs "//$KC_SERVER/links" /mnt/s -o "$links,symlink=native"
    [ "$(readlink /mnt/s/made)" = dir/file ]
    [ "$(readlink /mnt/s/dir/up)" = ../dir/./file ]
    [ -p /mnt/s/fifo ]
    [ "$(stat -c '%F %t,%T' /mnt/s/null)" = 'character special file 1,3' ]
    ok "ln -s, mkfifo and mknod on the mount, unchanged after a new mount"
fi
umount /mnt/s
