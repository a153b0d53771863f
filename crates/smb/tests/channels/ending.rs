//! Effects of the end of a channel, tree, open or request on the other channels. MS-SMB2 3.3.5.6,
//! 3.3.5.16, 3.3.7.1.

use crate::harness::{ALICE, BOB, Net};
use std::sync::Arc;
use wire::ntstatus::NtStatus;
use wire::smb::{Command, Flags, WriteRequest};

const BATCH: u8 = 9;
const LEVEL_II: u8 = 1;

/// Lease states. MS-SMB2 2.2.13.2.8.
const READ: u32 = 1;
const HANDLE: u32 = 2;
const WRITE: u32 = 4;

#[test]
fn logoff_on_one_channel_ends_the_session_on_all() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let mut other = net.ready();
    let (mine, theirs) = (first.create("f", 0), other.create("f", 0));
    assert_eq!(other.lock(theirs), NtStatus::SUCCESS);
    // The other channel waits for a lock.
    let waiting = second.send_lock(mine);
    second.waits(waiting);
    assert_eq!(first.plain(Command::LOGOFF), NtStatus::SUCCESS);
    let answer = second.reply_to(waiting).expect("an answer").header.status;
    assert!(answer.is_error(), "{answer:?}");
    for client in [&mut first, &mut second] {
        let file = mine;
        assert_eq!(client.close(file), NtStatus::USER_SESSION_DELETED);
    }
    // No request waits for the lock any more.
    assert_eq!(other.unlock(theirs), NtStatus::SUCCESS);
    assert_eq!(other.lock(theirs), NtStatus::SUCCESS);
    assert_eq!(net.channels(), [1]);
    // Both connections remain usable.
    for client in [&mut first, &mut second] {
        client.session = wire::smb::SessionId(0);
        assert_eq!(client.log_on(BOB), NtStatus::SUCCESS);
    }
}

#[test]
fn session_keys_are_dropped_with_the_last_channel() {
    let net = Net::new();
    let mut first = net.ready();
    let second = net.bound(&first);
    first.create("f", BATCH);
    let session = Arc::downgrade(&net.server.session(first.session).unwrap());
    first.cut();
    assert!(session.upgrade().is_some());
    second.cut();
    assert!(session.upgrade().is_none(), "keys are wiped as they are dropped");
}

#[test]
fn session_lives_as_long_as_one_channel() {
    let net = Net::new();
    let mut first = net.ready();
    let file = first.create("f", 0);
    let mut second = net.bound(&first);
    let mut third = net.bound(&first);
    first.cut();
    assert_eq!(second.lock(file), NtStatus::SUCCESS);
    second.cut();
    assert_eq!(third.unlock(file), NtStatus::SUCCESS);
    assert_eq!(net.channels(), [1]);
    third.cut();
    net.assert_empty();
}

#[test]
fn binding_works_after_the_first_channel_ended() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    first.lose();
    let mut third = net.connect();
    assert_eq!(third.bind(&first, ALICE), NtStatus::SUCCESS);
    assert_eq!(net.channels(), [2]);
    assert_eq!(second.plain(Command::ECHO), NtStatus::SUCCESS);
    assert_eq!(third.plain(Command::ECHO), NtStatus::SUCCESS);
}

#[test]
fn tree_disconnect_applies_to_all_channels() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let file = second.create("f", 0);
    assert_eq!(second.plain(Command::TREE_DISCONNECT), NtStatus::SUCCESS);
    assert_eq!(first.close(file), NtStatus::FILE_CLOSED);
    let id = first.send_create("f", 0);
    let refused = first.reply_to(id).unwrap().header.status;
    assert_eq!(refused, NtStatus::NETWORK_NAME_DELETED);
    assert_eq!(net.server.files.open_file_count(), 0);
    assert_eq!(first.connect_tree("data"), NtStatus::SUCCESS);
}

#[test]
fn open_is_used_and_closed_on_any_channel() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let file = first.create("f", 0);
    assert_eq!(second.lock(file), NtStatus::SUCCESS);
    assert_eq!(first.unlock(file), NtStatus::SUCCESS);
    assert_eq!(second.close(file), NtStatus::SUCCESS);
    assert_eq!(first.close(file), NtStatus::FILE_CLOSED);
}

#[test]
fn close_on_one_channel_ends_waits_on_another() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let directory = first.create("", 0);
    let watch = second.send_watch(directory);
    second.waits(watch);
    assert_eq!(first.close(directory), NtStatus::SUCCESS);
    let ended = second.reply_to(watch).expect("an answer").header.status;
    assert_eq!(ended, NtStatus::NOTIFY_CLEANUP);
}

#[test]
fn cancel_reaches_requests_of_its_own_channel_only() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let directory = first.create("", 0);
    let watch = first.send_watch(directory);
    let waits = first.waits(watch);
    second.cancel(watch, Some(waits));
    second.cancel(watch, None);
    assert!(first.reply_to(watch).is_none(), "ids are of each connection");
    first.cancel(watch, Some(waits));
    assert_eq!(first.reply_to(watch).unwrap().header.status, NtStatus::CANCELLED);
}

#[test]
fn interim_reply_is_unsigned_and_final_reply_is_signed() {
    let net = Net::new();
    let mut client = net.ready();
    let directory = client.create("", 0);
    let watch = client.send_watch(directory);
    let interim = client.interim_to(watch);
    assert!(!interim.flags.contains(Flags::SIGNED), "{interim:?}");
    assert_eq!(interim.signature, [0; 16]);
    client.cancel(watch, Some(interim.async_id()));
    let mut reply = client.reply_to(watch).unwrap();
    assert_eq!(reply.header.status, NtStatus::CANCELLED);
    assert!(reply.header.flags.contains(Flags::SIGNED));
    let key = client.signing.as_ref().unwrap();
    assert!(key.verify_in_place(&mut reply.bytes));
}

#[test]
fn requests_waiting_on_a_lost_channel_are_cancelled() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let mut other = net.ready();
    let (mine, theirs) = (first.create("f", 0), other.create("f", 0));
    let directory = first.create("", 0);
    assert_eq!(other.lock(theirs), NtStatus::SUCCESS);
    let (lock, watch) = (second.send_lock(mine), second.send_watch(directory));
    second.waits(lock);
    second.waits(watch);
    second.cut();
    // The lock is free: its request ended with its connection.
    assert_eq!(other.unlock(theirs), NtStatus::SUCCESS);
    assert_eq!(other.lock(theirs), NtStatus::SUCCESS);
    assert_eq!(other.unlock(theirs), NtStatus::SUCCESS);
    let again = first.send_lock(mine);
    assert_eq!(first.reply_to(again).unwrap().header.status, NtStatus::SUCCESS);
    // The next watch reports the changes in between.
    other.create("new", 0);
    let watch = first.send_watch(directory);
    let change = first.reply_to(watch).expect("the change is there already");
    assert_eq!(change.header.status, NtStatus::SUCCESS);
}

#[test]
fn reauthentication_on_one_channel_applies_to_all() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let user = || net.server.snapshot().sessions[0].user.clone();
    assert_eq!(second.renew(ALICE, "a right password"), NtStatus::SUCCESS);
    assert_eq!(first.plain(Command::ECHO), NtStatus::SUCCESS);
    assert_eq!(user(), ALICE);
    first.create("f", 0);
    assert_eq!(second.renew(ALICE, "a wrong password"), NtStatus::LOGON_FAILURE);
    for client in [&mut first, &mut second] {
        let id = client.send_create("f", 0);
        let refused = client.reply_to(id).unwrap().header.status;
        assert_eq!(refused, NtStatus::USER_SESSION_DELETED);
    }
    net.assert_empty();
}

#[test]
fn oplock_break_uses_a_live_channel() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let file = second.create("f", BATCH);
    let mut other = net.ready();
    second.cut();
    let open = other.send_create("f", 0);
    assert!(other.reply_to(open).is_none(), "it must wait");
    assert_eq!(first.notice().expect("a notice").level(), LEVEL_II);
    assert_eq!(first.acknowledge(file, LEVEL_II), NtStatus::SUCCESS);
    assert_eq!(other.reply_to(open).unwrap().header.status, NtStatus::SUCCESS);
}

#[test]
fn oplock_break_of_a_lost_channel_moves_to_another() {
    for is_sent in [false, true] {
        let net = Net::new();
        let mut first = net.ready();
        let mut second = net.bound(&first);
        let file = second.create("f", BATCH);
        let mut other = net.ready();
        let open = other.send_create("f", 0);
        assert!(other.reply_to(open).is_none(), "it must wait");
        assert!(first.notice().is_none(), "the open's own channel gets the notice");
        if is_sent {
            assert!(second.notice().is_some());
        }
        second.cut();
        assert_eq!(first.notice().expect("a notice").level(), LEVEL_II);
        assert_eq!(first.acknowledge(file, LEVEL_II), NtStatus::SUCCESS);
        assert_eq!(other.reply_to(open).unwrap().header.status, NtStatus::SUCCESS);
        assert!(first.notice().is_none(), "once");
    }
}

#[test]
fn unacknowledged_oplock_break_repeats_on_another_channel() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let file = second.create("f", BATCH);
    let mut other = net.ready();
    let open = other.send_create("f", 0);
    assert!(other.reply_to(open).is_none(), "it must wait");
    assert!(second.notice().is_some());
    net.tick(7);
    assert!(first.notice().is_none(), "the client may be at it");
    net.tick(8);
    assert_eq!(first.notice().expect("a notice").level(), LEVEL_II);
    assert_eq!(first.acknowledge(file, LEVEL_II), NtStatus::SUCCESS);
    assert_eq!(other.reply_to(open).unwrap().header.status, NtStatus::SUCCESS);
    net.tick(60);
    assert!(first.notice().is_none() && second.notice().is_none());
}

#[test]
fn acknowledged_oplock_break_is_not_repeated() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let file = second.create("f", BATCH);
    let mut other = net.ready();
    let open = other.send_create("f", 0);
    assert!(other.reply_to(open).is_none(), "it must wait");
    assert!(second.notice().is_some());
    // The acknowledgment uses another channel than the notification.
    assert_eq!(first.acknowledge(file, LEVEL_II), NtStatus::SUCCESS);
    net.tick(60);
    second.cut();
    assert!(first.notice().is_none());
}

#[test]
fn oplock_break_answered_by_close_is_not_repeated() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.bound(&first);
    let file = second.create("f", BATCH);
    let mut other = net.ready();
    let open = other.send_create("f", 0);
    assert!(other.reply_to(open).is_none(), "it must wait");
    assert!(second.notice().is_some());
    assert_eq!(first.close(file), NtStatus::SUCCESS);
    assert_eq!(other.reply_to(open).unwrap().header.status, NtStatus::SUCCESS);
    net.tick(60);
    second.cut();
    assert!(first.notice().is_none());
}

#[test]
fn unacknowledged_directory_lease_break_is_repeated_once() {
    let net = Net::new();
    let mut client = net.ready();
    client.lease("", READ | HANDLE);
    let mut other = net.ready();
    other.create("f", 0);
    let first = client.notice().expect("a notice").bytes;
    net.tick(1);
    assert_eq!(client.notice().expect("again").bytes, first);
    net.tick(60);
    assert!(client.notice().is_none(), "once");
}

#[test]
fn stable_write_keeps_a_directory_lease_until_the_close() {
    let net = Net::new();
    net.reload(|_, share| share.always_stable = true);
    let mut client = net.ready();
    let file_id = client.create("f", 0);
    client.lease("", READ | HANDLE);
    let request = WriteRequest { offset_bytes: 0, file_id, flags: 0, data: b"text" };
    let write = client.status(Command::WRITE, |w| {
        request.encode_without_data(w);
        w.bytes(request.data);
    });
    assert_eq!(write, NtStatus::SUCCESS);
    assert!(client.notice().is_none(), "the file is open");
    assert_eq!(client.close(file_id), NtStatus::SUCCESS);
    assert!(client.notice().is_some());
}

#[test]
fn directory_lease_break_is_not_repeated_after_a_close() {
    let net = Net::new();
    let mut client = net.ready();
    let directory = client.lease("", READ | HANDLE);
    let mut other = net.ready();
    other.create("f", 0);
    assert!(client.notice().is_some());
    assert_eq!(client.close(directory), NtStatus::SUCCESS);
    net.tick(60);
    assert!(client.notice().is_none());
}

#[test]
fn file_lease_break_is_not_repeated_on_its_own_channel() {
    let net = Net::new();
    let mut client = net.ready();
    let file = client.lease("f", READ | HANDLE | WRITE);
    let mut other = net.ready();
    let open = other.send_create("f", 0);
    assert!(other.reply_to(open).is_none(), "it must wait");
    assert!(client.notice().is_some());
    net.tick(5);
    assert!(client.notice().is_none());
    assert_eq!(client.close(file), NtStatus::SUCCESS);
    assert_eq!(other.reply_to(open).unwrap().header.status, NtStatus::SUCCESS);
}

/// Any client may claim another's GUID, and lease keys are sent in plain text.
#[test]
fn other_user_cannot_acknowledge_a_lease_break() {
    let net = Net::new();
    let mut owner = net.ready_as(ALICE);
    owner.lease("f", READ | HANDLE | WRITE);
    let mut other = net.ready_as(BOB);
    let open = other.send_create("f", 0);
    assert!(other.reply_to(open).is_none(), "it waits");
    assert!(owner.notice().is_some());
    assert_eq!(other.acknowledge_lease(READ | HANDLE), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert!(other.reply_to(open).is_none(), "it waits on");
    assert_eq!(owner.acknowledge_lease(READ | HANDLE), NtStatus::SUCCESS);
    assert_eq!(other.reply_to(open).unwrap().header.status, NtStatus::SUCCESS);
}

#[test]
fn second_user_of_a_lease_acknowledges_its_break() {
    let net = Net::new();
    let (mut first, mut second) = (net.ready_as(ALICE), net.ready_as(BOB));
    first.lease("f", READ | HANDLE | WRITE);
    second.lease("f", READ | HANDLE | WRITE);
    let mut other = net.ready_as(ALICE);
    let open = other.send_create("f", 0);
    assert!(other.reply_to(open).is_none(), "it waits");
    assert_eq!(second.acknowledge_lease(READ | HANDLE), NtStatus::SUCCESS);
    assert_eq!(other.reply_to(open).unwrap().header.status, NtStatus::SUCCESS);
}
