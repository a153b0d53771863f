//! Edge cases that Windows refuses or accepts, from its protocol test suites.

use crate::harness::{
    ALICE, BOB, ConnectedClient, Net, ParsedResponse, app_instance, lease_contexts,
};
use files::VolumeOptions;
use smb::{Dialect, SmbCloseReason};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{FsError, Snapshots, Timestamp, Vfs};
use wire::crypto::SigningAlgorithm;
use wire::fscc;
use wire::ntstatus::NtStatus;
use wire::smb::fsctl::{SRV_ENUMERATE_SNAPSHOTS, ValidateNegotiate};
use wire::smb::{Command, CreateRequest, FileId, Header, TreeConnectRequest, put_context};

const SUCCESS: NtStatus = NtStatus::SUCCESS;

/// A client of SMB 3.1.1 that signs by AES-CMAC.
fn newest(net: &Net) -> ConnectedClient {
    net.connect_311(0, &[SigningAlgorithm::AesCmac])
}

/// The client's parameters of its NEGOTIATE.
fn remembered(dialect: Dialect) -> ValidateNegotiate {
    ValidateNegotiate {
        capabilities: 0,
        guid: [3; 16],
        security_mode: 1,
        dialects: vec![dialect.number()],
    }
}

/// The result of VALIDATE_NEGOTIATE_INFO: a status, or a disconnect.
fn validated(
    dialect: Dialect,
    room: u32,
    change: impl FnOnce(&mut ValidateNegotiate),
) -> Result<NtStatus, SmbCloseReason> {
    let net = Net::new();
    let mut client =
        if dialect == Dialect::Smb311 { newest(&net) } else { net.connect_of(3, dialect) };
    assert_eq!(client.log_on(ALICE), SUCCESS);
    assert_eq!(client.connect_tree("IPC$"), SUCCESS);
    let mut said = remembered(dialect);
    change(&mut said);
    let id = client.validate(&said, room)?;
    Ok(client.reply_to(id).unwrap().header.status)
}

#[test]
fn validation_that_differs_from_negotiate_ends_the_connection() {
    for dialect in [Dialect::Smb202, Dialect::Smb210, Dialect::Smb300, Dialect::Smb302] {
        assert_eq!(validated(dialect, 24, |_| {}), Ok(SUCCESS), "{dialect:?}");
        let changes: [fn(&mut ValidateNegotiate); 7] = [
            |said| said.guid = [4; 16],
            |said| said.security_mode = 0,
            |said| said.capabilities = 1,
            |said| said.dialects = vec![0x02FF],
            |said| said.dialects = vec![],
            |said| said.dialects.push(0x0311),
            |said| said.dialects.insert(0, 0x0100),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let ended = validated(dialect, 24, change);
            assert!(
                matches!(ended, Err(SmbCloseReason::Refused(_))),
                "{dialect:?}, change {at}: {ended:?}"
            );
        }
    }
}

/// MS-SMB2 3.3.5.15.12: a server without 3.1.1 compares the greatest common dialect only.
#[test]
fn validation_below_3_1_1_compares_the_common_dialect() {
    for (dialects, is_same) in [
        (&[0x0302][..], true),
        (&[0x0202, 0x0210, 0x0302], true),
        (&[0x0302, 0x0311], true),
        (&[0x0210], false),
        (&[], false),
    ] {
        let net = Net::new();
        net.reload(|config, _| config.dialect_max = Dialect::Smb302);
        let mut client = net.connect_of(3, Dialect::Smb302);
        assert_eq!(client.log_on(ALICE), SUCCESS);
        assert_eq!(client.connect_tree("IPC$"), SUCCESS);
        // A later reload does not matter.
        net.reload(|_, _| {});
        let said = ValidateNegotiate { dialects: dialects.into(), ..remembered(Dialect::Smb302) };
        let ended = client.validate(&said, 24);
        assert_eq!(ended.is_ok(), is_same, "{dialects:x?}: {ended:?}");
    }
}

#[test]
fn validation_with_a_small_buffer_or_on_3_1_1_disconnects() {
    for room in [0, 23] {
        let ended = validated(Dialect::Smb302, room, |_| {});
        assert!(matches!(ended, Err(SmbCloseReason::Refused(_))), "{room} bytes: {ended:?}");
    }
    let ended = validated(Dialect::Smb311, 24, |_| {});
    assert!(matches!(ended, Err(SmbCloseReason::Refused(_))), "{ended:?}");
}

#[test]
fn validation_refused_for_another_reason_is_answered() {
    let net = Net::new();
    let mut client = newest(&net);
    assert_eq!(client.log_on(ALICE), SUCCESS);
    let said = remembered(Dialect::Smb302);
    let id = client.validate(&said, 24).expect("no tree to ask on");
    assert_eq!(client.reply_to(id).unwrap().header.status, NtStatus::NETWORK_NAME_DELETED);
}

/// The result of an unsigned TREE_CONNECT.
fn unsigned_tree_connect(client: &mut ConnectedClient) -> Result<NtStatus, SmbCloseReason> {
    let path: Vec<u8> = r"\\SERVER\data".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let request = TreeConnectRequest { flags: 0, path: &path };
    let id = client.send_last(Command::TREE_CONNECT, false, |w| request.encode(w))?;
    Ok(client.reply_to(id).unwrap().header.status)
}

#[test]
fn unsigned_tree_connect_of_a_user_on_3_1_1_disconnects() {
    let net = Net::new();
    net.has_guest.store(true, Ordering::Relaxed);
    net.reload(|config, share| {
        (config.signing_required, share.admission.guests) = (false, true);
    });
    let mut client = newest(&net);
    assert_eq!(client.log_on(BOB), SUCCESS);
    assert_eq!(client.connect_tree("data"), SUCCESS, "signed");
    let ended = unsigned_tree_connect(&mut client);
    let Err(SmbCloseReason::Refused(why)) = ended else { panic!("{ended:?}") };
    assert!(why.contains("mount with the option sign"), "the log has the remedy: {why}");
    client.lose();
    for nobody in ["", "stranger"] {
        let mut client = newest(&net);
        assert_eq!(client.log_on(nobody), SUCCESS);
        assert_eq!(unsigned_tree_connect(&mut client), Ok(SUCCESS), "{nobody:?} has no key");
    }
    let mut older = net.connect();
    assert_eq!(older.log_on(ALICE), SUCCESS);
    assert_eq!(unsigned_tree_connect(&mut older), Ok(SUCCESS), "SMB 3.0.2");
}

#[test]
fn unsigned_tree_connect_is_denied_where_signing_is_required() {
    let net = Net::new();
    let mut client = newest(&net);
    assert_eq!(client.log_on(ALICE), SUCCESS);
    assert_eq!(unsigned_tree_connect(&mut client), Ok(NtStatus::ACCESS_DENIED));
}

#[test]
fn client_with_a_session_in_another_dialect_is_refused() {
    let net = Net::new();
    let log_on = |guid, dialect, user| {
        let mut client = net.connect_of(guid, dialect);
        (client.log_on(user), client)
    };
    let (status, first) = log_on(1, Dialect::Smb302, ALICE);
    assert_eq!(status, SUCCESS);
    assert_eq!(log_on(1, Dialect::Smb210, ALICE).0, NtStatus::USER_SESSION_DELETED);
    assert_eq!(log_on(1, Dialect::Smb302, ALICE).0, SUCCESS, "in the same one");
    assert_eq!(log_on(2, Dialect::Smb210, ALICE).0, SUCCESS, "another client");
    assert_eq!(log_on(1, Dialect::Smb210, BOB).0, SUCCESS, "another account claims the GUID");
    first.cut();
    assert_eq!(log_on(1, Dialect::Smb210, ALICE).0, SUCCESS, "the first is gone");
}

#[test]
fn session_refused_for_its_dialect_leaves_the_first() {
    let net = Net::new();
    let mut first = net.ready();
    let file = first.create("f", 9);
    let mut second = net.connect_of(3, Dialect::Smb210);
    assert_eq!(second.log_on(ALICE), NtStatus::USER_SESSION_DELETED);
    assert_eq!(net.channels(), [1]);
    assert_eq!(first.close(file), SUCCESS);
}

#[test]
fn previous_session_id_permits_another_dialect() {
    let net = Net::new();
    // Its connection is dead, which the server has not noticed.
    let mut dead = net.connect_of(1, Dialect::Smb302);
    assert_eq!(dead.log_on(ALICE), SUCCESS);
    let mut again = net.connect_of(1, Dialect::Smb210);
    assert_eq!(again.log_on_after(&dead, ALICE), SUCCESS);
    assert_eq!(dead.plain(Command::ECHO), NtStatus::USER_SESSION_DELETED, "it has ended");
    // Only the named session is exempt, and only if it is the client's own.
    let mut third = net.connect_of(1, Dialect::Smb302);
    assert_eq!(third.log_on_after(&dead, ALICE), NtStatus::USER_SESSION_DELETED);
    assert_eq!(again.plain(Command::ECHO), SUCCESS);
    let mut other = net.connect_of(1, Dialect::Smb302);
    assert_eq!(other.log_on_after(&again, BOB), SUCCESS);
    assert_eq!(again.plain(Command::ECHO), SUCCESS, "not by another account");
}

#[test]
fn session_from_before_a_dialect_reload_excludes_none() {
    let (newer, older) = (Dialect::Smb302, Dialect::Smb300);
    for (before, after) in [(older, newer), (newer, older), (older, older)] {
        let net = Net::new();
        net.reload(|config, _| config.dialect_max = before);
        let mut old = net.connect_of(1, before);
        assert_eq!(old.log_on(ALICE), SUCCESS);
        net.reload(|config, _| config.dialect_max = after);
        let mut new = net.connect_of(1, after);
        assert_eq!(new.log_on(ALICE), SUCCESS, "{before:?}, then {after:?}");
        let mut other = net.connect_of(1, Dialect::Smb210);
        let status = other.log_on(ALICE);
        assert_eq!(status, NtStatus::USER_SESSION_DELETED, "{before:?}, then {after:?}");
    }
}

/// All guests share one account, and any client can claim any GUID.
#[test]
fn guest_sessions_exclude_no_dialect() {
    for nobody in ["", "stranger"] {
        let net = Net::new();
        net.has_guest.store(true, Ordering::Relaxed);
        net.reload(|config, share| {
            (config.signing_required, share.admission.guests) = (false, true);
        });
        let mut first = net.connect_of(1, Dialect::Smb302);
        let mut second = net.connect_of(1, Dialect::Smb210);
        let both = (first.log_on(nobody), second.log_on(nobody));
        assert_eq!(both, (SUCCESS, SUCCESS), "{nobody:?}");
    }
}

#[test]
fn path_ending_in_dots_requires_a_directory() {
    let net = Net::new();
    let mut client = net.ready();
    let mut status = |name: &str, options, disposition| {
        let change = |request: &mut CreateRequest<'_>| {
            (request.options, request.disposition) = (options, disposition);
        };
        client.create_by(name, &[], change).header.status
    };
    let (open, create) = (fscc::FILE_OPEN, fscc::FILE_OPEN_IF);
    assert_eq!(status("d", fscc::FILE_DIRECTORY_FILE, create), SUCCESS);
    assert_eq!(status(r"d\f", 0, create), SUCCESS);
    let invalid = NtStatus::OBJECT_NAME_INVALID;
    for name in [r"d\f\", r"d\new\", r"d\f\.", r"d\new\.", r"d\f\x\..", r"d\new\x\.."] {
        assert_eq!(status(name, 0, create), invalid, "{name}");
    }
    assert_eq!(status(r"d\new", 0, open), NtStatus::OBJECT_NAME_NOT_FOUND, "none was created");
    for name in [r"d\", r"d\.", ".", r"d\f\..", r"d\x\y\..\.."] {
        assert_eq!(status(name, 0, open), SUCCESS, "{name}");
    }
    assert_eq!(status(r"d\.", fscc::FILE_NON_DIRECTORY_FILE, open), invalid);
}

#[test]
fn clients_without_a_guid_are_distinct() {
    let net = Net::new();
    let mut first = net.connect_of(0, Dialect::Smb202);
    let mut second = net.connect_of(0, Dialect::Smb210);
    assert_eq!((first.log_on(ALICE), second.log_on(ALICE)), (SUCCESS, SUCCESS));
}

#[test]
fn durable_contexts_exclude_each_other_on_every_dialect() {
    let lengths = |name: &[u8; 4]| match name {
        b"DH2Q" => 32,
        b"DH2C" => 36,
        _ => 16,
    };
    use Dialect::{Smb202, Smb210, Smb300, Smb302, Smb311};
    for dialect in [Smb202, Smb210, Smb300, Smb302, Smb311] {
        let net = Net::new();
        let mut client = if dialect == Smb311 { newest(&net) } else { net.connect_of(3, dialect) };
        assert_eq!(client.log_on(ALICE), SUCCESS);
        assert_eq!(client.connect_tree("data"), SUCCESS);
        for pair in [
            [b"DHnQ", b"DH2Q"],
            [b"DHnQ", b"DH2C"],
            [b"DHnC", b"DH2Q"],
            [b"DHnC", b"DH2C"],
            [b"DH2Q", b"DH2C"],
        ] {
            let mut contexts = Vec::new();
            for name in pair {
                put_context(&mut contexts, name, &vec![0; lengths(name)]);
            }
            let status = client.status_of_create("f", &contexts);
            assert_eq!(status, NtStatus::INVALID_PARAMETER, "{dialect:?}, {pair:?}");
        }
    }
}

/// Opens with these contexts. Returns the granted level, and whether the open is durable.
fn open_by(client: &mut ConnectedClient, name: &str, contexts: &[u8], by: (u32, u8)) -> (u8, bool) {
    let reply = client.create_by(name, contexts, |request| (request.options, request.oplock) = by);
    assert_eq!(reply.header.status, SUCCESS, "{name} {by:?}");
    let has = |name: &[u8; 4]| reply.bytes.windows(4).any(|part| part == name);
    assert_eq!(has(b"RqLs"), reply.granted_level() == 0xFF, "{name} {by:?}");
    assert_eq!(client.close(reply.file()), SUCCESS);
    (reply.granted_level(), has(b"DHnQ") || has(b"DH2Q"))
}

#[test]
fn directory_is_never_opened_durably() {
    let net = Net::new();
    let mut client = net.ready();
    open_by(&mut client, "d", &[], (1, 0));
    let mut version_1 = lease_contexts(None, 3);
    put_context(&mut version_1, b"DHnQ", &[0; 16]);
    for contexts in [version_1, lease_contexts(Some([5; 16]), 3)] {
        for level in [0xFF, 0] {
            for options in [0, fscc::FILE_DIRECTORY_FILE] {
                // A lease beside the level of no oplock counts for the durable request only.
                let directory = open_by(&mut client, "d", &contexts, (options, level));
                assert_eq!(directory, (level, false), "options {options}, level {level:#x}");
            }
            let file = open_by(&mut client, &format!("f{level}"), &contexts, (0, level));
            assert_eq!(file, (0xFF, true), "level {level:#x}");
        }
    }
}

#[test]
fn directory_create_with_an_ungranted_lease_is_replayed() {
    let net = Net::new();
    let mut client = net.ready();
    let contexts = lease_contexts(Some([5; 16]), 3);
    let options = fscc::FILE_DIRECTORY_FILE;
    let first = client.create_by("d", &contexts, |request| request.options = options);
    assert_eq!((first.header.status, first.granted_level()), (SUCCESS, 0));
    let again = client.replay_by("d", &contexts, |request| request.options = options);
    assert_eq!((again.header.status, again.granted_level()), (SUCCESS, 0));
    assert_eq!(again.file(), first.file());
    // A lease that was not requested before.
    let refused = client.replay_by("d", &contexts, |request| {
        (request.options, request.oplock) = (options, 0xFF);
    });
    assert_eq!(refused.header.status, NtStatus::ACCESS_DENIED);
}

#[test]
fn dot_directories_in_a_path_are_removed() {
    let net = Net::new();
    let mut client = net.ready();
    let directory = client.create_by("d", &[], |request| request.options = 1);
    assert_eq!(directory.header.status, SUCCESS);
    for (path, expected) in [
        (r"d\.\f", SUCCESS),
        (r".\d\f", SUCCESS),
        (r"d\f\.", NtStatus::OBJECT_NAME_INVALID),
        (r"d\e\..\f", SUCCESS),
        (r"d\..\d\f", NtStatus::INVALID_PARAMETER),
        (r"x\..\f", NtStatus::INVALID_PARAMETER),
        (r"..\f", NtStatus::OBJECT_PATH_SYNTAX_BAD),
        (r"d\e\..\..\..\f", NtStatus::OBJECT_PATH_SYNTAX_BAD),
    ] {
        assert_eq!(client.status_of_create(path, &[]), expected, "{path}");
    }
    // The earlier CREATEs created this one file.
    assert_eq!(client.status_of_create("f", &[]), SUCCESS);
    let names: Vec<&str> = ["d", r"d\f", "f"].into();
    for name in names {
        let opened = client.create_by(name, &[], |request| {
            request.disposition = wire::fscc::FILE_OPEN;
            request.options = 0;
        });
        assert_eq!(opened.header.status, SUCCESS, "{name}");
    }
    let missing = client.create_by("x", &[], |request| request.disposition = 1);
    assert_eq!(missing.header.status, NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn interfaces_are_listed_for_dialects_without_multichannel() {
    let net = Net::new();
    let first = net.ready();
    for dialect in [Dialect::Smb202, Dialect::Smb210] {
        let mut client = net.connect_of(5, dialect);
        let binding = client.bind(&first, ALICE);
        assert_eq!(binding, NtStatus::REQUEST_NOT_ACCEPTED, "{dialect:?}");
        let mut client = net.connect_of(dialect.number() as u8, dialect);
        assert_eq!(client.log_on(ALICE), SUCCESS);
        assert_eq!(client.connect_tree("IPC$"), SUCCESS);
        assert_eq!(client.query_interfaces().header.status, SUCCESS, "{dialect:?}");
    }
}

#[test]
fn acknowledgment_without_a_break_is_refused_by_its_level() {
    let (state, protocol) = (NtStatus::INVALID_DEVICE_STATE, NtStatus::INVALID_OPLOCK_PROTOCOL);
    for (held, expected) in [
        (0, [state, state, state, state]),
        (1, [state, protocol, protocol, protocol]),
        (8, [state, state, protocol, protocol]),
        (9, [state, state, protocol, protocol]),
    ] {
        let net = Net::new();
        let mut client = net.ready_as(ALICE);
        let file = client.create("f", held);
        let statuses = [0, 1, 8, 9].map(|level| client.acknowledge(file, level));
        assert_eq!(statuses, expected, "level {held}");
        assert_eq!(client.acknowledge(file, 0xFF), NtStatus::INVALID_PARAMETER, "level {held}");
    }
}

#[test]
fn acknowledgment_of_a_level_ii_break_is_refused_in_order() {
    for (level, refused) in
        [(0, NtStatus::INVALID_OPLOCK_PROTOCOL), (0xFF, NtStatus::INVALID_PARAMETER)]
    {
        let net = Net::new();
        let (mut first, mut second) = (net.ready_as(ALICE), net.ready_as(BOB));
        let file = first.create("f", 1);
        let other = second.create("f", 0);
        assert_eq!(second.lock(other), SUCCESS);
        assert_eq!(first.notice().expect("a notice").level(), 0);
        assert_eq!(first.acknowledge(file, level), refused, "level {level}");
        assert_eq!(first.acknowledge(file, 0), NtStatus::INVALID_DEVICE_STATE);
    }
}

#[test]
fn acknowledgment_with_half_a_file_id_finds_no_open() {
    let net = Net::new();
    let (mut first, mut second) = (net.ready_as(ALICE), net.ready_as(BOB));
    let file = first.create("f", 9);
    let waits = second.send_create("f", 0);
    assert!(second.reply_to(waits).is_none(), "it waits");
    let halves = [
        FileId { volatile: u64::MAX, ..file },
        FileId { volatile: 0, ..file },
        FileId { persistent: u64::MAX, ..file },
        FileId { persistent: 0, ..file },
    ];
    for half in halves {
        assert_eq!(first.acknowledge(half, 1), NtStatus::FILE_CLOSED, "{half:?}");
    }
    assert!(second.reply_to(waits).is_none(), "it waits still");
    assert_eq!(first.acknowledge(file, 1), SUCCESS);
    assert_eq!(second.reply_to(waits).expect("a reply").header.status, SUCCESS);
}

#[test]
fn wrong_level_in_an_acknowledgment_ends_the_break_at_none() {
    for (level, refused) in [
        (0xFF, NtStatus::INVALID_PARAMETER),
        (8, NtStatus::INVALID_OPLOCK_PROTOCOL),
        (9, NtStatus::INVALID_OPLOCK_PROTOCOL),
        (5, NtStatus::INVALID_OPLOCK_PROTOCOL),
    ] {
        let net = Net::new();
        let (mut first, mut second) = (net.ready_as(ALICE), net.ready_as(BOB));
        let file = first.create("f", 9);
        let waits = second.send_create("f", 0);
        assert!(second.reply_to(waits).is_none(), "it waits");
        assert_eq!(first.acknowledge(file, level), refused, "level {level}");
        assert_eq!(second.reply_to(waits).expect("the open completes").header.status, SUCCESS);
        assert_eq!(first.acknowledge(file, 0), NtStatus::INVALID_DEVICE_STATE);
    }
}

/// Opens `f` exclusively, for the application instance `id`.
fn open_for(client: &mut ConnectedClient, name: &str, id: u8) -> ParsedResponse {
    client.create_by(name, &app_instance(id), |request| request.share_access = 0)
}

fn client_of(net: &Net, guid: u8) -> ConnectedClient {
    let mut client = net.connect_of(guid, Dialect::Smb302);
    assert_eq!(client.log_on(ALICE), SUCCESS);
    assert_eq!(client.connect_tree("data"), SUCCESS);
    client
}

#[test]
fn app_instance_closes_opens_of_the_same_file_by_others_only() {
    let violation = NtStatus::SHARING_VIOLATION;
    for (guid, name, id, status, is_closed) in [
        (2, "f", 7, SUCCESS, true),
        (2, "f", 8, violation, false),
        (1, "f", 7, violation, false),
        (2, "g", 7, SUCCESS, false),
        (2, "f", 0, violation, false),
    ] {
        let net = Net::new();
        let (mut first, mut second) = (client_of(&net, 1), client_of(&net, guid));
        let file = open_for(&mut first, "f", 7).file();
        assert_eq!(open_for(&mut second, name, id).header.status, status, "{guid} {name} {id}");
        let closed = first.close(file);
        let expected = if is_closed { NtStatus::FILE_CLOSED } else { SUCCESS };
        assert_eq!(closed, expected, "{guid} {name} {id}");
    }
}

#[test]
fn app_instance_in_a_reconnect_closes_nothing() {
    const CREATE: [u8; 16] = *b"a create's guid.";
    for (guid, name) in [(3, "f"), (9, "f"), (3, "g"), (9, "g")] {
        let net = Net::new();
        let mut first = net.ready();
        let file = first.create_leased_for("f", CREATE, 7);
        first.cut();
        let mut second = client_of(&net, guid);
        let status = second.return_leased_for(file, CREATE, name, 7);
        let expected = match (guid, name) {
            (3, "f") => SUCCESS,
            (3, _) => NtStatus::INVALID_PARAMETER,
            // The lease belongs to another client.
            _ => NtStatus::OBJECT_NAME_NOT_FOUND,
        };
        assert_eq!(status, expected, "{guid} {name}");
        second.cut();
        let mut third = net.ready();
        let id = third.send_leased_return(file, CREATE, "f");
        let status = third.reply_to(id).map(|reply| reply.header.status);
        assert_eq!(status, Some(SUCCESS), "{guid} {name}: it is there");
    }
}

#[test]
fn lease_context_beside_a_durable_request_needs_no_oplock_level() {
    const CREATE: [u8; 16] = *b"a create's guid.";
    const NONE: u8 = 0;
    for (client_guid, id) in [(3, 7), (3, 8), (9, 7), (9, 8)] {
        let net = Net::new();
        let mut first = net.ready();
        let reply = first.create_leased_at(NONE, "f", CREATE, 7);
        assert_eq!((reply.header.status, reply.granted_level()), (SUCCESS, 0xFF));
        let file = reply.file();
        first.cut();
        let mut second = client_of(&net, client_guid);
        let status = second.return_leased_at(NONE, file, CREATE, "f", id);
        let is_own = client_guid == 3;
        let expected = if is_own { SUCCESS } else { NtStatus::OBJECT_NAME_NOT_FOUND };
        assert_eq!(status, expected, "{client_guid} {id}");
        second.cut();
        let mut third = net.ready();
        assert_eq!(
            third.return_leased_at(NONE, file, CREATE, "f", 7),
            SUCCESS,
            "{client_guid} {id}"
        );
    }
}

#[test]
fn lease_context_at_another_oplock_level_is_ignored() {
    const CREATE: [u8; 16] = *b"a create's guid.";
    // Oplock level, lease state, whether the open is to be durable.
    for (level, state, durable) in [(1, 7, true), (9, 7, true), (0, 5, true), (0, 7, false)] {
        let net = Net::new();
        let mut client = net.ready();
        let durable = durable.then_some(CREATE);
        let contexts = lease_contexts(durable, state);
        let reply = client.create_by("f", &contexts, |request| request.oplock = level);
        assert_eq!(
            (reply.header.status, reply.granted_level()),
            (SUCCESS, level),
            "{level} {state}"
        );
    }
}

#[derive(Debug)]
struct TwoSnapshots;

impl Snapshots for TwoSnapshots {
    fn list(&self) -> vfs::Result<Vec<Timestamp>> {
        Ok(vec![Timestamp(1_000_000_000), Timestamp(0)])
    }

    fn open(&self, _: Timestamp) -> vfs::Result<Arc<dyn Vfs>> {
        Err(FsError::NotFound)
    }
}

#[test]
fn snapshots_are_counted_for_a_newer_file() {
    let net = Net::new();
    net.reload(|_, share| {
        let volume = share.volume.as_ref().unwrap();
        let options =
            VolumeOptions { snapshots: Some(Arc::new(TwoSnapshots)), ..VolumeOptions::default() };
        share.volume = Some(Arc::new(volume.with_options(options)));
    });
    let mut client = net.ready();
    let file = client.create("newer than both", 0);
    for (room, returned) in [(16, 0), (113, 0), (114, 2)] {
        let reply = client.ioctl_with_room(SRV_ENUMERATE_SNAPSHOTS, file, room);
        assert_eq!(reply.header.status, SUCCESS);
        let counts = &reply.bytes[Header::LENGTH + 48..][..8];
        assert_eq!(counts, [2, 0, 0, 0, returned, 0, 0, 0], "{room} bytes of room");
    }
    let refused = client.ioctl_with_room(SRV_ENUMERATE_SNAPSHOTS, file, 15).header.status;
    assert_eq!(refused, NtStatus::INVALID_PARAMETER);
}
