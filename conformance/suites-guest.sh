#!/bin/bash
# Runs in the guest of conformance/suites: each suite on its reference, then on the server.
#   suites-guest.sh FOLDER SHARE-OF SEED ONLY CACHE PLACES ALOUD SECONDS SAMBA SUITE...
set -euo pipefail
folder=$1 share_of=$2 seed=$3 all_only=$4 cache=$5 wanted=$6 samba=$9
export ALOUD=$7 XFSTESTS_SECONDS_MAX=$8
shift 9
tools=/mnt/tools
mkdir -p $tools /mnt/local /mnt/nfs
mount -t ext4 /dev/ubda /mnt/local
mount -i -t nfs4 -o vers=4.2,addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/data /mnt/nfs
# pjdfstest starts some hundred thousand programs, and User-Mode Linux makes each start expensive. One
# small busybox in memory serves as all of them.
cp "$(command -v busybox)" $tools/busybox
for name in awk cat cut dd expr grep head md5sum mkdir rm rmdir sed sh sleep tail tr wc; do
    ln -s busybox $tools/$name
done
cat > $tools/openssl << 'END'
#!/mnt/tools/sh
[ "$1" = md5 ] || exit 1
read -r sum rest << SUM
$(md5sum)
SUM
echo "$sum"
END
chmod +x $tools/openssl

# Starts the kernel's NFS server with the same exports on the guest's ext4.
start_knfsd() {
    mount -t nfsd nfsd /proc/fs/nfsd
    mkdir -p /var/lib/nfs/v4recovery /mnt/local/test /mnt/local/scratch
    echo 10 > /proc/fs/nfsd/nfsv4gracetime
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    "$cache/knfsd/usr/sbin/rpc.mountd" --no-nfs-version 3 -F > /mnt/out/mountd 2>&1 &
    echo "/mnt/local *(rw,sync,no_subtree_check,no_root_squash,fsid=0,insecure)" > /etc/exports
    "$cache/knfsd/usr/sbin/exportfs" -ra
    "$cache/knfsd/usr/sbin/rpc.nfsd" --no-udp --no-nfs-version 3 --nfs-version 4.2 8
    until (exec 3<> /dev/tcp/127.0.0.1/2049) 2> /dev/null; do sleep 0.1; done
}
# Mounts both servers as root, for whom they skip permission checks like a local disk.
mount_smb() {
    # idsfromsid: the client sends owners as S-1-5-88 SIDs, and otherwise none. actimeo=0: cached
    # attributes would hide those of the server for a second.
    local options=ip=192.0.2.1,vers=3.1.1,posix,idsfromsid,actimeo=0,username=root,password=secret.0
    mkdir -p /mnt/smb /mnt/samba
    mount -t cifs //192.0.2.1/data /mnt/smb -o $options
    [ -z "$samba" ] || mount -t cifs //192.0.2.1/samba /mnt/samba -o $options,port=446
}
# bash needs /dev/fd for `<(...)`.
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
for user in fsgqa fsgqa2 123456-fsgqa; do
    useradd -m --badname "$user" 2> /dev/null || useradd -m --badnames "$user" 2> /dev/null || true
done
for suite in "$@"; do
    sources=$suite
    for kind in auto long smb; do sources=${sources%-$kind}; done
    cp -r "$cache/$sources" $tools
    case $suite in
        *-long) places=nfs ;;
        xfstests*) places=$wanted ;;
        *-smb) places="${samba:+samba} smb"; mount_smb ;;
        *) places="local nfs" ;;
    esac
    for place in $places; do
        begin=$SECONDS only=$all_only part=$share_of
        case $suite-$place in
            xfstests-knfsd | xfstests-auto-knfsd)
                # Only failed tests need a reference, and each takes long.
                if [ -e "/mnt/out/$suite.nfs" ]; then
                    only=$(awk -F '\t' '$2 == "failed" { print $1 }' "/mnt/out/$suite.nfs" | tr '\n' ' ') part=1
                    if [ -z "$only" ]; then continue; fi
                fi
                start_knfsd
                at=127.0.0.1:
                ;;
            xfstests-nfs | xfstests-auto-nfs) at=192.0.2.1: ;;
            *) at=/mnt/$place/$suite; mkdir -m 755 "$at" ;;
        esac
        python3 "$folder/suites_run.py" "$suite" $tools "$at" "/mnt/out/$suite.$place" "$part" "$seed" "$only"
        echo "$suite on $place: $((SECONDS - begin)) s"
    done
    rm -r "${tools:?}/${sources:?}"
done
umount /mnt/nfs
