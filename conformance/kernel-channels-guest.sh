#!/bin/bash
# Runs inside the guest: the Linux kernel's SMB client with several channels.
set -eEu
ok() { echo "ok: $1 (${SECONDS} s)"; }
trap 'echo "FAILED at line $LINENO after $SECONDS s" >&2; cat /proc/fs/cifs/DebugData >&2; dmesg | tail -n 40 >&2' ERR
uname -r
# With `soft`, the default, the client tries once more only and then gives up.
mount_at() { # DIRECTORY OPTIONS
    mkdir -p "$1"
    mount -t cifs "//$KC_SERVER/data" "$1" -o "username=alice,password=secret.0,vers=3.1.1,hard,$2"
}
channels() { ss -Htn state established "dport = :$1" | wc -l; }
has_channels() { # PORT COUNT
    local n=0
    until [ "$(channels "$1")" = "$2" ]; do
        n=$((n + 1))
        if [ $n = 600 ]; then echo "$(channels "$1") channels instead of $2" >&2; return 1; fi
        sleep 0.1
    done
}
head -c 20000000 /dev/urandom > /mnt/data
sum=$(sha256sum < /mnt/data)

# Linux was seen, in one run of some thirty, to end a write with EAGAIN when channels went one after
# the other, although the mount is hard. That is told, and the file written once more.
put() { # FILE
    cat /mnt/data 2> /mnt/refused > "$1" && return
    cat /mnt/refused >&2
    grep -q 'temporarily unavailable' /mnt/refused || return 1
    echo "$1: the client has given up a write; it is tried once more"
    cat /mnt/data > "$1"
}
# Copies there and back; whatever is cut meanwhile, each must be whole.
copies() { # COUNT
    for n in $(seq "$1"); do
        # cp insists on a new file: if the answer is lost it is there when the client asks again.
        put "/mnt/s/copy$n"
        # Not from the client's cache.
        # Without any channel the session is lost. Linux opens and writes again, but asks to
        # flush by the handle of before (EBADF) once.
        sync "/mnt/s/copy$n" 2> /dev/null || sync "/mnt/s/copy$n"
        echo 1 > /proc/sys/vm/drop_caches
        [ "$(sha256sum < "/mnt/s/copy$n")" = "$sum" ]
        # If the answer is lost the file is gone when the client asks again. Linux gives a compound
        # up (EDEADLK) if it takes it to a channel that is being connected: such a one has a single
        # credit and nothing under way that would bring more.
        rm -f "/mnt/s/copy$n" 2> /dev/null || { sleep 1 && rm -f "/mnt/s/copy$n"; }
    done
}

for port in 446 445; do
    for way in sign seal; do
        mount_at /mnt/s "$way,port=$port,multichannel,max_channels=4"
        has_channels $port 4
        copies 1
        addresses=$(ss -Htn state established "dport = :$port" | awk '{print $4}' | sort -u | wc -l)
        grep -q "Extra Channels: 3" /proc/fs/cifs/DebugData
        ok "port $port, $way: four channels to $addresses addresses"
        echo now > /mnt/s/cut
        copies 8
        rm /mnt/s/cut
        ls /mnt/s > /mnt/list
        has_channels $port 4
        copies 1
        umount /mnt/s
        ok "port $port, $way: copies while channels are cut, and four channels again"
    done
done

# Addresses that go and come back, and interfaces that lose all they send: with one address
# everybody waits until it is back, with four the others go on. Linux gives a silent channel
# up after three times the interval of the echoes.
trouble() { # PORT KIND INTERFACES
    local end=$((SECONDS + 18)) count=0
    echo "$3" > "/mnt/s/$2"
    while [ "$SECONDS" -lt "$end" ]; do
        copies 1
        count=$((count + 1))
    done
    rm "/mnt/s/$2"
    while [ -e /mnt/s/under-way ]; do sleep 0.1; done
    has_channels "$1" 4
    copies 1
    ok "port $1: $count copies in spite of $2 of interfaces $3, and four channels again"
}
# Linux 7.2 was once seen to connect no more after its only address had lost packets again
# and again: with one it goes only.
for place in 445/0,1,2,3/address,loss 446/0/address; do
    IFS=/ read -r port interfaces kinds <<< "$place"
    mount_at /mnt/s "sign,port=$port,multichannel,max_channels=4,echo_interval=1"
    has_channels "$port" 4
    for kind in ${kinds//,/ }; do trouble "$port" "$kind" "${interfaces//,/ }"; done
    umount /mnt/s
done
# Channels that had died made room for others.
if dmesg | grep STATUS_INSUFFICIENT_RESOURCES; then echo "a channel was refused" >&2; exit 1; fi
