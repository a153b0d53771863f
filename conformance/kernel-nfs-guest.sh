# Runs in the guest: copies and compares trees, runs git, and tests POSIX locks and holes, with each
# version and 1, 4 and 16 connections; with `few` a part that emulation runs in a minute.
set -e
trees=$1
counts="1 4 16"
if [ "${2:-}" = few ]; then counts=4; fi
place=/mnt/nfs
mkdir -p $place
for version in 4.1 4.2; do
    for connections in $counts; do
        options=vers=$version,nconnect=$connections,addr=192.0.2.1,clientaddr=192.0.2.2
        mount -i -t nfs4 -o "$options" 192.0.2.1:/data $place
        test "$(grep -c xprt: /proc/self/mountstats)" = $connections
        cd $place
        cp -r "$trees/tree" copy
        diff -r "$trees/tree" copy
        mv copy moved
        rm -r moved
        mkdir work
        [ "${2:-}" = few ] || (
            cd work
            git init -q .
            git config user.email nobody@example.org
            git config user.name nobody
            cp -r "$trees/tree" .
            git add .
            git commit -qm all
            test -z "$(git status --short)"
            git fsck --no-progress
            git gc -q
        )
        rm -rf work
        python3 "$trees/nfs_files.py" $version
        cd /
        umount $place
        echo "version $version with $connections connections"
    done
done

# Mounts the share by the path of its directory, as in exports(5), and a directory above it.
mount_nfs() { # PATH DIRECTORY
    mkdir -p "$2"
    mount -i -t nfs4 -o vers=4.2,addr=192.0.2.1,clientaddr=192.0.2.2 "192.0.2.1:$1" "$2"
}
exported=$trees/share
mount_nfs /data $place
mount_nfs "$exported" /mnt/path
mount_nfs / /mnt/root
echo by-name > $place/file
test "$(cat /mnt/path/file)" = by-name
echo by-path > /mnt/path/file
through=/mnt/root$exported
test "$(cat $place/file "$through/file")" = "by-path
by-path"
test "$(stat -c %d:%i $place/file)" = "$(stat -c %d:%i "$through/file")"
# Path components above a share are not listed in the root, but below it, and are read-only.
test "$(ls /mnt/root)" = data
test "$(ls "${through%/*}")" = share
if touch "${through%/*}/new" 2> /dev/null; then exit 1; fi
if mount_nfs "${exported%/*}/absent" /mnt/absent 2> /dev/null; then exit 1; fi
# A directory above the share can be mounted, too.
mount_nfs "${exported%/*}" /mnt/above
test "$(cat /mnt/above/share/file)" = by-path
rm "$through/file"
test -z "$(ls $place)"
umount /mnt/above/share /mnt/above "$through" /mnt/root /mnt/path $place
echo "mounts by path, by name and of a directory above the share"
