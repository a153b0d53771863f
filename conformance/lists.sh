# Access control lists and names by smbcacls and rpcclient, which know no port but
# 445: a server of its own there, on an address of its own. Sourced by `clients`.
lists_address=127.0.${ANABRANCH_TEST_NET:-0}.72
lists_server=

# Refusals are looked at by what is said of them.
cacls() { timeout 60 smbcacls "//$lists_address/data" "$1" -U 'alice%secret.0' "${@:2}" 2>&1 || true; }
# Reads everything, so that whoever writes does not fail.
has() { grep "$@" > /dev/null; }
# quietly FILE …: there is nothing to say, since nothing is refused.
quietly() {
    local said
    said=$(cacls "$@")
    [ -z "$said" ] || fail "$*: $said"
}
# lists FILE [smbcacls's options]: the entries, as smbcacls shows them.
lists() { cacls "$@" | grep '^ACL:'; }
# shows WHAT FILE [smbcacls's options]: one of the lines is that.
shows() {
    cacls "${@:2}" | has -xF "$1" || {
        cacls "${@:2}" >&2
        fail "$2 does not show $1"
    }
}
# shows_not WHAT FILE
shows_not() {
    if cacls "${@:2}" | has -F "$1"; then fail "$2 still shows $1"; fi
}
remote() { timeout 60 rpcclient "$lists_address" -U 'alice%secret.0' -c "$1" 2>&1 || true; }

access_lists() {
    if [ "$(id -u)" != 0 ]; then
        skip "access control lists: smbcacls needs port 445, which needs root"
        return
    fi
    "$binary" serve --share "data=$share" --user alice:secret.0 --user bob:secret.0 --admin off \
        --smb "$lists_address:445" > "$work/lists.log" 2>&1 &
    lists_server=$!
    for _ in $(seq 100); do
        if (exec 3<> "/dev/tcp/$lists_address/445") 2> /dev/null; then break; fi
        sleep 0.05
    done
    mkdir -p "$share/lists/sub"
    for file in one two sub/three; do echo some > "$share/lists/$file"; done
    chown -R alice:alice "$share/lists"
    lists_by_name
    lists_by_number
    lists_there_and_back
    lists_against_modes
    lists_of_trees
    names_of_identifiers
    extended_attributes
    kill -TERM "$lists_server"
    wait "$lists_server" || fail "the server with lists did not end cleanly"
    lists_server=
}

lists_by_name() {
    shows 'OWNER:Unix User\alice' lists/one
    shows 'ACL:Everyone:ALLOWED/0x0/READ' lists/one
    quietly lists/one -S 'ACL:alice:ALLOWED/0x0/FULL,ACL:Everyone:ALLOWED/0x0/READ'
    [ "$(lists lists/one | wc -l)" = 2 ] || fail "not the two entries that were set"
    quietly lists/one -a 'ACL:bob:ALLOWED/0x0/CHANGE'
    shows 'ACL:Unix User\bob:ALLOWED/0x0/CHANGE' lists/one
    quietly lists/one -M 'ACL:Unix User\bob:ALLOWED/0x0/READ'
    shows 'ACL:Unix User\bob:ALLOWED/0x0/READ' lists/one
    quietly lists/one -D 'ACL:bob:ALLOWED/0x0/READ'
    shows_not bob lists/one
    quietly lists/one -a 'ACL:BUILTIN\Administrators:ALLOWED/0x0/FULL'
    shows 'ACL:BUILTIN\Administrators:ALLOWED/0x0/FULL' lists/one
    # A file is not given away, but taken by its owner again.
    cacls lists/one -C bob | has NT_STATUS_INVALID_OWNER || fail "a file was given away"
    [ -z "$(cacls lists/one -C alice; cacls lists/one -G 'Unix Group\alice')" ] ||
        fail "the owner may not have what is theirs"
    ok "smbcacls: entries by name are set, added, changed and deleted; no file is given away"
}

lists_by_number() {
    local bob
    bob=S-1-22-1-$(id -u bob)
    quietly lists/two --numeric -a "ACL:$bob:1/0x0/0x00000002"
    shows "ACL:$bob:1/0x0/0x00000002" lists/two --numeric
    # An account of a machine that nobody knows here.
    quietly lists/two --numeric -a 'ACL:S-1-5-21-1-2-3-1000:0/0x0/0x001200a9'
    shows 'ACL:S-1-5-21-1-2-3-1000:ALLOWED/0x0/READ' lists/two
    quietly lists/two -I remove
    cacls lists/two | has '^CONTROL:.*PD' || fail "not protected"
    shows_not 'ALLOWED/I/' lists/two
    ok "smbcacls: entries by number, strangers' too; a list is cut off from its directory's"
}

# What is shown of one file is set on another, which then shows the same.
lists_there_and_back() {
    local way
    echo some > "$share/lists/copy"
    chown alice:alice "$share/lists/copy"
    quietly lists/one -a 'ACL:bob:DENIED/0x0/W,ACL:S-1-5-21-1-2-3-1001:ALLOWED/0x0/0x00120116'
    quietly lists/copy -S 'ACL:alice:ALLOWED/0x0/FULL'
    for way in --numeric ''; do
        # shellcheck disable=SC2086
        quietly lists/copy $way -S "$(lists lists/one $way | paste -sd,)"
        # shellcheck disable=SC2086
        diff <(lists lists/one $way) <(lists lists/copy $way) || fail "a list did not come back"
        quietly lists/copy -S 'ACL:alice:ALLOWED/0x0/FULL'
    done
    ok "smbcacls: lists by number and by name come back as they were set"
}

# What local processes see of a list, and what they do to it.
lists_against_modes() {
    # Its way there is not open to other users.
    chmod 755 "$work"
    quietly lists/one -S 'ACL:bob:DENIED/0x0/W,ACL:alice:ALLOWED/0x0/FULL,ACL:bob:ALLOWED/0x0/CHANGE'
    [ "$(stat -c %a "$share/lists/one")" = 640 ] || fail "the mode does not follow: $(stat -c %a "$share/lists/one")"
    su -s /bin/sh bob -c "cat '$share/lists/one'" > /dev/null || fail "bob cannot read locally"
    if su -s /bin/sh bob -c "echo x >> '$share/lists/one'" 2> /dev/null; then fail "bob can write locally"; fi
    # Bob may read then as everyone may: nothing has to be denied him to show it.
    chmod 644 "$share/lists/one"
    shows_not 'bob:DENIED' lists/one
    shows 'ACL:Everyone:ALLOWED/0x0/READ' lists/one
    ok "smbcacls: mode and local access follow a list, and chmod ends it"
}

lists_of_trees() {
    cacls lists --propagate-inheritance -a 'ACL:bob:ALLOWED/OI|CI/CHANGE' > "$work/out"
    shows 'ACL:Unix User\bob:ALLOWED/OI|CI/CHANGE' lists
    shows 'ACL:Unix User\bob:ALLOWED/OI|CI|I/CHANGE' lists/sub
    shows 'ACL:Unix User\bob:ALLOWED/I/CHANGE' lists/one
    shows 'ACL:Unix User\bob:ALLOWED/I/CHANGE' lists/sub/three
    smbclient "//$lists_address/data" -U 'bob%secret.0' -c 'cd lists\sub; put /etc/passwd four; rename three five' > "$work/out" 2>&1
    refused_are 0 "$work/out"
    [ "$(stat -c %U "$share/lists/sub/four")" = bob ] || fail "what bob made is not bob's"
    # Nothing of alice's is handed down to what bob makes, who may delete it himself.
    cacls lists/sub/four | has NT_STATUS_ACCESS_DENIED || fail "alice sees what is not hers"
    smbclient "//$lists_address/data" -U 'bob%secret.0' -c 'del lists\sub\four' > "$work/out" 2>&1
    refused_are 0 "$work/out"
    cacls lists --propagate-inheritance -D 'ACL:bob:ALLOWED/OI|CI/CHANGE' > "$work/out"
    shows_not bob lists/sub/five
    ok "smbcacls: entries reach a whole tree, are used there, and are taken back"
}

names_of_identifiers() {
    local uid
    uid=$(id -u alice)
    remote "lookupsids S-1-22-1-$uid S-1-22-2-0 S-1-1-0 S-1-5-32-544 S-1-5-21-1-2-3-4" > "$work/out"
    grep -qF "S-1-22-1-$uid Unix User\\alice (1)" "$work/out" || { cat "$work/out" >&2; fail "alice has no name"; }
    grep -qF 'S-1-22-2-0 Unix Group\root (4)' "$work/out" || fail "a group has no name"
    grep -qF 'S-1-5-32-544 BUILTIN\Administrators (4)' "$work/out" || fail "Administrators have no name"
    grep -qF 'S-1-5-21-1-2-3-4 *unknown*\*unknown* (8)' "$work/out" || fail "a stranger has a name"
    remote "lookupnames alice Everyone nobody-at-all" > "$work/out"
    grep -qF "alice S-1-22-1-$uid (User: 1)" "$work/out" || fail "alice is not found"
    grep -qF 'nobody-at-all S-0-0 (UNKNOWN: 8)' "$work/out" || fail "a stranger is found"
    remote "lookupnames4 alice" | has -F "alice S-1-22-1-$uid" || fail "alice is not found without a policy"
    remote "lookupsids3 S-1-5-18" | has -F 'S-1-5-18 SYSTEM' || fail "SYSTEM is not found without a policy"
    remote getusername | has -F 'Account Name: alice' || fail "alice is not told who she is"
    remote lsaquery | has 'Domain Name: ' || fail "the policy does not tell the workgroup"
    ok "rpcclient: names of identifiers, identifiers of names, the policy"
}

# eas FILE: its extended attributes, as smbclient shows them, without blanks.
eas() { clients_on_lists "geteas lists\\$1" | tr -d ' '; }
clients_on_lists() { timeout 60 smbclient "//$lists_address/data" -U 'alice%secret.0' -c "$1" 2>&1 || true; }

extended_attributes() {
    eas two | has NT_STATUS_NO_EAS_ON_FILE || [ -z "$(eas two | grep '=')" ] || fail "attributes of a new file"
    clients_on_lists 'setea lists\two first value; setea lists\two second other' > "$work/out"
    refused_are 0 "$work/out"
    eas two > "$work/out"
    has '^first(0)=' < "$work/out" && has '^second(0)=' < "$work/out" || { cat "$work/out" >&2; fail "not both are shown"; }
    xattr get "$share/lists/two" user.first | cmp - <(printf value)
    printf local > "$work/value"
    xattr set "$share/lists/two" user.third < "$work/value"
    # One name, whatever its case; and an empty value takes it away.
    clients_on_lists 'setea lists\two FIRST changed; setea lists\two second' > "$work/out"
    refused_are 0 "$work/out"
    eas two > "$work/out"
    has '^third(0)=' < "$work/out" || fail "what a local process set is not shown"
    if has '^second(0)=' < "$work/out"; then fail "what was removed is still shown"; fi
    xattr get "$share/lists/two" user.first | cmp - <(printf changed)
    clients_on_lists 'setea lists\two bad:name value' | has STATUS_INVALID_EA_NAME || fail "a bad name was taken"
    ok "smbclient: extended attributes are set, shown, changed in any case and removed"
}
