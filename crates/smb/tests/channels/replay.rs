//! CREATEs that are replayed because their channel was lost meanwhile.

use crate::harness::{Net, ReplayableCreate};
use wire::ntstatus::NtStatus;

const FIRST: ReplayableCreate = ReplayableCreate { guid: [9; 16], replays: false };
const AGAIN: ReplayableCreate = ReplayableCreate { guid: [9; 16], replays: true };

/// CreateAction FILE_CREATED. MS-SMB2 2.2.14.
const CREATED: u32 = 2;

#[test]
fn replay_opens_a_file_created_as_the_channel_was_lost() {
    let (net, slow) = Net::slow();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    slow.hands.hold();
    let id = first.send_create_new("f", FIRST);
    assert!(first.reply_to(id).is_none(), "a worker is at it");
    slow.hands.work();
    // The file exists, and no client got the response.
    first.cut();
    let id = second.send_create_new("f", AGAIN);
    assert!(second.reply_to(id).is_none(), "the first is at work");
    assert_eq!(slow.carried.run_detached(), 0);
    let reply = second.reply_to(id).expect("the first has ended");
    assert_eq!((reply.header.status, reply.action()), (NtStatus::SUCCESS, CREATED));
    slow.hands.release();
    assert_eq!(second.close(reply.file()), NtStatus::SUCCESS);
    second.cut();
    net.assert_empty();
}

#[test]
fn next_session_replays_a_create_of_a_lost_session() {
    let (net, slow) = Net::slow();
    let mut first = net.ready();
    slow.hands.hold();
    let id = first.send_create_new("f", FIRST);
    assert!(first.reply_to(id).is_none(), "a worker is at it");
    first.cut();
    slow.hands.work();
    assert_eq!(slow.carried.run_detached(), 0);
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
fn failed_create_on_a_lost_channel_frees_its_guid() {
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
    assert_eq!(slow.carried.run_detached(), 0);
    slow.hands.release();
    let reply = second.reply_to(id).expect("a reply");
    assert_eq!(reply.header.status, NtStatus::OBJECT_NAME_COLLISION);
    second.cut();
    net.assert_empty();
}

#[test]
fn replay_before_the_disconnect_is_noticed_gets_its_open() {
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
fn replay_of_an_open_of_another_session_is_refused() {
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
