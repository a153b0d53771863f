# Access control lists and account names by smbcacls and rpcclient. Both connect to port 445 only, so
# a second server listens there on its own address. Sourced by `clients`.
lists_address=127.0.${ANABRANCH_TEST_NET:-0}.72
lists_server=

# The exit status is ignored: the callers check the printed status.
cacls() { timeout 60 smbcacls "//$lists_address/data" "$1" -U 'alice%secret.0' "${@:2}" 2>&1 || true; }
# Unlike grep -q it reads all input, so that the writer gets no SIGPIPE.
has() { grep "$@" > /dev/null; }
# quietly FILE …: fails unless smbcacls prints nothing, as it does on success.
quietly() {
    local output
    output=$(cacls "$@")
    [ -z "$output" ] || fail "$*: $output"
}
# lists FILE [smbcacls's options]: prints the ACL entries.
lists() { cacls "$@" | grep '^ACL:'; }
# shows LINE FILE [smbcacls's options]: fails unless smbcacls prints this line.
shows() {
    cacls "${@:2}" | has -xF "$1" || {
        cacls "${@:2}" >&2
        fail "$2 does not show $1"
    }
}
# shows_not TEXT FILE: fails if smbcacls prints this text.
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
    # Its owner cannot give a file to another user, but can set itself as owner.
    cacls lists/one -C bob | has NT_STATUS_INVALID_OWNER || fail "a file was given away"
    [ -z "$(cacls lists/one -C alice; cacls lists/one -G 'Unix Group\alice')" ] ||
        fail "the owner cannot set itself as owner"
    ok "smbcacls: entries by name are set, added, changed and deleted; no file is given away"
}

lists_by_number() {
    local bob
    bob=S-1-22-1-$(id -u bob)
    quietly lists/two --numeric -a "ACL:$bob:1/0x0/0x00000002"
    shows "ACL:$bob:1/0x0/0x00000002" lists/two --numeric
    # The SID of an unknown machine account.
    quietly lists/two --numeric -a 'ACL:S-1-5-21-1-2-3-1000:0/0x0/0x001200a9'
    shows 'ACL:S-1-5-21-1-2-3-1000:ALLOWED/0x0/READ' lists/two
    quietly lists/two -I remove
    cacls lists/two | has '^CONTROL:.*PD' || fail "not protected"
    shows_not 'ALLOWED/I/' lists/two
    ok "smbcacls: entries by SID, also of unknown accounts; a protected list inherits nothing"
}

# A list that is printed for one file and set on another is printed the same there.
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
        diff <(lists lists/one $way) <(lists lists/copy $way) || fail "a copied list differs"
        quietly lists/copy -S 'ACL:alice:ALLOWED/0x0/FULL'
    done
    ok "smbcacls: lists by SID and by name are returned as they were set"
}

# The effect of a list on local processes, and of chmod on the list.
lists_against_modes() {
    # mktemp closes the parent directory to other users.
    chmod 755 "$work"
    quietly lists/one -S 'ACL:bob:DENIED/0x0/W,ACL:alice:ALLOWED/0x0/FULL,ACL:bob:ALLOWED/0x0/CHANGE'
    [ "$(stat -c %a "$share/lists/one")" = 640 ] || fail "the mode does not follow: $(stat -c %a "$share/lists/one")"
    su -s /bin/sh bob -c "cat '$share/lists/one'" > /dev/null || fail "bob cannot read locally"
    if su -s /bin/sh bob -c "echo x >> '$share/lists/one'" 2> /dev/null; then fail "bob can write locally"; fi
    # Now the mode grants bob what it grants everyone, so the list needs no deny entry.
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
    [ "$(stat -c %U "$share/lists/sub/four")" = bob ] || fail "bob does not own the file that he created"
    # The files that bob creates inherit no entry for alice, and bob can delete them.
    cacls lists/sub/four | has NT_STATUS_ACCESS_DENIED || fail "alice can read the list of a file that grants her nothing"
    smbclient "//$lists_address/data" -U 'bob%secret.0' -c 'del lists\sub\four' > "$work/out" 2>&1
    refused_are 0 "$work/out"
    cacls lists --propagate-inheritance -D 'ACL:bob:ALLOWED/OI|CI/CHANGE' > "$work/out"
    shows_not bob lists/sub/five
    ok "smbcacls: entries are propagated to a tree, are in force there, and are removed"
}

names_of_identifiers() {
    local uid
    uid=$(id -u alice)
    remote "lookupsids S-1-22-1-$uid S-1-22-2-0 S-1-1-0 S-1-5-32-544 S-1-5-21-1-2-3-4" > "$work/out"
    grep -qF "S-1-22-1-$uid Unix User\\alice (1)" "$work/out" || { cat "$work/out" >&2; fail "alice has no name"; }
    grep -qF 'S-1-22-2-0 Unix Group\root (4)' "$work/out" || fail "a group has no name"
    grep -qF 'S-1-5-32-544 BUILTIN\Administrators (4)' "$work/out" || fail "Administrators have no name"
    grep -qF 'S-1-5-21-1-2-3-4 *unknown*\*unknown* (8)' "$work/out" || fail "an unknown SID has a name"
    remote "lookupnames alice Everyone nobody-at-all" > "$work/out"
    grep -qF "alice S-1-22-1-$uid (User: 1)" "$work/out" || fail "alice is not found"
    grep -qF 'nobody-at-all S-0-0 (UNKNOWN: 8)' "$work/out" || fail "an unknown name has a SID"
    remote "lookupnames4 alice" | has -F "alice S-1-22-1-$uid" || fail "alice is not found without a policy"
    remote "lookupsids3 S-1-5-18" | has -F 'S-1-5-18 SYSTEM' || fail "SYSTEM is not found without a policy"
    remote getusername | has -F 'Account Name: alice' || fail "getusername does not return alice"
    remote lsaquery | has 'Domain Name: ' || fail "lsaquery does not return the workgroup"
    ok "rpcclient: names of SIDs, SIDs of names, the policy"
}

# eas FILE: its extended attributes, as smbclient shows them, without blanks.
eas() { clients_on_lists "geteas lists\\$1" | tr -d ' '; }
clients_on_lists() { timeout 60 smbclient "//$lists_address/data" -U 'alice%secret.0' -c "$1" 2>&1 || true; }

extended_attributes() {
    eas two | has NT_STATUS_NO_EAS_ON_FILE || [ -z "$(eas two | grep '=')" ] || fail "a new file has extended attributes"
    clients_on_lists 'setea lists\two first value; setea lists\two second other' > "$work/out"
    refused_are 0 "$work/out"
    eas two > "$work/out"
    has '^first(0)=' < "$work/out" && has '^second(0)=' < "$work/out" || { cat "$work/out" >&2; fail "an extended attribute is missing"; }
    xattr get "$share/lists/two" user.first | cmp - <(printf value)
    printf local > "$work/value"
    xattr set "$share/lists/two" user.third < "$work/value"
    # Names are case-insensitive, and an empty value removes the attribute.
    clients_on_lists 'setea lists\two FIRST changed; setea lists\two second' > "$work/out"
    refused_are 0 "$work/out"
    eas two > "$work/out"
    has '^third(0)=' < "$work/out" || fail "an attribute that a local process set is not shown"
    if has '^second(0)=' < "$work/out"; then fail "a removed attribute is still shown"; fi
    xattr get "$share/lists/two" user.first | cmp - <(printf changed)
    clients_on_lists 'setea lists\two bad:name value' | has STATUS_INVALID_EA_NAME || fail "an invalid name was accepted"
    ok "smbclient: extended attributes are set, shown, changed in any case and removed"
}
