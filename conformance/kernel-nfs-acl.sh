#!/bin/bash
# Runs in the guest: sets access lists by nfs4_setfacl and smbcacls on the same files.
set -e
place=/mnt/nfs
mkdir -p $place
windows() { smbcacls //192.0.2.1/data "$@" -U alice%secret.0; }
lists() { nfs4_getfacl "$1" | grep -v '^#'; }
# expect TEXT COMMAND...: fails unless the output contains the text.
expect() {
    local text=$1
    shift
    "$@" > /tmp/shown
    grep -qF -- "$text" /tmp/shown || { echo "no $text in:"; cat /tmp/shown; return 1; }
}
for version in 4.1 4.2; do
    # The client caches lists as long as attributes; `noac` prevents that.
    mount -i -t nfs4 -o noac,vers=$version,addr=192.0.2.1,clientaddr=192.0.2.2 192.0.2.1:/data $place
    cd $place
    echo hello > file
    chown alice: file
    chmod 640 file
    alice=$(id -u alice) bob=$(id -u bob)
    # The list that follows from the permission bits.
    expect 'A::OWNER@:rwa' lists file
    expect 'A:g:GROUP@:r' lists file
    # An entry set over NFS is shown over SMB and grants access.
    if setpriv --reuid bob --regid bob --clear-groups cat file 2> /dev/null; then exit 1; fi
    nfs4_setfacl -a "A::$bob:rtncy" file
    expect "A::$bob:rtncy" lists file
    expect "ACL:S-1-22-1-$bob:0/0x0/0x00120089" windows file --numeric
    test "$(setpriv --reuid bob --regid bob --clear-groups cat file)" = hello
    if setpriv --reuid bob --regid bob --clear-groups sh -c 'echo no > file' 2> /dev/null; then
        exit 1
    fi
    # An entry set over SMB is shown over NFS and denies access.
    windows file -S "ACL:alice:ALLOWED/0x0/FULL,ACL:bob:DENIED/0x0/R" > /dev/null
    expect "D::$bob:r" lists file
    if setpriv --reuid bob --regid bob --clear-groups cat file 2> /dev/null; then exit 1; fi
    # A list that is printed and set again is unchanged.
    lists file > /tmp/before
    nfs4_setfacl -S /tmp/before file
    lists file > /tmp/after
    diff /tmp/before /tmp/after
    # Inheritance from a directory.
    mkdir folder
    nfs4_setfacl -a "A:fd:$bob:rxtncy" folder
    echo hello > folder/below
    expect "A::$bob:r" lists folder/below
    test "$(setpriv --reuid bob --regid bob --clear-groups cat folder/below)" = hello
    # chmod replaces the list: named users keep at most the rights of the group bits.
    chmod 600 file
    if lists file | grep -q "^[AD]::$bob:r"; then exit 1; fi
    if setpriv --reuid bob --regid bob --clear-groups cat file 2> /dev/null; then exit 1; fi
    rm -r file folder
    cd /
    umount $place
    echo "access lists with version $version"
done
