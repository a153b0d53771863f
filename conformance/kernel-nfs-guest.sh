# Runs in the guest: trees are copied and compared, git works, locks and holes are as
# POSIX has them, with every version and with 1, 4 and 16 connections; with `few`, what an
# emulated machine does in a minute.
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
