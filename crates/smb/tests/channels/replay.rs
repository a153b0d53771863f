//! CREATEs that are sent again because their channel was lost on the way.

use crate::harness::{Named, Net};
use wire::ntstatus::NtStatus;

const FIRST: Named = Named { guid: [9; 16], replays: false };
const AGAIN: Named = Named { guid: [9; 16], replays: true };

/// What CREATE did: it made the file. MS-SMB2 2.2.14.
const CREATED: u32 = 2;

#[test]
fn a_file_made_as_the_channel_dies_is_opened_by_the_replay() {
    let (net, slow) = Net::slow();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    slow.hands.hold();
    let id = first.send_create_new("f", FIRST);
    assert!(first.reply_to(id).is_none(), "a worker is at it");
    slow.hands.work();
    // The file is there, and nobody was told.
    first.cut();
    let id = second.send_create_new("f", AGAIN);
    assert!(second.reply_to(id).is_none(), "the first is at work");
    assert_eq!(slow.carried.go_on(), 0);
    let reply = second.reply_to(id).expect("the first has ended");
    assert_eq!((reply.header.status, reply.action()), (NtStatus::SUCCESS, CREATED));
    slow.hands.release();
    assert_eq!(second.close(reply.file()), NtStatus::SUCCESS);
    second.cut();
    net.assert_empty();
}

#[test]
fn a_file_made_as_the_session_dies_is_opened_by_the_replay_of_the_next() {
    let (net, slow) = Net::slow();
    let mut first = net.ready();
    slow.hands.hold();
    let id = first.send_create_new("f", FIRST);
    assert!(first.reply_to(id).is_none(), "a worker is at it");
    first.cut();
    slow.hands.work();
    assert_eq!(slow.carried.go_on(), 0);
    assert_eq!(net.server.durable.len(), 1, "it waits for its client");
    slow.hands.release();
    let mut next = net.ready();
    let id = next.send_create_new("f", AGAIN);
    let reply = next.reply_to(id).expect("a reply");
    assert_eq!((reply.header.status, reply.action()), (NtStatus::SUCCESS, CREATED));
    assert_eq!(next.close(reply.file()), NtStatus::SUCCESS);
    next.cut();
    net.assert_empty();
}

#[test]
fn a_create_that_fails_as_its_channel_dies_leaves_its_name_free() {
    let (net, slow) = Net::slow();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    second.create("f", 0);
    slow.hands.hold();
    let id = first.send_create_new("f", FIRST);
    assert!(first.reply_to(id).is_none(), "a worker is at it");
    first.cut();
    let id = second.send_create_new("f", AGAIN);
    assert!(second.reply_to(id).is_none(), "the first is at work");
    slow.hands.work();
    assert_eq!(slow.carried.go_on(), 0);
    slow.hands.release();
    let reply = second.reply_to(id).expect("a reply");
    assert_eq!(reply.header.status, NtStatus::OBJECT_NAME_COLLISION);
    second.cut();
    net.assert_empty();
}

#[test]
fn a_replay_sooner_than_the_end_of_its_connection_is_heard_of_gets_its_open() {
    let net = Net::new();
    let mut first = net.ready();
    let id = first.send_create_new("f", FIRST);
    let file = first.reply_to(id).expect("a reply").file();
    let mut next = net.ready();
    let id = next.send_create_new("f", FIRST);
    let status = next.reply_to(id).map(|reply| reply.header.status);
    assert_eq!(status, Some(NtStatus::DUPLICATE_OBJECTID), "not said to be a replay");
    let id = next.send_create_new("f", AGAIN);
    assert!(next.reply_to(id).is_none(), "it waits");
    first.cut();
    let reply = next.reply_to(id).expect("the first has ended");
    assert_eq!((reply.header.status, reply.action()), (NtStatus::SUCCESS, CREATED));
    assert_eq!(reply.file().persistent, file.persistent);
    assert_eq!(next.close(reply.file()), NtStatus::SUCCESS);
    next.cut();
    net.assert_empty();
}

#[test]
fn a_replay_of_what_another_session_keeps_open_is_refused_in_a_while() {
    let net = Net::new();
    let mut first = net.ready();
    let id = first.send_create_new("f", FIRST);
    let file = first.reply_to(id).expect("a reply").file();
    let mut next = net.ready();
    let id = next.send_create_new("f", AGAIN);
    assert!(next.reply_to(id).is_none(), "it waits");
    net.tick(1);
    let status = next.reply_to(id).map(|reply| reply.header.status);
    assert_eq!(status, Some(NtStatus::DUPLICATE_OBJECTID));
    assert_eq!(first.close(file), NtStatus::SUCCESS);
    first.cut();
    next.cut();
    net.assert_empty();
}
