//! Reconnects that arrive before the server notices the lost connection. MS-SMB2 3.3.5.9.12.

use crate::harness::{BOB, ConnectedClient, Net, ReplayableCreate};
use wire::ntstatus::NtStatus;
use wire::smb::FileId;

const GUID: [u8; 16] = *b"a create's guid.";

/// A file with a durable open.
fn durable(client: &mut ConnectedClient) -> FileId {
    let id = client.send_create_new("f", ReplayableCreate { guid: GUID, replays: false });
    let reply = client.reply_to(id).expect("a reply");
    assert_eq!(reply.header.status, NtStatus::SUCCESS);
    reply.file()
}

fn status_of_return(
    client: &mut ConnectedClient,
    file: FileId,
    guid: [u8; 16],
) -> Option<NtStatus> {
    let id = client.send_return(file, guid);
    client.reply_to(id).map(|reply| reply.header.status)
}

#[test]
fn reconnect_before_the_disconnect_is_noticed_succeeds() {
    let net = Net::new();
    let mut first = net.ready();
    let file = durable(&mut first);
    let mut second = net.ready();
    let id = second.send_return(file, GUID);
    assert!(second.reply_to(id).is_none(), "it waits");
    // Other requests do not wait for it.
    let other = second.create("other", 0);
    first.cut();
    let reply = second.reply_to(id).expect("a reply");
    assert_eq!(reply.header.status, NtStatus::SUCCESS);
    assert_eq!(reply.file().persistent, file.persistent);
    assert_eq!(second.lock(reply.file()), NtStatus::SUCCESS);
    assert_eq!(second.close(other), NtStatus::SUCCESS);
}

#[test]
fn reconnect_of_a_connected_open_is_refused_after_a_wait() {
    let net = Net::new();
    let mut first = net.ready();
    let file = durable(&mut first);
    let mut second = net.ready();
    let id = second.send_return(file, GUID);
    net.tick(0);
    assert!(second.reply_to(id).is_none(), "it waits");
    net.tick(1);
    let status = second.reply_to(id).map(|reply| reply.header.status);
    assert_eq!(status, Some(NtStatus::OBJECT_NAME_NOT_FOUND));
    assert_eq!(first.close(file), NtStatus::SUCCESS);
}

#[test]
fn one_of_two_early_reconnects_succeeds() {
    let net = Net::new();
    let mut first = net.ready();
    let file = durable(&mut first);
    let mut clients = [net.ready(), net.ready()];
    let ids = clients.each_mut().map(|client| client.send_return(file, GUID));
    clients.iter_mut().for_each(ConnectedClient::step);
    first.cut();
    let status = clients[1].reply_to(ids[1]).map(|reply| reply.header.status);
    assert_eq!(status, Some(NtStatus::SUCCESS));
    assert!(clients[0].reply_to(ids[0]).is_none(), "it waits for the next");
    clients[1].lose();
    let status = clients[0].reply_to(ids[0]).map(|reply| reply.header.status);
    assert_eq!(status, Some(NtStatus::SUCCESS));
}

#[test]
fn reconnect_that_cannot_succeed_does_not_wait() {
    let net = Net::new();
    let mut first = net.ready();
    let file = durable(&mut first);
    let refused = Some(NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(status_of_return(&mut first, file, GUID), refused, "the session's own");
    let stranger = FileId { persistent: file.persistent + 99, ..file };
    assert_eq!(status_of_return(&mut net.ready(), stranger, GUID), refused, "an unknown id");
    let mut bob = net.ready_as(BOB);
    let denied = Some(NtStatus::ACCESS_DENIED);
    assert_eq!(status_of_return(&mut bob, file, GUID), denied, "another user's");
    let mut other = net.ready();
    assert_eq!(status_of_return(&mut other, file, [0; 16]), refused, "made by another CREATE");
    first.cut();
    assert_eq!(status_of_return(&mut other, file, [0; 16]), refused, "made by another CREATE");
    assert_eq!(status_of_return(&mut bob, file, GUID), denied, "another user's");
    assert_eq!(status_of_return(&mut other, file, GUID), Some(NtStatus::SUCCESS));
}

#[test]
fn early_reconnect_with_a_wrong_name_fails_at_once() {
    let net = Net::new();
    let mut first = net.ready();
    let file = first.create_new_leased("f", GUID);
    let mut second = net.ready();
    let status = |client: &mut ConnectedClient, name| {
        let id = client.send_leased_return(file, GUID, name);
        client.reply_to(id).map(|reply| reply.header.status)
    };
    assert_eq!(status(&mut second, "other"), Some(NtStatus::INVALID_PARAMETER), "here still");
    assert_eq!(status(&mut second, "f"), None, "it waits");
    first.cut();
    let mut third = net.ready();
    second.lose();
    assert_eq!(status(&mut third, "other"), Some(NtStatus::INVALID_PARAMETER), "kept");
    assert_eq!(status(&mut third, "f"), Some(NtStatus::SUCCESS));
}

#[test]
fn reconnect_after_the_timeout_is_refused_before_the_tick() {
    for (seconds, expected) in [(59, NtStatus::SUCCESS), (60, NtStatus::OBJECT_NAME_NOT_FOUND)] {
        let net = Net::new();
        let mut first = net.ready();
        let file = durable(&mut first);
        first.cut();
        let mut second = net.ready();
        net.set_clock(seconds);
        assert_eq!(status_of_return(&mut second, file, GUID), Some(expected), "{seconds} seconds");
    }
}
