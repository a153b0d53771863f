#!/bin/bash
# Runs inside the guest: the Linux kernel's own SMB client on our share.
set -eu
mount_it() { mount -t cifs "//$KC_SERVER/data" /mnt/s -o "username=alice,password=secret.0,$1"; }
mkdir -p /mnt/s
tree=/usr/include/c++

for options in vers=2.1,sign vers=3.0,sign vers=3.1.1,sign vers=3.1.1,seal; do
    mount_it "$options"
    mkdir /mnt/s/tree
    cp -r "$tree" /mnt/s/tree/
    umount /mnt/s
    mount_it "$options"
    diff -r "$tree" /mnt/s/tree/c++
    rm -r /mnt/s/tree
    umount /mnt/s
    echo "ok: $options: $(find "$tree" -type f | wc -l) files there and back"
done

mount_it vers=3.1.1
cd /mnt/s
# A repository made, committed to, cloned and checked on the mount.
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git -c safe.directory='*' init -q repo
cp -r "$tree/12/bits" repo/
git -c safe.directory='*' -C repo add .
git -c safe.directory='*' -C repo commit -qm first
git -c safe.directory='*' -c protocol.file.allow=always clone -q repo copy 2> /dev/null ||
    git -c safe.directory='*' clone -q "file:///mnt/s/repo" copy
git -c safe.directory='*' -C copy fsck --full
diff -r repo/bits copy/bits
echo "ok: git on the mount"

# Storms of names.
mkdir storm
for i in $(seq 300); do echo "$i" > "storm/$i"; done
for i in $(seq 300); do mv "storm/$i" "storm/n$i"; done
[ "$(ls storm | wc -l)" = 300 ]
for i in $(seq 300); do [ "$(cat "storm/n$i")" = "$i" ]; rm "storm/n$i"; done
rmdir storm
echo "ok: storms of renames and removals"

# Lengths, holes, appends.
printf abc > f; truncate -s 1M f; printf xyz >> f
[ "$(stat -c %s f)" = 1048579 ]
[ "$(tail -c 3 f)" = xyz ]
truncate -s 2 f
[ "$(cat f)" = ab ]
cd /
umount /mnt/s
echo "ok: truncate and append"
