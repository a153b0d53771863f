# What the scripts with foreign clients share: the server, a relay before it that
# tells what went over the wire, and the count of what was shown. Sourced by bash.
binary=${ANABRANCH:-${CARGO_TARGET_DIR:-target}/debug/anabranch}
work=$(mktemp -d)
share=$work/share
address=127.0.${ANABRANCH_TEST_NET:-0}.71
server_port=24451
port=24452
admin=$address:24453
passed=0
skipped=0
server=
relay=

# start [required|offered]: the server, with this setting of signing.
start() {
    mkdir -p "$work/kept"
    "$binary" serve --share "data=$share,snapshots=$work/kept,snapshot_names=daily-%Y-%m-%d" --user alice:secret.0 \
        --smb "$address:$server_port" --admin "$admin" --signing "${1:-required}" > "$work/log" 2>&1 &
    server=$!
    listens "$server_port"
}
# The relay: clients are sent to $port, it goes on to the server.
start_relay() {
    python3 conformance/python/wiretap.py "$address:$port" "$address:$server_port" "$work/wire" &
    relay=$!
    listens "$port"
    wire_seen
    rm "$work/wire"
}
# listens PORT [ADDRESS]: somebody does, within some seconds.
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
    fail "nothing listens on port $1"
}
finish() {
    for process in $server $relay ${lists_server:-} ${channels_server:-}; do kill "$process" 2> /dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

# log_says PATTERN...: whether a line of the server's log has them all, now or soon. The log has a
# thread of its own, so a line may come after the answer to the client that caused it.
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
# skip WHAT: it cannot run here. Where everything must run this is a failure.
skip() {
    if [ -n "${ANABRANCH_NO_SKIP:-}" ]; then fail "$1: not to be skipped"; fi
    skipped=$((skipped + 1))
    echo "SKIPPED: $1" >&2
}

# python_environment NAME: prints the interpreter of an environment with what
# python/NAME.requirements names. Each is checked by its content; another list, or another
# interpreter, makes another environment.
python_environment() {
    local list=conformance/python/$1.requirements folder
    folder=${ANABRANCH_CACHE:-$HOME/.cache/anabranch}/python/$1-$({ cat "$list"; python3 -VV; } | sha256sum | head -c 16)
    if [ ! -e "$folder/complete" ]; then
        rm -rf "$folder"
        mkdir -p "$(dirname "$folder")" &&
            python3 -m venv "$folder" >&2 &&
            "$folder/bin/pip" install --quiet --require-hashes --requirement "$list" >&2 &&
            touch "$folder/complete" || return 1
    fi
    echo "$folder/bin/python"
}

# wire_was signed|sealed|plain DIALECT SIGNING CIPHER: all connections since the
# last call were so, in both directions, and carried something.
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
    [ -s "$work/wire" ] || fail "nothing went over the wire"
}
# connection_was signed|sealed|plain DIALECT SIGNING CIPHER LINE: so for one line of the relay's.
connection_was() {
    local protection=$1 expected="dialect=$2 signing=$3 cipher=$4 " line=$5 kind side none
    [[ $line = "$expected"* ]] || fail "asked for $expected; on the wire: $line"
    for kind in plain signed sealed; do
        for side in requests responses; do
            none=" $side-$kind=0 "
            if [ "$kind" = "$protection" ]; then
                [[ " $line " != *"$none"* ]] || fail "nothing is $kind: $line"
            else
                [[ " $line " = *"$none"* ]] || fail "something is $kind: $line"
            fi
        done
    done
    case $protection in
        sealed) [[ $line = *needles=0 ]] || fail "readable in spite of the seal: $line" ;;
        *) [[ $line != *needles=0 ]] || fail "the relay does not see what is not sealed: $line" ;;
    esac
}

# status_was DIALECT SIGNING CIPHER FILE: what the server said of the session.
status_was() {
    grep -qF "user alice  SMB $1  signing $2  cipher $3" "$4" || {
        cat "$4" >&2
        fail "the server did not say: SMB $1, signing $2, cipher $3"
    }
}
