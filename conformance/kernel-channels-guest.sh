#!/bin/bash
# Runs inside the guest: the Linux kernel's SMB client with several channels.
set -eEu
ok() { echo "ok: $1 (${SECONDS} s)"; }
trap 'echo "FAILED at line $LINENO after $SECONDS s" >&2; cat /proc/fs/cifs/DebugData >&2; dmesg | tail -n 40 >&2' ERR
uname -r
# With `soft`, the default, the client retries once only.
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

# In about one of thirty runs Linux fails a write with EAGAIN after the loss of several channels,
# although the mount is hard. The lane reports that and writes the file once more.
put() { # FILE
    cat /mnt/data 2> /mnt/refused > "$1" && return
    cat /mnt/refused >&2
    grep -q 'temporarily unavailable' /mnt/refused || return 1
    echo "$1: the client failed a write with EAGAIN; retrying once"
    cat /mnt/data > "$1"
}
# Copies files to the share and back. Each must be complete, whatever is cut meanwhile.
copies() { # COUNT
    for n in $(seq "$1"); do
        # Not cp, which creates the file exclusively: after a lost reply the retry finds it and fails.
        put "/mnt/s/copy$n"
        # Without any channel the session is lost. Linux then reopens the file and writes again, but
        # sends one flush with the former handle (EBADF). The dropped cache forces reads from the server.
        sync "/mnt/s/copy$n" 2> /dev/null || sync "/mnt/s/copy$n"
        echo 1 > /proc/sys/vm/drop_caches
        [ "$(sha256sum < "/mnt/s/copy$n")" = "$sum" ]
        # After a lost reply the retry finds no file. Linux also fails a compound with EDEADLK on a
        # channel that is being connected: it has one credit, and no outstanding request that would
        # grant more.
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

# faults PORT KIND INTERFACES: copies while interfaces lose their address or all sent packets. With one
# address the client waits until it returns, with four it continues on the others. Linux drops a silent
# channel after three echo intervals.
faults() { # PORT KIND INTERFACES
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
# With one address only its removal is tested: once Linux 7.2 did not reconnect after repeated packet
# loss of its only address.
for place in 445/0,1,2,3/address,loss 446/0/address; do
    IFS=/ read -r port interfaces kinds <<< "$place"
    mount_at /mnt/s "sign,port=$port,multichannel,max_channels=4,echo_interval=1"
    has_channels "$port" 4
    for kind in ${kinds//,/ }; do faults "$port" "$kind" "${interfaces//,/ }"; done
    umount /mnt/s
done
# The server must release dead channels, or it would refuse new ones.
if dmesg | grep STATUS_INSUFFICIENT_RESOURCES; then echo "a channel was refused" >&2; exit 1; fi
