//! Durable opens outlive their connection, and only their client reconnects to them.

use crate::support::client::{
    ACCESS_DENIED, CLOSE, CREATE, CreateRequestParts, DUPLICATE_OBJECTID, FILE_CLOSED,
    FILE_NOT_AVAILABLE, INVALID_PARAMETER, IOCTL, LOCK, LOCK_NOT_GRANTED, OBJECT_NAME_NOT_FOUND,
    PENDING, READ, RawFileId, RawReply, RawSmbClient, SUCCESS, WRITE,
};
use crate::support::{PASSWORD, ServerProcess, Setup, wait_for};
use std::time::Duration;
use wire::smb::{APP_INSTANCE_ID, put_context};

const SHARING_VIOLATION: u32 = 0xC000_0043;
const CLIENT: [u8; 16] = *b"a client's guid.";
const GUID: [u8; 16] = *b"a create's guid.";
/// A timeout in milliseconds that no test reaches.
const LONG: u32 = 60_000;

fn open(client: &mut RawSmbClient, name: &str, timeout_ms: u32) -> RawReply {
    let reply = client.call(CREATE, &RawSmbClient::durable_body(name, GUID, timeout_ms, false));
    assert_eq!(reply.status, SUCCESS);
    reply
}

fn back(client: &mut RawSmbClient, file: RawFileId) -> u32 {
    client.call(CREATE, &RawSmbClient::reconnect_body(file, GUID, false)).status
}

/// Whether the only connection of its client is known to be lost.
fn lost(server: &ServerProcess) {
    wait_for("the end of the session", || {
        (server.status()["sessions"].as_array().unwrap().is_empty()).then_some(())
    });
}

/// A user that every system has.
const OTHER: &str = "daemon";

fn two_users() -> Setup {
    Setup::new().argument("--user").argument(&format!("{OTHER}:{PASSWORD}"))
}

#[test]
fn durable_open_reconnects_with_its_locks() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let opened = open(&mut client, "file", LONG);
    assert_eq!(opened.context(b"DH2Q"), Some(&[0x60, 0xEA, 0, 0, 0, 0, 0, 0][..]));
    let file = opened.file_id();
    assert_eq!(client.call(WRITE, &RawSmbClient::write_body(file, 0, b"kept")).status, SUCCESS);
    assert_eq!(client.call(LOCK, &RawSmbClient::lock_body(file, false)).status, SUCCESS);
    drop(client);
    lost(&server);

    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    for (id, guid, status) in [
        (file, [0; 16], OBJECT_NAME_NOT_FOUND),
        (file, CLIENT, OBJECT_NAME_NOT_FOUND),
        ([9; 16], GUID, OBJECT_NAME_NOT_FOUND),
    ] {
        let body = RawSmbClient::reconnect_body(id, guid, false);
        assert_eq!(client.call(CREATE, &body).status, status);
    }
    let again = client.call(CREATE, &RawSmbClient::reconnect_body(file, GUID, false));
    assert_eq!((again.status, again.persistent_id()), (SUCCESS, opened.persistent_id()));
    let file = again.file_id();
    assert_eq!(client.call(READ, &RawSmbClient::read_body(file, 0, 4)).data(), b"kept");
    assert_eq!(back(&mut client, file), OBJECT_NAME_NOT_FOUND, "it is in use");
    assert_eq!(client.call(LOCK, &RawSmbClient::lock_body(file, false)).status, LOCK_NOT_GRANTED);
}

#[test]
fn durable_reconnect_by_another_user_is_denied() {
    let server = two_users().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = open(&mut client, "file", LONG).file_id();
    drop(client);
    lost(&server);
    let mut other = RawSmbClient::connect_3(&server, CLIENT).set_up_as(OTHER);
    assert_eq!(back(&mut other, file), ACCESS_DENIED);
    // The open has a CreateGuid, too.
    other.replays = true;
    let body = RawSmbClient::durable_body("file", GUID, LONG, false);
    assert_eq!(other.call(CREATE, &body).status, ACCESS_DENIED);
    other.replays = false;
    // Version 1 has no CreateGuid.
    let body = RawSmbClient::create_body_with("", &[(b"DHnC", file.to_vec())]);
    assert_eq!(other.call(CREATE, &body).status, ACCESS_DENIED);
    assert_eq!(back(&mut RawSmbClient::ready_3(&server, CLIENT), file), SUCCESS);
}

#[test]
fn durable_open_expires_after_its_requested_timeout() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = open(&mut client, "file", 100).file_id();
    drop(client);
    lost(&server);
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    wait_for("the end of its time", || (server.metric("anabranch_open_files") == 0).then_some(()));
    assert_eq!(back(&mut client, file), OBJECT_NAME_NOT_FOUND);
}

#[test]
fn replayed_create_gets_same_open_until_it_is_closed() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = open(&mut client, "file", LONG).file_id();
    let body = RawSmbClient::durable_body("file", GUID, LONG, false);
    assert_eq!(client.call(CREATE, &body).status, DUPLICATE_OBJECTID);
    client.replays = true;
    for _ in 0..2 {
        let again = client.call(CREATE, &body);
        assert_eq!((again.status, again.file_id(), again.action()), (SUCCESS, file, 2));
    }
    let mut other = RawSmbClient::ready_3(&server, CLIENT);
    other.replays = true;
    assert_eq!(other.call(CREATE, &body).status, DUPLICATE_OBJECTID, "another session");
    client.replays = false;
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(file)).status, SUCCESS);
    client.replays = true;
    let again = client.call(CREATE, &body);
    assert_eq!((again.status, again.action()), (SUCCESS, 1), "another open");
}

#[test]
fn replayed_create_after_connection_loss_resumes_its_open() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let opened = open(&mut client, "file", LONG);
    drop(client);
    lost(&server);
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let body = RawSmbClient::durable_body("file", GUID, LONG, false);
    assert_eq!(client.call(CREATE, &body).status, DUPLICATE_OBJECTID);
    client.replays = true;
    let again = client.call(CREATE, &body);
    assert_eq!((again.status, again.action()), (SUCCESS, 2));
    assert_eq!(again.persistent_id(), opened.persistent_id());
    assert_eq!(again.context(b"DH2Q"), opened.context(b"DH2Q"));
}

#[test]
fn replay_of_pending_create_is_not_available() {
    let server = Setup::new().start();
    let mut holder = RawSmbClient::ready_3(&server, [1; 16]);
    let held = open(&mut holder, "file", LONG).file_id();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let body = RawSmbClient::durable_body("file", GUID, LONG, false);
    assert_eq!(client.call(CREATE, &body).status, PENDING);
    client.replays = true;
    assert_eq!(client.call(CREATE, &body).status, FILE_NOT_AVAILABLE);
    holder.send(CLOSE, &RawSmbClient::close_body(held));
    let first = client.receive().unwrap();
    assert_eq!(first.status, SUCCESS);
    let again = client.call(CREATE, &body);
    assert_eq!((again.status, again.file_id()), (SUCCESS, first.file_id()));
}

#[test]
fn write_with_outdated_channel_sequence_is_refused() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = open(&mut client, "file", LONG).file_id();
    let write = |text| RawSmbClient::write_body(file, 0, text);
    client.channel_sequence = 1;
    assert_eq!(client.call(WRITE, &write(b"new!")).status, SUCCESS);
    client.channel_sequence = 0;
    assert_eq!(client.call(WRITE, &write(b"old!")).status, FILE_NOT_AVAILABLE);
    assert_eq!(client.call(READ, &RawSmbClient::read_body(file, 0, 4)).data(), b"new!");
}

#[test]
fn resilient_open_survives_disconnect_without_oplock() {
    let server = Setup::new().start();
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let file = client.create("file");
    assert_eq!(client.call(LOCK, &RawSmbClient::lock_body(file, false)).status, SUCCESS);
    let too_long = client.call(IOCTL, &RawSmbClient::resiliency_body(file, 300_001));
    assert_eq!(too_long.status, INVALID_PARAMETER);
    assert_eq!(client.call(IOCTL, &RawSmbClient::resiliency_body(file, LONG)).status, SUCCESS);
    let bare = client.create("bare");
    drop(client);
    lost(&server);
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    let other = client.create("file");
    assert_eq!(client.call(LOCK, &RawSmbClient::lock_body(other, false)).status, LOCK_NOT_GRANTED);
    let v1 = |file: RawFileId| RawSmbClient::create_body_with("", &[(b"DHnC", file.to_vec())]);
    assert_eq!(client.call(CREATE, &v1(bare)).status, OBJECT_NAME_NOT_FOUND);
    let again = client.call(CREATE, &v1(file));
    assert_eq!(again.status, SUCCESS);
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body(again.file_id())).status, SUCCESS);
    assert_eq!(client.call(LOCK, &RawSmbClient::lock_body(other, false)).status, SUCCESS);
}

#[test]
fn concurrent_durable_reconnects_have_at_most_one_winner() {
    const ROUNDS: usize = 4;
    let server = Setup::new().start();
    for round in 0..ROUNDS {
        let mut client = RawSmbClient::ready_3(&server, CLIENT);
        let file = open(&mut client, "file", 1).file_id();
        let racers: Vec<_> = (0..2).map(|_| RawSmbClient::ready_3(&server, CLIENT)).collect();
        drop(client);
        // Both reconnect while the open becomes durable with a timeout that expires at once.
        let threads: Vec<_> = racers
            .into_iter()
            .map(|mut racer| {
                std::thread::spawn(move || {
                    let end = std::time::Instant::now() + Duration::from_millis(100);
                    let mut got = false;
                    while !got && std::time::Instant::now() < end {
                        got = back(&mut racer, file) == SUCCESS;
                    }
                    (racer, got)
                })
            })
            .collect();
        let done: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(done.iter().filter(|(_, got)| *got).count() <= 1, "round {round}");
        drop(done);
        lost(&server);
        wait_for("the end of its time", || {
            (server.metric("anabranch_open_files") == 0).then_some(())
        });
    }
    let mut client = RawSmbClient::ready_3(&server, CLIENT);
    assert_eq!(back(&mut client, [0; 16]), OBJECT_NAME_NOT_FOUND);
    assert_eq!(client.call(CLOSE, &RawSmbClient::close_body([9; 16])).status, FILE_CLOSED);
}

/// A CREATE that shares nothing, of this application.
fn of_application(id: u8) -> Vec<u8> {
    let mut contexts = Vec::new();
    put_context(&mut contexts, &APP_INSTANCE_ID, &[&[20, 0, 0, 0][..], &[id; 16]].concat());
    let wish = CreateRequestParts {
        access: 0x0012_019F,
        share: 0,
        disposition: 3,
        options: 0x40,
        name: "disk",
        contexts: &contexts,
    };
    RawSmbClient::create_with(&wish)
}

#[test]
fn app_instance_id_closes_open_of_the_other_machine() {
    let server = Setup::new().start();
    let mut first = RawSmbClient::ready_3(&server, [1; 16]);
    let reply = first.call(CREATE, &of_application(7));
    assert_eq!(reply.status, SUCCESS);
    assert_eq!(
        first.call(CREATE, &of_application(7)).status,
        SHARING_VIOLATION,
        "the same machine"
    );
    let mut second = RawSmbClient::ready_3(&server, [2; 16]);
    assert_eq!(second.call(CREATE, &of_application(8)).status, SHARING_VIOLATION, "another one");
    let taken = second.call(CREATE, &of_application(7));
    assert_eq!(taken.status, SUCCESS);
    assert_eq!(first.call(CLOSE, &RawSmbClient::close_body(reply.file_id())).status, FILE_CLOSED);
    assert_eq!(second.call(CLOSE, &RawSmbClient::close_body(taken.file_id())).status, SUCCESS);
}
