# Functions that the lanes share: start the server, record its traffic by a relay, count passed and
# skipped checks. Sourced by bash.
binary=${ANABRANCH:-${CARGO_TARGET_DIR:-target}/debug/anabranch}
work=$(mktemp -d)
share=$work/share
address=127.0.${ANABRANCH_TEST_NET:-0}.71
server_port=24451
port=24452
admin=$address:24453
# A server on this machine may use the default state directories.
export STATE_DIRECTORY=$work/server-state XDG_STATE_HOME=$work/state-home
passed=0
skipped=0
server=
relay=

# start [required|offered]: starts the server with this setting of `signing`.
start() {
    mkdir -p "$work/snapshots"
    "$binary" serve --share "data=$share,snapshots=$work/snapshots,snapshot_names=daily-%Y-%m-%d" --user alice:secret.0 \
        --smb "$address:$server_port" --admin "$admin" --signing "${1:-required}" > "$work/log" 2>&1 &
    server=$!
    listens "$server_port"
}
# Starts the relay: it listens on $port and forwards to the server.
start_relay() {
    python3 conformance/python/wiretap.py "$address:$port" "$address:$server_port" "$work/wire" &
    relay=$!
    listens "$port"
    wire_seen
    rm "$work/wire"
}
# listens PORT [ADDRESS]: waits up to 5 seconds until a process listens there.
listens() {
    local at=${2:-$address}
    for _ in $(seq 100); do
        if (exec 3<> "/dev/tcp/$at/$1") 2> /dev/null; then
            sleep 0.1
            return
        fi
        sleep 0.05
    done
    cat "$work/log" >&2 || true
    fail "no process listens on port $1"
}
finish() {
    for process in $server $relay ${lists_server:-} ${channels_server:-}; do kill "$process" 2> /dev/null || true; done
    # A mount that stayed below $work, of /dev for one, must survive.
    rm -rf --one-file-system "$work"
}
trap finish EXIT
# unmount DIRECTORY...: detaches the mounts at and below each directory that is a mount point.
unmount() {
    local directory
    for directory; do
        if mountpoint --quiet "$directory" && ! umount --recursive --lazy "$directory"; then
            echo "FAILED: cannot unmount $directory; $work is not removed" >&2
            return 1
        fi
    done
}

# log_says PATTERN...: true if a line of the server's log matches all patterns within 10 seconds. A
# separate thread writes the log, so a line may follow the reply to the client.
log_says() {
    local wait pattern lines
    for wait in $(seq 100); do
        lines=$(cat "$work/log")
        for pattern; do lines=$(grep -E -- "$pattern" <<< "$lines" || true); done
        if [ -n "$lines" ]; then return 0; fi
        sleep 0.1
    done
    return 1
}

ok() {
    passed=$((passed + 1))
    echo "ok: $1"
}
fail() {
    echo "FAILED: $1" >&2
    exit 1
}
# skip WHAT: counts a check that cannot run here. With ANABRANCH_NO_SKIP it fails instead.
skip() {
    if [ -n "${ANABRANCH_NO_SKIP:-}" ]; then fail "$1: not to be skipped"; fi
    skipped=$((skipped + 1))
    echo "SKIPPED: $1" >&2
}

# python_environment NAME: prints the interpreter with the packages of python/NAME.requirements.
python_environment() { conformance/python-environment "$1" "conformance/python/$1.requirements"; }

# wire_was signed|sealed|plain DIALECT SIGNING CIPHER: fails unless all connections since the last
# call had these properties in both directions and carried messages.
wire_was() {
    wire_seen
    while read -r line; do connection_was "$@" "$line"; done < "$work/wire"
    rm "$work/wire"
}
wire_seen() {
    for _ in $(seq 200); do
        if [ -s "$work/wire" ]; then break; fi
        sleep 0.05
    done
    sleep 0.05
    [ -s "$work/wire" ] || fail "the relay recorded no connection"
}
# connection_was signed|sealed|plain DIALECT SIGNING CIPHER LINE: the same for one line of the relay.
connection_was() {
    local protection=$1 expected="dialect=$2 signing=$3 cipher=$4 " line=$5 kind side none
    [[ $line = "$expected"* ]] || fail "expected $expected; the relay recorded: $line"
    for kind in plain signed sealed; do
        for side in requests responses; do
            none=" $side-$kind=0 "
            if [ "$kind" = "$protection" ]; then
                [[ " $line " != *"$none"* ]] || fail "no message is $kind: $line"
            else
                [[ " $line " = *"$none"* ]] || fail "a message is $kind: $line"
            fi
        done
    done
    case $protection in
        sealed) [[ $line = *needles=0 ]] || fail "sealed messages contain readable text: $line" ;;
        *) [[ $line != *needles=0 ]] || fail "the relay does not find the text in unsealed messages: $line" ;;
    esac
}

# status_was DIALECT SIGNING CIPHER FILE: fails unless `anabranch status` in FILE shows such a session.
status_was() {
    grep -qF "user alice  SMB $1  signing $2  cipher $3" "$4" || {
        cat "$4" >&2
        fail "anabranch status does not show: SMB $1, signing $2, cipher $3"
    }
}
