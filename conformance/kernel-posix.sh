#!/bin/bash
# Runs in the guest, sourced by kernel-guest.sh: a mount with `posix` must behave like a local file
# system.
posix_options=vers=3.1.1,sign,posix

posix_names_and_modes() {
    local name
    mkdir names
    (
        cd names
        umask 027
        for name in 'a:b' 'what?' '*' 'end.' 'end ' 'back\slash' '<"|>' Case case ' lead' "$(printf 'tab\there')" 'ümläut'; do
            echo "$name" > "$name"
        done
        mkdir Dir dir 'dir:*'
        [ "$(cat Case)" = Case ] && [ "$(cat case)" = case ]
        [ ! -e CASE ]
        [ "$(ls -A | wc -l)" = 15 ]
        [ "$(stat -c %a case)" = 640 ]
        [ "$(stat -c %a dir)" = 750 ]
        chmod 4711 case
        chmod 1777 dir
        chmod 0 'a:b'
        [ "$(stat -c '%a %A' case)" = '4711 -rws--x--x' ]
        [ "$(stat -c %a dir)" = 1777 ]
        [ "$(stat -c %a 'a:b')" = 0 ]
        mv '*' 'dir:*/?'
        [ "$(cat 'dir:*/?')" = '*' ]
        mv case CASE
        [ "$(cat CASE)" = case ] && [ -e Case ] && [ ! -e case ]
        ln 'what?' 'another?'
        [ "$(stat -c %h 'what?')" = 2 ]
        [ "$(stat -c %i 'what?')" = "$(stat -c %i 'another?')" ]
        [ "$(stat -c %h dir)" = 2 ]
        touch -d '2001-02-03 04:05:06.789' 'end.'
        truncate -s 5000 'end '
        [ "$(stat -c %U:%G Case)" = "$(stat -c %U:%G dir)" ]
    )
    ok "posix: modes, names that Windows forbids, names that differ in case, links"
}

posix_open_files() {
    mkdir busy
    (
        cd busy
        echo kept > open
        exec 5<> open 6< open
        rm open
        [ ! -e open ]
        [ -z "$(ls -A)" ]
        [ "$(cat <&6)" = kept ]
        echo more >&5
        echo new > open
        [ "$(cat open)" = new ]
        exec 5>&- 6<&-
        [ "$(cat open)" = new ]

        echo old > target
        echo new > source
        exec 5< target
        mv source target
        [ "$(cat target)" = new ]
        [ "$(cat <&5)" = old ]
        exec 5<&-
        [ "$(ls)" = "$(printf 'open\ntarget')" ]

        mkdir -p moved/below
        echo data > moved/below/file
        exec 5<> moved/below/file
        mv moved away
        echo more >&5
        [ "$(cat away/below/file)" = more ]
        rm away/below/file
        exec 5>&-
        rmdir away/below away
        ! rmdir . 2> /dev/null
    )
    rm -r busy
    ok "posix: files that are open are unlinked, replaced and moved"
}

posix_links() {
    [ "$(readlink given/link)" = file ]
    [ "$(cat given/link)" = given ]
    [ "$(readlink given/absolute)" = /nowhere/at/all ]
    [ "$(readlink given/broken)" = '../gone' ]
    [ "$(stat -c %F given/link)" = 'symbolic link' ]
    [ "$(stat -c %F given/fifo)" = fifo ]
    [ "$(stat -c %F given/socket)" = socket ]
    [ "$(cat given/up/file)" = given ]
    rm given/broken
    mv given/absolute given/renamed
    [ "$(readlink given/renamed)" = /nowhere/at/all ]
    ok "posix: symbolic links of the server"
}

# Lists everything below this directory, on the client or on the disk. SMB times have units of 100 ns,
# so the list has no more precise times.
posix_listing() {
    find . -mindepth 1 -printf '%P|%y|%m|%U|%G|%s|%n|%i|%l|%T@\n' | sed -E 's/(\.[0-9]{7})[0-9]*$/\1/' | LC_ALL=C sort
}

# Creates the links and special files on the disk that the guest reads.
posix_given() { # DIRECTORY USER
    mkdir "$1"
    echo given > "$1/file"
    ln -s file "$1/link"
    ln -s . "$1/up"
    ln -s ../gone "$1/broken"
    ln -s /nowhere/at/all "$1/absolute"
    mkfifo "$1/fifo"
    python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$1/socket"
    chown -hR "$2" "$1"
}

# Two users of one mount, each with their own rights.
posix_multiuser() {
    mkdir /mnt/m
    mount_at /mnt/m "$posix_options,multiuser"
    cd /mnt/m
    mkdir users
    chmod 1777 users
    as_user alice secret.0 'echo of alice > users/hers; chmod 600 users/hers; cat users/hers'
    as_user bob secret.1 'echo of bob > users/his; ! cat users/hers 2> /dev/null; ! rm -f users/hers 2> /dev/null'
    as_user alice secret.0 'cat users/his; ! echo more 2> /dev/null >> users/his'
    # The client caches the owner from the reply to CREATE, which is not the final owner, as long as
    # it has the lease: for two seconds after the last close.
    sleep 2.5
    [ "$(stat -c %U /mnt/m/users/hers /mnt/m/users/his | xargs)" = 'alice bob' ]
    umount /mnt/m
    ok "posix: two users of one mount"
}
# as_user NAME PASSWORD COMMANDS: runs them with a key ring that has the password. No command may access
# the mount before the key exists, because the kernel caches failures.
as_user() {
    cd /
    setpriv --reuid "$1" --regid "$1" --clear-groups python3 -I - "$1:$2" "cifs:a:$KC_SERVER" "$3" << 'PYTHON'
import ctypes, subprocess, sys
payload, description, commands = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
KEYCTL_JOIN_SESSION_KEYRING, SESSION, ADD_KEY, KEYCTL = 1, -3, 248, 250
if libc.syscall(KEYCTL, KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
    sys.exit("no key ring")
if libc.syscall(ADD_KEY, b"logon", description.encode(), payload.encode(), len(payload), SESSION) < 0:
    sys.exit("no key")
sys.exit(subprocess.run(["bash", "-euc", commands], cwd="/mnt/m", stdout=subprocess.DEVNULL).returncode)
PYTHON
}

posix_mount() {
    mount_at /mnt/s "$posix_options"
    grep -q 'cifs.*posix' /proc/mounts
    cd /mnt/s
    posix_names_and_modes
    posix_open_files
    posix_links
    ls -l names > /dev/null
    df . > /dev/null
    posix_listing > /mnt/out/posix
    cd /
    umount /mnt/s
    mount_at /mnt/s "$posix_options"
    cd /mnt/s
    posix_listing | cmp - /mnt/out/posix
    cp -a /mnt/tree posix-tree 2> /mnt/cp.errors || { head -n 5 /mnt/cp.errors; }
    diff -r /mnt/tree posix-tree
    rm -r posix-tree
    cd /
    umount /mnt/s
    ok "posix: a tree copied to the share and back"
    posix_multiuser
}
